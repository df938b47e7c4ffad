//! Limits of what crosses nodes.

/// Bytes of an operator's request to other nodes: an announcement with the longest text that the REST interface takes, as JSON. A longer
/// one stays at the asked node, and the others are named as missing.
pub const FARM_REQUEST_BYTES: usize = 128 * 1_024;

/// Bytes of one part of an answer: other messages of the class pass between two parts.
pub const FARM_ANSWER_PART: usize = 64 * 1_024;

/// Bytes of a file that one node reads from another at once.
pub const FILE_PIECE: usize = xmpp_io::limits::UPLOAD_PIECE;

/// Bytes of a text of a line between nodes, such as an address or a Call-ID. A longer one is shortened.
pub const TRACE_TEXT_BYTES: usize = 1_024;

/// Bytes of a whole message in a line between nodes: of 16 KiB, of which each byte that is not UTF-8 is shown by three. A longer one
/// is shortened.
pub const TRACE_MESSAGE_BYTES: usize = 48 * 1_024;

/// Bytes of a message with the sound of a tick: two of them are less than the room of the class of sound at a link. More goes in several.
pub const ROOM_SOUND_BYTES: usize = 192 * 1_024;

/// Bytes of a frame in it: 20 ms of 48 kHz as samples are 1,920. A longer one is a fault of the node that sends it.
pub const ROOM_FRAME_BYTES: usize = 4 * 1_024;

/// Addresses of one stanza in a message between nodes: a presence for contacts, a message of a room for occupants. One for more goes in several,
/// as each costs the receiver a copy. Answer: the message is `Corrupt`.
pub const COPIES: usize = 64;
