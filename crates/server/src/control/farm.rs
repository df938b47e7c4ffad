//! The farm as one node sees it, for operators.

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
    /// Its load, and the link to it.
    #[serde(default)]
    pub figures: FarmNodeFigures,
}

impl FarmStatus {
    /// The status as a view and the council's absence show it.
    pub(crate) fn new(farm: &str, view: &FarmView, council_away: Option<Box<str>>) -> FarmStatus {
        let row = |(life, peer): (&cluster::Life, &farm::view::FarmPeer)| {
            let of = |holder: Option<cluster::ShardAddress>| holder.is_some_and(|at| at.life == *life);
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            FarmNodeRow {
                name: peer.name.clone(),
                life: life.0,
                role: role(peer.roles.is_edge, peer.roles.is_router).into(),
                state: state(peer.state).into(),
                address: peer.address.to_string().into(),
                version: peer.build.clone(),
                call_slots: count(view.map.workers().filter(|(_, slot)| of(slot.worker)).count()),
                buckets: count(view.map.owners().filter(|(_, ownership)| of(ownership.owner)).count()),
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
