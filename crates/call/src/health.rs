//! The health of the targets of routes: OPTIONS to each from time to time (RFC 3261 §11). The shard that
//! sends them reports the results. Any answer but 503 counts as alive; 503 and silence count as down.

use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;
use stdx::rng::SplitMix64;

use crate::limits;
use crate::target::{DownTargets, Target};

/// The interval of the probes, and the number of failures that make a target down.
#[derive(Clone, Copy, Debug)]
pub struct HealthSettings {
    /// Between two probes of one target, a tenth more or less.
    pub interval: Duration,
    /// Probes in a row without life that make a target down. One with life makes it up again.
    pub failures: u8,
}

impl Default for HealthSettings {
    fn default() -> Self {
        HealthSettings { interval: Duration::from_secs(10), failures: 3 }
    }
}

/// The orders of [`Health`] to the shard that drives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthEffect {
    /// Send OPTIONS there; `handle_probe_result` with the same number.
    Probe {
        /// The target that is probed.
        target: Target,
        /// The number of this probe, never used twice.
        probe: u64,
    },
    /// From now on these are down, and only these: give them to `Plan::decide`.
    Down(Arc<DownTargets>),
}

/// The probed targets, their states and the times of their next probes.
pub struct Health {
    settings: HealthSettings,
    numbers: SplitMix64,
    probed: Vec<ProbedTarget>,
    last_probe: u64,
}

struct ProbedTarget {
    target: Target,
    due: Instant,
    /// The probe without an answer.
    outstanding: Option<u64>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first state of every target: calls are not refused for want of a probe.
    Up {
        failures: u8,
    },
    Down,
}

impl Health {
    /// `seed` spreads the probes.
    pub fn new(settings: HealthSettings, seed: u64) -> Self {
        Health { settings, numbers: SplitMix64::new(seed), probed: Vec::new(), last_probe: 0 }
    }

    /// These are to be probed from now on. Known ones keep their state; new ones get their first probe
    /// within one interval.
    pub fn set_targets(&mut self, now: Instant, targets: Vec<Target>, out: &mut Vec<HealthEffect>) {
        let before = self.down();
        let mut old = std::mem::take(&mut self.probed);
        for target in targets.into_iter().take(limits::PROBED_TARGETS) {
            let known = old.iter().position(|probed| probed.target == target);
            let probed = match known {
                Some(place) => old.swap_remove(place),
                None => self.begin(now, target),
            };
            self.probed.push(probed);
        }
        self.report(&before, out);
    }

    /// A probe came back, or never will.
    pub fn handle_probe_result(
        &mut self,
        target: &Target,
        probe: u64,
        alive: bool,
        out: &mut Vec<HealthEffect>,
    ) {
        let before = self.down();
        let Some(probed) = self.probed.iter_mut().find(|probed| probed.target == *target) else {
            return;
        };
        if alive {
            probed.state = State::Up { failures: 0 };
        } else if probed.outstanding == Some(probe) {
            probed.fail(self.settings.failures);
        } // else: its silence has been counted when the next one was due.
        if probed.outstanding == Some(probe) {
            probed.outstanding = None;
        }
        self.report(&before, out);
    }

    /// Sends the probes that are due. One that is still unanswered has failed.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<HealthEffect>) {
        let before = self.down();
        for index in 0..self.probed.len() {
            if self.probed[index].due > now {
                continue;
            }
            let due = now + self.jittered();
            self.last_probe += 1;
            let probed = &mut self.probed[index];
            probed.due = due;
            if probed.outstanding.replace(self.last_probe).is_some() {
                probed.fail(self.settings.failures);
            }
            out.push(HealthEffect::Probe { target: probed.target.clone(), probe: self.last_probe });
        }
        self.report(&before, out);
    }

    /// The time of the next probe; `None` without targets.
    pub fn deadline(&self) -> Option<Instant> {
        self.probed.iter().map(|probed| probed.due).min()
    }

    /// The targets that are down now.
    pub fn down(&self) -> DownTargets {
        self.probed
            .iter()
            .filter(|probed| probed.state == State::Down)
            .map(|probed| probed.target.clone())
            .collect()
    }

    fn begin(&mut self, now: Instant, target: Target) -> ProbedTarget {
        let spread = Duration::from_micros(self.numbers.below(micros(self.settings.interval)));
        ProbedTarget { target, due: now + spread, outstanding: None, state: State::Up { failures: 0 } }
    }

    fn jittered(&mut self) -> Duration {
        let tenth = micros(self.settings.interval) / 10;
        Duration::from_micros(micros(self.settings.interval) - tenth + self.numbers.below(2 * tenth))
    }

    fn report(&self, before: &DownTargets, out: &mut Vec<HealthEffect>) {
        let down = self.down();
        if down != *before {
            out.push(HealthEffect::Down(Arc::new(down)));
        }
    }
}

impl ProbedTarget {
    fn fail(&mut self, most: u8) {
        self.state = match self.state {
            State::Up { failures } if failures.saturating_add(1) < most => {
                State::Up { failures: failures + 1 }
            }
            State::Up { .. } | State::Down => State::Down,
        };
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
