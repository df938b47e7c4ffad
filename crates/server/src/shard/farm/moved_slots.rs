//! Call slots that move from one living node to another, and their requests.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{CallSlot, ShardAddress};
use farm::view::FarmView;
use router::AskId;
use sip::endpoint::{Endpoint, has_transaction, share_moved_calls, take_waiting};
use sip::transport::Packet;
use sip::wire::raw_call_id;
use stdx::Instant;

use super::Shard;
use crate::limits;

/// The call slots that have moved to or from this shard a moment ago: nodes may pass their requests to the worker before.
///
/// The time is the shard's own: [`PreviousWorker::until`](cluster::map::PreviousWorker::until) is of the clock of the node that wrote the map.
#[derive(Debug, Default)]
pub(in crate::shard) struct MovedSlots {
    /// The other worker of each.
    others: BTreeMap<u16, ShardAddress>,
    until: Instant,
    /// The time until which this shard may have transactions of requests of other nodes' slots.
    works_for_others_until: Instant,
}

impl MovedSlots {
    /// Handles a new map: its slots that have moved to or from this shard, while the other worker lives. The two share the responses to
    /// requests of such slots that are open already, as both may get them (`docs/decisions/0088`).
    pub(super) fn handle_map(
        &mut self,
        now: Instant,
        own: ShardAddress,
        (view, before): (&FarmView, Option<&FarmView>),
        endpoint: &mut Endpoint,
    ) {
        if self.note_map(now, own, view, before) {
            share_moved_calls(endpoint, |call_id| self.others.contains_key(&CallSlot::of(call_id).number()));
        }
    }

    /// True if slots have moved.
    fn note_map(
        &mut self,
        now: Instant,
        own: ShardAddress,
        view: &FarmView,
        before: Option<&FarmView>,
    ) -> bool {
        let is_other = |before: &&FarmView| before.map.version() != view.map.version();
        let Some(before) = before.filter(is_other) else { return false };
        let slots = view.map.workers().map(|(slot, _)| slot);
        let moved: Vec<_> =
            slots.filter_map(|slot| Some((slot, other_worker(view, before, own, slot)?))).collect();
        if moved.is_empty() {
            return false;
        }
        if now >= self.until {
            self.others.clear();
        }
        self.until = now + limits::SLOTS_MOVE;
        self.others.extend(moved);
        true
    }

    /// This shard works on a packet whose worker cannot be reached.
    pub(in crate::shard) fn note_work_for_other(&mut self, now: Instant) {
        self.works_for_others_until = now + limits::WORK_FOR_OTHERS;
    }

    /// True if this shard has the transaction of a request for another node's slot: the request is a repetition, which the slot's next worker,
    /// known by now, would forward once more.
    pub(in crate::shard) fn has_request(&self, now: Instant, endpoint: &Endpoint, packet: &Packet) -> bool {
        now < self.works_for_others_until && has_transaction(endpoint, &packet.bytes)
    }

    /// The other worker of a packet's call slot, if it has moved a moment ago.
    pub(super) fn other_worker(&self, now: Instant, packet: &[u8]) -> Option<ShardAddress> {
        // Nothing is searched while no slot moves.
        if now >= self.until {
            return None;
        }
        self.of_slot(now, CallSlot::of(raw_call_id(packet)?).number())
    }

    fn of_slot(&self, now: Instant, slot: u16) -> Option<ShardAddress> {
        self.others.get(&slot).copied().filter(|_| now < self.until)
    }
}

/// The other worker of a slot that has moved to or from this shard since the view before, if it lives at another node.
fn other_worker(view: &FarmView, before: &FarmView, own: ShardAddress, slot: u16) -> Option<ShardAddress> {
    let (worker, had) = (view.worker(slot), before.worker(slot));
    let other = if worker == had {
        None
    } else if worker == Some(own) {
        // The map names the last one, also if this node has not seen the map between.
        let last = view.map.worker(slot).previous.map(|previous| previous.worker);
        last.filter(|last| *last != own).or(had)
    } else if had == Some(own) {
        worker
    } else {
        None
    };
    other.filter(|other| other.life != own.life && view.has(*other))
}

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

/// The call slots that this shard had in the view before and another one has now.
fn given_away(view: &FarmView, before: &FarmView, own: ShardAddress) -> BTreeSet<u16> {
    let has = |slot: u16| view.worker(slot).is_some_and(|worker| worker != own);
    let had = |slot: &u16| before.worker(*slot) == Some(own);
    view.map.workers().map(|(slot, _)| slot).filter(|slot| had(slot) && has(*slot)).collect()
}

/// Tells the owners of accounts that the calls of slots which this shard has given away are over: their next worker does not know the
/// accounts and never tells of the end (`docs/decisions/0136-calls-of-nodes-that-are-gone.md`).
pub(super) fn end_moved_calls(shard: &mut Shard, now: Instant, view: &FarmView, before: Option<&FarmView>) {
    let given = before.map(|before| given_away(view, before, shard.parts.edge)).unwrap_or_default();
    if given.is_empty() {
        return;
    }
    let has_moved = |call_id: &str| given.contains(&CallSlot::of(call_id.as_bytes()).number());
    for query in shard.records.end_moved(has_moved) {
        // No answer comes.
        shard.ask(now, AskId(0), query);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster::Life;
    use cluster::map::{FarmMap, Move};
    use cluster::member::{MemberState, Roles};
    use farm::view::FarmPeer;

    use super::*;

    fn shard(life: u32) -> ShardAddress {
        ShardAddress::new(Life(life), 0)
    }

    /// The view of the node 1 of nodes 1 to 3, of which the slots 0, 1, … have these workers in turn. The coordinator has started a minute ago.
    fn view(versions: &[[u32; 3]]) -> FarmView {
        let mut map = FarmMap::new(3);
        for (version, workers) in (0..).zip(versions) {
            let to_worker = |(slot, life): (u16, &u32)| Move::Slot { slot, to: Some(shard(*life)) };
            let is_other = |(slot, life): &(u16, &u32)| map.worker(*slot).worker != Some(shard(**life));
            let moves: Vec<Move> = (0..).zip(workers).filter(is_other).map(to_worker).collect();
            map.apply(Instant::from_unix_seconds(60), &moves);
            map.succeed(version);
        }
        let peer = |life: u32| {
            let peer = FarmPeer {
                name: format!("n{life}").into(),
                address: "127.0.0.1:5280".parse().unwrap(),
                shards: 1,
                build: "0".into(),
                state: MemberState::Serving,
                roles: Roles::default(),
                weight: 100,
                is_suspect: false,
            };
            (Life(life), peer)
        };
        FarmView { own: Life(1), map, peers: (1..=3).map(peer).collect(), is_council_away: false }
    }

    /// The life of the other worker of each slot.
    fn others(moved: &MovedSlots, now: Instant) -> Vec<Option<u32>> {
        let other = |slot| moved.of_slot(now, slot).map(|other| other.life.0);
        (0..3).map(other).collect()
    }

    #[test]
    fn either_worker_of_a_slot_that_has_moved_knows_the_other_for_a_while() {
        let now = Instant::from_unix_seconds(1_800_000_000);
        let mut moved = MovedSlots::default();
        let (first, second) = ([1, 2, 2], [2, 1, 3]);
        let (before, after) = (view(&[first]), view(&[first, second]));
        assert!(!moved.note_map(now, shard(1), &before, None));
        assert_eq!(others(&moved, now), [None, None, None], "the first map that a node reads");
        assert!(moved.note_map(now, shard(1), &after, Some(&before)));
        let of_both = [Some(2), Some(2), None];
        assert_eq!(others(&moved, now), of_both, "by the clock of this node, not by the coordinator's");
        // Another map, in which nothing moves.
        let same = view(&[first, second, second]);
        assert!(!moved.note_map(now, shard(1), &same, Some(&after)));
        assert_eq!(others(&moved, now + limits::SLOTS_MOVE - Duration::from_micros(1)), of_both);
        assert_eq!(others(&moved, now + limits::SLOTS_MOVE), [None, None, None]);
    }

    #[test]
    fn the_slots_that_a_shard_gives_away_are_those_that_another_one_has_now() {
        let (first, second) = ([1, 1, 2], [1, 3, 1]);
        let (before, after) = (view(&[first]), view(&[first, second]));
        let given = |shard_of| given_away(&after, &before, shard(shard_of)).into_iter().collect::<Vec<_>>();
        assert_eq!((given(1), given(2), given(3)), (vec![1], vec![2], vec![]));
        assert!(given_away(&after, &after, shard(1)).is_empty());
    }

    #[test]
    fn the_worker_before_is_the_last_one_of_maps_that_were_not_seen() {
        let now = Instant::from_unix_seconds(1_800_000_000);
        let mut moved = MovedSlots::default();
        let (before, after) = (view(&[[2, 1, 1]]), view(&[[2, 1, 1], [3, 2, 1], [1, 3, 1]]));
        assert!(moved.note_map(now, shard(1), &after, Some(&before)));
        assert_eq!(others(&moved, now), [Some(3), Some(3), None]);
    }
}
