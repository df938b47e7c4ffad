//! XEP-0133: a row is a command with the section, the fields of its form as §4 has them, an administrator's
//! values, and the answer. Faults of commands as such are XEP-0050's, in `commands.rs`.

use super::super::commands::{form, run, send, world};
use super::check_named;
use crate::requirements::{self, has_in_order};

/// One command.
struct Command {
    section: &'static str,
    node: &'static str,
    /// Parts of the form, in this order. Nothing: the command has none and is completed at once.
    form: &'static [&'static str],
    filled: &'static [(&'static str, &'static str)],
    told: &'static [&'static str],
}

const BOB: &str = "bob@example.org";

const fn command(section: &'static str, node: &'static str) -> Command {
    Command { section, node, form: &[], filled: &[], told: &["status='completed'"] }
}

impl Command {
    /// The difference between the expected and the actual outcome, if there is one.
    fn play(&self) -> Option<String> {
        let (mut world, admin, bob) = world();
        world.keep_rosters();
        let others = send(&mut world, bob, self.node, "", "");
        let first = send(&mut world, admin, self.node, "", "");
        let shown = match self.form {
            [] => has_in_order(&first, self.told),
            parts => {
                let kind = [
                    "status='executing'",
                    "<complete/>",
                    "type='form'",
                    "FORM_TYPE",
                    "<value>http://jabber.org/protocol/admin</value>",
                ];
                has_in_order(&first, &kind) && has_in_order(&first, parts)
            }
        };
        let last = match self.form {
            [] => first.clone(),
            _ => run(&mut world, admin, self.node, self.filled),
        };
        let is_right = others.contains("<forbidden") && shown && has_in_order(&last, self.told);
        (!is_right).then(|| {
            let (section, node) = (self.section, self.node);
            format!(
                "§{section} {node}\n  others {others}\n  form {first}\n  answer {last}\n  {:?} {:?}\n",
                self.form, self.told
            )
        })
    }
}

fn play(rows: &[Command]) {
    let wrong: Vec<String> = rows.iter().filter_map(Command::play).collect();
    requirements::assert_none(&wrong, rows.len());
}

const ONE: &[&str] = &["var='accountjid' type='jid-single'", "<required/>"];
const MANY: &[&str] = &["var='accountjids' type='jid-multi'", "<required/>"];
const MAX: &[&str] = &["var='max_items' type='list-single'", "<value>25</value>", "<value>none</value>"];
const USER: &[(&str, &str)] = &[("accountjids", BOB)];

#[test]
fn accounts() {
    let changed = |section, node| Command { form: MANY, filled: USER, ..command(section, node) };
    play(&[
        Command {
            form: &[
                "var='accountjid' type='jid-single'",
                "<required/>",
                "var='password' type='text-private'",
                "var='password-verify' type='text-private'",
                "var='given_name' type='text-single'",
                "var='surname' type='text-single'",
            ],
            filled: &[
                ("accountjid", "carol@example.org"),
                ("password", "secret"),
                ("password-verify", "secret"),
            ],
            ..command("4.1", "add-user")
        },
        changed("4.2", "delete-user"),
        changed("4.3", "disable-user"),
        changed("4.4", "reenable-user"),
        changed("4.5", "end-user-session"),
        Command {
            form: &[
                "var='accountjid' type='jid-single'",
                "<required/>",
                "var='password' type='text-private'",
                "<required/>",
            ],
            filled: &[("accountjid", BOB), ("password", "another")],
            ..command("4.7", "change-user-password")
        },
    ]);
}

#[test]
fn figures() {
    play(&[
        Command {
            form: MANY,
            filled: USER,
            told: &[
                "status='completed'",
                "type='result'",
                "<query xmlns='jabber:iq:roster'",
                "var='accountjids'",
                BOB,
            ],
            ..command("4.8", "get-user-roster")
        },
        Command {
            form: MANY,
            filled: USER,
            told: &[
                "status='completed'",
                "type='result'",
                "var='lastlogin'",
                "<value>20",
                "var='accountjids'",
                BOB,
            ],
            ..command("4.9", "get-user-lastlogin")
        },
        Command {
            form: ONE,
            filled: &[("accountjid", BOB)],
            told: &[
                "status='completed'",
                "var='rostersize'",
                "var='onlineresources'",
                "<value>phone</value>",
            ],
            ..command("4.10", "user-stats")
        },
    ]);
}

#[test]
fn counts_and_lists() {
    let counted = |section, node, told| Command { told, ..command(section, node) };
    let listed = |section, node, told| Command { form: MAX, told, ..command(section, node) };
    play(&[
        counted(
            "4.13",
            "get-registered-users-num",
            &["status='completed'", "var='registeredusersnum'", "<value>2</value>"],
        ),
        counted(
            "4.14",
            "get-disabled-users-num",
            &["status='completed'", "var='disabledusersnum'", "<value>"],
        ),
        counted(
            "4.15",
            "get-online-users-num",
            &["status='completed'", "var='onlineusersnum'", "<value>2</value>"],
        ),
        counted(
            "4.16",
            "get-active-users-num",
            &["status='completed'", "var='activeusersnum'", "<value>2</value>"],
        ),
        counted(
            "4.17",
            "get-idle-users-num",
            &["status='completed'", "var='idleusersnum'", "<value>0</value>"],
        ),
        listed(
            "4.18",
            "get-registered-users-list",
            &["status='completed'", "var='registereduserjids' type='jid-multi'", BOB],
        ),
        listed(
            "4.19",
            "get-disabled-users-list",
            &["status='completed'", "var='disableduserjids' type='jid-multi'"],
        ),
        listed(
            "4.20",
            "get-online-users-list",
            &["status='completed'", "var='onlineuserjids' type='jid-multi'", BOB],
        ),
        listed(
            "4.21",
            "get-active-users",
            &["status='completed'", "var='activeuserjids' type='jid-multi'", BOB],
        ),
        listed("4.22", "get-idle-users", &["status='completed'", "var='activeuserjids' type='jid-multi'"]),
    ]);
}

#[test]
fn messages() {
    const DAY: &[&str] = &["var='motd' type='text-multi'", "<required/>"];
    play(&[
        Command {
            form: &["var='announcement' type='text-multi'", "<required/>"],
            filled: &[("announcement", "Down at 5")],
            ..command("4.23", "announce")
        },
        Command { form: DAY, filled: &[("motd", "Hi")], ..command("4.24", "set-motd") },
        Command { form: DAY, filled: &[("motd", "Hi")], ..command("4.25", "edit-motd") },
        command("4.26", "delete-motd"),
    ]);
}

#[test]
fn commands_that_are_not_built() {
    let (mut world, admin, _) = world();
    for node in [
        "get-user-password",
        "edit-blacklist",
        "edit-whitelist",
        "set-welcome",
        "delete-welcome",
        "edit-admin",
        "restart",
        "shutdown",
    ] {
        let answer = send(&mut world, admin, node, "", &form(&[]));
        assert!(answer.contains("<item-not-found"), "{node}: {answer}");
    }
}

#[test]
fn elsewhere() {
    check_named(&[
        (
            "3",
            "commands are listed to administrators",
            "chat/src/tests/commands.rs::commands_are_shown_to_administrators",
        ),
        (
            "4.1",
            "passwords that differ, names that are taken",
            "chat/src/tests/commands.rs::accounts_are_added_changed_and_removed",
        ),
        (
            "4.2",
            "the account is removed",
            "chat/src/tests/commands.rs::accounts_are_added_changed_and_removed",
        ),
        ("4.5", "of all resources, or of one", "chat/src/tests/commands.rs::sessions_are_ended"),
        (
            "4.18",
            "max_items: not-acceptable if it is no number",
            "chat/src/tests/commands.rs::users_online_are_counted_and_listed",
        ),
        (
            "4.23",
            "users that are online get the announcement",
            "chat/src/tests/commands.rs::an_announcement_reaches_all_sessions",
        ),
        (
            "4.24",
            "users that come later get the message of the day",
            "chat/src/tests/commands.rs::a_message_of_the_day_reaches_users_that_come",
        ),
        (
            "4.26",
            "and not when it is deleted",
            "chat/src/tests/commands.rs::a_message_of_the_day_reaches_users_that_come",
        ),
        ("6", "an unprivileged user: forbidden", "chat/src/tests/commands.rs::faults_of_commands"),
    ]);
}

/// §4.25: the form has the message, a value for each line (XEP-0004 §3.3).
#[test]
fn the_form_of_edit_motd_has_the_current_message() {
    let (mut world, admin, _) = world();
    world.keep_rosters();
    let first = send(&mut world, admin, "edit-motd", "", "");
    assert!(has_in_order(&first, &["var='motd'", "<required/>", "</field>", "!Hi there"]), "{first}");
    let fields = [("{urn:belfry:admin}subject", "News"), ("motd", "Hi there\nfriends")];
    assert!(run(&mut world, admin, "set-motd", &fields).contains("completed"));
    let parts = [
        "status='executing'",
        "var='{urn:belfry:admin}subject'",
        "<value>News</value>",
        "var='motd'",
        "<value>Hi there</value><value>friends</value>",
    ];
    let form = send(&mut world, admin, "edit-motd", "", "");
    assert!(has_in_order(&form, &parts), "{form}");
    // After a restart it is in the store.
    let settings = world.host.settings().clone();
    world.host = super::Host::new(std::sync::Arc::new(settings), xmpp::ShardAddress::default(), [2; 32]);
    let admin = world.sign_in("admin@example.org/desk");
    let form = send(&mut world, admin, "edit-motd", "", "");
    assert!(has_in_order(&form, &parts), "{form}");
    world.store.is_broken = true;
    assert!(send(&mut world, admin, "edit-motd", "", "").contains("<resource-constraint"));
}
