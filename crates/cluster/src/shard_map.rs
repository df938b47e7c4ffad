//! The map from buckets to the shards that own them, and from call slots to the shards that work on the calls. All
//! questions about responsibility go through it, so that no caller knows the arithmetic behind it.

use crate::address::{Life, ShardAddress};
use crate::bucket::{Bucket, CallSlot};

/// The responsible shards of a node outside a farm: fixed while its process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardMap {
    life: Life,
    shards: u16,
}

impl ShardMap {
    /// All buckets and slots belong to the shards of one process, of which there is at least one.
    pub fn of_process(life: Life, shards: u16) -> ShardMap {
        ShardMap { life, shards: shards.max(1) }
    }

    /// The shard that keeps the state of the bucket's addresses.
    pub fn owner(&self, bucket: Bucket) -> ShardAddress {
        ShardAddress::new(self.life, bucket.shard(self.shards))
    }

    /// The shard that works on the calls of the slot.
    pub fn worker(&self, slot: CallSlot) -> ShardAddress {
        ShardAddress::new(self.life, slot.number() % self.shards)
    }

    /// True if messages for this address can be delivered: its process runs and has such a shard.
    pub fn has(&self, address: ShardAddress) -> bool {
        address.life == self.life && address.shard < self.shards
    }

    /// The addresses of all shards, in ascending order.
    pub fn all(&self) -> impl Iterator<Item = ShardAddress> + use<> {
        let life = self.life;
        (0..self.shards).map(move |shard| ShardAddress::new(life, shard))
    }

    /// The number of shards.
    pub fn shards(&self) -> u16 {
        self.shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: ShardMap = ShardMap { life: Life(3), shards: 4 };

    #[test]
    fn every_bucket_and_slot_has_one_of_the_shards() {
        for n in 0..1_000 {
            let text = format!("u{n}@x");
            let owner = MAP.owner(Bucket::of(&text));
            assert_eq!(owner.shard, Bucket::of(&text).number() % 4);
            assert!(MAP.has(owner) && MAP.has(MAP.worker(CallSlot::of(text.as_bytes()))));
        }
        assert_eq!(MAP.all().count(), 4);
        assert!(MAP.all().all(|address| MAP.has(address)));
    }

    #[test]
    fn addresses_of_other_lives_and_of_no_shard_are_absent() {
        assert!(!MAP.has(ShardAddress::new(Life(2), 0)));
        assert!(!MAP.has(ShardAddress::new(Life(3), 4)));
    }
}
