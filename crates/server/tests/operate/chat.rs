//! `belfry xmpp`, beside a node of the test's own.

use super::fake::{Event, FakeNode};
use super::place::Place;

fn asked(node: &FakeNode) -> String {
    match node.next_event() {
        Event::Chat(asked) => asked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lists_are_printed_as_tables_or_as_lines_of_json() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    let table = place.belfry(&["xmpp", "sessions"]).good();
    assert!(table.starts_with("SESSION  "), "{table}");
    assert!(table.contains("alice@example.test/desk  ") && table.contains("192.0.2.1  tls"), "{table}");
    assert_eq!(asked(&node), "Sessions { who: None, most: None }");
    let line = place.belfry(&["xmpp", "sessions", "--user", "alice", "--json"]).good();
    let session: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&session["priority"], &session["resumable"]), (&5.into(), &true.into()));
    assert_eq!(asked(&node), r#"Sessions { who: Some("alice@example.test"), most: None }"#);
    let rooms = place.belfry(&["xmpp", "rooms"]).good();
    assert_eq!(
        rooms,
        "ROOM                         NAME  OCCUPANTS  STAYS  LISTED\ntea@conference.example.test  Tea           3  yes    yes\n"
    );
    assert_eq!(asked(&node), r#"Rooms { domain: "example.test" }"#);
    let roster = place.belfry(&["xmpp", "roster", "alice", "list"]).good();
    assert!(roster.contains("bob@example.test") && roster.contains("both"), "{roster}");
    let user = place.belfry(&["xmpp", "user", "show", "alice"]).good();
    assert!(user.contains("contacts   7") && user.contains("blocks     nobody"), "{user}");
    assert_eq!(place.belfry(&["xmpp", "motd", "show"]).good(), "no message of the day\n");
}

#[test]
fn chat_commands_are_sent_as_the_requests_of_their_arguments() {
    let place = Place::new();
    let node = FakeNode::start(place.config());
    for (arguments, ask) in [
        (&["kick", "alice/desk"][..], r#"End { who: "alice@example.test/desk" }"#),
        (
            &["message", "bob", "Hi"],
            r#"Message { to: "bob@example.test", text: Text { subject: "", body: "Hi" } }"#,
        ),
        (
            &["announce", "Hi", "--domain", "other.test"],
            r#"Announce { domain: "other.test", text: Text { subject: "", body: "Hi" } }"#,
        ),
        (&["motd", "clear"], r#"ClearMotd { domain: "example.test" }"#),
        (
            &["room", "create", "tea", "--owner", "alice"],
            r#"MakeRoom { room: "tea@conference.example.test", name: "", owner: Some("alice@example.test") }"#,
        ),
        (
            &["room", "affiliation", "tea@conference.other.test", "bob", "outcast"],
            r#"Affiliation { room: "tea@conference.other.test", user: "bob@example.test", affiliation: "outcast", reason: "" }"#,
        ),
        (&["user", "clear-offline", "bob"], r#"ClearOffline { user: "bob@example.test" }"#),
        (
            &["roster", "alice", "add", "bob", "--group", "a", "--group", "b"],
            r#"SetContact { user: "alice@example.test", contact: "bob@example.test", name: "", groups: ["a", "b"] }"#,
        ),
    ] {
        place.belfry(&[&["xmpp"], arguments].concat()).good();
        assert_eq!(asked(&node), ask);
    }
    place.belfry(&["xmpp", "room", "destroy", "tea"]).failed(
        1,
        "there is no room tea@conference.example.test; see those there are with: belfry xmpp rooms",
    );
    place.belfry(&["xmpp", "room", "affiliation", "tea", "bob", "king"]).failed(2, "invalid value 'king'");
    drop(node);
    place.belfry(&["xmpp", "sessions"]).failed(69, "no node answers");
}
