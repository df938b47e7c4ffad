//! The cost of a proxied call at the endpoint, without sockets: nanoseconds by message, and bytes allocated.
//! `cargo run --release -p sip --example call_bench`; a number of calls instead of 80,000 warms up less, for a slow look at it
//! (`valgrind --tool=callgrind`).
//!
//! INVITE, 180, 200, ACK, BYE, 200 of SIPp's built-in scenario, whose ACK and BYE carry no Route, as `bench/sip/run` sends them.

#![expect(clippy::unwrap_used, reason = "a benchmark that panics has measured nothing")]

mod measure;
#[path = "../tests/proxied_call/mod.rs"]
mod proxied_call;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use sip::endpoint::{Decision, Endpoint, EndpointEffect};
use sip::transport::{Packet, Source, Transport};
use stdx::Instant;

use measure::{PAUSE, report, timed};
use proxied_call::{ALICE, BOB, BODY, START, US, answer, request};

const STEPS: [&str; 7] = ["INVITE", "180", "200", "ACK", "BYE", "200 to BYE", "timers"];

struct Shard {
    endpoint: Endpoint,
    now: Instant,
    effects: Vec<EndpointEffect>,
    sent: Vec<Bytes>,
}

fn main() {
    let settings = sim::settings(ShardAddress { life: Life(1), shard: 0 }, &[US.parse().unwrap()]);
    let mut shard =
        Shard { endpoint: Endpoint::new(settings, START), now: START, effects: Vec::new(), sent: Vec::new() };
    report("a call", STEPS, |number| shard.call(number));
}

impl Shard {
    fn call(&mut self, number: u64) -> [Duration; STEPS.len()] {
        let service = format!("service@{US}");
        let invite_time = self.receive(ALICE, request("INVITE", &service, number, "", BODY));
        let invite = self.sent.remove(0);
        let ringing_time = self.receive(BOB, answer(&invite, 180, ""));
        let answer_time = self.receive(BOB, answer(&invite, 200, BODY));
        let ack_time = self.receive(ALICE, request("ACK", &service, number, "", ""));
        assert_eq!(self.sent.len(), 1);
        let bye_time = self.receive(ALICE, request("BYE", &service, number, "", ""));
        let bye = self.sent.remove(0);
        let end_time = self.receive(BOB, answer(&bye, 200, ""));
        assert_eq!(self.sent.len(), 1);
        self.now = self.now + PAUSE;
        let timers = timed(|| self.endpoint.expire(self.now, &mut self.effects));
        self.effects.clear();
        [invite_time, ringing_time, answer_time, ack_time, bye_time, end_time, timers]
    }

    /// Gives the endpoint one datagram, and the plan's answer if it asks. The time that both take.
    fn receive(&mut self, from: &str, text: String) -> Duration {
        let remote: SocketAddr = from.parse().unwrap();
        let source = Source { transport: Transport::Udp, local: US.parse().unwrap(), remote, flow: None };
        let packet = Packet { bytes: text.into(), source };
        self.sent.clear();
        timed(|| {
            self.endpoint.handle_packet(self.now, packet, &mut self.effects);
            while let Some(effect) = self.effects.pop() {
                match effect {
                    EndpointEffect::Transmit(transmit) => self.sent.push(transmit.bytes),
                    EndpointEffect::Plan { id, .. } => {
                        let decision = Decision::Targets(vec![vec![format!("sip:service@{BOB}").into()]]);
                        self.endpoint.handle_plan(self.now, id, decision, &mut self.effects);
                    }
                    _ => {}
                }
            }
        })
    }
}
