use router::{PublishRefused, Published};

use super::*;

const DOCUMENT: &str = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:alice@a.test\"/>";
const HEADERS: &str = "Event: presence\nContent-Type: application/pidf+xml;charset=utf-8";

fn alice() -> World {
    World { account: Some(AOR), ..World::new() }
}

/// RFC 3903 §4.1, table 1.
#[test]
fn publications_are_made_refreshed_and_removed() {
    let mut world = alice();
    let published = |etag: &str, expires| Answer::Published(Ok(Published { etag: etag.into(), expires }));
    insta::assert_snapshot!(world.request("PUBLISH", &format!("{HEADERS}\nExpires: 1800"), DOCUMENT), @"ask Publish alice@a.test etag None 73 bytes for 1800 s");
    insta::assert_snapshot!(world.answer(published("e1", 1_800)), @"reply 1: 200 OK; SIP-ETag: e1; Expires: 1800");
    insta::assert_snapshot!(world.request("PUBLISH", "Event: presence\nSIP-If-Match: e1", ""), @r#"ask Publish alice@a.test etag Some("e1") 0 bytes for 3600 s"#);
    insta::assert_snapshot!(world.answer(published("e2", 3_600)), @"reply 2: 200 OK; SIP-ETag: e2; Expires: 3600");
    insta::assert_snapshot!(world.request("PUBLISH", "Event: presence\nSIP-If-Match: e2\nExpires: 0", ""), @r#"ask Publish alice@a.test etag Some("e2") 0 bytes for 0 s"#);
    insta::assert_snapshot!(world.answer(published("e3", 0)), @"reply 3: 200 OK; SIP-ETag: e3; Expires: 0");
    assert_eq!(world.notifier.counts(), EventCounts::default());
}

#[test]
fn a_publication_that_the_router_refuses_is_refused() {
    let mut world = alice();
    world.request("PUBLISH", "Event: presence\nSIP-If-Match: old", "");
    let refused = Answer::Published(Err(PublishRefused::ConditionalRequestFailed));
    insta::assert_snapshot!(world.answer(refused), @"reply 1: 412 Conditional Request Failed");
    world.request("PUBLISH", HEADERS, DOCUMENT);
    insta::assert_snapshot!(world.answer(Answer::Published(Err(PublishRefused::TooMany))), @"reply 2: 403 Too Many Publications");
    world.request("PUBLISH", HEADERS, DOCUMENT);
    insta::assert_snapshot!(world.wait(Duration::from_millis(11_010)), @"reply 3: 504 Server Time-out");
    world.asked.clear();
    world.request("PUBLISH", HEADERS, DOCUMENT);
    // The router says so itself at the end of its patience, and the client learns when to try again.
    assert_eq!(world.wait(router::limits::QUESTION_PATIENCE), "");
    let unavailable = world.answer(Answer::Unavailable);
    assert!(unavailable.starts_with("reply 4: 503 Service Unavailable"), "{unavailable}");
}

/// RFC 3903 §6.
#[test]
fn bad_publications_get_their_answer() {
    let mut world = alice();
    let mut tell = |lines: &str, body: &str| world.request("PUBLISH", lines, body);
    insta::assert_snapshot!(tell("Event: dialog", DOCUMENT), @"reply 1: 489 Bad Event; Allow-Events: presence");
    insta::assert_snapshot!(tell("Content-Type: application/pidf+xml", DOCUMENT), @"reply 2: 489 Bad Event; Allow-Events: presence");
    insta::assert_snapshot!(tell("Event: presence", ""), @"reply 3: 400 Missing Body");
    insta::assert_snapshot!(tell("Event: presence\nContent-Type: text/plain", "here"), @"reply 4: 415 Unsupported Media Type; Accept: application/pidf+xml");
    insta::assert_snapshot!(tell(&format!("{HEADERS}\nContent-Encoding: gzip"), "here"), @"reply 5: 415 Unsupported Media Type; Accept: application/pidf+xml");
    insta::assert_snapshot!(tell(&format!("{HEADERS}\nSIP-If-Match: a, b"), DOCUMENT), @"reply 6: 400 Bad SIP-If-Match");
    insta::assert_snapshot!(tell(&format!("{HEADERS}\nExpires: 5"), DOCUMENT), @"reply 7: 423 Interval Too Brief; Min-Expires: 60");
    insta::assert_snapshot!(tell(&format!("{HEADERS}\nRequire: x"), DOCUMENT), @"reply 8: 420 Bad Extension; Unsupported: x");
    insta::assert_snapshot!(tell(HEADERS, &"x".repeat(limits::PUBLISHED_BYTES + 1)), @"reply 9: 413 Request Entity Too Large");
    world.account = Some("bob@a.test");
    insta::assert_snapshot!(world.request("PUBLISH", HEADERS, DOCUMENT), @"reply 10: 403 Forbidden");
    assert_eq!(world.notifier.counts(), EventCounts::default());
}
