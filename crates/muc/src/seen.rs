//! Occupants that clients have seen before the host of their room died. The node of these clients names them to the next host of the room
//! ([`announcements`]), which tells its occupants of those that do not come back ([`Room::tell_missing`]): only the dead host knew that they
//! have left (`docs/decisions/0071-sessions-that-outlive-their-owner.md`).

use xmpp::{Bare, Element, Jid, ns};

use super::rules::{Affiliation, Role};
use super::users::listed;
use super::{AGAIN, Room, RoomEffect};
use crate::limits::{NICK, SEEN_IN_ANNOUNCEMENT};

/// The stanzas that name these occupants to the next host of the room. They come from the domain of the room's service, and no client and no
/// other server can send from there. A host that does not know them ignores them, as unavailable presence of a stranger.
pub fn announcements<'a>(room: &Bare, nicks: impl Iterator<Item = &'a str>) -> Vec<Element> {
    let nicks: Vec<&str> = nicks.collect();
    let of = |nicks: &[&str]| {
        let occupants = nicks.iter().map(|nick| Element::new("occupant", AGAIN).with("nick", *nick));
        Element::new("presence", ns::CLIENT)
            .with("type", "unavailable")
            .with("from", room.domain())
            .with("to", room.as_str())
            .child(Element::new("seen", AGAIN).children(occupants))
    };
    nicks.chunks(SEEN_IN_ANNOUNCEMENT).map(of).collect()
}

/// True for one of these [`announcements`], if the sender of the stanza is proved.
pub fn is_announcement(stanza: &Element) -> bool {
    let domain = stanza.attr("to").and_then(|to| to.split_once('@')).map(|(_, domain)| domain);
    stanza.name() == "presence"
        && domain.is_some()
        && stanza.attr("from") == domain
        && stanza.get("seen", AGAIN).is_some()
}

/// The nicknames in one of these [`announcements`]. `None`: the stanza is another one.
pub fn announced(from: &Jid, to: &Jid, stanza: &Element) -> Option<Vec<Box<str>>> {
    let is_of_service = from.local().is_none() && from.resource().is_none() && from.domain() == to.domain();
    let seen = Some(stanza).filter(|_| is_of_service && to.is_bare())?.get("seen", AGAIN)?;
    let nicks = seen.elements().filter_map(|occupant| occupant.attr("nick"));
    Some(nicks.filter(|nick| nick.len() <= NICK).map(Box::from).collect())
}

impl Room {
    /// Tells all occupants that the one with this nickname has left, unless it is here.
    pub fn tell_missing(&self, nick: &str, out: &mut Vec<RoomEffect>) {
        if self.users.occupants.of_nick(nick).is_some() {
            return;
        }
        let item = listed(ns::MUC_USER, None, None, (Affiliation::None, Some(Role::None)));
        let gone = Element::new("presence", ns::CLIENT)
            .with("from", self.users.address.of_nick(nick))
            .with("type", "unavailable")
            .child(Element::new("x", ns::MUC_USER).child(item));
        self.users.to_all(&gone, out);
    }
}
