//! One room: its rules as a machine that knows no host. Stanzas in, stanzas out.

mod address;
mod admin;
mod affiliations;
mod config;
pub(super) mod disco;
mod form;
mod history;
mod message;
mod occupants;
mod owner;
mod presence;
mod query;
mod rules;
mod stored;
mod subject;
#[cfg(test)]
mod tests;
mod users;
mod voices;

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use address::RoomAddress;
use affiliations::Affiliations;
use history::History;
pub(super) use message::is_said;
pub(super) use stored::{listing, named};
use subject::Subject;
use users::RoomUsers;

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

/// A room: its users, the subject and the recent messages.
#[derive(Clone)]
pub(super) struct Room {
    users: RoomUsers,
    subject: Subject,
    history: History,
}

impl Room {
    fn new(address: RoomAddress) -> Room {
        Room { users: RoomUsers::new(address), subject: Subject::default(), history: History::default() }
    }

    /// Gives an administrator of the server all rights, for one request.
    pub(super) fn set_above(&mut self, above: Option<Bare>) {
        self.users.affiliations.set_above(above);
    }

    /// A new room with its first owner, who has yet to configure it.
    pub(super) fn created(address: Bare, secret: [u8; 32], owner: Bare) -> Room {
        let mut room = Room::new(RoomAddress { bare: address, secret });
        room.users.is_locked = true;
        room.users.affiliations = Affiliations::with_owner(owner);
        room
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.occupants.is_empty()
    }

    pub(super) fn occupants(&self) -> usize {
        self.users.occupants.len()
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.users.config.is_persistent
    }

    pub(super) fn is_archived(&self) -> bool {
        self.users.config.is_archived()
    }

    /// The service ends (§7.14, 332): all occupants leave.
    pub(super) fn close(&mut self, out: &mut Vec<RoomEffect>) {
        self.users.close(out);
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
}

/// Refuses a stanza, if it may be.
pub(super) fn refuse(stanza: &Element, error: impl Into<StanzaError>, out: &mut Vec<RoomEffect>) {
    out.extend(refusal(stanza, error).map(RoomEffect::Send));
}

/// The same stanza back as an error.
pub(super) fn refusal(stanza: &Element, error: impl Into<StanzaError>) -> Option<Element> {
    if !stanza::may_be_refused(stanza) {
        return None;
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
    Some(refusal)
}

const FULL: Condition = Condition::ResourceConstraint;
