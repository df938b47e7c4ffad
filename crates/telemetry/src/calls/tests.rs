//! Calls as a node's sockets see them: the picture of each is a list of its spans.

use std::time::Duration;

use super::*;

/// A node, its time and the spans that it has made.
struct World {
    spans: CallSpans,
    now: Instant,
    made: Vec<Span>,
}

impl World {
    fn new() -> World {
        World {
            spans: CallSpans::new("n1"),
            now: Instant::from_unix_seconds(1_800_000_000),
            made: Vec::new(),
        }
    }

    /// A message passes a moment later: `<` received, `>` sent.
    fn pass(&mut self, way: char, first: &str, method: &str, branch: &str) {
        self.now = self.now + Duration::from_millis(10);
        let head = format!(
            "{first}\r\nVia: SIP/2.0/UDP x;branch={branch}\r\nFrom: <sip:alice@a.test>;tag=1\r\nTo: <sip:bob@a.test>\r\n\
             Call-ID: 1@a\r\nCSeq: 1 {method}\r\n\r\n"
        );
        let message = CallMessage {
            at: self.now,
            is_received: way == '<',
            peer: "192.0.2.1:5060".parse().unwrap(),
            head: CallMessage::head_of(head.as_bytes()),
        };
        self.spans.handle_message(&message, &mut self.made);
    }

    fn request(&mut self, way: char, method: &str, branch: &str) {
        self.pass(way, &format!("{method} sip:bob@a.test SIP/2.0"), method, branch);
    }

    fn response(&mut self, way: char, status: u16, method: &str, branch: &str) {
        self.pass(way, &format!("SIP/2.0 {status} X"), method, branch);
    }

    /// Each span as `parent/name begin-end status`, in milliseconds since the call's begin.
    fn picture(&mut self) -> Vec<String> {
        self.now = self.now + limits::LINGER;
        self.spans.expire(self.now, &mut self.made);
        assert!(self.spans.calls.is_empty());
        let begin = self.made.iter().map(|span| span.begin).min().unwrap();
        let name = |id: SpanId| self.made.iter().find(|span| span.id == id).map_or("?", |span| &*span.name);
        let status = |span: &Span| {
            let found = span.attributes.iter().find(|(name, _)| *name == "sip.status");
            found.map(|(_, value)| format!(" {value:?}")).unwrap_or_default()
        };
        let mut lines: Vec<(Instant, String)> = self
            .made
            .iter()
            .map(|span| {
                let parent = span.parent.map(|parent| format!("{}/", name(parent))).unwrap_or_default();
                let at = |time: Instant| time.since(begin).as_millis();
                let (from, to) = (at(span.begin), at(span.end));
                let error = if span.is_error { " error" } else { "" };
                let line = format!("{parent}{} {from}-{to}{}{error}", span.name, status(span));
                (span.begin, line.replace("Number(", "").replace(')', ""))
            })
            .collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

#[test]
fn a_call_that_forks_rings_is_answered_and_ends() {
    let mut world = World::new();
    world.request('<', "INVITE", "in");
    world.response('>', 100, "INVITE", "in");
    world.request('>', "INVITE", "one");
    world.request('>', "INVITE", "two");
    world.request('>', "INVITE", "two");
    world.response('<', 180, "INVITE", "one");
    world.response('>', 180, "INVITE", "in");
    world.response('<', 200, "INVITE", "two");
    world.response('>', 200, "INVITE", "in");
    world.request('>', "CANCEL", "one");
    world.response('<', 200, "CANCEL", "one");
    world.response('<', 487, "INVITE", "one");
    world.request('<', "ACK", "ack");
    world.request('>', "ACK", "ack-out");
    world.request('<', "BYE", "bye");
    world.request('>', "BYE", "bye-out");
    world.response('<', 200, "BYE", "bye-out");
    world.response('>', 200, "BYE", "bye");
    let ringing =
        world.made.iter().flat_map(|span| &span.events).filter(|event| &*event.name == "180").count();
    assert_eq!(ringing, 2, "of the branch and of the caller");
    assert_eq!(
        world.picture(),
        [
            "INVITE/routing 0-20",
            "call 0-170 200",
            "call/INVITE 0-80 200",
            "INVITE/INVITE 20-110 487",
            "INVITE/INVITE 30-70 200",
            "call/ringing 50-70",
            "call/conversation 70-170",
            "call/CANCEL 90-100 200",
            "call/BYE 140-170 200",
            "BYE/BYE 150-160 200",
        ]
    );
}

#[test]
fn a_challenge_is_a_part_of_the_call_that_follows_it_and_fails() {
    let mut world = World::new();
    world.request('<', "INVITE", "1");
    world.response('>', 407, "INVITE", "1");
    world.request('<', "ACK", "1");
    world.request('<', "INVITE", "2");
    world.request('>', "INVITE", "3");
    world.response('<', 486, "INVITE", "3");
    world.response('>', 486, "INVITE", "2");
    assert_eq!(
        world.picture(),
        [
            "call 0-60 486 error",
            "call/INVITE 0-10 407",
            "INVITE/routing 30-40",
            "call/INVITE 30-60 486 error",
            "INVITE/INVITE 40-50 486 error",
        ]
    );
}

#[test]
fn messages_of_no_call_make_no_span_and_a_silent_call_ends() {
    let mut world = World::new();
    world.request('<', "REGISTER", "1");
    world.response('>', 200, "REGISTER", "1");
    world.response('<', 200, "INVITE", "1");
    world.pass('<', "garbage", "INVITE", "1");
    assert!(world.spans.calls.is_empty());
    world.request('<', "INVITE", "1");
    world.spans.expire(world.now + limits::LINGER, &mut world.made);
    assert!(world.made.is_empty());
    world.spans.expire(world.now + limits::SILENCE, &mut world.made);
    let names: Vec<&str> = world.made.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["INVITE", "call"]);
    assert!(world.made[1].attributes.contains(&("belfry.unfinished", AttributeValue::Flag(true))));
    assert!(world.made[0].attributes.contains(&("belfry.unanswered", AttributeValue::Flag(true))));
}

#[test]
fn floods_are_bounded_and_counted() {
    let mut world = World::new();
    world.request('<', "INVITE", "1");
    world.response('>', 200, "INVITE", "1");
    for number in 0..1_000 {
        world.request('<', "INFO", &number.to_string());
    }
    let most = limits::OPEN_REQUESTS as u64;
    assert_eq!(world.spans.missed(), 1_000 - most);
    for number in 0..1_000 {
        world.request('<', "UPDATE", &format!("u{number}"));
        world.response('>', 200, "INFO", &number.to_string());
        world.response('>', 200, "UPDATE", &format!("u{number}"));
    }
    world.spans.finish(&mut world.made);
    // Those of the phases come with the end.
    assert!(world.made.len() <= limits::SPANS_OF_CALL + 2, "{}", world.made.len());
    for number in 0..limits::CALLS + 10 {
        let head = format!(
            "INVITE sip:b SIP/2.0\r\nVia: x;branch=1\r\nFrom: a\r\nTo: b\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\n\r\n"
        );
        let (at, peer) = (world.now, "192.0.2.1:5060".parse().unwrap());
        let head = CallMessage::head_of(head.as_bytes());
        world.spans.handle_message(&CallMessage { at, is_received: true, peer, head }, &mut world.made);
    }
    assert_eq!(world.spans.calls.len(), limits::CALLS);
}
