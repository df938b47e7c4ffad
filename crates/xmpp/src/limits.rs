//! Limits of streams and stanzas, with their reasons and what happens at them.

/// Bytes of one stanza (RFC 6120 §13.12 asks for at least 10,000). Beyond: `policy-violation`, and the stream ends.
pub const STANZA: usize = 256 << 10;

/// Bytes of a stanza before the client has signed in.
pub const STANZA_BEFORE_AUTH: usize = 16 << 10;

/// Elements inside each other. Beyond: `policy-violation`.
pub const DEPTH: usize = 64;

/// Attributes of one element. Beyond: `policy-violation`.
pub const ATTRIBUTES: usize = 64;

/// Elements of one stanza. Beyond: `policy-violation`.
pub const ELEMENTS: usize = 8_192;

/// Bytes of each part of an address (RFC 7622 §3). Beyond: `jid-malformed`.
pub const JID_PART: usize = 1_023;
