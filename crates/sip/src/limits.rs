//! Every limit of the SIP core, with its reason and the answer a peer gets.

/// Bytes of one message. A datagram cannot be longer; a stream's frame over it is answered 513 and the
/// connection closed.
pub const MESSAGE_BYTES: usize = 65_536;

/// Header lines of one message. Real ones have under 60; over it the message is dropped and counted.
pub const HEADER_LINES: usize = 256;

/// Nonces of one shard whose last `nc` is remembered, about 40 bytes each. Beyond it the oldest are forgotten
/// and their next use is answered `stale=true`, one more round trip.
pub const NONCES_IN_USE: usize = 262_144;
