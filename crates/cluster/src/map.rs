//! The map of a farm: the owner of each bucket, the worker of each call slot, and the lives that are dead. It is one document
//! in the council, changed by compare-and-swap; every node keeps the newest that it has seen.
//!
//! The map says which shard is *to own* a bucket. The shard owns it once the database has given it an epoch
//! ([`crate::tenure`]); then the map has the epoch too, for messages to it.

use std::collections::BTreeMap;

use stdx::Instant;

use crate::address::{Epoch, Life, ShardAddress};
use crate::bucket::{BUCKETS, Bucket};
use crate::fields::{Corrupt, Fields, put_bytes, put_number, put_varint, take_varint};
use crate::limits::{DEAD_LIVES, MAP_BYTES, PREVIOUS_WORKER, SHARDS};
use crate::plan::{Candidate, assign};

/// The owner of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The shard that is to own the bucket; none while the farm has no router.
    pub owner: Option<ShardAddress>,
    /// The last epoch that an owner of the bucket has reported.
    pub epoch: Epoch,
}

/// The worker of a call slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotWorker {
    /// The shard that handles the calls of the slot; none while the farm has no edge.
    pub worker: Option<ShardAddress>,
    /// The shard that may still have calls which began before the slot moved.
    pub previous: Option<PreviousWorker>,
}

/// The worker of a slot before it moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousWorker {
    /// The previous worker.
    pub worker: ShardAddress,
    /// The time until which the map names it, by the clock of the coordinator that moved the slot: each node has a clock of its own.
    pub until: Instant,
}

/// One change that a plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The bucket gets another owner.
    Bucket {
        /// The number of the bucket, below [`crate::BUCKETS`].
        bucket: u16,
        /// The new owner; `None` if no live router can take it.
        to: Option<ShardAddress>,
    },
    /// The call slot gets another worker.
    Slot {
        /// The number of the call slot, below [`crate::BUCKETS`].
        slot: u16,
        /// The new worker; `None` if no live edge can take it.
        to: Option<ShardAddress>,
    },
}

/// The owners of buckets and workers of call slots of a whole farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmMap {
    version: u64,
    level: u16,
    owners: Vec<Ownership>,
    workers: Vec<SlotWorker>,
    dead: Vec<Life>,
}

impl Default for FarmMap {
    fn default() -> FarmMap {
        FarmMap::new(BUCKETS)
    }
}

impl FarmMap {
    /// An empty map of version 0 with so many buckets and slots: [`BUCKETS`], fewer in simulations.
    pub fn new(size: u16) -> FarmMap {
        let size = usize::from(size.min(BUCKETS));
        FarmMap {
            version: 0,
            level: 0,
            owners: vec![Ownership::default(); size],
            workers: vec![SlotWorker::default(); size],
            dead: Vec::new(),
        }
    }

    /// The number of changes up to this map; a node never goes back to a smaller one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The least wire version of all members: new behaviour is used up to it.
    pub fn level(&self) -> u16 {
        self.level
    }

    /// True if a member of the farm has an earlier wire version than this. False while the map is not known (version 0), which says nothing
    /// about the members.
    pub fn is_before(&self, wire_version: u16) -> bool {
        self.version > 0 && self.level < wire_version
    }

    /// The owner of a bucket.
    pub fn owner(&self, bucket: Bucket) -> Ownership {
        self.owners.get(usize::from(bucket.number())).copied().unwrap_or_default()
    }

    /// The worker of a call slot, by its number.
    pub fn worker(&self, slot: u16) -> SlotWorker {
        self.workers.get(usize::from(slot)).copied().unwrap_or_default()
    }

    /// All buckets with their owners, in ascending order.
    pub fn owners(&self) -> impl Iterator<Item = (Bucket, Ownership)> + '_ {
        (0..).map_while(Bucket::with_number).zip(self.owners.iter().copied())
    }

    /// All call slots with their workers, in ascending order.
    pub fn workers(&self) -> impl Iterator<Item = (u16, SlotWorker)> + '_ {
        (0..).zip(self.workers.iter().copied())
    }

    /// The lives that are dead by the agreement of the farm, the oldest first. Their buckets may be taken, and a node that
    /// finds itself here ends.
    pub fn dead(&self) -> &[Life] {
        &self.dead
    }

    /// True if the farm has agreed that the life is dead.
    pub fn is_dead(&self, life: Life) -> bool {
        self.dead.contains(&life)
    }

    /// The moves that give each candidate its share with the fewest changes. The same map and candidates give the same moves.
    pub fn plan(&self, routers: &[Candidate], edges: &[Candidate]) -> Vec<Move> {
        let owners: Vec<_> = self.owners.iter().map(|ownership| ownership.owner).collect();
        let workers: Vec<_> = self.workers.iter().map(|slot| slot.worker).collect();
        let buckets = assign(&owners, routers).into_iter().map(|(bucket, to)| Move::Bucket { bucket, to });
        let slots = assign(&workers, edges).into_iter().map(|(slot, to)| Move::Slot { slot, to });
        buckets.chain(slots).collect()
    }

    /// Performs moves. The map names the old worker of a slot for [`PREVIOUS_WORKER`] more.
    pub fn apply(&mut self, now: Instant, moves: &[Move]) {
        let previous_until = now + PREVIOUS_WORKER;
        for one in moves {
            match *one {
                Move::Bucket { bucket, to } => self.owners[usize::from(bucket)].owner = to,
                Move::Slot { slot, to } => self.workers[usize::from(slot)].move_to(to, previous_until),
            }
        }
    }

    /// The owner of the bucket reports the epoch that the database has given it. Smaller ones are ignored.
    pub fn set_epoch(&mut self, bucket: Bucket, epoch: Epoch) {
        if let Some(ownership) = self.owners.get_mut(usize::from(bucket.number())) {
            ownership.epoch = ownership.epoch.max(epoch);
        }
    }

    /// Adds a dead life. The oldest are dropped beyond [`DEAD_LIVES`].
    pub fn insert_dead(&mut self, life: Life) {
        if !self.is_dead(life) {
            self.dead.push(life);
            self.dead.sort_unstable();
            let excess = self.dead.len().saturating_sub(DEAD_LIVES);
            self.dead.drain(..excess);
        }
    }

    /// Sets the least wire version of all members.
    pub fn set_level(&mut self, level: u16) {
        self.level = level;
    }

    /// Makes this the map after `version`.
    pub fn succeed(&mut self, version: u64) {
        self.version = version + 1;
    }

    /// Drops previous workers whose time is over, for a smaller document.
    pub fn expire(&mut self, now: Instant) {
        for slot in &mut self.workers {
            slot.previous = slot.previous.filter(|previous| previous.until > now);
        }
    }
}

impl SlotWorker {
    fn move_to(&mut self, to: Option<ShardAddress>, until: Instant) {
        self.previous = self.worker.map(|worker| PreviousWorker { worker, until });
        self.worker = to;
    }
}

const VERSION: u64 = 1;
const LEVEL: u64 = 2;
const ADDRESSES: u64 = 3;
const OWNERS: u64 = 4;
const WORKERS: u64 = 5;
const DEAD: u64 = 6;

/// Addresses of shards by their place in the document: each is written once.
#[derive(Default)]
struct AddressTable {
    places: BTreeMap<ShardAddress, u64>,
    bytes: Vec<u8>,
}

impl AddressTable {
    /// The number of an address, from 1; 0 is none.
    fn place(&mut self, address: Option<ShardAddress>) -> u64 {
        let Some(address) = address else { return 0 };
        let next = self.places.len() as u64 + 1;
        *self.places.entry(address).or_insert_with(|| {
            put_varint(&mut self.bytes, u64::from(address.life.0));
            put_varint(&mut self.bytes, u64::from(address.shard));
            next
        })
    }
}

impl FarmMap {
    /// The document for the council.
    pub fn encode(&self) -> Vec<u8> {
        let (mut table, mut owners, mut workers) = (AddressTable::default(), Vec::new(), Vec::new());
        for ownership in &self.owners {
            put_varint(&mut owners, table.place(ownership.owner));
            put_varint(&mut owners, ownership.epoch.0);
        }
        for slot in &self.workers {
            put_varint(&mut workers, table.place(slot.worker));
            put_varint(&mut workers, table.place(slot.previous.map(|previous| previous.worker)));
            put_varint(&mut workers, slot.previous.map_or(0, |previous| previous.until.as_micros()));
        }
        let mut dead = Vec::new();
        self.dead.iter().for_each(|life| put_varint(&mut dead, u64::from(life.0)));
        let mut out = Vec::new();
        put_number(&mut out, VERSION, self.version);
        put_number(&mut out, LEVEL, u64::from(self.level));
        put_bytes(&mut out, ADDRESSES, &table.bytes);
        put_bytes(&mut out, OWNERS, &owners);
        put_bytes(&mut out, WORKERS, &workers);
        put_bytes(&mut out, DEAD, &dead);
        out
    }

    /// Reads the document of the council.
    ///
    /// # Errors
    /// [`Corrupt`] with the fault, after at most [`MAP_BYTES`].
    pub fn decode(bytes: &[u8]) -> Result<FarmMap, Corrupt> {
        let mut fields = Fields::new("map", bytes, MAP_BYTES)?;
        let mut map = FarmMap::new(0);
        let mut addresses = Vec::new();
        let fault = |fault| Corrupt { thing: "map", fault };
        while let Some(field) = fields.next()? {
            match field.number {
                VERSION => map.version = field.value()?,
                LEVEL => map.level = field.value()?,
                ADDRESSES => addresses = read_addresses(field.bytes).ok_or(fault("an address is wrong"))?,
                OWNERS => {
                    map.owners = read_owners(field.bytes, &addresses).ok_or(fault("an owner is wrong"))?;
                }
                WORKERS => {
                    map.workers = read_workers(field.bytes, &addresses).ok_or(fault("a worker is wrong"))?;
                }
                DEAD => map.dead = read_lives(field.bytes).ok_or(fault("a dead life is wrong"))?,
                _ => {}
            }
        }
        Ok(map)
    }
}

fn read_addresses(mut bytes: &[u8]) -> Option<Vec<ShardAddress>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let life = Life(take_varint(&mut bytes)?.try_into().ok()?);
        let shard = take_varint(&mut bytes)?.try_into().ok().filter(|shard| *shard < SHARDS)?;
        out.push(ShardAddress::new(life, shard));
    }
    Some(out)
}

/// The outer option is a place that does not exist, the inner one an address that is absent.
fn take_address(bytes: &mut &[u8], addresses: &[ShardAddress]) -> Option<Option<ShardAddress>> {
    match usize::try_from(take_varint(bytes)?).ok()? {
        0 => Some(None),
        place => addresses.get(place - 1).copied().map(Some),
    }
}

fn read_owners(mut bytes: &[u8], addresses: &[ShardAddress]) -> Option<Vec<Ownership>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let owner = take_address(&mut bytes, addresses)?;
        out.push(Ownership { owner, epoch: Epoch(take_varint(&mut bytes)?) });
    }
    (out.len() <= usize::from(BUCKETS)).then_some(out)
}

fn read_workers(mut bytes: &[u8], addresses: &[ShardAddress]) -> Option<Vec<SlotWorker>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let worker = take_address(&mut bytes, addresses)?;
        let previous = take_address(&mut bytes, addresses)?;
        let until = Instant::from_micros(take_varint(&mut bytes)?);
        let previous = previous.map(|worker| PreviousWorker { worker, until });
        out.push(SlotWorker { worker, previous });
    }
    (out.len() <= usize::from(BUCKETS)).then_some(out)
}

fn read_lives(mut bytes: &[u8]) -> Option<Vec<Life>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        out.push(Life(take_varint(&mut bytes)?.try_into().ok()?));
    }
    out.sort_unstable();
    out.dedup();
    (out.len() <= DEAD_LIVES).then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(life: u32, weight: u64) -> Candidate {
        Candidate { address: ShardAddress::new(Life(life), 0), weight }
    }

    fn planned(map: &mut FarmMap, candidates: &[Candidate]) -> usize {
        let moves = map.plan(candidates, candidates);
        map.apply(Instant::from_unix_seconds(0), &moves);
        moves.len()
    }

    #[test]
    fn a_slot_that_moves_keeps_its_previous_worker_for_a_while() {
        let mut map = FarmMap::new(8);
        planned(&mut map, &[candidate(1, 1)]);
        planned(&mut map, &[candidate(2, 1)]);
        let slot = map.worker(0);
        assert_eq!(slot.worker, Some(ShardAddress::new(Life(2), 0)));
        assert_eq!(slot.previous.map(|previous| previous.worker), Some(ShardAddress::new(Life(1), 0)));
        map.expire(Instant::from_unix_seconds(199));
        assert_eq!(map.worker(0), slot);
        map.expire(Instant::from_unix_seconds(200));
        assert_eq!(map.worker(0).previous, None);
    }

    #[test]
    fn a_map_that_is_not_known_says_nothing_about_the_members() {
        let mut map = FarmMap::new(8);
        assert!(!map.is_before(2));
        map.set_level(1);
        map.succeed(0);
        assert!(map.is_before(2) && !map.is_before(1));
    }

    #[test]
    fn a_whole_map_is_small() {
        let mut map = FarmMap::default();
        let candidates: Vec<_> = (1..=15).map(|life| candidate(life, 1)).collect();
        planned(&mut map, &candidates);
        planned(&mut map, &candidates[1..]);
        for number in 0..BUCKETS {
            map.set_epoch(Bucket::with_number(number).unwrap(), Epoch(1 << 40));
        }
        assert!(map.encode().len() < 64 * 1_024, "{}", map.encode().len());
        assert_eq!(FarmMap::decode(&map.encode()), Ok(map));
    }

    #[test]
    fn the_oldest_dead_are_dropped() {
        let mut map = FarmMap::new(1);
        (0..300).for_each(|life| map.insert_dead(Life(life)));
        assert_eq!(map.dead().len(), DEAD_LIVES);
        assert!(!map.is_dead(Life(43)) && map.is_dead(Life(44)) && map.is_dead(Life(299)));
    }

    #[test]
    fn absent_fields_have_defaults_and_unknown_ones_are_passed_over() {
        assert_eq!(FarmMap::decode(&[]), Ok(FarmMap::new(0)));
        let mut bytes = FarmMap::new(4).encode();
        put_bytes(&mut bytes, 77, b"of a later version");
        assert_eq!(FarmMap::decode(&bytes), Ok(FarmMap::new(4)));
    }

    #[test]
    fn faults_are_named() {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, OWNERS, &[5, 1]);
        assert_eq!(FarmMap::decode(&bytes).unwrap_err().to_string(), "map cannot be read: an owner is wrong");
        let long = vec![0; MAP_BYTES + 1];
        assert_eq!(FarmMap::decode(&long).unwrap_err().fault, "it is too long");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_map_or_a_fault(bytes: Vec<u8>) {
            if let Ok(map) = FarmMap::decode(&bytes) {
                prop_assert_eq!(FarmMap::decode(&map.encode()), Ok(map));
            }
        }

        #[test]
        fn a_map_comes_back(weights in proptest::collection::vec(0..4_u64, 1..6), dead: Vec<u32>) {
            let mut map = FarmMap::new(64);
            for without in 0..weights.len() {
                let all = weights.iter().enumerate().filter(|(n, _)| *n != without);
                let all: Vec<_> = all.map(|(n, weight)| candidate(n as u32 + 1, *weight)).collect();
                planned(&mut map, &all);
            }
            dead.iter().take(100).for_each(|life| map.insert_dead(Life(*life)));
            map.succeed(7);
            prop_assert_eq!(FarmMap::decode(&map.encode()), Ok(map));
        }
    }
}
