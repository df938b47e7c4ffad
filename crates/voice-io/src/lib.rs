//! The node's part of calls that applications answer: the sockets of their media, their recordings' files, and the
//! helpers that do their slow work. The calls themselves are the crate `voice`.

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
