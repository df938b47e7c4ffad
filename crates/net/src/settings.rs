//! Settings of the network layer, its events and its errors.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sip::transport::{FlowId, Source, TlsNames, TransmitId, Transport, via_token};

use super::admission::{Admission, Bounds};
use super::capture::{CaptureSettings, MessageTap};
use super::dns::DnsAnswer;
use super::proxies::Proxies;
use super::tls::Tls;
use crate::limits;

/// One address to listen at. The same for every shard: each has its own socket there (`SO_REUSEPORT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The transport of the socket.
    pub transport: Transport,
    /// The address of the socket; port 0 lets the system choose.
    pub address: SocketAddr,
}

/// The result of `Io::bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// With the real port, where port 0 was asked for.
    pub address: SocketAddr,
    /// UDP: bytes of kernel receive buffer that were granted. Less than `NetSettings::udp_receive_buffer`
    /// deserves a warning that names `net.core.rmem_max`.
    pub receive_buffer: Option<usize>,
}

/// Defaults and reasons are in `limits`.
#[derive(Clone, Debug)]
pub struct NetSettings {
    /// Bytes of kernel receive buffer of one UDP socket.
    pub udp_receive_buffer: usize,
    /// Datagrams that wait for a full kernel send buffer, for each socket.
    pub udp_send_queue: usize,
    /// Bytes of memory that wait to be written to one connection.
    pub flow_write_queue: usize,
    /// The same of all connections.
    pub max_queued: usize,
    /// Messages that wait for one connection to be made.
    pub flow_connect_queue: usize,
    /// Connections of one shard.
    pub max_flows: usize,
    /// Other processes listen at the same addresses: they get the connections that this one has no room for.
    pub shares_ports: bool,
    /// Connections from one source, over all shards that share `admission`.
    pub max_flows_per_source: usize,
    /// Connections in progress, of all shards.
    pub admission: Arc<Admission>,
    /// For the first message of a connection, and for each one from its first byte to its last.
    pub first_message: Duration,
    /// For each message of a connection, from its first byte to its last.
    pub message: Duration,
    /// Bytes of messages that have not come whole, of all connections.
    pub max_partial: usize,
    /// Silence after which a connection is closed.
    pub flow_idle: Duration,
    /// For a TCP connection to be made.
    pub connect_timeout: Duration,
    /// For the TLS and WebSocket handshakes together.
    pub handshake_timeout: Duration,
    /// TLS handshakes of one shard that compute at the same time; others wait for their turn.
    pub max_handshakes: usize,
    /// The policy for client certificates.
    pub client_certificates: ClientCertificates,
    /// `None`: TLS and WSS cannot be bound or connected.
    pub tls: Option<Arc<Tls>>,
    /// Origins (`https://phone.example`) a browser may come from; empty: any, or none given.
    pub ws_origins: Vec<Box<str>>,
    /// Reverse proxies before the WebSocket listeners.
    pub proxies: Proxies,
    /// The capture server, and what it is sent; `None`: messages are not captured.
    pub capture: Option<CaptureSettings>,
    /// Looks at each message; `None`: nothing does.
    pub tap: Option<Arc<dyn MessageTap>>,
    /// DNS servers; empty: those of the system.
    pub nameservers: Vec<SocketAddr>,
    /// For a DNS question with all its retries.
    pub dns_timeout: Duration,
    /// Open DNS questions of one shard.
    pub max_dns_questions: usize,
}

impl Default for NetSettings {
    fn default() -> Self {
        NetSettings {
            udp_receive_buffer: limits::UDP_RECEIVE_BUFFER,
            udp_send_queue: limits::UDP_SEND_QUEUE,
            flow_write_queue: limits::FLOW_WRITE_QUEUE,
            max_queued: limits::WRITE_QUEUE_BYTES,
            flow_connect_queue: limits::FLOW_CONNECT_QUEUE,
            max_flows: limits::FLOWS,
            shares_ports: false,
            max_flows_per_source: limits::FLOWS_PER_SOURCE,
            admission: Admission::new(Bounds::default()),
            first_message: limits::FIRST_MESSAGE,
            message: limits::MESSAGE,
            max_partial: limits::PARTIAL_BYTES,
            flow_idle: limits::FLOW_IDLE,
            connect_timeout: limits::CONNECT_TIMEOUT,
            handshake_timeout: limits::HANDSHAKE_TIMEOUT,
            max_handshakes: limits::HANDSHAKES,
            client_certificates: ClientCertificates::default(),
            tls: None,
            ws_origins: Vec::new(),
            proxies: Proxies::default(),
            capture: None,
            tap: None,
            nameservers: Vec::new(),
            dns_timeout: limits::DNS_TIMEOUT,
            max_dns_questions: limits::DNS_QUESTIONS,
        }
    }
}

/// The policy for client certificates at the listeners of SIP over TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// No certificate.
    Off,
    /// A certificate, which a peer may have or not. One that is not verified proves nothing.
    #[default]
    Optional,
    /// As `Optional`, and a certificate that is not verified ends the connection.
    Verified,
}

/// The names of a peer's verified certificate, until its connection closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// The connection of the peer.
    pub flow: FlowId,
    /// `None`: it is closed.
    pub names: Option<TlsNames>,
}

/// Events besides messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// A connection is ready for messages; accepted, or made for a message.
    FlowOpened(Source),
    /// A connection ended, for this reason.
    FlowClosed(FlowId, CloseReason),
    /// The message certainly did not reach the peer. Only messages with a report id come back.
    SendFailed(TransmitId, SendFault),
    /// `Io::lookup` was answered.
    Dns(DnsAnswer),
    /// A stream broke the rules in a way that has an answer (`status`, reason phrase): `head` is start line
    /// and headers of what may be a request. The connection takes one answer and is then closed.
    StreamFault {
        /// The connection and the peer's address.
        source: Source,
        /// The start line and headers, as received.
        head: Bytes,
        /// The status code and reason phrase of the answer.
        reply: (u16, &'static str),
    },
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The peer closed in order.
    Peer,
    /// Reset, or no acknowledgement from the peer's host.
    Broken,
    /// No traffic for `flow_idle`.
    Idle,
    /// A message did not come whole in time (`first_message`, `message`), or is part of too many such (`max_partial`).
    Slow,
    /// It made room for another connection before its first message.
    Evicted,
    /// The peer does not read: `flow_write_queue`, or `max_queued`.
    Overflow,
    /// The bytes received cannot be cut into messages.
    Malformed,
    /// The connection could not be made; refused, unreachable or no answer in time.
    ConnectFailed,
    /// TLS or WebSocket handshake failed.
    HandshakeFailed,
    /// `Io::close_flow`, or the shard ends.
    Ours,
}

/// The reason why a message could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendFault {
    /// The flow is not there (any more) and a new connection was not allowed.
    FlowGone,
    /// The connection closed, or could not be made, before the message was written.
    Closed(CloseReason),
    /// Longer than a datagram can be, or than the path takes.
    TooLarge,
    /// A queue was full.
    Overflow,
    /// We have no socket for this transport and address family.
    NoSocket,
    /// No route, or ICMP from the peer's side reported that nothing listens there.
    Unreachable,
}

/// This address cannot be listened at.
#[derive(Debug)]
pub struct NetError {
    /// The listener that could not be bound.
    pub listener: Listener,
    /// The error of the system call.
    pub error: io::Error,
}

impl std::fmt::Display for NetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Listener { transport, address } = self.listener;
        write!(f, "cannot listen at {} {address}: {}", via_token(transport), self.error)?;
        if self.error.kind() == io::ErrorKind::AddrInUse {
            f.write_str(
                "; another program has it, ss -lntup shows which; end it, or change the address in the configuration. \
                 Nodes of one farm share an address with [farm] shared_ports = true",
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for NetError {}
