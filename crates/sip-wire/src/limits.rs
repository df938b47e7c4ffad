//! Limits of messages, with their reasons and the answer a peer gets.

/// Bytes of one message: the sum of the stream limits below. A datagram cannot be longer.
pub const MESSAGE_BYTES: usize = MAX_STREAM_HEAD + MAX_STREAM_BODY;

/// Header lines of one message. Real ones have under 60; over it the message is dropped and counted.
pub const HEADER_LINES: usize = 256;

/// Parameters, and headers, of one URI that comparing looks at one by one. Real ones have under 10; URIs with
/// more are the same only byte for byte.
pub const URI_PARAMS: usize = 32;

/// Bytes of start line and headers of a message on a stream, the empty line included. A datagram cannot be
/// longer than this either, so both ways in allow the same. Longer: the connection is closed, no answer.
pub const MAX_STREAM_HEAD: usize = 64 * 1024;

/// Bytes of body of a message on a stream. Offers, presence documents and messages are a hundredth of this.
/// Longer: 413, then the connection is closed, because the rest cannot be skipped safely.
pub const MAX_STREAM_BODY: usize = 256 * 1024;
