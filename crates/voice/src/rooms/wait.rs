//! Sound of a member besides the room: the music or document it waits with, and announcements.
//!
//! Such a document is performed by a second script on the member's leg (`Leg::aside`), beside the main one
//! that waits for the room. There is one at a time: an announcement replaces the wait document, which begins
//! anew afterwards. Scripts that end by themselves come back as `aside_ended`; those that are replaced are
//! dropped without a word.

use std::sync::Arc;

use ivr::request::{Form, Target};
use ivr::script::{Plan, Role, Script, Start};
use stdx::Instant;
use stdx::slab::Key;

use super::super::actor::{Actor, Part};
use super::super::calls::Calls;
use super::super::leg::Partner;
use super::callbacks::pair;
use super::member::{Kind, RoomMemberLeg};
use super::message::{MemberAudio, RoomEvent};
use super::{RoomParts, Rooms, Source};

impl Calls {
    /// Ends what performs beside the leg's own script, without a word of it.
    pub(super) fn drop_aside(&mut self, key: Key) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let Some(aside) = leg.aside.take() else { return };
        if leg.speaking.as_ref().is_some_and(|speaking| speaking.actor == aside) {
            leg.speaking = None;
            if let Some(media) = &mut leg.media {
                media.stop();
            }
        }
        self.actors.remove(aside);
    }
}

impl Rooms {
    /// Sets the member's sound as its standing says: the room, music, silence, or a document. Called when the
    /// standing changes, and after an announcement.
    pub(super) fn hear_source(&mut self, now: Instant, number: u64, parts: &mut RoomParts<'_, '_>) {
        let Some(seated) = self.seats.get_mut(&number) else { return };
        let document = |wait: &Option<Target>| match wait {
            None => (Source::Music, None),
            Some(target) if target.url.is_empty() => (Source::Silence, None),
            Some(target) => (Source::Silence, Some(target.clone())),
        };
        let (source, target) = match seated.hears() {
            // A caller of a queue hears the sound of its Dial.
            Some(MemberAudio::Wait) if seated.kind == Kind::Taker => (Source::Silence, None),
            Some(MemberAudio::Wait) => document(&seated.wait),
            Some(MemberAudio::Hold(hold)) => document(hold),
            Some(MemberAudio::Room) => (Source::Room, None),
            None => (Source::Silence, None),
        };
        seated.source = source;
        // Sound of before is not played after a pause.
        seated.frames.clear();
        let is_cut_short = seated.announcing.take().is_some();
        let (leg_key, kind, seat) = (seated.leg, seated.kind, super::RoomMembership { number });
        if kind != Kind::Taker || source == Source::Room {
            parts.calls.drop_aside(leg_key);
        }
        // The room waits for the end of every announcement, also of one that a hold or the start of the
        // conference ended.
        if is_cut_short {
            self.announced(number, parts);
        }
        let Some(leg) = parts.calls.legs.get_mut(leg_key) else { return };
        if kind == Kind::Taker && source == Source::Room {
            leg.partner = Partner::Seat(seat);
        }
        if let Some(media) = &mut leg.media {
            // A mix needs samples; otherwise the leg is spared the decoding.
            media.listen_decoded(source == Source::Room);
        }
        if let Some(target) = target {
            self.perform_aside(now, number, target, Role::Waiting, parts);
        }
    }

    /// Performs a document for the member's ears, instead of another. `None`: the member or its call is gone.
    fn perform_aside(
        &mut self,
        now: Instant,
        number: u64,
        target: Target,
        role: Role,
        parts: &mut RoomParts<'_, '_>,
    ) -> Option<()> {
        let seated = self.seats.get(&number)?;
        let (leg, main, id) = (seated.leg, seated.actor, seated.id);
        let mut call = parts.calls.actors.get(main)?.script.call().clone();
        if parts.calls.legs.get(leg)?.is_gone {
            return None;
        }
        // Members are answered calls, also where the main script has not been told of it yet.
        call.answered = true;
        call.extra.extend(parameters(now, seated));
        let plan = Plan {
            role,
            start: Start::Url(target),
            fallback: None,
            status: None,
            answer_on_bridge: false,
            time_limit: None,
        };
        parts.calls.drop_aside(leg);
        let part = Part::Waiting { main, id };
        let aside = parts.calls.add_actor(Actor { script: Script::new(call, plan), leg, part });
        if let Some(seated) = self.seats.get_mut(&number) {
            seated.announcing = (role == Role::Screening).then_some(aside);
        }
        parts.calls.tell(now, aside, parts.world, |script, out| script.start(now, out));
        Some(())
    }

    /// Notes a caller's position in the queue for the next request of its wait document.
    pub(super) fn show_line(&self, now: Instant, number: u64, calls: &mut Calls) {
        let Some(seated) = self.seats.get(&number).filter(|seated| seated.line().is_some()) else {
            return;
        };
        let Some(aside) = calls.legs.get(seated.leg).and_then(|leg| leg.aside) else { return };
        let Some(main) = calls.actors.get(seated.actor) else { return };
        let mut extra = main.script.call().extra.clone();
        extra.extend(parameters(now, seated));
        if let Some(actor) = calls.actors.get_mut(aside) {
            actor.script.set_extra(extra);
        }
    }

    /// Plays an announcement to the member. One that cannot be played counts as over, so that the room does
    /// not wait for it.
    pub(super) fn announce(
        &mut self,
        now: Instant,
        number: u64,
        target: Target,
        parts: &mut RoomParts<'_, '_>,
    ) {
        if self.perform_aside(now, number, target, Role::Screening, parts).is_none() {
            self.announced(number, parts);
        }
    }

    /// Tells the room that the member has heard its announcement.
    fn announced(&mut self, number: u64, parts: &mut RoomParts<'_, '_>) {
        if let Some(home) = self.seats.get(&number).map(|seated| seated.home) {
            self.post_event(home, RoomEvent::Announced { number }, parts);
        }
    }

    /// True if the actor performs an announcement on a live call. Its hang-up is the end of the announcement
    /// and not of the call: a document that cannot be had ends with one.
    pub(in super::super) fn is_announcement(&self, actor: Key, calls: &Calls) -> bool {
        let Some(Part::Waiting { main, id }) = calls.actors.get(actor).map(|actor| actor.part) else {
            return false;
        };
        let number = self.by_effect.get(&(main, id));
        number.and_then(|number| self.seats.get(number)).is_some_and(|seated| {
            seated.announcing == Some(actor) && calls.legs.get(seated.leg).is_some_and(|leg| !leg.is_gone)
        })
    }

    /// A document beside a leg's own is over: an announcement, or a document that could not be fetched.
    pub(in super::super) fn aside_ended(
        &mut self,
        now: Instant,
        (aside, main, id): (Key, Key, ivr::script::Id),
        parts: &mut RoomParts<'_, '_>,
    ) {
        let Some(number) = self.by_effect.get(&(main, id)).copied() else { return };
        let Some(seated) = self.seats.get_mut(&number) else { return };
        if seated.announcing == Some(aside) {
            seated.announcing = None;
            self.announced(number, parts);
            self.hear_source(now, number, parts);
            self.settle_rooms(now, parts);
        // A wait document that is over, or could not be fetched: the member hears music instead of nothing.
        } else if seated.source == Source::Silence {
            seated.source = Source::Music;
        }
    }
}

/// Parameters of a member's document requests besides the call's own.
fn parameters(now: Instant, seated: &RoomMemberLeg) -> Form {
    let Some(standing) = &seated.standing else { return Form::new() };
    let sid = Arc::clone(&standing.sid);
    if let Some(taker) = standing.with.as_ref().filter(|_| seated.kind == Kind::Caller) {
        // Twilio's Queue noun: the document before the connection. The name of the last one is Twilio's.
        return vec![
            pair("QueueSid", &*sid),
            pair("QueueTime", now.since(seated.asked_at).as_secs().to_string()),
            pair("DequeingCallSid", &**taker),
        ];
    }
    let Some(line) = standing.line else { return vec![pair("ConferenceSid", &*sid)] };
    vec![
        pair("QueueSid", &*sid),
        pair("QueuePosition", line.position.to_string()),
        pair("QueueTime", now.since(line.since).as_secs().to_string()),
        pair("AvgQueueTime", line.average_seconds.to_string()),
        pair("CurrentQueueSize", line.size.to_string()),
    ]
}
