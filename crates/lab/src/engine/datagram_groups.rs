//! Groups of a turn's messages that leave together: messages of one length to one destination, as the kernel takes
//! them in one call. The messages of one call keep their order.
//!
//! `UdpSockets` numbers the messages of a turn with [`DatagramGroups::place`] and sends them sorted by group. A run of equal datagrams is one
//! system call (UDP segmentation offload), several times cheaper than as many single ones.

use std::net::SocketAddr;

use stdx::slab::Key;

/// Groups that a message may still join, counted from the last.
const OPEN: usize = 16;

/// Calls that share a slot only wait for each other: a message goes into a later group than it could.
const SLOTS: usize = 256;

pub(super) struct DatagramGroups {
    /// The last [`OPEN`] groups, by number modulo that.
    open: [DatagramGroup; OPEN],
    /// Groups made so far.
    count: u32,
    /// The last group a call of each slot is in.
    reached: [u32; SLOTS],
}

#[derive(Clone, Copy)]
struct DatagramGroup {
    /// Bytes of each message.
    length: usize,
    to: SocketAddr,
    /// Messages in it; the kernel bounds a run in number and in bytes.
    members: usize,
}

impl DatagramGroups {
    pub(super) fn new() -> DatagramGroups {
        let none = DatagramGroup { length: 0, to: SocketAddr::from(([0, 0, 0, 0], 0)), members: 0 };
        DatagramGroups { open: [none; OPEN], count: 0, reached: [0; SLOTS] }
    }

    /// The number of the group that the next message goes into.
    pub(super) fn place(&mut self, length: usize, to: SocketAddr, call: Key) -> u32 {
        let slot = call.index() as usize % SLOTS;
        // A message may join neither a group before the last one of its own call nor one that is no longer in the ring.
        let first = self.count.saturating_sub(OPEN as u32).max(self.reached[slot]);
        let joined = (first..self.count).find(|number| {
            let group = &self.open[*number as usize % OPEN];
            group.length == length && group.to == to && mmsg::fits_run(group.members + 1, length)
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

    fn call(index: u64) -> Key {
        Key::from_u64(1 << 32 | index)
    }

    #[test]
    fn two_answers_of_each_call_become_two_groups() {
        let mut groups = DatagramGroups::new();
        let mut numbers = Vec::new();
        for index in 0..3 {
            numbers.push(groups.place(300, place(1), call(index)));
            numbers.push(groups.place(450, place(1), call(index)));
        }
        assert_eq!(numbers, [0, 1, 0, 1, 0, 1]);
        // To somewhere else, and longer than a run may be.
        assert_eq!(groups.place(300, place(2), call(9)), 2);
        assert_eq!(groups.place(9_000, place(1), call(10)), 3);
        assert_eq!(groups.place(9_000, place(1), call(11)), 4);
    }

    proptest! {
        #[test]
        fn a_call_is_never_overtaken_by_itself(
            sent in prop::collection::vec((0usize..25, 0u64..300), 1..400),
        ) {
            let mut groups = DatagramGroups::new();
            let mut last = std::collections::HashMap::new();
            let mut sizes = std::collections::HashMap::new();
            for (length, index) in sent {
                let number = groups.place(100 + length, place(1), call(index));
                prop_assert!(last.insert(index, number).is_none_or(|before| before <= number));
                let (kind, members) = sizes.entry(number).or_insert((length, 0));
                prop_assert!(*kind == length);
                *members += 1;
                prop_assert!(*members <= mmsg::RUN);
            }
        }
    }
}
