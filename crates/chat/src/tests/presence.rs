//! Presence: availability, its subscribers, and subscriptions.

use proptest::prelude::*;

use super::effect::{RosterItem, Subscription};
use super::*;
use crate::presence::subscription::SubscriptionState;

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@x.org";

fn contact(world: &mut HostWorld, user: &str, contact: &str, subscription: Subscription) {
    let item = RosterItem { subscription, is_listed: true, ..Default::default() };
    let store = world.store.users.get_mut(&Bare::parse(user).unwrap()).unwrap();
    store.roster.push((Bare::parse(contact).unwrap(), item));
}

fn item(world: &HostWorld, user: &str, contact: &str) -> Option<RosterItem> {
    let store = &world.store.users[&Bare::parse(user).unwrap()];
    store.contact(&Bare::parse(contact).unwrap()).cloned()
}

/// Signed in, interested and available; the resulting stanzas are dropped.
fn here(world: &mut HostWorld, jid: &str) -> u64 {
    let client = world.sign_in(jid);
    world.say(client, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    world.say(client, "<presence/>");
    world.hear(client);
    world.sent_abroad();
    client
}

/// RFC 6121 §4.5.2: "the user's server MUST also broadcast the unavailable notification to all of the user's available
/// resources (as well as to the resource that generated the unavailable presence in the first place)".
#[test]
fn unavailable_presence_comes_back_to_its_sender() {
    let mut world = HostWorld::new(&[ALICE]);
    let (desk, phone) =
        (here(&mut world, "alice@example.org/desk"), here(&mut world, "alice@example.org/phone"));
    world.hear(desk);
    let gone = "<presence type='unavailable'><status>bye</status></presence>";
    for client in [desk, phone] {
        world.say(client, gone);
        let heard = world.hear(client);
        assert!(heard.len() == 1 && heard[0].contains("<status>bye</status>"), "{heard:?}");
        let heard = world.hear(phone);
        assert_eq!(
            heard.len(),
            usize::from(client == desk),
            "the other session, while it is there: {heard:?}"
        );
    }
    // A session that is not available has nothing to take back.
    world.say(desk, gone);
    assert!(world.hear(desk).is_empty());
}

#[test]
fn two_people_subscribe_to_each_other_and_see_each_other() {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let (alice, bob) =
        (here(&mut world, "alice@example.org/desk"), here(&mut world, "bob@example.org/phone"));
    world.say(
        alice,
        "<presence type='subscribe' to='bob@example.org/phone' id='1'><status>hi</status></presence>",
    );
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("ask='subscribe'"), "{heard:?}");
    let heard = world.hear(bob);
    assert_eq!(heard.len(), 1);
    for part in
        ["type='subscribe'", "from='alice@example.org'", "to='bob@example.org'", "<status>hi</status>"]
    {
        assert!(heard[0].contains(part), "{part}: {heard:?}");
    }
    world.say(bob, "<presence type='subscribed' to='alice@example.org'/>");
    let heard = world.hear(bob);
    assert!(heard.len() == 1 && heard[0].contains("subscription='from'"), "{heard:?}");
    let heard = world.hear(alice);
    // §3.1.6: the answer, the push, and then the presence.
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[0].contains("type='subscribed'") && heard[0].contains("from='bob@example.org'"));
    assert!(heard[1].contains("subscription='to'") && !heard[1].contains("ask"));
    assert!(heard[2].contains("from='bob@example.org/phone'"));

    world.say(bob, "<presence type='subscribe' to='alice@example.org'/>");
    world.say(alice, "<presence type='subscribed' to='bob@example.org'/>");
    assert_eq!(item(&world, ALICE, "bob@example.org").unwrap().subscription, Subscription::Both);
    assert_eq!(item(&world, "bob@example.org", ALICE).unwrap().subscription, Subscription::Both);
    world.hear(alice);
    assert!(world.hear(bob).last().unwrap().contains("from='alice@example.org/desk'"));

    world.say(alice, "<presence type='unsubscribed' to='bob@example.org'/>");
    let heard = world.hear(bob);
    assert_eq!(heard.len(), 3, "{heard:?}");
    assert!(heard[0].contains("type='unsubscribed'") && heard[1].contains("subscription='from'"));
    assert!(heard[2].contains("type='unavailable'") && heard[2].contains("alice@example.org/desk"));
    world.hear(alice);
    world.say(alice, "<presence type='unsubscribe' to='bob@example.org'/>");
    let heard = world.hear(bob);
    assert!(heard[0].contains("type='unsubscribe'") && heard[1].contains("subscription='none'"), "{heard:?}");
    let heard = world.hear(alice);
    assert!(heard[0].contains("subscription='none'") && heard[1].contains("type='unavailable'"), "{heard:?}");
}

#[test]
fn a_request_to_an_absent_user_waits_and_is_not_listed() {
    let mut world = HostWorld::new(&[ALICE]);
    for _ in 0..2 {
        world.arrive("<presence type='subscribe' from='bob@x.org/home' to='alice@example.org'><status>me</status></presence>");
    }
    let kept = item(&world, ALICE, BOB).unwrap();
    assert!(kept.asked.is_some() && !kept.is_listed && world.store.changes.len() == 1);
    // Clients see nothing of it in the roster, so its version is the same.
    assert!(matches!(world.store.changes[0], Change::Roster { version: 0, .. }));
    for resource in ["desk", "phone"] {
        let alice = world.sign_in(&format!("{ALICE}/{resource}"));
        world.say(alice, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        assert!(!world.hear(alice)[0].contains("item"));
        world.say(alice, "<presence/>");
        let heard = world.hear(alice);
        let asks = heard.iter().filter(|stanza| stanza.contains("<status>me</status>")).count();
        assert_eq!(asks, 1, "{heard:?}");
        // Only when it becomes available.
        world.say(alice, "<presence/>");
        assert!(!world.hear(alice).concat().contains("subscribe"));
    }
    world.hear(1);
    world.say(1, "<presence type='unsubscribed' to='bob@x.org'/>");
    assert_eq!(item(&world, ALICE, BOB), None);
    assert!(world.hear(1).is_empty());
    assert!(world.sent_abroad().last().unwrap().contains("type='unsubscribed'"));
}

/// RFC 6121 §2.2: requests go to available resources, answers and pushes to interested ones.
#[test]
fn requests_and_answers_go_to_different_sessions() {
    let mut world = HostWorld::new(&[ALICE]);
    let available = world.sign_in("alice@example.org/available");
    world.say(available, "<presence/>");
    let interested = world.sign_in("alice@example.org/interested");
    world.say(interested, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    world.say(interested, "<presence type='subscribe' to='bob@x.org'/>");
    for client in [available, interested] {
        world.hear(client);
    }
    world.arrive("<presence type='subscribe' from='bob@x.org' to='alice@example.org'/>");
    assert_eq!([available, interested].map(|client| world.hear(client).len()), [1, 0]);
    for kind in ["subscribed", "unsubscribed"] {
        world.arrive(&format!("<presence type='{kind}' from='bob@x.org' to='alice@example.org'/>"));
        assert_eq!([available, interested].map(|client| world.hear(client).len()), [0, 2], "{kind}");
    }
}

#[test]
fn a_subscribed_or_approved_contact_needs_no_second_answer() {
    let mut world = HostWorld::new(&[ALICE]);
    contact(&mut world, ALICE, BOB, Subscription::From);
    let alice = here(&mut world, "alice@example.org/desk");
    world.arrive("<presence type='subscribe' from='bob@x.org' to='alice@example.org'/>");
    let sent = world.sent_abroad();
    assert!(
        sent[0].contains("type='subscribed'") && sent[0].contains("from='alice@example.org'"),
        "{sent:?}"
    );
    assert!(sent[1].contains("alice@example.org/desk") && world.hear(alice).is_empty());

    world.say(alice, "<presence type='subscribed' to='carol@x.org'/>");
    assert!(world.hear(alice)[0].contains("approved='true'"));
    assert!(world.sent_abroad().is_empty());
    world.arrive("<presence type='subscribe' from='carol@x.org' to='alice@example.org'/>");
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("subscription='from'"), "{heard:?}");
    let sent = world.sent_abroad();
    assert!(sent[0].contains("type='subscribed'") && sent[1].contains("/desk"), "{sent:?}");
    assert!(item(&world, ALICE, "carol@x.org").unwrap().asked.is_none());
}

#[test]
fn a_user_is_no_contact_of_itself() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = here(&mut world, "alice@example.org/desk");
    for kind in ["subscribe", "subscribed", "unsubscribe", "unsubscribed"] {
        world.say(alice, &format!("<presence type='{kind}' to='{ALICE}/phone'/>"));
        world.arrive(&format!("<presence type='{kind}' from='{ALICE}' to='{ALICE}'/>"));
    }
    assert_eq!(world.store.changes, []);
    assert!(world.hear(alice).is_empty());
}

#[test]
fn strangers_cannot_fill_a_roster() {
    let mut world = HostWorld::new(&[ALICE]);
    for n in 0..crate::limits::CONTACTS_ASKING {
        world.arrive(&format!("<presence type='subscribe' from='s{n}@x.org' to='alice@example.org'/>"));
    }
    assert!(world.sent_abroad().is_empty());
    world.arrive("<presence type='subscribe' from='more@x.org' to='alice@example.org'/>");
    let sent = world.sent_abroad();
    assert!(sent[0].contains("type='error'") && sent[0].contains("resource-constraint"), "{sent:?}");
    assert_eq!(item(&world, ALICE, "more@x.org"), None);
}

#[test]
fn a_long_request_is_kept_short() {
    let mut world = HostWorld::new(&[ALICE]);
    let long = "x".repeat(crate::limits::SUBSCRIPTION_REQUEST);
    world.arrive(&format!(
        "<presence type='subscribe' from='bob@x.org' to='alice@example.org'><status>{long}</status></presence>"
    ));
    let kept = item(&world, ALICE, BOB).unwrap().asked.unwrap().to_bytes(ns::CLIENT);
    assert!(
        kept.len() < crate::limits::SUBSCRIPTION_REQUEST
            && String::from_utf8(kept).unwrap().contains("<status>xxx")
    );
}

#[test]
fn a_change_that_cannot_be_written_changes_nothing() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = here(&mut world, "alice@example.org/desk");
    world.store.is_broken = true;
    world.say(alice, "<presence type='subscribe' to='bob@x.org'/>");
    let heard = world.hear(alice);
    assert!(heard.len() == 1 && heard[0].contains("resource-constraint"), "{heard:?}");
    world.arrive("<presence type='subscribe' from='bob@x.org' to='alice@example.org'/>");
    assert!(world.hear(alice).is_empty());
    assert!(world.sent_abroad()[0].contains("resource-constraint"));
    // Nor when the account itself cannot be read.
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    world.sent_abroad();
    world.arrive("<presence type='subscribe' from='bob@x.org' to='alice@example.org'/>");
    assert!(world.sent_abroad()[0].contains("resource-constraint"));
}

#[test]
fn initial_presence_goes_to_contacts_and_own_sessions_and_asks_for_theirs() {
    let mut world = HostWorld::new(&[ALICE]);
    for (name, subscription) in [
        ("none@x.org", Subscription::None),
        ("to@x.org", Subscription::To),
        ("from@x.org", Subscription::From),
        ("both@x.org", Subscription::Both),
    ] {
        contact(&mut world, ALICE, name, subscription);
    }
    let desk = here(&mut world, "alice@example.org/desk");
    let phone = world.sign_in("alice@example.org/phone");
    world.say(phone, "<presence><show>away</show><priority>-1</priority></presence>");
    let sent = world.sent_abroad();
    let to = |kind: &str| -> Vec<&str> {
        let sent = sent.iter().filter(|stanza| stanza.contains("type='probe'") == (kind == "probe"));
        ["none", "to", "from", "both"]
            .into_iter()
            .filter(|name| sent.clone().any(|stanza| stanza.contains(&format!("to='{name}@x.org'"))))
            .collect()
    };
    assert_eq!((sent.len(), to("probe"), to("")), (4, vec!["to", "both"], vec!["from", "both"]), "{sent:?}");
    assert!(sent.iter().all(|stanza| stanza.contains("from='alice@example.org/phone'")));
    assert!(world.hear(desk)[0].contains("<show>away</show>"));
    let heard = world.hear(phone);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].contains("alice@example.org/desk") && heard[1].contains("alice@example.org/phone"));
    // §4.4.2: no probes again.
    world.say(phone, "<presence><show>dnd</show></presence>");
    assert_eq!(world.sent_abroad().len(), 2);
    assert!(world.hear(desk)[0].contains("dnd"));
}

#[test]
fn unavailable_presence_goes_to_all_that_saw_the_session() {
    let mut world = HostWorld::new(&[ALICE]);
    contact(&mut world, ALICE, BOB, Subscription::From);
    let desk = here(&mut world, "alice@example.org/desk");
    let phone = here(&mut world, "alice@example.org/phone");
    world.say(desk, "<presence to='room@rooms.x.org/alice'/>");
    world.say(desk, "<presence to='gone@x.org'/>");
    world.say(desk, "<presence to='gone@x.org' type='unavailable'/>");
    world.say(desk, "<presence to='bob@x.org'/>");
    world.say(desk, "<presence to='refused@x.org/1'/>");
    world.arrive(
        "<presence type='error' from='refused@x.org/1' to='alice@example.org/desk'><error type='cancel'>\
         <remote-server-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
    );
    // In the room's first answer the nickname was taken; then it was free.
    world.arrive(
        "<presence type='error' from='room@rooms.x.org/alice' to='alice@example.org/desk'><error type='cancel'>\
         <conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
    );
    world.sent_abroad();
    world.hear(phone);
    world.tell(|host, now, out| host.handle_gone(now, edge(desk), true, out));
    let sent = world.sent_abroad();
    assert_eq!(sent.len(), 2, "{sent:?}");
    for (sent, to) in sent.iter().zip(["room@rooms.x.org/alice", "bob@x.org"]) {
        assert!(sent.contains("type='unavailable'") && sent.contains(&format!("to='{to}'")), "{sent}");
    }
    assert!(world.hear(phone)[0].contains("type='unavailable'"));
    assert_eq!(world.store.changes, []);
    world.say(phone, "<presence type='unavailable'><status>bye</status></presence>");
    assert!(world.sent_abroad()[0].contains("<status>bye</status>"));
    assert!(
        matches!(&world.store.changes[..], [Change::LastSeen { at: START, status, .. }] if **status == *"bye")
    );
    // It is not told twice.
    world.tell(|host, now, out| host.handle_gone(now, edge(phone), true, out));
    assert!(world.sent_abroad().is_empty() && world.store.changes.len() == 1);
}

#[test]
fn a_probe_of_a_subscriber_is_answered() {
    let mut world = HostWorld::new(&[ALICE]);
    contact(&mut world, ALICE, BOB, Subscription::From);
    contact(&mut world, ALICE, "carol@x.org", Subscription::To);
    let probe = |world: &mut HostWorld, from: &str, to: &str| {
        world.arrive(&format!("<presence type='probe' from='{from}' to='{to}'/>"));
        world.sent_abroad()
    };
    let sent = probe(&mut world, "bob@x.org/1", ALICE);
    assert!(
        sent.len() == 1 && sent[0].contains("type='unavailable'") && !sent[0].contains("delay"),
        "{sent:?}"
    );
    let desk = here(&mut world, "alice@example.org/desk");
    let phone = here(&mut world, "alice@example.org/phone");
    world.say(phone, "<presence><show>xa</show></presence>");
    world.sent_abroad();
    let sent = probe(&mut world, "bob@x.org/1", ALICE);
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent[1].contains("<show>xa</show>") && sent[1].contains("to='bob@x.org/1'"));
    let sent = probe(&mut world, "bob@x.org/1", "alice@example.org/desk");
    assert!(sent.len() == 1 && sent[0].contains("from='alice@example.org/desk'"), "{sent:?}");
    let sent = probe(&mut world, "bob@x.org/1", "alice@example.org/nowhere");
    assert!(sent.len() == 1 && sent[0].contains("type='unavailable'"), "{sent:?}");
    for (stranger, to) in
        [("carol@x.org/1", ALICE), ("dave@x.org", ALICE), ("bob@x.org", "nobody@example.org")]
    {
        let sent = probe(&mut world, stranger, to);
        assert!(sent.len() == 1 && sent[0].contains("type='unsubscribed'"), "{stranger}: {sent:?}");
    }
    world.say(desk, "<presence to='dave@x.org'/>");
    world.sent_abroad();
    let sent = probe(&mut world, "dave@x.org/2", ALICE);
    assert!(sent.len() == 1 && sent[0].contains("alice@example.org/desk"), "{sent:?}");
    for client in [desk, phone] {
        world.say(client, "<presence type='unavailable'><status>off</status></presence>");
    }
    world.sent_abroad();
    world.now = world.now + Duration::from_secs(60);
    let sent = probe(&mut world, "bob@x.org/1", ALICE);
    assert!(sent[0].contains("stamp='2027-01-15T08:00:00.000Z'") && sent[0].contains("off"), "{sent:?}");
}

#[test]
fn presence_comes_to_all_available_sessions_and_errors_to_none() {
    let mut world = HostWorld::new(&[ALICE]);
    let desk = here(&mut world, "alice@example.org/desk");
    let phone = here(&mut world, "alice@example.org/phone");
    let silent = world.sign_in("alice@example.org/silent");
    world.say(phone, "<presence><priority>-128</priority></presence>");
    for client in [desk, phone] {
        world.hear(client);
    }
    world.arrive("<presence from='bob@x.org/1' to='alice@example.org'/>");
    assert_eq!([desk, phone, silent].map(|client| world.hear(client).len()), [1, 1, 0]);
    world.arrive("<presence from='room@x.org/bob' to='alice@example.org/silent'/>");
    assert_eq!([desk, phone, silent].map(|client| world.hear(client).len()), [0, 0, 1]);
    world.arrive("<presence type='error' from='bob@x.org' to='alice@example.org'/>");
    world.arrive("<presence type='what' from='bob@x.org' to='alice@example.org'/>");
    world.arrive("<presence from='bob@x.org' to='alice@example.org/nowhere'/>");
    assert_eq!([desk, phone, silent].map(|client| world.hear(client).len()), [0, 0, 0]);
    assert!(world.sent_abroad().is_empty());
}

#[test]
fn presence_that_cannot_be_is_refused() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    for presence in [
        "<presence><priority>128</priority></presence>",
        "<presence><priority>-129</priority></presence>",
        "<presence><priority>high</priority></presence>",
        "<presence type='subscribe'/>",
        "<presence type='probe'/>",
        "<presence type='what'/>",
        "<presence type='what' to='bob@x.org'/>",
    ] {
        world.say(alice, presence);
        let heard = world.hear(alice);
        assert!(heard.len() == 1 && heard[0].contains("bad-request"), "{presence}: {heard:?}");
    }
    let long = "x".repeat(crate::limits::PRESENCE);
    for to in ["", "to='bob@x.org'"] {
        world.say(alice, &format!("<presence {to}><status>{long}</status></presence>"));
        assert!(world.hear(alice)[0].contains("policy-violation"), "{to}");
    }
    world.say(alice, "<presence type='error'/>");
    assert!(world.hear(alice).is_empty() && world.sent_abroad().is_empty());
    for priority in ["-128", "127", " 5 "] {
        world.say(alice, &format!("<presence><priority>{priority}</priority></presence>"));
        assert!(!world.hear(alice).concat().contains("error"), "{priority}");
    }
}

#[test]
fn directed_presence_has_an_end() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    for n in 0..crate::limits::DIRECTED {
        world.say(alice, &format!("<presence to='d{n}@x.org'/>"));
    }
    world.say(alice, "<presence to='more@x.org'/>");
    assert!(world.hear(alice)[0].contains("resource-constraint"));
    assert_eq!(world.sent_abroad().len(), crate::limits::DIRECTED);
    // §4.6.3: the end is sent even by a session that was never available to all.
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), true, out));
    assert_eq!(world.sent_abroad().len(), crate::limits::DIRECTED);
}

#[test]
fn presence_does_not_overtake_the_answer_before_it() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = here(&mut world, "alice@example.org/desk");
    world.say(alice, "<presence type='subscribe' to='bob@x.org'/>");
    world.hear(alice);
    world.is_slow = true;
    world.arrive("<presence type='subscribed' from='bob@x.org' to='alice@example.org'/>");
    world.arrive("<presence from='bob@x.org/1' to='alice@example.org'/>");
    assert!(world.hear(alice).is_empty());
    world.write();
    let heard = world.hear(alice);
    assert!(heard[0].contains("type='subscribed'") && heard[2].contains("bob@x.org/1"), "{heard:?}");
}

#[test]
fn presence_goes_out_once_for_each_contact() {
    let mut world = HostWorld::new(&[ALICE]);
    for n in 0..1_000 {
        contact(&mut world, ALICE, &format!("c{n}@x.org"), Subscription::From);
    }
    let alice = here(&mut world, "alice@example.org/desk");
    world.say(alice, "<presence><show>away</show></presence>");
    let sent: std::collections::HashSet<String> = world.sent_abroad().into_iter().collect();
    assert_eq!(sent.len(), 1_000);
}

/// Performs an act of Alice (0) or Bob (1).
fn step(world: &mut HostWorld, user: usize, clients: [u64; 2], act: u8) {
    let other = ["bob@example.org", ALICE][user];
    let roster = |attributes: &str| {
        format!(
            "<iq type='set' id='s'><query xmlns='jabber:iq:roster'><item jid='{other}' {attributes}/></query></iq>"
        )
    };
    let stanza = match act {
        0 => format!("<presence type='subscribe' to='{other}'/>"),
        1 => format!("<presence type='unsubscribe' to='{other}'/>"),
        2 => format!("<presence type='subscribed' to='{other}'/>"),
        3 => format!("<presence type='unsubscribed' to='{other}'/>"),
        4 => roster("subscription='remove'"),
        _ => roster("name='x'"),
    };
    world.say(clients[user], &stanza);
}

/// The contact as a client knows it from pushes alone.
fn follow(seen: &mut Option<String>, heard: &[String]) {
    for push in heard.iter().filter(|stanza| stanza.starts_with("<iq type='set'")) {
        let item = &push[push.find("<item").unwrap()..push.find("</query>").unwrap()];
        *seen = (!item.contains("'remove'")).then(|| item.to_owned());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any acts of two users, both see the same subscription, clients that only receive pushes know the
    /// roster, the store agrees with memory, and presence goes to subscribers only.
    #[test]
    fn both_sides_agree(acts in prop::collection::vec((0..2_usize, 0..6_u8), 0..24)) {
        let bob_jid = "bob@example.org";
        let mut world = HostWorld::new(&[ALICE, bob_jid]);
        let clients = [here(&mut world, "alice@example.org/1"), here(&mut world, "bob@example.org/1")];
        let mut seen: [Option<String>; 2] = [None, None];
        for (user, act) in acts {
            step(&mut world, user, clients, act);
            for user in 0..2 {
                follow(&mut seen[user], &world.hear(clients[user]));
            }
            let of = |user: &str, contact: &str| SubscriptionState::of(item(&world, user, contact).as_ref());
            let (alice, bob) = (of(ALICE, bob_jid), of(bob_jid, ALICE));
            prop_assert_eq!((alice.to, alice.pending_out), (bob.from, bob.pending_in));
            prop_assert_eq!((bob.to, bob.pending_out), (alice.from, alice.pending_in));
            for (user, store) in &world.store.users {
                prop_assert_eq!(world.host.accounts.data(user), (!HAS_NO_ROSTERS).then_some(store));
            }
        }
        for user in 0..2 {
            let roster = {
                world.say(clients[user], "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
                world.hear(clients[user]).pop().unwrap()
            };
            match &seen[user] {
                Some(item) => prop_assert!(roster.contains(item.as_str()), "{} {}", roster, item),
                None => prop_assert!(!roster.contains("<item"), "{}", roster),
            }
        }
        let may = SubscriptionState::of(item(&world, ALICE, bob_jid).as_ref()).from;
        world.say(clients[0], "<presence><show>dnd</show></presence>");
        prop_assert_eq!(world.hear(clients[1]).len(), usize::from(may));
    }
}

#[test]
fn all_stanzas_that_waited_for_an_account_to_be_read_find_it() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let contact = Bare::parse("bob@elsewhere.org").unwrap();
    let item = super::effect::RosterItem {
        subscription: super::effect::Subscription::Both,
        is_listed: true,
        ..Default::default()
    };
    world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap().roster =
        vec![(contact, item)];
    let stanza = |kind: Option<&str>| {
        Element::new("presence", ns::CLIENT)
            .with("from", "bob@elsewhere.org/x")
            .with("to", "alice@example.org")
            .with_opt("type", kind)
    };
    // Both come before her record is read.
    world.tell(|host, now, out| {
        host.handle_routed(now, stanza(None), out);
        host.handle_routed(now, stanza(Some("probe")), out);
    });
    let sent = world.sent_abroad().join("");
    assert!(sent.contains("type='unavailable'") && !sent.contains("unsubscribed"), "{sent}");
}
