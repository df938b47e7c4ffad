//! Calls of accounts with a limit, in a farm whose nodes share a database: the owner of the address counts them by the reports of their workers.

use std::time::Duration;

use router::Life;

use crate::phone::Phone;
use crate::server::DOMAIN;
use crate::shared_accounts::{Farm, Figures, Nodes};

/// The way in which a node ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Killed,
    /// It has given its call slots away, and lives.
    Drains,
    /// The same, and it has left.
    Drained,
}

/// Calls bob, who may be in one call. Returns the worker, if it is not the owner of bob's address.
fn begin(farm: &mut Farm) -> Option<Life> {
    farm.run(1_000);
    farm.register(0, &mut Figures::default());
    let (nodes, bob) = (farm.nodes, format!("bob@{DOMAIN}"));
    farm.world.act(nodes, |nodes: &mut Nodes, _, _| nodes.max_calls = Some(1));
    assert_eq!(farm.call(0, 2_500), 200);
    assert_eq!(farm.call(0, 2_500), 486, "bob is in a call");
    let nodes = farm.world.node::<Nodes>(nodes);
    let worker = nodes.callers.last().copied()?;
    (nodes.callers.len() == 1 && worker != nodes.owner(&bob)).then_some(worker)
}

fn end(farm: &mut Farm, worker: Life, end: End) {
    farm.world.act(farm.nodes, move |nodes: &mut Nodes, now, out| {
        if end != End::Killed {
            nodes.leave(now, worker, out);
        }
        if end != End::Drains {
            nodes.kill(now, worker);
        }
    });
    // All nodes know it, and the buckets of the node are served.
    farm.run(10_000);
}

/// The call goes on at another node, which does not know its accounts.
#[test]
fn an_account_with_a_limit_calls_again_when_its_call_has_ended_at_another_node() {
    for how in [End::Killed, End::Drains, End::Drained] {
        let mut tried = 0;
        for seed in 0..16 {
            let mut farm = Farm::new(seed);
            let Some(worker) = begin(&mut farm) else { continue };
            tried += 1;
            end(&mut farm, worker, how);
            let alice = farm.alice;
            farm.world.act(alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
            farm.run(1_000);
            assert!(farm.world.node::<Phone>(farm.phones[0]).calls[0].ended, "seed {seed}, {how:?}");
            assert_eq!(farm.call(0, 2_500), 200, "seed {seed}, {how:?}: the call counts no more");
            assert_eq!(farm.call(0, 2_500), 486, "seed {seed}, {how:?}: bob is in a call again");
        }
        assert!(tried > 3, "{how:?}: {tried} calls at another node than the owner");
    }
}

/// The worker lives, and is not the owner: its calls count until they end.
#[test]
fn calls_of_nodes_that_live_count_while_others_end() {
    for seed in 0..8 {
        let mut farm = Farm::new(seed);
        let Some(worker) = begin(&mut farm) else { continue };
        let bob = format!("bob@{DOMAIN}");
        let nodes = farm.world.node::<Nodes>(farm.nodes);
        let owner = nodes.owner(&bob);
        let other = (1..=4).map(Life).find(|life| *life != worker && *life != owner).unwrap();
        end(&mut farm, other, End::Killed);
        assert_eq!(farm.call(0, 2_500), 486, "seed {seed}");
        let alice = farm.alice;
        farm.world.act(alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
        farm.world.run_for(Duration::from_secs(1));
        assert_eq!(farm.call(0, 2_500), 200, "seed {seed}");
    }
}
