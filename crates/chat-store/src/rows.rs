//! Chat's data as rows of the store, and back: the store keeps elements as text and looks into none.

use chat::effect::{AccountData, MamPage, MamQuery, RosterItem, StoreFailure, Subscription};
use chat::{Change, ItemPage, ItemQuery, Load, RowPage, StanzaPage, StoreReply};
use stdx::Instant;
use store::xmpp::{
    self as stored, ArchivePage, ArchiveQuery, ArchiveRow, RosterRow, UserRow, XmppLoaded, XmppRead,
    XmppWrite,
};
use store::{StoreError, WriteDone};
use xmpp::ns;
use xmpp::xml::parse_stored;
use xmpp::{Bare, Element, Jid};

fn text(element: &Element) -> Box<str> {
    // In no namespace around it, so that it stands for itself.
    String::from_utf8_lossy(&element.to_bytes("")).into()
}

/// The configuration of a room or node without this user, for the store, which looks into no XML, when an account is removed. `None`:
/// the user is not in it.
pub fn without_user(config: &str, user: &str) -> Option<String> {
    let (config, user) = (element(config)?, Bare::parse(user).ok()?);
    Some(text(&chat::without_user(&config, &user)?).into())
}

/// Reads a stored element. `None`: it was not written by this server, or was damaged. Its row exists and cannot be decoded, which is
/// not the same as a missing row.
pub fn element(text: &str) -> Option<Element> {
    let read = parse_stored(text.as_bytes());
    read.inspect_err(|error| tracing::warn!(%error, "an element in the database cannot be read")).ok()
}

fn name(bare: &Bare) -> Box<str> {
    bare.as_str().into()
}

/// The read of the store that answers a load. `None`: the store has no such data, nor can a client ask for it while it is not
/// configured.
pub fn read_of(load: Load) -> Option<XmppRead> {
    Some(match load {
        Load::User { user } => read_of_user(&user),
        Load::Items { owner, node, query } => {
            XmppRead::Items { owner: name(&owner), node, query: Box::new(items_of(*query)) }
        }
        Load::Nodes { owner, after } => XmppRead::Nodes { owner: name(&owner), after },
        Load::Offline { user, after, ids } => XmppRead::Offline { user: name(&user), after, ids },
        Load::Archive { owner, query } => {
            XmppRead::Archive { owner: name(&owner), query: Box::new(query_of(*query)) }
        }
        Load::Room { room } => XmppRead::Room { room: name(&room) },
        Load::Rooms { domain, after } => XmppRead::Rooms { domain, after },
        Load::Waiting => XmppRead::Waiting,
        Load::Slot { .. }
        | Load::Activate(_)
        | Load::Act(_)
        | Load::Accounts(_)
        | Load::Calls { .. }
        | Load::Voicemail { .. }
        | Load::TooMany => {
            return None;
        }
    })
}

/// The read of an account's data, with the nodes that a host needs when it signs in.
pub fn read_of_user(user: &Bare) -> XmppRead {
    XmppRead::User { user: name(user), nodes: chat::user::NODES }
}

fn items_of(query: ItemQuery) -> stored::ItemQuery {
    stored::ItemQuery {
        ids: query.ids,
        newest: query.newest,
        after: query.after,
        before: query.before,
        from_end: query.from_end,
        index: query.index,
        max: query.max,
        bytes: query.bytes,
        is_ids_only: query.is_ids_only,
    }
}

fn query_of(query: MamQuery) -> ArchiveQuery {
    let lowest = query.lowest_id();
    let with = query.with.as_ref();
    ArchiveQuery {
        bare: with.map(|with| with.bare_str().into()),
        resource: with.and_then(Jid::resource).map(Box::from),
        since: query.since,
        until: query.until,
        lowest,
        after: query.after,
        before: query.before,
        from_end: query.from_end,
        ids: query.ids,
        text: query.text,
        max: query.max,
        bytes: query.bytes,
    }
}

/// The write of the store that a change of chat's data is. A node's row gets `now`.
pub fn write_of(now: Instant, change: Change) -> XmppWrite {
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
            XmppWrite::Offline { user: name(&user), at, stanza: text(&stanza), is_repeated: false }
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
        Change::Purge { owner, node } => XmppWrite::Purge { owner: name(&owner), node },
        Change::Room { room, config, charged } => {
            XmppWrite::Room { room: name(&room), config: config.as_deref().map(text), charged }
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
        // They asked, whatever is left of how.
        asked: row.asked.map(|asked| Box::new(element(&asked).unwrap_or_else(request))),
        is_listed: row.is_listed,
        groups: row.groups,
        version: row.version,
    }
}

/// The store's answer as the host takes it.
///
/// # Errors
/// `Unavailable`: stored data cannot be decoded. It must not look as if there were none: a room that seems
/// absent belongs to the next user who enters, and a block list that lacks entries admits blocked users.
pub fn loaded_of(loaded: XmppLoaded) -> Result<StoreReply, StoreFailure> {
    const UNREADABLE: StoreFailure = StoreFailure::Unavailable;
    Ok(match loaded {
        XmppLoaded::User(row) => StoreReply::User(Some(Box::new(user_of(*row).ok_or(UNREADABLE)?))),
        XmppLoaded::Items(page) => StoreReply::Items(items_page_of(page).ok_or(UNREADABLE)?),
        XmppLoaded::Rows(page) => StoreReply::Rows(RowPage {
            rows: page.rows.into_iter().map(|row| entry_or(row, unreadable)).collect(),
            is_complete: page.is_complete,
        }),
        // Only exports ask for all nodes at once.
        XmppLoaded::Kept(_) => return Err(UNREADABLE),
        XmppLoaded::Stanzas(page) => StoreReply::Stanzas(StanzaPage {
            stanzas: page.stanzas.into_iter().map(|row| entry_or(row, lost)).collect(),
            is_complete: page.is_complete,
        }),
        XmppLoaded::Page(page) => StoreReply::Page(page_of(page)),
        XmppLoaded::Users(users) => {
            StoreReply::Users(users.iter().filter_map(|user| Bare::parse(user).ok()).collect())
        }
        XmppLoaded::Room(None) => StoreReply::Room(None),
        XmppLoaded::Room(Some(config)) => {
            StoreReply::Room(Some(Box::new(element(&config).ok_or(UNREADABLE)?)))
        }
    })
}

/// An entry with its element read, or with another in its place: the entry is there in any case.
fn entry_or<I, A>((id, at, text): (I, A, Box<str>), instead: fn() -> Element) -> (I, A, Element) {
    (id, at, element(&text).unwrap_or_else(instead))
}

/// In the place of a node, a room of a list or a preference: of no feature, so that each takes it for damaged.
fn unreadable() -> Element {
    Element::new("unreadable", "")
}

/// In the place of a message: with it pages go on, and a client learns that there was one.
fn lost() -> Element {
    Element::new("message", ns::CLIENT).with("type", "headline")
}

/// In the place of a request for a subscription.
fn request() -> Element {
    Element::new("presence", ns::CLIENT).with("type", "subscribe")
}

fn items_page_of(page: stored::ItemPage) -> Option<ItemPage> {
    let item = |(id, at, text): (Box<str>, Instant, Box<str>)| {
        // Rows of ids only have no text.
        let item = if text.is_empty() { unreadable() } else { element(&text)? };
        Some((id, at, item))
    };
    Some(ItemPage {
        items: page.items.into_iter().map(item).collect::<Option<_>>()?,
        index: page.index,
        total: page.total,
        is_cut: page.is_cut,
        is_unknown: page.is_unknown,
    })
}

fn page_of(page: ArchivePage) -> MamPage {
    MamPage {
        stanzas: page.stanzas.into_iter().map(|row| entry_or(row, lost)).collect(),
        is_complete: page.is_complete,
        total: page.total,
        is_unknown: page.is_unknown,
        searched_to: page.searched_to,
    }
}

fn user_of(row: UserRow) -> Option<AccountData> {
    let contact = |(contact, row): (Box<str>, RosterRow)| Some((Bare::parse(&contact).ok()?, item_of(row)));
    let item = |(node, text): (Box<str>, Box<str>)| (node, element(&text).unwrap_or_else(unreadable));
    Some(AccountData {
        roster: row.roster.into_iter().map(contact).collect::<Option<_>>()?,
        roster_version: row.roster_version,
        blocked: row.blocked.iter().map(|jid| Jid::parse(jid).ok()).collect::<Option<_>>()?,
        last_seen: row.last_seen,
        offline: row.offline,
        items: row.items.into_iter().map(item).collect(),
        last_archived: row.last_archived,
    })
}

/// The contacts of a stored roster, without those whose address cannot be read.
pub fn contacts_of(roster: Vec<(Box<str>, RosterRow)>) -> Vec<(Bare, RosterItem)> {
    let contact = |(contact, row): (Box<str>, RosterRow)| Some((Bare::parse(&contact).ok()?, item_of(row)));
    roster.into_iter().filter_map(contact).collect()
}

/// The end of a write as the host takes it.
///
/// # Errors
/// The failure that [`error_of`] makes of the error.
pub fn done_of(done: Result<WriteDone, StoreError>) -> Result<StoreReply, StoreFailure> {
    done.map(|_| StoreReply::Done).map_err(|error| error_of(&error))
}

/// The failure of the store as the host takes it.
pub fn error_of(error: &StoreError) -> StoreFailure {
    match error {
        StoreError::NotFound { .. } => StoreFailure::NotFound,
        StoreError::Invalid { .. } => {
            tracing::debug!(%error, "beyond a limit of the store");
            StoreFailure::Beyond
        }
        error => {
            tracing::debug!(%error, "the database refuses");
            StoreFailure::Unavailable
        }
    }
}

#[cfg(test)]
mod tests;
