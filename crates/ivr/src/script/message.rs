//! Sms, Email and Refer: requested, and awaited only when an `action` asks for the result.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::pair;
use super::state::Flow;
use super::{Call, Direction, Effect, EffectFailure, Id, Message, ScriptOutbox, Sent};
use crate::document::{Email, Refer, Severity, Sms, code};
use crate::limits;
use crate::request::Target;

/// A message to be taken or a transfer to be answered.
#[derive(Debug)]
pub(super) struct PendingReply {
    /// The id of the effect whose result is awaited.
    id: Id,
    /// The end of the wait.
    pub(super) until: Instant,
    /// The verb that waits.
    request: ReplyRequest,
}

/// The verb that waits, with its `action`.
#[derive(Debug)]
enum ReplyRequest {
    /// An Sms; its `action` gets `MessageSid` and `MessageStatus`, also as `SmsSid` and `SmsStatus`.
    Message { action: Target },
    /// A Refer; its `action` gets the status of the REFER.
    Transfer { action: Option<Target> },
}

/// Sends a text message. The verb waits for the result if it has an `action`.
pub(super) fn send_message(
    call: &mut CallContext,
    now: Instant,
    sms: Sms,
    out: &mut ScriptOutbox,
) -> Option<PendingReply> {
    let id = call.next_id();
    let status = sms.status.and_then(|url| call.absolute(&url));
    // As Twilio: from the application's side of the call to the other.
    let Call { from, to, direction, .. } = &call.call;
    let (application_side, other_side) = match direction {
        Direction::Inbound => (to, from),
        Direction::OutboundApi | Direction::OutboundDial => (from, to),
    };
    let from = sms.from.unwrap_or_else(|| application_side.clone());
    let to = sms.to.unwrap_or_else(|| other_side.clone());
    out.push(Effect::SendMessage { id, message: Box::new(Message { from, to, body: sms.body, status }) });
    let action = sms.action?;
    Some(PendingReply::new(now, id, ReplyRequest::Message { action }))
}

/// Sends a mail. Its failure is noted; the verb never waits.
pub(super) fn send_mail(call: &mut CallContext, mail: Email, out: &mut ScriptOutbox) {
    let id = call.next_id();
    out.push(Effect::SendMail { id, mail: Box::new(mail) });
}

/// Transfers the caller (REFER, RFC 3515).
pub(super) fn refer(
    call: &mut CallContext,
    now: Instant,
    refer: Refer,
    out: &mut ScriptOutbox,
) -> PendingReply {
    let id = call.next_id();
    out.push(Effect::Refer { id, uri: refer.uri });
    PendingReply::new(now, id, ReplyRequest::Transfer { action: refer.action })
}

impl PendingReply {
    /// A wait of [`limits::ANSWER_WAIT`] that begins now.
    fn new(now: Instant, id: Id, request: ReplyRequest) -> PendingReply {
        PendingReply { id, until: now + limits::ANSWER_WAIT, request }
    }

    /// The result of a message or a mail.
    pub(super) fn handle_sent(&self, id: Id, result: Result<Sent, EffectFailure>) -> Flow {
        let ReplyRequest::Message { action } = &self.request else { return Flow::Wait };
        if self.id != id {
            return Flow::Wait;
        }
        // By Message's names and by Sms': Twilio sends both of either verb.
        let form = match result {
            Ok(Sent { sid, status }) => vec![
                pair("MessageSid", &*sid),
                pair("MessageStatus", &*status),
                pair("SmsSid", sid),
                pair("SmsStatus", status),
            ],
            Err(_) => vec![pair("MessageStatus", "failed"), pair("SmsStatus", "failed")],
        };
        Flow::Document(action.clone(), form)
    }

    /// The final answer to a transfer, from 200 to 699.
    pub(super) fn handle_referred(
        &self,
        call: &CallContext,
        id: Id,
        code: u16,
        out: &mut ScriptOutbox,
    ) -> Flow {
        let ReplyRequest::Transfer { action } = &self.request else { return Flow::Wait };
        if self.id != id {
            return Flow::Wait;
        }
        let accepted = (200..300).contains(&code);
        if !accepted {
            call.notify(Severity::Warning, code::DIAL, format!("the transfer was answered {code}"), out);
        }
        let form = vec![
            pair("ReferCallStatus", if accepted { "in-progress" } else { "failed" }),
            pair("ReferSipResponseCode", code.to_string()),
        ];
        Flow::action(action.as_ref(), form)
    }

    /// No result came in time: a message has failed, a transfer counts as answered 408 (RFC 3261 §21.4.9).
    pub(super) fn expire(&self, call: &CallContext, out: &mut ScriptOutbox) -> Flow {
        match self.request {
            ReplyRequest::Message { .. } => {
                let text = "the message was not taken in time".to_owned();
                call.notify(Severity::Error, code::MESSAGE, &*text, out);
                self.handle_sent(self.id, Err(EffectFailure { code: code::MESSAGE, text }))
            }
            ReplyRequest::Transfer { .. } => self.handle_referred(call, self.id, 408, out),
        }
    }
}
