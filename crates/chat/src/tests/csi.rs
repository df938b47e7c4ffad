//! The stanzas that an inactive client receives, and when (XEP-0352).

use super::*;

const STATE: &str = "<composing xmlns='http://jabber.org/protocol/chatstates'/>";

fn world() -> (HostWorld, u64) {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/phone");
    world.say(alice, "<presence/>");
    world.hear(alice);
    world.say(alice, "<inactive xmlns='urn:xmpp:csi:0'/>");
    (world, alice)
}

fn arrive(world: &mut HostWorld, name: &str, from: &str, inner: &str) {
    world.arrive(&format!("<{name} from='{from}' to='alice@example.org/phone'>{inner}</{name}>"));
}

fn show(world: &mut HostWorld, from: &str, show: &str) {
    arrive(world, "presence", from, &format!("<show>{show}</show>"));
}

#[test]
fn of_presence_the_last_of_each_is_told_before_the_next_words() {
    let (mut world, alice) = world();
    show(&mut world, "eve@x.org/1", "away");
    show(&mut world, "bob@x.org/1", "away");
    show(&mut world, "eve@x.org/1", "dnd");
    show(&mut world, "eve@x.org/2", "xa");
    arrive(&mut world, "message", "eve@x.org/1", "<event xmlns='http://jabber.org/protocol/pubsub#event'/>");
    assert!(world.hear(alice).is_empty());
    arrive(&mut world, "message", "eve@x.org/1", "<body>hi</body>");
    let heard = world.hear(alice);
    let expected = ["away", "dnd", "xa", "pubsub#event", "hi"];
    assert_eq!(heard.len(), expected.len(), "{heard:?}");
    assert!(heard.iter().zip(expected).all(|(xml, expected)| xml.contains(expected)), "{heard:?}");
}

#[test]
fn chat_states_are_dropped_in_carbons_too() {
    let (mut world, alice) = world();
    arrive(&mut world, "message", "eve@x.org/1", STATE);
    let carbon = format!(
        "<received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'>{STATE}</message></forwarded></received>"
    );
    arrive(&mut world, "message", "alice@example.org", &carbon);
    world.say(alice, "<active xmlns='urn:xmpp:csi:0'/>");
    assert!(world.hear(alice).is_empty());
    arrive(&mut world, "message", "eve@x.org/1", STATE);
    assert_eq!(world.hear(alice).len(), 1);
}

#[test]
fn urgent_stanzas_are_not_kept_back() {
    let (mut world, alice) = world();
    arrive(&mut world, "message", "eve@x.org/1", &format!("<body>hi</body>{STATE}"));
    arrive(&mut world, "message", "eve@x.org/1", "<received xmlns='urn:xmpp:receipts' id='1'/>");
    arrive(
        &mut world,
        "presence",
        "r@x.org/n",
        "<x xmlns='http://jabber.org/protocol/muc#user'><status code='110'/></x>",
    );
    arrive(&mut world, "message", "eve@x.org/1", "<result xmlns='urn:xmpp:mam:2'/>");
    world.say(alice, "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert_eq!(world.hear(alice).len(), 5);
}

#[test]
fn an_active_client_gets_the_kept_stanzas_and_all_from_then_on() {
    let (mut world, alice) = world();
    show(&mut world, "eve@x.org/1", "away");
    world.say(alice, "<active xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(world.hear(alice).len(), 1);
    show(&mut world, "eve@x.org/1", "dnd");
    assert_eq!(world.hear(alice).len(), 1);
}

#[test]
fn no_more_is_kept_back_than_may_be() {
    let (mut world, alice) = world();
    for number in 0..=crate::limits::CSI_HELD {
        assert!(world.hear(alice).is_empty());
        show(&mut world, &format!("eve@x.org/{number}"), "away");
    }
    assert_eq!(world.hear(alice).len(), crate::limits::CSI_HELD + 1);
}

#[test]
fn a_resumed_session_is_active_and_has_the_kept_stanzas() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/phone");
    world.say(alice, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = world.hear(alice).pop().unwrap();
    let (_, id) = enabled.split_once(" id='").unwrap();
    let id = id.split_once('\'').unwrap().0;
    world.say(alice, "<inactive xmlns='urn:xmpp:csi:0'/>");
    world.lose(alice);
    show(&mut world, "eve@x.org/1", "away");
    let again = world.resume("alice@example.org", id, 0);
    assert!(world.hear(again)[0].contains("away"));
    show(&mut world, "eve@x.org/1", "dnd");
    assert_eq!(world.hear(again).len(), 1);
}
