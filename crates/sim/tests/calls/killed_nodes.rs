//! The nodes of a farm of three at one address, one of which is killed at any step and started again as another life. Each packet
//! arrives at any node that lives and goes to the worker of its call, as `server::shard::selector` and `server::shard::farm` have it:
//! messages between nodes take time, a link gives back what a dead process has not acknowledged, and each node learns of a death, of a new
//! life and of a moved call slot at a time of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::Life;
use sim::{Datagram, Node};
use sip::endpoint::{SharedResponse, handle_shared_response, share_moved_calls};
use sip::transport::Packet;
use stdx::Instant;
use stdx::rng::Rng;

use crate::farm_calls::{named_life, settings};
use crate::server::Server;
use crate::to_bob;

/// The nodes at first. One more is the life that the killed one is started as.
const NODES: usize = 3;
const SUCCESSOR: usize = NODES;

/// A message over a link.
const HOP: Duration = Duration::from_millis(1);
/// A link gives back messages that a process has received within this time before its death.
const UNACKNOWLEDGED: Duration = Duration::from_millis(60);
/// The time from a death to the end of the links to it, and to the first connection that its host refuses.
const LINK_ENDS: Duration = Duration::from_millis(2);
const REFUSAL: Duration = Duration::from_millis(100);
/// The time from a death to the map that says so, to the successor's first packet, and to its call slots; each node has the news up to `LATE` later.
const DETECTION: Duration = Duration::from_millis(1_650);
const JOIN: Duration = Duration::from_millis(2_400);
const MOVE: Duration = Duration::from_millis(2_900);
const LATE: u64 = 500;
/// The time for which two workers of a moved slot share responses: `server::limits::SLOTS_MOVE`.
const SLOTS_MOVE: Duration = Duration::from_secs(5);

/// The events at the nodes besides packets from the network.
enum Event {
    /// A message reaches the node `to`.
    Message {
        from: usize,
        to: usize,
        message: Message,
    },
    /// The node's links to the dead one have ended.
    LinkEnds(usize),
    Refused(usize),
    Death(usize),
    Joins,
    /// The node hears of the successor.
    Joined(usize),
    /// The node adopts the map that gives the call slot to the successor.
    Moved(usize),
}

#[derive(Clone)]
enum Message {
    /// The nodes that have had it and could not give it to the worker.
    Packet {
        packet: Packet,
        worker: usize,
        passed: Vec<usize>,
    },
    Shared(SharedResponse),
}

struct Process {
    server: Server,
    lives: bool,
    /// The other lives of the farm, as this node sees it.
    peers: Vec<usize>,
    worker: usize,
    /// The worker before, until that time.
    previous: Option<(usize, Instant)>,
    has_links_to_dead: bool,
    knows_end: bool,
}

/// The death that a world has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) victim: usize,
    /// The step before which it dies; none: [`KilledNodes::kill`] is called.
    pub(crate) step: Option<usize>,
    /// It is started again, and gets the call slot.
    pub(crate) returns: bool,
    /// The messages that it had received, and not acknowledged, come back to the senders.
    pub(crate) comes_back: bool,
}

pub(crate) struct KilledNodes {
    processes: Vec<Process>,
    death: Death,
    died: Option<Instant>,
    /// The time of each step: a packet, a message or a timer of a node, and all that a node sends.
    pub(crate) steps: Vec<Instant>,
    agenda: BTreeMap<(Instant, usize), Event>,
    sequence: usize,
    /// Messages that the victim has received, until it has acknowledged them.
    unacknowledged: Vec<(Instant, usize, Message)>,
    rng: Rng,
}

impl KilledNodes {
    pub(crate) fn new(now: Instant, seed: u64, worker: usize, death: Death) -> KilledNodes {
        let process = |node: usize| {
            Process::new(now, node, worker, (0..NODES).filter(|other| *other != node).collect())
        };
        KilledNodes {
            processes: (0..NODES).map(process).collect(),
            death,
            died: None,
            steps: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
            unacknowledged: Vec::new(),
            rng: Rng::seeded(seed),
        }
    }

    pub(crate) fn kill(&mut self, now: Instant) {
        let victim = self.death.victim;
        self.died = Some(now);
        self.processes[victim].lives = false;
        for node in (0..NODES).filter(|node| *node != victim) {
            self.schedule(now + LINK_ENDS, Event::LinkEnds(node));
            self.schedule(now + REFUSAL, Event::Refused(node));
            let at = now + DETECTION + self.late();
            self.schedule(at, Event::Death(node));
            if self.death.returns {
                let at = now + JOIN + self.late();
                self.schedule(at, Event::Joined(node));
                let at = now + MOVE + self.late();
                self.schedule(at, Event::Moved(node));
            }
        }
        if self.death.returns {
            self.schedule(now + JOIN, Event::Joins);
            let at = now + MOVE + self.late();
            self.schedule(at, Event::Moved(SUCCESSOR));
        }
    }

    /// The endpoints that live.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Server> {
        self.processes.iter().filter(|process| process.lives).map(|process| &process.server)
    }

    fn late(&mut self) -> Duration {
        Duration::from_millis(self.rng.next_u64() % LATE)
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.agenda.insert((at, self.sequence), event);
    }

    /// The next step begins: the victim may die before it.
    fn step(&mut self, now: Instant) {
        if self.death.step == Some(self.steps.len()) && self.died.is_none() {
            self.kill(now);
        }
        self.steps.push(now);
    }

    /// A node that gets a packet from the network.
    fn arrival(&mut self) -> usize {
        let live: Vec<usize> = (0..self.processes.len()).filter(|node| self.processes[*node].lives).collect();
        live[usize::try_from(self.rng.next_u64() % live.len() as u64).unwrap()]
    }

    fn has_link(&self, from: usize, to: usize) -> bool {
        let process = &self.processes[from];
        let is_dead = to == self.death.victim && self.died.is_some();
        process.peers.contains(&to) && (!is_dead || process.has_links_to_dead)
    }

    /// The worker by the rule of `ShardSelector::of_farm`.
    fn worker_of(&self, at: usize, bytes: &[u8]) -> usize {
        let process = &self.processes[at];
        match named_life(bytes).map(|life| life - 1) {
            Some(named) if named == at || process.peers.contains(&named) => named,
            _ => process.worker,
        }
    }

    /// Does what `farm::relay` and `farm::pass_on` do.
    fn relay(
        &mut self,
        now: Instant,
        at: usize,
        worker: usize,
        packet: Packet,
        passed: Vec<usize>,
        out: &mut Vec<Datagram>,
    ) {
        if self.has_link(at, worker) && !passed.contains(&at) {
            let message = Message::Packet { packet, worker, passed };
            return self.schedule(now + HOP, Event::Message { from: at, to: worker, message });
        }
        let mut passed = passed;
        if !passed.contains(&at) {
            passed.push(at);
        }
        let process = &self.processes[at];
        let has_ended = worker == self.death.victim && process.knows_end;
        let may_pass_on =
            |node: &usize| *node != worker && !passed.contains(node) && self.has_link(at, *node);
        let third = (0..self.processes.len()).find(may_pass_on);
        match third.filter(|_| process.peers.contains(&worker) && !has_ended) {
            Some(to) => {
                let message = Message::Packet { packet, worker, passed };
                self.schedule(now + HOP, Event::Message { from: at, to, message });
            }
            None => self.work(now, at, packet, true, out),
        }
    }

    /// Does what `farm::work` and `farm::work_off_slot` do.
    fn work(&mut self, now: Instant, at: usize, packet: Packet, is_off_slot: bool, out: &mut Vec<Datagram>) {
        let process = &mut self.processes[at];
        let may_be_twice = process.previous.is_some_and(|(previous, until)| {
            now < until && (previous == at || process.peers.contains(&previous))
        });
        process.server.is_off_slot = is_off_slot || may_be_twice;
        let mut sent = Vec::new();
        process.server.handle_packet(now, packet, &mut sent);
        self.send(now, at, sent, out);
    }

    /// Sends what a node has made, one after the other: it may die in between.
    fn send(&mut self, now: Instant, at: usize, sent: Vec<Datagram>, out: &mut Vec<Datagram>) {
        for datagram in sent {
            self.step(now);
            if self.processes[at].lives {
                out.push(datagram);
            }
        }
        for shared in std::mem::take(&mut self.processes[at].server.shared) {
            for to in 0..self.processes.len() {
                if !self.has_link(at, to) {
                    continue;
                }
                self.step(now);
                if self.processes[at].lives {
                    let message = Message::Shared(shared.clone());
                    self.schedule(now + HOP, Event::Message { from: at, to, message });
                }
            }
        }
    }

    fn handle_message(
        &mut self,
        now: Instant,
        from: usize,
        to: usize,
        message: Message,
        out: &mut Vec<Datagram>,
    ) {
        self.step(now);
        if to == self.death.victim && (self.death.comes_back || !self.processes[to].lives) {
            self.unacknowledged.push((now, from, message.clone()));
        }
        if !self.processes[to].lives {
            if !self.processes[from].has_links_to_dead {
                self.give_back(now, from, out);
            }
            return;
        }
        match message {
            Message::Packet { packet, worker, passed } if worker != to => {
                self.relay(now, to, worker, packet, passed, out);
            }
            Message::Packet { packet, .. } => self.work(now, to, packet, false, out),
            Message::Shared(shared) => {
                let mut sent = Vec::new();
                self.processes[to].server.command(now, &mut sent, |endpoint, effects| {
                    handle_shared_response(endpoint, now, shared, effects);
                });
                self.send(now, to, sent, out);
            }
        }
    }

    /// The link to the dead node gives its messages back.
    fn give_back(&mut self, now: Instant, node: usize, out: &mut Vec<Datagram>) {
        self.processes[node].has_links_to_dead = false;
        let died = self.died.unwrap();
        let unacknowledged = std::mem::take(&mut self.unacknowledged);
        for (at, from, message) in unacknowledged {
            match message {
                _ if from != node => self.unacknowledged.push((at, from, message)),
                Message::Packet { packet, worker, passed } if at + UNACKNOWLEDGED >= died => {
                    self.relay(now, node, worker, packet, passed, out);
                }
                _ => {}
            }
        }
    }

    fn perform(&mut self, now: Instant, event: Event, out: &mut Vec<Datagram>) {
        let victim = self.death.victim;
        match event {
            Event::Message { from, to, message } => self.handle_message(now, from, to, message, out),
            Event::LinkEnds(node) => self.give_back(now, node, out),
            Event::Refused(node) => {
                let process = &mut self.processes[node];
                process.knows_end = true;
                process.server.endpoint.set_host_refuses(life(victim));
            }
            Event::Death(node) => {
                let worker = self.survivor();
                let process = &mut self.processes[node];
                process.knows_end = true;
                process.peers.retain(|peer| *peer != victim);
                process.server.endpoint.set_dead_lives(&[life(victim)]);
                process.set_peers();
                if process.worker == victim {
                    process.worker = worker;
                }
            }
            Event::Joins => {
                let survivor = self.survivor();
                let worker = match self.processes[survivor].worker {
                    worker if worker == victim => survivor,
                    worker => worker,
                };
                let peers = (0..NODES).filter(|node| *node != victim).collect();
                let mut process = Process::new(now, SUCCESSOR, worker, peers);
                process.server.endpoint.set_dead_lives(&[life(victim)]);
                self.processes.push(process);
            }
            Event::Joined(node) => {
                let process = &mut self.processes[node];
                process.peers.push(SUCCESSOR);
                process.set_peers();
            }
            Event::Moved(node) => self.move_slot(now, node),
        }
    }

    fn move_slot(&mut self, now: Instant, node: usize) {
        let process = &mut self.processes[node];
        let previous = std::mem::replace(&mut process.worker, SUCCESSOR);
        if [previous, SUCCESSOR].contains(&node) {
            process.previous = Some((previous, now + SLOTS_MOVE));
            share_moved_calls(&mut process.server.endpoint, |_| true);
        }
    }

    /// The node that has the dead one's call slot.
    fn survivor(&self) -> usize {
        (self.death.victim + 1) % NODES
    }
}

fn life(node: usize) -> Life {
    Life(u32::try_from(node).unwrap() + 1)
}

impl Process {
    fn new(now: Instant, node: usize, worker: usize, peers: Vec<usize>) -> Process {
        let mut server = Server::new(settings(u8::try_from(node).unwrap() + 1), to_bob);
        // Callers that are known: a node holds back the repeated 200 of others (`docs/decisions/0020`).
        server = server.trusting_its_peers(now);
        server.endpoint.set_dead_lives(&[]);
        let mut process = Process {
            server,
            lives: true,
            peers,
            worker,
            previous: None,
            has_links_to_dead: true,
            knows_end: false,
        };
        process.set_peers();
        process
    }

    fn set_peers(&mut self) {
        let peers: Vec<Life> = self.peers.iter().copied().map(life).collect();
        self.server.endpoint.set_peer_lives(peers.into_iter());
    }
}

impl Node for KilledNodes {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let arrival = self.arrival();
        self.step(now);
        // It lies in the receive buffer of a process that has just been killed.
        if !self.processes[arrival].lives {
            return;
        }
        let source = self.processes[arrival].server.source(from, to);
        let packet = Packet { bytes: Bytes::copy_from_slice(bytes), source };
        let worker = self.worker_of(arrival, bytes);
        if worker == arrival {
            self.work(now, arrival, packet, false, out);
        } else {
            self.relay(now, arrival, worker, packet, Vec::new(), out);
        }
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= now
        {
            let event = entry.remove();
            self.perform(now, event, out);
        }
        for node in 0..self.processes.len() {
            let is_due = self.processes[node].server.deadline().is_some_and(|at| at <= now);
            if self.processes[node].lives && is_due {
                self.step(now);
                if self.processes[node].lives {
                    let mut sent = Vec::new();
                    self.processes[node].server.wake(now, &mut sent);
                    self.send(now, node, sent, out);
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let agenda = self.agenda.first_key_value().map(|((at, _), _)| *at);
        self.live().filter_map(Node::deadline).chain(agenda).min()
    }
}
