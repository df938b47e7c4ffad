//! The bytes of all rosters that a host keeps for accounts that are signed in. Beyond the bound, the roster of an account that was
//! not used lately is evicted; the next stanza that needs it has it read again, and waits for it as for the first time.
//!
//! An account's sessions share one. Writes under way keep it in memory, so that their results find it.

use std::collections::HashMap;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Bare, Jid};

use super::effect::{AccountData, RosterItem};
use super::user::{AccountState, QueuedWork, User};
use super::{Host, Outbox};
use crate::limits;

/// Bytes that the rosters of signed-in accounts may take, estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterMemory(pub usize);

impl Default for RosterMemory {
    fn default() -> RosterMemory {
        RosterMemory(limits::ROSTERS)
    }
}

#[derive(Default)]
pub(super) struct Rosters {
    bytes: usize,
    /// Where the search for one that is not used goes on: a place among the sessions.
    hand: u32,
    /// Accounts that an answer of the store is awaited for, and how many.
    awaited: HashMap<Bare, u32>,
    dropped: u64,
}

impl AccountData {
    /// Bytes in memory, about.
    fn weight(&self) -> usize {
        let contacts = self.roster.iter().map(|(contact, item)| contact.as_str().len() + item.weight());
        let blocked = self.blocked.iter().map(|jid| size_of::<Jid>() + jid.as_str().len());
        size_of::<AccountData>() + contacts.sum::<usize>() + blocked.sum::<usize>()
    }
}

impl RosterItem {
    fn weight(&self) -> usize {
        let text = |text: &str| text.len() + size_of::<Box<str>>();
        let groups = self.groups.iter().map(|group| text(group)).sum::<usize>();
        let asked = self.asked.as_deref().map_or(0, super::sm::weight);
        size_of::<(Bare, RosterItem)>() + self.name.as_deref().map_or(0, str::len) + groups + asked
    }
}

impl Host {
    /// Bytes of the rosters of signed-in accounts, about.
    pub fn roster_bytes(&self) -> usize {
        self.rosters.bytes
    }

    /// Rosters that were evicted while their accounts were signed in.
    pub fn rosters_dropped(&self) -> u64 {
        self.rosters.dropped
    }

    /// An answer about this account is awaited: its data stay in memory.
    pub(super) fn pin_account(&mut self, user: Option<&Bare>) {
        if let Some(user) = user {
            *self.rosters.awaited.entry(user.clone()).or_default() += 1;
        }
    }

    pub(super) fn unpin_account(&mut self, user: Option<&Bare>) {
        let Some(user) = user else { return };
        let Some(count) = self.rosters.awaited.get_mut(user) else { return };
        *count -= 1;
        if *count == 0 {
            self.rosters.awaited.remove(user);
        }
    }

    /// Estimates the account's data anew after a change.
    pub(super) fn weigh(&mut self, bare: &Bare) {
        let Some(user) = self.users.get_mut(bare) else { return };
        let weight = match &user.state {
            AccountState::Ready(data) => data.weight(),
            AccountState::Loading(_) | AccountState::Evicted | AccountState::Absent => 0,
        };
        self.rosters.bytes = self.rosters.bytes + weight - user.weight as usize;
        user.weight = u32::try_from(weight).unwrap_or(u32::MAX);
    }

    pub(super) fn remove_user(&mut self, bare: &Bare) -> Option<User> {
        let user = self.users.remove(bare)?;
        self.rosters.bytes -= user.weight as usize;
        Some(user)
    }

    /// It was let go of, or is being read.
    fn is_elsewhere(&self, bare: &Bare) -> bool {
        let user = self.users.get(bare);
        user.is_some_and(|user| matches!(user.state, AccountState::Evicted | AccountState::Loading(_)))
    }

    /// Runs the last duties of an ended session once its account's data is in memory. Unlike the work for a
    /// stanza, it is always done, unless the store cannot be read.
    pub(super) fn when_account_loaded(
        &mut self,
        now: Instant,
        bare: &Bare,
        out: &mut Outbox,
        job: impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static,
    ) {
        if !self.is_elsewhere(bare) {
            return job(self, now, out);
        }
        if let AccountState::Loading(waiting) = &mut self.user(now, bare, out).state {
            waiting.push(QueuedWork::Job(Box::new(job)));
        }
    }

    /// The second chance algorithm: an account that was used since the hand passed stays until it passes
    /// again.
    pub(super) fn drop_rosters(&mut self) {
        let most = self.settings.rosters.0;
        // Twice round, and the rest of the round before: few sessions may be far from each other.
        let mut rounds = 0;
        for _ in 0..limits::ROSTERS_LOOKED_AT {
            if self.rosters.bytes <= most || rounds > 2 {
                return;
            }
            match self.sessions.key_from(self.rosters.hand) {
                Some(key) => {
                    self.rosters.hand = key.index() + 1;
                    self.examine_roster(key);
                }
                None => {
                    self.rosters.hand = 0;
                    rounds += 1;
                }
            }
        }
    }

    fn examine_roster(&mut self, key: Key) {
        let Some(bare) = self.sessions.get(key).map(|session| session.jid.bare()) else { return };
        let is_held = self.rosters.awaited.contains_key(&bare)
            || self.is_changing(&bare)
            || self.is_keeping(&bare)
            || self.being_loaded.contains(&bare);
        let Some(user) = self.users.get_mut(&bare).filter(|user| user.is_stored && !is_held) else { return };
        let was_used = std::mem::take(&mut user.is_used);
        // Messages that wait are given out as the client acknowledges, without asking what is read.
        let may_go = matches!(&user.state, AccountState::Ready(data) if data.offline == 0);
        if may_go && !was_used {
            user.state = AccountState::Evicted;
            self.rosters.dropped += 1;
            self.weigh(&bare);
        }
    }
}
