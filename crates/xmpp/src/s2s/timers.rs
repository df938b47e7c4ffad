//! The times at which connections are checked. An alarm may fire too early: its handler compares the time and
//! sets the next.

use std::collections::{BTreeSet, HashMap};

use stdx::Instant;

#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeSet<(Instant, u64)>,
    armed: HashMap<u64, Instant>,
}

impl Timers {
    /// At that time at the latest.
    pub(super) fn arm(&mut self, number: u64, at: Instant) {
        match self.armed.get(&number) {
            Some(old) if *old <= at => {}
            old => {
                if let Some(old) = old {
                    self.set.remove(&(*old, number));
                }
                self.set.insert((at, number));
                self.armed.insert(number, at);
            }
        }
    }

    pub(super) fn disarm(&mut self, number: u64) {
        if let Some(at) = self.armed.remove(&number) {
            self.set.remove(&(at, number));
        }
    }

    pub(super) fn first(&self) -> Option<Instant> {
        self.set.first().map(|(at, _)| *at)
    }

    /// One that is due; it is disarmed.
    pub(super) fn pop(&mut self, now: Instant) -> Option<u64> {
        let (at, number) = self.set.first().copied().filter(|(at, _)| *at <= now)?;
        self.set.remove(&(at, number));
        self.armed.remove(&number);
        Some(number)
    }
}
