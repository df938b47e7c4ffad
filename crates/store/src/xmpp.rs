//! The rows of XMPP: rosters, messages that wait, archives, items of nodes, rooms. XML is stored as it is,
//! not parsed.

use serde::{Deserialize, Serialize};
use stdx::Instant;

/// One change; whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum XmppWrite {
    /// `None` removes the contact. `version` is the roster's afterwards.
    Roster {
        user: Box<str>,
        contact: Box<str>,
        item: Option<Box<RosterRow>>,
        version: u64,
    },
    /// All of them.
    Blocked {
        user: Box<str>,
        blocked: Vec<Box<str>>,
    },
    LastSeen {
        user: Box<str>,
        at: Instant,
        status: Box<str>,
    },
    /// Refused as full beyond `limits::MAX_XMPP_OFFLINE` of one user.
    Offline {
        user: Box<str>,
        at: Instant,
        stanza: Box<str>,
    },
    /// Those of these ids; all when there are none.
    ForgetOffline {
        user: Box<str>,
        ids: Vec<u64>,
    },
    Archive(Box<ArchiveRow>),
    /// Archived before; at most `limits::CLEAN_CHUNK` at a time.
    ForgetArchive {
        before: Instant,
    },
    /// Keeps the newest `keep` of the node; `None` removes.
    Item {
        owner: Box<str>,
        node: Box<str>,
        id: Box<str>,
        at: Instant,
        item: Option<Box<str>>,
        keep: u32,
    },
    /// `None` removes it with its items.
    Node {
        owner: Box<str>,
        node: Box<str>,
        at: Instant,
        config: Option<Box<str>>,
    },
    /// `None` removes it with its archive. A new one counts as one of those of `charged`, and is refused beyond
    /// `limits::MAX_ROOMS_OF_USER`.
    Room {
        room: Box<str>,
        config: Option<Box<str>>,
        charged: Option<Box<str>>,
    },
    /// Everything of an account.
    ForgetUser {
        user: Box<str>,
    },
}

/// A read of XMPP's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum XmppRead {
    /// A user's row, with the newest item of each of these nodes.
    User {
        user: Box<str>,
        nodes: &'static [&'static str],
    },
    /// A page of a node: `XmppLoaded::Items`.
    Items {
        owner: Box<str>,
        node: Box<str>,
        query: Box<ItemQuery>,
    },
    /// The items of all nodes, in the order they were published in each: `XmppLoaded::Kept`.
    Kept {
        owner: Box<str>,
    },
    /// Names and configurations of nodes, by name, after that name: `XmppLoaded::Rows`.
    Nodes {
        owner: Box<str>,
        after: Option<Box<str>>,
    },
    /// Oldest first, of those after that id; or those of these ids, if there are any: `XmppLoaded::Stanzas`.
    Offline {
        user: Box<str>,
        after: u64,
        ids: Vec<u64>,
    },
    Archive {
        owner: Box<str>,
        query: Box<ArchiveQuery>,
    },
    Room {
        room: Box<str>,
    },
    /// Users whose messages wait: `XmppLoaded::Users`.
    Waiting,
    /// The rooms of a domain, by address, after that address: `XmppLoaded::Rows`.
    Rooms {
        domain: Box<str>,
        after: Option<Box<str>>,
    },
}

/// The answer to an [`XmppRead`].
#[derive(Clone, Debug, PartialEq)]
pub enum XmppLoaded {
    /// Empty where nothing was ever written.
    User(Box<UserRow>),
    Items(ItemPage),
    Rows(RowPage),
    /// Node, id and XML.
    Kept(Vec<(Box<str>, Box<str>, Box<str>)>),
    Stanzas(StanzaPage),
    Page(ArchivePage),
    Room(Option<Box<str>>),
    Users(Vec<Box<str>>),
}

/// One page of a node. The newest item is the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemQuery {
    /// These, and the rest of the query but `bytes` does not count.
    pub ids: Vec<Box<str>>,
    /// Only so many of the newest exist for this query.
    pub newest: Option<u32>,
    /// Items that follow the one of this id.
    pub after: Option<Box<str>>,
    /// Items that precede the one of this id; the last of them are the page.
    pub before: Option<Box<str>>,
    /// The last items instead of the first.
    pub from_end: bool,
    /// Items to pass over.
    pub index: u32,
    /// Cut to `limits::MAX_PAGE`.
    pub max: u32,
    /// Bytes of items, unless one alone has more. Cut to `limits::READ_BYTES`.
    pub bytes: usize,
    /// Ids and times, and no items.
    pub is_ids_only: bool,
}

/// A page of a node's items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPage {
    /// Id, time and XML, the newest first.
    pub items: Vec<(Box<str>, Instant, Box<str>)>,
    /// The place of the first among all.
    pub index: u32,
    /// All that there are, whatever the page.
    pub total: u32,
    /// The bytes did not suffice for what was asked.
    pub is_cut: bool,
    /// `after` or `before` names no item.
    pub is_unknown: bool,
}

/// Nodes or rooms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowPage {
    /// Name or address, time and XML.
    pub rows: Vec<(Box<str>, Instant, Box<str>)>,
    /// Nothing follows.
    pub is_complete: bool,
}

/// Messages that wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StanzaPage {
    /// Id, time and XML.
    pub stanzas: Vec<(u64, Instant, Box<str>)>,
    /// Nothing follows.
    pub is_complete: bool,
}

/// One contact of a roster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RosterRow {
    pub name: Option<Box<str>>,
    /// `none`, `to`, `from` or `both`.
    pub subscription: Box<str>,
    pub ask: bool,
    pub approved: bool,
    /// The stanza of a pending subscription request.
    pub asked: Option<Box<str>>,
    pub is_listed: bool,
    pub groups: Vec<Box<str>>,
    pub version: u64,
}

/// The rows that are read when a user signs in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserRow {
    /// By contact.
    pub roster: Vec<(Box<str>, RosterRow)>,
    pub roster_version: u64,
    pub blocked: Vec<Box<str>>,
    pub last_seen: Option<(Instant, Box<str>)>,
    /// Messages that wait.
    pub offline: u32,
    /// Those of the nodes that were asked for which have an item, with the newest.
    pub items: Vec<(Box<str>, Box<str>)>,
}

/// A message of an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveRow {
    pub owner: Box<str>,
    pub id: Box<str>,
    pub at: Instant,
    /// The bare address of the other side.
    pub bare: Box<str>,
    pub resource: Option<Box<str>>,
    pub stanza: Box<str>,
}

/// One page of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveQuery {
    pub bare: Option<Box<str>>,
    pub resource: Option<Box<str>>,
    pub since: Option<Instant>,
    pub until: Option<Instant>,
    /// No stanza since `since` has a lower id. Ids sort by time, so what is older need not be looked at.
    pub lowest: Option<Box<str>>,
    /// Beyond these ids.
    pub after: Option<Box<str>>,
    pub before: Option<Box<str>>,
    /// The last ones instead of the first.
    pub from_end: bool,
    /// These and no others; all of them must be there.
    pub ids: Vec<Box<str>>,
    /// Cut to `limits::MAX_PAGE`.
    pub max: u32,
    /// Bytes of stanzas, unless one alone has more. Cut to `limits::READ_BYTES`.
    pub bytes: usize,
}

/// A page of an archive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchivePage {
    /// Id, time and XML, the oldest first.
    pub stanzas: Vec<(Box<str>, Instant, Box<str>)>,
    /// Nothing is beyond it, in the direction that was asked.
    pub is_complete: bool,
    /// All that fit the question, whatever the page. `None`: more than `limits::MAX_COUNTED`.
    pub total: Option<u64>,
    /// An id of the question is not in the archive.
    pub is_unknown: bool,
}
