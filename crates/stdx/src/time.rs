//! Time as a value. The server reads the clock once per turn of its loop and hands the result down.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Microseconds since the Unix epoch, monotonic: the wall clock is read once when the process starts and
/// the monotonic clock carries it on. One type therefore serves timers and expiry dates in the record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// Later than every timer: "no deadline".
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    pub const fn from_micros(micros: u64) -> Self {
        Instant(micros)
    }

    pub const fn from_unix_seconds(seconds: u64) -> Self {
        Instant(seconds.saturating_mul(1_000_000))
    }

    pub const fn as_micros(self) -> u64 {
        self.0
    }

    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    pub const fn unix_seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(micros))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(micros))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
