//! The numbers that bound what the engine keeps, each with its reason.

use std::time::Duration;

/// How long a busy shard sleeps between turns so that batches form. Times stay exact: the kernel says when
/// each datagram came. A server's answers wait for half of it on average.
pub(super) const NAP: Duration = Duration::from_millis(2);

/// The same with TLS and WebSocket: the kernel does not stamp their bytes, so the nap is part of the measured times.
pub(super) const UNSTAMPED_NAP: Duration = Duration::from_millis(1);

/// Shorter naps before media are left out: the kernel may end a nap so much later (the timer slack of a thread).
pub(super) const SHORTEST_NAP: Duration = Duration::from_micros(50);

/// A shard is busy from so many messages in [`WINDOW`] on: 1,000 a second.
pub(super) const BUSY: u64 = 20;
pub(super) const WINDOW: Duration = Duration::from_millis(20);

/// Microseconds. A call acts at the first tick at or after its time: scenarios say times in milliseconds.
pub(super) const TICK_MICROS: u64 = 1_000;

/// Bytes of a WebSocket's buffer for reading, which each connection holds, idle or not. The library's own choice is 128 KiB.
pub(super) const WEBSOCKET_BUFFER: usize = 2_048;

/// Batches read from one socket before the shard looks at its timers again.
pub(super) const BATCHES_A_TURN: usize = 8;

/// Calls started in one turn; a burst that is due at once leaves room for messages in between.
pub(super) const STARTS_A_TURN: usize = 256;

/// A turn that begins this much after it was planned is late.
pub(super) const LATE: Duration = Duration::from_millis(10);

/// Calls in an interval from which on their lateness is judged. A thread starts thousands a second, so with fewer than
/// these it is not their number that made them late.
pub(super) const LOAD_CALLS: u64 = 50;

/// The same for packets of media: ten streams of 50 a second.
pub(super) const LOAD_PACKETS: u64 = 500;

/// The time after the end of `--for` or `-timeout` in which calls that were due before it may still start: a shard naps for milliseconds, and
/// one that the machine did not let run for a while catches up. Calls that have not started by then count as blocked.
pub(super) const LAST_STARTS: Duration = Duration::from_millis(100);

/// Changes of the rate that a shard may be behind of, with the due times of its calls kept: a minute of `-rate_interval 1`. Beyond it the
/// calls of the oldest rate are due with the next one.
pub(super) const RATES_BEHIND: usize = 64;

/// Overdue arrivals of a Poisson process that are drawn to be counted, which takes milliseconds. Those beyond are reckoned by the rate.
pub(super) const DRAWN_OVERDUE: u64 = 100_000;

/// Receive buffer asked for at a shared socket. The kernel's own limit (`net.core.rmem_max`) still holds.
pub(super) const RECEIVE_BUFFER: usize = 16 << 20;

/// Bytes of messages that wait for another shard. At 500 bytes each these are 16,000: more than a second of
/// what one core takes; a shard that is further behind drops as a full socket would.
pub(super) const HANDOVER_BYTES: usize = 8 << 20;

/// Bytes of rendered messages that wait for the kernel; a UDP socket that is full for longer refuses.
pub(super) const BACKLOG_BYTES: usize = 16 << 20;

/// Intervals a shard may be ahead of the collector; what it counts then goes into the next one.
pub(super) const REPORTS_A_SHARD: usize = 4;

/// Last errors an interval tells.
pub(super) const ERRORS_KEPT: usize = 16;

/// Room a connection's peer may leave unread before the call is told of congestion.
pub(super) const STREAM_BACKLOG: usize = 1 << 20;

/// A message on a stream may not be longer.
pub(super) const STREAM_MESSAGE: usize = 1 << 20;

/// `-p` not given: SIPp tries this port and the next 59 before it lets the system choose.
pub(super) const DEFAULT_PORT: u16 = 5060;
pub(super) const PORTS_TRIED: u16 = 60;

/// File descriptors beside sockets of calls: traces, screens, timers, the control port, listeners.
pub(super) const SPARE_DESCRIPTORS: u64 = 64;

/// Users that connect from one loopback address. The kernel gives 28,232 ports an address unless told otherwise,
/// those of one parity first; when they are taken it looks at all of them for each connection, which takes
/// milliseconds. Ports of users that signed out rest for a minute.
pub(super) const USERS_AN_ADDRESS: u32 = 10_000;

/// Worker processes of a run: five million users at 20,000 open files each.
pub(super) const WORKERS: u64 = 256;

/// Bytes of one line between a run and a worker process. An interval's histograms of all timers are below a megabyte.
pub(super) const WORKER_LINE: u64 = 16 << 20;

/// How long a worker process may take to be ready.
pub(super) const WORKER_START: Duration = Duration::from_secs(30);

/// How long worker processes may take to end a load at once, which is five seconds of last words, before they are killed.
pub(super) const WORKER_END: Duration = Duration::from_secs(10);

/// Bytes of the head of an answer to a request of BOSH: several times what servers and proxies write.
pub(super) const HTTP_HEAD: usize = 16 << 10;

/// Bytes of its body: more than the largest stanza, and than what servers put into one answer.
pub(super) const HTTP_BODY: usize = 4 << 20;

/// Hosts a shard looks up because a server sends users to them: more are no cluster, but a server gone wrong.
pub(super) const NAMES_KEPT: usize = 64;

/// How long the connection before a load of users may take. Two SYNs may be lost: Linux sends them again after one and
/// three seconds.
pub(crate) const FIRST_CONNECTION: Duration = Duration::from_secs(5);

/// Sign-ins of users that are refused with `not-authorized` before any succeeds: with so many, or with all users, the run
/// ends. A few may have wrong lines in a file of accounts.
pub(super) const FIRST_SIGN_INS: u64 = 20;

/// Commands of `<exec verify>` that run at once, each a process and a thread. A shell starts a few hundred commands a second
/// on a core, so more of them only wait for each other; the calls of those beyond it fail.
pub(super) const VERIFY_COMMANDS: u64 = 1_000;
