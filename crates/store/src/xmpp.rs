//! What XMPP keeps: rosters, messages that wait, archives, items of nodes, rooms. The record does not look into XML.

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
    /// `None` removes it with its archive.
    Room {
        room: Box<str>,
        config: Option<Box<str>>,
    },
    /// Everything of an account.
    ForgetUser {
        user: Box<str>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum XmppRead {
    /// With the newest item of each of these nodes.
    User {
        user: Box<str>,
        nodes: &'static [&'static str],
    },
    /// In the order they were published.
    Items {
        owner: Box<str>,
        node: Box<str>,
    },
    /// Of all nodes, in the order they were published in each: `XmppLoaded::Kept`.
    Kept {
        owner: Box<str>,
    },
    /// Names and configurations.
    Nodes {
        owner: Box<str>,
    },
    /// Oldest first, at most `limits::MAX_XMPP_OFFLINE`.
    Offline {
        user: Box<str>,
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
    /// Of a domain, by name.
    Rooms {
        domain: Box<str>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum XmppLoaded {
    /// Empty where nothing was ever written.
    User(Box<UserRow>),
    /// Id (or name), time and XML.
    Items(Vec<(Box<str>, Instant, Box<str>)>),
    /// Node, id and XML.
    Kept(Vec<(Box<str>, Box<str>, Box<str>)>),
    Stanzas(Vec<(u64, Instant, Box<str>)>),
    Page(ArchivePage),
    Room(Option<Box<str>>),
    Users(Vec<Box<str>>),
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
    /// The stanza of one who asks.
    pub asked: Option<Box<str>>,
    pub is_listed: bool,
    pub groups: Vec<Box<str>>,
    pub version: u64,
}

/// What is read when a user signs in.
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

#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveRow {
    pub owner: Box<str>,
    pub id: Box<str>,
    pub at: Instant,
    /// Whom it was from or to.
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
    /// Beyond these ids.
    pub after: Option<Box<str>>,
    pub before: Option<Box<str>>,
    /// The last ones instead of the first.
    pub from_end: bool,
    /// These and no others; all of them must be there.
    pub ids: Vec<Box<str>>,
    /// Cut to `limits::MAX_PAGE`.
    pub max: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchivePage {
    /// Id, time and XML, the oldest first.
    pub stanzas: Vec<(Box<str>, Instant, Box<str>)>,
    /// Nothing is beyond it, in the direction that was asked.
    pub is_complete: bool,
    /// All that fit the question, whatever the page.
    pub total: u64,
    /// An id of the question is not in the archive.
    pub is_unknown: bool,
}
