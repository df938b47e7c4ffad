//! Sessions that are announced to the next host of their account, in a farm whose nodes share a database. The host of an account may
//! die with its node while the client's connection, at another node, lives. That node follows the session from outside
//! ([`FollowedSession`]): it sees every element of the stream. When the host is dead it announces the session ([`AnnouncedSession`]) to
//! the next one, which makes it again ([`restore`](super::restore)), and the client notices nothing.
//!
//! The announcement has the state after the client's last acknowledged stanza. The connection's node then sends the later ones
//! again, as a client does that resumes (XEP-0198 §5): each of them has its effect once at least.
//!
//! Order matters: a stanza of the client has its effect on the announced state (`apply`) only once the host has
//! acknowledged it, as the host then has performed it; until then it is kept, to be sent again.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use xmpp::c2s::BindRequest;
use xmpp::stanza::{self, StanzaKind};
use xmpp::{Element, Jid, ns};

use crate::limits;

/// A session of an account whose host is dead, for the next host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedSession {
    /// The full address.
    pub jid: Jid,
    /// The identifier by which it can be resumed; empty: it is made again only to end, so that all that saw its presence are told.
    pub id: Box<str>,
    /// The time for which it may be without a connection, in whole seconds.
    pub resumable_for: Duration,
    /// The number of the client's stanzas that are handled, as the wire has it (XEP-0198 §4).
    pub received: u32,
    /// The number of stanzas that the client has acknowledged.
    pub acknowledged: u32,
    /// Stanzas that were sent after these.
    pub unacknowledged: Vec<Element>,
    /// The last presence that it broadcast; none: it is not available.
    pub presence: Option<Element>,
    /// Addresses that got directed presence.
    pub directed: Vec<Jid>,
    /// Occupants' addresses, of rooms whose last answer said that the session is not there: it has been removed, was refused, or has
    /// another nickname.
    pub left_rooms: Vec<Jid>,
    /// It is told of changes of the roster.
    pub is_interested: bool,
    /// It is told of changes of the block list.
    pub wants_blocklist: bool,
    /// It gets carbons (XEP-0280).
    pub has_carbons: bool,
    /// Its client is inactive (XEP-0352).
    pub is_inactive: bool,
    /// It chooses among the messages that waited (XEP-0013).
    pub takes_offline: bool,
    /// The client's own id (XEP-0388 §2.3.1).
    pub agent: Option<Box<str>>,
}

impl AnnouncedSession {
    /// A session that has only its address.
    pub fn new(jid: Jid) -> AnnouncedSession {
        AnnouncedSession {
            jid,
            id: "".into(),
            resumable_for: Duration::ZERO,
            received: 0,
            acknowledged: 0,
            unacknowledged: Vec::new(),
            presence: None,
            directed: Vec::new(),
            left_rooms: Vec::new(),
            is_interested: false,
            wants_blocklist: false,
            has_carbons: false,
            is_inactive: false,
            takes_offline: false,
            agent: None,
        }
    }

    /// True for a session that is made again only to end.
    pub fn is_ending(&self) -> bool {
        self.id.is_empty()
    }

    /// The effect of a stanza of the client on the session: as that of the handlers of the host, which are elsewhere (`presence`, `roster`,
    /// `blocking`, `carbons`, `offline`). A message has none.
    fn apply(&mut self, stanza: &Element) {
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Presence) => self.apply_presence(stanza),
            Some(StanzaKind::Iq) => self.apply_iq(stanza),
            Some(StanzaKind::Message) | None => {}
        }
    }

    /// As `presence::handle_outbound`; but the roster is not known here, so contacts that get the end of a broadcast
    /// anyway are noted too.
    fn apply_presence(&mut self, presence: &Element) {
        let Ok(to) = stanza::to(presence) else { return };
        match (presence.attr("type"), to) {
            (None, None) if presence.written_len(ns::CLIENT) <= limits::PRESENCE => {
                self.presence = Some(presence.clone());
            }
            (Some("unavailable"), None) => {
                self.presence = None;
                self.directed.clear();
                self.left_rooms.clear();
            }
            (None, Some(to)) => {
                let is_known = self.directed.contains(&to) || to.bare() == self.jid.bare();
                if !is_known && self.directed.len() < limits::DIRECTED {
                    self.directed.push(to);
                }
            }
            (Some("unavailable"), Some(to)) => {
                self.directed.retain(|known| *known != to);
                self.left_rooms.retain(|known| *known != to);
            }
            _ => {}
        }
    }

    /// Requests to the client's own account by which a session is told of changes from then on.
    fn apply_iq(&mut self, iq: &Element) {
        let is_own = |to: Option<Jid>| to.is_none_or(|to| to.is_bare() && to.bare() == self.jid.bare());
        if !stanza::to(iq).is_ok_and(is_own) {
            return;
        }
        let Some(payload) = iq.elements().next() else { return };
        match (iq.attr("type"), payload.ns(), payload.name()) {
            (Some("set"), ns::CARBONS, name @ ("enable" | "disable")) => self.has_carbons = name == "enable",
            (Some("get"), ns::ROSTER, "query") => self.is_interested = true,
            (Some("get"), ns::BLOCKING, "blocklist") => self.wants_blocklist = true,
            (Some("get"), ns::OFFLINE, "offline") => self.takes_offline = true,
            _ => {}
        }
    }

    /// A client asks a room for entry, or a room has answered. The client's request decides which addresses have its presence; the
    /// answers, which come in the order of the requests, decide only if a room is entered again: a late one does no harm.
    fn note_room(&mut self, occupant: Jid, is_there: bool) {
        self.left_rooms.retain(|known| *known != occupant);
        if !is_there && self.left_rooms.len() < limits::DIRECTED {
            self.left_rooms.push(occupant);
        }
    }
}

/// The answer of a room in a presence for the session that is, was or wants to be its occupant: true if the session is there (XEP-0045
/// §7.1, §7.14, §8.2). None: the presence says nothing about that.
pub(super) fn room_answer(presence: &Element) -> Option<bool> {
    let is_self = |x: &Element| {
        x.elements().any(|status| status.name() == "status" && status.attr("code") == Some("110"))
    };
    match presence.attr("type") {
        Some("error") => Some(false),
        kind @ (None | Some("unavailable")) => {
            presence.get("x", ns::MUC_USER).filter(|x| is_self(x)).map(|_| kind.is_none())
        }
        _ => None,
    }
}

/// Stanzas of one direction that the other side has not acknowledged.
#[derive(Debug, Default)]
struct UnacknowledgedStanzas {
    /// The number of stanzas that are acknowledged.
    acknowledged: u32,
    /// The number of those that are not.
    count: u32,
    /// These stanzas; none of them once they were too many.
    stanzas: VecDeque<Element>,
    /// The size of `stanzas` as they are written, for the limit.
    bytes: usize,
    /// They were too many, and are kept no more until all are acknowledged: the session cannot go on at another host.
    is_over: bool,
}

impl UnacknowledgedStanzas {
    /// Adds a stanza. Returns those that are not kept: there are too many.
    fn push(&mut self, stanza: Element) -> VecDeque<Element> {
        self.count += 1;
        self.bytes += stanza.written_len("");
        self.stanzas.push_back(stanza);
        self.is_over |= self.stanzas.len() > limits::FOLLOWED || self.bytes > limits::FOLLOWED_BYTES;
        if !self.is_over {
            return VecDeque::new();
        }
        self.bytes = 0;
        std::mem::take(&mut self.stanzas)
    }

    /// The other side has had so many. Returns the stanzas that it has acknowledged now.
    fn acknowledge(&mut self, h: u32) -> VecDeque<Element> {
        let fresh = h.wrapping_sub(self.acknowledged);
        if fresh > self.count {
            // The host ends the stream.
            return VecDeque::new();
        }
        self.acknowledged = h;
        self.count -= fresh;
        if self.count == 0 {
            (self.bytes, self.is_over) = (0, false);
            return std::mem::take(&mut self.stanzas);
        }
        let kept = self.stanzas.len().saturating_sub(self.count as usize);
        let acknowledged: VecDeque<Element> = self.stanzas.drain(..kept).collect();
        self.bytes -= acknowledged.iter().map(|stanza| stanza.written_len("")).sum::<usize>();
        acknowledged
    }
}

/// A session whose host is at another node, as the node of its connection sees it.
#[derive(Debug)]
pub struct FollowedSession {
    /// The session after the client's last acknowledged stanza; its counts and stanzas are in the other fields.
    session: AnnouncedSession,
    /// The client has asked for stream management: its stanzas are counted from there (XEP-0198 §3).
    counts_client: bool,
    /// The host has enabled it, and the session can be resumed: stanzas to the client are counted from there.
    counts_host: bool,
    /// Stanzas of the client that the host has not acknowledged. They are sent to the next host after the announcement.
    from_client: UnacknowledgedStanzas,
    /// Stanzas of the host that the client has not acknowledged. They are in the announcement.
    to_client: UnacknowledgedStanzas,
    /// The client has asked for an acknowledgement and had none.
    is_asked: bool,
}

impl FollowedSession {
    /// The session that a client asks for.
    pub fn new(request: &BindRequest) -> FollowedSession {
        let mut session = AnnouncedSession::new(request.user.clone());
        let agent = request.agent.as_ref().filter(|_| request.is_bind2);
        session.agent = agent.and_then(|agent| agent.id.clone());
        for inline in &request.inline {
            match inline.ns() {
                ns::CARBONS => session.has_carbons |= inline.name() == "enable",
                ns::CSI => session.is_inactive = inline.name() == "inactive",
                _ => {}
            }
        }
        let mut followed = FollowedSession::of(session);
        followed.counts_client = request.inline.iter().any(|inline| inline.is("enable", ns::SM));
        followed
    }

    fn of(session: AnnouncedSession) -> FollowedSession {
        FollowedSession {
            session,
            counts_client: false,
            counts_host: false,
            from_client: UnacknowledgedStanzas::default(),
            to_client: UnacknowledgedStanzas::default(),
            is_asked: false,
        }
    }

    /// The session that a client has resumed at this node: its host has announced it.
    pub fn resumed(mut announced: AnnouncedSession) -> FollowedSession {
        let (received, acknowledged) = (announced.received, announced.acknowledged);
        let unacknowledged = std::mem::take(&mut announced.unacknowledged);
        let mut followed = FollowedSession::of(announced);
        (followed.counts_client, followed.counts_host) = (true, true);
        followed.from_client.acknowledged = received;
        followed.to_client.acknowledged = acknowledged;
        for stanza in unacknowledged {
            followed.to_client.push(stanza);
        }
        followed
    }

    /// The client has a session with this address, and these answers to its requests.
    pub fn handle_bound(&mut self, jid: &Jid, inline: &[Element]) {
        self.session.jid = jid.clone();
        inline.iter().for_each(|answer| self.handle_management(answer));
    }

    /// A stanza of the client. True: it waits for an acknowledgement, as the first.
    pub fn handle_stanza(&mut self, stanza: &Element) -> bool {
        if stanza::kind_of(stanza) == Some(StanzaKind::Presence)
            && stanza.attr("type").is_none()
            && let Ok(Some(to)) = stanza::to(stanza)
        {
            self.session.note_room(to, true);
        }
        if !self.counts_client {
            self.session.apply(stanza);
            return false;
        }
        let was_over = self.from_client.is_over;
        for lost in self.from_client.push(stanza.clone()) {
            self.session.apply(&lost);
        }
        self.from_client.count == 1 && !was_over
    }

    /// An element of the client that is no stanza.
    pub fn handle_nonza(&mut self, nonza: &Element) {
        match (nonza.ns(), nonza.name()) {
            (ns::SM, "a") => {
                if let Some(h) = number_of(nonza) {
                    self.to_client.acknowledge(h);
                }
            }
            (ns::SM, "r") => self.is_asked = true,
            (ns::SM, "enable") => self.counts_client = true,
            (ns::CSI, name) => self.session.is_inactive = name == "inactive",
            _ => {}
        }
    }

    /// An element of the host for the client.
    pub fn handle_delivered(&mut self, element: Element) {
        match stanza::kind_of(&element) {
            None => self.handle_management(&element),
            Some(kind) => {
                if kind == StanzaKind::Presence
                    && let Some(is_there) = room_answer(&element)
                    && let Ok(Some(from)) = stanza::from(&element)
                    && self.has_presence_of(&from)
                {
                    self.session.note_room(from, is_there);
                }
                if self.counts_host {
                    self.to_client.push(element);
                }
            }
        }
    }

    /// The host's elements of stream management: they say from where stanzas are counted, and which of the client's have
    /// had their effect.
    fn handle_management(&mut self, element: &Element) {
        match (element.ns(), element.name()) {
            (ns::SM, "enabled") => {
                let seconds = element.attr("max").and_then(|max| max.parse().ok());
                if let Some((id, seconds)) = element.attr("id").zip(seconds) {
                    self.session.id = id.into();
                    self.session.resumable_for = Duration::from_secs(seconds);
                    self.counts_host = true;
                } else {
                    self.stop_counting();
                }
            }
            (ns::SM, "failed") if !self.counts_host => self.stop_counting(),
            (ns::SM, "a") => {
                let Some(h) = number_of(element) else { return };
                for stanza in self.from_client.acknowledge(h) {
                    self.session.apply(&stanza);
                }
                self.is_asked &= self.from_client.count > 0;
                if self.from_client.count == 0 {
                    // Answers to the client's leaving.
                    let AnnouncedSession { left_rooms, directed, .. } = &mut self.session;
                    left_rooms.retain(|room| directed.contains(room));
                }
            }
            _ => {}
        }
    }

    /// The session cannot be resumed, so it is enough to know the effect of the client's stanzas.
    fn stop_counting(&mut self) {
        self.counts_client = false;
        for stanza in std::mem::take(&mut self.from_client).stanzas {
            self.session.apply(&stanza);
        }
    }

    /// True if stanzas of the client wait for an acknowledgement, and the client has not asked for one.
    pub fn wants_to_ask(&self) -> bool {
        self.from_client.count > 0 && !self.is_asked
    }

    /// True if stanzas of the client wait for an acknowledgement.
    pub fn has_unacknowledged(&self) -> bool {
        self.from_client.count > 0
    }

    /// The session for the next host. One that cannot go on there, because it cannot be resumed or too many stanzas are not acknowledged,
    /// is announced to end. None: it need not be announced, as its presence was not seen.
    pub fn announce(&self) -> Option<AnnouncedSession> {
        if self.can_be_announced() {
            return Some(AnnouncedSession {
                received: self.from_client.acknowledged,
                acknowledged: self.to_client.acknowledged,
                unacknowledged: self.to_client.stanzas.iter().cloned().collect(),
                ..self.session.clone()
            });
        }
        self.announce_end()
    }

    /// The session for the next host, to end there. None: its presence was not seen. Of very many addresses with its presence the first
    /// ones are told.
    pub fn announce_end(&self) -> Option<AnnouncedSession> {
        let was_seen = self.session.presence.is_some() || !self.session.directed.is_empty();
        was_seen.then(|| {
            let mut session =
                AnnouncedSession { id: "".into(), left_rooms: Vec::new(), ..self.session.clone() };
            let mut bytes = 0;
            session.directed.retain(|to| {
                bytes += length_of(to);
                bytes <= limits::FOLLOWED_BYTES
            });
            session
        })
    }

    /// True if this address has the client's presence, or is about to have it.
    fn has_presence_of(&self, address: &Jid) -> bool {
        let is_for = |stanza: &Element| stanza::to(stanza).is_ok_and(|to| to.as_ref() == Some(address));
        address.resource().is_some()
            && (self.session.directed.contains(address) || self.from_client.stanzas.iter().any(is_for))
    }

    /// True if the session goes on at the next host.
    pub fn can_be_announced(&self) -> bool {
        let AnnouncedSession { directed, left_rooms, .. } = &self.session;
        let addresses: usize = directed.iter().chain(left_rooms).map(length_of).sum();
        let is_over =
            self.from_client.is_over || self.to_client.is_over || addresses > limits::FOLLOWED_BYTES;
        self.counts_host && !is_over
    }

    /// The elements of the client that the next host has to get after the announcement, in their order: stanzas that the dead host has
    /// not acknowledged, and what the client has said meanwhile.
    pub fn repeat(&self) -> Vec<Element> {
        let mut elements: Vec<Element> = self.from_client.stanzas.iter().cloned().collect();
        let acknowledged = self.to_client.acknowledged.to_string();
        elements.push(Element::new("a", ns::SM).with("h", acknowledged));
        elements.push(Element::new(if self.session.is_inactive { "inactive" } else { "active" }, ns::CSI));
        if self.from_client.count > 0 || self.is_asked {
            elements.push(Element::new("r", ns::SM));
        }
        elements
    }

    /// The full address.
    pub fn jid(&self) -> &Jid {
        &self.session.jid
    }
}

/// Bytes of an address, and of its field in an announcement.
fn length_of(address: &Jid) -> usize {
    address.as_str().len() + 8
}

/// The `h` of an acknowledgement (XEP-0198 §4).
fn number_of(element: &Element) -> Option<u32> {
    element.attr("h")?.parse().ok()
}
