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
    let node = &farm.nodes[0];
    assert!(node.health().ends_with("\r\nok\n"), "{}", node.health());
    assert!(!node.run(&["status"]).contains("council"));
    nats.kill();
    let says_so = || node.health().contains("\r\nok\nthe farm's council is away: ");
    interop::wait_until("/health to say it", Duration::from_secs(20), says_so, || node.health());
    assert!(node.health().starts_with("HTTP/1.0 200 "), "{}", node.health());
    let is_in_status = || node.run(&["status"]).contains("farm           the council is away (");
    interop::wait_until("belfry status to say it", Duration::from_secs(20), is_in_status, || node.tail());
    let (code, error) = node.fails(&["farm", "drain", "n1"]);
    assert_eq!(code, 1);
    assert!(error.contains("the council is away") && error.contains("belfry drain"), "{error}");
    caller.succeeds();
    nats.start_again();
    farm.wait_for_shares(2);
    let is_back = || node.health().ends_with("\r\nok\n");
    interop::wait_until("/health to be as before", Duration::from_secs(20), is_back, || node.health());
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

#[test]
fn a_node_shows_all_nodes_and_the_map_and_drains_another() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::start(&nats, 2, "bob", 5_999);
    let node = &farm.nodes[0];
    let nodes = node.run(&["farm", "nodes"]);
    assert!(nodes.contains("n0 (this)") && nodes.contains("n1") && nodes.contains("serving"), "{nodes}");
    let rows: Vec<serde_json::Value> = node
        .run(&["farm", "nodes", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["weight"] == 100 && row["shards"] == 2), "{rows:?}");
    let map = node.run(&["farm", "map"]);
    assert!(map.contains("n0 (this)  call slots  2 048  0-"), "{map}");
    let map: serde_json::Value =
        serde_json::from_str(&node.run(&["farm", "map", "--json"])).expect("one object");
    for what in ["call_slots", "buckets"] {
        let ranges = map[what].as_array().expect("a list");
        let count = |range: &serde_json::Value| {
            range["last"].as_u64().expect("a number") - range["first"].as_u64().expect("a number") + 1
        };
        assert_eq!(ranges.iter().map(count).sum::<u64>(), 4_096, "{what}");
    }
    let (code, error) = node.fails(&["farm", "drain", "n7"]);
    assert_eq!(code, 1);
    assert!(error.contains("there is no node n7 in the farm; it has n0, n1"), "{error}");
    assert_eq!(node.run(&["farm", "drain", "n1"]), "n1 is draining\n");
    let (_, error) = node.fails(&["farm", "drain", "n1"]);
    assert!(error.contains("the node n1 is draining already"), "{error}");
    assert_eq!(farm.nodes[1].ended(Duration::from_secs(60)), Some(0));
    farm.wait_for_shares(1);
    // The request was for that life only.
    farm.nodes[1].start();
    farm.wait_for_shares(2);
}

#[test]
fn a_node_of_a_taken_name_or_with_another_secret_does_not_start() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let farm = Farm::start(&nats, 1, "bob", 5_999);
    let (code, error) = farm.prepare(&nats, "n0", true).fails(&["serve"]);
    assert_eq!(code, 1);
    assert!(error.contains("a live node of the farm has this name"), "{error}");
    let (code, error) = farm.prepare(&nats, "n1", false).fails(&["serve"]);
    assert_eq!(code, 1);
    assert!(error.contains("with another secret: copy the farm's secret to this node"), "{error}");
    farm.wait_for_shares(1);
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
