//! The figures of a farm's nodes and of the links between them, as one node knows them.

use serde::{Deserialize, Serialize};

/// The figures of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarmNodeFigures {
    /// Calls being set up or up; none if its version does not announce its load.
    pub calls: Option<u32>,
    /// Contacts registered.
    pub bindings: Option<u32>,
    /// Sessions of chat.
    pub sessions: Option<u32>,
    /// Processor time in thousandths of one core.
    pub cpu_permille: Option<u32>,
    /// Milliseconds since its last renewal was seen here.
    pub lease_age_millis: Option<u64>,
    /// Microseconds from a probe of the link to its answer; none for the asked node itself, and before the first answer.
    pub link_delay_micros: Option<u64>,
    /// Packets of its calls that the asked node passed on to it.
    pub relayed_to: u64,
    /// Packets of the asked node's calls that it passed on.
    pub relayed_from: u64,
}

/// The figures of the asked node's links since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarmLinkFigures {
    /// Bytes of messages sent, with their heads.
    pub bytes_sent: u64,
    /// Bytes of messages received, with their heads.
    pub bytes_received: u64,
    /// Writes to sockets, each with all messages that waited.
    pub batches: u64,
    /// Messages by class.
    pub classes: Vec<FarmLinkClass>,
}

/// Messages of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarmLinkClass {
    /// `call`, `ask`, `chat`, `sound` or `bulk`.
    pub class: Box<str>,
    /// Messages that the links took.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
    /// Messages that a link did not take, or gave back.
    pub refused: u64,
}
