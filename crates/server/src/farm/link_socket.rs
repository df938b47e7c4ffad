//! The socket of the listener of links. It has its address from the node's start, and listens once the node is a member.
//!
//! A node that starts again after a kill waits for its name until the council forgets the life before. Its address refuses
//! connections meanwhile, as an address without any process does: that is the other nodes' evidence that the life before is over
//! (`docs/decisions/0059`). An address that is in use is still an error at the start.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait to be accepted: two of each of 256 nodes that start together.
const BACKLOG: i32 = 512;

/// A bound socket that does not listen yet.
pub(super) struct LinkSocket(Socket);

impl LinkSocket {
    /// # Errors
    /// The address is in use or is none of this machine.
    pub(super) fn bind(address: SocketAddr) -> io::Result<LinkSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // As `TcpListener::bind`: connections of the life before may linger in TIME-WAIT (RFC 9293 §3.6.1).
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(LinkSocket(socket))
    }

    /// # Errors
    /// Another process has begun to listen at the address.
    pub(super) fn listen(self) -> io::Result<TcpListener> {
        self.0.listen(BACKLOG)?;
        Ok(self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn an_address_refuses_connections_until_its_node_is_a_member() {
        let socket = LinkSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = socket.0.local_addr().unwrap().as_socket().unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = socket.listen().unwrap();
        TcpStream::connect(address).unwrap();
        assert!(LinkSocket::bind(address).is_err(), "another process is told at its start");
        drop(listener);
    }
}
