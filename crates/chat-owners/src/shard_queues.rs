//! The ways of a shard's messages of XMPP to other shards, and the messages on their way until the shard takes them at the end of
//! its turn.

use cluster::{Bucket, ShardAddress, ShardMap};
use shard_message::XmppShardMessage;

use super::shared_owners::SharedOwners;

/// The receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageTarget {
    /// The shard that owns the addresses of this bucket.
    Owner(Bucket),
    /// This shard.
    Shard(ShardAddress),
}

impl From<ShardAddress> for MessageTarget {
    fn from(shard: ShardAddress) -> MessageTarget {
        MessageTarget::Shard(shard)
    }
}

impl From<Bucket> for MessageTarget {
    fn from(bucket: Bucket) -> MessageTarget {
        MessageTarget::Owner(bucket)
    }
}

/// The way of a message to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The receiver is this shard.
    Own,
    /// It goes by the queue of a shard of this process.
    Shard(ShardAddress),
    /// It goes by the link to another node.
    Node(ShardAddress),
    /// It waits until the owner is known and serves the bucket.
    Wait,
    /// The receiver is a shard of a life that is over.
    Nowhere,
}

/// One queue for each shard of the node, by number, and one for other nodes.
pub struct ShardQueues {
    own: ShardAddress,
    map: ShardMap,
    /// Only where nodes of a farm share a database.
    shared: Option<Box<SharedOwners>>,
    /// Taken at the end of the turn by [`ShardQueues::take`].
    queues: Vec<Vec<XmppShardMessage>>,
    /// Taken at the end of the turn by [`ShardQueues::take_for_nodes`].
    for_nodes: Vec<(ShardAddress, XmppShardMessage)>,
}

impl ShardQueues {
    /// Empty queues of this shard, for the shards of its process.
    pub fn new(own: ShardAddress, map: ShardMap) -> ShardQueues {
        let queues = map.all().map(|_| Vec::new()).collect();
        ShardQueues { own, map, shared: None, queues, for_nodes: Vec::new() }
    }

    /// Buckets are those of a farm whose nodes share a database.
    pub fn share_buckets(&mut self) {
        self.shared = Some(Box::new(SharedOwners::new(self.own)));
    }

    /// The owners of a farm's buckets; none where the process owns all of them.
    pub fn shared(&self) -> Option<&SharedOwners> {
        self.shared.as_deref()
    }

    /// The owners of a farm's buckets, to be changed.
    pub fn shared_mut(&mut self) -> Option<&mut SharedOwners> {
        self.shared.as_deref_mut()
    }

    /// The shard whose queues these are.
    pub fn own(&self) -> ShardAddress {
        self.own
    }

    /// The shards of this process.
    pub fn map(&self) -> ShardMap {
        self.map
    }

    /// True if this shard owns the address.
    pub fn owns(&self, bare: &str) -> bool {
        let bucket = Bucket::of(bare);
        match &self.shared {
            Some(shared) => shared.serves(bucket),
            None => self.map.owner(bucket) == self.own,
        }
    }

    /// The way of a message now.
    pub fn way(&self, target: MessageTarget) -> Way {
        if let Some(shared) = &self.shared {
            return shared.way(target, self.map);
        }
        let to = match target {
            MessageTarget::Owner(bucket) => self.map.owner(bucket),
            MessageTarget::Shard(shard) => shard,
        };
        if to == self.own {
            Way::Own
        } else if self.map.has(to) {
            Way::Shard(to)
        } else {
            Way::Nowhere
        }
    }

    /// For a shard of the map.
    pub fn push(&mut self, to: ShardAddress, message: XmppShardMessage) {
        self.queues[usize::from(to.shard)].push(message);
    }

    /// Queues a message for a shard of another node.
    pub fn push_for_node(&mut self, to: ShardAddress, message: XmppShardMessage) {
        self.for_nodes.push((to, message));
    }

    /// Moves out what waits for a shard.
    pub fn take(&mut self, shard: usize) -> Vec<XmppShardMessage> {
        std::mem::take(&mut self.queues[shard])
    }

    /// Moves out what is for other nodes.
    pub fn take_for_nodes(&mut self) -> Vec<(ShardAddress, XmppShardMessage)> {
        std::mem::take(&mut self.for_nodes)
    }
}
