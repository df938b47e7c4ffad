//! Limits of the connections of chat and of files that users share, with their reasons and what happens at them.

use std::time::Duration;

use stdx::rate::{Policy, Rate};

/// Bytes waiting to be written to one XMPP stream. More: what waits is dropped, and the stream ends with
/// `resource-constraint`. Hosts send a window at a time (`chat::limits::WINDOW`), so nothing that others send gets there.
pub const XMPP_WRITE_QUEUE: usize = 4 * 1024 * 1024;

/// Bytes waiting to be written above which a stream is not read from: a client that does not read its answers asks no more.
pub const XMPP_UNREAD: usize = 256 * 1024;

/// Bytes waiting to be written below which a stream has drained, and its host sends more: some 10 ms at 1 MB/s, so that the
/// socket does not run dry meanwhile.
pub const XMPP_DRAINED: usize = 32 * 1024;

/// The time that a stream may take nothing of its queue, and at most as long as it may be silent. Longer:
/// `connection-timeout`. A session that can be resumed is.
pub const XMPP_STALLED: Duration = Duration::from_secs(60);

/// Events of one shard's streams that its turn has not handled. More: streams are not read from, so TCP slows
/// the clients.
pub const XMPP_EVENTS: usize = 1024;

/// For the last words of a stream to be read. Longer: the connection is closed without.
pub const XMPP_LINGER: Duration = Duration::from_secs(2);

/// For the owner of a session to end it once its client has closed the stream, and to send the stanzas of before. Longer: the
/// stream is closed without them, as when the owner is dead.
pub const XMPP_SESSION_END: Duration = Duration::from_secs(2);

/// For one stanza, from its first byte to its last: 256 KiB over 20 kbit/s. Longer: `connection-timeout`.
pub const XMPP_STANZA: Duration = Duration::from_secs(120);

/// For the answer to a probe of a silent stream. Longer: `connection-timeout`.
pub const XMPP_PROBE: Duration = Duration::from_secs(60);

/// Bytes waiting to be written to one component, which speaks for many users. More: what is sent to it is answered with
/// `resource-constraint` until it has read some. Twice as many, of answers to what it sends itself: its stream ends.
pub const XMPP_COMPONENT_QUEUE: usize = 4 * 1024 * 1024;

/// Connections of components of the node from one source. More: closed as soon as accepted.
pub const XMPP_COMPONENT_STREAMS: usize = 2_048;

/// Silence of ours after which a component gets a space. Written in vain, it ends a dead connection.
pub const XMPP_COMPONENT_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// For the head of an HTTP request of a chat client, and between two requests of one connection. Longer: closed.
pub const XMPP_HTTP_HEAD: Duration = Duration::from_secs(30);

/// For the body of a request of BOSH. Longer: 408.
pub const XMPP_HTTP_BODY: Duration = Duration::from_secs(30);

/// Bytes of the head of an HTTP request of a chat client. More: 431, and closed.
pub const XMPP_HTTP_BUFFER: usize = 16 << 10;

/// Bytes read at once of a connection of the proxy of bytestreams before its transfer is active: both messages of a handshake fit.
pub const BYTESTREAM_HANDSHAKE_READ: usize = 1_024;

/// Bytes that one direction of a transfer reads before it writes them: the memory of a transfer is two of these. Large enough that system
/// calls do not bound a transfer before the network does.
pub const BYTESTREAM_PIECE: usize = 32 << 10;

/// The time that a slot may be used (XEP-0363 §5 asks for 300 s). Later: 410.
pub const UPLOAD_SLOT: Duration = Duration::from_secs(300);

/// For a whole file to come. Longer: 408, and nothing stays of it.
pub const UPLOAD_TIME: Duration = Duration::from_secs(3_600);

/// Bytes of a file that are written or read at once, on a thread of the runtime's.
pub const UPLOAD_CHUNK: usize = 256 << 10;

/// Bytes of the key of a file in a store of objects: an id and the name of a node are far less.
pub const UPLOAD_KEY: usize = 512;

/// Bytes of a file that one node reads from another at once, four of them for a chunk: other messages of the class pass between two
/// pieces.
pub const UPLOAD_PIECE: usize = 64 << 10;

/// The time after which a client asks again for a file whose node does not answer: a node that died is back within a minute where it
/// is supervised. Answer: 503 with Retry-After.
pub const UPLOAD_RETRY: Duration = Duration::from_secs(60);

/// The time for which a node of a farm removes the old files of a folder that it shares. Longer without a renewal: the next node does.
pub const UPLOAD_SWEEPER: Duration = Duration::from_secs(600);

/// The age of a folder's last change from which its counted size is used again: more than a tick of any file system's clock, and than
/// clocks of a file server differ.
pub const UPLOAD_SETTLED: Duration = Duration::from_secs(10);

/// Bytes a second of a file that comes, over `XMPP_HTTP_BODY`: the slowest mobile lines have ten times as much. Slower: 408,
/// and nothing stays of it.
pub const UPLOAD_SPEED: usize = 1 << 10;

/// Files that come at the same time, all shards together: each has a chunk in memory. More: 503.
pub const UPLOADS_AT_ONCE: usize = 64;

/// Files of one user that come or wait for their turn, of which one comes at a time: more than a client sends at once. More:
/// 429.
pub const UPLOADS_OF_USER: usize = 8;

/// For the turn of such a file. Longer: 429.
pub const UPLOAD_TURN: Duration = Duration::from_secs(60);

/// Sessions that one list of them shows; the rest is only counted. A line is some 200 bytes, and all fit an
/// answer on the control socket.
pub const XMPP_LISTED: u32 = 10_000;

/// The burst of a chat client, as time at its allowance: a client that reconnects sends much at first.
pub const XMPP_BURST: Duration = Duration::from_secs(5);

/// A client that sends too much is not read from for so long at most, and then begins with an empty bucket: shorter than
/// any sensible patience of its own.
pub const XMPP_PAUSE: Duration = Duration::from_secs(10);

/// A client that has had to be slowed down for so long, and never once had its whole burst again, does not
/// send a conversation: `policy-violation`.
pub const XMPP_FLOOD: Duration = Duration::from_secs(600);

/// Streams of a shard that have not signed in and whose elements are kept while any account is traced. More:
/// the trace begins later.
pub const XMPP_UNDECIDED: usize = 256;
/// Elements kept of each such stream.
pub const XMPP_UNDECIDED_EACH: usize = 32;

/// Bytes of the token in the address of an invitation's page: several times what this server makes. Longer: no invitation has it, and
/// the database is not asked.
pub const INVITATION_TOKEN: usize = 128;

/// Questions of one shard about invitations for pages that are under way: each is one read of the database by its key, which
/// needs no sign-in. More: 503.
pub const INVITATION_LOOKUPS: usize = 32;

/// The delay of a shard's loop and of its tasks from which its work is late, as of `server::shard::load`. Late for `XMPP_LATE_FOR`: sign-ins are limited, and refused with
/// `resource-constraint`.
pub const XMPP_LATE_TURN: Duration = Duration::from_millis(100);

/// The wait of a step of a handshake for a helper thread from which handshakes are late: a step computes for a millisecond or less. Sign-ins are limited
/// as by `XMPP_LATE_TURN`.
pub const XMPP_LATE_HANDSHAKE: Duration = Duration::from_millis(250);

/// The wait of a client for its session from which the answer is late: the owner and the database take some milliseconds, and a database that is far away a few hundred.
/// Sign-ins are limited as by `XMPP_LATE_TURN`.
pub const XMPP_LATE_ANSWER: Duration = Duration::from_secs(1);

/// The time for which all work must be late before sign-ins are limited: longer than a burst, as of `server::shard::load`.
pub const XMPP_LATE_FOR: Duration = Duration::from_millis(500);

/// The time between two sign-ins that a shard always begins, however late it is: ten a second take a fiftieth of a core, and show that the
/// shard keeps up again.
pub const XMPP_LEAST_SIGN_INS: Duration = Duration::from_millis(100);

/// The time for one POSH document with its redirects (RFC 7711). Longer: the domain vouches for no certificate. Half of `xmpp::limits::POSH_TIME`, which a
/// reference needs twice.
pub const POSH_FETCH: Duration = Duration::from_secs(5);

/// The time for a connection to the web server of a domain. Longer: its next address is tried.
pub const POSH_CONNECT: Duration = Duration::from_secs(2);

/// Addresses of a web server that are tried. Beyond: not.
pub const POSH_ADDRESSES: usize = 4;

/// Redirects of one POSH document. Beyond: the domain vouches for no certificate.
pub const POSH_REDIRECTS: usize = 3;

/// Fetches of POSH documents that one source causes, over all shards: twenty at once, then one in six seconds. Beyond: a stream of its has no
/// proof by POSH. A server names a few domains; a stranger that names many makes this server ask others.
pub const POSH_OF_SOURCE: Policy = Policy {
    capacity: 10_000,
    rate: Rate { interval: Duration::from_secs(6), burst: 20 },
    free_failures: u32::MAX,
    first_penalty: Duration::ZERO,
    longest_penalty: Duration::ZERO,
    forgive_after: Duration::ZERO,
};

/// Fetches of POSH documents for the streams that this server opens, over all shards: a hundred at once, then ten a second. Beyond: such a stream has
/// no proof by POSH. A stranger has streams opened by requests that users' clients and this server answer; each fetch is up to eight requests.
pub const POSH_OF_OWN: Policy =
    Policy { capacity: 1, rate: Rate { interval: Duration::from_millis(100), burst: 100 }, ..POSH_OF_SOURCE };
