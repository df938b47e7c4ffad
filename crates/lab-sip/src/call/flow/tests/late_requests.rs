//! Requests that come once more, late: a copy that was under way through another server when its answer came by this one.

use super::world::{Endpoint, response, scenario, uas, wants};
use crate::options::{Options, RetransmissionCheck};
use crate::scenario::model::Role;
use crate::stats::Count;

const ID: &str = "1@host";

/// RFC 6026 §7.1: the transaction of an INVITE that was answered absorbs what still comes of it.
#[test]
fn an_invite_that_comes_once_more_after_its_ack_is_absorbed_by_the_loose_check_only() {
    for check in [RetransmissionCheck::Full, RetransmissionCheck::Loose] {
        let mut options = Options::default();
        options.timers.retransmission_check = check;
        let mut end = Endpoint::new(uas(), options);
        end.ask(ID, 1, "INVITE");
        end.ask(ID, 1, "ACK");
        assert_eq!(end.said(), ["180", "200"]);
        end.ask(ID, 1, "INVITE");
        if check == RetransmissionCheck::Full {
            assert_eq!(end.count(Count::FailedUnexpectedMessage), 1);
            continue;
        }
        assert_eq!((end.said().len(), end.calls[ID.as_bytes()].position), (0, 4));
        end.ask(ID, 2, "BYE");
        assert_eq!((end.said(), end.ended.len()), (vec!["200".to_owned()], 0));
    }
}

/// An answerer of a call with a re-INVITE, which tells retransmissions by their transactions.
fn answers_two_invites() -> Endpoint {
    let mut options = Options::default();
    options.timers.retransmission_check = RetransmissionCheck::Loose;
    let steps = vec![
        wants("INVITE"),
        response(200, Some(500)),
        wants("ACK"),
        wants("INVITE"),
        response(200, Some(500)),
        wants("ACK"),
        wants("BYE"),
        response(200, None),
    ];
    Endpoint::new(scenario(Role::Server, steps), options)
}

/// The first INVITE comes once more between a re-INVITE and its ACK, whose CSeq is still the re-INVITE's.
#[test]
fn an_earlier_invite_does_not_disturb_a_later_one() {
    let mut end = answers_two_invites();
    for (cseq, method) in [(1, "INVITE"), (1, "ACK"), (2, "INVITE"), (1, "INVITE"), (2, "ACK"), (3, "BYE")] {
        end.ask(ID, cseq, method);
    }
    assert_eq!(end.said(), ["200", "200", "200"]);
    assert_eq!(end.count(Count::SuccessfulCall), 1);
}

/// The first INVITE comes once more where the scenario waits for the second one, which it is not.
#[test]
fn an_earlier_invite_is_not_taken_for_the_later_one_that_a_step_waits_for() {
    let mut end = answers_two_invites();
    for (cseq, method) in [(1, "INVITE"), (1, "ACK"), (1, "INVITE"), (2, "INVITE"), (2, "ACK"), (3, "BYE")] {
        end.ask(ID, cseq, method);
    }
    assert_eq!(end.said(), ["200", "200", "200"]);
    assert_eq!(end.count(Count::SuccessfulCall), 1);
}

/// RFC 3261 §13.2.2.4: each copy of a 2xx has its ACK, and the last of them may come after the next INVITE.
#[test]
fn an_earlier_ack_does_not_disturb_a_later_invite() {
    let mut end = answers_two_invites();
    let heard = [
        (1, "INVITE"),
        (1, "ACK"),
        (2, "INVITE"),
        (1, "ACK"),
        (2, "ACK"),
        (1, "ACK"),
        (2, "ACK"),
        (3, "BYE"),
    ];
    for (cseq, method) in heard {
        end.ask(ID, cseq, method);
    }
    assert_eq!(end.said(), ["200", "200", "200"]);
    assert_eq!(end.count(Count::SuccessfulCall), 1);
}
