//! The users of a room: the occupants, the affiliations, and the roles that follow from them (XEP-0045 §5). A change here is
//! announced to the occupants that may see it.
//!
//! The files: `enter` lets sessions in, renames and removes them; `notice` builds the presence by which occupants learn of
//! it; `invite` has messages to the room itself; `register` has the reservation of nicknames.

mod enter;
mod invite;
mod notice;
mod register;

use std::sync::Arc;

use xmpp::stanza::Condition;
use xmpp::{Bare, Element, Jid};

use super::RoomEffect;
use super::address::RoomAddress;
use super::affiliations::Affiliations;
use super::config::RoomConfig;
use super::occupants::{Occupant, Occupants};
use super::rules::{Affiliation, Privileges, Role};
use super::voices::Voices;
use crate::hats::Hats;
use crate::limits::NICK;
pub(super) use enter::is_for;
use invite::Invitations;
pub(super) use notice::{Notice, listed, to};

/// The occupants and affiliations of a room, with the configuration that decides their rights.
#[derive(Clone)]
pub(super) struct RoomUsers {
    pub(super) address: RoomAddress,
    pub(super) config: RoomConfig,
    /// Its owner has not configured it yet (§10.1).
    pub(super) is_locked: bool,
    /// It is stored while it has occupants, though it is temporary: for its next host, if this one dies.
    pub(super) is_shared: bool,
    pub(super) affiliations: Affiliations,
    pub(super) occupants: Occupants,
    /// Roles that outlast visits of a moderated room.
    pub(super) voices: Voices,
    pub(super) hats: Hats,
    /// Invitations that may be declined.
    invitations: Invitations,
}

/// A cause of a change of privileges, as occupants learn it.
#[derive(Clone, Copy, Default)]
pub(super) struct ChangeCause<'a> {
    /// The nickname of the actor.
    pub(super) by: Option<&'a str>,
    /// The actor's words.
    pub(super) reason: Option<&'a str>,
}

impl RoomUsers {
    /// A room without users.
    pub(super) fn new(address: RoomAddress) -> RoomUsers {
        RoomUsers {
            address,
            config: RoomConfig::default(),
            is_locked: false,
            is_shared: false,
            affiliations: Affiliations::default(),
            occupants: Occupants::default(),
            voices: Voices::default(),
            hats: Hats::default(),
            invitations: Invitations::default(),
        }
    }

    /// True if changes of the room are stored. A room with an archive is, so that the archive ends with it, also after a crash.
    pub(super) fn is_stored(&self) -> bool {
        self.config.is_persistent || self.config.is_archived() || (self.is_shared && !self.is_locked)
    }

    /// The affiliation that counts: the user's own, or the ban of its domain.
    pub(super) fn affiliation(&self, user: &Bare) -> Affiliation {
        self.affiliations.of(user)
    }

    /// The privileges of an actor, in the room or not. An administrator of the server acts as a moderator without being there.
    pub(super) fn standing(&self, session: &Jid) -> Privileges {
        let user = session.bare();
        let role = match self.occupants.of_session(session) {
            _ if self.affiliations.is_above(&user) => Role::Moderator,
            Some(occupant) => occupant.role,
            None => Role::None,
        };
        Privileges { role, affiliation: self.affiliation(&user) }
    }

    pub(super) fn standing_of(&self, occupant: &Occupant) -> Privileges {
        Privileges { role: occupant.role, affiliation: self.affiliation(&occupant.user) }
    }

    /// True if an occupant of that role sees real addresses (§4.2, non-anonymous and semi-anonymous rooms).
    pub(super) fn sees_addresses(&self, role: Role) -> bool {
        self.config.is_whois_anyone || role == Role::Moderator
    }

    /// Adds an occupant with its first session, and returns its key.
    pub(super) fn add_occupant(
        &mut self,
        nick: &str,
        session: &Jid,
        role: Role,
        presence: Arc<Element>,
    ) -> u64 {
        let user = session.bare();
        // XEP-0421: the id is the same for all visits of a user and says nothing about its address.
        let id = self.address.seal(user.as_str()).into();
        let occupant = Occupant { nick: nick.into(), user, role, id, sessions: Vec::new(), presence };
        self.occupants.add(occupant, session)
    }

    /// A nickname is free when no other user has it, here or reserved.
    pub(super) fn may_be_called(&self, user: &Bare, nick: &str) -> Result<(), Condition> {
        if nick.len() > NICK || nick.trim().is_empty() {
            return Err(Condition::NotAcceptable);
        }
        let is_taken = self.occupants.of_nick(nick).is_some_and(|occupant| occupant.user != *user);
        // §7.2.8: "conflict", also for a nickname that another user has reserved (§7.10).
        if is_taken || self.affiliations.reserved_by(nick).is_some_and(|owner| owner != user) {
            return Err(Condition::Conflict);
        }
        Ok(())
    }

    /// The nickname in the form that it has in an address (prepared), if it is free for the user.
    pub(super) fn reservable(&self, user: &Bare, nick: &str) -> Result<Box<str>, Condition> {
        let address = self.address.bare.with_resource(nick).map_err(|_| Condition::JidMalformed)?;
        let nick = address.resource().unwrap_or_default();
        self.may_be_called(user, nick)?;
        Ok(nick.into())
    }

    /// Sets the role of an occupant, and all occupants see it. The caller has asked `rules`.
    pub(super) fn set_role(
        &mut self,
        key: u64,
        role: Role,
        cause: ChangeCause<'_>,
        out: &mut Vec<RoomEffect>,
    ) {
        self.keep_voice(key, role);
        // §8.2: the role `none` is a kick.
        if role == Role::None {
            return self.expel(key, &[307], cause, out);
        }
        if let Some(occupant) = self.occupants.get_mut(key) {
            occupant.role = role;
        }
        self.announce(key, cause, out);
    }

    /// Keeps a role that differs from that of the affiliation: in a moderated room it outlasts the visit (§5.1), so that a silenced user has no
    /// voice after entering again.
    fn keep_voice(&mut self, key: u64, role: Role) {
        // A kick does not give a voice back.
        let Some(occupant) = self.occupants.get(key).filter(|_| role != Role::None) else { return };
        let user = occupant.user.clone();
        let is_usual = role == self.affiliation(&user).role(self.config.is_moderated);
        if is_usual || !self.config.is_moderated || role == Role::Moderator {
            self.voices.remove(&user);
        } else {
            self.voices.keep(user, role);
        }
    }

    /// Sets an affiliation and applies it to the occupants of that user: those that may not stay are removed, the role of
    /// the others follows. An absent user is named to the occupants that see addresses. The caller has judged the right to
    /// do so.
    pub(super) fn set_affiliation(
        &mut self,
        user: &Bare,
        affiliation: Affiliation,
        cause: ChangeCause<'_>,
        out: &mut Vec<RoomEffect>,
    ) {
        let old = self.affiliation(user);
        let was_here = !self.occupants.keys_of_user(user).is_empty();
        let kept = cause.reason.filter(|_| affiliation == Affiliation::Outcast).map(Box::from);
        self.affiliations.set(user, |entry| {
            entry.affiliation = affiliation;
            entry.reason = kept;
            entry.is_registered = false;
            // The nickname of a user without rights here is free for others; it would also be an entry that no list shows.
            if affiliation < Affiliation::Member {
                entry.nick = None;
            }
        });
        if user.local().is_none() && affiliation == Affiliation::Outcast {
            // Users that have registered themselves are banned with their domain, as strangers are.
            self.affiliations.remove_registered(user.domain());
        }
        let new = self.affiliation(user);
        if new != old {
            self.voices.remove(user);
        }
        for key in concerned(self, user) {
            // §9.1: a ban removes the occupant at once (301).
            if new == Affiliation::Outcast {
                self.expel(key, &[301], cause, out);
            // §9.4: an occupant of a members-only room that is no member any more is removed (321).
            } else if self.config.is_members_only && new < Affiliation::Member {
                self.expel(key, &[321], cause, out);
            } else {
                self.role_follows(key, old, new);
                self.announce(key, cause, out);
            }
        }
        if new != old && !was_here && user.local().is_some() {
            self.tell_of_absent(user, new, cause.reason, out);
        }
    }

    /// Gives an occupant the role of its new affiliation (§5.1.2): administrators and owners are moderators, a demoted one is not; a new member
    /// gets voice. A moderator stays one if neither affiliation is an administrator's.
    fn role_follows(&mut self, key: u64, old: Affiliation, new: Affiliation) {
        let is_moderated = self.config.is_moderated;
        let Some(occupant) = self.occupants.get_mut(key) else { return };
        let is_about_admins = old.max(new) >= Affiliation::Admin;
        if is_about_admins || (new != old && occupant.role != Role::Moderator) {
            occupant.role = new.role(is_moderated);
        }
    }

    /// Voice is by default what the affiliation gives, in the moderated room and in the other (§5.1.2): for members as for others.
    pub(super) fn reset_voices(&mut self, out: &mut Vec<RoomEffect>) {
        self.voices.clear();
        let wrong = |(key, occupant): (u64, &Occupant)| {
            let affiliation = self.affiliation(&occupant.user);
            let role = affiliation.role(self.config.is_moderated);
            (affiliation <= Affiliation::Member && occupant.role < Role::Moderator && occupant.role != role)
                .then_some((key, role))
        };
        let changed: Vec<_> = self.occupants.iter().filter_map(wrong).collect();
        for (key, role) in changed {
            self.set_role(key, role, ChangeCause::default(), out);
        }
    }

    /// Removes occupants that may not stay since the room is for members (322), or that have lost their
    /// affiliation (321).
    pub(super) fn expel_outsiders(&mut self, code: u16, out: &mut Vec<RoomEffect>) {
        let outsiders: Vec<u64> = self
            .occupants
            .iter()
            .filter(|(_, occupant)| self.affiliation(&occupant.user) < Affiliation::Member)
            .map(|(key, _)| key)
            .collect();
        for key in outsiders {
            self.expel(key, &[code], ChangeCause::default(), out);
        }
    }
}

/// The occupants whose affiliation is that of this user. The ban of a domain concerns all of its users, except those with an affiliation of
/// their own.
fn concerned(users: &RoomUsers, user: &Bare) -> Vec<u64> {
    if user.local().is_some() {
        return users.occupants.keys_of_user(user).to_vec();
    }
    let of_domain = |occupant: &Occupant| {
        occupant.user.domain() == user.domain() && users.affiliation(&occupant.user) == Affiliation::Outcast
    };
    users.occupants.iter().filter(|(_, one)| of_domain(one)).map(|(key, _)| key).collect()
}
