//! A room as the store keeps it: configuration, subject, affiliations.

use xmpp::stanza::{self, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::Room;
use super::address::{RoomAddress, hex};
use super::affiliations::RoomUser;
use super::config::RoomConfig;
use super::rules::Affiliation;
use super::subject::Subject;
use crate::effect::RoomListing;

impl Room {
    pub(in super::super) fn to_stored(&self) -> Element {
        let room = Element::new("room", ns::MUC_OWNER)
            .with("secret", hex(&self.users.address.secret))
            .child(self.users.config.to_form("submit"));
        room.children(self.subject.stored()).children(self.users.affiliations.stored_items())
    }

    /// True if that stanza can change what the store has: then the host keeps the room as it was until the change is
    /// on disk. Strangers cannot make it do so for nothing.
    pub(in super::super) fn may_save(&self, from: &Jid, stanza: &Element) -> bool {
        let affiliation = self.users.affiliation(&from.bare());
        let is_kept = self.users.config.is_persistent;
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
                is_kept && (is_subject || is_invitation) && self.users.occupants.of_session(from).is_some()
            }
            _ => false,
        }
    }

    /// `None`: it is no room's record. A room may have no owner any more: then it is the administrators'.
    pub(in super::super) fn from_stored(address: Bare, stored: &Element) -> Option<Room> {
        let secret = unhex(stored.attr("secret")?)?;
        let mut room = Room::new(RoomAddress { bare: address, secret });
        room.users.config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
        if let Some(set) = stored.get("set", ns::MUC_OWNER) {
            room.subject = Subject::from_stored(set);
        }
        for item in stored.elements().filter(|child| child.is("item", ns::MUC_OWNER)) {
            let user = Bare::parse(item.attr("jid")?).ok()?;
            let entry = RoomUser {
                affiliation: Affiliation::parse(item.attr("affiliation")?)?,
                nick: item.attr("nick").map(Box::from),
                reason: item.content_of("reason", ns::MUC_OWNER).map(Box::from),
            };
            room.users.affiliations.restore(user, entry);
        }
        Some(room)
    }

    /// A removed account loses what it is here, unless that is to be banned. True: it was something.
    pub(in super::super) fn remove_user(&mut self, user: &Bare) -> bool {
        self.users.voices.remove(user);
        self.users.affiliations.remove_user(user)
    }

    pub(in super::super) fn listed(&self) -> Option<RoomListing> {
        let occupants = u32::try_from(self.users.occupants.len()).unwrap_or(u32::MAX);
        self.is_listed().then(|| self.users.config.listing(occupants))
    }

    pub(in super::super) fn is_listed(&self) -> bool {
        self.users.config.is_public && !self.users.is_locked
    }

    pub(in super::super) fn name(&self) -> &str {
        &self.users.config.name
    }
}

/// The listing of a room that is not in memory, if the room is public.
pub(in super::super) fn listing(stored: &Element) -> Option<RoomListing> {
    let config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
    config.is_public.then(|| config.listing(0))
}

/// The same for clients that may know of all rooms.
pub(in super::super) fn named(stored: &Element) -> Option<(Box<str>, bool)> {
    let config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
    Some((config.name, config.is_public))
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
