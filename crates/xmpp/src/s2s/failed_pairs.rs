//! The pairs of domains that have no way to each other, and the pauses until one is looked for again.

use std::collections::HashMap;

use stdx::Instant;

use super::{Failure, Pair};
use crate::limits;

#[derive(Debug)]
struct Backoff {
    times: u32,
    until: Instant,
    failure: Failure,
}

#[derive(Debug, Default)]
pub(super) struct FailedPairs(HashMap<Pair, Backoff>);

impl FailedPairs {
    /// The failure for which no way is looked for now.
    pub(super) fn current(&self, now: Instant, pair: &Pair) -> Option<&Failure> {
        self.0.get(pair).filter(|failed| now < failed.until).map(|failed| &failed.failure)
    }

    /// Notes a failure: each further one of a pair doubles the pause.
    pub(super) fn insert(&mut self, now: Instant, pair: Pair, failure: &Failure) {
        let times = self.0.get(&pair).map_or(0, |failed| failed.times);
        let pause = limits::S2S_BACKOFF.saturating_mul(1 << times.min(10)).min(limits::S2S_BACKOFF_MAX);
        let backoff = Backoff { times: times + 1, until: now + pause, failure: failure.clone() };
        if self.0.len() >= limits::S2S_FAILED {
            let first = self.0.iter().min_by_key(|(_, failed)| failed.until);
            if let Some(first) = first.map(|(pair, _)| pair.clone()) {
                self.0.remove(&first);
            }
        }
        self.0.insert(pair, backoff);
    }

    pub(super) fn remove(&mut self, pair: &Pair) {
        self.0.remove(pair);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Pair) -> bool) {
        self.0.retain(|pair, _| keep(pair));
    }
}
