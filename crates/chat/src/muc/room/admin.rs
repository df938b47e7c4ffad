//! Roles and affiliations: lists of them, and changes (XEP-0045 §8.2 to §8.5, §9, §10.3 to §10.8).

use std::collections::BTreeMap;

use xmpp::stanza::{self, Condition};
use xmpp::{Bare, Element, Jid, ns};

use super::notice::{listed, status};
use super::rules::{Affiliation, Role, may_list, may_list_role, may_set_affiliation, may_set_role};
use super::{FULL, Room, RoomEffect, RoomUser, refuse};
use crate::limits::{AFFILIATIONS, OCCUPANTS, ROOM_TEXT};

/// One item of a request, as it was found to be possible.
enum AdminChange {
    Role {
        key: u64,
        role: Role,
        reason: Option<Box<str>>,
    },
    /// `nick` is reserved for the new member.
    Affiliation {
        user: Bare,
        affiliation: Affiliation,
        nick: Option<Box<str>>,
        reason: Option<Box<str>>,
    },
}

impl Room {
    pub(super) fn admin_list(&self, from: &Jid, query: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        let Some(item) = query.get("item", ns::MUC_ADMIN) else {
            return refuse(iq, Condition::BadRequest, out);
        };
        let role = item.attr("role").map(Role::parse);
        let affiliation = item.attr("affiliation").map(Affiliation::parse);
        let items = match (role, affiliation) {
            (Some(Some(role)), None) => self.with_role(from, role),
            (None, Some(Some(affiliation))) => self.with_affiliation(from, affiliation),
            _ => Err(Condition::BadRequest),
        };
        match items {
            Ok(items) => {
                let query = Element::new("query", ns::MUC_ADMIN).children(items);
                out.push(RoomEffect::Send(stanza::result(iq, Some(query))));
            }
            Err(condition) => refuse(iq, condition, out),
        }
    }

    fn with_role(&self, from: &Jid, role: Role) -> Result<Vec<Element>, Condition> {
        if !may_list_role(self.standing(from), role) {
            return Err(Condition::Forbidden);
        }
        let those = self.occupants.values().filter(|occupant| occupant.role == role);
        let item = |occupant: &super::Occupant| {
            let address = occupant.sessions.last().map(Jid::as_str);
            let affiliation = self.affiliation(&occupant.user);
            listed(ns::MUC_ADMIN, address, Some(&occupant.nick), (affiliation, Some(role)))
        };
        Ok(those.map(item).collect())
    }

    fn with_affiliation(&self, from: &Jid, affiliation: Affiliation) -> Result<Vec<Element>, Condition> {
        let is_open = self.config.is_members_only && self.config.is_whois_anyone;
        if !may_list(self.affiliation(&from.bare()), affiliation, is_open) {
            return Err(Condition::Forbidden);
        }
        let those = self.entries.iter().filter(|(_, entry)| entry.affiliation == affiliation);
        let item = |(user, entry): (&Bare, &RoomUser)| {
            let mut item =
                listed(ns::MUC_ADMIN, Some(user.as_str()), entry.nick.as_deref(), (affiliation, None));
            if let Some(reason) = &entry.reason {
                item.push(Element::new("reason", ns::MUC_ADMIN).text(&**reason));
            }
            item
        };
        Ok(those.map(item).collect())
    }

    /// All items, or none.
    pub(super) fn admin_set(&mut self, from: &Jid, query: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        let items = query.elements().filter(|child| child.is("item", ns::MUC_ADMIN));
        let wishes: Result<Vec<AdminChange>, Condition> = items.map(|item| self.wish(from, item)).collect();
        let wishes = match wishes {
            Ok(wishes) if wishes.is_empty() => return refuse(iq, Condition::BadRequest, out),
            Ok(wishes) => wishes,
            Err(condition) => return refuse(iq, condition, out),
        };
        if let Err(condition) = self.may_be_all(&wishes) {
            return refuse(iq, condition, out);
        }
        let by = self.occupant_of(from).map(|actor| actor.nick.clone());
        let mut has_changed = false;
        for wish in wishes {
            match wish {
                AdminChange::Role { key, role, reason } => {
                    self.set_role(key, role, by.as_deref(), reason.as_deref(), out);
                }
                AdminChange::Affiliation { user, affiliation, nick, reason } => {
                    has_changed = true;
                    let is_told = user == from.bare() || self.by_user.contains_key(&user);
                    let old = self.affiliation(&user);
                    self.set_affiliation(&user, affiliation, by.as_deref(), reason.as_deref(), out);
                    if let Some(nick) = nick {
                        self.set_entry(&user, |entry| entry.nick = Some(nick));
                    }
                    if !is_told && old != affiliation {
                        self.tell_absent(&user, affiliation, reason.as_deref(), out);
                    }
                }
            }
        }
        if has_changed && self.config.is_persistent {
            out.push(RoomEffect::Save);
        }
        out.push(RoomEffect::Send(stanza::result(iq, None)));
    }

    fn wish(&self, from: &Jid, item: &Element) -> Result<AdminChange, Condition> {
        let reason = item.content_of("reason", ns::MUC_ADMIN).map(|reason| head(&reason));
        let nick = item.attr("nick");
        if let Some(role) = item.attr("role") {
            // §5.2: "a MUC client MUST send only the 'affiliation' attribute or the 'role' attribute".
            if item.attr("affiliation").is_some() {
                return Err(Condition::BadRequest);
            }
            let role = Role::parse(role).ok_or(Condition::BadRequest)?;
            let nick = nick.ok_or(Condition::BadRequest)?;
            let actor = self.standing(from);
            if actor.role != Role::Moderator {
                return Err(Condition::Forbidden);
            }
            let key = *self.by_nick.get(nick).ok_or(Condition::ItemNotFound)?;
            let target = self.occupants.get(&key).ok_or(Condition::ItemNotFound)?;
            may_set_role(actor, self.standing_of(target), role)?;
            return Ok(AdminChange::Role { key, role, reason });
        }
        let affiliation =
            item.attr("affiliation").and_then(Affiliation::parse).ok_or(Condition::BadRequest)?;
        let actor = self.affiliation(&from.bare());
        if actor < Affiliation::Admin {
            return Err(Condition::Forbidden);
        }
        let user = match (item.attr("jid"), nick) {
            (Some(jid), _) => Jid::parse(jid).map_err(|_| Condition::JidMalformed)?.bare(),
            (None, Some(nick)) => self.by_nick(nick).ok_or(Condition::ItemNotFound)?.user.clone(),
            (None, None) => return Err(Condition::BadRequest),
        };
        // A domain is no user, but may be banned.
        if user.local().is_none() && affiliation > Affiliation::None {
            return Err(Condition::NotAcceptable);
        }
        may_set_affiliation(actor, self.affiliation(&user), affiliation, user == from.bare())?;
        let nick = nick.filter(|_| affiliation == Affiliation::Member && item.attr("jid").is_some());
        let nick = nick.map(|nick| self.reservable(&user, nick)).transpose()?;
        Ok(AdminChange::Affiliation { user, affiliation, nick, reason })
    }

    /// The rules for all changes together: an owner remains (§10.4), and the list stays short enough.
    fn may_be_all(&self, wishes: &[AdminChange]) -> Result<(), Condition> {
        let mut after = BTreeMap::new();
        let mut nicks = BTreeMap::new();
        for wish in wishes {
            if let AdminChange::Affiliation { user, affiliation, nick, .. } = wish {
                after.insert(user, *affiliation);
                if nick
                    .as_ref()
                    .is_some_and(|nick| nicks.insert(nick, user).is_some_and(|other| other != user))
                {
                    return Err(Condition::Conflict);
                }
            }
        }
        let stored = |user: &Bare| self.entries.get(user).map(|entry| entry.affiliation).unwrap_or_default();
        let is_owner = |affiliation: Affiliation| affiliation == Affiliation::Owner;
        let lost = after.iter().filter(|(user, new)| is_owner(stored(user)) && !is_owner(**new)).count();
        let won = after.iter().filter(|(user, new)| !is_owner(stored(user)) && is_owner(**new)).count();
        if lost > 0 && self.owners() + won <= lost {
            return Err(Condition::Conflict);
        }
        let new = after
            .iter()
            .filter(|(user, new)| !self.entries.contains_key(**user) && **new != Affiliation::None);
        if self.entries.len() + new.count() > AFFILIATIONS { Err(FULL) } else { Ok(()) }
    }

    pub(super) fn set_role(
        &mut self,
        key: u64,
        role: Role,
        by: Option<&str>,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        self.keep_voice(key, role);
        if role == Role::None {
            return self.expel(key, &[307], by, reason, out);
        }
        if let Some(occupant) = self.occupants.get_mut(&key) {
            occupant.role = role;
        }
        self.announce(key, by, reason, out);
    }

    /// §5.1: roles outlast visits of a moderated room, so that a silenced user has no voice after entering
    /// again.
    fn keep_voice(&mut self, key: u64, role: Role) {
        // A kick does not give a voice back.
        let Some(occupant) = self.occupants.get(&key).filter(|_| role != Role::None) else { return };
        let user = occupant.user.clone();
        let is_usual = role == self.affiliation(&user).role(self.config.is_moderated);
        if is_usual || !self.config.is_moderated || role == Role::Moderator {
            self.voices.remove(&user);
        } else if self.voices.len() < OCCUPANTS {
            self.voices.insert(user, role);
        }
    }

    /// Sets an affiliation and applies it to the occupants of that user.
    pub(super) fn set_affiliation(
        &mut self,
        user: &Bare,
        affiliation: Affiliation,
        by: Option<&str>,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        let old = self.affiliation(user);
        let was_here = self.by_user.contains_key(user);
        let kept = reason.filter(|_| affiliation == Affiliation::Outcast).map(Box::from);
        self.set_entry(user, |entry| {
            entry.affiliation = affiliation;
            entry.reason = kept;
            if affiliation == Affiliation::Outcast {
                entry.nick = None;
            }
        });
        let here: Vec<u64> = if user.local().is_some() {
            self.by_user.get(user).cloned().unwrap_or_default()
        } else {
            let of_domain = |occupant: &super::Occupant| {
                occupant.user.domain() == user.domain()
                    && self.affiliation(&occupant.user) == Affiliation::Outcast
            };
            self.occupants.iter().filter(|(_, one)| of_domain(one)).map(|(key, _)| *key).collect()
        };
        let new = self.affiliation(user);
        if new != old {
            self.voices.remove(user);
        }
        for key in here {
            if new == Affiliation::Outcast {
                self.expel(key, &[301], by, reason, out);
            } else if self.config.is_members_only && new < Affiliation::Member {
                self.expel(key, &[321], by, reason, out);
            } else {
                self.role_follows(key, old, new);
                self.announce(key, by, reason, out);
            }
        }
        if new != old && !was_here && user.local().is_some() {
            self.tell_of_absent(user, new, reason, out);
        }
    }

    /// §5.1.2: administrators and owners are moderators; a demoted one is not. A new member gets voice.
    fn role_follows(&mut self, key: u64, old: Affiliation, new: Affiliation) {
        let is_moderated = self.config.is_moderated;
        let Some(occupant) = self.occupants.get_mut(&key) else { return };
        let is_about_admins = old.max(new) >= Affiliation::Admin;
        if is_about_admins || (new != old && occupant.role != Role::Moderator) {
            occupant.role = new.role(is_moderated);
        }
    }

    /// Code 101 of the registry: the user's affiliation changed while it was not in the room.
    fn tell_absent(
        &self,
        user: &Bare,
        affiliation: Affiliation,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        if user.local().is_none() {
            return;
        }
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .with("to", user.as_str())
            .child(of_absent(user, affiliation, reason).child(status(101)));
        out.push(RoomEffect::Send(message));
    }

    /// §9.3: occupants that see addresses learn of the new affiliation of a user who is not in the room.
    fn tell_of_absent(
        &self,
        user: &Bare,
        affiliation: Affiliation,
        reason: Option<&str>,
        out: &mut Vec<RoomEffect>,
    ) {
        let message = Element::new("message", ns::CLIENT)
            .with("from", self.address.as_str())
            .child(of_absent(user, affiliation, reason));
        for occupant in self.occupants.values().filter(|occupant| self.sees_addresses(occupant.role)) {
            let sessions = occupant.sessions.iter();
            out.extend(sessions.map(|session| RoomEffect::Send(super::notice::to(&message, session))));
        }
    }
}

/// A user that is not here has another affiliation. A ban has its code and its reason, as it has for an occupant (§9.1).
fn of_absent(user: &Bare, affiliation: Affiliation, reason: Option<&str>) -> Element {
    let mut item = listed(ns::MUC_USER, Some(user.as_str()), None, (affiliation, Some(Role::None)));
    if let Some(reason) = reason {
        item.push(Element::new("reason", ns::MUC_USER).text(reason));
    }
    let banned = (affiliation == Affiliation::Outcast).then(|| status(301));
    Element::new("x", ns::MUC_USER).child(item).children(banned)
}

/// As much of a reason as is kept.
fn head(text: &str) -> Box<str> {
    let end = (0..=text.len().min(ROOM_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].into()
}
