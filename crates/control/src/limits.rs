//! Limits of the control socket, with their reasons and what happens at them.

use std::time::Duration;

/// Bytes of one request on the control socket: the largest is a route of 32 targets of 1 KiB and as many names of certificates. More: refused
/// and closed.
pub const CONTROL_REQUEST: usize = 128 * 1024;

/// Accounts that one request on the control socket names: so many of the longest addresses fit.
pub const CONTROL_ACCOUNTS: usize = 200;

/// Bytes of one answer a command reads: 1,000 accounts, or a status of 256 shards, with room to spare.
pub const CONTROL_ANSWER: usize = 32 * 1024 * 1024;

/// Commands connected at once. More: told so and closed.
pub const CONTROL_CONNECTIONS: usize = 32;

/// Silence after which a command's connection is closed; a trace lasts as long as it is read.
pub const CONTROL_IDLE: Duration = Duration::from_secs(300);

/// For a line to be written to a command. One that does not read (a stopped terminal) is closed.
pub const CONTROL_WRITE: Duration = Duration::from_secs(30);

/// For the node to answer one request. Longer: the command is told so. Longer than the record waits for
/// another process that holds it.
pub const CONTROL_PATIENCE: Duration = Duration::from_secs(20);

/// For the node to say how it is, when Prometheus or a load balancer asks. Longer: 503.
pub const STATUS_PATIENCE: Duration = Duration::from_secs(2);

/// Requests for the status that wait for the same second's answer. More: 503.
pub const STATUS_QUEUE: usize = 64;

/// Traced messages that may wait for a slow reader. More are dropped and counted, and the reader is told.
pub const TRACE_QUEUE: usize = 4_096;

/// Blocks that `belfry blocks` shows, the latest ones; it tells how many there are.
pub const BLOCKS: usize = 1_000;

/// Accounts a command asks for at once.
pub const LIST_PAGE: u32 = 1_000;

/// Open calls in one list, the newest ones; it tells how many there are. An operator who looks for one names an account.
pub const OPEN_CALLS: usize = 200;

/// Rows of one list of all nodes of a farm. More are cut off; sums count them.
pub const FARM_LISTED: usize = 10_000;
