//! Attacks on signing in: passwords that are guessed in the name of another, credentials that are sent again.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::time::Duration;

use bytes::Bytes;
use router::{Answer, AskId, Life, Query, ShardAddress};
use sip::digest::Ha1s;
use sip::endpoint::{Account, Endpoint, EndpointEffect, EndpointSettings};
use sip::limits;
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;

const START: Instant = Instant::from_unix_seconds(1_700_000_000);
const US: &str = "192.0.2.1:5060";
const VICTIM: &str = "198.51.100.7:5060";
const ATTACKER: &str = "203.0.113.66:5060";

struct World {
    endpoint: Endpoint,
    now: Instant,
    number: u32,
    /// The questions for accounts that wait for a database that is away; `None` while it is there.
    held: Option<Vec<AskId>>,
}

impl World {
    fn new() -> Self {
        World { endpoint: endpoint(START), now: START, number: 0, held: None }
    }

    /// The last response to a REGISTER of bob's with these lines.
    fn register(&mut self, remote: &str, lines: &str) -> Message {
        self.number += 1;
        let text = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {remote};branch=z9hG4bK{}\r\nMax-Forwards: 70\r\n\
             From: <sip:bob@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: of-bob\r\nCSeq: {} REGISTER\r\n\
             {lines}Content-Length: 0\r\n\r\n",
            self.number, self.number
        );
        self.receive(remote, text.into())
    }

    fn receive(&mut self, remote: &str, bytes: Bytes) -> Message {
        self.receive_packet(remote, bytes).pop().unwrap()
    }

    /// The responses to a packet.
    fn receive_packet(&mut self, remote: &str, bytes: Bytes) -> Vec<Message> {
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: remote.parse().unwrap(),
            flow: None,
        };
        let mut out = Vec::new();
        self.endpoint.handle_packet(self.now, Packet { bytes, source }, &mut out);
        self.settle(out)
    }

    /// The database is back: all questions are answered.
    fn answer_held(&mut self) -> Vec<Message> {
        let mut out = Vec::new();
        for id in self.held.take().unwrap_or_default() {
            self.endpoint.handle_account(self.now, id, Ok(Some(bob())), &mut out);
        }
        self.settle(out)
    }

    fn settle(&mut self, mut out: Vec<EndpointEffect>) -> Vec<Message> {
        let mut sent = Vec::new();
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                match effect {
                    EndpointEffect::Transmit(transmit) => {
                        sent.push(Message::parse(transmit.bytes).unwrap());
                    }
                    EndpointEffect::Account { id, .. } => match &mut self.held {
                        Some(held) => held.push(id),
                        None => self.endpoint.handle_account(self.now, id, Ok(Some(bob())), &mut out),
                    },
                    EndpointEffect::Ask { id, query: Query::Register(_) } => {
                        self.endpoint.handle_answer(
                            self.now,
                            id,
                            Answer::Registered(Ok(Vec::new())),
                            &mut out,
                        );
                    }
                    _ => {}
                }
            }
        }
        sent
    }

    fn nonce(&mut self, remote: &str) -> String {
        nonce_of(&self.register(remote, ""))
    }
}

fn bob() -> Account {
    let ha1s = Ha1s::compute("bob", "example.com", "secret");
    Account { aor: "bob@example.com".into(), ha1s, disabled: false, max_contacts: 5, limits: None }
}

fn endpoint(started: Instant) -> Endpoint {
    let settings = EndpointSettings {
        domains: vec!["example.com".into()],
        ..sim::settings(ShardAddress { life: Life(1), shard: 0 }, &[US.parse().unwrap()])
    };
    Endpoint::new(settings, started)
}

fn nonce_of(challenge: &Message) -> String {
    let line =
        String::from_utf8_lossy(challenge.header_lines(Header::WwwAuthenticate).next().unwrap()).into_owned();
    line.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

fn credentials(nonce: &str, password: &str, count: u32) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // H over three parts with colons between them is what an HA1 is.
    let hash = |a: &str, b: &str, c: &str| hex(&Ha1s::compute(a, b, c).sha256);
    let ha2 = hash("REGISTER", "sip", "example.com");
    let ha1 = hash("bob", "example.com", password);
    let response = hash(&ha1, &format!("{nonce}:{count:08x}:c:auth"), &ha2);
    format!(
        "Authorization: Digest username=\"bob\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"sip:example.com\", \
         algorithm=SHA-256, qop=auth, nc={count:08x}, cnonce=\"c\", response=\"{response}\"\r\n"
    )
}

#[test]
fn wrong_passwords_from_a_forged_source_do_not_hinder_its_owner() {
    let mut world = World::new();
    let stolen = world.nonce(ATTACKER);
    for count in 1..300 {
        // The forger has a nonce of its own address, a nonce that was never issued, or a nonce that does not
        // fit the algorithm.
        world.register(VICTIM, &credentials(&stolen, "guess", count));
        world.register(VICTIM, &credentials(&"0".repeat(32), "guess", count));
        world.register(VICTIM, &credentials(&stolen, "guess", count).replace("SHA-256", "MD5"));
    }
    assert_eq!(world.endpoint.counters().authentication_failures, 0);
    let nonce = world.nonce(VICTIM);
    assert_eq!(world.register(VICTIM, &credentials(&nonce, "secret", 1)).status(), 200);
}

#[test]
fn a_flood_from_a_forged_source_does_not_keep_its_owner_from_signing_in() {
    let mut world = World::new();
    let options = |number: u32| {
        format!(
            "OPTIONS sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {VICTIM};branch=z9hG4bKo{number}\r\n\
             From: <sip:eve@elsewhere.test>;tag=1\r\nTo: <sip:example.com>\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    for number in 0..3_000 {
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: VICTIM.parse().unwrap(),
            flow: None,
        };
        let packet = Packet { bytes: options(number).into(), source };
        world.endpoint.handle_packet(world.now, packet, &mut Vec::new());
    }
    assert!(world.endpoint.counters().unproved_limited > 1_000);
    let nonce = world.nonce(VICTIM);
    assert_eq!(world.register(VICTIM, &credentials(&nonce, "secret", 1)).status(), 200);
}

#[test]
fn guesses_from_another_address_do_not_hinder_the_right_password() {
    let mut world = World::new();
    for _ in 0..500 {
        let nonce = world.nonce(ATTACKER);
        world.register(ATTACKER, &credentials(&nonce, "guess", 1));
    }
    assert!(world.endpoint.counters().authentication_paced > 400);
    let nonce = world.nonce(VICTIM);
    assert_eq!(world.register(VICTIM, &credentials(&nonce, "secret", 1)).status(), 200, "at once");
    world.now = world.now + Duration::from_secs(2);
    let nonce = world.nonce(ATTACKER);
    assert_eq!(
        world.register(ATTACKER, &credentials(&nonce, "secret", 1)).status(),
        200,
        "and there within two seconds"
    );
}

#[test]
fn too_many_guesses_are_answered_503_with_the_time_to_wait() {
    let mut world = World::new();
    for _ in 0..10 {
        let nonce = world.nonce(ATTACKER);
        world.register(ATTACKER, &credentials(&nonce, "guess", 1));
    }
    let nonce = world.nonce(ATTACKER);
    let answer = world.register(ATTACKER, &credentials(&nonce, "secret", 1));
    assert_eq!(answer.status(), 503);
    assert!(String::from_utf8_lossy(answer.bytes()).contains("Retry-After: 1\r\n"));
}

#[test]
fn captured_credentials_are_stale_from_another_address() {
    let mut world = World::new();
    let nonce = world.nonce(VICTIM);
    let answer = world.register(ATTACKER, &credentials(&nonce, "secret", 1));
    assert_eq!(answer.status(), 401);
    assert!(String::from_utf8_lossy(answer.bytes()).contains("stale=true"));
    assert_eq!(
        world.register(VICTIM, &credentials(&nonce, "secret", 1)).status(),
        200,
        "and are not spent by that"
    );
}

#[test]
fn captured_credentials_are_stale_after_a_restart() {
    let mut world = World::new();
    let nonce = world.nonce(VICTIM);
    assert_eq!(world.register(VICTIM, &credentials(&nonce, "secret", 1)).status(), 200);
    world.now = world.now + Duration::from_secs(10);
    world.endpoint = endpoint(world.now);
    let answer = world.register(VICTIM, &credentials(&nonce, "secret", 1));
    assert_eq!(answer.status(), 401);
    assert!(String::from_utf8_lossy(answer.bytes()).contains("stale=true"));
    // The client goes on with the fresh nonce, without asking its user.
    let nonce = nonce_of(&answer);
    assert_eq!(world.register(VICTIM, &credentials(&nonce, "secret", 1)).status(), 200);
}

/// RFC 3261 §17.2.2: retransmissions are absorbed while the request is worked on, for as long as a database may be away.
#[test]
fn a_register_that_waits_for_its_account_is_answered_once_however_often_it_is_repeated() {
    let mut world = World::new();
    let nonce = world.nonce(VICTIM);
    world.held = Some(Vec::new());
    let request = Bytes::from(format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {VICTIM};branch=z9hG4bKw\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: of-bob\r\nCSeq: 9 REGISTER\r\n\
         {}Content-Length: 0\r\n\r\n",
        credentials(&nonce, "secret", 1)
    ));
    let is_final = |responses: &[Message]| responses.iter().any(|response| response.status() >= 200);
    assert!(!is_final(&world.receive_packet(VICTIM, request.clone())));
    // Timer E: 0.5, 1, 2 and 4 s apart (§17.1.2.2).
    for milliseconds in [500, 1_000, 2_000, 4_000] {
        world.now = world.now + Duration::from_millis(milliseconds);
        let mut out = Vec::new();
        world.endpoint.expire(world.now, &mut out);
        assert!(!is_final(&world.settle(out)));
        assert!(!is_final(&world.receive_packet(VICTIM, request.clone())));
    }
    assert_eq!(world.held.as_ref().map(Vec::len), Some(1), "its account is read for all of them");
    let answers: Vec<u16> = world.answer_held().iter().map(Message::status).collect();
    assert_eq!(answers, [200]);
    assert_eq!(world.receive(VICTIM, request).status(), 200, "the same response again");
}

/// RFC 3261 §21.5.4: a client is told to try again when the database gives no answer at all.
#[test]
fn a_register_is_refused_for_a_time_if_its_account_is_never_read() {
    let mut world = World::new();
    let nonce = world.nonce(VICTIM);
    world.held = Some(Vec::new());
    world.number += 1;
    let request = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {VICTIM};branch=z9hG4bKn\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: of-bob\r\nCSeq: 9 REGISTER\r\n\
         {}Content-Length: 0\r\n\r\n",
        credentials(&nonce, "secret", 1)
    );
    assert_eq!(world.receive_packet(VICTIM, request.into()).len(), 0);
    world.now = world.now + limits::CONTEXT_PATIENCE;
    let mut out = Vec::new();
    world.endpoint.expire(world.now, &mut out);
    let answers = world.settle(out);
    let refused = answers.last().unwrap();
    assert_eq!((refused.status(), refused.header(Header::RetryAfter).is_some()), (503, true));
    assert_eq!(world.answer_held().len(), 0, "the answer comes too late");
}
