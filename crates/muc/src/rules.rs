//! Privileges (XEP-0045 §5): roles for a visit, affiliations for good. Pure functions over two standings; the tests have every
//! cell of the tables of §5.1.3 and §5.2.2. Both enums are ordered: a greater value has all rights of a smaller one.

use xmpp::stanza::Condition;

/// The privileges of an occupant during its visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Not here.
    None,
    /// Without voice: sees all, and sends no message to all.
    Visitor,
    /// With voice.
    Participant,
    Moderator,
}

/// The lasting association of a user with the room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Affiliation {
    /// Banned.
    Outcast,
    #[default]
    None,
    /// May enter a room for members.
    Member,
    Admin,
    Owner,
}

impl Role {
    pub(super) const ALL: [Role; 4] = [Role::None, Role::Visitor, Role::Participant, Role::Moderator];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Role::None => "none",
            Role::Visitor => "visitor",
            Role::Participant => "participant",
            Role::Moderator => "moderator",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl Affiliation {
    pub(super) const ALL: [Affiliation; 5] = [
        Affiliation::Outcast,
        Affiliation::None,
        Affiliation::Member,
        Affiliation::Admin,
        Affiliation::Owner,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Affiliation::Outcast => "outcast",
            Affiliation::None => "none",
            Affiliation::Member => "member",
            Affiliation::Admin => "admin",
            Affiliation::Owner => "owner",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Affiliation> {
        Affiliation::ALL.into_iter().find(|affiliation| affiliation.as_str() == text)
    }

    /// The role that comes with it (§5.1.2).
    pub(super) fn role(self, is_moderated: bool) -> Role {
        match self {
            Affiliation::Outcast => Role::None,
            Affiliation::None if is_moderated => Role::Visitor,
            Affiliation::None | Affiliation::Member => Role::Participant,
            Affiliation::Admin | Affiliation::Owner => Role::Moderator,
        }
    }
}

/// The role and affiliation of an actor or a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Privileges {
    pub(super) role: Role,
    pub(super) affiliation: Affiliation,
}

/// Decides if the actor may give the target this role (§5.1.3, §8.2 to §8.4, §9.6, §9.7). `forbidden`: the actor has no such right at all;
/// `not-allowed`: not over this target.
///
/// # Errors
/// The condition that answers it.
pub(super) fn may_set_role(actor: Privileges, target: Privileges, role: Role) -> Result<(), Condition> {
    // §5.1.3: roles are the moderators' to change.
    if actor.role != Role::Moderator {
        return Err(Condition::Forbidden);
    }
    if target.role == role {
        return Ok(());
    }
    let is_admin = actor.affiliation >= Affiliation::Admin;
    if role == Role::Moderator {
        // §9.6: only administrators and owners make moderators.
        return if is_admin { Ok(()) } else { Err(Condition::Forbidden) };
    }
    // Administrators and owners are moderators and cannot lose that role (§8.4, §9.7), but an owner removes
    // an administrator.
    if target.affiliation >= Affiliation::Admin {
        let is_kick = role == Role::None && actor.affiliation > target.affiliation;
        return if is_kick { Ok(()) } else { Err(Condition::NotAllowed) };
    }
    // §9.7: a moderator that is no administrator does not demote another moderator.
    if target.role == Role::Moderator && !is_admin {
        return Err(Condition::NotAllowed);
    }
    // §8.2: "a user with a higher affiliation".
    if role == Role::None && target.affiliation > actor.affiliation {
        return Err(Condition::NotAllowed);
    }
    Ok(())
}

/// Decides if the actor may give the target this affiliation (§5.2.2, §9.1 to §9.5, §10.3 to §10.8). `admin` checks that an owner remains, as
/// that depends on all items of a request.
///
/// # Errors
/// The condition that answers it.
pub(super) fn may_set_affiliation(
    actor: Affiliation,
    target: Affiliation,
    affiliation: Affiliation,
    is_self: bool,
) -> Result<(), Condition> {
    // §5.2.2: affiliations are the administrators' to change.
    if actor < Affiliation::Admin {
        return Err(Condition::Forbidden);
    }
    // §9.1: users cannot ban themselves.
    if is_self && affiliation == Affiliation::Outcast {
        return Err(Condition::Conflict);
    }
    if actor == Affiliation::Owner || target == affiliation {
        return Ok(());
    }
    // An administrator may go.
    if target >= Affiliation::Admin && !(is_self && affiliation < Affiliation::Admin) {
        return Err(Condition::NotAllowed);
    }
    if affiliation >= Affiliation::Admin { Err(Condition::Forbidden) } else { Ok(()) }
}

/// True if the actor may see the list of an affiliation (§9.2, §9.5, §10.5, §10.8). `is_open`: all addresses
/// are known in the room anyway, and it is for members: they encrypt to each other.
pub(super) fn may_list(actor: Affiliation, listed: Affiliation, is_open: bool) -> bool {
    match listed {
        Affiliation::Outcast => actor >= Affiliation::Admin,
        Affiliation::None => false,
        Affiliation::Member => actor >= Affiliation::Member,
        Affiliation::Admin | Affiliation::Owner => {
            actor == Affiliation::Owner || (is_open && actor >= Affiliation::Member)
        }
    }
}

/// True if the actor may see the list of a role (§8.5, §9.8): moderators see the voices, administrators the
/// moderators.
pub(super) fn may_list_role(actor: Privileges, listed: Role) -> bool {
    match listed {
        Role::None => false,
        Role::Visitor | Role::Participant => actor.role == Role::Moderator,
        Role::Moderator => actor.affiliation >= Affiliation::Admin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(result: Result<(), Condition>) -> char {
        match result {
            Ok(()) => '+',
            Err(Condition::Forbidden) => 'f',
            Err(Condition::NotAllowed) => 'n',
            Err(Condition::Conflict) => 'c',
            Err(other) => panic!("{other:?}"),
        }
    }

    fn standing(text: &str) -> Privileges {
        let (role, affiliation) = text.split_once('/').unwrap();
        Privileges { role: Role::parse(role).unwrap(), affiliation: Affiliation::parse(affiliation).unwrap() }
    }

    /// §5.1.3: each line one target; each column one actor, with the new roles none, visitor, participant, moderator.
    #[test]
    fn every_cell_of_roles() {
        let actors = [
            "none/owner",
            "visitor/none",
            "participant/member",
            "moderator/none",
            "moderator/member",
            "moderator/admin",
            "moderator/owner",
        ];
        for (target, expected) in [
            ("visitor/none", "ffff ffff ffff +++f +++f ++++ ++++"),
            ("participant/none", "ffff ffff ffff +++f +++f ++++ ++++"),
            ("participant/member", "ffff ffff ffff n++f +++f ++++ ++++"),
            ("moderator/none", "ffff ffff ffff nnn+ nnn+ ++++ ++++"),
            ("moderator/member", "ffff ffff ffff nnn+ nnn+ ++++ ++++"),
            ("moderator/admin", "ffff ffff ffff nnn+ nnn+ nnn+ +nn+"),
            ("moderator/owner", "ffff ffff ffff nnn+ nnn+ nnn+ nnn+"),
        ] {
            let of_actor = |actor: &str| -> String {
                let set = |role| cell(may_set_role(standing(actor), standing(target), role));
                Role::ALL.into_iter().map(set).collect()
            };
            assert_eq!(actors.map(of_actor).join(" "), expected, "{target}");
        }
    }

    /// §5.2.2: each line one actor; each column one target, with the new affiliations outcast, none, member, admin,
    /// owner.
    #[test]
    fn every_cell_of_affiliations() {
        for (actor, expected) in [
            (Affiliation::Outcast, "fffff fffff fffff fffff fffff"),
            (Affiliation::None, "fffff fffff fffff fffff fffff"),
            (Affiliation::Member, "fffff fffff fffff fffff fffff"),
            (Affiliation::Admin, "+++ff +++ff +++ff nnn+n nnnn+"),
            (Affiliation::Owner, "+++++ +++++ +++++ +++++ +++++"),
        ] {
            let of_target = |target| -> String {
                let set = |affiliation| cell(may_set_affiliation(actor, target, affiliation, false));
                Affiliation::ALL.into_iter().map(set).collect()
            };
            assert_eq!(Affiliation::ALL.map(of_target).join(" "), expected, "{actor:?}");
        }
    }

    #[test]
    fn an_administrator_may_only_lower_its_own_affiliation() {
        for (actor, expected) in [
            (Affiliation::None, "fffff"),
            (Affiliation::Member, "fffff"),
            (Affiliation::Admin, "c+++n"),
            (Affiliation::Owner, "c++++"),
        ] {
            let set = |affiliation| cell(may_set_affiliation(actor, actor, affiliation, true));
            assert_eq!(Affiliation::ALL.into_iter().map(set).collect::<String>(), expected, "{actor:?}");
        }
    }

    /// Each line is one asking affiliation; the lists are outcasts, none, members, administrators, owners;
    /// then the same in an open room.
    #[test]
    fn every_cell_of_lists() {
        for (actor, expected) in [
            (Affiliation::Outcast, "----- -----"),
            (Affiliation::None, "----- -----"),
            (Affiliation::Member, "--+-- --+++"),
            (Affiliation::Admin, "+-+-- +-+++"),
            (Affiliation::Owner, "+-+++ +-+++"),
        ] {
            let lists = |is_open| -> String {
                let sees = |listed| if may_list(actor, listed, is_open) { '+' } else { '-' };
                Affiliation::ALL.into_iter().map(sees).collect()
            };
            assert_eq!([false, true].map(lists).join(" "), expected, "{actor:?}");
        }
        for (actor, expected) in [
            ("participant/owner", "---+"),
            ("moderator/none", "-++-"),
            ("moderator/member", "-++-"),
            ("moderator/admin", "-+++"),
        ] {
            let sees = |listed| if may_list_role(standing(actor), listed) { '+' } else { '-' };
            assert_eq!(Role::ALL.into_iter().map(sees).collect::<String>(), expected, "{actor}");
        }
    }

    /// §5.1.2.
    #[test]
    fn roles_that_come_with_affiliations() {
        let roles =
            |is_moderated| Affiliation::ALL.map(|affiliation| affiliation.role(is_moderated).as_str());
        assert_eq!(roles(false), ["none", "participant", "participant", "moderator", "moderator"]);
        assert_eq!(roles(true), ["none", "visitor", "participant", "moderator", "moderator"]);
    }
}
