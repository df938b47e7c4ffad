//! A party: the callee of a Dial or of the REST interface. It is looked up, its phones ring together, groups of them in
//! turn; the first that answers is the party's leg and the others are hung up. For its script all that is one leg.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ivr::document::{Address as Dialled, Item, Piece};
use ivr::request::Form;
use ivr::script::{CallStatus, Id, LegEvent, LegFailure};
use media::codec::Codec;
use router::Aor;
use sip::endpoint::ListedUnder;
use sip::session::{Cause, Invite, Login, SessionId, body_of};
use sip::wire::{Header, Message, Uri};
use stdx::Instant;
use stdx::slab::Key;

use super::leg::{Leg, NO_SESSION, Partner, codecs_like};
use super::prompts::Speaking;
use super::record::Background;
use super::resolving::ResolutionPurpose;
use super::rows::{self, Row};
use super::{Address, CountedCall, Destination, Owner, Purpose, Resolved, Voice, VoiceEffect, World};

/// A call that a script makes, and its progress.
pub(super) struct DialAttempt {
    /// The actor whose script is told.
    pub(super) actor: Key,
    pub(super) whose: Originator,
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    /// As scripts know the two.
    pub(super) from: Box<str>,
    pub(super) caller_name: Option<Box<str>>,
    pub(super) to: String,
    /// From and To of the INVITE; the second is empty for a destination that is called directly.
    from_name: Box<str>,
    to_name: Box<str>,
    /// The dialled URI, when its host is not ours.
    direct: Option<Box<str>>,
    headers: Vec<(Box<str>, Box<str>)>,
    login: Option<Login>,
    pub(super) send_digits: Vec<Item>,
    /// The time that its phones may ring; when zero, SIP's own timers decide.
    pub(super) timeout: Duration,
    pub(super) codecs: &'static [Codec],
    /// Max-Forwards.
    pub(super) hops: u8,
    /// The script's caller ID is neither the caller's nor the account's.
    pub(super) is_forged: bool,
    /// A limit of ours refused it, and a notification has said which.
    pub(super) is_refused: bool,
    /// Its P-Asserted-Identity towards trusted next hops, when the caller's identity is proved or the account's.
    pub(super) asserted: Box<str>,
    /// The account that is called counts the call.
    pub(super) counted: Option<Arc<CountedCall>>,
    /// While its address is looked up.
    pub(super) ticket: Option<u64>,
    /// Still to be tried.
    groups: VecDeque<Vec<Destination>>,
    /// Its phones that ring, or the one that has answered.
    pub(super) legs: Vec<Key>,
    pub(super) is_up: bool,
    has_started: bool,
    has_rung: bool,
    /// The most telling so far.
    failure: Option<LegFailure>,
    /// The Call-ID of the phone that was called last, then of the one that has answered.
    pub(super) call_id: String,
    /// The account that is called, when it is one of ours.
    pub(super) aor: Option<Aor>,
    /// `X-` headers of the answer.
    pub(super) answer_headers: Form,
    /// The row of a Dial's call; for a call of the REST interface the leg has it.
    pub(super) row: Option<Box<Row>>,
    /// Begins with the answer.
    pub(super) record: Option<Background>,
}

/// The role of a party for the script that is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Originator {
    /// A leg of its Dial.
    Dialed(Id),
    /// The script's own call, that the REST interface asked for.
    Own,
}

impl DialAttempt {
    pub(super) fn new(
        (actor, whose): (Key, Originator),
        sid: String,
        owner: Arc<Owner>,
        from: Box<str>,
        from_name: Box<str>,
    ) -> DialAttempt {
        DialAttempt {
            actor,
            whose,
            sid,
            owner,
            from,
            caller_name: None,
            to: String::new(),
            from_name,
            to_name: "".into(),
            direct: None,
            headers: Vec::new(),
            login: None,
            send_digits: Vec::new(),
            timeout: Duration::ZERO,
            codecs: codecs_like(None),
            hops: sip::limits::MAX_FORWARDS,
            is_forged: false,
            asserted: "".into(),
            counted: None,
            ticket: None,
            groups: VecDeque::new(),
            legs: Vec::new(),
            is_up: false,
            has_started: false,
            has_rung: false,
            failure: None,
            is_refused: false,
            call_id: String::new(),
            aor: None,
            answer_headers: Form::new(),
            row: None,
            record: None,
        }
    }

    /// Takes the address to look up. `None`: no address, or not one of SIP.
    pub(super) fn take_address(&mut self, to: Dialled) -> Option<Address> {
        self.to = shown(&to);
        let of_user = |user: String| Address { user: user.into(), host: "".into(), port: None };
        let uri = match to {
            Dialled::Number { number, send_digits } => {
                self.send_digits.extend(send_digits);
                // As people write them. RFC 3966 §5.1.1: visual separators mean nothing.
                return Some(of_user(number.chars().filter(|c| !" -.()".contains(*c)).collect()));
            }
            Dialled::Client { name } => return Some(of_user(name)),
            Dialled::Sip { uri, headers, username, password } => {
                self.headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
                self.login = username
                    .map(|user| Login { user: user.into(), password: password.unwrap_or_default().into() });
                uri
            }
            Dialled::Uri(uri) => uri,
            Dialled::Queue(_) => return None,
        };
        // COMPAT(RestComm): addresses are written without their scheme, too.
        let scheme = uri.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let uri = if matches!(&*scheme, "sip" | "sips") { uri } else { format!("sip:{uri}") };
        let parsed = Uri::parse(uri.as_bytes()).ok().filter(Uri::is_sip)?;
        let address = Address {
            user: parsed.user_decoded().unwrap_or_default().into(),
            host: parsed.host_lower().into(),
            port: parsed.port,
        };
        self.direct = Some(uri.into());
        Some(address)
    }

    /// Parameters of the dialog for scripts on its leg.
    pub(super) fn extra(&self) -> Form {
        let headers =
            self.answer_headers.iter().map(|(name, value)| (format!("SipHeader_{name}"), value.clone()));
        std::iter::once((rows::CALL_ID.to_owned(), self.call_id.clone())).chain(headers).collect()
    }

    /// The most telling failure, with the Call-ID of the last INVITE where no answer brought one.
    pub(super) fn failure(&self) -> Option<LegFailure> {
        let mut failure = self.failure.clone()?;
        if failure.call_id.is_none() && !self.call_id.is_empty() {
            failure.call_id = Some(self.call_id.clone());
        }
        Some(failure)
    }

    /// As its call ends.
    pub(super) fn status(&self) -> CallStatus {
        match &self.failure {
            _ if self.is_up => CallStatus::Completed,
            Some(failure) => failure.status,
            None => CallStatus::NoAnswer,
        }
    }

    /// Keeps the most telling failure: a busy callee counts more than no answer, and either more than an error.
    fn note_failure(&mut self, failure: LegFailure) {
        let weight = |status| match status {
            CallStatus::Busy => 2,
            CallStatus::NoAnswer => 1,
            _ => 0,
        };
        if self.failure.as_ref().is_none_or(|known| weight(failure.status) >= weight(known.status)) {
            self.failure = Some(failure);
        }
    }
}

/// As a leg's `To`.
pub(super) fn shown(address: &Dialled) -> String {
    match address {
        Dialled::Number { number, .. } => number.clone(),
        Dialled::Client { name } => format!("client:{name}"),
        Dialled::Sip { uri, .. } | Dialled::Uri(uri) => uri.clone(),
        Dialled::Queue(name) => format!("queue:{name}"),
    }
}

/// The call status for a final status. A callee that declines is busy for the caller, as with RestComm.
fn status_of(code: u16) -> CallStatus {
    match code {
        486 | 600 | 603 => CallStatus::Busy,
        408 | 480 | 487 => CallStatus::NoAnswer,
        _ => CallStatus::Failed,
    }
}

fn failure_of(code: u16, response: Option<&Message>) -> LegFailure {
    // RFC 3261 §7.2: the phrase is the callee's own, where it is the callee's status that counts.
    let reason =
        response.filter(|response| response.status() == code).map(|response| text(response.reason()));
    LegFailure {
        status: status_of(code),
        code: Some(code),
        reason: reason.unwrap_or_else(|| phrase_of(code).to_owned()),
        call_id: response.and_then(Message::call_id).map(text),
        headers: response.map(extra_headers).unwrap_or_default(),
    }
}

/// RFC 3261 §21: of statuses that end a call on this side.
fn phrase_of(code: u16) -> &'static str {
    match code {
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        416 => "Unsupported URI Scheme",
        480 => "Temporarily Unavailable",
        483 => "Too Many Hops",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        500 => "Server Internal Error",
        503 => "Service Unavailable",
        _ => "",
    }
}

fn extra_headers(message: &Message) -> Form {
    let all = message.others().filter(|(name, _)| name.len() > 2 && name[..2].eq_ignore_ascii_case(b"X-"));
    all.map(|(name, value)| (text(name), text(value))).collect()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Voice {
    pub(super) fn look_up(&mut self, key: Key, address: Address, world: &mut World<'_>) {
        let to_name = self.home.address_of(&address);
        let Some(party) = self.parties.get_mut(key) else { return };
        let ticket = self.resolving.add(ResolutionPurpose::Party(key));
        party.ticket = Some(ticket);
        party.to_name = to_name;
        world.outbox.push(VoiceEffect::Resolve { ticket, address, purpose: Purpose::Call });
    }

    pub(super) fn party_resolved(
        &mut self,
        now: Instant,
        key: Key,
        resolved: Resolved,
        world: &mut World<'_>,
    ) {
        let Some(party) = self.parties.get_mut(key) else { return };
        party.ticket = None;
        match resolved {
            Err(status) => return self.party_failed(now, key, status, world),
            Ok(groups) => party.groups = groups.into(),
        }
        // Where the plan has no route, the dialled URI is used: the document comes from the owner of the number, not
        // from the caller, so this relays for no stranger.
        if party.groups.is_empty()
            && let Some(uri) = party.direct.clone()
        {
            party.to_name = "".into();
            let public_only = !self.allow_private;
            party.groups.push_back(vec![Destination {
                uri,
                path: "".into(),
                received: None,
                public_only,
                is_binding: false,
            }]);
        }
        self.ring_next(now, key, world);
    }

    /// The next group of phones; after the last one the party has failed.
    fn ring_next(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        while let Some(group) = self.parties.get_mut(key).and_then(|party| party.groups.pop_front()) {
            for reach in group {
                self.ring_phone(now, key, &reach, world);
            }
            let Some(party) = self.parties.get_mut(key) else { return };
            if party.legs.is_empty() {
                continue;
            }
            let (actor, whose, sid) = (party.actor, party.whose, party.sid.clone());
            let is_first = !std::mem::replace(&mut party.has_started, true);
            if let (Originator::Dialed(id), true) = (whose, is_first) {
                let started = LegEvent::Started { sid };
                self.drive(now, actor, world, |script, out| script.handle_leg(now, id, started, out));
            }
            return;
        }
        self.party_failed(now, key, 404, world);
    }

    /// Rings one phone. A phone that cannot be called is the party's failure unless another is more telling.
    fn ring_phone(&mut self, now: Instant, key: Key, reach: &Destination, world: &mut World<'_>) {
        let Some(party) = self.parties.get(key) else { return };
        let host = Uri::parse(reach.uri.as_bytes()).ok().and_then(|uri| uri.host_ip());
        let trusted = reach.received.map(|received| received.remote.ip()).or(host);
        // A name's address is known once a response came from it; no media comes from 0.0.0.0.
        let trusted = trusted.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        // A call of the interface's own has its sid with the leg that its script is on.
        let sid = if party.whose == Originator::Own { String::new() } else { party.sid.clone() };
        let mut leg = Leg::new(NO_SESSION, sid, Arc::clone(&party.owner), trusted, &mut self.calls.rng);
        leg.party = Some(key);
        leg.codecs = party.codecs;
        leg.hops = party.hops;
        leg.counted.clone_from(&party.counted);
        let leg = self.add_leg(now, leg);
        match self.invite_phone(now, key, leg, reach, world) {
            Ok(session) => {
                self.calls.attach(leg, session);
                if let Some(party) = self.parties.get_mut(key) {
                    party.legs.push(leg);
                }
            }
            Err(status) => {
                self.remove(now, leg, world);
                if let Some(party) = self.parties.get_mut(key) {
                    party.note_failure(failure_of(status, None));
                }
            }
        }
    }

    fn invite_phone(
        &mut self,
        now: Instant,
        key: Key,
        leg: Key,
        reach: &Destination,
        world: &mut World<'_>,
    ) -> Result<SessionId, u16> {
        let offer = self.calls.describe(leg, world).map_err(|refused| refused.status)?;
        let call_id = self.home.call_id(&mut self.calls.rng);
        let party = self.parties.get_mut(key).ok_or(500_u16)?;
        party.call_id.clone_from(&call_id);
        let invite = Invite {
            target: reach.uri.clone(),
            path: reach.path.clone(),
            received: reach.received,
            from: party.from_name.clone(),
            to: party.to_name.clone(),
            call_id: call_id.into(),
            headers: party.headers.clone(),
            offer,
            login: party.login.clone(),
            public_only: reach.public_only,
            is_binding: reach.is_binding,
            asserted: party.asserted.clone(),
            hops: party.hops,
            timeout: party.timeout,
            listed: ListedUnder { account: Some(party.owner.account.clone()), callee: party.aor.clone() },
        };
        world.endpoint.sessions(now, world.out).invite(invite).map_err(|_| 500)
    }

    /// 101 to 199.
    pub(super) fn rang(
        &mut self,
        now: Instant,
        session: SessionId,
        response: &Message,
        world: &mut World<'_>,
    ) {
        let Some(&leg) = self.calls.by_session.get(&session) else { return };
        let Some(key) = self.calls.legs.get(leg).and_then(|leg| leg.party) else { return };
        let Some(party) = self.parties.get_mut(key).filter(|party| !party.is_up) else { return };
        let (actor, whose) = (party.actor, party.whose);
        let is_first = !std::mem::replace(&mut party.has_rung, true);
        if let Some(leg) = self.calls.legs.get_mut(leg) {
            leg.trust_peer(world.endpoint);
        }
        if let Some(sdp) = body_of(response) {
            self.calls.settled_early(session, &sdp);
            self.hear_early(actor, leg);
        }
        match whose {
            _ if !is_first => {}
            Originator::Dialed(id) => {
                self.drive(now, actor, world, |script, out| {
                    script.handle_leg(now, id, LegEvent::Ringing, out);
                });
            }
            Originator::Own => {
                self.calls.call_rings(now, actor, world);
                self.drive(now, actor, world, |script, out| script.handle_ringing(now, out));
            }
        }
    }

    /// Connects the caller to a callee's early media, such as an announcement, in place of our ringing. When several
    /// parties ring, the source would be ambiguous.
    fn hear_early(&mut self, actor: Key, phone: Key) {
        let Some((caller, leg)) = self.calls.leg_of(actor) else { return };
        let is_alone = leg.dialing.as_ref().is_some_and(|dialing| dialing.parties.len() == 1);
        if !is_alone || leg.media.is_none() || leg.partner != Partner::None {
            return;
        }
        if self.calls.legs.get(phone).is_some_and(|phone| phone.media.is_some()) {
            self.calls.stop_ringing(caller);
            self.calls.join(caller, phone);
        }
    }

    /// The first of a party's phones has answered.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        session: SessionId,
        response: &Message,
        world: &mut World<'_>,
    ) {
        let Some(&leg) = self.calls.by_session.get(&session) else { return };
        let Some(key) = self.calls.legs.get(leg).and_then(|leg| leg.party) else { return };
        if let Some(leg) = self.calls.legs.get_mut(leg) {
            leg.trust_peer(world.endpoint);
        }
        if let Some(sdp) = body_of(response) {
            self.calls.settled(session, &sdp);
        }
        if self.calls.legs.get(leg).is_some_and(|leg| leg.media.is_none()) {
            // RFC 3261 §13.2.2.4: an answer that is not acceptable is acknowledged, and then comes a BYE.
            return self.phone_failed(now, key, leg, failure_of(488, Some(response)), world);
        }
        let Some(party) = self.parties.get_mut(key).filter(|party| !party.is_up) else { return };
        party.is_up = true;
        party.groups.clear();
        if let Some(counted) = &party.counted {
            world.outbox.push(counted.changed(router::CallPhase::Confirmed));
        }
        party.call_id = response.call_id().map(text).unwrap_or_default();
        party.answer_headers = extra_headers(response);
        if let Some(row) = &mut party.row {
            row.answered_by(now, &party.call_id, world);
        }
        let losers = std::mem::replace(&mut party.legs, vec![leg]);
        let (actor, whose) = (party.actor, party.whose);
        for loser in losers.into_iter().filter(|loser| *loser != leg) {
            self.remove(now, loser, world);
        }
        self.send_first_digits(now, key, leg, world);
        match whose {
            Originator::Dialed(id) => self.drive(now, actor, world, |script, out| {
                script.handle_leg(now, id, LegEvent::Answered, out);
            }),
            Originator::Own => {
                let Some(party) = self.parties.remove(key) else { return };
                self.take_over(now, actor, leg, &party, world);
                if let Some(how) = party.record {
                    self.recordings.begin_recording(now, leg, how, &mut self.calls, world);
                }
            }
        }
    }

    /// A Number's `sendDigits`. A caller is joined meanwhile, and hears what they do; scripts speak after them.
    fn send_first_digits(&mut self, now: Instant, key: Key, leg_key: Key, world: &mut World<'_>) {
        let Some(party) = self.parties.get_mut(key) else { return };
        let items = std::mem::take(&mut party.send_digits);
        let actor = party.actor;
        let Some(leg) = self.calls.legs.get_mut(leg_key).filter(|_| !items.is_empty()) else { return };
        let Some(media) = &leg.media else { return };
        let pieces: Vec<Piece> =
            items.into_iter().map(|item| Piece { items: vec![item], loops: 1 }).collect();
        let codec = media.negotiated().audio.codec;
        // No script waits for its end, so any number will do.
        leg.first_digits = Some(Box::new(Speaking::new(actor, Id(0), &pieces, codec, |_, _| None)));
        self.calls.go_on(now, leg_key, world);
    }

    /// A session of one of its phones is over, for whatever reason.
    pub(super) fn phone_ended(
        &mut self,
        now: Instant,
        key: Key,
        leg: Key,
        cause: &Cause,
        world: &mut World<'_>,
    ) {
        let Some(party) = self.parties.get(key) else { return };
        if party.is_up {
            return self.end_party(now, key, world);
        }
        let failure = match cause {
            Cause::Failed { status, response } => failure_of(*status, response.as_deref()),
            Cause::Timeout => failure_of(408, None),
            _ => failure_of(487, None),
        };
        self.phone_failed(now, key, leg, failure, world);
    }

    fn phone_failed(&mut self, now: Instant, key: Key, leg: Key, failure: LegFailure, world: &mut World<'_>) {
        self.remove(now, leg, world);
        let Some(party) = self.parties.get_mut(key) else { return };
        let code = failure.code.unwrap_or_default();
        party.note_failure(failure);
        party.legs.retain(|known| *known != leg);
        // RFC 3261 §16.7 item 5: a 6xx is for all of them.
        let others = if code >= 600 { std::mem::take(&mut party.legs) } else { Vec::new() };
        let (is_over, actor) = (party.legs.is_empty(), party.actor);
        for other in others {
            self.remove(now, other, world);
        }
        if !is_over {
            return;
        }
        // The next group replaces a group that could not be reached, not one in which a callee declined.
        if !matches!(code, 408 | 503) {
            return self.party_failed(now, key, code, world);
        }
        self.ring_next(now, key, world);
        if let Some(caller) = self.calls.actors.get(actor).map(|actor| actor.leg) {
            self.start_ringing(caller);
        }
    }

    /// The party has failed without an answer. The script gets its most telling failure; `code` is the fallback.
    pub(super) fn party_failed(&mut self, now: Instant, key: Key, code: u16, world: &mut World<'_>) {
        if let Some(party) = self.parties.get_mut(key) {
            party.failure.get_or_insert_with(|| failure_of(code, None));
        }
        // A recording of the ringing is kept, but no connection has it.
        let Some((party, _)) = self.forget_party(now, key, world) else { return };
        let failure = party.failure().unwrap_or_else(|| failure_of(code, None));
        let leg = self.calls.actors.get(party.actor).map(|actor| actor.leg);
        if let Some(leg) = leg.filter(|_| !party.is_refused) {
            // A Dial's call has a sid of its own.
            let call = matches!(party.whose, Originator::Dialed(_)).then_some(&*party.sid);
            self.calls.note_failed_call(now, leg, call, &failure, world);
        }
        match party.whose {
            Originator::Own => self.unanswered(now, party.actor, &failure, world),
            Originator::Dialed(id) => {
                let failed = LegEvent::Failed(failure);
                self.drive(now, party.actor, world, |script, out| script.handle_leg(now, id, failed, out));
            }
        }
    }
}

/// The URI of a Refer-To, a Contact or the like.
pub(super) fn uri_in(message: &Message, header: Header) -> Option<String> {
    sip::wire::Address::parse(message.header(header)?).map(|address| text(address.uri))
}
