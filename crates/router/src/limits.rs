//! Every limit of this crate: its reason and the answer when it is reached.

use std::time::Duration;

/// The longest binding we hold, whatever interval was granted: rows of the log of bindings that are older are dead
/// whatever they hold. Longer grants are cut to it.
pub const LONGEST_BINDING: Duration = Duration::from_hours(24);

/// The longest life of a row of the log of bindings: a minute more, as records count whole seconds and reach
/// the disk after their time was granted.
pub const LOG_HORIZON: Duration = Duration::from_secs(LONGEST_BINDING.as_secs() + 60);

/// Bindings of one address, above any account's own limit: one record is rewritten whole on each refresh.
/// Answer: `RegisterRefused::TooManyContacts`.
pub const CONTACTS_PER_ADDRESS: usize = 64;

/// REGISTERs of one address that wait for an earlier one to reach the disk. A client waits for its answer,
/// so more than a few is a flood. Answer: `RegisterRefused::StoreFailed`, as the disk is what is slow.
pub const REGISTERS_IN_LINE: usize = 16;

/// Addresses of which more is known than bindings: watched, published, in a call. Each costs 200 bytes and
/// its state; beyond, watches are answered but not kept, publications `TooMany`, calls not shown.
pub const KNOWN_ADDRESSES: usize = 2_000_000;

/// Watches of one address, all topics together: each change is sent to all of them.
/// The watch is answered with the present state and gets no changes.
pub const WATCHES_PER_ADDRESS: usize = 1_000;

/// Publications of one address: one per device. Answer: `PublishRefused::TooMany`.
pub const PUBLICATIONS_PER_ADDRESS: usize = 8;

/// Bytes of one published document; it is held in memory and sent to every watcher.
/// Answer: `PublishRefused::TooMany`.
pub const PUBLICATION_BYTES: usize = 16 * 1024;

/// The longest publication. Longer intervals are cut, and the answer says so.
pub const LONGEST_PUBLICATION: Duration = Duration::from_hours(24);

/// Calls of one address that its watchers are told of. Calls beyond are not shown.
pub const CALLS_PER_ADDRESS: usize = 64;

/// Calls of one address with a limit that are counted; a higher limit counts as this one. Each call looks at all.
pub const COUNTED_CALLS: usize = 10_000;

/// An admitted call of which nothing more is heard counts so long: looking its callee up takes milliseconds.
pub const ADMITTED_UNSEEN: Duration = Duration::from_secs(10);

/// Accounts whose calls a second are measured at once, 100 bytes each; beyond, the one idle for longest starts anew.
pub const CALL_RATES: usize = 65_536;

/// The time for which an edge goes by a list of watched addresses: so long it may miss an address whose news a broken link has lost.
/// One call in this time is reported to each owner without a watch.
pub const WATCHED_TIME: Duration = Duration::from_secs(60);

/// The time for which an owner tells an edge of new watches after it has sent a list: longer than the edge goes by it.
pub const WATCHED_TOLD: Duration = Duration::from_secs(90);

/// The time between two questions of an edge for one list.
pub const WATCHED_ASKED: Duration = Duration::from_secs(5);

/// Bytes of the addresses in a list: with more watched addresses an owner sends none, and all calls are reported.
pub const WATCHED_BYTES: usize = 128 * 1_024;

/// A call that was not ended is forgotten after this: its end was lost on the way. Those of a node that is gone are forgotten with it.
pub const LONGEST_CALL: Duration = Duration::from_hours(12);

/// The interval, at most, at which the state of an address is checked. Timers are never cancelled; one at the
/// end of `LONGEST_CALL` would keep the memory of a call of a minute for hours.
pub const PATROL: Duration = Duration::from_mins(5);

/// Messages kept for one address. Answer: `KeepRefused::TooMany`.
pub const KEPT_PER_ADDRESS: u32 = 100;

/// Messages of strangers are kept only while the address has fewer kept messages than this: forged sources cannot keep
/// out the messages of accounts. Answer: `KeepRefused::TooMany`.
pub const KEPT_OF_STRANGERS: u32 = 20;

/// Bytes of one kept message. RFC 3428 §8 wants a MESSAGE under 1,300 bytes on the wire; over TCP some
/// clients send more. Answer: `KeepRefused::TooLarge`.
pub const KEPT_BYTES: usize = 16 * 1024;

/// A message that was not fetched is forgotten after this.
pub const LONGEST_KEPT: Duration = Duration::from_hours(30 * 24);

/// The time that an edge may take to deliver one kept message: a transaction's Timer F (RFC 3261 §17.1.2.2),
/// twice, for a second contact. After that the rest waits for the next REGISTER.
pub const DELIVERY_PATIENCE: Duration = Duration::from_secs(64);

/// Reads of buckets' rows at a time: as many as keep two reader threads of the store busy, each of a page, so that a node which takes
/// over hundreds of buckets has few rows in memory twice, and other reads of the store are not kept waiting.
pub const LOADS: usize = 4;

/// Buckets that are read together, page after page: a bucket of a small farm has few rows, and each read costs a round trip to the
/// database. A bucket is served when all of them are in memory, so they are a second's reading at most.
pub const LOADED_TOGETHER: usize = 32;

/// The first pause after a read of a bucket's rows has failed; each further pause is twice as long, up to `LOAD_RETRY_MOST`.
pub const LOAD_RETRY: Duration = Duration::from_millis(100);

/// The longest pause between reads of a bucket's rows that fail: the database is away, and the lookups that wait for its return wait 10 s at most.
pub const LOAD_RETRY_MOST: Duration = Duration::from_millis(400);

/// The interval at which buckets that are loaded or stopped are reported again, until an order follows: a report may find the
/// queue of its receiver full.
pub const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// Questions of one bucket that wait until it is served. Answer: `Answer::Unavailable`, and the asker asks again.
pub const WAITING_IN_BUCKET: usize = 256;

/// Questions of all buckets of a shard that wait until these are served, some 500 bytes each. Answer: `Answer::Unavailable`.
pub const WAITING_QUESTIONS: usize = 16_384;

/// The time that a question waits for its bucket to be served: less than `QUESTION_PATIENCE`, so that no question is performed after
/// its asker has given it up. Answer: `Answer::Unavailable`.
pub const WAITING_PATIENCE: Duration = Duration::from_secs(3);

/// Lookups of a shard that are read from the store row by row while their buckets load. Answer: `Answer::Unavailable`.
pub const ROW_READS: usize = 4_096;

/// Questions of a shard to owners, in a farm whose nodes share a database, some 500 bytes each. Answer: `Answer::Unavailable`.
pub const OPEN_QUESTIONS: usize = 65_536;

/// The time in which an owner has to be found and to answer: a dead owner's buckets have another after some 4 seconds and the time
/// that their rows take. Then the client is told to try again, before it stops waiting (RFC 3261 §17.1.2.2: 32 s).
pub const QUESTION_PATIENCE: Duration = Duration::from_secs(10);

/// The pause before a question that was certainly not performed is asked again: the owner begins to serve within a part of a second.
pub const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The time without an answer after which a question that may be asked twice is asked again: several times what the database takes
/// for a write.
pub const NO_ANSWER: Duration = Duration::from_secs(1);

/// The time that a REGISTER waits for a database that is away: longer than a crash of PostgreSQL on a busy machine (5 s and more), and shorter
/// than the asker's `QUESTION_PATIENCE`. The phone repeats it for 32 s (RFC 3261 timer F). Answer beyond: `RegisterRefused::StoreFailed`.
pub const HELD_PATIENCE: Duration = Duration::from_secs(8);

/// The time after which a database is known to be away, as long as a failover takes: then a REGISTER is refused as soon as its write has
/// failed.
pub const AWAY_FOR_LONG: Duration = Duration::from_secs(10);

/// The first pause before a change is written again, to see whether the database is back; each further one is twice as long, up to
/// `HELD_PAUSE_MOST`.
pub const HELD_PAUSE: Duration = Duration::from_millis(50);

/// The longest of these pauses: the changes that wait are written within a fifth of a second of the return.
pub const HELD_PAUSE_MOST: Duration = Duration::from_millis(150);

/// Changes of bindings of one shard that wait for the database, some 500 bytes each: those of eight seconds at 2,000 a second. Answer:
/// `RegisterRefused::StoreFailed`.
pub const HELD_CHANGES: usize = 16_384;
