//! The node's part of calls that applications answer: the sockets of their media, their recordings' files, and the
//! helpers that do their slow work. The calls themselves are the crate `voice`.

pub(crate) mod helpers;
pub(crate) mod limits;
mod message;
mod node;
mod ports;
pub(crate) mod recordings;

pub use message::{Order, VoiceShardMessage};
pub(crate) use node::{NodeVoice, ShardVoice};
