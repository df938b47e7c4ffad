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
fn element(text: &str) -> Option<Element> {
    let read = parse(text.as_bytes(), &Prefixes::default());
    read.inspect_err(|error| tracing::warn!(%error, "an element in the record cannot be read")).ok()
}

fn name(bare: &Bare) -> Box<str> {
    bare.as_str().into()
}

pub(super) fn read_of(load: Load) -> XmppRead {
    match load {
        Load::User { user } => XmppRead::User { user: name(&user) },
        Load::Items { owner, node } => XmppRead::Items { owner: name(&owner), node },
        Load::Nodes { owner } => XmppRead::Nodes { owner: name(&owner) },
        Load::Offline { user } => XmppRead::Offline { user: name(&user) },
        Load::Archive { owner, query } => {
            XmppRead::Archive { owner: name(&owner), query: Box::new(query_of(*query)) }
        }
        Load::Room { room } => XmppRead::Room { room: name(&room) },
        Load::Rooms { domain } => XmppRead::Rooms { domain },
    }
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

pub(super) fn write_of(now: Instant, change: Change) -> XmppWrite {
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
        XmppLoaded::Stanzas(stanzas) => Loaded::Stanzas(stanzas.into_iter().filter_map(entry_of).collect()),
        XmppLoaded::Page(page) => Loaded::Page(page_of(page)),
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
    let contact = |(contact, row): (Box<str>, RosterRow)| Some((Bare::parse(&contact).ok()?, item_of(row)));
    UserRecord {
        roster: row.roster.into_iter().filter_map(contact).collect(),
        roster_version: row.roster_version,
        blocked: row.blocked.iter().filter_map(|jid| Jid::parse(jid).ok()).collect(),
        last_seen: row.last_seen,
        offline: row.offline,
    }
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
