//! Presence of occupants as each of the others sees it, and messages of the room about its users.
//!
//! A change has at most three versions: without the real address, with it, and for the occupant itself. Each is built once, and
//! a session gets a copy that shares its children with the others: the cost of a presence in a large room is the copies, not
//! the building.

use std::sync::Arc;

use xmpp::{Bare, Element, Jid, ns};

use super::{ChangeCause, RoomUsers};
use crate::RoomEffect;
use crate::occupants::Occupant;
use crate::rules::{Affiliation, Privileges, Role};

/// One presence of one occupant, for all occupants.
pub(crate) struct Notice<'a> {
    pub(crate) occupant: &'a Occupant,
    /// The role and affiliation that are shown; they may differ from the occupant's, as when it goes.
    pub(crate) standing: Privileges,
    /// The presence that is shown; `None`: the occupant goes.
    pub(crate) presence: Option<Arc<Element>>,
    /// The new nickname, of an occupant that changes it (303).
    pub(crate) nick: Option<&'a str>,
    /// The nickname of the occupant that caused the change (§8.2).
    pub(crate) actor: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
    /// Status codes beside 110.
    pub(crate) codes: &'a [u16],
    /// `<destroy/>`, when the room ends (§10.9).
    pub(crate) destroy: Option<&'a Element>,
    /// The stanza of the occupant that caused it: its id comes back to the sender, and its content is shown if the occupant leaves by it.
    pub(crate) cause: Option<&'a Element>,
}

impl<'a> Notice<'a> {
    pub(crate) fn of(users: &RoomUsers, occupant: &'a Occupant) -> Notice<'a> {
        Notice {
            occupant,
            standing: users.standing_of(occupant),
            presence: Some(Arc::clone(&occupant.presence)),
            nick: None,
            actor: None,
            reason: None,
            codes: &[],
            destroy: None,
            cause: None,
        }
    }

    /// The notice that the occupant goes; its role is `none`.
    pub(crate) fn gone(users: &RoomUsers, occupant: &'a Occupant) -> Notice<'a> {
        let affiliation = users.affiliation(&occupant.user);
        let standing = Privileges { role: Role::None, affiliation };
        Notice { standing, presence: None, ..Notice::of(users, occupant) }
    }

    /// The stanza without addressee. `is_self`: for the occupant's own sessions, with code 110 and the id of the cause. `with_address`: for
    /// those that may see the real address.
    pub(crate) fn build(&self, users: &RoomUsers, with_address: bool, is_self: bool) -> Element {
        let mut presence = match (&self.presence, self.cause) {
            (Some(shown), _) => Element::clone(shown),
            // Last words: an occupant that leaves by itself may say why (§7.14).
            (None, Some(cause)) if cause.attr("type") == Some("unavailable") => users.address.shown(cause),
            (None, _) => Element::new("presence", ns::CLIENT),
        };
        presence.set("from", users.address.of_nick(&self.occupant.nick));
        if self.presence.is_none() {
            presence.set("type", "unavailable");
        }
        if let Some(id) = self.cause.filter(|_| is_self).and_then(|cause| cause.attr("id")) {
            presence.set("id", id);
        }
        let mut x =
            Element::new("x", ns::MUC_USER).child(self.item(with_address)).children(self.destroy.cloned());
        // §7.2.2: 110 tells a client that this presence is its own.
        let own = is_self.then_some(110);
        for code in own.iter().chain(self.codes) {
            x.push(status(*code));
        }
        let id = Element::new("occupant-id", ns::OCCUPANT_ID).with("id", &*self.occupant.id);
        presence.push(id);
        presence.push(x);
        // XEP-0317 §3.1: with each presence, as each replaces the one before.
        let hats = users.hats.shown(&self.occupant.user).filter(|_| self.presence.is_some());
        hats.into_iter().for_each(|hats| presence.push(hats));
        presence
    }

    /// The `<item/>` of a presence. With several clients of one nickname the address is that of the latest.
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

impl RoomUsers {
    /// Sends a notice to all occupants; `own`: the occupant's own sessions, present or just gone.
    pub(crate) fn broadcast(&self, notice: &Notice<'_>, own: &[Jid], out: &mut Vec<RoomEffect>) {
        let plain = notice.build(self, false, false);
        let whole = notice.build(self, true, false);
        for other in self.occupants.values() {
            let seen = if self.sees_addresses(other.role) { &whole } else { &plain };
            for session in other.sessions.iter().filter(|session| !own.contains(session)) {
                out.push(RoomEffect::Send(to(seen, session)));
            }
        }
        // The occupant's own sessions come last: for its client, its own presence with 110 completes the change. Each occupant
        // may know its own address.
        let seen = notice.build(self, true, true);
        out.extend(own.iter().map(|session| RoomEffect::Send(to(&seen, session))));
    }

    /// Each of the sessions leaves at once: kicked, banned, or not a member any more.
    pub(crate) fn expel(
        &mut self,
        key: u64,
        codes: &[u16],
        cause: ChangeCause<'_>,
        out: &mut Vec<RoomEffect>,
    ) {
        // Removed first: of two occupants that go at once, neither is told of the other after its own end.
        let Some(occupant) = self.occupants.remove(key) else { return };
        let ChangeCause { by, reason } = cause;
        let notice = Notice { codes, actor: by, reason, ..Notice::gone(self, &occupant) };
        self.broadcast(&notice, &occupant.sessions, out);
    }

    /// The role follows the affiliation or was set: all occupants learn it.
    pub(crate) fn announce(&self, key: u64, cause: ChangeCause<'_>, out: &mut Vec<RoomEffect>) {
        let Some(occupant) = self.occupants.get(key) else { return };
        let notice = Notice { actor: cause.by, reason: cause.reason, ..Notice::of(self, occupant) };
        self.broadcast(&notice, &occupant.sessions, out);
    }

    /// A message of the room itself to all occupants with status codes.
    pub(crate) fn tell_all(&self, x: Element, out: &mut Vec<RoomEffect>) {
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .with("type", "groupchat")
            .child(x);
        self.to_all(&message, out);
    }

    /// Sends a message to all sessions; the copies share its children.
    pub(crate) fn to_all(&self, message: &Element, out: &mut Vec<RoomEffect>) {
        out.reserve(self.occupants.sessions());
        let sessions = self.occupants.values().flat_map(|occupant| &occupant.sessions);
        out.extend(sessions.map(|session| RoomEffect::Send(to(message, session))));
    }

    /// A message with status codes for all occupants (§10.2.1).
    pub(crate) fn tell_codes(&self, codes: &[u16], out: &mut Vec<RoomEffect>) {
        if !codes.is_empty() {
            let x = Element::new("x", ns::MUC_USER).children(codes.iter().map(|code| status(*code)));
            self.tell_all(x, out);
        }
    }

    /// Code 101 of the registry: the user's affiliation changed while it was not in the room.
    pub(crate) fn tell_absent(
        &self,
        user: &Bare,
        affiliation: Affiliation,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        // A banned domain is no user that could be told.
        if user.local().is_none() {
            return;
        }
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .with("to", user.as_str())
            .child(of_absent(user, affiliation, reason).child(status(101)));
        out.push(RoomEffect::Send(message));
    }

    /// Tells the occupants that see addresses of the new affiliation of a user that is not in the room (§9.3).
    pub(crate) fn tell_of_absent(
        &self,
        user: &Bare,
        affiliation: Affiliation,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .child(of_absent(user, affiliation, reason));
        for occupant in self.occupants.values().filter(|occupant| self.sees_addresses(occupant.role)) {
            let sessions = occupant.sessions.iter();
            out.extend(sessions.map(|session| RoomEffect::Send(to(&message, session))));
        }
    }
}

/// A user that is not here has another affiliation. A ban has its code and its reason, as it has for an occupant (§9.1).
fn of_absent(user: &Bare, affiliation: Affiliation, reason: Option<&str>) -> Element {
    let mut item = listed(ns::MUC_USER, Some(user.as_str()), None, (affiliation, Some(Role::None)));
    if let Some(reason) = reason {
        item.push(Element::new("reason", ns::MUC_USER).text(reason));
    }
    let banned = (affiliation == Affiliation::Outcast).then(|| status(301));
    Element::new("x", ns::MUC_USER).child(item).children(banned)
}

pub(crate) fn status(code: u16) -> Element {
    Element::new("status", ns::MUC_USER).with("code", code.to_string())
}

pub(crate) fn to(stanza: &Element, session: &Jid) -> Element {
    stanza.copy_to(session.as_str())
}

/// `<item/>` of a list.
pub(crate) fn listed(
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
