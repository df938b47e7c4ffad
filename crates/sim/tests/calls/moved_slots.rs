//! Calls of a farm of three nodes at one address, whose call slot moves from one node to another while they are set up: a node joins or drains.
//! Both nodes live. Each node adopts the new map when it gets it, which takes up to half a second on a busy machine; until then it passes
//! requests to the worker before. Calls are marked as `server::shard::farm` marks them.

use std::net::SocketAddr;
use std::time::Duration;

use sim::{Datagram, Node, NodeId, World};
use sip::endpoint::{handle_shared_response, share_moved_calls};
use stdx::Instant;
use stdx::rng::Rng;

use crate::farm_calls::{final_statuses, named_life, settings};
use crate::phone::Phone;
use crate::server::Server;
use crate::{SERVER, address, bob, to_bob};

const NODES: usize = 3;

/// The longest time until a node has the new map, milliseconds.
const LATE: u64 = 500;

/// The worker of all calls, and the one before.
const BEFORE: usize = 0;
const AFTER: usize = 1;

struct MovingNodes {
    nodes: Vec<Server>,
    has_adopted: [bool; NODES],
    rng: Rng,
}

impl MovingNodes {
    fn new(seed: u64) -> MovingNodes {
        let life = |node: usize| router::Life(u32::try_from(node).unwrap() + 1);
        let node = |node: usize| {
            let mut server = Server::new(settings(u8::try_from(node).unwrap() + 1), to_bob);
            server.endpoint.set_dead_lives(&[]);
            server.endpoint.set_peer_lives((0..NODES).filter(|other| *other != node).map(life));
            server
        };
        let nodes = (0..NODES).map(node).collect();
        MovingNodes { nodes, has_adopted: [false; NODES], rng: Rng::seeded(seed) }
    }

    fn adopt(&mut self, node: usize) {
        self.has_adopted[node] = true;
        share_moved_calls(&mut self.nodes[node].endpoint, |_| true);
    }

    /// Gives the responses that a node shares to the others.
    fn share(&mut self, now: Instant, sender: usize, out: &mut Vec<Datagram>) {
        for shared in std::mem::take(&mut self.nodes[sender].shared) {
            for node in (0..NODES).filter(|node| *node != sender) {
                let shared = shared.clone();
                self.nodes[node].command(now, out, |endpoint, effects| {
                    handle_shared_response(endpoint, now, shared, effects);
                });
                self.share(now, node, out);
            }
        }
    }
}

impl Node for MovingNodes {
    fn handle(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        let arrival = usize::try_from(self.rng.next_u64() % NODES as u64).unwrap();
        let worker = if self.has_adopted[arrival] { AFTER } else { BEFORE };
        let end = named_life(bytes).map_or(worker, |life| life - 1);
        self.nodes[end].is_off_slot = self.has_adopted[end];
        self.nodes[end].handle(now, from, to, bytes, out);
        self.share(now, end, out);
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        for node in 0..NODES {
            self.nodes[node].wake(now, out);
            self.share(now, node, out);
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
    /// The call begins, and its slot moves `moves` milliseconds later.
    fn new(moves: u64, seed: u64, script: &[(u64, u16)]) -> Farm {
        let mut world = World::new(1);
        world.set_label(sim::ladder::label_with_method);
        let alice = world.add("alice", &[address(2)], Phone::new("alice", address(2), SERVER));
        let nodes = world.add("nodes", &[SERVER], MovingNodes::new(seed));
        let phone = bob().answering(script);
        let bob = world.add("bob", &[phone.addr], phone);
        let mut rng = Rng::seeded(seed + 1_000);
        for node in 0..NODES {
            let at = world.now() + Duration::from_millis(moves + rng.next_u64() % LATE);
            world.at(at, move |world| {
                world.act(nodes, |nodes: &mut MovingNodes, _, _| nodes.adopt(node));
            });
        }
        world.act(alice, |phone: &mut Phone, now, out| phone.call(now, "sip:bob@10.0.0.1", out));
        let name = format!("moves after {moves} ms, seed {seed}, {script:?}");
        Farm { world, alice, nodes, bob, name }
    }

    /// The caller, which the 100 has not reached, repeats its INVITE so long after the beginning until it has the final response.
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

    fn ladder(&self) -> String {
        format!("{}\n{}", self.name, self.world.ladder())
    }

    fn run(&mut self, millis: u64) {
        self.world.run_for(Duration::from_millis(millis));
    }

    /// RFC 3261 §16.7: one final response, and nothing stays behind.
    fn expect_one_answer(mut self, status: u16) {
        self.run(100_000);
        assert_eq!(final_statuses(&self.world.ladder()), [status], "{}", self.ladder());
        assert_eq!(self.world.node::<Phone>(self.bob).calls.len(), 1, "{}", self.ladder());
        if status == 200 {
            self.world.act(self.alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
            self.run(40_000);
            assert!(self.world.node::<Phone>(self.alice).calls[0].ended, "{}", self.ladder());
        }
        self.run(400_000);
        for node in &self.world.node::<MovingNodes>(self.nodes).nodes {
            assert_eq!(node.endpoint.load(), (0, 0), "nothing stays behind: {}", self.ladder());
        }
    }
}

/// The times at which the slot moves, milliseconds after the call begins; the callee answers after them.
fn each_world(act: impl Fn(u64, u64)) {
    for moves in [0, 5, 40, 200, 450] {
        (0..40).for_each(|seed| act(moves, seed));
    }
}

#[test]
fn a_call_has_one_answer_while_its_slot_moves() {
    each_world(|moves, seed| {
        let answers = 1_000 + seed * 50;
        for script in [vec![(100, 180), (answers, 200)], vec![(answers, 200)]] {
            let mut farm = Farm::new(moves, seed, &script);
            [60, 250, 520, 900].into_iter().for_each(|millis| farm.repeat_invite(millis));
            farm.expect_one_answer(200);
        }
    });
}

/// The call ends once, and the callee rings no longer.
#[test]
fn a_call_is_cancelled_once_while_its_slot_moves() {
    each_world(|moves, seed| {
        let mut farm = Farm::new(moves, seed, &[(1_000, 180), (60_000, 200)]);
        [60, 250, 520, 900].into_iter().for_each(|millis| farm.repeat_invite(millis));
        let (alice, at) = (farm.alice, farm.world.now() + Duration::from_millis(3_000));
        farm.world.at(at, move |world| world.act(alice, Phone::cancel));
        farm.expect_one_answer(487);
    });
}
