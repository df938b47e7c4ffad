//! The rows of XMPP: rosters, messages that wait, archives, items of nodes, rooms. XML is stored as it is,
//! not parsed; a search for words looks for the bodies in it.

use serde::{Deserialize, Serialize};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;
use crate::types::check_length;

/// One change; whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum XmppWrite {
    /// `None` removes the contact. `version` is the roster's afterwards.
    Roster {
        /// The account, `user@domain`.
        user: Box<str>,
        /// The contact's bare address.
        contact: Box<str>,
        /// The contact as it is from now on.
        item: Option<Box<RosterRow>>,
        /// RFC 6121 §2.6: the version of the roster.
        version: u64,
    },
    /// All of them.
    Blocked {
        /// The account, `user@domain`.
        user: Box<str>,
        /// The blocked addresses (XEP-0191).
        blocked: Vec<Box<str>>,
    },
    /// Set the time at which the last session ended (XEP-0012).
    LastSeen {
        /// The account, `user@domain`.
        user: Box<str>,
        /// The time of the end.
        at: Instant,
        /// The text of the last unavailable presence; may be empty.
        status: Box<str>,
    },
    /// Refused as full beyond `limits::MAX_XMPP_OFFLINE` of one user.
    Offline {
        /// The account, `user@domain`.
        user: Box<str>,
        /// The time at which the message came.
        at: Instant,
        /// The message as XML.
        stanza: Box<str>,
        /// An attempt before may have written it: one of the same user, time and stanza is this one.
        is_repeated: bool,
    },
    /// Those of these ids; all when there are none.
    ForgetOffline {
        /// The account, `user@domain`.
        user: Box<str>,
        /// The ids of `StanzaPage`.
        ids: Vec<u64>,
    },
    /// Add a message, or replace the one of the same id.
    Archive(Box<ArchiveRow>),
    /// Archived before; at most `limits::CLEAN_CHUNK` at a time.
    ForgetArchive {
        /// Messages archived before are deleted.
        before: Instant,
    },
    /// Keeps the newest `keep` of the node; `None` removes.
    Item {
        /// The account or service that has the node.
        owner: Box<str>,
        /// The name of the node.
        node: Box<str>,
        /// The id of the item.
        id: Box<str>,
        /// The time of its publication.
        at: Instant,
        /// The item as XML.
        item: Option<Box<str>>,
        /// The largest number of items.
        keep: u32,
    },
    /// `None` removes it with its items.
    Node {
        /// The account or service that has the node.
        owner: Box<str>,
        /// The name of the node.
        node: Box<str>,
        /// The time at which it was made.
        at: Instant,
        /// The configuration, affiliations and subscriptions as XML.
        config: Option<Box<str>>,
    },
    /// Removes all items of a node; the node stays.
    Purge {
        /// The account or service that has the node.
        owner: Box<str>,
        /// The name of the node.
        node: Box<str>,
    },
    /// `None` removes it with its archive. A new one counts as one of those of `charged`, and is refused beyond
    /// `limits::MAX_ROOMS_OF_USER`.
    Room {
        /// The room's bare address.
        room: Box<str>,
        /// The room as XML: configuration, subject and affiliations.
        config: Option<Box<str>>,
        /// The account or domain that the room counts for; `None` for an administrator's.
        charged: Option<Box<str>>,
    },
    /// Everything of an account.
    ForgetUser {
        /// The account, `user@domain`.
        user: Box<str>,
    },
}

/// A read of XMPP's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum XmppRead {
    /// A user's row, with the newest item of each of these nodes.
    User {
        /// The account, `user@domain`.
        user: Box<str>,
        /// Names of nodes of the account.
        nodes: &'static [&'static str],
    },
    /// A page of a node: `XmppLoaded::Items`.
    Items {
        /// The account or service that has the node.
        owner: Box<str>,
        /// The name of the node.
        node: Box<str>,
        /// The items that are asked for.
        query: Box<ItemQuery>,
    },
    /// The items of all nodes, in the order they were published in each: `XmppLoaded::Kept`.
    Kept {
        /// The account.
        owner: Box<str>,
    },
    /// Names and configurations of nodes, by name, after that name: `XmppLoaded::Rows`.
    Nodes {
        /// The account or service that has the nodes.
        owner: Box<str>,
        /// `None`: from the first.
        after: Option<Box<str>>,
    },
    /// Oldest first, of those after that id; or those of these ids, if there are any: `XmppLoaded::Stanzas`.
    Offline {
        /// The account, `user@domain`.
        user: Box<str>,
        /// 0: from the oldest.
        after: u64,
        /// The ids that are asked for.
        ids: Vec<u64>,
    },
    /// A page of an archive: `XmppLoaded::Page`.
    Archive {
        /// The account or room that has the archive.
        owner: Box<str>,
        /// The messages that are asked for.
        query: Box<ArchiveQuery>,
    },
    /// One room: `XmppLoaded::Room`.
    Room {
        /// The room's bare address.
        room: Box<str>,
    },
    /// Users whose messages wait: `XmppLoaded::Users`.
    Waiting,
    /// The rooms of a domain, by address, after that address: `XmppLoaded::Rows`.
    Rooms {
        /// The domain of rooms.
        domain: Box<str>,
        /// `None`: from the first.
        after: Option<Box<str>>,
    },
}

/// The answer to an [`XmppRead`].
#[derive(Clone, Debug, PartialEq)]
pub enum XmppLoaded {
    /// Empty where nothing was ever written.
    User(Box<UserRow>),
    /// To `XmppRead::Items`.
    Items(ItemPage),
    /// To `XmppRead::Nodes` and `XmppRead::Rooms`.
    Rows(RowPage),
    /// Node, id and XML.
    Kept(Vec<(Box<str>, Box<str>, Box<str>)>),
    /// To `XmppRead::Offline`.
    Stanzas(StanzaPage),
    /// To `XmppRead::Archive`.
    Page(ArchivePage),
    /// To `XmppRead::Room`: the room as XML.
    Room(Option<Box<str>>),
    /// To `XmppRead::Waiting`: bare addresses.
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
    /// The name that the user gave the contact.
    pub name: Option<Box<str>>,
    /// `none`, `to`, `from` or `both`.
    pub subscription: Box<str>,
    /// RFC 6121 §2.1.2.2: a subscription request waits for the contact's answer.
    pub ask: bool,
    /// RFC 6121 §3.4: a request of the contact is approved before it comes.
    pub approved: bool,
    /// The stanza of a pending subscription request.
    pub asked: Option<Box<str>>,
    /// False for a contact that only asks (RFC 6121 §3.1.3).
    pub is_listed: bool,
    /// RFC 6121 §2.1.2.5.
    pub groups: Vec<Box<str>>,
    /// The roster's version at the contact's last change.
    pub version: u64,
}

/// The rows that are read when a user signs in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserRow {
    /// By contact.
    pub roster: Vec<(Box<str>, RosterRow)>,
    /// The version of the roster.
    pub roster_version: u64,
    /// The blocked addresses (XEP-0191).
    pub blocked: Vec<Box<str>>,
    /// The end of the last session, and the text of its presence.
    pub last_seen: Option<(Instant, Box<str>)>,
    /// Messages that wait.
    pub offline: u32,
    /// Those of the nodes that were asked for which have an item, with the newest.
    pub items: Vec<(Box<str>, Box<str>)>,
    /// The greatest id of the archive.
    pub last_archived: Option<Box<str>>,
}

/// A message of an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct ArchiveRow {
    /// The account or room that has the archive.
    pub owner: Box<str>,
    /// XEP-0359: the stable id; ids sort by time.
    pub id: Box<str>,
    /// The time at which the message came.
    pub at: Instant,
    /// The bare address of the other side.
    pub bare: Box<str>,
    /// The resource of the other side, if it has one.
    pub resource: Option<Box<str>>,
    /// The message as XML.
    pub stanza: Box<str>,
}

/// One page of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveQuery {
    /// The bare address of the other side.
    pub bare: Option<Box<str>>,
    /// Its resource; without one each fits.
    pub resource: Option<Box<str>>,
    /// Messages of that time or later.
    pub since: Option<Instant>,
    /// Messages of that time or earlier.
    pub until: Option<Instant>,
    /// No stanza since `since` has a lower id. Ids sort by time, so what is older need not be looked at.
    pub lowest: Option<Box<str>>,
    /// Beyond these ids.
    pub after: Option<Box<str>>,
    /// Messages before the one of this id; the last of them are the page.
    pub before: Option<Box<str>>,
    /// The last ones instead of the first.
    pub from_end: bool,
    /// These and no others; all of them must be there.
    pub ids: Vec<Box<str>>,
    /// Only messages whose body has each of these words, which white space separates.
    pub text: Option<Box<str>>,
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
    /// All that fit the question, whatever the page. `None`: more than `limits::MAX_COUNTED`, or a search for words.
    pub total: Option<u64>,
    /// An id of the question is not in the archive.
    pub is_unknown: bool,
    /// The last message that a search for words looked at, if further ones are there: the next page goes on beyond it.
    pub searched_to: Option<Box<str>>,
}

pub(crate) fn damaged(error: &serde_json::Error) -> StoreError {
    StoreError::Internal { detail: format!("XMPP: {error}") }
}

/// The text of a contact in its row.
pub(crate) fn contact_text(item: &RosterRow) -> Result<String, StoreError> {
    let text = serde_json::to_string(item).map_err(|error| damaged(&error))?;
    check_length("contact", text.len(), limits::MAX_XMPP_XML)?;
    Ok(text)
}

/// The bytes that a read may load; no number is as much as one may.
pub(crate) fn read_budget(bytes: usize) -> usize {
    if bytes == 0 { limits::READ_BYTES } else { bytes.min(limits::READ_BYTES) }
}
