//! `ringer xmpp` with worker processes, against a server in this process.

use crate::jabber::Jabber;
use crate::program::{Place, address, runs, signal, until};

fn words(server: &Jabber, more: &str) -> String {
    format!(
        "xmpp {} --domain d --users 12 --contacts 3 --tls none --mechanism PLAIN --logins 100 --threads 2 \
         --think-fixed 300ms --mix message=70,presence=20,logout=10 --workers 2 {more}",
        server.address
    )
}

/// The processes that this one started.
fn children(id: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("it runs");
    listed.split_whitespace().map(|id| id.parse().expect("a number")).collect()
}

#[test]
fn two_processes_account_for_every_message_and_presence() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let said = place.run(&words(&server, "--for 3 --json run.json"));
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: serde_json::Value = serde_json::from_str(&place.read("run.json")).expect("a report");
    let chat = &report["chat"];
    assert_eq!(chat["sent"].as_u64(), Some(server.messages()), "{chat}");
    assert_eq!((report["threads"].as_u64(), report["totals"]["peak_open"].as_u64()), (Some(2), Some(12)));
    assert!(report["totals"]["ringer_cpu"].as_f64() > Some(0.0), "{report}");
    assert!(said.err.contains("kept: lost == 0 (measured 0)"), "{said:?}");
    assert_eq!(server.online(), 0);
}

/// Each process reads it; their users know each other by it.
#[test]
fn users_of_a_file_are_shared_by_two_processes() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let lines: String = (0..14).map(|n| format!("user{};secret\n", 97 - 5 * n)).collect();
    place.write("users.csv", &lines);
    let words = format!(
        "xmpp {} --domain d --users-file users.csv --first 2 --contacts 3 --tls none --mechanism PLAIN --logins 100 \
         --think-fixed 300ms --mix message=70,presence=30 --workers 2 --for 3 --json run.json",
        server.address
    );
    let said = place.run(&words);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: serde_json::Value = serde_json::from_str(&place.read("run.json")).expect("a report");
    let chat = &report["chat"];
    assert_eq!(chat["sent"].as_u64(), Some(server.messages()), "{chat}");
    assert!(chat["seen"].as_u64() > Some(0) && chat["received"] == chat["sent"], "{chat}");
    assert_eq!(report["totals"]["peak_open"].as_u64(), Some(12));
    place.write("users.csv", "user1;secret\nuser2\n");
    let said = place.run(&words);
    assert!(said.err.contains("users.csv:2: expected NAME;PASSWORD"), "{said:?}");
}

#[test]
fn a_worker_that_dies_ends_the_run_and_is_named() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let mut ringer = place.start(&words(&server, "--for 600"));
    ringer.heard("12 open");
    let workers = children(ringer.id());
    assert_eq!(workers.len(), 2);
    // A keyboard signal reaches all processes; only the first handles it.
    signal(workers[0], "INT");
    signal(workers[0], "TERM");
    signal(workers[1], "KILL");
    let said = ringer.end();
    assert_eq!(said.code, Some(255), "{said:?}");
    let named =
        format!("worker 2 of 2 (process {}) ended (signal: 9 (SIGKILL)): its 6 users are lost", workers[1]);
    assert!(said.err.contains(&named), "{named}: {said:?}");
    assert!(said.err.contains("6 failed: Worker 6"), "counted among those that failed: {said:?}");
    assert!(!runs(workers[0]), "no worker stays behind");
}

#[test]
fn workers_go_with_the_run() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let mut ringer = place.start(&words(&server, "--for 600"));
    ringer.heard("12 open");
    let workers = children(ringer.id());
    signal(ringer.id(), "KILL");
    until("the workers' end", || workers.iter().all(|worker| !runs(*worker)));
    until("the end of their connections", || server.online() == 0);
}

#[test]
fn an_operator_ends_the_workers_load() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let mut ringer = place.start(&words(&server, "--for 600"));
    ringer.heard("12 open");
    signal(ringer.id(), "INT");
    let said = ringer.end();
    assert_eq!(said.code, Some(0), "with a roll-call, so that all is accounted for: {said:?}");
    let mut ringer = place.start(&words(&server, "--for 600"));
    ringer.heard("12 open");
    signal(ringer.id(), "INT");
    signal(ringer.id(), "TERM");
    assert_eq!(ringer.end().code, Some(97), "at once");
}

#[test]
fn a_worker_that_is_stuck_does_not_keep_the_run_from_its_end() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let mut ringer = place.start(&words(&server, "--for 600"));
    ringer.heard("12 open");
    let workers = children(ringer.id());
    signal(workers[0], "STOP");
    // Two of one signal that come at once are one to the kernel.
    signal(ringer.id(), "INT");
    signal(ringer.id(), "TERM");
    let said = ringer.end();
    assert_eq!(said.code, Some(255), "{said:?}");
    assert!(said.err.contains(&format!("(process {}) ended (signal: 9 (SIGKILL))", workers[0])), "{said:?}");
}

#[test]
fn impossible_uses_of_workers_are_reported() {
    let place = Place::new();
    let said = place.run("worker");
    assert_eq!(said.code, Some(255));
    assert!(said.err.contains("ringer xmpp starts this itself"), "{said:?}");
    let server = Jabber::start(&address());
    let said = place.run(&format!("xmpp {} --users 10 --contacts 1 --workers 300", server.address));
    assert_eq!(said.code, Some(255));
    assert!(said.err.contains("expected --workers from 1 to 256"), "{said:?}");
}
