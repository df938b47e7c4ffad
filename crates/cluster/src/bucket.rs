//! The bucket of an address, which decides the shard that owns it, and the slot of a call, which decides the shard that
//! works on it. There are 4,096 of each, the same in every version.

use stdx::hash::Keyed;

/// The number of buckets: far more than shards, so that each shard has nearly the same share of addresses.
pub const BUCKETS: u16 = 4_096;

/// Every version hashes alike, so the key is fixed and public. Clients that choose addresses of one bucket burden one
/// shard with them, and gain nothing over burdening it with one address.
const KEY: [u8; 16] = *b"belfry's buckets";

/// One of [`BUCKETS`] shares of all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket of a canonical address: `user@domain`, the domain in lower case.
    pub fn of(address: &str) -> Bucket {
        let hash = Keyed::new(KEY).hash(address.as_bytes());
        Bucket(u16::try_from(hash % u64::from(BUCKETS)).expect("the remainder is below BUCKETS"))
    }

    /// The bucket with this number; none if it is not below [`BUCKETS`].
    pub fn with_number(number: u16) -> Option<Bucket> {
        (number < BUCKETS).then_some(Bucket(number))
    }

    /// The bucket's number, below [`BUCKETS`].
    pub fn number(self) -> u16 {
        self.0
    }

    /// The shard that owns the bucket in a process with so many shards.
    pub fn shard(self, shards: u16) -> u16 {
        self.0 % shards
    }
}

/// As [`KEY`], for calls: the same Call-ID leads to the same slot at every node.
const CALL_KEY: [u8; 16] = *b"belfry's workers";

/// One of [`BUCKETS`] shares of all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSlot(u16);

impl CallSlot {
    /// The slot of a call's name: a Call-ID, or the name of a room in which calls are mixed.
    pub fn of(call: &[u8]) -> CallSlot {
        CallSlot(u16::try_from(Keyed::new(CALL_KEY).hash(call) % u64::from(BUCKETS)).expect("below BUCKETS"))
    }

    /// The slot's number, below [`BUCKETS`].
    pub fn number(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_spread_over_the_shards() {
        let spread = |shards: u16| {
            let mut counts = vec![0; usize::from(shards)];
            (0..10_000).for_each(|n| counts[usize::from(Bucket::of(&format!("u{n}@x")).shard(shards))] += 1);
            counts
        };
        assert!(spread(4).iter().all(|count| (2_300..2_700).contains(count)), "{:?}", spread(4));
    }
}
