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
