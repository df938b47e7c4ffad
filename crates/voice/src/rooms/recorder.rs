//! The member from whose leg a conference is recorded.
//!
//! The whole mix is heard and said there, so one leg is enough. The recording belongs to the conference: when its leg leaves, the member's shard
//! tells the home (`RoomEvent::RecordingEnded`), and another member's shard begins the next one with the same options. Until that
//! word comes the room has no recorder, as a pause and a stop are known only where the recording is made: a member that asked
//! for a recording of its own waits, and the part of a recording that was stopped is handed on, too.

use stdx::Instant;

use super::home::Outbox;
use super::message::{ConferenceRecording, Name};
use super::moved;
use super::room::{Member, Room};

impl Room {
    /// The member from whose leg the conference is recorded: there is one recording at a time, of the whole mix.
    pub(super) fn recorder(&self) -> Option<Name> {
        self.members.iter().find(|member| member.records).map(|member| member.name)
    }
}

/// A new member that asks for a recording does not begin one while the room waits for the word of the recorder before.
pub(super) fn defer_recording(room: &mut Room, member: &mut Member) {
    if room.recorder().is_none()
        && member.records
        && let Some(moving) = &mut room.moving
    {
        member.records = false;
        moving.recorders.push(member.name);
    }
}

/// The recorder has left. None of those that asked for a recording begins it before that member's shard, or `expire_moved`, has had its say.
pub(super) fn await_recording(room: &mut Room, now: Instant, left: Member) {
    let asks = |member: &mut Member| std::mem::take(&mut member.records).then_some(member.name);
    let asked: Vec<Name> = room.members.iter_mut().filter_map(asks).collect();
    let moving = moved::waiting(room, now);
    moving.recorders.extend(asked);
    moving.recording = left.recording.or(moving.recording.take());
}

/// The recording has ended with its leg, and goes on from that of another member, unless there is a recorder already.
pub(super) fn go_on_recording(
    room: &mut Room,
    recording: Option<Box<ConferenceRecording>>,
    out: &mut Outbox,
) {
    if room.recorder().is_some() {
        return;
    }
    let (mut asked, mut known) = (Vec::new(), None);
    if let Some(moving) = &mut room.moving {
        (asked, known) = (std::mem::take(&mut moving.recorders), moving.recording.take());
    }
    name_recorder(room, &asked, recording.or(known), out);
}

/// Lets those that asked for a recording be recorders again. If none is it, the first of them becomes it, or the first member
/// where there is a recording to go on with.
pub(super) fn name_recorder(
    room: &mut Room,
    asked: &[Name],
    recording: Option<Box<ConferenceRecording>>,
    out: &mut Outbox,
) {
    let had_recorder = room.recorder().is_some();
    for member in &mut room.members {
        member.records |= asked.contains(&member.name);
    }
    if !had_recorder && recording.is_some() {
        let first = room.members.iter().position(|member| member.records).unwrap_or(0);
        if let Some(member) = room.members.get_mut(first) {
            (member.records, member.recording) = (true, recording);
        }
    }
    if room.recorder().is_some() {
        room.tell_all(out);
    }
}
