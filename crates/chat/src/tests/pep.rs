//! The notifications of nodes, and the nodes that accounts show.

use super::pubsub::{
    ALICE, SPACE, appear, ask, configure, create, events, get, is_error, own, publish, set, world,
};
use super::*;

#[test]
fn published_items_are_kept_announced_and_read_by_permitted_users() {
    let (mut world, alice, bob, eve) = world();
    appear(&mut world, alice, &["urn:n"]);
    appear(&mut world, bob, &["urn:n"]);
    appear(&mut world, eve, &["urn:n"]);
    for client in [alice, bob, eve] {
        world.hear(client);
    }
    let answer = publish(&mut world, alice, "urn:n", "a");
    assert!(answer.contains("<publish node='urn:n'><item id='a'/></publish>"), "{answer}");
    for client in [alice, bob] {
        let events = events(&mut world, client);
        assert_eq!(events.len(), 1, "{events:?}");
        for part in
            ["type='headline'", "from='alice@example.org'", "<item id='a'><t xmlns='urn:t'>a</t></item>"]
        {
            assert!(events[0].contains(part), "{part}: {events:?}");
        }
    }
    assert!(events(&mut world, eve).is_empty());
    let items = "<items node='urn:n'/>";
    assert!(get(&mut world, bob, ALICE, items).contains("<t xmlns='urn:t'>a</t>"));
    is_error(&get(&mut world, eve, ALICE, items), "not-authorized", "presence-subscription-required");
    // One item is kept (XEP-0163 §2), and an item without an id gets one.
    set(&mut world, alice, ALICE, "<publish node='urn:n'><item><t xmlns='urn:t'/></item></publish>");
    let answer = get(&mut world, alice, ALICE, items);
    assert!(!answer.contains("id='a'") && answer.contains("<item id="), "{answer}");
}

#[test]
fn subscribers_are_told_and_get_the_newest_item_first() {
    let (mut world, alice, bob, eve) = world();
    create(&mut world, alice, "n", &[("access_model", "open")]);
    publish(&mut world, alice, "n", "a");
    world.say(eve, "<presence/>");
    let subscribe = |inner: &str| format!("<subscribe {inner}/>");
    for (inner, condition, detail) in [
        ("node='n'", "bad-request", "invalid-jid"),
        ("node='n' jid='bob@example.org'", "bad-request", "invalid-jid"),
        ("jid='eve@example.org'", "bad-request", "nodeid-required"),
        ("node='none' jid='eve@example.org'", "item-not-found", ""),
    ] {
        is_error(&set(&mut world, eve, ALICE, &subscribe(inner)), condition, detail);
    }
    for _ in 0..2 {
        let answer = set(&mut world, eve, ALICE, &subscribe("node='n' jid='eve@example.org'"));
        assert!(answer.contains("subscription='subscribed'"), "{answer}");
    }
    let heard = events(&mut world, eve);
    assert!(
        heard.len() == 1 && heard[0].contains("<item id='a'>") && heard[0].contains("<delay "),
        "{heard:?}"
    );
    publish(&mut world, alice, "n", "b");
    let heard = events(&mut world, eve);
    assert!(heard.len() == 1 && !heard[0].contains("delay"), "{heard:?}");
    assert!(get(&mut world, eve, ALICE, "<subscriptions/>").contains("node='n' jid='eve@example.org'"));
    assert!(get(&mut world, bob, ALICE, "<subscriptions node='n'/>").contains("<subscriptions node='n'/>"));
    is_error(&get(&mut world, bob, ALICE, "<subscriptions node='none'/>"), "item-not-found", "");
    assert!(get(&mut world, alice, ALICE, "<affiliations/>").contains("affiliation='owner'"));
    is_error(&get(&mut world, alice, ALICE, "<affiliations node='none'/>"), "item-not-found", "");
    // A subscriber admitted by a former access model gets no more notifications.
    configure(&mut world, alice, "n", &[("access_model", "presence")]);
    publish(&mut world, alice, "n", "c");
    assert!(events(&mut world, eve).is_empty());
    let unsubscribe = |inner: &str| format!("<unsubscribe node='n' {inner}/>");
    for (inner, condition, detail) in [
        ("", "bad-request", "jid-required"),
        ("jid='bob@example.org'", "forbidden", ""),
        ("jid='eve@example.org/den'", "unexpected-request", "not-subscribed"),
    ] {
        is_error(&set(&mut world, eve, ALICE, &unsubscribe(inner)), condition, detail);
    }
    assert!(set(&mut world, eve, ALICE, &unsubscribe("jid='eve@example.org'")).contains("result"));
    assert!(get(&mut world, eve, ALICE, "<subscriptions/>").contains("<subscriptions/>"));
}

#[test]
fn a_client_that_comes_gets_the_newest_items_once() {
    let (mut world, alice, bob, eve) = world();
    publish(&mut world, alice, "urn:n", "a");
    create(&mut world, alice, "quiet", &[("send_last_published_item", "never")]);
    publish(&mut world, alice, "quiet", "q");
    create(&mut world, alice, "mine", &[("access_model", "whitelist")]);
    publish(&mut world, alice, "mine", "m");
    world.say(alice, "<presence/>");
    for client in [bob, eve] {
        appear(&mut world, client, &["urn:n", "quiet", "mine", "other"]);
    }
    let heard = events(&mut world, bob);
    assert!(
        heard.len() == 1 && heard[0].contains("<item id='a'>") && heard[0].contains("<delay "),
        "{heard:?}"
    );
    assert!(events(&mut world, eve).is_empty());
    // The same again, and other abilities.
    appear(&mut world, bob, &["urn:n", "quiet", "mine", "other"]);
    assert!(events(&mut world, bob).is_empty());
    appear(&mut world, bob, &["urn:n"]);
    assert_eq!(events(&mut world, bob).len(), 1);
    world.say(bob, "<presence type='unavailable'/>");
    publish(&mut world, alice, "urn:n", "b");
    assert!(events(&mut world, bob).is_empty());
    appear(&mut world, bob, &["urn:n"]);
    assert!(events(&mut world, bob)[0].contains("<item id='b'>"));
    let second = world.sign_in("alice@example.org/second");
    appear(&mut world, second, &["urn:n"]);
    assert!(events(&mut world, second)[0].contains("<item id='b'>"));
}

#[test]
fn blocked_contacts_are_not_told() {
    let (mut world, alice, bob, _) = world();
    appear(&mut world, bob, &["n"]);
    let block = "<block xmlns='urn:xmpp:blocking'><item jid='bob@example.org'/></block>";
    world.say(alice, &format!("<iq type='set' id='b'>{block}</iq>"));
    world.hear(bob);
    publish(&mut world, alice, "n", "a");
    assert!(events(&mut world, bob).is_empty());
}

#[test]
fn an_account_shows_its_nodes_to_permitted_users() {
    let (mut world, alice, bob, eve) = world();
    create(&mut world, alice, "n", &[("title", "News")]);
    create(&mut world, alice, "mine", &[("access_model", "whitelist")]);
    let query =
        |kind: &str, node: &str| format!("<query xmlns='http://jabber.org/protocol/disco#{kind}'{node}/>");
    let items = ask(&mut world, alice, "get", ALICE, &query("items", ""));
    assert!(items.contains("node='n' name='News'") && items.contains("node='mine'"), "{items}");
    let items = ask(&mut world, bob, "get", ALICE, &query("items", ""));
    assert!(items.contains("node='n'") && !items.contains("mine"), "{items}");
    let items = ask(&mut world, eve, "get", ALICE, &query("items", ""));
    assert!(items.contains("type='result'") && !items.contains("<item "), "{items}");
    let info = ask(&mut world, bob, "get", ALICE, &query("info", " node='n'"));
    assert!(info.contains("type='leaf'") && info.contains("<value>News</value>"), "{info}");
    is_error(
        &ask(&mut world, bob, "get", ALICE, &query("info", " node='mine'")),
        "not-allowed",
        "closed-node",
    );
    is_error(&ask(&mut world, bob, "get", ALICE, &query("info", " node='none'")), "item-not-found", "");
    let info = ask(&mut world, alice, "get", ALICE, &query("info", ""));
    for part in ["<identity category='pubsub' type='pep'/>", "pubsub#publish-options'/>"] {
        assert!(info.contains(part), "{info}");
    }
}

#[test]
fn anonymous_accounts_have_no_nodes() {
    let mut world = HostWorld::new(&[]);
    let guest = world.sign_in_as("g@example.org/1", true);
    let publish = "<publish node='n'><item><t xmlns='urn:t'/></item></publish>";
    is_error(&set(&mut world, guest, "g@example.org", publish), "not-allowed", "");
}

#[test]
fn questions_wait_for_the_change_before() {
    let (mut world, alice, ..) = world();
    world.is_slow = true;
    world.say(
        alice,
        &format!("<iq type='set' id='1'><pubsub xmlns='{SPACE}'><create node='n'/></pubsub></iq>"),
    );
    world.say(
        alice,
        &format!("<iq type='set' id='2'><pubsub xmlns='{SPACE}'><create node='n'/></pubsub></iq>"),
    );
    for n in 0..=crate::limits::NODE_QUESTIONS {
        world.say(
            alice,
            &format!(
                "<iq type='get' id='m{n}'><pubsub xmlns='{SPACE}#owner'><configure node='n'/></pubsub></iq>"
            ),
        );
    }
    let heard = world.hear(alice);
    assert!(
        heard.len() == 2 && heard.iter().all(|stanza| stanza.contains("resource-constraint")),
        "{heard:?}"
    );
    world.write();
    let heard = world.hear(alice);
    assert!(heard[0].contains("id='1'") && heard[0].contains("result"), "{heard:?}");
    assert!(heard[1].contains("id='2'") && heard[1].contains("<conflict "), "{heard:?}");
    assert_eq!(heard.len(), crate::limits::NODE_QUESTIONS + 1);
}

#[test]
fn a_contact_approved_later_gets_the_newest_items_then() {
    let (mut world, alice, _, eve) = world();
    publish(&mut world, alice, "urn:n", "a");
    world.say(alice, "<presence/>");
    // Alice sees Eve, and Eve does not see Alice yet.
    world.say(alice, "<presence type='subscribe' to='eve@example.org'/>");
    world.say(eve, "<presence type='subscribed' to='alice@example.org'/>");
    appear(&mut world, eve, &["urn:n"]);
    assert!(events(&mut world, eve).is_empty());
    world.say(eve, "<presence type='subscribe' to='alice@example.org'/>");
    assert!(events(&mut world, eve).is_empty());
    world.say(alice, "<presence type='subscribed' to='eve@example.org'/>");
    let heard = events(&mut world, eve);
    assert!(heard.len() == 1 && heard[0].contains("<item id='a'>"), "{heard:?}");
}

#[test]
fn a_node_has_a_number_of_subscribers() {
    let (mut world, alice, bob, _) = world();
    create(&mut world, alice, "n", &[]);
    let subscribers = |count: usize| -> String {
        let item = |n| format!("<subscription jid='u{n}@x.org' subscription='subscribed'/>");
        format!("<subscriptions node='n'>{}</subscriptions>", (0..count).map(item).collect::<String>())
    };
    let many = subscribers(crate::limits::NODE_SUBSCRIPTIONS + 1);
    is_error(&own(&mut world, alice, "set", &many), "policy-violation", "too-many-subscriptions");
    let all = subscribers(crate::limits::NODE_SUBSCRIPTIONS);
    assert!(own(&mut world, alice, "set", &all).contains("result"));
    let one_more = "<subscribe node='n' jid='bob@example.org'/>";
    is_error(&set(&mut world, bob, ALICE, one_more), "policy-violation", "too-many-subscriptions");
    let item = |n| format!("<affiliation jid='u{n}@x.org' affiliation='member'/>");
    let members: String = (0..=crate::limits::NODE_SUBSCRIPTIONS).map(item).collect();
    let members = format!("<affiliations node='n'>{members}</affiliations>");
    is_error(&own(&mut world, alice, "set", &members), "policy-violation", "");
}

#[test]
fn a_change_that_waited_makes_others_wait() {
    let (mut world, alice, ..) = world();
    world.is_slow = true;
    let create = |node: &str| format!("<pubsub xmlns='{SPACE}'><create node='{node}'/></pubsub>");
    for (id, payload) in [
        ("1", create("a")),
        ("2", create("b")),
        ("3", format!("<pubsub xmlns='{SPACE}#owner'><configure node='b'/></pubsub>")),
    ] {
        let kind = if id == "3" { "get" } else { "set" };
        world.say(alice, &format!("<iq type='{kind}' id='{id}'>{payload}</iq>"));
    }
    world.write();
    assert_eq!(world.hear(alice).len(), 1);
    world.write();
    let heard = world.hear(alice);
    assert!(heard.len() == 2 && heard[1].contains("id='3'") && heard[1].contains("result"), "{heard:?}");
}

/// XEP-0060 §8.5: the node and its subscriptions stay, also if the store fails: a purge is one write.
#[test]
fn a_purge_that_fails_leaves_the_node_as_it_was() {
    let (mut world, alice, bob, _) = world();
    create(&mut world, alice, "n", &[("access_model", "whitelist")]);
    let granted =
        "<affiliations node='n'><affiliation jid='bob@example.org' affiliation='member'/></affiliations>";
    assert!(own(&mut world, alice, "set", granted).contains("type='result'"));
    publish(&mut world, alice, "n", "a");
    let before = world.store.nodes.clone();
    let purge = "<purge node='n'/>";
    for is_broken in [true, false] {
        world.hear(alice);
        world.is_slow = true;
        world.say(
            alice,
            &format!("<iq type='set' id='1'><pubsub xmlns='{SPACE}#owner'>{purge}</pubsub></iq>"),
        );
        assert_eq!(world.unwritten.len(), 1);
        world.store.is_broken = is_broken;
        world.write();
        (world.store.is_broken, world.is_slow) = (false, false);
        let outcome = if is_broken { "resource-constraint" } else { "type='result'" };
        assert!(world.hear(alice).last().unwrap().contains(outcome), "{outcome}");
        assert_eq!(world.store.nodes, before);
        // The member reads what there is, and another user nothing.
        let items = get(&mut world, bob, ALICE, "<items node='n'/>");
        assert_eq!(items.contains("<item id='a'"), is_broken, "{items}");
        assert!(items.contains("type='result'"), "{items}");
    }
}
