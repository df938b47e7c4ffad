//! Requests that wait here while their call slot gets another worker.

use cluster::CallSlot;
use farm::view::FarmView;
use sip::endpoint::take_waiting;
use stdx::Instant;

use super::Shard;

/// Gives requests that wait here, as their worker could not be reached or has changed, to their workers, which get their repetitions
/// (`docs/decisions/0118`).
pub(super) fn give_waiting_to_workers(shard: &mut Shard, now: Instant, view: &FarmView) {
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
