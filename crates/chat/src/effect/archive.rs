//! Queries of archives, and their pages (XEP-0313).

use stdx::Instant;
use xmpp::{Element, Jid};

/// A query of an archive (XEP-0313).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MamQuery {
    /// Only messages exchanged with this address.
    pub with: Option<Jid>,
    /// Only messages since this time.
    pub since: Option<Instant>,
    /// Only messages until this time.
    pub until: Option<Instant>,
    /// Ids of a page's neighbours.
    pub after: Option<Box<str>>,
    /// The id before which the page ends.
    pub before: Option<Box<str>>,
    /// The last page when nothing else is said.
    pub from_end: bool,
    /// Only messages of these ids.
    pub ids: Vec<Box<str>>,
    /// Only messages whose body has each of these words (XEP-0431).
    pub text: Option<Box<str>>,
    /// The most messages of the page.
    pub max: u32,
    /// Bytes of stanzas, unless one alone has more. None: as many as the store reads at once.
    pub bytes: usize,
}

impl MamQuery {
    /// No message since `since` has a lower id than this: ids begin with their time (`archive::Archive::new_entry`).
    pub fn lowest_id(&self) -> Option<Box<str>> {
        Some(format!("{:014x}", self.since?.as_micros()).into())
    }
}

/// A page of an archive (XEP-0313).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MamPage {
    /// The id, the time and the stanza of each message.
    pub stanzas: Vec<(Box<str>, Instant, Element)>,
    /// Nothing is beyond it.
    pub is_complete: bool,
    /// The number of messages that match the query, if it was counted.
    pub total: Option<u64>,
    /// An id in the query is not in the archive: `item-not-found`.
    pub is_unknown: bool,
    /// The last message that a search for words looked at, when it ended before the archive did.
    pub searched_to: Option<Box<str>>,
}
