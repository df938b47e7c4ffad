//! A node whose database is in a PostgreSQL server.

use std::time::Duration;

use interop::{
    Account, Node, PostgresServer, Sipp, chat_with_slixmpp, free_port, new_postgres_database, play, run_sql,
    wait_until,
};

fn section(url: &str) -> String {
    format!("[store]\nurl = \"{url}\"\n")
}

#[test]
fn phones_and_chat_clients_are_served_and_come_back_after_a_restart() {
    let chat = free_port();
    let section =
        format!("{}[xmpp]\nlisten = [\"tcp:127.0.0.1:{chat}\"]\n", section(&new_postgres_database()));
    let mut node = Node::prepare()
        .with_sections(&section)
        .with_account("alice", "secret")
        .with_account("bob", "secret")
        .started();
    chat_with_slixmpp("tcp", chat, &node.certificate(), ["alice", "bob"], "secret");
    let answerer = Sipp::answering("answer.xml", 10);
    play::registers(node.port, "alice", "secret", answerer.port);
    node.kill();
    node.start();
    // The binding is read back from the database.
    play::calls(node.port, "alice", answerer, 10);
    let calls = || node.run(&["calls", "--json"]).lines().count() >= 10;
    wait_until("ten call records", Duration::from_secs(20), calls, || node.run(&["calls"]));
}

#[test]
fn a_server_that_is_away_refuses_registrations_and_is_used_again_when_it_is_back() {
    let mut server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let mut node = Node::prepare().with_sections(&section(&url)).with_account("alice", "secret").started();
    let answerer = Sipp::answering("answer.xml", 6);
    play::registers(node.port, "alice", "secret", answerer.port);
    server.kill();
    Sipp::for_accounts("register.xml", node.port, &[Account::new("alice", "secret")], 5062, 10).fails();
    server.start_again();
    run_sql(&url, "SELECT count(*) FROM binding");
    play::registers(node.port, "alice", "secret", answerer.port);
    node.kill();
    node.start();
    play::calls(node.port, "alice", answerer, 6);
}

/// Phones notice nothing of a restart of the server: requests that it is needed for wait until it is back.
#[test]
fn requests_wait_for_a_server_that_restarts() {
    const USERS: u32 = 40;
    let mut server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let mut node = Node::prepare().with_sections(&section(&url)).with_users(USERS as usize).started();
    let answerer = Sipp::answering("answer.xml", USERS);
    let accounts = |users: std::ops::Range<u32>| -> Vec<Account> {
        users.map(|number| Account::new(&format!("user{number}"), "secret")).collect()
    };
    let register = |node: &Node, users| {
        Sipp::for_accounts("register.xml", node.port, &accounts(users), answerer.port, 100)
    };
    register(&node, 0..USERS).succeeds();
    // It has read no account since its start, but for one.
    node.kill();
    node.start();
    register(&node, 0..1).succeeds();
    server.kill();
    let calls = Sipp::for_accounts("call-by-digest.xml", node.port, &accounts(0..USERS), 5_062, 100);
    let others = register(&node, 0..USERS);
    let is_away = || node.tail().contains("an account could not be read");
    wait_until("the first read to fail", Duration::from_secs(20), is_away, || node.tail());
    server.start_again();
    calls.succeeds();
    others.succeeds();
    answerer.succeeds();
    run_sql(&url, "SELECT count(*) FROM binding");
}
