//! Sessions that are announced to the next host of their account, in a farm whose nodes share a database. The host of an account may
//! die with its node while the client's connection, at another node, lives. That node follows the session from outside
//! ([`FollowedSession`]): it sees every element of the stream. When the host is dead it announces the session ([`AnnouncedSession`]) to
//! the next one, which makes it again ([`restore`](super::restore)), and the client notices nothing.
//!
//! What is announced is the state after the client's last acknowledged stanza. The connection's node then sends the later ones
//! again, as a client does that resumes (XEP-0198 §5): each of them has its effect once at least.

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

    /// The effect of a stanza of the client on the session.
    fn apply(&mut self, stanza: &Element) {
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Presence) => self.apply_presence(stanza),
            Some(StanzaKind::Iq) => self.apply_iq(stanza),
            Some(StanzaKind::Message) | None => {}
        }
    }

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

    /// A client asks a room for entry, or a room has answered. What the client asks decides which addresses have its presence; the
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
    bytes: usize,
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
    /// Stream management is on, and the session can be resumed.
    is_counting: bool,
    from_client: UnacknowledgedStanzas,
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
        FollowedSession::of(session)
    }

    fn of(session: AnnouncedSession) -> FollowedSession {
        FollowedSession {
            session,
            is_counting: false,
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
        followed.is_counting = true;
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
        if !self.is_counting {
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
                    && from.resource().is_some()
                {
                    self.session.note_room(from, is_there);
                }
                if self.is_counting {
                    self.to_client.push(element);
                }
            }
        }
    }

    fn handle_management(&mut self, element: &Element) {
        match (element.ns(), element.name()) {
            (ns::SM, "enabled") => {
                let seconds = element.attr("max").and_then(|max| max.parse().ok());
                if let Some((id, seconds)) = element.attr("id").zip(seconds) {
                    self.session.id = id.into();
                    self.session.resumable_for = Duration::from_secs(seconds);
                    self.is_counting = true;
                }
            }
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
        let was_seen = self.session.presence.is_some() || !self.session.directed.is_empty();
        was_seen.then(|| AnnouncedSession { id: "".into(), ..self.session.clone() })
    }

    /// True if the session goes on at the next host.
    pub fn can_be_announced(&self) -> bool {
        self.is_counting && !self.from_client.is_over && !self.to_client.is_over
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

fn number_of(element: &Element) -> Option<u32> {
    element.attr("h")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stanza(name: &'static str, id: usize) -> Element {
        Element::new(name, ns::CLIENT).with("id", id.to_string())
    }

    fn management(name: &'static str, h: u32) -> Element {
        Element::new(name, ns::SM).with("h", h.to_string())
    }

    /// A session whose client has enabled stream management.
    fn counting() -> FollowedSession {
        let user = Jid::parse("alice@example.org").expect("an address");
        let request = BindRequest {
            user: user.clone(),
            is_anonymous: false,
            resource: None,
            tag: None,
            agent: None,
            is_bind2: false,
            inline: Vec::new(),
        };
        let mut session = FollowedSession::new(&request);
        session.handle_bound(&user.with_resource("desk").expect("a resource"), &[]);
        assert_eq!(session.announce(), None, "it cannot be resumed, and its presence was not seen");
        let enabled =
            Element::new("enabled", ns::SM).with("id", "x").with("resume", "true").with("max", "300");
        session.handle_delivered(enabled);
        session
    }

    fn ids(stanzas: &[Element]) -> Vec<&str> {
        stanzas.iter().filter_map(|stanza| stanza.attr("id")).collect()
    }

    #[test]
    fn what_the_owner_has_acknowledged_is_announced_and_the_rest_is_sent_again() {
        let mut session = counting();
        let carbons = stanza("iq", 1).with("type", "set").child(Element::new("enable", ns::CARBONS));
        assert!(session.handle_stanza(&carbons), "the first that waits");
        assert!(!session.handle_stanza(&stanza("presence", 2)));
        assert!(!session.announce().expect("it can be resumed").has_carbons, "it is not acknowledged");
        session.handle_delivered(management("a", 1));
        let announced = session.announce().expect("it can be resumed");
        assert!(announced.has_carbons && announced.presence.is_none());
        assert_eq!((announced.received, &*announced.id), (1, "x"));
        let repeated = session.repeat();
        assert_eq!(ids(&repeated), ["2"]);
        assert!(repeated.last().is_some_and(|last| last.is("r", ns::SM)));
        session.handle_delivered(management("a", 2));
        assert!(session.announce().is_some_and(|announced| announced.presence.is_some()));
        assert!(ids(&session.repeat()).is_empty() && !session.has_unacknowledged());
    }

    #[test]
    fn stanzas_that_the_client_has_not_acknowledged_are_announced() {
        let mut session = counting();
        (1..6).for_each(|id| session.handle_delivered(stanza("message", id)));
        session.handle_delivered(Element::new("r", ns::SM));
        session.handle_nonza(&management("a", 3));
        let announced = session.announce().expect("it can be resumed");
        assert_eq!((announced.acknowledged, ids(&announced.unacknowledged)), (3, vec!["4", "5"]));
        // The next owner has announced it to the node where the client has resumed it.
        let resumed = FollowedSession::resumed(announced.clone());
        assert_eq!(resumed.announce(), Some(announced));
    }

    #[test]
    fn counts_go_round() {
        let mut stanzas =
            UnacknowledgedStanzas { acknowledged: u32::MAX, ..UnacknowledgedStanzas::default() };
        (0..3).for_each(|id| drop(stanzas.push(stanza("iq", id))));
        assert_eq!(stanzas.acknowledge(1).len(), 2);
        assert!(stanzas.acknowledge(7).is_empty(), "there were not so many");
        assert_eq!((stanzas.acknowledged, stanzas.count, stanzas.stanzas.len()), (1, 1, 1));
    }

    #[test]
    fn a_session_with_too_many_stanzas_is_announced_once_they_are_acknowledged() {
        let mut session = counting();
        session.handle_stanza(&stanza("presence", 0));
        for id in 0..limits::FOLLOWED {
            session.handle_stanza(&stanza("iq", id));
        }
        let announced = session.announce().expect("its presence was seen");
        assert!(announced.is_ending() && announced.presence.is_some() && !session.can_be_announced());
        assert!(session.from_client.stanzas.is_empty(), "nothing of them is kept");
        session.handle_stanza(&stanza("iq", 0));
        session.handle_delivered(management("a", limits::FOLLOWED as u32 + 2));
        let announced = session.announce().expect("nothing waits");
        assert!(announced.presence.is_some() && announced.received == limits::FOLLOWED as u32 + 2);
        session.handle_delivered(
            stanza("message", 1)
                .child(Element::new("b", ns::CLIENT).text("x".repeat(limits::FOLLOWED_BYTES))),
        );
        assert!(!session.can_be_announced());
        session.handle_nonza(&management("a", 1));
        assert!(session.can_be_announced());
    }

    fn room_presence(nick: &str, kind: Option<&'static str>) -> Element {
        let status = Element::new("status", ns::MUC_USER).with("code", "110");
        let presence = Element::new("presence", ns::CLIENT).with("from", format!("{HALL}/{nick}"));
        presence.with_opt("type", kind).child(Element::new("x", ns::MUC_USER).child(status))
    }

    fn to_room(nick: &str, kind: Option<&'static str>) -> Element {
        Element::new("presence", ns::CLIENT).with("to", format!("{HALL}/{nick}")).with_opt("type", kind)
    }

    const HALL: &str = "hall@rooms.example.org";

    /// The nicknames with which a session would enter the hall again.
    fn entered(session: &FollowedSession) -> Vec<String> {
        let announced = session.announce().expect("it can be resumed");
        let is_there = |to: &&Jid| !announced.left_rooms.contains(to);
        let nick = |to: &Jid| to.resource().unwrap_or_default().to_owned();
        announced.directed.iter().filter(is_there).map(nick).collect()
    }

    #[test]
    fn a_session_enters_only_the_rooms_again_in_which_it_is() {
        let mut session = counting();
        for nick in ["one", "two", "three"] {
            session.handle_stanza(&to_room(nick, None));
        }
        session.handle_delivered(management("a", 3));
        // Removed from the first, refused in the third, left the second.
        session.handle_delivered(room_presence("one", Some("unavailable")));
        session.handle_delivered(room_presence("three", Some("error")));
        session.handle_stanza(&to_room("two", Some("unavailable")));
        assert_eq!(entered(&session), ["two"], "the leaving is sent again, if need be");
        session.handle_delivered(management("a", 4));
        assert!(entered(&session).is_empty());
        session.handle_stanza(&to_room("one", None));
        session.handle_delivered(management("a", 5));
        assert_eq!(entered(&session), ["one"], "it has asked again");
    }

    #[test]
    fn a_late_answer_of_a_room_does_not_outlast_the_next() {
        let mut session = counting();
        session.handle_stanza(&to_room("one", None));
        session.handle_stanza(&to_room("one", Some("unavailable")));
        session.handle_stanza(&to_room("one", None));
        session.handle_delivered(room_presence("one", None));
        session.handle_delivered(room_presence("one", Some("unavailable")));
        session.handle_delivered(room_presence("one", None));
        session.handle_delivered(management("a", 3));
        assert_eq!(entered(&session), ["one"]);
        // The answer to a leaving that was acknowledged before it comes.
        session.handle_stanza(&to_room("one", Some("unavailable")));
        session.handle_delivered(management("a", 4));
        session.handle_delivered(room_presence("one", Some("unavailable")));
        assert!(entered(&session).is_empty());
        session.handle_stanza(&stanza("iq", 0));
        session.handle_delivered(management("a", 5));
        assert!(session.session.left_rooms.is_empty(), "nothing stays");
    }
}
