//! Conferences and queues.

use crate::verbs::performs;
use crate::world::{call, plan, play_with, target};
use ivr::script::{Plan, Role};

/// Every attribute of `<Conference>` reaches the room, with absolute URLs.
#[test]
fn a_conference_with_every_attribute() {
    performs(
        "<Dial action='/d' hangupOnStar='true' timeLimit='60' record='true'>\
         <Conference muted='true' beep='onEnter' startConferenceOnEnter='false' endConferenceOnExit='true' waitUrl='' \
         waitMethod='GET' maxParticipants='3' record='record-from-start' trim='trim-silence' coach='CA9' participantLabel='bob' \
         statusCallback='/s' statusCallbackMethod='GET' statusCallbackEvent='join leave' \
         recordingStatusCallback='/r'>room</Conference></Dial>",
        r#"> listen digits
           > join room muted true beep OnEnter start false end true wait GET "" max 3 record true trim true coach CA9 label bob told GET http://app/s join+leave recordings POST http://app/r completed own true
           room: joined
           wait: 1000
           caller: presses *
           > leave conference
           caller: presses *
           room: left
           > stop listening
           > ask POST http://app/d DialCallStatus=completed ConferenceSid=CF1 DialCallDuration=1
           caller: hangs up
           > end completed"#,
    );
}

/// `timeLimit` of the Dial ends the stay, and the recording of the participant is waited for.
#[test]
fn a_conferences_defaults_and_time_limit() {
    performs(
        "<Dial timeLimit='60'><Conference waitUrl='wait.xml' eventCallbackUrl='/e'>a</Conference></Dial><Hangup/>",
        r#"> join a muted false beep Both start true end false wait POST "http://app/wait.xml" max 40 record false trim false coach - label - told POST http://app/e start+end+join+leave+mute+hold recordings nobody own false
           room: joined
           caller: presses *
           wait: 60000
           > leave conference
           deadline: passes
           > hang up
           > end completed
           room: left"#,
    );
}

/// A full room is a failed Dial; a room that ends is a completed one.
#[test]
fn a_room_that_is_full_and_one_that_ends() {
    for (event, told) in [
        ("refused", "> note 13200: full\n> ask POST http://app/d DialCallStatus=failed DialCallDuration=0"),
        ("left", "> ask POST http://app/d DialCallStatus=completed DialCallDuration=0"),
    ] {
        performs(
            "<Dial action='/d'><Conference>a</Conference></Dial>",
            &format!(
                "> join a muted false beep Both start true end false wait music max 40 record false trim false coach - label - told nobody recordings nobody own false
                 room: {event}
                 {told}
                 caller: hangs up
                 > end completed"
            ),
        );
    }
}

/// After a hang-up no document can follow, so the `action` is told as a callback.
#[test]
fn a_hang_up_leaves_room_and_queue_and_tells_the_action() {
    performs(
        "<Dial action='/d'><Conference>a</Conference></Dial>",
        "> join a muted false beep Both start true end false wait music max 40 record false trim false coach - label - told nobody recordings nobody own false
         room: joined
         wait: 2000
         caller: hangs up
         > leave conference
         > tell POST http://app/d DialCallStatus=completed ConferenceSid=CF1 DialCallDuration=2
         > end completed
         room: left",
    );
    performs(
        "<Enqueue action='/q'>a</Enqueue>",
        "> enqueue a wait music
         queue: entered
         wait: 2000
         caller: hangs up
         > leave queue
         > tell POST http://app/q QueueResult=hangup QueueSid=QU1 QueueTime=2
         > end completed",
    );
}

/// Twilio's values of `QueueResult`, and `QueueTime` without the connection.
#[test]
fn a_queue_is_left_in_each_way() {
    for (event, word) in
        [("over", "bridged"), ("full", "queue-full"), ("left", "leave"), ("broken", "system-error")]
    {
        performs(
            "<Enqueue action='/q' method='GET' waitUrl='/w' maxQueueSize='5'>a</Enqueue>",
            &format!(
                "> enqueue a wait http://app/w max 5
                 queue: entered
                 wait: 3000
                 queue: {event}
                 > ask GET http://app/q QueueResult={word} QueueSid=QU1 QueueTime=3
                 caller: hangs up
                 > end completed"
            ),
        );
    }
    performs(
        "<Enqueue>a</Enqueue><Say>next</Say>",
        r#"> enqueue a wait music
           queue: entered
           queue: taken
           wait: 3000
           queue: over
           > play Man/en "next"
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// A REST redirect takes the call out of its queue with the result `redirected`.
#[test]
fn a_call_in_a_queue_can_be_sent_elsewhere() {
    performs(
        "<Enqueue action='/q'>a</Enqueue>",
        "> enqueue a wait music
         rest: redirects http://app/b
         > leave queue
         > tell POST http://app/q QueueResult=redirected QueueTime=0
         > ask POST http://app/b
         queue: left
         caller: hangs up
         > end completed",
    );
}

fn waiting() -> (ivr::script::Call, Plan) {
    let mut call = call();
    call.answered = true;
    (call, Plan { role: Role::Waiting, ..plan() })
}

/// `waitUrl` is performed again and again until the call is taken or `<Leave>` comes.
#[test]
fn a_wait_document_begins_again_and_can_leave() {
    let (call, plan) = waiting();
    play_with(
        call,
        plan,
        r#"caller: calls
           > ask POST http://app/start
           app: <Say>wait</Say><Dial>1</Dial>
           > play Man/en "wait"
           wait: 3000
           media: over
           > note 12200: <Dial> is not performed here: passed over
           > ask POST http://app/start
           app: <Leave/>
           > leave queue
           > done
           > end in-progress"#,
    );
}

/// A wait document that takes no time is requested once a second at most.
#[test]
fn an_empty_or_missing_wait_document_makes_no_storm() {
    let (call, plan) = waiting();
    play_with(
        call,
        plan,
        "caller: calls
         > ask POST http://app/start
         app: <!-- -->
         wait: 999
         wait: 1
         > ask POST http://app/start
         app: audio
         > play http://app/start
         wait: 9000
         media: over
         > ask POST http://app/start
         app: status 404
         > note 11200: status 404
         > done
         > end in-progress",
    );
}

/// `<Leave>` means something only to a call that waits.
#[test]
fn leave_outside_a_wait_document_is_passed_over() {
    performs(
        "<Say>a</Say><Leave/><Hangup/>",
        "> play Man/en \"a\"
         media: over
         > note 12200: <Leave> is not performed here: passed over
         > hang up
         > end completed",
    );
}

/// The document at a noun's `url`: its end accepts the call, a `<Hangup>` declines it.
#[test]
fn a_screening_document_accepts_or_declines() {
    let mut leg = call();
    leg.answered = true;
    let screening =
        Plan { role: Role::Screening, start: ivr::script::Start::Url(target("http://app/s")), ..plan() };
    play_with(
        leg.clone(),
        screening.clone(),
        r#"caller: calls
           > ask POST http://app/s
           app: <Gather numDigits="1"><Say>Press 1</Say></Gather><Hangup/>
           > listen digits
           > play Man/en "Press 1"
           caller: presses 1
           > stop playing
           > stop listening
           > ask POST http://app/s Digits=1
           app: <!-- -->
           > done
           > end in-progress"#,
    );
    play_with(
        leg,
        screening,
        "caller: calls
         > ask POST http://app/s
         app: <Hangup/>
         > hang up
         > end completed",
    );
}
