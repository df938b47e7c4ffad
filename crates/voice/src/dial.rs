//! Dials: parties are called, screened, joined with their caller, and everything ends once.
//!
//! [`Dials`] owns the attempts ([`super::dial_attempt`]) and decides; it touches neither legs nor scripts, and returns
//! [`DialEffect`]s, which `Voice` performs (`dial_effect`). Transfers of its connections are in `refer`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ivr::document::{Address as Dialled, Item};
use ivr::request::Target;
use ivr::script::{DialOptions, Id, Leg, LegEvent, LegFailure, Plan, Role, Script, Start};
use media::codec::Codec;
use router::{Admission, Aor, CallPhase};
use sip::session::Cause;
use sip::wire::Message;
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};

use super::actor::{Actor, Part};
use super::dial_attempt::{DialAttempt, DialOrigin, Originator, extra_headers, failure_of, is_any_up, text};
use super::dial_effect::{AnsweredCall, DialEffect, DialOutbox};
use super::leg::codecs_like;
use super::numbers::Numbers;
use super::outgoing::CallOrigin;
use super::phone_leg::{InvitedPhone, PhoneResponse};
use super::record::Background;
use super::rows::Row;
use super::{CountedCall, Destination, Owner, Resolved, VoiceEffect, limits};

/// Twilio's number for a Dial's `callerId` that may not be used.
const INVALID_CALLER_ID: u32 = 13_214;

/// Twilio's number for a destination that an account may not call.
const REFUSED: u32 = 13_227;

/// The dial attempts of a shard.
pub(super) struct Dials {
    attempts: Slab<DialAttempt>,
    /// The last Dial of each leg whose script has had one, and the call of the REST interface that a leg waits for.
    pub(super) callers: HashMap<Key, CallerDial>,
    origin: CallOrigin,
    /// Draws sids and Call-IDs.
    rng: Rng,
    /// Calls are written to the record.
    has_records: bool,
    /// The life of this node in its farm, for the rows of calls.
    pub(super) life: u32,
    /// `[voice] allow_private`.
    allow_private: bool,
}

/// The Dial of a caller's leg.
#[derive(Default)]
pub(super) struct CallerDial {
    /// The caller as scripts know it.
    pub(super) from: Box<str>,
    /// The country whose ringing tone the caller hears.
    ring_tone: Option<String>,
    /// The document that decides about transfers.
    pub(super) refer: Option<Target>,
    /// Attempts that are not over.
    attempts: Vec<Key>,
    /// The attempt that the caller is joined with.
    pub(super) bridged: Option<Key>,
}

/// The caller of a Dial: the leg of its script.
pub(super) struct DialCaller {
    pub(super) leg: Key,
    pub(super) actor: Key,
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    pub(super) from: Box<str>,
    pub(super) name: Option<Box<str>>,
    /// The account that the caller has proved to be.
    pub(super) aor: Option<Aor>,
    /// The codec of the caller's sound.
    pub(super) codec: Option<Codec>,
    pub(super) hops: u8,
}

/// A call that the REST interface asks for, and the script and leg that wait for it.
pub(super) struct OwnCall {
    pub(super) actor: Key,
    pub(super) leg: Key,
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    pub(super) from: String,
    pub(super) to: Dialled,
    pub(super) send_digits: Vec<Item>,
    pub(super) timeout: Duration,
    pub(super) record: Option<Background>,
}

impl Dials {
    pub(super) fn new(origin: CallOrigin, rng: Rng, has_records: bool, allow_private: bool) -> Dials {
        let (attempts, callers) = (Slab::new(), HashMap::new());
        Dials { attempts, callers, origin, rng, has_records, life: 0, allow_private }
    }

    pub(super) fn origin(&self) -> &CallOrigin {
        &self.origin
    }

    /// Attempts, and legs that have had one.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.attempts.len() + self.callers.len()
    }

    pub(super) fn get(&self, key: Key) -> Option<&DialAttempt> {
        self.attempts.get(key)
    }

    /// The country of the tone, empty where the Dial names none. `None`: the caller does not wait for an answer.
    pub(super) fn ringing_country(&self, caller: Key) -> Option<&str> {
        let dial = self.callers.get(&caller).filter(|dial| dial.bridged.is_none())?;
        (!dial.attempts.is_empty()).then(|| dial.ring_tone.as_deref().unwrap_or_default())
    }

    /// The rows of calls whose legs have none.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = &mut Box<Row>> {
        self.attempts.iter_mut().filter_map(|(_, attempt)| attempt.row.as_mut())
    }

    /// Calls the parties of a Dial.
    pub(super) fn dial(
        &mut self,
        now: Instant,
        caller: &DialCaller,
        (legs, options): (Vec<Leg>, DialOptions),
        numbers: &Numbers,
        out: &mut DialOutbox,
    ) {
        let DialOptions { caller_id, ring_tone, record, refer, timeout } = options;
        // The caller's name does not belong to another number.
        let caller_name = caller.name.clone().filter(|_| caller_id.is_none());
        let from = caller_id.unwrap_or_else(|| caller.from.to_string());
        let is_callers = from == *caller.from;
        let dial = self.callers.entry(caller.leg).or_default();
        dial.from.clone_from(&caller.from);
        (dial.ring_tone, dial.refer) = (ring_tone, refer);
        out.push(DialEffect::PlanRecording { caller: caller.leg, record });
        // The caller's own number may be passed on.
        let is_own = self.origin.may_show(numbers, &caller.owner.account, &from);
        let is_forged = !is_callers && !is_own;
        let aor = caller.aor.as_ref().filter(|_| is_callers);
        let asserted = self.origin.asserted(is_own.then_some(&*from), aor.map(|aor| &**aor));
        let name = self.origin.display_name_of(caller_name.as_deref(), &from);
        if is_forged {
            let text = format!("Dial: callerId {from:?} is neither a number nor a caller id of the account");
            out.push(DialEffect::Warn { leg: caller.leg, code: INVALID_CALLER_ID, text });
        }
        let is_queue = |leg: &Leg| matches!(leg.address, Dialled::Queue { .. });
        let is_heard_ringing = !is_forged && !legs.iter().all(is_queue);
        for Leg { id, address } in legs {
            if let Dialled::Queue { name, document } = address {
                out.push(DialEffect::DialQueue { actor: caller.actor, id, queue: name, document });
                continue;
            }
            let origin = DialOrigin {
                actor: caller.actor,
                originator: Originator::Dialed(id),
                caller: caller.leg,
                owner: Arc::clone(&caller.owner),
                from: from.as_str().into(),
                from_name: name.clone(),
            };
            let mut attempt = DialAttempt::new(origin, self.new_sid());
            attempt.parent_sid = Some(caller.sid.clone());
            attempt.timeout = timeout + limits::RING_MARGIN;
            attempt.codecs = codecs_like(caller.codec);
            attempt.caller_name.clone_from(&caller_name);
            // RFC 7332 §4: a number whose application dials that number must not go on for ever.
            attempt.hops = caller.hops.saturating_sub(1);
            attempt.asserted.clone_from(&asserted);
            self.start(now, attempt, address, is_forged, out);
        }
        if is_heard_ringing {
            out.push(DialEffect::StartRinging { caller: caller.leg });
        }
    }

    /// Calls the callee of a call of the REST interface.
    pub(super) fn place(&mut self, now: Instant, call: OwnCall, out: &mut DialOutbox) {
        let OwnCall { actor, leg, sid, owner, from, to, send_digits, timeout, record } = call;
        let from_name = self.origin.name_of(&from);
        let asserted = self.origin.asserted(Some(&from), None);
        let originator = Originator::Own;
        let origin = DialOrigin { actor, originator, caller: leg, owner, from: from.into(), from_name };
        let mut attempt = DialAttempt::new(origin, sid);
        attempt.timeout = timeout;
        attempt.send_digits = send_digits;
        attempt.record = record;
        attempt.asserted = asserted;
        self.start(now, attempt, to, false, out);
    }

    fn new_sid(&mut self) -> String {
        let random = (u128::from(self.rng.next_u64()) << 64) | u128::from(self.rng.next_u64());
        ivr::sid::new(ivr::sid::CALL, random)
    }

    /// Begins to look for the callee of an attempt.
    fn start(
        &mut self,
        now: Instant,
        mut attempt: DialAttempt,
        to: Dialled,
        is_forged: bool,
        out: &mut DialOutbox,
    ) {
        let address = attempt.take_address(to);
        if let Some(address) = &address {
            attempt.to_name = self.origin.address_of(address);
        }
        if self.has_records && attempt.originator != Originator::Own {
            attempt.row = Some(Box::new(Row::new(now, &attempt.call(), "").of_node(self.life, None)));
        }
        let (caller, hops) = (attempt.caller, attempt.hops);
        let key = self.attempts.insert(attempt);
        self.callers.entry(caller).or_default().attempts.push(key);
        match address {
            _ if is_forged => self.fail(now, key, 403, out),
            _ if hops == 0 => self.fail(now, key, 483, out),
            Some(address) => out.push(DialEffect::Resolve { attempt: key, address }),
            // No URI that SIP has.
            None => self.fail(now, key, 416, out),
        }
    }

    /// The ticket under which the address of an attempt is looked up. `false`: the attempt is over.
    pub(super) fn handle_resolving(&mut self, key: Key, ticket: u64) -> bool {
        let attempt = self.attempts.get_mut(key);
        attempt.map(|attempt| attempt.ticket = Some(ticket)).is_some()
    }

    /// The account that the address of an attempt leads to.
    pub(super) fn handle_account(&mut self, key: Key, aor: &Aor) {
        if let Some(attempt) = self.attempts.get_mut(key) {
            attempt.aor = Some(aor.clone());
        }
    }

    /// The question to the router of the called account, which limits its calls at once.
    pub(super) fn admission_of(&mut self, key: Key, aor: &Aor, max_calls: u32) -> Option<Admission> {
        let name: Box<str> = self.origin.call_id(&mut self.rng).into();
        let attempt = self.attempts.get_mut(key)?;
        let counted = CountedCall { aor: aor.clone(), name: name.clone(), from: attempt.from.clone() };
        attempt.counted = Some(Arc::new(counted));
        Some(Admission {
            aor: aor.clone(),
            call_id: name,
            caller_tag: "".into(),
            initiator: false,
            max_calls: Some(max_calls),
            max_rate: None,
        })
    }

    /// The account's router has admitted the call, or not. Returns the account to look up, and the call for its router,
    /// unless the call is over or refused.
    pub(super) fn handle_admitted(&mut self, key: Key, is_admitted: bool) -> Option<(Aor, VoiceEffect)> {
        let attempt = self.attempts.get_mut(key)?;
        if !is_admitted {
            attempt.counted = None;
            return None;
        }
        let counted = attempt.counted.as_ref()?;
        Some((counted.aor.clone(), counted.changed(CallPhase::Trying)))
    }

    /// A limit keeps an attempt from its destination: the caller's record says which.
    pub(super) fn handle_refused(&mut self, key: Key, reason: &str, out: &mut DialOutbox) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        attempt.is_refused = true;
        let text = format!("the call to {} was refused: {reason}", attempt.to);
        tracing::info!(
            account = &*attempt.owner.account,
            to = attempt.to,
            reason,
            "a call of an application was refused"
        );
        out.push(DialEffect::Warn { leg: attempt.caller, code: REFUSED, text });
    }

    /// The destinations of an attempt's address, or the status that says why there is none.
    pub(super) fn handle_resolved(
        &mut self,
        now: Instant,
        key: Key,
        resolved: Resolved,
        out: &mut DialOutbox,
    ) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        attempt.ticket = None;
        match resolved {
            Err(status) => return self.fail(now, key, status, out),
            Ok(groups) => attempt.groups = groups.into(),
        }
        // Where the plan has no route, the dialled URI is used: the document comes from the owner of the number, not
        // from the caller, so this relays for no stranger.
        if attempt.groups.is_empty()
            && let Some(uri) = attempt.direct.clone()
        {
            attempt.to_name = "".into();
            let public_only = !self.allow_private;
            attempt.groups.push_back(vec![Destination {
                uri,
                path: "".into(),
                received: None,
                public_only,
                is_binding: false,
            }]);
        }
        self.ring_next(now, key, out);
    }

    /// The next group of phones; after the last one the attempt has failed.
    fn ring_next(&mut self, now: Instant, key: Key, out: &mut DialOutbox) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        match attempt.groups.pop_front() {
            Some(group) => {
                let phones = attempt.invites(group, &self.origin, &mut self.rng);
                out.push(DialEffect::Invite { attempt: key, phones });
            }
            None => self.fail(now, key, 404, out),
        }
    }

    /// The phones of a group were sent their INVITEs. A phone that cannot be called is the attempt's failure unless
    /// another is more telling.
    pub(super) fn handle_invited(
        &mut self,
        now: Instant,
        key: Key,
        invited: Vec<InvitedPhone>,
        out: &mut DialOutbox,
    ) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return out.extend(invited.into_iter().map(|phone| DialEffect::HangUp { leg: phone.leg }));
        };
        for InvitedPhone { leg, call_id, result } in invited {
            if let Some(call_id) = call_id {
                attempt.call_id = call_id.into();
            }
            match result {
                Ok(()) => attempt.phones.push(leg),
                Err(status) => attempt.note_failure(failure_of(status, None)),
            }
        }
        if attempt.phones.is_empty() {
            return self.ring_next(now, key, out);
        }
        let is_first = !std::mem::replace(&mut attempt.has_started, true);
        if let (Originator::Dialed(id), true) = (attempt.originator, is_first) {
            let event = LegEvent::Started { sid: attempt.sid.clone() };
            out.push(DialEffect::Tell { actor: attempt.actor, id, event });
        }
    }

    /// 101 to 199.
    pub(super) fn handle_ringing(&mut self, phone: &PhoneResponse, out: &mut DialOutbox) {
        let Some(attempt) = self.attempts.get_mut(phone.attempt).filter(|attempt| !attempt.is_up) else {
            return;
        };
        let (caller, actor) = (attempt.caller, attempt.actor);
        let is_first = !std::mem::replace(&mut attempt.has_rung, true);
        // The callee's early media, such as an announcement, in place of our ringing (RFC 3960 §3.2). When several
        // parties ring, the source would be ambiguous.
        let is_alone = self.callers.get(&caller).is_some_and(|dial| dial.attempts.len() == 1);
        if phone.has_description && is_alone {
            out.push(DialEffect::ConnectEarly { caller, phone: phone.leg });
        }
        match attempt.originator {
            _ if !is_first => {}
            Originator::Dialed(id) => {
                out.push(DialEffect::Tell { actor, id, event: LegEvent::Ringing });
            }
            Originator::Own => out.push(DialEffect::TellRinging { actor }),
        }
    }

    /// The first of an attempt's phones has answered.
    pub(super) fn handle_answered(
        &mut self,
        now: Instant,
        phone: &PhoneResponse,
        response: &Message,
        out: &mut DialOutbox,
    ) {
        let (key, leg) = (phone.attempt, phone.leg);
        if !phone.has_media {
            // RFC 3261 §13.2.2.4: an answer that is not acceptable is acknowledged, and then comes a BYE.
            return self.phone_failed(now, key, leg, failure_of(488, Some(response)), out);
        }
        let Some(attempt) = self.attempts.get_mut(key).filter(|attempt| !attempt.is_up) else { return };
        attempt.is_up = true;
        attempt.groups.clear();
        if let Some(counted) = &attempt.counted {
            out.push(DialEffect::Shard(counted.changed(CallPhase::Confirmed)));
        }
        attempt.call_id = response.call_id().map(text).unwrap_or_default();
        attempt.answer_headers = extra_headers(response);
        if let Some(row) = &mut attempt.row {
            out.extend(row.answered_by(now, &attempt.call_id).map(DialEffect::Shard));
        }
        let rang = std::mem::replace(&mut attempt.phones, vec![leg]);
        let others = rang.into_iter().filter(|other| *other != leg);
        out.extend(others.map(|leg| DialEffect::AnsweredElsewhere { leg }));
        let (actor, items) = (attempt.actor, std::mem::take(&mut attempt.send_digits));
        if !items.is_empty() {
            out.push(DialEffect::SendDigits { leg, actor, items });
        }
        match attempt.originator {
            Originator::Dialed(id) => out.push(DialEffect::Tell { actor, id, event: LegEvent::Answered }),
            Originator::Own => self.hand_over(key, leg, out),
        }
    }

    /// A call of the REST interface is its script's own from now on.
    fn hand_over(&mut self, key: Key, phone: Key, out: &mut DialOutbox) {
        let Some(attempt) = self.attempts.remove(key) else { return };
        self.callers.remove(&attempt.caller);
        let extra = attempt.extra();
        let DialAttempt { actor, call_id, record, .. } = attempt;
        out.push(DialEffect::TakeOver(Box::new(AnsweredCall { actor, phone, call_id, extra, record })));
    }

    /// The session of one of an attempt's phones is over, for whatever reason.
    pub(super) fn handle_phone_ended(
        &mut self,
        now: Instant,
        key: Key,
        leg: Key,
        cause: &Cause,
        out: &mut DialOutbox,
    ) {
        let Some(attempt) = self.attempts.get(key) else { return };
        if attempt.is_up {
            return self.end(now, key, out);
        }
        let failure = match cause {
            Cause::Failed { status, response } => failure_of(*status, response.as_deref()),
            Cause::Timeout => failure_of(408, None),
            _ => failure_of(487, None),
        };
        self.phone_failed(now, key, leg, failure, out);
    }

    fn phone_failed(&mut self, now: Instant, key: Key, leg: Key, failure: LegFailure, out: &mut DialOutbox) {
        out.push(DialEffect::HangUp { leg });
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        let code = failure.code.unwrap_or_default();
        attempt.note_failure(failure);
        attempt.phones.retain(|known| *known != leg);
        // RFC 3261 §16.7 item 5: a 6xx is for all of them.
        if code >= 600 {
            out.extend(attempt.phones.drain(..).map(|leg| DialEffect::HangUp { leg }));
        }
        if !attempt.phones.is_empty() {
            return;
        }
        // The next group replaces a group that could not be reached, not one in which a callee declined.
        if !matches!(code, 408 | 503) {
            return self.fail(now, key, code, out);
        }
        let caller = attempt.caller;
        self.ring_next(now, key, out);
        out.push(DialEffect::StartRinging { caller });
    }

    /// The attempt has failed without an answer. The script gets its most telling failure; `code` is the fallback.
    fn fail(&mut self, now: Instant, key: Key, code: u16, out: &mut DialOutbox) {
        if let Some(attempt) = self.attempts.get_mut(key) {
            attempt.failure.get_or_insert_with(|| failure_of(code, None));
        }
        let Some(attempt) = self.remove(now, key, out) else { return };
        let DialAttempt { actor, caller, .. } = attempt;
        if self.leave(caller, key, out) {
            // A recording of the ringing is kept, but no connection has it.
            out.push(DialEffect::EndRecording { caller });
        }
        let failure = attempt.failure().unwrap_or_else(|| failure_of(code, None));
        if !attempt.is_refused {
            // A Dial's call has a sid of its own.
            let call = matches!(attempt.originator, Originator::Dialed(_)).then(|| attempt.sid.clone());
            out.push(DialEffect::NoteFailure { leg: caller, call, failure: failure.clone() });
        }
        out.push(match attempt.originator {
            Originator::Own => DialEffect::TellUnanswered { actor, failure },
            Originator::Dialed(id) => DialEffect::Tell { actor, id, event: LegEvent::Failed(failure) },
        });
    }

    /// Plays the callee a document before the connection.
    pub(super) fn screen(&self, (caller, actor): (Key, Key), id: Id, target: Target, out: &mut DialOutbox) {
        let Some((_, attempt)) = self.dialed(caller, id) else { return };
        let Some(&leg) = attempt.phones.first() else { return };
        let script = Script::new(attempt.call(), plan_of(Role::Screening, target));
        let part = Part::Screening { caller: actor, id, accepted: false };
        out.push(DialEffect::StartScript(Box::new(Actor { script, leg, part })));
    }

    /// Joins the caller with the leg `id` of its Dial. A leg of a queue is joined by its room.
    pub(super) fn bridge(&mut self, caller: Key, id: Id, out: &mut DialOutbox) {
        out.push(DialEffect::StopRinging { caller });
        let Some((key, attempt)) = self.dialed(caller, id) else { return };
        let Some(&phone) = attempt.phones.first() else { return };
        if let Some(dial) = self.callers.get_mut(&caller) {
            dial.bridged = Some(key);
        }
        out.push(DialEffect::Connect { caller, phone });
        out.push(DialEffect::Record { caller });
    }

    /// Hangs up the leg `id` of a caller's Dial.
    pub(super) fn hang_up(&mut self, now: Instant, caller: Key, id: Id, out: &mut DialOutbox) {
        if let Some((key, _)) = self.dialed(caller, id) {
            self.end(now, key, out);
        }
    }

    /// A leg is gone, and with it the attempts of its Dial. No script is told.
    pub(super) fn handle_caller_gone(&mut self, now: Instant, leg: Key, out: &mut DialOutbox) {
        for key in self.callers.remove(&leg).map(|dial| dial.attempts).unwrap_or_default() {
            self.remove(now, key, out);
        }
    }

    /// The attempt that is the leg `id` of a caller's Dial.
    fn dialed(&self, caller: Key, id: Id) -> Option<(Key, &DialAttempt)> {
        let keys = &self.callers.get(&caller)?.attempts;
        let mut attempts = keys.iter().filter_map(|key| self.attempts.get(*key).map(|found| (*key, found)));
        attempts.find(|(_, attempt)| attempt.originator == Originator::Dialed(id))
    }

    /// Ends an attempt that was answered or is no longer awaited, whichever side ended it.
    fn end(&mut self, now: Instant, key: Key, out: &mut DialOutbox) {
        let Some(attempt) = self.remove(now, key, out) else { return };
        let DialAttempt { actor, caller, .. } = attempt;
        let is_last = self.leave(caller, key, out);
        if let (true, Originator::Dialed(id)) = (attempt.is_up, attempt.originator) {
            out.push(DialEffect::TellEnded { actor, id, recorded: is_last.then_some(caller) });
        } else if is_last {
            out.push(DialEffect::EndRecording { caller });
        }
    }

    /// Removes an attempt and hangs its phones up. The script is not told.
    fn remove(&mut self, now: Instant, key: Key, out: &mut DialOutbox) -> Option<DialAttempt> {
        let mut attempt = self.attempts.remove(key)?;
        if let Some(mut row) = attempt.row.take() {
            row.end(now, attempt.status());
            if let Some(failure) = attempt.failure().filter(|_| !attempt.is_up) {
                row.has_failed(&failure);
            }
            out.extend(row.write(now).map(DialEffect::Shard));
        }
        if let Some(ticket) = attempt.ticket {
            out.push(DialEffect::StopResolving { ticket });
        }
        let others = self.callers.get(&attempt.caller).map_or(&[][..], |dial| &dial.attempts);
        let is_elsewhere = !attempt.is_up && is_any_up(&self.attempts, others);
        out.extend(attempt.phones.iter().map(|&leg| DialEffect::hang_up(leg, is_elsewhere)));
        // The legs of its phones count the call, too, until they are removed.
        out.extend(super::release(attempt.counted.take()).map(DialEffect::Shard));
        Some(attempt)
    }

    /// Takes an attempt off the caller's list. After the last one, ringing stops: `true`.
    pub(super) fn leave(&mut self, caller: Key, attempt: Key, out: &mut DialOutbox) -> bool {
        let Some(dial) = self.callers.get_mut(&caller) else { return false };
        dial.attempts.retain(|known| *known != attempt);
        dial.bridged = dial.bridged.filter(|bridged| *bridged != attempt);
        let is_last = dial.attempts.is_empty();
        if is_last {
            out.push(DialEffect::StopRinging { caller });
        }
        is_last
    }

    /// Removes the attempt of a connection whose phone goes on as a call of its own.
    pub(super) fn take(&mut self, key: Key) -> Option<DialAttempt> {
        self.attempts.remove(key)
    }
}

/// A document that a script performs from its beginning.
pub(super) fn plan_of(role: Role, target: Target) -> Plan {
    let start = Start::Url(target);
    Plan { role, start, fallback: None, status: None, answer_on_bridge: false, time_limit: None }
}

#[cfg(test)]
mod tests;
