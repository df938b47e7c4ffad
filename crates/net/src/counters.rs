//! Counters of the network layer of one shard since its start.

/// Totals, except `flows_open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetCounters {
    /// UDP datagrams received.
    pub datagrams_in: u64,
    /// UDP datagrams sent.
    pub datagrams_out: u64,
    /// Bytes of datagrams, without IP and UDP headers.
    pub datagram_bytes_in: u64,
    /// Bytes of sent datagrams, without IP and UDP headers.
    pub datagram_bytes_out: u64,
    /// Datagrams the kernel threw away because a socket's receive buffer was full. It tells with the next one
    /// that gets in.
    pub kernel_drops: u64,
    /// Empty datagrams, those of line ends or zeros only, and STUN: keep-alives, which end here.
    pub datagram_keepalives: u64,
    /// Messages received by TCP, TLS and WebSocket.
    pub stream_messages_in: u64,
    /// Messages sent by TCP, TLS and WebSocket.
    pub stream_messages_out: u64,
    /// Keep-alives received by TCP, TLS and WebSocket (RFC 5626 §4.4.1).
    pub stream_keepalives: u64,
    /// Streams that could not be cut into messages.
    pub stream_faults: u64,
    /// Connections open now, by TCP, TLS and WebSocket.
    pub flows_open: u64,
    /// Connections accepted.
    pub flows_accepted: u64,
    /// Connections made by the shard.
    pub flows_connected: u64,
    /// Over `max_flows` or `max_flows_per_source`, or while none of those in progress was idle.
    pub flows_refused: u64,
    /// Closed because a message took too long or was part of too many incomplete ones.
    pub flows_slow_closed: u64,
    /// Closed for silence.
    pub flows_idle_closed: u64,
    /// TLS and WebSocket handshakes that failed.
    pub handshake_failures: u64,
    /// Certificates of clients that an authority vouches for, and those that none does.
    pub client_certificates: u64,
    /// Certificates of clients that no authority vouches for.
    pub client_certificates_unverified: u64,
    /// Connections that could not be made.
    pub connect_failures: u64,
    /// Messages that certainly were not sent, for any reason.
    pub send_failures: u64,
    /// Those of them for which a queue was full.
    pub queue_overflows: u64,
    /// Copies of messages handed to the kernel for the capture server.
    pub captures_sent: u64,
    /// Copies dropped because too many waited or the kernel did not take them.
    pub captures_dropped: u64,
}
