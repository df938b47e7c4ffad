//! A leg in a room or queue: what its script asks, and what becomes of that.
//!
//! The member's side of the protocol of [`super::message`]. A script's effect makes a [`RoomMemberLeg`] and a
//! Join; the home answers with the member's status, from which the leg's sound, its recording and the events
//! of its script follow. The home decides, so a status that repeats is harmless: only its differences from
//! the last one have consequences.

use std::sync::Arc;

use ivr::document::{BridgeRecording, Conference};
use ivr::request::Target;
use ivr::script::{CallStatus, ConferenceEvent, Id, LegEvent, LegFailure, QueueEvent, QueueResult, Recorded};
use media::codec::Codec;
use media::session::RecordSource;
use router::ShardAddress;
use stdx::Instant;
use stdx::slab::Key;

use super::super::leg::Partner;
use super::super::record::{Background, Modify};
use super::frames::Frames;
use super::message::{
    ConferenceRecording, Join, LeaveReason, MemberAudio, MemberStatus, QueuePosition, RoomEvent, RoomTarget,
};
use super::{RoomMembership, RoomParts, Rooms, Source, hash};

/// A leg that is, or wants to be, in a room or queue. It ends with `stand_up`, whichever side ends it.
pub(crate) struct RoomMemberLeg {
    pub(super) leg: Key,
    /// The actor whose script asked for it, and the id of that request.
    pub(super) actor: Key,
    pub(super) id: Id,
    /// The shard of its room, and the hash by which the room's home is found.
    pub(super) home: ShardAddress,
    pub(super) hash: u64,
    pub(super) kind: Kind,
    /// The room, for the home that it has after this one.
    pub(super) place: RoomTarget,
    /// The document that it brought to wait with.
    pub(super) wait: Option<Target>,
    /// Until it begins.
    pub(super) recording: Option<RecordingRequest>,
    /// Its recording has begun, and ends with the membership.
    pub(super) is_recorded: bool,
    /// The conference's recording, once it was to be made from this leg: it goes on from another one afterwards.
    pub(super) conference_recording: Option<LegConferenceRecording>,
    /// As its home said last; `None` before the first word: it is not in the room yet.
    pub(super) standing: Option<MemberStatus>,
    /// The time at which its script asked for it.
    pub(super) asked_at: Instant,
    /// When its home last spoke of it.
    pub(super) known_at: Instant,
    /// It has another home than before, of which it has not heard: it asks again each second.
    pub(super) is_moving: bool,
    /// The sound that it hears now.
    pub(super) source: Source,
    /// The codec and rate of its last frame to a room of another shard, while that room need not be told again.
    pub(super) spoke_in: Option<(Codec, u32)>,
    /// Sound of a room of another shard.
    pub(super) frames: Frames,
    /// A script that announces something: not what it waits with.
    pub(super) announcing: Option<Key>,
}

/// A recording that is to begin with the member's being in the room, or when the room is to be recorded from its leg:
/// there the whole mix is heard and said.
pub(super) struct RecordingRequest {
    /// The Dial asked for it, not the conference.
    is_own: bool,
    /// Its options.
    how: Background,
}

/// The recording of a conference, at the leg that it is to be made from.
pub(super) struct LegConferenceRecording {
    /// As it was when it was to begin.
    options: Box<ConferenceRecording>,
    /// It was begun here. A leg may have no sound to record, or be recorded already; it was stopped before, or the node ends.
    has_begun: bool,
}

impl RecordingRequest {
    /// The conference's, which another member has begun.
    fn of_conference(recording: &ConferenceRecording) -> RecordingRequest {
        let ConferenceRecording { trim, status, pause: _, is_stopped: _ } = recording.clone();
        let source = RecordSource::Both;
        let how = Background { source, trim, status, of: "Conference", conference: None };
        RecordingRequest { is_own: false, how }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Conference,
    /// Waits in a queue.
    Caller,
    /// Takes the first that waits in one.
    Taker,
}

impl RoomMemberLeg {
    /// The sound that the room wants it to hear; `None` before the first status.
    pub(super) fn hears(&self) -> Option<&MemberAudio> {
        self.standing.as_ref().map(|standing| &standing.hears)
    }

    /// Its place in a queue.
    pub(super) fn line(&self) -> Option<QueuePosition> {
        self.standing.as_ref().and_then(|standing| standing.line)
    }

    /// The others do not hear it.
    pub(super) fn is_muted(&self) -> bool {
        self.standing.as_ref().is_some_and(|standing| standing.is_muted)
    }

    /// It hears the other members.
    fn is_connected(&self) -> bool {
        self.hears() == Some(&MemberAudio::Room)
    }
}

impl Rooms {
    /// A Dial's Conference. `record`: the Dial's own recording.
    pub(in super::super) fn join_conference(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        conference: Conference,
        record: Option<BridgeRecording>,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let wait = conference.wait.clone();
        // The Dial's own is of this member, whatever the room says.
        let is_own = record.is_some();
        let (trim, status) = match record {
            Some(record) => (record.trim, record.status.or_else(|| conference.recording_status.clone())),
            None => (conference.trim, conference.recording_status.clone()),
        };
        let recording = (is_own || conference.record).then_some(RecordingRequest {
            is_own,
            how: Background { source: RecordSource::Both, trim, status, of: "Conference", conference: None },
        });
        let name = conference.name.clone();
        // The home needs nothing of what this shard does for its member.
        let conference = Conference { wait: None, trim: false, recording_status: None, ..conference };
        let wanted = RoomTarget::Conference(Box::new(conference));
        self.sit(now, (actor, id, Kind::Conference), (wanted, &name), (wait, recording), parts);
    }

    /// An Enqueue. `wait` is its `waitUrl`; `None`: the built-in music.
    pub(in super::super) fn enqueue(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        name: &str,
        (wait, max_size): (Option<Target>, Option<u32>),
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some((_, leg)) = parts.calls.leg_of(actor) else { return };
        let (name, max_size) = parts.queues.find(&leg.owner.account, name, max_size);
        let wanted = RoomTarget::Queue { name: name.clone(), max_size };
        self.sit(now, (actor, id, Kind::Caller), (wanted, &name), (wait, None), parts);
    }

    /// A Dial's leg that is the first caller of a queue, or the next that comes. The document is for this caller.
    pub(in super::super) fn dial_queue(
        &mut self,
        now: Instant,
        actor: Key,
        leg: Id,
        (name, document): (&str, Option<Target>),
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some((_, caller)) = parts.calls.leg_of(actor) else { return };
        let (name, _) = parts.queues.find(&caller.owner.account, name, None);
        let wanted = RoomTarget::First { queue: name.clone(), document };
        self.sit(now, (actor, leg, Kind::Taker), (wanted, &name), (None, None), parts);
    }

    /// Makes the membership and asks its home to let it in.
    fn sit(
        &mut self,
        now: Instant,
        (actor, id, kind): (Key, Id, Kind),
        (place, name): (RoomTarget, &str),
        (wait, recording): (Option<Target>, Option<RecordingRequest>),
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some((key, leg)) = parts.calls.leg_of(actor) else { return };
        let (owner, call_sid) = (Arc::clone(&leg.owner), leg.sid.as_str().into());
        let of = if kind == Kind::Conference { "conference" } else { "queue" };
        let hash = hash(of, &owner.account, name);
        let home = self.homes.home_of(hash, self.own, self.shards);
        self.last += 1;
        let number = self.last;
        // A taker's leg hears its Dial until it is connected.
        if kind != Kind::Taker {
            self.part(now, key, parts);
            if let Some(leg) = parts.calls.legs.get_mut(key) {
                leg.partner = Partner::Seat(RoomMembership { number });
            }
        }
        let seated = RoomMemberLeg {
            leg: key,
            actor,
            id,
            home,
            hash,
            kind,
            place: place.clone(),
            wait,
            recording,
            is_recorded: false,
            conference_recording: None,
            standing: None,
            asked_at: now,
            known_at: now,
            is_moving: false,
            source: Source::Silence,
            spoke_in: None,
            frames: Frames::default(),
            announcing: None,
        };
        self.seats.insert(number, seated);
        self.by_effect.insert((actor, id), number);
        let join = Join { number, call_sid, owner, place, again: None };
        self.post_event(home, RoomEvent::Join(Box::new(join)), parts);
        self.settle_rooms(now, parts);
    }

    /// Asks for the members' places at the homes that their rooms have now, where these are others. Until the next home answers, a member
    /// hears nothing of its room.
    pub(super) fn move_seats(&mut self, now: Instant, parts: &mut RoomParts<'_, '_>) {
        let moves: Vec<(u64, ShardAddress)> = self
            .seats
            .iter()
            .map(|(number, seated)| {
                (*number, seated.home, self.homes.home_of(seated.hash, self.own, self.shards))
            })
            .filter(|(_, home, next)| home != next)
            .map(|(number, _, next)| (number, next))
            .collect();
        for (number, next) in moves {
            let Some(seated) = self.seats.get_mut(&number) else { continue };
            let before = std::mem::replace(&mut seated.home, next);
            (seated.known_at, seated.is_moving, seated.spoke_in) = (now, true, None);
            seated.frames.clear();
            self.post_event(before, RoomEvent::Moved { number }, parts);
            self.rejoin(number, parts);
        }
        self.settle_rooms(now, parts);
    }

    /// Asks the home of a member's room to take it, with the status that it had at the home before.
    pub(super) fn rejoin(&mut self, number: u64, parts: &mut RoomParts<'_, '_>) {
        let Some(seated) = self.seats.get(&number) else { return };
        let Some(leg) = parts.calls.legs.get(seated.leg) else { return };
        let join = Join {
            number,
            call_sid: leg.sid.as_str().into(),
            owner: Arc::clone(&leg.owner),
            place: seated.place.clone(),
            again: seated.standing.clone().map(Box::new),
        };
        self.post_event(seated.home, RoomEvent::Join(Box::new(join)), parts);
    }

    /// Takes a member's status from its home.
    pub(super) fn stands(
        &mut self,
        now: Instant,
        number: u64,
        standing: MemberStatus,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some(seated) = self.seats.get_mut(&number) else { return };
        (seated.known_at, seated.is_moving) = (now, false);
        // Mostly the status is the same: the difference counts.
        let before = seated.standing.replace(standing);
        let Some(standing) = &seated.standing else { return };
        // Two conferences of one name have become one.
        let is_new = before.as_ref().is_none_or(|before| before.sid != standing.sid);
        let is_other = before.is_none_or(|before| before.hears != standing.hears);
        let (sid, hears) = (standing.sid.to_string(), standing.hears.clone());
        let with = standing.with.as_deref().unwrap_or_default().to_owned();
        let (leg, actor, id, kind) = (seated.leg, seated.actor, seated.id, seated.kind);
        record_when_due(now, seated, self.is_ending, parts);
        self.show_line(now, number, parts.calls);
        if is_other {
            self.hear_source(now, number, parts);
        }
        match kind {
            // After the sound is set: the script may end the membership at once.
            Kind::Conference if is_new => {
                let joined = ConferenceEvent::Joined { sid };
                parts.calls.tell(now, actor, parts.world, |script, out| {
                    script.handle_conference(now, id, joined, out);
                });
            }
            Kind::Caller => {
                let entered = is_new.then_some(QueueEvent::Entered { sid });
                let bridged = (is_other && hears == MemberAudio::Room).then_some(QueueEvent::Bridged);
                for event in entered.into_iter().chain(bridged) {
                    parts.calls.tell(now, actor, parts.world, |script, out| {
                        script.handle_queue(now, id, event, out);
                    });
                }
            }
            // For its script the taker's leg is one of a Dial, with the caller's sid.
            Kind::Taker if is_other && hears == MemberAudio::Room => {
                parts.recordings.record_dial(now, leg, parts.calls, parts.world);
                for event in [LegEvent::Started { sid: with }, LegEvent::Answered] {
                    parts
                        .calls
                        .tell(now, actor, parts.world, |script, out| script.handle_leg(now, id, event, out));
                }
            }
            Kind::Conference | Kind::Taker => {}
        }
    }

    /// The home's word of every second. A member of which we know nothing has left, and its Leave was lost:
    /// it is sent again. So is the word that it has moved.
    pub(super) fn is_known(
        &mut self,
        now: Instant,
        home: ShardAddress,
        (number, standing): (u64, MemberStatus),
        parts: &mut RoomParts<'_, '_>,
    ) {
        match self.seats.get(&number) {
            Some(seated) if seated.home == home => self.stands(now, number, standing, parts),
            Some(_) => self.post_event(home, RoomEvent::Moved { number }, parts),
            None => self.post_event(home, RoomEvent::Leave { number }, parts),
        }
    }

    /// Out of its room, by the room's word or because that is not heard of any more. The script is told, as
    /// it did not ask for it.
    pub(super) fn is_out(
        &mut self,
        now: Instant,
        number: u64,
        why: LeaveReason,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some((mut seated, recording)) = self.stand_up(now, number, parts) else { return };
        if let Some(ended) = hand_recording_on(&mut seated, recording.is_some(), parts) {
            self.post_event(seated.home, ended, parts);
        }
        let (actor, id) = (seated.actor, seated.id);
        if let LeaveReason::Redirected(to) = why {
            return parts.calls.tell(now, actor, parts.world, |script, out| script.redirect(now, to, out));
        }
        match seated.kind {
            Kind::Conference => {
                let event = match (&seated.standing, why) {
                    // It was in the conference: this is its end for the script, for whatever reason.
                    (Some(_), _) => ConferenceEvent::Left { recording },
                    (None, LeaveReason::Refused(reason)) => ConferenceEvent::Refused { reason },
                    (None, _) => {
                        ConferenceEvent::Refused { reason: "the conference did not take the call".to_owned() }
                    }
                };
                parts.calls.tell(now, actor, parts.world, |script, out| {
                    script.handle_conference(now, id, event, out);
                });
            }
            Kind::Caller => {
                let result = match why {
                    // The connection is over.
                    _ if seated.is_connected() => QueueResult::Bridged,
                    LeaveReason::Full => QueueResult::Full,
                    _ => QueueResult::Error,
                };
                let left = QueueEvent::Left(result);
                parts
                    .calls
                    .tell(now, actor, parts.world, |script, out| script.handle_queue(now, id, left, out));
            }
            Kind::Taker => self.taker_out(now, &seated, recording, parts),
        }
    }

    /// The end of a Dial's queue leg: after a connection it has ended, before it has failed.
    fn taker_out(
        &mut self,
        now: Instant,
        seated: &RoomMemberLeg,
        recording: Option<Recorded>,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let failure = || LegEvent::Failed(LegFailure::without_answer(CallStatus::Failed));
        let recording = recording
            .or_else(|| parts.recordings.end_dial_recording(now, seated.leg, parts.calls, parts.world));
        let event = if seated.is_connected() { LegEvent::Ended { recording } } else { failure() };
        let id = seated.id;
        parts
            .calls
            .tell(now, seated.actor, parts.world, |script, out| script.handle_leg(now, id, event, out));
    }

    /// Forgets that a leg was in a room. Its script is not told, nor the room. Returns the membership and its
    /// recording.
    fn stand_up(
        &mut self,
        now: Instant,
        number: u64,
        parts: &mut RoomParts<'_, '_>,
    ) -> Option<(RoomMemberLeg, Option<Recorded>)> {
        let seated = self.seats.remove(&number)?;
        self.by_effect.remove(&(seated.actor, seated.id));
        // A taker that waits has nothing of its own beside its script; another's document would be ended.
        if seated.kind != Kind::Taker || seated.is_connected() {
            parts.calls.drop_aside(seated.leg);
        }
        let recording = seated
            .is_recorded
            .then(|| parts.recordings.end_recording(now, seated.leg, parts.calls, parts.world))
            .flatten();
        let seat = RoomMembership { number };
        if let Some(leg) = parts.calls.legs.get_mut(seated.leg) {
            // Otherwise the leg has another partner by now.
            if leg.partner == Partner::Seat(seat) {
                leg.partner = Partner::None;
            }
            if let Some(media) = &mut leg.media {
                media.listen_decoded(false);
            }
        }
        Some((seated, recording))
    }

    /// Takes a member out at its own wish. Returns its membership, and its recording. Its script is not told:
    /// it asked for it, or has ended.
    pub(in super::super) fn leave_seat(
        &mut self,
        now: Instant,
        number: u64,
        parts: &mut RoomParts<'_, '_>,
    ) -> Option<(RoomMemberLeg, Option<Recorded>)> {
        let mut left = self.stand_up(now, number, parts)?;
        self.post_event(left.0.home, RoomEvent::Leave { number }, parts);
        if let Some(ended) = hand_recording_on(&mut left.0, left.1.is_some(), parts) {
            self.post_event(left.0.home, ended, parts);
        }
        self.settle_rooms(now, parts);
        Some(left)
    }

    /// The script of a conference's member wants to go on.
    pub(in super::super) fn leave_conference(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some(number) = self.by_effect.get(&(actor, id)).copied() else { return };
        let Some((_, recording)) = self.leave_seat(now, number, parts) else { return };
        let left = ConferenceEvent::Left { recording };
        parts.calls.tell(now, actor, parts.world, |script, out| script.handle_conference(now, id, left, out));
    }

    /// A Leave verb. `id`: the queue; `None`: the verb stands in the wait document, and the actor that waits
    /// is another.
    pub(in super::super) fn leave_queue(
        &mut self,
        now: Instant,
        actor: Key,
        id: Option<Id>,
        parts: &mut RoomParts<'_, '_>,
    ) {
        let waits_for = |actor| match parts.calls.actors.get(actor)?.part {
            super::super::actor::Part::Waiting { main, id } => Some((main, id)),
            _ => None,
        };
        let Some((main, id)) = id.map(|id| (actor, id)).or_else(|| waits_for(actor)) else { return };
        let Some(number) = self.by_effect.get(&(main, id)).copied() else { return };
        // A document that is heard in a conference cannot leave it.
        if self.seats.get(&number).is_none_or(|seated| seated.kind != Kind::Caller) {
            return;
        }
        self.leave_seat(now, number, parts);
        if main != actor {
            let left = QueueEvent::Left(QueueResult::Leave);
            parts.calls.tell(now, main, parts.world, |script, out| script.handle_queue(now, id, left, out));
        }
    }

    /// `HangupLeg` of a leg that [`Rooms::dial_queue`] made. `false`: it made none such.
    pub(in super::super) fn hang_up_queue_leg(
        &mut self,
        now: Instant,
        actor: Key,
        leg: Id,
        parts: &mut RoomParts<'_, '_>,
    ) -> bool {
        let Some(number) = self.by_effect.get(&(actor, leg)).copied() else { return false };
        if let Some((seated, recording)) = self.leave_seat(now, number, parts) {
            self.taker_out(now, &seated, recording, parts);
        }
        true
    }
}

/// Begins the recording that is due with the member's status: its own, or that of the conference, which is made from one leg. When that one
/// leaves, the home names another member, which may not have asked for it.
fn record_when_due(now: Instant, seated: &mut RoomMemberLeg, is_ending: bool, parts: &mut RoomParts<'_, '_>) {
    let Some(standing) = &seated.standing else { return };
    let is_first = seated.recording.is_none() && seated.conference_recording.is_none();
    let handed_on = standing.recording.as_deref().filter(|_| standing.records);
    if let Some(recording) = handed_on.filter(|_| is_first) {
        seated.recording = Some(RecordingRequest::of_conference(recording));
    }
    let is_due = |effect: &mut RecordingRequest| effect.is_own || standing.records;
    let Some(RecordingRequest { how, is_own }) = seated.recording.take_if(is_due) else { return };
    let pause = handed_on.and_then(|recording| recording.pause);
    let is_stopped = handed_on.is_some_and(|recording| recording.is_stopped);
    // The recorder's own one counts as the conference's.
    let is_conferences = !is_own || (standing.records && handed_on.is_none());
    if is_conferences {
        let (trim, status) = (how.trim, how.status.clone());
        let options = Box::new(ConferenceRecording { trim, status, pause, is_stopped });
        seated.conference_recording = Some(LegConferenceRecording { options, has_begun: false });
    }
    if is_ending || (is_stopped && !is_own) {
        return;
    }
    let how = Background { conference: Some(standing.sid.to_string()), ..how };
    let begun = parts.recordings.begin_recording(now, seated.leg, how, parts.calls, parts.world);
    // The leg's own recording goes on beside it.
    seated.is_recorded |= begun.is_some();
    if let Some(recording) = seated.conference_recording.as_mut().filter(|_| is_conferences) {
        recording.has_begun = begun.is_some();
    }
    if let (Some(sid), Some(pause)) = (begun, pause.filter(|_| !is_own)) {
        let change = Modify::Pause(pause);
        parts.recordings.modify_recording(now, &sid, change, parts.calls, parts.world);
    }
}

/// The event by which another member goes on with the conference's recording when this one leaves. One that has begun here and has ended before
/// (`!was_under_way`) was stopped, and stays so; one that never began is handed on as it came.
fn hand_recording_on(
    seated: &mut RoomMemberLeg,
    was_under_way: bool,
    parts: &RoomParts<'_, '_>,
) -> Option<RoomEvent> {
    let standing = seated.standing.as_ref()?;
    let recording = seated.conference_recording.take();
    if recording.is_none() && !standing.records {
        return None;
    }
    let leg = parts.calls.legs.get(seated.leg).and_then(|leg| leg.recording.as_ref());
    let recording = recording.map(|LegConferenceRecording { mut options, has_begun }| {
        if has_begun {
            options.pause = leg.and_then(|leg| leg.ended_in).filter(|_| was_under_way);
            options.is_stopped = !was_under_way;
        }
        options
    });
    Some(RoomEvent::RecordingEnded { sid: Arc::clone(&standing.sid), recording })
}
