//! Every request of a dialog has its final response, whichever node is killed, at whichever step: the node that has the request's transaction, the
//! one that has its response, or the one that has the ACK.

use std::time::Duration;

use sim::{Link, NodeId, World};
use sip::wire::Method;

use crate::killed_nodes::{Death, KilledNodes};
use crate::phone::Phone;
use crate::{SERVER, address, bob};

/// Requests of one side within its dialog, each so many milliseconds after the response to the one before.
type Requests = &'static [(u64, &'static str)];

/// The rule of `bench/farm/scenarios`: what a death has lost is repeated before the next request.
const SLOW: Requests = &[(2_000, "INVITE"), (2_000, "BYE")];
const QUICK: Requests =
    &[(100, "INVITE"), (30, "OPTIONS"), (30, "MESSAGE"), (30, "UPDATE"), (100, "INVITE"), (2_000, "BYE")];

/// A call that one side goes on with, and the death in it.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    worker: usize,
    is_callees: bool,
    requests: Requests,
    /// The callee refuses a re-INVITE as long as it waits for the ACK before.
    needs_ack: bool,
    /// Milliseconds from a re-INVITE to its answer.
    answers_after: u64,
    death: Death,
    /// Milliseconds from the beginning to the death; none: at the step that the death names.
    at: Option<u64>,
}

struct Farm {
    world: World,
    alice: NodeId,
    nodes: NodeId,
    bob: NodeId,
}

impl Farm {
    fn new(case: &Case) -> Farm {
        let mut world = World::new(case.seed + 1);
        // Packets of every other seed overtake each other.
        let jitter = Duration::from_millis(15 * (case.seed % 2));
        world.set_default_link(Link { jitter, ..Link::steady(Duration::from_millis(10)) });
        world.set_label(sim::ladder::label_with_method);
        let mut alice = Phone::new("alice", address(2), SERVER);
        let mut bob = bob().answering(&[(0, 180), (60, 200)]);
        for phone in [&mut alice, &mut bob] {
            phone.dialog.is_orderly = true;
            phone.dialog.needs_ack = case.needs_ack;
            phone.dialog.answers_after = Duration::from_millis(case.answers_after);
        }
        let sender = if case.is_callees { &mut bob } else { &mut alice };
        sender.dialog.sends =
            case.requests.iter().map(|(after, method)| (Duration::from_millis(*after), *method)).collect();
        let alice = world.add("alice", &[address(2)], alice);
        let nodes =
            world.add("nodes", &[SERVER], KilledNodes::new(world.now(), case.seed, case.worker, case.death));
        let bob = world.add("bob", &[bob.addr], bob);
        if let Some(at) = case.at {
            let at = world.now() + Duration::from_millis(at);
            world.at(at, move |world| {
                world.note(nodes, "one dies");
                world.act(nodes, |nodes: &mut KilledNodes, now, _| nodes.kill(now));
            });
        }
        world.act(alice, |phone: &mut Phone, now, out| phone.call(now, "sip:bob@10.0.0.1", out));
        Farm { world, alice, nodes, bob }
    }

    /// The faults of the call, in words.
    fn faults(&mut self, case: &Case) -> Vec<String> {
        self.world.run_for(Duration::from_secs(200));
        let (alice, bob): (&Phone, &Phone) = (self.world.node(self.alice), self.world.node(self.bob));
        let sender = if case.is_callees { bob } else { alice };
        let methods = case.requests.iter().map(|(_, method)| *method);
        let first = (!case.is_callees).then_some("INVITE");
        let expected: Vec<&str> = first.into_iter().chain(methods).collect();
        let answered: Vec<String> = sender
            .dialog
            .answers
            .iter()
            .map(|(_, method, status)| format!("{} {status}", method.as_str()))
            .collect();
        let mut faults = Vec::new();
        if answered != expected.iter().map(|method| format!("{method} 200")).collect::<Vec<_>>() {
            faults.push(format!("answers: {answered:?}"));
        }
        if case.is_callees && !alice.dialog.answers.iter().all(|answer| answer.2 == 200) {
            faults.push(format!("the caller: {:?}", alice.dialog.answers));
        }
        let invites = expected.iter().filter(|method| **method == Method::Invite.as_str()).count();
        let callee = if case.is_callees { alice } else { bob };
        let heard = callee.calls.iter().filter(|call| !call.is_caller);
        let (heard, acknowledged) = (heard.clone().count(), heard.filter(|call| call.acknowledged).count());
        if (heard, acknowledged) != (invites, invites) {
            faults.push(format!("{heard} INVITEs of {invites}, {acknowledged} with an ACK"));
        }
        self.world.run_for(Duration::from_secs(200));
        let ladder = self.world.ladder();
        let failures = failures(&ladder);
        if !failures.is_empty() {
            faults.push(format!("failures: {failures:?}"));
        }
        if self.world.node::<KilledNodes>(self.nodes).live().any(|node| node.endpoint.load() != (0, 0)) {
            faults.push("a node has something left".into());
        }
        faults
    }
}

/// Runs the call without a death, and returns the milliseconds from its beginning to each step.
fn steps_of(case: &Case) -> Vec<u64> {
    let mut farm = Farm::new(case);
    let start = farm.world.now();
    let faults = farm.faults(case);
    assert!(faults.is_empty(), "{faults:?} without a death\n{}", farm.world.ladder());
    let steps = &farm.world.node::<KilledNodes>(farm.nodes).steps;
    steps.iter().map(|at| u64::try_from(at.since(start).as_millis()).unwrap()).collect()
}

/// The arrows with a final response that is no 200.
fn failures(ladder: &str) -> Vec<&str> {
    let is_failure = |line: &&str| {
        let mut words = line.split("──").filter_map(|words| words.get(..3));
        words.any(|status| status.parse().is_ok_and(|status: u16| status >= 300))
    };
    ladder.lines().filter(is_failure).collect()
}

/// The ends of a victim: whether the victim returns, and whether what it had comes back to the senders.
const ENDS: [(bool, bool); 4] = [(false, false), (true, true), (false, true), (true, false)];

/// The worlds of one call: each node dies at each step, and so long before it that what the others do about the death meets the step. A short
/// search has one of the ends, and one of the times before, at each step.
fn each_death(call: Case, act: &mut dyn FnMut(&Case)) {
    let steps = steps_of(&call);
    let is_short = seeds().is_none();
    for (victim, number) in (0..3).flat_map(|victim| (0..steps.len()).map(move |number| (victim, number))) {
        let is_chosen = |of: usize, place: usize| !is_short || (victim + number) % of == place;
        let ends = ENDS.into_iter().enumerate().filter(|(place, _)| is_chosen(ENDS.len(), *place));
        for (_, (returns, comes_back)) in ends {
            let death = |step| Death { victim, step, returns, comes_back };
            act(&Case { death: death(Some(number)), ..call });
            for (_, before) in BEFORE.iter().enumerate().filter(|(at, _)| is_chosen(BEFORE.len(), *at)) {
                if let Some(at) = steps[number].checked_sub(*before) {
                    act(&Case { death: death(None), at: Some(at), ..call });
                }
            }
        }
    }
}

/// Milliseconds: around the end of links, the refusal, the map of the death, the successor's join and the slot's move.
const BEFORE: &[u64] = &[1, 3, 60, 98, 103, 500, 1_600, 1_800, 2_100, 2_600, 3_000, 3_300, 4_000];

fn expect_no_fault(calls: impl Iterator<Item = Case>) {
    let (mut worlds, mut failed) = (0, Vec::new());
    for call in calls {
        each_death(call, &mut |case| {
            worlds += 1;
            let mut farm = Farm::new(case);
            let faults = farm.faults(case);
            if !faults.is_empty() {
                failed.push(format!("{case:?}: {faults:?}\n{}", farm.world.ladder()));
            }
        });
    }
    let shown = failed[..failed.len().min(3)].join("\n");
    assert!(failed.is_empty(), "{} of {worlds} worlds, among them\n{shown}", failed.len());
}

/// The calls of a test: ways of the packets of their own, and each node as the worker. Their death is chosen later.
fn calls(call: Case) -> impl Iterator<Item = Case> {
    (0..seeds().unwrap_or(1)).map(move |seed| Case {
        seed,
        worker: usize::try_from(seed % 3).unwrap(),
        ..call
    })
}

const CALL: Case = Case {
    seed: 0,
    worker: 0,
    is_callees: false,
    requests: QUICK,
    needs_ack: false,
    answers_after: 0,
    death: Death { victim: 0, step: None, returns: false, comes_back: false },
    at: None,
};

#[test]
fn a_callers_requests_are_answered_whichever_node_is_killed_at_whichever_step() {
    expect_no_fault(calls(CALL));
}

#[test]
fn a_callees_requests_are_answered_whichever_node_is_killed_at_whichever_step() {
    expect_no_fault(calls(Case { is_callees: true, ..CALL }));
}

#[test]
fn a_callee_that_needs_the_ack_before_has_it_whichever_node_is_killed_at_whichever_step() {
    expect_no_fault(calls(Case { requests: SLOW, needs_ack: true, ..CALL }));
}

/// The caller has had a 100, and repeats nothing.
#[test]
fn a_reinvite_that_is_answered_late_is_answered_whichever_node_is_killed_at_whichever_step() {
    for answers_after in [300, 2_500] {
        expect_no_fault(calls(Case { requests: SLOW, needs_ack: true, answers_after, ..CALL }));
    }
}

/// `SEEDS` in the environment makes the search a whole one, with so many ways of the packets.
fn seeds() -> Option<u64> {
    std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok())
}
