//! The buckets of a dead owner that this shard is to serve, until their sessions are announced
//! (`docs/decisions/0071-sessions-that-outlive-their-owner.md`). A stanza for a full address whose session is not restored yet would be
//! lost, and a room would remove the occupant. So chat of such a bucket begins when all shards with connections have reported that
//! they have announced their sessions of it, or when [`XMPP_RESTORE_PATIENCE`] is over. Until then messages for the bucket wait in
//! [`SharedOwners`](super::shared_owners::SharedOwners), as those for any bucket that is not served yet.

use std::collections::{HashMap, HashSet};

use cluster::{Bucket, ShardAddress};
use router::BucketSet;
use stdx::Instant;

use crate::limits::XMPP_RESTORE_PATIENCE;

/// The buckets whose sessions are being announced, as their next owner knows it.
#[derive(Debug, Default)]
pub struct RestoreBarrier {
    /// Live shards with chat, which have reported at least once.
    edges: HashSet<ShardAddress>,
    /// Buckets of dead owners that have no owner yet, or this one, and whose chat has not begun.
    lost: BucketSet,
    /// The buckets whose sessions a shard has announced.
    announced: HashMap<ShardAddress, BucketSet>,
    /// Buckets that the shard could serve, and the end of the patience.
    held: Vec<(Instant, BucketSet)>,
}

impl RestoreBarrier {
    /// The owners of these buckets are dead. `is_live`: messages can be sent to this shard; `may_be_next`: this shard, or none yet,
    /// is the owner of the bucket.
    pub fn handle_view(
        &mut self,
        lost: &BucketSet,
        is_live: impl Fn(ShardAddress) -> bool,
        may_be_next: impl Fn(Bucket) -> bool,
    ) {
        self.edges.retain(|edge| is_live(*edge));
        self.announced.retain(|edge, _| is_live(*edge));
        lost.iter().for_each(|bucket| self.lost.insert(bucket));
        let elsewhere: BucketSet = self.lost.iter().filter(|bucket| !may_be_next(*bucket)).collect();
        self.remove(&elsewhere);
    }

    /// A shard has announced its sessions of these buckets. With none it greets: it has chat, and no sessions of buckets that are lost.
    pub fn handle_announced(&mut self, edge: ShardAddress, buckets: &BucketSet) {
        self.edges.insert(edge);
        let buckets = if buckets.is_empty() { &self.lost } else { buckets };
        let announced = self.announced.entry(edge).or_default();
        buckets.iter().for_each(|bucket| announced.insert(bucket));
    }

    /// The shard can serve these buckets. Returns those whose chat begins now.
    pub fn hold(&mut self, now: Instant, buckets: &BucketSet) -> BucketSet {
        let (held, free): (Vec<Bucket>, Vec<Bucket>) =
            buckets.iter().partition(|bucket| self.lost.contains(*bucket));
        let is_held = |bucket: &Bucket| self.held.iter().any(|(_, buckets)| buckets.contains(*bucket));
        let held: BucketSet = held.into_iter().filter(|bucket| !is_held(bucket)).collect();
        if !held.is_empty() {
            self.held.push((now + XMPP_RESTORE_PATIENCE, held));
        }
        let mut begins: BucketSet = free.into_iter().collect();
        self.take_open(now).iter().for_each(|bucket| begins.insert(bucket));
        begins
    }

    /// The held buckets whose chat begins now.
    pub fn take_open(&mut self, now: Instant) -> BucketSet {
        let is_announced = |bucket: Bucket| {
            let has = |edge| self.announced.get(edge).is_some_and(|announced| announced.contains(bucket));
            self.edges.iter().all(has)
        };
        let mut open = BucketSet::default();
        for (until, buckets) in &self.held {
            let opens = |bucket: &Bucket| *until <= now || is_announced(*bucket);
            buckets.iter().filter(opens).for_each(|bucket| open.insert(bucket));
        }
        self.remove(&open);
        open
    }

    /// These buckets are served, stopped or another shard's.
    pub fn remove(&mut self, buckets: &BucketSet) {
        if buckets.is_empty() {
            return;
        }
        let all = self.announced.values_mut().chain(self.held.iter_mut().map(|(_, held)| held));
        for set in all.chain([&mut self.lost]) {
            buckets.iter().for_each(|bucket| _ = set.remove(bucket));
        }
        self.held.retain(|(_, held)| !held.is_empty());
    }

    /// The end of the patience.
    pub fn deadline(&self) -> Option<Instant> {
        self.held.iter().map(|(until, _)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use cluster::Life;

    use super::*;

    const EDGES: [ShardAddress; 2] =
        [ShardAddress { life: Life(1), shard: 0 }, ShardAddress { life: Life(2), shard: 0 }];

    fn set(numbers: &[u16]) -> BucketSet {
        numbers.iter().map(|number| Bucket::with_number(*number).unwrap()).collect()
    }

    fn numbers(set: &BucketSet) -> Vec<u16> {
        set.iter().map(Bucket::number).collect()
    }

    /// Both edges are known, and the owner of buckets 1 to 3 has died.
    fn barrier() -> RestoreBarrier {
        let mut barrier = RestoreBarrier::default();
        EDGES.iter().for_each(|edge| barrier.handle_announced(*edge, &BucketSet::default()));
        barrier.handle_view(&set(&[1, 2, 3]), |_| true, |_| true);
        barrier
    }

    #[test]
    fn chat_of_a_lost_bucket_begins_when_all_edges_have_announced() {
        let (mut barrier, now) = (barrier(), Instant::default());
        assert_eq!(numbers(&barrier.hold(now, &set(&[1, 2, 9]))), [9], "that was not lost");
        barrier.handle_announced(EDGES[0], &set(&[1, 2, 3]));
        assert!(barrier.take_open(now).is_empty());
        barrier.handle_announced(EDGES[1], &set(&[2, 3]));
        assert_eq!(numbers(&barrier.take_open(now)), [2]);
        assert!(barrier.take_open(now).is_empty(), "once");
        assert_eq!(numbers(&barrier.hold(now, &set(&[3]))), [3], "they have announced before");
    }

    #[test]
    fn an_edge_that_says_nothing_is_waited_for_until_it_is_dead_or_the_patience_ends() {
        let (mut one, now) = (barrier(), Instant::default());
        one.hold(now, &set(&[1]));
        one.handle_announced(EDGES[0], &set(&[1]));
        one.handle_view(&BucketSet::default(), |edge| edge == EDGES[0], |_| true);
        assert_eq!(numbers(&one.take_open(now)), [1]);
        let mut other = barrier();
        other.hold(now, &set(&[1]));
        let end = now + XMPP_RESTORE_PATIENCE;
        assert_eq!(other.deadline(), Some(end));
        assert_eq!(numbers(&other.take_open(end)), [1]);
        assert_eq!(other.deadline(), None);
        assert_eq!(numbers(&other.hold(end, &set(&[1]))), [1], "it is not lost any more");
    }

    #[test]
    fn buckets_of_another_owner_are_forgotten_and_have_to_be_announced_again() {
        let (mut barrier, now) = (barrier(), Instant::default());
        EDGES.iter().for_each(|edge| barrier.handle_announced(*edge, &set(&[1])));
        barrier.handle_view(&BucketSet::default(), |_| true, |bucket| bucket.number() != 1);
        barrier.handle_view(&set(&[1]), |_| true, |_| true);
        assert!(barrier.hold(now, &set(&[1])).is_empty());
    }

    #[test]
    fn a_node_that_joins_while_a_bucket_is_held_is_not_waited_for() {
        let (mut barrier, now) = (barrier(), Instant::default());
        barrier.hold(now, &set(&[1]));
        EDGES.iter().for_each(|edge| barrier.handle_announced(*edge, &set(&[1])));
        barrier.handle_announced(ShardAddress::new(Life(3), 0), &BucketSet::default());
        assert_eq!(numbers(&barrier.take_open(now)), [1]);
    }
}
