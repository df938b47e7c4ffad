//! Connections between living nodes that break, and lose no message of any class.

use std::time::Duration;

use cluster::limits::{MESSAGE_AGE, UNCONFIRMED};
use sim::farm::{FarmWorld, resets};
use sim::for_seeds;

use crate::chaos::{RECOVERY, work_for, world};

/// At the end of a run in which no node has ended: each message came once, in the order of its class, or was given back.
fn check(world: &mut FarmWorld, least: usize) {
    world.clear_up();
    work_for(world, Duration::from_secs(1));
    world.run_for(RECOVERY);
    assert_eq!(world.ends, vec![]);
    assert_eq!(world.leftovers(), Vec::<String>::new());
    world.ledger.check_chats();
    assert_eq!(world.ledger.faults, Vec::<String>::new());
    let (relayed, lost) = world.ledger.relayed();
    assert!(relayed >= least, "only {relayed} messages");
    assert_eq!(lost, 0, "of {relayed} messages");
}

/// Two nodes of the world, not one twice.
fn pair(world: &mut FarmWorld) -> (usize, usize) {
    let size = world.size() as u64;
    let one = world.rng.below(size) as usize;
    (one, (one + 1 + world.rng.below(size - 1) as usize) % world.size())
}

#[test]
fn links_that_are_reset_again_and_again_lose_nothing() {
    for_seeds(0..60, |seed| {
        let mut world = world(seed);
        work_for(&mut world, Duration::from_secs(4));
        for _ in 0..40 {
            let (one, other) = pair(&mut world);
            resets::reset(&mut world, one, other);
            let pause = Duration::from_millis(world.rng.below(700));
            work_for(&mut world, pause);
        }
        check(&mut world, 20);
    });
}

/// The network takes the bytes and loses them, in one direction or both, for as long as a message may wait: the link is closed and opened anew.
#[test]
fn links_of_a_network_that_is_cut_for_seconds_lose_nothing() {
    // The next attempt to open a connection, and its way.
    let longest = MESSAGE_AGE.checked_sub(Duration::from_millis(600)).expect("messages may be seconds old");
    for_seeds(0..60, |seed| {
        let mut world = world(seed);
        work_for(&mut world, Duration::from_secs(4));
        for _ in 0..4 {
            let (one, other) = pair(&mut world);
            world.cut(one, other);
            if world.rng.chance(500) {
                world.cut(other, one);
            }
            let more =
                world.rng.below((longest.checked_sub(UNCONFIRMED).expect("shorter").as_millis()) as u64);
            work_for(&mut world, UNCONFIRMED + Duration::from_millis(more));
            world.heal(one, other);
            world.heal(other, one);
            work_for(&mut world, Duration::from_secs(2));
        }
        check(&mut world, 20);
    });
}
