//! A node whose processor is slow: each map costs it a time in which it does nothing else. It reads the council as the agent of crate
//! `farm` does: it looks what is due, then takes the news that come next.

use std::time::Duration;

use cluster::Life;
use cluster::council_queue::{CouncilQueue, NewsKind};

use super::council::{CouncilAnswer, CouncilRequest};
use super::network::NodeNumber;
use super::process::Input;
use super::{Event, FarmWorld};

/// The state of a slow node.
pub(super) struct SlowNode {
    /// The time that each map costs.
    map_cost: Duration,
    /// A turn is under way or follows at once.
    is_busy: bool,
    news: CouncilQueue<CouncilAnswer>,
}

fn kind_of(answer: &CouncilAnswer) -> NewsKind {
    match answer {
        CouncilAnswer::Renewed { .. } => NewsKind::Renewal,
        CouncilAnswer::Announced(member) => NewsKind::Announcement(member.life),
        CouncilAnswer::MapWritten(..) => NewsKind::Map,
        CouncilAnswer::Map(..) | CouncilAnswer::Swapped(_) => NewsKind::MapAnswer,
        _ => NewsKind::Other,
    }
}

/// From now on each map costs the node so long.
pub fn set_map_cost(world: &mut FarmWorld, node: NodeNumber, map_cost: Duration) {
    world.nodes[node].slow = Some(SlowNode { map_cost, is_busy: false, news: CouncilQueue::default() });
}

/// Writes the map that the council has once more, with the next version, as a node does after a change. Returns the version.
pub fn write_map_again(world: &mut FarmWorld) -> u64 {
    let (mut answers, mut notices) = (Vec::new(), Vec::new());
    world.council.handle(world.now, CouncilRequest::ReadMap, &mut answers, &mut notices);
    let Some(CouncilAnswer::Map(expected, Some(mut map))) = answers.pop() else {
        panic!("the council has a map");
    };
    map.succeed(map.version());
    let version = map.version();
    let request = CouncilRequest::SwapMap { expected, map };
    world.council.handle(world.now, request, &mut answers, &mut notices);
    world.notify(&notices);
    version
}

/// An input that a slow node cannot have now waits for its next turn; the others are given back.
pub(super) fn defer(world: &mut FarmWorld, node: NodeNumber, life: Life, input: Input) -> Option<Input> {
    let one = &mut world.nodes[node];
    let Some(slow) = &mut one.slow else { return Some(input) };
    let is_busy = std::mem::replace(&mut slow.is_busy, true);
    match input {
        Input::Council(answer) => slow.news.push(kind_of(&answer), answer),
        input if is_busy => one.backlog.push(input),
        input => {
            slow.is_busy = false;
            return Some(input);
        }
    }
    if !is_busy {
        world.schedule(world.now, Event::Turn(node, life));
    }
    None
}

/// A turn of a slow node. Its effects come at once, and the next turn after the time that they cost.
pub(super) fn take_turn(world: &mut FarmWorld, node: NodeNumber, life: Life) {
    let one = &mut world.nodes[node];
    let (Some(slow), true) =
        (&mut one.slow, one.process.as_ref().is_some_and(|process| process.life == life))
    else {
        return;
    };
    let (has_map, news, cost) = (slow.news.has_map(), slow.news.take(), slow.map_cost);
    let backlog = std::mem::take(&mut one.backlog);
    let now = world.local(node);
    world.handle(node, now, if has_map { Input::ExpireBeforeMap } else { Input::Expire });
    for input in backlog.into_iter().filter(|input| !matches!(input, Input::Expire)) {
        world.handle(node, now, input);
    }
    for answer in news {
        world.handle(node, now, Input::Council(answer));
    }
    let Some(slow) = &mut world.nodes[node].slow else { return };
    slow.is_busy = has_map || !slow.news.is_empty();
    if slow.is_busy {
        let until = world.now + if has_map { cost } else { Duration::ZERO };
        world.schedule(until, Event::Turn(node, life));
    }
}
