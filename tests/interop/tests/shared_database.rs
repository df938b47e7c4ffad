//! A farm of real nodes on one PostgreSQL database under SIPp: a phone registers at any node and is called from any.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interop::{
    Account, Farm, Nats, NatsRelease, PostgresServer, Sipp, free_port, new_postgres_18_database,
    new_postgres_database, play, try_sql, wait_until,
};

/// One farm at a time, as in `farm.rs`.
fn alone() -> MutexGuard<'static, ()> {
    static FARM: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    FARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many that each of three nodes owns some of their buckets.
const USERS: usize = 9;

fn start(nats: &Nats) -> Farm {
    Farm::on_database(nats, 3, &new_postgres_database(), USERS)
}

fn accounts(users: impl Iterator<Item = usize>) -> Vec<Account> {
    users.map(|number| Account::new(&format!("user{number}"), "secret")).collect()
}

/// Registers all users at one phone, in turn at each of these nodes.
fn register(farm: &Farm, nodes: &[usize], phone: u16) {
    for (place, node) in nodes.iter().enumerate() {
        let own = accounts((0..USERS).filter(|user| user % nodes.len() == place));
        Sipp::for_accounts("register-in-farm.xml", farm.nodes[*node].port, &own, phone, 20).succeeds();
    }
}

/// Removes the bindings of all users at this node.
fn unregister(farm: &Farm, node: usize) {
    Sipp::for_accounts("unregister.xml", farm.nodes[node].port, &accounts(0..USERS), 5_062, 20).succeeds();
}

/// Calls all users once from each of these nodes; `phone` takes that many calls.
fn call_all(farm: &Farm, nodes: &[usize]) {
    for node in nodes {
        let call = |user| Sipp::calling("dialog.xml", farm.nodes[*node].port, &format!("user{user}"), 1, 1);
        let calls: Vec<Sipp> = (0..USERS).map(call).collect();
        calls.into_iter().for_each(Sipp::succeeds);
    }
}

/// The number of calls of [`call_all`].
fn count(nodes: &[usize]) -> u32 {
    u32::try_from(USERS * nodes.len()).expect("a test has few calls")
}

#[test]
fn a_phone_that_registers_at_one_node_is_found_from_all() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let url = new_postgres_database();
    let farm = Farm::on_database(&nats, 3, &url, USERS);
    // The number in docs/farm.md.
    let connections = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND application_name LIKE 'belfry%'";
    let count_connections = || try_sql(&url, connections).unwrap_or_default().trim().to_owned();
    let are_eighteen = || count_connections() == "18";
    wait_until("six connections of each node", Duration::from_secs(20), are_eighteen, count_connections);
    let all = [0, 1, 2];
    let phone = Sipp::answering("answer.xml", count(&all));
    register(&farm, &all, phone.port);
    call_all(&farm, &all);
    phone.succeeds();

    unregister(&farm, 2);
    let phone = Sipp::answering("take-message.xml", count(&[0]));
    register(&farm, &[2], phone.port);
    for node in all {
        let own = accounts((0..USERS).filter(|user| user % 3 == node));
        Sipp::for_accounts("send-message.xml", farm.nodes[node].port, &own, 5_062, 20).succeeds();
    }
    phone.succeeds();

    unregister(&farm, 1);
    for node in all {
        Sipp::calling("dialog.xml", farm.nodes[node].port, &format!("user{node}"), 1, 1).fails();
    }
}

#[test]
fn the_bindings_of_a_node_that_is_killed_are_found_at_the_others() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    // With the newest releases of NATS and of PostgreSQL.
    let mut farm = Farm::on_database(&nats, 3, &new_postgres_18_database(), USERS);
    let living = [0, 2];
    let phone = Sipp::answering("answer.xml", count(&living));
    register(&farm, &[0, 1, 2], phone.port);
    farm.nodes[1].kill();
    farm.wait_for_shares(2);
    call_all(&farm, &living);
    phone.succeeds();
    let other = Sipp::answering("answer.xml", 2 * count(&[0, 1, 2]));
    unregister(&farm, 2);
    register(&farm, &living, other.port);
    farm.nodes[1].start();
    farm.wait_for_shares(3);
    call_all(&farm, &[0, 1, 2]);
    // The whole farm ends and begins again: all is in the database.
    farm.nodes.iter_mut().for_each(interop::Node::kill);
    farm.nodes.iter_mut().for_each(interop::Node::start);
    farm.wait_for_shares(3);
    call_all(&farm, &[0, 1, 2]);
    other.succeeds();
}

/// Backup and restore as docs/operating.md has them: NATS keeps the map with the epochs of before.
#[test]
fn a_farm_is_served_again_after_a_restore() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::on_database(&nats, 2, &new_postgres_database(), USERS);
    register(&farm, &[0, 1], free_port());
    let backup = farm.nodes[0].data().join("backup").display().to_string();
    farm.nodes[0].run(&["backup", &backup]);
    farm.nodes.iter_mut().for_each(interop::Node::kill);
    farm.nodes[0].run(&["restore", &backup, "--replace"]);
    farm.nodes.iter_mut().for_each(interop::Node::start);
    farm.wait_for_shares(2);
    let phone = Sipp::answering("answer.xml", count(&[0, 1]));
    unregister(&farm, 1);
    register(&farm, &[0, 1], phone.port);
    call_all(&farm, &[0, 1]);
    phone.succeeds();
    let is_logged = |node: &interop::Node| node.tail().contains("the database is older than the farm");
    assert!(farm.nodes.iter().any(is_logged), "{}", farm.nodes[0].tail());
}

#[test]
fn no_request_fails_while_a_node_drains() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let mut farm = start(&nats);
    // Each node has an address of its own here, so the BYE of a call would not outlive the node that forwarded its INVITE.
    let each = 60;
    let phone = Sipp::answering("reply.xml", each * count(&[0]));
    register(&farm, &[0, 1, 2], phone.port);
    let asked = accounts((0..each as usize).flat_map(|_| 0..USERS));
    let caller = Sipp::for_accounts("ask.xml", farm.nodes[0].port, &asked, 5_062, 45);
    farm.nodes[1].run(&["drain", "--wait"]);
    farm.nodes[1].kill();
    farm.wait_for_shares(2);
    farm.nodes[1].start();
    farm.wait_for_shares(3);
    caller.succeeds();
    phone.succeeds();
}

#[test]
fn a_node_that_stood_still_ends_and_writes_nothing() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let mut farm = start(&nats);
    register(&farm, &[0, 1, 2], free_port());
    farm.nodes[1].signal("STOP");
    farm.wait_for_shares_at(2, &[0, 2]);
    let living = [0, 2];
    let phone = Sipp::answering("answer.xml", 2 * count(&living));
    unregister(&farm, 0);
    register(&farm, &living, phone.port);
    call_all(&farm, &living);
    // REGISTERs for another phone that wait in its sockets. It may not perform them.
    let lost = Sipp::for_accounts("register.xml", farm.nodes[1].port, &accounts(0..USERS), free_port(), 50);
    farm.nodes[1].signal("CONT");
    assert_eq!(farm.nodes[1].ended(Duration::from_secs(60)), Some(75));
    drop(lost);
    call_all(&farm, &living);
    phone.succeeds();
    play::registers(farm.nodes[2].port, "user0", "secret", free_port());
}

/// An edge without a database asks the routers for the accounts of its phones, and hears of their changes.
#[test]
fn phones_of_an_edge_without_a_database_are_known_by_the_routers() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::with_edge(&nats, &new_postgres_database(), USERS);
    let edge = [2];
    play::phones(farm.port, ("user0", "secret"), ("user1", "secret"));
    let wrong = [Account::new("user0", "wrong")];
    Sipp::for_accounts("register.xml", farm.port, &wrong, 5_062, 20).fails();

    // The edge has kept the account for less than a minute: it is told.
    let register_one = || Sipp::for_accounts("register.xml", farm.port, &accounts(0..1), 5_062, 20).passes();
    assert!(register_one());
    farm.nodes[1].run(&["account", "disable", "user0@example.test"]);
    let limit = Duration::from_secs(5);
    wait_until("the account to be refused", limit, || !register_one(), || farm.nodes[2].tail());
    farm.nodes[0].run(&["account", "enable", "user0@example.test"]);
    wait_until("the account to be accepted", limit, register_one, || farm.nodes[2].tail());

    // Half of the accounts have another owner now. One that the edge has not asked for yet is among them.
    farm.nodes[0].kill();
    farm.wait_for_owners(1);
    unregister(&farm, 2);
    let phone = Sipp::answering("answer.xml", count(&edge));
    register(&farm, &edge, phone.port);
    call_all(&farm, &edge);
    phone.succeeds();
}

/// An edge without a database has the routes and domains of the nodes that share one.
#[test]
fn routes_and_domains_of_the_routers_are_those_of_an_edge_without_a_database() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let mut farm = Farm::with_edge(&nats, &new_postgres_database(), USERS);
    let phone = Sipp::answering("answer.xml", 3);
    let port = farm.port;
    let call = || Sipp::calling("dialog.xml", port, "service", 1, 1);
    call().fails();
    let target = format!("sip:127.0.0.1:{}", phone.port);
    let route = ["route", "add", "service", "user:service", &target, "--open"];
    let shows = |farm: &Farm, command: &[&str], text: &str| {
        let limit = Duration::from_secs(10);
        let has = || farm.nodes[2].run(command).contains(text);
        wait_until(&format!("{text} at the edge"), limit, has, || farm.nodes[2].tail());
    };

    farm.nodes[1].run(&route);
    shows(&farm, &["route", "list"], "service");
    call().succeeds();
    farm.nodes[0].run(&["domain", "add", "other.test"]);
    shows(&farm, &["status"], "other.test");
    shows(&farm, &["domain", "list"], "other.test");
    for refused in [&route[..], &["domain", "add", "third.test"], &["route", "remove", "service"]] {
        let (code, message) = farm.nodes[2].fails(refused);
        assert!(code == 1 && message.contains("this node is an edge without a database"), "{message}");
    }

    // Without any router the edge goes on with what it has. One that starts then has nothing.
    farm.nodes[0].kill();
    farm.nodes[1].kill();
    call().succeeds();
    farm.nodes[2].kill();
    farm.nodes[2].start();
    let says = || farm.nodes[2].tail().contains("requests get 503 until one does");
    wait_until("the edge to say so", Duration::from_secs(20), says, || farm.nodes[2].tail());
    call().fails();
    let (_, message) = farm.nodes[2].fails(&["route", "list"]);
    assert!(message.contains("no node with the farm's routes and domains answers"), "{message}");
    farm.nodes[1].start();
    let lists =
        || farm.nodes[2].try_json(&["route", "list", "--json"]).is_some_and(|r| r["name"] == "service");
    wait_until("the route at the edge", Duration::from_secs(30), lists, || farm.nodes[2].tail());
    call().succeeds();
    phone.succeeds();
}

/// A node dies while the database is away: requests for its addresses wait until another one has read them.
#[test]
fn calls_wait_for_the_addresses_of_a_node_that_dies_while_the_database_is_away() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let mut server = PostgresServer::start(&[]);
    let mut farm = Farm::on_database(&nats, 3, &server.new_database(&[]), USERS);
    // Before the farm has agreed on the death, a first INVITE may wait at a third node and its repetition at this one (`docs/decisions/0088`).
    let phone = Sipp::answering_nodes("answer.xml", 2 * count(&[0]));
    register(&farm, &[0, 1, 2], phone.port);
    // The node that calls go to has read no account since its start.
    farm.nodes[0].kill();
    farm.nodes[0].start();
    farm.wait_for_shares(3);
    server.kill();
    farm.nodes[1].kill();
    let by_digest =
        Sipp::for_accounts("call-by-digest.xml", farm.nodes[0].port, &accounts(0..USERS), 5_062, 20);
    let is_away = || farm.nodes[0].tail().contains("an account could not be read");
    wait_until("the first read to fail", Duration::from_secs(20), is_away, || farm.nodes[0].tail());
    server.start_again();
    by_digest.succeeds();
    call_all(&farm, &[0]);
    phone.succeeds();
}
