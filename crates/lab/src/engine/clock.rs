//! The lab's only reader of the clock.
//!
//! All times of a run are this clock's. The wall clock is read once at the start, and once a turn to tell the age of the kernel's stamps
//! (`TurnClock`); a clock that is set during a run does not move the run.

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

    /// The wall clock, by which the kernel stamps what it receives.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn wall() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}

/// Both clocks at the start of a shard's turn, read together: the kernel's stamps, which are wall-clock time, become times of the run by
/// their distance from it. A wall clock that is set moves the stamps of one turn at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnClock {
    clock: Clock,
    start: Instant,
    wall: Duration,
}

impl TurnClock {
    /// A turn that begins now.
    pub(super) fn new(clock: Clock) -> TurnClock {
        TurnClock { clock, start: clock.now(), wall: Clock::wall() }
    }

    /// The start of the turn.
    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// The wall clock's time at the start of the turn.
    pub(super) fn wall(&self) -> Duration {
        self.wall
    }

    /// The time at which a message came that is read in this turn: before its start or after it, never after the present. Without a stamp of
    /// the kernel it is the present.
    pub(super) fn received(&self, stamp: Option<Duration>) -> Instant {
        match stamp {
            Some(stamp) if stamp <= self.wall => self.start - (self.wall - stamp),
            Some(stamp) => (self.start + (stamp - self.wall)).min(self.clock.now()),
            None => self.clock.now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The turn has lasted ten milliseconds, and the wall clock was set by a day since the run began.
    #[test]
    fn messages_of_a_turn_have_the_time_at_which_they_came() {
        let clock = Clock::new();
        let (start, wall) = (clock.now() - 10 * MS, Clock::wall() + 86_400_000 * MS);
        let turn = TurnClock { clock, start, wall };
        assert_eq!(turn.received(Some(wall - 3 * MS)), start - 3 * MS);
        assert_eq!(turn.received(Some(wall)), start);
        assert_eq!(turn.received(Some(wall + 7 * MS)), start + 7 * MS);
        for late in [None, Some(wall + 3_600_000 * MS)] {
            let received = turn.received(late);
            assert!(received >= start + 10 * MS && received <= clock.now(), "{late:?}: {received:?}");
        }
    }
}
