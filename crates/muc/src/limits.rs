//! Limits of a room, with their reasons and effects.

/// Occupants of one room, however its owner configures it: each more costs every message a copy. Beyond:
/// `service-unavailable`, but not for owners and administrators.
pub const OCCUPANTS: usize = 5_000;

/// Sessions that share one nickname: more than a user has devices. Beyond: `resource-constraint`.
pub const SESSIONS_OF_OCCUPANT: usize = 20;

/// Bytes of a nickname: it is in every message. Beyond: `not-acceptable`.
pub const NICK: usize = 128;

/// Users with an affiliation or a reserved nickname in one room: all are one entry of the store. Beyond:
/// `resource-constraint`.
pub const AFFILIATIONS: usize = 5_000;
/// Bans beyond [`AFFILIATIONS`]: a list that is full of members must not keep a room from banning. Beyond: `resource-constraint`.
pub const BANS_RESERVED: usize = 500;

/// Invitations that a room remembers until they are declined, 32 bytes each. Beyond: the oldest is forgotten, and its refusal is
/// `item-not-found`.
pub const INVITATIONS: usize = 500;

/// Users of one room that have registered with it themselves (XEP-0045 §7.10), and whom no administrator has given an affiliation. They are
/// strangers, and must not use up what administrators need for [`AFFILIATIONS`]. Beyond: `resource-constraint`.
pub const REGISTRATIONS: usize = 500;
/// Registered users of one domain, other than the domain of the room's service: one server with many accounts leaves places for others.
/// Beyond: `resource-constraint`.
pub const REGISTRATIONS_OF_DOMAIN: usize = 50;
/// Bytes of the entries of registered users: an eighth of what the store has for a room, as addresses and nicknames may be long. Beyond:
/// `resource-constraint`.
pub const REGISTRATIONS_BYTES: usize = 64 << 10;

/// Bytes of a room's name, password, language or other short text. Beyond: `not-acceptable`.
pub const ROOM_TEXT: usize = 1_024;

/// Contacts that a room names (`muc#roomconfig_contactjid`): they are in each answer to disco#info. Beyond: `not-acceptable`.
pub const ROOM_CONTACTS: usize = 10;

/// Bytes of a room's description. Beyond: `not-acceptable`.
pub const ROOM_DESCRIPTION: usize = 8_192;

/// Bytes of a room's subject: it is text (XEP-0045 §8.1), is stored with the room and sent to each occupant who enters.
/// Beyond: `not-acceptable`.
pub const ROOM_SUBJECT: usize = 4_096;

/// Messages that a room keeps in memory for new occupants, and their bytes. Beyond: the oldest go.
pub const HISTORY: usize = 100;
/// Bytes of the messages that a room keeps in memory. Beyond: the oldest go.
pub const HISTORY_BYTES: usize = 128 << 10;

/// Messages that a new occupant gets unless it asks for another number: a screen or two.
pub const HISTORY_UNASKED: usize = 20;

/// Bytes of a room's vCard, with its picture: it is stored with the room and in memory with it, as [`HISTORY_BYTES`] are.
/// Beyond: `not-acceptable`.
pub const ROOM_VCARD: usize = 128 << 10;

/// Hats of one user (XEP-0317): each is in every presence of the user's occupants. Beyond: `resource-constraint`.
pub const HATS_OF_USER: usize = 8;
/// Hats of all users of a room: they are in one entry of the store with its affiliations, of which they take a tenth at most. Beyond:
/// `resource-constraint`.
pub const ROOM_HATS: usize = 200;
/// Bytes of the URI of a hat. Beyond: `not-acceptable`.
pub const HAT_URI: usize = 128;
/// Bytes of the title of a hat, which clients show beside a nickname. Beyond: `not-acceptable`.
pub const HAT_TITLE: usize = 64;

/// Bytes of the names of occupants in one stanza between nodes, whose messages have 256 KiB. More: another stanza.
pub const SEEN_IN_ANNOUNCEMENT: usize = 48 << 10;
