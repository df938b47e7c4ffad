//! The limits of the database, with their reasons and the answers beyond them.
//!
//! Lengths are bytes. A value over its limit is [`StoreError::Invalid`](crate::StoreError::Invalid), which
//! names the value and the limit; nothing is written.

use std::time::Duration;

/// RFC 6122 §2.3 allows 1,023 for a localpart; no account name in the field is near 255.
pub const MAX_NAME: usize = 255;
/// RFC 1035 §2.3.4.
pub const MAX_DOMAIN: usize = 253;
/// Bytes of a display name, as of an account name.
pub const MAX_DISPLAY_NAME: usize = 255;
/// Long passphrases fit; a file pasted by mistake does not.
pub const MAX_PASSWORD: usize = 1024;
/// One binding record of the router: contact, path and user agent with room to spare.
pub const MAX_BINDING_RECORD: usize = 16 * 1024;
/// A message larger than this is refused by the router long before (RFC 3428 §8 says 1,300 in transit).
pub const MAX_MESSAGE_BODY: usize = 64 * 1024;
/// A carrier has a name for each of its sites.
pub const MAX_ROUTE_CERTIFICATES: usize = 32;
/// Targets of one route, as many as the dial plan takes (`call::limits::TARGETS_PER_ROUTE`): a plan with a route of more is refused whole. `server`
/// compares the two when it is compiled.
pub const MAX_ROUTE_TARGETS: usize = 32;
/// Bytes of a target's URI.
pub const MAX_URI: usize = 1024;
/// Digits put before a number by a route.
pub const MAX_PREFIX: usize = 64;
/// A pattern, also a regular expression.
pub const MAX_PATTERN: usize = 512;
/// Every header value of a call record is cut here rather than refused: a record with a cut reason is worth
/// more than none.
pub const MAX_CALL_TEXT: usize = 512;
/// A page of a listing; a longer one is cut to it. The caller asks for the next page.
pub const MAX_PAGE: u32 = 10_000;
/// Call records that one search looks at: a tenth of a second of a reader's time. The search says where it goes on.
pub const CALLS_LOOKED_AT: u32 = 50_000;
/// Kept messages loaded in one answer, oldest first; the caller forgets them and asks again.
pub const MAX_KEPT_LOADED: u32 = 1_000;
/// Bindings of one bucket loaded in one answer: 4,096 buckets of five million addresses have 1,221 each, some 250 KB.
pub const BINDINGS_LOADED: u32 = 2_000;
/// Rows deleted in one cleaning write. A row of the archive of chats with its indexes takes some 20 us, so a cleaning
/// write holds up its group by at most a few milliseconds; the writer repeats it with the next groups while it finds rows.
pub const CLEAN_CHUNK: u32 = 200;
/// The time that the writer waits for a group before it continues a cleaning that found more rows than one
/// write deletes: longer than groups of a busy node are apart, so that cleaning has a disk flush of its own
/// on an idle node only.
pub const CLEAN_PAUSE: Duration = Duration::from_millis(50);
/// The time that a dead binding may stay in the file. Twice the usual interval of registrations: on a busy
/// node nearly all dead rows are deleted long before, in runs, and a row that still lives by then is seldom
/// replaced.
pub const DEAD_BINDING: Duration = Duration::from_hours(2);
/// The time between the rows of a client of the REST interface and of its account, at most. They are made by one request; versions before wrote
/// them one after the other, and times of accounts are kept in whole seconds.
pub const CLIENT_AND_ACCOUNT: Duration = Duration::from_secs(5);
/// A resource of the REST interface, in JSON: an inline document and a dozen URLs fit.
pub const MAX_REST_BODY: usize = 64 * 1024;
/// Bytes of a salt of SCRAM, as many as are stored.
pub const MAX_SALT: usize = 64;
/// Iterations of keys of SCRAM that come with an import: a second of work for a client that signs in.
pub const MAX_ITERATIONS: u32 = 1_000_000;
/// Kinds of verifier in one account.
pub const MAX_VERIFIERS: usize = 16;

/// Writes waiting for the writer thread. Full: [`Busy`](crate::Busy); the edge answers 503.
pub const WRITE_QUEUE: usize = 65_536;
/// Writes of chat's messages and of calls that wait for a database that is away: as many as the queue of writes has. Full: the write is answered
/// with `StoreError::Unreachable`, and the message's sender is told; a record or row of a call is lost and counted. The hosts of chat take no more
/// messages long before.
pub const KEPT_WRITES: usize = 65_536;
/// Bytes of these writes, about: a message of a kilobyte is written twice. Full: the same.
pub const KEPT_BYTES: usize = 96 << 20;
/// The time between two attempts to write them: a fraction of the shortest restart of a database, and some connections a second.
pub const KEPT_PAUSE: Duration = Duration::from_millis(200);
/// Attempts after which one of them is refused that the database does not take while it takes others: a page of the disk that is
/// damaged must not hold up all that come later. A connection that breaks again and again looks the same.
pub const KEPT_TRIES: u32 = 5;
/// Reads waiting for the reader threads. Full: [`Busy`](crate::Busy).
pub const READ_QUEUE: usize = 65_536;
/// Reads that wait of one account or room. Beyond: [`Busy`](crate::Busy). A host has few under way for each
/// client.
pub const READS_OF_ACCOUNT: usize = 4_096;
/// Reader threads: one for what signing in needs, and two for everything.
pub const READERS: usize = 3;
/// Writes in one transaction: bounds how long the first of a group waits for the last.
pub const MAX_GROUP: usize = 4_096;
/// Reads answered in one batch: accounts, or an eighth of so many rosters.
pub const MAX_READ_BATCH: usize = 64;
/// The time that the first waited-for write of a group waits for others. Eight milliseconds are invisible to
/// a phone and make one fsync of what would be dozens.
pub const GROUP_WINDOW: Duration = Duration::from_millis(8);
/// The time that writes without a waiting client (call records) wait for a group to ride along with.
pub const RIDE_ALONG: Duration = Duration::from_millis(250);
/// The time that a write waits for another process that holds the database: shorter than a phone's patience
/// (RFC 3261 timer F is 32 s) and long enough for a page of `belfry account import`.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// Rows of an import in one transaction at first: an fsync costs nothing then, and a progress bar moves.
pub const IMPORT_BATCH: usize = 50_000;
/// Messages that wait for one user of XMPP; one more is refused, and its sender told.
pub const MAX_XMPP_OFFLINE: u32 = 1_000;
/// Persistent rooms that one account, or the accounts of one foreign domain, have made and that are there. One more is
/// refused until some are destroyed: each is a row and an archive.
pub const MAX_ROOMS_OF_USER: u32 = 200;
/// Bytes of a stanza, item or configuration of XMPP: what the streams let through, twice, for what we add.
pub const MAX_XMPP_XML: usize = 512 << 10;
/// Bytes of rows that one read loads, unless one row alone has more: some milliseconds of a reader thread.
/// Further rows are another page.
pub const READ_BYTES: usize = 1 << 20;
/// Nodes or rooms of one page of a listing.
pub const LISTED_ROWS: u32 = 1_000;
/// Bytes of a roster and a block list that are read at once, because signing in needs them whole: several times what
/// accounts may keep. Beyond: `StoreError::Invalid`.
pub const MAX_ROSTER_BYTES: usize = 16 << 20;
/// Messages of an archive that are counted for a page. Beyond: the page has no total (XEP-0059 §2.6 makes it optional).
pub const MAX_COUNTED: u32 = 10_000;
/// Messages of an archive that one search for words looks at: with `SEARCHED_BYTES` some ten milliseconds of a reader thread. Beyond:
/// the page ends there, says that it is not the last, and names the place where the next one goes on.
pub const SEARCHED_ROWS: usize = 10_000;
/// Bytes of such messages. Beyond: the same.
pub const SEARCHED_BYTES: usize = 4 << 20;
/// Messages that a search takes from the database at once: few statements for the whole search, and not many messages in vain when the
/// first of them fill the page.
pub const SEARCHED_CHUNK: u32 = 1_000;
/// Instructions of SQLite's virtual machine that one read may take: a fraction of a second. Beyond:
/// `StoreError::Invalid`. Every honest read is far below; what is above visits more rows than it returns.
pub const READ_STEPS: u64 = 10_000_000;

/// Tokens of one XMPP account, two of each client at most: more than a user has devices. Beyond: the oldest
/// is void, and its client has to use the password.
pub const MAX_TOKENS: u32 = 64;
/// Unused invitations of one user; one more is refused until some are used or too old.
pub const MAX_INVITATIONS: u32 = 50;
/// The largest batch; a batch grows with the rows done, as a quarter of them. In random order a batch touches
/// most pages of a large index however many rows it has, so fewer batches write less; this many rows are
/// about 100 MB of memory.
pub const MAX_IMPORT_BATCH: usize = 250_000;
/// Rows of an import that makes keys of SCRAM, in one transaction: at some 10 ms an account so many are ten seconds of one
/// core, which is what is lost when the import is killed.
pub const IMPORT_BATCH_WITH_KEYS: usize = 1_000;
/// Passwords of an import of which one thread derives digests: some milliseconds of work, beside which starting the thread
/// costs nothing.
pub const IMPORT_DERIVED: usize = 1_000;
/// Bytes of a row of CSV: as in files of other servers, where it is a row of a table.
pub const IMPORT_LINE: usize = 1 << 20;
/// As much memory as so many accounts takes a contact or another row that comes with one in an import.
pub const IMPORT_ROW: usize = 3;
/// Bytes of its message or item that count as one more.
pub const IMPORT_BYTES: usize = 200;
/// Rows of a copy that are in memory at once.
pub const COPY_ROWS: usize = 10_000;
/// Bytes of such rows; one row or one message of the server may exceed them.
pub const COPY_BYTES: usize = 4 << 20;

/// Bytes of one record of a backup: the rows of `COPY_BYTES` and one that is as large as SQLite takes are below. A larger one is not
/// written, and what says that it is larger counts as damaged.
pub const BACKUP_RECORD: u32 = 1 << 30;
/// Bytes of a file of users that one record of a backup has.
pub const BACKUP_DATA: usize = 1 << 20;

/// Denied destinations of one route or account. Each is tried for each of its calls; the world's premium-rate prefixes
/// are some hundred.
pub const MAX_DENY: usize = 256;
/// The time that a server of the database has to accept a connection: as long as `BUSY_TIMEOUT`, and a slow network's.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time after which a server of the database that acknowledges nothing counts as gone.
pub const SERVER_SILENCE: Duration = Duration::from_secs(3);
/// The time that one read of a client may take in PostgreSQL. Beyond: `StoreError::Invalid`. As `READ_STEPS`.
pub const READ_TIME: Duration = Duration::from_secs(2);
/// The time that a server of the database has for the whole of a sign-in: one that is stopped or out of processes takes the
/// connection and says nothing. Then the next server of the URL is tried.
pub const GREETING_TIME: Duration = Duration::from_secs(5);
/// The time that a server of the database has for one answer to a node: a fifth of the 32 s that a phone waits (RFC 3261 timer F),
/// and a multiple of what a busy disk takes for a commit. Beyond: `StoreError::Unreachable`, and a new connection.
pub const ANSWER_TIME: Duration = Duration::from_secs(6);
/// The same for a read of an operator, which may visit all rows.
pub const OPERATOR_ANSWER_TIME: Duration = Duration::from_mins(2);
/// Aliases of one account that a change is told for, each with a notice of its own. Beyond: one notice, of everything.
pub const NOTICES_OF_ALIASES: usize = 1_000;
/// Bytes of the text of one notice: PostgreSQL's NOTIFY takes less than 8,000.
pub const NOTICE_BYTES: usize = 7_900;
/// Notices that wait for a listener. Beyond, they count as one, of everything.
pub const NOTICES_WAITING: usize = 10_000;
/// The time that a transaction of a node outside a farm may be idle in PostgreSQL: far above the pauses of a node, and an import
/// that was stopped locks its rows no longer. Beyond: the server ends the connection.
pub const TRANSACTION_IDLE: Duration = Duration::from_secs(10);
/// `TRANSACTION_IDLE` of a node of a farm: a process that was stopped holds the lock of its life no longer, even where no other node may
/// end its session. Below the time after which nodes take over from it, and above the pauses of a busy machine.
pub const FENCED_IDLE: Duration = Duration::from_secs(2);
/// The time that a statement about the hold of buckets may take: 4,096 buckets take some hundredths of a second. The farm asks again after
/// 3 s. Beyond: `StoreError::Unreachable`.
pub const OWNERSHIP_TIME: Duration = Duration::from_secs(2);
/// The time that the server has for one answer about the hold of buckets: above `OWNERSHIP_TIME`, so that the server gives up first.
pub const OWNERSHIP_ANSWER_TIME: Duration = Duration::from_millis(2_500);
/// The time that a statement of a writer of a farm may take: a phone repeats its REGISTER for 32 s (RFC 3261 timer F), and a writer that
/// waits for a lock that is never released would hold up all of them. Below `ANSWER_TIME`, so that the server gives up first. Beyond:
/// `StoreError::Unreachable`.
pub const WRITE_TIME: Duration = Duration::from_secs(5);
/// The time that taking buckets waits for a lock: several commits on a slow disk. It then ends the sessions of the dead again, which
/// may have been made anew.
pub const FENCE_LOCK: Duration = Duration::from_millis(250);
/// Times that taking buckets waits for a lock, 1.5 s in all: less than the 3 s after which the farm asks again. Beyond:
/// `StoreError::Unreachable`.
pub const FENCE_TRIES: u32 = 6;
/// The time that the row of a life stays in the database after its start, if the life is over: a node that starts again each minute then
/// leaves some ten thousand rows. The process of a row that is removed can write no more.
pub const MEMBER_KEPT: Duration = Duration::from_hours(7 * 24);
/// The difference of the clocks of a farm's nodes, at most: lives count by time, so a life below one that began so long ago is not new.
pub const MEMBER_CLOCKS: Duration = Duration::from_hours(24);
/// Numbers of bindings that a writer takes from the database at once: those of the largest group, so that a group costs at most one
/// statement for them. The schema has this number, too (`migrations/postgres/0002_farm.sql`).
pub const BINDING_NUMBERS: i64 = 4_096;

/// Bytes by which SQLite enlarges the index of its log (`WALINDEX_PGSZ`, <https://www.sqlite.org/walformat.html> §2). With less space its error is
/// that of a full disk.
pub(crate) const INDEX_PART: u64 = 32 << 10;
