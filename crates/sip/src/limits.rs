//! Every limit of the SIP core, with its reason and the answer a peer gets.

/// Bytes of one message. A datagram cannot be longer; a stream's frame over it is answered 513 and the
/// connection closed.
pub const MESSAGE_BYTES: usize = 65_536;

/// Header lines of one message. Real ones have under 60; over it the message is dropped and counted.
pub const HEADER_LINES: usize = 256;

/// Contacts that one request may ring at once. RFC 5393 asks for a bound on fan-out; the rest are not rung.
pub const FORK_BRANCHES: usize = 32;

/// Max-Forwards put into a request that has none (RFC 3261 §16.6 step 3).
pub const MAX_FORWARDS: u8 = 70;
