//! Chat: the requests that reach the node, and the accounts that may make them.

use admin::ControlError;

use crate::world::World;

#[test]
fn sessions_rooms_and_accounts_are_read_from_the_node() {
    let world = World::new();
    let get = |path: &str| world.ask("GET", path, "").json();
    let sessions = get("/v1/xmpp/sessions?User=alice%40a.org");
    assert_eq!((&sessions["sessions"][0]["priority"], &sessions["total"]), (&5.into(), &1.into()));
    assert_eq!(get("/v1/xmpp/rooms")["rooms"][0]["occupants"], 3);
    let room = get("/v1/xmpp/rooms/tea@conference.a.org");
    assert_eq!((&room["name"], &room["persistent"]), (&"Tea".into(), &true.into()));
    let users = get("/v1/xmpp/rooms/tea@conference.a.org/affiliations");
    assert_eq!(users["affiliations"][0]["affiliation"], "owner");
    assert_eq!(get("/v1/xmpp/users/alice@a.org")["contacts"], 7);
    assert_eq!(get("/v1/xmpp/users/alice@a.org/contacts")["contacts"][0]["groups"], "a, b");
    assert_eq!(get("/v1/xmpp/motd")["body"], "Hello");
    let asked = world.plane.asked.lock().unwrap().join("\n");
    assert!(asked.contains(r#"Sessions { who: Some("alice@a.org"), most: None }"#), "{asked}");
}

#[test]
fn changes_of_chat_are_sent_to_the_node() {
    let world = World::new();
    let announced = world.ask("POST", "/v1/xmpp/announcements", "Domain=a.org&Body=Down+at+5");
    assert_eq!((announced.status, &announced.json()["sessions"]), (201, &2.into()));
    for (method, path, form) in [
        ("DELETE", "/v1/xmpp/sessions/alice%40a.org%2Fdesk", ""),
        ("POST", "/v1/xmpp/messages", "To=alice%40a.org&Body=Hi"),
        ("POST", "/v1/xmpp/motd", "Body=Hi"),
        ("DELETE", "/v1/xmpp/motd", ""),
        ("DELETE", "/v1/xmpp/rooms/tea@conference.a.org?Reason=cold", ""),
        ("POST", "/v1/xmpp/rooms/tea@conference.a.org/affiliations", "User=bob%40a.org&Affiliation=outcast"),
        ("DELETE", "/v1/xmpp/rooms/tea@conference.a.org/occupants/bob", ""),
        ("DELETE", "/v1/xmpp/users/alice@a.org/offline", ""),
        ("POST", "/v1/xmpp/users/alice@a.org/contacts", "Contact=bob%40a.org&Group=a&Group=b"),
        ("DELETE", "/v1/xmpp/users/alice@a.org/contacts/bob@a.org", ""),
    ] {
        assert_eq!(world.ask(method, path, form).status, 204, "{method} {path}");
    }
    assert_eq!(world.ask("POST", "/v1/xmpp/rooms", "Room=tea%40conference.a.org").status, 201);
    let asked = world.plane.asked.lock().unwrap().join("\n");
    for part in [
        r#"End { who: "alice@a.org/desk" }"#,
        r#"DestroyRoom { room: "tea@conference.a.org", reason: "cold" }"#,
        r#"groups: ["a", "b"]"#,
        r#"KickOccupant { room: "tea@conference.a.org", nick: "bob""#,
    ] {
        assert!(asked.contains(part), "{part} in {asked}");
    }
}

#[test]
fn faults_are_those_of_the_interface() {
    let world = World::new();
    assert_eq!(world.send_as(("x", "y"), "GET", "/v1/xmpp/sessions", "").fault(), (401, 20003));
    assert_eq!(world.ask("GET", "/v1/xmpp/nothing", "").fault(), (404, 20404));
    assert_eq!(world.ask("POST", "/v1/xmpp/sessions", "").fault(), (405, 20405));
    assert_eq!(world.ask("POST", "/v1/xmpp/messages", "Body=x").fault(), (400, 20400));
    let affiliations = "/v1/xmpp/rooms/tea@conference.a.org/affiliations";
    assert_eq!(world.ask("POST", affiliations, "User=a%40b&Affiliation=king").fault(), (400, 20400));
    // Nothing of the other bases is here, and nothing of chat is there.
    assert_eq!(world.ask("GET", "/v1/Accounts", "").status, 404);
    assert_eq!(world.ask("GET", "/2010-04-01/xmpp/sessions.json", "").status, 404);
    for (error, status) in [
        (ControlError::NotFound, 404),
        (ControlError::Busy, 429),
        (ControlError::Invalid("no".into()), 400),
        (ControlError::Unsupported(std::borrow::Cow::Borrowed("Chat")), 501),
    ] {
        *world.plane.refuses.lock().unwrap() = Some(error);
        assert_eq!(world.ask("DELETE", "/v1/xmpp/sessions/a@b", "").status, status);
    }
    let made = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=Sub&EmailAddress=a@b.c").json();
    let (sid, token) = (made["sid"].as_str().unwrap(), made["auth_token"].as_str().unwrap());
    assert_eq!(world.send_as((sid, token), "GET", "/v1/xmpp/sessions", "").fault(), (403, 20403));
}
