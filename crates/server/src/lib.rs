//! The server around the cores: configuration, listeners, shards. The binary is a few lines over this.

pub mod farm;
pub mod http;
pub mod limits;
pub mod limits_table;
pub mod logging;
pub mod message;
pub mod node;
pub mod operate;
mod rest;
pub mod routes;
pub mod shard;
mod sign_in_failures;
pub mod signals;
#[cfg(test)]
mod testing;
pub mod xmpp;

pub use config;
pub use net::{self, clock};
