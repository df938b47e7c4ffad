//! A room on its way from one home to another: because its home has died, or the farm's map names another one.
//!
//! Each member's shard asks the next home to take the member with the status that it had (`Join::again`). The home makes the room of the
//! first that comes, with the same sid, and the others find it there: no callback says that they left or came, and the row stays as it is.
//! The home before, if it lives, lets them go likewise. Invariant: a room that waits for members ends if they do not come.

use std::sync::Arc;

use ivr::document::Conference;
use stdx::Instant;

use super::super::limits;
use super::callbacks::{self, ConferenceNotifier};
use super::home::{Out, Outbox};
use super::message::{ConferenceRecording, Join, MemberAudio, MemberStatus, Name};
use super::recorder::name_recorder;
use super::room::{Kind, Member, Room};

/// A room of which some members are still at another home.
pub(super) struct Moving {
    /// The room waits for them until then.
    until: Instant,
    /// The call that the other of a queue's connection is connected with.
    awaited: Option<Arc<str>>,
    /// Members that may be the recorder once all have come: one that was it at the home before goes on to be.
    /// One that came or stayed while the recorder's word is awaited waits likewise.
    pub(super) recorders: Vec<Name>,
    /// The recording that the recorder went on with which has left, as the home knows it: used if that member's shard says nothing.
    pub(super) recording: Option<Box<ConferenceRecording>>,
}

impl Moving {
    fn new(now: Instant) -> Moving {
        Moving { until: now + limits::ROOM_LOST, awaited: None, recorders: Vec::new(), recording: None }
    }
}

impl Member {
    /// The attributes that it had at the room's home before.
    pub(super) fn restore(&mut self, again: &MemberStatus) {
        self.is_muted = again.is_muted;
        self.end_on_exit = again.end_on_exit;
        if again.records && again.recording.is_some() {
            (self.records, self.recording) = (true, again.recording.clone());
        }
        self.hold = match &again.hears {
            MemberAudio::Hold(hold) => Some(hold.clone()),
            MemberAudio::Wait | MemberAudio::Room => again.held.clone(),
        };
    }
}

/// A conference of another home, without members: the first one is about to join it.
pub(super) fn conference_of(again: &MemberStatus, join: &Join, conference: &Conference) -> Room {
    let (sid, name) = (Arc::clone(&again.sid), conference.name.as_str().into());
    let mut teller = ConferenceNotifier::new(Arc::clone(&join.owner), sid, name, conference.status.clone());
    teller.sequence = again.sequence;
    Room::new(again.created_at, teller, Kind::Conference)
}

impl Room {
    /// Takes a member of the home before.
    pub(super) fn rejoin(
        &mut self,
        now: Instant,
        mut member: Member,
        again: &MemberStatus,
        conference: &Conference,
        out: &mut Outbox,
    ) {
        let (name, call) = (member.name, Arc::clone(&member.call_sid));
        let moving = waiting(self, now);
        if member.records && !again.records {
            member.records = false;
            moving.recorders.push(name);
        }
        let at = self.members.partition_point(|other| other.joined_at <= member.joined_at);
        self.members.insert(at, member);
        self.index();
        if self.teller.callback.is_none() {
            self.teller.callback.clone_from(&conference.status);
        }
        let is_other = self.be_the_older(now, again, out);
        self.teller.sequence = self.teller.sequence.max(again.sequence);
        // It had started there.
        let starts = !self.is_started && again.hears != MemberAudio::Wait;
        self.is_started |= starts;
        // One that waited there alone may find another here.
        if self.start_if_due(now, &call, out) {
        } else if starts || is_other {
            self.tell_all(out);
        } else if let Some(member) = self.members.iter().find(|member| member.name == name) {
            out.push(self.standing_of(member));
        }
    }

    /// A call joined before the members of the home before, so that there are two conferences of the name. They become the older one, and
    /// the row of the other one ends, with the first of its members. Returns true if this room's sid has changed.
    fn be_the_older(&mut self, now: Instant, again: &MemberStatus, out: &mut Outbox) -> bool {
        if self.teller.sid == again.sid {
            return false;
        }
        let (own, other) = ((self.created_at, &self.teller.sid), (again.created_at, &again.sid));
        let is_older = other < own;
        let (ended, since) = if is_older {
            (std::mem::replace(&mut self.teller.sid, Arc::clone(&again.sid)), self.created_at)
        } else {
            (Arc::clone(&again.sid), again.created_at)
        };
        self.created_at = self.created_at.min(again.created_at);
        if !self.absorbed.insert(Arc::clone(&ended)) {
            return is_older;
        }
        let (owner, name) = (Arc::clone(&self.teller.owner), self.teller.name.clone());
        let ended = ConferenceNotifier::new(owner, ended, name, None);
        let reason = Some(("last-participant-left", ""));
        out.extend(callbacks::conference_row(&ended, (since, now), "completed", reason).map(Out::Write));
        is_older
    }

    /// One of the two of a queue's connection that has come from the home before; `None`: its status names no other.
    pub(super) fn half_of_pair(now: Instant, name: Name, join: &Join, out: &mut Outbox) -> Option<Room> {
        let again = join.again.as_ref()?;
        let awaited = Some(Arc::clone(again.with.as_ref()?));
        let teller =
            ConferenceNotifier::new(Arc::clone(&join.owner), Arc::clone(&again.sid), "".into(), None);
        let mut room = Room::new(again.created_at, teller, Kind::Pair);
        room.is_started = true;
        room.moving = Some(Moving { awaited, ..Moving::new(now) });
        room.members.push(Member::new(now, name, join, None));
        room.index();
        room.tell_all(out);
        Some(room)
    }

    /// The call that this half of a queue's connection waits for.
    pub(super) fn awaited(&self) -> Option<&Arc<str>> {
        self.moving.as_ref().and_then(|moving| moving.awaited.as_ref())
    }

    /// True if this half of a queue's connection waits for that member.
    pub(super) fn awaits(&self, join: &Join) -> bool {
        let with = join.again.as_ref().and_then(|again| again.with.as_ref());
        let is_same_account = self.teller.owner.account == join.owner.account;
        let one = self.members.first().map(|member| &member.call_sid);
        is_same_account && self.awaited() == Some(&join.call_sid) && with.is_some() && one == with
    }

    /// Takes the other of a queue's connection.
    pub(super) fn complete(&mut self, now: Instant, name: Name, join: &Join, out: &mut Outbox) {
        self.moving = None;
        self.members.push(Member::new(now, name, join, None));
        self.index();
        self.tell_all(out);
    }

    /// The member goes on at another home.
    pub(super) fn let_go(&mut self, now: Instant, name: Name) {
        let was_recorder = self.recorder() == Some(name);
        let Some(left) = self.remove(name) else { return };
        if was_recorder {
            // The recording goes on at the next home; a member that has not left yet begins no second one.
            self.members.iter_mut().for_each(|member| member.records = false);
        }
        match self.kind {
            Kind::Conference => self.aim(),
            // The other one follows, or it is alone.
            Kind::Pair => {
                self.moving = Some(Moving { awaited: Some(left.call_sid), ..Moving::new(now) });
            }
        }
    }

    /// Once a second. Returns true if the room has ended, as the other of a queue's connection has not come.
    pub(super) fn expire_moved(&mut self, now: Instant, out: &mut Outbox) -> bool {
        let Some(moving) = self.moving.take_if(|moving| now > moving.until) else { return false };
        if moving.awaited.is_some() {
            self.end(now, "", None, out);
            return true;
        }
        name_recorder(self, &moving.recorders, moving.recording, out);
        false
    }
}

/// The room waits once more for what is still to come.
pub(super) fn waiting(room: &mut Room, now: Instant) -> &mut Moving {
    let moving = room.moving.get_or_insert_with(|| Moving::new(now));
    moving.until = now + limits::ROOM_LOST;
    moving
}
