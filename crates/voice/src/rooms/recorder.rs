//! The member from whose leg a conference is recorded.
//!
//! The whole mix is heard and said there, so one leg is enough. The recording belongs to the conference: when its leg leaves, the member's shard
//! tells the home (`RoomEvent::RecordingEnded`), and another member's shard begins the next one with the same options.

use super::home::Outbox;
use super::message::{ConferenceRecording, Name};
use super::room::Room;

impl Room {
    /// The member from whose leg the conference is recorded: there is one recording at a time, of the whole mix.
    pub(super) fn recorder(&self) -> Option<Name> {
        self.members.iter().find(|member| member.records).map(|member| member.name)
    }

    /// The recording has ended with its leg, and goes on from that of the first member, unless another one that asked for it has begun the next.
    pub(super) fn go_on_recording(&mut self, recording: Box<ConferenceRecording>, out: &mut Outbox) {
        if self.recorder().is_none()
            && let Some(member) = self.members.first_mut()
        {
            (member.records, member.recording) = (true, Some(recording));
            self.tell_all(out);
        }
    }
}
