//! The control socket, line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use control::{Client, ClientError, FailureKind, PROTOCOL, Request, Response};

use super::fake::FakeNode;
use super::place::Place;

struct Wire(BufReader<UnixStream>);

impl Wire {
    fn connect(place: &Place) -> Self {
        Wire(BufReader::new(UnixStream::connect(place.config().server.control).unwrap()))
    }

    fn say(&mut self, line: &str) {
        // The node may have hung up already; what it said tells.
        let _ = self.0.get_mut().write_all(format!("{line}\n").as_bytes());
    }

    fn hear(&mut self) -> Option<Response> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }
}

#[test]
fn both_sides_say_hello_and_versions_must_agree() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let mut wire = Wire::connect(&place);
    let Some(Response::Hello(hello)) = wire.hear() else { panic!("no hello") };
    assert_eq!((hello.protocol, hello.pid), (PROTOCOL, std::process::id()));
    wire.say(r#"{"hello":{"protocol":99,"version":"9.9.9","pid":1}}"#);
    let Some(Response::Failed(failure)) = wire.hear() else { panic!("no failure") };
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert!(failure.message.contains("(belfry 9.9.9) 99"), "{failure}");
    assert_eq!(wire.hear(), None, "and hangs up");
}

#[test]
fn nonsense_and_endless_lines_are_refused() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let hello = serde_json::to_string(&Request::Hello(control::Hello::ours())).unwrap();
    for (lines, words) in [
        (vec![r#""status""#.to_owned()], "expected hello first"),
        (vec![hello.clone(), "{".into()], "not a request"),
        (vec![hello.clone(), r#""frobnicate""#.into()], "not a request"),
        (vec![hello, "x".repeat(200 * 1024)], "expected a line of at most 131072 bytes"),
    ] {
        let mut wire = Wire::connect(&place);
        assert!(matches!(wire.hear(), Some(Response::Hello(_))));
        for line in &lines {
            wire.say(line);
        }
        let Some(Response::Failed(failure)) = wire.hear() else { panic!("no failure: {words}") };
        assert!(failure.message.contains(words), "{failure}");
    }
}

#[test]
fn concurrent_commands_have_a_limit() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let socket = place.config().server.control;
    let connect = || Client::connect(&socket);
    let clients: Vec<_> = (0..control::limits::CONTROL_CONNECTIONS).map(|_| connect().unwrap()).collect();
    assert!(matches!(connect(), Err(ClientError::Failed(failure)) if failure.kind == FailureKind::Busy));
    drop(clients);
    // The node notices that they are gone as soon as it reads.
    let free = (0..1_000).any(|_| connect().is_ok());
    assert!(free);
}

#[test]
fn one_connection_takes_many_requests() {
    let place = Place::new();
    let _node = FakeNode::start(place.config());
    let mut client = Client::connect(&place.config().server.control).unwrap();
    for _ in 0..3 {
        assert!(matches!(client.ask(&Request::Status), Ok(Response::Status(_))));
        assert!(matches!(client.ask(&Request::Drain), Ok(Response::Draining)));
    }
}
