//! Calls that hear each other: conferences and queues, across shards.

use std::time::Duration;

use super::app::{App, Form, section};
use super::nothing_left;
use super::talker::Talker;
use crate::place::Place;
use crate::{until, within};

/// Tones of callers; a whole number of periods in a second, none a multiple of another.
const TONES: [u32; 3] = [440, 700, 1_250];
const BEEP: u32 = 1_400;

/// Numbers bound to documents.
fn place(app: &App, numbers: &[(&str, &str)]) -> Place {
    let bound: Vec<String> = numbers
        .iter()
        .map(|(number, path)| format!("{{ number = \"{number}\", url = \"http://{}{path}\" }}", app.address))
        .collect();
    let bound = bound.join(", ");
    Place::new(&format!("{}open = true\nnumbers = [{bound}]\n", section()))
}

/// In the order of their numbers: callbacks are under way at once.
fn events(app: &App, path: &str) -> Vec<Form> {
    let asked = app.asked.lock().unwrap();
    let mut events: Vec<Form> =
        asked.iter().filter(|(asked, _)| asked == path).map(|(_, form)| form.clone()).collect();
    events.sort_by_key(|form| form["SequenceNumber"].parse::<u32>().unwrap());
    events
}

#[test]
fn three_participants_on_two_shards_hear_each_other_and_not_themselves() {
    let app = App::new(&[(
        "/",
        "<Response><Dial><Conference beep='false' statusCallback='/events'>room</Conference></Dial></Response>",
    )]);
    let place = place(&app, &[("1", "/")]);
    let mut node = place.start();
    let mut talkers: Vec<Talker> = [0, 1, 1]
        .into_iter()
        .enumerate()
        .map(|(at, shard)| Talker::call(&place, "1", shard, TONES[at]))
        .collect();
    for (at, talker) in talkers.iter().enumerate() {
        talker.hears([TONES[(at + 1) % 3], TONES[(at + 2) % 3]], [TONES[at]]);
    }
    talkers.iter_mut().for_each(Talker::hang_up);
    drop(talkers);
    nothing_left(&node, 3);
    let names = ["join", "join", "start", "join", "leave", "leave", "leave", "end"];
    let reported =
        until("all is told", || Some(events(&app, "/events")).filter(|all| all.len() == names.len()));
    for (at, (form, name)) in reported.iter().zip(names).enumerate() {
        let event = if matches!(name, "start" | "end") {
            format!("conference-{name}")
        } else {
            format!("participant-{name}")
        };
        assert_eq!(
            (&form["StatusCallbackEvent"], &*form["SequenceNumber"]),
            (&event, &*(at + 1).to_string())
        );
        assert_eq!((&*form["FriendlyName"], &form["ConferenceSid"]), ("room", &reported[0]["ConferenceSid"]));
    }
    assert_eq!((&*reported[0]["Muted"], &*reported[0]["StartConferenceOnEnter"]), ("false", "true"));
    assert_eq!(reported[7]["ReasonConferenceEnded"], "last-participant-left");
    assert_eq!(reported[7]["CallSidEndingConference"], reported[6]["CallSid"]);
    node.stop();
}

#[test]
fn waiting_callers_hear_a_document_and_the_conference_lasts_as_long_as_its_moderator() {
    let app = App::new(&[
        (
            "/waits",
            "<Response><Dial action='/after'><Conference startConferenceOnEnter='false' waitUrl='/wait' \
             beep='false'>room</Conference></Dial></Response>",
        ),
        (
            "/wait",
            "<Response><Say>please wait for the moderator who is to come at any moment</Say></Response>",
        ),
        (
            "/leads",
            "<Response><Dial><Conference endConferenceOnExit='true' beep='false'>room</Conference></Dial></Response>",
        ),
        ("/after", "<Response><Hangup/></Response>"),
    ]);
    let place = place(&app, &[("1", "/waits"), ("2", "/leads")]);
    let mut node = place.start();
    let mut first = Talker::call(&place, "1", 0, TONES[0]);
    let mut second = Talker::call(&place, "1", 1, TONES[1]);
    let wait = until("both wait", || Some(events_of(&app, "/wait")).filter(|all| all.len() > 1));
    assert!(wait[0]["ConferenceSid"].starts_with("CF"));
    assert_eq!((first.has_heard(TONES[1]), second.has_heard(TONES[0])), (false, false));
    let mut leader = Talker::call(&place, "2", 1, TONES[2]);
    first.hears([TONES[1], TONES[2]], [TONES[0]]);
    second.hears([TONES[0], TONES[2]], [TONES[1]]);
    leader.hang_up();
    first.is_hung_up();
    second.is_hung_up();
    let after = until("both go on", || Some(events_of(&app, "/after")).filter(|all| all.len() == 2));
    for form in after {
        assert_eq!(
            (&*form["DialCallStatus"], &form["ConferenceSid"]),
            ("completed", &wait[0]["ConferenceSid"])
        );
    }
    nothing_left(&node, 3);
    node.stop();
}

fn events_of(app: &App, path: &str) -> Vec<Form> {
    let asked = app.asked.lock().unwrap();
    asked.iter().filter(|(asked, _)| asked == path).map(|(_, form)| form.clone()).collect()
}

#[test]
fn muting_the_limit_of_participants_and_beeps_take_effect() {
    let app = App::new(&[
        (
            "/",
            "<Response><Dial action='/dialed'><Conference maxParticipants='2'>room</Conference></Dial></Response>",
        ),
        (
            "/muted",
            "<Response><Dial><Conference muted='true' beep='onExit'>room</Conference></Dial></Response>",
        ),
        ("/dialed", "<Response><Hangup/></Response>"),
    ]);
    let place = place(&app, &[("1", "/"), ("2", "/muted")]);
    let mut node = place.start();
    let mut speaker = Talker::call(&place, "1", 0, TONES[0]);
    let mut muted = Talker::call(&place, "2", 1, TONES[1]);
    muted.hears([TONES[0]], [TONES[1]]);
    assert!(!speaker.has_heard(TONES[1]));
    assert!(!speaker.has_heard(BEEP));
    let mut third = Talker::call(&place, "1", 1, TONES[2]);
    third.is_hung_up();
    assert_eq!(app.asked_for("/dialed").unwrap()["DialCallStatus"], "failed");
    // A machine that is late loses frames of a beep, as of all sound: then another one leaves.
    let mut calls = 3;
    loop {
        speaker.forget();
        muted.hang_up();
        if within(Duration::from_secs(5), || speaker.has_heard(BEEP).then_some(())).is_some() {
            break;
        }
        assert!(calls < 6, "no departure is heard");
        muted = Talker::call(&place, "2", 1, TONES[1]);
        muted.hears([TONES[0]], [TONES[1]]);
        calls += 1;
    }
    speaker.hang_up();
    nothing_left(&node, calls);
    node.stop();
}

const ENQUEUE: &str =
    "<Response><Enqueue action='/queued' waitUrl='/wait' maxQueueSize='1'>support</Enqueue></Response>";
const WAIT: &str = "<Response><Say>you are in a queue and will be until somebody takes you</Say></Response>";

#[test]
fn a_queue_connects_its_first_caller_with_the_agent_that_dials_it() {
    let app = App::new(&[
        ("/", ENQUEUE),
        ("/wait", WAIT),
        ("/queued", "<Response><Hangup/></Response>"),
        ("/agent", "<Response><Dial action='/dialed'><Queue>support</Queue></Dial></Response>"),
        ("/dialed", "<Response><Hangup/></Response>"),
    ]);
    let place = place(&app, &[("1", "/"), ("2", "/agent")]);
    let mut node = place.start();
    for (caller, agent, calls) in [(0, 1, 2), (1, 1, 4)] {
        app.asked.lock().unwrap().clear();
        let mut caller = Talker::call(&place, "1", caller, TONES[0]);
        let wait = until("the caller waits", || app.asked_for("/wait"));
        assert_eq!((&*wait["QueuePosition"], &*wait["CurrentQueueSize"]), ("1", "1"));
        assert!(wait["QueueSid"].starts_with("QU"));
        let mut agent = Talker::call(&place, "2", agent, TONES[1]);
        agent.hears([TONES[0]], [TONES[1]]);
        caller.hears([TONES[1]], [TONES[0]]);
        let form = if calls == 2 {
            agent.hang_up();
            caller.is_hung_up();
            until("the caller goes on", || app.asked_for("/queued"))
        } else {
            caller.hang_up();
            agent.is_hung_up();
            until("the agent goes on", || app.asked_for("/dialed"))
        };
        if calls == 2 {
            assert_eq!((&*form["QueueResult"], &form["QueueSid"]), ("bridged", &wait["QueueSid"]));
        } else {
            assert_eq!((&*form["DialCallStatus"], &form["DialCallSid"]), ("completed", &wait["CallSid"]));
        }
        nothing_left(&node, calls);
    }
    node.stop();
}

/// Twilio's Queue noun: `url` is performed on the waiting caller before the connection.
#[test]
fn a_queues_caller_hears_the_document_of_the_agents_dial_before_they_talk() {
    let app = App::new(&[
        ("/", ENQUEUE),
        ("/wait", WAIT),
        ("/queued", "<Response><Hangup/></Response>"),
        ("/agent", "<Response><Dial action='/dialed'><Queue url='/hello'>support</Queue></Dial></Response>"),
        (
            "/short",
            "<Response><Dial action='/dialed' timeLimit='1'><Queue url='/hello'>support</Queue></Dial></Response>",
        ),
        (
            "/star",
            "<Response><Dial action='/dialed' hangupOnStar='true'><Queue url='/gone'>support</Queue></Dial></Response>",
        ),
        ("/hello", "<Response><Say>an agent takes your call</Say></Response>"),
        ("/dialed", "<Response><Hangup/></Response>"),
    ]);
    let place = place(&app, &[("1", "/"), ("2", "/agent"), ("3", "/short"), ("4", "/star")]);
    let mut node = place.start();
    for (number, shard, calls) in [("2", 1, 2), ("3", 0, 4), ("4", 1, 6)] {
        app.asked.lock().unwrap().clear();
        let mut caller = Talker::call(&place, "1", 0, TONES[0]);
        let wait = until("the caller waits", || app.asked_for("/wait"));
        let mut agent = Talker::call(&place, number, shard, TONES[1]);
        let document = if number == "4" { "/gone" } else { "/hello" };
        let hello = until("the document is asked for", || app.asked_for(document));
        assert_eq!((&hello["CallSid"], &hello["QueueSid"]), (&wait["CallSid"], &wait["QueueSid"]));
        assert!(
            hello["QueueTime"].parse::<u32>().is_ok() && !hello.contains_key("ConferenceSid"),
            "{hello:?}"
        );
        match number {
            "2" => {
                agent.hears([TONES[0]], [TONES[1]]);
                caller.hears([TONES[1]], [TONES[0]]);
                caller.hang_up();
                agent.is_hung_up();
            }
            "3" => {
                agent.is_hung_up();
                caller.is_hung_up();
            }
            _ => {
                agent.hears([TONES[0]], [TONES[1]]);
                agent.press('*');
                agent.is_hung_up();
                caller.is_hung_up();
            }
        }
        let dialed = until("the agent goes on", || app.asked_for("/dialed"));
        assert_eq!(
            (&*dialed["DialCallStatus"], &*dialed["DialBridged"], &dialed["DialCallSid"]),
            ("completed", "true", &wait["CallSid"])
        );
        assert_eq!(hello["DequeingCallSid"], dialed["CallSid"]);
        nothing_left(&node, calls);
    }
    node.stop();
}

#[test]
fn an_agent_waits_for_a_caller_and_a_full_queue_says_so() {
    let app = App::new(&[
        ("/", ENQUEUE),
        ("/wait", WAIT),
        ("/queued", "<Response><Hangup/></Response>"),
        ("/agent", "<Response><Say>a</Say><Dial><Queue>support</Queue></Dial></Response>"),
    ]);
    let place = place(&app, &[("1", "/"), ("2", "/agent")]);
    let mut node = place.start();
    let mut waits = Talker::call(&place, "1", 0, TONES[0]);
    until("the caller waits", || app.asked_for("/wait"));
    let mut refused = Talker::call(&place, "1", 1, TONES[2]);
    refused.is_hung_up();
    assert_eq!(app.asked_for("/queued").unwrap()["QueueResult"], "queue-full");
    // A caller who gives up leaves its place to the next.
    waits.hang_up();
    nothing_left(&node, 2);
    let mut agent = Talker::call(&place, "2", 0, TONES[1]);
    until("the agent waits", || (super::sum(&node, |shard| shard.voice.members) == 1).then_some(()));
    let mut caller = Talker::call(&place, "1", 1, TONES[0]);
    agent.hears([TONES[0]], [TONES[1]]);
    caller.hears([TONES[1]], [TONES[0]]);
    agent.hang_up();
    caller.is_hung_up();
    nothing_left(&node, 4);
    node.stop();
}

#[test]
fn the_wait_document_leaves_the_queue() {
    let app = App::new(&[
        ("/", ENQUEUE),
        ("/wait", "<Response><Leave/></Response>"),
        ("/queued", "<Response><Hangup/></Response>"),
    ]);
    let place = place(&app, &[("1", "/")]);
    let mut node = place.start();
    for (shard, calls) in [(0, 1), (1, 2)] {
        app.asked.lock().unwrap().clear();
        let mut caller = Talker::call(&place, "1", shard, 0);
        caller.is_hung_up();
        let form = until("the caller goes on", || app.asked_for("/queued"));
        assert_eq!(form["QueueResult"], "leave");
        nothing_left(&node, calls);
    }
    node.stop();
}

#[test]
fn the_node_stops_cleanly_with_calls_in_a_conference_and_a_queue() {
    let app = App::new(&[
        ("/", "<Response><Dial><Conference>room</Conference></Dial></Response>"),
        ("/queue", ENQUEUE),
        ("/wait", WAIT),
    ]);
    let place = place(&app, &[("1", "/"), ("2", "/queue")]);
    let mut node = place.start();
    let mut talkers = [
        Talker::call(&place, "1", 0, TONES[0]),
        Talker::call(&place, "1", 1, TONES[1]),
        Talker::call(&place, "2", 1, TONES[2]),
    ];
    talkers[0].hears([TONES[1]], []);
    until("the caller waits", || app.asked_for("/wait"));
    node.stop();
    for talker in &mut talkers {
        talker.caller.phone.expect_request("BYE");
    }
}
