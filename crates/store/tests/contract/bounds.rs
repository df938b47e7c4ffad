//! No read loads more than its bytes, whatever one account has stored, and pages go on.

use super::{Database, database};
use stdx::Instant;
use store::xmpp::{ArchiveQuery, ArchiveRow, ItemQuery, RosterRow, XmppLoaded, XmppRead, XmppWrite};
use store::{Admin, Loaded, Read, StoreError, Write, limits};

const USER: &str = "mallory@x";
/// Rows of this length make several pages.
const LARGE: usize = 192 << 10;

struct World {
    admin: Admin,
    _database: Database,
}

impl World {
    fn new() -> World {
        let database = database();
        let store = database.store();
        World { admin: Admin::new(&*store).unwrap(), _database: database }
    }

    fn write(&mut self, write: XmppWrite) {
        self.admin.write(&Write::Xmpp(write)).unwrap();
    }

    fn read(&mut self, read: XmppRead) -> Result<XmppLoaded, StoreError> {
        match self.admin.read(&Read::Xmpp(read))? {
            Loaded::Xmpp(loaded) => Ok(loaded),
            other => panic!("{other:?}"),
        }
    }

    fn items(&mut self, query: ItemQuery) -> (Vec<String>, u32, u32, bool) {
        let read = XmppRead::Items { owner: USER.into(), node: "n".into(), query: Box::new(query) };
        let XmppLoaded::Items(page) = self.read(read).unwrap() else { panic!() };
        assert!(!page.is_unknown);
        let bytes: usize = page.items.iter().map(|(_, _, item)| item.len()).sum();
        assert!(bytes <= limits::READ_BYTES, "{bytes}");
        (page.items.iter().map(|(id, ..)| id.to_string()).collect(), page.index, page.total, page.is_cut)
    }
}

fn large() -> Box<str> {
    "x".repeat(LARGE).into()
}

fn ids(ids: &[u32]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[test]
fn items_are_read_in_pages_of_bounded_bytes_in_every_way_to_ask() {
    let mut world = World::new();
    for id in 0..12 {
        let (at, item) = (Instant::from_unix_seconds(id), Some(large()));
        let id = id.to_string().into();
        world.write(XmppWrite::Item { owner: USER.into(), node: "n".into(), id, at, item, keep: 12 });
    }
    let all = || ItemQuery { max: 1_000, ..ItemQuery::default() };
    let after = |id: &str| ItemQuery { after: Some(id.into()), ..all() };
    let before = |id: &str| ItemQuery { before: Some(id.into()), from_end: true, ..all() };
    for (query, expected, index, total, is_cut) in [
        (all(), ids(&[11, 10, 9, 8, 7]), 0, 12, true),
        (after("7"), ids(&[6, 5, 4, 3, 2]), 5, 12, true),
        (after("2"), ids(&[1, 0]), 10, 12, false),
        (ItemQuery { from_end: true, ..all() }, ids(&[4, 3, 2, 1, 0]), 7, 12, true),
        (before("4"), ids(&[9, 8, 7, 6, 5]), 2, 12, true),
        (before("9"), ids(&[11, 10]), 0, 12, false),
        (ItemQuery { index: 10, ..all() }, ids(&[1, 0]), 10, 12, false),
        (ItemQuery { index: 2, max: 2, ..all() }, ids(&[9, 8]), 2, 12, false),
        (ItemQuery { newest: Some(2), ..all() }, ids(&[11, 10]), 0, 2, false),
        (ItemQuery { newest: Some(3), after: Some("10".into()), ..all() }, ids(&[9]), 2, 3, false),
        (ItemQuery { newest: Some(0), ..all() }, ids(&[]), 0, 0, false),
        (ItemQuery { ids: vec!["3".into(), "no".into(), "7".into()], ..all() }, ids(&[7, 3]), 0, 2, false),
        (
            ItemQuery { ids: (0..12).map(|id| id.to_string().into()).collect(), ..all() },
            ids(&[4, 3, 2, 1, 0]),
            0,
            5,
            true,
        ),
        (ItemQuery { bytes: LARGE + 1, ..all() }, ids(&[11]), 0, 12, true),
        (ItemQuery { bytes: 1, ..all() }, ids(&[11]), 0, 12, true),
        (
            ItemQuery { is_ids_only: true, ..all() },
            (0..12).rev().map(|id| id.to_string()).collect(),
            0,
            12,
            false,
        ),
    ] {
        assert_eq!(world.items(query.clone()), (expected, index, total, is_cut), "{query:?}");
    }
    let unknown = ItemQuery { newest: Some(2), after: Some("3".into()), ..all() };
    let read = XmppRead::Items { owner: USER.into(), node: "n".into(), query: Box::new(unknown) };
    assert!(matches!(world.read(read), Ok(XmppLoaded::Items(page)) if page.is_unknown));
}

#[test]
fn nodes_and_rooms_are_read_in_pages_of_bounded_bytes() {
    let mut world = World::new();
    let rows = 20;
    for number in 0..rows {
        let (config, at) = (Some(large()), Instant::from_unix_seconds(1));
        world.write(XmppWrite::Room {
            room: format!("r{number:02}@rooms.x").into(),
            config: config.clone(),
            charged: None,
        });
        let node = format!("n{number:02}").into();
        world.write(XmppWrite::Node { owner: USER.into(), node, at, config });
    }
    for read in [
        |after| XmppRead::Rooms { domain: "rooms.x".into(), after },
        |after| XmppRead::Nodes { owner: USER.into(), after },
    ] {
        let (mut after, mut seen) = (None, Vec::new());
        loop {
            let XmppLoaded::Rows(page) = world.read(read(after)).unwrap() else { panic!() };
            assert!(page.rows.iter().map(|(_, _, config)| config.len()).sum::<usize>() <= limits::READ_BYTES);
            seen.extend(page.rows.iter().map(|(name, ..)| name.clone()));
            after = seen.last().cloned();
            if page.is_complete {
                break;
            }
        }
        assert!(seen.len() == rows && seen.is_sorted(), "{seen:?}");
    }
}

#[test]
fn messages_that_wait_are_read_in_pages_of_bounded_bytes() {
    let mut world = World::new();
    for _ in 0..20 {
        world.write(XmppWrite::Offline {
            user: USER.into(),
            at: Instant::from_unix_seconds(1),
            stanza: large(),
            is_repeated: false,
        });
    }
    let page = |world: &mut World, after, ids| {
        let read = XmppRead::Offline { user: USER.into(), after, ids };
        let XmppLoaded::Stanzas(page) = world.read(read).unwrap() else { panic!() };
        assert!(page.stanzas.iter().map(|(_, _, stanza)| stanza.len()).sum::<usize>() <= limits::READ_BYTES);
        page
    };
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let page = page(&mut world, seen.last().copied().unwrap_or(0), Vec::new());
        seen.extend(page.stanzas.iter().map(|(id, ..)| *id));
        if page.is_complete {
            break;
        }
    }
    assert!(seen.len() == 20 && seen.is_sorted(), "{seen:?}");
    let some = page(&mut world, 0, vec![seen[3], seen[5], 999]);
    assert_eq!(some.stanzas.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [seen[3], seen[5]]);
    assert!(some.is_complete);
    assert!(!page(&mut world, 0, seen).is_complete);
}

#[test]
fn a_page_of_an_archive_has_bounded_bytes_and_is_counted_to_a_bound() {
    let mut world = World::new();
    for number in 0..20_u64 {
        let row = ArchiveRow {
            owner: USER.into(),
            id: format!("{number:03}").into(),
            at: Instant::from_unix_seconds(number),
            bare: "bob@x".into(),
            resource: None,
            stanza: large(),
        };
        world.write(XmppWrite::Archive(Box::new(row)));
    }
    let page = |world: &mut World, query| {
        let read = XmppRead::Archive { owner: USER.into(), query: Box::new(query) };
        let XmppLoaded::Page(page) = world.read(read).unwrap() else { panic!() };
        assert!(page.stanzas.iter().map(|(_, _, stanza)| stanza.len()).sum::<usize>() <= limits::READ_BYTES);
        (page.stanzas.iter().map(|(id, ..)| id.to_string()).collect::<Vec<_>>(), page.is_complete, page.total)
    };
    let query = || ArchiveQuery { max: 250, ..ArchiveQuery::default() };
    assert_eq!(page(&mut world, query()).0.len(), 5);
    let last = page(&mut world, ArchiveQuery { from_end: true, ..query() });
    assert_eq!(last, (["015", "016", "017", "018", "019"].map(String::from).to_vec(), false, Some(20)));
    let late = ArchiveQuery { lowest: Some("018".into()), ..query() };
    assert_eq!(page(&mut world, late), (vec!["018".into(), "019".into()], true, Some(2)));
    let small = ArchiveQuery { bytes: 1, after: Some("018".into()), ..query() };
    assert_eq!(page(&mut world, small), (vec!["019".into()], true, Some(20)));
}

#[test]
fn a_roster_beyond_every_bound_is_an_error_and_not_a_part_of_itself() {
    let mut world = World::new();
    for number in 0..=limits::MAX_ROSTER_BYTES / (500 << 10) {
        let item = RosterRow { groups: vec!["g".repeat(500 << 10).into()], ..RosterRow::default() };
        let (contact, item) = (format!("c{number}@x").into(), Some(Box::new(item)));
        world.write(XmppWrite::Roster { user: USER.into(), contact, item, version: 1 });
    }
    let refused = world.read(XmppRead::User { user: USER.into(), nodes: &[] });
    assert!(matches!(refused, Err(StoreError::Invalid { .. })), "{refused:?}");
}
