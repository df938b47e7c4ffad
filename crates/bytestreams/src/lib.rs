//! The proxy of SOCKS5 bytestreams (XEP-0065 §6): a target and a requester that cannot reach each other both connect to the proxy,
//! and it passes the bytes of each on to the other.
//!
//! [`StreamHash`] names a transfer; [`Handshake`] reads what a connection sends first (RFC 1928); [`Proxy`] has the connections of a node
//! until they end: it pairs those that name the same transfer, and joins the two when the requester activates it by XMPP.
//!
//! Bytes of connections, activations and the time go in, [`Effect`]s come out. `xmpp_io::bytestreams` has the sockets, and moves the bytes
//! of an active transfer without asking here again; `chat::bytestreams` answers the requests for the service's address.

#![warn(missing_docs)]

mod handshake;
mod hash;
pub mod limits;
mod proxy;

pub use handshake::{Fault, Handshake, Progress};
pub use hash::StreamHash;
pub use proxy::{
    Activation, ActivationFault, ConnectionId, Counts, Effect, JoinedConnection, Proxy, ProxySettings,
};
