//! Effects of actions on the flow of a call.

use std::time::Duration;

use stdx::time::Instant;

use super::world::{Endpoint, START, code, pause, request, response, scenario, step, wants};
use crate::call::{CallOutcome, VariableValue};
use crate::options::Options;
use crate::regex::Regex;
use crate::scenario::Scenario;
use crate::scenario::action::{Action, ActionCheck, ActionKind, Ereg, Operand, RtpStream, SearchIn};
use crate::scenario::model::{ConditionSense, Role, ScenarioStep, Scope, StepKind, VarRef};
use crate::scenario::template::{Template, TemplatePart};
use crate::stats::Count;

const ID: &str = "1@host";
const SEEN: VarRef = VarRef { scope: Scope::Call, slot: 0 };

fn acting(mut step: ScenarioStep, actions: Vec<ActionKind>) -> ScenarioStep {
    step.actions = actions.into_iter().map(|kind| Action { line: 1, kind }).collect();
    step
}

fn assign(value: f64) -> ActionKind {
    ActionKind::Assign { to: SEEN, value: Operand::Value(value) }
}

fn jump(to: usize) -> ActionKind {
    ActionKind::Jump(Operand::Value(to as f64))
}

fn client(steps: Vec<ScenarioStep>) -> Scenario {
    let mut scenario = scenario(Role::Client, steps);
    scenario.variables.call = vec!["seen".to_owned()];
    scenario
}

fn started(steps: Vec<ScenarioStep>) -> Endpoint {
    let mut end = Endpoint::new(client(steps), Options::default());
    end.start(ID);
    end
}

#[test]
fn actions_after_a_jump_still_run() {
    let nop = || step(StepKind::Nop);
    let end = started(vec![
        acting(nop(), vec![jump(2), assign(3.0)]),
        acting(nop(), vec![assign(9.0)]),
        request("INVITE", None),
        code(200),
    ]);
    let call = &end.calls[ID.as_bytes()];
    assert_eq!((call.position, &call.variables[0]), (3, &VariableValue::Number(3.0)));
    assert_eq!(end.sent.len(), 1);
}

/// A thousand steps without a wait give other calls their turn; the step after them has its whole time.
#[test]
fn a_call_that_gives_others_their_turn_loses_no_time_of_the_next_step() {
    let after_nops = |last: ScenarioStep| {
        let mut steps = vec![step(StepKind::Nop); 1_000];
        steps.push(last);
        started(steps)
    };
    let at = |end: &Endpoint| (end.calls[ID.as_bytes()].position, end.calls[ID.as_bytes()].deadline);
    let mut waits = after_nops(code(200));
    assert_eq!(at(&waits), (1_000, START + Duration::from_millis(1)));
    waits.wait(1);
    assert_eq!((at(&waits), waits.ended.len()), ((1_000, Instant::FAR_FUTURE), 0));
    let mut pauses = after_nops(pause(50.0));
    pauses.wait(1);
    assert_eq!(at(&pauses), (1_000, START + Duration::from_millis(51)));
    pauses.wait(50);
    assert_eq!(pauses.count(Count::SuccessfulCall), 1);
}

/// The usual end of a handler for what is not expected: the pause it broke into goes on where it was.
#[test]
fn a_pause_is_restored_with_its_remaining_time() {
    let restore = ActionKind::PauseRestore(Operand::Value(5000.0));
    let nop = acting(step(StepKind::Nop), vec![restore, jump(2)]);
    let mut end =
        started(vec![pause(1000.0), nop, pause(60_000.0), request("INVITE", None), code(200), code(200)]);
    end.wait(4999);
    assert_eq!((end.sent.len(), end.calls[ID.as_bytes()].position), (0, 2));
    assert_eq!(end.calls[ID.as_bytes()].deadline, START + Duration::from_secs(5));
    end.wait(1);
    assert_eq!((end.sent.len(), end.calls[ID.as_bytes()].position), (1, 4));
}

#[test]
fn actions_of_a_send_search_the_sent_message() {
    let ereg = ActionKind::Ereg(Box::new(Ereg {
        regex: Regex::new("CSeq: .*").unwrap(),
        search_in: SearchIn::Message,
        check: ActionCheck::MustMatch,
        assign_to: vec![SEEN],
    }));
    let end = started(vec![acting(request("INVITE", None), vec![ereg]), code(200)]);
    let VariableValue::Text(found) = &end.calls[ID.as_bytes()].variables[0] else { panic!("nothing found") };
    assert!(found.starts_with(b"CSeq: 1 INVITE"), "{}", String::from_utf8_lossy(found));
}

#[test]
fn zero_does_not_count_as_set() {
    for (value, sent) in [(0.0, 0), (2.0, 1)] {
        let mut conditional = request("INVITE", None);
        conditional.flow.condition = Some((SEEN, ConditionSense::Set));
        let end = started(vec![acting(step(StepKind::Nop), vec![assign(value)]), conditional, code(200)]);
        assert_eq!(end.sent.len(), sent);
    }
}

fn wait_for_streams(timeout: Option<u64>) -> ActionKind {
    ActionKind::RtpStream(RtpStream::Wait { timeout: timeout.map(Duration::from_millis) })
}

fn with_streams(end: Instant, steps: Vec<ScenarioStep>) -> Endpoint {
    let mut endpoint = Endpoint::new(client(steps), Options::default());
    endpoint.media.streams_end = Some(end);
    endpoint.start(ID);
    endpoint
}

#[test]
fn the_next_message_waits_until_streams_have_been_played() {
    let nop = acting(step(StepKind::Nop), vec![wait_for_streams(None), assign(1.0)]);
    let mut end = with_streams(
        START + Duration::from_millis(1_500),
        vec![nop, request("INVITE", None), request("INFO", None), code(200)],
    );
    assert_eq!(
        end.calls[ID.as_bytes()].variables[0],
        VariableValue::Number(1.0),
        "other actions run at once"
    );
    end.wait(1_499);
    assert_eq!(end.said(), [""; 0]);
    end.wait(1);
    assert_eq!(end.said(), ["INVITE", "INFO"]);
}

#[test]
fn a_received_message_may_wait_for_streams() {
    let answered = acting(code(200), vec![wait_for_streams(None)]);
    let steps =
        vec![request("INVITE", None), answered, request("ACK", None), request("BYE", None), code(200)];
    let mut end = with_streams(START + Duration::from_secs(2), steps);
    end.answer(ID, 200, 1, "INVITE");
    end.wait(1_999);
    assert_eq!(end.said(), ["INVITE"]);
    end.wait(1);
    assert_eq!(end.said(), ["ACK", "BYE"]);
}

#[test]
fn streams_without_an_end_are_waited_for_only_with_a_timeout() {
    for (timeout, waits) in [(None, 0), (Some(300), 300)] {
        let nop = acting(step(StepKind::Nop), vec![wait_for_streams(timeout)]);
        let mut end = with_streams(Instant::FAR_FUTURE, vec![nop, request("INVITE", None), code(200)]);
        if waits > 0 {
            end.wait(waits - 1);
            assert_eq!(end.said(), [""; 0], "{timeout:?}");
            end.wait(1);
        }
        assert_eq!(end.said(), ["INVITE"], "{timeout:?}");
    }
}

fn verify() -> ActionKind {
    let parts = vec![TemplatePart::Text((*b"true").into())];
    ActionKind::Verify(Template { parts, has_len: false })
}

fn command_ends(end: &mut Endpoint, verdict: Result<(), &str>) {
    end.on_call(ID.as_bytes(), |call, ctx| call.handle_command_end(ctx, verdict));
}

/// `<exec verify>`: the actions behind it still run; the next message does not leave before the command has ended.
#[test]
fn a_call_waits_for_the_command_that_verifies_it() {
    let mut end = started(vec![
        acting(step(StepKind::Nop), vec![verify(), verify(), assign(3.0)]),
        request("OPTIONS", None),
        code(200),
    ]);
    assert_eq!(end.sent, ["verify:true", "verify:true"]);
    assert_eq!(end.calls[ID.as_bytes()].variables[0], VariableValue::Number(3.0));
    end.wait(60_000);
    command_ends(&mut end, Ok(()));
    assert_eq!(end.sent.len(), 2, "one of two has not ended");
    command_ends(&mut end, Ok(()));
    assert!(end.sent[2].starts_with("OPTIONS "), "{:?}", end.sent);
    end.answer(ID, 200, 1, "OPTIONS");
    assert_eq!(end.ended, [CallOutcome::Success]);
}

#[test]
fn a_command_that_fails_fails_the_call_at_its_end() {
    let mut end = started(vec![
        request("OPTIONS", None),
        acting(code(200), vec![verify()]),
        request("OPTIONS", None),
        code(200),
    ]);
    end.answer(ID, 200, 1, "OPTIONS");
    command_ends(&mut end, Err("exit status: 1"));
    assert_eq!(end.sent.len(), 3, "the peer sees a whole call");
    end.answer(ID, 200, 2, "OPTIONS");
    assert_eq!(end.ended, [CallOutcome::Failure(Count::FailedCallRejected)]);
    command_ends(&mut end, Err("late"));
}

/// A message that comes meanwhile is for the step after it, and its repetition is not a second one.
#[test]
fn a_message_that_comes_before_the_end_of_a_command_is_kept() {
    let mut end = started(vec![
        request("INVITE", None),
        code(200),
        acting(request("ACK", None), vec![]),
        acting(step(StepKind::Nop), vec![verify()]),
        wants("BYE"),
        response(200, None),
    ]);
    end.answer(ID, 200, 1, "INVITE");
    for _ in 0..2 {
        end.ask(ID, 7, "BYE");
    }
    assert_eq!((end.sent.len(), end.ended.len()), (3, 0), "{:?}", end.sent);
    command_ends(&mut end, Ok(()));
    assert!(end.sent[3].starts_with("SIP/2.0 200"), "{:?}", end.sent);
    assert_eq!(end.ended, [CallOutcome::Success]);
}
