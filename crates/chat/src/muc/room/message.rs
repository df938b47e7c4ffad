//! Messages to all occupants, private messages, invitations and the subject (XEP-0045 §7.4, §7.5, §7.8, §8.1).

use std::sync::Arc;

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, ns};

use super::config::AllowPm;
use super::notice::to as addressed;
use super::rules::Role;
use super::{Occupant, Retraction, Room, RoomEffect, Subject, is_ours, refuse};
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
            (nick, "error") => {
                if !self.bounced(from, stanza, out)
                    && let Some(nick) = nick
                {
                    self.whisper(from, nick, stanza, out);
                }
            }
            (None, "groupchat") => self.groupchat(now, from, stanza, out),
            (None, _) => self.for_the_room(from, stanza, out),
            // §7.5: "the service MUST return a <bad-request/>".
            (Some(_), "groupchat") => refuse(stanza, Condition::BadRequest, out),
            (Some(nick), _) => self.whisper(from, nick, stanza, out),
        }
    }

    fn groupchat(&mut self, now: Instant, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let Some(speaker) = self.occupant_of(from) else {
            return refuse(stanza, Condition::NotAcceptable, out);
        };
        if is_subject(stanza) {
            let may = speaker.role == Role::Moderator
                || (self.config.may_change_subject && speaker.role >= Role::Participant);
            if !may {
                return refuse(stanza, Condition::Forbidden, out);
            }
            let length = stanza.elements().filter(|child| child.is("subject", ns::CLIENT));
            if length.map(|text| text.content().len()).sum::<usize>() > ROOM_SUBJECT {
                let error = StanzaError::new(Condition::NotAcceptable, "the subject is too long");
                return refuse(stanza, error, out);
            }
            let message = self.spoken(speaker, stanza);
            self.subject = Subject { message: Some(Arc::new(Subject::text_of(&message))), at: now };
            out.push(RoomEffect::Broadcast(Box::new(message)));
            if self.config.is_persistent {
                out.push(RoomEffect::Save);
            }
            return;
        }
        // §7.4 and §8.1: a message without voice is refused.
        if speaker.role < Role::Participant {
            return refuse(stanza, Condition::Forbidden, out);
        }
        let message = self.spoken(speaker, stanza);
        if let Some(id) = stanza.get("retract", ns::RETRACT).and_then(|retract| retract.attr("id")) {
            let whose = speaker.id.clone();
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

    /// The message as all occupants get it, but for its id and addressee.
    fn spoken(&self, speaker: &Occupant, stanza: &Element) -> Element {
        let mut message = stanza.clone();
        message.unset("to");
        message.set("from", self.address_of(&speaker.nick));
        message.remove_children(|child| is_ours(child, &self.address));
        message.push(Element::new("occupant-id", ns::OCCUPANT_ID).with("id", &*speaker.id));
        message
    }

    /// A message has its id: it goes into the history and to all occupants.
    pub(in super::super) fn publish(
        &mut self,
        now: Instant,
        mut message: Element,
        id: &str,
        out: &mut Vec<RoomEffect>,
    ) {
        message.push(Element::new("stanza-id", ns::SID).with("by", self.address.as_str()).with("id", id));
        if is_said(&message) {
            self.history.add(now, self.address.as_str(), &message);
        }
        self.to_all(&message, out);
    }

    /// The message as the archive stores it: with the real address behind the nickname, if all occupants may
    /// see it (XEP-0313 §6.1.2).
    pub(in super::super) fn archived(&self, message: &Element) -> Element {
        let mut message = message.clone();
        let nick = message.attr("from").and_then(|from| from.split_once('/')).map(|(_, nick)| nick);
        let speaker = nick.and_then(|nick| self.by_nick(nick));
        if let Some(speaker) = speaker.filter(|_| self.config.is_whois_anyone) {
            let standing = self.standing_of(speaker);
            let item = super::notice::listed(
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
        message.remove_children(|child| child.is("x", ns::MUC_USER) || child.is("stanza-id", ns::SID));
        message.push(Element::new("stanza-id", ns::SID).with("by", self.address.as_str()).with("id", id));
        self.history.add(at, self.address.as_str(), &message);
    }

    /// §7.2.15: always, also when there is none.
    pub(super) fn subject_for(&self, session: &Jid) -> Element {
        let mut message = match &self.subject.message {
            Some(message) => Element::clone(message),
            None => Element::new("message", ns::CLIENT)
                .with("type", "groupchat")
                .with("from", self.address.as_str())
                .child(Element::new("subject", ns::CLIENT)),
        };
        if self.subject.message.is_some() {
            let delay = Element::new("delay", ns::DELAY)
                .with("from", self.address.as_str())
                .with("stamp", xmpp::time::stamp(self.subject.at));
            message.push(delay);
        }
        message.with("to", session.as_str())
    }

    /// §7.5: to one occupant.
    fn whisper(&mut self, from: &Jid, nick: &str, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let Some(speaker) = self.occupant_of(from) else {
            return refuse(stanza, Condition::NotAcceptable, out);
        };
        let Some(listener) = self.by_nick(nick) else {
            return refuse(stanza, Condition::ItemNotFound, out);
        };
        let is_error = stanza.attr("type") == Some("error");
        let may = match self.config.allow_pm {
            AllowPm::Anyone => true,
            AllowPm::Participants => speaker.role >= Role::Participant,
            AllowPm::Moderators => speaker.role == Role::Moderator,
            AllowPm::Nobody => false,
        };
        // Occupants that may not write to others may still write to moderators, unless private messages are off.
        let may = may || (self.config.allow_pm != AllowPm::Nobody && listener.role == Role::Moderator);
        if !may && !is_error {
            return refuse(stanza, Condition::Forbidden, out);
        }
        let mut message = self.spoken(speaker, stanza);
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
