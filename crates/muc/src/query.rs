//! Requests (iq): to the room itself, which it answers, and from one occupant to another, which it passes on under their
//! nicknames (XEP-0045 §6, §17.4, XEP-0410, XEP-0425, XEP-0486).
//!
//! A request that is passed on leaves no state in the room. The id of the copy has keyed hashes of the asking session and of
//! the nickname that was asked, and the answer is led back by them: so requests without an answer cost the room nothing, and a
//! client can answer only sessions that have asked it.
//!
//! `Room::handle` calls `iq`: its table is the list of the requests that a room answers.

use stdx::Instant;
use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid, ns};

use super::address::TAG;
use super::admin::{self, AdminRequest};
use super::occupants::Occupant;
use super::rules::{Affiliation, Role};
use super::{Retraction, Room, RoomEffect, Tombstone, hats, refuse};
use xmpp::retraction::retracted;

impl Room {
    pub(super) fn iq(&mut self, now: Instant, from: &Jid, to: &Jid, iq: &Element, out: &mut Vec<RoomEffect>) {
        let is_set = match iq.attr("type") {
            Some("get") => false,
            Some("set") => true,
            Some("result" | "error") => return self.pass_answer(from, to, iq, out),
            _ => return refuse(iq, Condition::BadRequest, out),
        };
        // RFC 6120 §8.2.3: a request has exactly one child.
        let (Some(payload), 1) = (iq.first(), iq.elements().count()) else {
            return refuse(iq, Condition::BadRequest, out);
        };
        // §6.6: a request to an occupant is for its client, and the room passes it on.
        if let Some(nick) = to.resource() {
            return self.pass_question(from, nick, payload, iq, out);
        }
        match (payload.name(), payload.ns(), is_set) {
            ("query", ns::DISCO_INFO, false) => self.disco_info(from, payload, iq, out),
            ("query", ns::DISCO_ITEMS, false) => self.disco_items(from, payload, iq, out),
            ("query", ns::MUC_ADMIN, false) => match admin::list(&self.users, from, payload) {
                Ok(query) => out.push(RoomEffect::Send(stanza::result(iq, Some(query)))),
                Err(condition) => refuse(iq, condition, out),
            },
            ("query", ns::MUC_ADMIN, true) => self.administer(from, payload, iq, out),
            ("query", ns::MUC_OWNER, false) => self.owner_get(from, iq, out),
            ("query", ns::MUC_OWNER, true) => self.owner_set(from, payload, iq, out),
            ("query", ns::REGISTER, false) => self.users.register_get(from, iq, out),
            ("query", ns::REGISTER, true) => self.users.register_set(from, payload, iq, out),
            ("vCard", ns::VCARD, false) => self.vcard.answer(&self.users, from, iq, out),
            ("vCard", ns::VCARD, true) => self.vcard.change(&self.users, from, payload, iq, out),
            ("query", ns::MAM, _) | ("metadata", ns::MAM, false) => self.archive(from, iq, out),
            ("command", ns::COMMANDS, true) => hats::handle_command(&mut self.users, from, payload, iq, out),
            ("ping", ns::PING, false) => out.push(RoomEffect::Send(stanza::result(iq, None))),
            ("moderate", ns::MODERATE, true) => self.moderate(now, from, payload, iq, out),
            _ => refuse(iq, Condition::ServiceUnavailable, out),
        }
    }

    /// Performs a request about roles or affiliations: all of its items, or none. A client moves an owner's rights to another
    /// user in one request, and half of it would leave two owners or none.
    fn administer(&mut self, from: &Jid, query: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        let request = match AdminRequest::parse(&self.users, from, query) {
            Ok(request) => request,
            Err(condition) => return refuse(iq, condition, out),
        };
        // Roles end with the visit (§5.1): only affiliations are stored. The answer comes after `Save`, so the actor learns of a
        // change that is on disk.
        if request.apply(&mut self.users, out) && self.users.is_stored() {
            out.push(RoomEffect::Save);
        }
        out.push(RoomEffect::Send(stanza::result(iq, None)));
    }

    /// The archive is open to users who could read the messages when they were sent.
    fn archive(&self, from: &Jid, iq: &Element, out: &mut Vec<RoomEffect>) {
        let affiliation = self.users.affiliation(&from.bare());
        let is_here = self.users.occupants.of_session(from).is_some();
        let may = match affiliation {
            Affiliation::Outcast => false,
            Affiliation::None => {
                is_here
                    || (!self.users.config.is_members_only
                        && self.users.config.password.is_empty()
                        && !self.users.is_locked)
            }
            Affiliation::Member | Affiliation::Admin | Affiliation::Owner => true,
        };
        if !may {
            return refuse(iq, Condition::Forbidden, out);
        }
        if !self.is_archived() {
            return refuse(iq, Condition::ServiceUnavailable, out);
        }
        out.push(RoomEffect::ReadArchive);
    }

    /// Passes a request to an occupant's client. The asker has to be an occupant, too: else strangers would reach users by
    /// their nicknames.
    fn pass_question(
        &self,
        from: &Jid,
        nick: &str,
        payload: &Element,
        iq: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let Some(asker) = self.users.occupants.of_session(from) else {
            // §6.6: a stranger asks the room, not the occupant.
            let is_disco = matches!(payload.ns(), ns::DISCO_INFO | ns::DISCO_ITEMS);
            let condition = if is_disco { Condition::BadRequest } else { Condition::NotAcceptable };
            return refuse(iq, condition, out);
        };
        let Some(asked) = self.users.occupants.of_nick(nick) else {
            return refuse(iq, Condition::ItemNotFound, out);
        };
        // XEP-0410 §4: the room knows that itself.
        if asked.nick == asker.nick && payload.is("ping", ns::PING) {
            return out.push(RoomEffect::Send(stanza::result(iq, None)));
        }
        // Of several clients of one nickname the latest is asked: two answers to one request would be an error of the protocol.
        let Some(session) = asked.sessions.last() else { return };
        // §17.4: the account has the vCard, not the client.
        let address = if payload.ns() == ns::VCARD { session.bare_str() } else { session.as_str() };
        // §6.6: the asker is known to the other client by the nickname only, so the id leads the answer back to its
        // session.
        let id = format!(
            "{}{}-{}",
            self.users.address.tag(from.as_str()),
            self.users.address.tag(nick),
            iq.attr("id").unwrap_or("")
        );
        let mut question = iq.clone();
        question.set("id", id);
        question.set("from", self.users.address.of_nick(&asker.nick));
        question.set("to", address);
        out.push(RoomEffect::Send(question));
    }

    /// Passes an answer back to the session whose tag is in the id. An answer whose id, sender or addressee does not fit is
    /// dropped: a reply to a reply would be another stanza that is not expected.
    fn pass_answer(&self, from: &Jid, to: &Jid, iq: &Element, out: &mut Vec<RoomEffect>) {
        let id = iq.attr("id").unwrap_or("");
        let (Some(session_tag), Some(nick_tag)) = (id.get(..TAG), id.get(TAG..2 * TAG)) else { return };
        let Some(id) = id.get(2 * TAG..).and_then(|rest| rest.strip_prefix('-')) else { return };
        let Some(asker) = to.resource().and_then(|nick| self.users.occupants.of_nick(nick)) else { return };
        let sessions = &mut asker.sessions.iter();
        let Some(session) = sessions.find(|session| self.users.address.tag(session.as_str()) == session_tag)
        else {
            return;
        };
        let is_asked = |occupant: &&Occupant| self.users.address.tag(&occupant.nick) == nick_tag;
        let Some(asked) = self.users.occupants.of_user(&from.bare()).find(is_asked) else { return };
        let mut answer = iq.clone();
        answer.set("id", id);
        answer.set("from", self.users.address.of_nick(&asked.nick));
        answer.set("to", session.as_str());
        out.push(RoomEffect::Send(answer));
    }

    /// XEP-0425: a moderator retracts another occupant's message.
    fn moderate(
        &mut self,
        now: Instant,
        from: &Jid,
        payload: &Element,
        iq: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let Some(moderator) = self.users.occupants.of_session(from).filter(|one| one.role == Role::Moderator)
        else {
            return refuse(iq, Condition::Forbidden, out);
        };
        let id = payload.attr("id").filter(|id| !id.is_empty());
        let (Some(id), Some(_)) = (id, payload.get("retract", ns::RETRACT)) else {
            return refuse(iq, Condition::BadRequest, out);
        };
        let by = Element::new("moderated", ns::MODERATE)
            .with("by", self.users.address.of_nick(&moderator.nick))
            .child(Element::new("occupant-id", ns::OCCUPANT_ID).with("id", &*moderator.id));
        let reason = payload.content_of("reason", ns::MODERATE);
        let reason = reason.map(|reason| Element::new("reason", ns::RETRACT).text(&*reason));
        let retract = Element::new("retract", ns::RETRACT).with("id", id).child(by.clone());
        let message = Element::new("message", ns::CLIENT)
            .with("type", "groupchat")
            .with("from", self.users.address.as_str())
            .child(retract.children(reason.clone()));
        // The history forgets the message at once, also when the archive fails: new occupants do not get it any more.
        let is_known = self.history.retract(id, None);
        // The room announces the retraction before it confirms the request, so that the moderator's client has both in that
        // order.
        let then = vec![RoomEffect::Broadcast(Box::new(message)), RoomEffect::Send(stanza::result(iq, None))];
        if self.is_archived() {
            let retracted = retracted(now).child(by).children(reason);
            let tombstone = Tombstone { occupant_id: None, retracted };
            let retraction = Retraction { id: id.into(), tombstone, is_known, then };
            return out.push(RoomEffect::Retract(Box::new(retraction)));
        }
        if !is_known {
            return refuse(iq, Condition::ItemNotFound, out);
        }
        out.extend(then);
    }
}
