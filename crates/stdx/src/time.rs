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

    /// An instant from microseconds since the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Instant(micros)
    }

    /// An instant from seconds since the Unix epoch.
    pub const fn from_unix_seconds(seconds: u64) -> Self {
        Instant(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds since the Unix epoch, rounded down.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_time_hold() {
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(Instant::default() + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::default() - Duration::from_secs(1), Instant::default());
        assert_eq!(Instant::from_unix_seconds(u64::MAX), Instant::FAR_FUTURE);
        assert_eq!(format!("{:?}", Instant::from_micros(1_000_020)), "1.000020s");
    }

    proptest! {
        #[test]
        fn a_difference_leads_back(at in 0..u64::MAX / 2, micros in 0..u64::MAX / 2) {
            let (earlier, gap) = (Instant::from_micros(at), Duration::from_micros(micros));
            prop_assert_eq!((earlier + gap).since(earlier), gap);
            prop_assert_eq!(earlier.since(earlier + gap), Duration::ZERO);
            prop_assert_eq!((earlier + gap) - gap, earlier);
        }
    }
}
