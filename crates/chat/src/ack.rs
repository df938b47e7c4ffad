//! When a client's message counts as handled (XEP-0198 §4): once it is delivered or stored, wherever that happens.
//!
//! A message of a session that counts carries a mark: the session's key and the message's number. Where its way ends,
//! the mark comes off, and when all that the store has to write for it is on disk, the session's host is told so.

use std::collections::HashMap;

use stdx::slab::Key;
use xmpp::internal::NS;
use xmpp::{Element, Jid};

use super::{Host, Outbox};

/// Messages that came here and wait for the store.
#[derive(Default)]
pub(super) struct PendingAcks {
    /// The one that is being looked at.
    current: Option<u64>,
    waiting: HashMap<u64, PendingAck>,
    last: u64,
}

struct PendingAck {
    message: HandledMessage,
    /// Writes on their way, and the looking at it.
    left: u32,
}

/// A message whose way has ended: its mark and its sender.
struct HandledMessage {
    mark: Box<str>,
    sender: Jid,
}

impl PendingAcks {
    /// Takes the mark off a stanza at the end of its way. Writes until [`Host::end_ack`] delay the
    /// acknowledgement.
    pub(super) fn begin(&mut self, stanza: &mut Element) -> AckGuard {
        let Some(mark) = take_ack_token(stanza) else { return AckGuard(None) };
        let Ok(Some(sender)) = xmpp::stanza::from(stanza) else { return AckGuard(None) };
        self.last += 1;
        self.current = Some(self.last);
        self.waiting.insert(self.last, PendingAck { message: HandledMessage { mark, sender }, left: 1 });
        AckGuard(self.current)
    }

    /// For a write: until it is done, the message that is being looked at is not handled.
    pub(super) fn guard(&mut self) -> AckGuard {
        if let Some(waiting) = self.current.and_then(|number| self.waiting.get_mut(&number)) {
            waiting.left += 1;
        }
        AckGuard(self.current)
    }

    /// Returns the message if nothing of it is left to do.
    fn release(&mut self, AckGuard(held): AckGuard) -> Option<HandledMessage> {
        let number = held?;
        let waiting = self.waiting.get_mut(&number)?;
        waiting.left -= 1;
        if waiting.left > 0 {
            return None;
        }
        self.waiting.remove(&number).map(|pending| pending.message)
    }
}

#[cfg(test)]
impl PendingAcks {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Until it is given back, the message counts as unhandled.
#[must_use]
pub(super) struct AckGuard(Option<u64>);

pub(super) fn put_ack_token(message: &mut Element, mark: Option<Box<str>>) {
    if let Some(mark) = mark {
        message.set_ns("mark", NS, mark);
    }
}

pub(super) fn new_ack_token(key: Key, number: u64) -> Box<str> {
    format!("{}.{number}", key.to_u64()).into()
}

pub(super) fn take_ack_token(message: &mut Element) -> Option<Box<str>> {
    message.take_ns("mark", NS)
}

fn parse_ack_token(mark: &str) -> Option<(Key, u64)> {
    let (key, number) = mark.split_once('.')?;
    Some((Key::from_u64(key.parse().ok()?), number.parse().ok()?))
}

pub(super) fn take_too_large(stanza: &mut Element) -> bool {
    stanza.take_ns("too-large", NS).is_some()
}

impl Host {
    pub(super) fn end_ack(&mut self, hold: AckGuard, out: &mut Outbox) {
        self.pending_acks.current = None;
        self.release_ack_guard(hold, out);
    }

    pub(super) fn release_ack_guard(&mut self, guard: AckGuard, out: &mut Outbox) {
        if let Some(HandledMessage { mark, sender }) = self.pending_acks.release(guard) {
            self.report_handled(&mark, &sender, out);
        }
    }

    /// It went no further: a refusal is an end too.
    pub(super) fn refused(&mut self, stanza: &Element, out: &mut Outbox) {
        let Some(mark) = stanza.attr_ns("mark", NS) else { return };
        if let Ok(Some(sender)) = xmpp::stanza::from(stanza) {
            self.report_handled(mark, &sender, out);
        }
    }

    fn report_handled(&mut self, mark: &str, sender: &Jid, out: &mut Outbox) {
        if self.phone_message_handled(mark, out) {
            return;
        }
        // Only we mark, and only our own.
        if !self.settings.is_local(sender.domain()) {
            return;
        }
        if self.accounts.session_of(sender).is_some() {
            return self.acknowledge_message(sender, mark, out);
        }
        let told = Element::new("handled", NS).with("to", sender.as_str()).with("mark", mark);
        out.push(super::Effect::Route(Box::new(told)));
    }

    /// Handles the report of another host's [`Self::report_handled`]; true for such a report. Every stanza
    /// has a sender and this report has none, so no client can forge it.
    pub(super) fn handle_handled(&mut self, element: &Element, to: &Jid, out: &mut Outbox) -> bool {
        if !element.is("handled", NS) || element.attr("from").is_some() {
            return false;
        }
        if let Some(mark) = element.attr("mark") {
            self.acknowledge_message(to, mark, out);
        }
        true
    }

    fn acknowledge_message(&mut self, session: &Jid, mark: &str, out: &mut Outbox) {
        let Some((key, number)) = parse_ack_token(mark) else { return };
        if let Some(session) = self.accounts.sessions.get_mut(key).filter(|known| known.jid == *session) {
            session.handle_handled(number, out);
        }
    }

    /// For other servers marks mean nothing: stanzas given to the streams between servers cannot be followed
    /// further.
    pub(super) fn take_foreign_ack_token(&mut self, stanza: &mut Element, out: &mut Outbox) {
        if stanza.attr_ns("mark", NS).is_none() {
            return;
        }
        let is_ours =
            xmpp::stanza::to(stanza).ok().flatten().is_some_and(|to| self.settings.is_ours(to.domain()));
        if !is_ours {
            self.refused(stanza, out);
            take_ack_token(stanza);
        }
    }

    /// While a message's own sender has it archived.
    pub(super) fn hold_ack(&mut self, mark: Option<&str>) {
        if let Some((key, number)) = mark.and_then(parse_ack_token) {
            if let Some(sm) = self.accounts.sessions.get_mut(key).and_then(|session| session.sm.as_mut()) {
                sm.hold(number);
            }
        }
    }

    pub(super) fn release_ack(&mut self, mark: Option<&str>, out: &mut Outbox) {
        if let Some((key, number)) = mark.and_then(parse_ack_token) {
            if let Some(session) = self.accounts.sessions.get_mut(key) {
                session.handle_handled(number, out);
            }
        }
    }
}
