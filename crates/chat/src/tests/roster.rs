//! Contacts.

use super::effect::{RosterItem, Subscription};
use super::*;

fn get(world: &mut HostWorld, client: u64, ver: &str) -> String {
    world.say(client, &format!("<iq type='get' id='r'><query xmlns='jabber:iq:roster'{ver}/></iq>"));
    world.hear(client).pop().unwrap()
}

fn set(world: &mut HostWorld, client: u64, items: &str) -> Vec<String> {
    world.say(client, &format!("<iq type='set' id='s'><query xmlns='jabber:iq:roster'>{items}</query></iq>"));
    world.hear(client)
}

#[test]
fn a_contact_is_stored_pushed_to_interested_clients_and_answered() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let desk = world.sign_in("alice@example.org/desk");
    let phone = world.sign_in("alice@example.org/phone");
    let unaware = world.sign_in("alice@example.org/unaware");
    assert!(get(&mut world, desk, "").ends_with("<query xmlns='jabber:iq:roster'/></iq>"));
    get(&mut world, phone, "");
    let heard = set(
        &mut world,
        desk,
        "<item jid='Bob@example.org/x' name='Bob' subscription='both' ask='subscribe' approved='true'>\
         <group>Work</group><group>Friends</group></item>",
    );
    let item = "<item jid='bob@example.org' name='Bob' subscription='none'>\
                <group>Friends</group><group>Work</group></item>";
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].contains("type='set'") && heard[0].contains("ver='1'") && heard[0].contains(item));
    assert!(heard[1].contains("type='result'") && heard[1].contains("id='s'"), "{heard:?}");
    assert!(world.hear(phone)[0].contains(item));
    assert!(world.hear(unaware).is_empty());
    assert!(get(&mut world, unaware, "").contains(item));
    assert!(matches!(&world.store.changes[..], [Change::Roster { version: 1, item: Some(item), .. }]
        if item.is_listed && item.version == 1));
}

#[test]
fn a_version_that_is_current_is_answered_by_nothing() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    assert!(get(&mut world, alice, " ver=''").contains("<query xmlns='jabber:iq:roster' ver='0'/>"));
    set(&mut world, alice, "<item jid='bob@example.org'/>");
    let old = get(&mut world, alice, " ver='0'");
    assert!(old.contains("ver='1'") && old.contains("bob@example.org"), "{old}");
    assert!(!get(&mut world, alice, " ver='1'").contains("query"));
    // Later changes are still pushed.
    assert!(set(&mut world, alice, "<item jid='carol@example.org'/>")[0].contains("ver='2'"));
}

#[test]
fn invalid_contacts_are_refused() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    let long = "x".repeat(crate::limits::CONTACT_NAME + 1);
    let groups: String = (0..=crate::limits::CONTACT_GROUPS).map(|n| format!("<group>{n}</group>")).collect();
    for (items, condition) in [
        (String::new(), "bad-request"),
        ("<item jid='b@x.org'/><item jid='c@x.org'/>".to_owned(), "bad-request"),
        ("<item/>".to_owned(), "bad-request"),
        ("<item jid='b@x.org'><group>A</group><group>A</group></item>".to_owned(), "bad-request"),
        ("<item jid='@'/>".to_owned(), "jid-malformed"),
        ("<item jid='alice@example.org'/>".to_owned(), "not-allowed"),
        (format!("<item jid='b@x.org' name='{long}'/>"), "not-acceptable"),
        (format!("<item jid='b@x.org'><group>{long}</group></item>"), "not-acceptable"),
        ("<item jid='b@x.org'><group/></item>".to_owned(), "not-acceptable"),
        (format!("<item jid='b@x.org'>{groups}</item>"), "not-acceptable"),
        ("<item jid='b@x.org' subscription='remove'/>".to_owned(), "item-not-found"),
    ] {
        let heard = set(&mut world, alice, &items);
        assert!(heard.len() == 1 && heard[0].contains(condition), "{items}: {heard:?}");
    }
    assert_eq!(world.store.changes, []);
}

/// RFC 6121 §2.3.3. The answer for an account that is not there is the same, so it tells nothing.
#[test]
fn a_roster_set_for_another_account_is_forbidden() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    for to in ["bob@example.org", "ghost@example.org"] {
        for (item, kind, condition) in [
            ("<item jid='eve@x.org'/>", "set", "<forbidden"),
            ("<item jid='eve@x.org' subscription='remove'/>", "set", "<forbidden"),
            ("", "get", "<service-unavailable"),
        ] {
            world.say(
                alice,
                &format!(
                    "<iq type='{kind}' id='1' to='{to}'><query xmlns='jabber:iq:roster'>{item}</query></iq>"
                ),
            );
            let heard = world.hear(alice);
            assert!(heard.len() == 1 && heard[0].contains(condition), "{to} {kind}: {heard:?}");
        }
    }
    assert!(world.store.changes.is_empty());
}

/// RFC 6121 §2.5.2: the item is removed, pushed and answered; then the other side learns of it.
#[test]
fn a_removal_is_answered_before_the_contact_learns_of_it() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    world.keep_rosters();
    let (alice, bob) = (Bare::parse("alice@example.org").unwrap(), Bare::parse("bob@example.org").unwrap());
    for (user, contact) in [(&alice, &bob), (&bob, &alice)] {
        let item = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
        world.store.users.get_mut(user).unwrap().roster.push((contact.clone(), item));
    }
    let desk = world.sign_in("alice@example.org/desk");
    world.say(desk, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    world.hear(desk);
    let edge_of = edge(desk);
    let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
    let set = "<iq type='set' id='s' from='alice@example.org/desk'><query xmlns='jabber:iq:roster'>\
        <item jid='bob@example.org' subscription='remove'/></query></iq>";
    let set = xmpp::xml::parse(set.as_bytes(), &prefixes).unwrap();
    let (mut asked, mut out) = (Outbox::new(), Outbox::new());
    world.host.handle_stanza(world.now, edge_of, set, &mut asked);
    let change = asked.into_iter().find_map(|effect| match effect {
        Effect::Change { ticket, .. } => Some(ticket),
        _ => None,
    });
    world.host.handle_store_reply(world.now, change.unwrap(), Ok(StoreReply::Done), &mut out);
    let order: Vec<String> = out
        .iter()
        .filter_map(|effect| match effect {
            Effect::Deliver { element, .. } => Some(format!("deliver {}", element.attr("type").unwrap())),
            Effect::Route(element) => Some(format!("route {}", element.attr("type").unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(order[..4], ["deliver set", "deliver result", "route unsubscribe", "route unsubscribed"]);
}

#[test]
fn a_roster_has_an_end() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let store = world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap();
    let item = effect::RosterItem { is_listed: true, ..Default::default() };
    store.roster = (0..crate::limits::CONTACTS)
        .map(|n| (Bare::parse(&format!("c{n}@x.org")).unwrap(), item.clone()))
        .collect();
    let alice = world.sign_in("alice@example.org/desk");
    assert!(set(&mut world, alice, "<item jid='more@x.org'/>")[0].contains("policy-violation"));
    world.say(alice, "<presence type='subscribe' to='more@x.org'/>");
    assert!(world.hear(alice)[0].contains("policy-violation"));
    assert!(world.sent_abroad().is_empty());
    // One that is known can still be changed.
    assert!(set(&mut world, alice, "<item jid='c1@x.org' name='One'/>")[0].contains("type='result'"));
}

#[test]
fn removal_of_a_contact_ends_its_subscriptions() {
    for (state, expected) in [
        ("to", &["unsubscribe"][..]),
        ("from", &["unsubscribed", "unavailable"]),
        ("both", &["unsubscribe", "unsubscribed", "unavailable"]),
        ("ask", &["unsubscribe"]),
        ("asked", &["unsubscribed"]),
        ("none", &[]),
    ] {
        let mut world = HostWorld::new(&["alice@example.org"]);
        let contact = Bare::parse("bob@x.org").unwrap();
        let item = effect::RosterItem {
            subscription: effect::Subscription::new(
                matches!(state, "to" | "both"),
                matches!(state, "from" | "both"),
            ),
            ask: state == "ask",
            asked: (state == "asked").then(|| Box::new(Element::new("presence", ns::CLIENT))),
            is_listed: true,
            ..Default::default()
        };
        let alice_jid = Bare::parse("alice@example.org").unwrap();
        world.store.users.get_mut(&alice_jid).unwrap().roster.push((contact, item));
        let alice = world.sign_in("alice@example.org/desk");
        world.say(alice, "<presence/>");
        get(&mut world, alice, "");
        world.sent_abroad();
        let heard = set(&mut world, alice, "<item jid='bob@x.org' subscription='remove'/>");
        assert!(heard[0].contains("subscription='remove'") && heard[1].contains("result"), "{heard:?}");
        let sent = world.sent_abroad();
        assert_eq!(sent.len(), expected.len(), "{state}: {sent:?}");
        for (sent, kind) in sent.iter().zip(expected) {
            assert!(sent.contains(&format!("type='{kind}'")) && sent.contains("to='bob@x.org'"), "{sent}");
        }
        assert!(!get(&mut world, alice, "").contains("bob"));
        assert!(world.store.users[&alice_jid].roster.is_empty());
    }
}

#[test]
fn nothing_is_said_before_it_is_written_and_the_next_one_waits() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    get(&mut world, alice, "");
    world.is_slow = true;
    assert!(set(&mut world, alice, "<item jid='bob@x.org'/>").is_empty());
    assert!(set(&mut world, alice, "<item jid='carol@x.org'/>").is_empty());
    world.say(alice, "<presence type='subscribe' to='bob@x.org'/>");
    assert_eq!(world.unwritten.len(), 1);
    assert!(!get(&mut world, alice, "").contains("bob"));
    world.write();
    let heard = world.hear(alice);
    assert!(heard.len() == 2 && heard[0].contains("bob@x.org") && heard[0].contains("ver='1'"), "{heard:?}");
    world.write();
    assert!(world.hear(alice)[0].contains("ver='2'"));
    assert!(world.sent_abroad().is_empty());
    world.write();
    assert!(world.hear(alice)[0].contains("ask='subscribe'"));
    assert!(world.sent_abroad()[0].contains("type='subscribe'"));
    assert!(world.unwritten.is_empty());
}

#[test]
fn a_client_that_leaves_during_a_change_leaves_nothing_behind() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    world.is_slow = true;
    set(&mut world, alice, "<item jid='bob@x.org'/>");
    set(&mut world, alice, "<item jid='carol@x.org'/>");
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    world.write();
    world.write();
    assert!(world.host.accounts.users.is_empty());
    world.is_slow = false;
    let alice = world.sign_in("alice@example.org/desk");
    assert!(get(&mut world, alice, " ver=''").contains("ver='2'"));
}

#[test]
fn too_many_changes_at_once_are_refused() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    world.is_slow = true;
    for n in 0..=crate::limits::CHANGES {
        assert!(set(&mut world, alice, &format!("<item jid='c{n}@x.org'/>")).is_empty(), "{n}");
    }
    assert!(set(&mut world, alice, "<item jid='last@x.org'/>")[0].contains("resource-constraint"));
    world.say(alice, "<presence type='subscribe' to='last@x.org'/>");
    assert!(world.hear(alice)[0].contains("resource-constraint"));
}

#[test]
fn a_record_that_fails_is_told() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    get(&mut world, alice, "");
    world.store.is_broken = true;
    for item in ["<item jid='bob@x.org'/>", "<item jid='carol@x.org'/>"] {
        let heard = set(&mut world, alice, item);
        assert!(heard.len() == 1 && heard[0].contains("resource-constraint"), "{heard:?}");
    }
    assert!(!get(&mut world, alice, "").contains("item"));
}

#[test]
fn anonymous_accounts_have_no_contacts() {
    let mut world = HostWorld::new(&[]);
    let guest = world.sign_in_as("guest@example.org/x", true);
    assert!(get(&mut world, guest, "").contains("<query xmlns='jabber:iq:roster'/>"));
    assert!(set(&mut world, guest, "<item jid='bob@x.org'/>")[0].contains("not-allowed"));
    world.say(guest, "<presence type='subscribe' to='bob@x.org'/>");
    assert!(world.hear(guest)[0].contains("not-allowed"));
    world.arrive("<presence type='subscribe' from='bob@x.org' to='guest@example.org'/>");
    assert!(world.sent_abroad()[0].contains("unsubscribed"));
    world.say(guest, "<presence/>");
    world.tell(|host, now, out| host.handle_gone(now, edge(guest), true, out));
    assert_eq!(world.store.changes, []);
}
