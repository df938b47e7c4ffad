//! Entering, being seen, changing the nickname and leaving (XEP-0045 §7.1 to §7.7, §7.14).

use std::sync::Arc;

use xmpp::stanza::Condition;
use xmpp::{Element, Jid, ns};

use super::{Notice, RoomUsers, to};
use crate::limits::SESSIONS_OF_OCCUPANT;
use crate::occupants::Occupant;
use crate::rules::Affiliation;
use crate::{FULL, RoomEffect, refuse};

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

impl RoomUsers {
    /// Checks a request to enter (§7.2).
    pub(crate) fn may_enter(&self, from: &Jid, nick: &str, request: &Element) -> Result<(), Condition> {
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
        match self.occupants.of_nick(nick) {
            // §7.2.8: one user's clients may share a nickname; `may_be_called` has refused other users.
            Some(mine) if mine.sessions.len() >= SESSIONS_OF_OCCUPANT => Err(FULL),
            Some(_) => Ok(()),
            // §7.2.9: administrators and owners enter a full room.
            None if self.occupants.len() >= self.config.max_users() && affiliation < Affiliation::Admin => {
                Err(Condition::ServiceUnavailable)
            }
            None => Ok(()),
        }
    }

    /// Adds the session as an occupant, or to the occupant of that nickname, and the others see it. `presence` welcomes it
    /// afterwards; nothing here can refuse: [`RoomUsers::may_enter`] has judged.
    pub(crate) fn enter(&mut self, from: &Jid, nick: &str, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let user = from.bare();
        let usual = self.affiliation(&user).role(self.config.is_moderated);
        // §5.1: in a moderated room a voice that was granted or revoked outlasts the visit.
        let role = self.voices.of(&user).unwrap_or(usual);
        let presence = Arc::new(self.address.shown(stanza));
        // §7.2.10: one more client of the same user.
        let key = match self.occupants.key_of_nick(nick) {
            Some(key) => {
                self.occupants.add_session(key, from);
                if let Some(occupant) = self.occupants.get_mut(key) {
                    occupant.presence = presence;
                }
                key
            }
            None => self.add_occupant(nick, from, role, presence),
        };
        // All but this session, which receives the others' presence first (§7.2.2, §7.2.3).
        if let Some(occupant) = self.occupants.get(key) {
            let notice = Notice::of(self, occupant);
            let mut told = Vec::new();
            self.broadcast(&notice, &occupant.sessions, &mut told);
            told.retain(|out| !is_for(out, from));
            out.append(&mut told);
        }
    }

    /// New presence of an occupant (§7.7). The id of the stanza comes back to its sender.
    pub(crate) fn update(&mut self, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) {
        let presence = Arc::new(self.address.shown(stanza));
        let Some(key) = self.occupants.key_of_session(from) else { return };
        if let Some(occupant) = self.occupants.get_mut(key) {
            occupant.presence = presence;
        }
        let Some(occupant) = self.occupants.get(key) else { return };
        let notice = Notice { cause: Some(stanza), ..Notice::of(self, occupant) };
        self.broadcast(&notice, &occupant.sessions, out);
    }

    /// Changes the nickname of a session (§7.6). One of several clients that share a nickname takes the new one alone: the others see it come,
    /// and the old occupant stays. A nickname that the same user has already is joined.
    pub(crate) fn rename(&mut self, from: &Jid, nick: &str, stanza: &Element, out: &mut Vec<RoomEffect>) {
        if let Err(condition) = self.may_be_called(&from.bare(), nick) {
            return refuse(stanza, condition, out);
        }
        let Some(key) = self.occupants.key_of_session(from) else { return };
        let Some(occupant) = self.occupants.get(key) else { return };
        let is_alone = occupant.sessions.len() == 1;
        let target = self.occupants.key_of_nick(nick);
        let is_full = target
            .and_then(|target| self.occupants.get(target))
            .is_some_and(|target| target.sessions.len() >= SESSIONS_OF_OCCUPANT);
        if is_full || (!is_alone && target.is_none() && self.occupants.len() >= self.config.max_users()) {
            return refuse(stanza, FULL, out);
        }
        let notice =
            Notice { nick: Some(nick), codes: &[303], cause: Some(stanza), ..Notice::gone(self, occupant) };
        // §7.6: the occupant stays, so its role in the unavailable presence is not `none`.
        let notice = Notice { standing: self.standing_of(occupant), ..notice };
        // The other clients of a shared nickname stay as they are, so the occupant does not leave for the others.
        let own = std::slice::from_ref(from);
        if is_alone {
            self.broadcast(&notice, own, out);
        } else {
            out.push(RoomEffect::Send(to(&notice.build(self, true, true), from)));
        }
        let role = occupant.role;
        if is_alone && target.is_none() {
            self.occupants.rename(key, nick);
        } else {
            self.occupants.remove_session(from);
            // The user's other clients are still there under the old one.
            if let Some(old) = self.occupants.get(key) {
                let seen = Notice::of(self, old).build(self, self.sees_addresses(role), false);
                out.push(RoomEffect::Send(to(&seen, from)));
            }
            match target {
                Some(target) => self.occupants.add_session(target, from),
                None => {
                    self.add_occupant(nick, from, role, Arc::new(self.address.shown(stanza)));
                }
            }
        }
        self.update(from, stanza, out);
    }

    /// Removes a session (§7.14). The others see the occupant go with its last session; until then only the session itself learns of it.
    pub(crate) fn leave(&mut self, from: &Jid, stanza: &Element, codes: &[u16], out: &mut Vec<RoomEffect>) {
        let Some(occupant) = self.occupants.of_session(from).cloned() else { return };
        let is_gone = self.occupants.remove_session(from);
        let one = Occupant { sessions: vec![from.clone()], ..occupant };
        let notice = Notice { cause: Some(stanza), codes, ..Notice::gone(self, &one) };
        if is_gone {
            return self.broadcast(&notice, &one.sessions, out);
        }
        out.push(RoomEffect::Send(to(&notice.build(self, true, true), from)));
    }

    /// Something came back from a client as an error. True: it is gone.
    pub(crate) fn bounced(&mut self, from: &Jid, stanza: &Element, out: &mut Vec<RoomEffect>) -> bool {
        let Some(error) = stanza.get("error", ns::CLIENT) else { return false };
        let is_gone = GONE.iter().any(|condition| error.get(condition.as_str(), ns::STANZA_ERRORS).is_some());
        if is_gone {
            // §7.14 and the registry: removed because of an error.
            self.leave(from, stanza, &[307, 333], out);
        }
        is_gone
    }

    /// The service ends (§7.14, 332): all occupants leave.
    pub(crate) fn close(&mut self, out: &mut Vec<RoomEffect>) {
        for occupant in self.occupants.values() {
            let notice = Notice { codes: &[332], ..Notice::gone(self, occupant) };
            let last = notice.build(self, true, true);
            out.extend(occupant.sessions.iter().map(|session| RoomEffect::Send(to(&last, session))));
        }
        self.occupants.clear();
    }
}

/// True for a stanza to this session.
pub(crate) fn is_for(out: &RoomEffect, session: &Jid) -> bool {
    matches!(out, RoomEffect::Send(sent) if sent.attr("to") == Some(session.as_str()))
}

/// Compares in the same time whether the first byte differs or the last.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
