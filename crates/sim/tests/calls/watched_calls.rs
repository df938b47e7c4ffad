//! Reports of calls to the owners of their addresses, in a farm whose nodes share a database: only of watched addresses.

use router::{CallInfo, CallPhase};

use crate::server::DOMAIN;
use crate::shared_accounts::{Farm, Figures, Nodes};

fn reports(farm: &mut Farm) -> u32 {
    farm.world.node::<Nodes>(farm.nodes).reports
}

/// The largest number of answered calls that the watcher was told at once: here a push may overtake another.
fn confirmed(farm: &mut Farm) -> usize {
    let is_confirmed = |call: &&CallInfo| call.phase == CallPhase::Confirmed;
    let dialogs = &farm.world.node::<Nodes>(farm.nodes).dialogs;
    dialogs.iter().map(|calls| calls.iter().filter(is_confirmed).count()).max().unwrap_or_default()
}

/// Calls to bob, who answers, at the workers that their Call-IDs give.
fn call_bob(farm: &mut Farm, calls: usize) {
    for _ in 0..calls {
        assert_eq!(farm.call(0, 2_500), 200);
    }
}

#[test]
fn calls_of_unwatched_addresses_cost_no_report_and_a_watcher_sees_those_that_are_up() {
    let mut first = 0;
    for seed in 0..8 {
        let mut farm = Farm::new(seed);
        farm.run(1_000);
        farm.register(0, &mut Figures::default());
        // Each worker asks the owner for its list.
        call_bob(&mut farm, 8);
        let listed = reports(&mut farm);
        first += listed;
        call_bob(&mut farm, 8);
        assert_eq!(reports(&mut farm), listed, "seed {seed}: reports without a watcher");
        let bob = format!("bob@{DOMAIN}");
        let nodes = farm.nodes;
        farm.world.act(nodes, move |nodes: &mut Nodes, now, _| nodes.watch_dialogs(now, &bob));
        farm.run(100);
        assert_eq!(confirmed(&mut farm), 16, "seed {seed}: those that were not reported, too");
        let before = reports(&mut farm);
        call_bob(&mut farm, 4);
        assert!(reports(&mut farm) > before, "seed {seed}: calls of a watched address are reported");
        assert_eq!(confirmed(&mut farm), 20, "seed {seed}");
    }
    assert!(first > 16, "{first} reports before the lists");
}
