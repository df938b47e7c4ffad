//! Stanzas that no correct client sends: each has the answer that the text names, and no other effect.

use super::*;
use crate::limits;

/// The one answer to the client; there is no other effect.
fn only(world: &mut HostWorld, client: u64, xml: &str) -> String {
    world.say(client, xml);
    let mut heard = world.hear(client);
    assert!(heard.len() == 1 && world.abroad.is_empty(), "{xml}: {heard:?} {:?}", world.abroad);
    heard.remove(0)
}

fn world() -> (HostWorld, u64, u64) {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let (alice, bob) = (world.sign_in("alice@example.org/desk"), world.sign_in("bob@example.org/desk"));
    world.say(alice, "<presence/>");
    world.say(bob, "<presence/>");
    world.hear(alice);
    world.hear(bob);
    (world, alice, bob)
}

#[test]
fn invalid_stanzas_of_any_kind_are_refused() {
    let (mut world, alice, bob) = world();
    let long = "x".repeat(limits::PRESENCE);
    for (xml, condition) in [
        ("<iq type='get' id='1'/>", "bad-request"),
        ("<iq type='get' id='1'><a xmlns='urn:a'/><b xmlns='urn:b'/></iq>", "bad-request"),
        ("<iq id='1'><a xmlns='urn:a'/></iq>", "bad-request"),
        ("<iq type='ask' id='1'><a xmlns='urn:a'/></iq>", "bad-request"),
        // Known words of a namespace that is not known.
        ("<iq type='get' id='1'><query xmlns='jabber:iq:roster2'/></iq>", "service-unavailable"),
        ("<iq type='get' id='1'><query/></iq>", "service-unavailable"),
        (
            "<iq type='get' id='1'><x:query xmlns:x='urn:x' xmlns='jabber:iq:roster'/></iq>",
            "service-unavailable",
        ),
        ("<iq type='get' id='1' to='bob@@example.org'><a xmlns='urn:a'/></iq>", "jid-malformed"),
        ("<message to='/x' id='1'><body>x</body></message>", "jid-malformed"),
        ("<message to='bob@exa mple.org' id='1'><body>x</body></message>", "jid-malformed"),
        ("<presence type='here'/>", "bad-request"),
        ("<presence to='bob@example.org' type='here'/>", "bad-request"),
        ("<presence><priority>128</priority></presence>", "bad-request"),
        (&format!("<presence><status>{long}</status></presence>"), "policy-violation"),
        (&format!("<presence to='bob@example.org'><status>{long}</status></presence>"), "policy-violation"),
    ] {
        let answer = only(&mut world, alice, xml);
        assert!(answer.contains(&format!("<{condition}")), "{}: {answer}", &xml[..xml.len().min(90)]);
        assert!(world.hear(bob).is_empty(), "{xml}");
    }
    // An error is never answered, nor what might be one.
    for xml in [
        "<iq type='error' id='1' to='ghost@example.org'><a xmlns='urn:a'/></iq>",
        "<iq type='result' id='1' to='example.org'/>",
        "<message type='error' to='ghost@example.org'><body>x</body></message>",
        "<presence type='error' to='ghost@example.org'/>",
    ] {
        world.say(alice, xml);
        assert!(world.hear(alice).is_empty(), "{xml}");
    }
}

/// A word counts in its own namespace only.
#[test]
fn children_of_other_namespaces_are_not_taken_for_ours() {
    let (mut world, alice, bob) = world();
    world.say(bob, "<presence type='unavailable'/>");
    world.hear(bob);
    world.say(alice, "<message to='bob@example.org'><body xmlns='urn:x'>x</body></message>");
    assert!(world.store.messages.offline.is_empty() && world.store.messages.archive.is_empty());
    assert!(world.hear(alice)[0].contains("<service-unavailable"), "an extension without text");
    world.say(alice, "<message to='bob@example.org'><body>x</body><no-store xmlns='urn:x'/></message>");
    assert_eq!(world.store.messages.offline.len(), 1, "that hint is unknown");
    // Nor in the stanza's: it is the server's own word.
    world.say(alice, "<handled xmlns='urn:belfry:handled' to='bob@example.org/desk' mark='0.1'/>");
    world.arrive("<handled xmlns='urn:belfry:handled' from='x.org' to='bob@example.org/desk' mark='0.1'/>");
    assert!(world.hear(bob).is_empty() && world.hear(alice).is_empty());
}

#[test]
fn a_user_of_another_server_has_no_rights_of_a_local_one() {
    let (mut world, alice, _) = world();
    let own = [
        "<query xmlns='jabber:iq:roster'/>",
        "<blocklist xmlns='urn:xmpp:blocking'/>",
        "<query xmlns='urn:xmpp:mam:2'/>",
        "<prefs xmlns='urn:xmpp:mam:2'/>",
        "<query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query>",
        "<offline xmlns='http://jabber.org/protocol/offline'><fetch/></offline>",
        "<enable xmlns='urn:xmpp:carbons:2'/>",
        "<enable xmlns='urn:xmpp:push:0' jid='push.x.org' node='n'/>",
    ];
    for payload in own {
        for kind in ["get", "set"] {
            for from in ["eve@x.org/1", "alice@x.org/desk", "x.org"] {
                world.arrive(&format!(
                    "<iq type='{kind}' id='1' from='{from}' to='alice@example.org'>{payload}</iq>"
                ));
                let answers = world.sent_abroad();
                // RFC 6121 §2.3.3, XEP-0313 §8.1.
                let is_roster_set = kind == "set" && payload.contains("jabber:iq:roster");
                let is_forbidden = is_roster_set || payload.contains("urn:xmpp:mam:2");
                let condition = if is_forbidden { "<forbidden" } else { "<service-unavailable" };
                assert!(answers.len() == 1 && answers[0].contains(condition), "{payload}: {answers:?}");
            }
        }
    }
    assert!(world.store.changes.is_empty() && world.hear(alice).is_empty());
    // A stanza whose sender is invalid is not answered.
    world.arrive("<message from='@' to='alice@example.org'><body>x</body></message>");
    world.arrive("<iq type='get' id='1' from='a b@x' to='alice@example.org'><a xmlns='urn:a'/></iq>");
    assert!(world.sent_abroad().is_empty() && world.hear(alice).is_empty());
}
