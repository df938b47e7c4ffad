//! Limits of the console, with their reasons and what happens at them.

use std::time::Duration;

/// Sessions at once: a team of operators with some browsers each. One more ends the one that was used longest ago.
pub const SESSIONS: usize = 256;

/// Sessions of one account at once. One more ends the account's that was used longest ago.
pub const SESSIONS_PER_ACCOUNT: usize = 16;

/// Bytes of a session's token, and of the token that each change shows: unguessable.
pub const TOKEN: usize = 32;

/// The age at which it is checked again that a session's account is there, enabled and has the same password.
pub const ACCOUNT_CHECK: Duration = Duration::from_secs(5);

/// Requests to the node that wait for its thread. More: 503.
pub const QUERIES: usize = 64;

/// Requests to the node at work at once. More wait in the queue.
pub const QUERIES_AT_WORK: usize = 32;

/// Seconds of which the graphs are kept: ten minutes, of some hundred bytes each.
pub const HISTORY: usize = 600;

/// Rows of a page when the request does not say.
pub const PAGE: u32 = 50;

/// Rows of a page at most. More are cut to it.
pub const MAX_PAGE: u32 = 500;

/// Call records of one file of comma-separated values: one read of the database.
pub const CSV_ROWS: u32 = 1_000;

/// Targets of routes that the overview names. More are counted only.
pub const TARGETS: usize = 100;

/// Bytes of a name, password or other text in a request. 400.
pub const MAX_TEXT: usize = 1_024;

/// Segments of a path below `/v1/admin`: the longest route has three. 404.
pub const MAX_SEGMENTS: usize = 4;

/// Passwords checked at once, each for some milliseconds of processor time. More: 429.
pub const CHECKS_AT_WORK: usize = 4;

/// Files of the documentation read at once. More: 503.
pub const DOCS_READS: usize = 8;

/// Bytes of a file of the documentation. The largest is the index of its search, 3.3 MB. 404.
pub const DOCS_FILE: u64 = 16 << 20;

/// Bytes of a path below `/docs/`. 404.
pub const DOCS_PATH: usize = 256;

/// Seconds after which a client asks again when the node does not answer.
pub const RETRY_AFTER: u64 = 2;
