//! Each rule of matching (SIPp's, as the reference page of the scenario language numbers them).

use std::time::Duration;

use proptest::prelude::*;

use super::world::{
    Endpoint, START, answer_text, ask_text, code, maybe, pause, recv, request, response, scenario, step, uac,
    uas, wants,
};
use crate::call::VariableValue;
use crate::options::{Options, RetransmissionCheck};
use crate::scenario::Scenario;
use crate::scenario::model::{
    Expect, Needs, Optional, RecvStep, Role, ScenarioStep, Scope, SendStep, StepKind, VarRef, Variables,
};
use crate::stats::Count;

const ID: &str = "1@host";

fn started(scenario: Scenario) -> Endpoint {
    started_with(scenario, Options::default())
}

fn started_with(scenario: Scenario, options: Options) -> Endpoint {
    let mut end = Endpoint::new(scenario, options);
    end.start(ID);
    end
}

fn position(end: &Endpoint) -> usize {
    end.calls[ID.as_bytes()].position
}

fn with(mut step: ScenarioStep, change: impl FnOnce(&mut RecvStep)) -> ScenarioStep {
    match &mut step.kind {
        StepKind::Recv(recv) => change(recv),
        other => panic!("not a recv: {other:?}"),
    }
    step
}

fn sends(mut step: ScenarioStep, change: impl FnOnce(&mut SendStep)) -> ScenarioStep {
    match &mut step.kind {
        StepKind::Send(send) => change(send),
        other => panic!("not a send: {other:?}"),
    }
    step
}

#[test]
fn rule_1_forward_through_optional_steps_to_the_first_mandatory_one() {
    let mut end = started(uac());
    end.answer(ID, 180, 1, "INVITE");
    assert_eq!(position(&end), 3, "past the optional step that matched");
    end.answer(ID, 200, 1, "INVITE");
    assert_eq!(end.said(), ["INVITE", "ACK", "BYE"]);
}

#[test]
fn rule_1_back_through_contiguous_optional_steps() {
    let mut end = started(uac());
    end.answer(ID, 183, 1, "INVITE");
    end.answer(ID, 100, 1, "INVITE");
    assert_eq!(position(&end), 2);
    assert!(end.ended.is_empty());
}

#[test]
fn rule_1_a_late_provisional_is_passed_over() {
    let mut end = started(uac());
    end.answer(ID, 200, 1, "INVITE");
    end.answer(ID, 180, 1, "INVITE");
    end.answer(ID, 199, 1, "INVITE");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 0);
    assert_eq!(position(&end), 8, "it waits for the answer to its BYE");
    let mut steps = uac().steps;
    steps[6] = pause(60_000.0);
    let mut end = started(scenario(Role::Client, steps));
    end.answer(ID, 200, 1, "INVITE");
    end.answer(ID, 180, 1, "INVITE");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 0, "before the BYE, too");
}

#[test]
fn rule_1_a_provisional_of_the_request_in_hand_is_unexpected_unless_it_is_named() {
    let mut end = started(uac());
    end.answer(ID, 199, 1, "INVITE");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 1);
    let mut end = started(uac());
    end.answer(ID, 200, 1, "INVITE");
    end.answer(ID, 199, 2, "BYE");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 1);
    assert_eq!(end.stats.steps[8].unexpected, 1);
    end.assert_books();
}

#[test]
fn rule_1_an_ack_that_comes_again_later_changes_nothing() {
    let mut steps = uas().steps;
    steps.insert(4, wants("INFO"));
    let mut end = Endpoint::new(scenario(Role::Server, steps), Options::default());
    end.ask(ID, 1, "INVITE");
    end.ask(ID, 1, "ACK");
    end.ask(ID, 2, "INFO");
    let at = position(&end);
    end.ask(ID, 1, "ACK");
    assert!(end.ended.is_empty());
    assert_eq!(position(&end), at);
}

#[test]
fn rule_1_a_global_optional_matches_from_anywhere_later() {
    let mut steps = vec![
        with(wants("INFO"), |recv| recv.optional = Optional::Global),
        request("INVITE", None),
        code(200),
        request("ACK", None),
        code(299),
    ];
    steps[0].flow.next = Some(4);
    let mut end = started(scenario(Role::Client, {
        let mut all = vec![request("OPTIONS", None)];
        all.append(&mut steps);
        all[1].flow.next = Some(5);
        all
    }));
    end.ask(ID, 9, "INFO");
    assert_eq!(position(&end), 5);
    assert!(end.ended.is_empty());
}

#[test]
fn rule_1_a_final_answer_again_is_acknowledged_again() {
    let mut steps = uac().steps;
    steps[6] = pause(60_000.0);
    let mut end = started(scenario(Role::Client, steps));
    end.answer(ID, 200, 1, "INVITE");
    end.answer(ID, 200, 1, "INVITE");
    // Not the same bytes (a proxy added something), so it is found by its step.
    end.deliver(answer_text(ID, 200, 1, "INVITE", "z9hG4bK-other").as_bytes());
    assert_eq!(end.said(), ["INVITE", "ACK", "ACK", "ACK"]);
    assert_eq!(position(&end), 6);
}

#[test]
fn rule_3_a_repeated_answer_gets_its_ack_and_not_the_bye_after_it() {
    let mut end = started(uac());
    end.answer(ID, 200, 1, "INVITE");
    end.answer(ID, 200, 1, "INVITE");
    assert_eq!(end.said(), ["INVITE", "ACK", "BYE", "ACK"]);
}

#[test]
fn rule_2_the_cseq_method_must_have_been_sent() {
    let mut end = started(uac());
    end.answer(ID, 200, 1, "REGISTER");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 1);
    assert_eq!(end.stats.error_codes[&200], 1);
}

#[test]
fn rule_2_a_named_transaction_goes_by_its_branch() {
    let mut both = scenario(
        Role::Client,
        vec![
            sends(request("INVITE", None), |send| send.start_txn = Some(0)),
            sends(request("OPTIONS", None), |send| send.start_txn = Some(1)),
            with(code(200), |recv| recv.response_txn = Some(1)),
            with(code(200), |recv| recv.response_txn = Some(0)),
            sends(request("ACK", None), |send| send.ack_txn = Some(0)),
            pause(1000.0),
        ],
    );
    both.transactions = vec!["invite".to_owned(), "options".to_owned()];
    let mut end = started(both);
    let call = &end.calls[ID.as_bytes()];
    assert!(call.transactions[0].is_invite && !call.transactions[1].is_invite);
    let branches: Vec<String> =
        call.transactions.iter().map(|one| String::from_utf8_lossy(&one.branch).into_owned()).collect();
    assert_ne!(branches[0], branches[1]);
    end.deliver(answer_text(ID, 200, 2, "OPTIONS", &branches[1]).as_bytes());
    assert_eq!(position(&end), 3);
    end.deliver(answer_text(ID, 200, 1, "INVITE", &branches[0]).as_bytes());
    assert_eq!((position(&end), end.said().len()), (5, 3));
    // Old answers of a named transaction: the INVITE's is acknowledged again, the other's ignored.
    end.deliver(answer_text(ID, 200, 2, "OPTIONS", &branches[1]).as_bytes());
    assert!(end.said().is_empty() && end.ended.is_empty());
    let again = answer_text(ID, 200, 1, "INVITE", &branches[0]).replace("Some", "Any");
    end.deliver(again.as_bytes());
    assert_eq!(end.said(), ["ACK"]);
}

#[test]
fn rule_3_a_repeated_request_gets_the_last_answer_again() {
    for check in [RetransmissionCheck::Full, RetransmissionCheck::Loose] {
        let mut options = Options::default();
        options.timers.retransmission_check = check;
        let mut end = Endpoint::new(uas(), options);
        end.ask(ID, 1, "INVITE");
        assert_eq!(end.said(), ["180", "200"]);
        let again = ask_text(ID, 1, "INVITE");
        // Only the loose check looks past headers that change on the way.
        let changed = again.replace("INVITE sip:x@y", "INVITE sip:z@y");
        end.deliver(if check == RetransmissionCheck::Full { &again } else { &changed }.as_bytes());
        assert_eq!(end.said(), ["200"]);
        assert_eq!((end.count(Count::Retransmissions), end.stats.steps[0].retransmissions), (1, 1));
        assert!(end.ended.is_empty());
    }
}

#[test]
fn rule_3_without_retransmissions_a_repetition_is_unexpected() {
    let mut options = Options::default();
    options.timers.no_retransmission = true;
    let mut end = Endpoint::new(uas(), options);
    end.ask(ID, 1, "INVITE");
    end.ask(ID, 1, "INVITE");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 1);
}

#[test]
fn rule_4_a_scenario_may_take_unexpected_messages_itself() {
    let mut own = scenario(
        Role::Client,
        vec![request("OPTIONS", None), pause(5000.0), wants("NOTIFY"), response(200, None), pause(100.0)],
    );
    own.labels = vec![("_unexp.main".to_owned(), 2)];
    own.variables = Variables {
        call: vec!["_unexp.retaddr".to_owned(), "_unexp.pausedaddr".to_owned()],
        ..Variables::default()
    };
    own.needs = Needs { last_message: true, ..Needs::default() };
    let mut end = started(own);
    end.wait(1000);
    end.ask(ID, 7, "NOTIFY");
    assert_eq!(end.said(), ["OPTIONS", "200"]);
    assert_eq!(
        *end.calls[ID.as_bytes()].variables,
        [VariableValue::Number(1.0), VariableValue::Number(5000.0)]
    );
    end.ask(ID, 8, "INFO");
    assert_eq!(end.count(Count::FailedUnexpectedMessage), 1, "there already");
}

#[test]
fn rule_4_a_broken_off_pause_is_taken_up_again() {
    let mut end =
        started(scenario(Role::Client, vec![request("OPTIONS", None), code(200), request("INFO", None)]));
    end.on_call(ID.as_bytes(), |call, ctx| call.restore_pause(ctx.env, 5000.0));
    end.on_call(ID.as_bytes(), |call, ctx| call.handle_wake(ctx));
    end.calls.get_mut(ID.as_bytes()).unwrap().deadline = super::world::START;
    end.wait(4999);
    assert_eq!(end.said(), ["OPTIONS"]);
    end.wait(1);
    assert_eq!(end.said(), ["INFO"], "the step it was broken off in is done when its pause is");
}

#[test]
fn rule_4_auto_answers() {
    let mut options = Options::default();
    options.call.auto_answer = true;
    let mut end = started_with(uac(), options);
    end.ask(ID, 7, "OPTIONS");
    assert_eq!(end.said(), ["INVITE", "200"]);
    assert_eq!(end.count(Count::AutoAnswered), 1);
    end.ask(ID, 8, "PING");
    assert_eq!(end.said(), ["200"]);
    assert_eq!(end.count(Count::SuccessfulCall), 1);
    end.assert_books();
}

#[test]
fn rule_5_the_cseq_of_an_ack_is_checked() {
    let mut end = Endpoint::new(uas(), Options::default());
    end.ask(ID, 5, "INVITE");
    end.ask(ID, 6, "ACK");
    assert_eq!((end.count(Count::FailedCall), end.count(Count::FailedUnexpectedMessage)), (1, 0));
    let mut options = Options::default();
    options.call.defaults.check_cseq = false;
    let mut end = Endpoint::new(uas(), options);
    end.ask(ID, 5, "INVITE");
    end.ask(ID, 6, "ACK");
    assert_eq!(end.count(Count::FailedCall), 0);
}

#[test]
fn rule_5_routes_are_reversed_for_the_client() {
    let steps = vec![request("INVITE", None), with(code(200), |recv| recv.rrs = true), pause(1000.0)];
    let mut end = started(scenario(Role::Client, steps));
    let text = answer_text(ID, 200, 1, "INVITE", "b").replace(
        "Content-Length",
        "Record-Route: <sip:a;lr>, <sip:b,x;lr>\r\nRecord-Route: <sip:c;lr>\r\nContact: <sip:me@h>;q=1\r\nContent-Length",
    );
    end.deliver(text.as_bytes());
    let routes = end.calls[ID.as_bytes()].routes.clone().unwrap();
    assert_eq!(String::from_utf8_lossy(&routes.header), "Route: <sip:c;lr>, <sip:b,x;lr>, <sip:a;lr>");
    assert_eq!(routes.next_url, b"sip:me@h");
}

#[test]
fn rule_6_an_invite_doubles_five_times_and_gives_up() {
    let mut end = started(uac());
    end.wait(500 + 1000 + 2000 + 4000 + 8000);
    assert_eq!(end.said().len(), 6);
    assert_eq!(end.stats.steps[0].retransmissions, 5);
    end.wait(16_000);
    assert_eq!((end.count(Count::FailedMaxUdpRetrans), end.stats.steps[0].timeouts), (1, 1));
    assert!(end.said().is_empty(), "nothing was heard, so there is no peer to tell");
    end.assert_books();
}

#[test]
fn rule_6_others_slow_down_at_t2_and_go_nine_times() {
    let mut end = started(scenario(Role::Client, vec![request("OPTIONS", Some(500)), maybe(100), code(200)]));
    // 0.5, 1, 2 and then every 4 seconds.
    end.wait(500 + 1000 + 2000 + 6 * 4000);
    assert_eq!(end.said().len(), 10);
    end.wait(4000);
    assert_eq!(end.count(Count::FailedMaxUdpRetrans), 1);
    let mut end = started(scenario(Role::Client, vec![request("OPTIONS", Some(500)), maybe(100), code(200)]));
    end.answer(ID, 100, 1, "OPTIONS");
    end.wait(3999);
    assert_eq!(end.said().len(), 1, "a provisional puts the next one off to T2");
    end.wait(1);
    assert_eq!(end.said().len(), 1);
}

#[test]
fn rule_6_a_provisional_stops_an_invite() {
    let mut end = started(uac());
    end.answer(ID, 100, 1, "INVITE");
    end.wait(100_000);
    assert_eq!(end.said(), ["INVITE"]);
}

#[test]
fn rule_8_nop_may_come_first_in_a_server() {
    let mut steps = vec![step(StepKind::Nop)];
    steps.append(&mut uas().steps);
    let mut end = Endpoint::new(scenario(Role::Server, steps), Options::default());
    end.ask(ID, 1, "INVITE");
    assert_eq!(end.said(), ["180", "200"]);
}

#[test]
fn branching_goes_by_test_and_by_chance_and_conditions_skip() {
    use crate::scenario::model::{ConditionSense, Scope, VarRef};

    let variable = VarRef { scope: Scope::Call, slot: 0 };
    let mut steps = vec![step(StepKind::Nop), request("OPTIONS", None), request("INFO", None), pause(1000.0)];
    steps[0].flow.next = Some(2);
    steps[0].flow.test = Some(variable);
    steps[2].flow.condition = Some((variable, ConditionSense::Set));
    let mut one = scenario(Role::Client, steps);
    one.variables.call = vec!["v".to_owned()];
    let mut end = started(one.clone());
    assert_eq!(end.said(), ["OPTIONS"], "the variable is not set: no branch, and INFO is skipped");
    one.steps[0].flow.test = None;
    one.steps[2].flow.condition = Some((variable, ConditionSense::NotSet));
    let mut end = started(one.clone());
    assert_eq!(end.said(), ["INFO"]);
    one.steps[0].flow.chance = Some(0.5);
    let branched = (0..200).filter(|seed| {
        let mut end = Endpoint::new(one.clone(), Options::default());
        end.rng = stdx::rng::Rng::seeded(*seed);
        end.start(ID);
        end.said() == ["INFO"]
    });
    assert!((70..130).contains(&branched.count()));
}

#[test]
fn an_optional_message_that_does_not_advance_leaves_no_trace() {
    let steps =
        vec![request("OPTIONS", None), with(maybe(180), |recv| recv.advance_state = false), code(200)];
    let mut one = scenario(Role::Client, steps);
    one.needs.last_message = true;
    let mut end = started(one);
    end.answer(ID, 180, 1, "OPTIONS");
    assert_eq!((position(&end), end.calls[ID.as_bytes()].last_received.clone()), (1, None));
    assert_eq!(end.stats.steps[1].messages, 1);
}

#[test]
fn a_loop_that_never_waits_lets_others_run() {
    let mut steps = vec![step(StepKind::Nop)];
    steps[0].flow.next = Some(0);
    let mut end = started(scenario(Role::Client, steps));
    end.wait(3);
    assert!(end.stats.steps[0].messages >= 2000 && end.ended.is_empty());
}

#[test]
fn challenges_peer_tags_and_media_are_kept() {
    let mut one = scenario(
        Role::Client,
        vec![request("INVITE", None), with(code(407), |recv| recv.auth = true), pause(1000.0)],
    );
    one.needs.media = true;
    let mut end = started(one);
    let text = answer_text(ID, 407, 1, "INVITE", "b").replace(
        "Content-Length: 0\r\n\r\n",
        "Proxy-Authenticate: Digest a\r\nProxy-Authenticate: Digest b\r\nContent-Length: 5\r\n\r\n\
         c=IN IP4 127.0.0.9\r\nm=audio 7000 RTP/AVP 0\r\n",
    );
    end.deliver(text.as_bytes());
    let call = &end.calls[ID.as_bytes()];
    let challenge = call.challenge.clone().unwrap();
    assert_eq!((challenge.proxy, challenge.values.len(), challenge.count), (true, 2, 1));
    assert_eq!(*call.peer_tag, *b";tag=peer");
    assert_eq!(end.media.remote[0].audio, Some("127.0.0.9:7000".parse().unwrap()));
}

#[test]
fn response_times_count_from_the_start_and_from_the_due_time() {
    let mut end = Endpoint::new(uac(), Options::default());
    end.start(ID);
    end.calls.get_mut(ID.as_bytes()).unwrap().identity.due = super::world::START - Duration::from_millis(30);
    end.wait(20);
    end.answer(ID, 200, 1, "INVITE");
    let timer = &end.stats.rtds[0];
    assert_eq!(timer.service.mean(), Some(Duration::from_millis(20)));
    assert_eq!(timer.response.mean(), Some(Duration::from_millis(50)));
}

#[test]
fn a_loop_that_comes_back_to_the_first_step_is_not_timed_from_the_due_time() {
    let mut steps = vec![request("OPTIONS", None), code(200), pause(1_000.0)];
    steps[0].timing.start = vec![0];
    (steps[1].timing.stop, steps[1].timing.repeat) = (vec![0], true);
    steps[2].flow.next = Some(0);
    let mut end = started(scenario(Role::Client, steps));
    end.calls.get_mut(ID.as_bytes()).unwrap().identity.due = super::world::START - Duration::from_millis(30);
    for round in 1..=3 {
        end.wait(3);
        end.answer(ID, 200, round, "OPTIONS");
        end.wait(1_000);
    }
    let timer = &end.stats.rtds[0];
    // 33 ms from the due time of the call, then twice 3 ms.
    assert_eq!((timer.response.n, timer.response.sum), (3, 39_000.0));
    assert_eq!(timer.service.mean(), Some(Duration::from_millis(3)));
}

#[test]
fn patterns_match_the_method_or_the_code() {
    let pattern = crate::regex::Regex::new("^(OPTIONS|INFO)$").unwrap();
    for (method, fails) in [("INFO", 0), ("REGISTER", 1)] {
        let steps = vec![step(StepKind::Recv(recv(Expect::RequestPattern(pattern.clone()))))];
        let mut end = Endpoint::new(scenario(Role::Server, steps), Options::default());
        end.ask(ID, 1, method);
        assert_eq!(end.count(Count::FailedUnexpectedMessage), fails, "{method}");
    }
    let pattern = crate::regex::Regex::new("^2..$").unwrap();
    for (code, fails) in [(204, 0), (404, 1)] {
        let steps =
            vec![request("INFO", None), step(StepKind::Recv(recv(Expect::ResponsePattern(pattern.clone()))))];
        let mut end = started(scenario(Role::Client, steps));
        end.answer(ID, code, 1, "INFO");
        assert_eq!(end.count(Count::FailedUnexpectedMessage), fails, "{code}");
    }
}

proptest! {
    #[test]
    fn no_message_breaks_a_call(bytes in proptest::collection::vec(any::<u8>(), 0..80), at in 0usize..120, server: bool) {
        let mut end = if server { Endpoint::new(uas(), Options::default()) } else { started(uac()) };
        if server {
            end.ask(ID, 1, "INVITE");
        }
        let mut text = answer_text(ID, 200, 1, "INVITE", "b").into_bytes();
        let at = at.min(text.len());
        let until = (at + bytes.len()).min(text.len());
        text.splice(at..until, bytes);
        end.deliver(&text);
        end.wait(200_000);
        let open = end.calls.values().filter(|call| !call.over).count() as u64;
        let created = end.count(Count::IncomingCall) + end.count(Count::OutgoingCall);
        prop_assert_eq!(created, open + end.count(Count::SuccessfulCall) + end.count(Count::FailedCall));
    }
}

#[test]
fn response_times_run_from_the_send_to_the_stamp_of_the_answer() {
    let mut steps = uac().steps;
    steps[7].timing.start = vec![0];
    steps[8].timing.stop = vec![0];
    steps[4].timing.stop = Vec::new();
    let mut end = Endpoint::new(scenario(Role::Client, steps), Options::default());
    end.start("1@host");
    end.wait(100);
    // The kernel had the answer 3 ms before the turn that reads it and sends ACK and BYE.
    end.received = Some(START + Duration::from_millis(97));
    end.answer("1@host", 200, 1, "INVITE");
    end.received = None;
    end.wait(10);
    end.received = Some(START + Duration::from_millis(108));
    end.answer("1@host", 200, 2, "BYE");
    let timer = &end.stats.rtds[0].service;
    assert_eq!((timer.n, timer.sum), (1, 8_000.0));
}

/// A server that keeps the INVITE while an INFO comes and goes, and answers both.
fn keeps_an_invite() -> Scenario {
    let kept = with(wants("INVITE"), |recv| recv.start_txn = Some(0));
    let answer = sends(response(200, None), |send| send.response_txn = Some(0));
    let steps = vec![kept, response(180, None), wants("INFO"), response(202, None), answer, pause(60_000.0)];
    Scenario { transactions: vec!["invite".to_owned()], ..scenario(Role::Server, steps) }
}

#[test]
fn a_kept_request_is_answered_after_another_one() {
    let mut end = Endpoint::new(keeps_an_invite(), Options::default());
    end.ask(ID, 1, "INVITE");
    end.ask(ID, 2, "INFO");
    let sent = end.sent.clone();
    assert!(sent[1].starts_with("SIP/2.0 202") && sent[1].contains("CSeq: 2 INFO"), "{sent:?}");
    assert!(sent[2].starts_with("SIP/2.0 200") && sent[2].contains("CSeq: 1 INVITE"), "{sent:?}");
}

#[test]
fn a_kept_request_that_is_repeated_gets_its_last_response_again() {
    let mut end = Endpoint::new(keeps_an_invite(), Options::default());
    end.ask(ID, 1, "INVITE");
    end.ask(ID, 2, "INFO");
    end.ask(ID, 1, "INVITE");
    let sent = end.sent.clone();
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert!(sent[3].starts_with("SIP/2.0 200") && sent[3].contains("CSeq: 1 INVITE"), "{sent:?}");
    assert_eq!(end.count(Count::Retransmissions), 1);
    assert_eq!(position(&end), 5, "the repetition moves nothing");
}

#[test]
fn the_time_to_wait_may_be_in_a_variable() {
    for (value, ends) in [
        (VariableValue::Text(b"250".to_vec().into()), true),
        (VariableValue::Number(250.0), true),
        (VariableValue::Number(0.5), false),
        (VariableValue::Text(b"soon".to_vec().into()), false),
        (VariableValue::Unset, false),
    ] {
        let waits = with(code(200), |recv| {
            recv.timeout_variable = Some(VarRef { scope: Scope::Call, slot: 0 });
        });
        let steps = vec![request("INVITE", None), pause(10.0), waits];
        let variables = Variables { call: vec!["wait".to_owned()], ..Variables::default() };
        let mut end = started(Scenario { variables, ..scenario(Role::Client, steps) });
        end.calls.get_mut(ID.as_bytes()).expect("it runs").variables[0] = value.clone();
        end.wait(200);
        assert!(end.ended.is_empty(), "{value:?}");
        end.wait(5_000);
        assert_eq!(end.count(Count::FailedTimeoutOnRecv), u64::from(ends), "{value:?}");
    }
}
