//! Limits the sign-ins of one shard while the shard does not keep up with its work.
//!
//! A sign-in costs as much as hundreds of messages. With more of them than a shard can do, each waits longer, until clients give up and
//! come again: the work is done for clients that are gone, and the users that are there wait too. So the shard refuses sign-ins when they
//! begin, and finishes those that it has begun.
//!
//! The signal is delay, as in CoDel (RFC 8289): not how busy the shard is, but how long its work has waited, and only if all work of
//! [`limits::XMPP_LATE_FOR`] was late; a burst passes. Delays of each [`DelayedWork`] are judged apart. The limit begins at the rate at which sign-ins
//! were completed, shrinks while work is late, grows while it is not, and goes once it has refused nothing for a while.
//!
//! No clock: the time is an argument. In: delays, completed sign-ins, requests for one more. Out: whether it may begin.

use std::time::Duration;

use stdx::Instant;

use crate::limits;

#[cfg(test)]
mod tests;

/// Sign-ins are counted over this long.
const WINDOW: Duration = Duration::from_secs(1);
/// The time between two changes of the limit. Several of them pass until work that was refused shows in the delay.
const STEP: Duration = Duration::from_millis(250);
/// A delay that was measured so long ago says nothing about now.
const OUTDATED: Duration = Duration::from_secs(5);
/// A limit that has refused nothing for so long is not needed.
const UNUSED: Duration = Duration::from_secs(5);
/// Connections are accepted in batches, once in a pass of the loop: so much of the rate may come at once.
const BATCH: Duration = Duration::from_millis(250);
/// The least that may come at once, in sign-ins.
const LEAST_BATCH: u32 = 8;
/// No limit is above a sign-in in this time.
const SHORTEST: Duration = Duration::from_micros(10);

/// The kinds of work whose delays are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedWork {
    /// A turn of the shard's loop: its length, or the wait of the events in it.
    Turn,
    /// The tasks of connections: the time from ready to run. With many of them the loop's turns stay short.
    Task,
    /// A step of a handshake of TLS, which waits for its turn on a helper thread.
    Handshake,
    /// The answer of an account's owner, which reads the database.
    Answer,
}

impl DelayedWork {
    const COUNT: usize = 4;

    /// The delay from which this work is late.
    fn most(self) -> Duration {
        match self {
            DelayedWork::Turn | DelayedWork::Task => limits::XMPP_LATE_TURN,
            DelayedWork::Handshake => limits::XMPP_LATE_HANDSHAKE,
            DelayedWork::Answer => limits::XMPP_LATE_ANSWER,
        }
    }
}

/// The limit of one shard.
#[derive(Debug, Default)]
pub struct SignInLimiter {
    /// By kind of work.
    work: [Lateness; DelayedWork::COUNT],
    completed: Completed,
    /// `None`: the shard keeps up, and all may sign in.
    limit: Option<Limit>,
    adjusted: Instant,
}

/// A rate of sign-ins, counted by GCRA.
#[derive(Debug)]
struct Limit {
    /// The time between two sign-ins.
    interval: Duration,
    /// The interval at which work was late last: near it the rate grows slowly.
    late_interval: Duration,
    /// The time from which the next sign-in may begin.
    next: Instant,
    /// The time of the last refusal.
    refused: Instant,
}

impl SignInLimiter {
    /// Some work of this kind was done now, and had waited so long.
    pub fn handle_delay(&mut self, now: Instant, work: DelayedWork, delay: Duration) {
        self.work[work as usize].note(now, delay >= work.most());
        self.adjust(now);
    }

    /// A client has signed in.
    pub fn handle_completed(&mut self, now: Instant) {
        self.completed.count(now);
    }

    /// True while sign-ins are limited.
    pub fn is_limiting(&self) -> bool {
        self.limit.is_some()
    }

    /// True if one more sign-in may begin now.
    pub fn admit(&mut self, now: Instant) -> bool {
        let Some(limit) = &mut self.limit else { return true };
        let batch = BATCH.max(limit.interval * LEAST_BATCH);
        if limit.next > now {
            limit.refused = now;
            return false;
        }
        limit.next = limit.next.max(now - batch) + limit.interval;
        true
    }

    fn adjust(&mut self, now: Instant) {
        let is_behind = self.work.iter().any(|lateness| lateness.is_behind(now));
        let completed = self.completed.interval(now);
        let Some(limit) = &mut self.limit else {
            if is_behind {
                let interval = slower(completed);
                self.limit = Some(Limit { interval, late_interval: completed, next: now, refused: now });
                self.begin_step(now);
            }
            return;
        };
        if now.since(self.adjusted) < STEP {
            return;
        }
        if is_behind {
            limit.late_interval = limit.interval;
            limit.interval = slower(limit.interval.max(completed));
            return self.begin_step(now);
        }
        if now.since(limit.refused) >= UNUSED {
            self.limit = None;
        } else if !self.work.iter().any(|lateness| lateness.is_late(now)) {
            let is_far = limit.interval * 9 / 10 > limit.late_interval;
            let faster = if is_far { limit.interval * 10 / 11 } else { limit.interval * 50 / 51 };
            limit.interval = faster.max(SHORTEST);
        }
        self.adjusted = now;
    }

    /// The limit has changed, and delays of before say nothing about it.
    fn begin_step(&mut self, now: Instant) {
        self.adjusted = now;
        self.work.iter_mut().for_each(|lateness| lateness.begin_again(now));
    }
}

/// A rate that is lower by a tenth, so that what waits already is worked off.
fn slower(interval: Duration) -> Duration {
    (interval * 10 / 9).clamp(SHORTEST, limits::XMPP_LEAST_SIGN_INS)
}

/// The judgement whether one kind of work is late.
#[derive(Debug, Default)]
struct Lateness {
    /// The time of the first of the last delays in a row that were too long. `None`: the last one was not.
    since: Option<Instant>,
    /// The time of the last delay.
    noted: Instant,
}

impl Lateness {
    fn note(&mut self, now: Instant, is_late: bool) {
        self.since = match (is_late, self.since) {
            (true, Some(since)) if now.since(self.noted) < OUTDATED => Some(since),
            (true, _) => Some(now),
            (false, _) => None,
        };
        self.noted = now;
    }

    fn is_late(&self, now: Instant) -> bool {
        self.since.is_some() && now.since(self.noted) < OUTDATED
    }

    /// All work of the last time was late.
    fn is_behind(&self, now: Instant) -> bool {
        self.is_late(now) && self.since.is_some_and(|since| now.since(since) >= limits::XMPP_LATE_FOR)
    }

    fn begin_again(&mut self, now: Instant) {
        self.since = self.since.map(|_| now);
    }
}

/// The rate of completed sign-ins.
#[derive(Debug, Default)]
struct Completed {
    began: Instant,
    count: u32,
    /// The time between two sign-ins of the window before. Zero: none was completed in it.
    last: Duration,
}

impl Completed {
    fn count(&mut self, now: Instant) {
        self.roll(now);
        self.count += 1;
    }

    /// The time between two of them.
    fn interval(&mut self, now: Instant) -> Duration {
        self.roll(now);
        let current = now.since(self.began).max(WINDOW / 2).checked_div(self.count);
        let last = Some(self.last).filter(|last| !last.is_zero());
        current.into_iter().chain(last).min().unwrap_or(limits::XMPP_LEAST_SIGN_INS)
    }

    fn roll(&mut self, now: Instant) {
        let passed = now.since(self.began);
        if passed >= WINDOW {
            self.last = passed.checked_div(self.count).unwrap_or_default();
            self.began = now;
            self.count = 0;
        }
    }
}
