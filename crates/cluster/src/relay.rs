//! The way of a message to a node that its sender has no link to.
//!
//! The sender gives the message to a third node, which gives it to the receiver, or to one more node if it has no link to the receiver either
//! (`docs/decisions/0088`). The message names the nodes that have had it ([`Passage`]). None of them gets it twice, and at most
//! [`RELAY_NODES`] give it to a third one, so that it never goes round, however links break and return on its way.
//!
//! The owner of the links tries the nodes of [`Passage::next_nodes`] in their order until a link takes the message. Where none does, the message
//! ends. A message that a link gives back goes on by [`Passage::given_back`].

use crate::address::Life;
use crate::limits::RELAY_NODES;
use crate::map::FarmMap;

/// The receiver of a message, and the nodes that could not give it to the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    to: Life,
    /// In the order in which they had the message.
    passed: Vec<Life>,
}

/// The node that has the message, and those that it can give it to.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours<'a> {
    /// The node itself.
    pub own: Life,
    /// The lives that its links lead to now.
    pub connected: &'a [Life],
    /// The map that the node has.
    pub map: &'a FarmMap,
}

impl Passage {
    /// The passage of a message that no node has had.
    pub fn new(to: Life) -> Passage {
        Passage { to, passed: Vec::new() }
    }

    /// The node that the message is for.
    pub fn to(&self) -> Life {
        self.to
    }

    /// The nodes that have had the message and could not give it to its receiver.
    pub fn passed(&self) -> &[Life] {
        &self.passed
    }

    /// The passage after this node, too: as the message says it at the next.
    #[must_use]
    pub fn after(&self, own: Life) -> Passage {
        let mut after = self.clone();
        if !after.passed.contains(&own) {
            after.passed.push(own);
        }
        after
    }

    /// The passage of a message that the link to the node `by` has given back, or has not taken.
    #[must_use]
    pub fn given_back(&self, own: Life, by: Life) -> Passage {
        let after = self.after(own);
        if by == self.to { after } else { after.after(by) }
    }

    /// The nodes to give the message to, in the order in which to try them: its receiver, then those that may pass it on.
    ///
    /// A node that the passage names has tried the receiver before: the link has given the message back. Only nodes with call slots pass
    /// on, as a packet is worked on where it ends, and others may have no routes for calls. The least life is the first, so that messages of
    /// one node keep their order.
    pub fn next_nodes(&self, at: &Neighbours<'_>) -> Vec<Life> {
        let mut next = Vec::new();
        if at.connected.contains(&self.to) && !self.passed.contains(&at.own) {
            next.push(self.to);
        }
        let after = self.after(at.own);
        if after.passed.len() <= RELAY_NODES {
            let may_pass_on =
                |life: &Life| *life != self.to && !after.passed.contains(life) && at.works_on_calls(*life);
            let mut thirds: Vec<Life> = at.connected.iter().copied().filter(may_pass_on).collect();
            thirds.sort_unstable();
            next.append(&mut thirds);
        }
        next
    }
}

impl Neighbours<'_> {
    fn works_on_calls(&self, life: Life) -> bool {
        let mut workers = self.map.workers().filter_map(|(_, slot)| slot.worker);
        workers.any(|worker| worker.life == life)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use stdx::Instant;

    use super::*;
    use crate::address::ShardAddress;
    use crate::map::Move;

    /// A map whose call slots these lives have.
    fn map(workers: &[u32]) -> FarmMap {
        let mut map = FarmMap::new(16);
        let worker = |(slot, life): (u16, &u32)| {
            let to = Some(ShardAddress::new(Life(*life), 0));
            Move::Slot { slot, to }
        };
        let moves: Vec<Move> = (0..).zip(workers).map(worker).collect();
        map.apply(Instant::default(), &moves);
        map
    }

    fn lives(numbers: &[u32]) -> Vec<Life> {
        numbers.iter().copied().map(Life).collect()
    }

    fn passage(to: u32, passed: &[u32]) -> Passage {
        passed.iter().fold(Passage::new(Life(to)), |passage, life| passage.after(Life(*life)))
    }

    /// The next nodes of a message at the node 2 of six, of which 6 works on no calls.
    fn next_of(passage: &Passage, connected: &[u32]) -> Vec<Life> {
        let (map, connected) = (map(&[1, 2, 3, 4, 5]), lives(connected));
        passage.next_nodes(&Neighbours { own: Life(2), connected: &connected, map: &map })
    }

    #[test]
    fn the_receiver_is_tried_first_and_then_the_least_that_works_on_calls() {
        assert_eq!(next_of(&passage(5, &[]), &[6, 5, 4, 3, 1]), lives(&[5, 1, 3, 4]));
        assert_eq!(next_of(&passage(5, &[]), &[6, 3, 4]), lives(&[3, 4]));
        assert_eq!(next_of(&passage(5, &[]), &[6]), []);
        assert_eq!(next_of(&passage(6, &[]), &[6]), lives(&[6]), "the receiver needs no call slots");
    }

    #[test]
    fn a_node_that_has_had_the_message_does_not_get_it_again() {
        assert_eq!(next_of(&passage(5, &[1]), &[1, 3, 4]), lives(&[3, 4]));
        assert_eq!(next_of(&passage(5, &[1, 3]), &[1, 3, 4]), lives(&[4]));
        assert_eq!(next_of(&passage(5, &[1, 3, 4]), &[1, 3, 4]), []);
        assert_eq!(next_of(&passage(5, &[1, 3, 4]), &[1, 3, 4, 5]), lives(&[5]));
    }

    #[test]
    fn a_message_that_a_link_gives_back_goes_to_a_node_that_has_not_had_it() {
        let back = passage(5, &[]).given_back(Life(2), Life(5));
        assert_eq!(back.passed(), lives(&[2]));
        assert_eq!(next_of(&back, &[1, 3, 5]), lives(&[1, 3]), "the link may be there again for a moment");
        let again = back.given_back(Life(2), Life(1));
        assert_eq!(again.passed(), lives(&[2, 1]));
        assert_eq!(next_of(&again, &[1, 3, 5]), lives(&[3]));
        let last = again.given_back(Life(2), Life(3));
        assert_eq!(next_of(&last, &[1, 3, 4, 5]), lives(&[4]));
        assert_eq!(next_of(&last.given_back(Life(2), Life(4)), &[1, 3, 4, 5]), []);
    }

    #[test]
    fn no_more_nodes_pass_a_message_on_than_the_limit_says() {
        let most: Vec<u32> = (10..).take(RELAY_NODES).collect();
        assert_eq!(next_of(&passage(5, &most[1..]), &[1, 3]), lives(&[1, 3]));
        assert_eq!(next_of(&passage(5, &most), &[1, 3, 5]), lives(&[5]));
        assert_eq!(next_of(&passage(5, &most), &[1, 3]), []);
    }

    /// The nodes that have a message in turn, where some links give it back.
    fn walk(
        nodes: u32,
        cut: &BTreeSet<(u32, u32)>,
        ends: (u32, u32),
        mut gives_back: impl FnMut() -> bool,
    ) -> Vec<u32> {
        let workers: Vec<u32> = (1..=nodes).collect();
        let (map, (mut at, to)) = (map(&workers), ends);
        let (mut passage, mut had) = (Passage::new(Life(to)), vec![at]);
        let mut attempts = 0;
        while at != to {
            let is_cut = |other: &u32| cut.contains(&(at.min(*other), at.max(*other)));
            let connected: Vec<Life> =
                (1..=nodes).filter(|other| *other != at && !is_cut(other)).map(Life).collect();
            let next = passage.next_nodes(&Neighbours { own: Life(at), connected: &connected, map: &map });
            let Some(next) = next.first() else { break };
            attempts += 1;
            assert!(attempts <= 2 * (RELAY_NODES + 1), "{had:?}");
            if gives_back() {
                passage = passage.given_back(Life(at), *next);
                continue;
            }
            passage = passage.after(Life(at));
            at = next.0;
            had.push(at);
        }
        had
    }

    fn pairs(nodes: u32) -> impl Iterator<Item = (u32, u32)> {
        (1..=nodes).flat_map(move |one| (one + 1..=nodes).map(move |other| (one, other)))
    }

    #[test]
    fn any_two_links_of_four_nodes_may_be_cut() {
        for first in pairs(4) {
            for second in pairs(4) {
                for (from, to) in pairs(4).flat_map(|(one, other)| [(one, other), (other, one)]) {
                    let had = walk(4, &[first, second].into(), (from, to), || false);
                    assert_eq!(had.last(), Some(&to), "{first:?} and {second:?} are cut: {had:?}");
                    assert!(had.len() <= 4, "{first:?} and {second:?} are cut: {had:?}");
                }
            }
        }
    }

    proptest! {
        /// No node has a message twice and few have it, whatever links are cut and whatever they give back.
        #[test]
        fn no_message_goes_round(
            nodes in 2_u32..12,
            cut in proptest::collection::btree_set((1_u32..12, 1_u32..12), 0..60),
            backs in proptest::collection::vec(any::<bool>(), 0..8),
            ends in (0_u32..12, 0_u32..12),
        ) {
            let cut = cut.into_iter().map(|(one, other)| (one.min(other), one.max(other))).collect();
            let mut backs = backs.into_iter();
            let ends = (ends.0 % nodes + 1, ends.1 % nodes + 1);
            let had = walk(nodes, &cut, ends, || backs.next().unwrap_or_default());
            prop_assert!(had.len() <= RELAY_NODES + 2, "{:?}", had);
            prop_assert_eq!(had.iter().collect::<BTreeSet<_>>().len(), had.len());
        }

        /// A receiver that as many nodes have no link to as may pass a message on, and that the others have, gets it from each node.
        #[test]
        fn a_receiver_that_few_have_lost_is_reached(
            nodes in (RELAY_NODES as u32 + 2)..12,
            without in proptest::collection::btree_set(0_u32..12, 0..=RELAY_NODES),
            ends in (0_u32..12, 0_u32..12),
        ) {
            let (from, to) = (ends.0 % nodes + 1, ends.1 % nodes + 1);
            let without = without.into_iter().map(|one| one % nodes + 1).filter(|one| *one != to);
            let cut = without.map(|one| (one.min(to), one.max(to))).collect();
            let had = walk(nodes, &cut, (from, to), || false);
            prop_assert_eq!(had.last(), Some(&to), "{:?}", had);
        }
    }
}
