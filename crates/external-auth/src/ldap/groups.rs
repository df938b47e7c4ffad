//! Groups of a directory: the search for those that a user is a member of, and the role that they give.

use std::time::Duration;

use super::filter::GroupFilter;

/// A role at the operators' console, by groups of a directory or claims of tokens; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DirectoryRole {
    /// Sees everything, changes nothing.
    ReadOnly,
    /// Changes accounts of users.
    Operator,
    /// Changes everything.
    Admin,
}

/// The groups of a directory, and the roles that they give. Without roles they are for rosters alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// The entry below which groups are. A right to make groups there is a right to give roles.
    pub base: Box<str>,
    /// The entries that are groups.
    pub filter: GroupFilter,
    /// The attribute of a group that has its members.
    pub member: Box<str>,
    /// The form of the values of `member`.
    pub member_form: MemberForm,
    /// The attribute that has the name of a group.
    pub name: Box<str>,
    /// Roles and the groups that give them: by their names, or by their distinguished names, which have an equals sign.
    pub roles: Vec<(DirectoryRole, Box<str>)>,
    /// The age of an answer at which the directory is asked again.
    pub refresh: Duration,
    /// The age of the last answer up to which it counts while the directory gives no other.
    pub keep: Duration,
}

/// The values of the attribute that has the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberForm {
    /// Distinguished names, as those of `member` (RFC 4519 §2.17).
    Name,
    /// The same; members of member groups are members, too. Active Directory knows this rule ([MS-ADTS] §3.1.1.3.4.4.3).
    NestedName,
    /// Names of users, as those of `memberUid` (RFC 2307).
    User,
}

/// An entry of a search, with the values of the attribute that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    /// The distinguished name.
    pub(super) name: Box<str>,
    /// Values that are no text are left out.
    pub(super) values: Vec<Box<str>>,
}

impl GroupSettings {
    /// The greatest role that a user has by these groups. `None`: they give none.
    pub(super) fn role_of(&self, groups: &[DirectoryEntry]) -> Option<DirectoryRole> {
        let gives = |group: &str| groups.iter().any(|found| found.is(group));
        self.roles.iter().filter(|(_, group)| gives(group)).map(|(role, _)| *role).max()
    }
}

/// The members of groups among some users, asked for by [`super::LdapSource::members`].
pub(crate) struct MemberQuery {
    /// The local parts of their addresses, prepared.
    pub(crate) users: Vec<Box<str>>,
    /// The groups, named as those that give roles.
    pub(crate) groups: Vec<Box<str>>,
}

impl MemberQuery {
    /// Adds a user to the members of each of the groups that is among those found.
    pub(super) fn add(&self, user: &str, found: &[DirectoryEntry], members: &mut [Vec<Box<str>>]) {
        for (group, members) in self.groups.iter().zip(members) {
            if found.iter().any(|entry| entry.is(group)) {
                members.push(user.into());
            }
        }
    }
}

impl DirectoryEntry {
    /// True if it is the group that the configuration names. Names of directories are compared without case (RFC 4519 §2.3).
    fn is(&self, group: &str) -> bool {
        if group.contains('=') {
            return plain(&self.name) == plain(group);
        }
        let group = group.to_lowercase();
        self.values.iter().any(|name| name.to_lowercase() == group)
    }
}

/// A distinguished name without case and without blanks beside its commas. Names that differ in the form of an escape are
/// different: then the group gives no role.
fn plain(name: &str) -> String {
    let parts: Vec<String> = name.split(',').map(|part| part.trim().to_lowercase()).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, value: &str) -> DirectoryEntry {
        DirectoryEntry { name: name.into(), values: vec![value.into()] }
    }

    #[test]
    fn the_greatest_role_of_the_groups_counts_and_other_groups_give_none() {
        let settings = GroupSettings {
            base: "dc=test".into(),
            filter: GroupFilter::parse("(objectClass=groupOfNames)").unwrap(),
            member: "member".into(),
            member_form: MemberForm::Name,
            name: "cn".into(),
            roles: vec![
                (DirectoryRole::Admin, "cn=ops,ou=groups,dc=test".into()),
                (DirectoryRole::Operator, "Help Desk".into()),
                (DirectoryRole::ReadOnly, "staff".into()),
            ],
            refresh: Duration::from_secs(60),
            keep: Duration::from_secs(60),
        };
        let staff = group("cn=staff,ou=groups,dc=test", "staff");
        let desk = group("cn=help desk,ou=groups,dc=test", "help desk");
        let ops = group("CN=Ops, OU=groups,DC=test", "Ops");
        let other = group("cn=ops,ou=mine,dc=test", "ops");
        assert_eq!(settings.role_of(&[]), None);
        assert_eq!(settings.role_of(std::slice::from_ref(&other)), None, "the distinguished name is another");
        assert_eq!(settings.role_of(&[staff.clone(), other]), Some(DirectoryRole::ReadOnly));
        assert_eq!(settings.role_of(&[staff.clone(), desk]), Some(DirectoryRole::Operator));
        assert_eq!(settings.role_of(&[ops, staff]), Some(DirectoryRole::Admin));
    }
}
