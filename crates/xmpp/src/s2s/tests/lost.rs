//! For any failure at any time: a stanza is delivered once, or answered once, or was on the wire that was
//! cut, or goes back to its origin in the farm because another shard owns its domain. Each has one outcome.

use proptest::prelude::*;

use super::*;

/// The steps of a play.
#[derive(Clone, Copy, Debug)]
enum TestStep {
    /// From a node to the other, from its first or second domain.
    Say(bool, bool),
    Steps(u8),
    Cut,
    Wait(u16),
    /// Another shard owns the domains of a node's peers.
    Stop(bool),
}

fn act() -> impl Strategy<Value = TestStep> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(is_b, second)| TestStep::Say(is_b, second)),
        4 => (1u8..40).prop_map(TestStep::Steps),
        1 => Just(TestStep::Cut),
        1 => any::<bool>().prop_map(TestStep::Stop),
        1 => (1u16..900).prop_map(TestStep::Wait),
    ]
}

fn play(seed: u64, certified: [bool; 2], acts: &[TestStep]) {
    let mut world = FederationWorld::new(seed, &[&["a.test", "rooms.a.test"], &["b.test", "rooms.b.test"]]);
    for node in 0..2 {
        if certified[node] {
            world.certify(node, ["a.test", "b.test"][node]);
        }
    }
    let mut said = Vec::new();
    for act in acts {
        match *act {
            TestStep::Say(is_b, second) => {
                let (node, mut domains) = (usize::from(is_b), ["a.test", "b.test"]);
                if is_b {
                    domains.reverse();
                }
                let from = if second { format!("rooms.{}", domains[0]) } else { domains[0].to_owned() };
                let id = format!("s{}", said.len());
                world.message(node, &format!("x@{from}/y"), &format!("z@{}", domains[1]), &id);
                said.push((node, id));
            }
            TestStep::Steps(count) => {
                for _ in 0..count {
                    world.step();
                }
            }
            TestStep::Cut => {
                let open = world.wires.iter().enumerate().filter(|(_, wire)| !wire.is_gone);
                let open: Vec<usize> = open.map(|(wire, _)| wire).collect();
                if !open.is_empty() {
                    let wire = open[usize::try_from(world.rng.below(open.len() as u64)).unwrap()];
                    world.cut(wire);
                }
            }
            TestStep::Stop(is_b) => {
                for shard in 0..SHARDS {
                    world.tell(usize::from(is_b), shard, |servers, _, out| servers.stop(|_| true, out));
                }
            }
            TestStep::Wait(seconds) => world.pass(Duration::from_secs(seconds.into())),
        }
    }
    world.pass(Duration::from_secs(2_000));
    for (number, (node, id)) in said.into_iter().enumerate() {
        let arrived = world.got(1 - node).iter().filter(|got| **got == id).count();
        let returned = world.got(node).iter().filter(|got| got.starts_with(&format!("{id} "))).count();
        let lost = usize::from(world.lost.contains(&id) && arrived == 0);
        let [outcome] = world.outcomes[number][..] else {
            panic!("{id} has {} outcomes", world.outcomes[number].len());
        };
        let untaken = usize::from(outcome == Outcome::Untaken);
        let sum = arrived + returned + lost + untaken;
        assert_eq!(sum, 1, "{id}: arrived {arrived}, returned {returned}, lost {lost}, {outcome:?}");
    }
    for node in 0..2 {
        assert_eq!(world.sum(node, |counts| counts.outgoing + counts.incoming + counts.waiting), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_stanza_is_delivered_once_or_answered_once(
        seed in any::<u64>(),
        certified in any::<[bool; 2]>(),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        play(seed, certified, &acts);
    }
}
