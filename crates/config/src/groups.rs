//! `[[xmpp.groups]]`: shared roster groups, whose members see each other without asking.
//!
//! `chat::groups` has what they mean. Invariant: each name stands once, and `shown_to` names groups that there are.

use std::collections::HashSet;
use std::path::Path;

use chat::groups::SharedGroup;
use chat::limits::{CONTACT_NAME, GROUP_MEMBERS, GROUPS};
use external_auth::SourceSettings;
use toml::de::{DeTable, DeValue};
use xmpp::Bare;

use super::reader::Section;

/// The form of an entry, for messages.
const FORM: &str = "{ name = \"office\", members = [\"alice@example.net\"] }, or with `everyone` or `directory`, and perhaps `label` and `shown_to`";

/// A shared group and the sources of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterGroup {
    /// The group, with the members that the configuration names.
    pub group: SharedGroup,
    /// All accounts of these domains are members, too.
    pub everyone: Vec<Box<str>>,
    /// The members of this group of a directory are members, too.
    pub directory: Option<DirectoryGroup>,
}

/// A group of the directory of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryGroup {
    /// The domain, whose source of sign-ins is the directory.
    pub domain: Box<str>,
    /// Its name, or its distinguished name.
    pub group: Box<str>,
}

/// A mistake, and what was expected.
type Fault = (String, String);

/// Reads the groups. `sources`: those of sign-ins, which have directories.
pub(super) fn read(section: &mut Section<'_, '_>, sources: &[SourceSettings]) -> Vec<RosterGroup> {
    let groups = section.tables(
        "groups",
        FORM,
        "Shared roster groups, as `mod_shared_roster` of ejabberd and `mod_groups` of Prosody have them: the members of a group have each other in their rosters, under `label` (`name` when left out) and with the subscription `both`, without asking. `members` are accounts of this server; with `everyone = [\"example.net\"]` all accounts of these domains are members, and with `directory = { domain = \"example.net\", group = \"engineers\" }` those in that group of the LDAP directory or the file by which the domain signs in. With `shown_to = [\"sales\"]` the members of these groups see the members of this one, who do not see each other unless `shown_to` names the group itself; when left out, a group is shown to itself. A reload changes groups for clients that are signed in, too. operating.md has examples.",
        read_group,
    );
    check(section, &groups, sources);
    groups
}

/// Names that stand twice or are none, and too many groups.
fn check(section: &mut Section<'_, '_>, groups: &[RosterGroup], sources: &[SourceSettings]) {
    let mut names = HashSet::new();
    let twice = groups.iter().find(|group| !names.insert(&*group.group.name));
    if let Some(RosterGroup { group, .. }) = twice {
        section.mistake("groups", format!("{:?} stands twice", group.name), "each name once");
    }
    for RosterGroup { group, .. } in groups {
        if let Some(unknown) = group.shown_to.iter().find(|name| !names.contains(&***name)) {
            let what = format!("{:?} is shown to {unknown:?}, which is no group", group.name);
            section.mistake("groups", what, "names of groups");
        }
    }
    let has_groups = |domain: &str| {
        sources.iter().any(|source| *source.domain == *domain && source.group_times().is_some())
    };
    let directories = groups.iter().filter_map(|group| group.directory.as_ref());
    for DirectoryGroup { domain, .. } in directories.filter(|directory| !has_groups(&directory.domain)) {
        let what = format!("{domain} does not sign in by a directory with groups or a file of accounts");
        section.mistake(
            "groups",
            what,
            "an LDAP source with `groups`, or one of type \"file\", in [[accounts.sources]]",
        );
    }
    if groups.len() > GROUPS {
        section.mistake("groups", format!("{} groups", groups.len()), format!("at most {GROUPS} groups"));
    }
}

/// One entry.
fn read_group(table: &DeTable<'_>, _folder: Option<&Path>) -> Result<RosterGroup, Fault> {
    const KEYS: [&str; 6] = ["name", "label", "members", "everyone", "directory", "shown_to"];
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&&**key.get_ref())) {
        return Err((format!("unknown key `{}`", key.get_ref()), format!("some of {}", KEYS.join(", "))));
    }
    let name = text(table, "name")?.ok_or_else(|| ("no `name`".to_owned(), FORM.to_owned()))?;
    let label = text(table, "label")?.unwrap_or(name);
    // RFC 6121 §2.1.2.6 has no limit; an item that a user sets has this one.
    if label.len() > CONTACT_NAME {
        return Err((
            format!("{name:?} has a label of {} bytes", label.len()),
            format!("at most {CONTACT_NAME}"),
        ));
    }
    let members = texts(table, "members")?.unwrap_or_default();
    if members.len() > GROUP_MEMBERS {
        return Err((format!("{name:?} has {} members", members.len()), format!("at most {GROUP_MEMBERS}")));
    }
    let account = |text: &str| Bare::parse(text).ok().filter(|bare| bare.local().is_some());
    let members: Vec<Bare> = members
        .into_iter()
        .map(|text| {
            account(text)
                .ok_or_else(|| (format!("{text:?} is no account"), "as \"alice@example.net\"".into()))
        })
        .collect::<Result<_, Fault>>()?;
    let shown_to = texts(table, "shown_to")?.unwrap_or_else(|| vec![name]);
    let everyone = texts(table, "everyone")?.unwrap_or_default();
    let everyone = everyone.into_iter().map(read_domain).collect::<Result<Vec<_>, Fault>>()?;
    let directory = read_directory(table)?;
    // A group of no use is a slip.
    if members.is_empty() && everyone.is_empty() && directory.is_none() {
        return Err((format!("{name:?} has no members"), FORM.to_owned()));
    }
    let shown_to = shown_to.into_iter().map(Box::from).collect();
    let group = SharedGroup { name: name.into(), label: label.into(), members, shown_to };
    Ok(RosterGroup { group, everyone, directory })
}

/// A domain as addresses have it.
fn read_domain(text: &str) -> Result<Box<str>, Fault> {
    let bare = Bare::parse(text).ok().filter(|bare| bare.local().is_none());
    bare.map(|bare| bare.as_str().into())
        .ok_or_else(|| (format!("{text:?} is no domain"), "a domain, as \"example.net\"".to_owned()))
}

fn read_directory(table: &DeTable<'_>) -> Result<Option<DirectoryGroup>, Fault> {
    let form = || "{ domain = \"example.net\", group = \"engineers\" }".to_owned();
    let Some(value) = table.get("directory") else { return Ok(None) };
    let directory =
        value.get_ref().as_table().ok_or_else(|| ("`directory` is no table".to_owned(), form()))?;
    if let Some(key) = directory.keys().find(|key| !["domain", "group"].contains(&&**key.get_ref())) {
        return Err((format!("unknown key `{}` of `directory`", key.get_ref()), form()));
    }
    match (text(directory, "domain")?, text(directory, "group")?) {
        (Some(domain), Some(group)) if !group.trim().is_empty() => {
            Ok(Some(DirectoryGroup { domain: read_domain(domain)?, group: group.into() }))
        }
        _ => Err(("`directory` has no domain or no group".to_owned(), form())),
    }
}

fn text<'t>(table: &'t DeTable<'_>, name: &str) -> Result<Option<&'t str>, Fault> {
    match table.get(name).map(|value| value.get_ref().as_str()) {
        None => Ok(None),
        Some(Some(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err((format!("`{name}` is no text"), "text in quotes".to_owned())),
    }
}

fn texts<'t>(table: &'t DeTable<'_>, name: &str) -> Result<Option<Vec<&'t str>>, Fault> {
    let Some(value) = table.get(name) else { return Ok(None) };
    let of_list = |list: &'t [toml::Spanned<DeValue<'t>>]| {
        list.iter().map(|entry| entry.get_ref().as_str()).collect::<Option<Vec<_>>>()
    };
    let texts = value.get_ref().as_array().and_then(|list| of_list(list));
    texts
        .map(Some)
        .ok_or_else(|| (format!("`{name}` is no list of texts"), "a list, as [\"a\", \"b\"]".into()))
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn read(text: &str) -> Result<Config, String> {
        Config::parse(text, "belfry.toml".as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_group_has_its_name_as_label_and_is_shown_to_itself_unless_told_otherwise() {
        let text = "[[xmpp.groups]]\nname = \"office\"\nmembers = [\"Alice@Example.net\", \"bob@example.net\"]\n\
                    [[xmpp.groups]]\nname = \"support\"\nlabel = \"Help\"\nmembers = [\"carol@example.net\"]\nshown_to = [\"office\"]\n";
        let groups: Vec<_> = read(text).unwrap().xmpp.groups.into_iter().map(|group| group.group).collect();
        let shown: Vec<_> =
            groups.iter().map(|group| (&*group.name, &*group.label, &group.shown_to[..])).collect();
        assert_eq!(
            shown,
            [("office", "office", &["office".into()][..]), ("support", "Help", &["office".into()][..])]
        );
        assert_eq!(groups[0].members[0].as_str(), "alice@example.net");
    }

    #[test]
    fn members_may_be_all_accounts_of_a_domain_or_those_of_a_group_of_its_directory() {
        let source = "[[accounts.sources]]\ndomain = \"corp.test\"\ntype = \"ldap\"\nurl = \"ldaps://ldap.corp.test\"\n\
                      base = \"dc=test\"\nfilter = \"(uid={user})\"\ngroups = { base = \"ou=groups\" }\n";
        let groups = "[[xmpp.groups]]\nname = \"all\"\neveryone = [\"Corp.test\"]\n\
                      [[xmpp.groups]]\nname = \"eng\"\ndirectory = { domain = \"corp.test\", group = \"Engineers\" }\n";
        let known = read(&format!("{source}{groups}")).unwrap().xmpp.groups;
        assert_eq!(known[0].everyone, ["corp.test".into()]);
        let directory = known[1].directory.as_ref().unwrap();
        assert_eq!((&*directory.domain, &*directory.group), ("corp.test", "Engineers"));
        let error = read(groups).unwrap_err();
        assert!(error.contains("corp.test does not sign in by a directory with groups"), "{error}");
    }

    #[test]
    fn mistakes_name_the_fault() {
        let many = format!("{{ name = \"a\", members = [{}] }}", "\"a@b\",".repeat(20_001));
        let long = format!("{{ name = \"a\", label = \"{}\", members = [\"a@b\"] }}", "x".repeat(2_000));
        for (entries, what) in [
            ("{ members = [\"a@b\"] }", "no `name`"),
            ("{ name = \"a\" }", "\"a\" has no members"),
            ("{ name = \"a\", members = [] }", "\"a\" has no members"),
            ("{ name = \"a\", members = \"a@b\" }", "`members` is no list of texts"),
            ("{ name = \"a\", everyone = [\"a@b\"] }", "\"a@b\" is no domain"),
            ("{ name = \"a\", directory = { domain = \"b\" } }", "`directory` has no domain or no group"),
            ("{ name = \"a\", directory = \"b\" }", "`directory` is no table"),
            ("{ name = \"a\", members = [\"b\"] }", "\"b\" is no account"),
            (
                "{ name = \"a\", members = [\"a@b\"], shown_to = [\"b\"] }",
                "\"a\" is shown to \"b\", which is no group",
            ),
            ("{ name = \"a\", members = [\"a@b\"], hidden = true }", "unknown key `hidden`"),
            (
                "{ name = \"a\", members = [\"a@b\"] }, { name = \"a\", members = [\"a@b\"] }",
                "\"a\" stands twice",
            ),
            (&many, "has 20001 members"),
            (&long, "has a label of 2000 bytes"),
        ] {
            let error = read(&format!("[xmpp]\ngroups = [{entries}]\n")).unwrap_err();
            assert!(error.contains(what), "{}: {error}", &entries[..entries.len().min(100)]);
        }
    }

    #[test]
    fn a_reload_takes_groups_over() {
        let old = Config::default();
        let new = read("[[xmpp.groups]]\nname = \"office\"\nmembers = [\"a@b\"]\n").unwrap();
        assert!(old.needs_restart(&new).is_empty());
        assert_eq!(new.keeping(&old).xmpp.groups.len(), 1);
    }
}
