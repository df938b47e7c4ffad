//! Administrators' commands: each state and fault.

use super::pubsub::ask;
use super::*;
use crate::effect::Accounts;

const ADMIN: &str = "admin@example.org";

pub(super) fn world() -> (HostWorld, u64, u64) {
    let mut world = HostWorld::new(&[ADMIN, "bob@example.org"]);
    let mut settings = settings();
    settings.admins = vec![Bare::parse(ADMIN).unwrap()];
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    let admin = world.sign_in("admin@example.org/desk");
    let bob = world.sign_in("bob@example.org/phone");
    for client in [admin, bob] {
        world.say(client, "<presence/>");
    }
    world.hear(bob);
    (world, admin, bob)
}

pub(super) fn send(world: &mut HostWorld, client: u64, node: &str, attributes: &str, inner: &str) -> String {
    let node = format!("http://jabber.org/protocol/admin#{node}");
    let command = format!(
        "<command xmlns='http://jabber.org/protocol/commands' node='{node}'{attributes}>{inner}</command>"
    );
    ask(world, client, "set", "example.org", &command)
}

fn session(answer: &str) -> String {
    assert!(answer.contains("status='executing'"), "{answer}");
    answer.split("sessionid='").nth(1).unwrap().split('\'').next().unwrap().to_owned()
}

pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    let fields: String = fields.iter().map(field).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>")
}

pub(super) fn run(world: &mut HostWorld, admin: u64, node: &str, fields: &[(&str, &str)]) -> String {
    let id = session(&send(world, admin, node, "", ""));
    send(world, admin, node, &format!(" sessionid='{id}' action='complete'"), &form(fields))
}

#[test]
fn users_online_are_counted_and_listed() {
    let (mut world, admin, bob) = world();
    let answer = send(&mut world, admin, "get-online-users-num", "", "");
    assert!(answer.contains("status='completed'") && answer.contains("<value>2</value>"), "{answer}");
    let answer = run(&mut world, admin, "get-online-users-list", &[]);
    assert!(
        answer.contains(
            "<field var='onlineuserjids' type='jid-multi'><value>admin@example.org</value>\
             <value>bob@example.org</value></field>"
        ),
        "{answer}"
    );
    // §4.15 and §4.20: users, not sessions.
    let second = world.sign_in("bob@example.org/second");
    world.say(second, "<presence/>");
    assert!(send(&mut world, admin, "get-online-users-num", "", "").contains("<value>2</value>"));
    let answer = run(&mut world, admin, "get-online-users-list", &[("max_items", "none")]);
    assert_eq!(answer.matches("<value>bob@example.org</value>").count(), 1, "{answer}");
    world.tell(|host, now, out| host.handle_gone(now, edge(second), true, out));
    let answer = run(&mut world, admin, "get-online-users-list", &[("max_items", "few")]);
    assert!(answer.contains("not-acceptable"), "{answer}");
    let answer = run(&mut world, admin, "get-online-users-list", &[("max_items", "1")]);
    assert!(answer.matches("<value>").count() == 2, "{answer}");
    world.say(bob, "<presence type='unavailable'/>");
    let answer = send(&mut world, admin, "get-online-users-num", "", "");
    assert!(answer.contains("<value>1</value>"), "{answer}");
}

#[test]
fn an_announcement_reaches_all_sessions() {
    let (mut world, admin, bob) = world();
    let fields = [("{urn:belfry:admin}subject", "Hi"), ("announcement", "Down at 5")];
    let answer = run(&mut world, admin, "announce", &fields);
    assert!(answer.contains("sent to 2 sessions"), "{answer}");
    let heard = world.hear(bob);
    assert_eq!(heard.len(), 1);
    for part in
        ["from='example.org'", "to='bob@example.org/phone'", "<subject>Hi</subject><body>Down at 5</body>"]
    {
        assert!(heard[0].contains(part), "{part}: {heard:?}");
    }
}

#[test]
fn a_message_of_the_day_reaches_users_that_come() {
    let (mut world, admin, bob) = world();
    world.keep_rosters();
    let come = |world: &mut HostWorld, name: &str| {
        let client = world.sign_in(&format!("bob@example.org/{name}"));
        world.say(client, "<presence/>");
        world.say(client, "<presence><show>away</show></presence>");
        world.hear(client).into_iter().filter(|stanza| stanza.starts_with("<message")).collect::<Vec<_>>()
    };
    assert!(come(&mut world, "1").is_empty());
    assert!(run(&mut world, admin, "set-motd", &[("motd", "One")]).contains("completed"));
    assert!(world.hear(bob).iter().any(|stanza| stanza.contains("<body>One</body>")));
    let heard = come(&mut world, "2");
    assert!(heard.len() == 1 && heard[0].contains("<body>One</body>"), "{heard:?}");
    run(&mut world, admin, "edit-motd", &[("motd", "Two")]);
    assert!(!world.hear(bob).concat().contains("<message"));
    assert!(come(&mut world, "3")[0].contains("<body>Two</body>"));
    // After a restart it is in the store.
    let settings = world.host.settings().clone();
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [2; 32]);
    assert!(come(&mut world, "4")[0].contains("<body>Two</body>"));
    let admin = world.sign_in("admin@example.org/desk");
    for _ in 0..2 {
        assert!(send(&mut world, admin, "delete-motd", "", "").contains("completed"));
    }
    assert!(come(&mut world, "5").is_empty());
    world.store.is_broken = true;
    assert!(run(&mut world, admin, "set-motd", &[("motd", "No")]).contains("resource-constraint"));
    world.store.is_broken = false;
    assert!(come(&mut world, "6").is_empty());
}

#[test]
fn sessions_are_ended() {
    let (mut world, admin, bob) = world();
    let second = world.sign_in("bob@example.org/desk");
    let end =
        |world: &mut HostWorld, jid: &str| run(world, admin, "end-user-session", &[("accountjids", jid)]);
    assert!(end(&mut world, "bob@example.org/none").contains("item-not-found"));
    assert!(end(&mut world, "bob@x.org").contains("not-allowed"));
    assert!(end(&mut world, "@").contains("jid-malformed"));
    assert!(end(&mut world, "bob@example.org/desk").contains("ended 1 sessions"));
    assert_eq!(world.closed, [(second, "policy-violation")]);
    assert!(end(&mut world, "bob@example.org").contains("ended 1 sessions"));
    assert_eq!(world.closed[1], (bob, "policy-violation"));
    assert_eq!(world.host.accounts().session_count(), 1);
}

#[test]
fn a_form_can_be_canceled_and_grows_old() {
    let (mut world, admin, _) = world();
    let id = session(&send(&mut world, admin, "announce", "", ""));
    let answer = send(&mut world, admin, "announce", &format!(" sessionid='{id}' action='cancel'"), "");
    assert!(answer.contains("status='canceled'"), "{answer}");
    let again =
        send(&mut world, admin, "announce", &format!(" sessionid='{id}'"), &form(&[("announcement", "x")]));
    assert!(again.contains("bad-sessionid"), "{again}");
    let id = session(&send(&mut world, admin, "announce", "", ""));
    world.now = world.now + Duration::from_secs(601);
    let late =
        send(&mut world, admin, "announce", &format!(" sessionid='{id}'"), &form(&[("announcement", "x")]));
    assert!(late.contains("session-expired") && late.contains("not-allowed"), "{late}");
}

#[test]
fn faults_of_commands() {
    let (mut world, admin, bob) = world();
    for node in ["announce", "get-online-users-num", "none"] {
        assert!(send(&mut world, bob, node, "", "").contains("forbidden"));
    }
    let id = session(&send(&mut world, admin, "announce", "", ""));
    let with = |rest: &str| format!(" sessionid='{id}'{rest}");
    for (node, attributes, inner, condition) in [
        ("none", String::new(), String::new(), "item-not-found"),
        ("announce", " action='jump'".to_owned(), String::new(), "malformed-action"),
        ("announce", " action='complete'".to_owned(), String::new(), "bad-action"),
        ("announce", " sessionid='0'".to_owned(), String::new(), "bad-sessionid"),
        ("set-motd", with(""), form(&[("announcement", "x")]), "bad-sessionid"),
        ("announce", with(" action='prev'"), String::new(), "bad-action"),
        ("announce", with(" action='next'"), String::new(), "bad-action"),
        ("announce", with(""), String::new(), "bad-payload"),
        ("announce", with(""), form(&[]), "bad-payload"),
        ("announce", with(""), form(&[("announcement", "")]), "bad-payload"),
    ] {
        let answer = send(&mut world, admin, node, &attributes, &inner);
        assert!(answer.contains("type='error'") && answer.contains(condition), "{condition}: {answer}");
    }
    // A form belongs to the session that asked for it.
    let other = world.sign_in("admin@example.org/other");
    let answer = send(&mut world, other, "announce", &with(""), &form(&[("announcement", "x")]));
    assert!(answer.contains("bad-sessionid"), "{answer}");
    let get = "<command xmlns='http://jabber.org/protocol/commands' node='http://jabber.org/protocol/admin#announce'/>";
    assert!(ask(&mut world, admin, "get", "example.org", get).contains("bad-request"));
    // None of that spoiled the form.
    assert!(
        send(&mut world, admin, "announce", &with(""), &form(&[("announcement", "x")])).contains("completed")
    );
}

#[test]
fn commands_are_shown_to_administrators() {
    let (mut world, admin, bob) = world();
    let items =
        "<query xmlns='http://jabber.org/protocol/disco#items' node='http://jabber.org/protocol/commands'/>";
    let list = ask(&mut world, admin, "get", "example.org", items);
    assert!(list.contains("node='http://jabber.org/protocol/admin#announce'"), "{list}");
    let list = ask(&mut world, bob, "get", "example.org", items);
    assert!(!list.contains("protocol/admin"), "{list}");
    let about = items.replace("disco#items", "disco#info");
    let told = ask(&mut world, admin, "get", "example.org", &about);
    assert!(told.contains("category='automation' type='command-list'"), "{told}");
    let stranger = about.replace("protocol/commands", "protocol/others");
    assert!(ask(&mut world, admin, "get", "example.org", &stranger).contains("item-not-found"));
    let info = "<query xmlns='http://jabber.org/protocol/disco#info' node='http://jabber.org/protocol/admin#announce'/>";
    assert!(ask(&mut world, admin, "get", "example.org", info).contains("type='command-node'"));
    assert!(ask(&mut world, bob, "get", "example.org", info).contains("item-not-found"));
}

#[test]
fn accounts_are_added_changed_and_removed() {
    let (mut world, admin, _) = world();
    world.keep_rosters();
    let with = |user: &str, first: &str, second: &str| {
        [("accountjid", user), ("password", first), ("password-verify", second), ("given_name", "Ca")]
            .map(|(var, value)| (var.to_owned(), value.to_owned()))
    };
    for (fields, answer) in [
        (with("carol@example.org", "secret", "secret"), "completed"),
        (with("carol@example.org", "secret", "secret"), "<conflict"),
        (with("dora@example.org", "secret", "Secret"), "the passwords are not the same"),
        (with("dora@example.org", "x", "x"), "too short"),
        (with("dora@example.com", "secret", "secret"), "<not-allowed"),
        (with("example.org", "secret", "secret"), "<jid-malformed"),
    ] {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(var, value)| (&**var, &**value)).collect();
        let got = run(&mut world, admin, "add-user", &fields);
        assert!(got.contains(answer), "{answer}: {got}");
    }
    let accountjids = [("accountjids", "bob@example.org")];
    assert!(run(&mut world, admin, "reenable-user", &accountjids).contains("completed"));
    assert!(run(&mut world, admin, "disable-user", &accountjids).contains("completed"));
    let change = [("accountjid", "bob@example.org"), ("password", "another")];
    assert!(run(&mut world, admin, "change-user-password", &change).contains("completed"));
    assert!(run(&mut world, admin, "delete-user", &accountjids).contains("completed"));
    let bob = Bare::parse("bob@example.org").unwrap();
    let done = &world.store.administered[world.store.administered.len() - 4..];
    assert_eq!(done[0], Accounts::Disable { user: bob.clone(), disabled: false });
    assert_eq!(done[1], Accounts::Disable { user: bob.clone(), disabled: true });
    assert!(
        matches!(&done[2], Accounts::Password { user, password } if *user == bob && &*password.0 == "another")
    );
    assert_eq!(done[3], Accounts::Remove { user: bob });
    world.store.is_broken = true;
    assert!(run(&mut world, admin, "delete-user", &accountjids).contains("resource-constraint"));
}

#[test]
fn an_account_that_is_named_twice_is_removed_once() {
    let (mut world, admin, _) = world();
    let users = ["bob@example.org", "carol@example.org", "bob@example.org"];
    let values: String = users.iter().map(|user| format!("<value>{user}</value>")).collect();
    let form =
        format!("<x xmlns='jabber:x:data' type='submit'><field var='accountjids'>{values}</field></x>");
    let id = session(&send(&mut world, admin, "delete-user", "", ""));
    let complete = format!(" sessionid='{id}' action='complete'");
    assert!(send(&mut world, admin, "delete-user", &complete, &form).contains("completed"));
    let removed = ["bob@example.org", "carol@example.org"].map(|user| Bare::parse(user).unwrap());
    assert_eq!(world.store.administered, removed.map(|user| Accounts::Remove { user }));
}

#[test]
fn accounts_are_counted_listed_and_looked_at() {
    let (mut world, admin, bob) = world();
    let registered = send(&mut world, admin, "get-registered-users-num", "", "");
    assert!(
        registered.contains("var='registeredusersnum'") && registered.contains("<value>2</value>"),
        "{registered}"
    );
    let list = run(&mut world, admin, "get-registered-users-list", &[("max_items", "1")]);
    assert!(list.contains("<value>admin@example.org</value>") && !list.contains("bob@"), "{list}");
    let disabled = run(&mut world, admin, "get-disabled-users-list", &[]);
    assert!(disabled.contains("var='disableduserjids'"), "{disabled}");
    world.say(bob, "<presence><show>away</show></presence>");
    let idle = run(&mut world, admin, "get-idle-users", &[]);
    assert!(idle.contains("<value>bob@example.org</value>") && !idle.contains("<value>admin"), "{idle}");
    let active = send(&mut world, admin, "get-active-users-num", "", "");
    assert!(active.contains("var='activeusersnum'") && active.contains("<value>1</value>"), "{active}");
    let accountjid = [("accountjid", "bob@example.org")];
    world.say(
        bob,
        "<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='carol@example.org'/></query></iq>",
    );
    let accountjids = [("accountjids", "bob@example.org")];
    let roster = run(&mut world, admin, "get-user-roster", &accountjids);
    assert!(
        roster.contains("<field var='accountjids' type='jid-multi'><value>bob@example.org</value></field>"),
        "{roster}"
    );
    assert!(roster.contains("jid='carol@example.org'"), "{roster}");
    let stats = run(&mut world, admin, "user-stats", &accountjid);
    assert!(stats.contains("<value>phone</value>") && stats.contains("rostersize"), "{stats}");
    let here = run(&mut world, admin, "get-user-lastlogin", &accountjids);
    assert!(here.contains(&format!("<value>{}</value>", xmpp::time::stamp(START))), "{here}");
    let unknown = run(&mut world, admin, "get-user-roster", &[("accountjids", "nobody@example.org")]);
    assert!(unknown.contains("item-not-found"), "{unknown}");
    let both = "<x xmlns='jabber:x:data' type='submit'><field var='accountjids'>\
        <value>admin@example.org</value><value>bob@example.org</value></field></x>";
    let id = session(&send(&mut world, admin, "get-user-roster", "", ""));
    let both = send(&mut world, admin, "get-user-roster", &format!(" sessionid='{id}'"), both);
    assert!(both.contains("feature-not-implemented"), "{both}");
}

/// A page costs what is on it: the others are only counted.
#[test]
fn sessions_are_listed_from_the_first_address_on_and_all_are_counted() {
    let users = ["dora@example.org", "alice@example.org", "carol@example.org", "bob@example.org"];
    let mut world = HostWorld::new(&users);
    for user in users {
        world.sign_in(&format!("{user}/desk"));
    }
    for (max, expected) in [(0, &[][..]), (2, &["alice", "bob"]), (9, &["alice", "bob", "carol", "dora"])] {
        let action = crate::effect::HostAction::Sessions { jid: None, max };
        let acted = world.host.act(world.now, &action, &mut Vec::new());
        let mut listed: Vec<_> =
            acted.described.iter().map(|one| one.jid.local().unwrap_or_default().to_owned()).collect();
        listed.sort_unstable();
        assert_eq!(
            (listed, acted.count),
            (expected.iter().map(|&name| name.to_owned()).collect(), 4),
            "{max}"
        );
    }
}
