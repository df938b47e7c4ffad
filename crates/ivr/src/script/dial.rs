//! Dial: legs that ring, one that is connected, and their callbacks.
//!
//! A leg's way: `Started`, `Ringing`, `Answered`, perhaps a document of its own (`Screen`), and the connection; or `Failed`. The first leg that is
//! accepted is connected, and all others are hung up. Without any, the failure that says most about the callee becomes `DialCallStatus`.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;

use super::call_context::CallContext;
use super::form::{of_call, pair, progress};
use super::record::of_recorded;
use super::state::Flow;
use super::{
    CallStatus, DialOptions, Direction, Effect, Id, Leg, LegEvent, LegFailure, Recorded, ScriptOutbox,
};
use crate::document::{Address, Callback, Dial, DialTarget};
use crate::limits;
use crate::request::{Form, Target};

/// One Dial under way: its legs, and the one that is connected.
#[derive(Debug)]
pub(super) struct Dialing {
    /// The verb with its options.
    dial: Box<Dial>,
    /// All legs so far, in the order of their calls; those that are over stay for the `action`.
    legs: Vec<DialedLeg>,
    /// The parties of a sequential Dial that are called later.
    later: VecDeque<DialTarget>,
    /// The begin of the Dial; `DialRingDuration` counts from it.
    since: Instant,
    /// The deadline of the ringing, the connection or the wait for its end.
    pub(super) until: Option<Instant>,
    /// The leg that is connected to the caller, and since when.
    bridged: Option<(Id, Instant)>,
    /// The caller was told that a leg rings (180).
    has_rung: bool,
    /// The connection was ended, and the leg's `LegEvent::Ended` is awaited.
    is_ending: bool,
    /// The failure with the highest weight so far.
    failure: Option<LegFailure>,
    /// The call sid of the last leg that failed.
    failed_sid: Option<String>,
}

/// One leg of a Dial.
#[derive(Debug)]
struct DialedLeg {
    /// The id by which effects and events name the leg.
    id: Id,
    /// The value of `To` in its requests.
    to: String,
    /// The sid of its call, once there is one.
    sid: Option<String>,
    /// The document that the callee hears before the connection (`url` of Number, Client and Sip).
    screen: Option<Target>,
    /// The `statusCallback` of its noun.
    status: Option<Callback>,
    /// A 180 was reported; later ones are repetitions.
    has_rung: bool,
    /// The time of the answer; the leg's `CallDuration` counts from it.
    answered_at: Option<Instant>,
    /// Its last status callback was sent; no event of the leg counts any more.
    is_over: bool,
    /// `SequenceNumber` of its next status callback.
    sequence: u32,
}

impl Dialing {
    /// True if no leg rings or talks any more.
    fn all_over(&self) -> bool {
        self.legs.iter().all(|leg| leg.is_over)
    }

    /// The leg of this id, unless it is over.
    fn leg(&mut self, id: Id) -> Option<&mut DialedLeg> {
        self.legs.iter_mut().find(|leg| leg.id == id && !leg.is_over)
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

    /// Calls the parties: all at once, or the first one of a sequential Dial.
    pub(super) fn start(
        call: &mut CallContext,
        now: Instant,
        dial: Box<Dial>,
        parties: Vec<DialTarget>,
        out: &mut ScriptOutbox,
    ) -> Dialing {
        let mut dialing = Dialing {
            dial,
            legs: Vec::new(),
            later: parties.into(),
            since: now,
            until: None,
            bridged: None,
            has_rung: false,
            is_ending: false,
            failure: None,
            failed_sid: None,
        };
        dialing.ring(call, now, out);
        dialing
    }

    /// Calls the next party of a sequential Dial, else all parties.
    fn ring(&mut self, call: &mut CallContext, now: Instant, out: &mut ScriptOutbox) {
        let count = if self.dial.sequential { 1 } else { self.later.len() };
        let parties: Vec<DialTarget> = self.later.drain(..count.min(self.later.len())).collect();
        self.until = Some(now + self.dial.timeout);
        let mut legs = Vec::with_capacity(parties.len());
        for party in parties {
            let id = call.next_id();
            self.legs.push(DialedLeg {
                id,
                to: to_of(&party.address),
                sid: None,
                screen: party.screen,
                status: party.status,
                has_rung: false,
                answered_at: None,
                is_over: false,
                sequence: 0,
            });
            let mut address = party.address;
            if let Address::Queue { document, .. } = &mut address {
                // A URL that does not resolve is noted, and the caller is connected at once.
                *document = document.take().and_then(|target| call.absolute_target(&target, out));
            }
            legs.push(Leg { id, address });
        }
        let dial = &self.dial;
        let refer = dial.refer.as_ref().and_then(|target| call.absolute_target(target, out));
        let mut options = DialOptions {
            caller_id: dial.caller_id.clone(),
            ring_tone: dial.ring_tone.clone(),
            record: dial.record.clone(),
            refer,
            timeout: dial.timeout,
        };
        if let Some(status) = options.record.as_mut().and_then(|record| record.status.as_mut())
            && let Some(target) = call.absolute_target(&status.target, out)
        {
            status.target = target;
        }
        out.push(Effect::Dial { legs, options: Box::new(options) });
    }

    /// An event of a leg. Events of a leg of an earlier Dial, or of one that is over, are ignored: a CANCEL crosses
    /// an answer.
    pub(super) fn handle_leg(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        id: Id,
        event: LegEvent,
        out: &mut ScriptOutbox,
    ) -> Flow {
        let Some(leg) = self.leg(id) else { return Flow::Wait };
        match event {
            LegEvent::Started { sid } => {
                leg.sid = Some(sid);
                self.tell_leg(call, now, id, "initiated", CallStatus::Initiated, out);
            }
            // Phones repeat 180 and 2xx (RFC 3261 §13.3.1.1, §13.3.1.4), and forks send several.
            LegEvent::Ringing if leg.has_rung => {}
            LegEvent::Answered if leg.answered_at.is_some() => {}
            LegEvent::Ringing => {
                leg.has_rung = true;
                let is_first = !std::mem::replace(&mut self.has_rung, true);
                self.tell_leg(call, now, id, "ringing", CallStatus::Ringing, out);
                if is_first && call.answered_at.is_none() {
                    out.push(Effect::Ring);
                }
            }
            LegEvent::Answered => {
                leg.answered_at = Some(now);
                let screen = leg.screen.clone();
                self.tell_leg(call, now, id, "answered", CallStatus::InProgress, out);
                return self.leg_answered(call, now, id, screen, out);
            }
            LegEvent::Screened { accepted: true } => self.bridge(call, now, id, out),
            LegEvent::Screened { accepted: false } => {
                out.push(Effect::HangupLeg { leg: id });
                return self.leg_ended(call, now, id, None, out);
            }
            LegEvent::Failed(failure) => return self.leg_failed(call, now, id, failure, out),
            LegEvent::Ended { recording } => return self.leg_ended(call, now, id, recording.as_ref(), out),
        }
        Flow::Wait
    }

    /// A leg was answered: it is screened first if its noun has a `url`, else connected.
    fn leg_answered(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        id: Id,
        screen: Option<Target>,
        out: &mut ScriptOutbox,
    ) -> Flow {
        let is_screened = screen.is_some();
        let screen = screen.and_then(|target| call.absolute_target(&target, out));
        match screen {
            // Another leg is connected already, or the time is up: this one came too late. And a callee that cannot
            // be screened has not accepted.
            _ if self.bridged.is_some() || self.is_ending || (is_screened && screen.is_none()) => {
                out.push(Effect::HangupLeg { leg: id });
                return self.leg_ended(call, now, id, None, out);
            }
            Some(target) => {
                // A callee that listens to a document no longer rings; its script and the call have limits of
                // their own.
                self.until = None;
                out.push(Effect::Screen { leg: id, target });
            }
            None => self.bridge(call, now, id, out),
        }
        Flow::Wait
    }

    /// Connects this leg to the caller; the other legs are hung up.
    fn bridge(&mut self, call: &mut CallContext, now: Instant, id: Id, out: &mut ScriptOutbox) {
        if self.bridged.is_some() {
            return;
        }
        self.bridged = Some((id, now));
        self.until = Some(now + self.dial.time_limit);
        self.later.clear();
        self.hang_up_legs(call, now, Some(id), out);
        if call.answered_at.is_none() {
            call.request_answer(out);
            call.mark_answered(now, out);
        }
        if self.dial.hangup_on_star {
            out.push(Effect::Listen { digits: true, speech: None });
        }
        out.push(Effect::Bridge { leg: id });
    }

    /// Hangs up all legs except `keep`.
    fn hang_up_legs(&mut self, call: &CallContext, now: Instant, keep: Option<Id>, out: &mut ScriptOutbox) {
        let others: Vec<Id> =
            self.legs.iter().filter(|leg| !leg.is_over && Some(leg.id) != keep).map(|leg| leg.id).collect();
        for id in others {
            out.push(Effect::HangupLeg { leg: id });
            self.finish_leg(call, now, id, CallStatus::Canceled, out);
        }
    }

    /// The leg is over: its last status callback. A leg that was answered is completed, however it ended.
    fn finish_leg(
        &mut self,
        call: &CallContext,
        now: Instant,
        id: Id,
        status: CallStatus,
        out: &mut ScriptOutbox,
    ) {
        let Some(leg) = self.leg(id) else { return };
        let status = if leg.answered_at.is_some() { CallStatus::Completed } else { status };
        self.tell_leg(call, now, id, "completed", status, out);
        if let Some(leg) = self.leg(id) {
            leg.is_over = true;
        }
    }

    /// A leg failed before its answer; the failure counts for the `action`.
    fn leg_failed(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        id: Id,
        failure: LegFailure,
        out: &mut ScriptOutbox,
    ) -> Flow {
        self.finish_leg(call, now, id, failure.status, out);
        self.failed_sid = self.legs.iter().find(|leg| leg.id == id).and_then(|leg| leg.sid.clone());
        self.note_failure(failure);
        self.next_leg(call, now, out)
    }

    /// A leg ended after its answer: the connected one ends the Dial.
    fn leg_ended(
        &mut self,
        call: &mut CallContext,
        now: Instant,
        id: Id,
        recording: Option<&Recorded>,
        out: &mut ScriptOutbox,
    ) -> Flow {
        self.finish_leg(call, now, id, CallStatus::Completed, out);
        if self.bridged.is_some_and(|(bridged, _)| bridged == id) {
            return self.finish(now, CallStatus::Completed, recording, out);
        }
        // Answered, and declined or hung up before it was connected.
        self.note_failure(LegFailure::without_answer(CallStatus::NoAnswer));
        self.next_leg(call, now, out)
    }

    /// Once all legs that rang are over: the next party of a sequential Dial, or the end.
    fn next_leg(&mut self, call: &mut CallContext, now: Instant, out: &mut ScriptOutbox) -> Flow {
        if self.bridged.is_some() || !self.all_over() {
            return Flow::Wait;
        }
        if !self.later.is_empty() {
            self.ring(call, now, out);
            return Flow::Wait;
        }
        let status = self.failure.as_ref().map_or(CallStatus::Failed, |failure| failure.status);
        self.finish(now, status, None, out)
    }

    /// The caller pressed `*`: with `hangupOnStar` the connection ends.
    pub(super) fn handle_star(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.dial.hangup_on_star {
            self.end_bridge(now, out);
        }
    }

    /// The connection ends from our side. `LegEvent::Ended` brings the recording, so it is awaited.
    fn end_bridge(&mut self, now: Instant, out: &mut ScriptOutbox) {
        let Some((leg, _)) = self.bridged.filter(|_| !self.is_ending) else { return };
        self.is_ending = true;
        self.until = Some(now + limits::CLEANUP_WAIT);
        out.push(Effect::HangupLeg { leg });
    }

    /// `timeout`, `timeLimit` or the wait for the leg's end is over.
    pub(super) fn expire(&mut self, call: &mut CallContext, now: Instant, out: &mut ScriptOutbox) -> Flow {
        match (self.bridged, self.is_ending) {
            (Some((leg, _)), true) => self.leg_ended(call, now, leg, None, out),
            (Some(_), false) => {
                self.end_bridge(now, out);
                Flow::Wait
            }
            (None, _) => {
                self.note_failure(LegFailure::without_answer(CallStatus::NoAnswer));
                self.hang_up_legs(call, now, None, out);
                self.next_leg(call, now, out)
            }
        }
    }

    /// The Dial is over and the call is not.
    fn finish(
        &self,
        now: Instant,
        status: CallStatus,
        recording: Option<&Recorded>,
        out: &mut ScriptOutbox,
    ) -> Flow {
        if self.bridged.is_some() && self.dial.hangup_on_star {
            out.push(Effect::StopListening);
        }
        Flow::action(self.dial.action.as_ref(), self.form(now, status, recording))
    }

    /// The call ended while it dialled: legs are hung up, and the `action` is told.
    pub(super) fn close(&mut self, call: &CallContext, now: Instant, out: &mut ScriptOutbox) {
        self.stop(call, now, out);
        let Some(action) = &self.dial.action else { return };
        let status = if self.bridged.is_some() { CallStatus::Completed } else { CallStatus::Canceled };
        let mut form = call.form();
        form.extend(self.form(now, status, None));
        call.tell(action, form, out);
    }

    /// Legs that ring or talk are hung up; the `action` is not told.
    pub(super) fn stop(&mut self, call: &CallContext, now: Instant, out: &mut ScriptOutbox) {
        let is_listening = self.bridged.is_some() && self.dial.hangup_on_star;
        self.hang_up_legs(call, now, None, out);
        if is_listening {
            out.push(Effect::StopListening);
        }
    }

    /// The status callback of a leg, when its element asked for this event.
    fn tell_leg(
        &mut self,
        call: &CallContext,
        now: Instant,
        id: Id,
        event: &str,
        status: CallStatus,
        out: &mut ScriptOutbox,
    ) {
        let caller_id = self.dial.caller_id.clone();
        let Some(leg) = self.leg(id) else { return };
        let Some(callback) = leg.status.clone().filter(|callback| callback.events.contains(&event)) else {
            return;
        };
        // A leg is a call of its own to applications; ours is its parent.
        let mut leg_call = call.call.clone();
        leg_call.parent_sid = Some(std::mem::take(&mut leg_call.sid));
        leg_call.sid = leg.sid.clone().unwrap_or_default();
        leg_call.to.clone_from(&leg.to);
        leg_call.from = caller_id.unwrap_or(leg_call.from);
        leg_call.direction = Direction::OutboundDial;
        let mut form = of_call(&leg_call, status);
        if event == "completed" {
            let talked = leg.answered_at.map_or(Duration::ZERO, |since| now.since(since));
            form.push(pair("CallDuration", talked.as_secs().to_string()));
        }
        progress(&mut form, now, leg.sequence);
        leg.sequence += 1;
        call.tell(&callback.target, form, out);
    }

    /// The parameters of the `action`.
    fn form(&self, now: Instant, status: CallStatus, recording: Option<&Recorded>) -> Form {
        let mut form = vec![pair("DialCallStatus", status.as_str())];
        let bridged = self.bridged.and_then(|(id, _)| self.legs.iter().find(|leg| leg.id == id));
        let sid = bridged.and_then(|leg| leg.sid.as_ref()).or(self.failed_sid.as_ref());
        let sid = sid.or_else(|| self.legs.last().and_then(|leg| leg.sid.as_ref()));
        form.extend(sid.map(|sid| pair("DialCallSid", &**sid)));
        let since = self.bridged.map(|(_, since)| since);
        let talked = since.map_or(Duration::ZERO, |since| now.since(since));
        let rang = since.unwrap_or(now).since(self.since);
        form.push(pair("DialCallDuration", talked.as_secs().to_string()));
        form.push(pair("DialRingDuration", rang.as_secs().to_string()));
        form.push(pair("DialBridged", since.is_some().to_string()));
        if let Some(failure) = self.failure.as_ref().filter(|_| since.is_none()) {
            form.extend(failure.call_id.iter().map(|id| pair("DialSipCallId", &**id)));
            form.extend(failure.code.map(|code| pair("DialSipResponseCode", code.to_string())));
            form.extend(
                failure.headers.iter().map(|(name, value)| pair(&format!("DialSipHeader_{name}"), &**value)),
            );
        }
        form.extend(recording.map(of_recorded).unwrap_or_default());
        form
    }
}

/// The value of `To` in requests about a leg.
fn to_of(address: &Address) -> String {
    match address {
        Address::Number { number, .. } => number.clone(),
        Address::Client { name } => format!("client:{name}"),
        Address::Sip { uri, .. } | Address::Uri(uri) => uri.clone(),
        Address::Queue { name, .. } => format!("queue:{name}"),
    }
}
