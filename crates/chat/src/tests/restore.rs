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
