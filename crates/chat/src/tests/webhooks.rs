//! Events for applications: what is reported, once, and with which content.

use super::*;
use crate::webhooks::{WebhookEvent, WebhookKind, WebhookSettings};

fn world(kinds: &[WebhookKind], bodies: bool) -> HostWorld {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let webhooks = WebhookSettings { kinds: kinds.to_vec(), bodies };
    world.host.reload(Arc::new(HostSettings { webhooks, ..settings() }));
    world
}

/// The events since the last call: kind, sender, addressee or type, and text.
fn events(world: &mut HostWorld) -> Vec<String> {
    let show = |event: WebhookEvent| {
        let to = event.to.or(event.stanza_type).unwrap_or_default();
        let more = event.show.into_iter().chain(event.body).map(|text| format!(" {text}"));
        format!("{} {} {to}{}", event.kind.name(), event.from, more.collect::<String>())
    };
    std::mem::take(&mut world.events).into_iter().map(show).collect()
}

fn chat(to: &str) -> String {
    format!("<message type='chat' id='m' to='{to}'><body>hello</body></message>")
}

#[test]
fn a_message_is_reported_once_wherever_its_ends_are() {
    let mut world = world(&[WebhookKind::Message], false);
    let alice = world.sign_in("alice@example.org/desk");
    world.sign_in("bob@example.org/desk");
    world.say(alice, &chat("bob@example.org"));
    assert_eq!(world.events[0].stanza_id.as_deref(), Some("m"));
    assert!(world.events[0].archive_id.is_some());
    assert_eq!(events(&mut world), ["message alice@example.org/desk bob@example.org"]);
    world.say(alice, &chat("carol@other.org"));
    assert_eq!(events(&mut world), ["message alice@example.org/desk carol@other.org"]);
    world.arrive(
        "<message type='chat' from='carol@other.org/1' to='bob@example.org'><body>x</body></message>",
    );
    assert_eq!(events(&mut world), ["message carol@other.org/1 bob@example.org"]);
}

#[test]
fn signals_of_the_moment_errors_and_refused_messages_are_not_reported() {
    let mut world = world(&WebhookKind::ALL, true);
    let alice = world.sign_in("alice@example.org/desk");
    world.events.clear();
    let state = "<message type='chat' to='bob@example.org'><active xmlns='http://jabber.org/protocol/chatstates'/></message>";
    world.say(alice, state);
    world.arrive(
        "<message type='error' from='carol@other.org/1' to='alice@example.org/desk'><body>x</body></message>",
    );
    world.arrive(
        "<message type='chat' from='carol@other.org/1' to='ghost@example.org'><body>x</body></message>",
    );
    assert_eq!(events(&mut world), [""; 0]);
}

#[test]
fn texts_and_states_are_in_events_only_if_an_application_is_to_have_them() {
    for (bodies, message, presence) in [
        (
            false,
            "message alice@example.org/desk bob@example.org",
            "presence alice@example.org/desk available away",
        ),
        (
            true,
            "message alice@example.org/desk bob@example.org hello",
            "presence alice@example.org/desk available away at lunch",
        ),
    ] {
        let mut world = world(&[WebhookKind::Message, WebhookKind::Presence], bodies);
        let alice = world.sign_in("alice@example.org/desk");
        world.say(alice, &chat("bob@example.org"));
        assert_eq!(events(&mut world), [message]);
        world.say(alice, "<presence><show>away</show><status>at lunch</status></presence>");
        assert_eq!(events(&mut world), [presence]);
    }
}

#[test]
fn a_session_and_its_presence_are_reported_from_begin_to_end() {
    use WebhookKind::{Presence, SessionBegin, SessionEnd};
    let mut world = world(&[Presence, SessionBegin, SessionEnd], false);
    let alice = world.sign_in("alice@example.org/desk");
    assert_eq!(events(&mut world), ["session_begin alice@example.org/desk "]);
    world.say(alice, "<presence/>");
    world.say(alice, "<presence type='unavailable'/>");
    world.say(alice, "<presence type='unavailable'/>");
    world.say(alice, "<presence to='carol@other.org'/>");
    let expected =
        ["presence alice@example.org/desk available", "presence alice@example.org/desk unavailable"];
    assert_eq!(events(&mut world), expected, "directed presence is not shown to contacts");
    world.say(alice, "<presence/>");
    events(&mut world);
    world.lose(alice);
    let expected = ["presence alice@example.org/desk unavailable", "session_end alice@example.org/desk "];
    assert_eq!(events(&mut world), expected);
}

#[test]
fn a_session_that_waits_to_be_resumed_has_not_ended() {
    let mut world = world(&[WebhookKind::SessionEnd], false);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    world.lose(alice);
    assert_eq!(events(&mut world), [""; 0]);
    world.wait(Duration::from_secs(301));
    assert_eq!(events(&mut world), ["session_end alice@example.org/desk "]);
}

#[test]
fn a_message_in_a_room_is_reported_once_with_the_address_of_its_sender() {
    let mut world = world(&[WebhookKind::Message, WebhookKind::RoomMessage], true);
    let alice = world.sign_in("alice@example.org/desk");
    let room = "den@conference.example.org";
    world.say(alice, &format!("<presence to='{room}/owner'><x xmlns='{}'/></presence>", ns::MUC));
    let form = "<x xmlns='jabber:x:data' type='submit'/>";
    world.say(
        alice,
        &format!("<iq type='set' id='c' to='{room}'><query xmlns='{}'>{form}</query></iq>", ns::MUC_OWNER),
    );
    let bob = world.sign_in("bob@example.org/desk");
    world.say(bob, &format!("<presence to='{room}/guest'><x xmlns='{}'/></presence>", ns::MUC));
    world.say(bob, &format!("<message type='groupchat' id='g' to='{room}'><body>hi all</body></message>"));
    assert_eq!(events(&mut world), [format!("room_message bob@example.org/desk {room} hi all")]);
    world.say(alice, &format!("<message type='groupchat' to='{room}'><subject>tea</subject></message>"));
    assert_eq!(events(&mut world), [""; 0]);
    // Its copy for the other occupant comes from the room.
    world.say(alice, &format!("<message type='chat' to='{room}/guest'><body>psst</body></message>"));
    assert_eq!(events(&mut world), [format!("message alice@example.org/desk {room}/guest psst")]);
}

#[test]
fn nothing_is_reported_when_no_application_is_to_have_it() {
    let mut world = world(&[], true);
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.say(alice, &chat("bob@example.org"));
    world.lose(alice);
    assert_eq!(events(&mut world), [""; 0]);
}
