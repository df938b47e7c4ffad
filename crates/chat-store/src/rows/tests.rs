//! Written rows are read back unchanged, at their largest; and rows that cannot be decoded never look absent.

use chat::limits;
use store::{Read, Sqlite, Store, Write};

use super::*;

const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

/// A record on disk, as the shard has it behind the store's threads.
struct World {
    writer: Box<dyn store::Writer>,
    reader: Box<dyn store::Reader>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let options = store::sqlite::Options { without_user, ..store::sqlite::Options::default() };
        let sqlite = Sqlite::open_with(folder.path().join("belfry.db"), options).unwrap();
        World { writer: sqlite.writer().unwrap(), reader: sqlite.reader().unwrap(), _folder: folder }
    }

    fn change(&mut self, change: Change) {
        let write = Write::Xmpp(write_of(NOW, change));
        let mut done = self.writer.write_group(&[write]);
        assert_eq!(done_of(done.remove(0)), Ok(StoreReply::Done));
    }

    fn load(&mut self, load: Load) -> StoreReply {
        match self.reader.load(&Read::Xmpp(read_of(load).unwrap())) {
            Ok(store::Loaded::Xmpp(loaded)) => loaded_of(loaded).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn items(&mut self, owner: &Bare, node: &str) -> Vec<(Box<str>, Instant, Element)> {
        let query = Box::new(ItemQuery::all());
        match self.load(Load::Items { owner: owner.clone(), node: node.into(), query }) {
            StoreReply::Items(page) => page.items,
            other => panic!("{other:?}"),
        }
    }

    fn waiting(&mut self, user: &Bare) -> Vec<(u64, Instant, Element)> {
        match self.load(Load::Offline { user: user.clone(), after: 0, ids: Vec::new() }) {
            StoreReply::Stanzas(page) => page.stanzas,
            other => panic!("{other:?}"),
        }
    }
}

fn bare(text: &str) -> Bare {
    Bare::parse(text).unwrap()
}

fn message() -> Element {
    let body = Element::new("body", ns::CLIENT).text("a < b & \"c\" 'd'\r\n\u{1F600}");
    Element::new("message", ns::CLIENT).with("id", "1\n2").child(body).child(Element::new("r", ns::RECEIPTS))
}

#[test]
fn the_data_of_an_account_is_read_back_unchanged() {
    let mut world = World::new();
    let user = bare("alice@example.org");
    let item = RosterItem {
        name: Some("Bob".into()),
        subscription: Subscription::From,
        ask: true,
        approved: true,
        asked: Some(Box::new(message())),
        is_listed: true,
        groups: vec!["Friends".into(), "Work".into()],
        version: 7,
    };
    let (contact, item) = (bare("bob@example.org"), item);
    let change =
        Change::Roster { user: user.clone(), contact: contact.clone(), item: Some(item.clone()), version: 7 };
    world.change(change);
    let blocked = vec![Jid::parse("eve@example.org").unwrap(), Jid::parse("spam.org").unwrap()];
    world.change(Change::Blocked { user: user.clone(), blocked: blocked.clone() });
    world.change(Change::LastSeen { user: user.clone(), at: NOW, status: "gone".into() });
    world.change(Change::Offline { user: user.clone(), at: NOW, stanza: Box::new(message()) });
    let node = Box::<str>::from(::chat::user::NODES[0]);
    let published = Some(Box::new(message()));
    let (owner, id) = (user.clone(), "current".into());
    world.change(Change::Item { owner, node: node.clone(), id, item: published, at: NOW, keep: 1 });
    let StoreReply::User(Some(record)) = world.load(Load::User { user: user.clone() }) else { panic!() };
    let expected = AccountData {
        roster: vec![(contact, item)],
        roster_version: 7,
        blocked,
        last_seen: Some((NOW, "gone".into())),
        offline: 1,
        items: vec![(node, message())],
        last_archived: None,
    };
    assert_eq!(*record, expected);
    let stanzas = world.waiting(&user);
    assert_eq!((stanzas[0].1, &stanzas[0].2), (NOW, &message()));
    world.change(Change::ForgetOffline { user: user.clone(), ids: vec![stanzas[0].0] });
    assert_eq!(world.waiting(&user), []);
}

#[test]
fn archives_items_and_rooms_come_back_as_they_were() {
    let mut world = World::new();
    let owner = bare("alice@example.org");
    let with = Jid::parse("bob@example.org/desk").unwrap();
    world.change(Change::Archive {
        owner: owner.clone(),
        id: "1".into(),
        with: with.clone(),
        at: NOW,
        stanza: Box::new(message()),
    });
    let page = |world: &mut World, with: &str| {
        let query = MamQuery { with: Some(Jid::parse(with).unwrap()), max: 10, ..MamQuery::default() };
        match world.load(Load::Archive { owner: owner.clone(), query: Box::new(query) }) {
            StoreReply::Page(page) => page,
            other => panic!("{other:?}"),
        }
    };
    for (with, count) in [("bob@example.org", 1), ("bob@example.org/desk", 1), ("bob@example.org/x", 0)] {
        let page = page(&mut world, with);
        assert_eq!((page.stanzas.len(), page.total, page.is_complete), (count, Some(count as u64), true));
        assert!(page.stanzas.iter().all(|(id, at, stanza)| (&**id, *at, stanza) == ("1", NOW, &message())));
    }
    for (text, count) in [("A < \"C\"", 1), ("elsewhere", 0)] {
        let query = MamQuery { text: Some(text.into()), max: 10, ..MamQuery::default() };
        match world.load(Load::Archive { owner: owner.clone(), query: Box::new(query) }) {
            StoreReply::Page(page) => {
                assert_eq!((page.stanzas.len(), page.is_complete), (count, true), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    let node: Box<str> = "urn:xmpp:bookmarks:1".into();
    let config = Some(Box::new(Element::new("x", ns::DATA)));
    world.change(Change::Node { owner: owner.clone(), node: node.clone(), config: config.clone() });
    world.change(Change::Item {
        owner: owner.clone(),
        node: node.clone(),
        id: "i".into(),
        item: Some(Box::new(message())),
        at: NOW,
        keep: 1,
    });
    assert_eq!(world.items(&owner, &node), [("i".into(), NOW, message())]);
    let nodes = RowPage { rows: vec![(node, NOW, Element::new("x", ns::DATA))], is_complete: true };
    assert_eq!(world.load(Load::Nodes { owner, after: None }), StoreReply::Rows(nodes));
    let room = bare("tea@conference.example.org");
    assert_eq!(world.load(Load::Room { room: room.clone() }), StoreReply::Room(None));
    world.change(Change::Room { room: room.clone(), config: config.clone(), charged: None });
    assert_eq!(world.load(Load::Room { room }), StoreReply::Room(config));
}

#[test]
fn absent_and_unreadable_data_are_told_apart() {
    assert_eq!(error_of(&StoreError::NotFound { what: "x".into() }), StoreFailure::NotFound);
    let broken = StoreError::Internal { detail: "x".into() };
    assert_eq!(error_of(&broken), StoreFailure::Unavailable);
    assert_eq!(element("<a>"), None);
}

/// All that a host writes. A new kind of change does not compile here until it has a test at its largest below.
fn kind_of(change: &Change) -> &'static str {
    match change {
        Change::Roster { .. } => "roster",
        Change::Blocked { .. } => "blocked",
        Change::LastSeen { .. } => "last seen",
        Change::Offline { .. } => "offline",
        // They write nothing.
        Change::ForgetOffline { .. } | Change::Purge { .. } => "",
        Change::Archive { .. } => "archive",
        Change::Item { .. } => "item",
        Change::Node { .. } => "node",
        Change::Room { .. } => "room",
    }
}

const KINDS: [&str; 8] = ["roster", "blocked", "last seen", "offline", "archive", "item", "node", "room"];

/// The nodes of features, beside those of clients: private data, bookmarks, vCards, avatars, preferences, push.
const ITEM_NODES: [&str; 9] = [
    "urn:xmpp:bookmarks:1",
    "storage:bookmarks",
    "private:storage:rosternotes",
    "vcard-temp",
    "vcard-temp:x:update",
    "urn:xmpp:avatar:data",
    "private:urn:xmpp:mam:2#preferences",
    "private:urn:xmpp:push:0",
    "urn:x:of-a-client",
];

/// A stanza of that many bytes on the wire, with as much in it as a stream lets through of everything.
fn largest(bytes: usize) -> Element {
    let mut deep = Element::new("d", "urn:x");
    for _ in 0..limits::DEPTH - 3 {
        deep = Element::new("d", "urn:x").child(deep);
    }
    let mut wide = Element::new("w", "urn:x");
    for number in 0..::xmpp::limits::ATTRIBUTES {
        wide.set(Box::leak(format!("a{number}").into_boxed_str()) as &'static str, "'\"<&>\r\n\t\u{1f600}");
    }
    let many = (0..::xmpp::limits::ELEMENTS - limits::DEPTH - 3).map(|_| Element::new("e", "urn:x"));
    let mut element = Element::new("message", ns::CLIENT).child(deep).child(wide).children(many);
    let left = bytes.saturating_sub(element.to_bytes(ns::CLIENT).len() + "<body></body>".len());
    element.push(Element::new("body", ns::CLIENT).text("x".repeat(left)));
    element
}

/// The elements that a host adds to a stanza: the time it came, and its place in the archive.
fn wrapped(message: Element) -> Element {
    let delay =
        Element::new("delay", ns::DELAY).with("from", "example.org").with("stamp", "2027-01-15T08:00:00Z");
    let id = Element::new("stanza-id", ns::SID).with("by", "alice@example.org").with("id", "x".repeat(64));
    Element::new("w", "urn:x").child(Element::new("w", "urn:x").child(message.child(delay).child(id)))
}

fn long_jid(number: usize) -> Jid {
    let [local, resource] = ["l", "r"].map(|part| format!("{number}{}", part.repeat(1_000)));
    Jid::new(Some(&local), "example.org", Some(&resource)).unwrap()
}

/// Each with what reads it back.
fn largest_changes(user: &Bare) -> Vec<(Change, Load)> {
    let item = RosterItem {
        name: Some("<".repeat(limits::CONTACT_NAME).into()),
        asked: Some(Box::new(
            Element::new("presence", ns::CLIENT).with("x", "&".repeat(limits::SUBSCRIPTION_REQUEST - 50)),
        )),
        groups: (0..limits::CONTACT_GROUPS)
            .map(|n| format!("{n:03}{}", "\"".repeat(limits::CONTACT_NAME - 3)).into())
            .collect(),
        is_listed: true,
        ..RosterItem::default()
    };
    let contact = long_jid(1).bare();
    let mut changes = vec![
        (
            Change::Roster { user: user.clone(), contact, item: Some(item), version: u64::MAX >> 1 },
            record_of(user),
        ),
        (
            Change::Blocked { user: user.clone(), blocked: (0..limits::BLOCKED / 5).map(long_jid).collect() },
            record_of(user),
        ),
        (
            Change::LastSeen { user: user.clone(), at: NOW, status: "<".repeat(limits::PRESENCE).into() },
            record_of(user),
        ),
        (
            Change::Offline {
                user: user.clone(),
                at: NOW,
                stanza: Box::new(wrapped(largest(limits::STANZA))),
            },
            Load::Offline { user: user.clone(), after: 0, ids: Vec::new() },
        ),
        (
            Change::Archive {
                owner: user.clone(),
                id: "1".into(),
                with: long_jid(2),
                at: NOW,
                stanza: Box::new(wrapped(largest(limits::STANZA))),
            },
            Load::Archive {
                owner: user.clone(),
                query: Box::new(MamQuery { max: 10, ..MamQuery::default() }),
            },
        ),
    ];
    changes.extend(largest_configurations(user));
    changes.extend(ITEM_NODES.into_iter().map(|node| largest_item(user, node)));
    changes
}

fn largest_configurations(user: &Bare) -> [(Change, Load); 2] {
    let room = bare("tea@conference.example.org");
    [
        (
            Change::Node {
                owner: user.clone(),
                node: "n".repeat(limits::NODE_NAME).into(),
                config: Some(Box::new(wrapped(largest(400 << 10)))),
            },
            Load::Nodes { owner: user.clone(), after: None },
        ),
        (
            Change::Room {
                room: room.clone(),
                config: Some(Box::new(wrapped(largest(400 << 10)))),
                charged: None,
            },
            Load::Room { room },
        ),
    ]
}

fn record_of(user: &Bare) -> Load {
    Load::User { user: user.clone() }
}

fn largest_item(user: &Bare, node: &str) -> (Change, Load) {
    let (owner, node): (Bare, Box<str>) = (user.clone(), node.into());
    let item = Some(Box::new(Element::new("item", ns::PUBSUB).child(largest(limits::ITEM))));
    let id = "i".repeat(limits::NODE_NAME).into();
    let change = Change::Item { owner: owner.clone(), node: node.clone(), id, item, at: NOW, keep: 9 };
    (change, Load::Items { owner, node, query: Box::new(ItemQuery::all()) })
}

/// The elements of an answer, and whether it is of that change.
fn is_of(change: &Change, loaded: &StoreReply) -> bool {
    match (change, loaded) {
        (Change::Roster { contact, item, .. }, StoreReply::User(Some(record))) => {
            record.roster.iter().any(|(known, has)| known == contact && Some(has) == item.as_ref())
        }
        (Change::Blocked { blocked, .. }, StoreReply::User(Some(record))) => record.blocked == *blocked,
        (Change::LastSeen { status, .. }, StoreReply::User(Some(record))) => {
            record.last_seen.as_ref().is_some_and(|(_, last)| last == status)
        }
        (Change::Offline { stanza, .. }, StoreReply::Stanzas(page)) => {
            page.stanzas.iter().any(|row| row.2 == **stanza)
        }
        (Change::Archive { stanza, .. }, StoreReply::Page(page)) => {
            page.stanzas.iter().any(|row| row.2 == **stanza)
        }
        (Change::Item { item, .. }, StoreReply::Items(page)) => {
            page.items.iter().any(|row| Some(&row.2) == item.as_deref())
        }
        (Change::Node { config, .. }, StoreReply::Rows(page)) => {
            page.rows.iter().any(|row| Some(&row.2) == config.as_deref())
        }
        (Change::Room { config, .. }, StoreReply::Room(room)) => room == config,
        _ => false,
    }
}

#[test]
fn everything_that_is_written_comes_back_at_its_largest() {
    let mut world = World::new();
    let user = bare("alice@example.org");
    let mut seen: Vec<&str> = Vec::new();
    for (change, load) in largest_changes(&user) {
        world.change(change.clone());
        seen.push(kind_of(&change));
        assert!(is_of(&change, &world.load(load)), "{}: {seen:?}", kind_of(&change));
    }
    assert!(KINDS.iter().all(|kind| seen.contains(kind)), "each kind has a test: {seen:?}");
}

#[test]
fn unreadable_rows_are_unavailable_and_never_absent() {
    let broken = || Box::<str>::from("<a>");
    let at = NOW;
    assert_eq!(loaded_of(XmppLoaded::Room(Some(broken()))), Err(StoreFailure::Unavailable));
    assert_eq!(loaded_of(XmppLoaded::Room(None)), Ok(StoreReply::Room(None)));
    let items = stored::ItemPage { items: vec![("i".into(), at, broken())], ..stored::ItemPage::default() };
    assert_eq!(loaded_of(XmppLoaded::Items(items)), Err(StoreFailure::Unavailable));
    let rows = vec![("node".into(), at, broken())];
    let rows = loaded_of(XmppLoaded::Rows(stored::RowPage { rows, is_complete: true }));
    assert!(matches!(rows, Ok(StoreReply::Rows(page)) if page.rows.len() == 1), "a node's name is not free");
    let stanzas = vec![(7, at, broken())];
    let page = loaded_of(XmppLoaded::Stanzas(stored::StanzaPage { stanzas, is_complete: true }));
    assert!(matches!(page, Ok(StoreReply::Stanzas(page)) if page.stanzas[0].0 == 7), "it can be removed");
    for row in [
        UserRow { blocked: vec!["@@".into()], ..UserRow::default() },
        UserRow { roster: vec![("@@".into(), RosterRow::default())], ..UserRow::default() },
    ] {
        assert_eq!(loaded_of(XmppLoaded::User(Box::new(row))), Err(StoreFailure::Unavailable));
    }
    let row = UserRow { items: vec![("n".into(), broken())], ..UserRow::default() };
    let Ok(StoreReply::User(Some(user))) = loaded_of(XmppLoaded::User(Box::new(row))) else { panic!() };
    assert_eq!(user.items.len(), 1, "the feature learns that there was something");
}

#[test]
fn the_store_pages_items_as_items_in_memory_are_paged() {
    let mut world = World::new();
    let owner = bare("alice@example.org");
    let mut rows = Vec::new();
    for number in 0..9_u32 {
        let (id, item): (Box<str>, _) =
            (number.to_string().into(), Element::new("item", "").text("x".repeat(100)));
        let (node, stored) = ("n".into(), Some(Box::new(item.clone())));
        world.change(Change::Item {
            owner: owner.clone(),
            node,
            id: id.clone(),
            item: stored,
            at: NOW,
            keep: 9,
        });
        rows.push((id, NOW, item));
    }
    let id = |number: u32| Some(Box::<str>::from(number.to_string()));
    for newest in [None, Some(0), Some(4), Some(20)] {
        for (after, before, from_end) in [
            (None, None, false),
            (None, None, true),
            (id(6), None, false),
            (None, id(2), true),
            (id(99), None, false),
        ] {
            for (index, max, bytes) in
                [(0, 100, 1 << 20), (2, 3, 1 << 20), (0, 0, 1 << 20), (0, 100, 300), (9, 1, 1)]
            {
                let ids = Vec::new();
                let (after, before) = (after.clone(), before.clone());
                let query =
                    ItemQuery { ids, newest, after, before, from_end, index, max, bytes, is_ids_only: false };
                let load =
                    Load::Items { owner: owner.clone(), node: "n".into(), query: Box::new(query.clone()) };
                assert_eq!(world.load(load), StoreReply::Items(query.page_of(&rows)), "{query:?}");
            }
        }
    }
}

#[test]
fn a_removed_account_is_taken_out_of_stored_rooms_and_nodes() {
    let mut world = World::new();
    let (owner, room) = (bare("pubsub.example.org"), bare("tea@conference.example.org"));
    let item = |name: &'static str, ns: &'static str, jid: &str, affiliation: &'static str| {
        Element::new(name, ns).with("jid", jid).with("affiliation", affiliation)
    };
    let items = |jid: &str| ["owner", "outcast"].map(|is| item("item", ns::MUC_OWNER, jid, is));
    let config =
        |jids: &[&str]| Element::new("room", ns::MUC_OWNER).children(jids.iter().flat_map(|jid| items(jid)));
    let all = config(&["alice@example.org", "malice@example.org"]);
    world.change(Change::Room { room: room.clone(), config: Some(Box::new(all)), charged: None });
    let node = |jids: &[&str]| {
        let is = |jid: &&str| item("affiliation", ns::PUBSUB_OWNER, jid, "owner");
        let subscribed = |jid: &&str| {
            Element::new("subscription", ns::PUBSUB_OWNER)
                .with("jid", format!("{jid}/r"))
                .with("subscription", "subscribed")
        };
        Element::new("pubsub", ns::PUBSUB_OWNER)
            .child(Element::new("affiliations", ns::PUBSUB_OWNER).children(jids.iter().map(is)))
            .child(Element::new("subscriptions", ns::PUBSUB_OWNER).children(jids.iter().map(subscribed)))
    };
    let all = Some(Box::new(node(&["alice@example.org", "bob@example.org"])));
    world.change(Change::Node { owner: owner.clone(), node: "news".into(), config: all });
    let mut done =
        world.writer.write_group(&[Write::Xmpp(XmppWrite::ForgetUser { user: "alice@example.org".into() })]);
    assert_eq!(done_of(done.remove(0)), Ok(StoreReply::Done));
    let StoreReply::Room(Some(stored)) = world.load(Load::Room { room }) else { panic!() };
    let left = [&items("alice@example.org")[1..], &items("malice@example.org")].concat();
    assert_eq!(*stored, Element::new("room", ns::MUC_OWNER).children(left));
    let StoreReply::Rows(page) = world.load(Load::Nodes { owner, after: None }) else { panic!() };
    assert_eq!(page.rows[0].2, node(&["bob@example.org"]));
}
