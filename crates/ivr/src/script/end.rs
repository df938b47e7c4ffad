//! Commands to a live script, and its end by either side: every running operation is stopped once, the application
//! is told once, nothing follows.
//!
//! Commands come from the REST interface (`redirect`, `hang_up`, `cancel` and the setters); `handle_hangup` is the call's own end. All ends go
//! through `end`.

use std::time::Duration;

use stdx::Instant;

use super::record::ClosingRecording;
use super::state::{Flow, ScriptState};
use super::{CallStatus, Effect, Role, Script, ScriptOutbox, Start};
use crate::document::Callback;
use crate::limits;
use crate::request::{Form, Target};

impl Script {
    /// The call is gone: the caller's BYE or CANCEL, or its leg broke.
    pub fn handle_hangup(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.state.is_over() {
            return;
        }
        let is_answered = self.call.answered_at.is_some();
        let status = if is_answered { CallStatus::Completed } else { CallStatus::Canceled };
        self.end(now, status, None, out);
    }

    /// A command: ends the call from our side.
    pub fn hang_up(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.state.is_over() {
            return;
        }
        let is_answered = self.call.answered_at.is_some();
        let status = if is_answered { CallStatus::Completed } else { CallStatus::NoAnswer };
        self.end(now, status, Some(Effect::Hangup), out);
    }

    /// A command: cancels a call that is not yet answered.
    pub fn cancel(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.call.answered_at.is_none() && !self.state.is_over() {
            self.end(now, CallStatus::Canceled, Some(Effect::Hangup), out);
        }
    }

    /// A command: the live call goes on with another document. Its URL may be relative to the current one.
    pub fn redirect(&mut self, now: Instant, to: Start, out: &mut ScriptOutbox) {
        if self.state.is_over() || matches!(self.state, ScriptState::NotStarted | ScriptState::Calling) {
            return;
        }
        self.state.stop(&mut self.call, &mut self.streams, now, out);
        // The verb is stopped; its late results find this state.
        self.state = ScriptState::BetweenVerbs;
        self.verbs.clear();
        self.has_apologised = false;
        let flow = match to {
            Start::Url(target) => Flow::Document(target, Form::new()),
            Start::Document(bytes) => {
                self.call.plan.start = Start::Document(bytes);
                Flow::Restart
            }
        };
        self.follow(now, flow, out);
    }

    /// The dialled party has transferred the call: it continues with the document at `to`, whose request
    /// carries `more`.
    pub fn transfer(&mut self, now: Instant, to: &Target, more: Form, out: &mut ScriptOutbox) {
        if !matches!(self.state, ScriptState::Dialing(_)) {
            return;
        }
        self.state.stop(&mut self.call, &mut self.streams, now, out);
        self.verbs.clear();
        self.follow(now, Flow::Document(to.clone(), more), out);
    }

    /// A command: requested from now on when a document cannot be had or read.
    pub fn set_fallback(&mut self, fallback: Option<Target>) {
        self.call.plan.fallback = fallback;
    }

    /// A command: sets the URL that receives the call's events from now on.
    pub fn set_status_callback(&mut self, callback: Option<Callback>) {
        self.call.plan.status = callback;
    }

    /// More parameters of every request from now on, instead of those of the same names.
    pub fn set_extra(&mut self, extra: Form) {
        let own = &mut self.call.call.extra;
        own.retain(|(name, _)| extra.iter().all(|(other, _)| other != name));
        own.extend(extra);
    }

    /// A command: how long the call may still last.
    pub fn limit(&mut self, now: Instant, left: Duration) {
        self.ends_by = now + left.min(limits::CALL_DURATION);
    }

    /// The call is over: the verb under way and all streams stop, `last` is the effect for the call itself. A
    /// recording delays the end until its file is complete.
    pub(super) fn end(
        &mut self,
        now: Instant,
        status: CallStatus,
        last: Option<Effect>,
        out: &mut ScriptOutbox,
    ) {
        self.call.status = status;
        self.verb_log.end(now);
        self.verbs.clear();
        self.streams.stop_named(&self.call, now, None, out);
        match std::mem::replace(&mut self.state, ScriptState::BetweenVerbs) {
            ScriptState::Recording(recorder) => {
                let closing = ClosingRecording::start(*recorder, now, out);
                self.state = ScriptState::Closing(Box::new(closing));
                out.extend(last);
            }
            mut state => {
                state.close(&mut self.call, &mut self.streams, now, out);
                out.extend(last);
                self.end_now(now, out);
            }
        }
    }

    /// The last effects of a script.
    pub(super) fn end_now(&mut self, now: Instant, out: &mut ScriptOutbox) {
        // Legs and waiting scripts speak for a call that has its own callbacks.
        if self.call.plan.role == Role::Call {
            self.call.tell_progress(now, "completed", out);
        }
        self.state = ScriptState::Ended;
        out.push(Effect::Ended(self.call.status));
    }
}
