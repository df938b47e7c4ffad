//! The accounts a shard has asked the store or an owner for, kept for a while. `store_reads` begins the reads that `wait` asks for.
//!
//! An entry is believed for a minute. Where the database is a server (or the owners have it), entries are kept for longer than they are
//! believed, and are used while reads fail, or take long: a slow server delays no call of an account that was read before.
//!
//! Requests whose account was never read wait while reads fail, for some seconds, and are read as soon as one read succeeds ([`Outage`]).
//! A database that is away for longer refuses them at once.
//!
//! In: questions by address (`get`, `wait`), results of reads (`loaded`), news of changes (`forget`), time (`expire`). Out:
//! which read to begin and which queries have waited for it. Invariants: of one address at most one read is under way; a read that a change of its
//! account overtook is answered but not cached; one that news of all accounts overtook is not believed afterwards.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use router::AskId;
use stdx::Instant;
use stdx::cache::Cache;
use stdx::outage::{Held, Outage, OutageSettings};

use crate::limits;

#[cfg(test)]
mod tests;

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
    /// A question that may wait for the database was about it: a call or a registration, which it answers in an outage.
    is_for_calls: bool,
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
        let was_for_calls = self.cache.get_at(now, &address).is_some_and(|entry| entry.is_for_calls);
        let is_for_calls = was_for_calls || waiting.iter().any(|question| question.may_wait);
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
            let entry = Entry { known, believed_until, generation, is_for_calls };
            self.cache.insert_until(until, address, entry);
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

    /// Removes an account whose chat user has signed in and stays: it will not be asked for soon. One that calls have asked for stays, for an
    /// outage of the database.
    pub(crate) fn let_go(&mut self, now: Instant, address: &str) {
        let is_needed =
            self.is_on_server() && self.cache.get_at(now, address).is_some_and(|entry| entry.is_for_calls);
        if !is_needed {
            self.cache.remove(address);
        }
    }

    /// Lets go of accounts that are not believed any more. Called twice a second.
    pub(crate) fn sweep(&mut self, now: Instant) {
        self.cache.sweep(now, SWEEP);
    }

    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }
}
