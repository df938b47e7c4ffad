//! The lab's only reader of the clock.
//!
//! All times of a run are this clock's. The wall clock is read once at the start; a clock that is set during a run does not move the run.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use stdx::time::Instant;

use super::kernel;

/// Reads the wall clock once and carries it on with the monotonic clock. Copies agree with each other, in other
/// processes too.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// The wall clock's time, since the Unix epoch, when the monotonic clock stood at `origin`.
    started: Duration,
    /// The monotonic clock's time at the start.
    origin: Duration,
}

impl Clock {
    /// A clock that takes the wall clock's time as its origin.
    #[expect(clippy::new_without_default, reason = "reading the clock is an act, not a default")]
    pub fn new() -> Self {
        let origin = kernel::monotonic();
        Clock { started: Clock::wall(), origin }
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        // An `Instant` counts from the Unix epoch here, so that the kernel's stamps and traces need no conversion.
        Instant::default() + (self.started + kernel::monotonic().saturating_sub(self.origin))
    }

    /// The wall clock, to compare with the kernel's stamps on datagrams.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub(super) fn wall() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}
