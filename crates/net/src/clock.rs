//! The only reader of the clock.

use std::time::SystemTime;

use stdx::Instant;

/// Reads the wall clock once and carries it on with the monotonic clock, so that time never goes back and
/// still means a date. Copies agree with each other; make one per process and hand out copies.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    origin: std::time::Instant,
}

impl Clock {
    /// Starts a clock at the system's time.
    #[expect(clippy::new_without_default, reason = "reading the clock is an act, not a default")]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn new() -> Self {
        let origin = std::time::Instant::now();
        // A clock set before 1970 counts from there.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::default() + since_epoch, origin }
    }

    /// Returns the current time. It does not jump when the system's clock is set.
    pub fn now(&self) -> Instant {
        self.started + self.origin.elapsed()
    }

    /// Returns the time since the machine started, which also runs while the machine sleeps: the clock of leases.
    pub fn with_sleep(&self) -> Instant {
        // CLOCK_BOOTTIME and CLOCK_MONOTONIC differ by the time that the machine slept.
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(boot.tv_nsec).unwrap_or(0);
        Instant::from_micros(seconds * 1_000_000 + nanos / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_a_date_and_does_not_go_back() {
        let clock = Clock::new();
        let first = clock.now();
        assert!(first.unix_seconds() > 1_700_000_000);
        assert!(clock.now() >= first);
    }
}
