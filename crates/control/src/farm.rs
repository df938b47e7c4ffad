//! The farm as one node sees it, for operators.

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
