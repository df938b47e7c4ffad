//! A node whose database is in a PostgreSQL server: changes by other programs count at once, and the server's bad days.

use std::process::Command;
use std::time::Duration;

use interop::{PostgresServer, SlowPostgres, new_postgres_database, run_sql, try_sql};
use net::clock::Clock;
use sip::transport::Transport::Tcp;
use sip::wire::Header;
use store::rest::types::{Common, Hook, IncomingNumber};
use store::rest::{Resource as _, RestWrite};
use store::types::{Address, Pattern, Route, RoutePolicy, RouteTarget};
use store::{Admin, Write};
use xmpp::ns;

use crate::call::talk;
use crate::faults::{assert_refused, health, try_to_register};
use crate::phone::{DOMAIN, Phone};
use crate::place::{Place, Process};
use crate::rest::VOICE;
use crate::until;
use crate::xmpp::client::Client;

fn address(user: &str) -> Address {
    Address::new(user, DOMAIN).unwrap()
}

/// A running node that hears changes, as it has heard the first, and another program that writes its database.
fn start(place: &Place) -> (Process, Admin) {
    let process = place.spawn();
    let mut admin = place.admin();
    let mut asker = place.udp("asker");
    admin.add_route(route("first", "sip:127.0.0.1:9;transport=tcp")).unwrap();
    until("the node hears of changes", || (outcome(&mut asker, "first") != 404).then_some(()));
    (process, admin)
}

fn route(user: &str, uri: &str) -> Route {
    Route {
        id: 0,
        name: user.into(),
        pattern: Pattern::User(user.into()),
        targets: vec![RouteTarget { uri: uri.into(), weight: 1, priority: 1 }],
        open: true,
        probe: false,
        strip: 0,
        prefix: "".into(),
        policy: RoutePolicy::default(),
        created_at: Clock::new().now(),
    }
}

/// The final status of a call.
fn outcome(phone: &mut Phone, to: &str) -> u16 {
    let invite = phone.invite(&format!("{to}@{DOMAIN}"));
    phone.outcome(&invite).status()
}

/// Less than entries of the shards' caches live, which is a minute: `until` waits for 20 seconds at most.
#[test]
fn changes_by_another_program_count_at_once() {
    let place = Place::new(VOICE)
        .with_xmpp("")
        .with_postgres(&new_postgres_database())
        .with_accounts(&["alice", "asker", "bob", "carol"]);
    let (process, mut admin) = start(&place);
    let mut phones = ["alice", "bob", "carol"].map(|user| place.udp(user));
    phones.iter_mut().for_each(|phone| drop(phone.register()));
    let mut clients = ["alice", "bob", "carol"].map(|user| Client::sign_in(&place, Tcp, user, "one"));
    admin.set_password(address("alice"), "another").unwrap();
    admin.set_disabled(address("bob"), true).unwrap();
    admin.remove_account(address("carol")).unwrap();
    for phone in &mut phones {
        until("the phone's password is void", || (try_to_register(phone).status() != 200).then_some(()));
    }
    for client in &mut clients {
        // The stream's error, until the end of the stream.
        while client.hear_or_end().is_some() {}
    }
    let mut asker = place.udp("asker");
    assert_eq!(outcome(&mut asker, "1234"), 404);
    let account = place.config().voice.account.to_string();
    let common = Common { sid: "PN00000000000000000000000000000001".into(), account, ..Common::default() };
    let voice = Hook { url: "http://127.0.0.1:9/".into(), ..Hook::default() };
    let number = IncomingNumber { common, phone_number: "+1234".into(), voice, ..IncomingNumber::default() };
    admin.write(&Write::Rest(RestWrite::Insert(Box::new(number.row().unwrap())))).unwrap();
    until("an application answers the number", || (outcome(&mut asker, "1234") != 404).then_some(()));
    process.kill();
}

/// A server of its own, a node that uses it, and phones that are registered.
fn place_and_phones(url: &str) -> (Place, Phone, Phone) {
    // Each shard has a cache of accounts: one that has read alice's is to take calls for alice.
    let place = Place::with_shards(1, "");
    let place = place.with_xmpp("").with_postgres(url).with_accounts(&["alice", "asker", "bob"]);
    let (alice, bob) = (place.udp("alice"), place.udp("bob"));
    (place, alice, bob)
}

/// Calls and registrations while the server is away, until `back` ends that.
fn a_bad_day(place: &Place, process: &Process, phones: [&mut Phone; 2], back: impl FnOnce()) {
    let [alice, bob] = phones;
    assert_refused(&try_to_register(bob));
    // The callee from memory, and the caller's account from the cache.
    talk(alice, bob, "bob@example.test");
    // The account of this caller is not cached.
    let mut stranger = place.udp("unknown");
    let ask = stranger.registration("");
    let answer = stranger.request(ask);
    assert_eq!(answer.status(), 503);
    assert!(answer.header(Header::RetryAfter).is_some());
    let mut client = Client::connect(place, Tcp);
    client.open();
    client.start_tls();
    client.open();
    let failure = client.plain("dave", "secret");
    assert!(failure.get("temporary-auth-failure", ns::SASL).is_some(), "{failure}");
    let told = until("health tells it", || Some(health(place)).filter(|(_, body)| body.lines().count() > 1));
    assert_eq!(told.0, 200, "calls go on, and other nodes reach the database no better: {}", told.1);
    assert!(told.1.starts_with("ok\nthe database cannot be written for "), "{}", told.1);
    let status =
        Command::new(env!("CARGO_BIN_EXE_belfry")).arg("status").current_dir(place.path(".")).output();
    let status = String::from_utf8(status.unwrap().stdout).unwrap();
    assert!(status.lines().any(|line| line.starts_with("not writable   for ")), "{status}");
    assert!(process.log().contains("ERROR"), "{}", process.log());
    back();
    until("registrations are taken again", || (try_to_register(bob).status() == 200).then_some(()));
    until("health is well", || (health(place) == (200, "ok\n".into())).then_some(()));
    assert!(bob.bindings()[0].contains(&bob.contact()));
}

#[test]
fn a_server_that_ended_or_answers_nothing_hinders_no_calls_and_is_used_again() {
    let mut server = PostgresServer::start(&[]);
    let (place, mut alice, mut bob) = place_and_phones(&server.new_database(&[]));
    let (process, mut admin) = start(&place);
    alice.register();
    bob.register();
    server.kill();
    a_bad_day(&place, &process, [&mut alice, &mut bob], || server.start_again());
    // Changes are heard again, too.
    until("the first write", || admin.set_disabled(address("alice"), true).ok());
    until("alice is disabled", || (try_to_register(&mut alice).status() != 200).then_some(()));
    admin.set_disabled(address("alice"), false).unwrap();
    until("alice is enabled", || (try_to_register(&mut alice).status() == 200).then_some(()));
    // The notice of that may still be on its way and void what was just read. A later one that has come follows it.
    let mut asker = place.udp("asker");
    asker.register();
    admin.set_disabled(address("asker"), true).unwrap();
    until("asker is disabled", || (try_to_register(&mut asker).status() != 200).then_some(()));
    alice.register();
    server.stop();
    a_bad_day(&place, &process, [&mut alice, &mut bob], || server.go_on());
    process.kill();
    let process = place.spawn();
    assert!(bob.bindings()[0].contains(&bob.contact()), "an acknowledged binding is there");
    process.kill();
}

#[test]
fn a_promoted_standby_is_used_instead_of_the_server_that_ended() {
    let mut first = PostgresServer::start(&[]);
    let url = first.new_database(&[]);
    let second = first.new_standby();
    let (place, mut alice, mut bob) = place_and_phones(&first.url_with(&second, &url));
    let (process, mut admin) = start(&place);
    alice.register();
    bob.register();
    first.kill();
    a_bad_day(&place, &process, [&mut alice, &mut bob], || second.promote());
    until("the first write", || admin.set_disabled(address("alice"), true).ok());
    until("alice is disabled", || (try_to_register(&mut alice).status() != 200).then_some(()));
    process.kill();
}

/// A fault of the server that a node survives.
struct Fault {
    /// The statements that cause it.
    cause: &'static [&'static str],
    /// The words in which the operator is told.
    told: &'static str,
    /// The statements that end it.
    end: &'static [&'static str],
}

const FAULTS: [Fault; 3] = [
    Fault {
        cause: &[
            "CREATE FUNCTION no_space() RETURNS trigger AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql",
            "CREATE TRIGGER no_space BEFORE INSERT ON binding FOR EACH STATEMENT EXECUTE FUNCTION no_space()",
        ],
        told: "the disk is full",
        end: &["DROP FUNCTION no_space CASCADE"],
    },
    Fault {
        cause: &["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"],
        told: "does not allow writes",
        end: &["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"],
    },
    Fault {
        cause: &[
            "ALTER ROLE node CONNECTION LIMIT 0",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'",
        ],
        told: "53300",
        end: &["ALTER ROLE node CONNECTION LIMIT -1"],
    },
];

#[test]
fn a_server_that_refuses_writes_or_connections_hinders_no_calls_and_the_reason_is_told() {
    let server = PostgresServer::start(&[]);
    run_sql(&server.url("postgres"), "CREATE ROLE node LOGIN");
    let url = server.new_database(&["--owner", "node"]);
    let (place, mut alice, mut bob) = place_and_phones(&url.replace("user=belfry", "user=node"));
    let (process, admin) = start(&place);
    drop(admin);
    // The number in docs/operating.md: one that writes, three that read, and those of notices and of users' files.
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'node'";
    let are_six = || try_sql(&url, connections).filter(|count| count.trim() == "6");
    until("the node has six connections", are_six);
    alice.register();
    bob.register();
    for Fault { cause, told, end } in FAULTS {
        cause.iter().for_each(|sql| run_sql(&url, sql));
        let refused = || Some(try_to_register(&mut bob)).filter(|answer| answer.status() != 200);
        assert_refused(&until("the server refuses", refused));
        talk(&mut alice, &mut bob, "bob@example.test");
        // It lasts, whatever trial writes find.
        let seconds = |body: &str| body.split("for ").nth(1)?.split(' ').next()?.parse::<u64>().ok();
        let lasts = |(_, body): &(u16, String)| body.contains(told) && seconds(body) >= Some(2);
        let (code, body) = until("health tells it", || Some(health(&place)).filter(lasts));
        assert_eq!(code, 200, "{body}");
        let status =
            Command::new(env!("CARGO_BIN_EXE_belfry")).arg("status").current_dir(place.path(".")).output();
        let status = String::from_utf8(status.unwrap().stdout).unwrap();
        let is_told = |line: &str| line.starts_with("not writable   for ") && line.contains(told);
        assert!(status.lines().any(is_told), "{status}");
        assert!(process.log().lines().any(|line| line.contains("ERROR") && line.contains(told)), "{told}");
        end.iter().for_each(|sql| run_sql(&url, sql));
        until("registrations are taken again", || (try_to_register(&mut bob).status() == 200).then_some(()));
        until("health is well", || (health(&place) == (200, "ok\n".into())).then_some(()));
    }
    process.kill();
    let process = place.spawn();
    assert!(bob.bindings()[0].contains(&bob.contact()), "an acknowledged binding is there");
    process.kill();
}

#[test]
fn a_slow_server_delays_no_calls_and_is_told() {
    let server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let proxy = SlowPostgres::start(&url);
    let (place, mut alice, mut bob) = place_and_phones(&proxy.url);
    let (process, admin) = start(&place);
    drop(admin);
    alice.register();
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");

    // Within the five seconds after which a server that is silent counts as away.
    proxy.set_delay(Duration::from_secs(3));
    let is_slow = |place: &Place| health(place).1.contains("the database is slow for ");
    until("the node tells that the server is slow", || is_slow(&place).then_some(()));
    // Accounts that were read before are to be read again, as they are each minute, while the server gives no answer.
    proxy.set_delay(Duration::from_secs(60));
    run_sql(&url, "NOTIFY belfry, 'everything'");
    talk(&mut alice, &mut bob, "bob@example.test");
    assert_eq!(proxy.passed(), 0, "no read was answered");

    proxy.set_delay(Duration::ZERO);
    until("registrations are taken again", || (try_to_register(&mut bob).status() == 200).then_some(()));
    until("health is well", || (health(&place) == (200, "ok\n".into())).then_some(()));
    process.kill();
}

/// The number of rows of call records that a database of others has; `None` while it is away, or has no table.
fn exported(url: &str) -> Option<u32> {
    try_sql(url, "SELECT count(*) FROM belfry_call")?.trim().parse().ok()
}

#[test]
fn calls_become_rows_of_a_database_of_others_also_after_it_was_away() {
    let mut server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let place = Place::new(&format!("[calls.export]\npostgres_url = \"{url}\"\n"));
    let place = place.with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    alice.register();
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    until("the call has a row", || exported(&url).filter(|rows| *rows == 1));
    server.kill();
    talk(&mut alice, &mut bob, "bob@example.test");
    let status = || {
        let belfry =
            Command::new(env!("CARGO_BIN_EXE_belfry")).arg("status").current_dir(place.path(".")).output();
        String::from_utf8(belfry.unwrap().stdout).unwrap()
    };
    let is_told =
        |status: &String| status.contains(", 1 wait, ") && status.contains("               not taken: ");
    let shown = until("the record waits, and status says why", || Some(status()).filter(is_told));
    assert!(shown.lines().any(|line| line.starts_with("call records   1 sent to ")), "{shown}");
    process.kill();
    server.start_again();
    let process = place.spawn();
    until("the other call has a row", || exported(&url).filter(|rows| *rows == 2));
    until("nothing waits", || status().contains(", none waits").then_some(()));
    process.kill();
}
