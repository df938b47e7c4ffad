//! The cache of the data of accounts without sessions: a hundred messages to an account whose user is away
//! read that account once. The features' own data of an account leave memory with it.
//!
//! `Host::user` takes an account out when it is needed, and `AccountMemory::release` puts it in.

use std::collections::{BTreeMap, HashMap};

use super::effect::AccountData;
use crate::limits;
use stdx::Instant;
use xmpp::Bare;

/// An account in the cache.
struct IdleAccount {
    /// Its place in the order of use: the key in `order`.
    number: u64,
    /// The time until which its data may be used.
    until: Instant,
    data: Box<AccountData>,
}

/// The one used least recently goes first.
#[derive(Default)]
pub(super) struct IdleAccountCache {
    records: HashMap<Bare, IdleAccount>,
    /// The accounts by their numbers: the one that was put in first is evicted first.
    order: BTreeMap<u64, Bare>,
    /// The contacts of all rosters in the cache, which have a bound of their own: accounts differ in size.
    contacts: usize,
    last: u64,
}

impl IdleAccountCache {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// True if the account's data are in the cache.
    pub(super) fn has(&self, user: &Bare) -> bool {
        self.records.contains_key(user)
    }

    /// Takes an account's data out of the cache; `None`: they are not there, or are too old.
    pub(super) fn take(&mut self, now: Instant, user: &Bare) -> Option<Box<AccountData>> {
        let idle = self.remove(user)?;
        (idle.until > now).then_some(idle.data)
    }

    /// Puts an account's data into the cache, and returns the accounts that are evicted for it.
    pub(super) fn keep(&mut self, now: Instant, user: Bare, data: Box<AccountData>) -> Vec<Bare> {
        self.insert(now + limits::IDLE_ACCOUNT_FOR, user, data);
        let mut evicted = Vec::new();
        while let Some(oldest) = self.surplus() {
            self.remove(&oldest);
            evicted.push(oldest);
        }
        evicted
    }

    /// Forgets an account; true if it was in the cache.
    pub(super) fn forget(&mut self, user: &Bare) -> bool {
        self.remove(user).is_some()
    }

    /// Empties the cache, and returns the accounts that were in it.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Bare> + use<> {
        std::mem::take(self).records.into_keys()
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
