//! Chat's part in the protocol: figures that come in kinds, and elements of traced accounts.

use serde::{Deserialize, Serialize};
use xmpp::c2s::Direction;

/// A figure of chat that is split by kind: each kind has a label of its own in the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Open connections, by transport.
    Connections,
    /// Stanzas received, by kind: message, presence, iq.
    StanzasReceived,
    /// Stanzas sent, by kind.
    StanzasSent,
    /// Sign-ins, by mechanism.
    SignIns,
    /// Stream errors, by condition.
    StreamErrors,
    /// Sign-ins by a source outside the database, by its verdict.
    ExternalSignIns,
}

/// One kind of a family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// The family.
    pub family: Family,
    /// The transport, kind of stanza, mechanism or condition.
    pub kind: Box<str>,
    /// The number of connections, stanzas, sign-ins or errors of that kind.
    pub count: u64,
}

/// One element of a traced account's, credentials masked.
#[derive(Clone, Debug)]
pub struct ChatTrace {
    /// The address of the account.
    pub account: Box<str>,
    /// The full address, or the account's while it has none.
    pub session: Box<str>,
    /// The direction of the element, as the server sees it.
    pub direction: Direction,
    /// `iq set query`.
    pub label: Box<str>,
    /// The element as text.
    pub xml: Box<str>,
}
