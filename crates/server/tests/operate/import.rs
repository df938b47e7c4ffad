//! Accounts with all that belongs to them, from files of XEP-0227.

use std::io::Write as _;
use std::time::Duration;

use interop::PostgresServer;
use store::xmpp::{RosterRow, UserRow, XmppLoaded, XmppRead};
use store::{Address, Admin, Loaded, Read, ScramHash, Sqlite, Verifiers};
use xmpp::sasl::{Hash, derive, encode};

use super::fake::FakeNode;
use super::place::Place;
use super::psql::Session;

fn data(users: &str) -> String {
    format!(
        "<?xml version='1.0'?>\n<server-data xmlns='urn:xmpp:pie:0' xmlns:xi='http://www.w3.org/2001/XInclude'>\n<host jid='example.test'>\n{users}\n</host></server-data>\n"
    )
}

fn user(name: &str, inside: &str) -> String {
    format!("<user name='{name}' password='of {name}'>{inside}</user>\n")
}

fn roster(contacts: &[&str]) -> String {
    let item = |contact: &&str| format!("<item jid='{contact}@example.test' subscription='both'/>");
    format!("<query xmlns='jabber:iq:roster'>{}</query>", contacts.iter().map(item).collect::<String>())
}

fn admin(place: &Place) -> Admin {
    Admin::new(&Sqlite::open(place.path("data/belfry.db")).unwrap()).unwrap()
}

fn load(place: &Place, read: XmppRead) -> XmppLoaded {
    match admin(place).read(&Read::Xmpp(read)).unwrap() {
        Loaded::Xmpp(loaded) => loaded,
        other => panic!("{other:?}"),
    }
}

fn record(place: &Place, user: &str) -> UserRow {
    match load(place, XmppRead::User { user: user.into(), nodes: &[] }) {
        XmppLoaded::User(row) => *row,
        other => panic!("{other:?}"),
    }
}

fn verifiers(place: &Place, user: &str) -> Verifiers {
    admin(place).account(&Address::new(user, "example.test").unwrap()).unwrap().verifiers
}

fn contacts(row: &UserRow) -> Vec<(&str, u64)> {
    row.roster.iter().map(|(contact, item)| (&**contact, item.version)).collect()
}

#[test]
fn an_imported_file_adds_accounts_with_their_chat_data() {
    let place = Place::new();
    let more = "<offline-messages><message xmlns='jabber:client' from='bob@example.test/x' type='chat'><body>Hi</body>\
                <delay xmlns='urn:xmpp:delay' stamp='2020-01-01T00:00:00Z'/></message></offline-messages>\
                <blocklist xmlns='urn:xmpp:blocking'><item jid='eve@example.test'/></blocklist>\
                <x xmlns='urn:unknown'/>";
    place.write(
        "all.xml",
        &data(&(user("alice", &(roster(&["bob"]) + more)) + &user("bob", &roster(&["alice"])))),
    );
    let output = place.belfry(&["account", "import", "all.xml"]).good();
    assert!(
        output.starts_with("accounts: 2 in ") && output.contains(": 2 added, 0 updated, 0 skipped\n"),
        "{output}"
    );
    assert!(output.ends_with("\npassed over: 1 <x xmlns='urn:unknown'>\n"), "{output}");
    assert_eq!(verifiers(&place, "alice"), Verifiers::from_password("alice", "example.test", "of alice"));
    let alice = record(&place, "alice@example.test");
    let bob = RosterRow { subscription: "both".into(), is_listed: true, version: 1, ..RosterRow::default() };
    assert_eq!(alice.roster, [("bob@example.test".into(), bob)]);
    assert_eq!(
        (alice.roster_version, &alice.blocked[..], alice.offline),
        (1, &["eve@example.test".into()][..], 1)
    );

    // A second import with another contact: nothing is there twice, and a client with the older roster gets
    // the new one.
    place.write("more.xml", &data(&user("alice", &(roster(&["bob", "carol"]) + more))));
    let output = place.belfry(&["account", "import", "more.xml"]).good();
    assert!(output.contains("0 added, 1 updated, 0 skipped"), "{output}");
    let alice = record(&place, "alice@example.test");
    assert_eq!(contacts(&alice), [("bob@example.test", 2), ("carol@example.test", 2)]);
    assert_eq!((alice.roster_version, alice.offline), (2, 1));

    place.write("skipped.xml", &data(&user("alice", &roster(&["dave"]))));
    let output = place.belfry(&["account", "import", "skipped.xml", "--skip-existing"]).good();
    assert!(output.contains("0 added, 0 updated, 1 skipped"), "{output}");
    assert_eq!(record(&place, "alice@example.test"), alice);
}

#[test]
fn scram_keys_are_imported_unchanged_with_a_note_of_their_limits() {
    let place = Place::new();
    let keys = derive(Hash::Sha1, "secret", b"salt", 10_000);
    let of_alice = format!(
        "<user name='alice'><scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'>\
         <iter-count>10000</iter-count><salt>{}</salt><server-key>{}</server-key><stored-key>{}</stored-key>\
         </scram-credentials></user>",
        encode(&keys.salt),
        encode(&keys.server),
        encode(&keys.stored)
    );
    place.write("keys.xml", &data(&of_alice));
    let output = place.belfry(&["account", "import", "keys.xml"]).good();
    assert!(output.contains("without a password: 1 came with keys of SCRAM only"), "{output}");
    assert!(
        output.contains("phones cannot register until it is set") && output.contains("(alice@example.test)"),
        "{output}"
    );
    let first = verifiers(&place, "alice");
    let kept = first.scram(ScramHash::Sha1).unwrap();
    assert_eq!((kept.iterations, &kept.salt, &kept.stored), (10_000, &keys.salt, &keys.stored));
    assert!(!first.are_of_password());
    place.belfry(&["account", "import", "keys.xml"]).good();
    assert_eq!(verifiers(&place, "alice"), first, "the same keys are the same password");
    place.write("password.xml", &data("<user name='alice' password='new'/>"));
    place.belfry(&["account", "import", "password.xml", "--scram"]).good();
    let last = verifiers(&place, "alice");
    assert!(last.are_of_password() && last.has_scram());
    assert_eq!(last.sha256, Verifiers::from_password("alice", "example.test", "new").sha256);
}

#[test]
fn files_include_others_of_their_folder_and_a_folder_is_read_once() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("export/example.test")).unwrap();
    let xi = "xmlns='urn:xmpp:pie:0' xmlns:xi='http://www.w3.org/2001/XInclude'";
    let main = format!("<server-data {xi}><xi:include href='main_example.test.xml'/></server-data>");
    place.write("export/main.xml", &main);
    place.write(
        "export/main_example.test.xml",
        &format!(
            "<host {xi} jid='example.test'><xi:include href='example.test/alice.xml'/>{}</host>",
            user("bob", "")
        ),
    );
    let alice = "<user xmlns='urn:xmpp:pie:0' name='alice' password='x'/>";
    place.write("export/example.test/alice.xml", alice);
    let output = place.belfry(&["account", "import", "export/main.xml"]).good();
    assert!(output.contains("2 added"), "{output}");
    let output = place.belfry(&["account", "import", "export"]).good();
    assert!(output.contains("0 added, 2 updated"), "{output}");
    place
        .belfry_with(&["account", "import", "-"], &main)
        .failed(1, "standard input:1: an include of \"main_example.test.xml\" in standard input; expected");
}

#[test]
fn an_include_outside_the_folder_or_in_a_cycle_ends_the_import() {
    let place = Place::new();
    std::fs::create_dir(place.path("in")).unwrap();
    place.write("outside.xml", &data(&user("eve", "")));
    std::os::unix::fs::symlink(place.path("outside.xml"), place.path("in/link.xml")).unwrap();
    let file = |name: &str, href: &str| {
        place.write(&format!("in/{name}"), &data(&format!("<xi:include href='{href}'/>")));
    };
    file("circle.xml", "back.xml");
    file("back.xml", "circle.xml");
    for (href, says) in [
        ("../outside.xml", "in/a.xml:4: an include of \"../outside.xml\" leads elsewhere"),
        ("/etc/passwd", "leads elsewhere"),
        ("file:///etc/passwd", "leads elsewhere"),
        ("link.xml", "leads elsewhere; expected a file in the same folder or below, not a link out of it"),
        ("nothing.xml", "cannot be read: No such file"),
        ("a.xml", "goes in circles"),
        ("circle.xml", "in/back.xml:4: an include of \"circle.xml\" goes in circles"),
        ("", "leads elsewhere"),
    ] {
        file("a.xml", href);
        place.belfry(&["account", "import", "in/a.xml"]).failed(1, says);
    }
    for depth in 0..9 {
        file(&format!("{depth}.xml"), &format!("{}.xml", depth + 1));
    }
    place
        .belfry(&["account", "import", "in/0.xml"])
        .failed(1, "is too deep; expected files of 8 within each other");
    assert_eq!(place.belfry(&["account", "list"]).good(), "no accounts\n");
}

#[test]
fn users_that_cannot_be_imported_are_named_and_the_others_imported() {
    let place = Place::new();
    let strange = "<item jid='a@b' subscription='mutual'/>";
    let users = [
        user("alice", &format!("<query xmlns='jabber:iq:roster'>{strange}</query>")),
        "<user name='bob'/>\n".into(),
        user("a@b", ""),
        user("carol", "&lol;"),
        user("dave", ""),
    ];
    let text = data(&users.concat()).replace(
        "</host>",
        "</host><host jid='Old.test'><user name='eve' password='x'/><user name='mallory' password='x'/></host>",
    );
    place.write("some.xml", &text);
    let output = place.belfry(&["account", "import", "some.xml"]);
    assert!(output.out.contains("1 added"), "{output:?}");
    for words in [
        "not imported: 6\n",
        "2 users of old.test, which is not served here; add it with: belfry domain add old.test\n",
        "some.xml:4: user alice: a contact whose subscription is \"mutual\"; expected none, to, from or both\n",
        "some.xml:5: user bob: no password; expected a password, or <scram-credentials",
        "some.xml:6: user a@b: user \"a@b\"; expected a name that an address may have",
        "some.xml:7: an entity that is not XML's own; expected well-formed XML\n",
    ] {
        assert!(output.err.contains(words), "{words}\n{}", output.err);
    }
    assert_eq!(output.code, 1);
    place.belfry(&["domain", "add", "old.test"]).good();
    let output = place.belfry(&["account", "import", "some.xml"]);
    assert!(
        output.err.contains("not imported: 4\n") && output.out.contains("2 added, 1 updated"),
        "{output:?}"
    );
}

#[test]
fn a_check_names_all_unreadable_users_and_writes_nothing() {
    let place = Place::new();
    let many: String = (0..30).map(|number| format!("<user name='u{number}'/>\n")).collect();
    place.write("some.xml", &data(&(user("alice", "") + &many + &user("a@b", ""))));
    let output = place.belfry(&["account", "import", "--check", "some.xml"]);
    assert_eq!((output.code, &*output.out), (1, "good: 1 accounts; nothing was written\n"), "{}", output.err);
    assert!(output.err.starts_with("belfry: bad: 31\nsome.xml:5: user u0: no password; "), "{}", output.err);
    assert_eq!(output.err.lines().count(), 32, "{}", output.err);
    assert!(!place.path("data").exists());
    place.belfry(&["domain", "add", "second.test"]).good();
    let second = data(&user("bob", "")).replace("example.test", "second.test");
    place.write("second.xml", &second);
    place.belfry(&["account", "import", "--check", "second.xml"]).good();
    place.write("third.xml", &second.replace("second.test", "third.test"));
    place
        .belfry(&["account", "import", "--check", "third.xml"])
        .failed(1, "1 users of third.test, which is not served");
    assert_eq!(place.belfry(&["account", "list"]).good(), "no accounts\n");
}

#[test]
fn a_malformed_file_is_reported_with_its_place_and_earlier_users_are_kept() {
    let place = Place::new();
    let whole = data(&user("alice", ""));
    let cut = whole.split_once("</host>").unwrap().0;
    for (text, says) in [
        (cut, "bad.xml:6: the file ends within <host>; expected a whole file"),
        (
            "<!DOCTYPE lolz [<!ENTITY lol 'lol'>]><server-data/>",
            "bad.xml:1: a document type or another declaration",
        ),
        (
            "<accounts/>",
            "bad.xml:1: <accounts> of namespace \"\"; expected <server-data xmlns='urn:xmpp:pie:0'>",
        ),
        ("\u{feff} \n<server-data xmlns='urn:xmpp:pie:0'>x", "bad.xml:2: text between elements"),
    ] {
        place.write("bad.xml", text);
        place.belfry(&["account", "import", "bad.xml"]).failed(1, says);
    }
    place.write("bad.xml", cut);
    place.belfry(&["account", "import", "bad.xml"]).failed(1, "accounts in before it: 1; mend the file");
    std::fs::create_dir(place.path("empty")).unwrap();
    place.belfry(&["account", "import", "empty"]).failed(1, "empty: no .xml files are in this folder");
    place
        .belfry(&["account", "import", "nowhere.xml"])
        .failed(1, "nowhere.xml: cannot be read: No such file");
}

#[test]
fn an_import_of_chat_data_beside_a_running_node_writes_nothing() {
    let place = Place::new();
    place.write("all.xml", &data(&user("alice", &roster(&["bob"]))));
    let node = FakeNode::start(place.config());
    place.belfry(&["account", "import", "all.xml"]).failed(1, "a node runs, and has rosters in memory");
    assert_eq!(place.belfry(&["account", "list"]).good(), "no accounts\n");
    drop(node);
    place.belfry(&["account", "import", "all.xml"]).good();
}

#[test]
fn an_export_can_be_imported_on_another_node_and_contains_no_password() {
    let (here, there) = (Place::new(), Place::new());
    let more = "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>\
                <query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'>\
                <conference jid='tea@rooms.test'/></storage><a xmlns='urn:a'>x</a></query>\
                <offline-messages><message xmlns='jabber:client' from='bob@example.test/x'><body>Hi</body></message>\
                </offline-messages><presence type='subscribe' from='carol@example.test'/>\
                <blocklist xmlns='urn:xmpp:blocking'><item jid='eve@example.test'/></blocklist>";
    here.write("all.xml", &data(&(user("alice", &(roster(&["bob"]) + more)) + &user("bob", ""))));
    here.belfry(&["account", "import", "all.xml", "--scram"]).good();
    here.belfry_with(&["account", "import", "-"], "dave,of dave\nEve,x\n").good();
    let output = here.belfry(&["account", "export", "out.xml", "--domain", "Example.test"]).good();
    assert!(output.starts_with("accounts: 3\nwithout anything to sign in by: 1, "), "{output}");
    assert!(output.ends_with("\npassed over: 1 accounts whose names no chat client can have\n"), "{output}");
    here.belfry(&["account", "export", "out.xml"]).failed(1, "out.xml: cannot be written: File exists");
    here.belfry(&["account", "export", "x.xml", "--domain", "x"]).failed(1, "there is no domain x");
    let written = std::fs::read_to_string(here.path("out.xml")).unwrap();
    assert!(!written.contains("of alice") && !written.contains("password="), "{written}");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&here.path("out.xml").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    there.write("out.xml", &written);
    let output = there.belfry(&["account", "import", "out.xml"]);
    assert!(output.out.contains("2 added") && output.err.contains("user dave: no password"), "{output:?}");
    assert_eq!(record(&there, "alice@example.test"), record(&here, "alice@example.test"));
    let kept = |place: &Place| load(place, XmppRead::Kept { owner: "alice@example.test".into() });
    assert_eq!(kept(&there), kept(&here));
    for hash in [ScramHash::Sha1, ScramHash::Sha256, ScramHash::Sha512] {
        assert_eq!(verifiers(&there, "alice").scram(hash), verifiers(&here, "alice").scram(hash));
    }
    there.belfry(&["account", "export", "again.xml"]).good();
    let again = std::fs::read_to_string(there.path("again.xml")).unwrap();
    let without_dave: String =
        written.lines().filter(|line| !line.contains("'dave'")).map(|line| format!("{line}\n")).collect();
    assert_eq!(again, without_dave);
}

#[test]
fn an_import_into_postgresql_that_is_killed_goes_on_where_it_stopped() {
    let (place, url) = (Place::new(), interop::new_postgres_database());
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("belfry.toml", &format!("{config}[store]\nurl = \"{url}\"\n"));
    place.belfry(&["domain", "add", "example.test"]).good();
    let lines: String = (0..60_000).map(|number| format!("user{number:05},secret\n")).collect();
    let mut import = place.command(&["account", "import", "-"]).spawn().unwrap();
    let mut input = import.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    // It has written its first batch, and waits for the rest of the second.
    let mut session = Session::start(&url);
    let written = || session.select("SELECT count(*) FROM account;").parse().ok().filter(|count| *count > 0);
    let written: u64 = wait::until("a batch is written", Duration::from_secs(60), written, String::new);
    import.kill().unwrap();
    import.wait().unwrap();
    drop(input);
    assert_eq!(written, 50_000);
    place.write("accounts.csv", &lines);
    let output = place.belfry(&["account", "import", "accounts.csv"]).good();
    assert!(output.contains(": 10 000 added, 50 000 updated, 0 skipped"), "{output}");
    // Accounts that were in are not written again.
    let same =
        "SELECT count(*) FROM account WHERE xmin = (SELECT xmin FROM account WHERE name = 'user00000');";
    assert_eq!(session.select(same), "50000");
    session.end();
}

#[test]
fn an_import_that_loses_its_database_reports_its_progress_and_how_to_go_on() {
    let mut server = PostgresServer::start(&[]);
    let (place, url) = (Place::new(), server.new_database(&[]));
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("belfry.toml", &format!("{config}[store]\nurl = \"{url}\"\n"));
    let lines: String = (0..60_000).map(|number| format!("user{number:05},secret\n")).collect();
    let mut import = place.command(&["account", "import", "-"]).spawn().unwrap();
    let mut input = import.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    let mut session = Session::start(&url);
    let written =
        || session.select("SELECT count(*) FROM account;").parse().ok().filter(|count: &u64| *count > 0);
    wait::until("a batch is written", Duration::from_secs(60), written, String::new);
    session.end();
    server.kill();
    drop(input);
    let output = import.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let hint = "; accounts in before it: 50 000; when that is mended give the same command again";
    assert!(errors.contains(hint), "{errors}");
}

#[test]
fn an_export_goes_to_pipes_and_devices() {
    let place = Place::new();
    place.belfry_with(&["account", "import", "-"], "alice,secret\n").good();
    for file in ["-", "/dev/stdout"] {
        let output = place.belfry(&["account", "export", file]);
        assert!(output.err.starts_with("accounts: 1\n"), "{output:?}");
        assert!(output.good().ends_with("</server-data>\n"), "{file}");
    }
    place.belfry(&["account", "export", "/dev/null"]).good();
    place
        .belfry(&["account", "export", "/dev/full"])
        .failed(1, "/dev/full: cannot be written: No space left on device");
    assert!(!place.path("-").exists() && !place.path("-.part").exists());
}

#[test]
fn an_interrupt_behind_the_last_account_is_no_failure() {
    let (place, url) = (Place::new(), interop::new_postgres_database());
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("belfry.toml", &format!("{config}[store]\nurl = \"{url}\"\n"));
    place.belfry(&["domain", "add", "example.test"]).good();
    place.write("users.csv", "alice,secret\nbob,secret\n");
    // All is read, and the one batch waits.
    let (mut holder, mut session) = (Session::start(&url), Session::start(&url));
    holder.select("BEGIN; LOCK TABLE account IN EXCLUSIVE MODE; SELECT 1;");
    let import = place.command(&["account", "import", "users.csv"]).spawn().unwrap();
    let waits = || {
        let count = session
            .select("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'account'::regclass;");
        (count != "0").then_some(())
    };
    wait::until("the import waits", Duration::from_secs(60), waits, String::new);
    let pid = import.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    holder.end();
    let output = import.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.contains(": 2 added, 0 updated, 0 skipped"), "{out}");
    session.end();
}
