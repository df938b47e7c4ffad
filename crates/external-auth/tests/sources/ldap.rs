//! Sign-in by a directory, which is OpenLDAP's server.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use external_auth::{
    Answer, Authenticator, DirectoryRole, FilterTemplate, GroupFilter, GroupSettings, LdapLookup,
    LdapSecurity, LdapSettings, MemberAnswer, MemberForm, NameTemplate, RoleAnswer, RoleVerdict, SourceKind,
    Verdict,
};
use interop::{Authority, Slapd};

use super::{accepted, ask, query, source, start, verdict};

const USERS: [(&str, &str); 3] = [("alice", "wonderland"), ("bob", "builder"), ("o\u{2a}o", "star")];

fn searching(slapd: &Slapd, security: LdapSecurity, filter: &str) -> LdapSettings {
    let port = if security == LdapSecurity::Tls { slapd.tls_port } else { slapd.port };
    LdapSettings {
        host: "localhost".into(),
        port,
        security,
        authorities: Some(slapd.authorities()),
        lookup: LdapLookup::Search {
            bind: Some((Slapd::SEARCHER.into(), slapd.password_file())),
            base: Slapd::BASE.into(),
            filter: FilterTemplate::parse(filter).unwrap(),
        },
        groups: None,
    }
}

fn kind(settings: LdapSettings) -> SourceKind {
    SourceKind::Ldap(Box::new(settings))
}

const STAFF: &str = "(&(objectClass=inetOrgPerson)(uid={user}))";

#[test]
fn the_right_password_and_no_other_is_accepted_by_each_kind_of_connection() {
    let slapd = Slapd::start(&USERS);
    for security in [LdapSecurity::Clear, LdapSecurity::StartTls, LdapSecurity::Tls] {
        let authenticator = start(kind(searching(&slapd, security, STAFF)));
        assert_eq!(ask(&authenticator, "alice", "wonderland"), accepted("alice"), "{security:?}");
        assert_eq!(ask(&authenticator, "alice", "builder"), Verdict::Refused, "{security:?}");
        assert_eq!(ask(&authenticator, "carol", "wonderland"), Verdict::Refused, "{security:?}");
    }
}

#[test]
fn a_name_that_follows_from_a_template_needs_no_search() {
    let slapd = Slapd::start(&USERS);
    let lookup =
        LdapLookup::Template(NameTemplate::parse("uid={user},ou=people,dc=example,dc=test").unwrap());
    let settings = LdapSettings { lookup, ..searching(&slapd, LdapSecurity::Clear, STAFF) };
    let authenticator = start(kind(settings));
    assert_eq!(ask(&authenticator, "alice", "wonderland"), accepted("alice"));
    assert_eq!(ask(&authenticator, "alice", "builder"), Verdict::Refused);
    assert_eq!(ask(&authenticator, "bob,ou=people", "builder"), Verdict::Refused, "it is one value");
}

#[test]
fn an_empty_password_never_signs_in() {
    // This directory accepts binds without a password, for any name.
    let slapd = Slapd::start(&USERS);
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    for user in ["alice", "carol", ""] {
        assert_eq!(ask(&authenticator, user, ""), Verdict::Refused, "{user:?}");
    }
}

#[test]
fn a_name_cannot_change_the_filter() {
    let slapd = Slapd::start(&USERS);
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    for user in ["*", "ali*", "alice)(uid=*", "*)(|(uid=alice", "x)(!(uid=x)"] {
        assert_eq!(ask(&authenticator, user, "wonderland"), Verdict::Refused, "{user}");
    }
    assert_eq!(ask(&authenticator, "o*o", "star"), accepted("o*o"), "an asterisk is a letter of a name");
}

#[test]
fn a_filter_that_finds_several_entries_signs_none_in() {
    let slapd = Slapd::start(&USERS);
    let filter = "(|(employeeType=staff)(uid={user}))";
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, filter)));
    for (user, password) in USERS {
        assert_eq!(ask(&authenticator, user, password), Verdict::Refused, "{user}");
    }
}

#[test]
fn a_certificate_of_another_authority_is_not_trusted() {
    let slapd = Slapd::start(&USERS);
    let other = Authority::new();
    for security in [LdapSecurity::StartTls, LdapSecurity::Tls] {
        let authorities = Some(other.certificate());
        let settings = LdapSettings { authorities, ..searching(&slapd, security, STAFF) };
        assert_eq!(ask(&start(kind(settings)), "alice", "wonderland"), Verdict::Unavailable, "{security:?}");
    }
    // The certificate is of `localhost`.
    let host = "127.0.0.1".into();
    let settings = LdapSettings { host, ..searching(&slapd, LdapSecurity::Tls, STAFF) };
    assert_eq!(ask(&start(kind(settings)), "alice", "wonderland"), Verdict::Unavailable);
}

#[test]
fn a_directory_that_is_away_refuses_no_user_and_is_used_again() {
    let mut slapd = Slapd::start(&USERS);
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    slapd.freeze(true);
    assert_eq!(ask(&authenticator, "alice", "wonderland"), Verdict::Unavailable, "it does not answer");
    slapd.freeze(false);
    slapd.stop();
    assert_eq!(ask(&authenticator, "alice", "builder"), Verdict::Unavailable, "it is stopped");
    slapd.go_on();
    assert_eq!(ask(&authenticator, "alice", "wonderland"), accepted("alice"));
}

#[test]
fn a_searching_account_that_is_refused_refuses_no_user() {
    let slapd = Slapd::start(&USERS);
    std::fs::write(slapd.password_file(), "another\n").unwrap();
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    assert_eq!(ask(&authenticator, "alice", "wonderland"), Verdict::Unavailable);
}

#[test]
fn a_password_that_was_right_is_remembered_for_its_time() {
    let mut slapd = Slapd::start(&USERS);
    let mut settings = source(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    settings.remember = Duration::from_secs(60);
    let authenticator = Authenticator::start(&[settings]).unwrap().unwrap();
    assert_eq!(ask(&authenticator, "alice", "wonderland"), accepted("alice"));
    assert_eq!(ask(&authenticator, "bob", "wonderland"), Verdict::Refused);
    slapd.stop();
    assert_eq!(ask(&authenticator, "alice", "wonderland"), accepted("alice"), "it is not asked again");
    assert_eq!(ask(&authenticator, "bob", "wonderland"), Verdict::Unavailable, "a refusal is not remembered");
    let mut later = query("alice", "wonderland");
    later.now = later.now + Duration::from_secs(61);
    assert_eq!(verdict(&authenticator, later), Verdict::Unavailable);
}

#[test]
fn queries_beyond_the_places_are_answered_at_once_and_a_dead_source_answers_all() {
    let slapd = Slapd::start(&USERS);
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    slapd.freeze(true);
    let (sender, receiver) = sync_channel(2_000);
    for _ in 0..1_000 {
        let sender = sender.clone();
        let answer = Answer::new(move |verdict| sender.send(verdict).expect("the test waits"));
        authenticator.ask(query("alice", "wonderland"), answer);
    }
    // Those without a place have been answered within the call.
    let at_once = receiver.try_iter().count();
    assert!((400..1_000).contains(&at_once), "{at_once}");
    for _ in at_once..1_000 {
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(Verdict::Unavailable));
    }
    slapd.freeze(false);
    assert_eq!(ask(&authenticator, "alice", "wonderland"), accepted("alice"), "all places are free again");
}

fn groups(filter: &str, member: &str, member_form: MemberForm) -> GroupSettings {
    GroupSettings {
        base: Slapd::GROUPS.into(),
        filter: GroupFilter::parse(filter).unwrap(),
        member: member.into(),
        member_form,
        name: "cn".into(),
        roles: vec![
            (DirectoryRole::Admin, "ops".into()),
            (DirectoryRole::Operator, format!("cn=desk,{}", Slapd::GROUPS).into()),
        ],
        refresh: Duration::from_secs(60),
        keep: Duration::from_secs(60),
    }
}

fn role(authenticator: &Authenticator, user: &str) -> RoleVerdict {
    let (sender, receiver) = sync_channel(1);
    let answer = RoleAnswer::new(move |verdict| sender.send(verdict).expect("the test waits"));
    authenticator.ask_role(super::DOMAIN, user, answer);
    receiver.recv_timeout(Duration::from_secs(60)).expect("every question has an answer")
}

#[test]
fn groups_of_names_give_roles_until_the_user_is_removed() {
    let mut slapd = Slapd::start(&USERS);
    slapd.add_group("ops", &["alice"]);
    slapd.add_group("desk", &["alice", "bob"]);
    slapd.add_group("chess", &["o*o"]);
    for security in [LdapSecurity::Clear, LdapSecurity::StartTls] {
        let groups = Some(groups("(objectClass=groupOfNames)", "member", MemberForm::Name));
        let settings = LdapSettings { groups, ..searching(&slapd, security, STAFF) };
        let authenticator = start(kind(settings));
        assert_eq!(
            role(&authenticator, "alice"),
            RoleVerdict::Known(Some(DirectoryRole::Admin)),
            "the greatest"
        );
        assert_eq!(role(&authenticator, "bob"), RoleVerdict::Known(Some(DirectoryRole::Operator)));
        for other in ["o*o", "carol", "", "*", "alice)(uid=*"] {
            assert_eq!(role(&authenticator, other), RoleVerdict::Known(None), "{other}");
        }
    }
    let settings = LdapSettings {
        groups: Some(groups("(objectClass=groupOfNames)", "member", MemberForm::Name)),
        ..searching(&slapd, LdapSecurity::Clear, STAFF)
    };
    let authenticator = start(kind(settings));
    slapd.set_members("ops", &["o*o"]);
    assert_eq!(role(&authenticator, "alice"), RoleVerdict::Known(Some(DirectoryRole::Operator)));
    slapd.stop();
    assert_eq!(role(&authenticator, "alice"), RoleVerdict::Unavailable, "it is away: nothing is known");
}

#[test]
fn groups_of_unix_have_names_of_users() {
    let slapd = Slapd::start(&USERS);
    slapd.add_posix_group("ops", &["bob"]);
    let groups = Some(groups("(objectClass=posixGroup)", "memberUid", MemberForm::User));
    let authenticator = start(kind(LdapSettings { groups, ..searching(&slapd, LdapSecurity::Clear, STAFF) }));
    assert_eq!(role(&authenticator, "bob"), RoleVerdict::Known(Some(DirectoryRole::Admin)));
    assert_eq!(role(&authenticator, "alice"), RoleVerdict::Known(None));
}

#[test]
fn a_rule_that_the_directory_does_not_know_gives_no_role() {
    // OpenLDAP has no rule for nested groups: such a filter is undefined, and finds nothing (RFC 4511 §4.5.1.7).
    let slapd = Slapd::start(&USERS);
    slapd.add_group("ops", &["alice"]);
    let groups = Some(groups("(objectClass=groupOfNames)", "member", MemberForm::NestedName));
    let authenticator = start(kind(LdapSettings { groups, ..searching(&slapd, LdapSecurity::Clear, STAFF) }));
    assert_eq!(role(&authenticator, "alice"), RoleVerdict::Known(None));
}

#[test]
fn a_source_without_groups_gives_no_role() {
    let slapd = Slapd::start(&USERS);
    let authenticator = start(kind(searching(&slapd, LdapSecurity::Clear, STAFF)));
    assert_eq!(role(&authenticator, "alice"), RoleVerdict::Known(None));
}

fn members(authenticator: &Authenticator, users: &[&str], groups: &[&str]) -> Option<Vec<Vec<Box<str>>>> {
    let (sender, receiver) = sync_channel(1);
    let answer = MemberAnswer::new(move |members| sender.send(members).expect("the test waits"));
    let boxed = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
    authenticator.ask_members(super::DOMAIN, boxed(users), boxed(groups), answer);
    receiver.recv_timeout(Duration::from_secs(60)).expect("every question has an answer")
}

#[test]
fn the_members_of_groups_among_some_users_are_found_by_one_connection() {
    let mut slapd = Slapd::start(&USERS);
    slapd.add_group("ops", &["alice"]);
    slapd.add_group("desk", &["alice", "bob", "o*o"]);
    slapd.add_posix_group("unix", &["bob"]);
    let desk = format!("CN=desk, {}", Slapd::GROUPS);
    for security in [LdapSecurity::Clear, LdapSecurity::StartTls] {
        let groups = Some(groups("(objectClass=groupOfNames)", "member", MemberForm::Name));
        let authenticator = start(kind(LdapSettings { groups, ..searching(&slapd, security, STAFF) }));
        let users = ["alice", "bob", "unknown", "*", "o*o"];
        let found = members(&authenticator, &users, &["Ops", &desk, "unix", "none"]).unwrap();
        let expected: [&[&str]; 4] = [&["alice"], &["alice", "bob", "o*o"], &[], &[]];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.iter().map(|name| &**name).collect::<Vec<_>>(), expected);
        }
    }
    let by_name = Some(groups("(objectClass=posixGroup)", "memberUid", MemberForm::User));
    let authenticator =
        start(kind(LdapSettings { groups: by_name, ..searching(&slapd, LdapSecurity::Clear, STAFF) }));
    assert_eq!(members(&authenticator, &["alice", "bob"], &["unix"]), Some(vec![vec!["bob".into()]]));
    slapd.freeze(true);
    assert_eq!(members(&authenticator, &["alice"], &["unix"]), None, "it does not answer in time");
    slapd.freeze(false);
    slapd.stop();
    assert_eq!(members(&authenticator, &["alice"], &["unix"]), None, "a part would be taken for the whole");
}
