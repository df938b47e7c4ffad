//! Sound of a member besides the room: the music or document it waits with, and announcements.

use std::sync::Arc;

use ivr::request::{Form, Target};
use ivr::script::{Plan, Role, Script, Start};
use stdx::Instant;
use stdx::slab::Key;

use super::super::actor::{Actor, Part};
use super::super::calls::Calls;
use super::super::leg::Partner;
use super::super::{Voice, World};
use super::Source;
use super::callbacks::pair;
use super::member::{Kind, RoomMemberLeg};
use super::message::{MemberAudio, RoomEvent};

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

impl Voice {
    /// As the member's standing says: the room, music, silence, or a document.
    pub(super) fn hear_source(&mut self, now: Instant, number: u64, world: &mut World<'_>) {
        let Some(seated) = self.rooms.seats.get_mut(&number) else { return };
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
        seated.frames.clear();
        let is_cut_short = seated.announcing.take().is_some();
        let (leg_key, kind, seat) =
            (seated.leg, seated.kind, super::RoomMembership { home: seated.home, number });
        if kind != Kind::Taker || source == Source::Room {
            self.calls.drop_aside(leg_key);
        }
        if is_cut_short {
            self.announced(number, world);
        }
        let Some(leg) = self.calls.legs.get_mut(leg_key) else { return };
        if kind == Kind::Taker && source == Source::Room {
            leg.partner = Partner::Seat(seat);
        }
        if let Some(media) = &mut leg.media {
            media.listen_decoded(source == Source::Room);
        }
        if let Some(target) = target {
            self.perform_aside(now, number, target, Role::Waiting, world);
        }
    }

    /// A document for the member's ears, instead of another.
    fn perform_aside(
        &mut self,
        now: Instant,
        number: u64,
        target: Target,
        role: Role,
        world: &mut World<'_>,
    ) -> Option<()> {
        let seated = self.rooms.seats.get(&number)?;
        let (leg, main, id) = (seated.leg, seated.actor, seated.id);
        let mut call = self.calls.actors.get(main)?.script.call().clone();
        if self.calls.legs.get(leg)?.is_gone {
            return None;
        }
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
        self.calls.drop_aside(leg);
        let part = Part::Waiting { main, id };
        let aside = self.calls.add_actor(Actor { script: Script::new(call, plan), leg, part });
        if let Some(seated) = self.rooms.seats.get_mut(&number) {
            seated.announcing = (role == Role::Screening).then_some(aside);
        }
        self.drive(now, aside, world, |script, out| script.start(now, out));
        Some(())
    }

    /// Notes a caller's position in the queue for the next request of its wait document.
    pub(super) fn show_line(&mut self, now: Instant, number: u64) {
        let Some(seated) = self.rooms.seats.get(&number).filter(|seated| seated.line().is_some()) else {
            return;
        };
        let Some(aside) = self.calls.legs.get(seated.leg).and_then(|leg| leg.aside) else { return };
        let Some(main) = self.calls.actors.get(seated.actor) else { return };
        let mut extra = main.script.call().extra.clone();
        extra.extend(parameters(now, seated));
        if let Some(actor) = self.calls.actors.get_mut(aside) {
            actor.script.set_extra(extra);
        }
    }

    pub(super) fn announce(&mut self, now: Instant, number: u64, target: Target, world: &mut World<'_>) {
        if self.perform_aside(now, number, target, Role::Screening, world).is_none() {
            self.announced(number, world);
        }
    }

    fn announced(&mut self, number: u64, world: &mut World<'_>) {
        if let Some(home) = self.rooms.seats.get(&number).map(|seated| seated.home) {
            self.post_note(home, RoomEvent::Announced(self.rooms.name(number)), world);
        }
    }

    /// Its hang-up is the end of the announcement and not of the call: a document that cannot be had.
    pub(in super::super) fn is_announcement(&self, actor: Key) -> bool {
        self.seat_of_aside(actor).and_then(|number| self.rooms.seats.get(&number)).is_some_and(|seated| {
            seated.announcing == Some(actor)
                && self.calls.legs.get(seated.leg).is_some_and(|leg| !leg.is_gone)
        })
    }

    fn seat_of_aside(&self, actor: Key) -> Option<u64> {
        let Part::Waiting { main, id } = self.calls.actors.get(actor)?.part else { return None };
        self.rooms.by_effect.get(&(main, id)).copied()
    }

    /// A document beside a leg's own is over: an announcement, or a document that could not be fetched.
    pub(in super::super) fn aside_ended(
        &mut self,
        now: Instant,
        (aside, main, id): (Key, Key, ivr::script::Id),
        world: &mut World<'_>,
    ) {
        let Some(number) = self.rooms.by_effect.get(&(main, id)).copied() else { return };
        let Some(seated) = self.rooms.seats.get_mut(&number) else { return };
        if seated.announcing == Some(aside) {
            seated.announcing = None;
            self.announced(number, world);
            self.hear_source(now, number, world);
            self.settle_rooms(now, world);
        } else if seated.source == Source::Silence {
            seated.source = Source::Music;
        }
    }
}

/// Parameters of a member's document requests besides the call's own.
fn parameters(now: Instant, seated: &RoomMemberLeg) -> Form {
    let Some(standing) = &seated.standing else { return Form::new() };
    let sid = Arc::clone(&standing.sid);
    let Some(line) = standing.line else { return vec![pair("ConferenceSid", &*sid)] };
    vec![
        pair("QueueSid", &*sid),
        pair("QueuePosition", line.position.to_string()),
        pair("QueueTime", now.since(line.since).as_secs().to_string()),
        pair("AvgQueueTime", line.average_seconds.to_string()),
        pair("CurrentQueueSize", line.size.to_string()),
    ]
}
