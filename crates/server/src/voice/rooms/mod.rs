//! Rooms: conferences, and the two of a queue's connection. A room lives on the shard that its name hashes to; members of
//! other shards send it what they hear on every tick, and get back what they are to hear.

use admin::control::{ConferenceChange, ControlError, Participant, ParticipantChange, QueueMember};
use ivr::document::{BridgeRecording, Conference};
use ivr::request::Target;
use ivr::script::{Id, Start};
use media::session::{Feed, MediaSession};
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World};

/// A leg's place in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// The shard of the room.
    pub(super) home: u16,
    pub(super) number: u64,
}

/// The rooms of one shard, and what its legs send to and get from those of other shards.
#[derive(Default)]
pub(super) struct Rooms {}

impl Rooms {
    /// What one leg heard this tick.
    pub(super) fn put(&mut self, _leg: Key, _seat: Seat, _media: &MediaSession) {}

    /// Between the last `put` of a tick and its first `feed`.
    pub(super) fn mix(&mut self, _now: Instant) {}

    /// What a leg is to hear.
    pub(super) fn feed(&mut self, _leg: Key, _seat: Seat) -> Feed<'_> {
        Feed::None
    }
}

impl Voice {
    pub(super) fn join_conference(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _conference: Conference,
        _record: Option<BridgeRecording>,
        world: &mut World<'_>,
    ) {
        let refused =
            ivr::script::ConferenceEvent::Refused { reason: "Conference: not built yet".to_owned() };
        self.drive(now, actor, world, |script, out| script.handle_conference(now, id, refused, out));
    }

    pub(super) fn leave_conference(&mut self, _now: Instant, _actor: Key, _id: Id, _world: &mut World<'_>) {}

    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _name: &str,
        (_wait, _max_size): (Option<Target>, u32),
        world: &mut World<'_>,
    ) {
        let left = ivr::script::QueueEvent::Left(ivr::script::QueueResult::Error);
        self.drive(now, actor, world, |script, out| script.handle_queue(now, id, left, out));
    }

    /// A Dial of `actor` takes the first caller out of the queue, as its leg `id`.
    pub(super) fn dial_queue(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _name: &str,
        world: &mut World<'_>,
    ) {
        let failed = ivr::script::LegEvent::Failed(ivr::script::LegFailure {
            status: ivr::script::CallStatus::Failed,
            code: None,
            call_id: None,
            headers: Vec::new(),
        });
        self.drive(now, actor, world, |script, out| script.handle_leg(now, id, failed, out));
    }

    /// `None`: of an actor that waits for another.
    pub(super) fn leave_queue(
        &mut self,
        _now: Instant,
        _actor: Key,
        _id: Option<Id>,
        _world: &mut World<'_>,
    ) {
    }

    /// The leg is in no room any more; its script is not told.
    pub(super) fn leave_room(&mut self, _now: Instant, _leg: Key, _seat: Seat, _world: &mut World<'_>) {}

    // What the REST interface asks. Sids and names that are not of this shard are `NotFound`.

    /// In the order they came.
    pub(super) fn participants(&self, _conference: &str) -> Result<Vec<Participant>, ControlError> {
        Err(ControlError::NotFound)
    }

    pub(super) fn modify_conference(
        &mut self,
        _now: Instant,
        _conference: &str,
        _change: ConferenceChange,
        _world: &mut World<'_>,
    ) -> Result<(), ControlError> {
        Err(ControlError::NotFound)
    }

    pub(super) fn modify_participant(
        &mut self,
        _now: Instant,
        (_conference, _call): (&str, &str),
        _change: ParticipantChange,
        _world: &mut World<'_>,
    ) -> Result<(), ControlError> {
        Err(ControlError::NotFound)
    }

    /// The first in line first. `queue` is a sid.
    pub(super) fn queue_members(&self, _queue: &str) -> Result<Vec<QueueMember>, ControlError> {
        Err(ControlError::NotFound)
    }

    /// Takes a call (`None`: the first) out of its queue; its script goes on with that document.
    pub(super) fn dequeue(
        &mut self,
        _now: Instant,
        (_queue, _call): (&str, Option<&str>),
        _to: Start,
        _world: &mut World<'_>,
    ) -> Result<QueueMember, ControlError> {
        Err(ControlError::NotFound)
    }
}
