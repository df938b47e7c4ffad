//! A council that loses its files: its nodes come back to it one by one, and watch it anew.

use super::council::CouncilAnswer;
use super::network::NodeNumber;
use super::process::Input;
use super::{Event, FarmWorld};

/// The council comes back without its keys, and without its map if `map`: no node is connected to it, and all watches are of keys
/// that are lost.
pub fn lose(world: &mut FarmWorld, map: bool) {
    world.council.forget_members(&mut Vec::new());
    if map {
        world.council.forget_map();
    }
    for node in &mut world.nodes {
        (node.is_council_cut, node.is_watch_deaf) = (true, true);
    }
}

/// A node is connected to the council again and watches it anew. `is_told`: its part in the farm hears that the watch is new.
pub fn return_node(world: &mut FarmWorld, node: NodeNumber, is_told: bool) {
    let Some(life) = world.nodes[node].process.as_ref().map(|process| process.life) else { return };
    let one = &mut world.nodes[node];
    (one.is_council_cut, one.is_watch_deaf) = (false, false);
    let at = world.now + world.delay(world.weather.council_delay);
    let begin = is_told.then_some(CouncilAnswer::WatchBegun);
    for answer in begin.into_iter().chain(world.council.shown()) {
        world.schedule(at, Event::Input(node, life, Input::Council(answer)));
    }
}
