//! Accounts, domains and routes in the record, while no node runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use super::place::Place;

#[test]
fn an_account_is_added_shown_changed_and_removed() {
    let place = Place::new();
    let add = ["account", "add", "alice", "--password-stdin", "--name", "Alice", "--max-contacts", "3"];
    place.belfry_with(&add, "secret\n").good();
    // Only the owner may read the verifiers.
    let mode = |name| std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("data"), mode("data/belfry.db")), (0o700, 0o600));
    place.belfry_with(&add, "secret\n").failed(1, "account alice@example.test exists already");
    place
        .belfry_with(&["account", "add", "bob@elsewhere.test", "--password-stdin"], "x\n")
        .failed(1, "not served here; add it with: belfry domain add elsewhere.test");
    place.belfry(&["account", "add", "bob"]).failed(2, "--password-stdin");
    place
        .belfry_with(&["account", "add", "bob", "--password-stdin"], "\n")
        .failed(1, "password: expected 1 to");

    let shown = place.belfry(&["account", "show", "alice@EXAMPLE.test"]).good();
    for line in
        ["account      alice@example.test", "name         Alice", "state        enabled", "contacts     3"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(shown.contains("not known: no node runs"), "{shown}");

    place.belfry(&["account", "alias", "add", "boss", "alice"]).good();
    place.belfry(&["account", "disable", "alice"]).good();
    place.belfry(&["account", "set", "boss", "--name", "A. Liddell", "--no-limits"]).good();
    let json = place.belfry(&["account", "show", "boss", "--json"]).good();
    let shown: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(shown["account"], "alice@example.test");
    assert_eq!(shown["name"], "A. Liddell");
    assert_eq!(shown["disabled"], true);
    assert_eq!(shown["max_contacts"], serde_json::Value::Null);
    assert_eq!(shown["aliases"], serde_json::json!(["boss@example.test"]));

    place.belfry(&["account", "enable", "boss"]).good();
    assert!(place.belfry(&["account", "list"]).good().contains("enabled"));
    let warned = place.belfry(&["account", "passwd", "boss", "--password", "better"]);
    assert!(warned.err.contains("can be seen by others"), "{warned:?}");
    warned.good();
    place
        .belfry(&["account", "remove", "alice", "nobody"])
        .failed(1, "there is no account nobody@example.test");
    assert_eq!(place.belfry(&["account", "list"]).good(), "no accounts\n");
    assert_eq!(place.belfry(&["account", "alias", "list"]).good(), "no aliases\n");
}

#[test]
fn adding_an_account_prints_the_settings_for_clients() {
    let place = Place::new();
    let add = ["account", "add", "alice", "--password-stdin"];
    let output = place.belfry_with(&add, "secret\n").good();
    let via = "sip:127.0.0.1:5060;transport=udp";
    let expected = format!(
        "made alice@example.test\nto sign in, once a node runs (belfry serve)\n  \
         baresip      <sip:alice@example.test>;auth_pass=PASSWORD;outbound=\"{via}\"\n  \
         Linphone     user alice, domain example.test, SIP proxy <{via}>\n"
    );
    assert_eq!(output, expected);
}

#[test]
fn an_import_prints_its_count_and_the_line_where_it_stopped() {
    let place = Place::new();
    let mut csv = String::from("account,password,name\n");
    for number in 0..2_500 {
        csv.push_str(&format!("user{number:04},pw{number},User {number}\n"));
    }
    place.write("users.csv", &csv);
    let output = place.belfry(&["account", "import", "users.csv"]).good();
    assert!(
        output.starts_with("accounts: 2 500 in ") && output.contains(": 2 500 added, 0 updated"),
        "{output}"
    );
    let again = place.belfry_with(&["account", "import", "-", "--skip-existing"], &csv).good();
    assert!(again.contains("0 added, 0 updated, 2 500 skipped"), "{again}");
    assert!(!again.contains("domain added"), "{again}");
    let slip = place.belfry_with(&["account", "import", "-"], "zed@exmaple.test,pw\n").good();
    assert!(slip.contains("\ndomain added: exmaple.test; "), "{slip}");
    place.belfry(&["account", "remove", "zed@exmaple.test"]).good();
    place.belfry(&["domain", "remove", "exmaple.test"]).good();
    place.belfry_with(&["account", "import", "-"], "zoe,pw\nyan\n").failed(
        1,
        "line 2: 1 field; expected account,password,name (name may be missing); accounts in before it: 1; ",
    );

    let listed = place.belfry(&["account", "list", "--json"]).good();
    assert_eq!(listed.lines().count(), 2_501, "pages follow each other");
    let some = place.belfry(&["account", "list", "--prefix", "user00", "--limit", "3"]).good();
    assert_eq!(some.lines().count(), 4, "{some}");
    assert!(some.lines().nth(1).unwrap().starts_with("user0000@example.test  User 0  enabled"), "{some}");
    let domains = place.belfry(&["domain", "list"]).good();
    assert_eq!(domains, "DOMAIN        ACCOUNTS\nexample.test     2 501\n");
}

#[test]
fn an_interrupted_import_prints_the_accounts_that_are_written() {
    let place = Place::new();
    let mut child = place.command(&["account", "import", "-"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stderr.take().unwrap()).lines();
    // Interrupts are caught before the record is opened.
    let is_open = || {
        assert!(child.try_wait().unwrap().is_none(), "ended too early");
        place.path("data/belfry.db").exists().then_some(())
    };
    wait::until("the database is opened", Duration::from_secs(20), is_open, String::new);
    let rows = |from: usize| (from..from + 100).map(|n| format!("u{n},pw\n")).collect::<String>();
    input.write_all(rows(0).as_bytes()).unwrap();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let stopping = output.find(|line| line.as_ref().unwrap().starts_with("stopping after this batch"));
    assert!(stopping.is_some());
    // Rows after it are not read.
    let _ = input.write_all(rows(100).as_bytes());
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let last = output.map(Result::unwrap).last().unwrap();
    let (_, rest) = last.split_once("interrupted; ").unwrap();
    let count: usize =
        rest.strip_prefix("accounts in: ").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(rest.contains(" added, 0 updated") && count <= 200, "{last}");
    assert_eq!(place.belfry(&["account", "list", "--json"]).good().lines().count(), count);
}

/// A command in a wrong folder says so, and does not make an empty database there.
#[test]
fn a_command_that_reads_makes_no_database() {
    let place = Place::new();
    for args in [
        &["account", "list"][..],
        &["account", "show", "alice"],
        &["account", "passwd", "alice", "--password-stdin"],
        &["account", "remove", "alice"],
        &["account", "export", "all.xml"],
        &["account", "alias", "list"],
        &["domain", "list"],
        &["domain", "remove", "other.test"],
        &["route", "list"],
        &["rest", "accounts"],
        &["calls"],
    ] {
        let output = place.belfry(args);
        let file = place.path("data/belfry.db");
        assert_eq!(output.code, 1, "{args:?}: {output:?}");
        let expected = format!("belfry: there is no database {}", file.display());
        assert!(
            output.err.starts_with(&expected) && output.err.contains("belfry.toml leads there"),
            "{output:?}"
        );
        assert!(output.err.contains("--config FILE") && output.err.contains("belfry serve"), "{output:?}");
        assert!(!place.path("data").exists(), "{args:?}");
    }
    std::fs::remove_file(place.path("belfry.toml")).unwrap();
    place.belfry(&["account", "list"]).failed(1, "there is no belfry.toml in this folder");
}

#[test]
fn a_command_that_creates_the_database_prints_its_path() {
    let place = Place::new();
    let add = |name| place.belfry_with(&["account", "add", name, "--password-stdin"], "secret\n");
    let made = format!("belfry: made a new database, {}\n", place.path("data/belfry.db").display());
    let output = add("alice");
    assert_eq!((output.code, &*output.err), (0, &*made), "{output:?}");
    assert_eq!(add("bob").err, "");
}

#[test]
fn a_route_by_certificate_that_nothing_verifies_is_made_with_a_warning() {
    let place = Place::new();
    place.belfry(&["domain", "add", "other.test"]).good();
    let add = ["route", "add", "carrier", "prefix:+49", "sip:gw.test", "--certificate", "gw.test"];
    place.belfry(&add).good();
    let warning = |place: &Place| {
        let output = place.belfry(&[&add[..], &["--replace"]].concat());
        assert_eq!(output.code, 0, "{output:?}");
        output.err
    };
    let first = warning(&place);
    assert!(first.starts_with("belfry: warning: the route carrier accepts no calls: [tls] ca"), "{first}");
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("ca.pem", "");
    let with_ca = format!("{config}[tls]\nca = \"ca.pem\"\n");
    place.write("belfry.toml", &with_ca.replace("[sip]", "[sip]\nlisten = [\"udp:127.0.0.1:5060\"]"));
    let second = warning(&place);
    assert!(second.contains("accepts no calls: [sip] listen has no tls: address"), "{second}");
    // The default listens by TLS.
    place.write("belfry.toml", &with_ca);
    assert_eq!(warning(&place), "");
}

#[test]
fn domains_are_added_once_and_removed_when_empty() {
    let place = Place::new();
    place.belfry(&["domain", "add", "Other.test"]).good();
    place.belfry(&["domain", "add", "other.test"]).failed(1, "exists already");
    place.belfry_with(&["account", "add", "bob@other.test", "--password-stdin"], "x\n").good();
    place.belfry(&["domain", "remove", "other.test"]).failed(1, "");
    place.belfry(&["account", "remove", "bob@other.test"]).good();
    place.belfry(&["domain", "remove", "other.test"]).good();
    place.belfry(&["domain", "remove", "other.test"]).failed(1, "there is no domain other.test");
    place.belfry(&["domain", "add", "a b"]).failed(1, "expected a host name");
}

#[test]
fn routes_are_checked_before_they_are_written() {
    let place = Place::new();
    for (args, code, words) in [
        (&["r", "49", "sip:gw.test"][..], 2, "expected number:, prefix:, user:, regex: or domain:"),
        (&["r", "number:49x", "sip:gw.test"], 1, "expected digits"),
        (&["r", "regex:(", "sip:gw.test"], 1, "route r: regex parse error"),
        (&["r", "prefix:+49", "gw.test"], 2, "target \"gw.test\": expected sip:HOST"),
        (&["r", "prefix:+49", "no uri"], 2, "target \"no uri\": expected sip:HOST"),
        (&["r", "prefix:+49", "sip:gw.test:port"], 2, "expected a port, 1 to 65535"),
        (&["r", "prefix:+49", "sip:gw.test,weight=heavy"], 2, "expected 0 to 65535"),
        (
            &["r", "prefix:+49", "account:a@b.test", "sip:gw.test"],
            1,
            "expected an account to be the only target",
        ),
    ] {
        place.belfry(&[&["route", "add"], args].concat()).failed(code, words);
    }
    assert_eq!(place.belfry(&["route", "list"]).good(), "no routes\n");
    let add =
        ["route", "add", "carrier", "prefix:+49", "sip:192.0.2.7:5060,weight=3", "sip:192.0.2.8,priority=2"];
    place.belfry(&[&add[..], &["--probe", "--strip", "2", "--prefix", "0"]].concat()).good();
    place.belfry(&add).failed(1, "route carrier exists already");
    let listed = place.belfry(&["route", "list"]).good();
    let line = listed.lines().nth(1).unwrap();
    let expected = "carrier  prefix:+49  sip:192.0.2.7:5060,weight=3 sip:192.0.2.8,priority=2  0… without 2  accounts  yes    none";
    assert_eq!(line, expected);
    place.belfry(&[&add[..], &["--replace", "--open"]].concat()).good();
    let json = place.belfry(&["route", "list", "--json"]).good();
    let route: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&route["open"], &route["probe"]), (&true.into(), &false.into()));
    place.belfry(&["route", "remove", "carrier"]).good();
    place.belfry(&["route", "remove", "carrier"]).failed(1, "there is no route carrier");
}

#[test]
fn a_check_lists_every_bad_line_and_writes_nothing() {
    let place = Place::new();
    place.write("users.csv", "account,password\nalice,x\nbob\na b,x\ncarol,x\n,y\n");
    let output = place.belfry(&["account", "import", "--check", "users.csv"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert_eq!(output.out, "good: 2 accounts; nothing was written\n");
    let lines: Vec<&str> = output.err.lines().collect();
    assert_eq!(lines.len(), 4, "{}", output.err);
    assert_eq!(lines[0], "belfry: bad: 3");
    for (line, words) in lines[1..].iter().zip([
        "users.csv:3: 1 field; ",
        "users.csv:4: account name",
        "users.csv:6: account name",
    ]) {
        assert!(line.starts_with(words), "{words}: {line}");
    }
    assert!(!place.path("data").exists(), "not even an empty record");
    place.write("users.csv", "alice,x\n");
    assert_eq!(
        place.belfry(&["account", "import", "users.csv", "--check"]).good(),
        "good: 1 accounts; nothing was written\n"
    );
}

#[test]
fn an_import_names_file_and_line_and_knows_semicolons() {
    let place = Place::new();
    place.write("users.csv", "account;password\nalice;x\n");
    let words = "users.csv:1: 1 field; expected account,password,name (name may be missing): commas between the fields, in place of the semicolons; accounts in before it: 0; ";
    place.belfry(&["account", "import", "users.csv"]).failed(1, words);
    place.write("users.csv", "account,password\nalice,x\nbob\n");
    place.belfry(&["account", "import", "users.csv"]).failed(1, "users.csv:3: 1 field; ");
}

#[test]
fn a_check_of_many_bad_lines_names_the_first_and_counts_the_others() {
    let place = Place::new();
    place.write("users.csv", &"bad\n".repeat(1_234));
    let output = place.belfry(&["account", "import", "--check", "users.csv"]);
    assert!(output.err.starts_with("belfry: bad: 1 234\nusers.csv:1: "), "{}", &output.err[..200]);
    assert!(output.err.ends_with(
        "\nusers.csv:1000: 1 field; expected account,password,name (name may be missing)\nand 234 more\n"
    ));
}

#[test]
fn an_invitation_is_for_a_domain_that_is_served() {
    let place = Place::new();
    for bad in ["elsewhere.test", "example", "alice"] {
        place
            .belfry(&["xmpp", "invite", bad])
            .failed(1, &format!("the domain {bad} is not served here; add it with: belfry domain add {bad}"));
    }
    place.belfry(&["xmpp", "invite", "bob@elsewhere.test"]).failed(1, "elsewhere.test is not served here");
    assert!(
        place.belfry(&["xmpp", "invite", "Example.test"]).good().starts_with("xmpp:example.test?register")
    );
    let invited = place.belfry(&["xmpp", "invite", "alice@example.test"]).good();
    let (link, rest) = invited.split_once('\n').unwrap();
    let token = link.strip_prefix("xmpp:alice@example.test?register;preauth=").unwrap();
    assert!(
        rest.contains(&format!("\nfor browsers: /invite/{token} at the ws: and wss: addresses")),
        "{invited}"
    );
    assert!(rest.contains("set [xmpp.web] public_url"), "{invited}");
    let own = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("belfry.toml", &(own.clone() + "[xmpp.web]\npublic_url = \"https://chat.example.test/\"\n"));
    let invited = place.belfry(&["xmpp", "invite", "bob@example.test"]).good();
    assert!(invited.contains("\nfor browsers: https://chat.example.test/invite/"), "{invited}");
    place.write("belfry.toml", &(own + "[xmpp.registration]\ninvitation_page = false\n"));
    let invited = place.belfry(&["xmpp", "invite", "carol@example.test"]).good();
    assert!(!invited.contains("browsers"), "{invited}");
}

/// A list by a name that is not there would look like one of a name that has nothing.
#[test]
fn a_name_that_is_not_there_has_no_empty_list() {
    let place = Place::new();
    place.belfry_with(&["account", "import", "-"], "alice,secret\n").good();
    for args in [&["calls", "--account", "nosuch"][..], &["calls", "--account", "nosuch", "--json"]] {
        place.belfry(args).failed(1, "there is no account nosuch@example.test; see those there are with:");
    }
    place
        .belfry(&["account", "alias", "list", "nosuch"])
        .failed(1, "there is no account nosuch@example.test");
    place
        .belfry(&["account", "list", "--domain", "nosuch.test"])
        .failed(1, "there is no domain nosuch.test; see");
    assert_eq!(place.belfry(&["calls", "--account", "alice"]).good(), "no calls\n");
    assert_eq!(
        place.belfry(&["account", "list", "--domain", "example.test", "--prefix", "b"]).good(),
        "no accounts\n"
    );
}

#[test]
fn a_route_to_an_account_that_is_not_there_is_made_with_a_warning() {
    let place = Place::new();
    place.belfry_with(&["account", "import", "-"], "alice,secret\n").good();
    let add = |name: &str, account: &str| place.belfry(&["route", "add", name, "number:1", account]);
    let result = add("x", "account:nosuch@example.test");
    let warning = "belfry: warning: the route x leads to nosuch@example.test, and there is no such account";
    assert!(result.err.starts_with(warning), "{result:?}");
    result.good();
    let result = add("y", "account:alice@example.test");
    assert_eq!(result.err, "");
    result.good();
}

#[test]
fn only_names_of_hosts_are_added_as_domains() {
    let place = Place::new();
    for name in ["sip:x", "a:5060", "x..y", "-", "a-.test", ".a", "a.", "[::1", "::1]", "[a]"] {
        let expected =
            "expected a host name without a scheme or a port, as example.net, or a literal address";
        place.belfry(&["domain", "add", "--", name]).failed(1, expected);
    }
    for name in
        ["b.test", "192.0.2.7", "[2001:db8::1]", "2001:db8::2", "a_b.test", "xn--bcher-kva.test", "localhost"]
    {
        place.belfry(&["domain", "add", name]).good();
        place.belfry(&["domain", "remove", name]).good();
    }
    let import = place.belfry_with(&["account", "import", "-"], "alice@a:5060,secret\n");
    import.failed(1, "line 1: domain \"a:5060\"; expected a host name");
}

#[test]
fn a_check_names_domains_that_would_be_added_and_accounts_that_stand_twice() {
    let place = Place::new();
    let check = ["account", "import", "--check", "-"];
    let output = place
        .belfry_with(&check, "alice,x\nbob@slip.test,x\ncarol@slip.test,x\nAlice,x\nalice@EXAMPLE.test,y\n")
        .good();
    assert_eq!(
        output,
        "good: 5 accounts; nothing was written\n\
         the import would add the domain slip.test, for 2 accounts: is it no slip?\n\
         there more than once, so that the last one counts: alice@example.test (line 5)\n"
    );
    assert!(!place.path("data").exists());
}

#[test]
fn the_list_of_calls_is_empty_at_first() {
    let place = Place::new();
    place.belfry(&["domain", "add", "other.test"]).good();
    assert_eq!(place.belfry(&["calls", "--last", "5"]).good(), "no calls\n");
    assert_eq!(place.belfry(&["calls", "--json"]).good(), "");
}
