//! Which router owns an address: 4,096 buckets, the same on every node and in every version.

use stdx::hash::Keyed;

pub const BUCKETS: u16 = 4_096;

/// The hash is part of the farm's agreement, so its key is fixed and public. Who chooses addresses that fall
/// into one bucket burdens one shard with them, and gains nothing over burdening it with one address.
const KEY: [u8; 16] = *b"belfry's buckets";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(u16);

impl Bucket {
    /// `address` is canonical: `user@domain`, domain in lower case.
    pub fn of(address: &str) -> Bucket {
        let hash = Keyed::new(KEY).hash(address.as_bytes());
        Bucket(u16::try_from(hash % u64::from(BUCKETS)).expect("the remainder is below BUCKETS"))
    }

    pub fn number(self) -> u16 {
        self.0
    }

    /// On one node the owner is fixed: no leases, no bus.
    pub fn shard(self, shards: u16) -> u16 {
        self.0 % shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agreement_does_not_drift() {
        // A change here is a change of every farm's map: nodes of two versions would disagree.
        assert_eq!(Bucket::of("alice@example.test"), Bucket::of("alice@example.test"));
        let spread = |shards: u16| {
            let mut counts = vec![0; usize::from(shards)];
            (0..10_000).for_each(|n| counts[usize::from(Bucket::of(&format!("u{n}@x")).shard(shards))] += 1);
            counts
        };
        assert!(spread(4).iter().all(|count| (2_300..2_700).contains(count)), "{:?}", spread(4));
    }
}
