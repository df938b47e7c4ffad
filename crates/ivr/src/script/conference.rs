//! Dial with a Conference, from the side of one participant.
//!
//! The order: join, `Joined`, and then one of `timeLimit`, `*`, the end of the conference, or the end of the call. Whatever ends it, `Left` brings the
//! recording, so it is awaited before the `action` is requested, except when the call itself is over.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::pair;
use super::record::of_recorded;
use super::state::Flow;
use super::{CallStatus, ConferenceEvent, Effect, Id, Recorded, ScriptOutbox};
use crate::document::{Conference, Dial, Severity, code};
use crate::limits;
use crate::request::Form;

/// The call's stay in a conference.
#[derive(Debug)]
pub(super) struct ConferenceMembership {
    /// The id of `Effect::JoinConference`.
    pub(super) id: Id,
    /// The verb, for its `action` and its recording.
    dial: Box<Dial>,
    /// The sid of the conference, once joined.
    sid: Option<String>,
    /// The time of the request, later of the join; `DialCallDuration` counts from it.
    since: Instant,
    /// The end of `timeLimit`, later of the wait for `ConferenceEvent::Left`.
    pub(super) until: Instant,
    /// The departure was asked for, and `ConferenceEvent::Left` is awaited.
    is_leaving: bool,
}

impl ConferenceMembership {
    /// Joins the conference of a Dial.
    pub(super) fn join(
        call: &mut CallContext,
        now: Instant,
        dial: Box<Dial>,
        mut conference: Box<Conference>,
        out: &mut ScriptOutbox,
    ) -> ConferenceMembership {
        // An empty `waitUrl` is silence, and stays so.
        conference.wait = conference.wait.and_then(|wait| match wait.url.is_empty() {
            true => Some(wait),
            false => call.absolute_target(&wait, out),
        });
        conference.status = conference.status.and_then(|status| call.absolute_callback(status, out));
        conference.recording_status =
            conference.recording_status.and_then(|status| call.absolute_callback(status, out));
        let id = call.next_id();
        if dial.hangup_on_star {
            out.push(Effect::Listen { digits: true, speech: None });
        }
        let record = dial.record.clone().map(Box::new);
        out.push(Effect::JoinConference { id, conference, record });
        let until = now + dial.time_limit;
        ConferenceMembership { id, dial, sid: None, since: now, until, is_leaving: false }
    }

    /// An event of the conference.
    pub(super) fn handle_event(
        &mut self,
        call: &CallContext,
        now: Instant,
        event: ConferenceEvent,
        out: &mut ScriptOutbox,
    ) -> Flow {
        match event {
            ConferenceEvent::Joined { sid } => {
                self.sid = Some(sid);
                self.since = now;
                Flow::Wait
            }
            ConferenceEvent::Left { recording } => {
                self.finish(now, CallStatus::Completed, recording.as_ref(), out)
            }
            ConferenceEvent::Refused { reason } => {
                call.notify(Severity::Error, code::DIAL, reason, out);
                self.finish(now, CallStatus::Failed, None, out)
            }
        }
    }

    /// The caller pressed `*`: with `hangupOnStar` the call leaves.
    pub(super) fn handle_star(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.dial.hangup_on_star {
            self.leave(now, out);
        }
    }

    /// Asks to leave, once; `ConferenceEvent::Left` ends the verb and brings the recording.
    fn leave(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.is_leaving {
            return;
        }
        self.is_leaving = true;
        self.until = now + limits::CLEANUP_WAIT;
        out.push(Effect::LeaveConference { id: self.id });
    }

    /// `timeLimit`, or the wait for `ConferenceEvent::Left`, is over.
    pub(super) fn expire(&mut self, now: Instant, out: &mut ScriptOutbox) -> Flow {
        if self.is_leaving {
            return self.finish(now, CallStatus::Completed, None, out);
        }
        self.leave(now, out);
        Flow::Wait
    }

    /// The stay is over and the call is not.
    fn finish(
        &self,
        now: Instant,
        status: CallStatus,
        recording: Option<&Recorded>,
        out: &mut ScriptOutbox,
    ) -> Flow {
        if self.dial.hangup_on_star {
            out.push(Effect::StopListening);
        }
        Flow::action(self.dial.action.as_ref(), self.form(now, status, recording))
    }

    /// The call ended in the conference: the `action` is told as a callback.
    pub(super) fn close(&self, call: &CallContext, now: Instant, out: &mut ScriptOutbox) {
        self.stop(out);
        if let Some(action) = &self.dial.action {
            let mut form = call.form();
            form.extend(self.form(now, CallStatus::Completed, None));
            call.tell(action, form, out);
        }
    }

    /// Leaves without a word to the `action`.
    pub(super) fn stop(&self, out: &mut ScriptOutbox) {
        if self.dial.hangup_on_star {
            out.push(Effect::StopListening);
        }
        if !self.is_leaving {
            out.push(Effect::LeaveConference { id: self.id });
        }
    }

    /// The parameters of the `action`.
    fn form(&self, now: Instant, status: CallStatus, recording: Option<&Recorded>) -> Form {
        let mut form = vec![pair("DialCallStatus", status.as_str())];
        form.extend(self.sid.iter().map(|sid| pair("ConferenceSid", &**sid)));
        form.push(pair("DialCallDuration", now.since(self.since).as_secs().to_string()));
        form.extend(recording.map(of_recorded).unwrap_or_default());
        form
    }
}
