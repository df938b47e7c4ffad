//! Dial: legs that ring, one that is connected, and their callbacks.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;

use super::form::{of_call, pair, progress};
use super::record::of_recorded;
use super::{
    CallStatus, DialOptions, Effect, Flow, Id, Leg, LegEvent, LegFailure, Outbox, Recorded, Script, State,
};
use crate::document::{Address, Callback, Dial, DialTarget, Dialed};
use crate::limits;
use crate::request::{Form, Target};

#[derive(Debug)]
pub(super) struct Dialing {
    dial: Box<Dial>,
    legs: Vec<Ringing>,
    /// Those of a sequential Dial that come later.
    later: VecDeque<DialTarget>,
    since: Instant,
    /// The deadline of the ringing, the connection or the wait for its end.
    pub(super) until: Option<Instant>,
    bridged: Option<(Id, Instant)>,
    /// `CallStatus::Ringing` was reported to the application.
    rung: bool,
    /// The connection was ended and its leg's last word is awaited.
    ending: bool,
    /// The failure with the highest weight so far.
    failure: Option<LegFailure>,
    /// The call sid of the last leg that failed.
    failed_sid: Option<String>,
}

#[derive(Debug)]
struct Ringing {
    id: Id,
    to: String,
    sid: Option<String>,
    screen: Option<Target>,
    status: Option<Callback>,
    rang: bool,
    answered: Option<Instant>,
    over: bool,
    /// The sequence number of its status callbacks.
    sequence: u32,
}

impl Dialing {
    fn all_over(&self) -> bool {
        self.legs.iter().all(|leg| leg.over)
    }

    fn leg(&mut self, id: Id) -> Option<&mut Ringing> {
        self.legs.iter_mut().find(|leg| leg.id == id && !leg.over)
    }

    /// Keeps the failure that says most: an answer of the callee outweighs silence.
    fn note_failure(&mut self, failure: LegFailure) {
        let weight = |status: CallStatus| match status {
            CallStatus::Busy => 3,
            CallStatus::NoAnswer => 2,
            CallStatus::Canceled => 1,
            _ => 0,
        };
        if self.failure.as_ref().is_none_or(|known| weight(failure.status) >= weight(known.status)) {
            self.failure = Some(failure);
        }
    }
}

impl Script {
    pub(super) fn dial(&mut self, now: Instant, dial: Box<Dial>, out: &mut Outbox) -> Flow {
        let parties = match &dial.to {
            Dialed::Conference(_) => return self.join(now, dial, out),
            Dialed::Parties(parties) => parties.clone(),
        };
        let dialing = Dialing {
            dial,
            legs: Vec::new(),
            later: parties.into(),
            since: now,
            until: None,
            bridged: None,
            rung: false,
            ending: false,
            failure: None,
            failed_sid: None,
        };
        self.state = State::Dialing(Box::new(dialing));
        self.ring(now, out);
        Flow::Wait
    }

    /// The next one of a sequential Dial, else all.
    fn ring(&mut self, now: Instant, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        let count = if dialing.dial.sequential { 1 } else { dialing.later.len() };
        let parties: Vec<DialTarget> = dialing.later.drain(..count.min(dialing.later.len())).collect();
        dialing.until = Some(now + dialing.dial.timeout);
        let mut legs = Vec::with_capacity(parties.len());
        for party in parties {
            self.next_id += 1;
            let id = Id(self.next_id);
            dialing.legs.push(Ringing {
                id,
                to: shown(&party.address),
                sid: None,
                screen: party.screen,
                status: party.status,
                rang: false,
                answered: None,
                over: false,
                sequence: 0,
            });
            legs.push(Leg { id, address: party.address });
        }
        let dial = &dialing.dial;
        let mut options = DialOptions {
            caller_id: dial.caller_id.clone(),
            ring_tone: dial.ring_tone.clone(),
            record: dial.record.clone(),
            refer: None,
        };
        let refer = dial.refer.clone();
        options.refer = refer.and_then(|target| self.absolute_target(&target, out));
        if let Some(status) = options.record.as_mut().and_then(|record| record.status.as_mut())
            && let Some(target) = self.absolute_target(&status.target, out)
        {
            status.target = target;
        }
        out.push(Effect::Dial { legs, options: Box::new(options) });
    }

    /// An event of a leg that this call dials.
    pub fn handle_leg(&mut self, now: Instant, id: Id, event: LegEvent, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        // A leg of an earlier Dial, or one that is over: a CANCEL crosses an answer.
        let Some(leg) = dialing.leg(id) else { return };
        match event {
            LegEvent::Started { sid } => {
                leg.sid = Some(sid);
                self.tell_leg(now, id, "initiated", CallStatus::Initiated, out);
            }
            // Phones say it several times (RFC 3261 §13.3.1.1), and forks too.
            LegEvent::Ringing if leg.rang => {}
            LegEvent::Answered if leg.answered.is_some() => {}
            LegEvent::Ringing => {
                leg.rang = true;
                let first = !std::mem::replace(&mut dialing.rung, true);
                self.tell_leg(now, id, "ringing", CallStatus::Ringing, out);
                if first && self.answered_at.is_none() {
                    out.push(Effect::Ring);
                }
            }
            LegEvent::Answered => {
                leg.answered = Some(now);
                let screen = leg.screen.clone();
                self.tell_leg(now, id, "answered", CallStatus::InProgress, out);
                self.leg_answered(now, id, screen, out);
            }
            LegEvent::Screened { accepted: true } => self.bridge(now, id, out),
            LegEvent::Screened { accepted: false } => {
                out.push(Effect::HangupLeg { leg: id });
                self.leg_ended(now, id, None, out);
            }
            LegEvent::Failed(failure) => self.leg_failed(now, id, failure, out),
            LegEvent::Ended { recording } => self.leg_ended(now, id, recording.as_ref(), out),
        }
    }

    fn leg_answered(&mut self, now: Instant, id: Id, screen: Option<Target>, out: &mut Outbox) {
        let wanted = screen.is_some();
        let screen = screen.and_then(|target| self.absolute_target(&target, out));
        let State::Dialing(dialing) = &mut self.state else { return };
        match screen {
            // One is connected already, or the time is up: this one came too late. And a callee that cannot
            // be screened has not accepted.
            _ if dialing.bridged.is_some() || dialing.ending || (wanted && screen.is_none()) => {
                out.push(Effect::HangupLeg { leg: id });
                self.leg_ended(now, id, None, out);
            }
            Some(target) => {
                // A callee that listens to a document no longer rings; its script and the call have limits of
                // their own.
                dialing.until = None;
                out.push(Effect::Screen { leg: id, target });
            }
            None => self.bridge(now, id, out),
        }
    }

    fn bridge(&mut self, now: Instant, id: Id, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        if dialing.bridged.is_some() {
            return;
        }
        dialing.bridged = Some((id, now));
        dialing.until = Some(now + dialing.dial.time_limit);
        dialing.later.clear();
        let star = dialing.dial.hangup_on_star;
        self.hang_up_legs(now, Some(id), out);
        if self.answered_at.is_none() {
            self.ask_answer(out);
            self.mark_answered(now, out);
        }
        if star {
            out.push(Effect::Listen { digits: true, speech: None });
        }
        out.push(Effect::Bridge { leg: id });
    }

    /// All but one.
    fn hang_up_legs(&mut self, now: Instant, but: Option<Id>, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        let others: Vec<Id> =
            dialing.legs.iter().filter(|leg| !leg.over && Some(leg.id) != but).map(|leg| leg.id).collect();
        for id in others {
            out.push(Effect::HangupLeg { leg: id });
            self.leg_over(now, id, CallStatus::Canceled, out);
        }
    }

    /// Its last status callback.
    fn leg_over(&mut self, now: Instant, id: Id, status: CallStatus, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        let Some(leg) = dialing.leg(id) else { return };
        let status = if leg.answered.is_some() { CallStatus::Completed } else { status };
        self.tell_leg(now, id, "completed", status, out);
        if let State::Dialing(dialing) = &mut self.state
            && let Some(leg) = dialing.leg(id)
        {
            leg.over = true;
        }
    }

    fn leg_failed(&mut self, now: Instant, id: Id, failure: LegFailure, out: &mut Outbox) {
        self.leg_over(now, id, failure.status, out);
        let State::Dialing(dialing) = &mut self.state else { return };
        dialing.failed_sid = dialing.legs.iter().find(|leg| leg.id == id).and_then(|leg| leg.sid.clone());
        dialing.note_failure(failure);
        self.next_leg(now, out);
    }

    fn leg_ended(&mut self, now: Instant, id: Id, recording: Option<&Recorded>, out: &mut Outbox) {
        self.leg_over(now, id, CallStatus::Completed, out);
        let State::Dialing(dialing) = &mut self.state else { return };
        if dialing.bridged.is_some_and(|(bridged, _)| bridged == id) {
            self.dialed(now, CallStatus::Completed, recording, out);
            return;
        }
        // Answered, and declined or hung up before it was connected.
        dialing.note_failure(LegFailure::without_answer(CallStatus::NoAnswer));
        self.next_leg(now, out);
    }

    /// All that rang are over: the next of a sequence, or the end.
    fn next_leg(&mut self, now: Instant, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        if dialing.bridged.is_some() || !dialing.all_over() {
            return;
        }
        if !dialing.later.is_empty() {
            self.ring(now, out);
            return;
        }
        let status = dialing.failure.as_ref().map_or(CallStatus::Failed, |failure| failure.status);
        self.dialed(now, status, None, out);
    }

    pub(super) fn dial_star(&mut self, now: Instant, out: &mut Outbox) {
        let State::Dialing(dialing) = &self.state else { return };
        if dialing.dial.hangup_on_star {
            self.end_bridge(now, out);
        }
    }

    /// The connection ends from our side. The leg's last word brings its recording, so it is awaited.
    fn end_bridge(&mut self, now: Instant, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        let Some((leg, _)) = dialing.bridged.filter(|_| !dialing.ending) else { return };
        dialing.ending = true;
        dialing.until = Some(now + limits::CLEANUP_WAIT);
        out.push(Effect::HangupLeg { leg });
    }

    pub(super) fn dial_timed_out(&mut self, now: Instant, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        match (dialing.bridged, dialing.ending) {
            (Some((leg, _)), true) => self.leg_ended(now, leg, None, out),
            (Some(_), false) => self.end_bridge(now, out),
            (None, _) => {
                dialing.note_failure(LegFailure::without_answer(CallStatus::NoAnswer));
                self.hang_up_legs(now, None, out);
                self.next_leg(now, out);
            }
        }
    }

    /// The Dial is over and the call is not.
    fn dialed(&mut self, now: Instant, status: CallStatus, recording: Option<&Recorded>, out: &mut Outbox) {
        let State::Dialing(dialing) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        if dialing.bridged.is_some() && dialing.dial.hangup_on_star {
            out.push(Effect::StopListening);
        }
        match &dialing.dial.action {
            Some(action) => {
                let form = of_dial(&dialing, now, status, recording);
                self.go_to(now, action, form, out);
            }
            None => self.advance(now, out),
        }
    }

    /// The call ended while it dialled: legs are hung up, and the application is told.
    pub(super) fn close_dial(&mut self, now: Instant, out: &mut Outbox) {
        self.drop_dial(now, out);
        let State::Dialing(dialing) = &self.state else { return };
        let Some(action) = &dialing.dial.action else { return };
        let status = if dialing.bridged.is_some() { CallStatus::Completed } else { CallStatus::Canceled };
        let mut form = of_call(&self.call, self.status);
        form.extend(of_dial(dialing, now, status, None));
        self.tell(action, form, out);
    }

    /// Legs that ring or talk are hung up; the application is not told.
    pub(super) fn drop_dial(&mut self, now: Instant, out: &mut Outbox) {
        let State::Dialing(dialing) = &self.state else { return };
        let listening = dialing.bridged.is_some() && dialing.dial.hangup_on_star;
        self.hang_up_legs(now, None, out);
        if listening {
            out.push(Effect::StopListening);
        }
    }

    fn tell_leg(&mut self, now: Instant, id: Id, event: &str, status: CallStatus, out: &mut Outbox) {
        let State::Dialing(dialing) = &mut self.state else { return };
        let caller_id = dialing.dial.caller_id.clone();
        let Some(leg) = dialing.leg(id) else { return };
        let Some(callback) = leg.status.clone().filter(|callback| callback.events.contains(&event)) else {
            return;
        };
        let mut call = self.call.clone();
        call.parent_sid = Some(std::mem::take(&mut call.sid));
        call.sid = leg.sid.clone().unwrap_or_default();
        call.to.clone_from(&leg.to);
        call.from = caller_id.unwrap_or(call.from);
        call.direction = super::Direction::OutboundDial;
        let mut form = of_call(&call, status);
        if event == "completed" {
            let talked = leg.answered.map_or(Duration::ZERO, |since| now.since(since));
            form.push(pair("CallDuration", talked.as_secs().to_string()));
        }
        progress(&mut form, now, leg.sequence);
        leg.sequence += 1;
        self.tell(&callback.target, form, out);
    }
}

fn of_dial(dialing: &Dialing, now: Instant, status: CallStatus, recording: Option<&Recorded>) -> Form {
    let mut form = vec![pair("DialCallStatus", status.as_str())];
    let bridged = dialing.bridged.and_then(|(id, _)| dialing.legs.iter().find(|leg| leg.id == id));
    let sid = bridged.and_then(|leg| leg.sid.as_ref()).or(dialing.failed_sid.as_ref());
    let sid = sid.or_else(|| dialing.legs.last().and_then(|leg| leg.sid.as_ref()));
    form.extend(sid.map(|sid| pair("DialCallSid", &**sid)));
    let since = dialing.bridged.map(|(_, since)| since);
    let talked = since.map_or(Duration::ZERO, |since| now.since(since));
    let rang = since.unwrap_or(now).since(dialing.since);
    form.push(pair("DialCallDuration", talked.as_secs().to_string()));
    form.push(pair("DialRingDuration", rang.as_secs().to_string()));
    if let Some(failure) = dialing.failure.as_ref().filter(|_| since.is_none()) {
        form.extend(failure.call_id.iter().map(|id| pair("DialSipCallId", &**id)));
        form.extend(failure.code.map(|code| pair("DialSipResponseCode", code.to_string())));
        form.extend(
            failure.headers.iter().map(|(name, value)| pair(&format!("DialSipHeader_{name}"), &**value)),
        );
    }
    form.extend(recording.map(of_recorded).unwrap_or_default());
    form
}

/// As a leg's `To`.
fn shown(address: &Address) -> String {
    match address {
        Address::Number { number, .. } => number.clone(),
        Address::Client { name } => format!("client:{name}"),
        Address::Sip { uri, .. } | Address::Uri(uri) => uri.clone(),
        Address::Queue(name) => format!("queue:{name}"),
    }
}
