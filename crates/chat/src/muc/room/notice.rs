//! Presence of occupants as each of the others sees it.

use std::sync::Arc;

use xmpp::{Element, Jid, ns};

use super::rules::{Affiliation, Privileges, Role};
use super::{Occupant, Room, RoomEffect};

/// One presence of one occupant, for all occupants.
pub(super) struct Notice<'a> {
    pub(super) occupant: &'a Occupant,
    pub(super) standing: Privileges,
    /// `None`: it goes.
    pub(super) presence: Option<Arc<Element>>,
    /// The nickname it goes to.
    pub(super) nick: Option<&'a str>,
    pub(super) actor: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) codes: &'a [u16],
    pub(super) destroy: Option<&'a Element>,
    /// Last words, and the id of the stanza that caused it.
    pub(super) cause: Option<&'a Element>,
}

impl<'a> Notice<'a> {
    pub(super) fn of(room: &Room, occupant: &'a Occupant) -> Notice<'a> {
        Notice {
            occupant,
            standing: room.standing_of(occupant),
            presence: Some(Arc::clone(&occupant.presence)),
            nick: None,
            actor: None,
            reason: None,
            codes: &[],
            destroy: None,
            cause: None,
        }
    }

    /// It goes.
    pub(super) fn gone(room: &Room, occupant: &'a Occupant) -> Notice<'a> {
        let affiliation = room.affiliation(&occupant.user);
        let standing = Privileges { role: Role::None, affiliation };
        Notice { standing, presence: None, ..Notice::of(room, occupant) }
    }

    /// Without addressee. `is_self` has code 110 and the id of its cause.
    pub(super) fn build(&self, room: &Room, with_address: bool, is_self: bool) -> Element {
        let mut presence = match (&self.presence, self.cause) {
            (Some(shown), _) => Element::clone(shown),
            (None, Some(cause)) if cause.attr("type") == Some("unavailable") => shown(room, cause),
            (None, _) => Element::new("presence", ns::CLIENT),
        };
        presence.set("from", room.address_of(&self.occupant.nick));
        if self.presence.is_none() {
            presence.set("type", "unavailable");
        }
        if let Some(id) = self.cause.filter(|_| is_self).and_then(|cause| cause.attr("id")) {
            presence.set("id", id);
        }
        let mut x =
            Element::new("x", ns::MUC_USER).child(self.item(with_address)).children(self.destroy.cloned());
        let own = is_self.then_some(110);
        for code in own.iter().chain(self.codes) {
            x.push(status(*code));
        }
        let id = Element::new("occupant-id", ns::OCCUPANT_ID).with("id", &*self.occupant.id);
        presence.push(id);
        presence.push(x);
        presence
    }

    fn item(&self, with_address: bool) -> Element {
        let address = self.occupant.sessions.last().filter(|_| with_address);
        let mut item = Element::new("item", ns::MUC_USER)
            .with("affiliation", self.standing.affiliation.as_str())
            .with("role", self.standing.role.as_str())
            .with_opt("jid", address.map(Jid::as_str))
            .with_opt("nick", self.nick);
        if let Some(actor) = self.actor {
            item.push(Element::new("actor", ns::MUC_USER).with("nick", actor));
        }
        if let Some(reason) = self.reason {
            item.push(Element::new("reason", ns::MUC_USER).text(reason));
        }
        item
    }
}

impl Room {
    /// To all occupants; `own` are the occupant's own sessions, present or just gone.
    pub(super) fn broadcast(&self, notice: &Notice<'_>, own: &[Jid], out: &mut Vec<RoomEffect>) {
        let plain = notice.build(self, false, false);
        let whole = notice.build(self, true, false);
        for other in self.occupants.values() {
            let seen = if self.sees_addresses(other.role) { &whole } else { &plain };
            for session in other.sessions.iter().filter(|session| !own.contains(session)) {
                out.push(RoomEffect::Send(to(seen, session)));
            }
        }
        // Each occupant may know its own address.
        let seen = notice.build(self, true, true);
        out.extend(own.iter().map(|session| RoomEffect::Send(to(&seen, session))));
    }

    /// Each of the sessions leaves at once: kicked, banned, or not a member any more.
    pub(super) fn expel(
        &mut self,
        key: u64,
        codes: &[u16],
        by: Option<&str>,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        let Some(occupant) = self.remove_occupant(key) else { return };
        let notice = Notice { codes, actor: by, reason, ..Notice::gone(self, &occupant) };
        self.broadcast(&notice, &occupant.sessions, out);
    }

    /// The role follows the affiliation or was set: all occupants learn it.
    pub(super) fn announce(
        &self,
        key: u64,
        by: Option<&str>,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        let Some(occupant) = self.occupants.get(&key) else { return };
        let notice = Notice { actor: by, reason, ..Notice::of(self, occupant) };
        self.broadcast(&notice, &occupant.sessions, out);
    }

    /// A message of the room itself to all occupants with status codes.
    pub(super) fn tell_all(&self, x: Element, out: &mut Vec<RoomEffect>) {
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .with("type", "groupchat")
            .child(x);
        self.to_all(&message, out);
    }

    /// One body, a copy each.
    pub(super) fn to_all(&self, message: &Element, out: &mut Vec<RoomEffect>) {
        out.reserve(self.by_session.len());
        let sessions = self.occupants.values().flat_map(|occupant| &occupant.sessions);
        out.extend(sessions.map(|session| RoomEffect::Send(to(message, session))));
    }
}

pub(super) fn status(code: u16) -> Element {
    Element::new("status", ns::MUC_USER).with("code", code.to_string())
}

pub(super) fn to(stanza: &Element, session: &Jid) -> Element {
    stanza.copy_to(session.as_str())
}

/// The part of a presence that other occupants get: no element that only the room may send.
pub(super) fn shown(room: &Room, presence: &Element) -> Element {
    let mut copy = presence.clone();
    for name in ["to", "from", "id", "type"] {
        copy.unset(name);
    }
    copy.remove_children(|child| super::is_ours(child, &room.address));
    copy
}

/// `<item/>` of a list.
pub(super) fn listed(
    ns: &'static str,
    jid: Option<&str>,
    nick: Option<&str>,
    standing: (Affiliation, Option<Role>),
) -> Element {
    Element::new("item", ns)
        .with("affiliation", standing.0.as_str())
        .with_opt("role", standing.1.map(Role::as_str))
        .with_opt("jid", jid)
        .with_opt("nick", nick)
}
