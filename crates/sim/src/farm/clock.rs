//! The clock of one node, which is neither right nor even.

use std::time::Duration;

use stdx::Instant;

/// A clock that began wrong by `offset` and gains `drift` millionths.
#[derive(Clone, Copy, Debug)]
pub struct DriftingClock {
    start: Instant,
    offset: Duration,
    drift: i64,
}

const MILLION: i64 = 1_000_000;

impl DriftingClock {
    /// A clock that at `start` is ahead by `offset` and then gains `drift` microseconds a second, or loses if it is negative.
    pub fn new(start: Instant, offset: Duration, drift: i64) -> DriftingClock {
        DriftingClock { start, offset, drift }
    }

    /// The time that the clock shows.
    pub fn local(&self, time: Instant) -> Instant {
        let passed = time.since(self.start).as_micros() as i64;
        self.start + self.offset + micros(passed + passed * self.drift / MILLION)
    }

    /// The time at which the clock shows `local`, or a little later.
    pub fn global(&self, local: Instant) -> Instant {
        let passed = local.since(self.start + self.offset).as_micros() as i64;
        self.start + micros(passed * MILLION / (MILLION + self.drift) + 1)
    }
}

fn micros(value: i64) -> Duration {
    Duration::from_micros(value.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_of_the_clock_is_reached_when_it_says() {
        let start = Instant::from_unix_seconds(1_800_000_000);
        for drift in [-500, 0, 70_000] {
            let clock = DriftingClock::new(start, Duration::from_secs(300), drift);
            let deadline = clock.local(start) + Duration::from_secs(10);
            let global = clock.global(deadline);
            assert!(clock.local(global) >= deadline);
            assert!(clock.local(global) <= deadline + Duration::from_micros(3));
        }
    }
}
