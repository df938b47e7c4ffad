//! Carbons (XEP-0280).

use super::*;

const ENABLE: &str = "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";

/// Alice at her desk and with her phone, which both want copies, and with a tablet that does not.
fn world() -> (HostWorld, [u64; 3]) {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let clients = ["desk", "phone", "tablet"].map(|name| {
        let client = world.sign_in(&format!("alice@example.org/{name}"));
        if name != "tablet" {
            world.say(client, ENABLE);
            assert!(world.hear(client)[0].contains("type='result'"));
        }
        client
    });
    for client in clients {
        world.say(client, "<presence/>");
    }
    for client in clients {
        world.hear(client);
    }
    (world, clients)
}

#[test]
fn the_other_sessions_see_messages_that_one_sends() {
    let (mut world, [desk, phone, tablet]) = world();
    world.say(desk, "<message to='eve@x.org/1' type='chat' id='m'><body>hi</body></message>");
    let heard = world.hear(phone);
    assert_eq!(heard.len(), 1);
    assert!(heard[0].starts_with("<message from='alice@example.org' to='alice@example.org/phone' type='chat'><sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'"), "{heard:?}");
    assert!(heard[0].contains("from='alice@example.org/desk'") && heard[0].contains("<body>hi</body>"));
    assert!(world.hear(desk).is_empty() && world.hear(tablet).is_empty());
}

#[test]
fn the_other_sessions_see_messages_that_one_gets() {
    let (mut world, [desk, phone, tablet]) = world();
    world.arrive(
        "<message from='eve@x.org/1' to='alice@example.org/tablet' type='chat'><body>hi</body></message>",
    );
    assert!(!world.hear(tablet)[0].contains("carbons"));
    for client in [desk, phone] {
        let heard = world.hear(client);
        assert!(heard.len() == 1 && heard[0].contains("<received xmlns='urn:xmpp:carbons:2'>"), "{heard:?}");
    }
    // A client that gets the message itself needs no copy; a client with negative priority does.
    world.say(phone, "<presence><priority>-1</priority></presence>");
    for client in [desk, phone, tablet] {
        world.hear(client);
    }
    world.arrive("<message from='eve@x.org/1' to='alice@example.org' type='chat'><body>hi</body></message>");
    assert!(world.hear(phone)[0].contains("<received xmlns='urn:xmpp:carbons:2'>"));
    for client in [desk, tablet] {
        let heard = world.hear(client);
        assert!(heard.len() == 1 && !heard[0].contains("carbons"), "{heard:?}");
    }
}

#[test]
fn a_message_between_sessions_of_one_user_comes_once_to_each() {
    let (mut world, [desk, phone, tablet]) = world();
    world.say(desk, "<message to='alice@example.org/phone' type='chat'><body>hi</body></message>");
    assert!(world.hear(desk).is_empty() && world.hear(tablet).is_empty());
    let heard = world.hear(phone);
    assert!(heard.len() == 1 && !heard[0].contains("carbons"), "{heard:?}");
    world.say(desk, "<message to='alice@example.org' type='chat'><body>hi</body></message>");
    assert_eq!([desk, phone, tablet].map(|client| world.hear(client).len()), [1, 1, 1]);
}

#[test]
fn only_talk_is_copied_and_only_when_it_may_be() {
    let (mut world, [desk, phone, _]) = world();
    for (message, sent, received) in [
        ("type='chat'><x xmlns='urn:x'/>", true, true),
        ("><body>hi</body>", true, true),
        ("><received xmlns='urn:xmpp:receipts' id='1'/>", true, true),
        ("><x xmlns='urn:x'/>", false, false),
        ("type='headline'><body>hi</body>", false, false),
        ("type='groupchat'><body>hi</body>", false, false),
        ("type='error'><body>hi</body>", true, true),
        ("type='error'><x xmlns='urn:x'/>", false, false),
        ("type='chat'><body>hi</body><private xmlns='urn:xmpp:carbons:2'/>", false, false),
        ("type='chat'><body>hi</body><no-copy xmlns='urn:xmpp:hints'/>", false, false),
        ("type='chat'><body>hi</body><x xmlns='http://jabber.org/protocol/muc#user'/>", true, false),
        ("><x xmlns='http://jabber.org/protocol/muc#user'><invite/></x>", true, true),
        ("type='groupchat'><body>hi</body><x xmlns='http://jabber.org/protocol/muc#user'/>", false, false),
        ("type='headline'><body>hi</body><x xmlns='http://jabber.org/protocol/muc#user'/>", false, false),
        ("type='error'><x xmlns='http://jabber.org/protocol/muc#user'/>", false, false),
        ("><x xmlns='jabber:x:conference' jid='r@x.org'/>", true, true),
        ("type='chat'><result xmlns='urn:xmpp:mam:2'/>", false, false),
        ("type='chat'><sent xmlns='urn:xmpp:carbons:2'/>", false, false),
    ] {
        world.say(desk, &format!("<message to='eve@x.org/1' {message}</message>"));
        assert_eq!(world.hear(phone).len(), usize::from(sent), "sent: {message}");
        world.arrive(&format!("<message from='eve@x.org/1' to='alice@example.org/desk' {message}</message>"));
        assert_eq!(world.hear(phone).len(), usize::from(received), "received: {message}");
        assert!(world.hear(desk).iter().all(|xml| !xml.contains("<private")), "{message}");
    }
}

#[test]
fn copies_end_when_they_are_not_wanted_any_more() {
    let (mut world, [desk, phone, _]) = world();
    world.say(phone, "<iq type='set' id='c'><disable xmlns='urn:xmpp:carbons:2'/></iq>");
    world.hear(phone);
    world.say(desk, "<message to='eve@x.org/1' type='chat'><body>hi</body></message>");
    assert!(world.hear(phone).is_empty());
    world.say(phone, &ENABLE.replace("set", "get"));
    assert!(world.hear(phone)[0].contains("bad-request"));
    // A client cannot switch carbons of another account.
    world.say(phone, &ENABLE.replace("id=", "to='bob@example.org' id="));
    assert!(world.hear(phone)[0].contains("service-unavailable"));
}

#[test]
fn with_bind_2_they_are_enabled_at_once() {
    let (mut world, [desk, ..]) = world();
    let enable = Element::new("enable", ns::CARBONS);
    let laptop = world.sign_in_with("alice@example.org/laptop", false, vec![enable]);
    world.say(desk, "<message to='eve@x.org/1' type='chat'><body>hi</body></message>");
    assert_eq!(world.hear(laptop).len(), 1);
}
