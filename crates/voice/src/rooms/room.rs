//! One room: its members, which of them hear each other, its beginning and end. A conference, or the two of a
//! queue's connection.
//!
//! A conference starts when it has two members, one of them with `startConferenceOnEnter`; until then all
//! wait. Hold, mute and coaching change which members hear each other. Each change tells the members concerned their whole
//! new status, and the application by a callback. Invariants: `places` indexes `members`; a member's place in
//! the mixer is given back when it leaves. `moved` has the room's way from one home to another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use admin::control::{Participant, ParticipantChange};
use ivr::document::{Beep, Conference};
use ivr::request::{Form, Method, Target};
use media::codec::Codec;
use media::mixer::{Conference as Mixer, MemberId};
use media::session::FrameSource;
use media::speech::{SpeechDetector, SpeechEvent, SpeechOptions};
use router::ShardAddress;
use stdx::Instant;

use super::callbacks::{self, ConferenceNotifier, Event, pair};
use super::frames::{Frames, Piece, Sound};
use super::home::{Out, Outbox};
use super::message::{ConferenceRecording, Join, LeaveReason, MemberAudio, MemberStatus, Name, RoomEvent};
use super::moved::Moving;
use super::recorder;

/// A conference or a connection of a queue.
pub(super) struct Room {
    /// Its sid, name, account, and the callback for its events.
    pub(super) teller: ConferenceNotifier,
    pub(super) kind: Kind,
    /// All that are seated hear each other.
    pub(super) is_started: bool,
    pub(super) created_at: Instant,
    /// While its members come from its home before, or go to the next one.
    pub(super) moving: Option<Moving>,
    /// The caller of a queue's connection hears a document until then, or until it says that it has heard it.
    pub(super) document_until: Option<Instant>,
    /// Conferences of the same name that have become this one, and whose rows have ended.
    pub(super) absorbed: BTreeSet<Arc<str>>,
    /// In the order they came.
    pub(super) members: Vec<Member>,
    /// The index of each member.
    places: HashMap<Name, usize>,
    /// Mixes the members' sound, each without its own.
    mixer: Mixer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Conference,
    /// The two of a queue's connection: when one leaves it is over.
    Pair,
}

/// A member, with its attributes of the document or of a later request.
pub(super) struct Member {
    pub(super) name: Name,
    pub(super) call_sid: Arc<str>,
    /// The name by which requests may call it, besides its call sid.
    pub(super) label: Option<Box<str>>,
    pub(super) is_muted: bool,
    /// While on hold: the document that it hears, or `None` for the built-in music.
    pub(super) hold: Option<Option<Target>>,
    /// The call sid or label of the member that alone hears this one.
    pub(super) coach: Option<Box<str>>,
    pub(super) start_on_enter: bool,
    pub(super) end_on_exit: bool,
    /// The beep when it comes and goes.
    beep: Beep,
    /// It wants the conference to be recorded; the first such member is the recorder.
    pub(super) records: bool,
    /// The recording that it goes on with, whether it wanted one or not.
    pub(super) recording: Option<Box<ConferenceRecording>>,
    pub(super) joined_at: Instant,
    announcing: Option<Announcing>,
    /// In the mix, once some member's sound has come.
    place: Option<MemberId>,
    /// The codec in which it speaks, and in which its frames are mixed for it.
    codec: Codec,
    rate: u32,
    frames: Frames,
    /// Only for callbacks about speakers.
    detector: Option<Box<SpeechDetector>>,
    /// It has begun (`true`) or ceased to speak since the last tick.
    spoke: Option<bool>,
}

/// The audience of the announcement that a member hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announcing {
    Alone,
    All,
}

/// Silence after which a member counts as no longer speaking, in milliseconds.
const PAUSE_MS: u32 = 1_000;

impl Member {
    pub(super) fn new(now: Instant, name: Name, join: &Join, conference: Option<&Conference>) -> Member {
        let text =
            |text: Option<&String>| text.filter(|text| !text.is_empty()).map(|text| text.as_str().into());
        let mut member = Member {
            name,
            call_sid: Arc::clone(&join.call_sid),
            label: text(conference.and_then(|one| one.label.as_ref())),
            is_muted: conference.is_some_and(|one| one.muted),
            hold: None,
            coach: text(conference.and_then(|one| one.coach.as_ref())),
            start_on_enter: conference.is_none_or(|one| one.start_on_enter),
            end_on_exit: conference.is_some_and(|one| one.end_on_exit),
            beep: conference.map_or(Beep::Never, |one| one.beep),
            records: conference.is_some_and(|one| one.record),
            recording: None,
            joined_at: join.came_at(now),
            announcing: None,
            place: None,
            codec: Codec::default(),
            rate: 8_000,
            frames: Frames::default(),
            detector: None,
            spoke: None,
        };
        if let Some(again) = &join.again {
            member.restore(again);
        }
        member
    }

    /// True if requests and coaches mean this member.
    fn is(&self, sid_or_label: &str) -> bool {
        *self.call_sid == *sid_or_label || self.label.as_deref() == Some(sid_or_label)
    }

    /// Never heard by all, so the whole mix is what it hears: all such members share one frame of each codec.
    fn only_listens(&self) -> bool {
        self.is_muted && self.coach.is_none()
    }
}

impl Room {
    /// A new conference, without members: the first one joins as all others do. Its row is inserted at once.
    pub(super) fn conference(
        now: Instant,
        join: &Join,
        sid: Arc<str>,
        first: &Conference,
        out: &mut Outbox,
    ) -> Room {
        let owner = Arc::clone(&join.owner);
        let teller = ConferenceNotifier::new(owner, sid, first.name.as_str().into(), first.status.clone());
        out.extend(callbacks::conference_row(&teller, (now, now), callbacks::INIT, None).map(Out::Write));
        Room::new(now, teller, Kind::Conference)
    }

    /// A room without members.
    pub(super) fn new(now: Instant, teller: ConferenceNotifier, kind: Kind) -> Room {
        Room {
            teller,
            kind,
            is_started: false,
            created_at: now,
            moving: None,
            document_until: None,
            absorbed: BTreeSet::new(),
            members: Vec::new(),
            places: HashMap::new(),
            mixer: Mixer::new(8_000),
        }
    }

    pub(super) fn sid(&self) -> &Arc<str> {
        &self.teller.sid
    }

    /// The account and name of a conference. A pair has none.
    pub(super) fn key(&self) -> Option<(Box<str>, Box<str>)> {
        let is_conference = self.kind == Kind::Conference;
        is_conference.then(|| (self.teller.owner.account.clone(), self.teller.name.clone()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Adds a member, and starts the conference if that was missing.
    ///
    /// # Errors
    /// The conference is full: the text is for the application's record.
    pub(super) fn join(
        &mut self,
        now: Instant,
        name: Name,
        join: &Join,
        conference: &Conference,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let asked = usize::try_from(conference.max_participants).unwrap_or(usize::MAX);
        // A member of the home before has its place already.
        let limit = if join.again.is_some() { usize::MAX } else { asked };
        let limit = limit.min(media::limits::CONFERENCE_MEMBERS);
        if self.members.len() >= limit {
            let name = &conference.name;
            return Err(format!("Conference {name:?} is full: it has {limit} participants"));
        }
        let mut member = Member::new(now, name, join, Some(conference));
        if let Some(again) = &join.again {
            self.rejoin(now, member, again, conference, out);
            return Ok(());
        }
        recorder::defer_recording(self, &mut member);
        let call = Arc::clone(&member.call_sid);
        if matches!(member.beep, Beep::Both | Beep::OnEnter) {
            self.beep();
        }
        self.members.push(member);
        self.index();
        // The first member that brings a callback decides, as at Twilio.
        if self.teller.callback.is_none() {
            self.teller.callback.clone_from(&conference.status);
        }
        self.tell(now, callbacks::JOIN, Some(&call), Vec::new(), out);
        if !self.start_if_due(now, &call, out)
            && let Some(member) = self.members.last()
        {
            out.push(self.standing_of(member));
        }
        Ok(())
    }

    /// Starts the conference once it has two members of which one starts it; `call` is of the last that came. Returns whether it did.
    pub(super) fn start_if_due(&mut self, now: Instant, call: &str, out: &mut Outbox) -> bool {
        let is_due = !self.is_started
            && self.members.len() > 1
            && self.members.iter().any(|member| member.start_on_enter);
        if is_due {
            self.is_started = true;
            self.tell(now, callbacks::START, Some(call), Vec::new(), out);
            let times = (self.created_at, now);
            out.extend(callbacks::conference_row(&self.teller, times, "in-progress", None).map(Out::Write));
            self.tell_all(out);
        }
        is_due
    }

    /// A member went, or is put out.
    pub(super) fn leave(&mut self, now: Instant, name: Name, kicked: bool, out: &mut Outbox) {
        let Some(&at) = self.places.get(&name) else { return };
        let (records, ends) = (self.recorder() == Some(name), self.members[at].end_on_exit);
        let call = Arc::clone(&self.members[at].call_sid);
        self.tell(now, callbacks::LEAVE, Some(&call), Vec::new(), out);
        let Some(left) = self.remove(name) else { return };
        // An announcement to all is over with the last member that heard it.
        self.announced(now, left.announcing, None, out);
        let reason = match (self.kind, ends, self.members.is_empty(), kicked) {
            (Kind::Conference, true, _, false) => "participant-with-end-conference-on-exit-left",
            (Kind::Conference, true, _, true) => "participant-with-end-conference-on-exit-kicked",
            (Kind::Conference, _, true, false) => "last-participant-left",
            (Kind::Conference, _, true, true) => "last-participant-kicked",
            (Kind::Pair, ..) => "",
            // The conference goes on without it.
            (Kind::Conference, ..) => {
                if matches!(left.beep, Beep::Both | Beep::OnExit) {
                    self.beep();
                }
                // A coach whose pupil has left is heard by none.
                self.aim();
                if records {
                    recorder::await_recording(self, now, left);
                }
                return;
            }
        };
        self.end(now, reason, Some((&left.call_sid, left.label.as_deref())), out);
    }

    /// Ends the room for all members.
    pub(super) fn end(
        &mut self,
        now: Instant,
        reason: &str,
        by: Option<(&str, Option<&str>)>,
        out: &mut Outbox,
    ) {
        while let Some(call) = self.members.first().map(|member| Arc::clone(&member.call_sid)) {
            self.tell(now, callbacks::LEAVE, Some(&call), Vec::new(), out);
            let member = self.members.remove(0);
            let Name { shard, number } = member.name;
            out.push(Out::Tell(shard, RoomEvent::Gone { number, why: LeaveReason::Over }));
        }
        self.index();
        // A connection of a queue has neither callbacks nor a row.
        if self.kind == Kind::Pair {
            return;
        }
        let mut more = vec![pair("ReasonConferenceEnded", reason), pair("Reason", reason)];
        if let Some((call, label)) = by {
            more.push(pair("CallSidEndingConference", call));
            more.extend(label.map(|label| pair("ParticipantLabelEndingConference", label)));
        }
        self.tell(now, callbacks::END, None, more, out);
        let ended = Some((reason, by.map_or("", |(call, _)| call)));
        let times = (self.created_at, now);
        out.extend(callbacks::conference_row(&self.teller, times, "completed", ended).map(Out::Write));
    }

    /// The callback of an event, if the application asks for it. `call`: the participant it is about.
    fn tell(&mut self, now: Instant, event: Event, call: Option<&str>, more: Form, out: &mut Outbox) {
        let member = call.and_then(|call| self.members.iter().find(|member| *member.call_sid == *call));
        out.extend(self.teller.tell(now, event, member, more).map(Out::Callback));
    }

    /// The status of a member. Not started counts before on hold.
    fn standing(&self, member: &Member) -> MemberStatus {
        let hears = match &member.hold {
            _ if !self.is_started => MemberAudio::Wait,
            Some(what) => MemberAudio::Hold(what.clone()),
            None => MemberAudio::Room,
        };
        let other = self.members.iter().find(|other| other.name != member.name);
        let other = other.map(|other| &other.call_sid).or(self.awaited());
        MemberStatus {
            sid: Arc::clone(&self.teller.sid),
            hears,
            line: None,
            with: other.filter(|_| self.kind == Kind::Pair).cloned(),
            records: self.recorder() == Some(member.name),
            recording: member.recording.clone().filter(|_| member.records),
            is_muted: member.is_muted,
            held: member.hold.clone().filter(|_| !self.is_started),
            end_on_exit: member.end_on_exit,
            joined_at: member.joined_at,
            created_at: self.created_at,
            sequence: self.teller.sequence,
        }
    }

    pub(super) fn standing_of(&self, member: &Member) -> Out {
        let (Name { shard, number }, standing) = (member.name, Box::new(self.standing(member)));
        Out::Tell(shard, RoomEvent::Standing { number, standing })
    }

    pub(super) fn tell_all(&self, out: &mut Outbox) {
        out.extend(self.members.iter().map(|member| self.standing_of(member)));
    }

    pub(super) fn standings(&self) -> impl Iterator<Item = (Name, MemberStatus)> {
        self.members.iter().map(|member| (member.name, self.standing(member)))
    }

    fn member(&mut self, name: Name) -> Option<&mut Member> {
        self.places.get(&name).and_then(|at| self.members.get_mut(*at))
    }

    /// Removes a member, and gives its place in the mix back.
    pub(super) fn remove(&mut self, name: Name) -> Option<Member> {
        let at = *self.places.get(&name)?;
        let left = self.members.remove(at);
        self.index();
        if let Some(place) = left.place {
            self.mixer.leave(place);
        }
        Some(left)
    }

    /// Computes `places` anew, for the few moments at which the list changes.
    pub(super) fn index(&mut self) {
        self.places = self.members.iter().enumerate().map(|(at, member)| (member.name, at)).collect();
    }

    pub(super) fn participants(&self) -> Vec<Participant> {
        let participant = |member: &Member| Participant {
            call_sid: member.call_sid.to_string(),
            label: member.label.as_deref().unwrap_or_default().to_owned(),
            muted: member.is_muted,
            hold: member.hold.is_some(),
            coaching: member.coach.is_some(),
            start_conference_on_enter: member.start_on_enter,
            end_conference_on_exit: member.end_on_exit,
            status: "connected".to_owned(),
            joined_at: member.joined_at,
        };
        self.members.iter().map(participant).collect()
    }

    /// Changes the member with that call sid or label; `None`: there is none. Returns the member's name when it is to
    /// be removed.
    pub(super) fn change(
        &mut self,
        now: Instant,
        participant: &str,
        change: ParticipantChange,
        out: &mut Outbox,
    ) -> Option<Option<Name>> {
        let member = self.members.iter_mut().find(|member| member.is(participant))?;
        let (name, call) = (member.name, Arc::clone(&member.call_sid));
        let mut events = Vec::new();
        if let Some(mute) = change.mute.filter(|mute| *mute != member.is_muted) {
            member.is_muted = mute;
            events.push(if mute { callbacks::MUTE } else { callbacks::UNMUTE });
        }
        let target = |url: String| (!url.is_empty()).then_some(Target { url, method: Method::Post });
        if let Some(hold) = change.hold.filter(|hold| *hold != member.hold.is_some()) {
            member.hold = hold.then(|| target(change.hold_url.clone()));
            member.frames.clear();
            events.push(if hold { callbacks::HOLD } else { callbacks::UNHOLD });
        } else if let Some(other) = target(change.hold_url)
            && let Some(hold) = member.hold.as_mut().filter(|hold| hold.as_ref() != Some(&other))
        {
            *hold = Some(other);
            events.push(callbacks::MODIFY);
        }
        if let Some(end) = change.end_conference_on_exit.filter(|end| *end != member.end_on_exit) {
            member.end_on_exit = end;
            events.push(callbacks::MODIFY);
        }
        if let Some(target) = change.announce_url.and_then(target) {
            member.announcing = Some(Announcing::Alone);
            out.push(Out::Tell(name.shard, RoomEvent::Announce { number: name.number, target }));
        }
        self.seat(name);
        for event in events {
            self.tell(now, event, Some(&call), Vec::new(), out);
        }
        out.extend(self.members.iter().find(|member| member.name == name).map(|it| self.standing_of(it)));
        Some(change.kick.then_some(name))
    }

    pub(super) fn announce(&mut self, target: &Target, out: &mut Outbox) {
        for member in &mut self.members {
            member.announcing = Some(Announcing::All);
            let Name { shard, number } = member.name;
            out.push(Out::Tell(shard, RoomEvent::Announce { number, target: target.clone() }));
        }
    }

    /// A member has heard an announcement.
    pub(super) fn announcement_over(&mut self, now: Instant, name: Name, out: &mut Outbox) {
        let Some(member) = self.member(name) else { return };
        let (what, call) = (member.announcing.take(), Arc::clone(&member.call_sid));
        self.announced(now, what, Some(&call), out);
    }

    /// Tells the application of the end of an announcement: of one to a single member at once, of one to all
    /// when all have heard it.
    fn announced(&mut self, now: Instant, what: Option<Announcing>, call: Option<&str>, out: &mut Outbox) {
        match what {
            Some(Announcing::Alone) if call.is_some() => {
                self.tell(now, callbacks::ANNOUNCED, call, Vec::new(), out);
            }
            Some(Announcing::All)
                if self.members.iter().all(|other| other.announcing != Some(Announcing::All)) =>
            {
                self.tell(now, callbacks::ANNOUNCED, None, Vec::new(), out);
            }
            _ => {}
        }
    }

    /// Mixes a beep, which all hear. Before the start none would.
    fn beep(&mut self) {
        if self.is_started {
            self.mixer.inject(media::tone::beep(self.mixer.rate()).into());
        }
    }

    /// The member's place in the mix, as it is now: taken anew when its rate or its attributes change.
    pub(super) fn seat(&mut self, name: Name) {
        let Some(member) = self.member(name) else { return };
        let (place, rate) = (member.place.take(), member.rate);
        if let Some(place) = place {
            self.mixer.leave(place);
        }
        if rate > self.mixer.rate() {
            // The room sounds as well as its best member does.
            // All take their places anew. Rates only grow, so this is rare.
            self.mixer = Mixer::new(rate);
            self.members.iter_mut().for_each(|member| member.place = None);
        }
        for member in self.members.iter_mut().filter(|member| member.place.is_none()) {
            member.place = self.mixer.join(member.rate, member.only_listens());
        }
        self.aim();
    }

    /// Sets which members hear each member: only the coached member hears a coach. Members on hold send no sound here.
    pub(super) fn aim(&mut self) {
        for at in 0..self.members.len() {
            let member = &self.members[at];
            let Some(place) = member.place else { continue };
            let coached = member.coach.as_deref();
            let to = coached.and_then(|coached| self.members.iter().find(|other| other.is(coached)));
            let to = to.and_then(|other| other.place).filter(|to| *to != place);
            let is_silent = member.is_muted || (coached.is_some() && to.is_none());
            self.mixer.whisper(place, to);
            self.mixer.mute(place, is_silent);
        }
    }

    /// Takes the sound of a member in this tick. Before the start it is dropped.
    pub(super) fn said(&mut self, name: Name, codec: Codec, rate: u32, samples: &[i16]) {
        let wants_speech = self.teller.wants(callbacks::SPEAKS);
        let is_started = self.is_started;
        let Some(member) = self.member(name).filter(|_| is_started) else { return };
        let is_other = member.rate != rate || member.place.is_none();
        (member.codec, member.rate) = (codec, rate);
        if wants_speech && !member.is_muted {
            // Events wait for the end of the tick, as the member is borrowed here.
            let new = || Box::new(SpeechDetector::new(SpeechOptions { silence_ms: 0, end_ms: PAUSE_MS }));
            match member.detector.get_or_insert_with(new).handle(samples) {
                Some(SpeechEvent::Started) => member.spoke = Some(true),
                Some(SpeechEvent::Ended { .. }) => member.spoke = Some(false),
                _ => {}
            }
        }
        if is_other {
            self.seat(name);
        }
        if let Some(place) = self.member(name).and_then(|member| member.place)
            && !samples.is_empty()
        {
            self.mixer.put(place, samples);
        }
    }

    /// Frames of a member elsewhere; of one on hold none are taken.
    pub(super) fn frames(&mut self, name: Name) -> Option<&mut Frames> {
        let is_started = self.is_started;
        self.member(name)
            .filter(|member| is_started && member.hold.is_none())
            .map(|member| &mut member.frames)
    }

    /// A tick: those elsewhere are heard, all are mixed, and those elsewhere get what they hear.
    pub(super) fn mix(
        &mut self,
        now: Instant,
        home: ShardAddress,
        sounds: &mut BTreeMap<ShardAddress, Sound>,
        out: &mut Outbox,
    ) {
        if !self.is_started {
            return;
        }
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if member.name.shard == home {
                continue;
            }
            let (name, mut frames) = (member.name, std::mem::take(&mut member.frames));
            if let Some((codec, rate, samples)) = frames.next_said() {
                self.said(name, codec, rate, samples);
            }
            self.members[at].frames = frames;
        }
        self.mixer.mix();
        self.fill(home, sounds);
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if let Some(speaks) = member.spoke.take() {
                let call = Arc::clone(&member.call_sid);
                let event = if speaks { callbacks::SPEAKS } else { callbacks::SILENT };
                self.tell(now, event, Some(&call), Vec::new(), out);
            }
        }
    }

    /// Adds the sound for the members of other shards. Members of one shard that hear the same frame share it: the mixer
    /// returns one buffer for all listeners of a codec, so equal addresses are equal sound.
    fn fill(&mut self, home: ShardAddress, sounds: &mut BTreeMap<ShardAddress, Sound>) {
        let mut shared: Vec<(ShardAddress, *const u8, Piece)> = Vec::new();
        for member in &self.members {
            let Name { shard, number } = member.name;
            let is_other = shard != home && member.hold.is_none();
            let Some(place) = member.place.filter(|_| is_other) else { continue };
            let sound = sounds.entry(shard).or_default();
            let feed = self.mixer.frame(place, member.codec);
            let FrameSource::Payload { payload, .. } = feed else {
                sound.put_feed(number, feed);
                continue;
            };
            let at = payload.as_ptr();
            match shared.iter().find(|(of, known, _)| *of == shard && *known == at) {
                Some((_, _, piece)) => sound.put_again(number, piece.clone()),
                None => shared.extend(sound.put_feed(number, feed).map(|piece| (shard, at, piece))),
            }
        }
    }

    /// The sound for a member of this shard.
    pub(super) fn feed(&mut self, name: Name) -> FrameSource<'_> {
        let Some(member) = self.member(name) else { return FrameSource::None };
        let (place, codec) = (member.place, member.codec);
        place.map_or(FrameSource::None, |place| self.mixer.frame(place, codec))
    }
}
