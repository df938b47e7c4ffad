//! Requests of owners: configuration and the room's end (XEP-0045 §10.1, §10.2, §10.9). The order of effects of a configuration
//! is: the status codes, while all are still there; then administrators and owners; then the occupants that may not stay; then the new roles; then the answer.

use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid, ns};

use super::admin::{self, AdminRequest};
use super::config::{FORM, submitted};
use super::form::type_of;
use super::rules::Affiliation;
use super::users::{Notice, to};
use super::{Room, RoomEffect, refuse};

impl Room {
    pub(super) fn owner_get(&self, from: &Jid, iq: &Element, out: &mut Vec<RoomEffect>) {
        // §10.1.3 and §10.2: the form has the password of the room, so only owners get it.
        if self.users.affiliation(&from.bare()) != Affiliation::Owner {
            return refuse(iq, Condition::Forbidden, out);
        }
        let form = self.users.config.to_form("form").children(admin::form_lists(&self.users));
        let query = Element::new("query", ns::MUC_OWNER).child(form);
        out.push(RoomEffect::Send(stanza::result(iq, Some(query))));
    }

    /// A request of an owner: to destroy the room, to configure it, or to cancel that.
    pub(super) fn owner_set(&mut self, from: &Jid, query: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        if self.users.affiliation(&from.bare()) != Affiliation::Owner {
            return refuse(iq, Condition::Forbidden, out);
        }
        if let Some(destroy) = query.get("destroy", ns::MUC_OWNER) {
            return self.destroy(destroy, iq, out);
        }
        match submitted(query) {
            // §10.1.3: cancelling the first configuration destroys the room.
            Some((_, true)) if self.users.is_locked => {
                self.end(&Element::new("destroy", ns::MUC_USER), out);
                out.push(RoomEffect::Send(stanza::result(iq, None)));
            }
            // §10.2: to cancel a later configuration leaves the room as it is.
            Some((_, true)) => out.push(RoomEffect::Send(stanza::result(iq, None))),
            Some((form, false)) => self.configure(from, form, iq, out),
            None => refuse(iq, Condition::BadRequest, out),
        }
    }

    /// Applies a form of the owner: all of it or nothing. The room is open from then on.
    fn configure(&mut self, from: &Jid, form: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        // §10.1.2: an empty form is an instant room.
        if type_of(form).is_some_and(|kind| kind != FORM) {
            return refuse(iq, Condition::BadRequest, out);
        }
        let config = match self.users.config.apply(form) {
            Ok(config) => config,
            Err(error) => return refuse(iq, error, out),
        };
        let request = match AdminRequest::of_form(&self.users, from, form) {
            Ok(request) => request,
            Err(condition) => return refuse(iq, condition, out),
        };
        let was_stored = self.users.is_stored();
        let old = std::mem::replace(&mut self.users.config, config);
        let was_locked = std::mem::take(&mut self.users.is_locked);
        if self.users.is_stored() || was_stored {
            out.push(RoomEffect::Save);
        }
        // §10.2.1. While a room is locked its owner is alone in it, and has made the change.
        if !was_locked {
            let codes = self.users.config.changes(&old);
            self.users.tell_codes(&codes, out);
        }
        // §10.2: administrators and owners before those that may not stay.
        if let Some(request) = request {
            request.apply(&mut self.users, out);
        }
        // §10.2: the change to a room for members removes occupants that are none (322).
        if self.users.config.is_members_only && !old.is_members_only {
            self.users.expel_outsiders(322, out);
        }
        // §5.1.2: the default roles depend on whether the room is moderated.
        if self.users.config.is_moderated != old.is_moderated {
            self.users.reset_voices(out);
        }
        out.push(RoomEffect::Send(stanza::result(iq, None)));
    }

    /// Ends the room as its owner wants it (§10.9), with the address of another room, a reason and the password of that
    /// room.
    fn destroy(&mut self, asked: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        let venue = match asked.attr("jid").map(Jid::parse) {
            None => None,
            Some(Ok(venue)) => Some(venue),
            Some(Err(_)) => return refuse(iq, Condition::JidMalformed, out),
        };
        let mut destroy =
            Element::new("destroy", ns::MUC_USER).with_opt("jid", venue.as_ref().map(Jid::as_str));
        for name in ["reason", "password"] {
            if let Some(text) = asked.content_of(name, ns::MUC_OWNER) {
                let name = if name == "reason" { "reason" } else { "password" };
                destroy.push(Element::new(name, ns::MUC_USER).text(&*text));
            }
        }
        self.end(&destroy, out);
        out.push(RoomEffect::Send(stanza::result(iq, None)));
    }

    /// The end of the room, for all occupants. `destroy`: the element that they get.
    fn end(&mut self, destroy: &Element, out: &mut Vec<RoomEffect>) {
        // The occupants leave with the last stanzas below. They are complete stanzas, so the room may be forgotten before they
        // are sent.
        out.push(RoomEffect::Destroyed);
        for occupant in self.users.occupants.values() {
            let mut notice = Notice { destroy: Some(destroy), ..Notice::gone(&self.users, occupant) };
            // §10.9: users have no affiliation with a destroyed room.
            notice.standing.affiliation = Affiliation::None;
            let last = notice.build(&self.users, true, true);
            out.extend(occupant.sessions.iter().map(|session| RoomEffect::Send(to(&last, session))));
        }
        // Stanzas that still come meet an empty room and not the old rights.
        *self = Room::new(self.users.address.clone());
    }
}
