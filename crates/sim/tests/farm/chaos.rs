//! Random faults for a quarter of a minute, then peace.

use std::time::Duration;

use cluster::Bucket;
use cluster::member::Roles;
use sim::farm::{BUCKETS, FarmWorld, Weather, lost_files};
use sim::for_seeds;

/// The longest time from the end of all faults until every bucket is served: a fenced node ends and starts again (1 s), waits until
/// its last life is dead (the 4.5 s of the lease, after which the council is asked), a broken connection is noticed
/// (3.5 s), and maps and epochs go round.
pub(crate) const RECOVERY: Duration = Duration::from_secs(12);

/// Runs in the gate, on both cores. `FARM_SEEDS` changes it.
const SEEDS: u64 = 600;

const BOTH: Roles = Roles { is_edge: true, is_router: true };
const EDGE: Roles = Roles { is_edge: true, is_router: false };
const ROUTER: Roles = Roles { is_edge: false, is_router: true };

pub(crate) fn world(seed: u64) -> FarmWorld {
    let shapes: [&[Roles]; 4] =
        [&[BOTH, BOTH, BOTH], &[BOTH, BOTH], &[EDGE, ROUTER, ROUTER], &[BOTH, BOTH, BOTH, EDGE]];
    FarmWorld::new(seed, shapes[seed as usize % shapes.len()])
}

pub(crate) fn bucket(number: u64) -> Bucket {
    Bucket::with_number((number % u64::from(BUCKETS)) as u16).expect("BUCKETS of the world are fewer")
}

fn millis(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// Clients write and chat for so long.
pub(crate) fn work_for(world: &mut FarmWorld, duration: Duration) {
    let end = world.now() + duration;
    while world.now() < end {
        let (node, other, at) = (random_node(world), random_node(world), world.rng.next_u64());
        world.write(node, bucket(at));
        if node != other {
            world.chat(node, other);
        }
        let pause = millis(10 + world.rng.below(90));
        world.run_for(pause);
    }
}

fn random_node(world: &mut FarmWorld) -> usize {
    world.rng.below(world.size() as u64) as usize
}

fn one_fault(world: &mut FarmWorld) {
    let (node, other) = (random_node(world), random_node(world));
    match world.rng.below(17) {
        0 | 1 => {
            let restart = millis(world.rng.below(6_000));
            world.kill(node, restart);
        }
        2 | 3 => world.pause(node),
        4 => world.resume(node),
        5 => world.cut(node, other),
        6 => {
            world.cut(node, other);
            world.cut(other, node);
        }
        7 => world.set_council_cut(node, true),
        8 => world.set_database_cut(node, true),
        9 => world.leave(node),
        10 => change_weather(world),
        11 => {
            let (members, map) = (world.rng.chance(700), world.rng.chance(500));
            world.forget(members, map);
        }
        12 => {
            let map = world.rng.chance(500);
            lost_files::lose(world, map);
        }
        13 | 14 => lost_files::return_node(world, node, true),
        15 => world.council.is_stale = !world.council.is_stale,
        _ => world.clear_up(),
    }
}

fn change_weather(world: &mut FarmWorld) {
    world.weather = Weather {
        is_council_away: world.rng.chance(300),
        lost_answers: world.rng.below(300) as u32,
        council_delay: 1 + world.rng.below(1_500),
        database_delay: 1 + world.rng.below(700),
    };
}

/// Runs one seed and returns its world at rest.
pub(crate) fn run(mut world: FarmWorld) -> FarmWorld {
    let calm = millis(world.rng.below(6_000));
    work_for(&mut world, calm);
    for _ in 0..3 + world.rng.below(8) {
        one_fault(&mut world);
        let pause = millis(world.rng.below(3_000));
        work_for(&mut world, pause);
    }
    world.clear_up();
    work_for(&mut world, RECOVERY);
    assert_eq!(world.unserved(), Vec::<u16>::new(), "{:?}", world.leftovers());
    check(&mut world);
    world
}

/// Every bucket takes a row through every node, and nothing is lost or left.
fn check(world: &mut FarmWorld) {
    let probes: Vec<_> = (0..world.size())
        .flat_map(|node| (0..u64::from(BUCKETS)).map(move |at| (node, bucket(at))))
        .map(|(node, bucket)| (node, bucket.number(), world.write(node, bucket)))
        .collect();
    world.run_for(Duration::from_secs(3));
    let unanswered: Vec<_> = probes.iter().filter(|(_, _, id)| !world.ledger.is_acknowledged(*id)).collect();
    assert!(unanswered.is_empty(), "{unanswered:?} of {} probes, {:?}", probes.len(), world.leftovers());
    assert_eq!(world.lost_rows(), Vec::<u64>::new());
    assert_eq!(world.leftovers(), Vec::<String>::new());
    world.ledger.check_chats();
    assert_eq!(world.ledger.faults, Vec::<String>::new());
    assert_eq!(world.database.fault, None);
}

fn seeds(share: u64) -> std::ops::Range<u64> {
    let all: u64 = std::env::var("FARM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    all * share / 4..all * (share + 1) / 4
}

// Four tests, so that the test runner has something to do on each core.

#[test]
fn a_farm_keeps_its_promises_first_quarter() {
    for_seeds(seeds(0), |seed| drop(run(world(seed))));
}

#[test]
fn a_farm_keeps_its_promises_second_quarter() {
    for_seeds(seeds(1), |seed| drop(run(world(seed))));
}

#[test]
fn a_farm_keeps_its_promises_third_quarter() {
    for_seeds(seeds(2), |seed| drop(run(world(seed))));
}

#[test]
fn a_farm_keeps_its_promises_last_quarter() {
    for_seeds(seeds(3), |seed| drop(run(world(seed))));
}
