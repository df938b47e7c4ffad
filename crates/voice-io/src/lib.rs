//! The node's part of calls that applications answer: the sockets of their media, their recordings' files, and the
//! helpers that do their slow work. The calls themselves are the crate `voice`.
//!
//! Three parts: [`Ports`], one for each shard, with the sockets of media; [`recordings`], for the node, with two threads that write; and [`helpers`],
//! for the node, with one thread for requests, speech, mail and streams. `voice` asks them through traits and never waits: an answer comes back to
//! the shard as a [`VoiceShardMessage`].

#![warn(missing_docs)]

pub mod helpers;
pub mod limits;
mod message;
mod node;
mod ports;
pub mod recordings;

pub use message::{Order, VoiceShardMessage};
pub use node::{NodeVoice, ShardVoice};
pub use ports::Ports;
