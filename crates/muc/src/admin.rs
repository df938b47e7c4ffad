//! Requests about roles and affiliations: lists of them, and changes (XEP-0045 §8.2 to §8.5, §9, §10.3 to §10.8).
//!
//! A request is read and judged completely before anything changes: [`AdminRequest::parse`] takes the room by a shared
//! reference, and [`AdminRequest::apply`] cannot fail. `rules` decides each item alone; here are the rules for the items of one
//! request together.

use std::collections::BTreeMap;

use xmpp::stanza::Condition;
use xmpp::{Bare, Element, Jid, ns};

use super::form::{field, values};
use super::occupants::Occupant;
use super::rules::{Affiliation, Role, may_list, may_list_role, may_set_affiliation, may_set_role};
use super::users::{ChangeCause, RoomUsers, listed};
use super::{FULL, RoomEffect};
use crate::limits::{AFFILIATIONS, BANS_RESERVED, ROOM_TEXT};

/// The lists of users in the form of the configuration (§15.5.3), with their labels. The later one counts for a user that is in both.
const FORM_LISTS: [(Affiliation, &str, &str); 2] = [
    (Affiliation::Admin, "muc#roomconfig_roomadmins", "Administrators"),
    (Affiliation::Owner, "muc#roomconfig_roomowners", "Owners"),
];

/// The fields of the configuration's form with the administrators and the owners.
pub(super) fn form_lists(users: &RoomUsers) -> impl Iterator<Item = Element> {
    FORM_LISTS.into_iter().map(|(affiliation, var, label)| {
        field(var, "jid-multi", label, users.affiliations.users_of(affiliation).map(Bare::as_str))
    })
}

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

/// A request to change roles and affiliations: all of its items are possible.
pub(super) struct AdminRequest {
    changes: Vec<AdminChange>,
    /// The actor, in the room or not.
    from: Bare,
    /// The nickname of the actor, if it is in the room.
    by: Option<Box<str>>,
}

/// The `<query/>` with the list that a client asks for.
pub(super) fn list(users: &RoomUsers, from: &Jid, query: &Element) -> Result<Element, Condition> {
    let item = query.get("item", ns::MUC_ADMIN).ok_or(Condition::BadRequest)?;
    let role = item.attr("role").map(Role::parse);
    let affiliation = item.attr("affiliation").map(Affiliation::parse);
    let items = match (role, affiliation) {
        (Some(Some(role)), None) => with_role(users, from, role)?,
        (None, Some(Some(affiliation))) => with_affiliation(users, from, affiliation)?,
        // §5.2: a list is of a role or of an affiliation, never of both.
        _ => return Err(Condition::BadRequest),
    };
    Ok(Element::new("query", ns::MUC_ADMIN).children(items))
}

/// The occupants of a role, with their real addresses: only moderators, administrators and owners get such a list.
fn with_role(users: &RoomUsers, from: &Jid, role: Role) -> Result<Vec<Element>, Condition> {
    if !may_list_role(users.standing(from), role) {
        return Err(Condition::Forbidden);
    }
    let those = users.occupants.values().filter(|occupant| occupant.role == role);
    let item = |occupant: &Occupant| {
        let address = occupant.sessions.last().map(Jid::as_str);
        let affiliation = users.affiliation(&occupant.user);
        listed(ns::MUC_ADMIN, address, Some(&occupant.nick), (affiliation, Some(role)))
    };
    Ok(those.map(item).collect())
}

/// The users with an affiliation, in the room or not.
fn with_affiliation(
    users: &RoomUsers,
    from: &Jid,
    affiliation: Affiliation,
) -> Result<Vec<Element>, Condition> {
    let is_open = users.config.is_members_only && users.config.is_whois_anyone;
    if !may_list(users.affiliation(&from.bare()), affiliation, is_open) {
        return Err(Condition::Forbidden);
    }
    Ok(users.affiliations.list(affiliation))
}

impl AdminRequest {
    /// Reads and judges all items. One that is not possible makes the whole request fail.
    pub(super) fn parse(users: &RoomUsers, from: &Jid, query: &Element) -> Result<AdminRequest, Condition> {
        let items = query.elements().filter(|child| child.is("item", ns::MUC_ADMIN));
        let changes: Vec<AdminChange> =
            items.map(|item| AdminChange::parse(users, from, item)).collect::<Result<_, _>>()?;
        if changes.is_empty() {
            return Err(Condition::BadRequest);
        }
        let by = users.occupants.of_session(from).map(|actor| actor.nick.clone());
        let request = AdminRequest { changes, from: from.bare(), by };
        request.check(users)?;
        Ok(request)
    }

    /// The changes by the lists of administrators and owners in a form (§10.2); a list that the form lacks stays as it is. A user that is in
    /// no list any more stays a member, and may enter.
    pub(super) fn of_form(
        users: &RoomUsers,
        from: &Jid,
        form: &Element,
    ) -> Result<Option<AdminRequest>, Condition> {
        let mut wanted = BTreeMap::new();
        for (affiliation, var, _) in FORM_LISTS {
            let Some(listed) = values(form, var) else { continue };
            for user in users.affiliations.users_of(affiliation) {
                wanted.entry(user.clone()).or_insert(Affiliation::Member);
            }
            for jid in listed.iter().filter(|jid| !jid.is_empty()) {
                let user = Jid::parse(jid).map_err(|_| Condition::JidMalformed)?.bare();
                wanted.insert(user, affiliation);
            }
        }
        wanted.retain(|user, affiliation| users.affiliations.stored(user) != *affiliation);
        if wanted.is_empty() {
            return Ok(None);
        }
        let actor = users.affiliation(&from.bare());
        let to_change = |(user, affiliation): (Bare, Affiliation)| {
            if user.local().is_none() {
                return Err(Condition::NotAcceptable);
            }
            may_set_affiliation(actor, users.affiliation(&user), affiliation, user == from.bare())?;
            Ok(AdminChange::Affiliation { user, affiliation, nick: None, reason: None })
        };
        let changes = wanted.into_iter().map(to_change).collect::<Result<_, _>>()?;
        let by = users.occupants.of_session(from).map(|actor| actor.nick.clone());
        let request = AdminRequest { changes, from: from.bare(), by };
        request.check(users)?;
        Ok(Some(request))
    }

    /// The rules for all changes together: an owner remains (§10.4), and the list stays short enough.
    fn check(&self, users: &RoomUsers) -> Result<(), Condition> {
        let affiliations = &users.affiliations;
        let mut after = BTreeMap::new();
        let mut nicks = BTreeMap::new();
        for change in &self.changes {
            if let AdminChange::Affiliation { user, affiliation, nick, .. } = change {
                after.insert(user, *affiliation);
                if nick
                    .as_ref()
                    .is_some_and(|nick| nicks.insert(nick, user).is_some_and(|other| other != user))
                {
                    return Err(Condition::Conflict);
                }
            }
        }
        // Several items may name one user, and the last counts, as it does when they are applied in turn.
        let was_owner = |user: &Bare| affiliations.stored(user) == Affiliation::Owner;
        let is_owner = |affiliation: Affiliation| affiliation == Affiliation::Owner;
        let lost = after.iter().filter(|(user, new)| was_owner(user) && !is_owner(**new)).count();
        let won = after.iter().filter(|(user, new)| !was_owner(user) && is_owner(**new)).count();
        // §10.4: the last owner cannot give that status up, and the error is `conflict`.
        if lost > 0 && affiliations.owners() + won <= lost {
            return Err(Condition::Conflict);
        }
        let new = after.iter().filter(|(user, new)| !affiliations.has(user) && **new != Affiliation::None);
        let new: Vec<Affiliation> = new.map(|(_, new)| *new).collect();
        let gone = after.iter().filter(|(user, new)| affiliations.has(user) && **new == Affiliation::None);
        let gone = gone.count();
        let is_ban = new.iter().all(|new| *new == Affiliation::Outcast);
        let most = if is_ban { AFFILIATIONS + BANS_RESERVED } else { AFFILIATIONS };
        // A list that does not grow may be longer than it may become.
        let is_full = new.len() > gone && affiliations.len() + new.len() - gone > most;
        if is_full { Err(FULL) } else { Ok(()) }
    }

    /// Changes the roles and affiliations. True: an affiliation was changed.
    pub(super) fn apply(self, users: &mut RoomUsers, out: &mut Vec<RoomEffect>) -> bool {
        let mut has_changed = false;
        for change in self.changes {
            match change {
                AdminChange::Role { key, role, reason } => {
                    let cause = ChangeCause { by: self.by.as_deref(), reason: reason.as_deref() };
                    users.set_role(key, role, cause, out);
                }
                AdminChange::Affiliation { user, affiliation, nick, reason } => {
                    has_changed = true;
                    // Asked before the change: a banned occupant is gone afterwards and has had its presence all the same.
                    let is_told = user == self.from || !users.occupants.keys_of_user(&user).is_empty();
                    let old = users.affiliation(&user);
                    let cause = ChangeCause { by: self.by.as_deref(), reason: reason.as_deref() };
                    users.set_affiliation(&user, affiliation, cause, out);
                    if let Some(nick) = nick {
                        users.affiliations.set(&user, |entry| entry.nick = Some(nick));
                    }
                    // An occupant has seen the change in its presence, and the actor in the answer.
                    if !is_told && old != affiliation {
                        users.tell_absent(&user, affiliation, reason.as_deref(), out);
                    }
                }
            }
        }
        has_changed
    }
}

impl AdminChange {
    /// One item: a role of an occupant by its nickname, or an affiliation of a user by address or nickname.
    fn parse(users: &RoomUsers, from: &Jid, item: &Element) -> Result<AdminChange, Condition> {
        let reason = item.content_of("reason", ns::MUC_ADMIN).map(|reason| head(&reason));
        let nick = item.attr("nick");
        if let Some(role) = item.attr("role") {
            // §5.2: "a MUC client MUST send only the 'affiliation' attribute or the 'role' attribute".
            if item.attr("affiliation").is_some() {
                return Err(Condition::BadRequest);
            }
            let role = Role::parse(role).ok_or(Condition::BadRequest)?;
            let nick = nick.ok_or(Condition::BadRequest)?;
            let actor = users.standing(from);
            // Before the nickname is looked up: a stranger must not learn from the error which nicknames there are.
            if actor.role != Role::Moderator {
                return Err(Condition::Forbidden);
            }
            // §8.2 to §8.4: roles are those of occupants, who are named by their nicknames.
            let key = users.occupants.key_of_nick(nick).ok_or(Condition::ItemNotFound)?;
            let target = users.occupants.get(key).ok_or(Condition::ItemNotFound)?;
            may_set_role(actor, users.standing_of(target), role)?;
            return Ok(AdminChange::Role { key, role, reason });
        }
        let affiliation =
            item.attr("affiliation").and_then(Affiliation::parse).ok_or(Condition::BadRequest)?;
        let actor = users.affiliation(&from.bare());
        if actor < Affiliation::Admin {
            return Err(Condition::Forbidden);
        }
        let user = match (item.attr("jid"), nick) {
            (Some(jid), _) => Jid::parse(jid).map_err(|_| Condition::JidMalformed)?.bare(),
            (None, Some(nick)) => users.occupants.of_nick(nick).ok_or(Condition::ItemNotFound)?.user.clone(),
            (None, None) => return Err(Condition::BadRequest),
        };
        // A domain is no user, but may be banned.
        if user.local().is_none() && affiliation > Affiliation::None {
            return Err(Condition::NotAcceptable);
        }
        may_set_affiliation(actor, users.affiliation(&user), affiliation, user == from.bare())?;
        // §9.3: a nickname beside the address of a new member is reserved for that member.
        let nick = nick.filter(|_| affiliation == Affiliation::Member && item.attr("jid").is_some());
        let nick = nick.map(|nick| users.reservable(&user, nick)).transpose()?;
        Ok(AdminChange::Affiliation { user, affiliation, nick, reason })
    }
}

/// The beginning of a reason, as much as is kept.
fn head(text: &str) -> Box<str> {
    let end = (0..=text.len().min(ROOM_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].into()
}
