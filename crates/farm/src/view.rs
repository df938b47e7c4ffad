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
