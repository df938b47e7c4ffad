//! The messages to a shard, in one place below all that send and handle them.
//!
//! [`ShardMessage`] is plain data: numbers, text, addresses of shards, and values of the cores, but no channel, no
//! borrowed value and nothing that only this process could read. Each of its variants could come from another process.
//! An answer is a message of its own, which carries the number that the asker gave to its question. [`LocalMessage`] is
//! all that comes from the shard's own process: from the store's threads, the operator, and tasks of the shard. An inbox
//! takes both.
//!
//! `docs/decisions/0037-messages-between-shards-are-plain-data.md` has the reasons.

mod local;
mod xmpp;

use std::sync::Arc;

use call::DownTargets;
use cluster::ShardAddress;
use router::{Answer, AskId, Push, Query};
use sip::transport::{Packet, Transmit, TransmitId};

pub use local::{
    BucketOrder, Command, Ended, LocalMessage, LocalXmppMessage, OperatorQuestion, RegisteredAddresses,
};
pub use xmpp::{StreamCondition, XmppShardMessage};

use ::voice::RoomMessage;
use net::Certified;

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

/// A message from one shard to another.
#[derive(Debug)]
pub enum ShardMessage {
    /// Messages that another shard received, and this one works on.
    Packets(Vec<Packet>),
    /// Verified certificates of peers, sent before the messages of these peers.
    Certified(Vec<Certified>),
    /// A message for a connection that this shard holds; `from` is told when it could not be sent.
    Transmit {
        /// The message and its target.
        transmit: Transmit,
        /// The shard whose message it is.
        from: ShardAddress,
    },
    /// The answer to a `Transmit` that failed.
    SendFailed(TransmitId),
    /// A question about an address whose bucket this shard owns.
    Ask {
        /// The shard that gets the answer.
        from: ShardAddress,
        /// The asker's number of the question.
        id: AskId,
        /// The question.
        query: Query,
    },
    /// The answer to an `Ask` of this shard.
    Answer {
        /// This shard's number of the question.
        id: AskId,
        /// The answer.
        answer: Answer,
    },
    /// News of a router for this shard's connections.
    Push(Push),
    /// These targets do not answer their probes.
    Down(Arc<DownTargets>),
    /// Between a conference or queue and its members.
    Room(RoomMessage),
    /// For chat clients and their hosts; all of a turn.
    Xmpp(Vec<XmppShardMessage>),
}
