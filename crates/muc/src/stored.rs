//! A room as the store keeps it: configuration, subject, vCard, affiliations and reserved nicknames, in one element `<room/>` in the
//! namespace of owners. The directories of a service read the same form for rooms that are in no memory.

use xmpp::stanza::{self, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::Room;
use super::address::{RoomAddress, hex};
use super::affiliations::RoomUser;
use super::config::RoomConfig;
use super::hats::Hats;
use super::rules::Affiliation;
use super::subject::Subject;
use super::vcard::RoomVcard;

/// A room as a directory has it (XEP-0433 §6.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomListing {
    /// The name of the room.
    pub name: Box<str>,
    /// The description of the room.
    pub description: Box<str>,
    /// The language of the room.
    pub lang: Box<str>,
    /// The number of occupants.
    pub occupants: u32,
    /// The room is open: every user may enter.
    pub is_open: bool,
    /// Only moderators see real addresses.
    pub is_anonymous: bool,
}

impl Room {
    /// The room as the store keeps it; [`Room::from_stored`] reads it back. It has no occupants and no messages: the first
    /// leave with the process, the archive has the second.
    pub fn to_stored(&self) -> Element {
        let room = Element::new("room", ns::MUC_OWNER)
            .with("secret", hex(&self.users.address.secret))
            .child(self.users.config.to_form("submit"));
        room.children(self.subject.stored())
            .children(self.vcard.stored())
            .children(self.users.affiliations.stored_items())
            .children(self.users.hats.stored())
    }

    /// True if that stanza can change what the store has: then the host keeps the room as it was until the change is
    /// on disk. Strangers cannot make it do so for nothing.
    pub fn may_save(&self, from: &Jid, stanza: &Element) -> bool {
        let affiliation = self.users.affiliation(&from.bare());
        let is_kept = self.users.is_stored();
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Iq) if stanza.attr("type") == Some("set") => {
                match stanza.first().map(Element::ns) {
                    Some(ns::MUC_OWNER) => affiliation == Affiliation::Owner,
                    Some(ns::VCARD) => is_kept && affiliation == Affiliation::Owner,
                    Some(ns::MUC_ADMIN | ns::COMMANDS) => is_kept && affiliation >= Affiliation::Admin,
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
    pub fn from_stored(address: Bare, stored: &Element) -> Option<Room> {
        let secret = unhex(stored.attr("secret")?)?;
        let mut room = Room::new(RoomAddress { bare: address, secret });
        room.users.config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
        if let Some(set) = stored.get("set", ns::MUC_OWNER) {
            room.subject = Subject::from_stored(set);
        }
        room.vcard = RoomVcard::from_stored(stored);
        room.users.hats = Hats::from_stored(stored);
        for item in stored.elements().filter(|child| child.is("item", ns::MUC_OWNER)) {
            let user = Bare::parse(item.attr("jid")?).ok()?;
            let entry = RoomUser {
                affiliation: Affiliation::parse(item.attr("affiliation")?)?,
                nick: item.attr("nick").map(Box::from),
                reason: item.content_of("reason", ns::MUC_OWNER).map(Box::from),
                is_registered: item.attr("registered") == Some("true"),
            };
            room.users.affiliations.restore(user, entry);
        }
        Some(room)
    }

    /// A removed account loses what it is here, unless that is to be banned. True: it was something.
    pub fn remove_user(&mut self, user: &Bare) -> bool {
        self.users.voices.remove(user);
        let had_hats = self.users.hats.remove_user(user);
        self.users.affiliations.remove_user(user) || had_hats
    }

    /// The listing of the room in directories; `None`: lists do not show it.
    pub fn listed(&self) -> Option<RoomListing> {
        let occupants = u32::try_from(self.users.occupants.len()).unwrap_or(u32::MAX);
        self.is_listed().then(|| self.users.config.listing(occupants))
    }

    /// True for a public room that is not locked: until it is configured, a room does not exist for others (§10.1.2).
    pub fn is_listed(&self) -> bool {
        self.users.config.is_public && !self.users.is_locked
    }

    /// The name that the owner gave the room; it may be empty.
    pub fn name(&self) -> &str {
        &self.users.config.name
    }
}

/// The listing of a room that is not in memory, if the room is public. A temporary one is stored for its next host only, and is listed by
/// the host that has its occupants.
pub fn stored_listing(stored: &Element) -> Option<RoomListing> {
    let config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
    (config.is_public && config.is_persistent).then(|| config.listing(0))
}

/// The name of a room that is not in memory, and whether it is public. `None`: it is a temporary one, or cannot be read.
pub fn stored_name(stored: &Element) -> Option<(Box<str>, bool)> {
    let config = RoomConfig::stored(stored.get("x", ns::DATA)?)?;
    config.is_persistent.then_some((config.name, config.is_public))
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
