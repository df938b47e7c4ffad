//! The plays with Kamailio in the node's place. When these fail, the machine or the plays are at fault, not `belfry`.

use interop::{Kamailio, Sipp, play};

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
