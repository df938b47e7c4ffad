//! Messages to the calls of one shard.
//!
//! They come from the helpers' thread, from other shards and from the REST interface, and wait in the shard's queue.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ::voice::control::{Placing, Reply, Request};
use ::voice::{HelperResult, Numbers, RoomMessage};
use admin::control::ControlError;
use ivr::request::Wire;

/// One message for the calls of a shard.
#[derive(Debug)]
pub enum VoiceShardMessage {
    /// A helper's result for a call.
    Done(HelperResult),
    /// Between a conference or queue and its members.
    Room(RoomMessage),
    /// A request of the REST interface. All shards are asked; the one that knows the call does it.
    Control(Order),
    /// A request to an application about a call of a node that has died.
    Tell(Wire),
    /// A call in place of one of a node that has died.
    Redial(Box<Placing>),
    /// Bindings have changed.
    Numbers(Arc<Numbers>),
}

/// A question, and where its answer is waited for.
#[derive(Debug)]
pub struct Order {
    /// The request.
    pub request: Request,
    /// Has room for all shards' answers.
    pub answer: SyncSender<Result<Reply, ControlError>>,
}
