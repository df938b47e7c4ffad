//! Sessions whose host is dead, at the next host.

use super::effect::{RosterItem, Subscription};
use super::*;

const ALICE: &str = "alice@example.org";
const CLIENT: u64 = 1_000;

fn announced() -> AnnouncedSession {
    let message = |id: &'static str| {
        Element::new("message", ns::CLIENT)
            .with("from", "eve@x.org/1")
            .with("to", "alice@example.org/desk")
            .with("id", id)
            .child(Element::new("body", ns::CLIENT).text(id))
    };
    AnnouncedSession {
        id: "previd".into(),
        resumable_for: Duration::from_secs(300),
        received: u32::MAX,
        acknowledged: 7,
        unacknowledged: vec![message("eight"), message("nine")],
        presence: Some(Element::new("presence", ns::CLIENT).with("from", "alice@example.org/desk")),
        has_carbons: true,
        ..AnnouncedSession::new(Jid::parse("alice@example.org/desk").unwrap())
    }
}

fn restore(world: &mut HostWorld, session: AnnouncedSession, is_late: bool) {
    world.tell(|host, now, out| {
        let manner = RestoreManner { is_late };
        handle_restore(host, now, (edge(CLIENT), session), manner, |_| false, out);
    });
}

/// Alice, whose contact Bob is at another server.
fn world() -> HostWorld {
    let mut world = HostWorld::new(&[ALICE]);
    let item = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
    let alice = world.store.users.get_mut(&Bare::parse(ALICE).unwrap()).unwrap();
    alice.roster.push((Bare::parse("bob@x.org").unwrap(), item));
    world
}

fn has(heard: &[String], text: &str) -> bool {
    heard.iter().any(|xml| xml.contains(text))
}

#[test]
fn a_session_goes_on_with_its_counts_and_contacts_are_told_nothing() {
    let mut world = world();
    restore(&mut world, announced(), false);
    assert!(
        matches!(&world.bound[&CLIENT], Bound::Session { jid, .. } if jid.as_str() == "alice@example.org/desk")
    );
    assert!(world.sent_abroad().is_empty());
    let heard = world.hear(CLIENT);
    assert!(!has(&heard, "<message"), "its connection has written these: {heard:?}");
    world.say(CLIENT, "<r xmlns='urn:xmpp:sm:3'/>");
    assert!(has(&world.hear(CLIENT), &format!("h='{}'", u32::MAX)));
    world.say(CLIENT, "<message to='bob@x.org'><body>one more</body></message>");
    world.say(CLIENT, "<r xmlns='urn:xmpp:sm:3'/>");
    assert!(has(&world.hear(CLIENT), "h='0'"));
    assert!(has(&world.sent_abroad(), "one more"));
    world.arrive("<message type='chat' from='eve@x.org/1' to='alice@example.org'><body>ten</body></message>");
    assert!(has(&world.hear(CLIENT), "ten"), "it is available");
    world.say(CLIENT, "<a xmlns='urn:xmpp:sm:3' h='8'/>");
    world.lose(CLIENT);
    let back = world.resume(ALICE, "previd", 8);
    let heard = world.hear(back);
    assert!(has(&heard, "nine") && has(&heard, "ten") && !has(&heard, "eight"), "{heard:?}");
}

#[test]
fn contacts_of_a_late_session_are_told_and_asked() {
    let mut world = world();
    restore(&mut world, announced(), true);
    let sent = world.sent_abroad();
    assert!(has(&sent, "to='bob@x.org'") && has(&sent, "type='probe'"), "{sent:?}");
}

#[test]
fn an_announcement_that_comes_twice_makes_one_session() {
    let mut world = world();
    restore(&mut world, announced(), false);
    world.bound.clear();
    restore(&mut world, announced(), false);
    assert!(world.bound.is_empty());
    assert_eq!(world.host.accounts().session_count(), 1);
}

#[test]
fn a_client_that_has_signed_in_again_keeps_its_new_session() {
    let mut world = world();
    world.sign_in("alice@example.org/desk");
    restore(&mut world, announced(), false);
    assert!(matches!(world.bound[&CLIENT], Bound::Refused(_)));
    assert_eq!(world.host.accounts().session_count(), 1);
}

#[test]
fn the_session_of_an_account_that_was_removed_ends() {
    let mut world = HostWorld::new(&[]);
    restore(&mut world, announced(), false);
    assert_eq!(world.closed, [(CLIENT, "not-authorized")]);
    assert_eq!(world.host.accounts().session_count(), 0);
}

const ROOM: &str = "hall@conference.example.org";
const JOIN: &str =
    "<presence to='hall@conference.example.org/N'><x xmlns='http://jabber.org/protocol/muc'/></presence>";

fn occupant(name: &str) -> AnnouncedSession {
    AnnouncedSession {
        id: name.into(),
        resumable_for: Duration::from_secs(300),
        presence: Some(Element::new("presence", ns::CLIENT)),
        directed: vec![Jid::parse(&format!("{ROOM}/{name}")).unwrap()],
        ..AnnouncedSession::new(Jid::parse(&format!("{name}@example.org/desk")).unwrap())
    }
}

fn sees(heard: &[String], nick: &str) -> bool {
    heard.iter().any(|xml| xml.contains(&format!("from='{ROOM}/{nick}'")) && !xml.contains("type="))
}

/// The temporary room had no row, and its host is dead.
#[test]
fn occupants_of_a_lost_room_enter_it_again_and_see_each_other_and_those_that_come_later() {
    let names: Vec<String> = (0..8).map(|number| format!("user{number}")).collect();
    let users: Vec<String> = names.iter().map(|name| format!("{name}@example.org")).collect();
    let mut world = HostWorld::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, name) in names.iter().enumerate().take(6) {
        let (session, edge) = (occupant(name), edge(CLIENT + number as u64));
        world.tell(|host, now, out| {
            let manner = RestoreManner { is_late: number % 2 == 0 };
            handle_restore(host, now, (edge, session), manner, |_| false, out);
        });
    }
    for name in &names[6..] {
        let client = world.sign_in(&format!("{name}@example.org/desk"));
        world.say(client, &JOIN.replace("/N", &format!("/{name}")));
    }
    for client in 0..6 {
        let heard = world.hear(CLIENT + client);
        assert!(names.iter().all(|name| sees(&heard, name)), "{client}: {heard:?}");
        assert!(!has(&heard, "type='error'") && !has(&heard, "code='201'"), "it is open: {heard:?}");
    }
}

#[test]
fn a_session_that_is_not_let_in_again_learns_that_it_has_left_the_room() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let bob = world.sign_in("bob@example.org/desk");
    world.say(bob, &JOIN.replace("/N", "/alice"));
    restore(&mut world, occupant("alice"), false);
    let heard = world.hear(CLIENT);
    assert!(has(&heard, "code='332'") && has(&heard, "type='unavailable'"), "{heard:?}");
    assert!(!has(&heard, "type='error'"), "its client has asked for nothing: {heard:?}");
}

#[test]
fn an_occupant_that_enters_a_living_room_again_sees_all_and_the_others_see_no_change() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let bob = world.sign_in("bob@example.org/desk");
    world.say(bob, &JOIN.replace("/N", "/bob"));
    world.say(bob, "<iq type='set' id='1' to='hall@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>");
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, &JOIN.replace("/N", "/alice"));
    let [heard, _] = [bob, alice].map(|client| world.hear(client));
    assert!(sees(&heard, "alice"), "{heard:?}");
    world.tell(|host, now, out| {
        crate::ownership::handle_owners_changed(host, now, |_| false, |_| true, out);
    });
    assert!(sees(&world.hear(alice), "bob"));
    let heard = world.hear(bob);
    assert!(sees(&heard, "alice") && !has(&heard, "code='201'"), "as its own entry has told it: {heard:?}");
    let of_alice = heard.iter().filter(|xml| xml.contains(&format!("from='{ROOM}/alice'")));
    assert_eq!(of_alice.count(), 1, "{heard:?}");
}

#[test]
fn a_removed_occupant_does_not_enter_again() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let bob = world.sign_in("bob@example.org/desk");
    world.say(bob, &JOIN.replace("/N", "/bob"));
    world.say(bob, "<iq type='set' id='1' to='hall@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>");
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, &JOIN.replace("/N", "/alice"));
    world.say(bob, "<iq type='set' id='2' to='hall@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#admin'><item nick='alice' role='none'/></query></iq>");
    assert!(has(&world.hear(alice), "code='307'"));
    world.hear(bob);
    world.tell(|host, now, out| {
        crate::ownership::handle_owners_changed(host, now, |_| false, |_| true, out);
    });
    assert!(!sees(&world.hear(bob), "alice"));
    assert!(world.hear(alice).is_empty());
}

/// A session that its node cannot announce to go on: without stream management, or with too much that was not acknowledged.
#[test]
fn contacts_and_rooms_learn_of_the_end_of_a_session_that_does_not_go_on() {
    let mut world = world();
    let mut session = announced();
    (session.id, session.directed) = ("".into(), vec![Jid::parse("eve@x.org/1").unwrap()]);
    restore(&mut world, session, false);
    assert_eq!(world.closed, [(CLIENT, "reset")]);
    let sent = world.sent_abroad();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.iter().all(|xml| xml.contains("type='unavailable'")), "{sent:?}");
    assert!(has(&sent, "to='bob@x.org'") && has(&sent, "to='eve@x.org/1'"), "{sent:?}");
    assert_eq!(world.host.accounts().session_count(), 0);
}

/// Bob's session had its connection at the node that has died.
#[test]
fn a_restored_session_asks_for_contacts_on_a_dead_host_too() {
    let mut world = world();
    let manner = RestoreManner { is_late: false };
    world.tell(|host, now, out| {
        handle_restore(host, now, (edge(CLIENT), announced()), manner, |bare| bare == "bob@x.org", out);
    });
    let sent = world.sent_abroad();
    assert!(sent.len() == 1 && has(&sent, "type='probe'") && has(&sent, "to='bob@x.org'"), "{sent:?}");
}

/// XEP-0356 §6.1: a component gets the first presence of a session and its end, each once; its host may be another one by then.
#[test]
fn a_privileged_component_gets_the_end_of_a_restored_session_and_not_its_begin_again() {
    for is_ending in [false, true] {
        let mut world = world();
        let gate = privilege::Privileges {
            component: "gate.example.org".into(),
            presence: privilege::PresenceAccess::ManagedEntity,
            ..privilege::Privileges::default()
        };
        let settings = world.host.settings().clone();
        world.host.reload(Arc::new(HostSettings { privileges: vec![gate], ..settings }));
        let mut session = announced();
        if is_ending {
            // Its client cannot resume it.
            (session.id, session.unacknowledged) = ("".into(), Vec::new());
        }
        restore(&mut world, session, false);
        if !is_ending {
            assert!(!has(&world.sent_abroad(), "to='gate.example.org'"));
            world.say(CLIENT, "<presence type='unavailable'/>");
        }
        let sent = world.sent_abroad();
        let to_gate: Vec<_> = sent.iter().filter(|stanza| stanza.contains("to='gate.example.org'")).collect();
        assert!(matches!(&to_gate[..], [end] if end.contains("type='unavailable'")), "{is_ending}: {sent:?}");
    }
}
