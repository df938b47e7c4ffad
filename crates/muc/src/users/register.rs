//! Reserving a nickname, and with it membership of an open room (XEP-0045 §7.10).

use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid, ns};

use super::{ChangeCause, RoomUsers};
use crate::form::{field, form, type_of, value};
use crate::rules::Affiliation;
use crate::{FULL, RoomEffect, refuse};

const REGISTER_FORM: &str = "http://jabber.org/protocol/muc#register";

impl RoomUsers {
    /// Checks that a user may reserve a nickname. It makes a member, so strangers cannot have one in a room for members: they would let
    /// themselves in.
    fn may_register(&self, affiliation: Affiliation) -> Result<(), Condition> {
        match affiliation {
            // §7.10: a banned user is refused before anything is said of the form.
            Affiliation::Outcast => Err(Condition::Forbidden),
            // §7.10: "not-allowed" stands for a room in which a user cannot register; membership of such a room is
            // granted (§9.3).
            Affiliation::None if self.config.is_members_only || self.is_locked => Err(Condition::NotAllowed),
            _ => Ok(()),
        }
    }

    /// The reserved nickname, or the form for one.
    pub(crate) fn register_get(&self, from: &Jid, iq: &Element, out: &mut Vec<RoomEffect>) {
        let user = from.bare();
        if let Err(condition) = self.may_register(self.affiliation(&user)) {
            return refuse(iq, condition, out);
        }
        let mut query = Element::new("query", ns::REGISTER);
        match self.affiliations.nick_of(&user) {
            // §7.10 and XEP-0077 §3.1: a registered user learns the nickname, and no form follows.
            Some(nick) => {
                query.push(Element::new("registered", ns::REGISTER));
                query.push(Element::new("username", ns::REGISTER).text(nick));
            }
            None => {
                let nick = field("muc#register_roomnick", "text-single", "Nickname", [])
                    .child(Element::new("required", ns::DATA));
                query.push(form("form", REGISTER_FORM).child(nick));
            }
        }
        out.push(RoomEffect::Send(stanza::result(iq, Some(query))));
    }

    /// Reserves the nickname of a form, or gives the reservation up.
    pub(crate) fn register_set(
        &mut self,
        from: &Jid,
        query: &Element,
        iq: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let user = from.bare();
        let affiliation = self.affiliation(&user);
        if let Err(condition) = self.may_register(affiliation) {
            return refuse(iq, condition, out);
        }
        // XEP-0077 §3.2. In a room for members the membership stays: it was granted and did not come with the
        // nickname.
        if query.get("remove", ns::REGISTER).is_some() {
            self.affiliations.set(&user, |entry| entry.nick = None);
            if affiliation == Affiliation::Member && !self.config.is_members_only {
                self.set_affiliation(&user, Affiliation::None, ChangeCause::default(), out);
            }
            // The change of affiliation was announced first, the answer follows once it is on disk.
            return self.registered(iq, out);
        }
        let form = query.get("x", ns::DATA).filter(|form| form.attr("type") == Some("submit"));
        let form = form.filter(|form| type_of(form).is_none_or(|kind| kind == REGISTER_FORM));
        let Some(nick) = form.and_then(|form| value(form, "muc#register_roomnick")) else {
            // §7.10: "bad-request" for a form that is not the room's.
            return refuse(iq, Condition::BadRequest, out);
        };
        let nick = match self.reservable(&user, &nick) {
            Ok(nick) => nick,
            Err(condition) => return refuse(iq, condition, out),
        };
        if self.affiliations.is_full_for_registration(&user, &nick, self.address.bare.domain()) {
            return refuse(iq, FULL, out);
        }
        if affiliation != Affiliation::None {
            self.affiliations.set(&user, |entry| entry.nick = Some(nick));
            return self.registered(iq, out);
        }
        // §7.10: registration makes a member. In a moderated room membership is voice, which a moderator grants (§8.3).
        if !self.config.is_moderated {
            self.set_affiliation(&user, Affiliation::Member, ChangeCause::default(), out);
        }
        self.affiliations.set(&user, |entry| {
            entry.nick = Some(nick);
            entry.is_registered = true;
        });
        self.registered(iq, out);
    }

    fn registered(&self, iq: &Element, out: &mut Vec<RoomEffect>) {
        if self.is_stored() {
            out.push(RoomEffect::Save);
        }
        out.push(RoomEffect::Send(stanza::result(iq, None)));
    }
}
