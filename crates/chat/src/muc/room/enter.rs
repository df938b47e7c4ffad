//! Entering, being seen, changing the nickname and leaving (XEP-0045 §7.1 to §7.7, §7.14).

use std::sync::Arc;

use stdx::Instant;
use xmpp::stanza::Condition;
use xmpp::{Bare, Element, Jid, ns};

use super::history::HistoryRequest;
use super::notice::{Notice, shown, status, to};
use super::rules::Affiliation;
use super::{FULL, Room, RoomEffect, refuse};
use crate::limits::{NICK, SESSIONS_OF_OCCUPANT};

/// Errors after which a client is not there (§7.14, XEP-0410 §3): a stanza sent to it came back.
const GONE: [Condition; 9] = [
    Condition::Gone,
    Condition::InternalServerError,
    Condition::ItemNotFound,
    Condition::JidMalformed,
    Condition::RecipientUnavailable,
    Condition::Redirect,
    Condition::RemoteServerNotFound,
    Condition::RemoteServerTimeout,
    Condition::ServiceUnavailable,
];

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
            Some("unavailable") => self.leave(from, stanza, &[], out),
            Some("error") => {
                self.bounced(from, stanza, out);
            }
            // Rooms are in no roster.
            Some(_) => {}
        }
    }

    fn available(
        &mut self,
        now: Instant,
        from: &Jid,
        nick: &str,
        stanza: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let request = stanza.get("x", ns::MUC);
        let is_here = self.occupant_of(from).map(|occupant| *occupant.nick == *nick);
        match (is_here, request) {
            // Its client has forgotten that it is here, and wants to see everything again.
            (Some(true), Some(request)) => {
                // Its own presence comes in the place that it has among those of all (§7.1).
                let mut told = Vec::new();
                self.update(from, stanza, &mut told);
                told.retain(|out| !is_for(out, from));
                out.append(&mut told);
                self.welcome(now, from, stanza, Some(request), &[], out);
            }
            (Some(true), None) => {
                self.update(from, stanza, out);
            }
            (Some(false), _) => self.rename(from, nick, stanza, out),
            (None, Some(request)) => match self.may_enter(from, nick, request) {
                Ok(()) => self.enter(now, from, nick, stanza, request, out),
                Err(condition) => refuse(stanza, condition, out),
            },
            // It thinks that it is here, and is not: since the room was restarted, perhaps.
            (None, None) => refuse(stanza, Condition::NotAcceptable, out),
        }
    }

    fn may_enter(&self, from: &Jid, nick: &str, request: &Element) -> Result<(), Condition> {
        let user = from.bare();
        let affiliation = self.affiliation(&user);
        // §7.2.7, §7.2.6, §7.2.5, §10.1.2, §7.2.8, §7.2.9: in this order, so that a banned user learns
        // nothing else.
        if affiliation == Affiliation::Outcast {
            return Err(Condition::Forbidden);
        }
        if self.is_locked && affiliation != Affiliation::Owner {
            return Err(Condition::ItemNotFound);
        }
        if self.config.is_members_only && affiliation < Affiliation::Member {
            return Err(Condition::RegistrationRequired);
        }
        let password = request.content_of("password", ns::MUC).unwrap_or_default();
        if !self.config.password.is_empty() && !same(password.as_bytes(), self.config.password.as_bytes()) {
            return Err(Condition::NotAuthorized);
        }
        self.may_be_called(&user, nick)?;
        match self.by_nick(nick) {
            Some(mine) if mine.sessions.len() >= SESSIONS_OF_OCCUPANT => Err(FULL),
            Some(_) => Ok(()),
            None if self.occupants.len() >= self.config.max_users() && affiliation < Affiliation::Admin => {
                Err(Condition::ServiceUnavailable)
            }
            None => Ok(()),
        }
    }

    /// A nickname is free when no other user has it, here or reserved.
    pub(super) fn may_be_called(&self, user: &Bare, nick: &str) -> Result<(), Condition> {
        if nick.len() > NICK || nick.trim().is_empty() {
            return Err(Condition::NotAcceptable);
        }
        let is_taken = self.by_nick(nick).is_some_and(|occupant| occupant.user != *user);
        if is_taken || self.reserved_by(nick).is_some_and(|owner| owner != user) {
            return Err(Condition::Conflict);
        }
        Ok(())
    }

    pub(super) fn reserved_by(&self, nick: &str) -> Option<&Bare> {
        let mut reserved = self.entries.iter().filter(|(_, entry)| entry.nick.as_deref() == Some(nick));
        reserved.next().map(|(user, _)| user)
    }

    fn enter(
        &mut self,
        now: Instant,
        from: &Jid,
        nick: &str,
        stanza: &Element,
        request: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        let user = from.bare();
        let usual = self.affiliation(&user).role(self.config.is_moderated);
        let role = self.voices.get(&user).copied().unwrap_or(usual);
        let presence = Arc::new(shown(self, stanza));
        // §7.2.10: one more client of the same user.
        let key = match self.by_nick.get(nick) {
            Some(key) => {
                let key = *key;
                self.add_session(key, from);
                if let Some(occupant) = self.occupants.get_mut(&key) {
                    occupant.presence = presence;
                }
                key
            }
            None => self.add_occupant(nick, from, role, presence),
        };
        let created: &[u16] = if self.is_locked { &[201] } else { &[] };
        // All but this session, which receives the others' presence first (§7.2.2, §7.2.3).
        if let Some(occupant) = self.occupants.get(&key) {
            let notice = Notice::of(self, occupant);
            let mut told = Vec::new();
            self.broadcast(&notice, &occupant.sessions, &mut told);
            told.retain(|out| !is_for(out, from));
            out.append(&mut told);
        }
        self.welcome(now, from, stanza, Some(request), created, out);
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
        let Some(me) = self.occupant_of(from) else { return };
        let with_address = self.sees_addresses(me.role);
        for other in self.occupants.values().filter(|other| other.nick != me.nick) {
            let seen = Notice::of(self, other).build(self, with_address, false);
            out.push(RoomEffect::Send(seen.with("to", from.as_str())));
        }
        let mut all = Vec::new();
        if self.config.is_whois_anyone {
            all.push(100);
        }
        if self.is_archived() {
            all.push(170);
        }
        // The address as it was prepared is not the one that was written.
        let written = stanza.attr("to").and_then(|to| to.split_once('/')).map(|(_, nick)| nick);
        if written.is_some_and(|written| written != &*me.nick) {
            all.push(210);
        }
        all.extend_from_slice(codes);
        let notice = Notice { codes: &all, cause: Some(stanza), ..Notice::of(self, me) };
        out.push(RoomEffect::Send(to(&notice.build(self, true, true), from)));
        let wanted = HistoryRequest::of(request.and_then(|request| request.get("history", ns::MUC)));
        out.extend(self.history.fitting(now, &wanted).map(|past| RoomEffect::Send(to(past, from))));
        out.push(RoomEffect::Send(self.subject_for(from)));
    }

    /// New presence of an occupant (§7.7). The id of the stanza comes back to its sender.
    fn update(&mut self, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let presence = Arc::new(shown(self, stanza));
        let Some(key) = self.by_session.get(from).copied() else { return };
        if let Some(occupant) = self.occupants.get_mut(&key) {
            occupant.presence = presence;
        }
        let Some(occupant) = self.occupants.get(&key) else { return };
        let notice = Notice { cause: Some(stanza), ..Notice::of(self, occupant) };
        self.broadcast(&notice, &occupant.sessions, out);
    }

    /// §7.6. One of several clients that share a nickname takes the new one alone.
    fn rename(&mut self, from: &Jid, nick: &str, stanza: &Element, out: &mut Vec<RoomEffect>) {
        if let Err(condition) = self.may_be_called(&from.bare(), nick) {
            return refuse(stanza, condition, out);
        }
        let Some(key) = self.by_session.get(from).copied() else { return };
        let Some(occupant) = self.occupants.get(&key) else { return };
        let is_alone = occupant.sessions.len() == 1;
        let target = self.by_nick.get(nick).copied();
        let is_full = target
            .and_then(|target| self.occupants.get(&target))
            .is_some_and(|target| target.sessions.len() >= SESSIONS_OF_OCCUPANT);
        if is_full || (!is_alone && target.is_none() && self.occupants.len() >= self.config.max_users()) {
            return refuse(stanza, FULL, out);
        }
        let notice =
            Notice { nick: Some(nick), codes: &[303], cause: Some(stanza), ..Notice::gone(self, occupant) };
        let notice = Notice { standing: self.standing_of(occupant), ..notice };
        let own = std::slice::from_ref(from);
        if is_alone {
            self.broadcast(&notice, own, out);
        } else {
            out.push(RoomEffect::Send(to(&notice.build(self, true, true), from)));
        }
        let role = occupant.role;
        if is_alone && target.is_none() {
            self.by_nick.remove(&occupant.nick.clone());
            self.by_nick.insert(nick.into(), key);
            if let Some(occupant) = self.occupants.get_mut(&key) {
                occupant.nick = nick.into();
            }
        } else {
            self.remove_session(from);
            // The user's other clients are still there under the old one.
            if let Some(old) = self.occupants.get(&key) {
                let seen = Notice::of(self, old).build(self, self.sees_addresses(role), false);
                out.push(RoomEffect::Send(to(&seen, from)));
            }
            match target {
                Some(target) => self.add_session(target, from),
                None => {
                    self.add_occupant(nick, from, role, Arc::new(shown(self, stanza)));
                }
            }
        }
        self.update(from, stanza, out);
    }

    /// §7.14. The others see it go when its last session went.
    pub(super) fn leave(&mut self, from: &Jid, stanza: &Element, codes: &[u16], out: &mut Vec<RoomEffect>) {
        let Some(occupant) = self.occupant_of(from).cloned() else { return };
        let is_gone = self.remove_session(from);
        let one = super::Occupant { sessions: vec![from.clone()], ..occupant };
        let notice = Notice { cause: Some(stanza), codes, ..Notice::gone(self, &one) };
        if is_gone {
            return self.broadcast(&notice, &one.sessions, out);
        }
        out.push(RoomEffect::Send(to(&notice.build(self, true, true), from)));
    }

    /// Something came back from a client as an error. True: it is gone.
    pub(super) fn bounced(&mut self, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) -> bool {
        let Some(error) = stanza.get("error", ns::CLIENT) else { return false };
        let is_gone = GONE.iter().any(|condition| error.get(condition.as_str(), ns::STANZA_ERRORS).is_some());
        if is_gone {
            // §7.14 and the registry: removed because of an error.
            self.leave(from, stanza, &[307, 333], out);
        }
        is_gone
    }

    /// The service ends (§7.14, 332): all occupants leave.
    pub(in super::super) fn close(&mut self, out: &mut Vec<RoomEffect>) {
        for occupant in self.occupants.values() {
            let notice = Notice { codes: &[332], ..Notice::gone(self, occupant) };
            let last = notice.build(self, true, true);
            out.extend(occupant.sessions.iter().map(|session| RoomEffect::Send(to(&last, session))));
        }
        self.occupants.clear();
        self.by_nick.clear();
        self.by_session.clear();
        self.by_user.clear();
    }

    /// Removes occupants that may not stay since the room is for members (322), or that have lost their
    /// affiliation (321).
    pub(super) fn expel_outsiders(&mut self, code: u16, out: &mut Vec<RoomEffect>) {
        let is_stranger = |room: &Room, user: &Bare| room.affiliation(user) < Affiliation::Member;
        let strangers: Vec<u64> = self
            .occupants
            .iter()
            .filter(|(_, occupant)| is_stranger(self, &occupant.user))
            .map(|(key, _)| *key)
            .collect();
        for key in strangers {
            self.expel(key, &[code], None, None, out);
        }
    }

    /// A message with status codes for all occupants (§10.2.1).
    pub(super) fn tell_codes(&self, codes: &[u16], out: &mut Vec<RoomEffect>) {
        if !codes.is_empty() {
            let x = Element::new("x", ns::MUC_USER).children(codes.iter().map(|code| status(*code)));
            self.tell_all(x, out);
        }
    }
}

fn is_for(out: &RoomEffect, session: &Jid) -> bool {
    matches!(out, RoomEffect::Send(sent) if sent.attr("to") == Some(session.as_str()))
}

/// Compares in the same time whether the first byte differs or the last.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
