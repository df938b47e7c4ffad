//! Connections that are reset: both ends learn of it, and the bytes under way are lost.

use super::Event;
use super::FarmWorld;
use super::network::NodeNumber;
use super::process::Input;

/// Resets the connections between two nodes.
pub fn reset(world: &mut FarmWorld, one: NodeNumber, other: NodeNumber) {
    let Some(life) = world.process(one).map(|process| process.life) else { return };
    for number in world.connections.of(life) {
        let is_of_other = |end: &super::network::End| end.node == other;
        if !world.connections.get(number).is_some_and(|open| open.ends.iter().any(is_of_other)) {
            continue;
        }
        let Some(closed) = world.connections.close(number) else { continue };
        for (place, end) in closed.ends.into_iter().enumerate() {
            let peer = closed.ends[1 - place].life;
            let at = world.now + world.delay(20);
            let input = Input::Closed { peer, lane: closed.lane, connection: number };
            world.schedule(at, Event::Input(end.node, end.life, input));
        }
    }
}
