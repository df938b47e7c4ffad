//! The accounts a shard has asked the store or an owner for, kept for a while. `store_reads` begins the reads that `wait` asks for.
//!
//! An entry is believed for a minute. Where the database is a server (or the owners have it), entries are kept for longer than they are
//! believed, and are used while reads fail.
//!
//! In: questions by address (`get`, `wait`), results of reads (`loaded`), news of changes (`forget`). Out:
//! which read to begin and who has waited for it. Invariants: of one address at most one read is under way, and
//! a read that a change overtook is answered but not cached.

use std::collections::HashMap;
use std::time::Duration;

use router::AskId;
use stdx::Instant;
use stdx::cache::Cache;

use crate::limits;

/// An account as it was read; `None` for an address without an account, so that guessing is cheap for us too.
pub(crate) type CachedAccount = Option<Box<store::Account>>;

/// The time that an entry is believed without asking again. Changes that this node makes or is told of void it at once; this bounds the
/// age of an entry whose change no notice came of.
const LIFETIME: Duration = Duration::from_secs(60);

/// Entries looked at in one sweep: two sweeps a second go through a full cache in a minute and a half, and one takes some 10 µs.
const SWEEP: usize = 1_024;

/// The cache of a shard, and the reads under way that fill it.
pub(crate) struct Accounts {
    cache: Cache<Box<str>, Entry>,
    /// The time that an account stays in the cache after it was read.
    kept: Duration,
    /// The last read has failed: the database is away.
    is_away: bool,
    /// Entries of an earlier number may be outdated, all of them: changes were missed.
    generation: u64,
    /// Queries that wait for a read under way, by address.
    waiting: HashMap<Box<str>, Vec<AskId>>,
    /// Reads under way, by ticket.
    reads: HashMap<u64, Read>,
}

/// An account in the cache.
struct Entry {
    known: CachedAccount,
    /// Later it is used only while the database is away.
    believed_until: Instant,
    /// `Accounts::generation` when it was read.
    generation: u64,
}

/// The end of a read.
pub(crate) struct EndedRead {
    /// The queries that have waited for it.
    pub(crate) waiting: Vec<AskId>,
    /// The account as it was read before, if it could not be read now.
    pub(crate) outdated: CachedAccount,
}

/// A read under way.
struct Read {
    address: Box<str>,
    /// The account changed since it was asked: the answer may be from before.
    outdated: bool,
}

impl Accounts {
    /// `is_on_server`: the database may be away, or the owners that have it.
    pub(crate) fn new(capacity: usize, is_on_server: bool) -> Self {
        let kept = if is_on_server { limits::OUTDATED_ACCOUNT } else { LIFETIME };
        let (cache, waiting, reads) = (Cache::new(capacity), HashMap::new(), HashMap::new());
        Accounts { cache, kept, is_away: false, generation: 0, waiting, reads }
    }

    /// The entry of an address, if it is believed. Else the store is to be asked (`wait`).
    pub(crate) fn get(&mut self, now: Instant, address: &str) -> Option<&CachedAccount> {
        let entry = self.cache.get_at(now, address)?;
        // An entry that is not believed stays, for the time that the database is away.
        let is_believed = entry.believed_until > now && entry.generation == self.generation;
        is_believed.then_some(&entry.known)
    }

    /// The account as it was read before, while the database is away. An address that had no account may have one by now.
    /// Only accounts are used so, never the absence of one.
    pub(crate) fn outdated(&self, now: Instant, address: &str) -> CachedAccount {
        let entry = self.cache.get_at(now, address).filter(|_| self.is_away)?;
        entry.known.clone()
    }

    /// True if no account is read now: one read at a time shows whether the database is back.
    pub(crate) fn may_try(&self) -> bool {
        self.reads.is_empty()
    }

    /// Notes a read for which no query waits.
    pub(crate) fn try_again(&mut self, address: &str, ticket: u64) {
        self.waiting.entry(address.into()).or_default();
        self.reads.insert(ticket, Read { address: address.into(), outdated: false });
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

    /// Ends a read; `known` is the account's state now, or `None` if it could not be read. `None` is returned for a ticket that is not
    /// of a read of an account, or has ended.
    pub(crate) fn loaded(
        &mut self,
        now: Instant,
        ticket: u64,
        known: Option<CachedAccount>,
    ) -> Option<EndedRead> {
        // A ticket of another part's read is not in the table.
        let Read { address, outdated } = self.reads.remove(&ticket)?;
        let waiting = self.waiting.remove(&address).unwrap_or_default();
        // The last read decides: with the first success all entries have to be believed again.
        self.is_away = known.is_none();
        let before = self.outdated(now, &address);
        if let Some(known) = known.filter(|_| !outdated) {
            let (believed_until, generation) = (now + LIFETIME, self.generation);
            // An address without an account is kept no longer than it is believed: attackers ask for many of
            // them.
            let until = if known.is_some() { now + self.kept } else { believed_until };
            self.cache.insert_until(until, address, Entry { known, believed_until, generation });
        }
        Some(EndedRead { waiting, outdated: before })
    }

    /// Voids the entry of an address, or of all accounts. Reads under way are not cached: they may have seen the
    /// account as it was before.
    pub(crate) fn forget(&mut self, address: Option<&str>) {
        let meant = |read: &&mut Read| address.is_none_or(|address| *read.address == *address);
        self.reads.values_mut().filter(meant).for_each(|read| read.outdated = true);
        match address {
            Some(address) => {
                self.cache.remove(address);
            }
            // All are asked again. The database may be away again before that.
            // Entries stay for an outage; their number makes them unbelieved at once, without a pass over the
            // cache.
            None if self.kept > LIFETIME => self.generation += 1,
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

    /// The queries that waited for a read.
    fn waiting(accounts: &mut Accounts, ticket: u64, known: Option<CachedAccount>) -> Option<Vec<AskId>> {
        accounts.loaded(NOW, ticket, known).map(|loaded| loaded.waiting)
    }

    #[test]
    fn who_asks_while_a_read_is_under_way_waits_with_the_first() {
        let mut accounts = Accounts::new(8, false);
        assert!(accounts.wait("bob@a", AskId(1), 10), "the store is asked");
        assert!(!accounts.wait("bob@a", AskId(2), 11), "and only once");
        assert!(accounts.wait("eve@a", AskId(3), 12), "another address is another read");
        assert_eq!(waiting(&mut accounts, 10, Some(None)), Some(vec![AskId(1), AskId(2)]));
        assert_eq!(waiting(&mut accounts, 10, Some(None)), None, "one answer to a read");
        assert!(matches!(accounts.get(NOW, "bob@a"), Some(None)), "that nobody is there is known too");
    }

    #[test]
    fn what_could_not_be_read_is_not_remembered() {
        let mut accounts = Accounts::new(8, false);
        assert!(accounts.wait("bob@a", AskId(1), 10));
        assert_eq!(waiting(&mut accounts, 10, None), Some(vec![AskId(1)]));
        assert!(accounts.get(NOW, "bob@a").is_none());
        assert!(accounts.wait("bob@a", AskId(2), 11), "the next one asks again");
    }

    #[test]
    fn an_entry_is_believed_for_a_while_or_until_it_changes() {
        let mut accounts = Accounts::new(8, false);
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
        let mut accounts = Accounts::new(8, false);
        accounts.wait("bob@a", AskId(1), 1);
        accounts.loaded(NOW, 1, Some(None));
        accounts.let_go("bob@a");
        assert_eq!(accounts.len(), 0);
        assert!(accounts.wait("bob@a", AskId(2), 2), "the next one asks again");
    }

    #[test]
    fn a_change_while_it_is_read_is_not_covered_by_the_older_read() {
        let mut accounts = Accounts::new(8, false);
        accounts.wait("bob@a", AskId(1), 10);
        // The account changes: the read may have seen it before.
        accounts.forget(Some("bob@a"));
        assert_eq!(
            waiting(&mut accounts, 10, Some(None)),
            Some(vec![AskId(1)]),
            "the query that waits is answered"
        );
        assert!(accounts.get(NOW, "bob@a").is_none(), "but the next one asks again");
    }

    fn account(name: &str) -> CachedAccount {
        Some(Box::new(store::Account {
            id: 1,
            name: "bob".into(),
            domain: "a".into(),
            display_name: name.into(),
            verifiers: store::Verifiers::underived(),
            disabled: false,
            limits: store::AccountLimits::default(),
            created_at: NOW,
        }))
    }

    fn name(account: &CachedAccount) -> Option<&str> {
        account.as_ref().map(|account| &*account.display_name)
    }

    #[test]
    fn an_account_that_was_read_is_used_while_the_database_is_away() {
        let mut accounts = Accounts::new(8, true);
        for (ticket, address, known) in [(1, "bob@a", account("then")), (2, "eve@a", None)] {
            accounts.wait(address, AskId(ticket), ticket);
            accounts.loaded(NOW, ticket, Some(known));
        }
        let later = NOW + LIFETIME * 2;
        assert!(accounts.get(later, "bob@a").is_none(), "it is asked again");
        assert!(accounts.outdated(later, "bob@a").is_none(), "as long as the database answers");
        accounts.wait("bob@a", AskId(3), 3);
        let failed = accounts.loaded(later, 3, None).unwrap();
        assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(3)], Some("then")));
        // The next one waits for no read that fails.
        assert_eq!(name(&accounts.outdated(later, "bob@a")), Some("then"));
        assert!(accounts.may_try());
        accounts.try_again("bob@a", 4);
        assert!(!accounts.may_try(), "one read at a time");
        assert!(!accounts.wait("bob@a", AskId(5), 5), "it is the read of all");
        // An address without bindings, and one that was never read.
        for (ticket, address) in [(6, "eve@a"), (7, "carol@a")] {
            accounts.wait(address, AskId(ticket), ticket);
            assert!(accounts.loaded(later, ticket, None).unwrap().outdated.is_none(), "{address}");
        }
        assert!(accounts.outdated(NOW + limits::OUTDATED_ACCOUNT, "bob@a").is_none(), "its time is over");
        let found = accounts.loaded(later, 4, Some(account("now"))).unwrap();
        assert_eq!((found.waiting, name(&found.outdated)), (vec![AskId(5)], None));
        assert_eq!(accounts.get(later, "bob@a").and_then(name), Some("now"));
        // Changes may have been missed: it is asked again, and used if the database is away again.
        accounts.forget(None);
        assert!(accounts.get(later, "bob@a").is_none());
        accounts.wait("bob@a", AskId(8), 8);
        assert_eq!(name(&accounts.loaded(later, 8, None).unwrap().outdated), Some("now"));
        // A change of the account itself voids it.
        accounts.forget(Some("bob@a"));
        accounts.wait("bob@a", AskId(9), 9);
        assert!(accounts.loaded(later, 9, None).unwrap().outdated.is_none());
    }

    #[test]
    fn a_database_in_a_file_is_never_away_so_nothing_is_kept_for_that() {
        let mut accounts = Accounts::new(8, false);
        accounts.wait("bob@a", AskId(1), 1);
        accounts.loaded(NOW, 1, Some(account("then")));
        accounts.sweep(NOW + LIFETIME);
        assert_eq!(accounts.len(), 0);
    }
}
