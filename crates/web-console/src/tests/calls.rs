//! Records of calls, page by page and as a file.

use super::*;
use control::{CallMessages, TraceLine};

use crate::limits;

/// The messages of a call as nodes remember them: of one Call-ID three, of others none.
pub(super) fn remembered(call_id: &str) -> Response {
    let line = |at_micros: u64| TraceLine {
        at_micros,
        from: "192.0.2.7:5060".into(),
        to: "belfry".into(),
        label: "BYE".into(),
        call_id: call_id.into(),
        ..TraceLine::default()
    };
    Response::CallMessages(CallMessages {
        lines: if call_id == "kept" { [1, 2, 3].map(line).into() } else { Vec::new() },
        left_out: 4,
        since: 1,
        most_calls: 4_000,
        most_per_second: 10,
        not_begun: 7,
        forgotten: 8,
    })
}

#[tokio::test]
async fn a_call_without_a_trace_has_the_messages_that_nodes_remember_or_says_why_not() {
    let mut world = world();
    let (reader, operator) = (world.sign_in("eye").await, world.sign_in("op").await);
    assert_eq!(world.ask(&reader, "GET", "/ladder?call_id=kept", None).await.status, StatusCode::FORBIDDEN);
    let kept = world.ask(&operator, "GET", "/ladder?call_id=%20kept", None).await.body;
    assert_eq!(kept["lines"].as_array().unwrap().len(), 3, "{kept}");
    assert_eq!((&kept["has_more"], &kept["missed"]), (&json!(false), &json!(4)));
    assert_eq!(kept["nodes"]["missing"][0]["name"], "n2");
    assert!(change_of(&world).contains("CallMessages"), "{}", change_of(&world));
    let none = world.ask(&operator, "GET", "/ladder?call_id=other", None).await.body;
    assert_eq!(none["lines"], json!([]));
    let why =
        json!({ "since": 1, "most_calls": 4_000, "most_per_second": 10, "not_begun": 7, "forgotten": 8 });
    assert_eq!(none["remembered"], why);
    let unnamed = world.ask(&operator, "GET", "/ladder", None).await;
    assert_eq!(unnamed.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn calls_are_found_by_all_that_the_page_asks_for() {
    let mut world = world();
    world.calls = 3;
    let reader = world.sign_in("eye").await;
    let path = "/calls?account=bob&call_id=x&text=%2B4930&code=486&from=5&until=2500000&limit=1";
    let found = world.ask(&reader, "GET", path, None).await;
    assert_eq!(found.body["calls"][0]["call_id"], "2", "{}", found.body);
    assert_eq!((&found.body["next"], &found.body["has_more"]), (&json!(1_000_000), &json!(true)));
    let search = CallSearch {
        account: Some("bob@example.test".into()),
        call_id: Some("x".into()),
        text: Some("+4930".into()),
        code: Some(486),
        ended_from: Some(Instant::from_micros(5)),
        ended_until: Some(Instant::from_micros(2_500_000)),
        limit: 1,
        look_at: None,
    };
    let asked = Request::AllNodes(Box::new(Request::Ask(Ask::CallSearch(search))));
    assert_eq!(change_of(&world), format!("{asked:?}"));
    let last = world.ask(&reader, "GET", "/calls?until=1000000", None).await;
    assert_eq!((&last.body["next"], &last.body["has_more"]), (&Value::Null, &json!(false)));
    let refused = world.ask(&reader, "GET", "/calls?code=700", None).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_file_of_calls_has_all_pages_and_names_the_nodes_that_did_not_answer() {
    let mut world = world();
    world.calls = 2_500;
    let reader = world.sign_in("eye").await;
    let file = world.ask(&reader, "GET", "/calls.csv?text=busy", None).await;
    assert_eq!(file.headers["content-type"], "text/csv; charset=utf-8");
    let lines: Vec<&str> = file.text.lines().collect();
    assert_eq!(lines[0], call_files::csv::HEAD.trim_end());
    let ids: Vec<&str> = lines[1..2_501].iter().map(|line| line.rsplit(',').next().unwrap()).collect();
    let expected: Vec<String> = (1..=2_500).rev().map(|id| format!("\"{id}\"")).collect();
    assert_eq!(ids, expected, "each once, the newest first");
    assert_eq!(lines[2_501..], ["# node n2 has not answered: its calls are missing"]);
    let pages = world.requests.iter().filter(|request| request.contains("busy")).count();
    assert_eq!(pages, 3);
}

#[tokio::test]
async fn no_more_files_of_calls_than_some_are_sent_at_once() {
    let mut world = world();
    let reader = world.sign_in("eye").await;
    let held = world.console.state().call_files.clone();
    let held = held.try_acquire_many_owned(u32::try_from(limits::CSV_FILES).unwrap()).unwrap();
    let refused = world.ask(&reader, "GET", "/calls.csv", None).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(held);
    assert_eq!(world.ask(&reader, "GET", "/calls.csv", None).await.status, StatusCode::OK);
}
