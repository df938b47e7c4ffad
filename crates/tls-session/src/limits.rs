//! Limits of a session, with the answer that the peer gets.

/// Bytes of a handshake that may wait for the rest of a message: as many as rustls itself allows, which is four times a long chain of
/// certificates. A peer that sends more is refused.
pub const HANDSHAKE: usize = 0xffff;

/// Bytes of the largest record (RFC 5246 §6.2.3: 2^14 bytes, 2,048 of expansion, and a header of five). More cannot wait for its end.
pub const RECORD: usize = (1 << 14) + 2048 + 5;

/// Bytes that are read from a socket at once: what waits of a record, and then as many again.
pub(crate) const READ: usize = 2 * RECORD;

/// Plain bytes that one write encrypts; the caller writes the rest when the socket has taken these. As many as four records.
pub(crate) const WRITE: usize = 1 << 16;

/// Plain bytes that are written before the handshake is over and wait for it. Beyond them a write would block.
pub(crate) const EARLY: usize = 1 << 16;
