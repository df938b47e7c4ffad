//! Enqueue: the call's wait in a queue until another call's Dial connects to it.
//!
//! The document of `waitUrl` is a script of its own ([`super::Role::Waiting`]), which the caller of both scripts runs; `Left` ends the wait, whatever
//! caused it.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::pair;
use super::state::Flow;
use super::{Effect, Id, QueueEvent, QueueResult, ScriptOutbox};
use crate::document::Enqueue;
use crate::request::Form;

/// The call's stay in a queue.
#[derive(Debug)]
pub(super) struct QueueMembership {
    /// The id of `Effect::Enqueue`.
    pub(super) id: Id,
    /// The verb, for its `action`.
    enqueue: Enqueue,
    /// The sid of the queue, once entered.
    sid: Option<String>,
    /// The time of the request; `QueueTime` counts from it.
    since: Instant,
    /// The time of the connection to another call.
    bridged_at: Option<Instant>,
}

impl QueueMembership {
    /// Enters the queue.
    pub(super) fn enter(
        call: &mut CallContext,
        now: Instant,
        enqueue: Enqueue,
        out: &mut ScriptOutbox,
    ) -> QueueMembership {
        let id = call.next_id();
        let wait = enqueue.wait.as_ref().and_then(|target| call.absolute_target(target, out));
        out.push(Effect::Enqueue { id, name: enqueue.name.clone(), wait, max_size: enqueue.max_size });
        QueueMembership { id, enqueue, sid: None, since: now, bridged_at: None }
    }

    /// An event of the queue.
    pub(super) fn handle_event(&mut self, now: Instant, event: QueueEvent) -> Flow {
        match event {
            QueueEvent::Entered { sid } => self.sid = Some(sid),
            QueueEvent::Bridged => self.bridged_at = Some(now),
            QueueEvent::Left(result) => {
                let result = match result {
                    QueueResult::Bridged => "bridged",
                    QueueResult::Full => "queue-full",
                    QueueResult::Leave => "leave",
                    QueueResult::Error => "system-error",
                };
                return Flow::action(self.enqueue.action.as_ref(), self.form(now, result));
            }
        }
        Flow::Wait
    }

    /// The call ended (`hangup`) or was sent elsewhere (`redirected`) in the queue: the `action` is told as a callback.
    pub(super) fn close(&self, call: &CallContext, now: Instant, result: &str, out: &mut ScriptOutbox) {
        out.push(Effect::LeaveQueue { id: Some(self.id) });
        if let Some(action) = &self.enqueue.action {
            let mut form = call.form();
            form.extend(self.form(now, result));
            call.tell(action, form, out);
        }
    }

    /// The parameters of the `action`.
    fn form(&self, now: Instant, result: &str) -> Form {
        let mut form = vec![pair("QueueResult", result)];
        form.extend(self.sid.iter().map(|sid| pair("QueueSid", &**sid)));
        // The wait lasts until the call is connected.
        let waited = self.bridged_at.unwrap_or(now).since(self.since);
        form.push(pair("QueueTime", waited.as_secs().to_string()));
        form
    }
}
