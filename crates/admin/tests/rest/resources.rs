//! Each resource made, listed, read, changed and deleted.

use admin::control::{Participant, QueueMember};
use admin::limits;
use serde_json::Value;
use stdx::Instant;
use store::rest::types::{
    Conference, IncomingNumber, Notification, Queue, Recording, RestCall, TextMessage, Transcription,
};
use store::rest::{Kind, REQUESTED, Resource as _, RestFilter, RestLoaded};

use crate::plane::START;
use crate::world::{World, keys};

/// Makes one, finds it in the list and by sid, changes its name, deletes it.
fn round(world: &World, collection: &str, key: &str, form: &str, change: (&str, &str, &str)) {
    let made = world.make(&format!("{collection}.json"), form);
    let sid = made["sid"].as_str().unwrap();
    assert_eq!(made["account_sid"], world.me.sid);
    let path = format!("{collection}/{sid}.json");
    assert_eq!(made["uri"], world.path(&path));
    let list = world.get(&format!("{collection}.json")).json();
    assert_eq!(list[key].as_array().unwrap(), std::slice::from_ref(&made), "{list}");
    assert_eq!(list["total"], 1);
    assert_eq!(world.get(&path).json(), made);
    let (form, field, value) = change;
    let changed = world.post(&path, form);
    assert_eq!((changed.status, changed.json()[field].as_str()), (200, Some(value)), "{}", changed.text());
    assert_eq!(world.get(&path).json()[field], value);
    assert_eq!((world.delete(&path).status, world.delete(&path).fault()), (204, (404, 20404)));
    assert_eq!(world.get(&path).fault(), (404, 20404));
    assert_eq!(world.get(&format!("{collection}.json")).json()["total"], 0);
}

const NAME: (&str, &str, &str) = ("FriendlyName=New", "friendly_name", "New");

#[test]
fn resources_of_the_record_are_made_changed_and_deleted() {
    let world = World::new();
    round(&world, "/Applications", "applications", "FriendlyName=A&VoiceUrl=http://a/b", NAME);
    round(&world, "/IncomingPhoneNumbers", "incoming_phone_numbers", "PhoneNumber=1234", NAME);
    let url = ("VoiceUrl=http://new/", "voice_url", "http://new/");
    round(&world, "/IncomingPhoneNumbers", "incoming_phone_numbers", "PhoneNumber=12.*&isSIP=true", url);
    round(&world, "/Queues", "queues", "FriendlyName=support", NAME);
    round(&world, "/OutgoingCallerIds", "outgoing_caller_ids", "PhoneNumber=4930123", NAME);
    round(&world, "/Clients", "clients", "Login=bob&Password=secret", NAME);
}

#[test]
fn no_request_makes_more_patterns_than_the_limit() {
    let world = World::new();
    let number = world.make("/IncomingPhoneNumbers.json", "PhoneNumber=1234");
    let number = format!("/IncomingPhoneNumbers/{}.json", number["sid"].as_str().unwrap());
    for at in 1..=limits::MAX_PATTERNS {
        let phone_number = format!("{at}.*");
        let common = world.common(&format!("PNf{at:031}"), 0);
        world.insert(&IncomingNumber { common, phone_number, is_pattern: true, ..IncomingNumber::default() });
    }
    assert_eq!(world.post("/IncomingPhoneNumbers.json", "PhoneNumber=0.*").fault(), (400, 20400));
    assert_eq!(world.post(&number, "PhoneNumber=0.*").fault(), (400, 20400));
    assert_eq!(world.get(&number).json()["phone_number"], "+1234");
    // A pattern may become another one, and numbers are not counted.
    let pattern = format!("/IncomingPhoneNumbers/PNf{:031}.json", 1);
    assert_eq!(world.post(&pattern, "PhoneNumber=0.*").json()["phone_number"], "0.*");
    world.make("/IncomingPhoneNumbers.json", "PhoneNumber=5678");
    assert_eq!(world.post(&pattern, "PhoneNumber=77").json()["phone_number"], "+77");
    assert_eq!(world.post(&number, "PhoneNumber=00.*").json()["phone_number"], "00.*");
}

#[test]
fn a_number_is_bound_once_with_its_plus_and_listed_by_class() {
    let world = World::new();
    // The tutorial's own request.
    let path = format!("/restcomm/2012-04-24/Accounts/{}/IncomingPhoneNumbers.json", world.me.sid);
    let form = "PhoneNumber=1234&VoiceUrl=http://127.0.0.1/ivr&isSIP=true";
    let made = world.ask("POST", &path, form);
    assert_eq!((made.status, made.json()["phone_number"].as_str()), (201, Some("+1234")));
    for number in ["1234", "%2B1234"] {
        let again = world.post("/IncomingPhoneNumbers.json", &format!("PhoneNumber={number}"));
        assert_eq!(again.fault(), (400, 21422));
    }
    world.make("/IncomingPhoneNumbers/Mobile.json", "PhoneNumber=5678");
    let total = |path: &str| world.get(path).json()["total"].as_u64();
    assert_eq!(total("/IncomingPhoneNumbers.json"), Some(2));
    assert_eq!(total("/IncomingPhoneNumbers/Mobile.json"), Some(1));
    assert_eq!(total("/IncomingPhoneNumbers/TollFree.json"), Some(0));
    assert_eq!(total("/IncomingPhoneNumbers.json?PhoneNumber=1234"), Some(1));
    // Twilio's filter: a part of a number, where `*` is any digit.
    for (part, found) in [
        ("23", 1),
        ("%2B1*3", 1),
        ("%281%29%202", 1),
        ("****", 2),
        ("*****", 0),
        ("%2B23", 0),
        ("+56", 1),
        ("99", 0),
    ] {
        assert_eq!(total(&format!("/IncomingPhoneNumbers.json?PhoneNumber={part}")), Some(found), "{part}");
    }
    assert_eq!(total("/IncomingPhoneNumbers/Mobile.json?PhoneNumber=1"), Some(0));
    assert_eq!(total("/AvailablePhoneNumbers/US/Local.json"), Some(0));
    world.make("/IncomingPhoneNumbers.json", "PhoneNumber=12.*");
    let numbers = admin::numbers::Numbers::load(&*world.repository).unwrap();
    let found = |called| numbers.find(called).map(|number| number.phone_number.as_str());
    assert_eq!((found("1234"), found("1299"), found("99")), (Some("+1234"), Some("12.*"), None));
    let fault = |form| world.post("/IncomingPhoneNumbers.json", form).fault();
    assert_eq!(fault(""), (400, 21421));
    assert_eq!(fault("AreaCode=030"), (400, 21452));
    assert_eq!(fault("PhoneNumber=12["), (400, 21421));
    assert_eq!(fault("PhoneNumber=9&VoiceUrl=ftp://a"), (400, 21205));
    assert_eq!(fault("PhoneNumber=9&VoiceMethod=PATCH"), (400, 21209));
}

#[test]
fn a_client_is_an_account_that_can_sign_in() {
    let world = World::new();
    let made = world.make("/Clients.json", "Login=bob&Password=secret&FriendlyName=Bob");
    let load = || match admin::Repository::read(
        &*world.repository,
        store::Read::Account { user: "bob".into(), domain: "example.org".into() },
    ) {
        Ok(store::Loaded::Account(account)) => account,
        other => panic!("{other:?}"),
    };
    let account = load().unwrap();
    let verifiers = store::Verifiers::from_password("bob", "example.org", "secret");
    assert_eq!(account.verifiers, verifiers.with_scram(&keys("secret")));
    assert_eq!(&*account.display_name, "Bob");
    let path = format!("/Clients/{}.json", made["sid"].as_str().unwrap());
    assert_eq!(world.post(&path, "Status=0&Password=other").status, 200);
    let account = load().unwrap();
    assert!(account.disabled);
    let verifiers = store::Verifiers::from_password("bob", "example.org", "other");
    assert_eq!(account.verifiers, verifiers.with_scram(&keys("other")));
    assert_eq!(world.delete(&path).status, 204);
    assert_eq!(load(), None);
    for wrong in ["", "Login=bob", "Password=x", "Login=a@b&Password=x", "Login=bob&Password=x&Status=2"] {
        assert_eq!(world.post("/Clients.json", wrong).status, 400, "{wrong}");
    }
    // An account of the command line is not taken over, and nothing stays behind.
    let address = store::Address::new("mallory", "example.org").unwrap();
    let account = store::NewAccount::with_password(address, "z", Instant::from_unix_seconds(START)).unwrap();
    admin::Repository::write(&*world.repository, store::Write::AddAccount(Box::new(account))).unwrap();
    assert_eq!(world.post("/Clients.json", "Login=mallory&Password=y").fault(), (409, 20409));
    assert_eq!(world.get("/Clients.json").json()["total"], 0);
    world.make("/Clients.json", "Login=eve&Password=x");
    assert_eq!(world.post("/Clients.json", "Login=eve&Password=y").fault(), (409, 20409));
    assert_eq!(world.get("/Clients.json").json()["total"], 1);
}

#[test]
fn limits_of_a_client_are_read_from_its_account_and_set_by_the_operator_only() {
    let world = World::new();
    let made = world.make("/Clients.json", "Login=bob&Password=secret");
    let path = format!("/Clients/{}/Limits.json", made["sid"].as_str().unwrap());
    let load = || match admin::Repository::read(
        &*world.repository,
        store::Read::Account { user: "bob".into(), domain: "example.org".into() },
    ) {
        Ok(store::Loaded::Account(Some(account))) => account.limits,
        other => panic!("{other:?}"),
    };
    let shown = world.get(&path).json();
    assert!(shown["max_calls"].is_null() && shown["deny"].is_null(), "{shown}");
    let shown = world.post(&path, "MaxCalls=2&MaxRate=3&Deny=00*&Deny=%2B882*").json();
    assert_eq!(
        (&shown["max_calls"], &shown["max_rate"], &shown["deny"]),
        (&"2".into(), &"3".into(), &"00*,+882*".into())
    );
    let deny = vec!["00*".into(), "+882*".into()];
    let limits = store::AccountLimits { max_contacts: None, max_calls: Some(2), max_rate: Some(3), deny };
    assert_eq!(load(), limits);
    world.post(&path, "MaxCalls=&MaxContacts=4");
    assert_eq!(load(), store::AccountLimits { max_contacts: Some(4), max_calls: None, ..limits.clone() });
    for wrong in ["MaxCalls=x", "MaxRate=-1", "Deny=~00.*", "Deny=0%5B"] {
        assert_eq!(world.post(&path, wrong).status, 400, "{wrong}");
    }
    world.post(&path, "Deny=");
    assert_eq!(load().deny, [""; 0].map(Box::from));
    // A sub-account sees the limits of its clients, and does not lift them.
    let below = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=below").json();
    let (sid, token) = (below["sid"].as_str().unwrap(), below["auth_token"].as_str().unwrap());
    let root = world.path("").replace(&world.me.sid, sid);
    let clients = format!("{root}/Clients.json");
    let made = world.send_as((sid, token), "POST", &clients, "Login=eve&Password=x").json();
    let path = format!("{root}/Clients/{}/Limits.json", made["sid"].as_str().unwrap());
    assert_eq!(world.send_as((sid, token), "GET", &path, "").status, 200);
    assert_eq!(world.send_as((sid, token), "POST", &path, "MaxCalls=9").fault(), (403, 20403));
    assert_eq!(world.ask("POST", &path, "MaxCalls=9").status, 200);
}

#[test]
fn messages_are_sent_under_both_names() {
    let world = World::new();
    let form = "To=bob&From=alice&Body=hello%20%C3%A4";
    let made = world.make("/Messages.json", form);
    assert_eq!((made["status"].as_str(), made["num_segments"].as_str()), (Some("queued"), Some("1")));
    let sms = world.make("/SMS/Messages.json", form);
    let path = format!("/SMS/Messages/{}.json", sms["sid"].as_str().unwrap());
    assert_eq!(sms["uri"], world.path(&path));
    assert_eq!(world.plane.asked.lock().unwrap()[0], "send hello ä to bob");
    assert_eq!(world.get("/Messages.json?To=bob").json()["total"], 2);
    assert_eq!(world.get("/Messages.json?To=carol").json()["total"], 0);
    // Separators between digits mean nothing (RFC 3966 §5.1.1).
    let made = world.make("/Messages.json", "To=%2B1%20(555)%20010-0000&From=%2B1.555.0100001&Body=a");
    assert_eq!((made["to"].as_str(), made["from"].as_str()), (Some("+15550100000"), Some("+15550100001")));
    assert_eq!(world.get("/Messages.json?To=%2B1-555-010-0000").json()["total"], 1);
    assert_eq!(world.delete(&path).status, 204);
    let fault = |form: &str| world.post("/Messages.json", form).fault();
    assert_eq!(fault("From=a&Body=b"), (400, 21604));
    assert_eq!(fault("To=a&Body=b"), (400, 21603));
    assert_eq!(fault("To=a&From=b"), (400, 21602));
    assert_eq!(fault(&format!("To=a&From=b&Body={}", "x".repeat(1_601))), (400, 21617));
}

#[test]
fn the_text_of_a_message_is_removed_when_it_is_over() {
    let world = World::new();
    let (form, remove) = ("To=bob&From=alice&Body=hello", "Body=");
    let queued = world.make("/Messages.json", form);
    let path = format!("/Messages/{}.json", queued["sid"].as_str().unwrap());
    assert_eq!(world.post(&path, remove).fault(), (409, 20009));
    let message = |sid: &str, status: &str| TextMessage {
        common: world.common(sid, 0),
        body: "hello".into(),
        status: status.into(),
        ..TextMessage::default()
    };
    // The node has it and will write its row again, with the text.
    world.insert(&message("SM0", "sending"));
    assert_eq!(world.post("/Messages/SM0.json", remove).fault(), (409, 20009));
    assert_eq!(world.get("/Messages/SM0.json").json()["body"], "hello");
    world.insert(&message("SM1", "sent"));
    assert_eq!(world.post("/Messages/SM1.json", "Body=other").fault(), (400, 20400));
    assert_eq!(world.post("/Messages/SM1.json", "").fault(), (400, 20400));
    let removed = world.post("/Messages/SM1.json", remove).json();
    assert_eq!((removed["body"].as_str(), removed["status"].as_str()), (Some(""), Some("sent")));
    assert_eq!(world.get("/Messages/SM1.json").json()["body"], "");
    // The resource that each message names: `num_media` is 0.
    let media = world.get("/Messages/SM1/Media.json").json();
    assert_eq!((media["media_list"].as_array().map(Vec::len), media["total"].as_u64()), (Some(0), Some(0)));
    assert_eq!(world.get("/SMS/Messages/SM1/Media.json").status, 200);
    assert_eq!(world.get("/Messages/SM2/Media.json").fault(), (404, 20404));
}

#[test]
fn conferences_end_and_participants_are_muted_and_put_out() {
    let world = World::new();
    let conference = Conference {
        common: world.common("CF1", 0),
        friendly_name: "room".into(),
        status: "in-progress".into(),
        ..Conference::default()
    };
    world.insert(&conference);
    let one = |call: &str, muted| Participant {
        call_sid: call.into(),
        label: String::new(),
        muted,
        hold: false,
        coaching: false,
        start_conference_on_enter: true,
        end_conference_on_exit: false,
        status: "connected".into(),
        joined_at: Instant::from_unix_seconds(START),
    };
    *world.plane.participants.lock().unwrap() = vec![one("CA1", false), one("CA2", true)];
    assert_eq!(world.get("/Conferences.json?Status=in-progress&FriendlyName=room").json()["total"], 1);
    assert_eq!(world.get("/Conferences.json?Status=completed").json()["total"], 0);
    let path = "/Conferences/CF1/Participants";
    assert_eq!(world.get(&format!("{path}.json")).json()["total"], 2);
    assert_eq!(world.get(&format!("{path}.json?Muted=true")).json()["participants"][0]["call_sid"], "CA2");
    assert_eq!(world.post(&format!("{path}/CA1.json"), "Muted=true").json()["muted"], true);
    assert_eq!(world.post(&format!("{path}/CA1.json"), "Mute=false").json()["muted"], false);
    assert_eq!(world.delete(&format!("{path}/CA1.json")).status, 204);
    assert_eq!(world.get(&format!("{path}/CA1.json")).fault(), (404, 20404));
    let called =
        world.make(&format!("{path}.json"), "To=client:bob&From=1234&Label=boss&Muted=true&Beep=onExit");
    assert_eq!((&called["label"], &called["muted"]), (&"boss".into(), &true.into()));
    assert_eq!(called["conference_sid"], "CF1");
    let started = world.plane.started.lock().unwrap()[0].clone();
    assert_eq!(started.conference.as_deref(), Some("room"));
    let attributes = [("participantLabel", "boss"), ("muted", "true"), ("beep", "onExit")];
    assert_eq!(started.participant, attributes.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(world.post("/Conferences/CF1.json", "Status=completed").status, 200);
    assert_eq!(world.post("/Conferences/CF1.json", "").fault(), (400, 20400));
    assert_eq!(world.post("/Conferences/CF1.json", "Status=init").fault(), (400, 20400));
    assert_eq!(world.get("/Conferences/CF2.json").fault(), (404, 20404));
}

/// Twilio: a participant is called into a conference by its sid or its name; a conference begins where none of that name is under way.
#[test]
fn a_participant_is_called_into_a_conference_by_its_name() {
    let world = World::new();
    let mut conference = Conference {
        common: world.common("CF1", 0),
        friendly_name: "My room".into(),
        status: "completed".into(),
        ..Conference::default()
    };
    world.insert(&conference);
    let path = "/Conferences/My%20room/Participants.json";
    let called = world.make(path, "To=client:bob&From=1234");
    assert_eq!(called["conference_sid"], serde_json::Value::Null);
    (conference.common, conference.status) = (world.common("CF2", 1), "in-progress".into());
    world.insert(&conference);
    // No node has a participant of it: it has ended with its node.
    let called = world.make(path, "To=client:bob&From=1234");
    assert_eq!(called["conference_sid"], serde_json::Value::Null);
    let one = Participant {
        call_sid: "CA1".into(),
        label: String::new(),
        muted: false,
        hold: false,
        coaching: false,
        start_conference_on_enter: true,
        end_conference_on_exit: false,
        status: "connected".into(),
        joined_at: Instant::from_unix_seconds(START),
    };
    *world.plane.participants.lock().unwrap() = vec![one];
    let called = world.make(path, "To=client:bob&From=1234");
    assert_eq!(called["conference_sid"], "CF2");
    let started: Vec<_> =
        world.plane.started.lock().unwrap().iter().map(|start| start.conference.clone()).collect();
    assert_eq!(started, vec![Some("My room".to_owned()); 3]);
    assert_eq!(world.get(path).fault(), (404, 20404));
    let sid = "CF00000000000000000000000000000009";
    let unknown = world.post(&format!("/Conferences/{sid}/Participants.json"), "To=client:bob&From=1234");
    assert_eq!(unknown.fault(), (404, 20404));
}

#[test]
fn queues_show_waiting_calls_and_let_them_out() {
    let world = World::new();
    let queue = world.make("/Queues.json", "FriendlyName=support&MaxSize=10");
    let sid = queue["sid"].as_str().unwrap();
    let waits = |call: &str, seconds| QueueMember {
        call_sid: call.into(),
        enqueued_at: Instant::from_unix_seconds(START + seconds),
    };
    *world.plane.members.lock().unwrap() = vec![waits("CA1", 0), waits("CA2", 20)];
    world.plane.clock.store(40, std::sync::atomic::Ordering::Relaxed);
    let queue = world.get(&format!("/Queues/{sid}.json")).json();
    assert_eq!((queue["current_size"].as_u64(), queue["average_wait_time"].as_u64()), (Some(2), Some(30)));
    let members = world.get(&format!("/Queues/{sid}/Members.json")).json();
    assert_eq!(members["queue_members"][1]["position"], 2);
    let front = world.get(&format!("/Queues/{sid}/Members/Front.json")).json();
    assert_eq!((front["call_sid"].as_str(), front["wait_time"].as_u64()), (Some("CA1"), Some(40)));
    assert_eq!(world.delete(&format!("/Queues/{sid}.json")).fault(), (409, 20409));
    // A node that cannot say whether calls wait: the queue stays, and no call is called the first.
    *world.plane.members.lock().unwrap() = Vec::new();
    for refused in ["", "/Members/Front", "/Members"] {
        *world.plane.refuses.lock().unwrap() = Some(admin::ControlError::Busy);
        let path = format!("/Queues/{sid}{refused}.json");
        let answer = if refused.is_empty() { world.delete(&path) } else { world.get(&path) };
        assert_eq!(answer.fault(), (429, 20429), "{path}");
    }
    *world.plane.members.lock().unwrap() = vec![waits("CA1", 0), waits("CA2", 20)];
    let out = world.post(&format!("/Queues/{sid}/Members/CA2.json"), "Url=http://a/");
    assert_eq!((out.status, out.json()["call_sid"].as_str()), (200, Some("CA2")));
    assert_eq!(world.post(&format!("/Queues/{sid}/Members/Front.json"), "").fault(), (400, 21205));
    assert_eq!(world.post(&format!("/Queues/{sid}/Members/Front.json"), "Url=http://a/").status, 200);
    assert_eq!(
        world.post(&format!("/Queues/{sid}/Members/Front.json"), "Url=http://a/").fault(),
        (404, 20404)
    );
    assert_eq!(world.post("/Queues.json", "FriendlyName=support").fault(), (409, 20409));
    assert_eq!(world.post("/Queues.json", "").fault(), (400, 20002));
    assert_eq!(world.post("/Queues.json", "FriendlyName=a&MaxSize=0").fault(), (400, 20400));
}

/// The sid of a queue stays, and its former name is free for another.
#[test]
fn a_queue_that_is_renamed_keeps_its_sid() {
    let world = World::new();
    let queue = world.make("/Queues.json", "FriendlyName=small&MaxSize=1");
    let path = format!("/Queues/{}.json", queue["sid"].as_str().unwrap());
    world.make("/Queues.json", "FriendlyName=taken");
    assert_eq!(world.post(&path, "FriendlyName=taken").fault(), (409, 20409));
    let renamed = world.post(&path, "FriendlyName=renamed").json();
    assert_eq!((&renamed["sid"], &renamed["max_size"]), (&queue["sid"], &1.into()));
    assert_eq!(world.post("/Queues.json", "FriendlyName=renamed").fault(), (409, 20409));
    let next = world.make("/Queues.json", "FriendlyName=small");
    assert_ne!(next["sid"], queue["sid"]);
    assert_eq!(world.post("/Queues.json", "FriendlyName=small").fault(), (409, 20409));
    // One that a document has made.
    let common = world.common(&store::rest::queue_sid(&world.me.sid, "line"), 0);
    let friendly_name = "line".to_owned();
    world.insert(&Queue { common, friendly_name, max_size: 20, ..Queue::default() });
    let sid = store::rest::queue_sid(&world.me.sid, "line");
    assert_eq!(world.post(&format!("/Queues/{sid}.json"), "MaxSize=3").json()["max_size"], 3);
    let filter = RestFilter { parent: Some(REQUESTED.into()), ..RestFilter::all(Kind::Queue) };
    let read = store::Read::Rest(store::rest::RestRead::List(filter));
    let found = admin::Repository::read(&*world.repository, read);
    let Ok(store::Loaded::Rest(RestLoaded::Page { rows, .. })) = found else { panic!("{found:?}") };
    let mut rows: Vec<Queue> = rows.iter().map(|row| Queue::from_row(row).unwrap()).collect();
    rows.sort_by(|a, b| a.friendly_name.cmp(&b.friendly_name));
    let names: Vec<&str> = rows.iter().map(|row| &*row.friendly_name).collect();
    assert_eq!(names, ["line", "renamed", "small", "taken"]);
    let follows = |row: &Queue| row.common.sid == store::rest::queue_sid(&world.me.sid, &row.first_name);
    assert!(rows.iter().all(follows), "{rows:?}");
    assert_eq!((&*rows[0].first_name, &*rows[1].first_name), ("line", "small"));
}

/// Its node was killed, and nothing writes its end any more.
#[test]
fn a_recording_that_no_node_knows_is_deleted_once_its_call_is_over() {
    let world = World::new();
    let of = |call: &str, sid: &str| Recording {
        common: world.common(sid, 0),
        call_sid: call.into(),
        status: "in-progress".into(),
        ..Recording::default()
    };
    let ended_at = Some(Instant::from_unix_seconds(START));
    world.insert(&RestCall { ended_at, ..world.call("CA1", 0, "completed") });
    world.insert(&world.call("CA2", 0, "in-progress"));
    world.insert(&of("CA1", "RE1"));
    world.insert(&of("CA2", "RE2"));
    let unknown = || *world.plane.refuses.lock().unwrap() = Some(admin::ControlError::NotFound);
    unknown();
    assert_eq!(world.delete("/Recordings/RE1.json").fault(), (409, 20009), "its file may still be written");
    world.plane.clock.store(61, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.delete("/Recordings/RE2.json").fault(), (409, 20009), "its call goes on");
    assert_eq!(world.delete("/Recordings/RE1.json").status, 204);
    world.insert(&of("CA1", "RE3"));
    assert_eq!(world.delete("/Recordings/RE3.json").fault(), (409, 20009), "a node has it");
    assert!(world.plane.asked.lock().unwrap().contains(&"recording RE3 Stop".to_owned()));
}

#[test]
fn recordings_are_started_heard_and_deleted() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "in-progress"));
    world.insert(&world.call("CA2", 0, "completed"));
    let made = world.make("/Calls/CA1/Recordings.json", "RecordingChannels=dual");
    let sid = made["sid"].as_str().unwrap().to_owned();
    assert_eq!((made["channels"].as_u64(), made["call_sid"].as_str()), (Some(2), Some("CA1")));
    // Twilio's Recording resource: `media_url` is a whole URL. `uri` and RestComm's `file_uri` are paths.
    let file = world.path(&format!("/Recordings/{sid}.wav"));
    assert_eq!(made["media_url"], format!("https://calls.example.org{file}"));
    assert_eq!(made["file_uri"], file);
    assert_eq!(world.post("/Calls/CA2/Recordings.json", "").fault(), (400, 21220));
    let path = format!("/Calls/CA1/Recordings/{sid}.json");
    assert_eq!(world.post(&path, "Status=paused").json()["status"], "paused");
    assert_eq!(world.post(&path, "Status=stopped").json()["status"], "stopped");
    assert_eq!(world.get(&format!("/Calls/CA2/Recordings/{sid}.json")).fault(), (404, 20404));
    assert_eq!(world.get("/Calls/CA1/Recordings.json").json()["total"], 1);
    assert_eq!(world.get("/Recordings.json?CallSid=CA2").json()["total"], 0);
    let sound = world.get(&format!("/Recordings/{sid}.wav"));
    assert_eq!((sound.status, sound.body.len()), (200, 100_000));
    assert_eq!(sound.headers["content-type"], "audio/x-wav");
    // Twilio's Recording resource: "Without an extension, or with a .wav, a binary WAV audio file is returned".
    let bare = world.get(&format!("/Recordings/{sid}"));
    assert_eq!((bare.status, bare.body.len()), (200, 100_000));
    assert_eq!(world.get(&format!("/Recordings/{sid}.wav.wav")).body, bare.body);
    assert!(world.get(&format!("/Recordings/{sid}.xml")).text().contains("<Recording>"));
    let path = format!("/restcomm/2012-04-24/Accounts/{}/Recordings/{sid}", world.me.sid);
    assert!(world.ask("GET", &path, "").text().contains("<Recording>"));
    assert_eq!(world.delete(&format!("/Recordings/{sid}.json")).fault(), (409, 20009));
    let done =
        Recording { common: world.common("RE9", 0), status: "completed".into(), ..Recording::default() };
    world.insert(&done);
    assert_eq!(world.delete("/Recordings/RE9.json").status, 204);
    assert!(world.plane.asked.lock().unwrap().contains(&"remove RE9".to_owned()));
    *world.plane.refuses.lock().unwrap() = Some(admin::ControlError::Busy);
    assert_eq!(world.post("/Calls/CA1/Recordings.json", "").fault(), (429, 20429));
    assert_eq!(world.get("/Recordings.json").json()["total"], 1);
}

/// <https://www.twilio.com/docs/voice/api/recording>: `RecordingStatusCallback` and its companions, and `PauseBehavior`.
#[test]
fn a_live_call_is_recorded_as_was_asked() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "in-progress"));
    let form = "RecordingStatusCallback=http://a/told&RecordingStatusCallbackMethod=GET\
        &RecordingStatusCallbackEvent=in-progress%20completed&Trim=trim-silence&RecordingTrack=inbound";
    let made = world.make("/Calls/CA1/Recordings.json", form);
    let asked = world.plane.asked.lock().unwrap().pop().unwrap();
    for part in [
        "record CA1 ",
        "track: Inbound, trim: true",
        "url: \"http://a/told\", method: \"GET\", events: [\"in-progress\", \"completed\"]",
    ] {
        assert!(asked.contains(part), "{asked}");
    }
    for (form, fault) in [
        ("RecordingStatusCallbackEvent=never", (400, 21626)),
        ("RecordingStatusCallback=nowhere", (400, 21205)),
        ("RecordingTrack=outbound", (400, 20400)),
    ] {
        assert_eq!(world.post("/Calls/CA1/Recordings.json", form).fault(), fault, "{form}");
    }
    let sid = made["sid"].as_str().unwrap();
    let path = format!("/Calls/CA1/Recordings/{sid}.json");
    for (form, change) in [
        ("Status=paused", "Pause { is_silent: true }"),
        ("Status=paused&PauseBehavior=skip", "Pause { is_silent: false }"),
        ("Status=in-progress", "Resume"),
        ("Status=stopped", "Stop"),
    ] {
        assert_eq!(world.post(&path, form).status, 200);
        assert_eq!(world.plane.asked.lock().unwrap().pop(), Some(format!("recording {sid} {change}")));
    }
}

/// "Pass `Twilio.CURRENT` instead of recording sid to reference current active recording."
#[test]
fn the_recording_under_way_has_a_name() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "in-progress"));
    assert_eq!(
        world.post("/Calls/CA1/Recordings/Twilio.CURRENT.json", "Status=paused").fault(),
        (404, 20404)
    );
    for (sid, second, status) in
        [("RE1", 1, "in-progress"), ("RE2", 2, "paused"), ("RE3", 3, "completed"), ("RE4", 4, "absent")]
    {
        let recording = Recording {
            common: world.common(sid, second),
            call_sid: "CA1".into(),
            conference_sid: if sid == "RE1" { "CF1".into() } else { String::new() },
            status: status.into(),
            ..Recording::default()
        };
        world.insert(&recording);
    }
    let changed = world.post("/Calls/CA1/Recordings/Twilio.CURRENT.json", "Status=in-progress").json();
    assert_eq!((changed["sid"].as_str(), changed["status"].as_str()), (Some("RE2"), Some("in-progress")));
    assert_eq!(world.get("/Calls/CA1/Recordings/Twilio.CURRENT.json").json()["sid"], "RE2");
    assert_eq!(world.delete("/Calls/CA1/Recordings/Twilio.CURRENT.json").fault(), (409, 20009));
    let paused = world.post("/Conferences/CF1/Recordings/Twilio.CURRENT.json", "Status=paused").json();
    assert_eq!((paused["sid"].as_str(), paused["status"].as_str()), (Some("RE1"), Some("paused")));
    assert_eq!(world.get("/Conferences/CF2/Recordings/RE1.json").fault(), (404, 20404));
    // Only below what it is current of.
    assert_eq!(world.get("/Recordings/Twilio.CURRENT.json").fault(), (404, 20404));
    let other = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=Sub").json();
    let path = format!(
        "/2010-04-01/Accounts/{}/Calls/CA1/Recordings/Twilio.CURRENT.json",
        other["sid"].as_str().unwrap()
    );
    assert_eq!(world.ask("GET", &path, "").fault(), (404, 20404), "an account's own recordings only");
}

#[test]
fn a_recording_as_mp3_is_the_encoders_output_or_says_why_not() {
    let world = World::new();
    for sid in ["RE1", "RE2", "RE3", "RE4", "RE5"] {
        let common = world.common(sid, 0);
        world.insert(&Recording { common, status: "completed".into(), ..Recording::default() });
    }
    let encoded = world.get("/Recordings/RE2.mp3");
    assert_eq!((encoded.status, &*encoded.text()), (200, "ID3"));
    assert_eq!(encoded.headers["content-type"], "audio/mpeg");
    assert_eq!(encoded.headers["content-length"], "3");
    let refused = world.get("/Recordings/RE1.mp3");
    assert_eq!(refused.fault(), (406, 20406));
    assert!(refused.text().contains(".wav"), "{}", refused.text());
    assert!(refused.text().contains("[voice] mp3"), "{}", refused.text());
    assert_eq!(world.get("/Recordings/RE3.mp3").fault(), (429, 20429));
    assert_eq!(world.get("/Recordings/RE4.mp3").fault(), (500, 20500));
    assert_eq!(world.get("/Recordings/RE5.mp3").fault(), (404, 20404));
    assert_eq!(world.get("/Recordings/RE6.mp3").fault(), (404, 20404));
}

#[test]
fn a_recording_on_a_silent_node_stays_and_clients_are_told_to_retry() {
    let world = World::new();
    let (common, node) = (world.common("RE1", 0), "away".to_owned());
    world.insert(&Recording { common, node, status: "completed".into(), ..Recording::default() });
    let refused = world.get("/Recordings/RE1.wav");
    assert_eq!(refused.fault(), (503, 20503));
    assert_eq!(refused.headers["retry-after"], "60");
    assert_eq!(world.delete("/Recordings/RE1.json").fault(), (503, 20503));
    assert_eq!(world.get("/Recordings/RE1.json").status, 200);
}

/// A client that asks for something is told where it is not had; values that ask for what is done anyway pass.
#[test]
fn parameters_that_are_not_supported_are_refused_by_name() {
    let world = World::new();
    let message = "To=1&From=2&Body=a";
    let refused = world.post("/Messages.json", &format!("{message}&MediaUrl=http://a/b.png"));
    assert_eq!(refused.fault(), (501, 20501));
    assert!(refused.json()["message"].as_str().unwrap().contains("MediaUrl"), "{}", refused.text());
    assert_eq!(world.get("/Messages.json").json()["total"], 0, "nothing was sent");
    world.make("/Messages.json", &format!("{message}&MediaUrl=&SmartEncoded=false"));
    let conference = store::rest::types::Conference {
        common: world.common("CF1", 0),
        status: "in-progress".into(),
        ..store::rest::types::Conference::default()
    };
    world.insert(&conference);
    let participants = "/Conferences/CF1/Participants.json";
    let refused = world.post(participants, "To=1&From=2&Coaching=true");
    assert_eq!(refused.fault(), (501, 20501));
    assert!(refused.json()["message"].as_str().unwrap().starts_with("Coaching "), "{}", refused.text());
    world.make(participants, "To=1&From=2&Coaching=false");
}

#[test]
fn notifications_and_transcriptions_are_read_and_deleted() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "completed"));
    let notification = Notification {
        common: world.common("NO1", 0),
        call_sid: "CA1".into(),
        error_code: 11200,
        message_text: "HTTP retrieval failure".into(),
        ..Notification::default()
    };
    world.insert(&notification);
    let found = world.get("/Calls/CA1/Notifications.json?Log=0&ErrorCode=11200").json();
    assert_eq!(found["notifications"][0]["error_code"], "11200");
    assert_eq!(found["notifications"][0]["more_info"], "https://www.twilio.com/docs/errors/11200");
    assert_eq!(world.get("/Notifications.json?MessageDate=2026-11-20").json()["total"], 0);
    assert_eq!(world.get("/Notifications/NO1.json").json()["call_sid"], "CA1");
    assert_eq!(
        world.get("/Calls/CA1/Notifications/NO1.json").json(),
        world.get("/Notifications/NO1.json").json()
    );
    world.insert(&world.call("CA2", 0, "completed"));
    for wrong in ["/Calls/CA2/Notifications/NO1.json", "/Calls/CA1/Notifications/NO2.json"] {
        assert_eq!(world.get(wrong).fault(), (404, 20404), "{wrong}");
    }
    assert_eq!(
        (
            world.delete("/Notifications/NO1.json").status,
            world.get("/Notifications.json").json()["total"].as_u64()
        ),
        (204, Some(0))
    );
    let recording = Recording { common: world.common("RE1", 0), ..Recording::default() };
    let common = world.common("TR1", 0);
    let text =
        Transcription { common, recording_sid: "RE1".into(), text: "hi".into(), ..Transcription::default() };
    world.insert(&recording);
    world.insert(&text);
    assert_eq!(world.get("/Recordings/RE1/Transcriptions.json").json()["total"], 1);
    assert_eq!(world.get("/Transcriptions/TR1.json").json()["transcription_text"], "hi");
    assert_eq!(world.get("/Transcriptions.json").json()["total"], 1);
    let of_recording = "/Recordings/RE1/Transcriptions/TR1.json";
    assert_eq!(world.get(of_recording).json(), world.get("/Transcriptions/TR1.json").json());
    world.insert(&Recording { common: world.common("RE2", 0), ..Recording::default() });
    let of_another = "/Recordings/RE2/Transcriptions/TR1.json";
    assert_eq!(world.get(of_another).fault(), (404, 20404));
    assert_eq!(world.delete(of_another).fault(), (404, 20404));
    assert_eq!(world.delete(of_recording).status, 204);
    assert_eq!(world.delete("/Transcriptions/TR1.json").fault(), (404, 20404));
    world.insert(&text);
    assert_eq!(world.delete("/Transcriptions/TR1.json").status, 204);
}

#[test]
fn usage_is_counted_by_category_and_period() {
    let world = World::new();
    for (number, seconds) in [(1, 59), (2, 61), (3, 0)] {
        let mut call = world.call(&format!("CA{number}"), 86_400 * 30 * number, "completed");
        call.duration = Some(seconds);
        world.insert(&call);
    }
    world.plane.clock.store(86_400 * 100, std::sync::atomic::Ordering::Relaxed);
    let find = |list: &Value, category: &str| {
        let records = list["usage_records"].as_array().unwrap().clone();
        records.into_iter().find(|record| record["category"] == category).unwrap()
    };
    let all = world.get("/Usage/Records.json").json();
    let calls = find(&all, "calls");
    assert_eq!((calls["count"].as_str(), calls["usage"].as_str()), (Some("3"), Some("3")));
    assert_eq!(find(&all, "calls-outbound")["count"], "0");
    let monthly = world.get("/Usage/Records/Monthly.json?Category=calls").json();
    assert_eq!(monthly["total"], 3);
    let first = &monthly["usage_records"][2];
    assert_eq!(
        (first["start_date"].as_str(), first["end_date"].as_str()),
        (Some("2026-12-01"), Some("2026-12-31"))
    );
    for period in ["Daily", "Yearly", "AllTime", "Today", "Yesterday", "ThisMonth", "LastMonth"] {
        assert_eq!(world.get(&format!("/Usage/Records/{period}.json")).status, 200, "{period}");
    }
    let none = world.get("/Usage/Records.json?StartDate=2026-11-22&EndDate=2026-11-23&Category=calls").json();
    assert_eq!(none["usage_records"][0]["count"], "0");
    assert_eq!(world.get("/Usage/Records.json?Category=faxes").fault(), (400, 20400));
    assert_eq!(
        world.get("/Usage/Records.json?StartDate=2027-01-01&EndDate=2026-01-01").fault(),
        (400, 20400)
    );
}

/// Twilio's error 21218: the ApplicationSid is of no application of the account.
#[test]
fn an_application_that_the_account_has_not_is_refused_wherever_it_is_named() {
    let world = World::new();
    let own = world.make("/Applications.json", "VoiceUrl=http://a/");
    let own = own["sid"].as_str().unwrap();
    let below = world.ask("POST", "/2010-04-01/Accounts.json", "").json();
    let below = below["sid"].as_str().unwrap();
    let path = format!("/2010-04-01/Accounts/{below}/Applications.json");
    let theirs = world.ask("POST", &path, "VoiceUrl=http://a/").json();
    let theirs = theirs["sid"].as_str().unwrap();
    for unknown in ["AP00000000000000000000000000000000", "bogus", theirs, &*world.me.sid] {
        for (collection, form) in [
            ("/IncomingPhoneNumbers", "PhoneNumber=1&VoiceApplicationSid"),
            ("/IncomingPhoneNumbers", "PhoneNumber=1&SmsApplicationSid"),
            ("/IncomingPhoneNumbers", "PhoneNumber=1&ReferApplicationSid"),
            ("/Clients", "Login=bob&Password=x&VoiceApplicationSid"),
            ("/Applications", "VoiceApplicationSid"),
            ("/Calls", "To=1&From=2&ApplicationSid"),
        ] {
            let answer = world.post(&format!("{collection}.json"), &format!("{form}={unknown}"));
            assert_eq!(answer.fault(), (400, 21218), "{collection} {form}={unknown}");
        }
    }
    let number =
        world.make("/IncomingPhoneNumbers.json", &format!("PhoneNumber=1&VoiceApplicationSid={own}"));
    assert_eq!(number["voice_application_sid"], own);
    let number = format!("/IncomingPhoneNumbers/{}.json", number["sid"].as_str().unwrap());
    assert_eq!(world.post(&number, "VoiceApplicationSid=bogus").fault(), (400, 21218));
    assert_eq!(world.get(&number).json()["voice_application_sid"], own);
    // An application that was deleted since hinders no other change, and is not named anew.
    assert_eq!(world.delete(&format!("/Applications/{own}.json")).status, 204);
    let renamed = world.post(&number, &format!("FriendlyName=menu&VoiceApplicationSid={own}"));
    assert_eq!((renamed.status, &renamed.json()["friendly_name"]), (200, &Value::from("menu")));
    assert_eq!(world.post(&number, "VoiceApplicationSid=").json()["voice_application_sid"], Value::Null);
    assert_eq!(world.post(&number, &format!("VoiceApplicationSid={own}")).fault(), (400, 21218));
    // A number that is given away names the new owner's application.
    let given = world.post(&number, &format!("AccountSid={below}&VoiceApplicationSid={theirs}"));
    assert_eq!(given.json()["voice_application_sid"], theirs);
}

/// Resources that Twilio's libraries ask for, and of which there is nothing.
#[test]
fn there_is_no_price_no_number_for_sale_and_no_trigger() {
    let world = World::new();
    let balance = world.get("/Balance.json").json();
    let expected = serde_json::json!({ "account_sid": world.me.sid, "balance": "0.00", "currency": "USD" });
    assert_eq!(balance, expected);
    let kinds = ["Local", "TollFree", "Mobile", "National", "SharedCost", "Voip", "MachineToMachine"];
    let of_kinds = kinds.map(|kind| (format!("/AvailablePhoneNumbers/DE/{kind}"), "available_phone_numbers"));
    for (path, key) in of_kinds.into_iter().chain([
        ("/AvailablePhoneNumbers".to_owned(), "countries"),
        ("/Usage/Triggers".to_owned(), "usage_triggers"),
    ]) {
        let list = world.get(&format!("{path}.json")).json();
        assert_eq!((&list["total"], &list[key]), (&Value::from(0), &serde_json::json!([])), "{path}");
    }
    // No country is in the list, and none is found.
    assert_eq!(world.get("/AvailablePhoneNumbers/DE.json").fault(), (404, 20404));
    assert_eq!(world.post("/Usage/Triggers.json", "").fault(), (405, 20405));
}

/// Twilio's Call Events: `request` and `response` of each request to the application.
#[test]
fn events_of_a_call_are_the_requests_that_are_kept() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "completed"));
    world.insert(&world.call("CA2", 0, "completed"));
    for (sid, call, url) in [("NO1", "CA1", "http://a/1"), ("NO2", "CA1", ""), ("NO3", "CA2", "http://a/3")] {
        world.insert(&Notification {
            common: world.common(sid, 1),
            call_sid: call.into(),
            request_url: url.into(),
            request_method: "POST".into(),
            request_variables: "CallSid=CA1".into(),
            response_body: "<html/>".into(),
            ..Notification::default()
        });
    }
    let events = world.get("/Calls/CA1/Events.json").json();
    assert_eq!(events["total"], 1, "{events}");
    let event = &events["events"][0];
    let request = serde_json::json!({ "method": "POST", "url": "http://a/1", "parameters": "CallSid=CA1" });
    assert_eq!((&event["request"], event["response"]["response_body"].as_str()), (&request, Some("<html/>")));
    assert_eq!(world.get("/Calls/CA9/Events.json").fault(), (404, 20404));
}
