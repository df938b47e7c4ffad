//! Events between members and their rooms, across shards and within one.
//!
//! Messages may be lost when an inbox is full. So states are sent whole, and again each second, instead of
//! changes; a Join that is lost ends with the member's being told that it is in no room. A member is named by
//! its shard and number (`Name`), a room only by its home: the home knows which room a member is in.

use std::sync::Arc;

use ivr::document::Conference;
use ivr::request::Target;
use ivr::script::Start;
use stdx::Instant;

use super::super::Owner;
use super::frames::Sound;

/// A message between a room and its members' shards.
#[derive(Debug)]
pub struct RoomMessage(pub(super) RoomEvent);

/// The shard of a member, and its number there. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub(super) shard: u16,
    pub(super) number: u64,
}

/// An event, to the home of a room or to a member. Numbers are those of members at their shard.
#[derive(Debug)]
pub(super) enum RoomEvent {
    // To the room's shard. A leg that wants to be in a conference or queue joins: answered by `Standing` or `Gone`.
    Join(Box<Join>),
    /// A member has left. Its shard has forgotten it already.
    Leave(Name),
    /// Every second: all members of that shard that are, or want to be, in a room here.
    Alive {
        shard: u16,
        numbers: Vec<u64>,
    },
    /// Every tick: the sound of all members of that shard which hear rooms here.
    Said {
        shard: u16,
        sound: Arc<Sound>,
    },
    /// The announcement to the member is over.
    Announced(Name),

    // To a member's shard.
    /// The member's status has changed, or it has just joined.
    Standing {
        number: u64,
        standing: MemberStatus,
    },
    /// Every second: all of that shard that are in a room of `home`.
    Known {
        home: u16,
        standings: Vec<(u64, MemberStatus)>,
    },
    /// The member is in no room any more, or never was.
    Gone {
        number: u64,
        why: LeaveReason,
    },
    /// A document to play to the member; answered by `Announced`.
    Announce {
        number: u64,
        target: Target,
    },
    /// Every tick: the sound for all members of one shard in rooms of another.
    Heard {
        sound: Arc<Sound>,
    },
}

/// A leg that wants to be a member.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub(super) name: Name,
    pub(super) call_sid: Arc<str>,
    pub(super) owner: Arc<Owner>,
    pub(super) place: RoomTarget,
}

#[derive(Clone, Debug)]
pub(super) enum RoomTarget {
    Conference(Box<Conference>),
    /// To wait in that queue.
    Queue {
        name: Box<str>,
        max_size: u32,
    },
    /// To be connected with the first that waits in it.
    First {
        queue: Box<str>,
    },
}

/// The status of a member; sent whole whenever it changes, and every second, so that a lost message is made good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberStatus {
    /// The sid of the conference or queue.
    pub(super) sid: Arc<str>,
    pub(super) hears: MemberAudio,
    /// In a queue.
    pub(super) line: Option<QueuePosition>,
    /// The call it is connected with.
    pub(super) with: Option<Arc<str>>,
    /// The conference is recorded from its leg.
    pub(super) records: bool,
}

/// The source of a member's sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MemberAudio {
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
pub(super) struct QueuePosition {
    /// From 1.
    pub(super) position: usize,
    /// Callers that wait.
    pub(super) size: usize,
    /// The mean wait of callers that were taken so far.
    pub(super) average_seconds: u64,
    /// The time at which the caller came.
    pub(super) since: Instant,
}

/// Why a member is in no room any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaveReason {
    /// It never was in it.
    Refused(String),
    /// The queue is full.
    Full,
    /// The room has ended, or the member was removed.
    Over,
    /// Out of a queue, to another document.
    Redirected(Start),
}
