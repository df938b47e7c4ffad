//! Probes of routes' targets (OPTIONS): the numbers of those under way, between `call::Health`, which decides when a target is probed and
//! whether it is down, and the endpoint, which sends the probes. `Shard::settle` performs the effects.
//!
//! Invariant: a probe that was sent ends by exactly one outcome, as the endpoint's transaction times out at the
//! latest.

use std::collections::HashMap;

use call::{Health, HealthEffect, Target};
use stdx::Instant;

use super::planning;

/// The probes that one shard of a node sends; at the other shards, nothing.
pub(super) struct RouteProbes {
    /// `None`: another shard of the node probes.
    health: Option<Health>,
    effects: Vec<HealthEffect>,
    /// Probes under way: the endpoint's number to the target and the health machine's number.
    pending: HashMap<u64, (Target, u64)>,
    last: u64,
}

/// An effect that the shard performs.
#[derive(Debug)]
pub(super) enum ProbeEffect {
    /// Answered by [`RouteProbes::handle_outcome`].
    Probe { id: u64, uri: Box<str> },
    /// The targets that are down now, for every shard.
    Down(std::sync::Arc<call::DownTargets>),
}

impl RouteProbes {
    pub(super) fn new(health: Option<Health>) -> RouteProbes {
        RouteProbes { health, effects: Vec::new(), pending: HashMap::new(), last: 0 }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.health.as_ref().and_then(Health::deadline)
    }

    pub(super) fn set_targets(&mut self, now: Instant, targets: Vec<Target>) {
        if let Some(health) = &mut self.health {
            health.set_targets(now, targets, &mut self.effects);
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if let Some(health) = &mut self.health {
            health.expire(now, &mut self.effects);
        }
    }

    /// Handles the endpoint's outcome of a probe.
    pub(super) fn handle_outcome(&mut self, id: u64, status: u16) {
        let Some((target, probe)) = self.pending.remove(&id) else { return };
        // Any answer is a sign of life, but for "overloaded" (503) and our own "no answer" (408, RFC 3261 §8.1.3.1).
        let alive = !matches!(status, 408 | 503);
        if let Some(health) = &mut self.health {
            health.handle_probe_result(&target, probe, alive, &mut self.effects);
        }
    }

    /// Moves out the effects since the last call.
    pub(super) fn take_effects(&mut self, sink: &mut Vec<ProbeEffect>) {
        for effect in self.effects.drain(..) {
            sink.push(match effect {
                HealthEffect::Probe { target, probe } => {
                    self.last += 1;
                    let uri = planning::uri_of(&target, "");
                    self.pending.insert(self.last, (target, probe));
                    ProbeEffect::Probe { id: self.last, uri }
                }
                HealthEffect::Down(down) => ProbeEffect::Down(down),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use call::HealthSettings;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

    /// The targets that are down after each of these outcomes of probes.
    fn down_after(outcomes: &[u16]) -> Vec<usize> {
        let settings = HealthSettings { interval: Duration::from_secs(10), failures: 2 };
        let mut probes = RouteProbes::new(Some(Health::new(settings, 1)));
        let target = Target { host: "198.51.100.1".into(), port: None, transport: None };
        let (mut now, mut down, mut effects) = (NOW, 0, Vec::new());
        probes.set_targets(now, vec![target]);
        let mut after = Vec::new();
        for status in outcomes {
            now = now + Duration::from_secs(20);
            probes.expire(now);
            probes.take_effects(&mut effects);
            let [ProbeEffect::Probe { id, uri }] = &effects[..] else { panic!("{effects:?}") };
            assert_eq!(&**uri, "sip:198.51.100.1");
            probes.handle_outcome(*id, *status);
            effects.clear();
            probes.take_effects(&mut effects);
            for effect in effects.drain(..) {
                if let ProbeEffect::Down(targets) = effect {
                    down = targets.iter().count();
                }
            }
            after.push(down);
        }
        after
    }

    #[test]
    fn silence_and_overload_make_a_target_down_and_any_other_answer_up() {
        assert_eq!(down_after(&[408, 503, 404, 503, 200]), [0, 1, 0, 0, 0]);
    }
}
