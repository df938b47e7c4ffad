//! Notifications (XEP-0357).

use super::*;

const PUSH: &str = "urn:xmpp:push:0";
const BODY: &str = "<body>a secret</body>";

fn world() -> HostWorld {
    HostWorld::new(&["alice@example.org", "bob@example.org"])
}

fn set(world: &mut HostWorld, client: u64, payload: &str) -> String {
    world.hear(client);
    world.say(client, &format!("<iq type='set' id='p'>{payload}</iq>"));
    world.hear(client).pop().unwrap()
}

fn enable(node: &str) -> String {
    format!("<enable xmlns='{PUSH}' jid='push.x.org' node='{node}'/>")
}

fn arrive(world: &mut HostWorld, inner: &str) {
    world
        .arrive(&format!("<message from='eve@x.org/1' to='alice@example.org' type='chat'>{inner}</message>"));
}

/// A phone with resumption and notifications; its session's id.
fn phone(world: &mut HostWorld) -> (u64, String) {
    let phone = world.sign_in("alice@example.org/phone");
    world.say(phone, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = world.hear(phone).pop().unwrap();
    let id = enabled.split_once(" id='").unwrap().1.split_once('\'').unwrap().0.to_owned();
    assert!(set(world, phone, &enable("phone")).contains("type='result'"));
    world.say(phone, "<presence/>");
    let heard = world.hear(phone).len();
    assert!(heard > 0);
    (phone, id)
}

fn counts(world: &mut HostWorld) -> Vec<String> {
    let sent = world.sent_abroad().into_iter().filter(|xml| xml.starts_with("<iq"));
    let count = |xml: String| {
        let (_, rest) = xml.split_once("<field var='message-count'><value>").unwrap();
        rest.split_once('<').unwrap().0.to_owned()
    };
    sent.map(count).collect()
}

#[test]
fn an_absent_user_is_notified_of_waiting_messages() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/phone");
    let options =
        "<x xmlns='jabber:x:data' type='submit'><field var='secret'><value>eruio</value></field></x>";
    let payload = format!("<enable xmlns='{PUSH}' jid='push.x.org' node='n'>{options}</enable>");
    assert!(set(&mut world, alice, &payload).contains("type='result'"));
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    arrive(&mut world, BODY);
    let sent = world.sent_abroad();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].contains("from='alice@example.org' to='push.x.org'"), "{sent:?}");
    assert!(sent[0].contains("<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item><notification xmlns='urn:xmpp:push:0'>"), "{sent:?}");
    assert!(sent[0].contains("<value>urn:xmpp:push:summary</value>"), "{sent:?}");
    assert!(sent[0].contains("<publish-options>") && sent[0].contains("<value>eruio</value>"), "{sent:?}");
    assert!(!sent[0].contains("secret</body>") && !sent[0].contains("eve@"), "{sent:?}");
    arrive(&mut world, BODY);
    assert_eq!(counts(&mut world), ["2"]);
}

#[test]
fn a_sleeping_session_is_notified_and_an_awake_one_is_not() {
    let mut world = world();
    let (client, id) = phone(&mut world);
    let desk = world.sign_in("alice@example.org/desk");
    world.say(desk, "<presence/>");
    arrive(&mut world, BODY);
    assert!(counts(&mut world).is_empty());
    world.say(client, "<a xmlns='urn:xmpp:sm:3' h='4'/>");
    world.lose(client);
    assert!(counts(&mut world).is_empty());
    // With the desk awake it is told too.
    arrive(&mut world, BODY);
    arrive(&mut world, "<encrypted xmlns='eu.siacs.conversations.axolotl'/>");
    arrive(&mut world, "<propose xmlns='urn:xmpp:jingle-message:0' id='1'/>");
    assert_eq!(counts(&mut world), ["1", "2", "3"]);
    for quiet in [
        "<received xmlns='urn:xmpp:receipts' id='1'/>",
        "<x xmlns='urn:x'/>",
        "<body>hi</body><no-store xmlns='urn:xmpp:hints'/>",
    ] {
        arrive(&mut world, quiet);
        assert!(counts(&mut world).is_empty(), "{quiet}");
    }
    world.say(desk, "<message to='alice@example.org' type='chat'><body>note</body></message>");
    assert!(counts(&mut world).is_empty());
    let again = world.resume("alice@example.org", &id, 4);
    assert!(matches!(world.bound[&again], Bound::Resumed { .. }));
    arrive(&mut world, BODY);
    assert!(counts(&mut world).is_empty());
}

#[test]
fn messages_in_flight_when_the_connection_is_lost_cause_a_notification() {
    let mut world = world();
    let (client, _) = phone(&mut world);
    arrive(&mut world, BODY);
    arrive(&mut world, "<received xmlns='urn:xmpp:receipts' id='1'/>");
    world.lose(client);
    assert_eq!(counts(&mut world), ["1"]);
}

#[test]
fn a_client_that_disables_notifications_gets_none() {
    for (by, disable) in [
        ("node", format!("<disable xmlns='{PUSH}' jid='push.x.org' node='a'/>")),
        ("service", format!("<disable xmlns='{PUSH}' jid='push.x.org'/>")),
    ] {
        let mut world = world();
        let alice = world.sign_in("alice@example.org/phone");
        for node in ["a", "b"] {
            set(&mut world, alice, &enable(node));
        }
        assert!(set(&mut world, alice, &disable).contains("type='result'"));
        world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
        arrive(&mut world, BODY);
        assert_eq!(counts(&mut world).len(), usize::from(by == "node"), "{by}");
    }
}

#[test]
fn a_service_that_refuses_is_not_asked_again() {
    for (from, kind, condition, is_told) in [
        ("push.x.org", "cancel", "item-not-found", false),
        ("push.x.org", "modify", "not-acceptable", false),
        ("push.x.org", "cancel", "", false),
        ("push.x.org", "wait", "resource-constraint", true),
        // The service was never asked: this server could not connect to it.
        ("push.x.org", "cancel", "remote-server-not-found", true),
        ("push.x.org", "wait", "remote-server-timeout", true),
        ("eve.x.org", "cancel", "item-not-found", true),
    ] {
        let condition = match condition {
            "" => String::new(),
            name => format!("<{name} xmlns='{}'/>", ns::STANZA_ERRORS),
        };
        let error = format!("<error type='{kind}'>{condition}</error>");
        let mut world = world();
        let alice = world.sign_in("alice@example.org/phone");
        set(&mut world, alice, &enable("n"));
        world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
        arrive(&mut world, BODY);
        let id = world.abroad.pop().unwrap().attr("id").unwrap().to_owned();
        world
            .arrive(&format!("<iq type='error' id='{id}' from='{from}' to='alice@example.org'>{error}</iq>"));
        world.abroad.clear();
        arrive(&mut world, BODY);
        assert_eq!(!world.abroad.is_empty(), is_told, "{from} {error}");
    }
}

#[test]
fn wrong_requests_are_refused() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/phone");
    let long = "x".repeat(crate::limits::PUSH_OPTIONS);
    for (payload, condition) in [
        (format!("<enable xmlns='{PUSH}'/>"), "bad-request"),
        (format!("<disable xmlns='{PUSH}'/>"), "bad-request"),
        (format!("<enable xmlns='{PUSH}' jid='@'/>"), "jid-malformed"),
        (enable(&long), "policy-violation"),
    ] {
        assert!(set(&mut world, alice, &payload).contains(condition));
    }
    let bob = world.sign_in("bob@example.org/x");
    world.say(bob, &format!("<iq type='set' id='p' to='alice@example.org'>{}</iq>", enable("n")));
    assert!(world.hear(bob)[0].contains("service-unavailable"));
    let guest = world.sign_in_as("guest@example.org/x", true);
    assert!(set(&mut world, guest, &enable("n")).contains("not-allowed"));
    world.store.is_broken = true;
    assert!(set(&mut world, alice, &enable("n")).contains("resource-constraint"));
    assert!(
        set(&mut world, alice, &format!("<disable xmlns='{PUSH}' jid='push.x.org'/>"))
            .contains("resource-constraint")
    );
}

#[test]
fn of_too_many_clients_the_oldest_is_forgotten() {
    let mut world = world();
    let alice = world.sign_in("alice@example.org/phone");
    for node in 0..=crate::limits::PUSH_CLIENTS {
        set(&mut world, alice, &enable(&node.to_string()));
    }
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    arrive(&mut world, BODY);
    assert_eq!(world.abroad.len(), crate::limits::PUSH_CLIENTS as usize);
    assert!(!world.sent_abroad().iter().any(|xml| xml.contains("node='0'")));
}
