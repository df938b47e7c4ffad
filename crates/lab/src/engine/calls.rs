//! The calls of one shard: by key, by Call-ID, by time.
//!
//! A call moves from open to lingering (it still answers retransmissions) to dead (only its hash is left, so that late messages are counted as
//! such and not taken for a new call) to forgotten. The dispatcher decides when.

use std::collections::VecDeque;
use std::net::SocketAddr;

use hashbrown::HashTable;
use lab_sip::call::{Call, ScenarioRole};
use stdx::slab::{Key, Slab};
use stdx::time::Instant;

/// A call and what the engine knows of it.
pub(super) struct CallEntry {
    pub(super) call: Call,
    /// The scenario that it runs.
    pub(super) which: ScenarioRole,
    /// Keyed hash of the Call-ID, the same in every shard of the run.
    pub(super) hash: u64,
    /// The destination of the call's messages.
    pub(super) peer: SocketAddr,
    /// The way to the peer; changes with `<setdest>`, a lost connection, and a server's request on another connection.
    pub(super) link: CallLink,
    /// The earliest wheel entry that will look at it.
    pub(super) armed: Instant,
    /// Counted open.
    /// It holds a place under `-l` and a share of its socket. False while it lingers.
    pub(super) open: bool,
}

/// The socket or connection of a call's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallLink {
    /// A datagram socket of this shard.
    Udp(Key),
    /// A connection of this shard.
    Stream(Key),
    /// A connection of another shard.
    /// The number of the shard that has it, and its key there. A server's call may belong to another shard than its connection.
    Far(u16, Key),
    /// The one connection to the target that all calls share, which the first shard has.
    Shared,
    /// It had a connection and lost it.
    None,
}

/// Entry of the table by Call-ID: the call itself stays in the slab, so that a table entry is small.
#[derive(Clone, Copy)]
struct CallPlace {
    hash: u64,
    key: Key,
}

pub(super) struct Calls {
    /// The calls; a key is never used twice, so a late timer cannot meet another call.
    slab: Slab<CallEntry>,
    /// By the hash of the Call-ID; the text is compared, as hashes may collide.
    by_id: HashTable<CallPlace>,
    /// Hashes of those that are over and have nothing more to say, and until when, in order.
    dead: HashTable<u64>,
    /// All calls linger equally long, so the order of burial is the order of the deadlines.
    burials: VecDeque<(Instant, u64)>,
}

impl Calls {
    pub(super) fn new() -> Calls {
        Calls { slab: Slab::new(), by_id: HashTable::new(), dead: HashTable::new(), burials: VecDeque::new() }
    }

    /// The call of a Call-ID, compared byte by byte (RFC 3261 §20.8).
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

    /// Walks all calls: needed only when a connection is lost.
    pub(super) fn with_link(&self, link: CallLink) -> Vec<Key> {
        self.slab.iter().filter(|(_, entry)| entry.link == link).map(|(key, _)| key).collect()
    }
}
