//! A UDP source that has not proved that it receives gets at most three times the bytes that came from it
//! (RFC 9000 §8.1), for any requests and any delay.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use router::{Answer, Binding, Contact, Life, Query, ShardAddress};
use sip::digest::Ha1s;
use sip::endpoint::{
    Account, Decision, Endpoint, EndpointEffect, EndpointOutbox, EndpointSettings, PlanRequest,
};
use sip::session::SessionEvent;
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;

const START: Instant = Instant::from_unix_seconds(1_700_000_000);
const US: &str = "192.0.2.1:5060";
/// Where the forged requests say that they come from.
const VICTIM: &str = "198.51.100.7:5060";
const PHONE: &str = "192.0.2.99:5060";
const SDP: &str =
    "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 10000 RTP/AVP 0\r\n";

struct World {
    endpoint: Endpoint,
    now: Instant,
    out: EndpointOutbox,
    received: usize,
    sent: usize,
    /// Start lines and lengths of the messages to the victim.
    log: Vec<String>,
    replies: Vec<Bytes>,
}

impl World {
    fn new() -> Self {
        let listeners = [US, "[2001:db8::1]:5060"].map(|address| address.parse().unwrap());
        let settings = EndpointSettings {
            domains: vec!["example.com".into()],
            ..sim::settings(ShardAddress { life: Life(1), shard: 0 }, &listeners)
        };
        World {
            endpoint: Endpoint::new(settings, START),
            now: START,
            out: Vec::new(),
            received: 0,
            sent: 0,
            log: Vec::new(),
            replies: Vec::new(),
        }
    }

    fn receive(&mut self, remote: &str, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if remote == VICTIM {
            self.received += bytes.len();
        }
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: remote.parse().unwrap(),
            flow: None,
        };
        self.endpoint.handle_packet(self.now, Packet { bytes, source }, &mut self.out);
        self.settle();
    }

    fn settle(&mut self) {
        let mut of_phone = Vec::new();
        while !self.out.is_empty() {
            for effect in std::mem::take(&mut self.out) {
                self.perform(effect, &mut of_phone);
            }
        }
        for answer in of_phone {
            self.receive(PHONE, answer);
        }
    }

    fn perform(&mut self, effect: EndpointEffect, of_phone: &mut Vec<Bytes>) {
        let now = self.now;
        match effect {
            EndpointEffect::Transmit(transmit) => {
                self.transmitted(transmit.target.remote, &transmit.bytes, of_phone);
            }
            EndpointEffect::Plan { id, request } => {
                self.endpoint.handle_plan(now, id, plan(&request), &mut self.out);
            }
            EndpointEffect::Account { id, user, domain } => {
                let account = ["alice", "bob", "user", "vivekg"].contains(&&*user).then(|| Account {
                    aor: format!("{user}@{domain}").into(),
                    ha1s: Ha1s::compute(&user, &domain, "secret"),
                    disabled: false,
                    max_contacts: 5,
                    limits: None,
                });
                self.endpoint.handle_account(now, id, Ok(account), &mut self.out);
            }
            EndpointEffect::Ask { id, query: Query::Lookup { aor } } => {
                let bindings = if aor.starts_with("bob@") { vec![binding()] } else { Vec::new() };
                self.endpoint.handle_answer(now, id, Answer::Bindings(bindings), &mut self.out);
            }
            EndpointEffect::Ask { id, query: Query::Keep(_) } => {
                self.endpoint.handle_answer(now, id, Answer::Kept(Ok(())), &mut self.out);
            }
            EndpointEffect::Session(SessionEvent::Invited { session, .. }) => {
                let _ = self.endpoint.sessions(now, &mut self.out).ring(session, 180, Bytes::new());
                let sdp = Bytes::from_static(SDP.as_bytes());
                let _ = self.endpoint.sessions(now, &mut self.out).answer(session, sdp, Vec::new());
            }
            _ => {}
        }
    }

    fn transmitted(&mut self, remote: SocketAddr, bytes: &Bytes, of_phone: &mut Vec<Bytes>) {
        if remote.ip() == VICTIM.parse::<SocketAddr>().unwrap().ip() {
            self.sent += bytes.len();
            let line = bytes.split(|byte| *byte == b'\r').next().unwrap();
            self.log.push(format!("{:?} {} {}", self.now, bytes.len(), String::from_utf8_lossy(line)));
            self.replies.push(bytes.clone());
        } else if remote == PHONE.parse().unwrap() && bytes.starts_with(b"INVITE ") {
            let invite = Message::parse(bytes.clone()).unwrap();
            of_phone.push(answer(&invite, "180 Ringing", ""));
            // A phone repeats its 200 until it is acknowledged.
            (0..11).for_each(|_| of_phone.push(answer(&invite, "200 OK", SDP)));
        } else if remote == PHONE.parse().unwrap() && !bytes.starts_with(b"SIP/2.0") {
            let request = Message::parse(bytes.clone()).unwrap();
            of_phone.push(answer(&request, "200 OK", ""));
        }
    }

    /// All timers there are.
    fn wait(&mut self) {
        let end = self.now + Duration::from_secs(400);
        while let Some(at) = self.endpoint.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at) + Duration::from_micros(1);
            self.endpoint.expire(self.now, &mut self.out);
            self.settle();
        }
        self.now = end;
        self.endpoint.expire(self.now, &mut self.out);
        self.settle();
    }

    fn check(&self) -> Result<(), String> {
        if self.sent <= 3 * self.received {
            return Ok(());
        }
        Err(format!("{} bytes came, {} went:\n{}", self.received, self.sent, self.log.join("\n")))
    }
}

fn plan(request: &PlanRequest) -> Decision {
    if &*request.user == "service" {
        Decision::Agent
    } else if request.claims.is_some() {
        Decision::Authenticate
    } else if &*request.host == "example.com" {
        Decision::Local { user: request.user.clone(), domain: request.host.clone() }
    } else {
        Decision::Refuse { status: 403, reason: "Relaying denied".into() }
    }
}

fn binding() -> Binding {
    let contact = Contact {
        uri: format!("sip:bob@{PHONE}").into(),
        q: 1000,
        expires: 600,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "".into(),
        received: None,
    };
    Binding { contact, expires_at: START + Duration::from_secs(600), call_id: "".into(), cseq: 1 }
}

fn answer(request: &Message, status: &str, body: &str) -> Bytes {
    let mut text = format!("SIP/2.0 {status}\r\n");
    let copied = [Header::Via, Header::RecordRoute, Header::From, Header::To, Header::CallId, Header::CSeq];
    for header in copied {
        for line in request.header_lines(header) {
            text += &format!("{}: {}", header.as_str(), String::from_utf8_lossy(line));
            text +=
                if header == Header::To && request.to_tag().is_none() { ";tag=of-bob\r\n" } else { "\r\n" };
        }
    }
    let contact = format!("Contact: <sip:bob@{PHONE}>\r\n");
    (text + &contact + &format!("Content-Length: {}\r\n\r\n{body}", body.len())).into()
}

fn request(method: &str, uri: &str, from: &str, more: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {VICTIM};branch=z9hG4bK1\r\nFrom: <{from}>;tag=1\r\nTo: <{uri}>\r\n\
         Call-ID: a84b4c76e66710\r\nCSeq: 1 {method}\r\nMax-Forwards: 70\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

fn statuses(world: &World) -> Vec<u16> {
    world.replies.iter().filter_map(|bytes| Message::parse(bytes.clone()).ok()).map(|m| m.status()).collect()
}

#[test]
fn a_refused_invite_is_answered_once_and_leaves_nothing() {
    for (uri, from, expected) in [
        ("sip:nobody@example.com", "sip:eve@elsewhere.test", 480),
        ("sip:alice@example.com", "sip:eve@elsewhere.test", 480),
        ("sip:bob@example.com", "sip:alice@example.com", 407),
        ("sip:bob@other.test", "sip:eve@elsewhere.test", 403),
    ] {
        let mut world = World::new();
        world.receive(VICTIM, request("INVITE", uri, from, ""));
        assert_eq!(world.endpoint.load(), (0, 0), "{uri}: no transaction, no context");
        world.wait();
        assert_eq!(statuses(&world), [expected], "{uri}");
        // The client that missed it asks again and is answered again.
        world.receive(VICTIM, request("INVITE", uri, from, ""));
        assert_eq!(statuses(&world), [expected, expected]);
        assert_eq!(world.replies[0].len(), world.replies[1].len());
        world.check().unwrap();
    }
}

#[test]
fn a_refusal_is_acknowledged_without_a_transaction_and_proves_the_source() {
    let mut world = World::new();
    let invite = request("INVITE", "sip:nobody@example.com", "sip:eve@elsewhere.test", "");
    world.receive(VICTIM, invite.clone());
    let refusal = Message::parse(world.replies[0].clone()).unwrap();
    let tag = String::from_utf8_lossy(refusal.to_tag().unwrap()).into_owned();
    let ack = |tag: &str| {
        invite
            .replace("INVITE", "ACK")
            .replace("To: <sip:nobody@example.com>", &format!("To: <sip:nobody@example.com>;tag={tag}"))
    };
    world.receive(VICTIM, ack("guessed"));
    assert_eq!(world.replies.len(), 1, "an ACK is never answered");
    let call = || {
        request(
            "INVITE",
            "sip:service@example.com",
            "sip:eve@elsewhere.test",
            "Contact: <sip:eve@198.51.100.7>\r\n",
        )
    };
    world.receive(VICTIM, ack(&tag));
    assert_eq!(world.replies.len(), 1);
    let before = world.replies.len();
    world.receive(VICTIM, call().replace("z9hG4bK1", "z9hG4bK2").replace("a84b", "b84b"));
    world.wait();
    let repeated = world.replies[before..].iter().filter(|bytes| bytes.starts_with(b"SIP/2.0 200")).count();
    assert!(repeated > 6, "a source that has acknowledged gets its 200 as RFC 3261 says: {repeated}");
}

/// RFC 3261 §13.3.1.4 repeats a 200 eleven times.
#[test]
fn an_applications_200_to_an_unproved_source_is_repeated_twice_at_most() {
    for (user, most) in [("service", 3..=3), ("bob", 3..=20)] {
        let mut world = World::new();
        let uri = format!("sip:{user}@example.com");
        // Long enough to pay for many.
        let more = format!("Contact: <sip:eve@198.51.100.7>\r\nSubject: {}\r\n", "x".repeat(4_000));
        world.receive(VICTIM, request("INVITE", &uri, "sip:eve@elsewhere.test", &more));
        world.wait();
        let count = statuses(&world).iter().filter(|status| **status == 200).count();
        assert!(most.contains(&count), "{user}: {}", world.log.join("\n"));
        assert!(!world.log.iter().any(|line| line.contains("BYE")), "nor is it sent a BYE");
        world.check().unwrap();
    }
}

fn call_number(number: usize) -> String {
    let text = request(
        "INVITE",
        "sip:service@example.com",
        "sip:eve@elsewhere.test",
        &format!("Contact: <sip:eve@198.51.100.7>\r\nSubject: {}\r\n", "x".repeat(200)),
    );
    text.replace("z9hG4bK1", &format!("z9hG4bKn{number}")).replace("a84b", &format!("n{number}"))
}

fn count(world: &World, status: u16) -> usize {
    statuses(world).iter().filter(|known| **known == status).count()
}

#[test]
fn of_many_calls_to_an_application_two_begin_and_the_others_wait_for_an_acknowledgement() {
    let mut world = World::new();
    (0..50).for_each(|number| world.receive(VICTIM, call_number(number)));
    assert_eq!((count(&world, 200), count(&world, 503)), (2, 0));
    assert_eq!(world.endpoint.session_counts().sessions, 2);
    world.now = world.now + Duration::from_millis(250);
    world.endpoint.expire(world.now, &mut world.out);
    world.settle();
    assert_eq!(count(&world, 100), 48);
    let answer = world.replies.iter().find(|bytes| bytes.starts_with(b"SIP/2.0 200")).unwrap();
    let answer = Message::parse(answer.clone()).unwrap();
    let call_id = String::from_utf8_lossy(answer.call_id().unwrap()).into_owned();
    let tag = String::from_utf8_lossy(answer.to_tag().unwrap()).into_owned();
    let ack = request("ACK", "sip:service@example.com", "sip:eve@elsewhere.test", "")
        .replace("To: <sip:service@example.com>", &format!("To: <sip:service@example.com>;tag={tag}"))
        .replace("a84b4c76e66710", &call_id)
        .replace("z9hG4bK1", "z9hG4bKack");
    world.receive(VICTIM, ack);
    assert_eq!(count(&world, 200), 50);
    world.wait();
    assert_eq!(world.endpoint.load(), (0, 0));
}

#[test]
fn a_call_that_waits_for_an_acknowledgement_in_vain_is_answered_503() {
    let mut world = World::new();
    (0..3).for_each(|number| world.receive(VICTIM, call_number(number)));
    world.wait();
    assert!(count(&world, 503) >= 1);
    let refusal = world.replies.iter().find(|bytes| bytes.starts_with(b"SIP/2.0 503")).unwrap();
    assert!(String::from_utf8_lossy(refusal).contains("Retry-After: "));
    world.check().unwrap();
    assert_eq!((world.endpoint.load(), world.endpoint.session_counts().sessions), ((0, 0), 0));
}

#[test]
fn a_short_honest_register_gets_its_challenges() {
    let text = "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bKnashds7;rport\r\n\
                Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag=a73kszlfl\r\nTo: <sip:bob@example.com>\r\n\
                Call-ID: 1j9FpLxk3uxtm8tn@198.51.100.7\r\nCSeq: 1 REGISTER\r\nContact: <sip:bob@198.51.100.7>\r\n\
                Expires: 600\r\nContent-Length: 0\r\n\r\n";
    assert!(text.len() <= 350, "{}", text.len());
    let mut world = World::new();
    world.receive(VICTIM, text);
    let challenge = Message::parse(world.replies[0].clone()).unwrap();
    assert_eq!((challenge.status(), challenge.header_lines(Header::WwwAuthenticate).count()), (401, 3));
    world.check().unwrap();
    // The shortest there can be gets the algorithm that all phones know.
    let mut world = World::new();
    world.receive(
        VICTIM,
        "REGISTER sip:example.com SIP/2.0\r\nv:SIP/2.0/UDP h;branch=z9hG4bK1\r\nf:<sip:b@example.com>;tag=1\r\n\
         t:<sip:b@example.com>\r\ni:1\r\nCSeq:1 REGISTER\r\n\r\n",
    );
    let challenge = Message::parse(world.replies[0].clone()).unwrap();
    let offered: Vec<_> = challenge.header_lines(Header::WwwAuthenticate).collect();
    assert!(String::from_utf8_lossy(offered.last().unwrap()).contains("MD5"), "{offered:?}");
    world.check().unwrap();
}

#[test]
fn new_requests_of_an_unproved_network_are_paced() {
    let mut world = World::new();
    for number in 0..5_000 {
        let text = request("OPTIONS", "sip:example.com", "sip:eve@elsewhere.test", "");
        world.receive(VICTIM, text.replace("z9hG4bK1", &format!("z9hG4bK{number}")));
    }
    assert_eq!(world.replies.len(), 1_000, "the burst");
    assert_eq!(world.endpoint.counters().unproved_limited, 4_000);
    world.now = world.now + Duration::from_secs(1);
    for number in 0..1_000 {
        let text = request("OPTIONS", "sip:example.com", "sip:eve@elsewhere.test", "");
        world.receive(VICTIM, text.replace("z9hG4bK1", &format!("z9hG4bKs{number}")));
    }
    assert_eq!(world.replies.len(), 1_100);
}

#[test]
fn every_torture_message_stays_within_the_amplification_limit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sip-wire/tests/vectors");
    let mut seen = 0;
    for set in ["rfc4475", "rfc5118"] {
        for entry in fs::read_dir(folder.join(set)).unwrap() {
            let path = entry.unwrap().path();
            let mut world = World::new();
            let bytes = fs::read(&path).unwrap();
            world.receive(VICTIM, bytes.clone());
            world.receive(VICTIM, bytes);
            world.wait();
            world.check().unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
            seen += 1;
        }
    }
    assert!(seen > 49, "RFC 4475 alone has 49 messages");
}

fn generated() -> impl Strategy<Value = String> {
    const METHODS: &[&str] = &[
        "INVITE",
        "REGISTER",
        "OPTIONS",
        "MESSAGE",
        "SUBSCRIBE",
        "PUBLISH",
        "BYE",
        "CANCEL",
        "ACK",
        "PRACK",
        "UPDATE",
        "REFER",
        "INFO",
        "NOTIFY",
        "OTHER",
    ];
    const USERS: &[&str] = &["", "alice@", "bob@", "nobody@", "service@"];
    const HOSTS: &[&str] = &["example.com", "192.0.2.1", "other.test", "[2001:db8::1]"];
    const SENDERS: &[&str] = &["sip:alice@example.com", "sip:eve@elsewhere.test", "tel:+1"];
    const MORE: &[&str] = &[
        "Require: a-long-name-of-an-extension\r\n",
        "Proxy-Require: x\r\n",
        "Route: <sip:192.0.2.1;lr>\r\n",
        "Route: <sip:198.51.100.9;lr>\r\n",
        "Contact: <sip:eve@198.51.100.7>\r\n",
        "Supported: 100rel, timer, path, gruu\r\n",
        "Require: 100rel\r\n",
        "Event: presence\r\n",
        "Event: dialog\r\n",
        "Record-Route: <sip:192.0.2.77;lr>\r\n",
        "Via: SIP/2.0/UDP 203.0.113.9;branch=z9hG4bKother\r\n",
        "Expires: 1\r\n",
        "Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"00\", uri=\"sip:x\", response=\"00\"\r\n",
        "Proxy-Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"0011223344556677\", uri=\"sip:x\", response=\"00\"\r\n",
        "Subject: some words that make the request longer than it has to be, for there are such\r\n",
    ];
    (
        prop::sample::select(METHODS),
        prop::sample::select(USERS),
        prop::sample::select(HOSTS),
        prop::sample::select(SENDERS),
        prop::collection::vec(prop::sample::select(MORE), 0..5),
        prop::option::weighted(0.2, "[a-z]{1,4}"),
        any::<(bool, bool)>(),
        0..3u8,
    )
        .prop_map(|(method, user, host, from, more, to_tag, (rport, short), branch)| {
            let uri = format!("sip:{user}{host}");
            let rport = if rport { ";rport" } else { "" };
            let tag = to_tag.map(|tag| format!(";tag={tag}")).unwrap_or_default();
            let hops = if short { "" } else { "Max-Forwards: 70\r\nContent-Length: 0\r\n" };
            format!(
                "{method} {uri} SIP/2.0\r\nv:SIP/2.0/UDP 198.51.100.7{rport};branch=z9hG4bK{branch}\r\nf:<{from}>;tag=1\r\n\
                 t:<{uri}>{tag}\r\ni:1\r\nCSeq:1 {method}\r\n{}{hops}\r\n",
                more.concat()
            )
        })
}

proptest! {
    #[test]
    fn an_unproved_source_gets_at_most_three_times_its_bytes(
        requests in prop::collection::vec((generated(), 0..3_000u64), 1..8),
    ) {
        let mut world = World::new();
        for (request, pause) in requests {
            world.receive(VICTIM, request);
            world.now = world.now + Duration::from_millis(pause);
            world.endpoint.expire(world.now, &mut world.out);
            world.settle();
        }
        world.wait();
        prop_assert!(world.check().is_ok(), "{}", world.check().unwrap_err());
    }
}
