//! Calls of a farm of four nodes at one address, all of which live, and some of whose links are cut, lead one way only, or come and go.
//! Packets arrive at any node and go to the worker of their call by the passage of `cluster::relay`, as `server::shard::farm` has it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use cluster::limits::{RELAY_NODES, SILENCE};
use cluster::map::{FarmMap, Move};
use cluster::relay::{Neighbours, Passage};
use router::{Life, ShardAddress};
use sim::{Datagram, Node, NodeId, World};
use sip::endpoint::handle_shared_response;
use sip::transport::Packet;
use stdx::Instant;
use stdx::rng::Rng;

use crate::farm_calls::{final_statuses, named_life, settings};
use crate::phone::Phone;
use crate::server::Server;
use crate::{SERVER, address, bob, to_bob};

const NODES: usize = 4;

const TCP: SocketAddr = SocketAddr::new(SERVER.ip(), 5062);

/// The fault of a link between two nodes.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// There is no connection.
    Cut,
    /// Messages of the first of the two are lost from the beginning on. Their connection ends when the other has heard nothing for a while.
    OneWay,
    /// The connection comes and goes: a message is lost with it, or comes back.
    Flaps,
}

/// The pair of nodes that the link joins, and its fault.
type Faulty = (usize, usize, Fault);

enum Fate {
    Arrives,
    Lost,
    ComesBack,
}

struct LinkedNodes {
    nodes: Vec<Server>,
    faults: Vec<Faulty>,
    map: FarmMap,
    /// The worker of all calls.
    worker: usize,
    /// The node that has the caller's connection, and the nodes that get datagrams.
    connection_at: usize,
    arrivals: Vec<usize>,
    start: Instant,
    rng: Rng,
}

fn life(node: usize) -> Life {
    Life(u32::try_from(node).unwrap() + 1)
}

fn node_of(life: Life) -> usize {
    usize::try_from(life.0).unwrap() - 1
}

impl LinkedNodes {
    fn new(start: Instant, worker: usize, faults: Vec<Faulty>, seed: u64) -> LinkedNodes {
        let node = |node: usize| {
            let mut server = Server::new(settings(u8::try_from(node).unwrap() + 1), to_bob);
            server.endpoint.set_dead_lives(&[]);
            server.endpoint.set_peer_lives((0..NODES).filter(|other| *other != node).map(life));
            server
        };
        let mut map = FarmMap::new(16);
        let to = |node| Some(ShardAddress::new(life(node), 0));
        let moves: Vec<Move> =
            (0..).zip(0..NODES).map(|(slot, node)| Move::Slot { slot, to: to(node) }).collect();
        map.apply(start, &moves);
        LinkedNodes {
            nodes: (0..NODES).map(node).collect(),
            faults,
            map,
            worker,
            connection_at: 0,
            arrivals: (0..NODES).collect(),
            start,
            rng: Rng::seeded(seed),
        }
    }

    /// The fault of the link between two nodes, and whether the first one of the pair sends.
    fn fault(&self, from: usize, to: usize) -> Option<(Fault, bool)> {
        let mut faults = self.faults.iter();
        let (first, _, fault) =
            faults.find(|(one, other, _)| (*one, *other) == (from, to) || (*other, *one) == (from, to))?;
        Some((*fault, *first == from))
    }

    fn connected(&mut self, now: Instant, node: usize) -> Vec<Life> {
        let mut connected = Vec::new();
        for other in (0..NODES).filter(|other| *other != node) {
            let leads_there = match self.fault(node, other) {
                None => true,
                Some((Fault::Cut, _)) => false,
                Some((Fault::OneWay, _)) => now < self.start + SILENCE,
                Some((Fault::Flaps, _)) => self.rng.next_u64().is_multiple_of(2),
            };
            if leads_there {
                connected.push(life(other));
            }
        }
        connected
    }

    fn fate(&mut self, from: usize, to: usize) -> Fate {
        match self.fault(from, to) {
            Some((Fault::OneWay, true)) => Fate::Lost,
            Some((Fault::Flaps, _)) => match self.rng.next_u64() % 4 {
                0 => Fate::Lost,
                1 => Fate::ComesBack,
                _ => Fate::Arrives,
            },
            _ => Fate::Arrives,
        }
    }

    /// The node at which a message to another node ends; none if a link has lost it. No node has it twice.
    fn way(&mut self, now: Instant, from: usize, to: usize) -> Option<usize> {
        let (mut at, mut had, mut passage) = (from, vec![from], Passage::new(life(to)));
        while at != to {
            let connected = self.connected(now, at);
            let next =
                passage.next_nodes(&Neighbours { own: life(at), connected: &connected, map: &self.map });
            let Some(node) = next.first().copied() else { break };
            match self.fate(at, node_of(node)) {
                Fate::Lost => return None,
                Fate::ComesBack => passage = passage.given_back(life(at), node),
                Fate::Arrives => {
                    passage = passage.after(life(at));
                    at = node_of(node);
                    assert!(!had.contains(&at), "a message goes round: {had:?}, {at}");
                    had.push(at);
                }
            }
        }
        assert!(had.len() <= RELAY_NODES + 2, "{had:?}");
        Some(at)
    }

    /// Gives to other nodes what a node has for them.
    fn settle(&mut self, now: Instant, node: usize, out: &mut Vec<Datagram>) {
        for shared in std::mem::take(&mut self.nodes[node].shared) {
            for other in (0..NODES).filter(|other| *other != node) {
                if self.way(now, node, other) == Some(other) {
                    let shared = shared.clone();
                    self.nodes[other].command(now, out, |endpoint, effects| {
                        handle_shared_response(endpoint, now, shared, effects);
                    });
                    self.settle(now, other, out);
                }
            }
        }
        for transmit in std::mem::take(&mut self.nodes[node].for_other_nodes) {
            let holder = node_of(transmit.target.flow.unwrap().edge.life);
            if self.way(now, node, holder) == Some(holder) {
                self.nodes[holder].transmit_for_other_node(now, transmit, out);
            } else if let Some(report) = transmit.report {
                self.nodes[node].command(now, out, |endpoint, effects| {
                    endpoint.handle_send_failed(now, report, effects);
                });
                self.settle(now, node, out);
            }
        }
    }
}

impl Node for LinkedNodes {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let any = usize::try_from(self.rng.next_u64() % self.arrivals.len() as u64).unwrap();
        let arrival = if to == TCP { self.connection_at } else { self.arrivals[any] };
        let worker = named_life(bytes).map_or(self.worker, |life| life - 1);
        let source = self.nodes[arrival].source(from, to);
        let Some(end) = self.way(now, arrival, worker) else { return };
        self.nodes[end].is_off_slot = end != worker;
        self.nodes[end].handle_packet(now, Packet { bytes: Bytes::copy_from_slice(bytes), source }, out);
        self.settle(now, end, out);
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        for node in 0..NODES {
            self.nodes[node].wake(now, out);
            self.settle(now, node, out);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.nodes.iter().filter_map(Node::deadline).min()
    }
}

struct Farm {
    world: World,
    alice: NodeId,
    nodes: NodeId,
    bob: NodeId,
    /// For the message of a failure.
    name: String,
}

impl Farm {
    fn new(worker: usize, faults: &[Faulty], seed: u64, script: &[(u64, u16)]) -> Farm {
        let mut world = World::new(1);
        world.set_label(sim::ladder::label_with_method);
        let alice = world.add("alice", &[address(2)], Phone::new("alice", address(2), SERVER));
        let nodes = LinkedNodes::new(world.now(), worker, faults.to_vec(), seed);
        let nodes = world.add("nodes", &[SERVER, TCP], nodes);
        let phone = bob().answering(script);
        let bob = world.add("bob", &[phone.addr], phone);
        let name = format!("worker {worker}, {faults:?}, seed {seed}, {script:?}");
        Farm { world, alice, nodes, bob, name }
    }

    fn nodes(&mut self, act: impl FnOnce(&mut LinkedNodes)) {
        self.world.act(self.nodes, |nodes: &mut LinkedNodes, _, _| act(nodes));
    }

    fn call(&mut self) {
        self.world.act(self.alice, |phone: &mut Phone, now, out| phone.call(now, "sip:bob@10.0.0.1", out));
    }

    /// The network repeats the caller's INVITE so long after the beginning, if it has no final response.
    fn repeat_invite(&mut self, millis: u64) {
        let (alice, at) = (self.alice, self.world.now() + Duration::from_millis(millis));
        self.world.at(at, move |world| {
            let call = &world.node::<Phone>(alice).calls[0];
            let invite = call.invite.bytes().clone();
            if call.status == 0 {
                world.send(alice, address(2), SERVER, invite);
            }
        });
    }

    fn run(&mut self, millis: u64) {
        self.world.run_for(Duration::from_millis(millis));
    }

    fn alice(&self) -> &Phone {
        self.world.node(self.alice)
    }

    fn bob(&self) -> &Phone {
        self.world.node(self.bob)
    }

    fn ladder(&self) -> String {
        format!("{}\n{}", self.name, self.world.ladder())
    }

    /// RFC 3261 §16.7: one final response. The call is acknowledged and ends, has one record, and leaves nothing.
    fn expect_one_answer(mut self) {
        self.run(300_000);
        assert_eq!(final_statuses(&self.world.ladder()), [200], "{}", self.ladder());
        assert_eq!(self.bob().calls.len(), 1, "{}", self.ladder());
        assert!(self.bob().calls[0].acknowledged, "{}", self.ladder());
        self.world.act(self.alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
        self.run(40_000);
        assert!(self.alice().calls[0].ended && self.bob().calls[0].ended, "{}", self.ladder());
        self.run(400_000);
        let nodes = &self.world.node::<LinkedNodes>(self.nodes).nodes;
        let records: Vec<_> = nodes.iter().flat_map(|node| &node.records).map(|record| record.code).collect();
        assert_eq!(records, [200], "{}", self.ladder());
        for node in nodes {
            assert_eq!(node.endpoint.load(), (0, 0), "nothing stays behind: {}", self.ladder());
        }
    }
}

/// Callees that ring, that answer late, and that answer at once.
fn scripts(seed: u64) -> [Vec<(u64, u16)>; 3] {
    let late = 300 + seed * 190;
    [vec![(100, 180), (late, 200)], vec![(late, 200)], vec![(20, 200)]]
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..NODES).flat_map(|one| (one + 1..NODES).map(move |other| (one, other)))
}

/// Each world of these faults has one call, whose INVITE comes several times.
fn each_call_expect_one_answer(faults: &[Faulty], seeds: u64) {
    for (worker, seed) in (0..NODES).flat_map(|worker| (0..seeds).map(move |seed| (worker, seed))) {
        for script in scripts(seed) {
            let mut farm = Farm::new(worker, faults, seed, &script);
            farm.call();
            [30, 60].into_iter().for_each(|millis| farm.repeat_invite(millis));
            farm.expect_one_answer();
        }
    }
}

#[test]
fn a_call_has_one_answer_while_a_link_is_cut() {
    for (one, other) in pairs() {
        each_call_expect_one_answer(&[(one, other, Fault::Cut)], 4);
    }
}

#[test]
fn a_call_has_one_answer_while_two_links_are_cut() {
    for first in pairs() {
        for second in pairs().filter(|second| *second > first) {
            each_call_expect_one_answer(
                &[(first.0, first.1, Fault::Cut), (second.0, second.1, Fault::Cut)],
                2,
            );
        }
    }
}

/// Messages of one node to the other are lost, until the other has heard nothing for so long that it ends the connection.
#[test]
fn a_call_has_one_answer_while_links_lead_one_way() {
    for (one, other) in pairs() {
        for (from, to) in [(one, other), (other, one)] {
            each_call_expect_one_answer(&[(from, to, Fault::OneWay)], 3);
            each_call_expect_one_answer(
                &[(from, to, Fault::OneWay), (from, (from + 1) % NODES, Fault::Cut)],
                2,
            );
        }
    }
}

/// A message that a link gives back, as its connection has ended before the message was sent, goes on by a third node.
#[test]
fn a_call_has_one_answer_while_links_come_and_go() {
    for (one, other) in pairs() {
        each_call_expect_one_answer(&[(one, other, Fault::Flaps)], 4);
        each_call_expect_one_answer(&[(one, other, Fault::Flaps), (one, (one + 2) % NODES, Fault::Cut)], 4);
    }
}

/// The same of a CANCEL: the call ends once, and the callee rings no longer.
#[test]
fn a_call_is_cancelled_once_while_links_are_faulty() {
    for (one, other) in pairs() {
        for faults in [
            vec![(one, other, Fault::Cut), (one, (one + 2) % NODES, Fault::Cut)],
            vec![(one, other, Fault::OneWay)],
            vec![(one, other, Fault::Flaps)],
        ] {
            for (worker, seed) in (0..NODES).flat_map(|worker| (0..3).map(move |seed| (worker, seed))) {
                let mut farm = Farm::new(worker, &faults, seed, &[(550, 180), (60_000, 200)]);
                farm.call();
                [30, 60].into_iter().for_each(|millis| farm.repeat_invite(millis));
                let (alice, at) = (farm.alice, farm.world.now() + Duration::from_millis(5_000 + seed * 30));
                farm.world.at(at, move |world| world.act(alice, Phone::cancel));
                farm.run(100_000);
                assert_eq!(farm.bob().calls[0].status, 487, "{}", farm.ladder());
                assert_eq!(final_statuses(&farm.world.ladder()), [487], "{}", farm.ladder());
            }
        }
    }
}

/// Responses to a caller whose connection another node holds go by a third node, too.
#[test]
fn a_caller_with_a_connection_has_its_answer_while_links_are_cut() {
    for first in pairs() {
        for second in pairs().filter(|second| *second >= first) {
            for (worker, connection_at) in
                (0..NODES).flat_map(|one| (0..NODES).map(move |other| (one, other)))
            {
                let faults = [(first.0, first.1, Fault::Cut), (second.0, second.1, Fault::Cut)];
                let mut farm = Farm::new(worker, &faults, 1, &[(100, 180), (700, 200)]);
                farm.nodes(|nodes| nodes.connection_at = connection_at);
                farm.world.node_mut::<Phone>(farm.alice).proxy = TCP;
                farm.call();
                farm.expect_one_answer();
            }
        }
    }
}

/// A worker that no other node reaches, and that gets no packets: the others work on its calls, and share the responses to them.
#[test]
fn a_call_has_one_answer_while_its_worker_is_cut_off() {
    for worker in 0..NODES {
        let faults: Vec<Faulty> =
            (0..NODES).filter(|other| *other != worker).map(|other| (worker, other, Fault::Cut)).collect();
        for seed in 0..20 {
            for script in scripts(seed) {
                let mut farm = Farm::new(worker, &faults, seed, &script);
                farm.nodes(|nodes| nodes.arrivals.retain(|node| *node != worker));
                farm.call();
                [30, 60].into_iter().for_each(|millis| farm.repeat_invite(millis));
                farm.run(100_000);
                assert_eq!(final_statuses(&farm.world.ladder()), [200], "{}", farm.ladder());
            }
        }
    }
}
