//! The farm as one node sees it at a time: what the shards decide by.

use std::collections::BTreeMap;
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

/// The map and the live nodes. It does not change; a new one replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmView {
    /// The node whose view this is.
    pub own: Life,
    /// Owners of buckets, workers of call slots, dead lives.
    pub map: FarmMap,
    /// The live nodes, this one among them.
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
    /// their media are there. Where nodes share a database, slots of edges without it have the worker of a slot before, as the rows of
    /// a conference are written by its home. Empty while the farm has no edge.
    pub fn room_homes(&self) -> Vec<ShardAddress> {
        let workers: Vec<ShardAddress> = self.map.workers().filter_map(|(_, slot)| slot.worker).collect();
        let has_rows = |worker: &ShardAddress| {
            self.peers.get(&worker.life).is_some_and(|peer| peer.roles.is_router && peer.roles.is_edge)
        };
        let Some(mut home) = workers.iter().rev().find(|worker| has_rows(worker)).copied() else {
            return workers;
        };
        let next = |worker: ShardAddress| {
            home = if has_rows(&worker) { worker } else { home };
            home
        };
        workers.into_iter().map(next).collect()
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

#[cfg(test)]
mod tests {
    use cluster::map::Move;
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

    /// A farm of nodes with these roles, of which each has every third call slot.
    fn farm(roles: [Roles; 3]) -> FarmView {
        let mut map = FarmMap::new(9);
        let slot = |slot| {
            let life = Life(u32::from(slot % 3) + 1);
            Move::Slot { slot, to: Some(ShardAddress::new(life, 0)) }
        };
        map.apply(Instant::from_unix_seconds(0), &(0..9).map(slot).collect::<Vec<_>>());
        let peers = (1..).map(Life).zip(roles.map(peer)).collect();
        FarmView { own: Life(1), map, peers, is_council_away: false }
    }

    #[test]
    fn rooms_are_at_the_workers_of_calls_that_have_the_database() {
        let edge = Roles { is_edge: true, is_router: false };
        let lives = |roles| farm(roles).room_homes().iter().map(|home| home.life.0).collect::<Vec<_>>();
        assert_eq!(lives([Roles::BOTH; 3]), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(lives([Roles::BOTH, edge, Roles::BOTH]), [1, 1, 3, 1, 1, 3, 1, 1, 3]);
        assert_eq!(lives([edge, edge, Roles::BOTH]), [3; 9]);
        assert_eq!(lives([edge; 3]), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let empty = FarmView { map: FarmMap::new(9), ..farm([edge; 3]) };
        assert_eq!(empty.room_homes(), []);
    }
}
