//! The times of trial writes to the database's server, which show that it is slow before it fails.
//!
//! [`operator`](super::operator) has one begun every few seconds ([`probe`]); `StoreCompletions::failures` asks for the state.

use std::cell::RefCell;
use std::time::Duration;

use stdx::Instant;
use store::Write;

use super::completions::Unwritable;
use super::{Node, room};
use crate::limits;

/// The reason why the database, or the folder beside it, cannot be written.
pub(super) async fn probe(node: &RefCell<Node>, now: Instant) -> Option<Unwritable> {
    let folder = node.borrow().shared.config.server.data.clone();
    let room = tokio::task::spawn_blocking(move || room::check(&folder)).await;
    if let Err(reason) = room.unwrap_or_else(|error| Err(error.to_string())) {
        return Some(node.borrow().desk.unwritable_here(reason));
    }
    let answer = {
        let node = node.borrow();
        // A database that is too busy to be tried is being written.
        let answer =
            node.desk.begin_write(|ticket| node.store.write(Write::Probe { at: now }, ticket)).ok()?;
        node.desk.begin_trial();
        answer
    };
    let answer = answer.await;
    node.borrow().desk.end_trial(matches!(answer, Ok(Ok(_))));
    match answer {
        Ok(Err(error)) => Some(node.borrow().desk.unwritable(&error)),
        Ok(Ok(_)) | Err(_) => None,
    }
}

/// The trial write that is under way, and the time that the last one took.
#[derive(Debug, Default)]
pub(super) struct TrialWrites {
    /// The beginning of the trial write that is under way.
    began: Option<Instant>,
    /// The time that the last one took.
    took: Duration,
    /// The beginning of the first of the slow trial writes, without a quick one between them.
    slow_since: Option<Instant>,
}

/// A server that is slow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlowServer {
    /// Since the first slow trial write.
    pub(super) seconds: u64,
    /// The finding, in words.
    pub(super) reason: Box<str>,
}

impl TrialWrites {
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// The trial write has ended. `Some`: a line for the log is due, as the server has become slow, or quick again.
    pub(super) fn end(&mut self, now: Instant, succeeded: bool) -> Option<Speed> {
        let began = self.began.take()?;
        self.took = now.since(began);
        // A server that fails is told as that.
        let is_slow = succeeded && self.took >= limits::SLOW_WRITE;
        let was_slow = self.slow_since.is_some();
        self.slow_since = is_slow.then(|| self.slow_since.unwrap_or(began));
        match (was_slow, is_slow) {
            (false, true) => Some(Speed::Slow(self.took)),
            (true, false) if succeeded => Some(Speed::Quick),
            _ => None,
        }
    }

    /// The server, if the last trial write was slow, or the one that is under way is.
    pub(super) fn slow(&self, now: Instant) -> Option<SlowServer> {
        let waits = self.began.map(|began| now.since(began)).filter(|waits| *waits >= limits::SLOW_WRITE);
        let since = self.slow_since.or(self.began.filter(|_| waits.is_some()))?;
        let reason = match waits {
            Some(waits) => format!("a trial write has had no answer for {} s", waits.as_secs()),
            None => format!("a trial write took {:.1} s", self.took.as_secs_f64()),
        };
        Some(SlowServer { seconds: now.since(since).as_secs(), reason: reason.into() })
    }
}

/// A change that the log tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Speed {
    /// A trial write took so long.
    Slow(Duration),
    /// Trial writes are quick again.
    Quick,
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_700_000_000);

    fn at(milliseconds: u64) -> Instant {
        START + Duration::from_millis(milliseconds)
    }

    fn reason(trials: &TrialWrites, milliseconds: u64) -> Option<(u64, String)> {
        trials.slow(at(milliseconds)).map(|slow| (slow.seconds, slow.reason.into()))
    }

    #[test]
    fn a_server_is_slow_from_the_first_slow_trial_write_until_a_quick_one() {
        let mut trials = TrialWrites::default();
        trials.begin(at(0));
        assert_eq!(reason(&trials, 999), None);
        assert_eq!(reason(&trials, 1_000), Some((1, "a trial write has had no answer for 1 s".into())));
        assert_eq!(trials.end(at(2_100), true), Some(Speed::Slow(Duration::from_millis(2_100))));
        assert_eq!(reason(&trials, 3_000), Some((3, "a trial write took 2.1 s".into())));
        trials.begin(at(3_100));
        assert_eq!(reason(&trials, 3_200), Some((3, "a trial write took 2.1 s".into())));
        assert_eq!(trials.end(at(4_200), true), None, "it lasts");
        assert_eq!(reason(&trials, 5_000), Some((5, "a trial write took 1.1 s".into())));
        trials.begin(at(5_200));
        assert_eq!(trials.end(at(5_210), true), Some(Speed::Quick));
        assert_eq!(reason(&trials, 5_300), None);
    }

    #[test]
    fn a_trial_write_that_failed_after_a_long_time_is_told_as_a_failure() {
        let mut trials = TrialWrites::default();
        trials.begin(at(0));
        assert_eq!(trials.end(at(6_000), false), None);
        assert_eq!(reason(&trials, 6_100), None);
    }
}
