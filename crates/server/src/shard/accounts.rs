//! The accounts a shard has asked the store for, kept for a while.

use std::collections::HashMap;
use std::time::Duration;

use router::AskId;
use stdx::Instant;
use stdx::cache::Cache;

/// An account as it was read; `None` for an address without an account, so that guessing is cheap for us too.
pub(crate) type CachedAccount = Option<Box<store::Account>>;

/// The time that an entry is believed without asking again. Changes through this node void it at once; this
/// is for changes by other processes.
const LIFETIME: Duration = Duration::from_secs(60);

/// Entries looked at at a time: a full cache in a minute and a half, and some 10 µs.
const SWEEP: usize = 1_024;

pub(crate) struct Accounts {
    cache: Cache<Box<str>, CachedAccount>,
    /// Queries that wait for a read under way, by address.
    waiting: HashMap<Box<str>, Vec<AskId>>,
    /// Reads under way, by ticket.
    reads: HashMap<u64, Read>,
}

/// A read under way.
struct Read {
    address: Box<str>,
    /// The account changed since it was asked: the answer may be from before.
    outdated: bool,
}

impl Accounts {
    pub(crate) fn new(capacity: usize) -> Self {
        Accounts { cache: Cache::new(capacity), waiting: HashMap::new(), reads: HashMap::new() }
    }

    pub(crate) fn get(&mut self, now: Instant, address: &str) -> Option<&CachedAccount> {
        self.cache.get_at(now, address)
    }

    /// Notes that `id` waits. True when the store must be asked, under `ticket`.
    pub(crate) fn wait(&mut self, address: &str, id: AskId, ticket: u64) -> bool {
        if let Some(waiting) = self.waiting.get_mut(address) {
            waiting.push(id);
            return false;
        }
        self.waiting.insert(address.into(), vec![id]);
        self.reads.insert(ticket, Read { address: address.into(), outdated: false });
        true
    }

    /// The answer to a read: the account's state now, and the queries that waited for it.
    pub(crate) fn loaded(
        &mut self,
        now: Instant,
        ticket: u64,
        known: Option<CachedAccount>,
    ) -> Option<Vec<AskId>> {
        let Read { address, outdated } = self.reads.remove(&ticket)?;
        let waiting = self.waiting.remove(&address).unwrap_or_default();
        if let Some(known) = known.filter(|_| !outdated) {
            self.cache.insert_until(now + LIFETIME, address, known);
        }
        Some(waiting)
    }

    pub(crate) fn forget(&mut self, address: Option<&str>) {
        let meant = |read: &&mut Read| address.is_none_or(|address| *read.address == *address);
        self.reads.values_mut().filter(meant).for_each(|read| read.outdated = true);
        match address {
            Some(address) => {
                self.cache.remove(address);
            }
            None => self.cache.clear(),
        }
    }

    /// Removes an account whose user has signed in and stays: it will not be asked for soon.
    pub(crate) fn let_go(&mut self, address: &str) {
        self.cache.remove(address);
    }

    /// Lets go of accounts that are not believed any more. Called twice a second.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.cache.sweep(now, SWEEP);
    }

    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

    #[test]
    fn who_asks_while_a_read_is_under_way_waits_with_the_first() {
        let mut accounts = Accounts::new(8);
        assert!(accounts.wait("bob@a", AskId(1), 10), "the store is asked");
        assert!(!accounts.wait("bob@a", AskId(2), 11), "and only once");
        assert!(accounts.wait("eve@a", AskId(3), 12), "another address is another read");
        assert_eq!(accounts.loaded(NOW, 10, Some(None)), Some(vec![AskId(1), AskId(2)]));
        assert_eq!(accounts.loaded(NOW, 10, Some(None)), None, "one answer to a read");
        assert!(matches!(accounts.get(NOW, "bob@a"), Some(None)), "that nobody is there is known too");
    }

    #[test]
    fn what_could_not_be_read_is_not_remembered() {
        let mut accounts = Accounts::new(8);
        assert!(accounts.wait("bob@a", AskId(1), 10));
        assert_eq!(accounts.loaded(NOW, 10, None), Some(vec![AskId(1)]));
        assert!(accounts.get(NOW, "bob@a").is_none());
        assert!(accounts.wait("bob@a", AskId(2), 11), "the next one asks again");
    }

    #[test]
    fn an_entry_is_believed_for_a_while_or_until_it_changes() {
        let mut accounts = Accounts::new(8);
        for (ticket, address) in [(1, "bob@a"), (2, "eve@a")] {
            accounts.wait(address, AskId(ticket), ticket);
            accounts.loaded(NOW, ticket, Some(None));
        }
        accounts.forget(Some("bob@a"));
        assert!(accounts.get(NOW, "bob@a").is_none());
        assert!(accounts.get(NOW + LIFETIME / 2, "eve@a").is_some());
        assert!(accounts.get(NOW + LIFETIME * 2, "eve@a").is_none());
        accounts.forget(None);
        assert_eq!(accounts.len(), 0);
    }

    #[test]
    fn who_has_signed_in_is_let_go_of() {
        let mut accounts = Accounts::new(8);
        accounts.wait("bob@a", AskId(1), 1);
        accounts.loaded(NOW, 1, Some(None));
        accounts.let_go("bob@a");
        assert_eq!(accounts.len(), 0);
        assert!(accounts.wait("bob@a", AskId(2), 2), "the next one asks again");
    }

    #[test]
    fn a_change_while_it_is_read_is_not_covered_by_the_older_read() {
        let mut accounts = Accounts::new(8);
        accounts.wait("bob@a", AskId(1), 10);
        // The account changes: the read may have seen it before.
        accounts.forget(Some("bob@a"));
        assert_eq!(accounts.loaded(NOW, 10, Some(None)), Some(vec![AskId(1)]), "whoever waits is answered");
        assert!(accounts.get(NOW, "bob@a").is_none(), "but the next one asks again");
    }
}
