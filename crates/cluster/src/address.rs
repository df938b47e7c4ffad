//! Addresses of shards in a farm. A shard's number alone names nothing beyond its process, and a process's name is used
//! again after a restart; so an address is a start of a node and a shard in it.

use std::fmt;

/// One start of one node, from a counter of the council that never goes back: two processes never have the same life.
///
/// A node outside a farm has the life 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Life(pub u32);

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One shard of one node's start. Written `LIFE.SHARD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardAddress {
    /// The start of the node.
    pub life: Life,
    /// The shard's number within its process, from 0.
    pub shard: u16,
}

impl ShardAddress {
    /// The address of a shard of a life.
    pub fn new(life: Life, shard: u16) -> ShardAddress {
        ShardAddress { life, shard }
    }
}

impl fmt::Display for ShardAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.life, self.shard)
    }
}

/// The number of an ownership of a bucket: the database counts it up each time the bucket gets a new owner. A row or a
/// message with a smaller epoch comes from an owner that has been replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_life_and_shard() {
        assert_eq!(ShardAddress::new(Life(17), 3).to_string(), "17.3");
    }

    #[test]
    fn addresses_are_ordered_by_life_first() {
        assert!(ShardAddress::new(Life(1), 9) < ShardAddress::new(Life(2), 0));
    }
}
