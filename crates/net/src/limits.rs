//! Limits of the network layer, with their reasons and what happens at them. Those in `NetSettings` are defaults.

use std::time::Duration;

/// Bytes of kernel receive buffer asked for per UDP socket: at 20,000 datagrams/s of 700 bytes (2 KiB each
/// as the kernel counts) 200 ms. Less is granted when `net.core.rmem_max` says so; the operator is told.
pub const UDP_RECEIVE_BUFFER: usize = 8 * 1024 * 1024;

/// Bytes of kernel send buffer asked for per UDP socket: a whole outbox of one turn.
pub const UDP_SEND_BUFFER: usize = 1024 * 1024;

/// Datagrams waiting for a full kernel send buffer, per socket. More: the newest is not sent, and reported.
pub const UDP_SEND_QUEUE: usize = 4096;

/// Datagrams remembered per UDP socket, to know what an ICMP error is about: those of the last tenth of a
/// second at 10,000 a second. An older one is only missed by its timers.
pub const UDP_SENT: usize = 1024;

/// Packets for the capture server that wait for the end of a turn: more than the messages of a turn of a busy shard. More: dropped,
/// and counted.
pub const CAPTURE_PACKETS: usize = 4_096;

/// Bytes of these packets, and of their socket's send buffer asked for. More: as above.
pub const CAPTURE_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of memory for these packets that are kept between turns.
pub const CAPTURE_KEPT: usize = 256 * 1024;

/// Messages from streams waiting for the shard. More: connections are not read from, so TCP slows the peers.
pub const STREAM_INBOX: usize = 1024;

/// Messages taken from streams in one turn of the shard's loop, so that datagrams and timers get theirs.
pub const STREAM_BATCH: usize = 256;

/// Bytes of memory waiting to be written to one connection. More: the peer does not read; the connection is closed.
pub const FLOW_WRITE_QUEUE: usize = 1024 * 1024;

/// Bytes of one shard waiting to be written: 64 of the largest queues. More: the connections are closed that have more than the next
/// number and whose peers do not read.
pub const WRITE_QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of one queue that are never too many: some messages of one turn.
pub const WRITE_QUEUE_FREE: usize = 8 * 1024;

/// A peer that has not taken a message for so long does not read; also the time between two looks for such. Some repetitions of a lost
/// segment take less.
pub const WRITE_STALL: Duration = Duration::from_secs(2);

/// Messages waiting for one connection to be made. More: not sent, and reported.
pub const FLOW_CONNECT_QUEUE: usize = 256;

/// Connections of one shard. More: closed as soon as accepted, and counted.
pub const FLOWS: usize = 200_000;

/// Connections of the node from one source: a large office behind one NAT, or a load generator. More: as above. They
/// have all sent a whole message or signed in: those in progress have caps of their own.
pub const FLOWS_PER_SOURCE: usize = 20_000;

/// Connections in progress (before the first message, the sign-in or a request) of one kind of listener at most: 500
/// sign-ins a second that take ten seconds each, and as many again. More: the one that is idle longest is closed, and if
/// none is idle the new one.
pub const IN_PROGRESS: usize = 8_192;

/// The same where few connections are due: components, REST clients and scrapers.
pub const IN_PROGRESS_FEW: usize = 1_024;

/// Connections of one source that wait for the activation of a bytestream. A client waits with one or two; behind one address are those of a
/// whole office.
pub const IN_PROGRESS_BYTESTREAMS: usize = 128;

/// Connections in progress of one kind have one in so many of the files that the process may open: with two
/// kinds of listeners under attack, half of all files are left to established connections.
pub const IN_PROGRESS_FILES: usize = 4;

/// Connections in progress that fit at least, however few files the process may open.
pub const IN_PROGRESS_LEAST: usize = 64;

/// A connection in progress that has made a step so lately does not make room: its next flight is on its way, or waits in
/// the kernel until this process gets to it. A new connection is refused for no longer than this.
pub const IN_PROGRESS_GRACE: Duration = Duration::from_millis(500);

/// Connections looked at for one that is idle. Among so many at least one is, unless nearly all make progress.
pub const IN_PROGRESS_LOOKS: usize = 64;

/// Places of connections that are in progress no longer and still stand in a queue, besides as many as are.
pub const IN_PROGRESS_LEFT: usize = 64;

/// Connections in progress that are closed when the process has no file descriptor for a new one. If none is idle, or these were not
/// enough, the connections that wait are reset.
pub const SHED: usize = 16;

/// The part of the room for connections that is left when a listener of a shared address closes, one in so many: room for
/// those that the kernel has accepted for it meanwhile, and for connections that this node opens itself.
pub const ROOM_LEFT: usize = 16;

/// The part that is free when the listener opens again: twice as much, so that it does not close at once. Connections that end and
/// come again would otherwise close and open it in turn.
pub const ROOM_FREE: usize = 8;

/// Open files that are left at least when a listener of a shared address closes, however few the process may have: the database, the
/// council and the links open some again after a fault.
pub const FILES_LEFT: usize = 16;

/// The pause between two looks at whether there is room again. A look at the open files of a process that has very many costs
/// milliseconds before Linux 6.2.
pub const ROOM_LOOK: Duration = Duration::from_millis(500);

/// For the first SIP message on a connection: phones connect to send. As long as Timer F, after which the request that was
/// to be sent has failed. Later: closed, and counted.
pub const FIRST_MESSAGE: Duration = Duration::from_secs(32);

/// For a SIP message on a connection, from its first byte to its last: 320 KiB over a slow line of 100 kbit/s. Later:
/// closed, and counted.
pub const MESSAGE: Duration = Duration::from_secs(30);

/// Bytes of one shard held by SIP messages that have not come whole: 200 of the largest. More: the connections are closed
/// whose messages grow beyond the next number.
pub const PARTIAL_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of one such message that are never too many: most messages are smaller.
pub const PARTIAL_FREE: usize = 8 * 1024;

/// Silence after which a connection is closed. RFC 5626 §4.4.1 makes clients send a keep-alive at least
/// every 840 s when we do not say otherwise; most do every 120 s.
pub const FLOW_IDLE: Duration = Duration::from_secs(900);

/// For a TCP connection to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// For the TLS and WebSocket handshakes together. Longer: closed, and counted.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Names of a client's certificate that count; a carrier's has a handful. The others prove nothing.
pub const CERTIFICATE_NAMES: usize = 32;

/// The shortest time between two log lines about connections that found no file descriptor: clients that are refused come again at once.
pub const UNACCEPTED_LOG: Duration = Duration::from_secs(10);

/// Connections that a listener accepts before other tasks of its shard run: some ten milliseconds of work.
pub const ACCEPT_BATCH: usize = 512;

/// TLS handshakes of one shard that compute at the same time, on helper threads. More wait their turn.
pub const HANDSHAKES: usize = 4;

/// After a stream could not be cut into messages: how long the answer has to get out before the close.
pub const FAULT_LINGER: Duration = Duration::from_secs(1);

/// Open DNS questions of one shard. More: `DnsFault::Busy`.
pub const DNS_QUESTIONS: usize = 512;

/// For a DNS question with all its retries. Longer: `DnsFault::Failed`.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);

/// The time that an address of the hosts file is kept, in seconds: the file is local, and an operator who
/// changes it expects that it counts soon.
pub const HOSTS_FILE_TTL: u32 = 10;

/// The time between two looks at the hosts file: questions follow from URIs of strangers, and each look is a system call of a shard.
pub const HOSTS_FILE_LOOK: Duration = Duration::from_secs(1);

/// Records of one answer that are handed on; the rest is left out.
pub const DNS_RECORDS: usize = 64;

/// Answers of one shard's DNS cache; least used ones make room.
pub const DNS_CACHE: u64 = 4096;

/// After a failed accept, mostly for want of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes after which an HTTP connection that is read or written has made a step: an honest one moves more than these
/// within `IN_PROGRESS_GRACE`, and one that trickles does not.
pub const HTTP_STEP: usize = 4 << 10;

/// Silence after which an HTTP connection is closed, whatever is under way: more than a request of BOSH waits for its
/// answer.
pub const HTTP_IDLE: Duration = Duration::from_secs(75);
