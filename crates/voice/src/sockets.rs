//! The media sockets of a shard's legs, as calls see them: the shard's edge opens, reads and closes them.

use std::io;
use std::net::SocketAddr;

use stdx::slab::Key;

/// One of a leg's two ports (RFC 3550 §11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// The even port, for RTP.
    Rtp,
    /// The odd port above it, for RTCP.
    Rtcp,
}

/// A leg's two ports, and the name by which the edge finds their sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair {
    /// RTP's port; RTCP's is the next one.
    pub port: u16,
    /// The edge's key of the two sockets.
    pub sockets: Key,
}

/// Sends datagrams of legs.
pub trait MediaSender {
    /// `false`: the datagram is lost. Late sound is worth nothing, so it is neither kept nor sent again.
    fn send(&self, pair: PortPair, kind: PortKind, to: SocketAddr, datagram: &[u8]) -> bool;
}

/// Opens and closes the sockets of a shard's legs. The edge gives each datagram that they receive to
/// `Voice::handle_datagram`.
pub trait MediaSockets {
    /// Opens both sockets of a leg.
    ///
    /// # Errors
    /// When no port is free, or the system opens no socket.
    fn open(&mut self, leg: Key) -> io::Result<PortPair>;

    /// Closes both sockets, and frees their ports.
    fn close(&mut self, pair: PortPair);

    /// The sending half.
    fn sender(&self) -> &dyn MediaSender;
}
