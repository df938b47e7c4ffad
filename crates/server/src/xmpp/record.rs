//! The host's words and the record's: the record keeps elements as text and looks into none.

use stdx::Instant;
use store::xmpp::{
    ArchivePage, ArchiveQuery, ArchiveRow, RosterRow, UserRow, XmppLoaded, XmppRead, XmppWrite,
};
use store::{StoreError, WriteDone};
use xmpp::host::effect::{Page, Query, RecordError, RosterItem, Subscription, UserRecord};
use xmpp::host::{Change, Load, Loaded};
use xmpp::xml::{Prefixes, parse};
use xmpp::{Bare, Element, Jid};

fn text(element: &Element) -> Box<str> {
    // In no namespace around it, so that it stands for itself.
    String::from_utf8_lossy(&element.to_bytes("")).into()
}

/// `None`: it was written by nobody of ours, or was damaged. It is left out.
pub(crate) fn element(text: &str) -> Option<Element> {
    let read = parse(text.as_bytes(), &Prefixes::default());
    read.inspect_err(|error| tracing::warn!(%error, "an element in the record cannot be read")).ok()
}

fn name(bare: &Bare) -> Box<str> {
    bare.as_str().into()
}

/// `None`: it is nothing that the record has, nor can anything ask for it while it is not configured.
pub(super) fn read_of(load: Load) -> Option<XmppRead> {
    Some(match load {
        Load::User { user } => read_of_user(&user),
        Load::Items { owner, node } => XmppRead::Items { owner: name(&owner), node },
        Load::Nodes { owner } => XmppRead::Nodes { owner: name(&owner) },
        Load::Offline { user } => XmppRead::Offline { user: name(&user) },
        Load::Archive { owner, query } => {
            XmppRead::Archive { owner: name(&owner), query: Box::new(query_of(*query)) }
        }
        Load::Room { room } => XmppRead::Room { room: name(&room) },
        Load::Rooms { domain } => XmppRead::Rooms { domain },
        Load::Waiting => XmppRead::Waiting,
        Load::Slot { .. } | Load::Act(_) | Load::Accounts(_) => return None,
    })
}

/// The account and what a host wants to know of it besides.
pub(super) fn read_of_user(user: &Bare) -> XmppRead {
    XmppRead::User { user: name(user), nodes: xmpp::host::user::NODES }
}

fn query_of(query: Query) -> ArchiveQuery {
    let with = query.with.as_ref();
    ArchiveQuery {
        bare: with.map(|with| with.bare_str().into()),
        resource: with.and_then(Jid::resource).map(Box::from),
        since: query.since,
        until: query.until,
        after: query.after,
        before: query.before,
        from_end: query.from_end,
        ids: query.ids,
        max: query.max,
    }
}

pub(crate) fn write_of(now: Instant, change: Change) -> XmppWrite {
    match change {
        Change::Roster { user, contact, item, version } => XmppWrite::Roster {
            user: name(&user),
            contact: name(&contact),
            item: item.map(|item| Box::new(row_of(item))),
            version,
        },
        Change::Blocked { user, blocked } => XmppWrite::Blocked {
            user: name(&user),
            blocked: blocked.iter().map(|jid| jid.as_str().into()).collect(),
        },
        Change::LastSeen { user, at, status } => XmppWrite::LastSeen { user: name(&user), at, status },
        Change::Offline { user, at, stanza } => {
            XmppWrite::Offline { user: name(&user), at, stanza: text(&stanza) }
        }
        Change::ForgetOffline { user, ids } => XmppWrite::ForgetOffline { user: name(&user), ids },
        Change::Archive { owner, id, with, at, stanza } => XmppWrite::Archive(Box::new(ArchiveRow {
            owner: name(&owner),
            id,
            at,
            bare: with.bare_str().into(),
            resource: with.resource().map(Box::from),
            stanza: text(&stanza),
        })),
        Change::Item { owner, node, id, item, at, keep } => {
            XmppWrite::Item { owner: name(&owner), node, id, at, item: item.as_deref().map(text), keep }
        }
        Change::Node { owner, node, config } => {
            let (owner, config) = (name(&owner), config.as_deref().map(text));
            XmppWrite::Node { owner, node, at: now, config }
        }
        Change::Room { room, config } => {
            XmppWrite::Room { room: name(&room), config: config.as_deref().map(text) }
        }
    }
}

fn row_of(item: RosterItem) -> RosterRow {
    RosterRow {
        name: item.name,
        subscription: item.subscription.as_str().into(),
        ask: item.ask,
        approved: item.approved,
        asked: item.asked.as_deref().map(text),
        is_listed: item.is_listed,
        groups: item.groups,
        version: item.version,
    }
}

fn item_of(row: RosterRow) -> RosterItem {
    let subscription = match &*row.subscription {
        "to" => Subscription::To,
        "from" => Subscription::From,
        "both" => Subscription::Both,
        _ => Subscription::None,
    };
    RosterItem {
        name: row.name,
        subscription,
        ask: row.ask,
        approved: row.approved,
        asked: row.asked.and_then(|asked| element(&asked)).map(Box::new),
        is_listed: row.is_listed,
        groups: row.groups,
        version: row.version,
    }
}

pub(super) fn loaded_of(loaded: XmppLoaded) -> Loaded {
    match loaded {
        XmppLoaded::User(row) => Loaded::User(Some(Box::new(user_of(*row)))),
        XmppLoaded::Items(items) => Loaded::Items(items.into_iter().filter_map(entry_of).collect()),
        // Nobody here asks for all nodes at once.
        XmppLoaded::Kept(_) => Loaded::Items(Vec::new()),
        XmppLoaded::Stanzas(stanzas) => Loaded::Stanzas(stanzas.into_iter().filter_map(entry_of).collect()),
        XmppLoaded::Page(page) => Loaded::Page(page_of(page)),
        XmppLoaded::Users(users) => {
            Loaded::Users(users.iter().filter_map(|user| Bare::parse(user).ok()).collect())
        }
        XmppLoaded::Room(config) => Loaded::Room(config.and_then(|config| element(&config)).map(Box::new)),
    }
}

/// An entry with its element read.
fn entry_of<I, A>((id, at, text): (I, A, Box<str>)) -> Option<(I, A, Element)> {
    Some((id, at, element(&text)?))
}

fn page_of(page: ArchivePage) -> Page {
    Page {
        stanzas: page.stanzas.into_iter().filter_map(entry_of).collect(),
        is_complete: page.is_complete,
        total: Some(page.total),
        is_unknown: page.is_unknown,
    }
}

fn user_of(row: UserRow) -> UserRecord {
    UserRecord {
        roster: contacts_of(row.roster),
        roster_version: row.roster_version,
        blocked: row.blocked.iter().filter_map(|jid| Jid::parse(jid).ok()).collect(),
        last_seen: row.last_seen,
        offline: row.offline,
        items: row.items.into_iter().filter_map(|(node, item)| Some((node, element(&item)?))).collect(),
    }
}

pub(crate) fn contacts_of(roster: Vec<(Box<str>, RosterRow)>) -> Vec<(Bare, RosterItem)> {
    let contact = |(contact, row): (Box<str>, RosterRow)| Some((Bare::parse(&contact).ok()?, item_of(row)));
    roster.into_iter().filter_map(contact).collect()
}

pub(super) fn done_of(done: Result<WriteDone, StoreError>) -> Result<Loaded, RecordError> {
    done.map(|_| Loaded::Done).map_err(|error| error_of(&error))
}

pub(super) fn error_of(error: &StoreError) -> RecordError {
    match error {
        StoreError::NotFound { .. } => RecordError::NotFound,
        error => {
            tracing::debug!(%error, "the record refuses");
            RecordError::Unavailable
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{Read, Sqlite, Store, Write};
    use xmpp::ns;

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
            let sqlite = Sqlite::open(folder.path().join("belfry.db")).unwrap();
            World { writer: sqlite.writer().unwrap(), reader: sqlite.reader().unwrap(), _folder: folder }
        }

        fn change(&mut self, change: Change) {
            let write = Write::Xmpp(write_of(NOW, change));
            let mut done = self.writer.write_group(&[write]);
            assert_eq!(done_of(done.remove(0)), Ok(Loaded::Done));
        }

        fn load(&mut self, load: Load) -> Loaded {
            match self.reader.load(&Read::Xmpp(read_of(load).unwrap())) {
                Ok(store::Loaded::Xmpp(loaded)) => loaded_of(loaded),
                other => panic!("{other:?}"),
            }
        }
    }

    fn bare(text: &str) -> Bare {
        Bare::parse(text).unwrap()
    }

    fn message() -> Element {
        let body = Element::new("body", ns::CLIENT).text("a < b & \"c\" 'd'\r\n\u{1F600}");
        Element::new("message", ns::CLIENT)
            .with("id", "1\n2")
            .child(body)
            .child(Element::new("r", ns::RECEIPTS))
    }

    #[test]
    fn what_an_account_has_comes_back_as_it_was() {
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
        let change = Change::Roster {
            user: user.clone(),
            contact: contact.clone(),
            item: Some(item.clone()),
            version: 7,
        };
        world.change(change);
        let blocked = vec![Jid::parse("eve@example.org").unwrap(), Jid::parse("spam.org").unwrap()];
        world.change(Change::Blocked { user: user.clone(), blocked: blocked.clone() });
        world.change(Change::LastSeen { user: user.clone(), at: NOW, status: "gone".into() });
        world.change(Change::Offline { user: user.clone(), at: NOW, stanza: Box::new(message()) });
        let node = Box::<str>::from(::xmpp::host::user::NODES[0]);
        let published = Some(Box::new(message()));
        let (owner, id) = (user.clone(), "current".into());
        world.change(Change::Item { owner, node: node.clone(), id, item: published, at: NOW, keep: 1 });
        let Loaded::User(Some(record)) = world.load(Load::User { user: user.clone() }) else { panic!() };
        let expected = UserRecord {
            roster: vec![(contact, item)],
            roster_version: 7,
            blocked,
            last_seen: Some((NOW, "gone".into())),
            offline: 1,
            items: vec![(node, message())],
        };
        assert_eq!(*record, expected);
        let Loaded::Stanzas(stanzas) = world.load(Load::Offline { user: user.clone() }) else { panic!() };
        assert_eq!((stanzas[0].1, &stanzas[0].2), (NOW, &message()));
        world.change(Change::ForgetOffline { user: user.clone(), ids: vec![stanzas[0].0] });
        assert_eq!(world.load(Load::Offline { user }), Loaded::Stanzas(Vec::new()));
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
            let query = Query { with: Some(Jid::parse(with).unwrap()), max: 10, ..Query::default() };
            match world.load(Load::Archive { owner: owner.clone(), query: Box::new(query) }) {
                Loaded::Page(page) => page,
                other => panic!("{other:?}"),
            }
        };
        for (with, count) in [("bob@example.org", 1), ("bob@example.org/desk", 1), ("bob@example.org/x", 0)] {
            let page = page(&mut world, with);
            assert_eq!((page.stanzas.len(), page.total, page.is_complete), (count, Some(count as u64), true));
            assert!(
                page.stanzas.iter().all(|(id, at, stanza)| (&**id, *at, stanza) == ("1", NOW, &message()))
            );
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
        let items = world.load(Load::Items { owner: owner.clone(), node: node.clone() });
        assert_eq!(items, Loaded::Items(vec![("i".into(), NOW, message())]));
        let nodes = world.load(Load::Nodes { owner });
        assert_eq!(nodes, Loaded::Items(vec![(node, NOW, Element::new("x", ns::DATA))]));
        let room = bare("tea@conference.example.org");
        assert_eq!(world.load(Load::Room { room: room.clone() }), Loaded::Room(None));
        world.change(Change::Room { room: room.clone(), config: config.clone() });
        assert_eq!(world.load(Load::Room { room }), Loaded::Room(config));
    }

    #[test]
    fn what_is_not_there_is_told_from_what_cannot_be_read() {
        assert_eq!(error_of(&StoreError::NotFound { what: "x".into() }), RecordError::NotFound);
        let broken = StoreError::Internal { detail: "x".into() };
        assert_eq!(error_of(&broken), RecordError::Unavailable);
        assert_eq!(element("<a>"), None, "what is damaged is left out");
    }
}
