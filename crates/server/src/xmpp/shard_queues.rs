//! Messages of a shard's XMPP for other shards, until the shard takes them at the end of its turn.

use cluster::{Bucket, ShardAddress, ShardMap};

use crate::message::XmppShardMessage;

/// One queue for each shard of the node, by number.
pub(super) struct ShardQueues {
    own: ShardAddress,
    map: ShardMap,
    queues: Vec<Vec<XmppShardMessage>>,
}

impl ShardQueues {
    pub(super) fn new(own: ShardAddress, map: ShardMap) -> ShardQueues {
        ShardQueues { own, map, queues: map.all().map(|_| Vec::new()).collect() }
    }

    /// The shard whose queues these are.
    pub(super) fn own(&self) -> ShardAddress {
        self.own
    }

    pub(super) fn map(&self) -> ShardMap {
        self.map
    }

    /// The shard that owns an address.
    pub(super) fn owner(&self, bare: &str) -> ShardAddress {
        self.map.owner(Bucket::of(bare))
    }

    /// For a shard of the map.
    pub(super) fn push(&mut self, to: ShardAddress, message: XmppShardMessage) {
        self.queues[usize::from(to.shard)].push(message);
    }

    /// Moves out what waits for a shard.
    pub(super) fn take(&mut self, shard: usize) -> Vec<XmppShardMessage> {
        std::mem::take(&mut self.queues[shard])
    }
}
