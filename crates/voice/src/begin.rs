//! A call comes in: its number's application is asked what to do.
//!
//! In: `SessionEvent::Invited`, an INVITE that the plan gave to an application. Out: a leg with a script
//! whose first effect is the request for a document. The leg has neither ports nor media yet; `offers` opens
//! them with the answer, so a call that is rejected or never answered costs none. Legs that this side calls
//! are made in `phone_leg` and `outgoing`, and use the same functions of [`Calls`].

use ivr::script::{Call, Direction, Script};
use sip::session::{Invited, SessionId};
use sip::wire::{Header, Message, Uri};
use stdx::Instant;
use stdx::slab::Key;

use super::actor::{Actor, Part};
use super::call_trace::TracedLeg;
use super::calls::Calls;
use super::forwarded::forwarded_from;
use super::leg::{Leg, NO_SESSION};
use super::rooms::Rooms;
use super::rows::{self, Row};
use super::{API_VERSION, Voice, World, limits, redial};

impl Calls {
    /// The first leg or room of some begins the ticks. To be called before the leg or the member is added:
    /// with one there already, the ticks are running.
    pub(super) fn start_ticks(&mut self, now: Instant, rooms: &Rooms) {
        if self.legs.is_empty() && rooms.is_idle() {
            self.ticker.start(now);
        }
    }

    /// Keeps a leg, gives it a phase of the tick, and finds it by its session from now on, if it has one.
    pub(super) fn add_leg(&mut self, leg: Leg) -> Key {
        let session = leg.session;
        let key = self.legs.insert(leg);
        if let Some(leg) = self.legs.get_mut(key) {
            leg.phase = self.ticker.add(key);
        }
        self.attach(key, session);
        key
    }

    /// A leg has its dialog. Legs that this side calls are made before their INVITE, as their offer needs
    /// ports.
    pub(super) fn attach(&mut self, key: Key, session: SessionId) {
        if let Some(leg) = self.legs.get_mut(key).filter(|_| session != NO_SESSION) {
            leg.session = session;
            leg.is_gone = false;
            self.by_session.insert(session, key);
            self.counts.calls_total += 1;
        }
    }

    /// A script for a leg; `drive` it with `start`.
    pub(super) fn add_actor(&mut self, mut actor: Actor) -> Key {
        actor.script.set_end_pause(self.end_pause);
        let (leg, part) = (actor.leg, actor.part);
        if self.legs.get(leg).is_some_and(|leg| leg.traced.is_some()) {
            actor.script.verb_log().turn_on();
        }
        let key = self.actors.insert(actor);
        if let Some(leg) = self.legs.get_mut(leg) {
            match part {
                Part::Main => leg.main = Some(key),
                Part::Screening { .. } | Part::Waiting { .. } => leg.aside = Some(key),
            }
        }
        key
    }

    /// A new sid of a kind of resource, one of [`ivr::sid`]'s.
    pub(super) fn new_sid(&mut self, messages: &str) -> String {
        ivr::sid::new(messages, self.random())
    }
}

impl Voice {
    /// Makes the leg and the script of an INVITE, and starts the script.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        session: SessionId,
        invited: &Invited,
        world: &mut World<'_>,
    ) {
        let request = &invited.request;
        let user = user_of(request.uri());
        let Some(answers) = self.numbers.get(&user).cloned() else {
            // The number was there when the plan was asked and has been unbound since; nothing else leads
            // here.
            let _ = world.endpoint.sessions(now, world.out).reject(session, 404, "Not Found", &[]);
            return;
        };
        let sid = self.calls.new_sid(ivr::sid::CALL);
        let call = call_of(&sid, &answers.owner.account, user, invited);
        tracing::debug!(sid, from = call.from, to = call.to, "a call for an application");
        let from = call.from.as_str().into();
        let caller_name = call.caller_name.as_deref().map(Box::from);
        let (life, status) = (self.calls.life, answers.plan.status.as_ref());
        // A Dial or the REST interface calls its own number: only the party at its other end is called again.
        let is_ours = world.endpoint.own_address().is_some_and(|own| own.remote == invited.source.remote);
        let party =
            (!is_ours).then(|| redial::party(self.calls.redial, &invited.caller, &call.from)).flatten();
        let redial = party.and_then(|party| redial::of(&answers.plan, party, &call.to));
        let row = || Row::new(now, &call, &answers.number).of_node(life, status).redialled_as(redial);
        let row = self.calls.has_records.then(row);
        let script = Script::new(call, answers.plan.clone());
        let trusted = invited.source.remote.ip();
        let owner = std::sync::Arc::clone(&answers.owner);
        let mut leg = Leg::new(session, sid, owner, trusted, &mut self.calls.rng);
        // Over UDP the source of an INVITE may be forged: no media goes there before the ACK proves that it
        // receives.
        leg.is_held = !invited.proved;
        leg.from = from;
        leg.caller_name = caller_name;
        leg.caller = match &invited.caller {
            sip::endpoint::Caller::Account(aor) => Some(aor.clone()),
            sip::endpoint::Caller::Stranger => None,
        };
        // Each Dial of the script has one less, so that numbers which dial each other come to an end (RFC
        // 7332).
        leg.hops = request.max_forwards().flatten().unwrap_or(leg.hops);
        leg.row = row.map(Box::new);
        leg.traced = TracedLeg::of(self.calls.trace.as_deref(), request.call_id().unwrap_or_default());
        let is_sdp = request.header(Header::ContentType).is_some();
        leg.offer = sip::session::sdp_of(request).filter(|_| is_sdp).unwrap_or_default();
        self.calls.start_ticks(now, &self.rooms);
        let leg = self.calls.add_leg(leg);
        let actor = self.calls.add_actor(Actor { script, leg, part: Part::Main });
        self.drive(now, actor, world, |script, out| script.start(now, out));
    }
}

/// The call as its script knows it: the parameters of its requests.
fn call_of(sid: &str, account: &str, to: String, invited: &Invited) -> Call {
    let request = &invited.request;
    let from = request.from();
    let name = from.map(|from| told_text(from.display)).unwrap_or_default();
    let name = name.trim_matches('"').to_owned();
    let call_id = told_text(request.call_id().unwrap_or_default());
    let mut extra = vec![(rows::CALL_ID.to_owned(), call_id)];
    extra.extend(told_headers(request));
    let forwarded_from = forwarded_from(request).map(|uri| cut(&user_of(uri)).to_owned());
    Call {
        sid: sid.to_owned(),
        account_sid: account.to_owned(),
        from: from.map(|from| cut(&user_of(from.uri)).to_owned()).unwrap_or_default(),
        to,
        direction: Direction::Inbound,
        caller_name: (!name.is_empty()).then_some(name),
        forwarded_from: forwarded_from.filter(|party| !party.is_empty()),
        parent_sid: None,
        api_version: API_VERSION.to_owned(),
        extra,
        answered: false,
    }
}

/// A text of the INVITE, as its application and the record get it.
fn told_text(bytes: &[u8]) -> String {
    cut(&String::from_utf8_lossy(bytes)).to_owned()
}

fn cut(text: &str) -> &str {
    rows::cut(text, limits::CALLER_TEXT)
}

/// `SipHeader_X-…` for each header of the INVITE that begins with `X-`, as RestComm has it. Bounded, as the
/// application pays for them with each request.
fn told_headers(request: &Message) -> impl Iterator<Item = (String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_told = |(name, value): &(&[u8], &[u8])| {
        name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"X-"))
            && value.len() <= limits::TOLD_HEADER
    };
    let told = request.others().filter(is_told).take(limits::TOLD_HEADERS);
    told.map(move |(name, value)| (format!("SipHeader_{}", text(name)), text(value)))
}

/// The user part of a URI without escapes, empty where there is none.
fn user_of(uri: &[u8]) -> String {
    Uri::parse(uri).ok().and_then(|uri| uri.user_decoded()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sip::endpoint::Caller;
    use sip::transport::{Source, Transport};
    use store::rest::Resource as _;
    use store::rest::types::Recording;

    use super::*;

    /// A caller that writes long texts, whose characters are two bytes each in a row.
    #[test]
    fn no_caller_keeps_its_call_or_recording_out_of_the_record_by_long_texts() {
        let long = "\\".repeat(14_000);
        let user = "%5C".repeat(5_000);
        let invite = format!(
            "INVITE sip:100@example.org SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1\r\nFrom: \"{long}\" \
             <sip:{user}@192.0.2.1>;tag=1\r\nTo: <sip:100@example.org>\r\nCall-ID: {long}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        let address: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        let invited = Invited {
            request: Message::parse(invite.into_bytes().into()).unwrap(),
            source: Source { transport: Transport::Tcp, local: address, remote: address, flow: None },
            caller: Caller::Stranger,
            proved: true,
        };
        let call = call_of("CA1", "AC1", "100".into(), &invited);
        let row = Row::new(Instant::default(), &call, "PN1").write(Instant::default());
        assert!(row.is_some());
        let recording = Recording { from: call.from, to: "a@example.org".into(), ..Recording::default() };
        assert!(recording.row().is_ok_and(|row| row.from.is_some_and(|from| from.starts_with('\\'))));
    }
}
