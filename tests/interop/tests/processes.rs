//! Several processes of one configuration (`belfry serve --processes`): they are nodes of one farm, and their supervisor starts those again
//! that end.

use std::time::Duration;

use interop::{Account, Farm, Nats, NatsRelease, Node, Sipp, new_postgres_database, wait_until};
use serde_json::Value;

const USERS: usize = 6;

/// The nodes that serve, by name and life, in the order of their names.
fn serving(node: &Node) -> Vec<(String, u64)> {
    let status: Value = serde_json::from_str(&node.run(&["farm", "status", "--json"])).unwrap_or_default();
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let serving = nodes.iter().filter(|node| node["state"] == "serving");
    let named = |node: &Value| {
        (node["name"].as_str().unwrap_or_default().to_owned(), node["life"].as_u64().unwrap_or(0))
    };
    let mut lives: Vec<_> = serving.map(named).collect();
    lives.sort_unstable();
    lives
}

fn is_there(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn processes_share_calls_and_phones_and_one_that_is_killed_comes_back() {
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::of_processes(&nats, 3, &new_postgres_database(), USERS);
    let port = farm.port;
    let names = |nodes: &[(String, u64)]| nodes.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let before = serving(&farm.nodes[0]);
    assert_eq!(names(&before), ["n-1", "n-2", "n-3"]);

    let users: Vec<Account> = (0..USERS).map(|user| Account::new(&format!("user{user}"), "secret")).collect();
    let call_all = || {
        let phone = Sipp::answering("answer.xml", u32::try_from(USERS).expect("a test has few users"));
        Sipp::for_accounts("register-in-farm.xml", port, &users, phone.port, 20).succeeds();
        (0..USERS)
            .for_each(|user| Sipp::calling("dialog.xml", port, &format!("user{user}"), 1, 1).succeeds());
        phone.succeeds();
    };
    call_all();

    // Not the one that answers commands.
    let killed = *farm.nodes[0].children().last().expect("three were started");
    farm.nodes[0].signal_child(killed, "KILL");
    wait_until(
        "the killed process to serve in a new life",
        Duration::from_secs(60),
        || {
            let now = serving(&farm.nodes[0]);
            names(&now) == names(&before) && now != before
        },
        || farm.nodes[0].tail(),
    );
    farm.wait_for_shares(3);
    farm.wait_for_owners(3);
    call_all();

    let processes = farm.nodes[0].children();
    assert_eq!(processes.len(), 3);
    farm.nodes[0].signal("TERM");
    let drains = || farm.nodes[0].run(&["status"]).contains("draining");
    wait_until("the first process to drain", Duration::from_secs(20), drains, || farm.nodes[0].tail());
    // Transactions of the calls would take half a minute to end.
    farm.nodes[0].signal("TERM");
    assert_eq!(farm.nodes[0].ended(Duration::from_secs(60)), Some(0));
    assert!(!processes.into_iter().any(is_there), "none is left");
}

#[test]
fn several_processes_without_a_farm_are_refused() {
    let (code, text) = Node::prepare().fails(&["serve", "--processes", "2"]);
    assert_eq!(code, 78, "{text}");
    assert!(text.contains("[farm] name and [store] url are not set, and --processes needs both"), "{text}");
}
