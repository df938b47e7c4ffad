//! Users of Ringer's at three chat servers with their default code: every message arrives, once and in order,
//! and every available user sees every presence.

use std::path::Path;

use interop::{ChatServer, DOMAIN, Fault, FaultyProxy, Said, ringer};
use lab_report::Report;
use lab_report::model::XmppReport;
use tempfile::TempDir;

const USERS: usize = 40;

/// The conditions that hold for every server: nothing lost, nothing twice. `before` stands before its lines.
#[track_caller]
fn is_even(said: &Said, report: &Path, server: &ChatServer, before: &str) -> Report {
    let explain = || format!("{}\n{}", said.text(), server.tail());
    // The duration depends more on the machine than on the server. A lost message is a failed action, too.
    let (missed, slow) = (format!("{before}MISSED: "), format!("{before}MISSED: response."));
    let figures = (1..=server.may_lose).flat_map(|count| ["lost", "failed"].map(|figure| (figure, count)));
    let lost: Vec<String> =
        figures.map(|(figure, count)| format!("{before}MISSED: {figure} == 0 (measured {count})")).collect();
    let may_be = |line: &&String| line.starts_with(&slow) || lost.contains(line);
    let missed: Vec<&String> = said.lines.iter().filter(|line| line.starts_with(&missed)).collect();
    assert!(missed.iter().all(may_be), "{}", explain());
    assert_eq!(said.code, Some(if missed.is_empty() { 0 } else { 99 }), "{}", explain());
    for figure in ["lost", "duplicated", "reordered", "misdelivered", "unseen"] {
        let kept = format!("{before}kept: {figure} == 0 (measured 0)");
        let is_lost = figure == "lost" && missed.iter().any(|line| lost.contains(line));
        assert!(is_lost || said.has(&kept), "{kept}\n{}", explain());
    }
    let text = std::fs::read_to_string(report).expect("it was asked for");
    let report: Report = serde_json::from_str(&text).expect("a report");
    let chat: &XmppReport = report.chat.as_ref().expect("of users");
    // How many there are in a load of seconds depends on the machine, too.
    assert!(chat.sent > 0 && chat.seen > 0, "{chat:?}");
    assert_eq!(chat.sent, chat.received + chat.refused + chat.lost, "{chat:?}");
    let stages: Vec<&str> = report.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(stages, ["initial", "login", "final"]);
    assert!(report.stages.iter().all(|stage| stage.processes[0].memory > 1 << 20), "{:?}", report.stages);
    report
}

/// A published mix, over STARTTLS with SCRAM-SHA-1; users make their rosters themselves and act once a second. Each has seven contacts in place
/// of twenty: ejabberd made 634 of 800 friends in a minute and a half on a machine with much else to do.
fn published(server: &ChatServer, plan: &str, users: usize) {
    let (target, pid) = (format!("127.0.0.1:{}", server.client), server.pid.to_string());
    let (domain, users) = (format!("domain={DOMAIN}"), format!("users={users}"));
    let folder = TempDir::new().expect("a temporary folder");
    let report = folder.path().join("report.json");
    let json = report.display().to_string();
    let mut words = vec!["run", plan, "--target", &target, "--watch", &pid, "--json", &json];
    for set in [&domain, &users, "logins=40", "tls=starttls", "think=1", "seconds=5", "contacts=7"] {
        words.extend(["--set", set]);
    }
    let said = ringer(&words);
    is_even(&said, &report, server, "users: ");
    for row in ["Jabber XCP, 1", "Memory, initial", "Average message latency"] {
        assert!(said.has(row), "no line begins with {row:?}\n{}", said.text());
    }
}

#[test]
fn belfry_keeps_the_mix_of_a_hundred_thousand() {
    published(&ChatServer::belfry(USERS, ""), "jabber-100k", USERS);
}

#[test]
fn ejabberd_keeps_the_mix_of_a_hundred_thousand() {
    published(&ChatServer::ejabberd(USERS), "jabber-100k", USERS);
}

#[test]
fn prosody_keeps_the_mix_of_a_hundred_thousand() {
    published(&ChatServer::prosody(USERS), "jabber-100k", USERS);
}

/// Ringer's file of rosters goes into ejabberd, and ejabberd's export into Belfry: users sign in by the keys
/// of SCRAM that came with them, and know each other.
#[test]
fn accounts_move_from_ejabberd_to_belfry() {
    let folder = TempDir::new().expect("a temporary folder");
    let (file, export) = (folder.path().join("accounts.xml"), folder.path().join("export"));
    let out = file.display().to_string();
    let words = "xmpp accounts --format ejabberd --users 40 --contacts 7 --domain";
    let all: Vec<&str> = words.split_whitespace().chain([DOMAIN, "--out", &out]).collect();
    let said = ringer(&all);
    assert_eq!(said.code, Some(0), "{}", said.text());
    std::fs::create_dir(&export).expect("the test's folder is writable");
    ChatServer::exported_by_ejabberd(&file, &export);

    let server = ChatServer::belfry_with(&export);
    let (target, pid) = (format!("127.0.0.1:{}", server.client), server.pid.to_string());
    let report = folder.path().join("report.json");
    let json = report.display().to_string();
    let words = "--users 40 --contacts 7 --logins 40 --think 1 --for 5 --tls starttls --mechanism SCRAM-SHA-1 \
                 --mix message=70,presence=30 --threshold failed==0 --domain";
    let mut all = vec!["xmpp", &target, "--watch", &pid, "--json", &json];
    all.extend(words.split_whitespace().chain([DOMAIN]));
    is_even(&ringer(&all), &report, &server, "");
}

/// Users make their accounts in band before the load and remove them after it; beside it the published test's monitors,
/// ordered pairs of users, sign out and in, write to each other and change their presence.
fn registered_and_watched(server: &ChatServer) {
    // On a machine with much else to do a server may still be at the sign-ins when the short load ends.
    let missing = missing_of_monitors(server, "6");
    if !missing.is_empty() {
        let missing = missing_of_monitors(server, "45");
        assert!(missing.is_empty(), "{missing:?} were not measured");
    }
}

/// The figures of a load of so many seconds that were measured less than three times.
fn missing_of_monitors(server: &ChatServer, seconds: &str) -> Vec<&'static str> {
    let (users, monitors) = (12, 4);
    let (target, pid) = (format!("127.0.0.1:{}", server.client), server.pid.to_string());
    let folder = TempDir::new().expect("a temporary folder");
    let report = folder.path().join("report.json");
    let words = "--users 12 --monitors 2 --monitor-every 200ms --register yes --unregister yes --registrations 20 --logins 20 \
                 --befriend yes --contacts 5 --think 500ms --tls starttls --mix message=60,presence=40 --domain";
    let json = report.display().to_string();
    let mut all = vec![
        "xmpp",
        &target,
        "--watch",
        &pid,
        "--json",
        &json,
        "--for",
        seconds,
        "--threshold",
        "failed == 0",
    ];
    all.extend(words.split_whitespace().chain([DOMAIN]));
    let report = is_even(&ringer(&all), &report, server, "");
    let chat = report.chat.expect("of users");
    let accounts = users + monitors;
    assert_eq!((chat.registered, chat.already_registered, chat.unregistered), (accounts, 0, accounts));
    let is_measured =
        |name: &&str| report.response_from_due.iter().any(|times| times.name == **name && times.n > 2);
    let all = ["registration", "monitor.message", "monitor.presence", "monitor.authentication"];
    all.into_iter().filter(|name| !is_measured(name)).collect()
}

#[test]
fn belfry_makes_accounts_for_a_load_and_its_monitors() {
    let open = "[xmpp.registration]\nopen = true\nper_hour = 1000\nmin_password = 1\nremoval = true\n";
    registered_and_watched(&ChatServer::belfry(0, open));
}

#[test]
fn ejabberd_makes_accounts_for_a_load_and_its_monitors() {
    registered_and_watched(&ChatServer::ejabberd(0));
}

#[test]
fn prosody_makes_accounts_for_a_load_and_its_monitors() {
    registered_and_watched(&ChatServer::prosody(0));
}

/// The published mix of a million, by WebSocket and with rooms and archives beside it.
#[test]
fn belfry_keeps_a_mix_over_websockets() {
    let server = ChatServer::belfry(USERS, "");
    let (target, pid) =
        (format!("127.0.0.1:{}", server.web.expect("Belfry has one")), server.pid.to_string());
    let folder = TempDir::new().expect("a temporary folder");
    let report = folder.path().join("report.json");
    let words = "--users 40 --befriend yes --logins 40 --contacts 7 --think 1 --for 5 --tls direct --websocket /ws \
                 --mix message=70,presence=13.5,logout=2.5,roster-add=0.5,room=10,archive=3.5 --domain";
    let json = report.display().to_string();
    let mut all = vec!["xmpp", &target, "--watch", &pid, "--json", &json, "--threshold", "failed == 0"];
    all.extend(words.split_whitespace().chain([DOMAIN]));
    is_even(&ringer(&all), &report, &server, "");
}

/// An IQ request that every server answers, and a message without an answer.
const STANZAS: &str =
    "<iq type='get' to='{domain}'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>
<message to='{contact}' type='headline' id='news-{n}'><body>{user} says {id}</body></message>
";

/// Users of a file, by HTTP requests, with the steps of tsung's users.
fn over_bosh(server: &ChatServer, tls: &str, failures: &str) {
    let ((port, path), pid) = (server.bosh, server.pid.to_string());
    let target = format!("127.0.0.1:{port}");
    let folder = TempDir::new().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (users, stanzas, json) = (at("users.csv"), at("stanzas.xml"), at("report.json"));
    let lines: String = (0..USERS).rev().map(|number| format!("user{number};secret\n")).collect();
    std::fs::write(&users, lines).expect("the test's folder is writable");
    std::fs::write(&stanzas, STANZAS).expect("the test's folder is writable");
    let words = "--befriend yes --logins 40 --contacts 7 --think 1 --for 5 --mix message=50,presence=13.5,logout=2.5,\
                 roster-add=4,block=5,unblock=5,pubsub-publish=5,pubsub-get=5,raw=10 --domain";
    let mut all = vec!["xmpp", &target, "--bosh", path, "--tls", tls, "--watch", &pid, "--json", &json];
    all.extend(["--users-file", &users, "--stanza", &stanzas, "--threshold", failures]);
    all.extend(words.split_whitespace().chain([DOMAIN]));
    is_even(&ringer(&all), Path::new(&json), server, "");
}

#[test]
fn belfry_keeps_a_mix_over_bosh() {
    over_bosh(&ChatServer::belfry(USERS, ""), "direct", "failed == 0");
}

#[test]
fn ejabberd_keeps_a_mix_over_bosh() {
    // Concurrent users of one node now and then get "Database failure": a transaction that was aborted
    // (`cyclic`) and is not begun again.
    over_bosh(&ChatServer::ejabberd(USERS), "none", "failed < 5");
}

#[test]
fn prosody_keeps_a_mix_over_bosh() {
    over_bosh(&ChatServer::prosody(USERS), "none", "failed == 0");
}

/// Two users who write to each other, through a proxy that applies the fault to one of their messages.
fn through(fault: Fault) -> Said {
    let server = ChatServer::belfry(2, "require_tls = false");
    let proxy = FaultyProxy::start(server.client, fault);
    let target = format!("127.0.0.1:{}", proxy.port);
    let words = "--users 2 --contacts 1 --logins 10 --think-fixed 100ms --for 3 --settle 3 --tls none --mix message=1 \
                 --threshold failed==0 --domain";
    let mut all = vec!["xmpp", &target];
    all.extend(words.split_whitespace().chain([DOMAIN]));
    ringer(&all)
}

#[test]
fn a_message_that_is_lost_is_missed() {
    noticed(Fault::Lose, &["lost"]);
}

#[test]
fn a_message_that_comes_twice_is_noticed() {
    noticed(Fault::Repeat, &["duplicated"]);
}

#[test]
fn a_message_that_is_overtaken_is_noticed() {
    noticed(Fault::Swap, &["reordered"]);
}

#[test]
fn a_message_that_comes_to_another_is_noticed() {
    noticed(Fault::Misdeliver, &["lost", "misdelivered"]);
}

#[test]
fn a_relay_without_faults_misses_no_threshold() {
    noticed(Fault::None, &[]);
}

/// Exit code 99 and these thresholds missed, by one message; all others are kept.
#[track_caller]
fn noticed(fault: Fault, missed: &[&str]) {
    let said = through(fault);
    assert_eq!(said.code, Some(if missed.is_empty() { 0 } else { 99 }), "{}", said.text());
    for figure in ["lost", "duplicated", "reordered", "misdelivered", "unseen"] {
        let wanted = match missed.contains(&figure) {
            true => format!("MISSED: {figure} == 0 (measured 1)"),
            false => format!("kept: {figure} == 0 (measured 0)"),
        };
        assert!(said.has(&wanted), "{wanted}\n{}", said.text());
    }
}
