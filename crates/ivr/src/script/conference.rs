//! Conferences and queues, from the side of one member.

use stdx::Instant;

use super::form::{of_call, pair};
use super::record::of_recorded;
use super::{
    CallStatus, ConferenceEvent, Effect, Flow, Id, Outbox, QueueEvent, QueueResult, Recorded, Script, State,
};
use crate::document::{Callback, Dial, Dialed, Enqueue, Severity, code};
use crate::limits;
use crate::request::{Form, Target};

#[derive(Debug)]
pub(super) struct Conferring {
    id: Id,
    dial: Box<Dial>,
    sid: Option<String>,
    since: Instant,
    /// The end of the longest stay, later of the wait for the leaving.
    pub(super) until: Instant,
    leaving: bool,
}

#[derive(Debug)]
pub(super) struct Queued {
    id: Id,
    enqueue: Enqueue,
    sid: Option<String>,
    since: Instant,
    bridged: Option<Instant>,
}

impl Script {
    pub(super) fn join(&mut self, now: Instant, dial: Box<Dial>, out: &mut Outbox) -> Flow {
        let Dialed::Conference(conference) = &dial.to else { return Flow::Next };
        let mut conference = conference.clone();
        // An empty URL is silence, and stays so.
        conference.wait = conference.wait.and_then(|wait| match wait.url.is_empty() {
            true => Some(wait),
            false => self.absolute_target(&wait, out),
        });
        conference.status = conference.status.and_then(|status| self.absolute_callback(status, out));
        conference.recording_status =
            conference.recording_status.and_then(|status| self.absolute_callback(status, out));
        let id = self.id();
        if dial.hangup_on_star {
            out.push(Effect::Listen { digits: true, speech: None });
        }
        let record = dial.record.clone().map(Box::new);
        out.push(Effect::JoinConference { id, conference, record });
        let until = now + dial.time_limit;
        self.state = State::Conferring(Box::new(Conferring {
            id,
            dial,
            sid: None,
            since: now,
            until,
            leaving: false,
        }));
        Flow::Wait
    }

    fn absolute_callback(&self, callback: Callback, out: &mut Outbox) -> Option<Callback> {
        Some(Callback { target: self.absolute_target(&callback.target, out)?, events: callback.events })
    }

    /// An event of the conference that this call is in.
    pub fn handle_conference(&mut self, now: Instant, id: Id, event: ConferenceEvent, out: &mut Outbox) {
        let State::Conferring(conferring) = &mut self.state else { return };
        if conferring.id != id {
            return;
        }
        match event {
            ConferenceEvent::Joined { sid } => {
                conferring.sid = Some(sid);
                conferring.since = now;
            }
            ConferenceEvent::Left { recording } => {
                self.conferred(now, CallStatus::Completed, recording.as_ref(), out);
            }
            ConferenceEvent::Refused { reason } => {
                self.notify(Severity::Error, code::DIAL, reason, out);
                self.conferred(now, CallStatus::Failed, None, out);
            }
        }
    }

    pub(super) fn conference_star(&mut self, now: Instant, out: &mut Outbox) {
        let State::Conferring(conferring) = &self.state else { return };
        if conferring.dial.hangup_on_star {
            self.leave_conference(now, out);
        }
    }

    fn leave_conference(&mut self, now: Instant, out: &mut Outbox) {
        let State::Conferring(conferring) = &mut self.state else { return };
        if conferring.leaving {
            return;
        }
        conferring.leaving = true;
        conferring.until = now + limits::CLEANUP_WAIT;
        out.push(Effect::LeaveConference { id: conferring.id });
    }

    pub(super) fn conference_timed_out(&mut self, now: Instant, out: &mut Outbox) {
        let State::Conferring(conferring) = &self.state else { return };
        if conferring.leaving {
            self.conferred(now, CallStatus::Completed, None, out);
        } else {
            self.leave_conference(now, out);
        }
    }

    fn conferred(
        &mut self,
        now: Instant,
        status: CallStatus,
        recording: Option<&Recorded>,
        out: &mut Outbox,
    ) {
        let State::Conferring(conferring) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        if conferring.dial.hangup_on_star {
            out.push(Effect::StopListening);
        }
        match &conferring.dial.action {
            Some(action) => self.go_to(now, action, conferring.form(now, status, recording), out),
            None => self.advance(now, out),
        }
    }

    /// The call ended in a conference.
    pub(super) fn close_conference(&self, now: Instant, out: &mut Outbox) {
        let State::Conferring(conferring) = &self.state else { return };
        self.drop_conference(out);
        if let Some(action) = &conferring.dial.action {
            let mut form = of_call(&self.call, self.status);
            form.extend(conferring.form(now, CallStatus::Completed, None));
            self.tell(action, form, out);
        }
    }

    pub(super) fn drop_conference(&self, out: &mut Outbox) {
        let State::Conferring(conferring) = &self.state else { return };
        if conferring.dial.hangup_on_star {
            out.push(Effect::StopListening);
        }
        if !conferring.leaving {
            out.push(Effect::LeaveConference { id: conferring.id });
        }
    }

    pub(super) fn enqueue(&mut self, now: Instant, enqueue: Enqueue, out: &mut Outbox) -> Flow {
        let id = self.id();
        let wait: Option<Target> = enqueue.wait.as_ref().and_then(|target| self.absolute_target(target, out));
        out.push(Effect::Enqueue { id, name: enqueue.name.clone(), wait, max_size: enqueue.max_size });
        self.state = State::Queued(Box::new(Queued { id, enqueue, sid: None, since: now, bridged: None }));
        Flow::Wait
    }

    /// An event of the queue that this call is in.
    pub fn handle_queue(&mut self, now: Instant, id: Id, event: QueueEvent, out: &mut Outbox) {
        let State::Queued(queued) = &mut self.state else { return };
        if queued.id != id {
            return;
        }
        match event {
            QueueEvent::Entered { sid } => queued.sid = Some(sid),
            QueueEvent::Bridged => queued.bridged = Some(now),
            QueueEvent::Left(result) => {
                let word = match result {
                    QueueResult::Bridged => "bridged",
                    QueueResult::Full => "queue-full",
                    QueueResult::Leave => "leave",
                    QueueResult::Error => "system-error",
                };
                let form = queued.form(now, word);
                match queued.enqueue.action.clone() {
                    Some(action) => self.go_to(now, &action, form, out),
                    None => self.advance(now, out),
                }
            }
        }
    }

    /// The call ended, or was sent elsewhere, in a queue.
    pub(super) fn close_queue(&self, now: Instant, word: &str, out: &mut Outbox) {
        let State::Queued(queued) = &self.state else { return };
        out.push(Effect::LeaveQueue { id: Some(queued.id) });
        if let Some(action) = &queued.enqueue.action {
            let mut form = of_call(&self.call, self.status);
            form.extend(queued.form(now, word));
            self.tell(action, form, out);
        }
    }
}

impl Conferring {
    fn form(&self, now: Instant, status: CallStatus, recording: Option<&Recorded>) -> Form {
        let mut form = vec![pair("DialCallStatus", status.as_str())];
        form.extend(self.sid.iter().map(|sid| pair("ConferenceSid", &**sid)));
        form.push(pair("DialCallDuration", now.since(self.since).as_secs().to_string()));
        form.extend(recording.map(of_recorded).unwrap_or_default());
        form
    }
}

impl Queued {
    fn form(&self, now: Instant, result: &str) -> Form {
        let mut form = vec![pair("QueueResult", result)];
        form.extend(self.sid.iter().map(|sid| pair("QueueSid", &**sid)));
        // The wait lasts until the call is connected.
        let waited = self.bridged.unwrap_or(now).since(self.since);
        form.push(pair("QueueTime", waited.as_secs().to_string()));
        form
    }
}
