//! When players are due: the shared timer wheel, run faster.

use stdx::slab::Key;
use stdx::time::Instant;
use stdx::wheel::Wheel;

/// The wheel's tick is 8 ms, made for the timers of signalling; media wants half a millisecond. Its time here is sixteen
/// times as fast as the clock, which microseconds since 1970 leave room for.
const SPEED: u64 = 16;

pub(super) struct Schedule {
    wheel: Wheel<Key>,
}

impl Schedule {
    pub(super) fn new(now: Instant) -> Schedule {
        Schedule { wheel: Wheel::new(fast(now)) }
    }

    pub(super) fn insert(&mut self, at: Instant, key: Key) {
        self.wheel.insert(fast(at), key);
    }

    /// Appends who is due.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Key>) {
        self.wheel.expire(fast(now), out);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let fast = self.wheel.deadline()?;
        Some(Instant::from_micros(fast.as_micros().div_ceil(SPEED)))
    }
}

fn fast(at: Instant) -> Instant {
    Instant::from_micros(at.as_micros().saturating_mul(SPEED))
}
