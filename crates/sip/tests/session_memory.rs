//! The memory of a call that the server itself has answered, while it lasts.

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use sim::Counting;
use sip::endpoint::{Decision, Endpoint, EndpointEffect};
use sip::session::{SessionCounts, SessionEvent, SessionId};
use sip::transport::{Packet, Source, Transport};
use sip::wire::Message;
use stdx::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const US: &str = "192.0.2.1:5060";
const ALICE: &str = "192.0.2.10:5060";
const CALLS: u64 = 5_000;
const START: Instant = Instant::from_unix_seconds(1_800_000_000);
const SDP: &str =
    "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\n";

struct Shard {
    endpoint: Endpoint,
    now: Instant,
    answered: Vec<SessionId>,
    last: Bytes,
}

impl Shard {
    fn new() -> Self {
        let settings = sim::settings(ShardAddress { life: Life(1), shard: 0 }, &[US.parse().unwrap()]);
        Shard {
            endpoint: Endpoint::new(settings, START),
            now: START,
            answered: Vec::new(),
            last: Bytes::new(),
        }
    }

    /// The effects of one packet, with every call answered.
    fn receive(&mut self, text: String) {
        let source = Source {
            transport: Transport::Udp,
            local: US.parse().unwrap(),
            remote: ALICE.parse::<SocketAddr>().unwrap(),
            flow: None,
        };
        let mut effects = Vec::new();
        self.endpoint.handle_packet(self.now, Packet { bytes: text.into(), source }, &mut effects);
        while let Some(effect) = effects.pop() {
            match effect {
                EndpointEffect::Plan { id, .. } => {
                    self.endpoint.handle_plan(self.now, id, Decision::Agent, &mut effects);
                }
                EndpointEffect::Session(SessionEvent::Invited { session, .. }) => {
                    self.endpoint
                        .sessions(self.now, &mut effects)
                        .answer(session, SDP.into(), Vec::new())
                        .unwrap();
                    self.answered.push(session);
                }
                EndpointEffect::Transmit(transmit) => self.last = transmit.bytes,
                _ => {}
            }
        }
    }

    /// INVITE, 200, ACK.
    fn call(&mut self, number: u64) {
        self.receive(request("INVITE", number, ""));
        let answer = Message::parse(self.last.clone()).unwrap();
        assert_eq!(answer.status(), 200);
        let tag = String::from_utf8_lossy(answer.to_tag().unwrap()).into_owned();
        self.receive(request("ACK", number, &format!(";tag={tag}")));
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.endpoint.expire(self.now, &mut Vec::new());
    }
}

fn request(method: &str, number: u64, tag: &str) -> String {
    format!(
        "{method} sip:1234@{US} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK-{number}-{method}\r\n\
         From: sipp <sip:sipp@{ALICE}>;tag=t{number}\r\nTo: <sip:1234@{US}>{tag}\r\n\
         Call-ID: {number}-4711@192.0.2.10\r\nCSeq: 1 {method}\r\nContact: <sip:sipp@{ALICE}>\r\n\
         Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn a_call_that_is_up_costs_at_most_2_kilobytes() {
    let mut shard = Shard::new();
    // Memory that is allocated once: buffers, tables.
    shard.call(CALLS);
    let before = ALLOCATOR.bytes();
    for number in 0..CALLS {
        shard.call(number);
    }
    // The transactions go; no refresh is due yet.
    for _ in 0..4 {
        shard.wait(Duration::from_secs(15));
    }
    assert_eq!(shard.endpoint.load(), (0, 0));
    assert_eq!(shard.endpoint.session_counts().sessions as u64, CALLS + 1);
    let each = (ALLOCATOR.bytes() - before) / usize::try_from(CALLS).unwrap();
    println!("{each} bytes a session");
    assert!(each <= 2_048, "{each} bytes a session");
    let sessions = std::mem::take(&mut shard.answered);
    for session in sessions {
        shard.endpoint.sessions(shard.now, &mut Vec::new()).hang_up(session, None);
    }
    for _ in 0..20 {
        shard.wait(Duration::from_secs(15));
    }
    assert_eq!(shard.endpoint.load(), (0, 0));
    assert_eq!(shard.endpoint.session_counts(), SessionCounts::default());
}
