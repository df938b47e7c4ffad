//! Records of calls and traces of messages, as an operator sees them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use store::CallRecord;

use crate::call::talk;
use crate::place::Place;
use crate::until;

fn belfry(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.current_dir(place.path(".")).args(arguments).stdin(Stdio::null());
    command
}

/// `belfry calls` for this account once there are so many, newest first.
pub(crate) fn calls_of(place: &Place, account: &str, count: usize) -> Vec<CallRecord> {
    until("the calls are recorded", || {
        let output = belfry(place, &["calls", "--account", account, "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let listed = String::from_utf8(output.stdout).unwrap();
        let calls: Vec<CallRecord> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (calls.len() >= count).then_some(calls)
    })
}

#[test]
fn a_call_is_listed_for_both_of_its_accounts() {
    let place = Place::new("").with_accounts(&["alice", "bob", "carol"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    talk(&mut alice, &mut bob, "bob@example.test");
    let of_bob = calls_of(&place, "bob", 1);
    let [call] = &of_bob[..] else { panic!("{of_bob:?}") };
    assert_eq!(call.account.as_deref(), Some("alice@example.test"));
    assert_eq!(call.callee.as_deref(), Some("bob@example.test"));
    assert_eq!((call.code, call.answered_at.is_some()), (200, true));
    assert_eq!(calls_of(&place, "alice", 1), of_bob);
    assert_eq!(calls_of(&place, "carol", 0), []);
    process.kill();
}

#[test]
fn a_refused_call_is_listed_with_its_code() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    for (to, code) in [("nobody@example.test", 404), ("bob@example.test", 480)] {
        let invite = alice.invite(to);
        assert_eq!(alice.outcome(&invite).status(), code, "{to}");
    }
    let calls = calls_of(&place, "alice", 2);
    let shown: Vec<(u16, &str, Option<&str>)> =
        calls.iter().map(|call| (call.code, &*call.to, call.callee.as_deref())).collect();
    let away = Some("bob@example.test");
    assert_eq!(shown, [(480, "sip:bob@example.test", away), (404, "sip:nobody@example.test", None)]);
    assert!(calls.iter().all(|call| call.answered_at.is_none()), "{calls:?}");
    assert_eq!(calls_of(&place, "bob", 1).len(), 1, "the one that was meant for him");
    process.kill();
}

#[test]
fn a_challenge_is_no_call() {
    let place = Place::new("").with_accounts(&["alice", "bob"]);
    let process = place.spawn();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    bob.register();
    alice.proves = false;
    let invite = alice.invite("bob@example.test");
    assert_eq!(alice.outcome(&invite).status(), 407);
    alice.proves = true;
    talk(&mut alice, &mut bob, "bob@example.test");
    let calls = calls_of(&place, "alice", 1);
    assert_eq!(calls.iter().map(|call| call.code).collect::<Vec<_>>(), [200]);
    process.kill();
}

/// A trace that is on.
struct Trace {
    child: Child,
    _reader: BufReader<std::process::ChildStderr>,
}

impl Trace {
    fn start(place: &Place, more: &[&str]) -> Trace {
        let mut command = belfry(place, &[&["trace", "alice", "--json"][..], more].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains("tracing alice@example.test"), "{line}");
        Trace { child, _reader: reader }
    }

    /// The labels of all messages that the trace has shown when it ends.
    fn labels(mut self) -> Vec<String> {
        until("the trace ends", || self.child.try_wait().unwrap());
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(|text| line(text)["label"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn two_traces_of_one_account_show_each_message_once() {
    let place = Place::new("").with_accounts(&["alice"]);
    let process = place.spawn();
    let mut alice = place.udp("alice");
    let traces = [Trace::start(&place, &["--count", "4"]), Trace::start(&place, &["--count", "4"])];
    alice.register();
    for trace in traces {
        let labels = trace.labels();
        let expected = ["REGISTER", "401 (REGISTER)", "REGISTER", "200 (REGISTER)"];
        assert_eq!(labels, expected);
    }
    process.kill();
}

#[test]
fn a_trace_of_an_unknown_account_is_refused() {
    let place = Place::new("").with_accounts(&["alice"]);
    let process = place.spawn();
    let output = belfry(&place, &["trace", "nobody"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("there is no account nobody@example.test"), "{errors}");
    let any = belfry(&place, &["trace", "1234", "--any", "--for", "50ms"]).output().unwrap();
    assert!(any.status.success(), "{any:?}");
    process.kill();
}

#[test]
fn status_and_log_name_every_listener() {
    let place = Place::new("").with_xmpp("");
    let process = place.spawn();
    let output = belfry(&place, &["status"]).output().unwrap();
    let status = String::from_utf8(output.stdout).unwrap();
    let sip = place.at(sip::transport::Transport::Udp);
    let chat = place.xmpp_at(sip::transport::Transport::Tcp);
    let metrics = format!("metrics at     http://{}/metrics", place.http());
    for words in [&format!("listening      udp:{sip} "), &format!("chat at        tcp:{chat} "), &metrics] {
        assert!(status.contains(&**words), "{words}\n{status}");
    }
    let log = process.log();
    assert!(log.contains(&format!("chat=\"tcp:{chat} ")), "{log}");
    process.kill();
}
