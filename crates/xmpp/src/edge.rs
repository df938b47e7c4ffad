//! The address of a connection inside the server.

pub use cluster::{Life, ShardAddress};

/// A connection: the shard that holds it and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    /// The shard that holds the connection.
    pub shard: ShardAddress,
    /// The connection's number, which the shard never uses twice.
    pub connection: u64,
}
