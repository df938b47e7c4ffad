//! The map that one node wants, from what it sees.

use stdx::Instant;

use super::FarmNode;
use super::own_buckets::OwnBuckets;
use crate::address::ShardAddress;
use crate::map::FarmMap;
use crate::member::{Member, MemberState};
use crate::membership::Members;
use crate::plan::Candidate;

/// The facts that a node plans the map by.
pub(super) struct MapPlan<'a> {
    own: &'a Member,
    members: &'a Members,
    map: &'a FarmMap,
    buckets: &'a OwnBuckets,
}

impl MapPlan<'_> {
    /// The facts as a node has them now.
    pub(super) fn new(node: &FarmNode) -> MapPlan<'_> {
        MapPlan { own: &node.own, members: &node.members, map: &node.map, buckets: &node.buckets }
    }

    /// True if the map gives a bucket or a call slot to this node.
    pub(super) fn has_own(&self) -> bool {
        let is_own = |address: Option<ShardAddress>| address.is_some_and(|it| it.life == self.own.life);
        self.map.owners().any(|(_, ownership)| is_own(ownership.owner))
            || self.map.workers().any(|(_, slot)| is_own(slot.worker))
    }

    /// The map as this node wants it: all of it if it is the coordinator, else its own epochs and the deaths that it is sure of.
    pub(super) fn next(&self, now: Instant) -> FarmMap {
        let mut next = self.map.clone();
        self.buckets.all_serving().for_each(|(bucket, epoch)| next.set_epoch(bucket, epoch));
        // Whichever node is sure of it says so: the coordinator may have started after the death and know nothing of the life.
        self.members.missing().for_each(|life| next.insert_dead(life));
        if self.is_coordinator() {
            self.coordinate(now, &mut next);
        }
        next
    }

    fn coordinate(&self, now: Instant, next: &mut FarmMap) {
        let routers = self.candidates(|member| member.roles.is_router);
        let edges = self.candidates(|member| member.roles.is_edge);
        let moves = next.plan(&routers, &edges);
        next.apply(now, &moves);
        next.expire(now);
        if let Some(level) = self.members.live().map(|member| member.wire.1).min() {
            next.set_level(level);
        }
    }

    /// The shards of the members that serve, each with its part of the member's weight.
    fn candidates(&self, has_role: impl Fn(&Member) -> bool) -> Vec<Candidate> {
        let is_serving = |member: &&Member| member.state == MemberState::Serving && has_role(member);
        let shards = |member: &Member| {
            // In parts that every number of shards divides nearly.
            let (life, weight) = (member.life, (u64::from(member.weight) << 16) / u64::from(member.shards));
            let all = 0..member.shards;
            all.map(move |shard| Candidate { address: ShardAddress::new(life, shard), weight })
        };
        self.members.live().filter(is_serving).flat_map(shards).collect()
    }

    fn is_coordinator(&self) -> bool {
        let takes_part = |member: &&Member| {
            member.roles.is_router && matches!(member.state, MemberState::Serving | MemberState::Draining)
        };
        self.members.live().find(takes_part).is_some_and(|member| member.life == self.own.life)
    }
}
