//! Every limit of the SIP core, with its reason and the answer a peer gets.

use std::time::Duration;

/// Bytes of one message: what the stream limits below allow. A datagram cannot be longer.
pub const MESSAGE_BYTES: usize = MAX_STREAM_HEAD + MAX_STREAM_BODY;

/// Header lines of one message. Real ones have under 60; over it the message is dropped and counted.
pub const HEADER_LINES: usize = 256;

/// Parameters, and headers, of one URI that comparing looks at one by one. Real ones have under 10; URIs with
/// more are the same only byte for byte.
pub const URI_PARAMS: usize = 32;

/// Contacts that one request may ring at once. RFC 5393 asks for a bound on fan-out; the rest are not rung.
pub const FORK_BRANCHES: usize = 32;

/// Max-Forwards put into a request that has none (RFC 3261 §16.6 step 3).
pub const MAX_FORWARDS: u8 = 70;

// Resolution (`resolve`).

/// Resolutions of one shard at a time. A DNS server that hangs must not fill memory; over it a request is
/// answered 503.
pub const RESOLUTIONS: usize = 4_096;

/// Answers kept per shard. About 500 bytes each; a trunking server sees some hundred names.
pub const DNS_CACHE: usize = 8_192;

/// Records looked at in one answer; the rest are ignored. A TCP answer could hold thousands.
pub const DNS_RECORDS: usize = 64;

/// Services followed from one NAPTR answer: more than there are transports helps nobody.
pub const SRV_SERVICES: usize = 5;

/// SRV targets whose addresses are asked for: each costs two questions.
pub const SRV_TARGETS: usize = 8;

/// Addresses one resolution yields. Timer B of 32 s for each bounds what a caller would wait for anyway.
pub const HOPS: usize = 16;

/// How long an answer is kept at least, whatever its TTL: one burst of calls asks once.
pub const DNS_TTL_MIN: Duration = Duration::from_secs(1);

/// And at most: a wrong record does not outlive the hour.
pub const DNS_TTL_MAX: Duration = Duration::from_secs(3_600);

/// How long "no such record" is kept. The SOA's own figure (RFC 2308 §5) does not get here; short is safe.
pub const DNS_TTL_NEGATIVE: Duration = Duration::from_secs(10);

/// How long a failure to answer is kept: at least one second (RFC 9520 §3.2), and not longer, because calls fail meanwhile.
pub const DNS_TTL_FAILURE: Duration = Duration::from_secs(1);

/// How long a hop that failed is tried last: 64*T1, the time in which one request finds out (RFC 3263 §4.3).
pub const PENALTY: Duration = Duration::from_secs(32);

/// Hops remembered as failed, per shard.
pub const PENALTIES: usize = 1_024;

/// Bytes of start line and headers of a message on a stream, the empty line included. A datagram cannot be
/// longer than this either, so both ways in allow the same. Longer: the connection is closed, no answer.
pub const MAX_STREAM_HEAD: usize = 64 * 1024;

/// Bytes of body of a message on a stream. Offers, presence documents and messages are a hundredth of this.
/// Longer: 413, then the connection is closed, because the rest cannot be skipped safely.
pub const MAX_STREAM_BODY: usize = 256 * 1024;
