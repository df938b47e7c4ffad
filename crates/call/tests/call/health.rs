//! Probes and their effect on targets.

use std::time::Duration;

use call::{Health, HealthEffect, HealthSettings, Target};
use stdx::Instant;

const START: Instant = Instant::from_unix_seconds(1_800_000_000);

struct World {
    health: Health,
    now: Instant,
}

impl World {
    fn new(targets: &[&str]) -> Self {
        let mut health = Health::new(HealthSettings::default(), 7);
        let mut out = Vec::new();
        health.set_targets(START, targets.iter().map(|t| t.parse().unwrap()).collect(), &mut out);
        assert_eq!(out, []);
        World { health, now: START }
    }

    /// Goes on to the next probe.
    fn next(&mut self) -> (Vec<(Target, u64)>, bool) {
        self.now = self.health.deadline().unwrap();
        let mut out = Vec::new();
        self.health.expire(self.now, &mut out);
        split(out)
    }

    fn result(&mut self, target: &Target, probe: u64, alive: bool) -> bool {
        let mut out = Vec::new();
        self.health.handle_probe_result(target, probe, alive, &mut out);
        split(out).1
    }
}

/// The probes, and whether something went down or up.
fn split(effects: Vec<HealthEffect>) -> (Vec<(Target, u64)>, bool) {
    let mut probes = Vec::new();
    let mut changed = false;
    for effect in effects {
        match effect {
            HealthEffect::Probe { target, probe } => probes.push((target, probe)),
            HealthEffect::Down(_) => changed = true,
        }
    }
    (probes, changed)
}

#[test]
fn three_failures_in_a_row_are_down_and_one_answer_is_up() {
    let mut world = World::new(&["192.0.2.1"]);
    let fail = |world: &mut World, alive| {
        let (probes, _) = world.next();
        let (target, probe) = &probes[0];
        world.result(target, *probe, alive)
    };
    assert!(!fail(&mut world, false));
    assert!(!fail(&mut world, false));
    assert!(!fail(&mut world, true));
    assert!(!fail(&mut world, false));
    assert!(!fail(&mut world, false));
    assert!(fail(&mut world, false));
    assert_eq!(world.health.down().len(), 1);
    assert!(!fail(&mut world, false));
    assert!(fail(&mut world, true));
    assert!(world.health.down().is_empty());
}

#[test]
fn silence_counts_when_the_next_probe_is_due_and_only_once() {
    let mut world = World::new(&["192.0.2.1"]);
    let (first, _) = world.next();
    let (second, _) = world.next();
    // Its Timer F: the silence of the first has been counted.
    assert!(!world.result(&first[0].0, first[0].1, false));
    let (_, down) = world.next();
    assert!(!down);
    let (_, down) = world.next();
    assert!(down);
    // A late answer is still life.
    assert!(world.result(&second[0].0, second[0].1, true));
}

#[test]
fn probes_come_each_interval_with_jitter() {
    let mut world = World::new(&["192.0.2.1"]);
    world.next();
    for _ in 0..100 {
        let before = world.now;
        world.next();
        let between = world.now.since(before);
        assert!((Duration::from_secs(9)..=Duration::from_secs(11)).contains(&between), "{between:?}");
    }
}

#[test]
fn first_probes_are_spread_over_one_interval() {
    let names: Vec<_> = (0..100).map(|n| format!("192.0.2.{n}")).collect();
    let mut world = World::new(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    let mut out = Vec::new();
    world.health.expire(START + Duration::from_secs(5), &mut out);
    assert!((30..70).contains(&out.len()), "{}", out.len());
    world.health.expire(START + Duration::from_secs(10), &mut out);
    assert!(out.len() >= 100);
}

#[test]
fn known_targets_keep_their_state_and_removed_ones_are_forgotten() {
    let mut world = World::new(&["192.0.2.1", "192.0.2.2"]);
    for _ in 0..8 {
        world.next();
    }
    assert_eq!(world.health.down().len(), 2);
    let mut out = Vec::new();
    let targets = vec!["192.0.2.1".parse().unwrap(), "192.0.2.3".parse().unwrap()];
    world.health.set_targets(world.now, targets, &mut out);
    assert!(matches!(&out[..], [HealthEffect::Down(down)] if down.len() == 1));
    assert!(world.health.down().contains(&"192.0.2.1".parse().unwrap()));
}
