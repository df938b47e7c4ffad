//! Chat on a farm of real nodes with one PostgreSQL database: users of slixmpp at different nodes, and deaths of nodes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interop::{
    Farm, Follower, Moto, Nats, NatsRelease, Ports, PostgresServer, new_postgres_database, put_with_slixmpp,
    ringer, run_sql, wait_until,
};
use lab_report::Report;
use lab_report::model::XmppReport;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// One farm at a time, as in `farm.rs`.
fn alone() -> MutexGuard<'static, ()> {
    static FARM: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    FARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many that each of three nodes owns some of their buckets.
const USERS: usize = 9;

/// Messages from each client to each other one, while an owner is killed.
const FLOOD: usize = 25;

const ROOM: &str = "talk@conference.example.test";

fn start(nats: &Nats) -> (Farm, Vec<u16>) {
    Farm::with_chat(nats, 3, &new_postgres_database(), USERS)
}

/// Clients of these users, each signed in at one of these ports in turn.
fn sign_in(farm: &Farm, users: std::ops::Range<usize>, ports: &[u16]) -> Vec<Follower> {
    let certificate = farm.nodes[0].certificate();
    let client = |user: usize| {
        let mut client = Follower::new(&format!("user{user}"), "secret", &certificate);
        client.sign_in(ports[user % ports.len()]);
        client
    };
    users.map(client).collect()
}

/// Each client says something to the next one, which hears it.
fn talk(clients: &mut [Follower], topic: &str) {
    let count = clients.len();
    for from in 0..count {
        let to = clients[(from + 1) % count].address.clone();
        clients[from].say(&to, &format!("{topic}-{from}"));
    }
    for from in 0..count {
        clients[(from + 1) % count].hears(&format!("{topic}-{from}"));
    }
}

/// Clients whose stream has ended come back at this port.
fn come_back(clients: &mut [Follower], port: u16) {
    for client in clients {
        if !client.is_connected() {
            client.come_back(port);
        }
    }
}

/// The archive of each client has what it said and heard about these topics.
fn are_archived(clients: &mut [Follower], topics: &[&str]) {
    let count = clients.len();
    for (number, client) in clients.iter_mut().enumerate() {
        let heard = (number + count - 1) % count;
        let texts = topics.iter().flat_map(|topic| [number, heard].map(|from| format!("{topic}-{from}")));
        has_all(&client.archive(), &texts.collect::<Vec<_>>());
    }
}

fn has_all(archive: &[String], texts: &[String]) {
    let lost: Vec<&String> = texts.iter().filter(|text| !archive.contains(text)).collect();
    assert!(lost.is_empty(), "the archive has no {lost:?}: {archive:?}");
}

#[test]
fn users_at_different_nodes_chat() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (farm, ports) = start(&nats);
    let mut clients = sign_in(&farm, 0..USERS - 1, &ports);
    talk(&mut clients, "hello");

    // Presence of contacts at another node.
    let [alice, bob] = [0, 1].map(|user| clients[user].address.clone());
    clients[0].order(&format!("subscribe {bob}"));
    clients[0].sees(&bob, "available");
    clients[1].sees(&alice, "available");

    // A message for a user that is not there, who comes at another node, and has the contact at a third.
    let late = format!("user{}@example.test", USERS - 1);
    clients[0].say(&late, "for-later");
    clients[0].order(&format!("subscribe {late}"));
    let certificate = farm.nodes[0].certificate();
    let mut last = Follower::new(&format!("user{}", USERS - 1), "secret", &certificate);
    last.sign_in(ports[1]);
    last.hears("for-later");
    clients[0].sees(&late, "available");

    let mut again = Follower::new("user0", "secret", &certificate);
    assert!(again.sign_in(ports[2]).contains(&bob), "the roster is the same at all nodes");
    has_all(&again.archive(), &["hello-0".to_owned(), "for-later".to_owned()]);

    // A room.
    clients[0].order(&format!("enter {ROOM} zero"));
    clients[0].sees(ROOM, "available");
    clients[0].order(&format!("configure {ROOM}"));
    assert!(clients[0].is_connected(), "the room is open");
    for (number, client) in clients.iter_mut().enumerate().skip(1) {
        client.order(&format!("enter {ROOM} occupant{number}"));
        client.sees(ROOM, "available");
    }
    clients[3].order(&format!("say-in {ROOM} to-all"));
    clients.iter_mut().for_each(|client| client.hears("to-all"));
}

/// The owner of the account answers, wherever the client is connected.
#[test]
fn a_user_reads_the_calls_of_the_account_at_every_node() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let url = new_postgres_database();
    let (farm, ports) = Farm::with_chat(&nats, 3, &url, USERS);
    let (one, two) = ("user0@example.test", "user1@example.test");
    let now = "(extract(epoch FROM now()) * 1000000)::bigint";
    run_sql(
        &url,
        &format!(
            "INSERT INTO call_record (call_id, from_uri, to_uri, started_at, ended_at, code, reason, account, callee) \
             VALUES ('1', 'sip:{one}', 'sip:{two}', {now}, {now}, 487, 'Request Terminated', '{one}', '{two}')"
        ),
    );
    let certificate = farm.nodes[0].certificate();
    let row = |direction: &str, other: &str| (direction.to_owned(), format!("sip:{other}"));
    for port in ports {
        for (user, calls) in
            [("user0", vec![row("outgoing", two)]), ("user1", vec![row("incoming", one)]), ("user2", vec![])]
        {
            let mut client = Follower::new(user, "secret", &certificate);
            client.sign_in(port);
            assert_eq!(client.calls(), calls, "{user} at {port}");
        }
    }
}

/// Sessions are at the owners of their accounts, connections at the nodes that accepted them.
#[test]
fn commands_at_any_node_show_and_end_the_sessions_of_all_nodes() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (farm, ports) = start(&nats);
    let mut clients = sign_in(&farm, 0..USERS, &ports);
    let sessions = |node: &interop::Node, scope: &[&str]| {
        let lines = node.run(&[&["xmpp", "sessions", "--json"], scope].concat());
        let read = |line: &str| serde_json::from_str(line).expect("a line is an object");
        lines.lines().map(read).collect::<Vec<serde_json::Value>>()
    };
    let mut own = 0;
    for node in &farm.nodes {
        let all = sessions(node, &[]);
        assert_eq!(all.len(), USERS, "{all:?}");
        let has_connection = |session: &serde_json::Value| session["from"] == "127.0.0.1";
        assert!(all.iter().all(has_connection), "{all:?}");
        own += sessions(node, &["--this-node"]).len();
    }
    assert_eq!(own, USERS);
    let [first, _, third] = &farm.nodes[..] else { panic!("three nodes") };
    let announced = first.run(&["xmpp", "announce", "down-at-five", "--domain", "example.test"]);
    assert_eq!(announced, format!("sent to {USERS} sessions\n3 of 3 nodes answered\n"));
    clients.iter_mut().for_each(|client| client.hears("down-at-five"));
    clients[0].order(&format!("enter {ROOM} zero"));
    clients[0].sees(ROOM, "available");
    for node in &farm.nodes {
        let rooms = node.run(&["xmpp", "rooms", "example.test", "--json"]);
        let room: serde_json::Value = serde_json::from_str(&rooms).expect("one room, once");
        assert_eq!((&room["address"], &room["occupants"]), (&ROOM.into(), &1.into()));
    }
    for (user, client) in clients.iter_mut().enumerate().take(3) {
        let ended = third.run(&["xmpp", "kick", &format!("user{user}@example.test")]);
        assert_eq!(ended, "ended 1 session\n3 of 3 nodes answered\n");
        client.is_disconnected();
    }
    assert_eq!(sessions(first, &[]).len(), USERS - 3);
    let (_, error) = first.fails(&["xmpp", "kick", "user0@example.test"]);
    assert!(error.contains("user0@example.test is not signed in to chat"), "{error}");
}

#[test]
fn clients_of_a_node_that_is_killed_go_on_at_another() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (mut farm, ports) = start(&nats);
    let mut speaker = sign_in(&farm, 0..1, &ports[..1]);
    let mut clients = sign_in(&farm, 1..USERS, &ports[1..2]);
    talk(&mut clients, "before");
    are_archived(&mut clients, &["before"]);
    farm.nodes[1].kill();
    clients.iter_mut().for_each(Follower::is_disconnected);
    farm.wait_for_shares_at(2, &[0, 2]);
    come_back(&mut speaker, ports[0]);
    for client in &clients {
        let text = format!("away-{}", client.address);
        speaker[0].say(&client.address, &text);
    }
    let resumed = clients.iter_mut().filter_map(|client| client.come_back(ports[2]).then_some(())).count();
    // Sessions of accounts that a living node owns.
    assert!(resumed > 0, "no session was resumed");
    for client in &mut clients {
        let text = format!("away-{}", client.address);
        client.hears(&text);
    }
    talk(&mut clients, "after");
    are_archived(&mut clients, &["before", "after"]);
    for client in &mut clients {
        let away = format!("away-{}", client.address);
        has_all(&client.archive(), &[away]);
    }
}

#[test]
fn clients_elsewhere_come_again_when_an_owner_is_killed_or_drains() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (mut farm, ports) = start(&nats);
    let living = [ports[0], ports[2]];
    let mut clients = sign_in(&farm, 0..USERS, &living);
    talk(&mut clients, "first");
    are_archived(&mut clients, &["first"]);
    farm.nodes[1].kill();
    farm.wait_for_shares_at(2, &[0, 2]);
    come_back(&mut clients, ports[2]);
    talk(&mut clients, "second");

    farm.nodes[1].start();
    farm.wait_for_shares(3);
    come_back(&mut clients, ports[0]);
    talk(&mut clients, "third");

    farm.nodes[1].run(&["drain", "--wait"]);
    farm.nodes[1].kill();
    farm.wait_for_shares_at(2, &[0, 2]);
    come_back(&mut clients, ports[2]);
    talk(&mut clients, "fourth");
    are_archived(&mut clients, &["first", "second", "third", "fourth"]);
}

/// Clients whose owner is killed stay connected: the next owner goes on with their sessions.
#[test]
fn clients_elsewhere_notice_nothing_of_the_death_of_their_owner() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (mut farm, ports) = start(&nats);
    let mut clients = sign_in(&farm, 0..USERS, &[ports[0], ports[2]]);
    talk(&mut clients, "first");
    let [alice, bob] = [0, 1].map(|user| clients[user].address.clone());
    clients[0].order(&format!("subscribe {bob}"));
    clients[0].sees(&bob, "available");
    clients[1].sees(&alice, "available");
    for (number, client) in clients.iter_mut().enumerate() {
        client.order(&format!("enter {ROOM} occupant{number}"));
        client.sees(ROOM, "available");
        if number == 0 {
            client.order(&format!("configure {ROOM}"));
            assert!(client.is_connected(), "the room is open");
        }
    }
    clients[2].order(&format!("say-in {ROOM} before"));
    clients.iter_mut().for_each(|client| client.hears("before"));
    farm.nodes[1].kill();
    talk(&mut clients, "second");
    assert!(clients.iter_mut().all(Follower::is_connected), "the streams go on");
    farm.wait_for_shares_at(2, &[0, 2]);
    talk(&mut clients, "third");
    assert!(clients.iter_mut().all(Follower::is_connected), "the streams go on");
    clients[2].order(&format!("say-in {ROOM} after"));
    clients.iter_mut().for_each(|client| client.hears("after"));
    are_archived(&mut clients, &["first", "second", "third"]);
    for client in &mut clients {
        let archive = client.archive();
        let twice: Vec<_> = archive.iter().filter(|text| text.starts_with("third")).collect();
        assert_eq!(twice.len(), 2, "one said and one heard, once: {archive:?}");
    }

    for client in &mut clients {
        assert!(client.faults().is_empty(), "counts are right: {:?}", client.faults());
    }

    // The next owner dies as well: the session goes on once more, or its client has lost its connection with that node.
    farm.nodes[1].start();
    farm.wait_for_shares(3);
    come_back(&mut clients, ports[0]);
    farm.nodes[1].kill();
    farm.wait_for_shares_at(2, &[0, 2]);
    assert!(clients.iter_mut().all(Follower::is_connected), "the streams go on");
    talk(&mut clients, "fourth");
    are_archived(&mut clients, &["fourth"]);
}

/// Occupants of rooms whose owner is killed, and of rooms whose occupants' owner is: all stay, and each sees later occupants.
#[test]
fn occupants_stay_in_their_rooms_when_an_owner_is_killed() {
    const OCCUPANTS: usize = USERS - 1;
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (mut farm, ports) = start(&nats);
    let living = [ports[0], ports[2]];
    let mut clients = sign_in(&farm, 0..OCCUPANTS, &living);
    // So many that each node owns some of both kinds.
    let rooms: Vec<String> = (0..12).map(|number| format!("hall{number}@conference.example.test")).collect();
    for (number, room) in rooms.iter().enumerate() {
        let kind = if number % 2 == 0 { "" } else { " persistent" };
        for occupant in 0..OCCUPANTS {
            clients[occupant].order(&format!("enter {room} occupant{occupant}"));
            clients[occupant].sees_occupant(room, &format!("occupant{occupant}"));
            if occupant == 0 {
                clients[0].order(&format!("configure {room}{kind}"));
                assert!(clients[0].is_connected(), "the room is open");
            }
        }
        for (occupant, client) in clients.iter_mut().enumerate() {
            (occupant + 1..OCCUPANTS)
                .for_each(|later| client.sees_occupant(room, &format!("occupant{later}")));
        }
    }
    farm.nodes[1].kill();
    farm.wait_for_shares_at(2, &[0, 2]);

    let late = format!("user{OCCUPANTS}");
    let mut late = Follower::new(&late, "secret", &farm.nodes[0].certificate());
    late.sign_in(ports[0]);
    for room in &rooms {
        late.order(&format!("enter {room} late"));
        (0..OCCUPANTS).for_each(|occupant| late.sees_occupant(room, &format!("occupant{occupant}")));
        clients.iter_mut().for_each(|client| client.sees_occupant(room, "late"));
    }
    for (number, room) in rooms.iter().enumerate() {
        clients[number % OCCUPANTS].order(&format!("say-in {room} after-{number}"));
        for client in clients.iter_mut().chain([&mut late]) {
            client.hears(&format!("after-{number}"));
        }
    }
    for client in &mut clients {
        assert!(client.is_connected(), "the streams go on");
        assert!(client.faults().is_empty(), "{:?}", client.faults());
        assert!(!rooms.iter().any(|room| client.has_seen_leave(room)), "{} has lost a room", client.address);
    }
}

/// Occupants whose connection and whose owner end with one node, in rooms of all nodes: for the others they leave, also if only the dead node
/// knew that they were there.
#[test]
fn occupants_that_are_lost_with_a_node_leave_their_rooms() {
    const STAYING: usize = 2;
    // So many that each node owns some of them.
    const LOST: usize = 10;
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (mut farm, ports) = Farm::with_chat(&nats, 3, &new_postgres_database(), STAYING + LOST);
    let mut staying = sign_in(&farm, 0..STAYING, &[ports[0], ports[2]]);
    let mut lost = sign_in(&farm, STAYING..STAYING + LOST, &ports[1..2]);
    let rooms: Vec<String> = (0..6).map(|number| format!("hall{number}@conference.example.test")).collect();
    for room in &rooms {
        for (number, client) in staying.iter_mut().enumerate() {
            client.order(&format!("enter {room} staying{number}"));
            client.sees_occupant(room, &format!("staying{number}"));
            if number == 0 {
                client.order(&format!("configure {room}"));
                assert!(client.is_connected(), "the room is open");
            }
        }
        for (number, client) in lost.iter_mut().enumerate() {
            client.order(&format!("enter {room} lost{number}"));
            client.sees_occupant(room, &format!("lost{number}"));
            staying.iter_mut().for_each(|client| client.sees_occupant(room, &format!("lost{number}")));
        }
    }
    farm.nodes[1].kill();
    lost.iter_mut().for_each(Follower::is_disconnected);
    farm.wait_for_shares_at(2, &[0, 2]);
    for (number, room) in rooms.iter().enumerate() {
        staying[0].order(&format!("say-in {room} after-{number}"));
        staying.iter_mut().for_each(|client| client.hears(&format!("after-{number}")));
    }
    let mut ended = 0;
    for (number, client) in lost.iter_mut().enumerate() {
        // The session of an account of a living node waits for its client, in its rooms.
        if client.come_back(ports[2]) {
            continue;
        }
        ended += 1;
        for room in &rooms {
            staying.iter_mut().for_each(|client| client.sees_leave(room, &format!("lost{number}")));
        }
    }
    assert!(ended > 0, "the dead node owned none of the accounts");
    for client in &mut staying {
        assert!(client.is_connected(), "the streams go on");
        assert!(client.faults().is_empty(), "{:?}", client.faults());
    }
}

#[test]
fn messages_on_their_way_to_an_owner_that_is_killed_reach_the_next_one() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (mut farm, ports) = start(&nats);
    let mut clients = sign_in(&farm, 0..USERS, &[ports[0], ports[2]]);
    talk(&mut clients, "first");
    let addresses: Vec<String> = clients.iter().map(|client| client.address.clone()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let others = addresses.iter().filter(|address| **address != client.address);
        let others: Vec<&str> = others.map(String::as_str).collect();
        client.order(&format!("flood flood{number} {FLOOD} {}", others.join(" ")));
    }
    clients[0].hears("flood1-0");
    farm.nodes[1].kill();
    farm.wait_for_shares_at(2, &[0, 2]);

    // All that these have sent arrives. The others, who had too much that was not acknowledged, sign in again, and know which of their
    // messages were.
    let living: Vec<usize> = (0..USERS).filter(|number| clients[*number].is_connected()).collect();
    assert!(!living.is_empty(), "owners of some sessions live, and others are announced: {living:?}");
    let acknowledged: Vec<_> = clients.iter_mut().flat_map(Follower::acknowledged).collect();
    assert!(!acknowledged.is_empty(), "none of the messages before was acknowledged");
    come_back(&mut clients, ports[2]);
    for (receiver, client) in clients.iter_mut().enumerate() {
        let senders = living.iter().filter(|sender| **sender != receiver);
        let texts =
            senders.flat_map(|sender| (0..FLOOD).map(move |number| format!("flood{sender}-{number}")));
        let acknowledged = acknowledged.iter().filter(|(to, _)| *to == client.address);
        let texts: Vec<String> = texts.chain(acknowledged.map(|(_, text)| text.clone())).collect();
        client.archives(&texts);
    }
}

/// Clients chat while their database is away: the messages are delivered, and not acknowledged before they are in both archives.
#[test]
fn messages_said_while_the_database_is_away_are_archived_once_and_then_acknowledged() {
    const SAID: usize = 10;
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let mut server = PostgresServer::start(&[]);
    let (farm, ports) = Farm::with_chat(&nats, 2, &server.new_database(&[]), USERS);
    let mut clients = sign_in(&farm, 0..4, &ports);
    talk(&mut clients, "before");
    are_archived(&mut clients, &["before"]);
    server.kill();
    let count = clients.len();
    let texts = |from: usize| (0..SAID).map(move |number| format!("away-{from}-{number}"));
    for from in 0..count {
        let to = clients[(from + 1) % count].address.clone();
        clients[from].order(&format!("flood away-{from} {SAID} {to}"));
    }
    for from in 0..count {
        texts(from).for_each(|text| clients[(from + 1) % count].hears(&text));
    }
    let has_acknowledged = |client: &mut Follower| {
        client.acknowledged().iter().filter(|(_, text)| text.starts_with("away-")).count()
    };
    for client in &mut clients {
        assert!(client.is_connected());
        assert_eq!(has_acknowledged(client), 0, "{}: nothing is written yet", client.address);
    }
    assert!(farm.nodes.iter().any(|node| node.metric("belfry_store_writes_waiting") > 0));
    server.start_again();
    for client in &mut clients {
        // A client asks for acknowledgements after some stanzas.
        let is_done = || (client.is_connected() && has_acknowledged(client) == SAID).then_some(());
        wait::until("acknowledgements", std::time::Duration::from_secs(60), is_done, String::new);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let archive = client.archive();
        for text in texts(number).chain(texts((number + count - 1) % count)) {
            let entries = archive.iter().filter(|entry| **entry == text).count();
            assert_eq!(entries, 1, "{text} at {}: {archive:?}", client.address);
        }
    }
    for node in &farm.nodes {
        let is_empty = || (node.metric("belfry_store_writes_waiting") == 0).then_some(());
        wait::until("no write waits", std::time::Duration::from_secs(60), is_empty, || node.metrics());
    }
}

/// A request for a file; its head, and its body.
fn fetch(port: u16, path: &str, header: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket has it");
    let request = format!("GET {path} HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).expect("the node reads the request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the node answers");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head") + 4;
    let body = answer.split_off(end);
    (String::from_utf8_lossy(&answer).to_ascii_lowercase(), body)
}

/// The content that `slixmpp/put.py` uploads.
fn content() -> Vec<u8> {
    (0..600_000_u32).map(|place| u8::try_from(place % 250).expect("less than 256")).collect()
}

fn is_whole(port: u16, path: &str) {
    let (head, body) = fetch(port, path, "");
    assert!(head.starts_with("http/1.1 200 ") && head.contains("content-type: image/png\r\n"), "{head}");
    assert!(body == content(), "{} bytes", body.len());
}

#[test]
fn a_file_that_one_node_took_is_served_by_all_while_that_node_lives() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (mut farm, ports) = Farm::with_uploads(&nats, 3, &new_postgres_database(), "");
    let certificate = farm.nodes[0].certificate();
    let web: Vec<u16> = ports.iter().map(|(_, web)| *web).collect();
    // The slot is used at n1, and once in the whole farm.
    let (path, tries) =
        put_with_slixmpp(ports[0].0, &certificate, ("user0", "secret"), &[web[1], web[2], web[1]]);
    assert_eq!(tries, ["201", "409", "409"]);
    for port in &web {
        is_whole(*port, &path);
        let (head, body) = fetch(*port, &path, "Range: bytes=299995-365999\r\n");
        assert!(head.starts_with("http/1.1 206 "), "{head}");
        assert!(head.contains("content-range: bytes 299995-365999/600000\r\n"), "{head}");
        assert!(body == content()[299_995..366_000], "{} bytes", body.len());
        let (head, _) = fetch(*port, &format!("{path}x"), "");
        assert!(head.starts_with("http/1.1 404 "), "the name is part of the secret: {head}");
    }
    farm.nodes[1].kill();
    let (head, _) = fetch(web[2], &path, "");
    assert!(head.starts_with("http/1.1 503 ") && head.contains("retry-after: 60\r\n"), "{head}");
    farm.nodes[1].start();
    let is_back = || fetch(web[2], &path, "").0.starts_with("http/1.1 200 ");
    wait_until("the file of n1 at n2", Duration::from_secs(60), is_back, || farm.nodes[2].tail());
    is_whole(web[0], &path);
}

#[test]
fn nodes_on_one_folder_serve_its_files_without_each_other() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sections = format!("[xmpp.uploads]\nfolder = \"{}\"\n", folder.path().display());
    let (mut farm, ports) = Farm::with_uploads(&nats, 2, &new_postgres_database(), &sections);
    let certificate = farm.nodes[0].certificate();
    let web: Vec<u16> = ports.iter().map(|(_, web)| *web).collect();
    let (path, tries) = put_with_slixmpp(ports[1].0, &certificate, ("user0", "secret"), &[web[0], web[1]]);
    assert_eq!(tries, ["201", "409"]);
    is_whole(web[1], &path);
    farm.nodes[0].kill();
    is_whole(web[1], &path);
}

#[test]
fn files_in_a_store_of_objects_outlive_their_nodes_and_wait_while_it_is_away() {
    let _alone = alone();
    let (nats, mut store) = (Nats::start(NatsRelease::Debian), Moto::start("files"));
    let sections = format!(
        "[s3]\nendpoint = \"{}\"\nbucket = \"files\"\naccess_key = \"AKEXAMPLE\"\nsecret_key = \"hush\"\n",
        store.url()
    );
    let (mut farm, ports) = Farm::with_uploads(&nats, 3, &new_postgres_database(), &sections);
    let certificate = farm.nodes[0].certificate();
    let web: Vec<u16> = ports.iter().map(|(_, web)| *web).collect();
    let put = |at: u16| put_with_slixmpp(ports[2].0, &certificate, ("user0", "secret"), &[at]);
    let until_stored = |farm: &Farm, node: usize| {
        let is_stored = || farm.nodes[node].metric("belfry_object_storage_put_total") == 1;
        wait_until("the file is in the store", Duration::from_secs(60), is_stored, || {
            farm.nodes[node].tail()
        });
    };
    let (first, tries) = put(web[1]);
    assert_eq!(tries, ["201"]);
    until_stored(&farm, 1);
    web.iter().for_each(|port| is_whole(*port, &first));
    farm.nodes[1].kill();
    for port in [web[0], web[2]] {
        is_whole(port, &first);
        let (head, body) = fetch(port, &first, "Range: bytes=299995-365999\r\n");
        assert!(head.contains("content-range: bytes 299995-365999/600000\r\n"), "{head}");
        assert!(body == content()[299_995..366_000], "{} bytes", body.len());
    }
    store.stop();
    let (head, _) = fetch(web[2], &first, "");
    assert!(head.starts_with("http/1.1 503 ") && head.contains("retry-after: 60\r\n"), "{head}");
    // Taken as before, and served by its node.
    let (second, tries) = put(web[0]);
    assert_eq!(tries, ["201"]);
    is_whole(web[2], &second);
    store.go_on("files");
    until_stored(&farm, 0);
    farm.nodes[0].kill();
    is_whole(web[2], &second);
}

/// Eight users of Ringer's at this port. A client that is referred to another host goes there, or counts a failure and tries this one again. Returns the
/// failures, too.
fn load(port: u16, follows: bool) -> (XmppReport, u64) {
    let folder = TempDir::new().expect("a temporary folder");
    let (target, json) = (format!("127.0.0.1:{port}"), folder.path().join("report.json"));
    let words = "--users 8 --first 0 --contacts 2 --befriend yes --logins 20 --think 1 --for 3 --mix message=70,presence=30 --domain example.test";
    let file = json.display().to_string();
    let mut all =
        vec!["xmpp", &target, "--json", &file, "--redirect", if follows { "follow" } else { "count" }];
    all.extend(words.split_whitespace());
    let said = ringer(&all);
    let text = std::fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {}", said.text()));
    let report: Report = serde_json::from_str(&text).expect("a report");
    let chat = report.chat.expect("of users");
    assert_eq!((chat.lost, chat.duplicated, chat.reordered, chat.unseen), (0, 0, 0, 0), "{}", said.text());
    assert!(chat.sent > 0, "{}", said.text());
    (chat, report.totals.failed)
}

#[test]
fn clients_are_referred_once_to_the_node_that_has_their_account() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let ports = Ports::reserve(2);
    let section = |port| {
        format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{port}\"]\n[xmpp.access]\nown_host = \"127.0.0.1:{port}\"\n"
        )
    };
    let chats: Vec<String> = [0, 1].map(|number| section(ports.first() + number)).to_vec();
    let farm = Farm::with_chat_sections(&nats, &new_postgres_database(), USERS, &chats);
    farm.wait_for_owners(2);
    let limit = Duration::from_secs(120);
    // No client is referred to a node that does not keep up, as one on a busy machine may for some seconds.
    let redirected = |(chat, failed): (XmppReport, u64)| {
        assert_eq!(failed, 0, "{chat:?}");
        Some(chat.redirected).filter(|redirected| *redirected > 0)
    };
    let first =
        wait::until("a client is referred", limit, || redirected(load(ports.first(), true)), String::new);
    assert!(first < 8, "some accounts are at this node");
    // Clients that follow may be referred each time, and others once.
    let mut referred = 0;
    let is_over = || {
        let (_, away) = load(ports.first(), false);
        referred += away;
        (away == 0 && referred >= first).then_some(())
    };
    wait::until("clients that do not follow are served", limit, is_over, String::new);
    assert!(referred < 8, "{referred}");
}

/// Its file is at the second node only: a client gets the sound wherever it is connected, and deletes it from there.
#[test]
fn a_user_hears_a_message_of_another_node_and_deletes_it() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let url = new_postgres_database();
    let ports = Ports::reserve(2);
    let port = |number: u16| ports.first() + number;
    let sections = |number: u16| {
        let media = 32_300 + 100 * number;
        format!(
            "[xmpp]\nlisten = [\"tcp:127.0.0.1:{}\"]\n\
             [voice]\nmedia = \"127.0.0.1\"\nmedia_ports = \"{media}-{}\"\nopen = true\n",
            port(number),
            media + 99
        )
    };
    let farm = Farm::with_chat_sections(&nats, &url, 2, &[sections(0), sections(1)]);
    let sid = format!("RE{:032x}", 7);
    let file = farm.nodes[1].data().join(format!("recordings/{sid}.wav"));
    // Three pieces.
    let sound: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, &sound).unwrap();
    let body = format!(
        r#"{{"sid":"{sid}","account":"AC1","created_at":1,"updated_at":1,"status":"completed","duration":6,"channels":1,"node":"n1","to":"user0@example.test","from":"100"}}"#
    );
    run_sql(
        &url,
        &format!(
            "INSERT INTO rest (kind, sid, account, status, from_uri, to_uri, amount, created_at, updated_at, body) \
             VALUES (6, '{sid}', 'AC1', 'completed', '100', 'user0@example.test', 6, 1, 1, '{body}')"
        ),
    );
    let digest: String = Sha256::digest(&sound).iter().map(|byte| format!("{byte:02x}")).collect();
    let certificate = farm.nodes[0].certificate();
    let client = |user: &str, number: u16| {
        let mut client = Follower::new(user, "secret", &certificate);
        client.sign_in(port(number));
        client
    };
    let message = vec![(sid.clone(), digest)];
    assert_eq!(client("user1", 1).voicemail(), []);
    assert_eq!(client("user0", 1).voicemail(), message);
    let mut user = client("user0", 0);
    assert_eq!(user.voicemail(), message);
    user.delete_voicemail(&sid);
    assert!(!file.exists());
    assert_eq!(user.voicemail(), []);
}
