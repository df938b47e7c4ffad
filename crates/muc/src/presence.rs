//! Presence to a room: entering, being seen, changing the nickname and leaving (XEP-0045 §7.1 to §7.7, §7.14). `Room::handle` calls
//! `presence`; it decides by the presence and the sender's place in the room which of these is meant, and `users::enter` does it.

use stdx::Instant;
use xmpp::stanza::Condition;
use xmpp::{Element, Jid, ns};

use super::history::HistoryRequest;
use super::users::{Notice, is_for, to};
use super::{Room, RoomEffect, is_again, refuse};

impl Room {
    pub(super) fn presence(
        &mut self,
        now: Instant,
        from: &Jid,
        to: &Jid,
        stanza: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        match stanza.attr("type") {
            None => match to.resource() {
                Some(nick) => self.available(now, from, nick, stanza, out),
                // §7.2.1: "if the user does not specify a room nickname".
                None => refuse(stanza, Condition::JidMalformed, out),
            },
            // §7.14: the nickname in `to` does not matter: a session has one occupant.
            Some("unavailable") => self.users.leave(from, stanza, &[], out),
            Some("error") => {
                self.users.bounced(from, stanza, out);
            }
            // Subscriptions and probes: a room is in no roster, and an answer would tell strangers of its occupants.
            Some(_) => {}
        }
    }

    /// Presence to a nickname. The request `<x/>` of XEP-0045 §7.2.1 tells a client that enters from one that only changes
    /// its presence.
    fn available(
        &mut self,
        now: Instant,
        from: &Jid,
        nick: &str,
        stanza: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let request = stanza.get("x", ns::MUC);
        let is_here = self.users.occupants.of_session(from).map(|occupant| *occupant.nick == *nick);
        match (is_here, request) {
            // Its client has forgotten that it is here, and wants to see everything again.
            (Some(true), Some(request)) => {
                // An occupant whose session enters again by itself is as the others have seen it.
                if !is_again(stanza) {
                    // Its own presence comes in the place that it has among those of all (§7.1).
                    let mut told = Vec::new();
                    self.users.update(from, stanza, &mut told);
                    told.retain(|out| !is_for(out, from));
                    out.append(&mut told);
                }
                self.welcome(now, from, stanza, Some(request), &[], out);
            }
            (Some(true), None) => {
                self.users.update(from, stanza, out);
            }
            // §7.6: presence to another nickname changes it, with or without `<x/>`.
            (Some(false), _) => self.users.rename(from, nick, stanza, out),
            (None, Some(request)) => match self.users.may_enter(from, nick, request) {
                Ok(()) => {
                    self.users.enter(from, nick, stanza, out);
                    // §10.1.1: 201 tells the owner that the room is new and waits for its configuration.
                    let codes: &[u16] = if self.users.is_locked { &[201] } else { &[] };
                    self.welcome(now, from, stanza, Some(request), codes, out);
                }
                Err(condition) => refuse(stanza, condition, out),
            },
            // It thinks that it is here, and is not: since the room was restarted, perhaps.
            (None, None) => refuse(stanza, Condition::NotAcceptable, out),
        }
    }

    /// The occupants, the own presence, the history, the subject: in that order (§7.1).
    fn welcome(
        &self,
        now: Instant,
        from: &Jid,
        stanza: &Element,
        request: Option<&Element>,
        codes: &[u16],
        out: &mut Vec<RoomEffect>,
    ) {
        let users = &self.users;
        let Some(me) = users.occupants.of_session(from) else { return };
        let with_address = users.sees_addresses(me.role);
        // §7.2.2: the new occupant gets the presence of every other one before its own. Occupants that came first are told first.
        for other in users.occupants.values().filter(|other| other.nick != me.nick) {
            let seen = Notice::of(users, other).build(users, with_address, false);
            out.push(RoomEffect::Send(seen.with("to", from.as_str())));
        }
        out.extend(self.vcard.presence_for(&users.address, from).map(RoomEffect::Send));
        let mut all = Vec::new();
        // §7.2.3: the user is warned that all occupants see the address.
        if users.config.is_whois_anyone {
            all.push(100);
        }
        // §7.2.12: "the room is logged" comes with the first presence.
        if self.is_archived() {
            all.push(170);
        }
        // The address as it was prepared is not the one that was written.
        let written = stanza.attr("to").and_then(|to| to.split_once('/')).map(|(_, nick)| nick);
        if written.is_some_and(|written| written != &*me.nick) {
            all.push(210);
        }
        all.extend_from_slice(codes);
        let notice = Notice { codes: &all, cause: Some(stanza), ..Notice::of(users, me) };
        out.push(RoomEffect::Send(to(&notice.build(users, true, true), from)));
        let wanted = HistoryRequest::of(request.and_then(|request| request.get("history", ns::MUC)));
        out.extend(self.history.fitting(now, &wanted).map(|past| RoomEffect::Send(to(past, from))));
        // §7.2.15: the subject comes last, also an empty one: it tells the client that the history is complete.
        out.push(RoomEffect::Send(self.subject.message_for(&users.address, from)));
    }
}
