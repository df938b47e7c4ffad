//! The readings of the published tests of chat: before anybody signs in, when all are in, at the end.

use std::collections::HashMap;

use stdx::time::Instant;

use super::model::{Reading, Stage};
use crate::engine::Progress;

/// Takes a reading when a stage has passed.
#[derive(Debug, Default)]
pub(super) struct Stages {
    /// Readings there are.
    taken: usize,
    last: Option<Instant>,
    /// Microseconds of processor time since the last reading.
    used: HashMap<String, u64>,
}

impl Stages {
    /// `watched`: name, microseconds of processor time since the last call, resident bytes.
    pub(super) fn read(&mut self, progress: &Progress, watched: &[(String, u64, u64)]) -> Option<Stage> {
        for (name, micros, _) in watched {
            *self.used.entry(name.clone()).or_default() += micros;
        }
        let (name, is_due) = match (self.taken, progress.gauges.stage) {
            (_, "") => return None,
            // The first interval: few are in yet.
            (0, stage) => ("initial", stage != "registering"),
            (1, stage) => ("login", stage != "signing in" && stage != "making friends"),
            (2, stage) => ("final", stage != "load"),
            _ => return None,
        };
        if !is_due {
            return None;
        }
        self.taken += 1;
        let since = self.last.replace(progress.now).unwrap_or(progress.started);
        let seconds = progress.now.since(since).as_secs_f64().max(1e-3);
        let processes = watched.iter().map(|(name, _, memory)| {
            let micros = self.used.remove(name).unwrap_or_default();
            #[expect(clippy::cast_precision_loss, reason = "microseconds of a run")]
            let cpu = micros as f64 / 1e6 / seconds;
            Reading { name: name.clone(), memory: *memory, cpu }
        });
        Some(Stage {
            name: name.to_owned(),
            at: progress.now.since(progress.started).as_secs_f64(),
            users: progress.gauges.open_calls,
            processes: processes.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Gauges;
    use std::time::Duration;

    #[test]
    fn there_is_a_reading_at_each_turn_of_the_load() {
        let start = Instant::from_unix_seconds(1);
        let mut stages = Stages::default();
        let mut readings = Vec::new();
        let told = ["signing in", "signing in", "making friends", "load", "load", "roll-call", "leaving"];
        for (second, stage) in (1..).zip(told) {
            let progress = Progress {
                started: start,
                now: start + Duration::from_secs(second),
                gauges: Gauges { stage, ..Gauges::default() },
                ..Progress::default()
            };
            readings.extend(stages.read(&progress, &[("belfry".to_owned(), 500_000, second * 1_000)]));
        }
        let seen: Vec<_> = readings
            .iter()
            .map(|stage| (stage.name.as_str(), stage.at, stage.processes[0].memory, stage.processes[0].cpu))
            .collect();
        assert_eq!(
            seen,
            [("initial", 1.0, 1_000, 0.5), ("login", 4.0, 4_000, 0.5), ("final", 6.0, 6_000, 0.5)]
        );
        assert!(Stages::default().read(&Progress::default(), &[]).is_none(), "calls have no stages");
    }
}
