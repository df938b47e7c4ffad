//! Dial: one, several, in turn; screened, limited, hung up.

use crate::play;
use crate::verbs::performs;

/// The parameters of a Dial's `action`: status, sid and times of the connected leg.
#[test]
fn a_number_rings_and_talks_and_the_action_gets_the_result() {
    performs(
        "<Dial action='/d' callerId='+9' timeout='20' ringTone='de' record='record-from-ringing-dual' trim='trim-silence' \
         recordingTrack='inbound' recordingStatusCallback='rec' referUrl='/t' referMethod='GET'>+1777</Dial>",
        "> dial +1777 as +9 tone de rings 20 record ringing true dual true trim true inbound POST http://app/rec completed transfers GET http://app/t
         leg1: starts
         leg1: rings
         wait: 3000
         leg1: answers
         > bridge leg1
         wait: 10000
         leg1: ends 9
         > ask POST http://app/d DialCallStatus=completed DialCallSid=CA2 DialCallDuration=10 DialRingDuration=3 DialBridged=true RecordingUrl=http://belfry/RE1 RecordingSid=RE1 RecordingDuration=9 PublicRecordingUrl=http://belfry/RE1.wav
         caller: hangs up
         > end completed",
    );
}

#[test]
fn a_callees_transfer_continues_the_call_with_another_document() {
    performs(
        "<Dial action='/d' referUrl='/t'>1</Dial><Say>never</Say>",
        "> dial 1 transfers POST http://app/t
         leg1: answers
         > bridge leg1
         leg1: transfers http://app/t
         > hang up leg1
         > ask POST http://app/t ReferTransferTarget=sip:x
         leg1: transfers http://app/t
         leg1: ends
         caller: hangs up
         > end completed",
    );
}

/// Twilio: a Dial without `action` goes on with the document.
#[test]
fn without_an_action_the_next_verb_follows() {
    performs(
        "<Dial>client:bob</Dial><Say>gone</Say>",
        r#"> dial client bob
           leg1: answers
           > bridge leg1
           leg1: ends
           > play Man/en "gone"
           leg1: ends
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// Twilio: several nouns ring at once, and the first answer cancels the others.
#[test]
fn the_first_that_answers_is_connected() {
    performs(
        "<Dial><Number sendDigits='1w2'>1</Number><Client>bob<Video/></Client><Client><Identity>eve</Identity></Client>\
         <Sip username='u' password='p'>sip:a@b;x=y?X-A=1&amp;X-B=%20c&amp;Route=evil</Sip><Uri>sip:c@d</Uri></Dial>",
        r#"> dial 1 then keys 1 (0.5s) keys 2, client bob, client eve, sip:a@b;x=y [("X-A", "1"), ("X-B", " c")] u:p, uri sip:c@d
           leg1: busy
           leg3: rings
           leg3: answers
           > hang up leg2
           > hang up leg4
           > hang up leg5
           > bridge leg3
           leg2: answers
           leg4: ends
           leg3: ends
           > hang up
           > end completed"#,
    );
}

/// The failure that says most is reported: busy before no-answer before canceled.
#[test]
fn the_action_gets_the_reason_of_a_failed_dial() {
    let headers = "DialSipCallId=c1 DialSipResponseCode";
    for (children, events, told) in [
        (
            "1",
            "leg1: starts\nleg1: busy",
            format!(
                "DialCallStatus=busy DialCallSid=CA2 DialCallDuration=0 DialRingDuration=0 DialBridged=false {headers}=486 DialSipHeader_X-Why=lunch"
            ),
        ),
        (
            "1",
            "leg1: fails",
            format!(
                "DialCallStatus=failed DialCallDuration=0 DialRingDuration=0 DialBridged=false {headers}=503 DialSipHeader_X-Why=lunch"
            ),
        ),
        (
            "1",
            "wait: 30000\n> hang up leg1",
            "DialCallStatus=no-answer DialCallDuration=0 DialRingDuration=30 DialBridged=false".to_owned(),
        ),
        (
            "<Number>1</Number><Number>2</Number>",
            "leg1: busy\nleg2: fails",
            format!(
                "DialCallStatus=busy DialCallDuration=0 DialRingDuration=0 DialBridged=false {headers}=486 DialSipHeader_X-Why=lunch"
            ),
        ),
    ] {
        let to = if children == "1" { "1" } else { "1, 2" };
        performs(
            &format!("<Dial action='/d'>{children}</Dial>"),
            &format!(
                "> dial {to}
                 {events}
                 > ask POST http://app/d {told}
                 leg1: busy
                 leg1: answers
                 caller: hangs up
                 > end completed"
            ),
        );
    }
}

/// RestComm's `sequential`: a busy or silent party is followed by the next.
#[test]
fn a_sequence_rings_one_after_another() {
    performs(
        "<Dial sequential='true' timeout='10'><Number>1</Number><Number>2</Number><Number>3</Number></Dial>",
        "> dial 1 rings 10
         leg1: busy
         > dial 2 rings 10
         wait: 10000
         > hang up leg2
         > dial 3 rings 10
         leg2: answers
         leg3: answers
         > bridge leg3
         leg3: ends
         > hang up
         > end completed",
    );
}

#[test]
fn a_callee_is_screened_before_the_connection() {
    performs(
        "<Dial action='/d'><Number url='/s' method='GET'>1</Number><Number>2</Number></Dial>",
        "> dial 1, 2
         leg1: answers
         > screen leg1 GET http://app/s
         wait: 60000
         leg1: accepts
         > hang up leg2
         > bridge leg1
         leg1: ends
         > ask POST http://app/d DialCallStatus=completed DialCallDuration=0 DialRingDuration=60 DialBridged=true
         caller: hangs up
         > end completed",
    );
    performs(
        "<Dial action='/d'><Number url='/s'>1</Number></Dial>",
        "> dial 1
         leg1: answers
         > screen leg1 POST http://app/s
         leg1: answers
         leg1: declines
         > hang up leg1
         > ask POST http://app/d DialCallStatus=no-answer DialCallDuration=0 DialRingDuration=0 DialBridged=false
         caller: hangs up
         > end completed",
    );
}

/// A `url` that is none must not connect a callee that never agreed.
#[test]
fn a_callee_that_cannot_be_screened_is_not_connected() {
    performs(
        "<Dial action='/d' referUrl='ftp://x'><Number url='mailto:s'>1</Number></Dial>",
        "> note 11100: ftp://x is no URL of HTTP
         > dial 1
         leg1: rings
         leg1: rings
         leg1: answers
         > note 11100: mailto:s is no URL of HTTP
         > hang up leg1
         > ask POST http://app/d DialCallStatus=no-answer DialCallDuration=0 DialRingDuration=0 DialBridged=false
         caller: hangs up
         > end completed",
    );
}

/// `timeLimit` and `hangupOnStar` end the connection, not the call.
#[test]
fn time_limit_and_star_end_the_connection() {
    performs(
        "<Dial timeLimit='60'>1</Dial><Hangup/>",
        "> dial 1
         leg1: answers
         > bridge leg1
         caller: presses *
         wait: 60000
         > hang up leg1
         leg1: ends
         > hang up
         > end completed",
    );
    performs(
        "<Dial hangupOnStar='true' action='/d'>1</Dial>",
        "> dial 1
         leg1: answers
         > listen digits
         > bridge leg1
         caller: presses 1
         caller: presses *
         > hang up leg1
         caller: presses *
         deadline: passes
         > stop listening
         > ask POST http://app/d DialCallStatus=completed DialCallDuration=5 DialRingDuration=0 DialBridged=true
         caller: hangs up
         > end completed",
    );
}

/// `answerOnBridge`, RestComm's `enable-200-ok-delay`: the caller hears ringing until the callee answers.
#[test]
fn the_call_is_answered_when_the_callee_is() {
    play(
        "caller: calls
         > ask POST http://app/start
         app: <Dial answerOnBridge='true'><Number>1</Number><Number>2</Number></Dial>
         > dial 1, 2
         leg1: rings
         > ring
         leg2: rings
         leg1: answers
         > hang up leg2
         > answer
         > bridge leg1
         caller: answers
         leg1: ends
         > hang up
         > end completed",
    );
    play(
        "caller: calls
         > ask POST http://app/start
         app: <Dial answerOnBridge='true'>1</Dial>
         > dial 1
         leg1: busy
         > answer
         caller: answers
         > hang up
         > end completed",
    );
    play(
        "caller: calls
         > ask POST http://app/start
         app: <Dial action='/d' answerOnBridge='true'>1</Dial>
         > dial 1
         leg1: rings
         > ring
         caller: hangs up
         > hang up leg1
         > tell POST http://app/d DialCallStatus=canceled DialCallDuration=0 DialRingDuration=0 DialBridged=false
         > end canceled",
    );
}

#[test]
fn status_callbacks_report_a_legs_progress() {
    performs(
        "<Dial><Number statusCallback='/s' statusCallbackMethod='GET' statusCallbackEvent='initiated ringing answered completed'>1</Number></Dial>",
        "> dial 1
         rest: all
         leg1: starts
         > tell GET http://app/s CallSid=CA2 AccountSid=AC1 From=+1555 To=1 Caller=+1555 Called=1 CallStatus=initiated ApiVersion=2012-04-24 Direction=outbound-dial CallerName=Alice ParentCallSid=CA1 Timestamp=Sat, 21 Nov 2026 12:22:33 +0000 CallbackSource=call-progress-events SequenceNumber=0
         leg1: rings
         > tell GET http://app/s CallSid=CA2 AccountSid=AC1 From=+1555 To=1 Caller=+1555 Called=1 CallStatus=ringing ApiVersion=2012-04-24 Direction=outbound-dial CallerName=Alice ParentCallSid=CA1 Timestamp=Sat, 21 Nov 2026 12:22:33 +0000 CallbackSource=call-progress-events SequenceNumber=1
         leg1: answers
         > tell GET http://app/s CallSid=CA2 AccountSid=AC1 From=+1555 To=1 Caller=+1555 Called=1 CallStatus=in-progress ApiVersion=2012-04-24 Direction=outbound-dial CallerName=Alice ParentCallSid=CA1 Timestamp=Sat, 21 Nov 2026 12:22:33 +0000 CallbackSource=call-progress-events SequenceNumber=2
         > bridge leg1
         wait: 4000
         caller: hangs up
         > hang up leg1
         > tell GET http://app/s CallSid=CA2 AccountSid=AC1 From=+1555 To=1 Caller=+1555 Called=1 CallStatus=completed ApiVersion=2012-04-24 Direction=outbound-dial CallerName=Alice ParentCallSid=CA1 CallDuration=4 Timestamp=Sat, 21 Nov 2026 12:22:37 +0000 CallbackSource=call-progress-events SequenceNumber=3
         > end completed",
    );
}

/// `<Dial><Queue>` connects to the call that has waited longest.
#[test]
fn a_queues_first_caller_is_taken() {
    performs(
        "<Dial><Queue url='/hello'>support</Queue></Dial>",
        "> dial queue support that hears POST http://app/hello
         leg1: starts
         leg1: answers
         > bridge leg1
         caller: hangs up
         > hang up leg1
         > end completed",
    );
}

/// The caller of a queue hears its document beside the script: for the Dial it is connected when it is taken.
#[test]
fn a_queues_caller_with_a_document_talks_as_long_as_the_time_limit_says() {
    performs(
        "<Dial action='/d' timeLimit='5'><Queue url='/hello'>support</Queue></Dial>",
        "> dial queue support that hears POST http://app/hello
         leg1: starts
         leg1: answers
         > bridge leg1
         wait: 5000
         > hang up leg1
         leg1: ends
         > ask POST http://app/d DialCallStatus=completed DialCallSid=CA2 DialCallDuration=5 DialRingDuration=0 DialBridged=true",
    );
}
