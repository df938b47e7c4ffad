//! The cost of a REGISTER by digest at the endpoint and the router, without sockets and store: nanoseconds by message, and bytes
//! allocated. `cargo run --release -p sip --example register_bench`; a number of registrations instead of 80,000 warms up less,
//! for a slow look at it (`valgrind --tool=callgrind`).
//!
//! REGISTER, 401, REGISTER with credentials, 200 of `bench/scenarios/register.xml`, as `bench/sip/run --register` sends them, each
//! under a Call-ID of its own; after the first thousand each refreshes a binding. The store acknowledges each write at once.

#![expect(clippy::unwrap_used, reason = "a benchmark that panics has measured nothing")]

mod measure;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Effect, Life, Router, RouterSettings, ShardAddress};
use sip::digest::{Ha1s, Hash};
use sip::endpoint::{Account, Endpoint, EndpointEffect, EndpointSettings};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Header, Message};
use stdx::Instant;

use measure::{PAUSE, report, timed};

const US: &str = "192.0.2.1:5060";
const PHONES: &str = "192.0.2.10:5060";
const DOMAIN: &str = "example.test";
const EDGE: ShardAddress = ShardAddress { life: Life(1), shard: 0 };
const START: Instant = Instant::from_unix_seconds(1_800_000_000);

const STEPS: [&str; 3] = ["challenge", "REGISTER", "timers"];
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
}

fn main() {
    let settings = sim::settings(EDGE, &[US.parse().unwrap()]);
    let mut shard = Shard::new(settings);
    report("a registration", STEPS, |number| shard.register(number));
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
        }
    }

    fn register(&mut self, number: u64) -> [Duration; STEPS.len()] {
        let challenge_time = self.receive(request(number, 1, ""));
        let challenge = Message::parse(self.sent.remove(0)).unwrap();
        assert_eq!(challenge.status(), 401);
        let nonce = nonce_of(&challenge);
        let register_time = self.receive(request(number, 2, &self.credentials(number, &nonce)));
        assert_eq!(Message::parse(self.sent.remove(0)).unwrap().status(), 200);
        self.now = self.now + PAUSE;
        let timers = timed(|| {
            self.endpoint.expire(self.now, &mut self.effects);
            self.router.expire(self.now, &mut self.of_router);
        });
        self.effects.clear();
        self.of_router.clear();
        [challenge_time, register_time, timers]
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

    /// Gives the endpoint one datagram, and the answers of store and router. The time that it takes.
    fn receive(&mut self, text: String) -> Duration {
        let remote: SocketAddr = PHONES.parse().unwrap();
        let source = Source { transport: Transport::Udp, local: US.parse().unwrap(), remote, flow: None };
        let packet = Packet { bytes: text.into(), source };
        self.sent.clear();
        timed(|| {
            self.endpoint.handle_packet(self.now, packet, &mut self.effects);
            while let Some(effect) = self.effects.pop() {
                self.perform(effect);
            }
        })
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
