//! A room as the store keeps it: configuration, subject, affiliations.

use std::sync::Arc;

use xmpp::stanza::{self, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::config::RoomConfig;
use super::notice::listed;
use super::rules::Affiliation;
use super::{Room, RoomUser, Subject, hex};
use crate::effect::RoomListing;

impl Room {
    pub(in super::super) fn to_stored(&self) -> Element {
        let mut room = Element::new("room", ns::MUC_OWNER)
            .with("secret", hex(&self.secret))
            .child(self.config.to_form("submit"));
        if let Some(message) = &self.subject.message {
            let at = xmpp::time::stamp(self.subject.at);
            room.push(Element::new("set", ns::MUC_OWNER).with("at", at).child(Element::clone(message)));
        }
        for (user, entry) in &self.entries {
            let standing = (entry.affiliation, None);
            let mut item = listed(ns::MUC_OWNER, Some(user.as_str()), entry.nick.as_deref(), standing);
            if let Some(reason) = &entry.reason {
                item.push(Element::new("reason", ns::MUC_OWNER).text(&**reason));
            }
            room.push(item);
        }
        room
    }

    /// True if that stanza can change what the store has: then the host keeps the room as it was until the change is
    /// on disk. Strangers cannot make it do so for nothing.
    pub(in super::super) fn may_save(&self, from: &Jid, stanza: &Element) -> bool {
        let affiliation = self.affiliation(&from.bare());
        let is_kept = self.config.is_persistent;
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Iq) if stanza.attr("type") == Some("set") => {
                match stanza.first().map(Element::ns) {
                    Some(ns::MUC_OWNER) => affiliation == Affiliation::Owner,
                    Some(ns::MUC_ADMIN) => is_kept && affiliation >= Affiliation::Admin,
                    Some(ns::REGISTER) => is_kept && affiliation > Affiliation::Outcast,
                    _ => false,
                }
            }
            Some(StanzaKind::Message) => {
                let is_subject = stanza.get("subject", ns::CLIENT).is_some();
                let is_invitation = stanza.get("x", ns::MUC_USER).is_some();
                is_kept && (is_subject || is_invitation) && self.occupant_of(from).is_some()
            }
            _ => false,
        }
    }

    /// `None`: it is no room's record. A room may have no owner any more: then it is the administrators'.
    pub(in super::super) fn from_stored(address: Bare, stored: &Element) -> Option<Room> {
        let mut room = Room::new(address, unhex(stored.attr("secret")?)?);
        room.config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
        if let Some(set) = stored.get("set", ns::MUC_OWNER) {
            let at = set.attr("at").and_then(xmpp::time::parse).unwrap_or_default();
            room.subject = Subject { message: set.first().map(Subject::text_of).map(Arc::new), at };
        }
        for item in stored.elements().filter(|child| child.is("item", ns::MUC_OWNER)) {
            let user = Bare::parse(item.attr("jid")?).ok()?;
            let entry = RoomUser {
                affiliation: Affiliation::parse(item.attr("affiliation")?)?,
                nick: item.attr("nick").map(Box::from),
                reason: item.content_of("reason", ns::MUC_OWNER).map(Box::from),
            };
            room.entries.insert(user, entry);
        }
        Some(room)
    }

    /// A removed account loses what it is here, unless that is to be banned. True: it was something.
    pub(in super::super) fn remove_user(&mut self, user: &Bare) -> bool {
        let is_something =
            self.entries.get(user).is_some_and(|entry| entry.affiliation != Affiliation::Outcast);
        if is_something {
            self.entries.remove(user);
        }
        self.voices.remove(user);
        is_something
    }

    /// The listing of a room that is not in memory, if the room is public.
    pub(in super::super) fn listing(stored: &Element) -> Option<RoomListing> {
        let config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
        config.is_public.then(|| config.listing(0))
    }

    pub(in super::super) fn listed(&self) -> Option<RoomListing> {
        let occupants = u32::try_from(self.occupants.len()).unwrap_or(u32::MAX);
        self.is_listed().then(|| self.config.listing(occupants))
    }

    pub(in super::super) fn is_listed(&self) -> bool {
        self.config.is_public && !self.is_locked
    }

    pub(in super::super) fn name(&self) -> &str {
        &self.config.name
    }

    /// The same for clients that may know of all rooms.
    pub(in super::super) fn named(stored: &Element) -> Option<(Box<str>, bool)> {
        let config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
        Some((config.name, config.is_public))
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}
