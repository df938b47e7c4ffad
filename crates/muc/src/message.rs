//! Messages to all occupants, private messages, invitations and the subject (XEP-0045 §7.4, §7.5, §7.8, §8.1).
//!
//! `Room::handle` calls `message`. A message to all occupants has its way in two steps: here it is judged and becomes a
//! `RoomEffect::Broadcast`; the owner of the room archives it in the form of `archived` and calls `publish` with its id,
//! which puts it into the history and makes the copies.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, ns};

use super::config::AllowPm;
use super::rules::Role;
use super::subject::Subject;
use super::users::{listed, to as addressed};
use super::{Retraction, Room, RoomEffect, Tombstone, refuse};
use crate::limits::ROOM_SUBJECT;
use xmpp::retraction::retracted;

impl Room {
    /// Dispatches a message by its addressee and type: to all occupants, to one, or to the room itself. Errors come first.
    pub(super) fn message(
        &mut self,
        now: Instant,
        from: &Jid,
        to: &Jid,
        stanza: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let kind = stanza.attr("type").unwrap_or("normal");
        match (to.resource(), kind) {
            // §7.14: an error of a client says that it is not there. Any other error is the answer to a private
            // message.
            // Whatever the sender's rights are: an error is the only sign that an occupant's client is gone.
            (nick, "error") => {
                if !self.users.bounced(from, stanza, out)
                    && let Some(nick) = nick
                {
                    self.whisper(from, nick, stanza, out);
                }
            }
            (None, "groupchat") => self.groupchat(now, from, stanza, out),
            (None, _) => self.users.for_the_room(from, stanza, out),
            // §7.5: "the service MUST return a <bad-request/>".
            (Some(_), "groupchat") => refuse(stanza, Condition::BadRequest, out),
            (Some(nick), _) => self.whisper(from, nick, stanza, out),
        }
    }

    /// A message to all occupants: a change of the subject, a retraction, or the discussion. The sender has to be an
    /// occupant with voice; the subject has a right of its own.
    fn groupchat(&mut self, now: Instant, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) {
        // §7.4: "not-acceptable" for a sender that is no occupant.
        let Some(speaker) = self.users.occupants.of_session(from) else {
            return refuse(stanza, Condition::NotAcceptable, out);
        };
        if is_subject(stanza) {
            // §8.1: moderators, and by `muc#roomconfig_changesubject` participants; visitors never.
            let may = speaker.role == Role::Moderator
                || (self.users.config.may_change_subject && speaker.role >= Role::Participant);
            if !may {
                return refuse(stanza, Condition::Forbidden, out);
            }
            // A message may have a subject for each language (RFC 6121 §5.2.4), and all of them go to each occupant.
            let length = stanza.elements().filter(|child| child.is("subject", ns::CLIENT));
            if length.map(|text| text.content().len()).sum::<usize>() > ROOM_SUBJECT {
                let error = StanzaError::new(Condition::NotAcceptable, "the subject is too long");
                return refuse(stanza, error, out);
            }
            let message = self.users.address.message_of(speaker, stanza);
            self.subject = Subject::new(now, &message);
            // The order does not matter to the owner of the room: it writes first, wherever `Save` stands.
            out.push(RoomEffect::Broadcast(Box::new(message)));
            if self.users.is_stored() {
                out.push(RoomEffect::Save);
            }
            return;
        }
        // §7.4 and §8.1: a message without voice is refused.
        if speaker.role < Role::Participant {
            return refuse(stanza, Condition::Forbidden, out);
        }
        // The retraction itself is a message like any other: clients that have the old one need it (XEP-0424 §5).
        let message = self.users.address.message_of(speaker, stanza);
        if let Some(id) = stanza.get("retract", ns::RETRACT).and_then(|retract| retract.attr("id")) {
            let sender = speaker.id.clone();
            // XEP-0424 §5: only the sender retracts a message. The occupant id outlasts a change of the nickname.
            let is_known = self.history.retract(id, Some(&sender));
            if self.is_archived() {
                let tombstone = Tombstone { occupant_id: Some(sender), retracted: retracted(now) };
                let then = Vec::new();
                out.push(RoomEffect::Retract(Box::new(Retraction {
                    id: id.into(),
                    tombstone,
                    is_known,
                    then,
                })));
            }
        }
        out.push(RoomEffect::Broadcast(Box::new(message)));
    }

    /// A message has its id: it goes into the history and to all occupants.
    pub fn publish(&mut self, now: Instant, mut message: Element, id: &str, out: &mut Vec<RoomEffect>) {
        message
            .push(Element::new("stanza-id", ns::SID).with("by", self.users.address.as_str()).with("id", id));
        if is_said(&message) {
            self.history.add(now, self.users.address.as_str(), &message);
        }
        self.users.to_all(&message, out);
    }

    /// The message as the archive stores it: with the real address behind the nickname, if all occupants may
    /// see it (XEP-0313 §6.1.2). `None`: the room has no archive, or the message does not belong there.
    pub fn archived(&self, message: &Element) -> Option<Element> {
        if !self.is_archived() || !is_kept(message) {
            return None;
        }
        let mut message = message.clone();
        let nick = message.attr("from").and_then(|from| from.split_once('/')).map(|(_, nick)| nick);
        let speaker = nick.and_then(|nick| self.users.occupants.of_nick(nick));
        if let Some(speaker) = speaker.filter(|_| self.users.config.is_whois_anyone) {
            let standing = self.users.standing_of(speaker);
            let item = listed(
                ns::MUC_USER,
                speaker.sessions.last().map(Jid::as_str),
                None,
                (standing.affiliation, Some(standing.role)),
            );
            message.push(Element::new("x", ns::MUC_USER).child(item));
        }
        Some(message)
    }

    /// Adds a message from before this process began to the history.
    pub fn remember(&mut self, at: Instant, id: &str, mut message: Element) {
        if !is_said(&message) {
            return;
        }
        // The archive has the real address in `<x/>`, which not all occupants may see (XEP-0313 §6.1.2).
        message.remove_children(|child| child.is("x", ns::MUC_USER) || child.is("stanza-id", ns::SID));
        message
            .push(Element::new("stanza-id", ns::SID).with("by", self.users.address.as_str()).with("id", id));
        self.history.add(at, self.users.address.as_str(), &message);
    }

    /// Passes a private message on to the sessions of one occupant (§7.5).
    fn whisper(&mut self, from: &Jid, nick: &str, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let Some(speaker) = self.users.occupants.of_session(from) else {
            return refuse(stanza, Condition::NotAcceptable, out);
        };
        let Some(listener) = self.users.occupants.of_nick(nick) else {
            return refuse(stanza, Condition::ItemNotFound, out);
        };
        let is_error = stanza.attr("type") == Some("error");
        let may = match self.users.config.allow_pm {
            AllowPm::Anyone => true,
            AllowPm::Participants => speaker.role >= Role::Participant,
            AllowPm::Moderators => speaker.role == Role::Moderator,
            AllowPm::None => false,
        };
        // Occupants that may not write to others may still write to moderators, unless private messages are off.
        let may = may || (self.users.config.allow_pm != AllowPm::None && listener.role == Role::Moderator);
        // An error answers a private message that the room itself passed on, if it passes such on at all.
        if !may && (!is_error || self.users.config.allow_pm == AllowPm::None) {
            return refuse(stanza, Condition::Forbidden, out);
        }
        let mut message = self.users.address.message_of(speaker, stanza);
        if !may {
            remove_words(&mut message);
        }
        // §7.5: the empty `<x/>` tells the client that the message is a private one of the room.
        message.push(Element::new("x", ns::MUC_USER));
        out.extend(listener.sessions.iter().map(|session| RoomEffect::Send(addressed(&message, session))));
    }
}

/// Leaves the condition of an error, and nothing that its sender has written: `muc#roomconfig_allowpm` is about words of any type.
fn remove_words(message: &mut Element) {
    message
        .remove_children(|child| !child.is("error", ns::CLIENT) && !child.is("occupant-id", ns::OCCUPANT_ID));
    if let Some(error) = message.get_mut("error", ns::CLIENT) {
        error.remove_children(|child| child.ns() != ns::STANZA_ERRORS || child.name() == "text");
    }
}

/// True if the message is part of the discussion (§7.2.13): with a body, or with a subject that is no change of the room's, as it has a thread
/// (§8.1).
fn is_said(message: &Element) -> bool {
    let has = |name: &'static str| message.get(name, ns::CLIENT).is_some();
    has("body") || (has("subject") && has("thread"))
}

/// True if the message changes the subject: it has one, and neither words nor a thread (§8.1).
fn is_subject(message: &Element) -> bool {
    message.get("subject", ns::CLIENT).is_some()
        && message.get("body", ns::CLIENT).is_none()
        && message.get("thread", ns::CLIENT).is_none()
}

/// Messages that an archive has (XEP-0313 §6.1.2): changes of the subject too, not those that are about the moment.
fn is_kept(message: &Element) -> bool {
    let is_lasting = |child: &Element| {
        child.is("retract", ns::RETRACT)
            || child.is("subject", ns::CLIENT)
            || matches!(
                child.ns(),
                "urn:xmpp:reactions:0" | "urn:xmpp:chat-markers:0" | "urn:xmpp:encrypted:0"
            )
            || child.is("encrypted", "eu.siacs.conversations.axolotl")
    };
    let is_forbidden =
        |child: &Element| child.is("no-store", ns::HINTS) || child.is("no-permanent-store", ns::HINTS);
    (is_said(message) || message.elements().any(is_lasting)) && !message.elements().any(is_forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_the_moment_are_not_archived() {
        for (inside, expected) in [
            ("<body>hi</body>", true),
            ("<retract xmlns='urn:xmpp:message-retract:1' id='1'/>", true),
            ("<reactions xmlns='urn:xmpp:reactions:0' id='1'/>", true),
            ("<composing xmlns='http://jabber.org/protocol/chatstates'/>", false),
            ("<subject>Fire</subject>", true),
            ("<body>hi</body><no-store xmlns='urn:xmpp:hints'/>", false),
            ("<body>hi</body><no-permanent-store xmlns='urn:xmpp:hints'/>", false),
        ] {
            let xml = format!("<message type='groupchat'>{inside}</message>");
            let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
            let message = xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap();
            assert_eq!(is_kept(&message), expected, "{inside}");
        }
    }
}
