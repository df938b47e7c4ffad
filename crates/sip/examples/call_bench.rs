//! The cost of a proxied call at the endpoint, without sockets: nanoseconds by message, and bytes allocated.
//! `cargo run --release -p sip --example call_bench`; a number of calls instead of 80,000 warms up less, for a slow look at it
//! (`valgrind --tool=callgrind`).
//!
//! INVITE, 180, 200, ACK, BYE, 200 of SIPp's built-in scenario, whose ACK and BYE carry no Route, as `bench/sip/run` sends them.

#![expect(clippy::unwrap_used, reason = "a benchmark that panics has measured nothing")]

#[path = "../tests/proxied_call/mod.rs"]
mod proxied_call;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use sim::Counting;
use sip::endpoint::{Decision, Endpoint, EndpointEffect};
use sip::transport::{Packet, Source, Transport};
use stdx::Instant;

use proxied_call::{ALICE, BOB, BODY, START, US, answer, request};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const STEPS: [&str; 7] = ["INVITE", "180", "200", "ACK", "BYE", "200 to BYE", "timers"];
/// The time between two calls at 2,000 a second.
const PAUSE: Duration = Duration::from_micros(500);
/// Calls before the first measurement: for longer than a transaction lingers, so that as many end as begin.
const WARM_UP: u64 = 80_000;
const BATCHES: usize = 15;
const CALLS: u64 = 4_000;

struct Shard {
    endpoint: Endpoint,
    now: Instant,
    effects: Vec<EndpointEffect>,
    sent: Vec<Bytes>,
    spent: [Duration; STEPS.len()],
}

fn main() {
    let settings = sim::settings(ShardAddress { life: Life(1), shard: 0 }, &[US.parse().unwrap()]);
    let mut shard = Shard {
        endpoint: Endpoint::new(settings, START),
        now: START,
        effects: Vec::new(),
        sent: Vec::new(),
        spent: [Duration::ZERO; STEPS.len()],
    };
    let mut number = 0;
    let mut batch = |shard: &mut Shard, calls: u64| {
        shard.spent = [Duration::ZERO; STEPS.len()];
        for _ in 0..calls {
            number += 1;
            shard.call(number);
        }
        shard.spent
    };
    let warm_up = std::env::args().nth(1).map_or(WARM_UP, |calls| calls.parse().unwrap());
    batch(&mut shard, warm_up);
    let calls = warm_up.min(CALLS);
    let mut least = [Duration::MAX; STEPS.len()];
    for _ in 0..BATCHES {
        let spent = batch(&mut shard, calls);
        for (least, spent) in least.iter_mut().zip(spent) {
            *least = spent.min(*least);
        }
    }
    let nanoseconds = |time: Duration| time.as_secs_f64() * 1e9 / calls as f64;
    for (step, time) in STEPS.iter().zip(least) {
        println!("{step:<12}{:>8.0} ns", nanoseconds(time));
    }
    println!("{:<12}{:>8.0} ns", "a call", nanoseconds(least.iter().sum()));
    println!("{} bytes allocated a call", shard.allocated(number + 1));
}

impl Shard {
    fn call(&mut self, number: u64) {
        let service = format!("service@{US}");
        self.receive(0, ALICE, request("INVITE", &service, number, "", BODY));
        let invite = self.sent.remove(0);
        self.receive(1, BOB, answer(&invite, 180, ""));
        self.receive(2, BOB, answer(&invite, 200, BODY));
        self.receive(3, ALICE, request("ACK", &service, number, "", ""));
        assert_eq!(self.sent.len(), 1);
        self.receive(4, ALICE, request("BYE", &service, number, "", ""));
        let bye = self.sent.remove(0);
        self.receive(5, BOB, answer(&bye, 200, ""));
        assert_eq!(self.sent.len(), 1);
        self.now = self.now + PAUSE;
        let now = self.now;
        self.measure(6, |shard| shard.endpoint.expire(now, &mut shard.effects));
        self.effects.clear();
    }

    /// Gives the endpoint one datagram, and the plan's answer if it asks.
    fn receive(&mut self, step: usize, from: &str, text: String) {
        let remote: SocketAddr = from.parse().unwrap();
        let source = Source { transport: Transport::Udp, local: US.parse().unwrap(), remote, flow: None };
        let packet = Packet { bytes: text.into(), source };
        self.sent.clear();
        self.measure(step, |shard| {
            shard.endpoint.handle_packet(shard.now, packet, &mut shard.effects);
            while let Some(effect) = shard.effects.pop() {
                match effect {
                    EndpointEffect::Transmit(transmit) => shard.sent.push(transmit.bytes),
                    EndpointEffect::Plan { id, .. } => {
                        let decision = Decision::Targets(vec![vec![format!("sip:service@{BOB}").into()]]);
                        shard.endpoint.handle_plan(shard.now, id, decision, &mut shard.effects);
                    }
                    _ => {}
                }
            }
        });
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time; nothing links it")]
    fn measure(&mut self, step: usize, work: impl FnOnce(&mut Shard)) {
        let start = std::time::Instant::now();
        work(self);
        self.spent[step] += start.elapsed();
    }

    /// Without what the datagrams themselves take.
    fn allocated(&mut self, number: u64) -> usize {
        let before = ALLOCATOR.total();
        self.call(number);
        ALLOCATOR.total() - before
    }
}
