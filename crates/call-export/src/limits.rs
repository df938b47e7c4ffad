//! The limits of call records on their way to others, with their reasons.

use std::time::Duration;

/// Records that wait for the queue on disk: ten seconds of 1,000 calls that end a second. More: not sent, and counted.
pub const HANDED_OVER: usize = 10_000;

/// Records that are appended to the queue at once: some hundred kilobytes.
pub const BATCH: usize = 1_000;

/// Bytes of the queue on disk, for each receiver: half a million records or more, which is over an hour of 100 calls that end a
/// second. More: not sent, and counted.
pub const QUEUE_BYTES: u64 = 256 << 20;

/// Bytes of a file of the queue, which is deleted when all of it is sent.
pub const SEGMENT_BYTES: u64 = 8 << 20;

/// Bytes that are read and sent at once. A record has at most some kilobytes, so that each group has one at least.
pub const GROUP_BYTES: u64 = 256 << 10;

/// Records that are sent at once.
pub const GROUP: usize = 500;

/// The time that a service has for its answer to a group.
pub const ANSWER_TIME: Duration = Duration::from_secs(20);

/// The pause after a first failure. Each further one doubles it.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause: a receiver that is back waits no longer for its records.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The time that a node that ends gives its last records. The queue on disk keeps them for the next start.
pub const END_PATIENCE: Duration = Duration::from_secs(3);
