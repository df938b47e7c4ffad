//! The messages in a shard's inbox: [`ShardMessage`] from other shards, and [`LocalMessage`], all that comes from the
//! shard's own process: from the store's threads, the operator, and tasks of the shard.

mod local;

pub use local::{
    BucketOrder, Command, Ended, LocalMessage, LocalXmppMessage, OperatorQuestion, RegisteredAddresses,
};
pub use shard_message::{ShardMessage, StreamCondition, XmppShardMessage};

/// One message in a shard's inbox.
#[derive(Debug)]
pub enum InboxMessage {
    /// From a shard.
    Shard(ShardMessage),
    /// From this process.
    Local(LocalMessage),
}

impl From<ShardMessage> for InboxMessage {
    fn from(message: ShardMessage) -> InboxMessage {
        InboxMessage::Shard(message)
    }
}

impl From<LocalMessage> for InboxMessage {
    fn from(message: LocalMessage) -> InboxMessage {
        InboxMessage::Local(message)
    }
}
