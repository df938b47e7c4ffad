//! HEP version 3 (Homer Encapsulation Protocol, revision 12): a captured message with its addresses and time, as a capture server
//! such as Homer reads it. `net::capture` calls this for each message; it writes into the caller's buffer and allocates nothing
//! once that has grown.
//!
//! A packet is `HEP3`, its length, and chunks: a vendor (0: the specification's own), a type, a length with the six bytes of this
//! head, and the value, all numbers in network order.

#![warn(missing_docs)]

use std::net::{IpAddr, SocketAddr};

use stdx::Instant;

/// Bytes of a message that a packet has at most. The length of a packet is a number of 16 bits and a datagram has 65,507 bytes; the
/// rest of a longer message is left out, its header fields are first and mostly the reason to look.
pub const MESSAGE_BYTES: usize = 60_000;

/// Bytes of a Call-ID that a packet has at most: with a message and a password of full length a packet remains a datagram.
pub const CORRELATION_BYTES: usize = 1_024;

/// Bytes of a password that a packet has at most.
pub const PASSWORD_BYTES: usize = 1_024;

/// The transport of a captured message, as capture servers tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpProtocol {
    /// TCP, and WebSocket over it.
    Tcp,
    /// UDP.
    Udp,
    /// TLS, and WebSocket over it. It has no number of its own among IP's protocols: COMPAT(Kamailio, OpenSIPS, Homer) take that of
    /// XNS-IDP for it.
    Tls,
}

impl IpProtocol {
    fn number(self) -> u8 {
        match self {
            IpProtocol::Tcp => 6,
            IpProtocol::Udp => 17,
            IpProtocol::Tls => 22,
        }
    }
}

/// The name of a node at the capture server, and its proof.
#[derive(Clone, PartialEq, Eq)]
pub struct CaptureAgent {
    /// The number of the node.
    pub id: u32,
    /// The password that the server expects; empty: none.
    pub password: Box<str>,
}

impl std::fmt::Debug for CaptureAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureAgent").field("id", &self.id).finish_non_exhaustive()
    }
}

/// One captured message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedMessage<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The transport.
    pub protocol: IpProtocol,
    /// The time at which the message was received or sent.
    pub at: Instant,
    /// The Call-ID, which joins the messages of a call; empty: unknown.
    pub correlation: &'a [u8],
    /// The message, as on the wire.
    pub message: &'a [u8],
}

/// Appends the packet of a message.
pub fn write_packet(agent: &CaptureAgent, captured: &CapturedMessage<'_>, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(b"HEP3\0\0");
    write_addresses(captured, out);
    let micros = captured.at.as_micros();
    // The format ends in 2106; a later time would be wrong in any form.
    let seconds = u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX);
    let fraction = u32::try_from(micros % 1_000_000).unwrap_or_default();
    chunk(out, 0x0009, &seconds.to_be_bytes());
    chunk(out, 0x000a, &fraction.to_be_bytes());
    // The protocol of the message: SIP.
    chunk(out, 0x000b, &[1]);
    chunk(out, 0x000c, &agent.id.to_be_bytes());
    if !agent.password.is_empty() {
        chunk(out, 0x000e, first(agent.password.as_bytes(), PASSWORD_BYTES));
    }
    if !captured.correlation.is_empty() {
        chunk(out, 0x0011, first(captured.correlation, CORRELATION_BYTES));
    }
    chunk(out, 0x000f, first(captured.message, MESSAGE_BYTES));
    let length = u16::try_from(out.len() - begin).expect("the parts are bounded so that they fit");
    out[begin + 4..begin + 6].copy_from_slice(&length.to_be_bytes());
}

/// Both addresses are of one family in the packet. An IPv4 address beside an IPv6 one is written as a mapped one (RFC 4291 §2.5.5.2).
fn write_addresses(captured: &CapturedMessage<'_>, out: &mut Vec<u8>) {
    let (source, destination) =
        (captured.source.ip().to_canonical(), captured.destination.ip().to_canonical());
    let protocol = captured.protocol.number();
    if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        // The numbers of the families are those of Linux.
        chunk(out, 0x0001, &[2]);
        chunk(out, 0x0002, &[protocol]);
        chunk(out, 0x0003, &source.octets());
        chunk(out, 0x0004, &destination.octets());
    } else {
        chunk(out, 0x0001, &[10]);
        chunk(out, 0x0002, &[protocol]);
        chunk(out, 0x0005, &as_v6(source));
        chunk(out, 0x0006, &as_v6(destination));
    }
    chunk(out, 0x0007, &captured.source.port().to_be_bytes());
    chunk(out, 0x0008, &captured.destination.port().to_be_bytes());
}

fn as_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn first(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[..bytes.len().min(most)]
}

fn chunk(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(6 + value.len()).expect("values are bounded");
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

/// True if a call is among the `percent` of all that are captured. Every node decides alike, so a call is captured whole or not at
/// all; FNV-1a spreads Call-IDs evenly enough.
pub fn is_sampled(correlation: &[u8], percent: u32) -> bool {
    if percent >= 100 {
        return true;
    }
    let hash = correlation.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    // The upper half depends on all bytes.
    ((hash >> 32) * 100) >> 32 < u64::from(percent)
}
