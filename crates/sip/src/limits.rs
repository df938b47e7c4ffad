//! Every limit of the SIP core, with its reason and the answer the peer gets.

/// Bytes of start line and headers of a message on a stream, the empty line included. A datagram cannot be
/// longer than this either, so both ways in allow the same. Longer: the connection is closed, no answer.
pub const MAX_STREAM_HEAD: usize = 64 * 1024;

/// Bytes of body of a message on a stream. Offers, presence documents and messages are a hundredth of this.
/// Longer: 413, then the connection is closed, because the rest cannot be skipped safely.
pub const MAX_STREAM_BODY: usize = 256 * 1024;
