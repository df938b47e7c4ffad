//! Occupants that clients have seen before the host of their room died. The node of these clients names them to the next host of the room
//! ([`announcements`]), which tells its occupants of those that do not come back ([`tell_missing`]): only the dead host knew that they
//! have left (`docs/decisions/0071-sessions-that-outlive-their-owner.md`).

use xmpp::{Bare, Element, Jid, ns};

use super::rules::{Affiliation, Role};
use super::users::listed;
use super::{AGAIN, Room, RoomEffect};
use crate::limits::{NICK, SEEN_IN_ANNOUNCEMENT};

/// Occupants of a room as the clients of one node have seen them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AnnouncedOccupants {
    /// Their nicknames.
    pub nicks: Vec<Box<str>>,
    /// The clients themselves, which were in the room.
    pub sessions: Vec<Jid>,
}

/// The stanzas that name occupants to the next host of the room: their nicknames, and the full addresses of the node's own clients among them. They come from the domain of the room's service, and no client and no
/// other server can send from there. A host that does not know them ignores them, as unavailable presence of a stranger.
pub fn announcements<'a>(
    room: &Bare,
    occupants: impl Iterator<Item = (&'a str, Option<&'a Jid>)>,
) -> Vec<Element> {
    let (mut stanzas, mut bytes) = (Vec::<Element>::new(), 0);
    for (nick, session) in occupants {
        let jid = session.map(Jid::as_str);
        let length = nick.len() + jid.map_or(0, str::len) + HEAD;
        if stanzas.is_empty() || bytes + length > SEEN_IN_ANNOUNCEMENT {
            let stanza = Element::new("presence", ns::CLIENT)
                .with("type", "unavailable")
                .with("from", room.domain())
                .with("to", room.as_str());
            stanzas.push(stanza.child(Element::new("seen", AGAIN)));
            bytes = 0;
        }
        bytes += length;
        if let Some(seen) = stanzas.last_mut().and_then(|stanza| stanza.get_mut("seen", AGAIN)) {
            seen.push(Element::new("occupant", AGAIN).with("nick", nick).with_opt("jid", jid));
        }
    }
    stanzas
}

/// Bytes of an occupant in an announcement beside its names.
const HEAD: usize = 32;

/// True for one of these [`announcements`], if the sender of the stanza is proved.
pub fn is_announcement(stanza: &Element) -> bool {
    let domain = stanza.attr("to").and_then(|to| to.split_once('@')).map(|(_, domain)| domain);
    stanza.name() == "presence"
        && domain.is_some()
        && stanza.attr("from") == domain
        && stanza.get("seen", AGAIN).is_some()
}

/// The occupants in one of these [`announcements`]. `None`: the stanza is another one.
pub fn announced(from: &Jid, to: &Jid, stanza: &Element) -> Option<AnnouncedOccupants> {
    let is_of_service = from.local().is_none() && from.resource().is_none() && from.domain() == to.domain();
    let seen = Some(stanza).filter(|_| is_of_service && to.is_bare())?.get("seen", AGAIN)?;
    let mut occupants = AnnouncedOccupants::default();
    for occupant in seen.elements() {
        occupants.nicks.extend(occupant.attr("nick").filter(|nick| nick.len() <= NICK).map(Box::from));
        occupants.sessions.extend(occupant.attr("jid").and_then(|jid| Jid::parse(jid).ok()));
    }
    Some(occupants)
}

/// The address of the room gets another host if this one dies, so that the room is stored also while it is temporary.
pub fn share(room: &mut Room, is_shared: bool) {
    room.users.is_shared = is_shared;
}

/// Adds the room's password to the request of a session that enters [`again`](super::again), and of which another node has announced that it
/// was in the room.
pub fn readmit(room: &Room, presence: &mut Element) {
    let password = &room.users.config.password;
    if let Some(request) = presence.get_mut("x", ns::MUC).filter(|_| !password.is_empty()) {
        request.remove_children(|child| child.is("password", ns::MUC));
        request.push(Element::new("password", ns::MUC).text(&**password));
    }
}

/// Tells all occupants of the room that the one with this nickname has left, unless it is there.
pub fn tell_missing(room: &Room, nick: &str, out: &mut Vec<RoomEffect>) {
    let users = &room.users;
    if users.occupants.of_nick(nick).is_some() {
        return;
    }
    let item = listed(ns::MUC_USER, None, None, (Affiliation::None, Some(Role::None)));
    let gone = Element::new("presence", ns::CLIENT)
        .with("from", users.address.of_nick(nick))
        .with("type", "unavailable")
        .child(Element::new("x", ns::MUC_USER).child(item));
    users.to_all(&gone, out);
}
