//! The plays with Kamailio in the node's place. When these fail, the machine or the plays are at fault, not `belfry`.

use std::time::Duration;

use interop::{Account, Kamailio, Sipp, play, wait_until};

#[test]
fn sipp_calls_sipp() {
    let answerer = Sipp::answering("answer.xml", 20);
    let kamailio = Kamailio::proxy_to(answerer.port);
    play::calls(kamailio.port, "service", answerer, 20);
}

#[test]
fn a_call_is_given_up() {
    let ringing = Sipp::answering("ring.xml", 1);
    let kamailio = Kamailio::proxy_to(ringing.port);
    play::cancelled(kamailio.port, "service", ringing);
}

#[test]
fn a_registered_account_is_called() {
    let kamailio = Kamailio::office();
    let answerer = Sipp::answering("answer.xml", 5);
    play::registers(kamailio.port, "alice", "secret", answerer.port);
    play::calls(kamailio.port, "alice", answerer, 5);
}

#[test]
fn one_of_two_phones_answers() {
    play::forked(Kamailio::office().port, "alice", "secret");
}

#[test]
fn baresip_calls_baresip() {
    play::phones(Kamailio::office().port, ("alice", "secret"), ("bob", "secret"));
}

#[test]
fn registered_phones_answer() {
    let kamailio = Kamailio::office();
    let phone = Sipp::answering("reply.xml", 20);
    let accounts: Vec<Account> = (0..20).map(|n| Account::new(&format!("user{n}"), "secret")).collect();
    let registering = Sipp::for_accounts("register-log.xml", kamailio.port, &accounts, phone.port, 50);
    let all = || registering.logged().len() == accounts.len();
    wait_until("every registration to be logged", Duration::from_secs(20), all, || {
        registering.logged().join("\n")
    });
    assert_eq!(registering.logged()[0].trim(), "user0");
    Sipp::for_accounts("ask.xml", kamailio.port, &accounts, phone.port, 50).succeeds();
    phone.succeeds();
}
