//! Rows of XMPP are read back, in their order and within their limits.

use super::{Database, database};
use stdx::Instant;
use store::xmpp::{
    ArchiveQuery, ArchiveRow, ItemQuery, RosterRow, StanzaPage, XmppLoaded, XmppRead, XmppWrite,
};
use store::{Admin, Loaded, Read, StoreError, Write, limits};

struct World {
    admin: Admin,
    _database: Database,
}

fn texts(rows: &[(Box<str>, Instant, Box<str>)]) -> Vec<String> {
    rows.iter().map(|(id, _, text)| format!("{id} {text}")).collect()
}

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

impl World {
    fn new() -> World {
        let database = database();
        let store = database.store();
        World { admin: Admin::new(&*store).unwrap(), _database: database }
    }

    fn write(&mut self, write: XmppWrite) -> Result<(), StoreError> {
        self.admin.write(&Write::Xmpp(write)).map(drop)
    }

    fn read(&mut self, read: XmppRead) -> XmppLoaded {
        match self.admin.read(&Read::Xmpp(read)).unwrap() {
            Loaded::Xmpp(loaded) => loaded,
            other => panic!("{other:?}"),
        }
    }

    fn items(&mut self, read: XmppRead) -> Vec<String> {
        match self.read(read) {
            XmppLoaded::Items(page) => texts(&page.items),
            XmppLoaded::Rows(page) => texts(&page.rows),
            other => panic!("{other:?}"),
        }
    }

    fn waiting(&mut self, user: &str, after: u64, ids: &[u64]) -> StanzaPage {
        match self.read(XmppRead::Offline { user: user.into(), after, ids: ids.to_vec() }) {
            XmppLoaded::Stanzas(page) => page,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_user_is_loaded_with_its_roster_and_other_rows() {
    let mut world = World::new();
    let user: Box<str> = "alice@example.org".into();
    let row = |subscription: &str| RosterRow {
        subscription: subscription.into(),
        groups: vec!["Friends".into()],
        version: 7,
        ..RosterRow::default()
    };
    for (contact, item, version) in [
        ("bob@x", Some(row("to")), 1),
        ("bob@x", Some(row("both")), 2),
        ("eve@x", Some(row("none")), 3),
        ("eve@x", None, 4),
    ] {
        let item = item.map(Box::new);
        world
            .write(XmppWrite::Roster { user: user.clone(), contact: contact.into(), item, version })
            .unwrap();
    }
    world.write(XmppWrite::Blocked { user: user.clone(), blocked: vec!["mallory@x".into()] }).unwrap();
    world.write(XmppWrite::LastSeen { user: user.clone(), at: at(9), status: "gone".into() }).unwrap();
    world
        .write(XmppWrite::Offline {
            user: user.clone(),
            at: at(9),
            stanza: "<m/>".into(),
            is_repeated: false,
        })
        .unwrap();
    for (node, id) in [("a", "1"), ("a", "2"), ("b", "3")] {
        let item = Some(format!("<i>{id}</i>").into());
        let (owner, node) = (user.clone(), node.into());
        world.write(XmppWrite::Item { owner, node, id: id.into(), at: at(1), item, keep: 9 }).unwrap();
    }
    for id in ["07", "09", "08"] {
        let row = ArchiveRow {
            owner: user.clone(),
            id: id.into(),
            at: at(1),
            bare: "bob@x".into(),
            resource: None,
            stanza: "<m/>".into(),
        };
        world.write(XmppWrite::Archive(Box::new(row))).unwrap();
    }
    let nodes = &["a", "c"];
    let XmppLoaded::User(found) = world.read(XmppRead::User { user: user.clone(), nodes }) else { panic!() };
    assert_eq!(found.items, [("a".into(), "<i>2</i>".into())]);
    assert_eq!(found.roster, [("bob@x".into(), row("both"))]);
    assert_eq!((found.roster_version, found.offline), (4, 1));
    assert_eq!(found.last_archived.as_deref(), Some("09"));
    assert_eq!((found.blocked, found.last_seen), (vec!["mallory@x".into()], Some((at(9), "gone".into()))));

    world.write(XmppWrite::ForgetUser { user: user.clone() }).unwrap();
    let XmppLoaded::User(found) = world.read(XmppRead::User { user, nodes }) else { panic!() };
    assert_eq!(*found, store::xmpp::UserRow::default());
}

#[test]
fn messages_wait_in_order_until_there_are_too_many() {
    let mut world = World::new();
    let user: Box<str> = "alice@example.org".into();
    for number in 0..limits::MAX_XMPP_OFFLINE {
        let stanza = format!("<m n='{number}'/>").into();
        world
            .write(XmppWrite::Offline { user: user.clone(), at: at(1), stanza, is_repeated: false })
            .unwrap();
    }
    let more = world.write(XmppWrite::Offline {
        user: user.clone(),
        at: at(1),
        stanza: "<m/>".into(),
        is_repeated: false,
    });
    assert!(matches!(more, Err(StoreError::Invalid { .. })), "{more:?}");
    let kept = world.waiting(&user, 0, &[]).stanzas;
    assert_eq!((kept.len(), &*kept[1].2), (limits::MAX_XMPP_OFFLINE as usize, "<m n='1'/>"));
    world.write(XmppWrite::ForgetOffline { user: user.clone(), ids: vec![kept[0].0, kept[2].0] }).unwrap();
    let kept = world.waiting(&user, 0, &[]).stanzas;
    assert_eq!((&*kept[0].2, &*kept[1].2), ("<m n='1'/>", "<m n='3'/>"));
    world.write(XmppWrite::ForgetOffline { user: user.clone(), ids: Vec::new() }).unwrap();
    let nothing = StanzaPage { stanzas: Vec::new(), is_complete: true };
    assert_eq!(world.waiting(&user, 0, &[]), nothing);
    assert_eq!(world.read(XmppRead::Waiting), XmppLoaded::Users(Vec::new()));
    for _ in 0..2 {
        world
            .write(XmppWrite::Offline {
                user: user.clone(),
                at: at(1),
                stanza: "<m/>".into(),
                is_repeated: false,
            })
            .unwrap();
    }
    assert_eq!(world.read(XmppRead::Waiting), XmppLoaded::Users(vec![user]));
}

#[test]
fn a_node_keeps_its_newest_items() {
    let mut world = World::new();
    let (owner, node): (Box<str>, Box<str>) = ("alice@x".into(), "urn:n".into());
    let mut publish = |id: &str, item: Option<&str>| {
        let (owner, node) = (owner.clone(), node.clone());
        let item = item.map(Into::into);
        world.write(XmppWrite::Item { owner, node, id: id.into(), at: at(1), item, keep: 2 })
    };
    for (id, item) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")] {
        publish(id, Some(item)).unwrap();
    }
    assert!(matches!(publish("z", None), Err(StoreError::NotFound { .. })));
    let query = Box::new(ItemQuery { max: 10, ..ItemQuery::default() });
    let read = XmppRead::Items { owner: owner.clone(), node: node.clone(), query };
    assert_eq!(world.items(read.clone()), ["c 4", "a 3"], "published again, a is newer than b");
    let config = |config: Option<&str>| XmppWrite::Node {
        owner: owner.clone(),
        node: node.clone(),
        at: at(1),
        config: config.map(Into::into),
    };
    world.write(config(Some("<x/>"))).unwrap();
    assert_eq!(world.items(XmppRead::Nodes { owner: owner.clone(), after: None }), ["urn:n <x/>"]);
    world.write(XmppWrite::Purge { owner: owner.clone(), node: node.clone() }).unwrap();
    assert_eq!(world.items(read.clone()), [""; 0]);
    assert_eq!(world.items(XmppRead::Nodes { owner: owner.clone(), after: None }), ["urn:n <x/>"]);
    let item = Some("5".into());
    let (of, name) = (owner.clone(), node.clone());
    let next = XmppWrite::Item { owner: of, node: name, id: "d".into(), at: at(1), item, keep: 2 };
    world.write(next).unwrap();
    assert_eq!(world.items(read.clone()), ["d 5"]);
    world.write(config(None)).unwrap();
    assert_eq!(world.items(read), [""; 0]);
}

fn page(world: &mut World, query: ArchiveQuery) -> (Vec<String>, bool, u64) {
    let read = XmppRead::Archive { owner: "alice@x".into(), query: Box::new(query) };
    let XmppLoaded::Page(page) = world.read(read) else { panic!() };
    assert!(!page.is_unknown);
    (page.stanzas.iter().map(|(id, _, _)| id.to_string()).collect(), page.is_complete, page.total.unwrap())
}

#[test]
fn an_archive_is_read_by_pages_in_both_directions() {
    let mut world = World::new();
    for number in 0..10_u64 {
        let row = ArchiveRow {
            owner: "alice@x".into(),
            id: format!("{number:03}").into(),
            at: at(100 + number),
            bare: if number % 2 == 0 { "bob@x" } else { "eve@x" }.into(),
            resource: (number == 4).then(|| "desk".into()),
            stanza: "<m/>".into(),
        };
        world.write(XmppWrite::Archive(Box::new(row))).unwrap();
    }
    let query = || ArchiveQuery { max: 3, ..ArchiveQuery::default() };
    let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(page(&mut world, query()), (ids(&["000", "001", "002"]), false, 10));
    let next = ArchiveQuery { after: Some("007".into()), ..query() };
    assert_eq!(page(&mut world, next), (ids(&["008", "009"]), true, 10));
    let last = ArchiveQuery { from_end: true, ..query() };
    assert_eq!(page(&mut world, last.clone()), (ids(&["007", "008", "009"]), false, 10));
    let before = ArchiveQuery { before: Some("002".into()), ..last };
    assert_eq!(page(&mut world, before), (ids(&["000", "001"]), true, 10));
    let bob =
        ArchiveQuery { bare: Some("bob@x".into()), since: Some(at(103)), until: Some(at(106)), ..query() };
    assert_eq!(page(&mut world, bob.clone()), (ids(&["004", "006"]), true, 2));
    let desk = ArchiveQuery { resource: Some("desk".into()), ..bob };
    assert_eq!(page(&mut world, desk), (ids(&["004"]), true, 1));
    let some = ArchiveQuery { ids: vec!["001".into(), "005".into()], ..query() };
    assert_eq!(page(&mut world, some), (ids(&["001", "005"]), true, 2));
    let unknown = XmppRead::Archive {
        owner: "alice@x".into(),
        query: Box::new(ArchiveQuery { after: Some("nope".into()), ..query() }),
    };
    assert!(matches!(world.read(unknown), XmppLoaded::Page(page) if page.is_unknown));
    world.write(XmppWrite::ForgetArchive { before: at(108) }).unwrap();
    assert_eq!(page(&mut world, query()), (ids(&["008", "009"]), true, 2));
}

/// XEP-0313 §3.2: a limit deletes the oldest messages, some at a time, whatever their ids and the order in which they were
/// written.
#[test]
fn the_oldest_messages_of_an_archive_are_deleted_first() {
    let mut world = World::new();
    let chunk = u64::from(limits::CLEAN_CHUNK);
    // The newest has the lowest id, and is written first.
    for number in 0..chunk + 10 {
        let row = ArchiveRow {
            owner: "alice@x".into(),
            id: format!("{number:06}").into(),
            at: at(1_000 - number),
            bare: "bob@x".into(),
            resource: None,
            stanza: "<m/>".into(),
        };
        world.write(XmppWrite::Archive(Box::new(row))).unwrap();
    }
    world.write(XmppWrite::ForgetArchive { before: at(1_001) }).unwrap();
    let left = page(&mut world, ArchiveQuery { max: 100, ..ArchiveQuery::default() });
    let newest: Vec<String> = (0..10).map(|number| format!("{number:06}")).collect();
    assert_eq!(left, (newest, true, 10));
}

#[test]
fn rooms_are_found_by_their_domain_and_go_with_their_history() {
    let mut world = World::new();
    for room in ["b@rooms.x", "a@rooms.x", "c@rooms.y"] {
        world
            .write(XmppWrite::Room { room: room.into(), config: Some("<x/>".into()), charged: None })
            .unwrap();
    }
    let rooms = XmppRead::Rooms { domain: "rooms.x".into(), after: None };
    assert_eq!(world.items(rooms.clone()), ["a@rooms.x <x/>", "b@rooms.x <x/>"]);
    world.write(XmppWrite::Room { room: "a@rooms.x".into(), config: None, charged: None }).unwrap();
    assert_eq!(world.items(rooms), ["b@rooms.x <x/>"]);
    assert_eq!(world.read(XmppRead::Room { room: "a@rooms.x".into() }), XmppLoaded::Room(None));
    let huge = "x".repeat(limits::MAX_XMPP_XML + 1).into();
    let refused =
        world.write(XmppWrite::Room { room: "a@rooms.x".into(), config: Some(huge), charged: None });
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
}

#[test]
fn one_user_makes_a_bounded_number_of_rooms() {
    let mut world = World::new();
    let mut make = |room: String, charged: Option<&str>| {
        let config = Some("<x/>".into());
        world.write(XmppWrite::Room { room: room.into(), config, charged: charged.map(Into::into) })
    };
    for number in 0..limits::MAX_ROOMS_OF_USER {
        make(format!("r{number}@rooms.x"), Some("mallory@x")).unwrap();
    }
    let more = make("more@rooms.x".into(), Some("mallory@x"));
    assert!(matches!(more, Err(StoreError::Invalid { .. })), "{more:?}");
    make("r0@rooms.x".into(), Some("mallory@x")).unwrap();
    make("more@rooms.x".into(), Some("bob@x")).unwrap();
    make("admins@rooms.x".into(), None).unwrap();
    // A temporary room of a farm counts for no account until it is persistent.
    make("temporary@rooms.x".into(), None).unwrap();
    let more = make("temporary@rooms.x".into(), Some("mallory@x"));
    assert!(matches!(more, Err(StoreError::Invalid { .. })), "{more:?}");
    world.write(XmppWrite::Room { room: "r7@rooms.x".into(), config: None, charged: None }).unwrap();
    let config = Some("<x/>".into());
    let next = XmppWrite::Room { room: "next@rooms.x".into(), config, charged: Some("mallory@x".into()) };
    world.write(next).unwrap();
}

#[test]
fn a_removed_user_is_taken_out_of_rooms_and_nodes_of_others_in_the_same_transaction() {
    let database = database();
    let store = database.store_with(|config, user| Some(config.replace(&format!("jid='{user}'"), "")));
    let mut world = World { admin: Admin::new(&*store).unwrap(), _database: database };
    let item = "<affiliation jid='alice@x'/><affiliation jid='malice@x'/>";
    world
        .write(XmppWrite::Room {
            room: "a@r".into(),
            config: Some(item.into()),
            charged: Some("alice@x".into()),
        })
        .unwrap();
    for (owner, node) in [("bob@x", "n"), ("pubsub.x", "news"), ("alice@x", "own")] {
        let (owner, node, at) = (owner.into(), node.into(), at(1));
        world.write(XmppWrite::Node { owner, node, at, config: Some(item.into()) }).unwrap();
    }
    world.write(XmppWrite::ForgetUser { user: "alice@x".into() }).unwrap();
    let left = "<affiliation /><affiliation jid='malice@x'/>";
    assert_eq!(world.read(XmppRead::Room { room: "a@r".into() }), XmppLoaded::Room(Some(left.into())));
    for owner in ["bob@x", "pubsub.x"] {
        let nodes = world.items(XmppRead::Nodes { owner: owner.into(), after: None });
        assert!(nodes[0].ends_with(left), "{nodes:?}");
    }
    assert_eq!(world.items(XmppRead::Nodes { owner: "alice@x".into(), after: None }), [""; 0]);
}

fn said(number: usize, stanza: &str) -> XmppWrite {
    XmppWrite::Archive(Box::new(ArchiveRow {
        owner: "alice@x".into(),
        id: format!("{number:06}").into(),
        at: at(number as u64),
        bare: "bob@x".into(),
        resource: None,
        stanza: stanza.into(),
    }))
}

/// The ids that were found, whether the page is the last one, and the place where the search goes on.
fn search(world: &mut World, text: &str, query: ArchiveQuery) -> (Vec<String>, bool, Option<String>) {
    let query = Box::new(ArchiveQuery { text: Some(text.into()), ..query });
    let read = XmppRead::Archive { owner: "alice@x".into(), query };
    let XmppLoaded::Page(page) = world.read(read) else { panic!() };
    assert_eq!((page.is_unknown, page.total), (false, None));
    let ids = page.stanzas.iter().map(|(id, ..)| id.to_string()).collect();
    (ids, page.is_complete, page.searched_to.map(Into::into))
}

/// XEP-0431 §2.2: the words are those of bodies, whatever their case and their order, and no character of them is special.
#[test]
fn messages_are_found_by_the_words_of_their_bodies() {
    let mut world = World::new();
    let bodies =
        ["Grüße from the RIVER", "a river, 100%", "&lt;river_1&gt; &amp; it's", "body", "nothing", "river 7"];
    for (number, body) in bodies.iter().enumerate() {
        world.write(said(number, &format!("<message from='river@x'><body>{body}</body></message>"))).unwrap();
    }
    let query = || ArchiveQuery { max: 9, ..ArchiveQuery::default() };
    for (text, expected) in [
        ("River", &["000000", "000001", "000002", "000005"][..]),
        ("river GRÜSSE", &[]),
        (" river\tgrüße ", &["000000"]),
        ("100%", &["000001"]),
        ("%", &["000001"]),
        ("r_v", &[]),
        ("<river_1> & it's", &["000002"]),
        ("body", &["000003"]),
        ("message", &[]),
        ("'; DROP TABLE xmpp_archive; --", &[]),
        ("\\", &[]),
    ] {
        assert_eq!(
            search(&mut world, text, query()),
            (expected.iter().map(ToString::to_string).collect(), true, None),
            "{text}"
        );
    }
    let two = || ArchiveQuery { max: 2, ..ArchiveQuery::default() };
    let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        search(&mut world, "river", two()),
        (ids(&["000000", "000001"]), false, Some("000001".into()))
    );
    let next = ArchiveQuery { after: Some("000001".into()), ..two() };
    assert_eq!(search(&mut world, "river", next), (ids(&["000002", "000005"]), true, None));
    let last = ArchiveQuery { from_end: true, ..two() };
    assert_eq!(
        search(&mut world, "river", last.clone()),
        (ids(&["000002", "000005"]), false, Some("000002".into()))
    );
    let before = ArchiveQuery { before: Some("000002".into()), ..last };
    assert_eq!(search(&mut world, "river", before), (ids(&["000000", "000001"]), true, None));
    let late = ArchiveQuery { since: Some(at(3)), ..query() };
    assert_eq!(search(&mut world, "river", late), (ids(&["000005"]), true, None));
}

/// One search looks at so many messages and bytes, and the next page goes on where it ended.
#[test]
fn a_search_ends_at_its_bounds_and_goes_on_with_the_next_page() {
    let mut world = World::new();
    let large = format!("<message><body>{}</body></message>", "x".repeat(300 << 10));
    let most = limits::SEARCHED_BYTES / large.len();
    let count = most + 5;
    for number in 0..count {
        world.write(said(number, &large)).unwrap();
    }
    world.write(said(count, "<message><body>river</body></message>")).unwrap();
    let query = || ArchiveQuery { max: 9, ..ArchiveQuery::default() };
    let place = format!("{:06}", most - 1);
    assert_eq!(search(&mut world, "river", query()), (vec![], false, Some(place.clone())));
    let next = ArchiveQuery { after: Some((&*place).into()), ..query() };
    assert_eq!(search(&mut world, "river", next), (vec![format!("{count:06}")], true, None));
    let last = ArchiveQuery { from_end: true, ..query() };
    let (found, is_complete, place) = search(&mut world, "river", last);
    assert_eq!((found, is_complete), (vec![format!("{count:06}")], false));
    assert!(place.unwrap() < format!("{count:06}"));
}
