//! The end of a script, by either side: every running operation is stopped once, the application is told
//! once, nothing follows.

use std::time::Duration;

use stdx::Instant;

use super::{CallStatus, Effect, Outbox, Refusal, Role, Script, Start, State};
use crate::document::Callback;
use crate::limits;
use crate::request::{Form, Target};

impl Script {
    /// The call is gone: the caller's BYE or CANCEL, or its leg broke.
    pub fn handle_hangup(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::Ended | State::Closing(_)) {
            return;
        }
        let status = if self.answered_at.is_some() { CallStatus::Completed } else { CallStatus::Canceled };
        self.end(now, status, None, out);
    }

    /// A command: ends the call from our side.
    pub fn hang_up(&mut self, now: Instant, out: &mut Outbox) {
        if matches!(self.state, State::Ended | State::Closing(_)) {
            return;
        }
        let status = if self.answered_at.is_some() { CallStatus::Completed } else { CallStatus::NoAnswer };
        self.end(now, status, Some(Effect::Hangup), out);
    }

    pub(super) fn refuse(&mut self, now: Instant, refusal: Refusal, out: &mut Outbox) {
        let status = match refusal {
            Refusal::Busy => CallStatus::Busy,
            Refusal::Rejected => CallStatus::NoAnswer,
            Refusal::ApplicationError => CallStatus::Failed,
        };
        self.end(now, status, Some(Effect::Reject(refusal)), out);
    }

    /// A command: the live call goes on with another document.
    pub fn redirect(&mut self, now: Instant, to: Start, out: &mut Outbox) {
        if matches!(self.state, State::Fresh | State::Calling | State::Ended | State::Closing(_)) {
            return;
        }
        self.close_queue(now, "redirected", out);
        self.stop_verb(now, out);
        // The verb is stopped; its late results find this state.
        self.state = State::Between;
        self.verbs.clear();
        self.sorry = false;
        match to {
            Start::Url(target) => self.go_to(now, &target, Vec::new(), out),
            Start::Document(bytes) => {
                self.plan.start = Start::Document(bytes);
                self.begin(now, out);
            }
        }
    }

    /// A command: cancels a call that is not yet answered.
    pub fn cancel(&mut self, now: Instant, out: &mut Outbox) {
        if self.answered_at.is_none() && !matches!(self.state, State::Ended | State::Closing(_)) {
            self.end(now, CallStatus::Canceled, Some(Effect::Hangup), out);
        }
    }

    /// A command: asked from now on when a document cannot be had or read.
    pub fn set_fallback(&mut self, fallback: Option<Target>) {
        self.plan.fallback = fallback;
    }

    /// A command: sets the URL that receives the call's events from now on.
    pub fn set_status_callback(&mut self, callback: Option<Callback>) {
        self.plan.status = callback;
    }

    /// A command: how long the call may still last.
    pub fn limit(&mut self, now: Instant, left: Duration) {
        self.ends_by = now + left.min(limits::CALL_DURATION);
    }

    /// As [`Script::redirect`], with a relative URL allowed.
    pub fn redirect_to(&mut self, now: Instant, target: Target, out: &mut Outbox) {
        self.redirect(now, Start::Url(target), out);
    }

    /// The dialled party has transferred the call: it continues with the document at `to`, whose request
    /// carries `more`.
    pub fn transfer(&mut self, now: Instant, to: &Target, more: Form, out: &mut Outbox) {
        if !matches!(self.state, State::Dialing(_)) {
            return;
        }
        self.stop_verb(now, out);
        self.state = State::Between;
        self.verbs.clear();
        self.go_to(now, to, more, out);
    }

    /// The document is over, and the leg goes on without it.
    pub(super) fn done(&mut self, out: &mut Outbox) {
        self.verbs.clear();
        self.state = State::Ended;
        out.push(Effect::Done);
        out.push(Effect::Ended(self.status));
    }

    fn end(&mut self, now: Instant, status: CallStatus, last: Option<Effect>, out: &mut Outbox) {
        self.status = status;
        self.verbs.clear();
        self.stop_streams(now, None, out);
        let recorder = match std::mem::replace(&mut self.state, State::Between) {
            State::Recording(recorder) => Some(recorder),
            state => {
                self.state = state;
                None
            }
        };
        self.close_queue(now, "hangup", out);
        match &self.state {
            State::Dialing(_) => self.close_dial(now, out),
            State::Conferring(_) => self.close_conference(now, out),
            // A queue is left already.
            State::Queued(_) => {}
            _ => self.stop_verb(now, out),
        }
        match recorder {
            Some(recorder) => {
                self.close_recording(now, *recorder, out);
                out.extend(last);
            }
            None => {
                out.extend(last);
                self.over(now, out);
            }
        }
    }

    pub(super) fn over(&mut self, now: Instant, out: &mut Outbox) {
        // Legs and waiting scripts speak for a call that has its own callbacks.
        if self.plan.role == Role::Call {
            self.tell_progress(now, "completed", out);
        }
        self.state = State::Ended;
        out.push(Effect::Ended(self.status));
    }

    /// Stops the operations that the verb under way has started.
    fn stop_verb(&mut self, now: Instant, out: &mut Outbox) {
        match &self.state {
            State::Speaking { prompt } => out.push(Effect::StopPrompt { id: *prompt }),
            State::Gathering(gathering) => {
                if let Some(id) = gathering.prompt {
                    out.push(Effect::StopPrompt { id });
                }
                out.push(Effect::StopListening);
            }
            State::Recording(recorder) => recorder.stop(out),
            State::Dialing(_) => self.drop_dial(now, out),
            State::Conferring(_) => self.drop_conference(out),
            State::Echoing => out.push(Effect::Echo { on: false }),
            State::Streaming { id, .. } => {
                let id = *id;
                self.stop_stream(now, id, out);
            }
            // Nothing that runs: a request's answer, an ACK or a message's fate is awaited, or a time.
            State::Fresh
            | State::Calling
            | State::Between
            | State::Fetching(_)
            | State::Answering { .. }
            | State::Pausing { .. }
            | State::Queued(_)
            | State::Awaiting(_)
            | State::Resting { .. }
            | State::Closing(_)
            | State::Ended => {}
        }
    }
}
