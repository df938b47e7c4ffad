//! Conferences and queues by REST: their participants, and changes of them.

use serde_json::Value;

use crate::until;
use crate::voice::callee::Callee;
use crate::voice::talker::Talker;

use super::site::{Documents, Site};

const TONES: [u32; 3] = [440, 700, 1_250];
const ROOM: Documents = &[
    ("/1", "<Response><Dial action='/after'><Conference beep='false'>room</Conference></Dial></Response>"),
    ("/after", "<Response><Say>good bye</Say><Pause length='600'/></Response>"),
    ("/words", "<Response><Say>everybody listen to these words</Say></Response>"),
    ("/held", "<Response><Say loop='0'>please hold the line</Say></Response>"),
];

/// The conference that is under way.
#[track_caller]
fn conference(site: &Site) -> String {
    let found = site.until_listed("/Conferences.json?Status=in-progress", "conferences", 1).remove(0);
    assert_eq!(found["friendly_name"], "room");
    format!("/Conferences/{}", found["sid"].as_str().unwrap())
}

/// Paths of the participants, in the order they came.
#[track_caller]
fn participants(site: &Site, conference: &str, count: usize) -> Vec<String> {
    let all = site.until_listed(&format!("{conference}/Participants.json"), "participants", count);
    let path = |one: &Value| format!("{conference}/Participants/{}.json", one["call_sid"].as_str().unwrap());
    all.iter().map(path).collect()
}

fn talkers(site: &Site, count: usize) -> Vec<Talker> {
    let mut talkers: Vec<Talker> = Vec::new();
    for (at, tone) in TONES.into_iter().take(count).enumerate() {
        talkers.push(Talker::call(&site.place, "1", at as u64 % 2, tone));
        let there = |rest: &Value| rest["participants"].as_array().map(Vec::len) == Some(at + 1);
        until("the next is in", || {
            let sid = site.rest.get("/Conferences.json")["conferences"][0]["sid"].as_str()?.to_owned();
            Some(site.rest.get(&format!("/Conferences/{sid}/Participants.json"))).filter(there)
        });
    }
    talkers
}

#[test]
fn a_participant_is_muted_held_and_removed_and_the_conference_ended() {
    let site = Site::new(ROOM);
    let mut all = talkers(&site, 3);
    let conference = conference(&site);
    let paths = participants(&site, &conference, 3);
    all[0].hears([TONES[1], TONES[2]], [TONES[0]]);
    let muted = site.post(&paths[1], &[("Muted", "true")]);
    assert_eq!((&muted["muted"], &muted["hold"]), (&true.into(), &false.into()));
    all[0].hears([TONES[2]], [TONES[1]]);
    all[1].hears([TONES[0], TONES[2]], []);
    assert_eq!(
        site.rest.get(&format!("{conference}/Participants.json?Muted=true"))["participants"][0],
        muted
    );
    site.post(&paths[1], &[("Muted", "false")]);
    all[0].hears([TONES[1], TONES[2]], []);
    assert_eq!(site.post(&paths[2], &[("Hold", "true"), ("HoldUrl", "{app}/held")])["hold"], true);
    all[0].hears([TONES[1]], [TONES[2]]);
    site.asked("/held");
    all[2].hears([], [TONES[0], TONES[1]]);
    site.post(&paths[2], &[("Hold", "false")]);
    all[2].hears([TONES[0], TONES[1]], []);
    assert_eq!(site.rest.ask("DELETE", &paths[1], "").status, 204);
    let after = site.asked("/after");
    assert!(paths[1].contains(&after["CallSid"]), "{after:?}");
    assert_eq!(site.rest.ask("GET", &paths[1], "").status, 404);
    all[0].hears([TONES[2]], [TONES[1]]);
    site.post(&format!("{conference}.json"), &[("Status", "completed")]);
    let path = format!("{conference}.json");
    until("it is over", || (site.rest.get(&path)["status"] == "completed").then_some(()));
    site.callbacks("/after", 3);
    assert_eq!(
        site.rest.ask("POST", &format!("{conference}/Participants.json"), "To=bob&From=1").fault(),
        (400, 20400)
    );
    all.iter_mut().for_each(Talker::hang_up);
    site.nothing_left();
}

#[test]
fn a_participant_on_hold_without_a_document_hears_music() {
    let site = Site::new(ROOM);
    let mut all = talkers(&site, 2);
    let conference = conference(&site);
    let paths = participants(&site, &conference, 2);
    all[1].hears([TONES[0]], []);
    site.post(&paths[1], &[("Hold", "true")]);
    all[0].hears([], [TONES[1]]);
    all[1].hears_something_but([TONES[0]]);
    site.post(&paths[1], &[("Hold", "true"), ("HoldUrl", "{app}/nowhere")]);
    site.asked("/nowhere");
    all[1].hears_something_but([TONES[0]]);
    site.post(&paths[1], &[("Hold", "false")]);
    all[1].hears([TONES[0]], []);
    all.iter_mut().for_each(Talker::hang_up);
    site.nothing_left();
}

#[test]
fn an_announcement_is_heard_and_one_that_cannot_be_fetched_ends_no_call() {
    let site = Site::new(ROOM);
    let mut all = talkers(&site, 2);
    let conference = conference(&site);
    let paths = participants(&site, &conference, 2);
    all[0].hears([TONES[1]], []);
    for (path, document) in [(&paths[0], "{app}/missing"), (&paths[1], "http://127.0.0.1:9/")] {
        site.post(path, &[("AnnounceUrl", document)]);
    }
    site.post(&format!("{conference}.json"), &[("AnnounceUrl", "{app}/missing")]);
    site.callbacks("/missing", 3);
    all[0].hears([TONES[1]], []);
    all[1].hears([TONES[0]], []);
    site.post(&paths[0], &[("AnnounceUrl", "{app}/words")]);
    site.asked("/words");
    all[0].hears([TONES[1]], []);
    site.post(&format!("{conference}.json"), &[("AnnounceUrl", "{app}/words"), ("AnnounceMethod", "GET")]);
    site.callbacks("/words", 3);
    assert_eq!(participants(&site, &conference, 2), paths);
    all.iter_mut().for_each(Talker::hang_up);
    site.nothing_left();
}

#[test]
fn a_phone_is_called_into_a_conference() {
    let site = Site::new(ROOM);
    let mut bob = Callee::registered(&site.place, "bob");
    let mut all = talkers(&site, 2);
    let conference = conference(&site);
    let added = site.post(
        &format!("{conference}/Participants.json"),
        &[
            ("To", "client:bob"),
            ("From", "+4321"),
            ("Label", "boss"),
            ("EndConferenceOnExit", "true"),
            ("Beep", "false"),
        ],
    );
    assert_eq!(added["status"], "queued");
    let call = site.rest.get(&format!("/Calls/{}.json", added["call_sid"].as_str().unwrap()));
    assert!(conference.ends_with(call["conference_sid"].as_str().unwrap()), "{call}");
    let (dialog, remote) = bob.pick_up();
    let mut bob = Talker::new(bob.line, dialog, remote, TONES[2]);
    bob.hears([TONES[0], TONES[1]], [TONES[2]]);
    all[0].hears([TONES[1], TONES[2]], []);
    let found = site.rest.get(&format!("{conference}/Participants/boss.json"));
    assert_eq!(found["call_sid"], added["call_sid"]);
    assert_eq!((&found["label"], &found["end_conference_on_exit"]), (&"boss".into(), &true.into()));
    bob.hang_up();
    site.callbacks("/after", 2);
    all.iter_mut().for_each(Talker::hang_up);
    site.nothing_left();
}

#[test]
fn calls_in_a_queue_are_listed_in_order_and_dequeued_to_a_document() {
    let site = Site::new(&[
        ("/1", "<Response><Enqueue action='/left' maxQueueSize='2'>support</Enqueue></Response>"),
        ("/left", "<Response><Hangup/></Response>"),
        ("/served", "<Response><Say>it is your turn</Say><Hangup/></Response>"),
    ]);
    let queue = site.post("/Queues.json", &[("FriendlyName", "support"), ("MaxSize", "2")]);
    let path = format!("/Queues/{}", queue["sid"].as_str().unwrap());
    let members = format!("{path}/Members.json");
    let mut callers = Vec::new();
    let mut calls = Vec::new();
    for count in 1..=2 {
        callers.push(Talker::call(&site.place, "1", count % 2, 0));
        let last = site.until_listed(&members, "queue_members", count as usize).pop().unwrap();
        assert_eq!(last["position"], count);
        calls.push(last["call_sid"].as_str().unwrap().to_owned());
    }
    let mut third = Talker::call(&site.place, "1", 0, 0);
    third.is_hung_up();
    assert_eq!(site.asked("/left")["QueueResult"], "queue-full");
    assert_eq!(site.rest.get(&format!("{path}.json"))["current_size"], 2);
    assert_eq!(site.rest.ask("DELETE", &format!("{path}.json"), "").status, 409);
    assert_eq!(site.rest.get(&format!("{path}/Members/Front.json"))["call_sid"], *calls[0]);
    let taken = site.post(&format!("{path}/Members/{}.json", calls[1]), &[("Url", "{app}/served")]);
    assert_eq!(taken["call_sid"], *calls[1]);
    callers[1].is_hung_up();
    assert_eq!(site.callbacks("/served", 1)[0]["CallSid"], calls[1]);
    site.post(&format!("{path}/Members/Front.json"), &[("Url", "{app}/served"), ("Method", "GET")]);
    callers[0].is_hung_up();
    assert_eq!(site.rest.ask("POST", &format!("{path}/Members/Front.json"), "Url=http://a/").status, 404);
    site.nothing_left();
    assert_eq!(site.rest.ask("DELETE", &format!("{path}.json"), "").status, 204);
    assert_eq!(site.rest.ask("GET", &format!("{path}.json"), "").status, 404);
}

/// `MaxSize` bounds a queue whose documents name no bound, and a queue that is renamed stays one with its callers.
#[test]
fn the_size_and_the_name_of_a_queue_by_rest_count_for_documents() {
    let site = Site::new(&[
        ("/1", "<Response><Enqueue action='/left'>small</Enqueue></Response>"),
        ("/2", "<Response><Enqueue action='/left'>renamed</Enqueue></Response>"),
        ("/3", "<Response><Dial action='/dialled'><Queue>renamed</Queue></Dial></Response>"),
        ("/left", "<Response><Hangup/></Response>"),
        ("/dialled", "<Response><Hangup/></Response>"),
    ]);
    let queue = site.post("/Queues.json", &[("FriendlyName", "small"), ("MaxSize", "1")]);
    let path = format!("/Queues/{}.json", queue["sid"].as_str().unwrap());
    let members = format!("/Queues/{}/Members.json", queue["sid"].as_str().unwrap());
    let mut first = Talker::call(&site.place, "1", 0, TONES[0]);
    site.until_listed(&members, "queue_members", 1);
    let mut second = Talker::call(&site.place, "1", 1, 0);
    second.is_hung_up();
    assert_eq!(site.asked("/left")["QueueResult"], "queue-full");
    let renamed = site.post(&path, &[("FriendlyName", "renamed"), ("MaxSize", "2")]);
    assert_eq!((&renamed["sid"], &renamed["friendly_name"]), (&queue["sid"], &"renamed".into()));
    let mut third = Talker::call(&site.place, "2", 0, 0);
    assert_eq!(site.until_listed(&members, "queue_members", 2)[1]["position"], 2);
    let mut fourth = Talker::call(&site.place, "2", 1, 0);
    fourth.is_hung_up();
    assert_eq!(site.rest.get("/Queues.json")["total"], 1);
    // The first in line is one that came by the former name.
    let mut agent = Talker::call(&site.place, "3", 1, TONES[1]);
    agent.hears([TONES[0]], [TONES[1]]);
    first.hears([TONES[1]], [TONES[0]]);
    agent.hang_up();
    first.is_hung_up();
    third.hang_up();
    site.nothing_left();
}
