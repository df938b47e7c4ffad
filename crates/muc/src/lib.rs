//! One room of XEP-0045 as a machine: stanzas and the room's stored form come in, [`RoomEffect`]s go out.
//!
//! A [`Room`] holds the occupants, the affiliations, the configuration, the subject and the newest messages, and decides all
//! that XEP-0045 leaves to a room: which stanza is refused and how, which occupant sees which address, which presence and
//! messages follow from a change, and in which order. Its occupants are addresses. It does not know if they are accounts of
//! this server, and it never reads the clock, draws a random value (its secret is an argument), opens the store or sends a
//! stanza itself.
//!
//! The owner of the rooms (`chat::muc`) calls [`Room::handle`] with one stanza at a time and performs the effects in their order.
//! It keeps a copy of the room where [`Room::may_save`] says so, writes [`Room::to_stored`] after [`RoomEffect::Save`], and
//! performs the other effects of that stanza only when the write has succeeded. A message for all occupants takes two steps:
//! [`RoomEffect::Broadcast`] lets the owner archive it under an id, and [`Room::publish`] makes the copies with that id.
//!
//! The folder has one file for each part: `rules` has the tables of privileges, `users` the occupants with all that changes
//! their privileges or their presence, `message`, `presence` and `query` the three kinds of stanzas, `owner` and `admin`
//! the requests of the room's staff, `stored` the form in the database.

#![warn(missing_docs)]

mod address;
mod admin;
mod affiliations;
mod config;
mod disco;
mod form;
mod hats;
mod history;
pub mod limits;
mod message;
mod occupants;
mod owner;
mod presence;
mod query;
mod retraction;
mod rules;
pub mod seen;
mod stored;
mod subject;
#[cfg(test)]
mod tests;
mod users;
mod vcard;
mod voices;

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use address::RoomAddress;
use affiliations::Affiliations;
use history::History;
pub use retraction::{Retraction, Tombstone};
pub use stored::{RoomListing, stored_listing, stored_name};
use subject::Subject;
use users::RoomUsers;
use vcard::RoomVcard;

/// An effect of a room. The effects of one stanza are performed in their order.
#[derive(Debug)]
pub enum RoomEffect {
    /// Send a stanza to its `to`, which is an occupant's real address or another user's.
    Send(Element),
    /// A message for all occupants: the owner of the room gives it an id, and [`Room::publish`] makes the copies.
    Broadcast(Box<Element>),
    /// The room has changed: the other effects of this stanza wait until the change is on disk.
    Save,
    /// The room exists no more. The effects after it tell its occupants so.
    Destroyed,
    /// A request for the room's archive, whose sender may read it.
    ReadArchive,
    /// A message is to be replaced in the archive.
    Retract(Box<Retraction>),
}

/// A room: its users, the subject, the vCard and the recent messages.
#[derive(Clone)]
pub struct Room {
    /// Occupants, affiliations, roles and the configuration.
    users: RoomUsers,
    subject: Subject,
    vcard: RoomVcard,
    /// The newest messages, for occupants that enter.
    history: History,
}

impl Room {
    fn new(address: RoomAddress) -> Room {
        Room {
            users: RoomUsers::new(address),
            subject: Subject::default(),
            vcard: RoomVcard::default(),
            history: History::default(),
        }
    }

    /// Gives an administrator of the server all rights for one request; `None` takes them back.
    pub fn set_above(&mut self, above: Option<Bare>) {
        self.users.affiliations.set_above(above);
    }

    /// A new room with its first owner, locked until the owner has configured it (§10.1). `secret` keys the ids of its occupants,
    /// so it has to be unpredictable; it is stored with the room, and the ids last as long as the room. `request`: the stanza that
    /// creates it. A temporary room that an occupant enters [`again`], and which was not stored by its dead host, is open at once.
    pub fn created(address: Bare, secret: [u8; 32], owner: Bare, request: &Element) -> Room {
        let mut room = Room::new(RoomAddress { bare: address, secret });
        // §10.1.1: until the owner accepts a configuration, the room is locked and admits no other user.
        room.users.is_locked = !is_again(request);
        room.users.affiliations = Affiliations::with_owner(owner);
        room
    }

    /// True if no occupant is in the room.
    pub fn is_empty(&self) -> bool {
        self.users.occupants.is_empty()
    }

    /// The number of occupants; one with several clients counts once.
    pub fn occupants(&self) -> usize {
        self.users.occupants.len()
    }

    /// True if the room is to be stored: it is persistent, it has an archive, or the next host of its address needs it if this one dies
    /// ([`seen::share`]). A room that its owner has not configured yet is not: it would be open at the next host.
    pub fn is_stored(&self) -> bool {
        self.users.is_stored()
    }

    /// True if the room stays when its last occupant leaves (§4.2).
    pub fn is_persistent(&self) -> bool {
        self.users.config.is_persistent
    }

    /// True if the messages of the room are archived: it is persistent, and its owner has not turned logging off, or it is temporary, and its
    /// owner has turned logging on.
    pub fn is_archived(&self) -> bool {
        self.users.config.is_archived()
    }

    /// The service ends (§7.14, 332): all occupants leave.
    pub fn close(&mut self, out: &mut Vec<RoomEffect>) {
        self.users.close(out);
    }

    /// Handles a stanza for the room (`to` is bare) or for an occupant (`to` has the nickname as its resource). `from` is the
    /// full address of the sender, which its server has proved.
    pub fn handle(
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

/// The request of an occupant whose session enters a room again by itself, since the room's host or the session's is dead: it gets no
/// history, the others see no change, and a room that is not there any more is open at once.
pub fn again() -> Element {
    let history = Element::new("history", ns::MUC).with("maxstanzas", "0");
    Element::new("x", ns::MUC).child(history).child(Element::new("again", AGAIN))
}

/// True for presence with the request [`again`]. It gives no right: a client may make an instant room itself (XEP-0045 §10.1.2).
pub fn is_again(presence: &Element) -> bool {
    presence.get("x", ns::MUC).is_some_and(|request| request.get("again", AGAIN).is_some())
}

/// The namespace of the mark in the request [`again`].
const AGAIN: &str = "urn:belfry:rooms";

/// Refuses a stanza, unless it is an error or an answer itself.
fn refuse(stanza: &Element, error: impl Into<StanzaError>, out: &mut Vec<RoomEffect>) {
    out.extend(refusal(stanza, error).map(RoomEffect::Send));
}

/// The answer of a room that refuses a stanza. `None`: the stanza is an error or an answer itself, and RFC 6120 §8.3.1 forbids an
/// error about it.
pub fn refusal(stanza: &Element, error: impl Into<StanzaError>) -> Option<Element> {
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

/// The condition for a room or a list that has no place for one more.
const FULL: Condition = Condition::ResourceConstraint;
