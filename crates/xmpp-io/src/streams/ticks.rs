//! The ticks of a shard's streams: a coarse clock that costs a stream four bytes, and the streams that must have signed in,
//! or be gone, by some tick.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

/// Idle time is measured in this many steps, and silent streams are looked for once in each: a silence is noticed at most a sixteenth of it late.
const IDLE_TICKS: u32 = 16;

/// The event that a stream's time is limited for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// The client signs in.
    SignIn = 0,
    /// The client reads the end of its stream and closes the connection.
    Linger = 1,
    /// The session of a client that has closed its stream ends.
    SessionEnd = 2,
}

/// The clock of streams, and what is due by it.
pub(super) struct Ticks {
    /// The number of the present tick. It wraps: only differences of ticks mean something.
    now: Cell<u32>,
    length: Duration,
    /// Streams and the ticks by which they are looked at, by [`Wait`]; in that order, for all have the same time.
    due: RefCell<[VecDeque<(u32, u64)>; 3]>,
}

impl Ticks {
    /// Ticks that are fine enough for streams which may be silent for `idle`.
    pub(super) fn new(idle: Duration) -> Ticks {
        let length = (idle / IDLE_TICKS).clamp(Duration::from_millis(50), Duration::from_secs(1));
        Ticks { now: Cell::new(0), length, due: RefCell::default() }
    }

    pub(super) fn now(&self) -> u32 {
        self.now.get()
    }

    /// The time between two ticks.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// The next tick has come; returns it.
    pub(super) fn advance(&self) -> u32 {
        let now = self.now.get().wrapping_add(1);
        self.now.set(now);
        now
    }

    /// The whole ticks in a time; `None`: more than can be counted.
    pub(super) fn of(&self, time: Duration) -> Option<u32> {
        u32::try_from(time.as_micros() / self.length.as_micros()).ok()
    }

    /// True once in each of the steps that `idle` is measured in.
    pub(super) fn is_idle_step(&self, idle: u32) -> bool {
        self.now.get().is_multiple_of((idle / IDLE_TICKS).max(1))
    }

    /// A stream is due after this time at the earliest.
    pub(super) fn expect(&self, wait: Wait, within: Duration, stream: u64) {
        let ticks = within.as_micros() / self.length.as_micros() + 1;
        let at = self.now.get().wrapping_add(u32::try_from(ticks).unwrap_or(u32::MAX / 2));
        self.due.borrow_mut()[wait as usize].push_back((at, stream));
    }

    /// Takes the streams that are due now.
    pub(super) fn take_due(&self, wait: Wait) -> Vec<u64> {
        let now = self.now.get();
        let due = &mut self.due.borrow_mut()[wait as usize];
        let count = due.iter().take_while(|(at, _)| at.wrapping_sub(now).cast_signed() <= 0).count();
        let taken = due.drain(..count).map(|(_, number)| number).collect();
        if due.is_empty() {
            due.shrink_to_fit();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_due_once_and_not_before_its_time() {
        let ticks = Ticks::new(Duration::from_secs(16));
        ticks.expect(Wait::SignIn, Duration::from_secs(2), 7);
        ticks.expect(Wait::Linger, Duration::from_secs(1), 8);
        let mut due = Vec::new();
        for _ in 0..4 {
            ticks.advance();
            due.push((ticks.take_due(Wait::SignIn), ticks.take_due(Wait::Linger)));
        }
        assert_eq!(due, [(vec![], vec![]), (vec![], vec![8]), (vec![7], vec![]), (vec![], vec![])]);
    }
}
