//! Orders about buckets to the shards of this node, where a database is shared with other nodes.

use std::collections::BTreeMap;

use cluster::{Bucket, Epoch};

/// An order about a bucket that a shard owns, or owned. The node's part in the farm gives them in the order of `cluster::tenure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketOrder {
    /// Forget what memory has of the bucket and read its rows; then `FarmAgent::buckets_loaded`.
    Load {
        /// The bucket.
        bucket: Bucket,
        /// The epoch of the hold.
        epoch: Epoch,
    },
    /// Answer for the bucket, while the node may act.
    Serve {
        /// The bucket.
        bucket: Bucket,
        /// The epoch of the hold.
        epoch: Epoch,
    },
    /// Answer no more for the bucket; when no write of it is under way, `FarmAgent::buckets_drained`. Memory stays until
    /// the next `Load`.
    Stop {
        /// The bucket.
        bucket: Bucket,
        /// The epoch of the hold.
        epoch: Epoch,
    },
}

/// The orders that one input causes: a takeover of a thousand buckets is one message to each shard.
#[derive(Debug, Default)]
pub(crate) struct ShardOrders(BTreeMap<u16, Vec<BucketOrder>>);

impl ShardOrders {
    /// Adds an order for a shard.
    pub(crate) fn push(&mut self, shard: u16, order: BucketOrder) {
        self.0.entry(shard).or_default().push(order);
    }

    /// The orders of each shard since the last call.
    pub(crate) fn take(&mut self) -> BTreeMap<u16, Vec<BucketOrder>> {
        std::mem::take(&mut self.0)
    }
}

/// The reports of shards that the agent has not read. They wait outside its bounded queue, as the machine waits for each: there is
/// at most one for each order.
#[derive(Debug, Default)]
pub(crate) struct BucketReports {
    /// Buckets of which all rows have been read.
    pub(crate) loaded: Vec<(Bucket, Epoch)>,
    /// Buckets of which no write is under way any more.
    pub(crate) drained: Vec<(Bucket, Epoch)>,
}
