//! Records of calls, page by page and as a file.

use super::*;
use crate::limits;

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
