//! The farm as one node sees it, for operators.

use std::collections::BTreeMap;

use cluster::Life;
use cluster::member::MemberState;
use farm::view::FarmView;
use serde::{Deserialize, Serialize};

use super::farm_figures::{FarmLinkFigures, FarmNodeFigures};

/// The farm as the asked node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarmStatus {
    /// The farm's name.
    pub farm: Box<str>,
    /// The life of the asked node.
    pub life: u32,
    /// The reason that the council is away; none while it answers.
    pub council_away: Option<Box<str>>,
    /// The number of the map, which each change counts up.
    pub map_version: u64,
    /// The least wire version of all nodes.
    pub level: u16,
    /// The live nodes by life.
    pub nodes: Vec<FarmNodeRow>,
    /// Lives that the farm counts as dead.
    pub dead: Vec<u32>,
    /// The figures of the asked node's links.
    #[serde(default)]
    pub links: FarmLinkFigures,
}

/// One live node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarmNodeRow {
    /// The node's name.
    pub name: Box<str>,
    /// This start of it.
    pub life: u32,
    /// `edge`, `router` or `both`.
    pub role: Box<str>,
    /// `joining`, `serving` or `draining`.
    pub state: Box<str>,
    /// The address of its links.
    pub address: Box<str>,
    /// The version of its program.
    pub version: Box<str>,
    /// Call slots that it works on, of 4,096.
    pub call_slots: u32,
    /// Buckets of accounts that it owns, of 4,096.
    pub buckets: u32,
    /// Its share in relation to the others'.
    #[serde(default)]
    pub weight: u16,
    /// The number of its shards.
    #[serde(default)]
    pub shards: u16,
    /// Its renewals are late; it may be dead.
    #[serde(default)]
    pub suspected: bool,
    /// Its load, and the link to it.
    #[serde(default)]
    pub figures: FarmNodeFigures,
}

/// The holders of all call slots and buckets of the farm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FarmMapStatus {
    /// The farm's name.
    pub farm: Box<str>,
    /// The life of the asked node.
    pub life: u32,
    /// The number of the map, which each change counts up.
    pub map_version: u64,
    /// The workers of the call slots.
    pub call_slots: Vec<HolderRange>,
    /// The owners of the buckets of accounts.
    pub buckets: Vec<HolderRange>,
}

/// Neighbouring call slots or buckets of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRange {
    /// The first number.
    pub first: u16,
    /// The last number.
    pub last: u16,
    /// The life of the node; none: there is no holder.
    pub life: Option<u32>,
    /// The node's name, if it is live.
    pub node: Option<Box<str>>,
    /// The shard in the node.
    pub shard: Option<u16>,
}

impl FarmMapStatus {
    /// The map of a view.
    pub(crate) fn new(farm: &str, view: &FarmView) -> FarmMapStatus {
        let owners = view.map.owners().map(|(bucket, ownership)| (bucket.number(), ownership.owner));
        FarmMapStatus {
            farm: farm.into(),
            life: view.own.0,
            map_version: view.map.version(),
            call_slots: ranges(view, view.map.workers().map(|(number, slot)| (number, slot.worker))),
            buckets: ranges(view, owners),
        }
    }
}

/// Joins neighbours with the same holder.
fn ranges(
    view: &FarmView,
    holders: impl Iterator<Item = (u16, Option<cluster::ShardAddress>)>,
) -> Vec<HolderRange> {
    let mut ranges: Vec<HolderRange> = Vec::new();
    for (number, holder) in holders {
        let (life, shard) = (holder.map(|at| at.life.0), holder.map(|at| at.shard));
        match ranges.last_mut() {
            Some(range) if range.life == life && range.shard == shard => range.last = number,
            _ => {
                let peer = holder.and_then(|at| view.peers.get(&at.life));
                let node = peer.map(|peer| peer.name.clone());
                ranges.push(HolderRange { first: number, last: number, life, node, shard });
            }
        }
    }
    ranges
}

/// The parts of the map that a node holds.
#[derive(Clone, Copy, Default)]
struct Shares {
    call_slots: u32,
    buckets: u32,
}

impl FarmStatus {
    /// The status as a view and the council's absence show it.
    pub(crate) fn new(farm: &str, view: &FarmView, council_away: Option<Box<str>>) -> FarmStatus {
        let mut shares: BTreeMap<Life, Shares> = BTreeMap::new();
        for worker in view.map.workers().filter_map(|(_, slot)| slot.worker) {
            shares.entry(worker.life).or_default().call_slots += 1;
        }
        for owner in view.map.owners().filter_map(|(_, ownership)| ownership.owner) {
            shares.entry(owner.life).or_default().buckets += 1;
        }
        let row = |(life, peer): (&Life, &farm::view::FarmPeer)| {
            let Shares { call_slots, buckets } = shares.get(life).copied().unwrap_or_default();
            FarmNodeRow {
                name: peer.name.clone(),
                life: life.0,
                role: role(peer.roles.is_edge, peer.roles.is_router).into(),
                state: state(peer.state).into(),
                address: peer.address.to_string().into(),
                version: peer.build.clone(),
                call_slots,
                buckets,
                weight: peer.weight,
                shards: peer.shards,
                suspected: peer.is_suspect,
                figures: FarmNodeFigures::default(),
            }
        };
        FarmStatus {
            farm: farm.into(),
            life: view.own.0,
            council_away,
            map_version: view.map.version(),
            level: view.map.level(),
            nodes: view.peers.iter().map(row).collect(),
            dead: view.map.dead().iter().map(|life| life.0).collect(),
            links: FarmLinkFigures::default(),
        }
    }
}

fn role(is_edge: bool, is_router: bool) -> &'static str {
    match (is_edge, is_router) {
        (true, false) => "edge",
        (false, true) => "router",
        _ => "both",
    }
}

fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Joining => "joining",
        MemberState::Serving => "serving",
        MemberState::Draining => "draining",
        MemberState::Left => "left",
    }
}
