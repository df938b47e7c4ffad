//! One client that is signed in: its bound resource, as a machine. `connection` gives it the elements of its client and of the connection,
//! `AccountMemory::deliver` the stanzas for it. A stanza for the client passes up to four stages, each of which may hold it back: `waits`
//! (the client does not know its address yet), the client state (`csi`), the window of the connection (`flow`) and stream management (`sm`).
//! A stanza that has no place comes back to the host as a `DeliveryEffect`.

mod flow;

use std::time::Duration;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::xml::Packed;
use xmpp::{ConnectionId, Element, Jid, ShardAddress};

use self::flow::Flow;
pub(super) use self::flow::{BacklogProgress, DeliveryEffect, TooManyQuestions};
use super::announce::AnnouncedSession;
use super::csi::ClientState;
use super::effect::{Effect, StreamFault};
use super::sm::{Handled, Sm, TooManyUnhandled};
use super::sparse::SparseVec;
use super::{Outbox, ack, sm};
use crate::limits;

/// A session of an account: a bound resource with its presence and stream management.
pub struct Session {
    /// The full address.
    pub jid: Jid,
    /// The time at which it was bound, or made again at this host ([`Session::restore`]).
    pub(super) began: Instant,
    /// `None`: the connection is lost, and the session waits to be resumed.
    pub(super) edge: Option<ConnectionId>,
    /// The time at which it ends unless its client comes back. None while it has a connection.
    pub(super) sleeps_until: Option<Instant>,
    /// The last presence that it broadcast; `None`: it is not available.
    pub(super) presence: Option<Packed>,
    /// That of `presence`; 0 without one. If it is negative, the session takes no messages for the account (RFC 6121
    /// §4.7.2.3).
    pub(super) priority: i8,
    /// The time since which it takes messages for the account ([`Session::is_able`]), while it does.
    pub(super) able_since: Instant,
    /// It asked for the roster and is told of changes.
    pub(super) is_interested: bool,
    /// Shared groups have changed so much that it was not told of it: it has no version of the roster until it asks again.
    pub(super) has_old_groups: bool,
    /// It asked for the blocking list and is told of changes (XEP-0191).
    pub(super) wants_blocklist: bool,
    /// It gets copies of the other sessions' messages (XEP-0280).
    pub(super) has_carbons: bool,
    /// The time since which it gets them, while it does.
    pub(super) carbons_since: Instant,
    /// The state that its client has said (XEP-0352), and the stanzas that are held back meanwhile.
    pub(super) client_state: ClientState,
    /// Addresses that got directed presence (RFC 6121 §4.6).
    pub(super) directed: SparseVec<Jid>,
    /// Rooms among them whose last answer said that the session is not there: the session does not enter them again by itself.
    pub(super) left_rooms: SparseVec<Jid>,
    /// Stream management (XEP-0198). None: the client has not enabled it.
    pub(super) sm: Option<Box<Sm>>,
    /// Stanzas that are ahead of the client, and those that wait for it.
    flow: Flow,
    /// It has an account for as long as it lasts: nothing is stored for it, and it cannot be resumed.
    pub(super) is_anonymous: bool,
    /// Its registration for notifications (XEP-0357).
    pub(super) push: Option<Box<str>>,
    /// The client's own id (XEP-0388 §2.3.1).
    pub(super) agent: Option<Box<str>>,
    /// Stanzas that came before the client knows its address (XEP-0386). `None`: it knows it.
    waits: Option<Box<WaitingStanzas>>,
    /// It chooses among the messages that waited (XEP-0013).
    pub(super) takes_offline: bool,
    /// Its presence says that it shows no avatar (XEP-0153): the hash of the account's avatar is not added.
    pub(super) hides_avatar: bool,
}

/// Stanzas for a client that does not know its address yet.
#[derive(Default)]
struct WaitingStanzas(Vec<Element>);

impl Session {
    pub(super) fn new(now: Instant, jid: Jid, edge: ConnectionId, is_anonymous: bool) -> Session {
        Session {
            jid,
            began: now,
            edge: Some(edge),
            sleeps_until: None,
            presence: None,
            priority: 0,
            able_since: now,
            is_interested: false,
            has_old_groups: false,
            wants_blocklist: false,
            has_carbons: false,
            carbons_since: now,
            client_state: ClientState::default(),
            directed: SparseVec::default(),
            left_rooms: SparseVec::default(),
            sm: None,
            flow: Flow::default(),
            is_anonymous,
            push: None,
            agent: None,
            waits: None,
            takes_offline: false,
            hides_avatar: false,
        }
    }

    /// A session that another host has had, without its presence: the caller makes it available once the account's data are in memory.
    /// A session that is announced only to end has no stream management.
    pub(super) fn restore(now: Instant, edge: ConnectionId, mut announced: AnnouncedSession) -> Session {
        let mut session = Session::new(now, announced.jid.clone(), edge, false);
        session.sm = (!announced.is_ending()).then(|| Box::new(Sm::restore(now, &mut announced)));
        session.directed = announced.directed.into();
        session.left_rooms = announced.left_rooms.into();
        session.is_interested = announced.is_interested;
        session.wants_blocklist = announced.wants_blocklist;
        session.has_carbons = announced.has_carbons;
        session.takes_offline = announced.takes_offline;
        session.agent = announced.agent;
        if announced.is_inactive {
            session.client_state.handle_inactive();
        }
        session
    }

    /// The session as a node announces it to the next host if this one dies. None: it cannot be resumed.
    pub(super) fn announced(&self) -> Option<AnnouncedSession> {
        let mut announced = AnnouncedSession::new(self.jid.clone());
        if !self.sm.as_ref()?.describe(&mut announced) {
            return None;
        }
        Some(AnnouncedSession {
            presence: self.presence(),
            directed: self.directed.to_vec(),
            left_rooms: self.left_rooms.to_vec(),
            is_interested: self.is_interested,
            wants_blocklist: self.wants_blocklist,
            has_carbons: self.has_carbons,
            is_inactive: self.client_state.is_inactive(),
            takes_offline: self.takes_offline,
            agent: self.agent.clone(),
            ..announced
        })
    }

    /// Its last broadcast presence.
    pub(super) fn presence(&self) -> Option<Element> {
        self.presence.as_ref()?.unpack()
    }

    /// True if the session is available (RFC 6121 §4.2).
    pub fn is_available(&self) -> bool {
        self.presence.is_some()
    }

    /// True if the session takes messages for the account (RFC 6121 §8.5.2.1.1).
    pub(super) fn is_able(&self) -> bool {
        self.is_available() && self.priority >= 0
    }

    /// Turns copies of the other sessions' messages on or off (XEP-0280).
    pub(super) fn set_carbons(&mut self, now: Instant, is_on: bool) {
        if is_on && !self.has_carbons {
            self.carbons_since = now;
        }
        self.has_carbons = is_on;
    }

    /// The client does not know its address yet: stanzas for it wait until [`end_wait`](Self::end_wait).
    pub(super) fn begin_wait(&mut self) {
        self.waits = Some(Box::default());
    }

    /// The client learns its address. Returns the stanzas that have waited for this, in their order.
    pub(super) fn end_wait(&mut self) -> Vec<Element> {
        self.waits.take().map(|waits| waits.0).unwrap_or_default()
    }

    /// Sends a stanza to the client, or queues it. The effects are for the caller, which has the other machines.
    pub(super) fn deliver(&mut self, now: Instant, stanza: Element, out: &mut Outbox) -> Vec<DeliveryEffect> {
        let mut effects = Vec::new();
        match &mut self.waits {
            Some(waits) if waits.0.len() < limits::SM_QUEUE => waits.0.push(stanza),
            Some(_) => effects.push(DeliveryEffect::Overflow(stanza)),
            None if self.client_state.is_inactive() => {
                for stanza in self.client_state.handle_stanza(stanza) {
                    self.send(now, stanza, out, &mut effects);
                }
            }
            None => self.send(now, stanza, out, &mut effects),
        }
        effects
    }

    /// Handles `<active/>` and `<inactive/>` (XEP-0352).
    pub(super) fn handle_client_state(
        &mut self,
        now: Instant,
        state: &Element,
        out: &mut Outbox,
    ) -> Vec<DeliveryEffect> {
        match state.name() {
            "active" => return self.activate(now, out),
            "inactive" => self.client_state.handle_inactive(),
            _ => {}
        }
        Vec::new()
    }

    /// The client is active: it gets the stanzas that were held back.
    pub(super) fn activate(&mut self, now: Instant, out: &mut Outbox) -> Vec<DeliveryEffect> {
        let mut effects = Vec::new();
        for stanza in self.client_state.handle_active() {
            self.send(now, stanza, out, &mut effects);
        }
        effects
    }

    /// Counts a stanza of the client (XEP-0198 §4), and puts the mark of its acknowledgement on a message; a mark from the client itself is
    /// taken off. False: too many messages are unhandled.
    pub(super) fn count(
        &mut self,
        now: Instant,
        (host, key): (ShardAddress, Key),
        stanza: &mut Element,
    ) -> bool {
        ack::take_ack_token(stanza);
        let Some(sm) = &mut self.sm else { return true };
        match sm.count(now, stanza::kind_of(stanza) == Some(StanzaKind::Message)) {
            Ok(number) => {
                ack::put_ack_token(stanza, number.map(|number| ack::new_ack_token(host, key, number)));
                true
            }
            Err(TooManyUnhandled) => false,
        }
    }

    /// A message of the client is handled a step further; the client gets an answer that it waits for.
    pub(super) fn handle_handled(&mut self, number: u64, out: &mut Outbox) {
        let handled = self.sm.as_mut().and_then(|sm| sm.handle_handled(number, self.edge.is_some()));
        let Some(Handled { came, answer }) = handled else { return };
        out.push(Effect::Handled(came));
        if let (Some(edge), Some(element)) = (self.edge, answer) {
            out.push(Effect::Deliver { edge, element });
        }
    }

    /// Enables stream management (XEP-0198 §3). `id`: the id of a session that can be resumed, for at most `longest`.
    pub(super) fn enable_sm(&mut self, request: &Element, id: Box<str>, longest: Duration) -> Element {
        if self.sm.is_some() {
            return sm::failed(Condition::UnexpectedRequest);
        }
        // An anonymous client cannot prove its identity again.
        let longest = if self.is_anonymous { Duration::ZERO } else { longest };
        let (sm, enabled) = Sm::enable(request, id, longest);
        self.sm = Some(Box::new(sm));
        enabled
    }

    /// Loses its connection. The time until which the session waits to be resumed; `None`: it does not.
    pub(super) fn sleep(&mut self, now: Instant) -> Option<Instant> {
        let until = now + self.sm.as_ref()?.resumable_for()?;
        self.edge = None;
        self.sleeps_until = Some(until);
        Some(until)
    }

    /// Comes back on a new connection (XEP-0198 §5), with the connection that it had before and the answer.
    ///
    /// # Errors
    /// The stream error for a client that says that it has had more stanzas than there were.
    pub(super) fn resume(
        &mut self,
        edge: ConnectionId,
        (id, seen): (&str, u32),
    ) -> Result<(Option<ConnectionId>, Element), StreamFault> {
        // `resume::find` finds sessions with stream management only.
        let Some(sm) = &mut self.sm else { return Err("undefined-condition".into()) };
        let resumed = sm.resume(id, seen)?;
        self.sleeps_until = None;
        Ok((self.edge.replace(edge), resumed))
    }
}
