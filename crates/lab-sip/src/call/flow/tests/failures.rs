//! Each way to fail, and what the peer is told.

use std::time::Duration;

use super::world::{Endpoint, code, maybe, pause, request, scenario, step, uac, uas, wants};
use crate::call::{CallOutcome, TransportFault};
use crate::options::Options;
use crate::scenario::Scenario;
use crate::scenario::action::{Action, ActionCheck, ActionKind, Ereg, InternalCommand, Operand, SearchIn};
use crate::scenario::model::{Role, StepKind};
use crate::scenario::template::Template;
use crate::stats::Count;

const ID: &str = "1@host";

fn started(scenario: Scenario) -> Endpoint {
    let mut end = Endpoint::new(scenario, Options::default());
    end.start(ID);
    end
}

fn failed(end: &Endpoint, why: Count) {
    assert_eq!(end.ended, [CallOutcome::Failure(why)]);
    assert_eq!((end.count(Count::FailedCall), end.count(why)), (1, 1));
    end.assert_books();
}

#[test]
fn a_refusal_is_acknowledged() {
    let mut end = started(uac());
    end.answer(ID, 486, 1, "INVITE");
    assert_eq!(end.said(), ["INVITE", "ACK"]);
    assert_eq!((end.stats.steps[1].unexpected, end.stats.error_codes[&486]), (1, 1));
    failed(&end, Count::FailedUnexpectedMessage);
}

#[test]
fn an_early_dialog_is_cancelled_and_an_established_one_ended() {
    let mut end = started(uac());
    end.answer(ID, 180, 1, "INVITE");
    end.on_call(ID.as_bytes(), |call, ctx| call.abort(ctx, Count::FailedStopped));
    assert_eq!(end.said(), ["INVITE", "CANCEL"]);
    failed(&end, Count::FailedStopped);

    let mut steps = uac().steps;
    steps[6] = pause(60_000.0);
    let mut end = started(scenario(Role::Client, steps));
    end.answer(ID, 200, 1, "INVITE");
    end.on_call(ID.as_bytes(), |call, ctx| call.abort(ctx, Count::FailedStopped));
    assert_eq!(end.said(), ["INVITE", "ACK", "BYE"]);
    // Once is enough.
    end.on_call(ID.as_bytes(), |call, ctx| call.abort(ctx, Count::FailedStopped));
    failed(&end, Count::FailedStopped);
}

#[test]
fn an_answer_that_is_not_acknowledged_yet_gets_ack_and_bye() {
    let mut end = started(scenario(Role::Client, vec![request("INVITE", None), code(200), pause(60_000.0)]));
    end.answer(ID, 200, 1, "INVITE");
    end.on_call(ID.as_bytes(), |call, ctx| call.abort(ctx, Count::FailedStopped));
    assert_eq!(end.said(), ["INVITE", "ACK", "BYE"]);
}

/// A 2xx to the INVITE of call [`ID`] with these headers, `to` without its tag.
fn accepted(to: &str, headers: &str) -> String {
    format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK-1-1-0\r\nFrom: <sip:uac@x>;tag=1\r\nTo: {to};tag=peer\r\n\
         Call-ID: {ID}\r\nCSeq: 7 INVITE\r\n{headers}Content-Length: 0\r\n\r\n"
    )
}

/// The BYE of a call that is aborted after these messages of its peer.
fn bye_after(messages: &[String]) -> String {
    let steps = vec![request("INVITE", None), code(200), request("ACK", None), pause(60_000.0)];
    let mut end = started(scenario(Role::Client, steps));
    messages.iter().for_each(|message| end.deliver(message.as_bytes()));
    end.on_call(ID.as_bytes(), |call, ctx| call.abort(ctx, Count::FailedStopped));
    let bye = end.sent.pop().unwrap();
    assert!(bye.starts_with("BYE "), "{bye}");
    bye
}

fn lines<'a>(message: &'a str, name: &str) -> Vec<&'a str> {
    message.split("\r\n").filter(|line| line.starts_with(name)).collect()
}

/// RFC 3261 §12.1.2 and §12.2.1.1.
#[test]
fn the_bye_of_an_aborted_call_is_of_its_dialog() {
    let routes = "Record-Route: <sip:p1@127.0.0.9;lr>, <sip:p2@127.0.0.9;lr>\r\nRecord-Route: <sip:p3@127.0.0.9;lr>\r\n\
                  Contact: \"U, <A>\" <sip:uas@127.0.0.2:5070;x=y>;expires=60\r\n";
    let answer = accepted("<sip:uas@x>", routes);
    let bye = bye_after(std::slice::from_ref(&answer));
    assert_eq!(bye.lines().next(), Some("BYE sip:uas@127.0.0.2:5070;x=y SIP/2.0"));
    let route = "Route: <sip:p3@127.0.0.9;lr>, <sip:p2@127.0.0.9;lr>, <sip:p1@127.0.0.9;lr>";
    assert_eq!(lines(&bye, "Route:"), [route]);
    assert_eq!(lines(&bye, "From:"), ["From: <sip:uac@x>;tag=1"]);
    assert_eq!(lines(&bye, "To:"), ["To: <sip:uas@x>;tag=peer"]);
    assert_eq!(lines(&bye, "CSeq:"), ["CSeq: 8 BYE"]);
    assert!(bye.ends_with("\r\nContent-Length: 0\r\n\r\n"), "{bye}");
    let (ack, bye_via) = (2, lines(&bye, "Via:")[0]);
    assert!(!bye_via.ends_with(&format!("-{ack}")), "a transaction of its own: {bye_via}");

    // A request of the peer is no part of the dialog's state, but for its Contact where it refreshes the target.
    let info = "INFO sip:uac@x SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.2;branch=z9hG4bK-9\r\nFrom: <sip:uas@x>;tag=peer\r\n\
                To: <sip:uac@x>;tag=1\r\nCall-ID: 1@host\r\nCSeq: 70 INFO\r\nContact: <sip:no@x>\r\nContent-Length: 0\r\n\r\n";
    let mut end = started(scenario(
        Role::Client,
        vec![request("INVITE", None), code(200), request("ACK", None), wants("BYE")],
    ));
    end.deliver(answer.as_bytes());
    end.deliver(info.as_bytes());
    let bye = end.sent.pop().unwrap();
    assert!(bye.starts_with("BYE sip:uas@127.0.0.2:5070;x=y SIP/2.0\r\n"), "{bye}");
    assert_eq!(lines(&bye, "From:"), ["From: <sip:uac@x>;tag=1"]);
    assert_eq!(lines(&bye, "CSeq:"), ["CSeq: 8 BYE"]);
    failed(&end, Count::FailedUnexpectedMessage);
}

#[test]
fn a_target_without_angle_brackets_loses_the_parameters_of_its_header() {
    let bye = bye_after(&[accepted("sip:uas@x", "")]);
    assert_eq!(bye.lines().next(), Some("BYE sip:uas@x SIP/2.0"), "without a Contact it is To");
    assert_eq!(lines(&bye, "To:"), ["To: sip:uas@x;tag=peer"]);
    let bye = bye_after(&[accepted("<sip:uas@x>", "Contact: sip:uas@127.0.0.2;expires=3\r\n")]);
    assert_eq!(bye.lines().next(), Some("BYE sip:uas@127.0.0.2 SIP/2.0"));
    // RFC 3261 §12.2.1.1: a strict router is the target, and the remote target the last of the route.
    let strict = "Record-Route: <sip:p1@127.0.0.9>\r\nContact: <sip:uas@127.0.0.2>\r\n";
    let bye = bye_after(&[accepted("<sip:uas@x>", strict)]);
    assert_eq!(bye.lines().next(), Some("BYE sip:p1@127.0.0.9 SIP/2.0"));
    assert_eq!(lines(&bye, "Route:"), ["Route: <sip:uas@127.0.0.2>"]);
}

#[test]
fn default_behaviours_can_be_switched_off() {
    let mut options = Options::default();
    options.call.defaults.bye = false;
    let mut end = Endpoint::new(uac(), options.clone());
    end.start(ID);
    end.answer(ID, 486, 1, "INVITE");
    assert_eq!(end.said(), ["INVITE"]);
    failed(&end, Count::FailedUnexpectedMessage);

    options.call.defaults.abort_unexpected = false;
    let mut end = Endpoint::new(uac(), options);
    end.start(ID);
    end.answer(ID, 486, 1, "INVITE");
    end.ask(ID, 3, "BYE");
    assert!(end.ended.is_empty());
    assert_eq!(end.stats.steps[1].unexpected, 2);
}

#[test]
fn an_unexpected_bye_is_answered_and_fails_the_call() {
    let mut end = started(uac());
    end.ask(ID, 2, "BYE");
    assert_eq!(end.said(), ["INVITE", "200"]);
    failed(&end, Count::FailedUnexpectedMessage);
}

#[test]
fn a_default_message_of_the_scenario_is_used() {
    let mut own = uac();
    own.defaults.ok = Some(Template::text("SIP/2.0 299 Mine\nX: 1\n\n"));
    let mut end = started(own);
    end.ask(ID, 2, "CANCEL");
    assert_eq!(end.sent[1], "SIP/2.0 299 Mine\r\nX: 1\r\n\r\n");
}

#[test]
fn a_receive_timeout_fails_or_goes_to_its_label() {
    let mut options = Options::default();
    options.timers.recv_timeout = Some(Duration::from_secs(3));
    let steps = vec![request("OPTIONS", None), code(200), request("INFO", None), pause(10.0)];
    let mut end = Endpoint::new(scenario(Role::Client, steps.clone()), options.clone());
    end.start(ID);
    end.wait(2999);
    assert!(end.ended.is_empty());
    end.wait(1);
    assert_eq!(end.stats.steps[1].timeouts, 1);
    failed(&end, Count::FailedTimeoutOnRecv);

    let mut steps = steps;
    steps[1].flow.on_timeout = Some(2);
    let mut end = Endpoint::new(scenario(Role::Client, steps.clone()), options.clone());
    end.start(ID);
    end.wait(3010);
    assert_eq!(end.said(), ["OPTIONS", "INFO"]);
    assert_eq!(end.ended, [CallOutcome::Success]);

    // A label at the end is none.
    steps[1].flow.on_timeout = Some(4);
    let mut end = Endpoint::new(scenario(Role::Client, steps), options);
    end.start(ID);
    end.wait(3000);
    failed(&end, Count::FailedTimeoutOnRecv);
}

#[test]
fn the_last_retransmission_may_lead_to_a_label() {
    let mut steps = vec![request("OPTIONS", Some(500)), code(200), request("INFO", None), pause(10.0)];
    steps[0].flow.on_timeout = Some(2);
    let mut end = started(scenario(Role::Client, steps));
    end.wait(60_000);
    assert_eq!(end.said().last().map(String::as_str), Some("INFO"));
    assert_eq!(end.ended, [CallOutcome::Success]);
}

#[test]
fn faults_of_the_transport() {
    for (fault, why) in [
        (TransportFault::ConnectFailed, Count::FailedTcpConnect),
        (TransportFault::Closed, Count::FailedTcpClosed),
        (TransportFault::CannotSend, Count::FailedCannotSendMessage),
        (TransportFault::Congestion, Count::FailedOutboundCongestion),
    ] {
        let mut end = started(uac());
        end.fault(ID, fault);
        end.fault(ID, fault);
        failed(&end, why);
    }
}

#[test]
fn a_connection_closed_in_timewait_is_no_failure() {
    let mut end = Endpoint::new(uas(), Options::default());
    for (cseq, method) in [(1, "INVITE"), (1, "ACK"), (2, "BYE")] {
        end.ask(ID, cseq, method);
    }
    end.fault(ID, TransportFault::Closed);
    assert_eq!(end.ended, [CallOutcome::Success]);
}

#[test]
fn messages_are_lost_on_purpose_either_way() {
    let mut steps = uac().steps;
    steps[0].flow.lost = Some(1.0);
    steps[4].flow.lost = Some(1.0);
    let mut end = started(scenario(Role::Client, steps));
    end.wait(500);
    assert!(end.said().is_empty());
    assert_eq!((end.stats.steps[0].lost, end.stats.steps[0].retransmissions), (2, 1));
    end.answer(ID, 200, 1, "INVITE");
    assert_eq!((end.stats.steps[4].lost, end.stats.steps[4].messages), (1, 0));
}

#[test]
fn a_dead_call_counts_late_messages() {
    let mut end = started(scenario(Role::Client, vec![request("OPTIONS", None), maybe(100), code(200)]));
    end.answer(ID, 200, 1, "OPTIONS");
    end.answer(ID, 200, 1, "OPTIONS");
    assert_eq!((end.count(Count::DeadCallMsgs), end.said().len()), (1, 1));
    let mut server = Endpoint::new(
        scenario(Role::Server, vec![wants("OPTIONS"), super::world::response(200, None)]),
        Options::default(),
    );
    server.ask(ID, 1, "OPTIONS");
    server.ask(ID, 1, "OPTIONS");
    assert_eq!(server.said(), ["200", "200"], "a retransmission is answered after the end");
    server.assert_books();
}

#[test]
fn a_dead_call_is_forgotten_after_its_wait() {
    let mut end = started(uac());
    end.fault(ID, TransportFault::CannotSend);
    let deadline = end.calls[ID.as_bytes()].deadline;
    assert_eq!(deadline, super::world::START + Duration::from_secs(33));
    end.now = deadline;
    end.on_call(ID.as_bytes(), |call, ctx| call.handle_wake(ctx));
    assert_eq!(end.calls[ID.as_bytes()].deadline, stdx::time::Instant::FAR_FUTURE);
    let mut options = Options::default();
    options.call.dead_call_wait = Duration::ZERO;
    let mut end = Endpoint::new(uac(), options);
    end.start(ID);
    end.fault(ID, TransportFault::CannotSend);
    assert_eq!(end.calls[ID.as_bytes()].deadline, stdx::time::Instant::FAR_FUTURE);
}

/// As with SIPp the peer sees a whole call, and the failure is counted when it ends.
#[test]
fn a_failed_check_fails_the_call_at_its_end() {
    let mut steps = uac().steps;
    steps[4].actions = vec![check("Nothing")];
    let mut end = started(scenario(Role::Client, steps));
    end.answer(ID, 200, 1, "INVITE");
    assert!(end.ended.is_empty());
    end.answer(ID, 200, 2, "BYE");
    assert_eq!(end.said(), ["INVITE", "ACK", "BYE"]);
    failed(&end, Count::FailedRegexpDoesntMatch);
}

#[test]
fn a_call_may_be_stopped_by_its_scenario() {
    let mut steps = vec![request("OPTIONS", None), code(200), request("INFO", None)];
    steps[1].actions = vec![Action { line: 3, kind: ActionKind::Internal(InternalCommand::StopCall) }];
    let mut end = started(scenario(Role::Client, steps));
    end.answer(ID, 200, 1, "OPTIONS");
    assert_eq!(end.said(), ["OPTIONS"]);
    failed(&end, Count::FailedCallRejected);
}

#[test]
fn a_jump_goes_to_its_step() {
    let mut steps =
        vec![request("OPTIONS", None), code(200), request("INFO", None), request("MESSAGE", None)];
    steps[1].actions = vec![Action { line: 3, kind: ActionKind::Jump(Operand::Value(3.0)) }];
    let mut end = started(scenario(Role::Client, steps));
    end.answer(ID, 200, 1, "OPTIONS");
    assert_eq!(end.said(), ["OPTIONS", "MESSAGE"]);
    assert_eq!(end.ended, [CallOutcome::Success]);
    end.assert_books();
}

fn check(pattern: &str) -> Action {
    let ereg = Ereg {
        regex: crate::regex::Regex::new(pattern).unwrap(),
        search_in: SearchIn::Message,
        check: ActionCheck::MustMatch,
        assign_to: Vec::new(),
    };
    Action { line: 3, kind: ActionKind::Ereg(Box::new(ereg)) }
}

#[test]
fn a_message_without_to_is_unexpected() {
    let mut end = started(uac());
    end.deliver(format!("SIP/2.0 200 OK\r\nCall-ID: {ID}\r\nCSeq: 1 INVITE\r\n\r\n").as_bytes());
    failed(&end, Count::FailedUnexpectedMessage);
}

#[test]
fn commands_of_the_other_side() {
    let waits = |src: Option<&str>| {
        let recv = StepKind::RecvCmd { src: src.map(str::to_owned), optional: false };
        let send = StepKind::SendCmd { message: Template::text("Call-ID: 1\n\n"), dest: None };
        scenario(Role::ControllerB, vec![step(StepKind::Nop), step(recv), step(send), pause(5.0)])
    };
    let command = |end: &mut Endpoint, text: &str| {
        let text = text.as_bytes().to_vec();
        end.on_call(ID.as_bytes(), |call, ctx| call.handle_command(ctx, &text, None));
    };
    let mut end = started(waits(None));
    command(&mut end, "Call-ID: 1@host\r\nX: 1\r\n\r\n");
    end.wait(5);
    assert_eq!(
        (end.sent[0].starts_with("cmd:Call-ID: 1"), end.ended.as_slice()),
        (true, &[CallOutcome::Success][..])
    );

    let mut end = started(waits(Some("m")));
    command(&mut end, "Call-ID: 1@host\r\nFrom: s1\r\n\r\n");
    failed(&end, Count::FailedCallRejected);
    let mut end = started(waits(Some("m")));
    command(&mut end, "Call-ID: 1@host\r\nFrom: m\r\n\r\n");
    assert!(end.ended.is_empty());
    // It waits in the pause now: no command is due.
    command(&mut end, "Call-ID: 1@host\r\nFrom: m\r\n\r\n");
    failed(&end, Count::FailedCallRejected);

    let mut end = started(waits(None));
    command(&mut end, "call-id: 1@host\ninternal-cmd: abort_call\n\n");
    assert_eq!(end.ended, [CallOutcome::Failure(Count::FailedCall)]);
    assert_eq!(end.count(Count::FailedCall), 1);
}

#[test]
fn a_command_that_comes_early_waits_for_its_step() {
    let recv = || step(StepKind::RecvCmd { src: None, optional: false });
    let send = || step(StepKind::SendCmd { message: Template::text("Call-ID: 1\n\n"), dest: None });
    let early = || started(scenario(Role::ControllerB, vec![pause(5.0), recv(), send(), pause(5.0), recv()]));
    let command = |end: &mut Endpoint, text: &'static str| {
        end.on_call(ID.as_bytes(), |call, ctx| call.handle_command(ctx, text.as_bytes(), None));
    };
    let mut end = early();
    command(&mut end, "Call-ID: 1@host\r\n\r\n");
    command(&mut end, "Call-ID: 1@host\r\n\r\n");
    assert!(end.ended.is_empty() && end.sent.is_empty());
    end.wait(5);
    assert_eq!((end.sent.len(), end.ended.len()), (1, 0));
    end.wait(5);
    assert_eq!(end.ended, [CallOutcome::Success]);

    // An optional message before the step does not hold it up.
    let mut end = started(scenario(Role::ControllerB, vec![pause(5.0), maybe(183), recv()]));
    command(&mut end, "Call-ID: 1@host\r\n\r\n");
    end.wait(5);
    assert_eq!(end.ended, [CallOutcome::Success]);

    // The other side's end does not wait.
    let mut end = early();
    command(&mut end, "call-id: 1@host\ninternal-cmd: abort_call\n\n");
    assert_eq!(end.ended, [CallOutcome::Failure(Count::FailedCall)]);

    let mut end = early();
    for _ in 0..8 {
        command(&mut end, "Call-ID: 1@host\r\n\r\n");
    }
    assert!(end.ended.is_empty());
    command(&mut end, "Call-ID: 1@host\r\n\r\n");
    failed(&end, Count::FailedCallRejected);
}

#[test]
fn a_pattern_that_did_not_come_back_fails_its_call() {
    let mut steps = scenario(Role::Client, vec![request("OPTIONS", None), code(200)]);
    steps.needs.media = true;
    let mut end = Endpoint::new(steps, Options::default());
    end.media.missed = Some("audio: half of it missed");
    end.start(ID);
    end.answer(ID, 200, 1, "OPTIONS");
    failed(&end, Count::FailedRtpCheck);
    assert_eq!(end.count(Count::SuccessfulCall), 0);
}

#[test]
fn a_command_that_cannot_be_sent_ends_the_call_and_tells_the_peer() {
    let mut end = started(uac());
    end.answer(ID, 180, 1, "INVITE");
    end.on_call(ID.as_bytes(), |call, ctx| call.handle_fault(ctx, TransportFault::CommandNotSent));
    assert_eq!(end.said(), ["INVITE", "CANCEL"]);
    failed(&end, Count::FailedCmdNotSent);
}
