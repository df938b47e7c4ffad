//! A farm whose database is away: for a minute, and while the owner of an address and the node that works on a call die.

use std::time::Duration;

use router::Life;
use sim::NodeId;
use sip::wire::Message;

use crate::accounts;
use crate::phone::Phone;
use crate::server::DOMAIN;
use crate::shared_accounts::{Farm, Figures, Nodes};

const BOB: usize = 0;
const CAROL: usize = 1;

fn aor(user: &str) -> String {
    format!("{user}@{DOMAIN}")
}

/// A farm at which bob is registered.
fn farm(seed: u64) -> Farm {
    let mut farm = Farm::new(seed);
    farm.run(1_000);
    let mut figures = Figures::default();
    farm.register(BOB, &mut figures);
    assert!(farm.world.node::<Nodes>(farm.nodes).has_row(&aor("bob")), "seed {seed}");
    farm
}

fn set_away(farm: &mut Farm, is_away: bool) {
    farm.world.act(farm.nodes, move |nodes: &mut Nodes, _, _| nodes.set_database_away(is_away));
}

fn last_invite(farm: &Farm) -> Message {
    farm.world.node::<Phone>(farm.alice).calls.last().unwrap().invite.clone()
}

/// A caller with a 100 repeats its INVITE no more (RFC 3261 §17.1.1.2). The call waits for the next owner of its callee, and the node at which
/// it waits dies, at any time before it has forwarded the call: the caller still gets a final response, and its callee rings once.
#[test]
fn a_call_that_waits_for_an_owner_is_not_lost_with_the_node_at_which_it_waits() {
    for seed in 0..120 {
        let mut farm = farm(seed);
        let owner = farm.world.node::<Nodes>(farm.nodes).owner(&aor("bob"));
        set_away(&mut farm, true);
        farm.world.act(farm.nodes, move |nodes: &mut Nodes, now, _| nodes.kill(now, owner));
        farm.begin_call(BOB);
        farm.run(20 + seed * 37);
        let invite = last_invite(&farm);
        farm.world
            .act(farm.nodes, move |nodes: &mut Nodes, now, _| nodes.kill(now, nodes.worker_of(&invite)));
        farm.run(4_500 - (20 + seed * 37));
        assert_eq!(farm.world.node::<Phone>(farm.alice).calls[0].status, 0, "seed {seed}: it waits");
        set_away(&mut farm, false);
        farm.run(60_000);
        let ladder = farm.world.ladder();
        assert_eq!(farm.world.node::<Phone>(farm.alice).calls[0].status, 200, "seed {seed}\n{ladder}");
        let callee = farm.world.node::<Phone>(farm.phones[BOB]);
        let rung: Vec<_> = callee.calls.iter().map(|call| call.acknowledged).collect();
        assert_eq!(rung, [true], "seed {seed}\n{ladder}");
    }
}

/// The node of the call's slot has died, and no other node knows it yet: the call waits where its INVITE arrived. The repetitions go to the slot's
/// next node once there is one. One node forwards the call: another's copy could be refused as a merged request (RFC 3261 §8.2.2.2).
#[test]
fn a_call_that_waits_away_from_its_slot_is_forwarded_by_one_node() {
    let mut moved = 0;
    for seed in 0..120 {
        let mut farm = farm(seed);
        let owner = farm.world.node::<Nodes>(farm.nodes).owner(&aor("bob"));
        set_away(&mut farm, true);
        farm.begin_call(BOB);
        let invite = last_invite(&farm);
        let worker = farm.world.node::<Nodes>(farm.nodes).worker_of(&invite);
        let arrival = (1..=5).map(Life).find(|life| ![owner, worker].contains(life)).unwrap();
        farm.world.act(farm.nodes, move |nodes: &mut Nodes, now, _| {
            nodes.arrival = Some(arrival);
            [owner, worker].into_iter().for_each(|life| nodes.kill(now, life));
        });
        farm.run(3_300 + seed * 20);
        set_away(&mut farm, false);
        farm.run(60_000);
        let ladder = farm.world.ladder();
        assert_eq!(farm.world.node::<Phone>(farm.alice).calls[0].status, 200, "seed {seed}\n{ladder}");
        let callers = &farm.world.node::<Nodes>(farm.nodes).callers;
        assert_eq!(callers.len(), 1, "seed {seed}: {callers:?}\n{ladder}");
        moved += usize::from(!callers.contains(&arrival));
    }
    assert!(moved > 20, "{moved}");
}

/// The node of the call's slot has died, no other node knows it yet, and the call is forwarded where its INVITE arrived. A repetition of the INVITE
/// comes when the slot has its next worker: it is no other call.
#[test]
fn a_repetition_of_a_call_that_was_forwarded_away_from_its_slot_is_not_forwarded_again() {
    let mut moved = 0;
    for seed in 0..120 {
        let mut farm = farm(seed);
        farm.begin_call(BOB);
        let invite = last_invite(&farm);
        let nodes = farm.world.node::<Nodes>(farm.nodes);
        let (owner, worker) = (nodes.owner(&aor("bob")), nodes.worker_of(&invite));
        if owner == worker {
            continue;
        }
        let arrival = (1..=5).map(Life).find(|life| ![owner, worker].contains(life)).unwrap();
        farm.world.act(farm.nodes, move |nodes: &mut Nodes, now, _| {
            nodes.arrival = Some(arrival);
            nodes.kill(now, worker);
        });
        farm.run(3_300 + seed * 20);
        let packet = invite.bytes().clone();
        farm.world
            .act(farm.alice, move |alice: &mut Phone, _, out| out.push((alice.addr, alice.proxy, packet)));
        farm.run(60_000);
        let ladder = farm.world.ladder();
        assert_eq!(farm.world.node::<Phone>(farm.alice).calls[0].status, 200, "seed {seed}\n{ladder}");
        let nodes = farm.world.node::<Nodes>(farm.nodes);
        assert_eq!(nodes.callers.len(), 1, "seed {seed}: {:?}\n{ladder}", nodes.callers);
        moved += usize::from(nodes.worker_of(&invite) != arrival);
    }
    assert!(moved > 20, "{moved}");
}

/// A call waits for the next owner of its callee at two nodes: where its INVITE arrived, and where its repetition did, as the node of its slot has
/// died and neither knows it yet. The callee refuses the copy of the node that hears of the owner first. The other one stands down: its copy would
/// ring a phone whose call is over.
#[test]
fn a_call_that_waits_at_two_nodes_does_not_ring_a_callee_that_has_refused_it() {
    let mut alone = 0;
    for seed in 0..120 {
        let mut farm = farm(seed);
        farm.world.act(farm.phones[BOB], |bob: &mut Phone, _, _| bob.script = vec![(Duration::ZERO, 486)]);
        let owner = farm.world.node::<Nodes>(farm.nodes).owner(&aor("bob"));
        set_away(&mut farm, true);
        farm.world.act(farm.nodes, move |nodes: &mut Nodes, now, _| nodes.kill(now, owner));
        farm.run(1_500);
        farm.begin_call(BOB);
        let invite = last_invite(&farm);
        let worker = farm.world.node::<Nodes>(farm.nodes).worker_of(&invite);
        let mut others = (1..=5).map(Life).filter(|life| ![owner, worker].contains(life));
        let (first, second) = (others.next(), others.next());
        farm.world.act(farm.nodes, move |nodes: &mut Nodes, now, _| {
            nodes.arrival = first;
            nodes.kill(now, worker);
        });
        farm.run(300);
        farm.world.act(farm.nodes, move |nodes: &mut Nodes, _, _| nodes.arrival = second);
        let packet = invite.bytes().clone();
        farm.world
            .act(farm.alice, move |alice: &mut Phone, _, out| out.push((alice.addr, alice.proxy, packet)));
        farm.run(1_500 + seed * 4);
        set_away(&mut farm, false);
        farm.run(60_000);
        let ladder = farm.world.ladder();
        assert_eq!(farm.world.node::<Phone>(farm.alice).calls[0].status, 486, "seed {seed}\n{ladder}");
        let nodes = farm.world.node::<Nodes>(farm.nodes);
        assert_eq!(nodes.late_invites, 0, "seed {seed}: {:?}\n{ladder}", nodes.callers);
        alone += usize::from(nodes.callers.len() == 1);
    }
    assert!(alone > 20, "{alone}");
}

/// Sends a REGISTER with these lines, and returns the answer once it has come, with the milliseconds until then.
fn ask(farm: &mut Farm, phone: NodeId, lines: &str) -> (String, u64) {
    let (before, lines) = (farm.world.node::<Phone>(phone).finals.len(), lines.to_owned());
    farm.world.act(phone, move |phone: &mut Phone, now, out| {
        phone.request(now, "REGISTER", "sip:example.test", &lines, out);
    });
    for step in 1..400 {
        farm.run(100);
        if let Some((_, answer)) = farm.world.node::<Phone>(phone).finals.get(before) {
            return (answer.clone(), step * 100);
        }
    }
    panic!("a REGISTER without an answer\n{}", farm.world.ladder());
}

/// The same, with the credentials for a challenge.
fn register(farm: &mut Farm, phone: usize) -> (String, u64) {
    let (id, user) = (farm.phones[phone], ["bob", "carol"][phone]);
    let (challenge, _) = ask(farm, id, "Expires: 600\r\n");
    let lines = accounts::credentials(&challenge, user, "secret", "REGISTER", "sip:example.test");
    ask(farm, id, &format!("{lines}Expires: 600\r\n"))
}

/// The times of `router::limits`, with the way of messages: what waits is refused after 8 s, and at once after 10 s.
const PATIENCE: std::ops::RangeInclusive<u64> = 7_900..=9_500;

#[test]
fn a_minute_without_the_database_delays_no_call_and_loses_nothing_that_was_acknowledged() {
    for seed in 0..20 {
        let mut farm = farm(seed);
        set_away(&mut farm, true);
        let began = farm.world.now();
        let (mut waited, mut refused_at_once) = (0, 0);
        while farm.world.now().since(began).as_secs() < 60 {
            // The callee's script: it answers after a second.
            assert_eq!(farm.call(BOB, 1_500), 200, "seed {seed}: a call from memory is not delayed");
            let (answer, millis) = register(&mut farm, CAROL);
            assert!(answer.starts_with("SIP/2.0 503 "), "seed {seed}: {answer}");
            assert!(answer.contains("\r\nRetry-After: "), "seed {seed}: {answer}");
            match millis {
                ..1_000 => refused_at_once += 1,
                _ if PATIENCE.contains(&millis) => waited += 1,
                // The outage has become known while it waited.
                _ => assert!(waited + refused_at_once <= 1, "seed {seed}: {millis} ms"),
            }
        }
        assert!(
            refused_at_once > 5 && waited >= 1,
            "seed {seed}: {waited} waited, {refused_at_once} at once"
        );
        assert!(!farm.world.node::<Nodes>(farm.nodes).has_row(&aor("carol")));
        set_away(&mut farm, false);
        let (answer, millis) = register(&mut farm, CAROL);
        assert!(answer.starts_with("SIP/2.0 200 ") && millis < 1_000, "seed {seed}: {millis} ms, {answer}");
        assert!(farm.world.node::<Nodes>(farm.nodes).has_row(&aor("carol")), "seed {seed}: it is durable");
        assert_eq!((farm.call(BOB, 1_500), farm.call(CAROL, 1_500)), (200, 200), "seed {seed}");
        assert_eq!(farm.world.node::<Nodes>(farm.nodes).waiting_changes(), 0, "seed {seed}");
    }
}
