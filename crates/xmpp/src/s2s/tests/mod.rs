//! Worlds of servers with wires between them, in virtual time. A server has two shards; a wire gives bytes in pieces, by
//! seed, and may be cut at any point.

mod bad;
mod lost;
mod own;
mod posh;
mod stanzas;
mod table;
mod ways;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;
use stdx::rng::Rng;

use super::*;
use crate::{Life, ns};

const START: Instant = Instant::from_unix_seconds(1_800_000_000);
const SHARDS: u16 = 2;

fn policy() -> Policy {
    Policy { admission: Admission::Open, require_tls: true, ..Policy::default() }
}

fn settings(domains: &[&str], secret: u8) -> S2sSettings {
    S2sSettings {
        domains: domains.iter().map(|name| Box::from(*name)).collect(),
        tls: true,
        policy: policy(),
        max_stanza: crate::limits::STANZA,
        connect: Duration::from_secs(20),
        authorize: Duration::from_secs(30),
        idle: Duration::from_secs(600),
        secret: [secret; 32],
        posh: false,
    }
}

/// The shard that owns a domain.
fn owner(domain: &str) -> u16 {
    domain.bytes().fold(0, |sum: u16, byte| sum.wrapping_add(byte.into())) % SHARDS
}

/// One server.
struct Node {
    shards: Vec<Servers>,
    /// The certificate that other servers see.
    certificate: Option<Certificate>,
    /// The hashes of a certificate that no authority signed.
    presented: Option<CertificateHashes>,
    delivered: Vec<Element>,
    notes: Vec<LogEvent>,
}

/// A connection, by node, shard and number.
type End = (usize, u16, u64);

#[derive(Default)]
struct Link {
    ends: Vec<End>,
    /// For the end of that index.
    bytes: [VecDeque<u8>; 2],
    /// All that was ever written for it.
    written: [Vec<u8>; 2],
    securing: [bool; 2],
    closed: [bool; 2],
    is_gone: bool,
}

/// The answer of a web server to a fetch.
#[derive(Clone, Debug)]
enum WebAnswer {
    Body(String),
    Down,
    /// It does not answer.
    Silent,
}

/// The target of a name.
#[derive(Clone, Copy)]
enum LinkEnd {
    Node(usize),
    /// Connections time out.
    Silent,
}

struct FederationWorld {
    now: Instant,
    rng: Rng,
    nodes: Vec<Node>,
    wires: Vec<Link>,
    places: BTreeMap<String, LinkEnd>,
    /// Ids of stanzas that were on a wire when it was cut.
    lost: BTreeSet<String>,
    /// The outcomes of each stanza that was said, by its number.
    outcomes: Vec<Vec<Outcome>>,
    dialled: usize,
    /// The answers of web servers, by address; others are down.
    web: BTreeMap<String, WebAnswer>,
    /// The fetches of each node's shards.
    fetches: Vec<(usize, u16, PoshFetch)>,
}

impl FederationWorld {
    /// One node for each list of domains.
    fn new(seed: u64, nodes: &[&[&str]]) -> FederationWorld {
        let mut world = FederationWorld {
            now: START,
            rng: Rng::seeded(seed),
            nodes: Vec::new(),
            wires: Vec::new(),
            places: BTreeMap::new(),
            lost: BTreeSet::new(),
            outcomes: Vec::new(),
            dialled: 0,
            web: BTreeMap::new(),
            fetches: Vec::new(),
        };
        for (index, domains) in nodes.iter().enumerate() {
            for domain in *domains {
                world.places.insert((*domain).into(), LinkEnd::Node(index));
            }
            world.add(&settings(domains, u8::try_from(index).unwrap()));
        }
        world
    }

    fn add(&mut self, settings: &S2sSettings) {
        let shards = (0..SHARDS).map(|shard| {
            let mut seed = [shard.to_le_bytes()[0]; 32];
            seed[0] = u8::try_from(self.nodes.len()).unwrap();
            Servers::new(Arc::new(settings.clone()), ShardAddress::new(Life(0), shard), seed)
        });
        let shards = shards.collect();
        self.nodes.push(Node {
            shards,
            certificate: None,
            presented: None,
            delivered: Vec::new(),
            notes: Vec::new(),
        });
    }

    /// Other settings, before anything happens.
    fn set(&mut self, node: usize, change: impl Fn(&mut S2sSettings)) {
        let mut settings = self.nodes[node].shards[0].settings().clone();
        change(&mut settings);
        let settings = Arc::new(settings);
        for shard in 0..SHARDS {
            self.tell(node, shard, |servers, now, out| servers.reload(now, &settings, out));
        }
    }

    fn tell(&mut self, node: usize, shard: u16, act: impl FnOnce(&mut Servers, Instant, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        act(&mut self.nodes[node].shards[usize::from(shard)], self.now, &mut effects);
        for effect in effects {
            self.perform((node, shard), effect);
        }
    }

    /// A stanza of one of a node's users.
    fn say(&mut self, node: usize, stanza: Element) {
        let to = crate::stanza::to(&stanza).unwrap().unwrap();
        let shard = owner(to.domain());
        let receipt = Receipt {
            origin: ShardAddress::new(Life(0), shard),
            bucket: cluster::Bucket::of(to.domain()),
            number: self.outcomes.len() as u64,
            run: 1,
            index: 0,
        };
        self.outcomes.push(Vec::new());
        let stanza = OutboundStanza { element: Box::new(stanza), receipt: Some(receipt) };
        self.tell(node, shard, |servers, now, out| servers.handle_outbound(now, stanza, out));
    }

    fn message(&mut self, node: usize, from: &str, to: &str, id: &str) {
        let body = Element::new("body", ns::CLIENT).text("hello");
        let message = Element::new("message", ns::CLIENT).with("from", from).with("to", to).with("id", id);
        self.say(node, message.child(body));
    }

    fn perform(&mut self, (node, shard): (usize, u16), effect: Effect) {
        match effect {
            Effect::Connect(connect) => self.connect((node, shard), &connect),
            Effect::Write { number, bytes } => {
                if let Some((wire, end)) = self.find((node, shard, number)) {
                    self.wires[wire].bytes[1 - end].extend(&bytes);
                    self.wires[wire].written[1 - end].extend(&bytes);
                }
                self.tell(node, shard, |servers, _, out| servers.handle_written(number, bytes.len(), out));
            }
            Effect::StartTls { number } => {
                if let Some((wire, end)) = self.find((node, shard, number)) {
                    self.wires[wire].securing[end] = true;
                }
            }
            Effect::Close { number } => {
                if let Some((wire, end)) = self.find((node, shard, number)) {
                    self.wires[wire].closed[end] = true;
                }
            }
            Effect::Deliver(element) => self.nodes[node].delivered.push(*element),
            Effect::FetchPosh(fetch) => self.fetch((node, shard), &fetch),
            Effect::PoshFailed { .. } => {}
            Effect::Note(note) => self.nodes[node].notes.push(note),
            Effect::Outcome(receipt, outcome) => {
                self.outcomes[usize::try_from(receipt.number).unwrap()].push(outcome);
            }
            Effect::Send(letter) => {
                let shard = match letter.recipient() {
                    Recipient::Owner(domain) => owner(&domain),
                    Recipient::Shard(address) => address.shard,
                };
                self.tell(node, shard, |servers, now, out| servers.handle_shard_message(now, letter, out));
            }
        }
    }

    fn fetch(&mut self, (node, shard): (usize, u16), fetch: &PoshFetch) {
        self.fetches.push((node, shard, fetch.clone()));
        let result = match self.web.get(&*fetch.url) {
            Some(WebAnswer::Body(body)) => Ok(body.clone().into_bytes()),
            Some(WebAnswer::Silent) => return,
            Some(WebAnswer::Down) | None => Err(PoshFailure::Failed("connection refused".into())),
        };
        self.tell(node, shard, |servers, now, out| servers.handle_posh(now, fetch, result, out));
    }

    fn find(&self, end: End) -> Option<(usize, usize)> {
        self.wires.iter().enumerate().find_map(|(wire, known)| {
            let at = known.ends.iter().position(|known| *known == end)?;
            (!known.is_gone).then_some((wire, at))
        })
    }

    fn connect(&mut self, (node, shard): (usize, u16), connect: &Connect) {
        self.dialled += 1;
        let number = connect.number;
        match self.places.get(&*connect.pair.remote).copied() {
            Some(LinkEnd::Node(other)) => {
                let there = u16::try_from(self.rng.below(SHARDS.into())).unwrap();
                let servers = &mut self.nodes[other].shards[usize::from(there)];
                let accepted = servers.accept(self.now, Security::default());
                let ends = vec![(node, shard, number), (other, there, accepted)];
                self.wires.push(Link { ends, ..Link::default() });
                self.tell(node, shard, |servers, now, out| {
                    servers.handle_connected(now, number, Security::default(), None, out);
                });
            }
            Some(LinkEnd::Silent) => {}
            None => {
                let failure = Failure::new(Condition::RemoteServerNotFound, "no such name");
                self.tell(node, shard, |servers, now, out| servers.handle_broken(now, number, failure, out));
            }
        }
    }

    /// One thing that can happen now. False: nothing.
    fn step(&mut self) -> bool {
        let mut can = Vec::new();
        for (wire, known) in self.wires.iter().enumerate().filter(|(_, wire)| !wire.is_gone) {
            let is_dry = known.bytes.iter().all(VecDeque::is_empty);
            can.extend((0..2).filter(|end| !known.bytes[*end].is_empty()).map(|end| (wire, end)));
            if is_dry && (known.securing == [true; 2] || known.closed.contains(&true)) {
                can.push((wire, 2));
            }
        }
        if can.is_empty() {
            return false;
        }
        let (wire, end) = can[usize::try_from(self.rng.below(can.len() as u64)).unwrap()];
        match end {
            2 if self.wires[wire].closed.contains(&true) => self.hang_up(wire),
            2 => self.secure(wire),
            _ => self.give(wire, end),
        }
        true
    }

    fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 100_000, "it never ends");
        }
    }

    fn give(&mut self, wire: usize, end: usize) {
        let known = &mut self.wires[wire];
        let count = 1 + usize::try_from(self.rng.below(known.bytes[end].len() as u64)).unwrap();
        let bytes: Vec<u8> = known.bytes[end].drain(..count).collect();
        let (node, shard, number) = known.ends[end];
        if !known.closed[end] {
            self.tell(node, shard, |servers, now, out| servers.handle_bytes(now, number, &bytes, out));
        }
    }

    fn secure(&mut self, wire: usize) {
        self.wires[wire].securing = [false; 2];
        let ends = self.wires[wire].ends.clone();
        for ((node, shard, number), (other, ..)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let certificate = self.nodes[other].certificate.clone();
            let presented = self.nodes[other].presented.clone().map(Box::new);
            let security = Security { encrypted: true, certificate, presented };
            self.tell(node, shard, |servers, now, out| servers.handle_secured(now, number, security, out));
        }
    }

    fn hang_up(&mut self, wire: usize) {
        self.wires[wire].is_gone = true;
        for (node, shard, number) in self.wires[wire].ends.clone() {
            let failure = Failure::new(Condition::RemoteServerTimeout, "the connection broke");
            self.tell(node, shard, |servers, now, out| servers.handle_broken(now, number, failure, out));
        }
    }

    /// All that is on the wire is lost.
    fn cut(&mut self, wire: usize) {
        for written in &self.wires[wire].written {
            let text = String::from_utf8_lossy(written).into_owned();
            let ids = text.split("<message ").skip(1).filter_map(|rest| {
                let (_, rest) = rest.split_once("id='")?;
                Some(rest.split_once('\'')?.0.to_owned())
            });
            self.lost.extend(ids);
        }
        self.hang_up(wire);
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.run();
            let shards = self.nodes.iter().flat_map(|node| &node.shards);
            let next = shards.filter_map(Servers::deadline).min().filter(|next| *next <= until);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            for node in 0..self.nodes.len() {
                for shard in 0..SHARDS {
                    self.tell(node, shard, |servers, now, out| servers.expire(now, out));
                }
            }
        }
        self.now = until;
    }

    fn certify(&mut self, node: usize, name: &str) {
        self.nodes[node].certificate = Some(Certificate::of_dns(name));
    }

    /// The stanzas that a node's users received: their ids, and the conditions of errors.
    fn got(&self, node: usize) -> Vec<String> {
        let told = |element: &Element| {
            let id = element.attr("id").unwrap_or_default();
            let error = element.get("error", ns::CLIENT).and_then(Element::first);
            error.map_or(id.to_owned(), |error| format!("{id} {}", error.name()))
        };
        self.nodes[node].delivered.iter().map(told).collect()
    }

    fn proofs(&self, node: usize) -> Vec<S2sStreamEvent> {
        self.nodes[node].notes.iter().map(|note| note.what.clone()).collect()
    }

    fn counts(&self, node: usize) -> Vec<Counts> {
        self.nodes[node].shards.iter().map(Servers::counts).collect()
    }

    fn sum(&self, node: usize, of: impl Fn(&Counts) -> u64) -> u64 {
        self.counts(node).iter().map(of).sum()
    }
}
