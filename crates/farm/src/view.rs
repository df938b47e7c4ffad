//! The farm as one node sees it at a time: what the shards decide by.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use cluster::map::FarmMap;
use cluster::member::{MemberState, Roles};
use cluster::{Bucket, Life, ShardAddress};

/// A node that messages can be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmPeer {
    /// The node's name.
    pub name: Box<str>,
    /// The address of its links.
    pub address: SocketAddr,
    /// The number of its shards.
    pub shards: u16,
    /// The version of its program.
    pub build: Box<str>,
    /// The phase of its life.
    pub state: MemberState,
    /// Its tasks.
    pub roles: Roles,
    /// Its share in relation to the others'.
    pub weight: u16,
    /// Its renewals are late.
    pub is_suspect: bool,
}

/// The map and the nodes. It does not change; a new one replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmView {
    /// The node whose view this is.
    pub own: Life,
    /// Owners of buckets, workers of call slots, dead lives.
    pub map: FarmMap,
    /// The nodes that are neither dead nor gone, this one among them. A node that this one misses is dead when the map says so.
    pub peers: BTreeMap<Life, FarmPeer>,
    /// The council does not answer: nothing is taken over until it does.
    pub is_council_away: bool,
}

impl FarmView {
    /// The shard that works on the calls of a slot; none while the farm has no edge.
    pub fn worker(&self, slot: u16) -> Option<ShardAddress> {
        self.map.worker(slot).worker
    }

    /// The shard that owns a bucket; none while the farm has no router.
    pub fn owner(&self, bucket: Bucket) -> Option<ShardAddress> {
        self.map.owner(bucket).owner
    }

    /// The shards that have conferences and queues, by the hash of their names: the workers of the call slots, as calls of applications and
    /// their media are there. Where nodes share a database, slots of edges without it, and of dead nodes, have the worker of a slot before, as
    /// the rows of a conference are written by its home. Empty while the farm has no edge.
    ///
    /// Computed from the map alone, which is the same at all nodes that have read this version. The live nodes are not: two nodes may see
    /// another one die, or start, a second apart.
    pub fn room_homes(&self) -> Vec<ShardAddress> {
        room_homes(&self.map)
    }

    /// True if messages for this address can be delivered.
    pub fn has(&self, address: ShardAddress) -> bool {
        self.peers.get(&address.life).is_some_and(|peer| address.shard < peer.shards)
    }

    /// All shards that messages can be sent to.
    pub fn shards(&self) -> impl Iterator<Item = ShardAddress> + '_ {
        let of = |(life, peer): (&Life, &FarmPeer)| {
            let life = *life;
            (0..peer.shards).map(move |shard| ShardAddress::new(life, shard))
        };
        self.peers.iter().flat_map(of)
    }

    /// True if the farm has agreed that the life is over.
    pub fn is_dead(&self, life: Life) -> bool {
        self.map.is_dead(life)
    }
}

fn room_homes(map: &FarmMap) -> Vec<ShardAddress> {
    let workers: Vec<ShardAddress> = map.workers().filter_map(|(_, slot)| slot.worker).collect();
    // The map gives buckets to nodes that have the database.
    let owners: BTreeSet<Life> =
        map.owners().filter_map(|(_, ownership)| ownership.owner).map(|owner| owner.life).collect();
    let has_rows = |worker: &ShardAddress| owners.contains(&worker.life) && !map.is_dead(worker.life);
    let Some(mut home) = workers.iter().rev().find(|worker| has_rows(worker)).copied() else {
        return workers;
    };
    let next = |worker: ShardAddress| {
        home = if has_rows(&worker) { worker } else { home };
        home
    };
    workers.into_iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use cluster::map::Move;
    use cluster::plan::Candidate;
    use proptest::prelude::*;
    use stdx::Instant;

    use super::*;

    /// A node with these roles.
    fn peer(roles: Roles) -> FarmPeer {
        FarmPeer {
            name: "n".into(),
            address: ([127, 0, 0, 1], 5280).into(),
            shards: 1,
            build: "".into(),
            state: MemberState::Serving,
            roles,
            weight: 100,
            is_suspect: false,
        }
    }

    /// A farm of nodes with these roles, of which each has every third call slot; the routers share the buckets.
    fn farm(roles: [Roles; 3]) -> FarmView {
        let mut map = FarmMap::new(9);
        let life = |place: u16| ShardAddress::new(Life(u32::from(place % 3) + 1), 0);
        let slot = |slot| Move::Slot { slot, to: Some(life(slot)) };
        let is_router = |bucket: &u16| roles[usize::from(bucket % 3)].is_router;
        let bucket = |bucket| Move::Bucket { bucket, to: Some(life(bucket)) };
        let moves: Vec<Move> = (0..9).map(slot).chain((0..9).filter(is_router).map(bucket)).collect();
        map.apply(Instant::from_unix_seconds(0), &moves);
        let peers = (1..).map(Life).zip(roles.map(peer)).collect();
        FarmView { own: Life(1), map, peers, is_council_away: false }
    }

    fn lives(view: &FarmView) -> Vec<u32> {
        view.room_homes().iter().map(|home| home.life.0).collect()
    }

    #[test]
    fn rooms_are_at_the_workers_of_calls_that_have_the_database() {
        let edge = Roles { is_edge: true, is_router: false };
        assert_eq!(lives(&farm([Roles::BOTH; 3])), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(lives(&farm([Roles::BOTH, edge, Roles::BOTH])), [1, 1, 3, 1, 1, 3, 1, 1, 3]);
        assert_eq!(lives(&farm([edge, edge, Roles::BOTH])), [3; 9]);
        assert_eq!(lives(&farm([edge; 3])), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let empty = FarmView { map: FarmMap::new(9), ..farm([edge; 3]) };
        assert_eq!(empty.room_homes(), []);
    }

    #[test]
    fn rooms_of_a_dead_node_have_another_home_before_its_call_slots_have_another_worker() {
        let mut view = farm([Roles::BOTH; 3]);
        view.map.insert_dead(Life(2));
        assert_eq!(lives(&view), [1, 1, 3, 1, 1, 3, 1, 1, 3]);
    }

    proptest! {
        /// Nodes that have read the same map and see other nodes alive: one has missed a death, another a start.
        #[test]
        fn nodes_with_the_same_map_and_different_peers_name_the_same_homes(
            weights in prop::collection::vec((0..4_u64, any::<bool>()), 1..6),
            dead in prop::collection::vec(1..7_u32, 0..3),
            seen in prop::collection::vec(1..7_u32, 0..6),
        ) {
            let candidate =
                |life: u32, weight| Candidate { address: ShardAddress::new(Life(life), 0), weight };
            let all = || (1..).zip(&weights);
            let edges: Vec<_> = all().map(|(life, (weight, _))| candidate(life, *weight)).collect();
            let routers: Vec<_> =
                all().filter(|(_, (_, has_rows))| *has_rows).map(|(life, (weight, _))| candidate(life, *weight)).collect();
            let mut map = FarmMap::new(32);
            let moves = map.plan(&routers, &edges);
            map.apply(Instant::from_unix_seconds(0), &moves);
            dead.iter().for_each(|life| map.insert_dead(Life(*life)));
            let roles = |life: u32| {
                let has_rows = weights.get(life as usize - 1).is_some_and(|(_, has_rows)| *has_rows);
                if has_rows { Roles::BOTH } else { Roles { is_edge: true, is_router: false } }
            };
            let view = |lives: &[u32]| FarmView {
                own: Life(1),
                map: map.clone(),
                peers: lives.iter().map(|life| (Life(*life), peer(roles(*life)))).collect(),
                is_council_away: false,
            };
            prop_assert_eq!(view(&[1, 2, 3, 4, 5, 6]).room_homes(), view(&seen).room_homes());
        }
    }
}
