//! Groups of a turn's datagrams that leave together: datagrams of one length to one destination, as the kernel takes
//! them in one call. The datagrams of one conversation keep their order.
//!
//! A sender numbers its datagrams with [`DatagramGroups::place`], sorts them by that number and sends them with
//! [`Sender::send_runs`](crate::Sender::send_runs). A run of equal datagrams passes the kernel's stack once (UDP segmentation offload).

use std::net::SocketAddr;

use crate::fits_run;

/// Groups that a datagram may still join, counted from the last.
const OPEN: usize = 16;

/// Conversations that share a slot only wait for each other: a datagram goes into a later group than it could.
const SLOTS: usize = 256;

/// The groups of one turn.
pub struct DatagramGroups {
    /// The last [`OPEN`] groups, by number modulo that.
    open: [DatagramGroup; OPEN],
    /// Groups made so far.
    count: u32,
    /// The last group a conversation of each slot is in.
    reached: [u32; SLOTS],
}

#[derive(Clone, Copy)]
struct DatagramGroup {
    /// Bytes of each datagram.
    length: usize,
    to: SocketAddr,
    /// Datagrams in it; the kernel bounds a run in number and in bytes.
    members: usize,
}

impl DatagramGroups {
    #[expect(clippy::new_without_default, reason = "as the sender that they are for")]
    /// No groups yet.
    pub fn new() -> DatagramGroups {
        let none = DatagramGroup { length: 0, to: SocketAddr::from(([0, 0, 0, 0], 0)), members: 0 };
        DatagramGroups { open: [none; OPEN], count: 0, reached: [0; SLOTS] }
    }

    /// The number of the group that the next datagram goes into. Those with the same hash of their
    /// `conversation` are in their groups in the order in which they were placed.
    pub fn place(&mut self, length: usize, to: SocketAddr, conversation: u64) -> u32 {
        let slot = (conversation % SLOTS as u64) as usize;
        // A datagram may join neither a group before the last one of its own conversation nor one that is no longer in the ring.
        let first = self.count.saturating_sub(OPEN as u32).max(self.reached[slot]);
        let joined = (first..self.count).find(|number| {
            let group = &self.open[*number as usize % OPEN];
            group.length == length && group.to == to && fits_run(group.members + 1, length)
        });
        let number = joined.unwrap_or(self.count);
        let group = &mut self.open[number as usize % OPEN];
        if joined.is_some() {
            group.members += 1;
        } else {
            *group = DatagramGroup { length, to, members: 1 };
            self.count += 1;
        }
        self.reached[slot] = number;
        number
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::*;

    fn place(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn two_answers_of_each_conversation_become_two_groups() {
        let mut groups = DatagramGroups::new();
        let mut numbers = Vec::new();
        for index in 0..3 {
            numbers.push(groups.place(300, place(1), index));
            numbers.push(groups.place(450, place(1), index));
        }
        assert_eq!(numbers, [0, 1, 0, 1, 0, 1]);
        // To somewhere else, and longer than a run may be.
        assert_eq!(groups.place(300, place(2), 9), 2);
        assert_eq!(groups.place(9_000, place(1), 10), 3);
        assert_eq!(groups.place(9_000, place(1), 11), 4);
    }

    proptest! {
        #[test]
        fn a_conversation_is_never_overtaken_by_itself(
            sent in prop::collection::vec((0usize..25, 0u64..300), 1..400),
        ) {
            let mut groups = DatagramGroups::new();
            let mut last = std::collections::HashMap::new();
            let mut sizes = std::collections::HashMap::new();
            for (length, index) in sent {
                let number = groups.place(100 + length, place(1), index);
                prop_assert!(last.insert(index, number).is_none_or(|before| before <= number));
                let (kind, members) = sizes.entry(number).or_insert((length, 0));
                prop_assert!(*kind == length);
                *members += 1;
                prop_assert!(*members <= crate::RUN);
            }
        }
    }
}
