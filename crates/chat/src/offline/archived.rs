//! The messages that wait and that the account's archive has: a client of Bind 2 reads them there, so they are removed without being
//! sent (XEP-0386 §4.2). `bind2` begins this when a session binds.
//!
//! Not each message that waits is archived: the sender's hint, the preferences of that time or the age of the archive may have left
//! it out, and an imported one is in no archive here. So each message is judged by the id that the archive gave it (XEP-0359):
//! entries are deleted from the oldest on, so the archive has those from its first entry on. The others go to the next session that
//! takes messages.

use xmpp::Bare;

use super::super::account_memory::AccountMemory;
use super::super::effect::{Load, MamPage, MamQuery};
use super::super::{StanzaPage, archive};
use super::{OfflineEffect, OfflineMessages, OfflineRead, RemovalGoal, page_after, takes_messages};

impl OfflineMessages {
    /// Begins to remove the messages of which the account's archive has a copy. None: no message waits, or they are being read for a
    /// session.
    pub(in super::super) fn forget_archived(
        &mut self,
        accounts: &AccountMemory,
        user: &Bare,
    ) -> Option<OfflineEffect> {
        let waits = accounts.data(user).is_some_and(|data| data.offline > 0);
        if !waits || !self.reading.insert(user.clone()) {
            return None;
        }
        let query = Box::new(MamQuery { max: 1, ..MamQuery::default() });
        let load = Load::Archive { owner: user.clone(), query };
        Some(OfflineEffect::Read(load, OfflineRead::ArchiveStart))
    }

    /// The first entry of the archive was read. An empty archive has no copies.
    pub(super) fn handle_archive_start(
        &mut self,
        accounts: &AccountMemory,
        user: &Bare,
        page: &MamPage,
    ) -> OfflineEffect {
        match page.stanzas.first() {
            Some((first, ..)) => read_next(user, first.clone(), 0),
            None => self.end_archived(accounts, user),
        }
    }

    /// A page of the messages that wait was read: those that the archive has are removed.
    pub(super) fn handle_archived(
        &mut self,
        accounts: &AccountMemory,
        user: &Bare,
        (first, page): (Box<str>, Option<StanzaPage>),
    ) -> OfflineEffect {
        let Some(StanzaPage { stanzas, is_complete }) = page else {
            return self.end_archived(accounts, user);
        };
        let after = stanzas.last().map(|(id, ..)| *id).filter(|_| !is_complete);
        let archived = stanzas
            .iter()
            .filter(|(_, _, message)| archive::id_of(message, user).is_some_and(|id| *id >= *first))
            .map(|(id, ..)| *id);
        let ids: Vec<u64> = archived.collect();
        // Without ids a removal would be of all messages.
        if !ids.is_empty() {
            return self.remove(user, ids, RemovalGoal::Archived { first, after });
        }
        match after {
            Some(after) => read_next(user, first, after),
            None => self.end_archived(accounts, user),
        }
    }

    /// The archived messages of a page were removed. `after`: where the next page begins, if there is one.
    pub(super) fn handle_archived_removed(
        &mut self,
        accounts: &AccountMemory,
        user: &Bare,
        (first, after): (Box<str>, Option<u64>),
    ) -> OfflineEffect {
        let Some(after) = after else { return self.end_archived(accounts, user) };
        self.reading.insert(user.clone());
        read_next(user, first, after)
    }

    /// No archived message is left, or the store does not answer: the rest is for a session that became able to take messages
    /// meanwhile.
    pub(super) fn end_archived(&mut self, accounts: &AccountMemory, user: &Bare) -> OfflineEffect {
        self.reading.remove(user);
        let key = accounts.able(user).into_iter().find(|key| takes_messages(accounts, *key));
        let rest = key.and_then(|key| self.deliver(accounts, user, key));
        rest.unwrap_or(OfflineEffect::EndReading)
    }
}

/// Reads the next page of the messages that wait.
fn read_next(user: &Bare, first: Box<str>, after: u64) -> OfflineEffect {
    OfflineEffect::Read(page_after(user, after), OfflineRead::Archived { first })
}
