//! The accounts a shard has asked the store or an owner for, kept for a while. `store_reads` begins the reads that `wait` asks for.
//!
//! An entry is believed for a minute. Where the database is a server (or the owners have it), entries are kept for longer than they are
//! believed, and are used while reads fail, or take long: a slow server delays no call of an account that was read before.
//!
//! Requests whose account was never read wait while reads fail, for some seconds, and are read as soon as one read succeeds ([`Outage`]).
//! A database that is away for longer refuses them at once.
//!
//! In: questions by address (`get`, `wait`), results of reads (`loaded`), news of changes (`forget`), time (`expire`). Out:
//! which read to begin and who has waited for it. Invariants: of one address at most one read is under way; a read that a change of its
//! account overtook is answered but not cached; one that news of all accounts overtook is not believed afterwards.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use router::AskId;
use stdx::Instant;
use stdx::cache::Cache;
use stdx::outage::{Held, Outage, OutageSettings};

use crate::limits;

/// An account as it was read; `None` for an address without an account, so that guessing is cheap for us too.
pub(crate) type CachedAccount = Option<Box<store::Account>>;

/// The time that an entry is believed without asking again. Changes that this node makes or is told of void it at once; this bounds the
/// age of an entry whose change no notice came of.
const LIFETIME: Duration = Duration::from_secs(60);

/// Entries looked at in one sweep: two sweeps a second go through a full cache in a minute and a half, and one takes some 10 µs.
const SWEEP: usize = 1_024;

/// How questions wait for a database that is away.
const OUTAGE: OutageSettings = OutageSettings {
    patience: limits::HELD_PATIENCE,
    known_after: limits::AWAY_FOR_LONG,
    first_pause: limits::HELD_PAUSE,
    longest_pause: limits::HELD_PAUSE_MOST,
    most: limits::HELD_QUESTIONS,
};

/// The cache of a shard, and the reads under way that fill it.
pub(crate) struct Accounts {
    cache: Cache<Box<str>, Entry>,
    /// The time that an account stays in the cache after it was read.
    kept: Duration,
    /// The last read has failed: the database is away. Questions wait for it that no entry answers.
    outage: Outage<HeldQuestion>,
    /// The last read has taken longer than `limits::SLOW_READ`: the database is slow.
    is_slow: bool,
    /// Reads of accounts that are in the cache, with the times at which their questions are answered from it. Some have ended meanwhile.
    watched: VecDeque<(Instant, u64)>,
    /// Entries of an earlier number may be outdated, all of them: changes were missed.
    generation: u64,
    /// Queries that wait for a read under way, by address.
    waiting: HashMap<Box<str>, Vec<Question>>,
    /// Reads under way, by ticket.
    reads: HashMap<u64, Read>,
}

/// An account in the cache.
struct Entry {
    known: CachedAccount,
    /// Later it is used only while the database is away or slow.
    believed_until: Instant,
    /// `Accounts::generation` when it was read.
    generation: u64,
}

/// A query for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) id: AskId,
    /// The time at which it came: it waits for a database that is away from then on.
    pub(crate) arrived: Instant,
    /// It may wait for a database that is away; otherwise it is answered when the read fails.
    pub(crate) may_wait: bool,
}

/// A question that waits for a database that is away, and the address that it is about.
pub(crate) type HeldQuestion = (AskId, Box<str>);

/// The end of a read.
pub(crate) struct EndedRead {
    /// The queries that have waited for it, and are to be answered now.
    pub(crate) waiting: Vec<AskId>,
    /// The account as it was read before, if it could not be read now.
    pub(crate) outdated: CachedAccount,
    /// Questions that have waited for the database, which is back: their accounts are to be read.
    pub(crate) released: Vec<Held<HeldQuestion>>,
}

/// A read under way.
struct Read {
    address: Box<str>,
    began: Instant,
    /// The account changed since it was asked: the answer may be from before.
    outdated: bool,
    /// `Accounts::generation` when it began.
    generation: u64,
}

impl Accounts {
    /// `is_on_server`: the database may be away, or the owners that have it.
    pub(crate) fn new(capacity: usize, is_on_server: bool) -> Self {
        let kept = if is_on_server { limits::OUTDATED_ACCOUNT } else { LIFETIME };
        let (cache, waiting, reads) = (Cache::new(capacity), HashMap::new(), HashMap::new());
        let (outage, watched) = (Outage::new(OUTAGE), VecDeque::new());
        Accounts { cache, kept, outage, is_slow: false, watched, generation: 0, waiting, reads }
    }

    /// The entry of an address, if it is believed. Else the store is to be asked (`wait`).
    pub(crate) fn get(&mut self, now: Instant, address: &str) -> Option<&CachedAccount> {
        let entry = self.cache.get_at(now, address)?;
        // An entry that is not believed stays, for the time that the database is away.
        let is_believed = entry.believed_until > now && entry.generation == self.generation;
        is_believed.then_some(&entry.known)
    }

    /// The account as it was read before, while the database is away or slow. An address that had no account may have one by now.
    /// Only accounts are used so, never the absence of one.
    pub(crate) fn outdated(&self, now: Instant, address: &str) -> CachedAccount {
        let entry = self.cache.get_at(now, address).filter(|_| self.outage.is_away() || self.is_slow)?;
        entry.known.clone()
    }

    /// True if the last read has failed.
    pub(crate) fn is_away(&self) -> bool {
        self.outage.is_away()
    }

    /// A file that cannot be read is no outage that ends by itself.
    fn is_on_server(&self) -> bool {
        self.kept > LIFETIME
    }

    /// True if an account that was read before is to be read again. While the database is away one read at a time shows whether it is back;
    /// a slow one reads each account, so that changes which no notice came of count after one read.
    pub(crate) fn may_try(&self, address: &str) -> bool {
        if self.is_away() { self.reads.is_empty() } else { !self.waiting.contains_key(address) }
    }

    /// Notes a read for which no query waits.
    pub(crate) fn try_again(&mut self, now: Instant, address: &str, ticket: u64) {
        self.waiting.entry(address.into()).or_default();
        self.note_read(now, address, ticket);
    }

    fn note_read(&mut self, began: Instant, address: &str, ticket: u64) {
        let read = Read { address: address.into(), began, outdated: false, generation: self.generation };
        self.reads.insert(ticket, read);
    }

    /// Lets a question wait for the database without a read of its own, while reads fail: the one under way shows when it is back. False:
    /// the account is to be read.
    pub(crate) fn hold(&mut self, now: Instant, address: &str, question: Question) -> bool {
        let may_hold = question.may_wait && self.is_on_server() && self.is_away() && !self.reads.is_empty();
        may_hold && self.outage.hold(now, question.arrived, (question.id, address.into())).is_ok()
    }

    /// Questions whose read takes long, and the account as it was read before, which answers them; the read goes on. To be called until
    /// there is none, whenever `deadline` has come.
    pub(crate) fn expire_slow(&mut self, now: Instant) -> Option<(Vec<AskId>, CachedAccount)> {
        loop {
            let (_, ticket) = self.watched.pop_front_if(|(due, _)| *due <= now)?;
            // A read that has ended was in time.
            let Some(read) = self.reads.get(&ticket) else { continue };
            self.is_slow = true;
            let (address, mut slow) = (read.address.clone(), Vec::new());
            let known = self.outdated(now, &address);
            // A change of the account has voided its entry meanwhile: its questions wait for the read.
            if known.is_some() {
                let waiting = self.waiting.entry(address).or_default();
                slow.extend(waiting.extract_if(.., |question| question.may_wait).map(|question| question.id));
                return Some((slow, known));
            }
        }
    }

    /// A question that has waited long enough for the database. To be called until there is none, whenever `deadline` has come.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<AskId> {
        self.outage.expire(now).map(|Held { request: (id, _), .. }| id)
    }

    /// The question whose account is to be read now, to see whether the database is back.
    pub(crate) fn take_try(&mut self, now: Instant) -> Option<Held<HeldQuestion>> {
        self.outage.take_try(now)
    }

    /// The time at which `expire`, `expire_slow` or `take_try` has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let slow = self.watched.front().map(|(due, _)| *due);
        [self.outage.deadline(), slow].into_iter().flatten().min()
    }

    /// Notes that a question waits. True when the store must be asked, under `ticket`.
    pub(crate) fn wait(&mut self, address: &str, question: Question, ticket: u64) -> bool {
        if let Some(waiting) = self.waiting.get_mut(address) {
            waiting.push(question);
            return false;
        }
        let began = question.arrived;
        let is_known = self.cache.get_at(began, address).is_some_and(|entry| entry.known.is_some());
        if question.may_wait && is_known {
            self.watched.push_back((began + limits::SLOW_READ, ticket));
        }
        self.waiting.insert(address.into(), vec![question]);
        self.note_read(began, address, ticket);
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
        let Read { address, began, outdated, generation } = self.reads.remove(&ticket)?;
        self.is_slow = known.is_some() && self.is_on_server() && now.since(began) >= limits::SLOW_READ;
        let mut waiting = self.waiting.remove(&address).unwrap_or_default();
        // The last read decides: with the first success all entries have to be believed again.
        let released = if known.is_some() { self.outage.succeed().into() } else { Vec::new() };
        if known.is_none() {
            self.outage.fail(now);
        }
        let before = self.outdated(now, &address);
        if known.is_none() && before.is_none() && self.is_on_server() {
            let outage = &mut self.outage;
            let mut is_held = |question: &Question| {
                question.may_wait
                    && outage.hold(now, question.arrived, (question.id, address.clone())).is_ok()
            };
            waiting.retain(|question| !is_held(question));
        }
        if let Some(known) = known.filter(|_| !outdated) {
            let believed_until = now + LIFETIME;
            // An address without an account is kept no longer than it is believed: attackers ask for many of
            // them.
            let until = if known.is_some() { now + self.kept } else { believed_until };
            self.cache.insert_until(until, address, Entry { known, believed_until, generation });
        }
        let waiting = waiting.into_iter().map(|question| question.id).collect();
        Some(EndedRead { waiting, outdated: before, released })
    }

    /// Ends a read that the store has not taken, as too many wait. That is no outage: a request that waited would come back with each read
    /// that ends, and there are thousands of both.
    pub(crate) fn refused(&mut self, now: Instant, ticket: u64) -> Option<EndedRead> {
        let Read { address, .. } = self.reads.remove(&ticket)?;
        let waiting = self.waiting.remove(&address).unwrap_or_default();
        let outdated = self.cache.get_at(now, &address).and_then(|entry| entry.known.clone());
        let waiting = waiting.into_iter().map(|question| question.id).collect();
        Some(EndedRead { waiting, outdated, released: Vec::new() })
    }

    /// Voids the entry of an address, or of all accounts. Reads under way may have seen the account as it was before.
    pub(crate) fn forget(&mut self, address: Option<&str>) {
        // All are asked again. The database may be away again before that: entries stay for an outage, those of the reads under way, too.
        // Their number makes them unbelieved at once, without a pass over the cache.
        if address.is_none() && self.is_on_server() {
            self.generation += 1;
            return;
        }
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

    /// A question of an asker that is answered when its read fails.
    fn at_once(id: AskId) -> Question {
        Question { id, arrived: NOW, may_wait: false }
    }

    /// The queries that waited for a read.
    fn waiting(accounts: &mut Accounts, ticket: u64, known: Option<CachedAccount>) -> Option<Vec<AskId>> {
        accounts.loaded(NOW, ticket, known).map(|loaded| loaded.waiting)
    }

    #[test]
    fn who_asks_while_a_read_is_under_way_waits_with_the_first() {
        let mut accounts = Accounts::new(8, false);
        assert!(accounts.wait("bob@a", at_once(AskId(1)), 10), "the store is asked");
        assert!(!accounts.wait("bob@a", at_once(AskId(2)), 11), "and only once");
        assert!(accounts.wait("eve@a", at_once(AskId(3)), 12), "another address is another read");
        assert_eq!(waiting(&mut accounts, 10, Some(None)), Some(vec![AskId(1), AskId(2)]));
        assert_eq!(waiting(&mut accounts, 10, Some(None)), None, "one answer to a read");
        assert!(matches!(accounts.get(NOW, "bob@a"), Some(None)), "that nobody is there is known too");
    }

    #[test]
    fn what_could_not_be_read_is_not_remembered() {
        let mut accounts = Accounts::new(8, false);
        assert!(accounts.wait("bob@a", at_once(AskId(1)), 10));
        assert_eq!(waiting(&mut accounts, 10, None), Some(vec![AskId(1)]));
        assert!(accounts.get(NOW, "bob@a").is_none());
        assert!(accounts.wait("bob@a", at_once(AskId(2)), 11), "the next one asks again");
    }

    #[test]
    fn an_entry_is_believed_for_a_while_or_until_it_changes() {
        let mut accounts = Accounts::new(8, false);
        for (ticket, address) in [(1, "bob@a"), (2, "eve@a")] {
            accounts.wait(address, at_once(AskId(ticket)), ticket);
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
        accounts.wait("bob@a", at_once(AskId(1)), 1);
        accounts.loaded(NOW, 1, Some(None));
        accounts.let_go("bob@a");
        assert_eq!(accounts.len(), 0);
        assert!(accounts.wait("bob@a", at_once(AskId(2)), 2), "the next one asks again");
    }

    #[test]
    fn a_change_while_it_is_read_is_not_covered_by_the_older_read() {
        let mut accounts = Accounts::new(8, false);
        accounts.wait("bob@a", at_once(AskId(1)), 10);
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
            accounts.wait(address, at_once(AskId(ticket)), ticket);
            accounts.loaded(NOW, ticket, Some(known));
        }
        let later = NOW + LIFETIME * 2;
        assert!(accounts.get(later, "bob@a").is_none(), "it is asked again");
        assert!(accounts.outdated(later, "bob@a").is_none(), "as long as the database answers");
        accounts.wait("bob@a", at_once(AskId(3)), 3);
        let failed = accounts.loaded(later, 3, None).unwrap();
        assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(3)], Some("then")));
        // The next one waits for no read that fails.
        assert_eq!(name(&accounts.outdated(later, "bob@a")), Some("then"));
        assert!(accounts.may_try("bob@a"));
        accounts.try_again(later, "bob@a", 4);
        assert!(!accounts.may_try("bob@a"), "one read at a time");
        assert!(!accounts.wait("bob@a", at_once(AskId(5)), 5), "it is the read of all");
        // An address without bindings, and one that was never read.
        for (ticket, address) in [(6, "eve@a"), (7, "carol@a")] {
            accounts.wait(address, at_once(AskId(ticket)), ticket);
            assert!(accounts.loaded(later, ticket, None).unwrap().outdated.is_none(), "{address}");
        }
        assert!(accounts.outdated(NOW + limits::OUTDATED_ACCOUNT, "bob@a").is_none(), "its time is over");
        let found = accounts.loaded(later, 4, Some(account("now"))).unwrap();
        assert_eq!((found.waiting, name(&found.outdated)), (vec![AskId(5)], None));
        assert_eq!(accounts.get(later, "bob@a").and_then(name), Some("now"));
        // Changes may have been missed: it is asked again, and used if the database is away again.
        accounts.forget(None);
        assert!(accounts.get(later, "bob@a").is_none());
        accounts.wait("bob@a", at_once(AskId(8)), 8);
        assert_eq!(name(&accounts.loaded(later, 8, None).unwrap().outdated), Some("now"));
        // A change of the account itself voids it.
        accounts.forget(Some("bob@a"));
        accounts.wait("bob@a", at_once(AskId(9)), 9);
        assert!(accounts.loaded(later, 9, None).unwrap().outdated.is_none());
    }

    #[test]
    fn an_account_that_was_read_before_is_used_while_its_read_takes_long() {
        let mut accounts = Accounts::new(8, true);
        accounts.wait("bob@a", at_once(AskId(1)), 1);
        accounts.loaded(NOW, 1, Some(account("then")));
        let slow = u64::try_from(limits::SLOW_READ.as_millis()).unwrap();
        let begin = u64::try_from(LIFETIME.as_millis()).unwrap() + 1;
        assert!(accounts.outdated(at(begin), "bob@a").is_none(), "the database answers, as far as is known");
        assert!(accounts.wait("bob@a", patient(2, begin), 2));
        assert!(!accounts.wait("bob@a", at_once(AskId(3)), 3), "an edge waits for the read");
        assert!(accounts.wait("carol@a", patient(4, begin), 4));
        assert_eq!(accounts.deadline(), Some(at(begin + slow)));
        assert!(accounts.expire_slow(at(begin + slow - 1)).is_none());
        let (ids, known) = accounts.expire_slow(at(begin + slow)).unwrap();
        assert_eq!((ids, name(&known)), (vec![AskId(2)], Some("then")));
        assert!(accounts.expire_slow(at(begin + slow)).is_none(), "carol was never read");
        // The next one does not wait at all, and its read is under way.
        assert_eq!(name(&accounts.outdated(at(begin + slow), "bob@a")), Some("then"));
        assert!(!accounts.may_try("bob@a"));
        let late = accounts.loaded(at(begin + 2 * slow), 2, Some(account("now"))).unwrap();
        assert_eq!((late.waiting, accounts.deadline()), (vec![AskId(3)], None));
        // It is slow until a read is quick.
        let later = 2 * begin + 2 * slow;
        assert_eq!(name(&accounts.outdated(at(later), "bob@a")), Some("now"));
        assert!(accounts.may_try("bob@a"), "each use reads it anew");
        accounts.try_again(at(later), "bob@a", 5);
        accounts.loaded(at(later + 1), 5, Some(account("newest")));
        assert!(accounts.outdated(at(later + begin + 1), "bob@a").is_none());
        // A change that is known of voids it, however slow its read is.
        accounts.wait("bob@a", patient(6, later + begin + 1), 6);
        accounts.forget(Some("bob@a"));
        assert!(accounts.expire_slow(at(later + begin + 1 + slow)).is_none());
    }

    #[test]
    fn a_database_in_a_file_is_never_away_so_nothing_is_kept_for_that() {
        let mut accounts = Accounts::new(8, false);
        accounts.wait("bob@a", at_once(AskId(1)), 1);
        accounts.loaded(NOW, 1, Some(account("then")));
        accounts.sweep(NOW + LIFETIME);
        assert_eq!(accounts.len(), 0);
    }

    /// Milliseconds after the beginning.
    fn at(milliseconds: u64) -> Instant {
        NOW + Duration::from_millis(milliseconds)
    }

    /// A question that came then.
    fn patient(id: u64, arrived: u64) -> Question {
        Question { id: AskId(id), arrived: at(arrived), may_wait: true }
    }

    fn expired(accounts: &mut Accounts, now: Instant) -> Vec<AskId> {
        std::iter::from_fn(|| accounts.expire(now)).collect()
    }

    #[test]
    fn a_question_waits_for_a_database_that_is_away_and_goes_on_when_it_is_back() {
        let mut accounts = Accounts::new(8, true);
        assert!(accounts.wait("bob@a", patient(1, 0), 10));
        assert!(!accounts.wait("bob@a", at_once(AskId(2)), 11));
        let failed = accounts.loaded(at(5), 10, None).unwrap();
        assert_eq!(failed.waiting, [AskId(2)], "chat and edges without a database have times of their own");
        // The next one is a read of its own, as none is under way. A third one waits for that.
        assert!(!accounts.hold(at(10), "eve@a", patient(3, 10)));
        assert!(accounts.wait("eve@a", patient(3, 10), 12));
        assert!(accounts.hold(at(11), "carol@a", patient(4, 11)));
        assert_eq!(accounts.deadline(), Some(at(55)));
        let tried = accounts.take_try(at(55)).unwrap();
        assert_eq!((tried.arrived, &tried.request), (at(0), &(AskId(1), "bob@a".into())));
        let back = accounts.loaded(at(60), 12, Some(account("now"))).unwrap();
        assert_eq!(back.waiting, [AskId(3)]);
        let released: Vec<_> = back.released.into_iter().map(|held| held.request).collect();
        assert_eq!(released, [(AskId(4), "carol@a".into())]);
        assert_eq!(accounts.deadline(), None);
    }

    #[test]
    fn a_question_waits_for_some_seconds_and_not_at_all_in_a_long_outage() {
        let mut accounts = Accounts::new(8, true);
        accounts.wait("bob@a", patient(1, 0), 1);
        assert!(accounts.loaded(at(0), 1, None).unwrap().waiting.is_empty());
        let patience = u64::try_from(limits::HELD_PATIENCE.as_millis()).unwrap();
        assert_eq!(expired(&mut accounts, at(patience - 1)), []);
        assert_eq!(expired(&mut accounts, at(patience)), [AskId(1)]);
        let long = u64::try_from(limits::AWAY_FOR_LONG.as_millis()).unwrap();
        accounts.wait("bob@a", patient(2, long), 2);
        let failed = accounts.loaded(at(long), 2, None).unwrap();
        assert_eq!(failed.waiting, [AskId(2)], "it is refused as soon as its read has failed");
        // The first read that succeeds ends the outage.
        accounts.wait("bob@a", patient(3, long), 3);
        accounts.loaded(at(long + 9), 3, Some(None));
        accounts.wait("eve@a", patient(4, long + 10), 4);
        assert!(accounts.loaded(at(long + 10), 4, None).unwrap().waiting.is_empty());
    }

    /// Each change of the routes is news of all accounts, as the first notice after a connection is. An account that was being read at that
    /// moment is used in the next outage like one that was read before.
    #[test]
    fn a_read_that_news_of_all_accounts_overtook_is_used_while_the_database_is_away() {
        let mut accounts = Accounts::new(8, true);
        accounts.wait("bob@a", patient(1, 0), 1);
        accounts.wait("eve@a", patient(2, 0), 2);
        accounts.forget(None);
        accounts.forget(Some("eve@a"));
        for ticket in [1, 2] {
            accounts.loaded(NOW, ticket, Some(account("then")));
        }
        assert!(accounts.get(NOW, "bob@a").is_none(), "it may have been read before the change");
        accounts.wait("bob@a", patient(3, 1), 3);
        let failed = accounts.loaded(at(1), 3, None).unwrap();
        assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(3)], Some("then")));
        // News of the account itself: its password may be another, and it may be gone.
        assert!(accounts.outdated(at(2), "eve@a").is_none());
    }

    /// A file cannot be away, so that nothing is kept for that.
    #[test]
    fn a_read_of_a_file_that_news_of_all_accounts_overtook_is_not_kept() {
        let mut accounts = Accounts::new(8, false);
        accounts.wait("bob@a", patient(1, 0), 1);
        accounts.forget(None);
        accounts.loaded(NOW, 1, Some(account("then")));
        assert_eq!(accounts.len(), 0);
    }

    /// A store with too much to do is there: requests that it refuses are shed at once. To keep them would have each read that ends ask for all of them.
    #[test]
    fn a_read_that_the_store_does_not_take_is_no_outage() {
        let mut accounts = Accounts::new(8, true);
        accounts.wait("bob@a", patient(1, 0), 1);
        accounts.loaded(NOW, 1, Some(account("then")));
        accounts.wait("eve@a", patient(2, 1), 2);
        assert_eq!(accounts.refused(at(1), 2).unwrap().waiting, [AskId(2)]);
        assert!(!accounts.is_away() && accounts.deadline().is_none());
        // What was read before is used, as while the database is away.
        let later = NOW + LIFETIME;
        accounts.wait("bob@a", patient(3, 60_000), 3);
        let refused = accounts.refused(later, 3).unwrap();
        assert_eq!((refused.waiting, name(&refused.outdated)), (vec![AskId(3)], Some("then")));
        assert!(!accounts.is_away() && accounts.may_try("bob@a"));
    }

    #[test]
    fn an_account_that_was_read_before_is_used_at_once() {
        let mut accounts = Accounts::new(8, true);
        accounts.wait("bob@a", patient(1, 0), 1);
        accounts.loaded(NOW, 1, Some(account("then")));
        accounts.forget(None);
        accounts.wait("bob@a", patient(2, 1), 2);
        let failed = accounts.loaded(at(1), 2, None).unwrap();
        assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(2)], Some("then")));
    }
}
