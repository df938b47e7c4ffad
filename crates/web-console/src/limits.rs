//! Limits of the console, with their reasons and what happens at them.

use std::time::Duration;

/// Sessions at once: a team of operators with some browsers each. One more ends the one that was used longest ago.
pub const SESSIONS: usize = 256;

/// Accounts without a role whose refusals are remembered, some 200 bytes each. One more takes the place of the one that was refused longest ago.
pub const REFUSED: usize = 1_000;

/// The time after a line of the audit log about such an account until its next one: a user who signs in without end does not push out the others.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(60);

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

/// Traces at once that operators have begun here, of the sixteen that a node performs. More: 429.
pub const TRACES: usize = 4;

/// Traces that are kept, with those under way: an operator looks at one after its end. One more takes the place of the oldest that
/// is over.
pub const TRACES_KEPT: usize = 8;

/// The time that the messages of a trace that is over are kept.
pub const TRACE_KEPT: Duration = Duration::from_secs(1_800);

/// Seconds of a trace when the request does not say.
pub const TRACE_SECONDS: u64 = 300;

/// Seconds of a trace at most: long enough for a call to be repeated, and a forgotten one ends.
pub const MAX_TRACE_SECONDS: u64 = 600;

/// Messages of a trace: more than a person reads. The trace ends with the last of them.
pub const TRACE_LINES: usize = 2_000;

/// Bytes of the messages of a trace: two thousand of a kilobyte. The trace ends at them.
pub const TRACE_BYTES: usize = 2 << 20;

/// Messages of a trace in one answer.
pub const TRACE_PAGE: usize = 200;

/// Messages of one call in an answer, the first ones: more than a call has that is set up, held a few times and ended.
pub const LADDER_LINES: usize = 500;

/// Rows of a page when the request does not say.
pub const PAGE: u32 = 50;

/// Rows of a page at most. More are cut to it.
pub const MAX_PAGE: u32 = 500;

/// Call records of one file of comma-separated values: some thirty megabytes. The file's last line says that it is cut off, and where the next one begins.
pub const CSV_ROWS: u32 = 200_000;

/// Call records of such a file that are read at once.
pub const CSV_PAGE: u32 = 1_000;

/// Such files at once, each with a read of the database under way. More: 503.
pub const CSV_FILES: usize = 4;

/// Targets of routes that the overview names. More are counted only.
pub const TARGETS: usize = 100;

/// Bytes of a name, password or other text in a request. 400.
pub const MAX_TEXT: usize = 1_024;

/// Bytes of a password or token at a sign-in: as sources of tokens take them (`external_auth::limits::TOKEN`). 400.
pub const MAX_CREDENTIAL: usize = 8_192;

/// Bytes of a document to test: the body of a request has room for it, escaped. 400.
pub const MAX_DOCUMENT: usize = 48 * 1_024;

/// Tests of documents at once, each with some requests to applications. More: 503.
pub const DOCUMENT_TESTS: usize = 4;

/// Documents that one test fetches. It ends at the next one.
pub const TESTED_DOCUMENTS: usize = 8;

/// Inputs of the caller in one test. 400.
pub const TEST_INPUTS: usize = 32;

/// Requests about numbers, applications and recordings at once, each on a thread that waits for the database. More: 503.
pub const RESOURCE_REQUESTS: usize = 8;

/// Languages of a browser that are looked at; those behind are passed over.
pub const LANGUAGE_RANGES: usize = 32;

/// Segments of a path below `/v1/admin`: the longest route has four. 404.
pub const MAX_SEGMENTS: usize = 4;

/// The time that a user has at the page of a provider. The answer is late then: the page says so.
pub const SIGN_IN_TIME: Duration = Duration::from_secs(600);

/// The difference of nodes' clocks that is tolerated where another node of the farm takes the answer.
pub const SIGN_IN_CLOCKS: Duration = Duration::from_secs(60);

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

/// Accounts of which the role that a directory gives is kept: each has a session. One more takes the place of the one that was asked for longest ago.
pub const KNOWN_ROLES: usize = SESSIONS;

/// The interval at which roles are looked at whose answer may be old.
pub const ROLE_LOOK: Duration = Duration::from_secs(1);
