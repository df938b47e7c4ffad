//! Messages for the room itself: invitations (XEP-0045 §7.8), their refusal, and requests for voice (§7.13, §8.6). All of them
//! make the room write to addresses that the sender names, so each is limited to occupants on one end at least. A refusal comes from outside
//! the room, so it needs the invitation that it answers.

use std::collections::VecDeque;

use xmpp::stanza::Condition;
use xmpp::{Bare, Element, Jid, ns};

use super::{ChangeCause, RoomUsers, to as addressed};
use crate::address::RoomAddress;
use crate::form::{choice, field, flag, form, type_of, value};
use crate::limits::{AFFILIATIONS, INVITATIONS};
use crate::occupants::Occupant;
use crate::rules::{Affiliation, Role, may_set_role};
use crate::{FULL, RoomEffect, refuse};

const REQUEST: &str = "http://jabber.org/protocol/muc#request";

/// The invitations that were sent and are not declined, as keyed hashes of guest and inviter, the oldest first. They are in memory only: a guest
/// that declines after a restart gets an error.
#[derive(Clone, Default)]
pub(crate) struct Invitations(VecDeque<Box<str>>);

impl Invitations {
    fn insert(&mut self, invitation: Box<str>) {
        if self.0.contains(&invitation) {
            return;
        }
        if self.0.len() >= INVITATIONS {
            self.0.pop_front();
        }
        self.0.push_back(invitation);
    }

    /// Removes an invitation, which is declined once. True: it was there.
    fn remove(&mut self, invitation: &str) -> bool {
        let known = self.0.iter().position(|known| **known == *invitation);
        known.is_some_and(|at| self.0.remove(at).is_some())
    }
}

impl RoomUsers {
    /// Handles a message to the room itself, not to its occupants.
    pub(crate) fn for_the_room(&mut self, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) {
        if let Some(x) = stanza.get("x", ns::MUC_USER) {
            // §7.8.2: a decline comes from a user that is not in the room.
            if let Some(decline) = x.get("decline", ns::MUC_USER) {
                return self.decline(from, decline, stanza, out);
            }
            let invites: Vec<&Element> =
                x.elements().filter(|child| child.is("invite", ns::MUC_USER)).collect();
            if !invites.is_empty() {
                return self.invite(from, &invites, stanza, out);
            }
        }
        let form = stanza.get("x", ns::DATA).filter(|form| form.attr("type") == Some("submit"));
        match form.filter(|form| type_of(form).as_deref() == Some(REQUEST)) {
            Some(form) => self.voice(from, form, stanza, out),
            None => refuse(stanza, Condition::BadRequest, out),
        }
    }

    /// Sends the invitations of one message: all of them, or none. In a room for members they make members.
    fn invite(&mut self, from: &Jid, invites: &[&Element], stanza: &Element, out: &mut Vec<RoomEffect>) {
        // §7.8.2: mediated invitations are for occupants; others would use the room to reach strangers.
        let Some(inviter) = self.occupants.of_session(from) else {
            return refuse(stanza, Condition::NotAcceptable, out);
        };
        let is_admin = self.affiliation(&inviter.user) >= Affiliation::Admin;
        // §7.8.2: into a room for members, only users that could add members may invite.
        let may = is_admin
            || (inviter.role == Role::Moderator && !self.config.is_members_only)
            || (self.config.may_invite && inviter.role >= Role::Participant);
        if !may {
            return refuse(stanza, Condition::Forbidden, out);
        }
        // All addresses are read before the first invitation leaves: of a refused request nothing was sent.
        let mut guests = Vec::new();
        for invite in invites {
            match invite.attr("to").map(Jid::parse) {
                Some(Ok(guest)) => guests.push((guest, *invite)),
                _ => return refuse(stanza, Condition::JidMalformed, out),
            }
        }
        // An invitation would promise what §7.2.7 refuses.
        if guests.iter().any(|(guest, _)| self.affiliation(&guest.bare()) == Affiliation::Outcast) {
            return refuse(stanza, Condition::Forbidden, out);
        }
        if self.config.is_members_only && self.affiliations.len() + guests.len() > AFFILIATIONS {
            return refuse(stanza, FULL, out);
        }
        let inviter = inviter.clone();
        for (guest, invite) in guests {
            out.push(RoomEffect::Send(self.invitation(&inviter, &guest, invite)));
            let user = guest.bare();
            self.invitations.insert(seal_invitation(&self.address, &user, &inviter.user));
            // §7.8.2: an invitation into a room for members makes the guest a member, else §7.2.6 would refuse the
            // guest.
            if self.config.is_members_only && self.affiliation(&user) < Affiliation::Member {
                self.affiliations.set(&user, |entry| {
                    entry.affiliation = Affiliation::Member;
                    entry.is_registered = false;
                });
                if self.is_stored() {
                    out.push(RoomEffect::Save);
                }
            }
        }
    }

    /// One invitation (§7.8.2), with that of XEP-0249 for clients that know only it.
    fn invitation(&self, inviter: &Occupant, guest: &Jid, asked: &Element) -> Element {
        // §7.2.4: in a semi-anonymous room the guest is no moderator, and does not see the inviter's address.
        let by: Box<str> = if self.config.is_whois_anyone {
            inviter.user.as_str().into()
        } else {
            self.address.of_nick(&inviter.nick)
        };
        let reason = asked.content_of("reason", ns::MUC_USER);
        let mut invite = Element::new("invite", ns::MUC_USER).with("from", by);
        if let Some(reason) = &reason {
            invite.push(Element::new("reason", ns::MUC_USER).text(&**reason));
        }
        // §7.9: the guest's client goes on with the conversation of two in the room.
        invite = invite.children(asked.get("continue", ns::MUC_USER).cloned());
        let mut x = Element::new("x", ns::MUC_USER).child(invite);
        // §7.8.2: the room adds its password, which the inviter need not know.
        let password = Some(&*self.config.password).filter(|password| !password.is_empty());
        if let Some(password) = password {
            x.push(Element::new("password", ns::MUC_USER).text(password));
        }
        let direct = Element::new("x", ns::CONFERENCE)
            .with("jid", self.address.as_str())
            .with_opt("reason", reason.as_deref())
            .with_opt("password", password);
        Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .with("to", guest.as_str())
            .child(x)
            .child(direct)
    }

    /// Sends the decline to the inviter: to the address in the invitation. Without an invitation all addresses are answered alike, so that
    /// strangers neither learn of occupants nor write to them.
    fn decline(&mut self, from: &Jid, decline: &Element, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let guest = from.bare();
        if self.affiliation(&guest) == Affiliation::Outcast {
            return refuse(stanza, Condition::Forbidden, out);
        }
        let Some(Ok(inviter)) = decline.attr("to").map(Jid::parse) else {
            return refuse(stanza, Condition::JidMalformed, out);
        };
        // In a semi-anonymous room the invitation named the inviter by its nickname, else by its address. §4.2: in the first no stranger
        // learns by an address who is there.
        let is_occupant = inviter.bare() == self.address.bare;
        let user = inviter.bare();
        let inviters: Vec<&Occupant> = match inviter.resource() {
            Some(nick) if is_occupant => self.occupants.of_nick(nick).into_iter().collect(),
            _ if is_occupant || !self.config.is_whois_anyone => Vec::new(),
            _ => self.occupants.of_user(&user).collect(),
        };
        let invitation =
            inviters.first().map(|inviter| seal_invitation(&self.address, &guest, &inviter.user));
        let sessions: Vec<Jid> = inviters.iter().flat_map(|inviter| inviter.sessions.clone()).collect();
        if !invitation.is_some_and(|invitation| self.invitations.remove(&invitation)) {
            return refuse(stanza, Condition::ItemNotFound, out);
        }
        let mut answer = Element::new("decline", ns::MUC_USER).with("from", from.bare_str());
        if let Some(reason) = decline.content_of("reason", ns::MUC_USER) {
            answer.push(Element::new("reason", ns::MUC_USER).text(&*reason));
        }
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .child(Element::new("x", ns::MUC_USER).child(answer));
        out.extend(sessions.iter().map(|session| RoomEffect::Send(addressed(&message, session))));
    }

    /// Handles a form about voice: a visitor's request goes to the moderators (§7.13), a moderator's form grants it (§8.6).
    fn voice(&mut self, from: &Jid, form: &Element, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let Some(asker) = self.occupants.of_session(from) else {
            return refuse(stanza, Condition::NotAcceptable, out);
        };
        if flag(form, "muc#request_allow").is_some() {
            return self.voice_answered(from, form, stanza, out);
        }
        // §7.13: only a visitor lacks voice.
        if asker.role != Role::Visitor {
            return refuse(stanza, Condition::BadRequest, out);
        }
        let asked = voice_form(asker);
        let message = Element::new("message", ns::CLIENT).with("from", self.address.as_str()).child(asked);
        let moderators = self.occupants.values().filter(|other| other.role == Role::Moderator);
        let sessions = moderators.flat_map(|moderator| &moderator.sessions);
        out.extend(sessions.map(|session| RoomEffect::Send(addressed(&message, session))));
    }

    /// A moderator has filled in the form: it names the visitor by nickname and address (§8.6).
    fn voice_answered(&mut self, from: &Jid, form: &Element, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let actor = self.standing(from);
        if actor.role != Role::Moderator {
            return refuse(stanza, Condition::Forbidden, out);
        }
        // §8.6: a refusal changes nothing.
        if flag(form, "muc#request_allow") != Some(true) {
            return;
        }
        let nick = value(form, "muc#roomnick").unwrap_or_default();
        let Some(key) = self.occupants.key_of_nick(&nick) else {
            return refuse(stanza, Condition::ItemNotFound, out);
        };
        let Some(asker) = self.occupants.get(key) else { return };
        // Another occupant may have the nickname by now.
        let is_meant = value(form, "muc#jid")
            .and_then(|jid| Jid::parse(&jid).ok())
            .is_none_or(|jid: Jid| Bare::eq(&jid.bare(), &asker.user));
        if !is_meant {
            return refuse(stanza, Condition::ItemNotFound, out);
        }
        if asker.role != Role::Visitor {
            return;
        }
        match may_set_role(actor, self.standing_of(asker), Role::Participant) {
            Ok(()) => self.set_role(key, Role::Participant, ChangeCause::default(), out),
            Err(condition) => refuse(stanza, condition, out),
        }
    }
}

/// The name of an invitation in [`Invitations`]. No address has a line feed in it.
fn seal_invitation(room: &RoomAddress, guest: &Bare, inviter: &Bare) -> Box<str> {
    room.seal(&format!("{guest}\n{inviter}")).into()
}

/// The form that moderators get (§8.6); the real address in it is for them alone.
fn voice_form(asker: &Occupant) -> Element {
    let address = asker.sessions.last().map(Jid::as_str);
    form("form", REQUEST)
        .child(Element::new("title", ns::DATA).text("Voice request"))
        .child(choice("muc#role", "Requested role", "participant", &["participant"]))
        .child(field("muc#jid", "jid-single", "User", address))
        .child(field("muc#roomnick", "text-single", "Nickname", [&*asker.nick]))
        .child(field("muc#request_allow", "boolean", "Grant voice to this person?", ["0"]))
}
