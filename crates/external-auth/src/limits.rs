//! Bounds of what sources and clients can cost, each with its reason and the answer when it is reached.

use std::time::Duration;

/// Queries of one source under way at once. Others wait; a directory takes some hundred binds a second by one connection
/// each.
pub(crate) const CONCURRENT: usize = 16;

/// Queries of one source that wait or are under way. Further ones are answered `Verdict::Unavailable`
/// (`temporary-auth-failure`).
pub(crate) const WAITING: usize = 512;

/// No refusal is given before this time: the answer for an unknown user takes as long as that for a wrong password, which
/// costs a directory a bind more.
pub(crate) const REFUSAL_AFTER: Duration = Duration::from_millis(500);

/// Passwords that were right and are remembered, of all sources: about 100 bytes each. The one that was not used for the
/// longest time is forgotten.
pub(crate) const REMEMBERED: usize = 50_000;

/// Bytes of a password; longer ones are refused. As `store::limits::MAX_PASSWORD`.
pub(crate) const PASSWORD: usize = 1_024;

/// Bytes of a name. RFC 7622 §3.3.
pub(crate) const USER: usize = 1_023;

/// Bytes of a token; longer ones are refused. Tokens of identity providers have one to four thousand.
pub(crate) const TOKEN: usize = 8_192;

/// Bytes of one message of a directory. A longer one ends the connection.
pub(crate) const LDAP_MESSAGE: usize = 65_536;

/// Messages that one search may be answered with. More end the connection.
pub(crate) const LDAP_MESSAGES: usize = 64;

/// Levels of a filter. A deeper one is a mistake of the configuration.
pub(crate) const FILTER_DEPTH: usize = 16;

/// Bytes of an answer's body that are read: a verdict is a status, and perhaps one word.
pub(crate) const HTTP_BODY: usize = 1_024;

/// Bytes of a key set; a longer one is not used.
pub(crate) const KEY_SET: usize = 262_144;

/// Keys of a set that are used; providers have two to ten.
pub(crate) const KEYS: usize = 64;

/// A key set is asked for at most this often, however many tokens name an unknown key.
pub(crate) const KEYS_AGAIN: Duration = Duration::from_secs(60);

/// A key set that is older is asked for again.
pub(crate) const KEYS_FRESH: Duration = Duration::from_hours(1);

/// A key set that is older is used no more, even if its source does not answer: a key may have been withdrawn.
pub(crate) const KEYS_USABLE: Duration = Duration::from_hours(24);

/// Bytes of one answer of an OpenID provider: its configuration has two to six thousand, a set of tokens as much as its claims.
pub(crate) const PROVIDER_ANSWER: usize = 65_536;

/// Bytes of an authorization code; a longer one is refused. Providers make some hundred, and Entra ID over a thousand.
pub(crate) const CODE: usize = 4_096;

/// The configuration of a provider is asked for at most this often while it is not known: a user waits for it.
pub(crate) const PROVIDER_AGAIN: Duration = Duration::from_secs(10);

/// Groups of one user. A user of more has no known groups: Active Directory gives a thousand entries in one answer.
pub(crate) const GROUPS: u32 = 1_000;

/// Bytes of a file of accounts: 100,000 lines with keys of SCRAM have 20 MB. A longer one is a mistake, and the last good content stays.
pub(crate) const FILE: u64 = 32 << 20;

/// Accounts of a file. More are a mistake, as above; a directory is made for them.
pub(crate) const FILE_ACCOUNTS: usize = 100_000;

/// Bytes of a display name in a file. RFC 6121 §2.1.2.6 has no limit; people read it.
pub(crate) const DISPLAY_NAME: usize = 256;

/// Groups of an account in a file.
pub(crate) const FILE_GROUPS: usize = 100;

/// The greatest cost of bcrypt in a file: a second of a processor for each sign-in. A line with more is a mistake.
pub(crate) const BCRYPT_COST: u32 = 14;

/// The most rounds of SHA-512-crypt in a file, as long as that.
pub(crate) const SHA_CRYPT_ROUNDS: u32 = 500_000;

/// Rounds of keys of SCRAM in a file: each sign-in makes the client's device do so many. As `chat::limits::PIE_ITERATIONS`.
pub(crate) const SCRAM_ITERATIONS: u32 = 1_000_000;

/// Bytes of the salt of keys of SCRAM, as the store keeps them.
pub(crate) const SCRAM_SALT: usize = 64;

/// Processors for one comparison with the passwords of files at once, each on a thread: a comparison takes a processor a quarter of a second, and
/// clients that guess passwords must not take those that calls need. There is always one.
pub(crate) const PROCESSORS_A_HASH: usize = 4;

/// A file of accounts is looked at so often: one `stat`.
pub(crate) const FILE_LOOK: Duration = Duration::from_secs(1);
