//! Limits of the server, with their reasons and what happens at them. Those in `NetSettings` are defaults.

use std::time::Duration;

use stdx::rate::{Policy, Rate};

/// Accounts a shard keeps in memory; about 400 bytes each. Those not asked for lately make room.
pub const CACHED_ACCOUNTS: usize = 200_000;

/// Calls of accounts of one shard whose ends its addresses are to be told; about 300 bytes each. Beyond, the
/// one heard of longest ago is forgotten, and its address is on the phone until the router gives it up
/// (`router::limits::LONGEST_CALL`).
pub const ACCOUNT_CALLS: usize = 200_000;

/// Messages (batches of packets, questions) that may wait for a shard. More are dropped and counted: their
/// senders retransmit.
pub const SHARD_INBOX: usize = 65_536;

/// Lines that a node sends to another for one trace in a second, and their bytes: a screen shows a few dozen lines a second, and a file
/// of a busy trunk has what 500 messages a second, 100 calls, are with 1 KiB each. More are dropped and counted, and the reader is
/// told.
pub(crate) const FARM_TRACE_LINES: u64 = 500;
/// Bytes of these lines in a second.
pub(crate) const FARM_TRACE_BYTES: u64 = 512 * 1_024;

/// The interval at which a node that collects a trace asks the others anew: a node that joins takes part after at most this.
pub(crate) const FARM_TRACE_RENEWAL: Duration = Duration::from_secs(2);

/// The time without a renewal after which a node ends its part in a trace of another, and after which the collector says that a node
/// does not answer: three renewals.
pub(crate) const FARM_TRACE_SILENCE: Duration = Duration::from_secs(6);

/// Bytes of a text of a line between nodes, such as an address or a Call-ID. A longer one is shortened.
pub const TRACE_TEXT_BYTES: usize = 1_024;

/// Bytes of a whole message in a line between nodes: of 16 KiB, of which each byte that is not UTF-8 is shown by three. A longer one
/// is shortened.
pub const TRACE_MESSAGE_BYTES: usize = 48 * 1_024;

/// Accounts traced at once: every message of a shard is compared with each. More: the command is told so.
pub const TRACES: usize = 16;

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

/// For one stanza, from its first byte to its last: 256 KiB over 20 kbit/s. Longer: `connection-timeout`.
pub const XMPP_STANZA: Duration = Duration::from_secs(120);

/// For the answer to a probe of a silent stream. Longer: `connection-timeout`.
pub const XMPP_PROBE: Duration = Duration::from_secs(60);

/// Accounts of one shard whose keys of SCRAM are being made, each on a thread for some 10 ms. More: the account's next
/// sign-in makes them.
pub const XMPP_DERIVING: usize = 2;

/// Accounts of a domain that are looked at for how an account that is not there is to look, and kinds of them: some 30 ms.
pub const LOOKED_AT: u32 = 10_000;
/// Kinds of accounts that are told apart among them.
pub const LOOKS: usize = 32;

/// Rounds of SCRAM keys: the least that RFC 7677 §4 allows, and what other servers have; a phone computes them too.
pub const SCRAM_ITERATIONS: u32 = xmpp::limits::SCRAM_ITERATIONS;

/// Bytes waiting to be written to one component, which speaks for many users. More: what is sent to it is answered with
/// `resource-constraint` until it has read some. Twice as many, of answers to what it sends itself: its stream ends.
pub const XMPP_COMPONENT_QUEUE: usize = 4 * 1024 * 1024;

/// Connections of components of the node from one source. More: closed as soon as accepted.
pub const XMPP_COMPONENT_STREAMS: usize = 2_048;

/// Silence of ours after which a component gets a space. Written in vain, it ends a dead connection.
pub const XMPP_COMPONENT_KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Wrong secrets of one address. Beyond, even the right one is refused with `policy-violation`, for a minute at most: a
/// gateway that was configured wrongly is configured rightly soon.
pub const WRONG_SECRETS: Policy = Policy {
    capacity: 1_000,
    rate: Rate::NEVER,
    free_failures: 20,
    first_penalty: Duration::from_secs(1),
    longest_penalty: Duration::from_secs(60),
    forgive_after: Duration::from_secs(900),
};

/// Lines of the log about failed sign-ins: of all sources, and of one. A source's first lines tell a program that shuts
/// addresses out all it needs. Further ones are counted, and told as a number.
pub const SIGN_IN_LINES: Rate = Rate { interval: Duration::from_millis(20), burst: 200 };
/// Lines of the log about failed sign-ins from one source.
pub const SIGN_IN_LINES_BY_SOURCE: Policy = Policy {
    capacity: 10_000,
    rate: Rate { interval: Duration::from_secs(1), burst: 20 },
    free_failures: u32::MAX,
    first_penalty: Duration::ZERO,
    longest_penalty: Duration::ZERO,
    forgive_after: Duration::ZERO,
};

/// For the head of an HTTP request of a chat client, and between two requests of one connection. Longer: closed.
pub const XMPP_HTTP_HEAD: Duration = Duration::from_secs(30);

/// For the body of a request of BOSH. Longer: 408.
pub const XMPP_HTTP_BODY: Duration = Duration::from_secs(30);

/// Bytes of the head of an HTTP request of a chat client. More: 431, and closed.
pub const XMPP_HTTP_BUFFER: usize = 16 << 10;

/// The time that a slot may be used (XEP-0363 §5 asks for 300 s). Later: 410.
pub const UPLOAD_SLOT: Duration = Duration::from_secs(300);

/// For a whole file to come. Longer: 408, and nothing stays of it.
pub const UPLOAD_TIME: Duration = Duration::from_secs(3_600);

/// Bytes of a file that are written or read at once, on a thread of the runtime's.
pub const UPLOAD_CHUNK: usize = 256 << 10;

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

/// Questions of operators to accounts and rooms of one shard that wait for their answers. More: the command is told that
/// the node is busy.
pub const XMPP_QUESTIONS: usize = 1_000;

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
/// Sources whose new accounts are counted (XEP-0077). Beyond: the one counted least recently begins anew.
pub const XMPP_REGISTERING: usize = 10_000;

/// Accounts of one shard whose keys are to be made while a client waits: a second's work. Beyond:
/// `resource-constraint`.
pub const XMPP_KEYS_WAITING: usize = 64;

/// The time between two probes of a link to another node: the delay of a link changes slowly, and each probe wakes both
/// nodes.
pub(crate) const LINK_PROBE: Duration = Duration::from_secs(5);
/// Groups of notices of other programs' changes that wait for the node's main thread: more wait at the database's server.
pub const NOTICE_GROUPS: usize = 64;
