//! The distribution of buckets or call slots over shards: shares by weight, the fewest moves, the same result at every node.

use std::collections::BTreeMap;

use crate::address::ShardAddress;

/// A shard that may get buckets or slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The shard.
    pub address: ShardAddress,
    /// Its part of the whole, in relation to the weights of the others; 0 gets nothing, as a node that drains.
    pub weight: u64,
}

/// The places whose holder changes, in ascending order, with the new holder.
///
/// Only places without a candidate and those above a candidate's share move. Without any weight every place loses
/// its holder.
pub fn assign(
    holders: &[Option<ShardAddress>],
    candidates: &[Candidate],
) -> Vec<(u16, Option<ShardAddress>)> {
    let mut room = shares(holders, candidates);
    let mut homeless = Vec::new();
    for (place, holder) in (0..).zip(holders) {
        match holder.and_then(|holder| room.get_mut(&holder)) {
            Some(left) if *left > 0 => *left -= 1,
            _ => homeless.push(place),
        }
    }
    let mut takers = room.into_iter().flat_map(|(address, left)| std::iter::repeat_n(address, left));
    let placed = homeless.into_iter().map(|place: u16| (place, takers.next()));
    placed.filter(|(place, to)| holders[usize::from(*place)] != *to).collect()
}

/// The number of places of each candidate: its weight's part rounded down, and one of the rest for those that lose most by
/// rounding. Among equals it goes to one that
/// has more than its whole part already, so that nothing moves without need.
fn shares(holders: &[Option<ShardAddress>], candidates: &[Candidate]) -> BTreeMap<ShardAddress, usize> {
    let total: u64 = candidates.iter().map(|candidate| candidate.weight).sum();
    if total == 0 {
        return BTreeMap::new();
    }
    let held = |address| holders.iter().filter(|holder| **holder == Some(address)).count();
    let whole = |candidate: &Candidate| holders.len() as u64 * candidate.weight;
    let mut shares: BTreeMap<_, _> =
        candidates.iter().map(|one| (one.address, (whole(one) / total) as usize)).collect();
    let mut order: Vec<&Candidate> = candidates.iter().filter(|one| one.weight > 0).collect();
    order.sort_by_cached_key(|one| {
        let has_more = held(one.address) as u64 > whole(one) / total;
        (std::cmp::Reverse((whole(one) % total, has_more)), one.address)
    });
    let rest = holders.len() - shares.values().sum::<usize>();
    for one in order.into_iter().cycle().take(rest) {
        *shares.entry(one.address).or_default() += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::Life;

    fn shard(life: u32) -> ShardAddress {
        ShardAddress::new(Life(life), 0)
    }

    fn candidates(weights: &[u32]) -> Vec<Candidate> {
        (1..)
            .zip(weights)
            .map(|(life, weight)| Candidate { address: shard(life), weight: u64::from(*weight) })
            .collect()
    }

    fn after(
        mut holders: Vec<Option<ShardAddress>>,
        candidates: &[Candidate],
    ) -> (Vec<Option<ShardAddress>>, usize) {
        let moves = assign(&holders, candidates);
        moves.iter().for_each(|(place, to)| holders[usize::from(*place)] = *to);
        (holders, moves.len())
    }

    #[test]
    fn a_new_node_takes_its_share_and_nothing_else_moves() {
        let (three, _) = after(vec![None; 4_096], &candidates(&[1, 1, 1]));
        let (four, moves) = after(three, &candidates(&[1, 1, 1, 1]));
        assert_eq!(moves, 1_024);
        assert_eq!(four.iter().filter(|holder| **holder == Some(shard(4))).count(), 1_024);
    }

    #[test]
    fn the_buckets_of_a_dead_node_are_all_that_moves() {
        let (three, _) = after(vec![None; 300], &candidates(&[1, 1, 1]));
        let (two, moves) = after(three, &candidates(&[1, 1, 0]));
        assert_eq!(moves, 100);
        assert!(two.iter().all(|holder| *holder != Some(shard(3))));
    }

    #[test]
    fn without_candidates_nothing_has_a_holder() {
        let (one, _) = after(vec![None; 5], &candidates(&[1]));
        let (none, moves) = after(one, &[]);
        assert_eq!((moves, none), (5, vec![None; 5]));
    }

    proptest! {
        #[test]
        fn shares_follow_weights_with_the_fewest_moves(
            size in 1..400_usize,
            before in proptest::collection::vec(0..4_u32, 1..7),
            weights in proptest::collection::vec(0..4_u32, 1..7),
        ) {
            let (held, _) = after(vec![None; size], &candidates(&before));
            let all = candidates(&weights);
            let (next, moves) = after(held.clone(), &all);
            let total: u32 = weights.iter().sum();
            let count = |list: &[Option<ShardAddress>], one: &Candidate| {
                list.iter().filter(|holder| **holder == Some(one.address)).count()
            };
            for one in &all {
                let exact = size as f64 * one.weight as f64 / f64::from(total.max(1));
                prop_assert!((count(&next, one) as f64 - exact).abs() < 1.0);
            }
            if total > 0 {
                // Each place that keeps its holder counts; no distribution with these shares keeps more.
                let kept: usize = all.iter().map(|one| count(&held, one).min(count(&next, one))).sum();
                prop_assert_eq!(moves, size - kept);
            }
            // A second plan changes nothing.
            prop_assert_eq!(assign(&next, &all), vec![]);
        }
    }
}
