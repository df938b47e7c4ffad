//! The plays through the real node.

use std::time::Duration;

use interop::{Account, Kamailio, Node, Sipp, options_over_tls, play, wait_until};

#[test]
fn sipp_calls_sipp_as_built_in() {
    let answerer = Sipp::answering("-uas", 50);
    let node = Node::prepare().with_open_route("service", answerer.port).started();
    Sipp::calling("-uac", node.port, "service", 50, 50).succeeds();
    answerer.succeeds();
}

#[test]
fn sipp_calls_sipp_by_route_set() {
    let answerer = Sipp::answering("answer.xml", 20);
    let node = Node::prepare().with_open_route("service", answerer.port).started();
    play::calls(node.port, "service", answerer, 20);
}

#[test]
fn calls_go_on_through_kamailio() {
    let answerer = Sipp::answering("answer.xml", 20);
    let kamailio = Kamailio::proxy_to(answerer.port);
    let node = Node::prepare().with_open_route("service", kamailio.port).started();
    play::calls(node.port, "service", answerer, 20);
}

#[test]
fn calls_come_in_through_kamailio() {
    let answerer = Sipp::answering("answer.xml", 20);
    let node = Node::prepare().with_open_route("service", answerer.port).started();
    let kamailio = Kamailio::proxy_to(node.port);
    play::calls(kamailio.port, "service", answerer, 20);
}

#[test]
fn a_call_is_given_up() {
    let ringing = Sipp::answering("ring.xml", 1);
    let node = Node::prepare().with_open_route("service", ringing.port).started();
    play::cancelled(node.port, "service", ringing);
}

#[test]
fn a_call_through_kamailio_is_given_up() {
    let ringing = Sipp::answering("ring.xml", 1);
    let kamailio = Kamailio::proxy_to(ringing.port);
    let node = Node::prepare().with_open_route("service", kamailio.port).started();
    play::cancelled(node.port, "service", ringing);
}

#[test]
fn a_registered_account_is_called() {
    let node = Node::prepare().with_account("alice", "secret").started();
    let answerer = Sipp::answering("answer.xml", 5);
    play::registers(node.port, "alice", "secret", answerer.port);
    play::calls(node.port, "alice", answerer, 5);
}

#[test]
fn an_account_added_while_running_registers() {
    let node = Node::prepare().started().with_account("alice", "secret");
    play::registers(node.port, "alice", "secret", 5062);
}

#[test]
fn a_wrong_password_does_not_register() {
    let node = Node::prepare().with_account("alice", "secret").started();
    Sipp::for_accounts("register.xml", node.port, &[Account::new("alice", "guess")], 5062, 10).fails();
    Sipp::for_accounts("register.xml", node.port, &[Account::new("nobody", "guess")], 5062, 10).fails();
}

#[test]
fn one_of_two_phones_answers() {
    let node = Node::prepare().with_account("alice", "secret").started();
    play::forked(node.port, "alice", "secret");
}

#[test]
fn baresip_calls_baresip() {
    let node = Node::prepare().with_account("alice", "secret-a").with_account("bob", "secret-b").started();
    play::phones(node.port, ("alice", "secret-a"), ("bob", "secret-b"));
}

#[test]
fn openssl_asks_over_tls() {
    let node = Node::prepare().started();
    let answer = options_over_tls(node.tls);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}\n{}", node.tail());
}

/// A binding whose 200 was sent is there after `kill -9`, whenever that comes (`docs/decisions/0001`).
#[test]
fn no_acknowledged_binding_is_lost() {
    const USERS: usize = 2_000;
    const KILLED_AFTER: usize = 300;
    let mut node = Node::prepare().with_users(USERS).started();
    let accounts: Vec<Account> = (0..USERS).map(|n| Account::new(&format!("user{n}"), "secret")).collect();
    // The phone of every account is one SIPp that answers as many questions as there will be.
    let phone = Sipp::answering("reply.xml", u32::MAX);
    let registering = Sipp::for_accounts("register-log.xml", node.port, &accounts, phone.port, 500);
    let enough = || registering.logged().len() >= KILLED_AFTER;
    wait_until("registrations", Duration::from_secs(30), enough, || node.tail());
    node.kill();
    // The remaining output was acknowledged before the kill: the server acknowledges nothing any more.
    let acknowledged = registering.logged();
    drop(registering);
    assert!(acknowledged.len() < USERS, "the kill came too late to mean anything");
    node.start();
    let bound: Vec<Account> = acknowledged.iter().map(|user| Account::new(user.trim(), "secret")).collect();
    Sipp::for_accounts("ask.xml", node.port, &bound, phone.port, 500).succeeds();
}
