//! Bounds of this crate, each with its reason.

/// Milliseconds of the tick on which media is pulled, and of one frame.
pub const FRAME_MS: u32 = 20;

/// Bytes of a session description that are read: fits what comes in one UDP datagram.
pub const SDP_BYTES: usize = 65_535;

/// Media lines of a description: video calls with screens and data have four.
pub const SDP_MEDIA: usize = 16;

/// Formats of a media line, and lines of one attribute kept for it.
pub const SDP_FORMATS: usize = 64;

/// Bytes of a name or value kept from a description.
pub const SDP_TEXT: usize = 1_024;

/// Packets waiting in a jitter buffer: above half a second of 10 ms packets. One more drops the oldest.
pub const JITTER_PACKETS: usize = 64;

/// Bytes of a payload that a jitter buffer keeps: 200 ms of G.711, more than the longest Opus packet.
pub const JITTER_PAYLOAD: usize = 1_600;

/// Milliseconds that a jitter buffer delays at most; packets that come later than this are late.
pub const JITTER_DELAY_MS: u32 = 200;

/// Digits waiting to be sent on one leg: the longest number with pauses that an application dials.
pub const DIGITS_OUT: usize = 64;

/// Bytes of a SIP INFO body that are read for a digit.
pub const INFO_BYTES: usize = 1_024;

/// Milliseconds of sound collected before a recording's next piece is handed out.
pub const RECORD_PIECE_MS: u32 = 200;

/// Members of one conference.
pub const CONFERENCE_MEMBERS: usize = 1_000;

/// Members of a conference whose sound is mixed at a time: more make noise, not speech.
pub const CONFERENCE_SPEAKERS: usize = 8;

/// Frames of one prompt: six hours.
pub const PROMPT_FRAMES: usize = 6 * 3_600 * 50;
