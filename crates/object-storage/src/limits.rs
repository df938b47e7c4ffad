//! The limits of requests to a store of objects, with their reasons.

use std::time::Duration;

/// The time for which a signed URL is good: a request begins at once, and clocks differ by less than that. S3 itself allows 15 minutes.
pub const SIGNATURE_TIME: Duration = Duration::from_secs(300);

/// The time until a store has begun to answer a request without content. Longer: the store counts as away, so that readers are told
/// soon, with 503.
pub const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The time until the next bytes of an object come. Longer: the reader's connection breaks, and its client asks for the rest.
pub const READ_TIME: Duration = Duration::from_secs(30);

/// Bytes a second at which an object comes at least, after [`READ_TIME`]: one that trickles would hold one of [`READS`] for ever. Time in which its reader
/// takes nothing does not count.
pub const READ_SPEED: u64 = 4 << 10;

/// The time that a file has for its way into the store, besides that of its bytes at [`PUT_SPEED`].
pub const PUT_TIME: Duration = Duration::from_secs(60);

/// Bytes a second at which a file is put at least: a store that is slower counts as away, and the file is put again.
pub const PUT_SPEED: u64 = 64 << 10;

/// Bytes of one PUT, by Amazon S3's "Object size" limits: 5 GiB. A larger file is refused before it is sent.
pub const OBJECT_SIZE: u64 = 5 << 30;

/// Bytes of a file that are read at once.
pub const CHUNK: usize = 256 << 10;

/// Files that are put at the same time: each has a chunk in memory. One does not fill a fast line, and many would take all of a slow one.
pub const PUTS: usize = 4;

/// Files of one pass over the folder; the next pass finds the others.
pub const PASS: usize = 1_000;

/// The time after which a queue without files looks for old deletions.
pub const DELETIONS: Duration = Duration::from_hours(1);

/// The age of a deletion at which no PUT of the file can be under way: longer than that of [`OBJECT_SIZE`] at [`PUT_SPEED`].
pub const DELETION_AGE: Duration = Duration::from_hours(24);

/// Files that the store did not take, without one that it took, after which a pass ends.
pub const PASS_FAILURES: usize = 8;

/// Objects that are read at the same time: each has one connection and its buffer for as long as its client takes, so the limit is
/// near that of clients' connections. More: 503.
pub const READS: usize = 1_024;

/// The pause after a first failure. Each further one doubles it.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: files wait no longer for a store that is back.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Bytes of an error's document that are read for its code.
pub const ERROR_DOCUMENT: usize = 16 << 10;

/// Characters of an error's code that are shown.
pub const ERROR_CODE: usize = 64;
