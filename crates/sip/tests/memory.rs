//! A finished transaction costs at most 300 bytes until its last timer, everything included (ARCHITECTURE.md,
//! "Invariants").

#![expect(clippy::unwrap_used, reason = "a test helper that panics is a failed test")]

mod proxied_call;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use sim::Counting;
use sip::endpoint::{Decision, Endpoint, EndpointEffect};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;

use proxied_call::{ALICE, BOB, BODY, START, US, answer, request};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Over 30 s: fewer than linger at the rates we are made for, enough for the shared part to be negligible.
const CALLS: u64 = 10_000;

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
        let invite = request("INVITE", &format!("service@{US}"), number, "", BODY);
        let forwarded = self.receive(ALICE, invite).remove(0);
        self.receive(BOB, answer(&forwarded, 180, ""));
        let answered = self.receive(BOB, answer(&forwarded, 200, BODY)).remove(0);
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

#[test]
fn a_lingering_transaction_costs_at_most_300_bytes() {
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
    assert!(each <= 300, "{each} bytes a transaction");
    for _ in 0..20 {
        shard.wait(Duration::from_secs(15));
    }
    assert_eq!(shard.endpoint.load(), (0, 0));
}
