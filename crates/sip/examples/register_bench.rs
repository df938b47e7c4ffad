//! The cost of a REGISTER by digest at the endpoint and the router, without sockets and store: nanoseconds by message, and bytes
//! allocated. `cargo run --release -p sip --example register_bench`; a number of registrations instead of 80,000 warms up less,
//! for a slow look at it (`valgrind --tool=callgrind`).
//!
//! REGISTER, 401, REGISTER with credentials, 200 of `bench/scenarios/register.xml`, as `bench/sip/run --register` sends them, each
//! under a Call-ID of its own; after the first thousand each refreshes a binding. The store acknowledges each write at once.

#![expect(clippy::unwrap_used, reason = "a benchmark that panics has measured nothing")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Effect, Life, Router, RouterSettings, ShardAddress};
use sim::Counting;
use sip::digest::{Ha1s, Hash};
use sip::endpoint::{Account, Endpoint, EndpointEffect, EndpointSettings};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const US: &str = "192.0.2.1:5060";
const PHONES: &str = "192.0.2.10:5060";
const DOMAIN: &str = "example.test";
const EDGE: ShardAddress = ShardAddress { life: Life(1), shard: 0 };
const START: Instant = Instant::from_unix_seconds(1_800_000_000);

const STEPS: [&str; 3] = ["challenge", "REGISTER", "timers"];
/// The time between two registrations at 2,000 a second.
const PAUSE: Duration = Duration::from_micros(500);
/// Registrations before the first measurement: for longer than a transaction lingers, so that as many end as begin.
const WARM_UP: u64 = 80_000;
const BATCHES: usize = 15;
const REGISTRATIONS: u64 = 4_000;
/// So few that a short run refreshes bindings, too.
const ACCOUNTS: u64 = 1_000;

struct Shard {
    endpoint: Endpoint,
    router: Router,
    now: Instant,
    effects: Vec<EndpointEffect>,
    of_router: Vec<Effect>,
    /// The digests of the password of all accounts, which the store has.
    ha1s: Ha1s,
    sent: Vec<Bytes>,
    rows: i64,
    spent: [Duration; STEPS.len()],
}

fn main() {
    let settings = sim::settings(EDGE, &[US.parse().unwrap()]);
    let mut shard = Shard::new(settings);
    let mut number = 0;
    let mut batch = |shard: &mut Shard, registrations: u64| {
        shard.spent = [Duration::ZERO; STEPS.len()];
        for _ in 0..registrations {
            number += 1;
            shard.register(number);
        }
        shard.spent
    };
    let warm_up = std::env::args().nth(1).map_or(WARM_UP, |number| number.parse().unwrap());
    batch(&mut shard, warm_up);
    let registrations = warm_up.min(REGISTRATIONS);
    let mut least = [Duration::MAX; STEPS.len()];
    for _ in 0..BATCHES {
        let spent = batch(&mut shard, registrations);
        for (least, spent) in least.iter_mut().zip(spent) {
            *least = spent.min(*least);
        }
    }
    let nanoseconds = |time: Duration| time.as_secs_f64() * 1e9 / registrations as f64;
    for (step, time) in STEPS.iter().zip(least) {
        println!("{step:<16}{:>8.0} ns", nanoseconds(time));
    }
    println!("{:<16}{:>8.0} ns", "a registration", nanoseconds(least.iter().sum()));
    println!("{} bytes allocated a registration", shard.allocated(number + 1));
}

impl Shard {
    fn new(mut settings: EndpointSettings) -> Self {
        settings.digest.hashes = vec![Hash::Md5];
        Shard {
            endpoint: Endpoint::new(settings, START),
            router: Router::new(RouterSettings::default(), [4; 16], START),
            now: START,
            effects: Vec::new(),
            of_router: Vec::new(),
            ha1s: Ha1s::compute("phone", DOMAIN, "secret"),
            sent: Vec::new(),
            rows: 0,
            spent: [Duration::ZERO; STEPS.len()],
        }
    }

    fn register(&mut self, number: u64) {
        self.receive(0, request(number, 1, ""));
        let challenge = Message::parse(self.sent.remove(0)).unwrap();
        assert_eq!(challenge.status(), 401);
        let nonce = nonce_of(&challenge);
        self.receive(1, request(number, 2, &self.credentials(number, &nonce)));
        assert_eq!(Message::parse(self.sent.remove(0)).unwrap().status(), 200);
        self.now = self.now + PAUSE;
        let now = self.now;
        self.measure(2, |shard| {
            shard.endpoint.expire(now, &mut shard.effects);
            shard.router.expire(now, &mut shard.of_router);
        });
        self.effects.clear();
        self.of_router.clear();
    }

    /// MD5 with `qop=auth`: H over three parts with colons between them is what an HA1 is.
    fn credentials(&self, number: u64, nonce: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let hash = |a: &str, b: &str, c: &str| hex(&Ha1s::compute(a, b, c).md5);
        let ha2 = hash("REGISTER", "sip", DOMAIN);
        let response = hash(&hex(&self.ha1s.md5), &format!("{nonce}:00000001:5c7c3f:auth"), &ha2);
        format!(
            "Authorization: Digest username=\"{}\",realm=\"{DOMAIN}\",cnonce=\"5c7c3f\",nc=00000001,qop=auth,\
             uri=\"sip:{DOMAIN}\",nonce=\"{nonce}\",response=\"{response}\",algorithm=MD5\r\n",
            user(number)
        )
    }

    /// Gives the endpoint one datagram, and the answers of store and router.
    fn receive(&mut self, step: usize, text: String) {
        let remote: SocketAddr = PHONES.parse().unwrap();
        let source = Source { transport: Transport::Udp, local: US.parse().unwrap(), remote, flow: None };
        let packet = Packet { bytes: text.into(), source };
        self.sent.clear();
        self.measure(step, |shard| {
            shard.endpoint.handle_packet(shard.now, packet, &mut shard.effects);
            while let Some(effect) = shard.effects.pop() {
                shard.perform(effect);
            }
        });
    }

    fn perform(&mut self, effect: EndpointEffect) {
        let now = self.now;
        match effect {
            EndpointEffect::Transmit(transmit) => self.sent.push(transmit.bytes),
            EndpointEffect::Account { id, user, domain } => {
                let aor = format!("{user}@{domain}").into();
                let ha1s = self.ha1s.clone();
                let account = Account { aor, ha1s, disabled: false, max_contacts: 5, limits: None };
                self.endpoint.handle_account(now, id, Ok(Some(account)), &mut self.effects);
            }
            EndpointEffect::Ask { id, query } => {
                self.router.handle_query(now, EDGE, id, query, &mut self.of_router);
                while let Some(effect) = self.of_router.pop() {
                    self.perform_of_router(effect);
                }
            }
            _ => {}
        }
    }

    fn perform_of_router(&mut self, effect: Effect) {
        match effect {
            Effect::WriteBinding { ticket, .. } => {
                self.rows += 1;
                self.router.handle_written(self.now, ticket, Ok(self.rows), &mut self.of_router);
            }
            Effect::Answer { id, answer, .. } => {
                self.endpoint.handle_answer(self.now, id, answer, &mut self.effects);
            }
            _ => {}
        }
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
        self.register(number);
        ALLOCATOR.total() - before
    }
}

fn user(number: u64) -> String {
    format!("u{}", number % ACCOUNTS)
}

/// A REGISTER of `bench/scenarios/register.xml`; `lines` are more header lines.
fn request(number: u64, cseq: u32, lines: &str) -> String {
    let user = user(number);
    format!(
        "REGISTER sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/UDP {PHONES};branch=z9hG4bK-4711-{number}-{cseq}\r\n\
         From: <sip:{user}@{DOMAIN}>;tag=4711r{number}\r\nTo: <sip:{user}@{DOMAIN}>\r\n\
         Call-ID: {number}-4711@192.0.2.10\r\nCSeq: {cseq} REGISTER\r\nContact: <sip:{user}@192.0.2.10:6000>\r\n{lines}\
         Max-Forwards: 70\r\nExpires: 3600\r\nUser-Agent: SIPp\r\nContent-Length: 0\r\n\r\n"
    )
}

fn nonce_of(challenge: &Message) -> String {
    let line = String::from_utf8_lossy(challenge.header(Header::WwwAuthenticate).unwrap()).into_owned();
    line.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}
