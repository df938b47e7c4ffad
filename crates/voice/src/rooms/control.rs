//! Requests of the REST interface to this shard's rooms. Sids that are not of this shard are `NotFound`.
//!
//! The node asks all shards, as a sid does not tell the home; one of them has the room. Each change is
//! settled at once, so members of this shard are told before the answer.

use admin::control::{ConferenceChange, ControlError, Participant, ParticipantChange, QueueMember};
use ivr::script::Start;
use stdx::Instant;

use super::{RoomParts, Rooms};

impl Rooms {
    /// The members of a conference, in the order they came.
    pub(in super::super) fn participants(&self, conference: &str) -> Result<Vec<Participant>, ControlError> {
        self.home.participants(conference)
    }

    /// An announcement to all, or the end of the conference.
    pub(in super::super) fn modify_conference(
        &mut self,
        now: Instant,
        conference: &str,
        change: ConferenceChange,
        parts: &mut RoomParts<'_, '_>,
    ) -> Result<(), ControlError> {
        let result = self.home.modify_conference(now, conference, change, &mut self.outs);
        self.settle_rooms(now, parts);
        result
    }

    /// Changes a participant, by the call's sid or the participant's label.
    pub(in super::super) fn modify_participant(
        &mut self,
        now: Instant,
        of: (&str, &str),
        change: ParticipantChange,
        parts: &mut RoomParts<'_, '_>,
    ) -> Result<(), ControlError> {
        let result = self.home.modify_participant(now, of, change, &mut self.outs);
        self.settle_rooms(now, parts);
        result
    }

    /// The callers of a queue, the first in line first. `queue` is a sid.
    pub(in super::super) fn queue_members(&self, queue: &str) -> Result<Vec<QueueMember>, ControlError> {
        self.home.queue_members(queue)
    }

    /// Takes a call (`None`: the first) out of its queue; its script goes on with that document.
    pub(in super::super) fn dequeue(
        &mut self,
        now: Instant,
        of: (&str, Option<&str>),
        to: Start,
        parts: &mut RoomParts<'_, '_>,
    ) -> Result<QueueMember, ControlError> {
        let result = self.home.dequeue(now, of, to, &mut self.outs);
        self.settle_rooms(now, parts);
        result
    }
}
