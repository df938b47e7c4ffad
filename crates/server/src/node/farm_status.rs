//! The farm as this node sees it, for operators: from the view, and from the figures of links and renewals.

use std::collections::BTreeMap;

use cluster::Life;
use cluster::link::Class;
use cluster::member::MemberState;
use control::{
    FarmLinkClass, FarmLinkFigures, FarmMapStatus, FarmNodeFigures, FarmNodeRow, FarmStatus, HolderRange,
};
use farm::view::FarmView;
use stdx::Instant;

use crate::farm::FarmBoard;
use crate::farm::traffic::{ClassTraffic, class_name};

/// The map of a view.
pub(super) fn map(farm: &str, view: &FarmView) -> FarmMapStatus {
    let owners = view.map.owners().map(|(bucket, ownership)| (bucket.number(), ownership.owner));
    FarmMapStatus {
        farm: farm.into(),
        life: view.own.0,
        map_version: view.map.version(),
        call_slots: ranges(view, view.map.workers().map(|(number, slot)| (number, slot.worker))),
        buckets: ranges(view, owners),
    }
}

/// Joins neighbours with the same holder.
fn ranges(
    view: &FarmView,
    holders: impl Iterator<Item = (u16, Option<cluster::ShardAddress>)>,
) -> Vec<HolderRange> {
    let mut ranges: Vec<HolderRange> = Vec::new();
    for (number, holder) in holders {
        // By shard, not by node: `belfry farm map --json` shows both.
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

/// The status as a view and the council's absence show it.
pub(super) fn status(farm: &str, view: &FarmView, council_away: Option<Box<str>>) -> FarmStatus {
    let mut shares: BTreeMap<Life, Shares> = BTreeMap::new();
    for worker in view.map.workers().filter_map(|(_, slot)| slot.worker) {
        shares.entry(worker.life).or_default().call_slots += 1;
    }
    for owner in view.map.owners().filter_map(|(_, ownership)| ownership.owner) {
        shares.entry(owner.life).or_default().buckets += 1;
    }
    let row = |(life, peer): (&Life, &farm::view::FarmPeer)| {
        // A node that has just joined, or has given all away, holds nothing.
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

/// Adds the figures of nodes and links.
pub(super) fn add_figures(status: &mut FarmStatus, board: &FarmBoard, now: Instant) {
    let (traffic, renewals) = (board.traffic(), board.renewals());
    let millis = |since: Instant| u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
    for node in &mut status.nodes {
        let life = Life(node.life);
        let (peer, renewal) = (traffic.peer(life), renewals.get(&life));
        let load = renewal.and_then(|renewal| renewal.figures);
        node.figures = FarmNodeFigures {
            calls: load.map(|load| load.calls),
            bindings: load.map(|load| load.bindings),
            sessions: load.map(|load| load.sessions),
            cpu_permille: load.map(|load| load.cpu_permille),
            lease_age_millis: renewal.map(|renewal| millis(renewal.seen_at)),
            link_delay_micros: peer.delay.map(|delay| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)),
            relayed_to: peer.relayed_to,
            relayed_from: peer.relayed_from,
        };
        if node.life == status.life {
            node.figures.lease_age_millis = board.renewed_at().map(millis);
        }
    }
    let class = |(class, figures): (Class, ClassTraffic)| FarmLinkClass {
        class: class_name(class).into(),
        sent: figures.sent,
        received: figures.received,
        refused: figures.refused,
    };
    status.links = FarmLinkFigures {
        bytes_sent: traffic.bytes_sent,
        bytes_received: traffic.bytes_received,
        batches: traffic.batches,
        classes: traffic.classes().map(class).collect(),
    };
}
