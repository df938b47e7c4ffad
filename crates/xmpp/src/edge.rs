//! The address of a connection inside the server.

/// A connection: the shard that holds it and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub shard: u16,
    pub connection: u64,
}
