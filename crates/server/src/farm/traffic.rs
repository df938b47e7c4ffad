//! Figures of the links and of other nodes, for status and metrics: the shard with the links and the agent's thread write
//! them, operators' requests read them.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::Life;
use cluster::figures::NodeFigures;
use cluster::link::{Class, Message};
use stdx::Instant;

/// The name of a class in metrics.
pub(crate) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Call => "call",
        Class::Ask => "ask",
        Class::Sound => "sound",
        Class::Chat => "chat",
        Class::Bulk => "bulk",
    }
}

/// Messages of one class since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassTraffic {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Messages that a link did not take, or gave back.
    pub(crate) refused: u64,
}

/// The traffic with one other node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerTraffic {
    /// Packets given to the node as the worker of their calls.
    pub(crate) relayed_to: u64,
    /// Packets that the node gave to this one.
    pub(crate) relayed_from: u64,
    /// The time from a probe to its answer, the last one; none while no link leads to the node.
    pub(crate) delay: Option<Duration>,
}

/// The figures of a node's links since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkTraffic {
    /// By the number of the class.
    classes: [ClassTraffic; 5],
    /// Bytes of messages with their heads; frames and encryption add to them.
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Writes to sockets, each with all messages that waited.
    pub(crate) batches: u64,
    peers: BTreeMap<Life, PeerTraffic>,
}

impl LinkTraffic {
    /// The link took a message.
    pub(crate) fn count_sent(&mut self, class: Class, bytes: usize) {
        self.class_mut(class).sent += 1;
        self.bytes_sent += bytes as u64;
    }

    /// A node sent a message.
    pub(crate) fn count_received(&mut self, class: Class, message: &Message) {
        self.class_mut(class).received += 1;
        self.bytes_received += message.wire_bytes() as u64;
    }

    /// The link did not take a message, or gave it back.
    pub(crate) fn count_refused(&mut self, class: Class) {
        self.class_mut(class).refused += 1;
    }

    /// The traffic with this node.
    pub(crate) fn peer_mut(&mut self, life: Life) -> &mut PeerTraffic {
        self.peers.entry(life).or_default()
    }

    /// Forgets nodes that are gone.
    pub(crate) fn keep_peers(&mut self, is_live: impl Fn(Life) -> bool) {
        self.peers.retain(|life, _| is_live(*life));
    }

    /// Forgets the delays of links that are cut: no probe is answered.
    pub(crate) fn clear_delays(&mut self, is_cut: impl Fn(Life) -> bool) {
        for (life, peer) in &mut self.peers {
            peer.delay = peer.delay.filter(|_| !is_cut(*life));
        }
    }

    /// The figures of each class.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (Class, ClassTraffic)> {
        Class::ALL.into_iter().zip(self.classes)
    }

    /// The traffic with this node so far.
    pub(crate) fn peer(&self, life: Life) -> PeerTraffic {
        self.peers.get(&life).copied().unwrap_or_default()
    }

    fn class_mut(&mut self, class: Class) -> &mut ClassTraffic {
        &mut self.classes[usize::from(class.number())]
    }
}

/// The last renewal of a node that this one saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// The time at which it was seen.
    pub(crate) seen_at: Instant,
    /// The load that it announced.
    pub(crate) figures: Option<NodeFigures>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_count_by_class_and_packets_by_node() {
        let mut traffic = LinkTraffic::default();
        traffic.count_sent(Class::Call, 500);
        traffic.count_refused(Class::Chat);
        traffic.peer_mut(Life(7)).relayed_to += 1;
        let of = |wanted| traffic.classes().find(|(class, _)| *class == wanted).map(|(_, figures)| figures);
        assert_eq!(of(Class::Call), Some(ClassTraffic { sent: 1, ..ClassTraffic::default() }));
        assert_eq!(of(Class::Chat), Some(ClassTraffic { refused: 1, ..ClassTraffic::default() }));
        assert_eq!((traffic.bytes_sent, traffic.peer(Life(7)).relayed_to), (500, 1));
        traffic.keep_peers(|life| life == Life(8));
        assert_eq!(traffic.peer(Life(7)), PeerTraffic::default());
    }

    #[test]
    fn a_link_that_is_cut_has_no_delay() {
        let mut traffic = LinkTraffic::default();
        let delay = Some(Duration::from_micros(420));
        for life in [7, 8] {
            let peer = traffic.peer_mut(Life(life));
            (peer.delay, peer.relayed_to) = (delay, 3);
        }
        traffic.clear_delays(|life| life == Life(7));
        assert_eq!((traffic.peer(Life(7)).delay, traffic.peer(Life(8)).delay), (None, delay));
        assert_eq!(traffic.peer(Life(7)).relayed_to, 3);
    }
}
