//! A record that cannot be written: registrations are refused, the operator is told, calls go on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use sip::wire::{Header, Message};

use crate::call::talk;
use crate::phone::{Phone, text};
use crate::place::{Place, Process};
use crate::until;

pub(crate) fn try_to_register(phone: &mut Phone) -> Message {
    let more = format!("Contact: <{}>\r\nExpires: 600\r\n", phone.contact());
    let ask = phone.registration(&more);
    phone.request(ask)
}

pub(crate) fn assert_refused(answer: &Message) {
    assert_eq!(answer.status(), 503, "{}", text(Some(answer.start_line())));
    assert!(answer.header(Header::RetryAfter).is_some(), "a phone is told when to come back");
}

/// A place where alice and bob have accounts and calls to `trunk` go to a socket of the test.
fn place() -> (Place, Phone) {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let trunk = place.udp("trunk");
    let at = trunk.link.local();
    (place.with_route("trunk", at), trunk)
}

#[test]
fn a_locked_record_refuses_registrations_and_carries_calls() {
    let (place, mut trunk) = place();
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    alice.register();
    bob.register();
    let lock = Connection::open(place.database()).unwrap();
    lock.busy_timeout(Duration::from_secs(5)).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut refresh = try_to_register(&mut bob);
    assert_refused(&refresh);
    assert!(process.log().contains("ERROR"), "{}", process.log());
    talk(&mut alice, &mut bob, "bob@example.test");
    talk(&mut alice, &mut trunk, "trunk@example.test");
    lock.execute_batch("ROLLBACK").unwrap();
    until("registrations are taken again", || {
        refresh = try_to_register(&mut bob);
        (refresh.status() == 200).then_some(())
    });
    process.kill();
}

#[test]
fn a_full_disk_refuses_registrations_and_carries_calls() {
    let (place, mut trunk) = place();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_belfry")]);
    let process = place.spawn_as(shell);
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    alice.register();
    bob.register();
    // The kernel lets no file grow beyond so much: like a full disk, but without root. A few more registrations have room.
    let length = |name: &str| std::fs::metadata(place.path(name)).map_or(0, |file| file.len());
    let room = length("data/belfry.db").max(length("data/belfry.db-wal")) + 64 * 1024;
    limit(&process, &room.to_string());
    let answer = until("the disk is full", || {
        let answer = try_to_register(&mut alice);
        (answer.status() != 200).then_some(answer)
    });
    assert_refused(&answer);
    let full = until("health fails", || Some(health(&place)).filter(|(status, _)| *status != 200));
    assert_eq!(full.0, 503, "{}", full.1);
    assert!(process.log().contains("ERROR"), "{}", process.log());
    talk(&mut alice, &mut bob, "bob@example.test");
    talk(&mut alice, &mut trunk, "trunk@example.test");
    limit(&process, "unlimited");
    until("registrations are taken again", || (try_to_register(&mut bob).status() == 200).then_some(()));
    process.kill();
    let process = place.spawn();
    assert!(bob.bindings()[0].contains(&bob.contact()), "an acknowledged binding is there");
    process.kill();
}

/// Status and body.
pub(crate) fn health(place: &Place) -> (u16, String) {
    get(place, "/health")
}

/// Status and body of the answer for that path.
pub(crate) fn get(place: &Place, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(place.http()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Bounds the size of the process's files from now on.
fn limit(process: &Process, bytes: &str) {
    let (pid, limit) = (process.id().to_string(), format!("--fsize={bytes}:"));
    let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(set.success(), "prlimit (util-linux) is needed");
}

#[test]
fn health_fails_on_a_full_disk_even_without_pending_writes() {
    let place = Place::new("").with_accounts(&["alice"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_belfry")]);
    let process = place.spawn_as(shell);
    assert_eq!(health(&place), (200, "ok\n".into()));
    limit(&process, "4096");
    let (status, body) = until("health fails", || Some(health(&place)).filter(|(status, _)| *status != 200));
    assert_eq!(status, 503);
    assert!(body.starts_with("the database cannot be written: "), "{body}");
    let status =
        Command::new(env!("CARGO_BIN_EXE_belfry")).arg("status").current_dir(place.path(".")).output();
    let status = String::from_utf8(status.unwrap().stdout).unwrap();
    assert!(status.lines().any(|line| line.starts_with("not writable   ")), "{status}");
    assert!(process.log().contains("ERROR"), "{}", process.log());
    limit(&process, "unlimited");
    until("health is good again", || (health(&place).0 == 200).then_some(()));
    assert!(!place.path("data/room").exists());
    process.kill();
}

#[test]
fn a_database_at_its_size_limit_reports_full_and_recovers_with_space() {
    let (place, mut trunk) = place();
    let pages: u32 = {
        let conn = Connection::open(place.database()).unwrap();
        conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
    };
    let options = store::sqlite::Options { max_pages: Some(pages + 4), ..Default::default() };
    let mut node = place.start_with(&options);
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    let answer = until("it is full", || {
        let answer = try_to_register(&mut alice);
        (answer.status() != 200).then_some(answer)
    });
    assert_refused(&answer);
    talk(&mut alice, &mut bob, "bob@example.test");
    talk(&mut alice, &mut trunk, "trunk@example.test");
    // Room is made: the log's rows go, the pages are used again.
    Connection::open(place.database()).unwrap().execute_batch("DELETE FROM binding_log").unwrap();
    until("registrations are taken again", || (try_to_register(&mut bob).status() == 200).then_some(()));
    node.stop();
}
