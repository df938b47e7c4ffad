//! Nodes, the network between them and one clock that only the world moves.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;
use stdx::ladder::{Ladder, MessageFate};
use stdx::rng::Rng;

use crate::ladder::label;
use crate::limits::{LINES_OF_A_FAILURE, STEPS, WAKINGS_AT_ONCE};
use crate::network::{Link, Network, Sent};

/// From, to, and what is said.
pub type Datagram = (SocketAddr, SocketAddr, Bytes);

/// A party in a world: a phone of a few lines or a whole core behind an adapter. It never reads a clock
/// and answers by pushing datagrams.
pub trait Node: Any {
    /// A packet from `from` arrived at `to`, one of this node's addresses.
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    );

    /// `deadline` has come. May be called early or without need.
    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>);

    /// When to call `wake`; asked again after everything the node does.
    fn deadline(&self) -> Option<Instant>;
}

/// The number of a node in its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(usize);

/// Deterministic: the same seed and the same calls give the same run, to the microsecond.
pub struct World {
    seed: u64,
    now: Instant,
    start: Instant,
    nodes: Vec<Participant>,
    addresses: HashMap<SocketAddr, usize>,
    network: Network,
    /// By time and then by the order in which it was put there.
    agenda: BTreeMap<(Instant, u64), Event>,
    sequence: u64,
    steps: u64,
    wakings_at_once: u32,
    ladder: Ladder,
    label: fn(&[u8]) -> String,
    /// For the test's own random choices.
    pub rng: Rng,
}

struct Participant {
    name: Box<str>,
    node: Box<dyn Node>,
    stopped: bool,
}

type Act = Box<dyn FnOnce(&mut World)>;

enum Event {
    Arrival(Datagram),
    Act(Act),
}

impl World {
    /// Begins at 2027-01-15 08:00:00 UTC, with 10 ms between any two nodes.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let start = Instant::from_unix_seconds(1_800_000_000);
        World {
            seed,
            now: start,
            start,
            nodes: Vec::new(),
            addresses: HashMap::new(),
            network: Network::new(rng.fork()),
            agenda: BTreeMap::new(),
            sequence: 0,
            steps: 0,
            wakings_at_once: 0,
            ladder: Ladder::new(start),
            label,
            rng,
        }
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Time since the world began.
    pub fn elapsed(&self) -> Duration {
        self.now.since(self.start)
    }

    /// Returns the seed of the run, for a failure's message.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Columns of the ladder stand in the order in which nodes are added.
    pub fn add(&mut self, name: &str, addresses: &[SocketAddr], node: impl Node) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.ladder.column(name);
        self.nodes.push(Participant { name: name.into(), node: Box::new(node), stopped: false });
        for address in addresses {
            self.own(id, *address);
        }
        id
    }

    /// One more address for a node, or one that moves to it, as after a failover.
    pub fn own(&mut self, id: NodeId, address: SocketAddr) {
        self.addresses.insert(address, id.0);
    }

    /// The node as what it is. Panics when it is not an `N`: the test's own mistake.
    pub fn node<N: Node>(&self, id: NodeId) -> &N {
        let node: &dyn Any = &*self.nodes[id.0].node;
        node.downcast_ref().expect("the node has the type it was added with")
    }

    /// As `node`, to change it.
    pub fn node_mut<N: Node>(&mut self, id: NodeId) -> &mut N {
        let node: &mut dyn Any = &mut *self.nodes[id.0].node;
        node.downcast_mut().expect("the node has the type it was added with")
    }

    /// Lets a node do something now: what it pushes goes out.
    pub fn act<N: Node, R>(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut N, Instant, &mut Vec<Datagram>) -> R,
    ) -> R {
        let (now, mut out) = (self.now, Vec::new());
        let result = act(self.node_mut(id), now, &mut out);
        self.send_all(id.0, out);
        result
    }

    /// Speaks for a node.
    pub fn send(&mut self, id: NodeId, from: SocketAddr, to: SocketAddr, bytes: impl Into<Bytes>) {
        self.transmit(id.0, &(from, to, bytes.into()));
    }

    /// Puts something on the agenda.
    pub fn at(&mut self, at: Instant, act: impl FnOnce(&mut World) + 'static) {
        self.schedule(at, Event::Act(Box::new(act)));
    }

    /// For pairs of nodes that have no link of their own.
    pub fn set_default_link(&mut self, link: Link) {
        self.network.set_default(link);
    }

    /// Both directions.
    pub fn set_link(&mut self, a: NodeId, b: NodeId, link: Link) {
        self.network.set(a.0, b.0, link);
        self.network.set(b.0, a.0, link);
    }

    /// Sets the link of one direction.
    pub fn set_one_way_link(&mut self, from: NodeId, to: NodeId, link: Link) {
        self.network.set(from.0, to.0, link);
    }

    /// Loses all packets between the two until `heal`. Packets under way still arrive.
    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        self.network.cut(a.0, b.0);
    }

    /// Ends a `cut`.
    pub fn heal(&mut self, a: NodeId, b: NodeId) {
        self.network.heal(a.0, b.0);
    }

    /// Loses the next `times` packets in this direction whose label is `label`, e.g. `"180"`.
    pub fn lose_next(&mut self, from: NodeId, to: NodeId, label: &str, times: u32) {
        self.network.lose_next(from.0, to.0, label, times);
    }

    /// Crashes the node: it receives nothing and is not woken from now on. Packets under way to it are lost.
    pub fn stop(&mut self, id: NodeId) {
        self.nodes[id.0].stopped = true;
        self.ladder.note(self.now, &self.nodes[id.0].name, "stops");
    }

    /// A fresh process in the place of the old one, at the same addresses.
    pub fn restart(&mut self, id: NodeId, node: impl Node) {
        let party = &mut self.nodes[id.0];
        (party.node, party.stopped) = (Box::new(node), false);
        self.ladder.note(self.now, &party.name, "starts");
    }

    /// Sets the labels of arrows, from the bytes of a packet; `ladder::label` unless set.
    pub fn set_label(&mut self, label: fn(&[u8]) -> String) {
        self.label = label;
    }

    /// Renders the packets so far, for a snapshot. An arrow stands at the time it was sent.
    pub fn ladder(&self) -> String {
        self.ladder.render()
    }

    /// The next ladder begins here, at 0 ms.
    pub fn restart_ladder(&mut self) {
        self.ladder.restart(self.now);
    }

    /// A word of the test's own in the ladder.
    pub fn note(&mut self, id: NodeId, text: &str) {
        self.ladder.note(self.now, &self.nodes[id.0].name, text);
    }

    /// Does everything that is due up to `until`, and then it is `until`.
    pub fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Runs for so long from now.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Runs until `done`, and not longer than `patience`. Returns whether it was done.
    pub fn run_until_done(&mut self, patience: Duration, done: impl Fn(&World) -> bool) -> bool {
        let until = self.now + patience;
        while !done(self) {
            if !self.step(until) {
                self.now = self.now.max(until);
                return done(self);
            }
        }
        true
    }

    /// Does the next thing if it is due by `until`. At the same instant, packets and acts go before wakings.
    fn step(&mut self, until: Instant) -> bool {
        let event = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let waking = self.next_waking();
        match (event, waking) {
            (Some(at), waking) if at <= until && waking.is_none_or(|(wake_at, _)| at <= wake_at) => {
                self.take_step(at);
                self.perform_next();
                true
            }
            (_, Some((at, node))) if at <= until => {
                self.take_step(at);
                self.wake(node);
                true
            }
            _ => false,
        }
    }

    /// A deadline that has passed is one for now.
    fn next_waking(&self) -> Option<(Instant, usize)> {
        let awake = self.nodes.iter().enumerate().filter(|(_, party)| !party.stopped);
        awake.filter_map(|(id, party)| Some((party.node.deadline()?.max(self.now), id))).min()
    }

    fn take_step(&mut self, at: Instant) {
        self.wakings_at_once = if at > self.now { 0 } else { self.wakings_at_once };
        self.now = at;
        self.steps += 1;
        assert!(self.steps <= STEPS, "the world does not come to rest (seed {})", self.seed);
    }

    fn perform_next(&mut self) {
        match self.agenda.pop_first() {
            Some((_, Event::Arrival(datagram))) => self.deliver(&datagram),
            Some((_, Event::Act(act))) => act(self),
            None => {}
        }
    }

    fn wake(&mut self, node: usize) {
        self.wakings_at_once += 1;
        let (now, party, mut out) = (self.now, &mut self.nodes[node], Vec::new());
        assert!(
            self.wakings_at_once <= WAKINGS_AT_ONCE,
            "{} wants to be woken again and again at {now:?} (seed {})",
            party.name,
            self.seed
        );
        party.node.wake(now, &mut out);
        self.send_all(node, out);
    }

    fn deliver(&mut self, (from, to, bytes): &Datagram) {
        let Some(node) = self.addresses.get(to).copied() else { return };
        let (now, party, mut out) = (self.now, &mut self.nodes[node], Vec::new());
        if !party.stopped {
            party.node.handle(now, *from, *to, bytes, &mut out);
            self.send_all(node, out);
        }
    }

    fn send_all(&mut self, from: usize, out: Vec<Datagram>) {
        for datagram in out {
            self.transmit(from, &datagram);
        }
    }

    fn transmit(&mut self, from: usize, datagram: &Datagram) {
        let (source, target, bytes) = datagram;
        let label = (self.label)(bytes);
        let name = &self.nodes[from].name;
        let Some(to) = self.addresses.get(target).copied() else {
            return self.ladder.arrow(self.now, name, &target.to_string(), &label, MessageFate::Lost);
        };
        let (now, party) = (self.now, &self.nodes[to]);
        if party.stopped {
            return self.ladder.arrow(now, name, &party.name, &label, MessageFate::Lost);
        }
        let passage =
            self.network.carry(&Sent { at: now, from, to, addresses: (*source, *target), label: &label });
        self.ladder.arrow(now, name, &party.name, &label, passage.fate);
        for arrival in passage.arrivals {
            self.schedule(arrival, Event::Arrival(datagram.clone()));
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.agenda.insert((at.max(self.now), self.sequence), event);
    }
}

impl Drop for World {
    /// A failing test tells how to repeat it and what went before.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ladder = self.ladder();
            let lines: Vec<&str> = ladder.lines().collect();
            let last = &lines[lines.len().saturating_sub(LINES_OF_A_FAILURE)..];
            eprintln!("seed {}, at {:?}:\n{}", self.seed, self.elapsed(), last.join("\n"));
        }
    }
}
