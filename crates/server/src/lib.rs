//! The server around the cores: configuration, listeners, shards. The binary is a few lines over this.

#![warn(missing_docs)]

mod console;
mod console_directory;
pub mod farm;
pub mod http;
pub mod limits;
pub mod limits_table;
pub mod message;
pub mod node;
pub mod operate;
mod outage_log;
mod recorded_sound;
mod rest;
pub mod routes;
pub mod shard;
pub mod signals;
#[cfg(test)]
mod testing;
pub mod waiting;
pub mod xmpp;
