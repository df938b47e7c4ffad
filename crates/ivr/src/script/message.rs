//! Messages, mails and transfers: asked for, and awaited only when an `action` wants to know.

use stdx::Instant;

use super::form::pair;
use super::{Direction, Effect, Failure, Flow, Id, Message, Outbox, Script, Sent, State};
use crate::document::{Email, Refer, Severity, Sms, code};
use crate::limits;
use crate::request::Target;

#[derive(Debug)]
pub(super) struct Awaiting {
    id: Id,
    pub(super) until: Instant,
    what: MessageRequest,
}

#[derive(Debug)]
enum MessageRequest {
    Message { action: Target },
    Transfer { action: Option<Target> },
}

impl Script {
    pub(super) fn send_message(&mut self, now: Instant, sms: Sms, out: &mut Outbox) -> Flow {
        let id = self.id();
        let status = sms.status.and_then(|url| self.absolute(&url));
        // As Twilio: from the application's side of the call to the other.
        let (ours, theirs) = match self.call.direction {
            Direction::Inbound => (&self.call.to, &self.call.from),
            Direction::OutboundApi | Direction::OutboundDial => (&self.call.from, &self.call.to),
        };
        let from = sms.from.unwrap_or_else(|| ours.clone());
        let to = sms.to.unwrap_or_else(|| theirs.clone());
        out.push(Effect::SendMessage { id, message: Box::new(Message { from, to, body: sms.body, status }) });
        let Some(action) = sms.action else { return Flow::Next };
        self.wait_for(now, id, MessageRequest::Message { action })
    }

    pub(super) fn send_mail(&mut self, mail: Email, out: &mut Outbox) -> Flow {
        let id = self.id();
        out.push(Effect::SendMail { id, mail: Box::new(mail) });
        Flow::Next
    }

    pub(super) fn refer(&mut self, now: Instant, refer: Refer, out: &mut Outbox) -> Flow {
        let id = self.id();
        out.push(Effect::Refer { id, uri: refer.uri });
        self.wait_for(now, id, MessageRequest::Transfer { action: refer.action })
    }

    fn wait_for(&mut self, now: Instant, id: Id, what: MessageRequest) -> Flow {
        self.state = State::Awaiting(Box::new(Awaiting { id, until: now + limits::ANSWER_WAIT, what }));
        Flow::Wait
    }

    /// The result of a message or a mail. Failures are noted also when the script does not wait for them.
    pub fn handle_sent(&mut self, now: Instant, id: Id, result: Result<Sent, Failure>, out: &mut Outbox) {
        if matches!(self.state, State::Fresh | State::Closing(_) | State::Ended) {
            return;
        }
        if let Err(Failure { code, text }) = &result {
            self.notify(Severity::Error, *code, &**text, out);
        }
        let State::Awaiting(awaiting) = &self.state else { return };
        let MessageRequest::Message { action } = &awaiting.what else { return };
        if awaiting.id != id {
            return;
        }
        let action = action.clone();
        let form = match result {
            Ok(sent) => vec![pair("SmsSid", sent.sid), pair("SmsStatus", sent.status)],
            Err(_) => vec![pair("SmsStatus", "failed")],
        };
        self.go_to(now, &action, form, out);
    }

    /// The final answer to a transfer, from 200 to 699; 408 when there was none.
    pub fn handle_referred(&mut self, now: Instant, id: Id, code: u16, out: &mut Outbox) {
        let State::Awaiting(awaiting) = &self.state else { return };
        let MessageRequest::Transfer { action } = &awaiting.what else { return };
        if awaiting.id != id {
            return;
        }
        let accepted = (200..300).contains(&code);
        if !accepted {
            self.notify(Severity::Warning, code::DIAL, format!("the transfer was answered {code}"), out);
        }
        let form = vec![
            pair("ReferCallStatus", if accepted { "in-progress" } else { "failed" }),
            pair("ReferSipResponseCode", code.to_string()),
        ];
        match action.clone() {
            Some(action) => self.go_to(now, &action, form, out),
            None => self.advance(now, out),
        }
    }

    pub(super) fn await_timed_out(&mut self, now: Instant, out: &mut Outbox) {
        let State::Awaiting(awaiting) = &self.state else { return };
        let id = awaiting.id;
        match awaiting.what {
            MessageRequest::Message { .. } => {
                let text = "the message was not taken in time".to_owned();
                self.handle_sent(now, id, Err(Failure { code: code::MESSAGE, text }), out);
            }
            MessageRequest::Transfer { .. } => self.handle_referred(now, id, 408, out),
        }
    }
}
