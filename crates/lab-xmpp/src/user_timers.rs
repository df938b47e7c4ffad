//! The timers of one shard's users.
//!
//! A timer is one number in the wheel: the slot of its user and its kind. A due time that moves gets another timer; the old one is ignored when it fires.

use stdx::time::Instant;
use stdx::wheel::Wheel;

use super::limits::TICK_MICROS;

/// A timer that fired. It is late when its user has a later due time by now: then another timer is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserTimer {
    /// The next sign-in, action or sign-out of the user at this slot is due.
    Due(u32),
    /// The user at this slot has waited long enough for a response.
    Response(u32),
    /// The next step of the monitor pair at this place is due.
    Pair(u32),
}

/// Bits of a token below the slot or place.
const KIND_BITS: u32 = 2;

impl UserTimer {
    /// The timer as a number of the wheel.
    fn token(self) -> u64 {
        let (slot, kind) = match self {
            UserTimer::Due(slot) => (slot, 0),
            UserTimer::Response(slot) => (slot, 1),
            UserTimer::Pair(place) => (place, 2),
        };
        u64::from(slot) << KIND_BITS | kind
    }

    /// The timer of a number.
    fn of_token(token: u64) -> UserTimer {
        let slot = u32::try_from(token >> KIND_BITS).unwrap_or_default();
        match token & ((1 << KIND_BITS) - 1) {
            0 => UserTimer::Due(slot),
            1 => UserTimer::Response(slot),
            _ => UserTimer::Pair(slot),
        }
    }
}

/// A timer wheel of [`UserTimer`]s. Timers are never removed.
pub(super) struct UserTimers {
    /// One tick is `TICK_MICROS`.
    wheel: Wheel<u64, TICK_MICROS>,
    /// Timers that fired, the next one last.
    fired: Vec<u64>,
}

impl UserTimers {
    pub(super) fn new(now: Instant) -> UserTimers {
        UserTimers { wheel: Wheel::new(now), fired: Vec::new() }
    }

    pub(super) fn insert(&mut self, at: Instant, timer: UserTimer) {
        self.wheel.insert(at, timer.token());
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// Collects the timers that are due; [`UserTimers::next_fired`] returns them in turn.
    pub(super) fn expire(&mut self, now: Instant) {
        self.wheel.expire(now, &mut self.fired);
        self.fired.reverse();
    }

    pub(super) fn next_fired(&mut self) -> Option<UserTimer> {
        self.fired.pop().map(UserTimer::of_token)
    }
}
