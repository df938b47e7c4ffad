//! The flow control of a session: the amount sent ahead of what its client has read.
//!
//! A connection is given stanzas up to a window and then an [`Effect::Flush`], which [`Session::handle_drained`]
//! answers once the connection has written what it had. Beyond the window stanzas wait here, so that offline
//! messages, pages of archives and rooms go out as the client reads. Stanzas beyond that are stored, answered
//! or dropped by their kind: a stream never ends because of stanzas that others send to it
//! (`docs/decisions/0025`).

use std::collections::{HashSet, VecDeque};

use stdx::Instant;
use xmpp::stanza::{self, StanzaKind};
use xmpp::{Bare, ConnectionId, Element};

use super::super::effect::Effect;
use super::super::sm::weight;
use super::super::{Outbox, csi};
use super::Session;
use crate::limits;

/// The flow control of one session.
#[derive(Default)]
pub(super) struct Flow {
    /// Weight of the stanzas sent since the last `Flush`.
    since: u32,
    /// A `Flush` is not answered yet: the stanzas before it may still wait in the connection.
    is_flushing: bool,
    /// `None`: nothing waits, as nearly always.
    backlog: Option<Box<Backlog>>,
}

/// Work that waits for the client to read. It is freed when the last of it is done (`Session::end_backlog`).
#[derive(Default)]
struct Backlog {
    /// Stanzas that were not sent, and when they came.
    stanzas: VecDeque<(Instant, Element)>,
    /// The weight of the stanzas.
    weight: usize,
    /// The number of waiting stanzas at which outdated presence is next dropped.
    compact_at: usize,
    /// Questions to archives that wait for the page before.
    questions: VecDeque<(Bare, Element)>,
    /// A page is being read.
    is_paging: bool,
}

impl Backlog {
    fn push(&mut self, at: Instant, stanza: Element) {
        self.weight += weight(&stanza);
        self.stanzas.push_back((at, stanza));
        self.drop_outdated();
    }

    fn pop(&mut self) -> Option<(Instant, Element)> {
        let (at, stanza) = self.stanzas.pop_front()?;
        self.weight = self.weight.saturating_sub(weight(&stanza));
        Some((at, stanza))
    }

    fn is_over(&self) -> bool {
        self.stanzas.is_empty() && self.questions.is_empty() && !self.is_paging
    }

    /// `is_asleep`: the session has no connection and waits to be resumed.
    fn is_full(&self, is_asleep: bool) -> bool {
        let (stanzas, bytes) = match is_asleep {
            true => (limits::SM_QUEUE, limits::SM_QUEUE_BYTES),
            false => (limits::BACKLOG, limits::BACKLOG_BYTES),
        };
        self.stanzas.len() >= stanzas || self.weight >= bytes
    }

    /// Keeps only the last presence of each sender.
    fn drop_outdated(&mut self) {
        if self.stanzas.len() < self.compact_at.max(limits::BACKLOG_COMPACTED) {
            return;
        }
        let mut seen: HashSet<Box<str>> = HashSet::new();
        let mut left = VecDeque::with_capacity(self.stanzas.len());
        while let Some((at, stanza)) = self.stanzas.pop_back() {
            let from = stanza.attr("from").filter(|_| csi::is_outdated_by_next(&stanza));
            if from.is_none_or(|from| seen.insert(from.into())) {
                left.push_front((at, stanza));
            }
        }
        self.stanzas = left;
        self.weight = self.stanzas.iter().map(|(_, stanza)| weight(stanza)).sum();
        // Twice as many, so that each stanza is looked at a few times at most; at the limit all the same, so that outdated presence goes
        // before a stanza finds no room.
        let left = self.stanzas.len();
        self.compact_at = (2 * left).min(limits::BACKLOG.max(left + limits::BACKLOG_COMPACTED));
    }
}

impl Flow {
    /// On a new connection nothing is on its way.
    fn restart(&mut self) {
        (self.since, self.is_flushing) = (0, false);
    }

    fn stanzas(&self) -> impl Iterator<Item = &(Instant, Element)> {
        self.backlog.iter().flat_map(|backlog| backlog.stanzas.iter())
    }

    /// The stanzas that were never sent, when the session ends.
    pub(super) fn take_stanzas(&mut self) -> VecDeque<(Instant, Element)> {
        self.backlog.take().map(|backlog| backlog.stanzas).unwrap_or_default()
    }

    pub(super) fn waiting(&self, which: impl Fn(&Element) -> bool) -> usize {
        self.stanzas().filter(|(_, stanza)| which(stanza)).count()
    }
}

/// Everything that a session asks of its host.
pub(in super::super) enum DeliveryEffect {
    /// The client has acknowledged nothing for long: the session ends with this stream error.
    Close(&'static str),
    /// The session has no room for this stanza, which is stored, answered or dropped by its kind.
    Overflow(Element),
}

/// A request to an archive: its owner and the iq.
pub(in super::super) type ArchiveQuestion = (Bare, Element);

/// The state of a session's backlog after as much of it was sent as the window takes.
pub(in super::super) enum BacklogProgress {
    /// Stanzas are left.
    Waiting,
    /// All stanzas are sent; the next question to an archive is due, if there is one.
    Sent(Option<ArchiveQuestion>),
}

/// The refusal of a question to an archive: too many wait.
pub(in super::super) struct TooManyQuestions;

impl Session {
    /// One window may be under way while the connection writes the one before, so up to two are ahead of the client.
    /// Stream management has a limit of its own on stanzas that are not acknowledged.
    fn has_window(&self) -> bool {
        let is_open = !self.flow.is_flushing || self.flow.since < limits::WINDOW;
        self.edge.is_some() && is_open && self.sm.as_ref().is_none_or(|sm| !sm.is_full())
    }

    fn has_backlog(&self) -> bool {
        self.flow.backlog.as_ref().is_some_and(|backlog| !backlog.stanzas.is_empty())
    }

    /// Sends a stanza to the client, once the client has read the stanzas before it.
    pub(super) fn send(
        &mut self,
        now: Instant,
        stanza: Element,
        out: &mut Outbox,
        effects: &mut Vec<DeliveryEffect>,
    ) {
        // A stanza for a session that ends is dropped, as for one that has ended.
        if effects.iter().any(|effect| matches!(effect, DeliveryEffect::Close(_))) {
            return;
        }
        match self.edge {
            Some(edge) if self.has_window() && !self.has_backlog() => {
                transmit(self, edge, (now, now), stanza, out);
                ask(self, edge, out);
            }
            None if self.sm.is_none() => {}
            _ => self.queue(now, stanza, effects),
        }
    }

    /// Puts a stanza into the backlog, or hands it back. A client that is connected and has acknowledged nothing for long
    /// is given up.
    fn queue(&mut self, now: Instant, stanza: Element, effects: &mut Vec<DeliveryEffect>) {
        if self.sm.as_ref().is_some_and(|sm| sm.is_abandoned(now)) && self.edge.is_some() {
            effects.extend([DeliveryEffect::Close("resource-constraint"), DeliveryEffect::Overflow(stanza)]);
            return;
        }
        let is_asleep = self.edge.is_none();
        let backlog = self.flow.backlog.get_or_insert_default();
        // Answers were asked for: the requests bound them, and a bound of their own.
        let is_answer = matches!(stanza.attr("type"), Some("result" | "error")) && stanza.name() == "iq";
        let has_room =
            backlog.weight < 2 * limits::BACKLOG_BYTES && backlog.stanzas.len() < 2 * limits::BACKLOG;
        if !backlog.is_full(is_asleep) || (is_answer && has_room) {
            return backlog.push(now, stanza);
        }
        effects.push(DeliveryEffect::Overflow(stanza));
    }

    /// The connection has written the stanzas that it was given before the last `Flush`.
    pub(in super::super) fn handle_drained(&mut self, out: &mut Outbox) {
        let Some(edge) = self.edge else { return };
        self.flow.is_flushing = false;
        flush(self, edge, out);
    }

    /// Sends as much of the backlog as the window takes; `None`: the session has no connection.
    pub(in super::super) fn send_backlog(
        &mut self,
        now: Instant,
        out: &mut Outbox,
    ) -> Option<BacklogProgress> {
        let edge = self.edge?;
        while self.has_window()
            && let Some((at, stanza)) = self.flow.backlog.as_mut().and_then(|backlog| backlog.pop())
        {
            transmit(self, edge, (now, at), stanza, out);
        }
        ask(self, edge, out);
        if self.has_backlog() {
            return Some(BacklogProgress::Waiting);
        }
        let backlog = self.flow.backlog.as_mut().filter(|backlog| !backlog.is_paging);
        Some(BacklogProgress::Sent(backlog.and_then(|backlog| backlog.questions.pop_front())))
    }

    /// Frees the backlog if it is over. True: offline messages may follow, because a client that acknowledges has acknowledged
    /// all that was read for it before.
    pub(in super::super) fn end_backlog(&mut self) -> bool {
        if self.flow.backlog.as_ref().is_some_and(|backlog| backlog.is_over()) {
            self.flow.backlog = None;
        }
        self.sm.as_ref().is_none_or(|sm| sm.is_acknowledged())
    }

    /// True: nothing more should be read for the session.
    pub(in super::super) fn is_congested(&self) -> bool {
        self.has_backlog() || !self.has_window()
    }

    /// A new connection: unacknowledged stanzas go out again, before waiting ones.
    pub(in super::super) fn restart_flow(&mut self) {
        self.flow.restart();
        if let Some(unacknowledged) = self.sm.as_mut().map(|sm| sm.take_unacknowledged())
            && !unacknowledged.is_empty()
        {
            let backlog = self.flow.backlog.get_or_insert_default();
            for (at, stanza) in unacknowledged.into_iter().rev() {
                backlog.weight += weight(&stanza);
                backlog.stanzas.push_front((at, stanza));
            }
        }
    }

    /// The session asks an archive: one page at a time, and not before the last one is sent. False: the question waits.
    ///
    /// # Errors
    /// Too many questions wait.
    pub(in super::super) fn begin_page(
        &mut self,
        owner: &Bare,
        iq: &Element,
    ) -> Result<bool, TooManyQuestions> {
        let is_busy = self.has_backlog();
        let backlog = self.flow.backlog.get_or_insert_default();
        if !is_busy && !backlog.is_paging {
            backlog.is_paging = true;
            return Ok(true);
        }
        if backlog.questions.len() >= limits::PAGES_ASKED {
            return Err(TooManyQuestions);
        }
        backlog.questions.push_back((owner.clone(), iq.clone()));
        Ok(false)
    }

    /// The page is sent, or waits to be.
    pub(in super::super) fn end_page(&mut self) {
        if let Some(backlog) = &mut self.flow.backlog {
            backlog.is_paging = false;
        }
    }

    /// Takes the stanzas that were never sent, when the session ends.
    pub(in super::super) fn take_unsent(&mut self) -> VecDeque<(Instant, Element)> {
        self.flow.take_stanzas()
    }

    /// The number of messages of a kind that the client has not acknowledged.
    pub(in super::super) fn unacknowledged(&self, which: impl Fn(&Element) -> bool) -> usize {
        let Some(sm) = &self.sm else { return 0 };
        let is_it = |stanza: &Element| stanza::kind_of(stanza) == Some(StanzaKind::Message) && which(stanza);
        sm.waiting(is_it) + self.flow.waiting(is_it)
    }
}

/// Sends a stanza to the connection, which has room, and keeps it until the client acknowledges it. `at`: when it came.
fn transmit(
    session: &mut Session,
    edge: ConnectionId,
    (now, at): (Instant, Instant),
    stanza: Element,
    out: &mut Outbox,
) {
    let weight = weight(&stanza);
    if let Some(sm) = &mut session.sm {
        sm.push(now, at, &stanza, weight);
    }
    out.push(Effect::Deliver { edge, element: stanza });
    session.flow.since = session.flow.since.saturating_add(u32::try_from(weight).unwrap_or(u32::MAX));
    flush(session, edge, out);
}

/// Asks the client for an acknowledgement (XEP-0198 §4), when that is due.
fn ask(session: &mut Session, edge: ConnectionId, out: &mut Outbox) {
    let question = session.sm.as_mut().filter(|sm| sm.wants_to_ask()).map(|sm| sm.ask());
    out.extend(question.map(|element| Effect::Deliver { edge, element }));
}

/// Asks the connection to report that it has written a whole window, one report at a time ([`Session::handle_drained`]).
fn flush(session: &mut Session, edge: ConnectionId, out: &mut Outbox) {
    let flow = &mut session.flow;
    if flow.since >= limits::WINDOW && !flow.is_flushing {
        (flow.since, flow.is_flushing) = (0, true);
        out.push(Effect::Flush { edge });
    }
}
