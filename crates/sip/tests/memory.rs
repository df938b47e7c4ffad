//! A finished transaction costs at most 600 bytes until its last timer, everything included (ARCHITECTURE.md,
//! "Invariants").

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use sim::Counting;
use sip::endpoint::{Decision, Endpoint, EndpointEffect};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const US: &str = "192.0.2.1:5060";
const ALICE: &str = "192.0.2.10:5060";
const BOB: &str = "192.0.2.20:5060";
/// Over 30 s: fewer than linger at the rates we are made for, enough for the shared part to be negligible.
const CALLS: u64 = 10_000;
const START: Instant = Instant::from_unix_seconds(1_800_000_000);

struct Shard {
    endpoint: Endpoint,
    now: Instant,
}

impl Shard {
    fn new() -> Self {
        let settings = sim::settings(ShardAddress { life: Life(1), shard: 0 }, &[US.parse().unwrap()]);
        Shard { endpoint: Endpoint::new(settings, START), now: START }
    }

    /// The packets sent in answer to one datagram.
    fn receive(&mut self, from: &str, text: String) -> Vec<Bytes> {
        let remote: SocketAddr = from.parse().unwrap();
        let source = Source { transport: Transport::Udp, local: US.parse().unwrap(), remote, flow: None };
        let (mut effects, mut sent) = (Vec::new(), Vec::new());
        self.endpoint.handle_packet(self.now, Packet { bytes: text.into(), source }, &mut effects);
        while let Some(effect) = effects.pop() {
            match effect {
                EndpointEffect::Transmit(transmit) => sent.push(transmit.bytes),
                EndpointEffect::Plan { id, .. } => {
                    let decision = Decision::Targets(vec![vec![format!("sip:service@{BOB}").into()]]);
                    self.endpoint.handle_plan(self.now, id, decision, &mut effects);
                }
                _ => {}
            }
        }
        sent
    }

    /// INVITE, 180, 200, ACK, BYE, 200, as SIPp's first scenario has them.
    fn call(&mut self, number: u64) {
        let body = "v=0\r\no=user1 53655765 2353687637 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\nt=0 0\r\n\
                    m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";
        let invite = request("INVITE", &format!("service@{US}"), number, "", body);
        let forwarded = self.receive(ALICE, invite).remove(0);
        self.receive(BOB, answer(&forwarded, 180, ""));
        let answered = self.receive(BOB, answer(&forwarded, 200, body)).remove(0);
        let answered = Message::parse(answered).unwrap();
        let route = String::from_utf8_lossy(answered.header(Header::RecordRoute).unwrap()).into_owned();
        let lines = format!("Route: {route}\r\n");
        let acked = self.receive(ALICE, request("ACK", &format!("service@{BOB}"), number, &lines, ""));
        assert_eq!(acked.len(), 1);
        let bye =
            self.receive(ALICE, request("BYE", &format!("service@{BOB}"), number, &lines, "")).remove(0);
        assert_eq!(self.receive(BOB, answer(&bye, 200, "")).len(), 1);
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.endpoint.expire(self.now, &mut Vec::new());
    }
}

fn request(method: &str, to: &str, number: u64, lines: &str, body: &str) -> String {
    let tag = if method == "INVITE" { "" } else { ";tag=4711SIPpTag01" };
    let cseq = if method == "BYE" { 2 } else { 1 };
    format!(
        "{method} sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bK-4711-{number}-{method}\r\n{lines}\
         From: sipp <sip:sipp@{ALICE}>;tag=4711SIPpTag00{number}\r\nTo: service <sip:service@{US}>{tag}\r\n\
         Call-ID: {number}-4711@192.0.2.10\r\nCSeq: {cseq} {method}\r\nContact: sip:sipp@{ALICE}\r\nMax-Forwards: 70\r\n\
         Subject: Performance Test\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn answer(request: &Bytes, status: u16, body: &str) -> String {
    let request = Message::parse(request.clone()).unwrap();
    let mut text = format!("SIP/2.0 {status} Said\r\n");
    let copied = [Header::Via, Header::RecordRoute, Header::From, Header::To, Header::CallId, Header::CSeq];
    for header in copied {
        for value in request.header_lines(header) {
            text += &format!("{}: {}", header.as_str(), String::from_utf8_lossy(value));
            let tag = header == Header::To && request.to_tag().is_none();
            text += if tag { ";tag=4711SIPpTag01\r\n" } else { "\r\n" };
        }
    }
    text + &format!("Contact: <sip:{BOB};transport=UDP>\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_lingering_transaction_costs_at_most_600_bytes() {
    let mut shard = Shard::new();
    // Memory that is allocated once: buffers, tables.
    shard.call(CALLS);
    let before = ALLOCATOR.bytes();
    for number in 0..CALLS {
        shard.call(number);
        shard.wait(Duration::from_millis(3));
    }
    let (transactions, contexts) = shard.endpoint.load();
    let bytes = ALLOCATOR.bytes() - before;
    let each = bytes / transactions;
    println!("{transactions} transactions linger, {contexts} requests wait, {each} bytes each");
    assert!(transactions as u64 > 3 * CALLS);
    assert_eq!(contexts, 0);
    assert!(each <= 600, "{each} bytes a transaction");
    for _ in 0..20 {
        shard.wait(Duration::from_secs(15));
    }
    assert_eq!(shard.endpoint.load(), (0, 0));
}
