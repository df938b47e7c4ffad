//! Blocking: passing stanzas, notifications, and presence to others.

use super::effect::{RosterItem, Subscription};
use super::*;

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@x.org";

fn world(contacts: &[(&str, Subscription)]) -> (HostWorld, u64) {
    let mut world = HostWorld::new(&[ALICE, "carol@example.org"]);
    let store = world.store.users.get_mut(&Bare::parse(ALICE).unwrap()).unwrap();
    for (contact, subscription) in contacts {
        let item = RosterItem { subscription: *subscription, is_listed: true, ..Default::default() };
        store.roster.push((Bare::parse(contact).unwrap(), item));
    }
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.hear(alice);
    world.sent_abroad();
    (world, alice)
}

fn blocked(world: &mut HostWorld, client: u64, name: &str, jids: &[&str]) -> Vec<String> {
    let items: String = jids.iter().map(|jid| format!("<item jid='{jid}'/>")).collect();
    world.say(
        client,
        &format!("<iq type='set' id='b'><{name} xmlns='urn:xmpp:blocking'>{items}</{name}></iq>"),
    );
    world.hear(client)
}

fn list(world: &mut HostWorld, client: u64) -> String {
    world.say(client, "<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    world.hear(client).pop().unwrap()
}

#[test]
fn a_list_is_kept_and_its_changes_are_pushed_to_clients_that_asked_for_it() {
    let (mut world, alice) = world(&[]);
    let phone = world.sign_in("alice@example.org/phone");
    assert!(list(&mut world, alice).contains("<blocklist xmlns='urn:xmpp:blocking'/>"));
    let heard = blocked(&mut world, alice, "block", &["Bob@x.org", BOB, "carol@example.org/1"]);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard.iter().any(|stanza| stanza.contains("type='result'")));
    let push =
        "<block xmlns='urn:xmpp:blocking'><item jid='bob@x.org'/><item jid='carol@example.org/1'/></block>";
    assert!(heard.iter().any(|stanza| stanza.contains(push)), "{heard:?}");
    assert!(world.hear(phone).is_empty());
    blocked(&mut world, alice, "block", &[BOB, "x.org"]);
    assert_eq!(list(&mut world, phone).matches("<item").count(), 3);
    blocked(&mut world, alice, "unblock", &[BOB]);
    assert!(
        world.hear(phone)[0].contains("<unblock xmlns='urn:xmpp:blocking'><item jid='bob@x.org'/></unblock>")
    );
    assert_eq!(list(&mut world, phone).matches("<item").count(), 2);
    blocked(&mut world, alice, "unblock", &[]);
    assert!(world.hear(phone)[0].contains("<unblock xmlns='urn:xmpp:blocking'/>"));
    assert!(!list(&mut world, phone).contains("<item"));
    assert!(
        matches!(world.store.changes.last(), Some(Change::Blocked { blocked, .. }) if blocked.is_empty())
    );
}

#[test]
fn invalid_lists_are_refused() {
    let (mut world, alice) = world(&[]);
    for (name, jids, condition) in [
        ("block", &[][..], "bad-request"),
        ("block", &["@"], "jid-malformed"),
        ("unblock", &["@"], "jid-malformed"),
        ("blocklist", &[], "bad-request"),
    ] {
        let heard = blocked(&mut world, alice, name, jids);
        assert!(heard.len() == 1 && heard[0].contains(condition), "{name}: {heard:?}");
    }
    let carol = world.sign_in("carol@example.org/1");
    world.say(
        carol,
        "<iq type='set' id='b' to='alice@example.org'><block xmlns='urn:xmpp:blocking'><item jid='x.org'/></block></iq>",
    );
    assert!(world.hear(carol)[0].contains("service-unavailable"));
    let many: Vec<String> = (0..=crate::limits::BLOCKED).map(|n| format!("b{n}@x.org")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(blocked(&mut world, alice, "block", &many)[0].contains("policy-violation"));
    assert!(blocked(&mut world, alice, "block", &many[1..])[0].contains("result"));
    assert_eq!(world.store.changes.len(), 1);
}

#[test]
fn an_address_matches_itself_and_addresses_below_it() {
    for (entry, jid, expected) in [
        ("bob@x.org", "bob@x.org", true),
        ("bob@x.org", "bob@x.org/1", true),
        ("bob@x.org", "robert@x.org", false),
        ("bob@x.org/1", "bob@x.org/1", true),
        ("bob@x.org/1", "bob@x.org/2", false),
        ("bob@x.org/1", "bob@x.org", false),
        ("x.org", "bob@x.org/1", true),
        ("x.org", "x.org", true),
        ("x.org", "x.org/1", true),
        ("x.org", "bob@y.x.org", false),
        ("x.org/1", "x.org/1", true),
        ("x.org/1", "bob@x.org/1", false),
        // Oneself and one's server.
        ("example.org", "carol@example.org", true),
        ("example.org", "example.org", false),
        ("example.org", "alice@example.org/phone", false),
        ("alice@example.org", "alice@example.org/phone", false),
    ] {
        let (mut world, alice) = world(&[]);
        world.keep_rosters();
        blocked(&mut world, alice, "block", &[entry]);
        let (user, jid) = (Bare::parse(ALICE).unwrap(), Jid::parse(jid).unwrap());
        assert_eq!(
            crate::blocking::blocks_incoming(&world.host.accounts, &user, &jid),
            expected,
            "{entry} and {jid}"
        );
    }
}

#[test]
fn nothing_comes_in_and_nothing_goes_out() {
    let (mut world, alice) = world(&[(BOB, Subscription::Both)]);
    blocked(&mut world, alice, "block", &[BOB]);
    world.sent_abroad();
    for (stanza, is_answered) in [
        ("<message id='1' from='bob@x.org/1' to='alice@example.org'><body>x</body></message>", true),
        (
            "<iq id='1' type='get' from='bob@x.org/1' to='alice@example.org/desk'><ping xmlns='urn:xmpp:ping'/></iq>",
            true,
        ),
        ("<iq id='1' type='result' from='bob@x.org/1' to='alice@example.org/desk'/>", false),
        ("<presence from='bob@x.org/1' to='alice@example.org'/>", false),
        ("<presence type='probe' from='bob@x.org' to='alice@example.org'/>", false),
        ("<presence type='subscribe' from='bob@x.org' to='alice@example.org'/>", false),
    ] {
        world.arrive(stanza);
        assert!(world.hear(alice).is_empty(), "{stanza}");
        let sent = world.sent_abroad();
        assert_eq!(sent.len(), usize::from(is_answered), "{stanza}: {sent:?}");
        assert!(sent.iter().all(|sent| sent.contains("<service-unavailable")), "{sent:?}");
    }
    for stanza in [
        "<message id='1' to='bob@x.org'><body>x</body></message>",
        "<iq id='1' type='get' to='bob@x.org/1'><ping xmlns='urn:xmpp:ping'/></iq>",
        "<presence to='bob@x.org'/>",
        "<presence type='subscribe' to='bob@x.org'/>",
    ] {
        world.say(alice, stanza);
        let heard = world.hear(alice);
        assert_eq!(heard.len(), 1, "{stanza}: {heard:?}");
        for part in ["type='cancel'", "<not-acceptable", "<blocked xmlns='urn:xmpp:blocking:errors'/>"] {
            assert!(heard[0].contains(part), "{part}: {heard:?}");
        }
    }
    world.say(alice, "<presence><show>away</show></presence>");
    world.say(alice, "<presence type='unavailable'/>");
    world.say(alice, "<presence/>");
    assert!(world.sent_abroad().is_empty());
}

#[test]
fn a_blocked_contact_sees_the_user_go_and_come_back() {
    let (mut world, alice) = world(&[
        (BOB, Subscription::Both),
        ("to@x.org", Subscription::To),
        ("from@y.org", Subscription::From),
    ]);
    world.say(alice, "<presence to='room@x.org/alice'/>");
    world.sent_abroad();
    blocked(&mut world, alice, "block", &["x.org"]);
    let sent = world.sent_abroad();
    assert_eq!(sent.len(), 2, "{sent:?}");
    for (sent, to) in sent.iter().zip([BOB, "room@x.org/alice"]) {
        assert!(sent.contains("type='unavailable'") && sent.contains(&format!("to='{to}'")), "{sent}");
    }
    // Bob stays blocked.
    blocked(&mut world, alice, "block", &[BOB]);
    blocked(&mut world, alice, "unblock", &[BOB]);
    assert!(world.sent_abroad().is_empty());
    blocked(&mut world, alice, "unblock", &[]);
    let sent = world.sent_abroad();
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent[0].contains("to='bob@x.org'") && !sent[0].contains("type="));
    assert!(sent[1].contains("to='bob@x.org'") && sent[1].contains("type='probe'"));
    assert!(sent[2].contains("to='to@x.org'") && sent[2].contains("type='probe'"));
    // A contact that is removed while it is blocked learns the end of the subscriptions and nothing else.
    blocked(&mut world, alice, "block", &[BOB]);
    world.sent_abroad();
    world.say(
        alice,
        "<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='bob@x.org' subscription='remove'/></query></iq>",
    );
    let sent = world.sent_abroad();
    assert!(
        sent.len() == 2 && sent[0].contains("'unsubscribe'") && sent[1].contains("'unsubscribed'"),
        "{sent:?}"
    );
    // The room was left.
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    assert!(!world.sent_abroad().concat().contains("room@x.org"));
}

#[test]
fn a_list_that_cannot_be_written_has_no_effect() {
    let (mut world, alice) = world(&[(BOB, Subscription::Both)]);
    list(&mut world, alice);
    world.store.is_broken = true;
    let heard = blocked(&mut world, alice, "block", &[BOB]);
    assert!(heard.len() == 1 && heard[0].contains("resource-constraint"), "{heard:?}");
    assert!(world.sent_abroad().is_empty());
    assert!(!list(&mut world, alice).contains("item"));
}

#[test]
fn guests_may_block_until_they_leave() {
    let mut world = HostWorld::new(&[]);
    let guest = world.sign_in_as("guest@example.org/x", true);
    blocked(&mut world, guest, "block", &[BOB]);
    assert!(list(&mut world, guest).contains(BOB));
    assert_eq!(world.store.changes, []);
}

#[test]
fn a_contact_blocked_meanwhile_is_not_let_in_by_an_earlier_approval() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    // RFC 6121 §3.4: granted before it is asked for.
    world.say(alice, "<presence type='subscribed' to='eve@x.org'/>");
    world.is_slow = true;
    let block = "<block xmlns='urn:xmpp:blocking'><item jid='eve@x.org'/></block>";
    world.say(alice, &format!("<iq type='set' id='b'>{block}</iq>"));
    world.arrive("<presence type='subscribe' from='eve@x.org' to='alice@example.org'/>");
    world.arrive("<presence from='eve@x.org/1' to='alice@example.org'/>");
    world.hear(alice);
    while !world.unwritten.is_empty() {
        world.write();
    }
    let heard = world.hear(alice);
    assert!(heard.iter().all(|heard| heard.starts_with("<iq")), "{heard:?}");
    assert!(world.sent_abroad().is_empty());
}

#[test]
fn a_blocked_sender_leaves_no_account_in_memory() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = Bare::parse("alice@example.org").unwrap();
    world.store.users.get_mut(&alice).unwrap().blocked = vec![Jid::parse("eve@x.org").unwrap()];
    world.arrive("<message id='1' from='eve@x.org/1' to='alice@example.org'><body>hi</body></message>");
    assert!(world.sent_abroad()[0].contains("<service-unavailable"));
    assert!(world.host.accounts.users.is_empty() && world.host.accounts.idle.len() == 1);
}
