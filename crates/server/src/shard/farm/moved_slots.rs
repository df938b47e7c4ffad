//! Call slots that get another worker by a new map.

use cluster::{CallSlot, ShardAddress};
use farm::view::FarmView;
use sip::endpoint::{share_moved_calls, take_waiting};
use stdx::Instant;

use super::Shard;
use crate::limits;

/// The farm has another map than before.
pub(super) fn handle_map(shard: &mut Shard, now: Instant, before: Option<&FarmView>, view: &FarmView) {
    if let Some(before) = before {
        share_moved(shard, now, before, view);
    }
    give_waiting_to_workers(shard, now, view);
}

/// A new map may have moved call slots to or from this shard, while the other worker lives: both share the responses to the requests of such
/// slots, as the two may get the same request (`docs/decisions/0088`).
fn share_moved(shard: &mut Shard, now: Instant, before: &FarmView, view: &FarmView) {
    let (own, Some(adapter)) = (shard.parts.edge, &mut shard.farm) else { return };
    let mut workers = view.map.workers();
    if !workers.any(|(slot, _)| has_moved(view, before, own, slot)) {
        return;
    }
    adapter.slots_move_until = now + limits::SLOTS_MOVE;
    share_moved_calls(&mut shard.parts.endpoint, |call_id| {
        has_moved(view, before, own, CallSlot::of(call_id).number())
    });
}

/// Requests that wait here, as their worker could not be reached or has changed, go to their workers, which get their repetitions.
fn give_waiting_to_workers(shard: &mut Shard, now: Instant, view: &FarmView) {
    let own = shard.parts.edge;
    let has_other_worker = |call_id: &[u8]| {
        let worker = view.worker(CallSlot::of(call_id).number());
        worker.is_some_and(|worker| worker != own && (worker.life == own.life || view.has(worker)))
    };
    let (endpoint, effects) = (&mut shard.parts.endpoint, &mut shard.scratch.effects);
    for packet in take_waiting(endpoint, now, has_other_worker, effects) {
        shard.handle_received(now, packet);
    }
}

/// True if the call slot has moved to or from this shard since the view before, and both workers live.
fn has_moved(view: &FarmView, before: &FarmView, own: ShardAddress, slot: u16) -> bool {
    let (worker, previous) = (view.worker(slot), before.worker(slot));
    let lives = |worker: Option<ShardAddress>| worker.is_some_and(|worker| view.has(worker));
    worker != previous && [worker, previous].contains(&Some(own)) && lives(worker) && lives(previous)
}
