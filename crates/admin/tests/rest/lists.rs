//! Filters, sorting and pages.

use admin::control::Participant;
use serde_json::Value;
use store::rest::types::{Conference, Notification, Recording, TextMessage};

use crate::world::World;

#[test]
fn pages_follow_one_another_by_their_links_and_show_each_call_once() {
    let world = World::new();
    for number in 0..7 {
        world.insert(&world.call(&format!("CA{number}"), number, "completed"));
    }
    let mut path = world.path("/Calls.json?PageSize=3&Status=completed");
    let mut seen = Vec::new();
    loop {
        let page = world.ask("GET", &path, "").json();
        assert_eq!((page["total"].as_u64(), page["num_pages"].as_u64()), (Some(7), Some(3)));
        seen.extend(
            page["calls"].as_array().unwrap().iter().map(|call| call["sid"].as_str().unwrap().to_owned()),
        );
        match page["next_page_uri"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ["CA6", "CA5", "CA4", "CA3", "CA2", "CA1", "CA0"]);
    let last = world.ask("GET", &path, "").json();
    assert_eq!(
        (last["start"].as_u64(), last["end"].as_u64(), last["page"].as_u64()),
        (Some(6), Some(6), Some(2))
    );
    assert!(last["previous_page_uri"].as_str().unwrap().contains("Status=completed&PageSize=3&Page=1"));
    let beyond = world.get("/Calls.json?Page=9").json();
    assert_eq!((beyond["calls"].as_array().unwrap().len(), beyond["total"].as_u64()), (0, Some(7)));
    for wrong in ["Page=x", "Page=-1", "PageSize=0", "SortBy=Colour:asc", "SortBy=From:up", "StartTime=soon"]
    {
        assert_eq!(world.get(&format!("/Calls.json?{wrong}")).fault(), (400, 20400), "{wrong}");
    }
    let first = world.get("/Calls.json?SortBy=DateCreated:asc&PageSize=5000").json();
    assert_eq!((first["calls"][0]["sid"].as_str(), first["page_size"].as_u64()), (Some("CA0"), Some(1_000)));
}

#[test]
fn calls_are_filtered_by_every_field() {
    let world = World::new();
    let day = 86_400;
    let mut busy = world.call("CA1", 0, "busy");
    (busy.from, busy.parent) = ("carol".into(), "CA2".into());
    world.insert(&busy);
    let mut done = world.call("CA2", day, "completed");
    done.ended_at = Some(stdx::Instant::from_unix_seconds(crate::plane::START + 2 * day));
    world.insert(&done);
    let sids = |query: &str| {
        let list = world.get(&format!("/Calls.json?{query}")).json();
        let calls = list["calls"].as_array().unwrap();
        calls.iter().map(|call| call["sid"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sids("From=carol"), "CA1");
    assert_eq!(sids("To=%2B1234"), "CA2 CA1");
    assert_eq!(sids("Status=completed"), "CA2");
    assert_eq!(sids("ParentCallSid=CA2"), "CA1");
    assert_eq!(sids("StartTime=2026-11-21"), "CA1");
    assert_eq!(sids("StartTime%3E=2026-11-22"), "CA2");
    assert_eq!(sids("StartTime%3C=2026-11-21"), "CA1");
    assert_eq!(sids("EndTime%3E=2026-11-23"), "CA2");
    assert_eq!(sids("EndTime=2026-11-22"), "");
    // RestComm's two bound when a call was made.
    let path = format!("/restcomm/2012-04-24/Accounts/{}/Calls.json?", world.me.sid);
    let total = |query: &str| world.ask("GET", &format!("{path}{query}"), "").json()["total"].as_u64();
    assert_eq!(total("StartTime=2026-11-21&EndTime=2026-11-22"), Some(2));
    assert_eq!(total("StartTime=2026-11-22"), Some(1));
    assert_eq!(total("EndTime=2026-11-21"), Some(1));
}

/// Twilio's lists refuse a status that a resource never has, in Twilio's form of an error.
#[test]
fn a_filter_by_a_status_that_there_is_not_is_refused() {
    let world = World::new();
    for wrong in [
        "/Calls.json?Status=bogus",
        "/Calls.json?Status=Completed",
        "/Messages.json?Status=bogus",
        "/Conferences.json?Status=bogus",
        "/Notifications.json?ErrorCode=bogus",
    ] {
        let answer = world.get(wrong);
        assert_eq!(answer.fault(), (400, 20400), "{wrong}");
        let fields: Vec<String> = answer.json().as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, ["code", "message", "more_info", "status"], "{wrong}");
    }
    // An empty filter is none.
    assert_eq!(world.get("/Calls.json?Status=").status, 200);
}

/// Lists of one time, whatever else is asked for, as Twilio's.
const OF_ONE_TIME: [&str; 5] = ["AllTime", "Today", "Yesterday", "ThisMonth", "LastMonth"];

/// For the list of a path a value of its filter by which one of two rows is shown.
fn filter(path: &str, name: &str) -> Option<&'static str> {
    let list = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    Some(match (list, name) {
        ("Notifications", "StartTime" | "EndTime") => "2026-11-22",
        (_, name) if name.ends_with(['<', '>']) => "2026-11-22",
        ("Records" | "Daily" | "Monthly" | "Yearly", "StartDate" | "EndDate") => "2026-11-22",
        (_, "StartTime" | "EndTime" | "DateCreated" | "DateSent" | "MessageDate") => "2026-11-21",
        ("Calls" | "Messages", "From") => "carol",
        ("Calls" | "Messages", "To") => "%2B5678",
        ("Calls", "Status") => "busy",
        ("Calls", "ParentCallSid") | ("Recordings", "CallSid") => "CA1",
        ("Messages", "Status") => "failed",
        ("Accounts", "Status") => "suspended",
        ("Conferences", "Status") => "completed",
        ("Recordings", "ConferenceSid") => "CF1",
        ("Notifications", "Log") => "1",
        ("Notifications", "ErrorCode") => "11200",
        ("Participants", "Muted" | "Hold" | "Coaching") => "true",
        ("OutgoingCallerIds", "PhoneNumber") => "4930123",
        (_, "PhoneNumber") => "11",
        ("Clients", "Login") => "bob",
        (_, "FriendlyName") => "One",
        (_, "Category") => "calls",
        _ => return None,
    })
}

/// The first one is muted and on hold.
fn participant(at: u64, joined_at: stdx::Instant) -> Participant {
    Participant {
        call_sid: format!("CA{at}"),
        label: String::new(),
        muted: at == 1,
        hold: at == 1,
        coaching: false,
        start_conference_on_enter: true,
        end_conference_on_exit: false,
        status: "connected".into(),
        joined_at,
    }
}

/// Two of each resource, which differ in all that lists are filtered by: the first of 21 November, the second of the 23rd.
fn two_of_each(world: &World) {
    for (at, name, from, to) in [(1_u64, "One", "alice", "+1234"), (2, "Two", "carol", "+5678")] {
        let day = (at - 1) * 2 * 86_400;
        let words = |first: &str, second: &str| if at == 1 { first } else { second }.to_owned();
        let mut call = world.call(&format!("CA{at}"), day, &words("completed", "busy"));
        (call.from, call.to, call.parent) = (from.into(), to.into(), words("", "CA1"));
        call.ended_at = Some(call.common.created_at);
        world.insert(&call);
        world.insert(&TextMessage {
            common: world.common(&format!("SM{at}"), day),
            from: from.into(),
            to: to.into(),
            status: words("sent", "failed"),
            ..TextMessage::default()
        });
        world.insert(&Conference {
            common: world.common(&format!("CF{at}"), day),
            friendly_name: name.into(),
            status: words("in-progress", "completed"),
            ..Conference::default()
        });
        world.insert(&Recording {
            common: world.common(&format!("RE{at}"), day),
            call_sid: format!("CA{at}"),
            conference_sid: format!("CF{at}"),
            ..Recording::default()
        });
        world.insert(&Notification {
            common: world.common(&format!("NO{at}"), day),
            call_sid: "CA1".into(),
            log: u8::from(at == 2),
            error_code: if at == 1 { 11_200 } else { 12_100 },
            ..Notification::default()
        });
        for (prefix, class) in [(2, ""), (3, "/Local"), (4, "/Mobile"), (5, "/TollFree")] {
            let form = format!("PhoneNumber=9{prefix}{at}{at}&FriendlyName={name}");
            world.make(&format!("/IncomingPhoneNumbers{class}.json"), &form);
        }
        for (resource, form) in [
            ("OutgoingCallerIds", format!("PhoneNumber=493012{}&FriendlyName={name}", at + 2)),
            ("Applications", format!("FriendlyName={name}")),
            ("Clients", format!("Login={}&Password=secret", words("bob", "dave"))),
        ] {
            world.make(&format!("/{resource}.json"), &form);
        }
        let account = world.ask("POST", "/2010-04-01/Accounts.json", &format!("FriendlyName={name}")).json();
        if at == 2 {
            let account = format!("/2010-04-01/Accounts/{}.json", account["sid"].as_str().unwrap());
            assert_eq!(world.ask("POST", &account, "Status=suspended").status, 200);
        }
        world.plane.participants.lock().unwrap().push(participant(at, call.common.created_at));
    }
}

/// A filter that is accepted and not used would show everything to a client that believes to have asked for less.
#[test]
fn every_filter_that_a_list_accepts_changes_what_it_shows() {
    let world = World::new();
    two_of_each(&world);
    world.plane.clock.store(3 * 86_400, std::sync::atomic::Ordering::Relaxed);
    let described: Value = serde_json::from_str(&admin::openapi::document()).unwrap();
    let mut asked = 0;
    for (path, item) in described["paths"].as_object().unwrap() {
        // Lists of chat are made by the node, which is asked with the filter.
        let filters = item["get"]["parameters"].as_array().filter(|_| !path.starts_with("/xmpp/"));
        for name in filters.into_iter().flatten().map(|parameter| parameter["name"].as_str().unwrap()) {
            let is_of_one_time = OF_ONE_TIME.iter().any(|time| path.ends_with(&format!("/{time}.json")));
            if matches!(name, "Page" | "PageSize" | "SortBy") || is_of_one_time && name.ends_with("Date") {
                continue;
            }
            let value = filter(path, name).unwrap_or_else(|| panic!("{path} has a new filter {name}"));
            let variables =
                [("{AccountSid}", &*world.me.sid), ("{CallSid}", "CA1"), ("{ConferenceSid}", "CF1")];
            let filled =
                variables.iter().fold(path.clone(), |path, (variable, sid)| path.replace(variable, sid));
            let shown = |query: &str| {
                let answer = world.ask("GET", &format!("/2010-04-01{filled}?{query}"), "");
                assert_eq!(answer.status, 200, "{filled}?{query} {}", answer.text());
                let found = answer.json();
                found.as_object().unwrap().values().find_map(Value::as_array).unwrap().clone()
            };
            let (all, some) =
                (shown(""), shown(&format!("{}={value}", name.replace('<', "%3C").replace('>', "%3E"))));
            assert!(all.len() > 1, "{path}");
            assert_ne!(some, all, "{path} {name}={value}");
            // No participant coaches another.
            assert_eq!(some.is_empty(), name == "Coaching", "{path} {name}={value}");
            asked += 1;
        }
    }
    assert!(asked > 60, "{asked}");
}
