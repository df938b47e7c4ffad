//! The types between the SIP core and sockets (RFC 3261 §18). The core names addresses and
//! flows; the server owns the sockets behind them.

use std::net::SocketAddr;

use bytes::Bytes;
pub use router::{FlowId, Transport};

use crate::wire::Uri;

/// One whole SIP message as it came from the network: a datagram, a framed piece of a stream or a
/// WebSocket message. Keep-alives never get here.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The message, as on the wire.
    pub bytes: Bytes,
    /// The way it came, which a response takes back.
    pub source: Source,
}

/// The transport, addresses and connection on which a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The transport it came by.
    pub transport: Transport,
    /// The listening address it arrived at.
    pub local: SocketAddr,
    /// The sender's address.
    pub remote: SocketAddr,
    /// The connection it came on; `None` over UDP.
    pub flow: Option<FlowId>,
}

/// The names of a peer's certificate, verified, in lower case (RFC 5922 §7.1).
pub type TlsNames = std::sync::Arc<[Box<str>]>;

/// Where a message goes. With a flow it goes there and nowhere else unless `reconnect` allows a new
/// connection to `remote` (RFC 3261 §18.2.2 for responses).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The transport to send by.
    pub transport: Transport,
    /// The address to send to.
    pub remote: SocketAddr,
    /// The connection to send on.
    pub flow: Option<FlowId>,
    /// The listening address to send from, where there is a choice.
    pub local: Option<SocketAddr>,
    /// The name the peer's certificate must carry (RFC 5922); `None` accepts only the address itself.
    pub tls_name: Option<Box<str>>,
    /// True: when the flow is closed, a new connection to `remote` may be made.
    pub reconnect: bool,
}

impl Target {
    /// Its name for [`Resolver::penalise`](crate::resolve::Resolver::penalise).
    pub(crate) fn hop(&self) -> (SocketAddr, Transport) {
        (self.remote, self.transport)
    }

    /// The way there, as later requests may use it.
    pub(crate) fn received(&self) -> router::Received {
        let local = self.local.unwrap_or(self.remote);
        router::Received { transport: self.transport, local, remote: self.remote, flow: self.flow }
    }
}

/// One message to send. `report` is told back when it certainly could not be sent.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The destination.
    pub target: Target,
    /// The message, as on the wire.
    pub bytes: Bytes,
    /// The number that a report of its failure carries; `None`: a failure is of no consequence.
    pub report: Option<TransmitId>,
}

/// Names a transmission in a report of its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransmitId(pub u64);

/// An address as keyed hashes take it: an IPv4 address is the same however it is written.
pub(crate) fn address_bytes(address: std::net::IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(address) => address.octets(),
    }
}

/// True if the transport delivers, or reports that it could not (RFC 3261 §17: timers A, D, E, G, I, J, K depend on it).
pub fn is_reliable(transport: Transport) -> bool {
    transport != Transport::Udp
}

/// The transport that the `transport` parameter of a URI names (RFC 3261 §19.1.1, RFC 7118 §5.1); `secure`: of a sips URI. `None`: none
/// that we know.
pub(crate) fn uri_transport(name: &[u8], secure: bool) -> Option<Transport> {
    match name.to_ascii_lowercase().as_slice() {
        b"udp" => Some(Transport::Udp),
        b"tcp" if secure => Some(Transport::Tls),
        b"tcp" => Some(Transport::Tcp),
        b"tls" => Some(Transport::Tls),
        b"ws" if secure => Some(Transport::Wss),
        b"ws" => Some(Transport::Ws),
        b"wss" => Some(Transport::Wss),
        _ => None,
    }
}

/// False if a URI names a transport that we do not know: no request can go where it says.
pub(crate) fn has_known_transport(uri: &Uri<'_>) -> bool {
    uri.params.get("transport").is_none_or(|name| uri_transport(name, false).is_some())
}

/// The token of a Via's sent-protocol.
pub fn via_token(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "UDP",
        Transport::Tcp => "TCP",
        Transport::Tls => "TLS",
        Transport::Ws => "WS",
        Transport::Wss => "WSS",
    }
}
