//! Private data, and bookmarks that are the same in it and as items.

use super::pubsub::{appear, ask, events, get, set};
use super::*;

const ALICE: &str = "alice@example.org";

fn private(world: &mut HostWorld, client: u64, kind: &str, inner: &str) -> String {
    ask(world, client, kind, ALICE, &format!("<query xmlns='jabber:iq:private'>{inner}</query>"))
}

fn storage(inner: &str) -> String {
    format!("<storage xmlns='storage:bookmarks'>{inner}</storage>")
}

#[test]
fn private_data_is_kept_for_the_account_that_stored_it() {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    let bob = world.sign_in("bob@example.org/desk");
    let empty = "<exodus xmlns='exodus:prefs'/>";
    assert!(private(&mut world, alice, "get", empty).contains(empty));
    let stored = "<exodus xmlns='exodus:prefs'><nick>Al</nick></exodus>";
    assert!(private(&mut world, alice, "set", stored).contains("result"));
    assert!(private(&mut world, alice, "get", empty).contains(stored));
    // The same namespace, another name.
    assert!(private(&mut world, alice, "get", "<other xmlns='exodus:prefs'/>").contains("<other "));
    assert!(private(&mut world, bob, "get", empty).contains("service-unavailable"));
    for (wrong, condition) in [
        (String::new(), "bad-request"),
        (format!("{empty}{empty}"), "bad-request"),
        ("<vCard xmlns='vcard-temp'/>".to_owned(), "not-acceptable"),
        ("<query xmlns='jabber:iq:roster'/>".to_owned(), "not-acceptable"),
    ] {
        for kind in ["get", "set"] {
            assert!(private(&mut world, alice, kind, &wrong).contains(condition), "{wrong}");
        }
    }
    let big = format!("<d xmlns='urn:d'>{}</d>", "x".repeat(crate::limits::ITEM));
    assert!(private(&mut world, alice, "set", &big).contains("not-acceptable"));
    world.store.is_broken = true;
    for kind in ["get", "set"] {
        for data in [empty, &storage("")] {
            assert!(private(&mut world, alice, kind, data).contains("resource-constraint"));
        }
    }
    let mut world = HostWorld::new(&[]);
    let guest = world.sign_in_as("g@example.org/1", true);
    let answer = ask(
        &mut world,
        guest,
        "set",
        "g@example.org",
        &format!("<query xmlns='jabber:iq:private'>{empty}</query>"),
    );
    assert!(answer.contains("not-allowed"), "{answer}");
}

#[test]
fn bookmarks_of_old_clients_are_items_for_new_ones() {
    let mut world = HostWorld::new(&[ALICE]);
    let old = world.sign_in("alice@example.org/old");
    let new = world.sign_in("alice@example.org/new");
    appear(&mut world, new, &["urn:xmpp:bookmarks:1"]);
    world.hear(new);
    let url = "<url name='x' url='https://x.org/'/>";
    let room = "<conference jid='a@rooms.x.org' name='A' autojoin='true'><nick>al</nick></conference>";
    assert!(private(&mut world, old, "set", &storage(&format!("{url}{room}"))).contains("result"));
    let heard = events(&mut world, new);
    assert!(heard.len() == 1 && heard[0].contains("<item id='a@rooms.x.org'>"), "{heard:?}");
    let items = get(&mut world, new, ALICE, "<items node='urn:xmpp:bookmarks:1'/>");
    let native =
        "<conference xmlns='urn:xmpp:bookmarks:1' name='A' autojoin='true'><nick>al</nick></conference>";
    assert!(items.contains(native), "{items}");
    // The same again is nothing new; removed rooms are retracted.
    private(&mut world, old, "set", &storage(&format!("{url}{room}")));
    assert!(events(&mut world, new).is_empty());
    let other = "<conference jid='b@rooms.x.org'/>";
    private(&mut world, old, "set", &storage(&format!("{url}{other}")));
    let heard = events(&mut world, new).concat();
    assert!(
        heard.contains("<retract id='a@rooms.x.org'/>") && heard.contains("<item id='b@rooms.x.org'>"),
        "{heard}"
    );
    let stored = private(&mut world, old, "get", &storage(""));
    assert!(stored.contains(url) && stored.contains(other) && !stored.contains("a@rooms"), "{stored}");
    // The largest number of rooms in an account that is imported from another server.
    let mut world_of_many = HostWorld::new(&[ALICE]);
    let many = world_of_many.sign_in("alice@example.org/old");
    let rooms: String = (0..300).map(|n| format!("<conference jid='r{n}@rooms.x.org'/>")).collect();
    private(&mut world_of_many, many, "set", &storage(&rooms));
    assert_eq!(private(&mut world_of_many, many, "get", &storage("")).matches("jid='r").count(), 300);
    let wrong = storage("<conference jid='a@rooms.x.org/nick'/>");
    assert!(private(&mut world, old, "set", &wrong).contains("bad-request"));
}

#[test]
fn bookmarks_of_new_clients_are_there_for_old_ones() {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org"]);
    let (alice, bob) = (world.sign_in("alice@example.org/desk"), world.sign_in("bob@example.org/desk"));
    let native = "<conference xmlns='urn:xmpp:bookmarks:1' name='A' autojoin='1'><password>p</password>\
        <extensions><e xmlns='urn:e'/></extensions></conference>";
    let field = |var: &str, value: &str| format!("<field var='pubsub#{var}'><value>{value}</value></field>");
    let options = [
        ("persist_items", "true"),
        ("max_items", "max"),
        ("send_last_published_item", "never"),
        ("access_model", "whitelist"),
    ];
    let options: String = options.iter().map(|(var, value)| field(var, value)).collect();
    let publish = format!(
        "<publish node='urn:xmpp:bookmarks:1'><item id='a@rooms.x.org'>{native}</item></publish>\
         <publish-options><x xmlns='jabber:x:data' type='submit'>{options}</x></publish-options>"
    );
    assert!(set(&mut world, alice, ALICE, &publish).contains("result"));
    let stored = private(&mut world, alice, "get", &storage(""));
    let room = "<conference jid='a@rooms.x.org' name='A' autojoin='true'><password>p</password></conference>";
    assert!(stored.contains(room), "{stored}");
    // An old client changes the name, and knows nothing of extensions, which stay.
    private(&mut world, alice, "set", &storage(&room.replace("'A'", "'B'")));
    let items = get(&mut world, alice, ALICE, "<items node='urn:xmpp:bookmarks:1'/>");
    assert!(items.contains("name='B'") && items.contains("<extensions><e "), "{items}");
    // The node that old clients create is the one that new ones read, and other accounts cannot read it.
    let mut fresh = HostWorld::new(&[ALICE]);
    let old = fresh.sign_in("alice@example.org/old");
    private(&mut fresh, old, "set", &storage(room));
    assert!(set(&mut fresh, old, ALICE, &publish).contains("result"));
    assert!(get(&mut world, bob, ALICE, "<items node='urn:xmpp:bookmarks:1'/>").contains("closed-node"));
}

/// XEP-0402 §3: an item's id is the room's address, in the form in which its client wrote it.
#[test]
fn old_clients_remove_only_bookmarks_they_see() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    private(
        &mut world,
        alice,
        "set",
        &storage("<conference jid='a@rooms.x.org'/><conference jid='b@rooms.x.org'/>"),
    );
    let native = "<conference xmlns='urn:xmpp:bookmarks:1' name='N'><extensions><e xmlns='urn:e'/></extensions></conference>";
    for (id, payload) in [
        ("C@Rooms.x.org", native),
        ("note", "<note xmlns='urn:n'/>"),
        ("d@rooms.x.org", "<x xmlns='urn:n'/>"),
    ] {
        let item = format!("<item id='{id}'>{payload}</item>");
        let answer =
            set(&mut world, alice, ALICE, &format!("<publish node='urn:xmpp:bookmarks:1'>{item}</publish>"));
        assert!(answer.contains("result"), "{answer}");
    }
    private(
        &mut world,
        alice,
        "set",
        &storage("<conference jid='b@rooms.x.org'/><conference jid='c@rooms.x.org' name='M'/>"),
    );
    let items = get(&mut world, alice, ALICE, "<items node='urn:xmpp:bookmarks:1'/>");
    assert!(!items.contains("a@rooms"), "{items}");
    assert!(
        items.contains("<note ") && items.contains("id='d@rooms.x.org'"),
        "no rooms of old clients: {items}"
    );
    assert_eq!(items.to_lowercase().matches("'c@rooms.x.org'").count(), 1, "{items}");
    assert!(items.contains("name='M'") && items.contains("<extensions><e "), "{items}");
    private(&mut world, alice, "set", &storage("<conference jid='b@rooms.x.org'/>"));
    let items = get(&mut world, alice, ALICE, "<items node='urn:xmpp:bookmarks:1'/>");
    assert!(!items.contains("C@Rooms") && items.contains("<note "), "{items}");
}

#[test]
fn bookmarks_in_the_old_node_are_those_of_the_new_one() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    let publish_old = |world: &mut HostWorld, rooms: &str| {
        let item = format!("<item id='current'>{}</item>", storage(rooms));
        set(world, alice, ALICE, &format!("<publish node='storage:bookmarks'>{item}</publish>"))
    };
    let publish_new = |world: &mut HostWorld, room: &str| {
        let native = "<conference xmlns='urn:xmpp:bookmarks:1' name='N'/>";
        let item = format!("<item id='{room}@rooms.x.org'>{native}</item>");
        set(world, alice, ALICE, &format!("<publish node='urn:xmpp:bookmarks:1'>{item}</publish>"))
    };
    let room = |name: &str| format!("<conference jid='{name}@rooms.x.org' name='O'/>");
    let rooms = |world: &mut HostWorld, node: &str| {
        let items = get(world, alice, ALICE, &format!("<items node='{node}'/>"));
        let found =
            ["a", "b", "c"].into_iter().filter(|room| items.contains(&format!("'{room}@rooms.x.org'")));
        found.collect::<String>()
    };
    let both =
        |world: &mut HostWorld| (rooms(world, "storage:bookmarks"), rooms(world, "urn:xmpp:bookmarks:1"));
    // With more than one room the node has to be as clients make it.
    let first = format!("<query xmlns='jabber:iq:private'>{}</query>", storage(&room("a")));
    world.say(alice, &format!("<iq type='set' id='p'>{first}</iq>"));
    world.hear(alice);
    assert_eq!(both(&mut world), ("a".into(), "a".into()));
    assert!(publish_new(&mut world, "b").contains("result"));
    assert_eq!(both(&mut world), ("ab".into(), "ab".into()));
    assert!(
        publish_old(&mut world, &(room("b") + &room("c") + "<url url='https://x.org/'/>")).contains("result")
    );
    assert_eq!(both(&mut world), ("bc".into(), "bc".into()));
    let retract = "<retract node='urn:xmpp:bookmarks:1'><item id='b@rooms.x.org'/></retract>";
    assert!(set(&mut world, alice, ALICE, retract).contains("result"));
    assert_eq!(both(&mut world), ("c".into(), "c".into()));
    let items = get(&mut world, alice, ALICE, "<items node='storage:bookmarks'/>");
    assert!(items.contains("https://x.org/"), "a bookmark of no room stays: {items}");
    // A client that found no old node takes nothing away.
    world.say(alice, "<iq type='set' id='d'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='storage:bookmarks'/></pubsub></iq>");
    world.hear(alice);
    assert!(publish_old(&mut world, &room("a")).contains("result"));
    assert_eq!(both(&mut world), ("ac".into(), "ac".into()));
}

/// XEP-0049 §2.1: the result says that the data is stored. Bookmarks are stored in three places, and read from any.
#[test]
fn bookmarks_are_answered_once_they_can_be_read() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    let room = |name: &str| format!("<conference jid='{name}@rooms.x.org' name='{name}'/>");
    let get = format!("<iq type='get' id='g'><query xmlns='jabber:iq:private'>{}</query></iq>", storage(""));
    // The first set makes the nodes, the second takes a room back and adds one.
    for rooms in [["a", "b"], ["b", "c"]] {
        let rooms = rooms.map(room);
        world.is_slow = true;
        world.say(
            alice,
            &format!(
                "<iq type='set' id='s'><query xmlns='jabber:iq:private'>{}</query></iq>",
                storage(&rooms.concat())
            ),
        );
        let is_answered = |heard: &[String]| heard.iter().any(|stanza| stanza.contains("id='s'"));
        while !world.unwritten.is_empty() {
            let heard = world.hear(alice);
            assert!(!is_answered(&heard), "answered before it is on disk: {heard:?}");
            world.write();
        }
        let heard = world.hear(alice);
        assert!(is_answered(&heard) && heard.concat().contains("type='result'"), "{heard:?}");
        world.is_slow = false;
        world.say(alice, &get);
        let read = world.hear(alice).concat();
        assert!(rooms.iter().all(|room| read.contains(room)), "{read}");
        assert_eq!(read.matches("<conference").count(), 2, "{read}");
    }
}

/// A client that publishes a native bookmark may read it in the old node at once, and the other way round (XEP-0402 §5).
#[test]
fn published_bookmarks_are_answered_once_the_other_node_has_them() {
    let mut world = HostWorld::new(&[ALICE]);
    let alice = world.sign_in("alice@example.org/desk");
    let native = "<publish node='urn:xmpp:bookmarks:1'><item id='a@rooms.x.org'>\
        <conference xmlns='urn:xmpp:bookmarks:1'/></item></publish>";
    let old = format!(
        "<publish node='storage:bookmarks'><item id='current'>{}</item></publish>",
        storage("<conference jid='b@rooms.x.org'/>")
    );
    for (publish, other) in [(native, "storage:bookmarks"), (&old, "urn:xmpp:bookmarks:1")] {
        world.is_slow = true;
        world.say(
            alice,
            &format!("<iq type='set' id='s'><pubsub xmlns='http://jabber.org/protocol/pubsub'>{publish}</pubsub></iq>"),
        );
        while !world.unwritten.is_empty() {
            let heard = world.hear(alice).concat();
            assert!(!heard.contains("id='s'"), "answered before the other node has it: {heard}");
            world.write();
        }
        assert!(world.hear(alice).concat().contains("id='s'"));
        world.is_slow = false;
        let room = if other == "storage:bookmarks" { "a@rooms.x.org" } else { "b@rooms.x.org" };
        let items = super::pubsub::get(&mut world, alice, ALICE, &format!("<items node='{other}'/>"));
        assert!(items.contains(room), "{items}");
    }
}
