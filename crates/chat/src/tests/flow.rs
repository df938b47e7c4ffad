//! Clients that read slower than others send: their streams stay open, and no important stanza is lost.

use xmpp::xml::{Prefixes, parse};

use super::*;
use crate::limits;

const ALICE: &str = "alice@example.org/desk";

fn world() -> HostWorld {
    HostWorld::new(&["alice@example.org", "bob@example.org"])
}

/// Available, and from now on it does not read.
fn deaf(world: &mut HostWorld, jid: &str) -> u64 {
    let client = world.sign_in(jid);
    world.say(client, "<presence/>");
    world.hear(client);
    world.reads_nothing.push(client);
    client
}

fn message(number: usize, body: &str) -> String {
    format!(
        "<message type='chat' id='{number}' from='eve@x.org/1' to='{ALICE}'><body>{body}</body></message>"
    )
}

fn ids(heard: &[String]) -> Vec<String> {
    let id = |xml: &String| {
        parse(xml.as_bytes(), &Prefixes::of_default(ns::CLIENT)).unwrap().attr("id").map(str::to_owned)
    };
    heard.iter().filter_map(id).collect()
}

/// All that comes as the client reads on.
fn read_all(world: &mut HostWorld, client: u64) -> Vec<String> {
    let mut all = world.hear(client);
    while world.drain(client) {
        all.extend(world.hear(client));
    }
    all
}

fn size(heard: &[String]) -> usize {
    heard.iter().map(String::len).sum()
}

#[test]
fn a_stanza_full_of_apostrophes_forty_times_ends_no_stream() {
    let mut world = world();
    let alice = deaf(&mut world, ALICE);
    let apostrophes = "'".repeat(60_000);
    for number in 0..40 {
        world.arrive(&message(number, &apostrophes));
    }
    assert!(world.closed.is_empty());
    let first = world.hear(alice);
    // The amount on its way is bounded, and text is not written in more bytes than it came in.
    assert!(size(&first) <= 2 * (limits::WINDOW as usize + 61_000), "{}", size(&first));
    let rest = read_all(&mut world, alice);
    let heard: Vec<String> = first.into_iter().chain(rest).collect();
    assert_eq!(ids(&heard), (0..40).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn messages_for_a_slow_client_are_stored_and_come_when_it_has_read_the_rest() {
    let mut world = world();
    let alice = deaf(&mut world, ALICE);
    let body = "x".repeat(50_000);
    for number in 0..300 {
        world.arrive(&message(number, &body));
    }
    assert!(world.closed.is_empty());
    let stored = world.store.messages.offline.len();
    assert!(stored > 100, "{stored}");
    let mut heard = ids(&read_all(&mut world, alice));
    assert_eq!(world.store.messages.offline.len(), 0);
    heard.sort_by_key(|id| id.parse::<usize>().unwrap());
    heard.dedup();
    assert_eq!(heard.len(), 300, "nothing is lost");
    assert!(world.abroad.is_empty(), "and nothing was refused");
}

#[test]
fn a_full_backlog_drops_or_answers_by_kind() {
    let mut world = world();
    let alice = deaf(&mut world, ALICE);
    let body = "x".repeat(100_000);
    (0..90).for_each(|number| world.arrive(&message(number, &body)));
    world.store.messages.offline.clear();
    world.sent_abroad();
    world.arrive(&format!(
        "<iq type='get' id='q' from='eve@x.org/1' to='{ALICE}'><ping xmlns='urn:xmpp:ping'/></iq>"
    ));
    let answer = world.sent_abroad().join("");
    assert!(answer.contains("id='q'") && answer.contains("resource-constraint"), "{answer}");
    // Chat states and errors are not worth keeping.
    world.arrive(&format!("<message type='chat' from='eve@x.org/1' to='{ALICE}'><active xmlns='http://jabber.org/protocol/chatstates'/></message>"));
    world.arrive(&format!("<message type='error' from='eve@x.org/1' to='{ALICE}'><body>x</body></message>"));
    assert!(world.sent_abroad().is_empty() && world.store.messages.offline.is_empty());
    world.arrive(&message(90, "hi"));
    assert_eq!(world.store.messages.offline.len(), 1);
    // The answers to its own questions come.
    world.say(alice, "<iq type='get' id='own'><ping xmlns='urn:xmpp:ping'/></iq>");
    let heard = ids(&read_all(&mut world, alice));
    assert!(heard.contains(&"own".to_owned()) && heard.contains(&"90".to_owned()), "{heard:?}");
    assert!(world.closed.is_empty());
}

#[test]
fn of_presence_that_waits_only_the_last_counts() {
    let mut world = world();
    let alice = deaf(&mut world, ALICE);
    (0..3).for_each(|number| world.arrive(&message(number, &"x".repeat(60_000))));
    world.hear(alice);
    let all = 2 * limits::BACKLOG;
    for number in 0..all {
        let status = format!("<status>{number}</status>");
        world.arrive(&format!(
            "<presence from='conference.x.org/{}' to='{ALICE}'>{status}</presence>",
            number % 7
        ));
    }
    let heard = read_all(&mut world, alice);
    let last = |number: usize| heard.iter().any(|xml| xml.contains(&format!("<status>{number}</status>")));
    assert!((0..7).all(|back| last(all - 1 - back)));
    assert!(heard.len() < 2 * limits::BACKLOG_COMPACTED, "{}", heard.len());
}

#[test]
fn a_room_removes_occupants_that_do_not_read_and_their_sessions_stay() {
    let mut world = world();
    let bob = world.sign_in("bob@example.org/desk");
    let join = |nick: &str| {
        format!(
            "<presence to='tea@conference.example.org/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
        )
    };
    world.say(bob, &join("bob"));
    let owner = "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/></query>";
    world.say(bob, &format!("<iq type='set' id='o' to='tea@conference.example.org'>{owner}</iq>"));
    let slow: Vec<u64> = (0..5).map(|number| world.sign_in(&format!("alice@example.org/{number}"))).collect();
    for (number, client) in slow.iter().enumerate() {
        world.say(*client, &join(&format!("alice{number}")));
        world.reads_nothing.push(*client);
    }
    world.hear(bob);
    let body = "it's ".repeat(20_000);
    let mut heard = Vec::new();
    for number in 0..120 {
        world.say(bob, &format!("<message id='{number}' type='groupchat' to='tea@conference.example.org'><body>{body}</body></message>"));
        heard.extend(world.hear(bob));
    }
    let said =
        heard.iter().filter(|xml| xml.starts_with("<message") && !xml.contains("type='error'")).count();
    assert_eq!(said, 120, "a client that reads is served");
    let removed =
        heard.iter().filter(|xml| xml.contains("unavailable") && xml.contains("code='333'")).count();
    assert_eq!(removed, 5);
    assert!(world.closed.is_empty());
    assert_eq!(world.host.accounts().session_count(), 6);
    // They learn of it, and can come back.
    for client in slow {
        let heard = read_all(&mut world, client);
        assert!(heard.iter().any(|xml| xml.contains("code='110'")), "{}", heard.len());
    }
}

#[test]
fn pages_of_an_archive_are_read_as_the_client_reads() {
    let mut world = world();
    let alice = deaf(&mut world, ALICE);
    world.reads_nothing.clear();
    let body = "x".repeat(20_000);
    for number in 0..200 {
        world.arrive(&message(number, &body));
    }
    world.hear(alice);
    world.reads_nothing.push(alice);
    world.store.loads.clear();
    for number in 0..10 {
        world.say(alice, &format!(
            "<iq type='set' id='p{number}'><query xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'><max>250</max></set></query></iq>"
        ));
    }
    let pages = |world: &HostWorld| {
        world.store.loads.iter().filter(|load| matches!(load, Load::Archive { .. })).count()
    };
    assert_eq!(pages(&world), 1, "one page is read, and the next one when it is sent");
    let first = world.hear(alice);
    assert!(size(&first) <= 2 * (limits::WINDOW as usize + 61_000), "{}", size(&first));
    let rest = read_all(&mut world, alice);
    assert_eq!(pages(&world), 10);
    let answers = rest.iter().filter(|xml| xml.starts_with("<iq") && xml.contains("<fin")).count();
    assert_eq!(answers, 10, "each question has its answer");
    assert!(world.closed.is_empty());
    // More questions than may wait are refused at once.
    world.hear(alice);
    for number in 0..limits::PAGES_ASKED + 5 {
        world.say(alice, &format!("<iq type='set' id='m{number}'><query xmlns='urn:xmpp:mam:2'/></iq>"));
    }
    let heard = read_all(&mut world, alice);
    let refused =
        heard.iter().filter(|xml| xml.starts_with("<iq") && xml.contains("resource-constraint")).count();
    assert_eq!(
        (refused, ids(&heard.into_iter().filter(|xml| xml.starts_with("<iq")).collect::<Vec<_>>()).len()),
        (4, limits::PAGES_ASKED + 5)
    );
}

#[test]
fn messages_that_waited_go_out_as_the_client_reads() {
    let mut world = world();
    let body = "x".repeat(100_000);
    for number in 0..60 {
        world.arrive(&message(number, &body).replace("/desk'", "'"));
    }
    assert_eq!(world.store.messages.offline.len(), 60);
    let alice = world.sign_in(ALICE);
    world.reads_nothing.push(alice);
    world.store.loads.clear();
    world.say(alice, "<presence/>");
    let loads = |world: &HostWorld| {
        world.store.loads.iter().filter(|load| matches!(load, Load::Offline { .. })).count()
    };
    assert_eq!(loads(&world), 1);
    let first = world.hear(alice);
    assert!(size(&first) <= 2 * (limits::WINDOW as usize + 101_000), "{}", size(&first));
    let heard: Vec<String> = first.into_iter().chain(read_all(&mut world, alice)).collect();
    assert_eq!(ids(&heard), (0..60).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(loads(&world) > 3, "{}", loads(&world));
    assert!(world.store.messages.offline.is_empty() && world.closed.is_empty());
}
