//! The state of an address besides its bindings: watches, publications, calls.
//! Nothing of it survives the process; its owners tell it again.

use hashbrown::HashTable;
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::wheel::Wheel;

use crate::calls::Calls;
use crate::interface::{Aor, Chat, ShardAddress, Topic, WatchId};
use crate::limits;
use crate::presence::Publications;
use crate::watch::Watches;

pub(crate) struct SoftStates {
    keyed: Keyed,
    table: HashTable<Box<SoftStateEntry>>,
    /// Hashes of addresses. Every state has an entry at its `armed`.
    wheel: Wheel<u64>,
}

pub(crate) struct SoftStateEntry {
    aor: Aor,
    /// When to look next, as in `location`.
    armed: Instant,
    pub(crate) watches: Watches,
    pub(crate) publications: Publications,
    pub(crate) calls: Calls,
    pub(crate) chat: Option<Chat>,
}

impl SoftStateEntry {
    /// When to look: when the first thing ends, or at the next patrol. `None` when nothing is known.
    fn look(&self, now: Instant) -> Option<Instant> {
        // Chat's state holds until the next report: chat is in the same process.
        let chat = self.chat.as_ref().map(|_| Instant::FAR_FUTURE);
        let earliest = [self.watches.earliest(), self.publications.earliest(), self.calls.earliest(), chat]
            .into_iter()
            .flatten()
            .min()?;
        Some(earliest.min(now + limits::PATROL))
    }

    /// True when a watcher might see a difference.
    fn expire(&mut self, now: Instant) -> bool {
        self.watches.expire(now);
        let publications = self.publications.expire(now);
        let calls = self.calls.expire(now);
        publications || calls
    }
}

impl SoftStates {
    pub(crate) fn new(keyed: Keyed, now: Instant) -> Self {
        SoftStates { keyed, table: HashTable::new(), wheel: Wheel::new(now) }
    }

    pub(crate) fn get(&self, aor: &str) -> Option<&SoftStateEntry> {
        // Every registration asks, and on a node of calls alone nothing is known of any address.
        if self.table.is_empty() {
            return None;
        }
        self.table.find(self.keyed.hash(aor.as_bytes()), |soft| *soft.aor == *aor).map(|soft| &**soft)
    }

    /// True if something more may be known of this address.
    pub(crate) fn has_room(&self, aor: &str) -> bool {
        self.table.len() < limits::KNOWN_ADDRESSES || self.get(aor).is_some()
    }

    /// Changes what is known, for an address of which nothing may be known yet.
    pub(crate) fn change<R>(
        &mut self,
        now: Instant,
        aor: &str,
        change: impl FnOnce(&mut SoftStateEntry) -> R,
    ) -> R {
        let SoftStates { keyed, table, wheel } = self;
        let hash = keyed.hash(aor.as_bytes());
        let mut entry = table
            .entry(hash, |soft| *soft.aor == *aor, |soft| keyed.hash(soft.aor.as_bytes()))
            .or_insert_with(|| {
                Box::new(SoftStateEntry {
                    aor: aor.into(),
                    armed: Instant::FAR_FUTURE,
                    watches: Watches::default(),
                    publications: Publications::default(),
                    calls: Calls::default(),
                    chat: None,
                })
            });
        let soft = entry.get_mut();
        let result = change(soft);
        match soft.look(now) {
            Some(earliest) if earliest < soft.armed => {
                soft.armed = earliest;
                wheel.insert(earliest, hash);
            }
            // Nothing left, and no timer that would find it.
            None if soft.armed == Instant::FAR_FUTURE => {
                entry.remove();
            }
            _ => {}
        }
        result
    }

    /// Changes what is known, if anything is.
    pub(crate) fn change_known<R>(
        &mut self,
        now: Instant,
        aor: &str,
        change: impl FnOnce(&mut SoftStateEntry) -> R,
    ) -> Option<R> {
        self.get(aor).is_some().then(|| self.change(now, aor, change))
    }

    pub(crate) fn unwatch(
        &mut self,
        now: Instant,
        from: ShardAddress,
        aor: &str,
        topic: Topic,
        watch: WatchId,
    ) {
        self.change_known(now, aor, |soft| soft.watches.remove(from, topic, watch));
    }

    /// Forgets the addresses that `is_gone` names, in one pass.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.table.retain(|soft| !is_gone(&soft.aor));
    }

    /// Forgets the calls of other shards than these, in one pass. Returns the addresses that had any. An entry that is left with nothing goes with
    /// its timer.
    pub(crate) fn keep_calls(&mut self, is_live: impl Fn(ShardAddress) -> bool) -> Vec<Aor> {
        let changed =
            self.table.iter_mut().filter_map(|soft| soft.calls.keep(&is_live).then(|| soft.aor.clone()));
        changed.collect()
    }

    /// Drops expired state and appends the addresses whose state may look different now.
    pub(crate) fn expire(&mut self, now: Instant, changed: &mut Vec<Aor>) {
        let mut due = Vec::new();
        self.wheel.expire(now, &mut due);
        for hash in due {
            self.expire_hash(now, hash, changed);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// The addresses with a watcher that sees calls.
    pub(crate) fn aors_that_show_calls(&self) -> impl Iterator<Item = &str> {
        self.table.iter().filter(|soft| soft.watches.show_calls()).map(|soft| &*soft.aor)
    }

    pub(crate) fn watches(&self) -> usize {
        self.table.iter().map(|soft| soft.watches.len()).sum()
    }

    pub(crate) fn publications(&self) -> usize {
        self.table.iter().map(|soft| soft.publications.len()).sum()
    }

    pub(crate) fn calls(&self) -> usize {
        self.table.iter().map(|soft| soft.calls.len()).sum()
    }

    fn expire_hash(&mut self, now: Instant, hash: u64, changed: &mut Vec<Aor>) {
        let SoftStates { keyed, table, wheel } = self;
        // Armed for later: another entry is outstanding for that time.
        let due = table.find_entry(hash, |soft| soft.armed <= now && keyed.hash(soft.aor.as_bytes()) == hash);
        let Ok(mut entry) = due else { return };
        let soft = entry.get_mut();
        if soft.expire(now) {
            changed.push(soft.aor.clone());
        }
        match soft.look(now) {
            Some(earliest) => {
                soft.armed = earliest;
                wheel.insert(earliest, hash);
            }
            None => {
                entry.remove();
            }
        }
    }
}
