//! Identities, features and items of addresses.

use super::effect::{RosterItem, Subscription};
use super::*;

fn ask(world: &mut HostWorld, client: u64, kind: &str, to: &str) -> String {
    world.say(
        client,
        &format!(
            "<iq type='get' id='d' to='{to}'><query xmlns='http://jabber.org/protocol/disco#{kind}'/></iq>"
        ),
    );
    world.hear(client).pop().unwrap()
}

#[test]
fn a_server_shows_its_identity_and_its_contact_addresses() {
    let mut settings = settings();
    settings.contacts = vec![
        ("abuse-addresses".into(), "mailto:abuse@example.org".into()),
        ("admin-addresses".into(), "xmpp:admin@example.org".into()),
        ("abuse-addresses".into(), "xmpp:abuse@example.org".into()),
    ];
    let mut world = HostWorld::new(&["alice@example.org"]);
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    let alice = world.sign_in("alice@example.org/desk");
    let info = ask(&mut world, alice, "info", "example.org");
    for part in [
        "<identity category='server' type='im' name='Belfry'/>",
        "<feature var='http://jabber.org/protocol/disco#info'/>",
        "<feature var='urn:xmpp:blocking'/>",
        "<feature var='jabber:iq:version'/>",
        // XEP-0054 §4.
        "<feature var='vcard-temp'/>",
        "<value>http://jabber.org/network/serverinfo</value>",
        "<field type='list-multi' var='abuse-addresses'><value>mailto:abuse@example.org</value>\
         <value>xmpp:abuse@example.org</value></field>",
    ] {
        assert!(info.contains(part), "{part}: {info}");
    }
    let items = ask(&mut world, alice, "items", "example.org");
    assert!(items.contains("<item jid='conference.example.org' name='Rooms'/>"), "{items}");
}

#[test]
fn components_are_items_of_the_domain_that_they_are_below_of() {
    let mut settings = settings();
    settings.domains.push("other.org".into());
    settings.components =
        ["irc.example.org", "sms.other.org", "bots.elsewhere.net", "notexample.org"].map(Into::into).into();
    let mut world = HostWorld::new(&["alice@example.org"]);
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    let alice = world.sign_in("alice@example.org/desk");
    for (domain, own, anothers) in [
        ("example.org", "irc.example.org", "sms.other.org"),
        ("other.org", "sms.other.org", "irc.example.org"),
    ] {
        let items = ask(&mut world, alice, "items", domain);
        for named in [own, "bots.elsewhere.net", "notexample.org"] {
            assert!(items.contains(&format!("<item jid='{named}'/>")), "{named}: {items}");
        }
        assert!(!items.contains(anothers), "{items}");
    }
}

#[test]
fn no_feature_is_announced_twice() {
    for announced in [
        feature::FEATURES.iter().flat_map(|feature| feature.server).collect::<Vec<_>>(),
        feature::FEATURES.iter().flat_map(|feature| feature.account).collect(),
    ] {
        let once: std::collections::HashSet<_> = announced.iter().collect();
        assert_eq!(once.len(), announced.len(), "{announced:?}");
    }
}

#[test]
fn an_account_answers_only_users_that_may_see_it() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org", "eve@example.org"]);
    let store = world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap();
    let item = RosterItem { subscription: Subscription::From, ..Default::default() };
    store.roster.push((Bare::parse("bob@example.org").unwrap(), item));
    for (client, is_told) in
        [("alice@example.org/1", true), ("bob@example.org/1", true), ("eve@example.org/1", false)]
    {
        let client = world.sign_in(client);
        let info = ask(&mut world, client, "info", "alice@example.org");
        assert_eq!(info.contains("<identity category='account' type='registered'/>"), is_told, "{info}");
        assert_eq!(info.contains("<feature var='urn:xmpp:blocking'/>"), is_told, "{info}");
        let items = ask(&mut world, client, "items", "alice@example.org");
        // §8: "the server MUST return an empty result set" to all others.
        assert!(items.contains("type='result'") && items.contains("disco#items'/>"), "{items}");
        assert_eq!(info.contains("service-unavailable"), !is_told, "{info}");
    }
    let guest = world.sign_in_as("guest@example.org/x", true);
    assert!(ask(&mut world, guest, "info", "guest@example.org").contains("type='anonymous'"));
}

/// XEP-0163 §6.1: the identity `pubsub/pep` says that "the account is provisioned for PEP". Nothing of an anonymous account is stored, so it
/// names none of the features that store something, and those that it names work.
#[test]
fn an_anonymous_account_names_only_features_it_can_use() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let guest = world.sign_in_as("guest@example.org/x", true);
    world.say(guest, "<presence/>");
    world.hear(guest);
    let info = ask(&mut world, guest, "info", "guest@example.org");
    let stored =
        ["pubsub", "urn:xmpp:mam", "push", "private", "bookmarks", "vcard", "offline", "retract", "sid"];
    for part in stored {
        assert!(!info.contains(part), "{part}: {info}");
    }
    for (name, var, kind) in [
        ("blocklist", "urn:xmpp:blocking", "get"),
        ("enable", "urn:xmpp:carbons:2", "set"),
        ("query", "http://jabber.org/protocol/disco#items", "get"),
        ("query", "jabber:iq:last", "get"),
        ("ping", "urn:xmpp:ping", "get"),
    ] {
        assert!(info.contains(&format!("<feature var='{var}'/>")), "{var}: {info}");
        world.say(guest, &format!("<iq type='{kind}' id='1'><{name} xmlns='{var}'/></iq>"));
        let answer = world.hear(guest).pop().expect("an answer");
        assert!(answer.contains("type='result'"), "{var}: {answer}");
    }
    let alice = world.sign_in("alice@example.org/x");
    let info = ask(&mut world, alice, "info", "alice@example.org");
    for part in stored {
        assert!(info.contains(part), "{part}: {info}");
    }
}

/// XEP-0030 §3.1: a feature is a "protocol supported by the target entity", for the entity that asks. The hash of the features is announced before a client
/// has signed in (XEP-0115 §6.3), so it remains that of all.
#[test]
fn the_server_names_to_an_anonymous_account_only_features_it_may_use() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let uploads = Some(crate::upload::UploadSettings { max_size: 10_000, per_day: 20_000 });
    let with_files = Arc::new(HostSettings { uploads, ..settings() });
    world.host = Host::new(with_files, ShardAddress::default(), [1; 32]);
    let guest = world.sign_in_as("guest@example.org/x", true);
    let alice = world.sign_in("alice@example.org/x");
    let (to_guest, to_alice) =
        (ask(&mut world, guest, "info", "example.org"), ask(&mut world, alice, "info", "example.org"));
    for part in ["jabber:iq:private", "jabber:iq:register", "urn:xmpp:http:upload:0", "category='store'"] {
        assert!(!to_guest.contains(part), "{part}: {to_guest}");
        assert!(to_alice.contains(part), "{part}: {to_alice}");
    }
    for part in ["urn:xmpp:ping", "category='server'"] {
        assert!(to_guest.contains(part), "{part}: {to_guest}");
    }
    let announced = crate::caps::of_server(world.host.settings()).unwrap();
    let node = format!("{}#{}", announced.attr("node").unwrap(), announced.attr("ver").unwrap());
    let query = format!("<query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/>");
    world.say(guest, &format!("<iq type='get' id='n' to='example.org'>{query}</iq>"));
    let whole = world.hear(guest).pop().unwrap();
    assert!(whole.contains("type='result'") && whole.contains("urn:xmpp:http:upload:0"), "{whole}");
}

/// XEP-0030 §8: of an account that is not there, "no matter if the request specifies a node or not", and of one that the
/// asking entity may not see, items are an empty set. The two cannot be told from each other.
#[test]
fn a_stranger_cannot_tell_an_account_from_none() {
    let mut world = HostWorld::new(&["alice@example.org", "eve@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    let node = "<publish node='n'><item id='i'><x xmlns='urn:x'/></item></publish>";
    super::pubsub::set(&mut world, alice, "alice@example.org", node);
    let eve = world.sign_in("eve@example.org/desk");
    let items = "http://jabber.org/protocol/disco#items";
    for (kind, payload) in [
        ("get", format!("<query xmlns='{items}'/>")),
        ("get", format!("<query xmlns='{items}' node='n'/>")),
        ("set", format!("<query xmlns='{items}'/>")),
        ("get", "<query xmlns='http://jabber.org/protocol/disco#info'/>".to_owned()),
        ("get", format!("<query xmlns='{items}'/><q xmlns='urn:x'/>")),
        ("get", String::new()),
        ("what", "<q xmlns='urn:x'/>".to_owned()),
    ] {
        let mut ask = |to: &str| {
            world.say(eve, &format!("<iq type='{kind}' id='d' to='{to}'>{payload}</iq>"));
            world.hear(eve).join("").replace(to, "TO")
        };
        let (there, none) = (ask("alice@example.org"), ask("ghost@example.org"));
        assert_eq!(there, none, "{kind} {payload}");
        let is_empty = there.contains("type='result'") && !there.contains("<item");
        assert_eq!(
            is_empty,
            kind == "get"
                && payload.ends_with("/>")
                && payload.matches(items).count() == 1
                && payload.matches("xmlns").count() == 1,
            "{there}"
        );
    }
}

/// An account and its absence are answered alike, whatever a stranger asks: addresses are not found out without a message to their users.
#[test]
fn requests_of_strangers_do_not_tell_whether_an_account_exists() {
    let mut world = HostWorld::new(&["alice@example.org", "eve@example.org"]);
    let eve = world.sign_in("eve@example.org/den");
    let pubsub = |inner: &str| format!("<pubsub xmlns='http://jabber.org/protocol/pubsub'>{inner}</pubsub>");
    let owner = |inner: &str| pubsub(inner).replace("/pubsub'", "/pubsub#owner'");
    let mut payloads = vec![
        "<query xmlns='jabber:iq:last'/>".to_owned(),
        "<query xmlns='jabber:iq:version'/>".to_owned(),
        "<query xmlns='jabber:iq:roster'/>".to_owned(),
        "<query xmlns='jabber:iq:private'><a xmlns='urn:a'/></query>".to_owned(),
        "<query xmlns='jabber:iq:register'/>".to_owned(),
        "<query xmlns='urn:xmpp:mam:2'/>".to_owned(),
        "<vCard xmlns='vcard-temp'/>".to_owned(),
        "<vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/>".to_owned(),
        "<ping xmlns='urn:xmpp:ping'/>".to_owned(),
        "<time xmlns='urn:xmpp:time'/>".to_owned(),
        "<blocklist xmlns='urn:xmpp:blocking'/>".to_owned(),
        "<enable xmlns='urn:xmpp:push:0' jid='x.org'/>".to_owned(),
        "<command xmlns='http://jabber.org/protocol/commands' node='n'/>".to_owned(),
    ];
    for part in [
        "<items node='n'/>",
        "<items/>",
        "<publish node='n'><item id='a'><t xmlns='urn:t'/></item></publish>",
        "<retract node='n'><item id='a'/></retract>",
        "<create node='n'/>",
        "<subscribe node='n' jid='eve@example.org'/>",
        "<unsubscribe node='n' jid='eve@example.org'/>",
        "<options node='n' jid='eve@example.org'/>",
        "<subscriptions/>",
        "<affiliations/>",
        "<default/>",
        "<configure node='n'/>",
        "<delete node='n'/>",
        "<purge node='n'/>",
        "",
    ] {
        payloads.extend([pubsub(part), owner(part)]);
    }
    for (kind, payload) in payloads.iter().flat_map(|payload| [("get", payload), ("set", payload)]) {
        let mut ask = |to: &str, resource: &str| {
            world.say(eve, &format!("<iq type='{kind}' id='d' to='{to}{resource}'>{payload}</iq>"));
            world.hear(eve).join("").replace(to, "TO")
        };
        for resource in ["", "/x"] {
            let (there, none) = (ask("alice@example.org", resource), ask("ghost@example.org", resource));
            assert_eq!(there, none, "{kind} {resource} {payload}");
            assert!(there.contains("<iq"), "{kind} {resource} {payload}");
        }
    }
}

#[test]
fn unknown_nodes_are_not_found() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    for (to, kind) in [("example.org", "info"), ("example.org", "items"), ("alice@example.org", "info")] {
        world.say(
            alice,
            &format!(
                "<iq type='get' id='d' to='{to}'><query xmlns='http://jabber.org/protocol/disco#{kind}' node='x'/></iq>"
            ),
        );
        assert!(world.hear(alice)[0].contains("item-not-found"), "{to} {kind}");
    }
    for (to, kind) in [
        ("example.org", "info"),
        ("example.org", "items"),
        ("alice@example.org", "info"),
        ("alice@example.org", "items"),
    ] {
        world.say(
            alice,
            &format!("<iq type='set' id='d' to='{to}'><query xmlns='http://jabber.org/protocol/disco#{kind}'/></iq>"),
        );
        assert!(world.hear(alice)[0].contains("bad-request"), "{to} {kind}");
    }
}

#[test]
fn the_servers_hash_is_a_node_of_its_own() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    let caps = crate::caps::of_server(world.host.settings()).unwrap();
    let node = format!("{}#{}", caps.attr("node").unwrap(), caps.attr("ver").unwrap());
    world.say(
        alice,
        &format!(
            "<iq type='get' id='d' to='example.org'>\
             <query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/></iq>"
        ),
    );
    let heard = world.hear(alice);
    assert!(heard[0].contains(&format!("node='{node}'")) && heard[0].contains("<feature"), "{heard:?}");
}
