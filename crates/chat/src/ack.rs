//! When a client's message counts as handled (XEP-0198 §4): once it is delivered or stored, wherever that happens.
//!
//! A message of a session that counts carries a mark: the address of the session's host, the session's key there and the message's
//! number. Where its way ends, the mark comes off, and when all that the store has to write for it is on disk, the session's host
//! is told so.
//!
//! A key is unique in its host only, and an address may have another owner when the report comes: after a restart or when a bucket
//! has moved. A host therefore ignores marks of another address, and two starts of a node never have the same one.
//!
//! The driver of a host, in a farm whose nodes share a database, keeps a message that it has sent to another node until the report
//! comes ([`MessageNumber`]), and sends it again if that node dies.

use std::collections::HashMap;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::internal::NS;
use xmpp::stanza::{self, StanzaError, StanzaKind};
use xmpp::{Element, Jid, Life, ShardAddress};

use super::account_memory::AccountMemory;
use super::phones::PendingPhoneMessages;
use super::{Host, HostSettings, Outbox, hints};
use crate::{blocking, outgoing};

/// Messages that came here and wait for the store.
pub(super) struct PendingAcks {
    /// The address of this host, which is in the marks of its sessions.
    host: ShardAddress,
    /// The host's driver keeps stanzas for other servers and components until their outcome is known, and reports it.
    is_shared: bool,
    /// The number of the message that is being looked at: a write that begins now is one of its writes.
    current: Option<u64>,
    /// Messages whose way has ended here and that are not handled yet, by a number that this host gives them.
    waiting: HashMap<u64, PendingAck>,
    /// The number that was given last.
    last: u64,
}

/// A message whose way has ended here, until its writes are done.
struct PendingAck {
    message: HandledMessage,
    /// The number of things that have to end before it is handled: its writes, and the looking at it.
    left: u32,
}

/// A message whose way has ended: its mark and its sender.
struct HandledMessage {
    mark: Box<str>,
    sender: Jid,
}

impl PendingAcks {
    /// No messages, at the host with this address.
    pub(super) fn new(host: ShardAddress) -> PendingAcks {
        PendingAcks { host, is_shared: false, current: None, waiting: HashMap::new(), last: 0 }
    }

    /// The driver reports the outcome of stanzas for other servers and components from now on.
    pub(super) fn set_shared(&mut self) {
        self.is_shared = true;
    }

    /// The address of this host.
    pub(super) fn host(&self) -> ShardAddress {
        self.host
    }

    /// The session and the number of a mark. `None`: it is none, or of another host or an earlier life.
    fn parse(&self, mark: &str) -> Option<(Key, u64)> {
        let (host, key, number) = parse_ack_token(mark)?;
        (host == self.host).then_some((key, number))
    }

    /// Takes the mark off a stanza at the end of its way. Writes until [`Acks::end`] delay the
    /// acknowledgement.
    pub(super) fn begin(&mut self, stanza: &mut Element) -> AckGuard {
        let Some(mark) = take_ack_token(stanza) else { return AckGuard(None) };
        let Ok(Some(sender)) = xmpp::stanza::from(stanza) else { return AckGuard(None) };
        self.last += 1;
        self.current = Some(self.last);
        self.waiting.insert(self.last, PendingAck { message: HandledMessage { mark, sender }, left: 1 });
        AckGuard(self.current)
    }

    /// A guard for a write: until it is released, the message that is being looked at is not handled.
    pub(super) fn guard(&mut self) -> AckGuard {
        if let Some(waiting) = self.current.and_then(|number| self.waiting.get_mut(&number)) {
            waiting.left += 1;
        }
        AckGuard(self.current)
    }

    /// Goes on with the message of a guard: writes until [`Acks::end`] delay its acknowledgement, too.
    pub(super) fn resume(&mut self, guard: &AckGuard) {
        self.current = guard.0;
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

/// Stands in place of the key of a session, in marks of messages for which no session waits. No host has so many sessions.
const NO_SESSION: u64 = u64::MAX;

/// The number of a message that a host has sent for one of its sessions: it names the message in that host, in one life of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageNumber {
    session: Key,
    number: u64,
}

impl MessageNumber {
    fn of_mark(mark: &str, host: ShardAddress) -> Option<MessageNumber> {
        let (of, session, number) = parse_ack_token(mark)?;
        (of == host).then_some(MessageNumber { session, number })
    }

    /// The number of a message on its way that the host with this address has sent.
    pub fn of_message(message: &Element, host: ShardAddress) -> Option<MessageNumber> {
        MessageNumber::of_mark(message.attr_ns("mark", NS)?, host)
    }

    /// Gives a message that another host gets a number, if no session waits for its being handled and it is worth keeping: its report
    /// has the number, too.
    pub fn mark_unacknowledged(message: &mut Element, host: ShardAddress, number: u64) {
        let is_meant = xmpp::stanza::kind_of(message) == Some(StanzaKind::Message)
            && message.attr_ns("mark", NS).is_none()
            && hints::is_worth_keeping(message);
        if is_meant {
            put_ack_token(message, Some(new_ack_token(host, Key::from_u64(NO_SESSION), number)));
        }
    }

    /// The number of the message of the host with this address that another host reports as handled. No stanza of a client or a server
    /// is such a report: each of them has a sender.
    pub fn of_report(report: &Element, host: ShardAddress) -> Option<MessageNumber> {
        let mark = report.attr("mark").filter(|_| is_report(report))?;
        MessageNumber::of_mark(mark, host)
    }
}

/// The report, for the host of its sender, that a message is handled: it was refused on its way. None: no session waits for a report.
pub fn report_of_refused(message: &Element) -> Option<Element> {
    let mark = message.attr_ns("mark", NS)?;
    let sender = xmpp::stanza::from(message).ok()??;
    Some(report_of(mark, &sender))
}

/// Takes the mark off a message that leaves the farm, and returns the report for the host of its sender, for when it is handled.
pub fn take_report(message: &mut Element) -> Option<Element> {
    let report = report_of_refused(message);
    take_ack_token(message);
    report
}

fn report_of(mark: &str, sender: &Jid) -> Element {
    Element::new("handled", NS).with("to", sender.as_str()).with("mark", mark)
}

fn is_report(element: &Element) -> bool {
    element.is("handled", NS) && element.attr("from").is_none()
}

/// Until it is given back, the message counts as unhandled.
#[must_use]
pub(super) struct AckGuard(Option<u64>);

pub(super) fn put_ack_token(message: &mut Element, mark: Option<Box<str>>) {
    if let Some(mark) = mark {
        message.set_ns("mark", NS, mark);
    }
}

/// The mark of the message with that number, of the session with that key.
pub(super) fn new_ack_token(host: ShardAddress, key: Key, number: u64) -> Box<str> {
    format!("{host}.{}.{number}", key.to_u64()).into()
}

pub(super) fn take_ack_token(message: &mut Element) -> Option<Box<str>> {
    message.take_ns("mark", NS)
}

fn parse_ack_token(mark: &str) -> Option<(ShardAddress, Key, u64)> {
    let (life, rest) = mark.split_once('.')?;
    let (shard, rest) = rest.split_once('.')?;
    let (key, number) = rest.split_once('.')?;
    let host = ShardAddress::new(Life(life.parse().ok()?), shard.parse().ok()?);
    Some((host, Key::from_u64(key.parse().ok()?), number.parse().ok()?))
}

pub(super) fn take_too_large(stanza: &mut Element) -> bool {
    stanza.take_ns("too-large", NS).is_some()
}

/// The acknowledgements of a host's messages: how the end of a message's way reaches the session or phone that sent it.
pub(super) struct Acks<'a> {
    settings: &'a HostSettings,
    pending: &'a mut PendingAcks,
    accounts: &'a mut AccountMemory,
    phone_messages: &'a mut PendingPhoneMessages,
}

impl Host {
    /// The acknowledgements of messages.
    pub(super) fn acks(&mut self) -> Acks<'_> {
        Acks {
            settings: &self.settings,
            pending: &mut self.pending_acks,
            accounts: &mut self.accounts,
            phone_messages: self.phones.pending_messages(),
        }
    }
}

impl Acks<'_> {
    /// The host has looked at the message of [`PendingAcks::begin`]: only writes delay its acknowledgement now.
    pub(super) fn end(&mut self, guard: AckGuard, out: &mut Outbox) {
        self.pending.current = None;
        self.release(guard, out);
    }

    /// A write of a message is answered.
    pub(super) fn release(&mut self, guard: AckGuard, out: &mut Outbox) {
        if let Some(HandledMessage { mark, sender }) = self.pending.release(guard) {
            self.report(&mark, &sender, out);
        }
    }

    /// A stanza was refused: that ends its way, and a message counts as handled.
    pub(super) fn handle_refusal(&mut self, stanza: &Element, out: &mut Outbox) {
        let Some(mark) = stanza.attr_ns("mark", NS) else { return };
        if let Ok(Some(sender)) = xmpp::stanza::from(stanza) {
            self.report(mark, &sender, out);
        }
    }

    /// Ends the way of a stanza here: its message counts as handled, and its sender gets the error. Presence gets none;
    /// `presence::refuse` is for presence that must have one.
    pub(super) fn refuse(&mut self, stanza: &Element, error: &StanzaError, out: &mut Outbox) {
        self.handle_refusal(stanza, out);
        let is_presence = stanza.name() == "presence";
        if stanza::may_be_refused(stanza) && !is_presence && stanza.attr("from").is_some() {
            outgoing::send(stanza::refusal(stanza, error), out);
        }
    }

    /// The same for a stanza of a session of ours, which gets the error past the router. The caller performs the effects of the session.
    pub(super) fn refuse_to_session(
        &mut self,
        now: Instant,
        key: Key,
        (stanza, error): (&Element, &StanzaError),
        out: &mut Outbox,
    ) {
        self.handle_refusal(stanza, out);
        blocking::refuse_blocked(self.accounts, now, key, stanza, error, out);
    }

    /// Reports a message as handled: to the phone that sent it, to its session if that is here, else to the host of its
    /// sender.
    fn report(&mut self, mark: &str, sender: &Jid, out: &mut Outbox) {
        if self.phone_messages.handle_handled(mark, out) {
            return;
        }
        // Only we mark, and only our own.
        if !self.settings.is_local(sender.domain()) {
            return;
        }
        if self.accounts.session_of(sender).is_some() {
            return self.acknowledge(sender, mark, out);
        }
        out.push(super::Effect::Route(Box::new(report_of(mark, sender))));
    }

    /// Handles the report of another host's [`Self::report`]; true for such a report. Every stanza
    /// has a sender and this report has none, so no client can forge it.
    pub(super) fn handle_report(&mut self, element: &Element, to: &Jid, out: &mut Outbox) -> bool {
        if !is_report(element) {
            return false;
        }
        if let Some(mark) = element.attr("mark") {
            self.acknowledge(to, mark, out);
        }
        true
    }

    fn acknowledge(&mut self, session: &Jid, mark: &str, out: &mut Outbox) {
        let Some((key, number)) = self.pending.parse(mark) else { return };
        if let Some(session) = self.accounts.sessions.get_mut(key).filter(|known| known.jid == *session) {
            session.handle_handled(number, out);
        }
    }

    /// Takes the mark off a stanza for another server and reports it as handled: a stanza that is given to the streams between servers cannot be
    /// followed further. In a farm whose nodes share a database the driver does so once the stanza's outcome is known.
    pub(super) fn take_foreign_token(&mut self, stanza: &mut Element, out: &mut Outbox) {
        if self.pending.is_shared || stanza.attr_ns("mark", NS).is_none() {
            return;
        }
        let is_ours =
            xmpp::stanza::to(stanza).ok().flatten().is_some_and(|to| self.settings.is_ours(to.domain()));
        if !is_ours {
            self.handle_refusal(stanza, out);
            take_ack_token(stanza);
        }
    }

    /// The archive of the message's own sender writes it: until then the message is not handled.
    pub(super) fn hold(&mut self, mark: Option<&str>) {
        let Some((key, number)) = mark.and_then(|mark| self.pending.parse(mark)) else { return };
        if let Some(sm) = self.accounts.sessions.get_mut(key).and_then(|session| session.sm.as_mut()) {
            sm.hold(number);
        }
    }

    /// The archive of the message's own sender has written it.
    pub(super) fn handle_archived(&mut self, mark: Option<&str>, out: &mut Outbox) {
        let Some((key, number)) = mark.and_then(|mark| self.pending.parse(mark)) else { return };
        if let Some(session) = self.accounts.sessions.get_mut(key) {
            session.handle_handled(number, out);
        }
    }
}
