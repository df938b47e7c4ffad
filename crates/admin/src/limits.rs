//! The limits of the REST interface, with their reasons and the answers beyond them.

use std::time::Duration;

use stdx::attempts::Paces;
use stdx::rate::{Policy, Rate};

/// Bytes of a request body. A document of 16,000 characters, percent-encoded, and its companions fit. 413.
pub const MAX_BODY: usize = 128 * 1024;
/// The time that a body may take to arrive. 408.
pub const BODY_TIME: Duration = Duration::from_secs(15);
/// Parameters of a request, query and body together. 400.
pub const MAX_PARAMETERS: usize = 128;
/// Segments of a path below the base: the longest route has six, and each one of a stranger's costs more than it is long.
/// 404.
pub const MAX_SEGMENTS: usize = 16;
/// Bytes of one value; a document has `MAX_DOCUMENT`. 400.
pub const MAX_VALUE: usize = 4_096;
/// Bytes of an inline document (`Twiml`): Twilio allows 4,000 characters, which is short for a phone tree. 400.
pub const MAX_DOCUMENT: usize = 32 * 1024;
/// Bytes of a message: Twilio's 1,600 characters. 400, code 21617.
pub const MAX_MESSAGE: usize = 1_600;
/// Characters of `SendDigits`, as documents have it: each `W` is a second of sound. 400, code 21206.
pub const MAX_TONES: usize = 256;
/// Requests at work at once, each on a thread of the blocking pool. Beyond: 429, code 20429.
pub const MAX_AT_WORK: usize = 64;
/// Rows of a page when the request does not say (RestComm's and Twilio's).
pub const PAGE_SIZE: u32 = 50;
/// Rows of a page at most; a larger wish is cut to it, as at Twilio.
pub const MAX_PAGE_SIZE: u32 = 1_000;
/// Pages at most: an offset far beyond any table. 400.
pub const MAX_PAGE: u32 = 1_000_000;
/// Accounts above one another. A sub-account deeper than this is not made: 400.
pub const MAX_DEPTH: usize = 8;
/// Recordings are sent in pieces of so many bytes, one at a time as the client takes them.
pub const AUDIO_PIECE: usize = 64 * 1024;
/// A compiled pattern of a number, bytes: bounds what one binding costs. 400, code 21421.
pub const MAX_REGEX: usize = 64 * 1024;
/// Characters of a bound number or pattern. 400.
pub const MAX_PATTERN: usize = 256;
/// Bound numbers that are patterns: each is tried when no exact number matches. 400.
pub const MAX_PATTERNS: usize = 1_000;
/// Waiting calls of a queue at most (Twilio's figure). 400.
pub const MAX_QUEUE: u32 = 5_000;
/// Waiting calls of a queue whose size was not given (Twilio's default).
pub const QUEUE_SIZE: u32 = 100;

/// The time after the end of a call in which its recording may still be written. Until then a recording that is under way is not deleted: 409. The
/// disk may be slow; a node brings the last second of a recording to it.
pub const RECORDING_ENDS: Duration = Duration::from_secs(60);
/// The time in which the calls of the conferences or queues of a list are asked for, for operators. Rows behind it have no figures.
pub const ROOM_FIGURES: Duration = Duration::from_secs(2);
/// Calls of one conference or queue that operators see, each with a read of its row. Further ones are counted only.
pub const ROOM_MEMBERS: usize = 200;

/// API keys of an account: one for each program that signs in. 400.
pub const MAX_KEYS: u64 = 100;
/// Characters of a key's name (Twilio's figure). 400.
pub const KEY_NAME: usize = 64;

/// Characters of a key that signs requests to applications: as unguessable as a token, in a line. 400.
pub const SIGNING_KEY: std::ops::RangeInclusive<usize> = 16..=256;

/// Tokens of identity providers whose sign-in was audited: a further one takes the place of the oldest, which has another line if it comes again.
pub const IDENTITY_TOKENS: usize = 256;

/// Failed sign-ins of one address of the network at one account: ten free ones, then a pause of a second, and of two. 429,
/// code 20429.
const SIGN_IN_BY_PAIR: Policy = Policy {
    capacity: 10_000,
    rate: Rate::NEVER,
    free_failures: 10,
    first_penalty: Duration::from_secs(1),
    longest_penalty: Duration::from_secs(2),
    forgive_after: Duration::from_secs(900),
};

/// Those of one address at all accounts that have not signed in from there, and those at one account from all addresses
/// where it has not signed in: four a second after the first hundred.
const SIGN_IN_WIDE: Policy = Policy {
    free_failures: 100,
    first_penalty: Duration::from_millis(250),
    longest_penalty: Duration::from_millis(250),
    ..SIGN_IN_BY_PAIR
};

/// All of these. Programs sign in with each request, so an account is known again after a day by its next one.
pub const SIGN_IN: Paces = Paces {
    pair: SIGN_IN_BY_PAIR,
    source: SIGN_IN_WIDE,
    account: SIGN_IN_WIDE,
    known: 10_000,
    known_lifetime: Duration::from_secs(86_400),
    named: 1_000,
};

/// Seconds after which a client asks again when the database, or the node of the farm that has a recording, does not answer: a node that
/// died is back within a minute where it is supervised.
pub const RETRY_AFTER: u64 = 60;
