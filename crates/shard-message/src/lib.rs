//! The messages between shards, of one process and of several, and their form on the wire.
//!
//! [`ShardMessage`] is plain data: numbers, text, addresses of shards, and values of the cores, but no channel, no
//! borrowed value and nothing that only one process could read. Each of its variants could come from another process.
//! An answer is a message of its own, which carries the number that the asker gave to its question. `server::message` adds
//! what comes from the shard's own process, and [`wire`] writes and reads what crosses nodes.
//!
//! `docs/decisions/0037-messages-between-shards-are-plain-data.md` has the reasons.

#![warn(missing_docs)]

pub mod limits;
pub mod wire;
mod xmpp;

use std::sync::Arc;

use ::voice::RoomMessage;
use call::DownTargets;
use cluster::ShardAddress;
use net::Certified;
use router::{Answer, AskId, Push, Query};
use sip::endpoint::SharedResponse;
use sip::transport::{Packet, Transmit, TransmitId};

pub use self::xmpp::{ActAnswer, StreamCondition, XmppShardMessage, is_copy};

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
    /// A response to a request that another life forwarded, for all shards.
    SharedResponse(SharedResponse),
    /// These targets do not answer their probes.
    Down(Arc<DownTargets>),
    /// Between a conference or queue and its members.
    Room(RoomMessage),
    /// For chat clients and their hosts; all of a turn.
    Xmpp(Vec<XmppShardMessage>),
}
