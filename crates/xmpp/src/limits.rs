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

/// Rooms that one host has in memory: 100,000 empty ones are some 100 MB. Beyond: `resource-constraint`, and a room that
/// is left makes place.
pub const ROOMS: usize = 100_000;

/// Occupants of one room, however its owner configures it: each more costs every message a copy. Beyond:
/// `service-unavailable`, but not for owners and administrators.
pub const OCCUPANTS: usize = 5_000;

/// Sessions that share one nickname: more than anybody has devices. Beyond: `resource-constraint`.
pub const SESSIONS_OF_OCCUPANT: usize = 20;

/// Bytes of a nickname: it is in every message. Beyond: `not-acceptable`.
pub const NICK: usize = 128;

/// Users with an affiliation or a reserved nickname in one room: all are one entry of the record. Beyond:
/// `resource-constraint`.
pub const AFFILIATIONS: usize = 5_000;

/// Bytes of a room's name, password, language or other short text. Beyond: `not-acceptable`.
pub const ROOM_TEXT: usize = 1_024;

/// Bytes of a room's description. Beyond: `not-acceptable`.
pub const ROOM_DESCRIPTION: usize = 8_192;

/// Messages that a room keeps in memory for whoever enters, and their bytes. Beyond: the oldest go.
pub const HISTORY: usize = 100;
pub const HISTORY_BYTES: usize = 128 << 10;

/// Messages that who enters gets unless he asks for another number: a screen or two.
pub const HISTORY_UNASKED: usize = 20;

/// Stanzas that wait while a room is read or written: some seconds of a busy one. Beyond: `resource-constraint`.
pub const ROOM_WAITING: usize = 1_000;

/// How long an empty room stays in memory, so that who comes back soon need not wait for the record.
pub const ROOM_IDLE: std::time::Duration = std::time::Duration::from_secs(600);

/// Entries of one page of a service's list of rooms, whatever is asked for (XEP-0059 §2.1). The rest is on the next page.
pub const ROOMS_PAGE: usize = 200;
