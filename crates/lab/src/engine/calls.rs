//! The calls of one shard: by key, by Call-ID, by time.

use std::collections::VecDeque;
use std::net::SocketAddr;

use hashbrown::HashTable;
use lab_sip::call::{Call, ScenarioRole};
use stdx::slab::{Key, Slab};
use stdx::time::Instant;

/// A call and what the engine knows of it.
pub(super) struct CallEntry {
    pub(super) call: Call,
    pub(super) which: ScenarioRole,
    pub(super) hash: u64,
    /// The destination of the call's messages.
    pub(super) peer: SocketAddr,
    pub(super) link: CallLink,
    /// The earliest wheel entry that will look at it.
    pub(super) armed: Instant,
    /// Counted open.
    pub(super) open: bool,
}

/// The socket or connection of a call's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallLink {
    Udp(Key),
    Stream(Key),
    /// A connection of another shard.
    Far(u16, Key),
    /// The one connection to the target that all calls share, which the first shard has.
    Shared,
    /// It had a connection and lost it.
    None,
}

#[derive(Clone, Copy)]
struct CallPlace {
    hash: u64,
    key: Key,
}

pub(super) struct Calls {
    slab: Slab<CallEntry>,
    by_id: HashTable<CallPlace>,
    /// Hashes of those that are over and have nothing more to say, and until when, in order.
    dead: HashTable<u64>,
    burials: VecDeque<(Instant, u64)>,
}

impl Calls {
    pub(super) fn new() -> Calls {
        Calls { slab: Slab::new(), by_id: HashTable::new(), dead: HashTable::new(), burials: VecDeque::new() }
    }

    pub(super) fn find(&self, hash: u64, call_id: &[u8]) -> Option<Key> {
        let same = |place: &CallPlace| {
            place.hash == hash
                && self.slab.get(place.key).is_some_and(|entry| &*entry.call.identity.call_id == call_id)
        };
        self.by_id.find(hash, same).map(|place| place.key)
    }

    pub(super) fn insert(&mut self, entry: CallEntry) -> Key {
        let hash = entry.hash;
        let key = self.slab.insert(entry);
        self.by_id.insert_unique(hash, CallPlace { hash, key }, |place| place.hash);
        key
    }

    pub(super) fn get(&self, key: Key) -> Option<&CallEntry> {
        self.slab.get(key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut CallEntry> {
        self.slab.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<CallEntry> {
        let entry = self.slab.remove(key)?;
        if let Ok(place) = self.by_id.find_entry(entry.hash, |place| place.key == key) {
            place.remove();
        }
        Some(entry)
    }

    /// A call that would not answer any more leaves its hash behind until its deadline. At 5,000 calls a second
    /// there are 165,000 of them, so each is a few dozen bytes.
    pub(super) fn bury(&mut self, key: Key) {
        if let Some(entry) = self.remove(key) {
            self.dead.insert_unique(entry.hash, entry.hash, |hash| *hash);
            self.burials.push_back((entry.call.deadline, entry.hash));
        }
    }

    pub(super) fn is_dead(&self, hash: u64) -> bool {
        self.dead.find(hash, |dead| *dead == hash).is_some()
    }

    /// The next one whose time is over.
    pub(super) fn forget(&mut self, now: Instant) -> Option<u64> {
        self.burials.front().filter(|(until, _)| *until <= now)?;
        let (_, hash) = self.burials.pop_front()?;
        if let Ok(dead) = self.dead.find_entry(hash, |dead| *dead == hash) {
            dead.remove();
        }
        Some(hash)
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.slab.iter().map(|(key, _)| key).collect()
    }

    pub(super) fn with_link(&self, link: CallLink) -> Vec<Key> {
        self.slab.iter().filter(|(_, entry)| entry.link == link).map(|(key, _)| key).collect()
    }
}
