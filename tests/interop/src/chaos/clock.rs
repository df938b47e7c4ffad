//! The time of a run.

use std::time::{Duration, Instant};

/// The time since the begin of a run, on the clock of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// Begins now.
    #[expect(clippy::disallowed_methods, reason = "real programs run by the wall clock")]
    pub(super) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The time since the begin.
    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The time since the begin in microseconds.
    pub(super) fn microseconds(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).expect("a run of less than an age")
    }
}
