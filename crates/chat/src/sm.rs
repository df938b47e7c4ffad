//! Stream management (XEP-0198): acknowledgements, and sessions that outlive their connection.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::c2s::Bound;
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::xml::Node;
use xmpp::{Bare, ConnectionId, Element, Jid, Level, Specification, ns};

use super::ack;
use super::effect::Effect;
use super::feature::Feature;
use super::session::Session;
use super::{Host, Outbox};
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0198",
        title: "Stream Management",
        version: "1.6.3",
        level: Level::Complete,
        file: "crates/chat/src/sm.rs",
        note: "a message counts as handled once it is delivered or stored; sessions do not survive a restart",
    }],
    account: &[],
    server: &[],
    handles: &[],
};

/// Stream management of one session. Numbers count from enabling, and are cut to 32 bits on the wire (XEP-0198 §4).
pub(super) struct Sm {
    /// The id by which it can be resumed, and for how long.
    resume: Option<(Box<str>, Duration)>,
    pub(super) received: u64,
    /// Messages that are not handled yet, by number, and how many writes and ways each waits for.
    unhandled: VecDeque<(u64, u8)>,
    /// The client asked when this many had been received, and had an answer that was less.
    asked_at: Option<u64>,
    pub(super) sent: u64,
    /// Sent and not acknowledged, and when they came.
    queue: VecDeque<(Instant, Element)>,
    /// The size of the queue.
    bytes: usize,
    /// When the client acknowledged something last, or was first sent something to acknowledge.
    heard: Instant,
    /// A `<r/>` of ours is not answered.
    is_asking: bool,
    /// Since the last `<r/>`.
    unasked: u32,
    unasked_message: bool,
}

impl Sm {
    pub(super) fn is_resumable(&self) -> bool {
        self.resume.is_some()
    }

    fn new(resume: Option<(Box<str>, Duration)>) -> Sm {
        Sm {
            resume,
            received: 0,
            unhandled: VecDeque::new(),
            asked_at: None,
            sent: 0,
            queue: VecDeque::new(),
            bytes: 0,
            heard: Instant::from_micros(0),
            is_asking: false,
            unasked: 0,
            unasked_message: false,
        }
    }

    /// All up to this one are handled.
    fn handled(&self) -> u64 {
        self.unhandled.front().map_or(self.received, |(number, _)| number - 1)
    }

    /// As the wire has it.
    fn h(&self) -> String {
        wrapped(self.handled()).to_string()
    }

    /// Tells the client how many of its stanzas are handled.
    pub(super) fn acknowledgement(&self) -> Element {
        Element::new("a", ns::SM).with("h", self.h())
    }

    /// It is sent, and came at `at`.
    pub(super) fn push(&mut self, now: Instant, at: Instant, stanza: &Element, weight: usize) {
        if self.queue.is_empty() {
            self.heard = now;
        }
        self.sent += 1;
        self.unasked += 1;
        self.unasked_message |= stanza::kind_of(stanza) == Some(StanzaKind::Message);
        self.bytes += weight;
        self.queue.push_back((at, stanza.clone()));
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.queue.is_empty()
    }

    /// The client has to acknowledge something before it gets more.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= limits::SM_QUEUE || self.bytes >= limits::SM_QUEUE_BYTES
    }

    /// It is full, and the client has acknowledged nothing for long.
    pub(super) fn is_abandoned(&self, now: Instant) -> bool {
        self.is_full() && now.since(self.heard) > limits::SM_PATIENCE
    }

    /// All that was sent and not acknowledged: it is to be sent again.
    pub(super) fn take_unacknowledged(&mut self) -> VecDeque<(Instant, Element)> {
        self.sent -= self.queue.len() as u64;
        (self.bytes, self.is_asking) = (0, false);
        std::mem::take(&mut self.queue)
    }

    /// The client has had that many.
    fn acknowledge(&mut self, h: u32) -> Result<(), HandledTooHigh> {
        let before = self.sent - self.queue.len() as u64;
        let fresh = h.wrapping_sub(wrapped(before)) as usize;
        if fresh > self.queue.len() {
            return Err(HandledTooHigh);
        }
        for (_, stanza) in self.queue.drain(..fresh) {
            self.bytes -= weight(&stanza);
        }
        // An idle session needs no memory for its queue.
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        Ok(())
    }

    /// A message is worth a question, and so are many others.
    pub(super) fn wants_to_ask(&self) -> bool {
        !self.is_asking && (self.unasked_message || self.unasked >= limits::SM_ASK_AFTER)
    }

    pub(super) fn ask(&mut self) -> Element {
        (self.is_asking, self.unasked, self.unasked_message) = (true, 0, false);
        Element::new("r", ns::SM)
    }
}

/// The client says that it has had more than there was.
struct HandledTooHigh;

/// Ended sessions: how many of their stanzas were handled, for clients that come too late (XEP-0198 §5).
#[derive(Default)]
pub(super) struct EndedSessions {
    sessions: VecDeque<(Box<str>, Bare, u64)>,
}

impl EndedSessions {
    fn push(&mut self, id: Box<str>, user: Bare, handled: u64) {
        if self.sessions.len() >= limits::SM_REMEMBERED {
            self.sessions.pop_front();
        }
        self.sessions.push_back((id, user, handled));
    }

    fn find(&self, user: &Bare, id: &str) -> Option<u64> {
        let mut known = self.sessions.iter();
        known.find(|(known, of, _)| **known == *id && of == user).map(|(_, _, handled)| *handled)
    }
}

/// XEP-0198 §4: after 2^32 - 1 comes 0.
fn wrapped(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}

/// The memory of an element, about.
pub(super) fn weight(element: &Element) -> usize {
    let attributes = element.attributes().iter();
    let attributes: usize =
        attributes.map(|attribute| 64 + attribute.name.len() + attribute.value.len()).sum();
    let nodes = element.nodes().iter().map(|node| match node {
        Node::Element(child) => weight(child),
        Node::Text(text) => 32 + text.len(),
    });
    96 + element.name().len() + attributes + nodes.sum::<usize>()
}

fn failed(condition: Condition) -> Element {
    Element::new("failed", ns::SM).child(Element::new(condition.as_str(), ns::STANZA_ERRORS))
}

impl Host {
    /// To the client of a session, or into its queue.
    pub(super) fn session_deliver(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        let Some(stanza) = self.bind2_hold(now, key, stanza, out) else { return };
        self.csi_send(now, key, stanza, out);
    }

    /// A stanza of the client came. False: the session is over.
    pub(super) fn sm_count(
        &mut self,
        now: Instant,
        key: Key,
        stanza: &mut Element,
        out: &mut Outbox,
    ) -> bool {
        ack::take_ack_token(stanza);
        let Some(sm) = self.sessions.get_mut(key).and_then(|session| session.sm.as_mut()) else {
            return true;
        };
        sm.received += 1;
        if stanza::kind_of(stanza) == Some(StanzaKind::Message) {
            if sm.unhandled.len() >= limits::SM_UNHANDLED {
                self.close_session(now, key, "resource-constraint", out);
                return false;
            }
            sm.unhandled.push_back((sm.received, 1));
            ack::put_ack_token(stanza, Some(ack::new_ack_token(key, sm.received)));
        }
        true
    }

    /// One more thing has to be done before that message is handled.
    pub(super) fn sm_hold(&mut self, key: Key, number: u64) {
        let Some(sm) = self.sessions.get_mut(key).and_then(|session| session.sm.as_mut()) else { return };
        if let Ok(at) = sm.unhandled.binary_search_by_key(&number, |(number, _)| *number) {
            sm.unhandled[at].1 = sm.unhandled[at].1.saturating_add(1);
        }
    }

    /// One thing less.
    pub(super) fn sm_handled(&mut self, key: Key, number: u64, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(sm) = &mut session.sm else { return };
        let Ok(at) = sm.unhandled.binary_search_by_key(&number, |(number, _)| *number) else { return };
        sm.unhandled[at].1 -= 1;
        if sm.unhandled[at].1 > 0 {
            return;
        }
        sm.unhandled.remove(at);
        if sm.unhandled.is_empty() {
            sm.unhandled = VecDeque::new();
        }
        let is_due = sm.asked_at.is_some_and(|asked| sm.handled() >= asked);
        if let Some(edge) = session.edge.filter(|_| is_due) {
            sm.asked_at = None;
            out.push(Effect::Deliver { edge, element: sm.acknowledgement() });
        }
    }

    /// `<enable/>`, `<r/>`, `<a/>`.
    pub(super) fn sm(&mut self, now: Instant, key: Key, element: &Element, out: &mut Outbox) {
        let answer = match element.name() {
            "enable" => Some(self.sm_enable(key, element)),
            "r" => self.sm_asked(key),
            "a" => return self.sm_acknowledged(now, key, element, out),
            // It has a session already (XEP-0198 §5).
            "resume" => Some(failed(Condition::UnexpectedRequest)),
            _ => Some(failed(Condition::FeatureNotImplemented)),
        };
        let edge = self.sessions.get(key).and_then(|session| session.edge);
        if let (Some(edge), Some(element)) = (edge, answer) {
            out.push(Effect::Deliver { edge, element });
        }
    }

    /// `<enable/>` with Bind 2.
    pub(super) fn sm_inline(&mut self, _now: Instant, key: Key, request: &Element) -> Option<Element> {
        (request.name() == "enable").then(|| self.sm_enable(key, request))
    }

    /// XEP-0198 §3.
    fn sm_enable(&mut self, key: Key, request: &Element) -> Element {
        let id: Box<str> = self.token().into();
        let longest = self.settings.resume_for;
        let Some(session) = self.sessions.get_mut(key) else { return failed(Condition::UnexpectedRequest) };
        if session.sm.is_some() {
            return failed(Condition::UnexpectedRequest);
        }
        let wants = matches!(request.attr("resume"), Some("true" | "1"));
        // An anonymous client cannot prove its identity again.
        if !wants || session.is_anonymous || longest.is_zero() {
            session.sm = Some(Box::new(Sm::new(None)));
            return Element::new("enabled", ns::SM);
        }
        let wanted = request.attr("max").and_then(|max| max.parse().ok()).map(Duration::from_secs);
        let max = wanted.map_or(longest, |wanted| wanted.min(longest));
        session.sm = Some(Box::new(Sm::new(Some((id.clone(), max)))));
        Element::new("enabled", ns::SM)
            .with("id", id)
            .with("resume", "true")
            .with("max", max.as_secs().to_string())
    }

    fn sm_asked(&mut self, key: Key) -> Option<Element> {
        let session = self.sessions.get_mut(key)?;
        let Some(sm) = &mut session.sm else { return Some(failed(Condition::UnexpectedRequest)) };
        sm.asked_at = (sm.handled() < sm.received).then_some(sm.received);
        Some(sm.acknowledgement())
    }

    fn sm_acknowledged(&mut self, now: Instant, key: Key, element: &Element, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let edge = session.edge;
        // Stanzas sent before are not counted.
        let Some(sm) = &mut session.sm else { return };
        let Some(h) = element.attr("h").and_then(|h| h.parse().ok()) else {
            return self.close_session(now, key, "bad-format", out);
        };
        let waited = sm.queue.len();
        if sm.acknowledge(h).is_err() {
            // XEP-0198 §4: handled-count-too-high.
            return self.close_session(now, key, "undefined-condition", out);
        }
        sm.is_asking = false;
        if sm.queue.len() < waited {
            sm.heard = now;
        }
        if !sm.queue.is_empty() && sm.wants_to_ask() {
            let question = sm.ask();
            out.extend(edge.map(|edge| Effect::Deliver { edge, element: question }));
        }
        // More may have waited than could be sent at once.
        self.send_backlog(now, key, out);
    }

    /// The connection is lost. True: the session waits to be resumed.
    pub(super) fn sleep(&mut self, now: Instant, key: Key, out: &mut Outbox) -> bool {
        let Some(session) = self.sessions.get_mut(key) else { return false };
        let Some((_, max)) = session.sm.as_ref().and_then(|sm| sm.resume.as_ref()) else { return false };
        let until = now + *max;
        session.edge = None;
        session.sleeps_until = Some(until);
        let at = self.sleeping.partition_point(|(other, _)| *other <= until);
        self.sleeping.insert(at, (until, key));
        self.push_slept(now, key, out);
        true
    }

    pub(super) fn is_asleep(&self, key: Key) -> bool {
        self.sessions.get(key).is_some_and(|session| session.edge.is_none())
    }

    /// Messages of that kind that its client has not acknowledged.
    pub(super) fn sm_waiting(&self, key: Key, which: impl Fn(&Element) -> bool) -> usize {
        let Some(session) = self.sessions.get(key) else { return 0 };
        let Some(sm) = &session.sm else { return 0 };
        let is_it = |stanza: &Element| stanza::kind_of(stanza) == Some(StanzaKind::Message) && which(stanza);
        sm.queue.iter().filter(|(_, stanza)| is_it(stanza)).count() + session.flow.waiting(is_it)
    }

    /// Stanzas that were never acknowledged go to the other sessions, or are stored.
    pub(super) fn sm_ended(&mut self, now: Instant, mut session: Session, out: &mut Outbox) {
        let unsent = session.flow.take_stanzas();
        let mut queue = VecDeque::new();
        if let Some(sm) = session.sm.take() {
            let handled = sm.handled();
            if let Some((id, _)) = sm.resume.clone() {
                self.remembered.push(id, session.jid.bare(), handled);
            }
            queue = sm.queue;
        }
        queue.extend(unsent);
        if queue.is_empty() {
            return;
        }
        self.when_account_loaded(now, &session.jid.bare(), out, move |host, now, out| {
            for (at, stanza) in queue {
                host.unacknowledged(now, at, &session.jid, stanza, out);
            }
        });
    }

    fn unacknowledged(&mut self, now: Instant, at: Instant, of: &Jid, stanza: Element, out: &mut Outbox) {
        match stanza::kind_of(&stanza) {
            Some(StanzaKind::Message) => self.message_undelivered(now, at, of, stanza, out),
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {
                self.refuse(&stanza, &Condition::ServiceUnavailable.into(), out);
            }
            // The sender of a presence will see that the session is gone.
            _ => {}
        }
    }

    /// A client comes back (XEP-0198 §5).
    pub fn handle_resume(
        &mut self,
        now: Instant,
        edge: ConnectionId,
        (user, id, seen): (&Jid, &str, u32),
        out: &mut Outbox,
    ) {
        let bare = user.bare();
        // Only among the account's own sessions: another account's id is as unknown as one that never was.
        let keys = self.users.get(&bare).map(|user| &user.sessions[..]).unwrap_or_default();
        let is_it = |key: &&Key| {
            let sm = self.sessions.get(**key).and_then(|session| session.sm.as_ref());
            sm.and_then(|sm| sm.resume.as_ref()).is_some_and(|(known, _)| **known == *id)
        };
        let Some(key) = keys.iter().find(is_it).copied() else {
            let handled = self.remembered.find(&bare, id).map(|handled| wrapped(handled).to_string());
            let failed = failed(Condition::ItemNotFound).with_opt("h", handled);
            return out.push(Effect::Bound { edge, bound: Bound::NotResumed { failed } });
        };
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(sm) = &mut session.sm else { return };
        if sm.acknowledge(seen).is_err() {
            let failed = failed(Condition::BadRequest).with("h", sm.h());
            return out.push(Effect::Bound { edge, bound: Bound::NotResumed { failed } });
        }
        // The client knows better whether its old connection is dead.
        if let Some(old) = session.edge.replace(edge) {
            self.by_edge.remove(&old);
            out.push(Effect::Close { edge: old, condition: "conflict" });
        }
        session.sleeps_until = None;
        sm.asked_at = None;
        // Stanzas on their way to the store are our responsibility: if they were not counted, the client
        // would send them again.
        sm.unhandled.clear();
        let resumed = Element::new("resumed", ns::SM).with("previd", id).with("h", sm.h());
        out.push(Effect::Bound { edge, bound: Bound::Resumed { jid: session.jid.clone(), resumed } });
        self.by_edge.insert(edge, key);
        self.restart_flow(now, key, out);
        // A new stream is an active one (XEP-0352 §5).
        self.csi_active(now, key, out);
    }
}
