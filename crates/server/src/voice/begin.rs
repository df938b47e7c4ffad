//! A call comes in: its number's application is asked what to do.

use ivr::request::Target;
use ivr::script::{Call, Direction, Plan, Role, Script, Start};
use sip::session::{Invited, SessionId};
use sip::wire::{Header, Uri};
use stdx::Instant;
use stdx::slab::Key;

use super::actor::{Actor, Part};
use super::leg::{Leg, NO_SESSION};
use super::{Voice, World};
use crate::config::Number;

impl Voice {
    pub(super) fn begin(
        &mut self,
        now: Instant,
        session: SessionId,
        invited: &Invited,
        world: &mut World<'_>,
    ) {
        let request = &invited.request;
        let user = user_of(request.uri());
        let Some(number) = self.numbers.get(&user).cloned() else {
            // The number was there when the plan was asked; nothing else leads here.
            let _ = world.endpoint.reject(now, session, 404, "Not Found", &[], world.out);
            return;
        };
        let random = self.random();
        let sid = ivr::sid::new(ivr::sid::CALL, random);
        let call = self.call_of(&sid, user, invited);
        tracing::debug!(sid, from = call.from, to = call.to, "a call for an application");
        let from = call.from.as_str().into();
        let script = Script::new(call, plan_of(&number));
        let trusted = invited.source.remote.ip();
        let owner = std::sync::Arc::clone(&self.owner);
        let mut leg = Leg::new(session, sid, owner, trusted, &mut self.rng);
        leg.from = from;
        leg.hops = request.max_forwards().flatten().unwrap_or(leg.hops);
        let is_sdp = request.header(Header::ContentType).is_some();
        leg.offer = sip::session::body_of(request).filter(|_| is_sdp).unwrap_or_default();
        let leg = self.add_leg(now, leg);
        let actor = self.add_actor(Actor { script, leg, part: Part::Main });
        self.drive(now, actor, world, |script, out| script.start(now, out));
    }

    pub(super) fn add_leg(&mut self, now: Instant, leg: Leg) -> Key {
        if self.legs.is_empty() && self.rooms.is_idle() {
            self.clockwork.start(now);
        }
        let session = leg.session;
        let key = self.legs.insert(leg);
        if let Some(leg) = self.legs.get_mut(key) {
            leg.phase = self.clockwork.add(key);
        }
        self.attach(key, session);
        key
    }

    /// A leg has its dialog.
    pub(super) fn attach(&mut self, key: Key, session: SessionId) {
        if let Some(leg) = self.legs.get_mut(key).filter(|_| session != NO_SESSION) {
            leg.session = session;
            leg.is_gone = false;
            self.by_session.insert(session, key);
            self.counts.calls_total += 1;
        }
    }

    /// A script for a leg; `drive` it with `start`.
    pub(super) fn add_actor(&mut self, actor: Actor) -> Key {
        let (leg, part) = (actor.leg, actor.part);
        let key = self.actors.insert(actor);
        if let Some(leg) = self.legs.get_mut(leg) {
            match part {
                Part::Main => leg.main = Some(key),
                Part::Screening { .. } | Part::Waiting { .. } => leg.aside = Some(key),
            }
        }
        key
    }

    fn call_of(&self, sid: &str, to: String, invited: &Invited) -> Call {
        let request = &invited.request;
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let from = request.from();
        let name = from.map(|from| text(Some(from.display))).unwrap_or_default();
        let name = name.trim_matches('"').to_owned();
        Call {
            sid: sid.to_owned(),
            account_sid: self.owner.account.to_string(),
            from: from.map(|from| user_of(from.uri)).unwrap_or_default(),
            to,
            direction: Direction::Inbound,
            caller_name: (!name.is_empty()).then_some(name),
            forwarded_from: None,
            parent_sid: None,
            api_version: "2012-04-24".to_owned(),
            extra: vec![("SipCallId".to_owned(), text(request.call_id()))],
            answered: false,
        }
    }
}

fn plan_of(number: &Number) -> Plan {
    let target = |url: &str| Target { url: url.to_owned(), method: number.method };
    Plan {
        role: Role::Call,
        start: Start::Url(target(&number.url)),
        fallback: number.fallback.as_deref().map(target),
        status: None,
        answer_on_bridge: false,
        time_limit: None,
    }
}

fn user_of(uri: &[u8]) -> String {
    Uri::parse(uri).ok().and_then(|uri| uri.user_decoded()).unwrap_or_default()
}
