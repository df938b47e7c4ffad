//! Events between members and their rooms, across shards and within one, also of other nodes of a farm.
//!
//! Messages may be lost when an inbox is full or a link is cut. So states are sent whole, and again each second,
//! instead of changes; a Join that is lost ends with the member's being told that it is in no room. A member is
//! named by its shard and number (`Name`), a room only by its home: the home knows which room a member is in.

use std::sync::Arc;

use ivr::document::{Callback, Conference};
use ivr::request::Target;
use ivr::script::Start;
use router::ShardAddress;
use stdx::Instant;

use super::super::Owner;
pub use super::super::limits::LINK_MEMBERS;
use super::super::record::Pause;
pub use super::frames::{Sound, SoundPart};

/// A message between a room and its members' shards.
#[derive(Debug)]
pub struct RoomMessage {
    /// The shard that sends it: the members' that an event to a home names, or the home.
    pub from: ShardAddress,
    /// The event.
    pub event: RoomEvent,
}

/// The shard of a member, and its number there. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub(super) shard: ShardAddress,
    pub(super) number: u64,
}

/// An event, to the home of a room or to a member. Numbers are those of members at their shard.
#[derive(Debug)]
pub enum RoomEvent {
    // To the room's home.
    /// A leg wants to be in a conference or queue: answered by `Standing` or `Gone`.
    Join(Box<Join>),
    /// A member has left. Its shard has forgotten it already.
    Leave {
        /// The member.
        number: u64,
    },
    /// The member from whose leg a conference was to be recorded has left, after its Leave: another one takes its part.
    RecordingEnded {
        /// The conference.
        sid: Arc<str>,
        /// The recording as it was then; `None`: that member had none, and the next one that asked for it begins its own.
        recording: Option<Box<ConferenceRecording>>,
    },
    /// The member goes on with its room at another home.
    Moved {
        /// The member.
        number: u64,
    },
    /// Every second: the members of the sending shard that are, or want to be, in a room here.
    Alive {
        /// All of them.
        numbers: Vec<u64>,
    },
    /// Every tick: the sound of all members of the sending shard which hear rooms here.
    Said(Arc<Sound>),
    /// The announcement to the member is over.
    Announced {
        /// The member.
        number: u64,
    },

    // To a member's shard.
    /// The member's status has changed, or it has just joined.
    Standing {
        /// The member.
        number: u64,
        /// Its whole status.
        standing: Box<MemberStatus>,
    },
    /// Every second: members of that shard that are in a room of the sending home.
    Known {
        /// Some of them, each with its status.
        standings: Vec<(u64, MemberStatus)>,
    },
    /// The member is in no room any more, or never was.
    Gone {
        /// The member.
        number: u64,
        /// The reason.
        why: LeaveReason,
    },
    /// A document to play to the member; answered by `Announced`.
    Announce {
        /// The member.
        number: u64,
        /// The document.
        target: Target,
    },
    /// Every tick: the sound for all members of one shard in rooms of another.
    Heard(Arc<Sound>),
}

/// A leg that wants to be a member.
#[derive(Clone, Debug)]
pub struct Join {
    /// Its number at its shard.
    pub number: u64,
    /// The sid of its call.
    pub call_sid: Arc<str>,
    /// The account of the room.
    pub owner: Arc<Owner>,
    /// The room.
    pub place: RoomTarget,
    /// Its status at the home that the room had before: the next one makes the room of what its members know.
    pub again: Option<Box<MemberStatus>>,
}

impl Join {
    /// The member that the Join of that shard makes.
    pub(super) fn name(&self, shard: ShardAddress) -> Name {
        Name { shard, number: self.number }
    }

    /// The number of its place in the order of members: the time when it came.
    pub(super) fn came_at(&self, now: Instant) -> Instant {
        self.again.as_ref().map_or(now, |again| again.joined_at)
    }
}

/// The room that a leg wants to be in.
#[derive(Clone, Debug)]
pub enum RoomTarget {
    /// A conference, without what concerns the member's shard alone: `wait`, `trim` and `recording_status`.
    Conference(Box<Conference>),
    /// To wait in that queue.
    Queue {
        /// The queue.
        name: Box<str>,
        /// It is full with so many callers.
        max_size: u32,
    },
    /// To be connected with the first that waits in it.
    First {
        /// The queue.
        queue: Box<str>,
        /// A document that this one hears before the connection.
        document: Option<Target>,
    },
}

/// The status of a member; sent whole whenever it changes, and every second, so that a lost message is made good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The sid of the conference or queue.
    pub sid: Arc<str>,
    /// The source of its sound.
    pub hears: MemberAudio,
    /// In a queue.
    pub line: Option<QueuePosition>,
    /// The call it is connected with.
    pub with: Option<Arc<str>>,
    /// The conference is recorded from its leg.
    pub records: bool,
    /// The recording that it goes on with, as another member has left that began it.
    pub recording: Option<Box<ConferenceRecording>>,
    // For the room's next home.
    /// The others do not hear it.
    pub is_muted: bool,
    /// The member is on hold in a conference that has not started: the document that it hears from the start on, or `None` for the
    /// built-in music. Until then it hears the sound that it brought to wait with.
    pub held: Option<Option<Target>>,
    /// The conference ends when it leaves.
    pub end_on_exit: bool,
    /// The time at which it came.
    pub joined_at: Instant,
    /// The time at which the room was made.
    pub created_at: Instant,
    /// The number of the room's last status callback.
    pub sequence: u32,
}

/// The options of a conference's recording, as the member asked for it that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConferenceRecording {
    /// Silence at both ends is left out.
    pub trim: bool,
    /// The callback for each finished file.
    pub status: Option<Callback>,
    /// While it is paused.
    pub pause: Option<Pause>,
    /// It was stopped: no further recording of the conference begins, whichever members ask for it.
    pub is_stopped: bool,
}

/// The source of a member's sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAudio {
    /// The music or document that it brought to wait with: in a queue, or in a conference that has not
    /// started.
    Wait,
    /// The other members.
    Room,
    /// On hold: a document, or the built-in music.
    Hold(Option<Target>),
}

/// A place in a queue, as a caller's wait document is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// From 1.
    pub position: usize,
    /// Callers that wait.
    pub size: usize,
    /// The mean wait of callers that were taken so far.
    pub average_seconds: u64,
    /// The time at which the caller came.
    pub since: Instant,
}

/// Why a member is in no room any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// It never was in it.
    Refused(String),
    /// The queue is full.
    Full,
    /// The room has ended, or the member was removed.
    Over,
    /// Out of a queue, to another document.
    Redirected(Start),
}
