//! Filters, sorting and pages.

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
