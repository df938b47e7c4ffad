//! The server around the cores: configuration, listeners, shards. The binary is a few lines over this.

pub mod clock;
pub mod config;
pub mod limits;
pub mod net;
#[cfg(test)]
mod testing;
