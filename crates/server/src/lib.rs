//! The server around the cores: configuration, listeners, shards. The binary is a few lines over this.

pub mod clock;
pub mod config;
pub mod limits;
pub mod net;
pub mod node;
pub mod routes;
pub mod shard;
#[cfg(test)]
mod testing;
