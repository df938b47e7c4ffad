//! A BYE, an order to end, and an order to go elsewhere, at every point of every verb. `Play` itself asserts that
//! nothing is left running at the end, that the end comes once, and that nothing comes after it.

use proptest::prelude::*;

use crate::world::{Play, call, plan};

/// Each verb with the events that may interrupt it.
const STORIES: &[(&str, &[&str])] = &[
    ("<Say loop='2'>a</Say><Play digits='1'/><Pause/>", &["media: over", "media: over", "wait: 1000"]),
    (
        "<Gather input='dtmf speech' partialResultCallback='/p'><Say>a</Say></Gather>",
        &["caller: mumbles a", "caller: presses 1", "caller: presses #", "app: <Hangup/>"],
    ),
    (
        "<Gather bargeIn='false'><Say>a</Say></Gather>",
        &["caller: presses 12#", "media: over", "app: status 500", "media: over"],
    ),
    (
        "<Record action='/r' recordingStatusCallback='/s'/>",
        &["caller: presses #", "media: recorded 3", "app: <Record/>", "media: recorded 0"],
    ),
    ("<Record transcribe='true'/>", &["media: full"]),
    (
        "<Dial action='/d' hangupOnStar='true'><Number url='/s' statusCallback='/l' statusCallbackEvent='initiated completed'>1</Number><Sip>sip:a@b</Sip></Dial>",
        &[
            "leg1: starts",
            "leg2: starts",
            "leg1: rings",
            "leg1: answers",
            "leg1: accepts",
            "caller: presses *",
            "leg1: ends 3",
            "app: <Say>b</Say>",
        ],
    ),
    (
        "<Dial sequential='true' action='/d'><Number>1</Number><Number>2</Number></Dial>",
        &["leg1: busy", "leg2: answers", "leg2: ends"],
    ),
    ("<Dial>1</Dial>", &["wait: 30000", "leg1: answers"]),
    (
        "<Dial action='/d' hangupOnStar='true'><Conference>a</Conference></Dial>",
        &["room: joined", "caller: presses *", "room: left"],
    ),
    (
        "<Enqueue action='/q' waitUrl='/w'>a</Enqueue>",
        &["queue: entered", "queue: taken", "queue: over", "app: <Echo/>"],
    ),
    ("<Sms action='/s'>a</Sms>", &["rest: sent", "app: <Reject/>"]),
    (
        "<Email to='a@b' from='c@d'>e</Email><Refer action='/r'><Sip>sip:a@b</Sip></Refer>",
        &["caller: referred 202", "app: <Redirect/>", "app: fails", "media: over"],
    ),
    ("<Echo/>", &["wait: 5"]),
    (
        "<Start><Stream url='ws://a/b' statusCallback='/s'/></Start><Connect action='/c'><Stream url='ws://a/c'/></Connect>",
        &["stream: starts", "stream: ends", "app: <Stop><Stream/></Stop><Pause/>", "wait: 1000"],
    ),
];

const ENDINGS: [&str; 3] = ["caller: hangs up", "rest: completes", "rest: redirects http://app/other"];

/// All that happens in one story, from the call's arrival; `ack` says whether the verbs find an answered call.
fn lines(verbs: &str, events: &[&str]) -> Vec<String> {
    let head = ["caller: calls".to_owned(), format!("app: {verbs}"), "caller: answers".to_owned()];
    head.into_iter().chain(events.iter().map(|event| (*event).to_owned())).collect()
}

/// Feeds all outstanding events late, then lets time pass until no timer is left.
fn finish(stage: &mut Play, rest: &[String], last: &str) {
    for line in rest {
        stage.happens(line);
    }
    stage.happens(last);
    stage.happens(last);
    for _ in 0..10 {
        if stage.ended {
            break;
        }
        stage.happens("deadline: passes");
    }
    assert!(stage.ended, "the call did not end");
    for line in rest.iter().map(String::as_str).chain(ENDINGS).chain(["wait: 100000000", "media: over"]) {
        assert_eq!(stage.happens(line), Vec::<String>::new());
    }
}

#[test]
fn every_verb_ends_cleanly_at_every_point() {
    let mut points = 0;
    for (verbs, events) in STORIES {
        let lines = lines(verbs, events);
        for at in 0..=lines.len() {
            for ending in ENDINGS {
                let mut stage = Play::new(call(), plan());
                for line in &lines[..at] {
                    stage.happens(line);
                }
                stage.happens(ending);
                finish(&mut stage, &lines[at..], "caller: hangs up");
                points += 1;
            }
        }
    }
    assert!(points > 200, "only {points}");
}

/// The same with a Dial that answers the caller only when the callee does.
#[test]
fn a_call_that_is_not_answered_yet_ends_cleanly_at_every_point() {
    for (verbs, events) in STORIES {
        let mut lines = lines(verbs, events);
        lines.remove(2);
        for at in 0..=lines.len() {
            let on_bridge = ivr::script::Plan { answer_on_bridge: true, ..plan() };
            let mut stage = Play::new(call(), on_bridge);
            for line in &lines[..at] {
                stage.happens(line);
            }
            stage.happens("caller: hangs up");
            finish(&mut stage, &lines[at..], "caller: hangs up");
        }
    }
}

/// Anything at all, in any order.
fn anything() -> impl Strategy<Value = String> {
    let all: Vec<String> = STORIES
        .iter()
        .flat_map(|(verbs, events)| lines(verbs, events))
        .chain(
            [
                "deadline: passes",
                "wait: 200",
                "leg3: fails",
                "leg2: declines",
                "room: refused",
                "media: broken",
            ]
            .map(str::to_owned),
        )
        .chain(
            ["rest: redirects /b", "rest: redirects http://app/b", "stream: breaks", "rest: unsent"]
                .map(str::to_owned),
        )
        .collect();
    proptest::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_call_ends_after_any_events_in_any_order(
        lines in proptest::collection::vec(anything(), 0..60), on_bridge: bool, end_pause in 0_u64..1_000,
    ) {
        let mut stage = Play::new(call(), ivr::script::Plan { answer_on_bridge: on_bridge, ..plan() });
        stage.script.set_end_pause(std::time::Duration::from_millis(end_pause));
        stage.happens("caller: calls");
        for line in &lines {
            stage.happens(line);
        }
        finish(&mut stage, &[], "caller: hangs up");
    }
}
