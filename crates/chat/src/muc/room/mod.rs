//! One room: its rules as a machine that knows no host. Stanzas in, stanzas out.

mod admin;
mod config;
pub(super) mod disco;
mod enter;
mod form;
mod history;
mod message;
mod notice;
mod owner;
mod query;
mod register;
mod rules;
mod stored;
#[cfg(test)]
mod tests;
mod voice;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use crate::limits;
use config::RoomConfig;
use history::History;
pub(super) use message::is_said;
use rules::{Affiliation, Privileges, Role};

/// An effect of a room, which its host performs.
#[derive(Debug)]
pub(super) enum RoomEffect {
    Send(Element),
    /// A message for all occupants: the host gives it an id, and [`Room::publish`] sends it.
    Broadcast(Box<Element>),
    /// The room has changed: the other effects of this stanza wait until the change is on disk.
    Save,
    /// There is no such room any more.
    Destroyed,
    /// A question for the room's archive, which the asker may read.
    ReadArchive,
    /// A message is to be removed from the archive.
    Retract(Box<Retraction>),
}

/// The retraction of a message in the archive (XEP-0424 §4, XEP-0425 §5).
#[derive(Debug)]
pub(super) struct Retraction {
    pub(super) id: Box<str>,
    /// Only one of this occupant's.
    pub(super) whose: Option<Box<str>>,
    /// The tombstone that replaces it, without its sender.
    pub(super) stone: Element,
    /// The effects once the archive has it, except if neither the archive nor the room knows the message.
    pub(super) is_known: bool,
    pub(super) then: Vec<RoomEffect>,
}

/// An occupant: one nickname with one client or several.
#[derive(Clone)]
struct Occupant {
    nick: Box<str>,
    user: Bare,
    role: Role,
    /// XEP-0421.
    id: Box<str>,
    /// The latest is the last.
    sessions: Vec<Jid>,
    /// Its last presence, as the others see it.
    presence: Arc<Element>,
}

/// A user with an affiliation or a reserved nickname, in the room or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RoomUser {
    affiliation: Affiliation,
    nick: Option<Box<str>>,
    reason: Option<Box<str>>,
}

#[derive(Clone, Default)]
struct Subject {
    /// The message that set it, without addressee.
    message: Option<Arc<Element>>,
    at: Instant,
}

impl Subject {
    /// The stored part of the message that set the subject: its sender and text (XEP-0045 §8.1). The rest of
    /// the message goes to the occupants and is not stored with the room.
    fn text_of(message: &Element) -> Element {
        let is_who = |child: &&Element| child.is("occupant-id", ns::OCCUPANT_ID);
        let short = |name: &'static str| message.attr(name).filter(|value| value.len() <= limits::ROOM_TEXT);
        let text = message.get("subject", ns::CLIENT).map(Element::content).unwrap_or_default();
        Element::new("message", ns::CLIENT)
            .with("type", "groupchat")
            .with_opt("from", message.attr("from"))
            .with_opt("id", short("id"))
            .child(Element::new("subject", ns::CLIENT).text(text.into_owned()))
            .children(message.elements().find(is_who).cloned())
    }
}

#[derive(Clone)]
pub(super) struct Room {
    address: Bare,
    config: RoomConfig,
    /// Its owner has not configured it yet (§10.1).
    is_locked: bool,
    /// Makes occupants' ids.
    secret: [u8; 32],
    subject: Subject,
    entries: BTreeMap<Bare, RoomUser>,
    /// By the order they came.
    occupants: BTreeMap<u64, Occupant>,
    by_nick: HashMap<Box<str>, u64>,
    by_session: HashMap<Jid, u64>,
    by_user: HashMap<Bare, Vec<u64>>,
    last_occupant: u64,
    /// Voice that was granted or revoked, for when its user comes again.
    voices: BTreeMap<Bare, Role>,
    history: History,
    /// An administrator of the server, who has all rights in this room during a request, whatever the
    /// affiliation.
    above: Option<Bare>,
}

impl Room {
    pub(super) fn new(address: Bare, secret: [u8; 32]) -> Room {
        Room {
            address,
            config: RoomConfig::default(),
            is_locked: false,
            secret,
            subject: Subject::default(),
            entries: BTreeMap::new(),
            occupants: BTreeMap::new(),
            by_nick: HashMap::new(),
            by_session: HashMap::new(),
            by_user: HashMap::new(),
            last_occupant: 0,
            voices: BTreeMap::new(),
            history: History::default(),
            above: None,
        }
    }

    pub(super) fn set_above(&mut self, above: Option<Bare>) {
        self.above = above;
    }

    /// A new room with its first owner, who has yet to configure it.
    pub(super) fn created(address: Bare, secret: [u8; 32], owner: Bare) -> Room {
        let mut room = Room::new(address, secret);
        room.is_locked = true;
        room.entries.insert(owner, RoomUser { affiliation: Affiliation::Owner, ..RoomUser::default() });
        room
    }

    pub(super) fn is_empty(&self) -> bool {
        self.occupants.is_empty()
    }

    pub(super) fn occupants(&self) -> usize {
        self.occupants.len()
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.config.is_persistent
    }

    pub(super) fn is_archived(&self) -> bool {
        self.config.is_archived()
    }

    /// A stanza for the room (`to` is bare) or an occupant.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        from: &Jid,
        to: &Jid,
        stanza: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Presence) => self.presence(now, from, to, stanza, out),
            Some(StanzaKind::Message) => self.message(now, from, to, stanza, out),
            Some(StanzaKind::Iq) => self.iq(now, from, to, stanza, out),
            None => {}
        }
    }

    fn affiliation(&self, user: &Bare) -> Affiliation {
        if self.above.as_ref() == Some(user) {
            return Affiliation::Owner;
        }
        if let Some(entry) = self.entries.get(user)
            && entry.affiliation != Affiliation::None
        {
            return entry.affiliation;
        }
        // A whole domain may be banned.
        let domain = Bare::new(None, user.domain()).ok();
        let is_banned = |domain: Bare| {
            self.entries.get(&domain).is_some_and(|entry| entry.affiliation == Affiliation::Outcast)
        };
        if domain.is_some_and(is_banned) { Affiliation::Outcast } else { Affiliation::None }
    }

    fn occupant_of(&self, session: &Jid) -> Option<&Occupant> {
        self.occupants.get(self.by_session.get(session)?)
    }

    fn by_nick(&self, nick: &str) -> Option<&Occupant> {
        self.occupants.get(self.by_nick.get(nick)?)
    }

    fn standing(&self, session: &Jid) -> Privileges {
        let user = session.bare();
        let role = match self.occupant_of(session) {
            _ if self.above.as_ref() == Some(&user) => Role::Moderator,
            Some(occupant) => occupant.role,
            None => Role::None,
        };
        Privileges { role, affiliation: self.affiliation(&user) }
    }

    fn standing_of(&self, occupant: &Occupant) -> Privileges {
        Privileges { role: occupant.role, affiliation: self.affiliation(&occupant.user) }
    }

    fn owners(&self) -> usize {
        self.entries.values().filter(|entry| entry.affiliation == Affiliation::Owner).count()
    }

    fn sees_addresses(&self, role: Role) -> bool {
        self.config.is_whois_anyone || role == Role::Moderator
    }

    /// A keyed hash of the text, which does not reveal it.
    fn seal(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        hex(&mac.finalize().into_bytes()[..16])
    }

    fn address_of(&self, nick: &str) -> Box<str> {
        format!("{}/{nick}", self.address).into()
    }

    fn add_occupant(&mut self, nick: &str, session: &Jid, role: Role, presence: Arc<Element>) -> u64 {
        let user = session.bare();
        self.last_occupant += 1;
        let key = self.last_occupant;
        self.by_nick.insert(nick.into(), key);
        self.by_user.entry(user.clone()).or_default().push(key);
        let id = self.seal(user.as_str()).into();
        let occupant = Occupant { nick: nick.into(), user, role, id, sessions: Vec::new(), presence };
        self.occupants.insert(key, occupant);
        self.add_session(key, session);
        key
    }

    fn add_session(&mut self, key: u64, session: &Jid) {
        if let Some(occupant) = self.occupants.get_mut(&key) {
            occupant.sessions.push(session.clone());
            self.by_session.insert(session.clone(), key);
        }
    }

    /// The occupant too, when it was its last. True: it is gone.
    fn remove_session(&mut self, session: &Jid) -> bool {
        let Some(key) = self.by_session.remove(session) else { return false };
        let Some(occupant) = self.occupants.get_mut(&key) else { return false };
        occupant.sessions.retain(|known| known != session);
        let is_gone = occupant.sessions.is_empty();
        if is_gone {
            self.remove_occupant(key);
        }
        is_gone
    }

    fn remove_occupant(&mut self, key: u64) -> Option<Occupant> {
        let occupant = self.occupants.remove(&key)?;
        self.by_nick.remove(&occupant.nick);
        for session in &occupant.sessions {
            self.by_session.remove(session);
        }
        if let Some(keys) = self.by_user.get_mut(&occupant.user) {
            keys.retain(|known| *known != key);
            if keys.is_empty() {
                self.by_user.remove(&occupant.user);
            }
        }
        Some(occupant)
    }

    fn set_entry(&mut self, user: &Bare, change: impl FnOnce(&mut RoomUser)) {
        let entry = self.entries.entry(user.clone()).or_default();
        change(entry);
        if entry.affiliation == Affiliation::None && entry.nick.is_none() {
            self.entries.remove(user);
        }
    }
}

/// The same stanza back as an error.
pub(super) fn refuse(stanza: &Element, error: impl Into<StanzaError>, out: &mut Vec<RoomEffect>) {
    if !stanza::may_be_refused(stanza) {
        return;
    }
    let mut refusal = stanza::refusal(stanza, &error.into());
    // §7.2: the error names the room and repeats the `<x/>` of entering.
    if stanza.name() == "presence" {
        let room = stanza::to(stanza).ok().flatten().map(|to| Box::<str>::from(to.bare_str()));
        if let (Some(room), Some(error)) = (room, refusal.get_mut("error", ns::CLIENT)) {
            error.set("by", room);
        }
        refusal.push(Element::new("x", ns::MUC));
    }
    out.push(RoomEffect::Send(refusal));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True if only the room may add such an element to an occupant's presence or message.
fn is_ours(child: &Element, room: &Bare) -> bool {
    child.is("x", ns::MUC)
        || child.is("x", ns::MUC_USER)
        || child.is("occupant-id", ns::OCCUPANT_ID)
        || (child.is("stanza-id", ns::SID) && child.attr("by") == Some(room.as_str()))
        || (child.is("delay", ns::DELAY) && child.attr("from") == Some(room.as_str()))
}

const FULL: Condition = Condition::ResourceConstraint;
