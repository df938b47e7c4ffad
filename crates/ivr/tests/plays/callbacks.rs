//! The call's own progress, calls that we make, and orders while a call lives.

use ivr::document::Callback;
use ivr::script::{Call, Direction, Plan};

use crate::verbs::performs;
use crate::world::{call, plan, play_with, target};

fn plan_with_events(events: &[&'static str]) -> Plan {
    Plan { status: Some(Callback { target: target("http://app/status"), events: events.to_vec() }), ..plan() }
}

#[test]
fn the_end_of_a_call_is_reported_once() {
    play_with(
        call(),
        plan_with_events(&["completed"]),
        "caller: calls
         > ask POST http://app/start
         app: <Pause length='5'/><Say>x</Say><Record finishOnKey=''/>
         > ring
         deadline: passes
         > answer
         caller: answers
         > play Man/en \"x\"
         wait: 7000
         caller: hangs up
         > stop playing
         > tell POST http://app/status CallDuration=7 Timestamp=Sat, 21 Nov 2026 12:22:45 +0000 CallbackSource=call-progress-events SequenceNumber=0
         > end completed
         caller: hangs up
         rest: completes
         rest: redirects http://app/x",
    );
}

#[test]
fn status_callbacks_report_the_requested_events() {
    let shown = "CallbackSource=call-progress-events SequenceNumber";
    let at = "Timestamp=Sat, 21 Nov 2026 12:22:33 +0000";
    play_with(
        call(),
        plan_with_events(&["initiated", "ringing", "answered", "completed"]),
        &format!(
            "caller: calls
             > tell POST http://app/status {at} {shown}=0
             > tell POST http://app/status {at} {shown}=1
             > ask POST http://app/start
             app: <Hangup/>
             > answer
             caller: answers
             > tell POST http://app/status {at} {shown}=2
             > hang up
             > tell POST http://app/status CallDuration=0 {at} {shown}=3
             > end completed"
        ),
    );
}

fn outbound() -> Call {
    Call { direction: Direction::OutboundApi, ..call() }
}

#[test]
fn an_outgoing_call_requests_its_document_when_it_is_answered() {
    play_with(
        outbound(),
        plan(),
        "caller: calls
         caller: rings
         rest: all
         caller: answers
         > ask POST http://app/start CallSid=CA1 AccountSid=AC1 From=+1555 To=+1234 Caller=+1555 Called=+1234 CallStatus=in-progress ApiVersion=2012-04-24 Direction=outbound-api CallerName=Alice
         app: <Hangup/>
         > hang up
         > end completed",
    );
}

#[test]
fn an_unanswered_outgoing_call_is_reported() {
    let at = "Timestamp=Sat, 21 Nov 2026 12:22:33 +0000 CallbackSource=call-progress-events SequenceNumber";
    play_with(
        outbound(),
        plan_with_events(&["initiated", "ringing", "completed"]),
        &format!(
            "caller: calls
             > tell POST http://app/status {at}=0
             caller: rings
             > tell POST http://app/status {at}=1
             caller: rings
             caller: busy
             > tell POST http://app/status CallDuration=0 {at}=2
             > end busy"
        ),
    );
    play_with(
        outbound(),
        plan(),
        "caller: calls
         rest: completes
         > hang up
         > end no-answer
         caller: answers",
    );
}

/// REST's `Url` and `Status` of a live call; the verb under way is stopped first.
#[test]
fn a_live_call_is_sent_to_another_document_or_ended() {
    performs(
        "<Gather><Say>a</Say></Gather>",
        r#"> listen digits
           > play Man/en "a"
           rest: redirects http://app/b
           > stop playing
           > stop listening
           > ask POST http://app/b
           caller: presses 1
           media: over
           app: <Say>b</Say>
           > play Man/en "b"
           rest: performs <Say>c</Say>
           > stop playing
           > play Man/en "c"
           rest: completes
           > stop playing
           > hang up
           > end completed"#,
    );
}

/// The answer of a request that a redirect has replaced has an old id, and is ignored.
#[test]
fn a_document_that_was_overtaken_is_not_performed() {
    performs(
        "<Echo/>",
        "> echo true
         rest: redirects http://app/slow
         > echo false
         > ask POST http://app/slow
         rest: performs <Pause length='9'/>
         app: <Say>late</Say>
         caller: hangs up
         > end completed",
    );
}

#[test]
fn a_caller_gives_up_before_the_document_comes() {
    play_with(
        call(),
        plan(),
        "caller: calls
         > ask POST http://app/start
         caller: hangs up
         > end canceled
         app: <Say>late</Say>
         caller: answers",
    );
}

/// RFC 3261 §13.3.1.4: without an ACK for 64*T1 the dialog is ended by a BYE.
#[test]
fn a_caller_never_acknowledges() {
    play_with(
        call(),
        plan(),
        "caller: calls
         > ask POST http://app/start
         app: <Say>x</Say>
         > answer
         deadline: passes
         > hang up
         > end no-answer",
    );
}

/// Once the 2xx is sent, a final response of another class is impossible (RFC 3261 §13.3.1.4).
#[test]
fn a_call_with_an_answer_under_way_is_not_refused_any_more() {
    for document in ["<Reject/>", "<Redirect>mailto:x</Redirect>"] {
        let note = if document.contains("mailto") { "> note 11100: mailto:x is no URL of HTTP" } else { "" };
        let end = if note.is_empty() {
            "> hang up\n> end no-answer"
        } else {
            "caller: answers\n> play Man/en \"We are sorry. An application error has occurred. Goodbye.\"\nmedia: over\n> hang up\n> end completed"
        };
        play_with(
            call(),
            plan(),
            &format!(
                "caller: calls
                 > ask POST http://app/start
                 app: <Say>x</Say>
                 > answer
                 rest: performs {document}
                 {note}
                 {end}"
            ),
        );
    }
}

/// The limit of the account, and four hours in any case.
#[test]
fn no_call_is_longer_than_its_limit() {
    let limited = Plan { time_limit: Some(std::time::Duration::from_secs(60)), ..plan() };
    play_with(
        call(),
        limited,
        "caller: calls
         > ask POST http://app/start
         app: <Play loop='0'>a</Play>
         > answer
         caller: answers
         > play (http://app/a) for ever
         wait: 59999
         wait: 1
         > stop playing
         > hang up
         > end completed",
    );
}
