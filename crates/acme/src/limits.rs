//! Limits of orders, and their reasons.

use std::time::Duration;

/// Orders that are begun in an hour, over restarts of the node: Let's Encrypt takes five failed proofs of a name an hour.
pub const ORDERS_PER_HOUR: usize = 4;

/// The first pause after a failure that cost the authority nothing: it could not be reached, or this machine failed. Each further
/// failure doubles the pause.
pub const RETRY_UNREACHABLE: Duration = Duration::from_secs(5);

/// The longest such pause.
pub const RETRY_UNREACHABLE_MOST: Duration = Duration::from_mins(30);

/// The first pause after an order that the authority refused: DNS, a firewall or the configuration has to be mended first.
pub const RETRY_REFUSED: Duration = Duration::from_mins(5);

/// The longest such pause.
pub const RETRY_REFUSED_MOST: Duration = Duration::from_hours(6);

/// The longest pause that a `Retry-After` of the authority causes: an error of its clock must not cost the certificate.
pub const RETRY_AFTER_MOST: Duration = Duration::from_hours(48);

/// Longer than every pause, with what chance adds to it: a retry that is further away was set by a clock that was ahead.
pub const RETRY_LONGEST: Duration = Duration::from_hours(50);

/// Names of one certificate: Let's Encrypt's limit. The configuration refuses more.
pub const NAMES: usize = 100;

/// Bytes of one response of the authority. A chain has some 6 KiB.
pub const RESPONSE_BYTES: usize = 256 << 10;

/// The time for one request to the authority.
pub const REQUEST: Duration = Duration::from_secs(30);

/// The time for one order with all its proofs.
pub const ORDER: Duration = Duration::from_mins(5);

/// The time until the next question whether an order has gone on. Each further question waits for twice the time.
pub const POLL: Duration = Duration::from_millis(250);

/// The time for all questions whether an order has gone on.
pub const POLL_ALL: Duration = Duration::from_mins(2);

/// The longest sleep of the schedule: a machine that was suspended finds out then that an order is due.
pub const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Connections of TLS-ALPN-01 that are served at once; further ones are closed. Let's Encrypt connects from a handful of places.
pub const CHALLENGE_CONNECTIONS: usize = 64;

/// The time for one handshake of TLS-ALPN-01.
pub const CHALLENGE_HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes that have to fit on the disk before an order begins: a certificate that cannot be written costs an order.
pub const ROOM: usize = 64 << 10;

/// The pause after an `accept` that failed, as for want of file descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time after which a node of a farm that has not ended its order has lost it: longer than `ORDER`, with what comes before and behind.
pub const FARM_ORDER: Duration = Duration::from_mins(7);

/// The time that the answers to challenges have to come to all nodes of a farm, before the authority is told to ask: a watch of the council takes milliseconds,
/// and a node that has just connected to it reads first.
pub const FARM_ANSWERS: Duration = Duration::from_secs(2);

/// The longest wait of a node for the order of another one, between two looks at the clock.
pub const FARM_LOOK: Duration = Duration::from_secs(30);

/// Connections of the authority that wait to be accepted.
pub const CHALLENGE_BACKLOG: u32 = 128;
