//! Addresses that get another host, in a farm.

use super::effect::{RosterItem, Subscription};
use super::*;
use crate::{MessageNumber, ownership, report_of_refused};

const ALICE: &str = "alice@example.org";
const ROOM: &str = "hall@conference.example.org";

/// Signed in with stream management and available: the client's number and the session's id.
fn managed(world: &mut HostWorld) -> (u64, String) {
    let client = world.sign_in("alice@example.org/desk");
    world.say(client, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = world.hear(client).pop().unwrap();
    let (_, rest) = enabled.split_once(" id='").unwrap();
    let id = rest.split_once('\'').unwrap().0.to_owned();
    world.say(client, "<presence/>");
    world.hear(client);
    (client, id)
}

fn from_abroad(world: &mut HostWorld, body: &str) {
    world.arrive(&format!(
        "<message type='chat' from='eve@x.org/1' to='{ALICE}'><body>{body}</body></message>"
    ));
}

fn element(xml: &str) -> Element {
    xmpp::xml::parse(xml.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
}

fn has_body(heard: &[String], body: &str) -> bool {
    heard.iter().any(|xml| xml.contains(&format!("<body>{body}</body>")))
}

#[test]
fn sessions_of_a_dead_node_s_connections_are_resumed_without_loss() {
    let mut world = HostWorld::new(&[ALICE]);
    let (client, id) = managed(&mut world);
    from_abroad(&mut world, "before");
    world.hear(client);
    let other = ShardAddress::new(xmpp::Life(9), 0);
    world.tell(|host, now, out| ownership::handle_shards_gone(host, now, |shard| shard == other, out));
    from_abroad(&mut world, "still here");
    assert!(has_body(&world.hear(client), "still here"), "its shard lives");
    world.tell(|host, now, out| ownership::handle_shards_gone(host, now, |shard| shard != other, out));
    from_abroad(&mut world, "while away");
    assert!(world.hear(client).is_empty());
    let back = world.resume(ALICE, &id, 0);
    assert!(matches!(world.bound[&back], Bound::Resumed { .. }));
    let heard = world.hear(back);
    assert!(["before", "still here", "while away"].iter().all(|body| has_body(&heard, body)), "{heard:?}");
}

#[test]
fn an_account_that_moves_keeps_its_unacknowledged_messages() {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let (client, id) = managed(&mut world);
    let bob = world.sign_in("bob@example.org/desk");
    from_abroad(&mut world, "not acknowledged");
    world.hear(client);
    world.tell(|host, now, out| ownership::end_addresses(host, now, |bare| bare == ALICE, "reset", out));
    assert_eq!(world.closed.len(), 1, "{:?}: bob stays", world.closed);
    let back = world.resume(ALICE, &id, 0);
    assert!(matches!(world.bound[&back], Bound::NotResumed { .. }));
    let again = world.sign_in("alice@example.org/desk");
    world.say(again, "<presence/>");
    assert!(has_body(&world.hear(again), "not acknowledged"));
    world.say(bob, "<presence/>");
}

#[test]
fn a_contact_on_a_changed_host_is_asked_for_its_presence_again() {
    let mut world = HostWorld::new(&[ALICE]);
    world.keep_rosters();
    let item = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
    let alice = world.store.users.get_mut(&Bare::parse(ALICE).unwrap()).unwrap();
    alice.roster.push((Bare::parse("bob@x.org").unwrap(), item.clone()));
    alice.roster.push((Bare::parse("carol@x.org").unwrap(), item));
    let client = world.sign_in("alice@example.org/desk");
    world.say(client, "<presence/>");
    world.sent_abroad();
    world.tell(|host, now, out| {
        ownership::handle_owners_changed(host, now, |bare| bare == "bob@x.org", |_| false, out);
    });
    let sent = world.sent_abroad();
    assert!(
        matches!(&sent[..], [one] if one.contains("type='probe'") && one.contains("bob@x.org")),
        "{sent:?}"
    );
}

#[test]
fn occupants_learn_that_a_room_has_another_host() {
    let mut world = HostWorld::new(&[ALICE]);
    let client = world.sign_in("alice@example.org/desk");
    let enter = format!("<presence to='{ROOM}/al'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    world.say(client, &enter);
    world.hear(client);
    // The session's host hears of it by the map, ...
    world.tell(|host, now, out| {
        ownership::handle_owners_changed(host, now, |bare| bare == ROOM, |_| false, out);
    });
    let heard = world.hear(client);
    let is_told = |xml: &String| xml.contains("type='unavailable'") && xml.contains("332");
    assert!(matches!(&heard[..], [one] if is_told(one) && one.contains("110")), "{heard:?}");
    world.tell(|host, now, out| {
        ownership::handle_owners_changed(host, now, |bare| bare == ROOM, |_| false, out);
    });
    assert!(world.hear(client).is_empty(), "it is told once");
    // ... and the room's old host, which lives, tells its occupants.
    world.tell(|host, now, out| ownership::end_addresses(host, now, |bare| bare == ROOM, "reset", out));
    assert!(world.hear(client).iter().any(is_told));
    assert!(world.closed.is_empty(), "the session has its host still");
}

#[test]
fn a_message_of_another_host_is_reported_when_it_is_in_the_store() {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    world.keep_rosters();
    let other = ShardAddress::new(xmpp::Life(9), 1);
    let text = "<message type='chat' id='1' from='bob@example.org/x' to='alice@example.org'><body>hi</body></message>";
    let mut message = element(text);
    MessageNumber::mark_unacknowledged(&mut message, other, 77);
    let number = MessageNumber::of_message(&message, other);
    assert!(number.is_some() && MessageNumber::of_message(&message, ShardAddress::default()).is_none());
    // It was refused on its way, and the sender has the error.
    let refused = report_of_refused(&message).unwrap();
    assert_eq!(MessageNumber::of_report(&refused, other), number);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    let mut out = Outbox::new();
    world.host.handle_routed(world.now, message, &mut out);
    let is_report = |effect: &Effect| match effect {
        Effect::Route(element) => MessageNumber::of_report(element, other) == number,
        _ => false,
    };
    assert!(out.iter().any(|effect| matches!(effect, Effect::Deliver { .. })), "{out:?}");
    assert!(!out.iter().any(is_report), "it is not in the store yet: {out:?}");
    let writes = out.drain(..).filter_map(|effect| match effect {
        Effect::Change { ticket, change } => Some((ticket, change)),
        _ => None,
    });
    for (ticket, change) in writes.collect::<Vec<_>>() {
        let written = world.store.change(change);
        world.host.handle_store_reply(world.now, ticket, written, &mut out);
    }
    let reports: Vec<Element> = out
        .into_iter()
        .filter(is_report)
        .filter_map(|effect| match effect {
            Effect::Route(element) => Some(*element),
            _ => None,
        })
        .collect();
    assert_eq!(reports.len(), 1);
    // No client and no server can report.
    let forged = reports[0].clone().with("from", "eve@x.org");
    assert!(MessageNumber::of_report(&forged, other).is_none());
}

#[test]
fn only_messages_that_are_worth_keeping_get_a_number() {
    let other = ShardAddress::new(xmpp::Life(9), 1);
    for stanza in [
        "<message to='alice@example.org' type='chat'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>",
        "<message to='alice@example.org' type='headline'><body>hi</body></message>",
        "<iq to='alice@example.org' type='get' id='1'/>",
    ] {
        let mut stanza = element(stanza);
        MessageNumber::mark_unacknowledged(&mut stanza, other, 1);
        assert!(MessageNumber::of_message(&stanza, other).is_none(), "{stanza:?}");
    }
}
