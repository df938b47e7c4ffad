//! The flow control of a session: the amount sent ahead of what its client has read.
//!
//! A connection is given stanzas up to a window and then an [`Effect::Flush`], which [`Host::handle_drained`]
//! answers once the connection has written what it had. Beyond the window stanzas wait here, so that offline
//! messages, pages of archives and rooms go out as the client reads. Stanzas beyond that are stored, answered
//! or dropped by their kind: a stream never ends because of stanzas that others send to it
//! (`docs/decisions/0025`).

use std::collections::{HashSet, VecDeque};

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::{Bare, ConnectionId, Element, ns};

use super::effect::Effect;
use super::session::Session;
use super::sm::weight;
use super::{Host, Outbox, csi};
use crate::limits;

/// The flow control of one session.
#[derive(Default)]
pub(super) struct Flow {
    /// Weight of the stanzas sent since the last `Flush`.
    since: u32,
    /// A `Flush` is not answered yet.
    is_flushing: bool,
    /// `None`: nothing waits, as nearly always.
    backlog: Option<Box<Backlog>>,
}

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
        // Twice as many, so that each stanza is looked at a few times at most.
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

impl Session {
    fn has_window(&self) -> bool {
        let is_open = !self.flow.is_flushing || self.flow.since < limits::WINDOW;
        self.edge.is_some() && is_open && self.sm.as_ref().is_none_or(|sm| !sm.is_full())
    }

    fn has_backlog(&self) -> bool {
        self.flow.backlog.as_ref().is_some_and(|backlog| !backlog.stanzas.is_empty())
    }
}

impl Host {
    /// To the client of a session, once it has read what it was sent before.
    pub(super) fn session_send(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.edge {
            Some(edge) if session.has_window() && !session.has_backlog() => {
                transmit(session, edge, (now, now), stanza, out);
                ask(session, edge, out);
            }
            None if session.sm.is_none() => {}
            _ => self.session_wait(now, key, stanza, out),
        }
    }

    fn session_wait(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.sm.as_ref().is_some_and(|sm| sm.is_abandoned(now)) && session.edge.is_some() {
            self.close_session(now, key, "resource-constraint", out);
            return self.session_overflow(now, key, stanza, out);
        }
        let is_asleep = session.edge.is_none();
        let backlog = session.flow.backlog.get_or_insert_default();
        // Answers were asked for: the requests bound them, and a bound of their own.
        let is_answer = matches!(stanza.attr("type"), Some("result" | "error")) && stanza.name() == "iq";
        let has_room =
            backlog.weight < 2 * limits::BACKLOG_BYTES && backlog.stanzas.len() < 2 * limits::BACKLOG;
        if !backlog.is_full(is_asleep) || (is_answer && has_room) {
            return backlog.push(now, stanza);
        }
        self.session_overflow(now, key, stanza, out);
    }

    /// A session has no room for it.
    pub(super) fn session_overflow(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        let user = match self.sessions.get(key) {
            Some(session) => session.jid.bare(),
            None => match stanza::to(&stanza) {
                Ok(Some(to)) => to.bare(),
                _ => return,
            },
        };
        match stanza::kind_of(&stanza) {
            // XEP-0045: a room that hears that removes the occupant (333).
            Some(StanzaKind::Message) if stanza.attr("type") == Some("groupchat") => {
                self.refuse(&stanza, &Condition::RecipientUnavailable.into(), out);
            }
            // These are in an archive, or are still stored.
            Some(StanzaKind::Message)
                if stanza
                    .elements()
                    .any(|child| matches!(child.ns(), ns::CARBONS | ns::MAM | ns::OFFLINE)) => {}
            Some(StanzaKind::Message) => self.keep_message(now, &user, stanza, out),
            Some(StanzaKind::Iq) => self.refuse(&stanza, &Condition::ResourceConstraint.into(), out),
            Some(StanzaKind::Presence) | None => {}
        }
    }

    /// The connection has written what it was given before the last `Flush`.
    pub fn handle_drained(&mut self, now: Instant, edge: ConnectionId, out: &mut Outbox) {
        let Some(&key) = self.by_edge.get(&edge) else { return };
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.flow.is_flushing = false;
        flush(session, edge, out);
        self.send_backlog(now, key, out);
    }

    /// As much of it as the window takes.
    pub(super) fn send_backlog(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(edge) = session.edge else { return };
        while session.has_window()
            && let Some((at, stanza)) = session.flow.backlog.as_mut().and_then(|backlog| backlog.pop())
        {
            transmit(session, edge, (now, at), stanza, out);
        }
        ask(session, edge, out);
        if session.has_backlog() {
            return;
        }
        self.next_page(now, key, out);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.flow.backlog.as_ref().is_some_and(|backlog| backlog.is_over()) {
            session.flow.backlog = None;
        }
        // A client that acknowledges has to have had what was read for it before.
        if session.sm.as_ref().is_none_or(|sm| sm.is_acknowledged()) {
            self.offline_deliver(now, key, out);
        }
    }

    /// Nothing more should be read for it.
    pub(super) fn is_congested(&self, key: Key) -> bool {
        self.sessions.get(key).is_some_and(|session| session.has_backlog() || !session.has_window())
    }

    /// A new connection: unacknowledged stanzas go out again, before waiting ones.
    pub(super) fn restart_flow(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.flow.restart();
        if let Some(unacknowledged) = session.sm.as_mut().map(|sm| sm.take_unacknowledged())
            && !unacknowledged.is_empty()
        {
            let backlog = session.flow.backlog.get_or_insert_default();
            for (at, stanza) in unacknowledged.into_iter().rev() {
                backlog.weight += weight(&stanza);
                backlog.stanzas.push_front((at, stanza));
            }
        }
        self.send_backlog(now, key, out);
    }

    /// A session asks an archive: one page at a time, and not before the last one is sent. `None`: it waits, or was
    /// refused.
    pub(super) fn begin_page<'a>(
        &mut self,
        key: Option<Key>,
        owner: &Bare,
        iq: &'a Element,
        out: &mut Outbox,
    ) -> Option<&'a Element> {
        let Some(session) = key.and_then(|key| self.sessions.get_mut(key)) else { return Some(iq) };
        let is_busy = session.has_backlog();
        let backlog = session.flow.backlog.get_or_insert_default();
        if !is_busy && !backlog.is_paging {
            backlog.is_paging = true;
            return Some(iq);
        }
        if backlog.questions.len() < limits::PAGES_ASKED {
            backlog.questions.push_back((owner.clone(), iq.clone()));
        } else {
            self.refuse(iq, &Condition::ResourceConstraint.into(), out);
        }
        None
    }

    /// The page is sent, or waits to be.
    pub(super) fn end_page(&mut self, now: Instant, key: Option<Key>, out: &mut Outbox) {
        let Some(session) = key.and_then(|key| self.sessions.get_mut(key)) else { return };
        if let Some(backlog) = &mut session.flow.backlog {
            backlog.is_paging = false;
        }
        key.into_iter().for_each(|key| self.send_backlog(now, key, out));
    }

    fn next_page(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(backlog) = self.sessions.get_mut(key).and_then(|session| session.flow.backlog.as_mut())
        else {
            return;
        };
        if !backlog.is_paging
            && let Some((owner, iq)) = backlog.questions.pop_front()
        {
            self.archive_query(now, &owner, &iq, out);
        }
    }
}

/// It goes to the connection, which has room. `at`: when it came.
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

/// For an acknowledgement, when that is due.
fn ask(session: &mut Session, edge: ConnectionId, out: &mut Outbox) {
    let question = session.sm.as_mut().filter(|sm| sm.wants_to_ask()).map(|sm| sm.ask());
    out.extend(question.map(|element| Effect::Deliver { edge, element }));
}

fn flush(session: &mut Session, edge: ConnectionId, out: &mut Outbox) {
    let flow = &mut session.flow;
    if flow.since >= limits::WINDOW && !flow.is_flushing {
        (flow.since, flow.is_flushing) = (0, true);
        out.push(Effect::Flush { edge });
    }
}
