//! vCards, and avatars however they are set.

use super::effect::{RosterItem, Subscription};
use super::pubsub::{appear, ask, events, get, set};
use super::*;

const ALICE: &str = "alice@example.org";
/// A picture of the three bytes `abc`, and its hash.
const DATA: &str = "YWJj";
const HASH: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";

fn world() -> (HostWorld, u64, u64, u64) {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org", "eve@example.org"]);
    for (user, contact) in [(ALICE, "bob@example.org"), ("bob@example.org", ALICE)] {
        let item = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
        let store = world.store.users.get_mut(&Bare::parse(user).unwrap()).unwrap();
        store.roster.push((Bare::parse(contact).unwrap(), item));
    }
    let clients = ["alice@example.org/desk", "bob@example.org/phone", "eve@example.org/den"];
    let [alice, bob, eve] = clients.map(|jid| world.sign_in(jid));
    for client in [alice, bob, eve] {
        world.say(client, "<presence/>");
        world.hear(client);
    }
    (world, alice, bob, eve)
}

fn vcard(inner: &str) -> String {
    format!("<vCard xmlns='vcard-temp'>{inner}</vCard>")
}

fn photo(data: &str) -> String {
    format!("<PHOTO><TYPE>image/jpeg</TYPE><BINVAL>{data}</BINVAL></PHOTO>")
}

fn publish(world: &mut HostWorld, client: u64, node: &str, id: &str, payload: &str) -> String {
    set(world, client, ALICE, &format!("<publish node='{node}'><item id='{id}'>{payload}</item></publish>"))
}

fn data(data: &str) -> String {
    format!("<data xmlns='urn:xmpp:avatar:data'>{data}</data>")
}

fn metadata(info: &str) -> String {
    format!("<metadata xmlns='urn:xmpp:avatar:metadata'>{info}</metadata>")
}

#[test]
fn a_vcard_is_kept_and_shown_to_all_users() {
    let (mut world, alice, _, eve) = world();
    assert!(ask(&mut world, alice, "get", ALICE, &vcard("")).contains("item-not-found"));
    let none = ask(&mut world, eve, "get", ALICE, &vcard(""));
    assert!(none.contains("service-unavailable"), "{none}");
    let unknown = ask(&mut world, eve, "get", "nobody@example.org", &vcard(""));
    assert_eq!(none.replace(ALICE, "nobody@example.org"), unknown);
    world.say(alice, &format!("<iq type='set' id='v'>{}</iq>", vcard("<FN>Alice</FN>")));
    assert!(world.hear(alice).last().unwrap().contains("type='result'"));
    assert!(ask(&mut world, eve, "get", ALICE, &vcard("")).contains("<FN>Alice</FN>"));
    assert!(ask(&mut world, eve, "set", ALICE, &vcard("")).contains("forbidden"));
    let big = vcard(&format!("<DESC>{}</DESC>", "x".repeat(crate::limits::ITEM)));
    assert!(ask(&mut world, alice, "set", ALICE, &big).contains("not-acceptable"));
    assert!(ask(&mut world, alice, "set", ALICE, &vcard(&photo("?"))).contains("bad-request"));
    world.store.is_broken = true;
    for kind in ["get", "set"] {
        assert!(ask(&mut world, alice, kind, ALICE, &vcard("")).contains("resource-constraint"));
    }
}

#[test]
fn a_photo_in_the_vcard_is_an_avatar_everywhere() {
    let (mut world, alice, bob, _) = world();
    appear(&mut world, bob, &["urn:xmpp:avatar:metadata"]);
    world.hear(bob);
    ask(&mut world, alice, "set", ALICE, &vcard(&photo(DATA)));
    let heard = world.hear(bob);
    let presence = heard.iter().find(|stanza| stanza.starts_with("<presence")).unwrap();
    assert!(presence.contains(&format!("<photo>{HASH}</photo>")), "{heard:?}");
    let event = heard.iter().find(|stanza| stanza.contains("pubsub#event")).unwrap();
    for part in [&format!("id='{HASH}'"), "type='image/jpeg'", "bytes='3'"] {
        assert!(event.contains(part), "{part}: {event}");
    }
    let item = get(&mut world, bob, ALICE, "<items node='urn:xmpp:avatar:data'/>");
    assert!(item.contains(&data(DATA)), "{item}");
    // Nothing new, nothing told.
    ask(&mut world, alice, "set", ALICE, &vcard(&photo(DATA)));
    assert!(world.hear(bob).is_empty());
    ask(&mut world, alice, "set", ALICE, &vcard("<FN>Alice</FN>"));
    let heard = world.hear(bob);
    assert!(heard.iter().any(|stanza| stanza.contains("<photo/>")), "{heard:?}");
    assert!(
        heard.iter().any(|stanza| stanza.contains("<metadata xmlns='urn:xmpp:avatar:metadata'/>")),
        "{heard:?}"
    );
}

#[test]
fn a_published_avatar_is_in_the_vcard() {
    let (mut world, alice, bob, _) = world();
    ask(&mut world, alice, "set", ALICE, &vcard("<FN>Alice</FN>"));
    publish(&mut world, alice, "urn:xmpp:avatar:data", HASH, &data(DATA));
    world.hear(bob);
    let info = format!("<info id='{HASH}' type='image/png' bytes='3'/>");
    publish(&mut world, alice, "urn:xmpp:avatar:metadata", HASH, &metadata(&info));
    assert!(world.hear(bob)[0].contains(&format!("<photo>{HASH}</photo>")));
    let card = ask(&mut world, bob, "get", ALICE, &vcard(""));
    for part in ["<FN>Alice</FN>", "<TYPE>image/png</TYPE>", "<BINVAL>YWJj</BINVAL>"] {
        assert!(card.contains(part), "{part}: {card}");
    }
    // Not one that is not there, is not what it says, or is elsewhere.
    publish(&mut world, alice, "urn:xmpp:avatar:data", "other", &data("ZGVm"));
    for info in ["<info id='none'/>", "<info id='other'/>", "<info id='far' url='https://x.org/a.png'/>"] {
        publish(&mut world, alice, "urn:xmpp:avatar:metadata", "m", &metadata(info));
        assert!(world.hear(bob).is_empty(), "{info}");
    }
    publish(&mut world, alice, "urn:xmpp:avatar:metadata", "m", &metadata(""));
    assert!(world.hear(bob)[0].contains("<photo/>"));
    let card = ask(&mut world, bob, "get", ALICE, &vcard(""));
    assert!(card.contains("<FN>Alice</FN>") && !card.contains("PHOTO"), "{card}");
}

#[test]
fn presence_has_the_hash_even_if_the_client_sends_another() {
    let (mut world, alice, bob, _) = world();
    let wrong = "<presence><x xmlns='vcard-temp:x:update'><photo>0</photo></x></presence>";
    world.say(alice, wrong);
    assert!(world.hear(bob)[0].contains("<photo/>"));
    ask(&mut world, alice, "set", ALICE, &vcard(&photo(DATA)));
    // The empty photo was not the client's.
    assert!(world.hear(bob)[0].contains(HASH));
    for presence in ["<presence/>", wrong] {
        world.say(alice, presence);
        let heard = world.hear(bob);
        assert!(heard.len() == 1 && heard[0].matches(HASH).count() == 1, "{heard:?}");
        assert_eq!(heard[0].matches("vcard-temp:x:update").count(), 1);
    }
    // It is read again by a host that has just begun.
    world.host = Host::new(Arc::new(settings()), ShardAddress::default(), [2; 32]);
    let (bob, alice) = (world.sign_in("bob@example.org/phone"), world.sign_in("alice@example.org/desk"));
    world.say(bob, "<presence/>");
    world.hear(bob);
    world.say(alice, "<presence/>");
    assert!(world.hear(bob)[0].contains(HASH));
}

/// XEP-0398, "Presence Broadcast": directed presence has the hash, too; a client that says that it shows no avatar shows none.
#[test]
fn directed_presence_has_the_hash_and_an_empty_photo_stays() {
    let (mut world, alice, bob, _) = world();
    ask(&mut world, alice, "set", ALICE, &vcard(&photo(DATA)));
    world.hear(bob);
    let update = |photo: &str| format!("<x xmlns='vcard-temp:x:update'>{photo}</x>");
    let has_hash = format!("<photo>{HASH}</photo>");
    for (inner, shown) in [
        ("<x xmlns='http://jabber.org/protocol/muc'/>".to_owned(), &*has_hash),
        (update(""), &*has_hash),
        (update("<photo>0</photo>"), &*has_hash),
        (update("<photo/>"), "<photo/>"),
    ] {
        world.say(alice, &format!("<presence to='coven@rooms.x.org/alice'>{inner}</presence>"));
        let sent = world.sent_abroad();
        assert!(sent.len() == 1 && sent[0].contains(shown), "{inner}: {sent:?}");
        assert_eq!(sent[0].matches("<photo").count(), 1, "{sent:?}");
        world.say(alice, &format!("<presence>{inner}</presence>"));
        let heard = world.hear(bob);
        assert!(heard.len() == 1 && heard[0].contains(shown), "{inner}: {heard:?}");
    }
    world.say(alice, "<presence type='unavailable' to='coven@rooms.x.org/alice'/>");
    assert!(!world.sent_abroad()[0].contains("vcard-temp:x:update"));
    // Another picture is not shown either, until the client shows one.
    ask(&mut world, alice, "set", ALICE, &vcard(&photo("ZGVm")));
    assert!(world.hear(bob).iter().all(|stanza| !stanza.contains("<photo>")));
    world.say(alice, "<presence/>");
    assert!(world.hear(bob)[0].contains("<photo>"));
}

/// The empty photo of an account that has removed its avatar is the server's, so the next avatar takes its place.
#[test]
fn an_avatar_after_a_removed_one_is_shown() {
    let (mut world, alice, bob, _) = world();
    let steps = [(photo(DATA), format!("<photo>{HASH}</photo>")), (String::new(), "<photo/>".to_owned())];
    for (card, shown) in steps.iter().chain(&steps) {
        ask(&mut world, alice, "set", ALICE, &vcard(card));
        let heard = world.hear(bob);
        assert!(heard.iter().any(|stanza| stanza.contains(shown)), "{shown}: {heard:?}");
    }
}

#[test]
fn a_vcard4_is_the_item_of_its_node() {
    let (mut world, alice, _, eve) = world();
    let query = "<vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'/>";
    assert!(ask(&mut world, alice, "get", ALICE, query).contains("item-not-found"));
    assert!(ask(&mut world, eve, "get", ALICE, query).contains("service-unavailable"));
    let card = "<vcard xmlns='urn:ietf:params:xml:ns:vcard-4.0'><fn><text>Alice</text></fn></vcard>";
    assert!(ask(&mut world, eve, "set", ALICE, card).contains("forbidden"));
    assert!(ask(&mut world, alice, "set", ALICE, card).contains("result"));
    assert!(ask(&mut world, eve, "get", ALICE, query).contains("<text>Alice</text>"));
    let item = get(&mut world, eve, ALICE, "<items node='urn:xmpp:vcard4'/>");
    assert!(item.contains("<text>Alice</text>"), "{item}");
    publish(&mut world, alice, "urn:xmpp:vcard4", "current", &card.replace("Alice", "Al"));
    assert!(ask(&mut world, eve, "get", ALICE, query).contains("<text>Al</text>"));
    let secret = "<configure node='urn:xmpp:vcard4'><x xmlns='jabber:x:data' type='submit'>\
        <field var='pubsub#access_model'><value>whitelist</value></field></x></configure>";
    let owner = format!("<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>{secret}</pubsub>");
    assert!(ask(&mut world, alice, "set", ALICE, &owner).contains("result"));
    assert!(ask(&mut world, eve, "get", ALICE, query).contains("service-unavailable"));
    assert!(events(&mut world, eve).is_empty());
}
