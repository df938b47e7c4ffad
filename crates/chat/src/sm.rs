//! Stream management (XEP-0198): acknowledgements, and sessions that outlive their connection.
//!
//! Both directions are counted. Of the client's stanzas a message is handled later than it comes (`ack`), so an
//! acknowledgement names the stanzas before the first message that is not handled. Of the host's stanzas a copy is kept
//! until the client acknowledges it: `session::flow` stops at the limits of that queue, sends it again after a resumption,
//! and gives it back when the session ends.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::xml::Node;
use xmpp::{Bare, Element, Level, Specification, ns};

use super::announce::AnnouncedSession;
use super::effect::StreamFault;
use super::feature::Feature;
use super::session::Session;
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
    /// The client's stanzas that have come, handled or not.
    pub(super) received: u64,
    /// Messages that are not handled yet, by number.
    unhandled: VecDeque<Unhandled>,
    /// The client asked when this many had been received, and had an answer that was less.
    asked_at: Option<u64>,
    /// Stanzas sent to the client; the last `queue.len()` of them are not acknowledged.
    pub(super) sent: u64,
    /// Sent and not acknowledged, and when they came.
    queue: VecDeque<(Instant, Element)>,
    /// The size of the queue.
    bytes: usize,
    /// The time at which the client acknowledged something last, or was first sent something to acknowledge.
    heard: Instant,
    /// A `<r/>` of ours is not answered.
    is_asking: bool,
    /// Stanzas sent since the last `<r/>`, and whether a message is among them: a message is worth a question at once.
    unasked: u32,
    unasked_message: bool,
}

impl Sm {
    /// True if the client may come back after its connection was lost.
    pub(super) fn is_resumable(&self) -> bool {
        self.resume.is_some()
    }

    /// The state of a session that has just enabled it.
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

    /// Enables stream management for a session that can be resumed for at most `longest`, with the answer.
    pub(super) fn enable(request: &Element, id: Box<str>, longest: Duration) -> (Sm, Element) {
        let enabled = Element::new("enabled", ns::SM);
        let wants = matches!(request.attr("resume"), Some("true" | "1"));
        if !wants || longest.is_zero() {
            return (Sm::new(None), enabled);
        }
        let wanted = request.attr("max").and_then(|max| max.parse().ok()).map(Duration::from_secs);
        let max = wanted.map_or(longest, |wanted| wanted.min(longest));
        let enabled =
            enabled.with("id", id.clone()).with("resume", "true").with("max", max.as_secs().to_string());
        (Sm::new(Some((id, max))), enabled)
    }

    /// The stream management of a session that another host has had.
    pub(super) fn restore(now: Instant, announced: &mut AnnouncedSession) -> Sm {
        let mut sm = Sm::new(Some((announced.id.clone(), announced.resumable_for)));
        sm.received = u64::from(announced.received);
        sm.sent = u64::from(announced.acknowledged);
        for stanza in std::mem::take(&mut announced.unacknowledged) {
            let weight = weight(&stanza);
            sm.push(now, now, &stanza, weight);
        }
        sm
    }

    /// Puts the identifier and the counts of a session whose unacknowledged stanzas are sent again into its announcement.
    pub(super) fn describe(&self, announced: &mut AnnouncedSession) -> bool {
        let Some((id, longest)) = &self.resume else { return false };
        (announced.id, announced.resumable_for) = (id.clone(), *longest);
        announced.received = wrapped(self.handled());
        announced.acknowledged = wrapped(self.sent - self.queue.len() as u64);
        true
    }

    /// Counts a stanza of the client, and returns the number of a message.
    ///
    /// # Errors
    /// Too many messages are unhandled.
    pub(super) fn count(&mut self, now: Instant, is_message: bool) -> Result<Option<u64>, TooManyUnhandled> {
        self.received += 1;
        if !is_message {
            return Ok(None);
        }
        match self.place_of(self.received) {
            // The client sends it again after a resumption, and the one before is still on its way.
            Ok(at) => self.unhandled[at].left = self.unhandled[at].left.saturating_add(1),
            Err(_) if self.unhandled.len() >= limits::SM_UNHANDLED => return Err(TooManyUnhandled),
            Err(at) => self.unhandled.insert(at, Unhandled { number: self.received, came: now, left: 1 }),
        }
        Ok(Some(self.received))
    }

    /// The place of a message among those that are not handled, or the place where it would be.
    fn place_of(&self, number: u64) -> Result<usize, usize> {
        self.unhandled.binary_search_by_key(&number, |unhandled| unhandled.number)
    }

    /// One more thing has to be done before that message is handled.
    pub(super) fn hold(&mut self, number: u64) {
        if let Ok(at) = self.place_of(number) {
            self.unhandled[at].left = self.unhandled[at].left.saturating_add(1);
        }
    }

    /// One thing less has to be done. Returns the message once nothing is left.
    pub(super) fn handle_handled(&mut self, number: u64, is_connected: bool) -> Option<Handled> {
        let at = self.place_of(number).ok()?;
        self.unhandled[at].left -= 1;
        if self.unhandled[at].left > 0 {
            return None;
        }
        let Unhandled { came, .. } = self.unhandled.remove(at)?;
        if self.unhandled.is_empty() {
            self.unhandled = VecDeque::new();
        }
        let is_due = self.asked_at.is_some_and(|asked| self.handled() >= asked);
        if !is_due || !is_connected {
            return Some(Handled { came, answer: None });
        }
        self.asked_at = None;
        Some(Handled { came, answer: Some(self.acknowledgement()) })
    }

    /// The client asks with `<r/>`.
    pub(super) fn handle_request(&mut self) -> Element {
        self.asked_at = (self.handled() < self.received).then_some(self.received);
        self.acknowledgement()
    }

    /// The client answers with `<a/>`. A question to it may follow.
    ///
    /// # Errors
    /// The stream error.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        answer: &Element,
    ) -> Result<Option<Element>, StreamFault> {
        let h = answer.attr("h").and_then(|h| h.parse().ok()).ok_or("bad-format")?;
        let waited = self.queue.len();
        self.acknowledge(h)?;
        self.is_asking = false;
        if self.queue.len() < waited {
            self.heard = now;
        }
        Ok((!self.queue.is_empty() && self.wants_to_ask()).then(|| self.ask()))
    }

    /// Tells the client how many of its stanzas are handled.
    pub(super) fn acknowledgement(&self) -> Element {
        Element::new("a", ns::SM).with("h", self.h())
    }

    /// The time for which the session may be without a connection.
    pub(super) fn resumable_for(&self) -> Option<Duration> {
        self.resume.as_ref().map(|(_, max)| *max)
    }

    /// True if messages of the client are on their way.
    pub(super) fn has_unhandled(&self) -> bool {
        !self.unhandled.is_empty()
    }

    /// True if the session is resumed by this id.
    pub(super) fn is_resumed_by(&self, id: &str) -> bool {
        self.resume.as_ref().is_some_and(|(known, _)| **known == *id)
    }

    /// The client comes back and has had `seen` stanzas (XEP-0198 §5). Returns the answer.
    ///
    /// # Errors
    /// The stream error, if there were not so many stanzas. The session stays as it was.
    pub(super) fn resume(&mut self, id: &str, seen: u32) -> Result<Element, StreamFault> {
        self.acknowledge(seen)?;
        self.asked_at = None;
        // Stanzas that are still on their way, after `limits::SM_RESUME_PATIENCE`, are not counted: they may be lost with this process, and
        // the client sends them again, with the same numbers. Better twice than never.
        self.received = self.handled();
        Ok(Element::new("resumed", ns::SM).with("previd", id).with("h", self.h()))
    }

    /// The number of sent and unacknowledged stanzas that `which` accepts.
    pub(super) fn waiting(&self, which: impl Fn(&Element) -> bool) -> usize {
        self.queue.iter().filter(|(_, stanza)| which(stanza)).count()
    }

    /// The number of stanzas of the client that are handled, without a gap.
    fn handled(&self) -> u64 {
        // Those beyond `received` came before a resumption, and the client sends them again.
        self.unhandled.front().map_or(self.received, |unhandled| self.received.min(unhandled.number - 1))
    }

    /// The number of handled stanzas as an attribute has it.
    fn h(&self) -> String {
        wrapped(self.handled()).to_string()
    }

    /// Keeps a stanza that is sent now until the client acknowledges it. `at`: when it came to the session, for the delay of a later delivery.
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

    /// True if the client has acknowledged all that it was sent.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.queue.is_empty()
    }

    /// The client has to acknowledge something before it gets more.
    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= limits::SM_QUEUE || self.bytes >= limits::SM_QUEUE_BYTES
    }

    /// True if the queue is full and the client has acknowledged nothing for long.
    pub(super) fn is_abandoned(&self, now: Instant) -> bool {
        self.is_full() && now.since(self.heard) > limits::SM_PATIENCE
    }

    /// Takes the stanzas that were sent and not acknowledged: they are to be sent again, and are counted again then.
    pub(super) fn take_unacknowledged(&mut self) -> VecDeque<(Instant, Element)> {
        self.sent -= self.queue.len() as u64;
        (self.bytes, self.is_asking) = (0, false);
        std::mem::take(&mut self.queue)
    }

    /// The client has had that many.
    fn acknowledge(&mut self, h: u32) -> Result<(), StreamFault> {
        let before = self.sent - self.queue.len() as u64;
        let fresh = h.wrapping_sub(wrapped(before)) as usize;
        if fresh > self.queue.len() {
            return Err(self.wrong_count(h));
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

    /// The stream error for a count that acknowledges stanzas which were not sent (XEP-0198 §6), or takes an acknowledgement back.
    fn wrong_count(&self, h: u32) -> StreamFault {
        let sent = wrapped(self.sent);
        // Counts wrap: the greater half of the distances is behind `sent`.
        let is_too_high = h.wrapping_sub(sent) <= u32::MAX / 2;
        let detail = is_too_high.then(|| {
            let detail = Element::new("handled-count-too-high", ns::SM).with("h", h.to_string());
            Box::new(detail.with("send-count", sent.to_string()))
        });
        StreamFault { condition: "undefined-condition", detail }
    }

    /// A message is worth a question, and so are many others.
    pub(super) fn wants_to_ask(&self) -> bool {
        !self.is_asking && (self.unasked_message || self.unasked >= limits::SM_ASK_AFTER)
    }

    /// The question to the client. One at a time: the next is asked when this one is answered.
    pub(super) fn ask(&mut self) -> Element {
        (self.is_asking, self.unasked, self.unasked_message) = (true, 0, false);
        Element::new("r", ns::SM)
    }
}

/// A message of the client that is not handled yet.
struct Unhandled {
    number: u64,
    /// The time at which it came first.
    came: Instant,
    /// Writes and ways that it waits for.
    left: u8,
}

/// A message of the client that is handled now.
pub(super) struct Handled {
    /// The time at which it came.
    pub(super) came: Instant,
    /// The answer that the client waits for, if it is due.
    pub(super) answer: Option<Element>,
}

/// More messages of a client are unhandled than the limit.
pub(super) struct TooManyUnhandled;

/// Ended sessions: how many of their stanzas were handled, for clients that come too late (XEP-0198 §5).
#[derive(Default)]
pub(super) struct EndedSessions {
    /// Identifier, account and number of handled stanzas, the oldest first.
    sessions: VecDeque<(Box<str>, Bare, u64)>,
}

impl EndedSessions {
    /// Remembers an ended session; the oldest is forgotten.
    fn push(&mut self, id: Box<str>, user: Bare, handled: u64) {
        if self.sessions.len() >= limits::SM_REMEMBERED {
            self.sessions.pop_front();
        }
        self.sessions.push_back((id, user, handled));
    }

    /// The number of handled stanzas of an ended session. Another account's id finds nothing.
    fn find(&self, user: &Bare, id: &str) -> Option<u64> {
        let mut known = self.sessions.iter();
        known.find(|(known, of, _)| **known == *id && of == user).map(|(_, _, handled)| *handled)
    }

    /// The answer to a client that resumes a session which is not there (XEP-0198 §5).
    pub(super) fn refuse(&self, user: &Bare, id: &str) -> Element {
        let handled = self.find(user, id).map(|handled| wrapped(handled).to_string());
        failed(Condition::ItemNotFound).with_opt("h", handled)
    }

    /// A session has ended. Returns the stanzas that its client has not acknowledged, and when they came.
    pub(super) fn handle_end(&mut self, session: &mut Session) -> VecDeque<(Instant, Element)> {
        let unsent = session.take_unsent();
        let Some(sm) = session.sm.take() else { return unsent };
        let handled = sm.handled();
        if let Some((id, _)) = sm.resume {
            self.push(id, session.jid.bare(), handled);
        }
        let mut queue = sm.queue;
        queue.extend(unsent);
        queue
    }
}

/// A count as the wire has it (XEP-0198 §4): after 2^32 - 1 comes 0.
fn wrapped(number: u64) -> u32 {
    (number & u64::from(u32::MAX)) as u32
}

/// The memory of an element, about, for the limits of queues: 96, 64 and 32 bytes stand for an element, an attribute and a text without
/// their characters.
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

/// The answer to a request of stream management that fails.
pub(super) fn failed(condition: Condition) -> Element {
    Element::new("failed", ns::SM).child(Element::new(condition.as_str(), ns::STANZA_ERRORS))
}
