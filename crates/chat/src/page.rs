//! Pages of the store's data: every read is bounded by rows and by bytes, and says whether something follows. Those of nodes are the
//! crate `pubsub`'s.

use stdx::Instant;
use xmpp::Element;

pub use ::pubsub::{ItemPage, ItemQuery, ItemRow};

/// Nodes or rooms, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowPage {
    /// Name or address, time and configuration.
    pub rows: Vec<(Box<str>, Instant, Element)>,
    /// Nothing follows.
    pub is_complete: bool,
}

/// Messages that wait, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StanzaPage {
    /// Id, when it came, and the stanza.
    pub stanzas: Vec<(u64, Instant, Element)>,
    /// Nothing follows.
    pub is_complete: bool,
}
