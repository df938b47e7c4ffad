//! The facts of a script's call that all verbs share: parameters of requests, callbacks, notifications, URLs.
//!
//! Machines get it by reference: they take ids from it, ask for the answer, resolve URLs of documents, and send callbacks with the parameters of the
//! call.

use stdx::Instant;

use super::form::{end_form, of_call, progress};
use super::{Call, CallStatus, Direction, Effect, Id, Notification, Plan, ScriptOutbox, Start};
use crate::document::{Callback, Item, Piece, Severity, code};
use crate::request::{Form, Request, Target, resolve};

/// One call as its documents see it. Every verb reads it; none keeps a copy.
#[derive(Debug)]
pub(super) struct CallContext {
    /// The facts that the server gave, with later changes.
    pub(super) call: Call,
    /// The settings of the account and the number, with later changes.
    pub(super) plan: Plan,
    /// The value of `CallStatus` in requests.
    pub(super) status: CallStatus,
    /// The time of the answer; `CallDuration` counts from it.
    pub(super) answered_at: Option<Instant>,
    /// The URL of the current document; relative URLs resolve against it.
    pub(super) document_url: Option<String>,
    /// `Effect::Answer` was returned; it is returned once.
    answer_requested: bool,
    /// The id that was given last; ids begin at 1.
    last_id: u32,
    /// `SequenceNumber` of the next status callback.
    sequence: u32,
}

impl CallContext {
    /// The context of a call that has not begun.
    pub(super) fn new(call: Call, plan: Plan) -> CallContext {
        let status = match (call.answered, call.direction) {
            (true, _) => CallStatus::InProgress,
            (false, Direction::Inbound) => CallStatus::Ringing,
            (false, _) => CallStatus::Queued,
        };
        CallContext {
            call,
            plan,
            status,
            answered_at: None,
            document_url: None,
            answer_requested: false,
            last_id: 0,
            sequence: 0,
        }
    }

    /// A new id, unique in this script.
    pub(super) fn next_id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    /// The parameters of every request about the call.
    pub(super) fn form(&self) -> Form {
        of_call(&self.call, self.status)
    }

    /// True once the call is answered, or its answer is on the way: too late for Reject and for 180.
    pub(super) fn is_answered_or_answering(&self) -> bool {
        self.answer_requested || self.answered_at.is_some()
    }

    /// Asks for the answer once: a redirected call may come here again before its ACK.
    pub(super) fn request_answer(&mut self, out: &mut ScriptOutbox) {
        if !std::mem::replace(&mut self.answer_requested, true) {
            out.push(Effect::Answer);
        }
    }

    /// The call is answered; the first report counts.
    pub(super) fn mark_answered(&mut self, now: Instant, out: &mut ScriptOutbox) {
        if self.answered_at.is_some() {
            return;
        }
        self.answered_at = Some(now);
        self.status = CallStatus::InProgress;
        self.tell_progress(now, "answered", out);
    }

    /// A notification about the current document.
    pub(super) fn notify(
        &self,
        severity: Severity,
        code: u32,
        text: impl Into<String>,
        out: &mut ScriptOutbox,
    ) {
        let (text, url) = (text.into(), self.document_url.clone());
        out.push(Effect::Notify(Notification { severity, code, text, url, line: None, column: None }));
    }

    /// A callback that a document named. A URL that does not resolve is noted, and no request is sent.
    pub(super) fn tell(&self, target: &Target, form: Form, out: &mut ScriptOutbox) {
        if let Some(Target { url, method }) = self.absolute_target(target, out) {
            out.push(Effect::Tell { request: Request { method, url, form } });
        }
    }

    /// The account's status callback, when it asked for this event.
    pub(super) fn tell_progress(&mut self, now: Instant, event: &str, out: &mut ScriptOutbox) {
        let Some(callback) = &self.plan.status else { return };
        if !callback.events.contains(&event) {
            return;
        }
        // Twilio's StatusCallback: the event `initiated` has a CallStatus of its own name, whatever the direction.
        let status = if event == "initiated" { CallStatus::Initiated } else { self.status };
        let form = if event == "completed" {
            let talked = self.answered_at.map(|since| now.since(since).as_secs()).unwrap_or_default();
            end_form(&self.call, status, talked, (now, self.sequence))
        } else {
            let mut form = of_call(&self.call, status);
            progress(&mut form, now, self.sequence);
            form
        };
        self.sequence += 1;
        let Target { url, method } = callback.target.clone();
        out.push(Effect::Tell { request: Request { method, url, form } });
    }

    /// Resolves against the current document. Files of the server's own are named by its configuration and by one
    /// another, not by documents of applications.
    pub(super) fn absolute(&self, reference: &str) -> Option<String> {
        let is_ours = match &self.document_url {
            Some(url) => url.starts_with("file:"),
            None => matches!(self.plan.start, Start::Url(_)),
        };
        let schemes: &[&str] = if is_ours { &["http", "https", "file"] } else { &["http", "https"] };
        resolve(self.document_url.as_deref(), reference, schemes)
    }

    /// A sound may be a file of the server's folder of prompts; any document may name it.
    pub(super) fn absolute_sound(&self, reference: &str) -> Option<String> {
        resolve(self.document_url.as_deref(), reference, &["http", "https", "file"])
    }

    /// The target with an absolute URL. A URL that does not resolve is noted.
    pub(super) fn absolute_target(&self, target: &Target, out: &mut ScriptOutbox) -> Option<Target> {
        let url = self.absolute(&target.url);
        if url.is_none() {
            self.notify(Severity::Warning, code::URL, format!("{} is no URL of HTTP", target.url), out);
        }
        Some(Target { url: url?, method: target.method })
    }

    /// The callback with an absolute URL. A URL that does not resolve is noted.
    pub(super) fn absolute_callback(&self, callback: Callback, out: &mut ScriptOutbox) -> Option<Callback> {
        Some(Callback { target: self.absolute_target(&callback.target, out)?, events: callback.events })
    }

    /// The piece with absolute URLs. Items without one are noted and dropped; `None` if no item is left.
    pub(super) fn playable(&self, mut piece: Piece, out: &mut ScriptOutbox) -> Option<Piece> {
        piece.items.retain_mut(|item| {
            let Item::Audio { url } = item else { return true };
            match self.absolute_sound(url) {
                Some(absolute) => *url = absolute,
                None => {
                    self.notify(Severity::Error, code::URL, format!("{url} is no URL of HTTP"), out);
                    return false;
                }
            }
            true
        });
        (!piece.items.is_empty()).then_some(piece)
    }
}
