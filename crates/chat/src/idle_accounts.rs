//! The cache of the data of accounts without sessions: a hundred messages to an account whose user is away
//! read that account once. The features' own data of an account leave memory with it.

use std::collections::{BTreeMap, HashMap};

use stdx::Instant;
use xmpp::Bare;
use xmpp::stanza::{Condition, StanzaError};

use super::effect::AccountData;
use super::user::{AccountState, QueuedWork, User};
use super::{Host, Outbox, presence};
use crate::limits;

struct IdleAccount {
    number: u64,
    until: Instant,
    data: Box<AccountData>,
}

/// The one used least recently goes first.
#[derive(Default)]
pub(super) struct IdleAccountCache {
    records: HashMap<Bare, IdleAccount>,
    order: BTreeMap<u64, Bare>,
    contacts: usize,
    last: u64,
}

impl IdleAccountCache {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    fn remove(&mut self, user: &Bare) -> Option<IdleAccount> {
        let idle = self.records.remove(user)?;
        self.order.remove(&idle.number);
        self.contacts -= idle.data.roster.len();
        Some(idle)
    }

    fn insert(&mut self, until: Instant, user: Bare, data: Box<AccountData>) {
        self.last += 1;
        self.contacts += data.roster.len();
        self.order.insert(self.last, user.clone());
        self.records.insert(user, IdleAccount { number: self.last, until, data });
    }

    /// The account to evict when the cache is over its bound.
    fn surplus(&self) -> Option<Bare> {
        let is_full =
            self.records.len() > limits::IDLE_ACCOUNTS || self.contacts > limits::IDLE_ACCOUNT_CONTACTS;
        let (_, oldest) = self.order.first_key_value().filter(|_| is_full)?;
        Some(oldest.clone())
    }
}

impl Host {
    /// Its data is here, for a session or since lately: features should remember its changes.
    pub(super) fn is_in_memory(&self, user: &Bare) -> bool {
        self.users.contains_key(user) || self.idle_accounts.records.contains_key(user)
    }

    /// Takes an account's data out of the cache.
    pub(super) fn take_idle_account(&mut self, now: Instant, user: &Bare) -> Option<AccountState> {
        let idle = self.idle_accounts.remove(user)?;
        if idle.until <= now {
            self.forget_features(user);
            return None;
        }
        Some(AccountState::Ready(idle.data))
    }

    /// Caches an account that is not needed now. Unknown and anonymous accounts are not cached: the former may be created later,
    /// the latter never return.
    pub(super) fn keep_idle_account(&mut self, now: Instant, bare: &Bare, user: User) {
        match user.state {
            AccountState::Ready(data) if user.is_stored => {
                self.idle_accounts.insert(now + limits::IDLE_ACCOUNT_FOR, bare.clone(), data);
                while let Some(oldest) = self.idle_accounts.surplus() {
                    self.idle_accounts.remove(&oldest);
                    self.forget_features(&oldest);
                }
            }
            _ => self.forget_features(bare),
        }
    }

    /// The account has changed behind the host's back, or is none any more: it is read again.
    pub fn forget_account(&mut self, user: &Bare) {
        if self.idle_accounts.remove(user).is_some() {
            self.forget_features(user);
        }
    }

    /// As [`Self::forget_account`], all of them.
    pub fn forget_accounts(&mut self) {
        for user in std::mem::take(&mut self.idle_accounts).records.into_keys() {
            self.forget_features(&user);
        }
    }

    fn forget_features(&mut self, user: &Bare) {
        self.archive.forget(user);
        self.push.forget(user);
    }

    /// Waits until the account's data is in memory. Work beyond the limit is refused, and a job is dropped.
    pub(super) fn wait_for_account_data(
        &mut self,
        now: Instant,
        bare: &Bare,
        waiting: QueuedWork,
        out: &mut Outbox,
    ) {
        let Some(User { state: AccountState::Loading(all), .. }) = self.users.get_mut(bare) else { return };
        if all.len() < limits::USER_WAITING {
            return all.push(waiting);
        }
        let text = "too much waits for this account: try again later";
        self.refuse_waiting(now, waiting, &StanzaError::new(Condition::ResourceConstraint, text), out);
    }

    pub(super) fn refuse_waiting(
        &mut self,
        now: Instant,
        waiting: QueuedWork,
        error: &StanzaError,
        out: &mut Outbox,
    ) {
        match waiting {
            // Past the router: the answer would wait as well.
            QueuedWork::FromSession(key, stanza) => {
                self.refused(&stanza, out);
                self.refuse_blocked(now, key, &stanza, error, out);
            }
            QueuedWork::Routed(stanza) => match presence::subscription::SubscriptionAction::of(&stanza) {
                Some(_) => self.refuse_presence(&stanza, error, out),
                None => self.refuse(&stanza, error, out),
            },
            QueuedWork::Job(_) => {}
        }
    }
}
