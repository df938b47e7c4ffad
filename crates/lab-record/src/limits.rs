//! Bounds of what a capture may make this crate keep. A capture is a stranger's: each bound says what happens beyond it.

/// Files that are larger are not read: cut the SIP out of them with `tshark -r BIG -Y sip -w SMALL` or `editcap`.
pub const MAX_FILE: u64 = 512 << 20;
/// SIP messages kept of one capture; later ones are left out, and the capture's notes say so.
pub const MAX_MESSAGES: usize = 100_000;
/// The longest SIP message: a UDP datagram, and as much over TCP.
pub const MAX_MESSAGE: usize = 65_535;
/// Bytes of all kept messages together.
pub const MAX_MESSAGE_BYTES: usize = 128 << 20;
/// Datagrams of which fragments are missing, kept until they are whole; the oldest is dropped.
pub const MAX_FRAGMENTED: usize = 64;
/// Directions of TCP connections that are followed in one capture; later ones are left out, and the notes say
/// so. None is forgotten before the end of the file.
pub const MAX_STREAMS: usize = 4_096;
/// Segments kept beyond a gap of a TCP stream; then the gap counts as lost by the capture.
pub const MAX_AHEAD: usize = 64;
/// Texts on a TCP connection that are no SIP before the connection is left alone.
pub const MAX_STREAM_FAULTS: usize = 8;
/// Steps of one generated scenario: a longer call is cut, and the notes say so.
pub const MAX_STEPS: usize = 2_000;
/// RTP packets taken of one stream: half an hour at 20 ms.
pub const MAX_RTP_PACKETS: usize = 90_000;
/// A pause before a message that is shorter is the time of the machine that was recorded, not the user's (milliseconds).
pub const MIN_PAUSE: u128 = 50;
/// Media counts as a call's for that time after the last message of a call with a BYE (milliseconds): what is on its way then.
/// Later packets to the same addresses are another call's.
pub const MEDIA_AFTER_BYE: u64 = 1_000;
