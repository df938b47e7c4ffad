//! The readings of the published tests of chat: before the first sign-in, when all users are signed in, at the end.
//!
//! A [`StageReader`] sees each interval and gives a reading once a stage has passed; runs of calls have no stages and no readings.

use std::collections::HashMap;

use lab_report::model::{StageProcess, StageReading};
use stdx::time::Instant;

use crate::engine::Progress;

/// Takes a reading when a stage has passed.
#[derive(Debug, Default)]
pub(super) struct StageReader {
    /// Resident bytes before anything began.
    before: Vec<(String, u64)>,
    /// Readings there are.
    taken: usize,
    /// The time of the last reading; processor time counts from there.
    last: Option<Instant>,
    /// Microseconds of processor time since the last reading.
    used: HashMap<String, u64>,
}

impl StageReader {
    pub(super) fn new(watched: &[(String, u64, u64)]) -> StageReader {
        let before = watched.iter().map(|(name, _, memory)| (name.clone(), *memory)).collect();
        StageReader { before, ..StageReader::default() }
    }

    /// `watched`: name, microseconds of processor time since the last call, resident bytes. Two readings may be due at once: of
    /// before the first sign-in is known only now that it is a load of users.
    pub(super) fn read(&mut self, progress: &Progress, watched: &[(String, u64, u64)]) -> Vec<StageReading> {
        let mut stages = Vec::new();
        if progress.gauges.stage.is_empty() {
            return stages;
        }
        for (name, micros, _) in watched {
            *self.used.entry(name.clone()).or_default() += micros;
        }
        if self.taken == 0 {
            self.taken = 1;
            stages.push(self.initial());
        }
        let (name, is_due) = match (self.taken, progress.gauges.stage) {
            // "login" is due when users no longer register, sign in or make contacts, "final" when the load is over.
            (1, stage) => ("login", !["registering", "signing in", "making friends"].contains(&stage)),
            (2, stage) => ("final", stage != "load"),
            _ => return stages,
        };
        if is_due {
            self.taken += 1;
            stages.push(self.reading(name, progress, watched));
        }
        stages
    }

    /// Memory before the first sign-in; processor time counts from there, so it is 0.
    fn initial(&self) -> StageReading {
        let processes = self.before.iter().map(|(name, memory)| StageProcess {
            name: name.clone(),
            memory: *memory,
            ..StageProcess::default()
        });
        StageReading { name: "initial".to_owned(), processes: processes.collect(), ..StageReading::default() }
    }

    /// A reading of now, with the processor time since the one before.
    fn reading(&mut self, name: &str, progress: &Progress, watched: &[(String, u64, u64)]) -> StageReading {
        let since = self.last.replace(progress.now).unwrap_or(progress.started);
        let seconds = progress.now.since(since).as_secs_f64().max(1e-3);
        let users = progress.gauges.peak_open_calls;
        let processes = watched.iter().map(|(process, _, memory)| {
            let micros = self.used.remove(process).unwrap_or_default();
            let before = self.before.iter().find(|(known, _)| known == process);
            let came = memory.saturating_sub(before.map_or(0, |(_, memory)| *memory));
            #[expect(clippy::cast_precision_loss, reason = "microseconds and bytes of a run")]
            let (cpu, a_user) = (micros as f64 / 1e6 / seconds, came as f64 / users.max(1) as f64);
            let a_user = (name == "final" && users > 0).then_some(a_user);
            StageProcess { name: process.clone(), memory: *memory, cpu, a_user }
        });
        StageReading {
            name: name.to_owned(),
            at: progress.now.since(progress.started).as_secs_f64(),
            users: progress.gauges.open_calls,
            processes: processes.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Gauges;
    use std::time::Duration;

    #[test]
    fn there_is_a_reading_before_and_at_each_turn_of_the_load() {
        let start = Instant::from_unix_seconds(1);
        let mut stages = StageReader::new(&[("belfry".to_owned(), 0, 500)]);
        let mut readings = Vec::new();
        let told = ["registering", "signing in", "making friends", "load", "load", "roll-call", "leaving"];
        for (second, stage) in (1..).zip(told) {
            let progress = Progress {
                started: start,
                now: start + Duration::from_secs(second),
                gauges: Gauges { stage, open_calls: second, peak_open_calls: 10, ..Gauges::default() },
                ..Progress::default()
            };
            readings.extend(stages.read(&progress, &[("belfry".to_owned(), 500_000, second * 1_000)]));
        }
        let seen: Vec<_> = readings
            .iter()
            .map(|stage| (stage.name.as_str(), stage.at, stage.users, &stage.processes[0]))
            .map(|(name, at, users, process)| (name, at, users, process.memory, process.cpu, process.a_user))
            .collect();
        assert_eq!(
            seen,
            [
                ("initial", 0.0, 0, 500, 0.0, None),
                ("login", 4.0, 4, 4_000, 0.5, None),
                ("final", 6.0, 6, 6_000, 0.5, Some(550.0))
            ]
        );
        assert!(StageReader::default().read(&Progress::default(), &[]).is_empty(), "calls have no stages");
    }
}
