//! The figures of a farm's nodes and of the links between them, as one node knows them.

use cluster::Life;
use serde::{Deserialize, Serialize};
use stdx::Instant;

use super::FarmStatus;
use crate::farm::FarmBoard;
use crate::farm::traffic::class_name;

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

impl FarmStatus {
    /// With the figures of nodes and links.
    pub(crate) fn with_figures(mut self, board: &FarmBoard, now: Instant) -> FarmStatus {
        let (traffic, renewals) = (board.traffic(), board.renewals());
        let millis = |since: Instant| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
        for node in &mut self.nodes {
            let life = Life(node.life);
            let (peer, renewal) = (traffic.peer(life), renewals.get(&life));
            let load = renewal.and_then(|renewal| renewal.figures);
            node.figures = FarmNodeFigures {
                calls: load.map(|load| load.calls),
                bindings: load.map(|load| load.bindings),
                sessions: load.map(|load| load.sessions),
                cpu_permille: load.map(|load| load.cpu_permille),
                lease_age_millis: renewal.map(|renewal| millis(renewal.seen_at)),
                link_delay_micros: peer
                    .delay
                    .map(|delay| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)),
                relayed_to: peer.relayed_to,
                relayed_from: peer.relayed_from,
            };
            if node.life == self.life {
                node.figures.lease_age_millis = board.renewed_at().map(millis);
            }
        }
        let class =
            |(class, figures): (cluster::link::Class, crate::farm::traffic::ClassTraffic)| FarmLinkClass {
                class: class_name(class).into(),
                sent: figures.sent,
                received: figures.received,
                refused: figures.refused,
            };
        self.links = FarmLinkFigures {
            bytes_sent: traffic.bytes_sent,
            bytes_received: traffic.bytes_received,
            batches: traffic.batches,
            classes: traffic.classes().map(class).collect(),
        };
        self
    }
}
