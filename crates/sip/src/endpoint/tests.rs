//! A call through one endpoint, step by step.

use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use stdx::Instant;

use super::*;
use crate::transport::{Packet, Source, Transport};
use crate::wire::{Header, Message};

struct World {
    endpoint: Endpoint,
    now: Instant,
    out: EndpointOutbox,
}

const US: &str = "127.0.0.1:5060";
const ALICE: &str = "127.0.0.1:5071";
const BOB: &str = "127.0.0.1:5072";

impl World {
    fn new() -> Self {
        let now = Instant::from_unix_seconds(1_700_000_000);
        let settings =
            EndpointSettings::for_tests(ShardAddress { life: Life(0), shard: 0 }, US.parse().unwrap());
        let mut endpoint = Endpoint::new(settings, now);
        [ALICE, BOB].iter().for_each(|address| endpoint.trust_source(now, address.parse().unwrap()));
        World { endpoint, now, out: Vec::new() }
    }

    /// Feeds one message, answers what the plan asks with `BOB`, and returns what was sent.
    fn receive(&mut self, from: &str, text: &str) -> Vec<(String, String)> {
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: from.parse().unwrap(),
            flow: None,
        };
        let bytes = Bytes::from(text.to_owned());
        self.endpoint.handle_packet(self.now, Packet { bytes, source }, &mut self.out);
        self.settle()
    }

    fn pass(&mut self, time: Duration) -> Vec<(String, String)> {
        self.now = self.now + time;
        self.endpoint.expire(self.now, &mut self.out);
        self.settle()
    }

    fn settle(&mut self) -> Vec<(String, String)> {
        let mut sent = Vec::new();
        while !self.out.is_empty() {
            for effect in std::mem::take(&mut self.out) {
                match effect {
                    EndpointEffect::Transmit(transmit) => sent.push((
                        transmit.target.remote.to_string(),
                        String::from_utf8(transmit.bytes.to_vec()).unwrap(),
                    )),
                    EndpointEffect::Plan { id, .. } => {
                        let decision = Decision::Targets(vec![vec![format!("sip:{BOB}").into()]]);
                        self.endpoint.handle_plan(self.now, id, decision, &mut self.out);
                    }
                    _ => {}
                }
            }
        }
        sent
    }
}

fn invite() -> String {
    format!(
        "INVITE sip:service@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK-1\r\nFrom: <sip:a@{ALICE}>;tag=1\r\n\
         To: <sip:service@{US}>\r\nCall-ID: c1\r\nCSeq: 1 INVITE\r\nContact: <sip:a@{ALICE}>\r\nMax-Forwards: 70\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn respond(request: &str, status: &str, extra: &str) -> String {
    let message = Message::parse(Bytes::from(request.to_owned())).unwrap();
    let mut text = format!("SIP/2.0 {status}\r\n");
    for (name, header) in [
        ("Via", Header::Via),
        ("Record-Route", Header::RecordRoute),
        ("From", Header::From),
        ("To", Header::To),
        ("Call-ID", Header::CallId),
        ("CSeq", Header::CSeq),
    ] {
        for value in message.header_lines(header) {
            text += &format!("{name}: {}", String::from_utf8_lossy(value));
            text += if header == Header::To && message.to_tag().is_none() { ";tag=b\r\n" } else { "\r\n" };
        }
    }
    text + extra + "Content-Length: 0\r\n\r\n"
}

fn route_of(message: &str) -> String {
    let line = message.lines().find(|line| line.starts_with("Record-Route:")).unwrap();
    line.trim_start_matches("Record-Route: ").to_owned()
}

#[test]
fn a_call_passes_with_its_dialog() {
    let mut world = World::new();
    let sent = world.receive(ALICE, &invite());
    assert_eq!(sent.len(), 1, "no 100 before 200 ms: {sent:?}");
    let (to, forwarded) = &sent[0];
    assert_eq!(to, BOB);
    assert!(
        forwarded.starts_with(
            "INVITE sip:127.0.0.1:5072 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK"
        )
    );
    assert!(forwarded.contains("Max-Forwards: 69\r\n"));

    let ringing = world.receive(BOB, &respond(forwarded, "180 Ringing", ""));
    assert_eq!(ringing[0].0, ALICE);
    assert_eq!(ringing[0].1.matches("Via:").count(), 1, "our Via is off");
    let answer = world.receive(BOB, &respond(forwarded, "200 OK", "Contact: <sip:b@127.0.0.1:5072>\r\n"));
    assert_eq!(answer[0].0, ALICE);
    // A retransmitted 2xx goes straight up, though the context is gone.
    let again = world.receive(BOB, &respond(forwarded, "200 OK", "Contact: <sip:b@127.0.0.1:5072>\r\n"));
    assert_eq!(again, answer);

    let route = route_of(&answer[0].1);
    let in_dialog = |method: &str, branch: &str, route: &str| {
        format!(
            "{method} sip:b@{BOB} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK-{branch}\r\nRoute: {route}\r\n\
             From: <sip:a@{ALICE}>;tag=1\r\nTo: <sip:service@{US}>;tag=b\r\nCall-ID: c1\r\nCSeq: 2 {method}\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let ack = world.receive(ALICE, &in_dialog("ACK", "2", &route).replace("2 ACK", "1 ACK"));
    assert_eq!(ack[0].0, BOB);
    assert!(!ack[0].1.contains("Route:"));
    let bye = world.receive(ALICE, &in_dialog("BYE", "3", &route));
    assert_eq!(bye[0].0, BOB);
    let done = world.receive(BOB, &respond(&bye[0].1, "200 OK", ""));
    assert_eq!(done[0].0, ALICE);

    // A Route that we did not write is no way in.
    let forged = world.receive(ALICE, &in_dialog("BYE", "4", "<sip:127.0.0.1:5060;lr>"));
    assert!(forged[0].1.starts_with("BYE") || forged[0].1.starts_with("SIP/2.0 4"), "{forged:?}");

    world.pass(Duration::from_secs(40));
    world.pass(Duration::from_secs(40));
    assert_eq!(world.endpoint.load(), (0, 0), "nothing stays behind");
}

#[test]
fn a_slow_callee_gets_a_100_sent_and_a_cancel_ends_in_487() {
    let mut world = World::new();
    let forwarded = world.receive(ALICE, &invite()).remove(0).1;
    let trying = world.pass(Duration::from_millis(210));
    assert!(trying[0].1.starts_with("SIP/2.0 100"));
    world.receive(BOB, &respond(&forwarded, "180 Ringing", ""));
    let cancel = invite().replace("INVITE sip:", "CANCEL sip:").replace("1 INVITE", "1 CANCEL");
    let sent = world.receive(ALICE, &cancel);
    assert!(sent[0].1.starts_with("SIP/2.0 200"));
    assert!(sent[1].1.starts_with("CANCEL sip:127.0.0.1:5072"));
    world.receive(BOB, &respond(&sent[1].1, "200 OK", ""));
    let sent = world.receive(BOB, &respond(&forwarded, "487 Request Terminated", ""));
    assert!(sent[0].1.starts_with("ACK "), "{sent:?}");
    assert!(sent[1].1.starts_with("SIP/2.0 487"));
    let ack = invite().replace("INVITE sip:", "ACK sip:").replace("1 INVITE", "1 ACK");
    assert!(world.receive(ALICE, &ack).is_empty());
    world.pass(Duration::from_secs(40));
    world.pass(Duration::from_secs(200));
    assert_eq!(world.endpoint.load(), (0, 0));
}

#[test]
fn the_latency_of_a_call_is_counted_once_up_to_its_first_response_but_a_100() {
    let mut world = World::new();
    let forwarded = world.receive(ALICE, &invite()).remove(0).1;
    world.pass(Duration::from_millis(210));
    assert_eq!(world.endpoint.counters().invite_responses.count(), 0, "a 100 tells nothing");
    world.now = world.now + Duration::from_millis(40);
    world.receive(BOB, &respond(&forwarded, "180 Ringing", ""));
    world.now = world.now + Duration::from_secs(5);
    world.receive(BOB, &respond(&forwarded, "200 OK", ""));
    let counted = world.endpoint.counters().invite_responses;
    assert_eq!((counted.count(), counted.sum_micros()), (1, 250_000));
    assert_eq!(world.endpoint.counters().register_responses.count(), 0);
}

#[test]
fn silence_is_retransmitted_to_and_then_408() {
    let mut world = World::new();
    world.receive(ALICE, &invite());
    let mut sent = Vec::new();
    for _ in 0..4_000 {
        sent.extend(world.pass(Duration::from_millis(10)));
    }
    let invites = sent.iter().filter(|(_, text)| text.starts_with("INVITE")).count();
    assert_eq!(invites, 6, "timer A doubles six times within timer B");
    assert!(sent.iter().any(|(to, text)| to == ALICE && text.starts_with("SIP/2.0 408")));
}

impl World {
    /// The remembered messages of the call `c1`: milliseconds, direction, peer and label.
    fn ladder(&self) -> Vec<String> {
        let (ladder, _) = ladder_of(&self.endpoint, "c1");
        let messages = ladder.map(|ladder| ladder.messages).unwrap_or_default();
        let start = messages.first().map(|message| message.at).unwrap_or_default();
        let line = |message: &LadderMessage| {
            let direction = if message.passage == Passage::Received { "from" } else { "to" };
            let peer = if message.peer.to_string() == ALICE { "alice" } else { "bob" };
            let status = message.status.map(|status| format!("{status} ")).unwrap_or_default();
            format!("{} {direction} {peer} {status}{}", message.at.since(start).as_millis(), message.method)
        };
        messages.iter().map(line).collect()
    }

    fn pass_millis(&mut self, millis: u64) {
        self.pass(Duration::from_millis(millis));
    }
}

#[test]
fn a_call_that_nothing_traces_has_its_ladder() {
    let mut world = World::new();
    remember_calls(&mut world.endpoint, world.now);
    let forwarded = world.receive(ALICE, &invite()).remove(0).1;
    world.pass_millis(210);
    // A repeated INVITE, and its 100 again.
    world.receive(ALICE, &invite());
    world.pass_millis(10);
    let answer = world.receive(BOB, &respond(&forwarded, "200 OK", "Contact: <sip:b@127.0.0.1:5072>\r\n"));
    let route = route_of(&answer[0].1);
    let in_dialog = |method: &str, branch: &str| {
        format!(
            "{method} sip:b@{BOB} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK-{branch}\r\nRoute: {route}\r\n\
             From: <sip:a@{ALICE}>;tag=1\r\nTo: <sip:service@{US}>;tag=b\r\nCall-ID: c1\r\nCSeq: 2 {method}\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
        )
    };
    world.receive(ALICE, &in_dialog("ACK", "2"));
    world.pass_millis(5_000);
    let bye = world.receive(ALICE, &in_dialog("BYE", "3")).remove(0).1;
    world.receive(BOB, &respond(&bye, "200 OK", ""));
    world.pass(Duration::from_secs(100));
    assert_eq!(world.endpoint.load(), (0, 0));
    let ladder = [
        "0 from alice INVITE",
        "0 to bob INVITE",
        "210 to alice 100 INVITE",
        "210 from alice INVITE",
        "210 to alice 100 INVITE",
        "220 from bob 200 INVITE",
        "220 to alice 200 INVITE",
        "220 from alice ACK",
        "220 to bob ACK",
        "5220 from alice BYE",
        "5220 to bob BYE",
        "5220 from bob 200 BYE",
        "5220 to alice 200 BYE",
    ];
    assert_eq!(world.ladder(), ladder, "after its end, too");
    assert_eq!(ladder_of(&world.endpoint, "c2").0, None);
    assert_eq!(ladder_of(&world.endpoint, "c1").1.kept, 1);
}

#[test]
fn a_call_that_is_cancelled_has_its_ladder_and_none_has_one_unasked() {
    for is_on in [true, false] {
        let mut world = World::new();
        if is_on {
            remember_calls(&mut world.endpoint, world.now);
        }
        let forwarded = world.receive(ALICE, &invite()).remove(0).1;
        world.receive(BOB, &respond(&forwarded, "180 Ringing", ""));
        let cancel = invite().replace("INVITE sip:", "CANCEL sip:").replace("1 INVITE", "1 CANCEL");
        let sent = world.receive(ALICE, &cancel);
        world.receive(BOB, &respond(&sent[1].1, "200 OK", ""));
        world.receive(BOB, &respond(&forwarded, "487 Request Terminated", ""));
        world.receive(ALICE, &invite().replace("INVITE sip:", "ACK sip:").replace("1 INVITE", "1 ACK"));
        let ladder = [
            "0 from alice INVITE",
            "0 to bob INVITE",
            "0 from bob 180 INVITE",
            "0 to alice 180 INVITE",
            "0 from alice CANCEL",
            "0 to alice 200 CANCEL",
            "0 to bob CANCEL",
            "0 from bob 200 CANCEL",
            "0 from bob 487 INVITE",
            "0 to bob ACK",
            "0 to alice 487 INVITE",
            "0 from alice ACK",
        ];
        let expected: &[&str] = if is_on { &ladder } else { &[] };
        assert_eq!(world.ladder(), expected);
    }
}
