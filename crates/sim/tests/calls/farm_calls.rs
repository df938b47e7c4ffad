//! Calls of a farm of three nodes at one address, one of which dies at each moment of a call: every call ends, as it would
//! have with the node, and the caller sees a correct sequence.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use router::{Life, ShardAddress};
use sim::{Datagram, Node, NodeId, World};
use sip::endpoint::{Decision, EndpointSettings, PlanRequest};
use sip::wire::Message;
use stdx::Instant;

use crate::phone::Phone;
use crate::server::{self, Server};
use crate::{SERVER, address, bob, carol, targets, to_bob};

/// Between a node's death and the map that says so.
const DETECTION: Duration = Duration::from_secs(3);

/// Nodes at one address. The first works on all calls; after its death the second does. A packet arrives at any live
/// node, which hands it to the worker, or works on it when the worker cannot be reached.
struct Nodes {
    nodes: Vec<Server>,
    /// When the first node has died, and when the others know.
    died: Option<Instant>,
    arrivals: usize,
}

impl Nodes {
    fn new(plan: fn(&PlanRequest) -> Decision) -> Nodes {
        let node = |number: u8| {
            let mut server = Server::new(settings(number), plan);
            server.endpoint.set_dead_lives(&[]);
            server
        };
        Nodes { nodes: (1..=3).map(node).collect(), died: None, arrivals: 0 }
    }

    fn kill(&mut self, now: Instant) {
        self.died = Some(now);
    }

    fn adopt_map(&mut self) {
        for node in &mut self.nodes[1..] {
            node.endpoint.set_dead_lives(&[Life(1)]);
        }
        self.died = self.died.map(|died| died - Duration::from_secs(3_600));
    }

    /// As `server::shard::selector` and `server::shard::farm::relay` have it.
    fn worker(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let Some(died) = self.died else { return 0 };
        self.arrivals += 1;
        let arrival = 1 + self.arrivals % 2;
        let message = Message::parse(Bytes::copy_from_slice(bytes)).unwrap();
        let named = message.top_via().filter(|_| !message.is_request()).and_then(|via| {
            let text = std::str::from_utf8(via.params.get("n")?).unwrap();
            usize::from_str_radix(text.split_once('.')?.0, 16).ok()
        });
        let is_known = now >= died + DETECTION;
        match named {
            Some(life @ 2..) => life - 1,
            _ if is_known => 1,
            _ => arrival,
        }
    }

    fn live(&self) -> impl Iterator<Item = &Server> {
        self.nodes[usize::from(self.died.is_some())..].iter()
    }
}

/// Nodes of a farm share the secret, and nothing else.
fn settings(number: u8) -> EndpointSettings {
    let edge = ShardAddress { life: Life(number.into()), shard: 0 };
    EndpointSettings { edge, table_seed: [number; 16], ..server::settings(1) }
}

impl Node for Nodes {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let worker = self.worker(now, bytes);
        self.nodes[worker].handle(now, from, to, bytes, out);
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        let dead = usize::from(self.died.is_some());
        self.nodes[dead..].iter_mut().for_each(|node| node.wake(now, out));
    }

    fn deadline(&self) -> Option<Instant> {
        self.live().filter_map(Node::deadline).min()
    }
}

struct Farm {
    world: World,
    alice: NodeId,
    nodes: NodeId,
    callees: Vec<NodeId>,
}

impl Farm {
    fn new(plan: fn(&PlanRequest) -> Decision, callees: Vec<Phone>) -> Farm {
        let mut world = World::new(1);
        world.set_label(sim::ladder::label_with_method);
        let alice = world.add("alice", &[address(2)], Phone::new("alice", address(2), SERVER));
        let nodes = world.add("nodes", &[SERVER], Nodes::new(plan));
        let callees = callees.into_iter().map(|phone| world.add(phone.name, &[phone.addr], phone)).collect();
        Farm { world, alice, nodes, callees }
    }

    /// The first node dies so long after the beginning.
    fn dies_at(mut self, millis: u64) -> Farm {
        let (nodes, at) = (self.nodes, self.world.now() + Duration::from_millis(millis));
        self.world.at(at, move |world| {
            world.note(nodes, "one dies");
            world.act(nodes, |nodes: &mut Nodes, now, _| nodes.kill(now));
        });
        self.world.at(at + DETECTION, move |world| {
            world.act(nodes, |nodes: &mut Nodes, _, _| nodes.adopt_map());
        });
        self
    }

    fn call(&mut self) {
        self.world.act(self.alice, |phone: &mut Phone, now, out| phone.call(now, "sip:bob@10.0.0.1", out));
    }

    /// The caller sends a request of the dialog so long after the beginning; `"CANCEL"` cancels.
    fn then(&mut self, millis: u64, method: &'static str) {
        let (alice, at) = (self.alice, self.world.now() + Duration::from_millis(millis));
        self.world.at(at, move |world| {
            world.act(alice, |phone: &mut Phone, now, out| match method {
                "CANCEL" => phone.cancel(now, out),
                "BYE" => phone.hang_up(now, 0, out),
                _ => phone.in_dialog(now, 0, method, out),
            });
        });
    }

    fn run(&mut self, millis: u64) {
        self.world.run_for(Duration::from_millis(millis));
    }

    fn alice(&self) -> &Phone {
        self.world.node(self.alice)
    }

    fn callee(&self, index: usize) -> &Phone {
        self.world.node(self.callees[index])
    }

    fn status(&self) -> u16 {
        self.alice().calls[0].status
    }

    /// After every timer there is, nothing is left at the nodes that live.
    fn rest(&mut self) {
        self.run(400_000);
        for node in self.world.node::<Nodes>(self.nodes).live() {
            assert_eq!(node.endpoint.load(), (0, 0), "nothing stays behind");
        }
    }
}

/// The moments at which a node dies: each 10 ms hop of the first second and a half, before and after it.
fn moments() -> impl Iterator<Item = u64> {
    (0..1_500).step_by(5).filter(|millis| *millis < 100 || *millis > 490)
}

#[test]
fn a_call_is_answered_and_ends_whenever_a_node_dies() {
    for at in moments() {
        let mut farm = Farm::new(to_bob, vec![bob()]).dies_at(at);
        farm.call();
        farm.run(20_000);
        assert_eq!(farm.status(), 200, "the node died at {at} ms");
        let callee = &farm.callee(0).calls;
        assert!(callee.len() == 1 && callee[0].acknowledged, "the node died at {at} ms");
        farm.then(0, "BYE");
        farm.run(10_000);
        assert!(farm.alice().calls[0].ended && farm.callee(0).calls[0].ended, "the node died at {at} ms");
        farm.rest();
    }
}

#[test]
fn a_call_that_is_refused_ends_with_the_same_status_whenever_a_node_dies() {
    for (status, expected) in [(486, 486), (603, 603), (503, 500)] {
        for at in moments() {
            let phone = bob().answering(&[(0, 180), (1_000, status)]);
            let mut farm = Farm::new(to_bob, vec![phone]).dies_at(at);
            farm.call();
            farm.run(40_000);
            assert_eq!(farm.status(), expected, "the node died at {at} ms");
            farm.rest();
        }
    }
}

#[test]
fn a_call_is_cancelled_whenever_a_node_dies() {
    for at in moments() {
        let phone = bob().answering(&[(0, 180), (60_000, 200)]);
        let mut farm = Farm::new(to_bob, vec![phone]).dies_at(at);
        farm.call();
        farm.then(1_000, "CANCEL");
        farm.run(40_000);
        assert_eq!((farm.status(), farm.callee(0).calls[0].status), (487, 487), "the node died at {at} ms");
        assert_eq!(farm.callee(0).calls.len(), 1);
        farm.rest();
    }
}

/// A re-INVITE that a node has forwarded, and its ACK, BYE and keep-alive.
#[test]
fn a_dialog_goes_on_whenever_a_node_dies() {
    for at in (1_490..2_700).step_by(5).filter(|at| !(1_600..2_490).contains(at)) {
        let mut farm = Farm::new(to_bob, vec![bob().answering(&[(0, 200)])]).dies_at(at);
        farm.call();
        farm.then(1_500, "INVITE");
        farm.then(2_500, "OPTIONS");
        farm.run(40_000);
        let (alice, bob) = (farm.alice(), farm.callee(0));
        assert_eq!(bob.calls.len(), 2, "the node died at {at} ms: one call and its re-INVITE");
        assert!(bob.calls.iter().all(|call| call.acknowledged), "the node died at {at} ms");
        assert_eq!(alice.finals.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200], "{at} ms");
        farm.rest();
    }
}

#[test]
fn one_of_two_callees_answers_whenever_a_node_dies() {
    fn both(_: &PlanRequest) -> Decision {
        targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]])
    }
    for at in moments() {
        let phones = vec![bob().answering(&[(0, 180), (700, 486)]), carol()];
        let mut farm = Farm::new(both, phones).dies_at(at);
        farm.call();
        farm.run(40_000);
        assert_eq!(farm.status(), 200, "the node died at {at} ms");
        assert!(farm.callee(1).calls[0].acknowledged, "the node died at {at} ms");
        farm.rest();
    }
}
