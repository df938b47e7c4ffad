//! The lab's only reader of the clock.

use std::time::{Duration, SystemTime};

use stdx::time::Instant;

/// Reads the wall clock once and carries it on with the monotonic clock. Copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    origin: std::time::Instant,
}

impl Clock {
    #[expect(clippy::new_without_default, reason = "reading the clock is an act, not a default")]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn new() -> Self {
        let origin = std::time::Instant::now();
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::default() + since_epoch, origin }
    }

    pub fn now(&self) -> Instant {
        self.started + self.origin.elapsed()
    }

    /// The wall clock, to compare with the kernel's stamps on datagrams.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub(super) fn wall() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}
