//! Single faults, with the time that each costs.

use std::time::Duration;

use cluster::farm::EndReason;
use sim::farm::{FarmWorld, Weather, lost_files, slow};
use sim::for_seeds;

use crate::chaos::{bucket, work_for, world};

const SECOND: Duration = Duration::from_secs(1);

/// A farm of three nodes with both roles, at rest, after clients have worked.
fn at_rest(seed: u64) -> FarmWorld {
    let mut world = world(seed * 4);
    work_for(&mut world, 5 * SECOND);
    assert_eq!(world.unserved(), Vec::<u16>::new());
    world
}

/// The time until every bucket is served, in steps of 50 ms.
fn time_to_serve(world: &mut FarmWorld, most: Duration) -> Duration {
    let begin = world.now();
    while !world.unserved().is_empty() {
        assert!(world.now().since(begin) < most, "not served: {:?}", world.unserved());
        world.run_for(Duration::from_millis(50));
    }
    world.now().since(begin)
}

#[test]
fn a_farm_serves_all_buckets_and_writes_through_every_node() {
    let mut world = at_rest(1);
    let ids: Vec<_> = (0..48).map(|n| world.write(n as usize % 3, bucket(n))).collect();
    world.run_for(SECOND);
    assert!(ids.iter().all(|id| world.ledger.is_acknowledged(*id)));
    let (chats, rows) = world.ledger.amount();
    assert!(chats > 20 && rows > 60, "{chats} chats, {rows} rows");
    assert_eq!(world.leftovers(), Vec::<String>::new());
}

#[test]
fn a_killed_node_is_replaced_within_three_seconds() {
    let mut world = at_rest(2);
    world.kill(0, 60 * SECOND);
    world.run_for(Duration::from_millis(10));
    let time = time_to_serve(&mut world, 10 * SECOND);
    assert!(time <= 3 * SECOND, "{time:?}: the host refuses connections, so 1.5 s and a map");
    assert_eq!(world.lost_rows(), Vec::<u64>::new());
}

#[test]
fn a_node_that_is_cut_off_from_all_is_replaced_when_its_lease_ends() {
    let mut world = at_rest(3);
    for other in 1..3 {
        world.cut(0, other);
        world.cut(other, 0);
    }
    world.set_council_cut(0, true);
    world.set_database_cut(0, true);
    world.run_for(3 * SECOND);
    let local = world.local(0);
    let cut_off = world.process(0).expect("it runs");
    assert!((0..16).all(|n| cut_off.farm.serves(local, bucket(n)).is_none()), "its authority has ended");
    world.run_for(4 * SECOND);
    let owners = |world: &FarmWorld| {
        let map = world.process(1).expect("it runs").farm.map();
        (0..16).filter_map(|n| map.owner(bucket(n)).owner).map(|owner| owner.life).collect::<Vec<_>>()
    };
    let life = world.process(0).expect("it runs").life;
    assert!(owners(&world).iter().all(|owner| *owner != life));
    world.clear_up();
    world.run_for(3 * SECOND);
    let reason = world.ends.iter().find(|(ended, _)| *ended == life).map(|(_, reason)| reason.clone());
    assert!(matches!(reason, Some(EndReason::Fenced | EndReason::DeclaredDead)), "{reason:?}");
}

#[test]
fn a_stopped_node_that_wakes_up_writes_nothing() {
    let mut world = at_rest(4);
    world.pause(0);
    for n in 0..32 {
        world.write(0, bucket(n));
    }
    work_for(&mut world, 10 * SECOND);
    world.resume(0);
    work_for(&mut world, 10 * SECOND);
    assert_eq!(world.unserved(), Vec::<u16>::new());
    assert_eq!(world.lost_rows(), Vec::<u64>::new());
}

#[test]
fn no_node_takes_over_while_the_council_is_away_and_owners_go_on() {
    let mut world = at_rest(5);
    world.weather = Weather { is_council_away: true, ..Weather::FAIR };
    world.run_for(30 * SECOND);
    assert_eq!(world.unserved(), Vec::<u16>::new());
    assert_eq!(world.ends, vec![]);
    let id = world.write(1, bucket(3));
    world.run_for(SECOND);
    assert!(world.ledger.is_acknowledged(id));
}

#[test]
fn owners_without_council_and_database_stop_and_later_go_on_with_their_data() {
    let mut world = at_rest(6);
    world.weather = Weather { is_council_away: true, ..Weather::FAIR };
    (0..3).for_each(|node| world.set_database_cut(node, true));
    world.run_for(4 * SECOND);
    assert_eq!(world.unserved().len(), 16);
    world.clear_up();
    let time = time_to_serve(&mut world, 5 * SECOND);
    assert!(time <= 2 * SECOND, "{time:?}: nothing was taken, so no row is read again");
    assert_eq!(world.ends, vec![]);
}

#[test]
fn a_council_that_forgets_everything_costs_nothing() {
    let mut world = at_rest(7);
    world.forget(true, true);
    work_for(&mut world, 8 * SECOND);
    assert_eq!(world.unserved(), Vec::<u16>::new());
    assert_eq!(world.ends, vec![]);
}

/// All nodes are stopped, the database is restored, and they are started again: the council still has the map with the epochs of before.
#[test]
fn a_database_that_was_restored_is_served_again() {
    for_seeds(0..20, |seed| {
        let mut world = at_rest(seed);
        let epochs = |world: &FarmWorld| {
            let map = world.process(0).expect("it runs").farm.map();
            (0..16).map(|n| map.owner(bucket(n)).epoch).collect::<Vec<_>>()
        };
        let before = epochs(&world);
        (0..3).for_each(|node| world.kill(node, 10 * SECOND));
        world.run_for(5 * SECOND);
        world.database.restore();
        world.run_for(6 * SECOND);
        time_to_serve(&mut world, 20 * SECOND);
        work_for(&mut world, 5 * SECOND);
        assert_eq!(world.unserved(), Vec::<u16>::new());
        assert_eq!(world.lost_rows(), Vec::<u64>::new());
        let is_later = epochs(&world).iter().zip(&before).all(|(now, before)| now > before);
        assert!(is_later, "{before:?}, then {:?}", epochs(&world));
    });
}

/// A council that was away, or not for long, comes back without its files; each node is back there at a time of its own.
pub(crate) fn lose_files(world: &mut FarmWorld, is_told: bool) {
    work_for(world, 5 * SECOND);
    world.weather.is_council_away = world.rng.chance(500);
    let absence = Duration::from_millis(world.rng.below(20_000));
    work_for(world, absence);
    let map = world.rng.chance(500);
    lost_files::lose(world, map);
    world.weather = Weather::FAIR;
    let mut returns: Vec<(u64, usize)> =
        (0..world.size()).map(|node| (world.rng.below(6_000), node)).collect();
    returns.sort_unstable();
    let begin = world.now();
    for (at, node) in returns {
        let pause = Duration::from_millis(at).saturating_sub(world.now().since(begin));
        work_for(world, pause);
        lost_files::return_node(world, node, is_told);
    }
    work_for(world, 15 * SECOND);
}

#[test]
fn a_council_that_lost_its_files_ends_no_node_with_working_links() {
    for_seeds(0..60, |seed| {
        let mut world = world(seed);
        lose_files(&mut world, true);
        assert_eq!(world.ends, vec![]);
        assert_eq!(world.unserved(), Vec::<u16>::new());
        let map = world.process(0).expect("it runs").farm.map();
        assert_eq!(map.dead(), []);
    });
}

#[test]
fn a_node_that_dies_while_the_council_loses_its_files_is_replaced() {
    let mut world = at_rest(10);
    lost_files::lose(&mut world, true);
    world.kill(0, 60 * SECOND);
    (1..3).for_each(|node| lost_files::return_node(&mut world, node, true));
    world.run_for(Duration::from_millis(10));
    let time = time_to_serve(&mut world, 15 * SECOND);
    assert!(time <= 3 * SECOND, "{time:?}: its host refuses connections");
}

#[test]
fn a_node_that_leaves_hands_its_buckets_over_without_a_death() {
    let mut world = at_rest(8);
    let life = world.process(1).expect("it runs").life;
    world.leave(1);
    work_for(&mut world, 8 * SECOND);
    assert_eq!(world.ends, [(life, EndReason::Left)]);
    assert_eq!(world.unserved(), Vec::<u16>::new());
    assert_eq!(world.lost_rows(), Vec::<u64>::new());
}

#[test]
fn a_link_that_breaks_is_no_death() {
    let mut world = at_rest(9);
    world.cut(0, 1);
    work_for(&mut world, 15 * SECOND);
    assert_eq!(world.ends, vec![]);
    world.clear_up();
    work_for(&mut world, 5 * SECOND);
    assert_eq!(world.leftovers(), Vec::<String>::new());
    world.ledger.check_chats();
    assert_eq!(world.ledger.faults, Vec::<String>::new());
}

/// A build without optimisation beside faster ones, while the map changes faster than it reads.
#[test]
fn a_node_that_reads_one_map_a_second_keeps_its_lease_amid_ten_changes_a_second() {
    for_seeds(0..20, |seed| {
        let mut world = at_rest(seed);
        let life = world.process(2).expect("it runs").life;
        slow::set_map_cost(&mut world, 2, SECOND);
        let mut version = 0;
        for _ in 0..300 {
            version = slow::write_map_again(&mut world);
            world.run_for(Duration::from_millis(100));
            let now = world.local(2);
            let slow = world.process(2).expect("it runs");
            assert_eq!(slow.life, life, "{:?}", world.ends);
            assert!(slow.farm.lease().may_act(now), "its lease is over");
        }
        // The map that it was at, and the newest.
        world.run_for(2 * SECOND);
        assert!(world.process(2).expect("it runs").farm.map().version() >= version);
        assert_eq!(world.ends, vec![]);
        assert_eq!(world.unserved(), Vec::<u16>::new());
    });
}
