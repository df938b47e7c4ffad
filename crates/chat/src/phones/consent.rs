//! The decision if an account lets another one watch it from a phone: by its roster (RFC 6121 §3).

use std::collections::HashMap;

use xmpp::Bare;

use super::super::Outbox;
use super::super::account_memory::AccountMemory;
use super::super::effect::Effect;
use super::super::user::is_waiting_full;
use crate::{blocking, limits};

/// Queries that wait for the data of their account.
#[derive(Default)]
pub(super) struct PendingConsents(HashMap<u64, Bare>);

impl PendingConsents {
    /// Begins a query; its watcher gets its answer once the account's data are in memory. False: too many wait, or too much for the account.
    pub(super) fn begin(&mut self, accounts: &AccountMemory, id: u64, user: &Bare) -> bool {
        if self.0.len() >= limits::PHONE_MESSAGES || is_waiting_full(accounts, user) {
            return false;
        }
        self.0.insert(id, user.clone());
        true
    }

    /// Ends a query: a contact with the subscription `from` or `both`, that is not blocked, may watch. `None`: it has failed
    /// meanwhile.
    pub(super) fn decide(
        &mut self,
        accounts: &AccountMemory,
        id: u64,
        (user, watcher): (&Bare, &Bare),
    ) -> Option<Effect> {
        self.0.remove(&id)?;
        let is_subscribed = accounts.subscription(user, watcher).has_from();
        let is_given = is_subscribed && !blocking::blocks_incoming(accounts, user, watcher.as_jid());
        Some(Effect::Consent { id, is_given })
    }

    /// The account's data cannot be read: it has consented to nothing.
    pub(super) fn fail(&mut self, user: &Bare, out: &mut Outbox) {
        let waiting = self.0.iter().filter(|(_, account)| *account == user);
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.0.remove(&id);
            out.push(Effect::Consent { id, is_given: false });
        }
    }
}
