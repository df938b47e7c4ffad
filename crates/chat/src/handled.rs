//! When a client's message counts as handled (XEP-0198 §4): once it is delivered or stored, wherever that happens.
//!
//! A message of a session that counts carries a mark: the session's key and the message's number. Where its way ends,
//! the mark comes off, and when all that the record has to write for it is on disk, the session's host is told so.

use std::collections::HashMap;

use stdx::slab::Key;
use xmpp::internal::NS;
use xmpp::{Element, Jid};

use super::{Host, Outbox};

/// Messages that came here and wait for the record.
#[derive(Default)]
pub(super) struct Handling {
    /// The one that is being looked at.
    current: Option<u64>,
    waiting: HashMap<u64, Waiting>,
    last: u64,
}

struct Waiting {
    mark: Box<str>,
    sender: Jid,
    /// Writes on their way, and the looking at it.
    left: u32,
}

#[cfg(test)]
impl Handling {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Until it is given back, the message counts as unhandled.
#[must_use]
pub(super) struct Hold(Option<u64>);

pub(super) fn put_mark(message: &mut Element, mark: Option<Box<str>>) {
    if let Some(mark) = mark {
        message.set_ns("mark", NS, mark);
    }
}

pub(super) fn new_mark(key: Key, number: u64) -> Box<str> {
    format!("{}.{number}", key.to_u64()).into()
}

pub(super) fn take_mark(message: &mut Element) -> Option<Box<str>> {
    message.take_ns("mark", NS)
}

fn parse_mark(mark: &str) -> Option<(Key, u64)> {
    let (key, number) = mark.split_once('.')?;
    Some((Key::from_u64(key.parse().ok()?), number.parse().ok()?))
}

pub(super) fn take_too_large(stanza: &mut Element) -> bool {
    stanza.take_ns("too-large", NS).is_some()
}

impl Host {
    /// Takes the mark off a stanza at the end of its way. What is written until [`Self::end_handling`] holds it up.
    pub(super) fn begin_handling(&mut self, stanza: &mut Element) -> Hold {
        let Some(mark) = take_mark(stanza) else { return Hold(None) };
        let Ok(Some(sender)) = xmpp::stanza::from(stanza) else { return Hold(None) };
        let handling = &mut self.handling;
        handling.last += 1;
        handling.current = Some(handling.last);
        handling.waiting.insert(handling.last, Waiting { mark, sender, left: 1 });
        Hold(handling.current)
    }

    pub(super) fn end_handling(&mut self, hold: Hold, out: &mut Outbox) {
        self.handling.current = None;
        self.release(hold, out);
    }

    /// For a write: until it is done, the message that is being looked at is not handled.
    pub(super) fn hold(&mut self) -> Hold {
        let current = self.handling.current;
        if let Some(waiting) = current.and_then(|number| self.handling.waiting.get_mut(&number)) {
            waiting.left += 1;
        }
        Hold(current)
    }

    pub(super) fn release(&mut self, Hold(held): Hold, out: &mut Outbox) {
        let Some(number) = held else { return };
        let Some(waiting) = self.handling.waiting.get_mut(&number) else { return };
        waiting.left -= 1;
        if waiting.left == 0
            && let Some(Waiting { mark, sender, .. }) = self.handling.waiting.remove(&number)
        {
            self.tell_handled(&mark, &sender, out);
        }
    }

    /// It went no further: a refusal is an end too.
    pub(super) fn refused(&mut self, stanza: &Element, out: &mut Outbox) {
        let Some(mark) = stanza.attr_ns("mark", NS) else { return };
        if let Ok(Some(sender)) = xmpp::stanza::from(stanza) {
            self.tell_handled(mark, &sender, out);
        }
    }

    fn tell_handled(&mut self, mark: &str, sender: &Jid, out: &mut Outbox) {
        if self.heard_handled(mark, out) {
            return;
        }
        // Only we mark, and only our own.
        if !self.settings.is_local(sender.domain()) {
            return;
        }
        if self.session_of(sender).is_some() {
            return self.mark_handled(sender, mark, out);
        }
        let told = Element::new("handled", NS).with("to", sender.as_str()).with("mark", mark);
        out.push(super::Effect::Route(Box::new(told)));
    }

    /// What another host tells by [`Self::tell_handled`]. True: that is what it was. A stanza has a sender, and this has
    /// none, so nobody else can say it.
    pub(super) fn hear_handled(&mut self, element: &Element, to: &Jid, out: &mut Outbox) -> bool {
        if !element.is("handled", NS) || element.attr("from").is_some() {
            return false;
        }
        if let Some(mark) = element.attr("mark") {
            self.mark_handled(to, mark, out);
        }
        true
    }

    fn mark_handled(&mut self, session: &Jid, mark: &str, out: &mut Outbox) {
        let Some((key, number)) = parse_mark(mark) else { return };
        if self.sessions.get(key).is_some_and(|known| known.jid == *session) {
            self.sm_handled(key, number, out);
        }
    }

    /// For other servers marks mean nothing: what is given to the streams between servers is out of our hands.
    pub(super) fn unmark_abroad(&mut self, stanza: &mut Element, out: &mut Outbox) {
        if stanza.attr_ns("mark", NS).is_none() {
            return;
        }
        let is_ours =
            xmpp::stanza::to(stanza).ok().flatten().is_some_and(|to| self.settings.is_ours(to.domain()));
        if !is_ours {
            self.refused(stanza, out);
            take_mark(stanza);
        }
    }

    /// While a message's own sender has it archived.
    pub(super) fn hold_mark(&mut self, mark: Option<&str>) {
        if let Some((key, number)) = mark.and_then(parse_mark) {
            self.sm_hold(key, number);
        }
    }

    pub(super) fn release_mark(&mut self, mark: Option<&str>, out: &mut Outbox) {
        if let Some((key, number)) = mark.and_then(parse_mark) {
            self.sm_handled(key, number, out);
        }
    }
}
