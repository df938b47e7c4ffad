//! Limits of programmable voice, with their reasons and what happens at them.

use std::time::Duration;

/// Prompts a shard keeps encoded. The least recently played make room.
pub(super) const PROMPTS: usize = 1_024;

/// Samples of one of them: two minutes, for which a helper encodes some two seconds. Longer sounds are encoded as they play, by each
/// call: no caller waits for them, and they would push out many short ones that are played more often.
pub(super) const PROMPT_ENCODED: usize = 120 * 8_000;

/// The duration of each key among the sounds of a prompt.
pub(super) const DIGIT_MS: u32 = 160;

/// The time within which a key that comes in two forms is one press: INFO is sent when the key is released, and crosses the
/// signalling.
pub(super) const KEY_FORMS: Duration = Duration::from_secs(1);

/// Presses of a leg that are remembered for that time: more than a hand presses. The oldest are forgotten, and count twice if they come again.
pub(super) const KEY_PRESSES: usize = 16;

/// Phases turned at once when the shard was late: the rest follows once what came by SIP meanwhile is done.
pub(super) const TURNS: u32 = 5;

/// The lateness up to which a phase is made up for, five ticks; older ticks are left out, and the peer conceals them.
pub(super) const LATE: Duration = Duration::from_millis(100);

/// The longest time ahead that a script's wake-up is noted. A script with a later deadline is woken once more; after
/// the end of a script its note stays that long: a thousand calls a second leave about a megabyte and a half.
pub(super) const WAKE_AHEAD: Duration = Duration::from_secs(60);

/// Media streams of one call: Twilio's own. More: refused with a reason.
pub(super) const STREAMS: usize = 4;

/// Bytes of an application's sound that wait to be played, five minutes. The rest is lost, with a notification.
pub(super) const STREAM_QUEUE: usize = 5 * 60 * 8_000;

/// Marks that wait until the sound before them has been played. Further ones are lost, with a notification.
pub(super) const STREAM_MARKS: usize = 1_024;

/// Bytes of the address of a mailbox: a name and a domain as long as XMPP has them (RFC 7622 §3), and `@`. A longer one is no account's.
pub(super) const MAILBOX_ADDRESS: usize = 1023 + 1 + 1023;

/// Texts of a shard that have no outcome yet. More: failed at once.
pub(super) const TEXTS: usize = 10_000;

/// Bytes of a text: Twilio's 1,600 characters in UTF-8. A longer one fails.
pub(super) const TEXT_BYTES: usize = 6_400;

/// Members of the conferences and queues of a shard. One more is refused: its Dial fails, its Enqueue ends with
/// `system-error`.
pub(super) const MEMBERS: usize = 16_384;

/// Callers of a queue that only a Dial has named so far, as its row says: Twilio's own default.
pub(super) const QUEUE_SIZE: u32 = 1_000;

/// The time for the document that a queue's caller hears before its connection, as the word of its end may be lost. Longer: the two hear each
/// other, although the document goes on.
pub(super) const QUEUE_DOCUMENT: std::time::Duration = std::time::Duration::from_secs(60);

/// Frames of one member that wait because its shard and its room's do not tick at the same time. The oldest make room.
pub(super) const ROOM_FRAMES: usize = 3;

/// After so long a member's shard tells the room that the member is there, and the room's shard how the member stands:
/// what a lost message said is known then.
pub(super) const ROOM_KNOWN: std::time::Duration = std::time::Duration::from_secs(1);

/// A member that the other shard has not spoken of for so long is a ghost: the room lets it go, and its script goes on.
pub(super) const ROOM_LOST: std::time::Duration = std::time::Duration::from_secs(5);

/// A member whose room is at another node waits so long for its home: a node that stands still is dead after 4.5 s, and its rooms
/// have other homes once the farm's map says so. Without it, such as when the council is away, the member's script goes on.
pub(super) const ROOM_MOVES: std::time::Duration = std::time::Duration::from_secs(10);

/// Members of one other node in the rooms of this node, all shards together: what 380 say in 16 kHz, and what as many of this node's hear in
/// rooms of the other one, is 490 KiB a tick of the 512 KiB for which the class of sound of the link between the two has room. Of Opus, with three times as
/// many samples, a third may speak at once; the link drops the rest. One more is refused as at `MEMBERS`.
pub const LINK_MEMBERS: u32 = 380;

/// Members whose status one message has: with a hold document of 4 KiB each it is below the largest message between nodes.
pub(super) const ROOM_STANDINGS: usize = 50;

/// Recordings of one leg at a time: a Record verb's, a Dial's or conference's, and one of the REST interface. One more is
/// refused.
pub(super) const RECORDINGS_PER_LEG: usize = 3;

/// The longest recording that no Record verb limits: that of the longest call. The rest is not kept.
pub(super) const RECORDING: Duration = ivr::limits::CALL_DURATION;

/// Sound before the beginning of speech that a recogniser gets: words begin softly, and speech is noticed late.
pub(super) const BEFORE_SPEECH_MS: u32 = 500;

/// Silence that ends speech, when the document does not say.
pub(super) const END_OF_SPEECH: Duration = Duration::from_millis(1_000);

/// Characters of a transcription that are kept: as many as fit a row, whatever they are.
pub(super) const TRANSCRIPTION: usize = 8_192;

/// Bytes of a called number or name that bindings are looked up for. Longer ones match no binding.
pub(super) const NUMBER: usize = 256;

/// Bytes of each text of an INVITE that its application and the record get: the user and display name of its From, and its Call-ID. The rest is cut
/// off: rows have a limit, and a caller's texts must not keep its call or its recording out of the record.
pub(super) const CALLER_TEXT: usize = 1_024;

/// `X-` headers of an INVITE told to its application, and bytes of each value. The rest is left out.
pub(super) const TOLD_HEADERS: usize = 32;
pub(super) const TOLD_HEADER: usize = 1_024;

/// Notifications of one call in the record, so that an application with a mistake in each of its documents does not
/// fill the disk. More are logged only.
pub(super) const NOTIFICATIONS: u16 = 50;

/// Bytes of a callee's Reason-Phrase in the record: a line of text. The rest is cut.
pub(super) const REASON: usize = 200;

/// The time that a call rings before the record has it. Nearly all are answered before, and are written once less.
pub(super) const RINGING: Duration = Duration::from_secs(1);

/// The time for which a Dial's phones may ring beyond its `timeout`: the script counts that and cancels them. The SIP session's own
/// limit ends a call only if the script does not.
pub(super) const RING_MARGIN: Duration = Duration::from_secs(5);

/// Calls in place of those of dead nodes that wait, and those that are placed in a second: the last is placed after a minute, when its
/// party still remembers the first one, and a farm that has lost a node is not busy with calls of its own. More are not made.
pub(super) const REDIALS: usize = 600;
pub(super) const REDIALS_A_SECOND: usize = 10;

/// A call is made again if its node was seen alive so long ago at most: not after a farm has been off as a whole.
pub(super) const REDIAL_WITHIN: Duration = Duration::from_secs(60);

/// The time that a call in place of another rings: as long as a call of the REST interface that names none.
pub(super) const REDIAL_RINGS: Duration = Duration::from_secs(60);

/// The reason in the row of a call whose node has died, in place of a Reason-Phrase.
pub(super) const LOST_REASON: &str = "The node of the call has ended";

/// Parts of one leg that are noted for its trace, as spans of one call in `telemetry`. Further ones are counted only.
pub(crate) const TRACED_PARTS: usize = 256;
