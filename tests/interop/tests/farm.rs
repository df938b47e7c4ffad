//! A farm of real nodes under SIPp: calls are shared, and go on when a node dies or leaves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interop::{Farm, Nats, NatsRelease, Sipp};

/// One farm at a time: three nodes, two SIPps and a NATS server keep two cores busy enough.
fn alone() -> MutexGuard<'static, ()> {
    static FARM: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    FARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls of half a second, so that some are in every phase when something happens.
fn call(farm: &Farm, calls: u32, rate: u32) -> Sipp {
    Sipp::calling("-uac", farm.port, "bob", calls, rate)
}

#[test]
fn three_nodes_share_the_calls_of_one_address() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let callee = Sipp::answering("-uas", 300);
    let farm = Farm::start(&nats, 3, "bob", callee.port);
    call(&farm, 300, 50).succeeds();
    // The figures are published twice a second.
    let all = || farm.calls().iter().sum::<u64>() == 300;
    interop::wait_until("300 calls at three nodes", Duration::from_secs(20), all, || {
        format!("{:?}", farm.calls())
    });
    let calls = farm.calls();
    assert!(calls.iter().all(|calls| *calls > 50), "{calls:?}");
}

#[test]
fn a_node_that_leaves_takes_no_call_with_it() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let callee = Sipp::answering("-uas", 600);
    let mut farm = Farm::start(&nats, 3, "bob", callee.port);
    let caller = call(&farm, 600, 50);
    farm.nodes[1].run(&["drain", "--wait"]);
    farm.nodes[1].kill();
    farm.wait_for_shares(2);
    caller.succeeds();
    farm.nodes[1].start();
    farm.wait_for_shares(3);
}

#[test]
fn calls_and_new_ones_go_on_while_the_council_is_away() {
    let _alone = alone();
    let mut nats = Nats::start(NatsRelease::Current);
    let callee = Sipp::answering("-uas", 600);
    let farm = Farm::start(&nats, 2, "bob", callee.port);
    let caller = call(&farm, 600, 40);
    nats.kill();
    caller.succeeds();
    nats.start_again();
    farm.wait_for_shares(2);
}

#[test]
fn the_calls_of_a_node_that_is_killed_are_taken_over() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let callee = Sipp::answering("-uas", 1_000);
    let mut farm = Farm::start(&nats, 3, "bob", callee.port);
    call(&farm, 100, 50).succeeds();
    farm.nodes[2].kill();
    farm.wait_for_shares(2);
    // All call slots are at the two that live.
    call(&farm, 200, 50).succeeds();
    farm.nodes[2].start();
    farm.wait_for_shares(3);
    call(&farm, 200, 50).succeeds();
}

/// Each call rings for a third of a second: the node that is killed has some in every phase of their setup.
#[test]
fn calls_that_are_set_up_at_a_node_that_is_killed_are_answered_and_end() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let callee = Sipp::answering("answer-late.xml", 800);
    let mut farm = Farm::start(&nats, 3, "bob", callee.port);
    let caller = Sipp::calling("dialog.xml", farm.port, "bob", 800, 50);
    let begun = || farm.calls().iter().sum::<u64>() > 200;
    interop::wait_until("the first calls", Duration::from_secs(30), begun, || format!("{:?}", farm.calls()));
    farm.nodes[1].kill();
    caller.succeeds();
    callee.succeeds();
    farm.wait_for_shares(2);
}
