//! Messages to all occupants, private messages, invitations and the subject (XEP-0045 §7.4, §7.5, §7.8, §8.1).

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, ns};

use super::config::AllowPm;
use super::rules::Role;
use super::subject::Subject;
use super::users::{listed, to as addressed};
use super::{Retraction, Room, RoomEffect, refuse};
use crate::limits::ROOM_SUBJECT;
use crate::retract::retracted;

impl Room {
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
            let length = stanza.elements().filter(|child| child.is("subject", ns::CLIENT));
            if length.map(|text| text.content().len()).sum::<usize>() > ROOM_SUBJECT {
                let error = StanzaError::new(Condition::NotAcceptable, "the subject is too long");
                return refuse(stanza, error, out);
            }
            let message = self.users.address.message_of(speaker, stanza);
            self.subject = Subject::new(now, &message);
            out.push(RoomEffect::Broadcast(Box::new(message)));
            if self.users.config.is_persistent {
                out.push(RoomEffect::Save);
            }
            return;
        }
        // §7.4 and §8.1: a message without voice is refused.
        if speaker.role < Role::Participant {
            return refuse(stanza, Condition::Forbidden, out);
        }
        let message = self.users.address.message_of(speaker, stanza);
        if let Some(id) = stanza.get("retract", ns::RETRACT).and_then(|retract| retract.attr("id")) {
            let whose = speaker.id.clone();
            // XEP-0424 §5: only the sender retracts a message. The occupant id outlasts a change of the nickname.
            let is_known = self.history.retract(id, Some(&whose));
            if self.is_archived() {
                let stone = retracted(now);
                let (id, whose) = (id.into(), Some(whose));
                out.push(RoomEffect::Retract(Box::new(Retraction {
                    id,
                    whose,
                    stone,
                    is_known,
                    then: Vec::new(),
                })));
            }
        }
        out.push(RoomEffect::Broadcast(Box::new(message)));
    }

    /// A message has its id: it goes into the history and to all occupants.
    pub(in super::super) fn publish(
        &mut self,
        now: Instant,
        mut message: Element,
        id: &str,
        out: &mut Vec<RoomEffect>,
    ) {
        message
            .push(Element::new("stanza-id", ns::SID).with("by", self.users.address.as_str()).with("id", id));
        if is_said(&message) {
            self.history.add(now, self.users.address.as_str(), &message);
        }
        self.users.to_all(&message, out);
    }

    /// The message as the archive stores it: with the real address behind the nickname, if all occupants may
    /// see it (XEP-0313 §6.1.2).
    pub(in super::super) fn archived(&self, message: &Element) -> Element {
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
        message
    }

    /// Adds a message from before this process began to the history.
    pub(in super::super) fn remember(&mut self, at: Instant, id: &str, mut message: Element) {
        if !is_said(&message) {
            return;
        }
        // The archive has the real address in `<x/>`, which not all occupants may see (XEP-0313 §6.1.2).
        message.remove_children(|child| child.is("x", ns::MUC_USER) || child.is("stanza-id", ns::SID));
        message
            .push(Element::new("stanza-id", ns::SID).with("by", self.users.address.as_str()).with("id", id));
        self.history.add(at, self.users.address.as_str(), &message);
    }

    /// §7.5: to one occupant.
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
            AllowPm::Nobody => false,
        };
        // Occupants that may not write to others may still write to moderators, unless private messages are off.
        let may = may || (self.users.config.allow_pm != AllowPm::Nobody && listener.role == Role::Moderator);
        if !may && !is_error {
            return refuse(stanza, Condition::Forbidden, out);
        }
        let mut message = self.users.address.message_of(speaker, stanza);
        // §7.5: the empty `<x/>` tells the client that the message is a private one of the room.
        message.push(Element::new("x", ns::MUC_USER));
        out.extend(listener.sessions.iter().map(|session| RoomEffect::Send(addressed(&message, session))));
    }
}

/// It is part of the discussion (§7.2.13): with a body, or with a subject that is no change of the room's, as it has a thread
/// (§8.1).
pub(in super::super) fn is_said(message: &Element) -> bool {
    let has = |name: &'static str| message.get(name, ns::CLIENT).is_some();
    has("body") || (has("subject") && has("thread"))
}

/// §8.1: a subject and nothing that is said.
fn is_subject(message: &Element) -> bool {
    message.get("subject", ns::CLIENT).is_some()
        && message.get("body", ns::CLIENT).is_none()
        && message.get("thread", ns::CLIENT).is_none()
}
