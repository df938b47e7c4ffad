//! Stanzas for other servers in a farm: the shard that sends one keeps it until the shard with the stream reports its outcome.

use cluster::Bucket;

use crate::{Element, ShardAddress};

/// Names a stanza for the shard that keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The shard that keeps the stanza.
    pub origin: ShardAddress,
    /// The bucket of the other server's domain.
    pub bucket: Bucket,
    /// The stanza's number at its origin, from 1.
    pub number: u64,
    /// The run of stanzas of this bucket that it belongs to: a run is sent to one owner.
    pub run: u64,
    /// Its place in the run, from 0.
    pub index: u64,
}

/// The end of a stanza's way to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The connection's system has taken all of it, or its sender has an answer.
    Ended,
    /// The connection broke before the system had taken all of it, so the other server has not had it whole.
    Broken,
    /// No stream has had it. It may be sent again, before later stanzas.
    Untaken,
}

/// A stanza for another server.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboundStanza {
    /// The stanza.
    pub element: Box<Element>,
    /// The shard that is told of its outcome. `None`: no shard waits for it.
    pub receipt: Option<Receipt>,
}

impl From<Box<Element>> for OutboundStanza {
    fn from(element: Box<Element>) -> OutboundStanza {
        OutboundStanza { element, receipt: None }
    }
}
