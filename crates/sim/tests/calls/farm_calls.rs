//! Calls of a farm of three nodes at one address, one of which dies at each moment of a call: every call ends, as it would
//! have with the node, and the caller sees a correct sequence.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use insta::assert_snapshot;
use router::{Life, ShardAddress};
use sim::{Datagram, Node, NodeId, World};
use sip::endpoint::{Decision, EndpointSettings, PlanRequest, handle_shared_response};
use sip::wire::Message;
use stdx::Instant;
use stdx::rng::Rng;

use crate::phone::Phone;
use crate::server::{self, Server};
use crate::{SERVER, address, bob, carol, targets, to_bob};

/// Between a node's death and the map that says so.
const DETECTION: Duration = Duration::from_secs(3);

/// Between a node's death and the first connection that its host refuses.
const REFUSAL: Duration = Duration::from_millis(100);

/// Nodes at one address. The first works on all calls; after its death the second does. A packet arrives at any live
/// node, which hands it to the worker, or works on it when the worker cannot be reached.
struct Nodes {
    nodes: Vec<Server>,
    /// The times at which the first node dies, and at which the others know.
    died: Option<Instant>,
    arrivals: usize,
    /// The seed of the ways of packets to the nodes that live; without one they go to each in turn.
    ways: Option<u64>,
    /// No node reaches another; the seed of the packets' ways.
    cut: Option<u64>,
    /// The first and the second node do not reach each other, but share responses by the third; the seed of the packets' ways.
    apart: Option<u64>,
}

impl Nodes {
    fn new(plan: fn(&PlanRequest) -> Decision) -> Nodes {
        let node = |number: u8| {
            let mut server = Server::new(settings(number), plan);
            server.endpoint.set_dead_lives(&[]);
            server.endpoint.set_peer_lives((1..=3).filter(|other| *other != number).map(|n| Life(n.into())));
            server
        };
        Nodes {
            nodes: (1..=3).map(node).collect(),
            died: None,
            arrivals: 0,
            ways: None,
            cut: None,
            apart: None,
        }
    }

    fn kill(&mut self, now: Instant) {
        self.died = Some(now);
    }

    fn be_refused(&mut self) {
        for node in &mut self.nodes[1..] {
            assert!(node.endpoint.set_host_refuses(Life(1)));
        }
    }

    fn adopt_map(&mut self) {
        for node in &mut self.nodes[1..] {
            node.endpoint.set_dead_lives(&[Life(1)]);
            node.endpoint.set_peer_lives([Life(2), Life(3)].into_iter());
        }
        self.died = self.died.map(|died| died - Duration::from_secs(3_600));
    }

    /// As `server::shard::selector` and `server::shard::farm::relay` have it. True: the packet is for a node that cannot be reached.
    fn worker(&mut self, now: Instant, bytes: &[u8]) -> (usize, bool) {
        self.arrivals += 1;
        let number = self.arrivals as u64;
        let any = |seed: u64, nodes: u64| (Rng::seeded(seed * 1_000 + number).next_u64() % nodes) as usize;
        if let Some(seed) = self.cut {
            // A packet is worked on where it arrives.
            return (any(seed, 3), true);
        }
        let Some(died) = self.died else {
            let named = named_life(bytes).map_or(0, |life| life - 1);
            // The first packet arrives at the second node.
            return match self.apart.map(|seed| if number == 1 { 1 } else { any(seed, 3) }) {
                Some(arrival) if arrival + named == 1 => (arrival, true),
                _ => (named, false),
            };
        };
        let arrival = 1 + self.ways.map_or(self.arrivals % 2, |seed| any(seed, 2));
        let is_known = now >= died + DETECTION;
        match named_life(bytes) {
            Some(life @ 2..) => (life - 1, false),
            _ if is_known => (1, false),
            _ => (arrival, true),
        }
    }

    /// Gives the responses that a node shares to the others, in no time. One that handles such a response shares it in turn.
    fn share(&mut self, now: Instant, sender: usize, out: &mut Vec<Datagram>) {
        let first = if self.cut.is_some() { 3 } else { usize::from(self.died.is_some()) };
        for shared in std::mem::take(&mut self.nodes[sender].shared) {
            for node in (first..3).filter(|node| *node != sender) {
                let shared = shared.clone();
                self.nodes[node].command(now, out, |endpoint, effects| {
                    handle_shared_response(endpoint, now, shared, effects);
                });
                self.share(now, node, out);
            }
        }
    }

    fn live(&self) -> impl Iterator<Item = &Server> {
        self.nodes[usize::from(self.died.is_some())..].iter()
    }
}

/// Nodes of a farm share the secret, and nothing else.
pub(crate) fn settings(number: u8) -> EndpointSettings {
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
        let (worker, is_off_slot) = self.worker(now, bytes);
        self.nodes[worker].is_off_slot = is_off_slot;
        self.nodes[worker].handle(now, from, to, bytes, out);
        self.share(now, worker, out);
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        let dead = usize::from(self.died.is_some());
        self.nodes[dead..].iter_mut().for_each(|node| node.wake(now, out));
    }

    fn deadline(&self) -> Option<Instant> {
        self.live().filter_map(Node::deadline).min()
    }
}

/// The life that the top Via of a response names.
pub(crate) fn named_life(bytes: &[u8]) -> Option<usize> {
    let message = Message::parse(Bytes::copy_from_slice(bytes)).unwrap();
    let via = message.top_via().filter(|_| !message.is_request())?;
    let text = std::str::from_utf8(via.params.get("n")?).unwrap();
    usize::from_str_radix(text.split_once('.')?.0, 16).ok()
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
        self.world.at(at + REFUSAL, move |world| {
            world.act(nodes, |nodes: &mut Nodes, _, _| nodes.be_refused());
        });
        self.world.at(at + DETECTION, move |world| {
            world.act(nodes, |nodes: &mut Nodes, _, _| nodes.adopt_map());
        });
        self
    }

    /// Packets arrive at any of the nodes that live.
    fn by(mut self, seed: u64) -> Farm {
        self.world.act(self.nodes, |nodes: &mut Nodes, _, _| nodes.ways = Some(seed));
        self
    }

    /// The links between the nodes are cut from now on; all nodes live.
    fn cut_off(mut self, seed: u64) -> Farm {
        self.world.act(self.nodes, |nodes: &mut Nodes, _, _| nodes.cut = Some(seed));
        self
    }

    /// The links between two nodes are cut from now on; all nodes live.
    fn apart(mut self, seed: u64) -> Farm {
        self.world.act(self.nodes, |nodes: &mut Nodes, _, _| nodes.apart = Some(seed));
        self
    }

    /// The caller repeats its first INVITE so long after the beginning, if it has no final response.
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

/// The moments at which a node dies: between all hops, which take 10 ms each.
fn moments() -> impl Iterator<Item = u64> {
    (5..1_200).step_by(10).filter(|millis| *millis < 100 || *millis > 690)
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

/// A provisional response is sent once, and a failure is repeated less and less often: neither waits until the farm has agreed on
/// the death. Until then the nodes do not agree on a worker, so the caller's first ACK may meet another node, which hands it on.
#[test]
fn responses_of_a_node_that_died_a_moment_ago_reach_the_caller_at_once() {
    let phone = bob().answering(&[(150, 180), (700, 486)]);
    let mut farm = Farm::new(to_bob, vec![phone]).dies_at(15);
    farm.call();
    farm.run(40_000);
    assert_snapshot!(farm.world.ladder(), @r"
         0ms  alice ──INVITE──────▶ nodes
        10ms  nodes ──INVITE──────▶ bob
        15ms  nodes · one dies
       170ms  nodes ◀──180 INVITE── bob
       180ms  alice ◀──180 INVITE── nodes
       720ms  nodes ◀──486 INVITE── bob
       730ms  alice ◀──486 INVITE── nodes
       730ms  nodes ──ACK─────────▶ bob
       740ms  alice ──ACK─────────▶ nodes
       750ms  nodes ──ACK─────────▶ bob
     1_232ms  alice ◀──486 INVITE── nodes
     1_242ms  alice ──ACK─────────▶ nodes
    ");
    farm.rest();
}

#[test]
fn every_call_is_answered_before_the_death_is_known() {
    for at in moments() {
        let mut farm = Farm::new(to_bob, vec![bob()]).dies_at(at);
        farm.call();
        farm.run(2_000);
        assert_eq!(farm.status(), 200, "the node died at {at} ms");
        assert!(farm.callee(0).calls[0].acknowledged, "the node died at {at} ms");
        farm.rest();
    }
}

/// The network is cut between the node that works on a call and those that its packets arrive at; all live. RFC 3261 §17.1.2.2: the
/// first final response ends the caller's transaction, wherever it came through.
#[test]
fn a_request_of_a_dialog_is_answered_at_once_by_nodes_that_cannot_reach_each_other() {
    for seed in 0..40 {
        let mut farm = Farm::new(to_bob, vec![bob()]);
        farm.call();
        farm.run(3_000);
        assert_eq!(farm.status(), 200);
        let mut farm = farm.cut_off(seed);
        farm.then(0, "BYE");
        farm.run(100);
        assert!(farm.alice().calls[0].ended && farm.callee(0).calls[0].ended, "seed {seed}");
        farm.rest();
    }
}

/// The life that has the INVITE's transaction may be alive: its own 180 must not come after a 200 that another node forwarded.
#[test]
fn responses_to_an_invite_wait_for_a_node_that_may_be_alive() {
    for seed in 0..40 {
        let mut farm = Farm::new(to_bob, vec![bob()]).cut_off(seed);
        farm.call();
        farm.run(40_000);
        let ladder = farm.world.ladder();
        let answer = ladder.find("alice ◀──200 INVITE").expect("the callee repeats its answer");
        assert!(
            !ladder[answer..].contains("alice ◀──180") && !ladder[answer..].contains("alice ◀──100"),
            "{ladder}"
        );
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

/// RFC 3261 §17.1.1.3: the callee's failure has its ACK at once, and the caller's failure a transaction that takes its ACK.
#[test]
fn a_failure_is_acknowledged_on_both_sides() {
    let phone = bob().answering(&[(0, 180), (5_000, 486)]);
    let mut farm = Farm::new(to_bob, vec![phone]).dies_at(500);
    farm.call();
    farm.run(40_000);
    assert_snapshot!(farm.world.ladder(), @r"
         0ms  alice ──INVITE──────▶ nodes
        10ms  nodes ──INVITE──────▶ bob
        20ms  nodes ◀──180 INVITE── bob
        30ms  alice ◀──180 INVITE── nodes
       500ms  nodes · one dies
     5_020ms  nodes ◀──486 INVITE── bob
     5_030ms  alice ◀──486 INVITE── nodes
     5_030ms  nodes ──ACK─────────▶ bob
     5_040ms  alice ──ACK─────────▶ nodes
    ");
    farm.rest();
}

/// RFC 3261 §16.10, while a call rings at a node that has died.
#[test]
fn a_cancel_goes_where_the_invite_of_a_dead_node_went() {
    let phone = bob().answering(&[(0, 180), (60_000, 200)]);
    let mut farm = Farm::new(to_bob, vec![phone]).dies_at(500);
    farm.call();
    farm.then(5_000, "CANCEL");
    farm.run(40_000);
    assert_snapshot!(farm.world.ladder(), @r"
         0ms  alice ──INVITE──────▶ nodes
        10ms  nodes ──INVITE──────▶ bob
        20ms  nodes ◀──180 INVITE── bob
        30ms  alice ◀──180 INVITE── nodes
       500ms  nodes · one dies
     5_000ms  alice ──CANCEL──────▶ nodes
     5_010ms  alice ◀──200 CANCEL── nodes
     5_010ms  nodes ──CANCEL──────▶ bob
     5_020ms  nodes ◀──487 INVITE── bob
     5_020ms  nodes ◀──200 CANCEL── bob
     5_030ms  alice ◀──487 INVITE── nodes
     5_030ms  nodes ──ACK─────────▶ bob
     5_040ms  alice ──ACK─────────▶ nodes
    ");
    farm.rest();
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
    for at in
        (1_495..2_600).step_by(10).filter(|at| !(1_600..1_790).contains(at) && !(1_890..2_490).contains(at))
    {
        let phone = bob().answering(&[(0, 180), (300, 200)]);
        let mut farm = Farm::new(to_bob, vec![phone]).dies_at(at);
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

/// RFC 3261 §16.10: all branches of a cancelled call end, and the caller gets one 487, although no node has the call's context.
#[test]
fn a_call_to_two_callees_is_cancelled_whenever_a_node_dies() {
    fn both(_: &PlanRequest) -> Decision {
        targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]])
    }
    for at in moments() {
        let phones =
            vec![bob(), carol()].into_iter().map(|phone| phone.answering(&[(0, 180), (60_000, 200)]));
        let mut farm = Farm::new(both, phones.collect()).dies_at(at);
        farm.call();
        farm.then(1_000, "CANCEL");
        farm.run(40_000);
        assert_eq!(farm.status(), 487, "the node died at {at} ms");
        for callee in 0..2 {
            assert_eq!(farm.callee(callee).calls[0].status, 487, "the node died at {at} ms");
        }
        farm.rest();
    }
}

/// A 183 to the INVITE that the callee has, as anyone who has seen that might send it.
fn progress(invite: &str, change: impl Fn(&str) -> String) -> Bytes {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let lines = invite.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    let lines = lines.replacen("\r\nCall-ID", ";tag=x\r\nCall-ID", 1);
    Bytes::from(format!("SIP/2.0 183 Progress\r\n{}Content-Length: 0\r\n\r\n", change(&lines)))
}

/// RFC 6026 §8.9 for all but the farm's own requests of lives that are dead or out of reach; and those go where the request came from.
#[test]
fn a_response_is_forwarded_without_state_only_by_a_via_that_another_life_wrote() {
    let mut farm = Farm::new(to_bob, vec![bob().answering(&[(0, 180)])]).dies_at(500);
    let stranger = farm.world.add("stranger", &[address(9)], Phone::new("stranger", address(9), SERVER));
    farm.call();
    farm.run(1_000);
    let invite = farm.callee(0).requests[0].clone();
    let mut arrows = |run: u64, change: &dyn Fn(&str) -> String| {
        farm.run(run);
        farm.world.restart_ladder();
        farm.world.send(stranger, address(9), SERVER, progress(&invite, change));
        farm.run(1_000);
        farm.world.ladder().lines().count() - 1
    };
    let forged = |from: &'static str, to: &'static str| {
        move |lines: &str| {
            assert!(lines.contains(from), "{from} in {lines}");
            lines.replacen(from, to, 1)
        }
    };
    assert_eq!(arrows(0, &str::to_owned), 1, "no node reaches the life any more");
    assert_eq!(arrows(9_000, &forged(";n=1.0", ";n=2.0")), 0, "the life that works on it did not write it");
    assert_eq!(arrows(0, &forged(";n=1.0", ";n=0.0")), 0, "the farm does not know that life");
    assert_eq!(arrows(0, &forged(";n=1.0", ";n=1.1")), 0, "another shard");
    assert_eq!(arrows(0, &forged(";p=", ";q=")), 0, "no proof");
    assert_eq!(arrows(0, &forged("-0a000002-", "-0a000008-")), 0, "another caller");
    assert_eq!(arrows(0, &forged("branch=z9hG4bK", "branch=z9hG4bKx")), 0, "another branch");
    assert_eq!(
        arrows(0, &forged("10.0.0.2:5060", "10.0.0.8:5060")),
        1,
        "the caller's, whatever other Vias say"
    );
    assert_eq!(arrows(0, &str::to_owned), 1);
}

#[test]
fn the_record_of_a_call_survives_its_node() {
    for by_caller in [true, false] {
        let mut farm = Farm::new(to_bob, vec![bob()]).dies_at(3_000);
        farm.call();
        farm.run(10_000);
        let (first, second) = match by_caller {
            true => (farm.alice, farm.callees[0]),
            false => (farm.callees[0], farm.alice),
        };
        // The second may not have heard of the first.
        for side in [first, second] {
            farm.world.act(side, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
            farm.run(1_000);
        }
        let nodes = farm.world.node::<Nodes>(farm.nodes);
        let records: Vec<_> = nodes.live().flat_map(|node| &node.records).collect();
        let [record] = records[..] else { panic!("one record, and not {records:?}") };
        assert_eq!((&*record.call_id, record.code), ("call-alice-1", 200));
        assert_eq!((&*record.from, &*record.to), ("sip:alice@elsewhere.test", "sip:bob@10.0.0.1"));
        assert_eq!(record.start, Instant::from_unix_seconds(1_800_000_000) + Duration::from_millis(10));
        let answered = record.answer.unwrap().since(record.start).as_millis();
        assert_eq!(answered, if by_caller { 1_020 } else { 0 }, "by the caller: {by_caller}");
        assert_eq!(record.end.since(record.start).as_millis(), 10_020);
        farm.rest();
    }
}

/// The final statuses that the caller has been sent for its INVITE, each once.
pub(crate) fn final_statuses(ladder: &str) -> Vec<u16> {
    let statuses = ladder.lines().filter_map(|line| {
        let (_, message) = line.split_once("alice ◀──")?;
        message.split_once(" INVITE").and_then(|(status, _)| status.parse().ok())
    });
    let mut finals: Vec<u16> = statuses.filter(|status| *status >= 200).collect();
    finals.sort_unstable();
    finals.dedup();
    finals
}

/// Until a death is agreed on, a repeated INVITE and the callee's responses to the dead node's copy of it arrive at different nodes. The
/// node that has the repeated INVITE must not answer 408, after 32 s, in the middle of the call; nor 100 when the caller has the answer.
#[test]
fn a_repeated_invite_makes_no_second_answer() {
    for (seed, answered) in (0..80).map(|seed| (seed, 100 + seed * 37)) {
        for at in [15, 25, 450, 495] {
            let mut farm = Farm::new(to_bob, vec![bob().answering(&[(answered, 200)])]).dies_at(at).by(seed);
            farm.call();
            farm.repeat_invite(530);
            farm.repeat_invite(560);
            farm.run(100_000);
            let ladder = farm.world.ladder();
            assert_eq!(final_statuses(&ladder), [200], "the node died at {at} ms, seed {seed}\n{ladder}");
            let after = &ladder[ladder.find("alice ◀──200").unwrap()..];
            assert!(
                !after.contains("◀──100 INVITE── nodes"),
                "the node died at {at} ms, seed {seed}\n{ladder}"
            );
            farm.then(0, "BYE");
            farm.run(1_000);
            assert!(farm.alice().calls[0].ended && farm.callee(0).calls[0].ended, "{ladder}");
            let nodes = farm.world.node::<Nodes>(farm.nodes);
            let records: Vec<_> =
                nodes.live().flat_map(|node| &node.records).map(|record| record.code).collect();
            assert_eq!(records, [200], "the node died at {at} ms, seed {seed}\n{ladder}");
            farm.rest();
        }
    }
}

/// As above, for the failure of the call: it ends once, and the callee rings no longer.
#[test]
fn a_repeated_invite_is_refused_once() {
    for seed in 0..80 {
        let refused = 600 + seed * 21;
        let phone = bob().answering(&[(550, 180), (refused, 486)]);
        let mut farm = Farm::new(to_bob, vec![phone]).dies_at(15).by(seed);
        farm.call();
        farm.repeat_invite(530);
        farm.repeat_invite(560);
        farm.run(100_000);
        let ladder = farm.world.ladder();
        assert_eq!(final_statuses(&ladder), [486], "seed {seed}\n{ladder}");
        farm.rest();
    }
}

/// RFC 3261 §9.1: a CANCEL waits for a provisional response, which has come to another node.
#[test]
fn a_repeated_invite_is_cancelled() {
    for seed in 0..80 {
        let phone = bob().answering(&[(550, 180), (60_000, 200)]);
        let mut farm = Farm::new(to_bob, vec![phone]).dies_at(15).by(seed);
        farm.call();
        farm.repeat_invite(530);
        farm.repeat_invite(560);
        farm.then(800 + seed * 30, "CANCEL");
        farm.run(100_000);
        let ladder = farm.world.ladder();
        assert_eq!(farm.callee(0).calls[0].status, 487, "seed {seed}\n{ladder}");
        assert_eq!(final_statuses(&ladder), [487], "seed {seed}\n{ladder}");
        farm.rest();
    }
}

/// The failure of one of two branches is no final response of the request: the node that has the repeated INVITE handles it.
#[test]
fn a_repeated_invite_to_two_callees_has_the_response_of_the_one_that_answers() {
    fn both(_: &PlanRequest) -> Decision {
        targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]])
    }
    for seed in 0..80 {
        for (last, expected) in [(200, 200), (603, 603)] {
            let phones =
                [bob().answering(&[(600, 486)]), carol().answering(&[(550, 180), (700 + seed * 30, last)])];
            let mut farm = Farm::new(both, phones.into()).dies_at(15).by(seed);
            farm.call();
            farm.repeat_invite(530);
            farm.repeat_invite(560);
            farm.run(100_000);
            let ladder = farm.world.ladder();
            assert_eq!(final_statuses(&ladder), [expected], "seed {seed}\n{ladder}");
            farm.rest();
        }
    }
}

/// As above: the first refusal ends neither the request at the node that hears of it, nor what a CANCEL does there.
#[test]
fn a_repeated_invite_to_two_callees_is_cancelled_after_one_has_refused() {
    fn both(_: &PlanRequest) -> Decision {
        targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]])
    }
    for seed in 0..80 {
        let phones = [bob().answering(&[(600, 486)]), carol().answering(&[(550, 180), (60_000, 200)])];
        let mut farm = Farm::new(both, phones.into()).dies_at(15).by(seed);
        farm.call();
        farm.then(900 + seed * 30, "CANCEL");
        farm.run(100_000);
        let ladder = farm.world.ladder();
        assert_eq!(farm.callee(1).calls[0].status, 487, "seed {seed}\n{ladder}");
        assert_eq!(final_statuses(&ladder).len(), 1, "seed {seed}\n{ladder}");
        farm.rest();
    }
}

/// A callee that is silent at all is the nodes' to answer for (RFC 3261 §16.8).
#[test]
fn a_repeated_invite_to_a_silent_callee_fails() {
    fn nowhere(_: &PlanRequest) -> Decision {
        targets(&[&["sip:bob@10.0.0.77"]])
    }
    for seed in 0..20 {
        let mut farm = Farm::new(nowhere, Vec::new()).dies_at(15).by(seed);
        farm.call();
        farm.run(100_000);
        assert_eq!(final_statuses(&farm.world.ladder()), [408], "seed {seed}\n{}", farm.world.ladder());
        farm.rest();
    }
}

/// The network is cut between the worker of a call and the node that has its INVITE; the repeated one comes to the worker by a third node.
/// RFC 3261 §16.7: one final response, from whichever node; and the dialog goes on.
#[test]
fn an_invite_at_two_nodes_that_cannot_reach_each_other_has_one_answer() {
    for seed in 0..60 {
        for script in [&[(100, 180), (300 + seed * 30, 200)][..], &[(300 + seed * 30, 200)], &[(20, 200)]] {
            let mut farm = Farm::new(to_bob, vec![bob().answering(script)]).apart(seed);
            farm.call();
            farm.repeat_invite(30);
            farm.repeat_invite(60);
            farm.run(300_000);
            let ladder = farm.world.ladder();
            assert_eq!(final_statuses(&ladder), [200], "seed {seed}\n{ladder}");
            assert_eq!(farm.callee(0).calls.len(), 1);
            assert!(farm.callee(0).calls[0].acknowledged, "seed {seed}\n{ladder}");
            farm.then(0, "BYE");
            farm.run(40_000);
            assert!(farm.alice().calls[0].ended && farm.callee(0).calls[0].ended, "seed {seed}\n{ladder}");
            assert_eq!(farm.alice().finals.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200]);
            farm.rest();
        }
    }
}
