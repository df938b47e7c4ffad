//! Operating chat: commands and REST over a running node of two shards, administrators in their clients, traces.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sip::transport::Transport::{Tcp, Tls, Wss};
use xmpp::{Element, ns};

use super::client::Client;
use crate::PATIENCE;
use crate::phone::DOMAIN;
use crate::place::Place;
use crate::until;

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.current_dir(place.path(".")).args(arguments);
    command
}

#[track_caller]
fn belfry(place: &Place, arguments: &[&str]) -> String {
    let output = command(place, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(place: &Place, arguments: &[&str], words: &str) {
    let output = command(place, arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(words), "{arguments:?}: {errors}");
}

/// The next stanza of that name.
#[track_caller]
fn next(client: &mut Client, name: &str) -> Element {
    loop {
        let stanza = client.hear();
        if stanza.name() == name {
            return stanza;
        }
    }
}

/// On one shard each: with eight of them both own some.
fn users() -> Vec<String> {
    (0..8).map(|number| format!("user{number}")).collect()
}

fn place(more: &str) -> Place {
    let users = users();
    let names: Vec<&str> = users.iter().map(|user| &**user).collect();
    Place::new("").with_accounts(&names).with_xmpp(more)
}

fn sign_in_all(place: &Place) -> Vec<Client> {
    let ways = [Tcp, Tls, Wss];
    let signed_in = users().into_iter().enumerate().map(|(number, user)| {
        let mut client = Client::sign_in(place, ways[number % 3], &user, "desk");
        client.say("<presence xmlns='jabber:client'><priority>3</priority></presence>");
        assert_eq!(next(&mut client, "presence").attr("from"), Some(&*client.jid.clone()));
        client
    });
    signed_in.collect()
}

#[test]
fn sessions_are_listed_and_ended_and_announcements_reach_all() {
    let place = place("");
    let node = place.spawn();
    let mut clients = sign_in_all(&place);
    let listed = belfry(&place, &["xmpp", "sessions", "--json"]);
    let sessions: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(sessions.len(), 8, "{listed}");
    for session in &sessions {
        assert_eq!((&session["from"], &session["priority"]), (&"127.0.0.1".into(), &3.into()), "{session}");
    }
    let transport = |user: &str| {
        let found = sessions.iter().find(|session| session["address"] == format!("{user}@{DOMAIN}/desk"));
        found.unwrap()["transport"].as_str().unwrap().to_owned()
    };
    assert_eq!(["user0", "user1", "user2"].map(transport), ["tls", "tls", "wss"]);
    let table = belfry(&place, &["xmpp", "sessions", "--user", "user3"]);
    assert!(table.lines().count() == 2 && table.contains("user3@example.test/desk"), "{table}");

    assert_eq!(
        belfry(&place, &["xmpp", "announce", "Down at 5", "--subject", "News"]),
        "sent to 8 sessions\n"
    );
    for client in &mut clients {
        let message = next(client, "message");
        assert_eq!(message.attr("from"), Some(DOMAIN));
        assert_eq!(message.content_of("body", ns::CLIENT).as_deref(), Some("Down at 5"));
    }
    assert_eq!(belfry(&place, &["xmpp", "kick", "user0"]), "ended 1 session\n");
    assert_eq!(clients[0].end(), "policy-violation");
    refused(&place, &["xmpp", "kick", "user0"], "user0@example.test is not signed in to chat");
    assert_eq!(belfry(&place, &["xmpp", "kick", "user1@example.test/desk"]), "ended 1 session\n");
    until("the shards have put up their numbers", || {
        belfry(&place, &["status"]).contains("chat           6 sessions").then_some(())
    });
    node.kill();
}

#[test]
fn a_message_of_the_day_is_set_shown_and_cleared() {
    let place = place("");
    let node = place.spawn();
    assert_eq!(belfry(&place, &["xmpp", "motd", "show"]), "no message of the day\n");
    belfry(&place, &["xmpp", "motd", "set", "Tea at four", "--subject", "Today"]);
    let shown: Value = serde_json::from_str(&belfry(&place, &["xmpp", "motd", "show", "--json"])).unwrap();
    assert_eq!((&shown["subject"], &shown["body"]), (&"Today".into(), &"Tea at four".into()));
    let mut client = Client::sign_in(&place, Tls, "user0", "desk");
    client.say("<presence xmlns='jabber:client'/>");
    let announcement = next(&mut client, "message");
    assert_eq!(announcement.content_of("body", ns::CLIENT).as_deref(), Some("Tea at four"));
    belfry(&place, &["xmpp", "motd", "clear"]);
    belfry(&place, &["xmpp", "motd", "clear"]);
    assert_eq!(belfry(&place, &["xmpp", "motd", "show"]), "no message of the day\n");
    node.kill();
}

#[test]
fn rooms_are_made_shown_ruled_and_destroyed() {
    let place = place("");
    let node = place.spawn();
    let room = format!("tea@conference.{DOMAIN}");
    refused(&place, &["xmpp", "room", "show", "tea"], "there is no room tea@conference.");
    refused(
        &place,
        &["xmpp", "room", "create", "tea", "--owner", "nobody"],
        "was not made: there is no account nobody@",
    );
    belfry(&place, &["xmpp", "room", "create", "tea", "--name", "Tea", "--owner", "user0"]);
    refused(&place, &["xmpp", "room", "create", "tea"], "already");
    let mut guest = Client::sign_in(&place, Tls, "user1", "desk");
    guest.say(&format!(
        "<presence xmlns='jabber:client' to='{room}/guest'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    next(&mut guest, "message");
    // Temporary rooms are listed too, whichever shard owns them.
    for name in ["a", "b", "c", "d"] {
        guest.say(&format!(
            "<presence xmlns='jabber:client' to='{name}@conference.{DOMAIN}/guest'>\
             <x xmlns='http://jabber.org/protocol/muc'/></presence>"
        ));
        next(&mut guest, "message");
    }
    let listed = belfry(&place, &["xmpp", "rooms", "--json"]);
    let rooms: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rooms.len(), 5, "{listed}");
    let tea = rooms.iter().find(|found| found["address"] == room).unwrap();
    assert_eq!(
        (&tea["occupants"], &tea["persistent"], &tea["name"]),
        (&1.into(), &true.into(), &"Tea".into())
    );
    let shown: Value =
        serde_json::from_str(&belfry(&place, &["xmpp", "room", "show", "tea", "--json"])).unwrap();
    assert_eq!(shown["affiliations"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["affiliations"][0]["user"], format!("user0@{DOMAIN}"));
    assert_eq!(shown["occupants"][0]["nick"], "guest");
    belfry(&place, &["xmpp", "room", "affiliation", "tea", "user1", "outcast", "--reason", "spilt"]);
    let presence = until("the guest is banned", || {
        let presence = next(&mut guest, "presence");
        (presence.attr("type") == Some("unavailable")).then_some(presence)
    });
    assert!(
        presence.to_string().contains("spilt") && presence.to_string().contains("code='301'"),
        "{presence}"
    );
    belfry(&place, &["xmpp", "room", "destroy", "tea", "--reason", "cold"]);
    assert!(!belfry(&place, &["xmpp", "rooms"]).contains("tea@"));
    node.kill();
}

#[test]
fn the_chat_data_of_an_account_is_shown_and_changed() {
    let place = place("");
    let node = place.spawn();
    belfry(&place, &["xmpp", "message", "user0", "Welcome", "--subject", "Hi"]);
    until("it waits", || {
        let user = belfry(&place, &["xmpp", "user", "show", "user0", "--json"]);
        let user: Value = serde_json::from_str(&user).unwrap();
        (user["offline"] == 1).then_some(())
    });
    belfry(&place, &["xmpp", "user", "clear-offline", "user0"]);
    let user = belfry(&place, &["xmpp", "user", "show", "user0"]);
    assert!(user.contains("waiting    0 messages"), "{user}");
    let mut client = Client::sign_in(&place, Tls, "user0", "desk");
    client.say("<iq xmlns='jabber:client' type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    assert_eq!(client.hear().attr("id"), Some("r"));
    belfry(&place, &["xmpp", "roster", "user0", "add", "user1", "--name", "One", "--group", "Work"]);
    let push = next(&mut client, "iq").to_string();
    assert!(push.contains("jid='user1@example.test'") && push.contains("Work"), "{push}");
    let roster = belfry(&place, &["xmpp", "roster", "user0", "list", "--json"]);
    let contact: Value = serde_json::from_str(roster.trim()).unwrap();
    assert_eq!((&contact["name"], &contact["groups"][0]), (&"One".into(), &"Work".into()));
    belfry(&place, &["xmpp", "roster", "user0", "remove", "user1"]);
    refused(&place, &["xmpp", "roster", "user0", "remove", "user1"], "is no contact of user0@");
    assert_eq!(belfry(&place, &["xmpp", "roster", "user0", "list"]), "no contacts\n");
    refused(&place, &["xmpp", "user", "show", "nobody"], "there is no account nobody@");
    node.kill();
}

#[test]
fn an_administrator_uses_commands_in_a_chat_client() {
    let place = place("admins = [\"user0@example.test\"]");
    let node = place.spawn();
    let mut clients = sign_in_all(&place);
    let run = |client: &mut Client, node: &str, fields: &[(&str, &str)]| {
        let to = format!("<iq xmlns='jabber:client' type='set' id='c' to='{DOMAIN}'>");
        let node = format!("http://jabber.org/protocol/admin#{node}");
        let command = |rest: &str| {
            format!(
                "{to}<command xmlns='http://jabber.org/protocol/commands' node='{node}'{rest}</command></iq>"
            )
        };
        client.say(&command(">"));
        let first = next(client, "iq");
        let Some(asked) = first.get("command", ns::COMMANDS) else { return first.to_string() };
        if asked.attr("status") == Some("completed") {
            return first.to_string();
        }
        let session = asked.attr("sessionid").unwrap();
        let field =
            |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
        let fields: String = fields.iter().map(field).collect();
        client.say(&command(&format!(
            " sessionid='{session}' action='complete'><x xmlns='jabber:x:data' type='submit'>{fields}</x>"
        )));
        next(client, "iq").to_string()
    };
    assert!(run(&mut clients[1], "get-online-users-num", &[]).contains("forbidden"));
    let admin = &mut clients[0];
    assert!(run(admin, "get-online-users-num", &[]).contains("<value>8</value>"));
    assert!(run(admin, "get-registered-users-num", &[]).contains("<value>8</value>"));
    let new = "new@example.test";
    let add = [("accountjid", new), ("password", "secret"), ("password-verify", "secret")];
    assert!(run(admin, "add-user", &add).contains("completed"));
    assert!(run(admin, "add-user", &add).contains("conflict"));
    assert!(belfry(&place, &["account", "list"]).contains(new));
    let mut added = Client::connect(&place, Tls);
    added.open();
    assert!(added.plain("new", "secret").is("success", ns::SASL));
    assert!(run(admin, "disable-user", &[("accountjids", "user3@example.test")]).contains("completed"));
    assert_eq!(clients[3].end(), "not-authorized");
    let admin = &mut clients[0];
    assert!(run(admin, "get-disabled-users-list", &[]).contains("user3@example.test"));
    let mut back = Client::connect(&place, Tls);
    back.open();
    assert!(back.plain("user3", crate::phone::PASSWORD).is("failure", ns::SASL));
    assert!(run(admin, "reenable-user", &[("accountjids", "user3@example.test")]).contains("completed"));
    assert!(run(admin, "delete-user", &[("accountjids", new)]).contains("completed"));
    assert!(run(admin, "delete-user", &[("accountjids", new)]).contains("item-not-found"));
    assert!(!belfry(&place, &["account", "list"]).contains(new));
    node.kill();
}

/// One request with the first account's sid and token.
fn rest(place: &Place, method: &str, path: &str, form: &str) -> (u16, String) {
    let credentials = std::fs::read_to_string(place.path("data/rest-account")).unwrap();
    let mut stream = TcpStream::connect(place.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (credentials, length) = (STANDARD.encode(credentials.trim_end()), form.len());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn rest_lists_sessions_and_rooms() {
    let place = place("[rest]\nlisten = \"127.0.0.1:0\"");
    // Beside metrics, whose port is known.
    let file = place.path("belfry.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("127.0.0.1:0\"", &format!("{}\"", place.http()))).unwrap();
    let node = place.spawn();
    let mut client = Client::sign_in(&place, Tls, "user0", "desk");
    client.say("<presence xmlns='jabber:client'/>");
    next(&mut client, "presence");
    let (status, sessions) = rest(&place, "GET", "/v1/xmpp/sessions", "");
    assert!(status == 200 && sessions.contains("user0@example.test/desk"), "{status} {sessions}");
    let room = format!("tea@conference.{DOMAIN}");
    assert_eq!(rest(&place, "POST", "/v1/xmpp/rooms", &format!("Room={room}&Name=Tea")).0, 201);
    let (_, rooms) = rest(&place, "GET", "/v1/xmpp/rooms", "");
    assert!(rooms.contains(&room), "{rooms}");
    assert_eq!(rest(&place, "DELETE", &format!("/v1/xmpp/rooms/{room}"), "").0, 204);
    assert_eq!(rest(&place, "GET", &format!("/v1/xmpp/rooms/{room}"), "").0, 404);
    let (status, answer) = rest(&place, "POST", "/v1/xmpp/announcements", "Body=Hi");
    assert!(status == 201 && answer.contains("\"sessions\":1"), "{status} {answer}");
    assert_eq!(rest(&place, "DELETE", "/v1/xmpp/sessions/user0%40example.test%2Fdesk", "").0, 204);
    for line in [
        "belfry_xmpp_sign_ins_by_mechanism_total{shard=",
        "mechanism=\"PLAIN\"} 1",
        "transport=\"tls\"}",
        "condition=\"policy-violation\"} 1",
    ] {
        until(line, || rest(&place, "GET", "/metrics", "").1.contains(line).then_some(()));
    }
    node.kill();
}

#[test]
fn a_trace_of_a_session_contains_no_credentials() {
    let place = place("");
    let node = place.spawn();
    let mut trace = command(&place, &["trace", "user0", "--full", "--count", "12"]);
    let mut trace = trace.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(trace.stderr.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("tracing user0@example.test"), "{line}");
    let mut other = Client::sign_in(&place, Tls, "user1", "desk");
    let mut client = Client::sign_in(&place, Tls, "user0", "desk");
    // Until it has seen enough.
    until("the trace ends", || {
        client.message("user1@example.test/desk", "Hello there");
        next(&mut other, "message");
        trace.try_wait().unwrap()
    });
    let mut drawn = String::new();
    trace.stdout.take().unwrap().read_to_string(&mut drawn).unwrap();
    for part in [
        "Session user0@example.test",
        "auth",
        "success",
        "iq set bind",
        "message chat body",
        "Hello there",
        "***",
    ] {
        assert!(drawn.contains(part), "{part}\n{drawn}");
    }
    let proof = STANDARD.encode(format!("\0user0\0{}", crate::phone::PASSWORD));
    assert!(!drawn.contains(&proof) && !drawn.contains("user1@example.test/desk ──"), "{drawn}");
    node.kill();
}

#[test]
fn rooms_are_told_that_the_node_ends() {
    let place = place("");
    let node = place.spawn();
    let mut guest = Client::sign_in(&place, Tls, "user1", "desk");
    for name in ["a", "b", "c", "d"] {
        guest.say(&format!(
            "<presence xmlns='jabber:client' to='{name}@conference.{DOMAIN}/guest'>\
             <x xmlns='http://jabber.org/protocol/muc'/></presence>"
        ));
        next(&mut guest, "message");
    }
    assert!(Command::new("kill").args(["-TERM", &node.id().to_string()]).status().unwrap().success());
    let mut shutdowns = 0;
    while let Some(stanza) = guest.hear_or_end() {
        shutdowns += usize::from(stanza.to_string().contains("code='332'"));
    }
    assert_eq!(shutdowns, 4);
}
