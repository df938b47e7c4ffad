//! Limits of the server, with their reasons and what happens at them. Those in `NetSettings` are defaults.

use std::time::Duration;

use stdx::rate::{Policy, Rate};

/// The age up to which an account is used as it was read, while the server of the database is away: as long as a registration at
/// most (`[sip] max_expires`), after which its phones are found no more either. Answer beyond: 503 with Retry-After.
pub const OUTDATED_ACCOUNT: Duration = Duration::from_hours(1);

/// The time that a full disk of the database's server is told after the last write that it refused: a trial write needs no new space
/// and succeeds there.
pub const SERVER_FULL: Duration = Duration::from_secs(10);

/// The time that a request waits for an account that cannot be read because the database is away: longer than a crash of PostgreSQL on a busy
/// machine, 5 s and more, and shorter than a lookup's wait for an owner (`router::limits::QUESTION_PATIENCE`). The caller has had its 100, and a phone repeats its REGISTER for 32 s (RFC 3261 timer F). Answer beyond: 503 with Retry-After.
pub const HELD_PATIENCE: Duration = Duration::from_secs(8);

/// The time after which a database is known to be away: as long as a failover takes. No request waits for it any more. Answer: 503 with
/// Retry-After, as soon as its read has failed.
pub const AWAY_FOR_LONG: Duration = Duration::from_secs(10);

/// The time that a request waits for an account that was read before to be read again: a healthy server answers within some milliseconds.
/// Beyond: the request goes on with the account as it was read before.
pub const SLOW_READ: Duration = Duration::from_millis(500);

/// The time of a trial write from which on the server of the database counts as slow: a healthy one commits within some milliseconds, and a
/// phone repeats its REGISTER for the first time after half a second. Beyond: status and health say so.
pub const SLOW_WRITE: Duration = Duration::from_secs(1);

/// The first pause between two reads that show whether the database is back; each further one is twice as long, up to `HELD_PAUSE_MOST`.
pub const HELD_PAUSE: Duration = Duration::from_millis(50);

/// The longest of these pauses: a request that has waited for seconds goes on within a fifth of one.
pub const HELD_PAUSE_MOST: Duration = Duration::from_millis(150);

/// Requests of a shard that wait for the database, some 2 KB each with their transactions: those of eight seconds at 2,000 requests a second
/// for accounts that no shard of the node has read. Answer: 503 with Retry-After.
pub const HELD_QUESTIONS: usize = 16_384;

/// Questions of edges without a database that wait at a shard until their accounts are read, some 100 bytes each. Answer:
/// `Answer::Unavailable`, and the edge asks again.
pub const ACCOUNT_QUESTIONS: usize = 65_536;

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

/// The time that an operator waits for the other nodes' answers: a node that lives answers a list in some milliseconds, and one that
/// is later is named. Shorter than REST clients and Prometheus wait.
pub(crate) const FARM_REQUEST_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of one node's answer to an operator at another: some 8,000 sessions, and half of what may wait for a link
/// (`Class::Bulk`). Longer lists lose their oldest rows.
pub const FARM_ANSWER_BYTES: usize = 2 * 1_024 * 1_024;

/// Bytes of all nodes' answers to one request. A node whose answer does not fit any more counts as missing: 12 nodes with the longest
/// lists fit, and 256 with lists of 400 rows.
pub(crate) const FARM_ANSWERS_BYTES: usize = 24 * 1_024 * 1_024;

/// Requests of other nodes' operators that a node performs at once: each is an operator's command, or a request of REST. More are
/// refused, which the operator reads.
pub(crate) const FARM_REQUESTS: usize = 32;

/// Bytes of a page of domains and routes for an edge without a database: some 1,000 routes, or two of the longest. Small beside what may
/// wait for a link, so that 256 edges that are told of a change at once are served in some pages each.
pub(crate) const FARM_PLAN_PAGE: usize = 256 * 1_024;

/// Pages of domains and routes that an edge puts together: 128 MiB, half a million routes. Beyond, it goes on with what it has and says so;
/// a node that shares the database reads as many as there are.
pub(crate) const FARM_PLAN_PAGES: usize = 512;

/// The interval at which an edge without a database asks whether routes have changed: the news of a change may be lost with a link. A
/// question that is answered in the negative has 100 bytes.
pub(crate) const FARM_PLAN_RENEWAL: Duration = Duration::from_secs(20);

/// The pause before an edge asks the next node for routes, when one has not answered.
pub(crate) const FARM_PLAN_AGAIN: Duration = Duration::from_millis(500);

/// Attempts that may fail before an edge says so: links are made, and nodes die, in about two seconds.
pub(crate) const FARM_PLAN_FAILURES: usize = 4;

/// Requests of this node's operators that wait for other nodes at once. More are answered by this node alone.
pub(crate) const FARM_REQUESTS_WAITING: usize = 64;
/// The requests among these that users cause who ask for their calls, where nodes have databases of their own: few, so that operators find a place, also at the
/// nodes that are asked. Beyond: the user's client is told to try again.
pub(crate) const FARM_REQUESTS_OF_USERS: usize = 8;

/// Pieces of files that are on their way to a node: 1 MiB, less than the class has room for (`Class::Bulk`), so that none is lost. More
/// wait for their turn.
pub(crate) const FILE_PIECES: usize = 16;

/// The time that a reader waits for a piece, its turn included: longer than other nodes need to find that one is dead. Answer: 503.
pub(crate) const FILE_PATIENCE: Duration = Duration::from_secs(10);

/// Pieces that a node reads for others at once. More are refused as busy.
pub(crate) const FILE_READS: usize = 256;

/// Questions of other nodes about files that wait for the operator's thread. More are lost, and their readers get 503.
pub(crate) const FILE_REQUESTS_WAITING: usize = 256;

/// Accounts traced at once: every message of a shard is compared with each. More: the command is told so.
pub const TRACES: usize = 16;

/// Accounts of one shard whose keys of SCRAM are being made, each on a thread for some 10 ms. More: the account's next
/// sign-in makes them.
pub const XMPP_DERIVING: usize = 2;

/// Accounts of a domain that are looked at for how an account that is not there is to look, and kinds of them: some 30 ms.
pub const LOOKED_AT: u32 = 10_000;
/// Kinds of accounts that are told apart among them.
pub const LOOKS: usize = 32;

/// Rounds of SCRAM keys: the least that RFC 7677 §4 allows, and what other servers have; a phone computes them too.
pub const SCRAM_ITERATIONS: u32 = xmpp::limits::SCRAM_ITERATIONS;

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

/// Questions of operators to accounts and rooms of one shard that wait for their answers. More: the command is told that
/// the node is busy.
pub const XMPP_QUESTIONS: usize = 1_000;

/// Sources whose new accounts are counted (XEP-0077). Beyond: the one counted least recently begins anew.
pub const XMPP_REGISTERING: usize = 10_000;

/// Accounts of one shard whose keys are to be made while a client waits: a second's work. Beyond:
/// `resource-constraint`.
pub const XMPP_KEYS_WAITING: usize = 64;

/// The time between two probes of a link to another node: the delay of a link changes slowly, and each probe wakes both
/// nodes.
pub(crate) const LINK_PROBE: Duration = Duration::from_secs(5);
/// The time for which both workers of a call slot that has moved share the responses to its requests: nodes adopt a new map within
/// a second, on a busy machine within a few, and the other one may get a repeated request until then. Each response costs a message to each node.
pub(crate) const SLOTS_MOVE: Duration = Duration::from_secs(5);
/// The time for which a shard that has worked on a request of another node's slot looks for the transaction of each request that it would pass to
/// another node: 64*T1, after which no client repeats one (RFC 3261 §17.1.1.2).
pub(crate) const WORK_FOR_OTHERS: Duration = Duration::from_secs(32);

/// Groups of notices of other programs' changes that wait for the node's main thread: more wait at the database's server.
pub const NOTICE_GROUPS: usize = 64;

/// Rows of a dead node's calls that are ended at once: some commits for a node's thousands of calls, and no more callbacks at a time than
/// the helpers take.
pub(crate) const LOST_CALLS: u32 = 100;

/// The end of a certificate is announced when less than this is left: a week is enough to mend an order that fails. For certificates
/// with a short life it is a third of that (`net::certificate::Validity::ends_soon`).
pub const CERTIFICATE_MARGIN: Duration = Duration::from_hours(7 * 24);

/// The time between two lines in the log about the end of a certificate.
pub const CERTIFICATE_WARNING: Duration = Duration::from_hours(24);

const _: () = assert!(
    store::limits::MAX_ROUTE_TARGETS == call::limits::TARGETS_PER_ROUTE,
    "a route that the database takes is one of the plan, too: a plan with a route that it refuses is refused whole"
);

/// The pause between two attempts of a start to reach its database.
pub(crate) const DATABASE_PAUSE: Duration = Duration::from_secs(1);

/// The time between two lines of the log about one outage of the database.
pub(crate) const OUTAGE_LINES: Duration = Duration::from_secs(60);

/// Messages in the mailbox of one account, heard ones too: what a busy line gets in months, and a list that is counted at each look. Beyond: the
/// recording is the operator's alone, and the log says so.
pub(crate) const VOICEMAIL: u64 = 500;

/// Rows of removed accounts' voicemail that are read at once, some 1 KB each: the next ones are read when their sound is deleted.
pub(crate) const REMOVED_VOICEMAIL: u32 = 100;
