//! Limits per source that hold over all shards: wrong passwords, wrong secrets, new accounts.
//!
//! A source's connections are spread over the shards, so a count of each shard alone would allow a multiple. The lock is
//! taken once for a sign-in, never for a stanza.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stdx::Instant;
use stdx::attempts::{Attempt, Attempts, Block, OpenAttempt, Paces, Subject};
use stdx::hash::Keyed;
use stdx::rate::{Limiter, Policy, Verdict};
use stdx::source::SourcePrefix;

/// As [`Limiter`], by source: an IPv4 address or an IPv6 /64.
pub struct SourceLimiter(Mutex<Limiter<SourcePrefix>>);

impl SourceLimiter {
    /// A limiter without entries.
    pub fn new(policy: Policy) -> SourceLimiter {
        SourceLimiter(Mutex::new(Limiter::new(policy)))
    }

    fn lock(&self) -> MutexGuard<'_, Limiter<SourcePrefix>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides if this source may try now, and takes a turn. A refused attempt costs nothing.
    pub fn allow(&self, now: Instant, source: IpAddr) -> Verdict {
        self.lock().allow(now, source.into())
    }

    /// The same without taking a turn or remembering a new source.
    pub fn penalty(&self, now: Instant, source: IpAddr) -> Verdict {
        self.lock().penalty(now, source.into())
    }

    /// Records a failed attempt of the source.
    pub fn fail(&self, now: Instant, source: IpAddr) {
        self.lock().fail(now, source.into());
    }

    /// Records a successful attempt: one failure less.
    pub fn succeed(&self, source: IpAddr) {
        self.lock().succeed(source.into());
    }

    /// Sources that have failed more often than is free.
    pub fn blocks(&self, now: Instant) -> Vec<Block> {
        let block = |(source, penalty)| Block { source: Some(source), account: None, penalty };
        self.lock().all_failed(now).map(block).collect()
    }

    /// The blocks that were in force.
    pub fn lift(&self, now: Instant, subject: &Subject) -> usize {
        let Subject::Source(source) = subject else { return 0 };
        let mut limiter = self.lock();
        let was_blocked = limiter.failed(now, source).is_some();
        limiter.forget(source);
        usize::from(was_blocked)
    }
}

impl fmt::Debug for SourceLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceLimiter").field(&self.lock().len()).finish()
    }
}

/// [`Attempts`] of all shards.
#[derive(Debug)]
pub struct SharedAttempts(Mutex<Attempts>);

impl SharedAttempts {
    /// No attempts so far. `keyed` hashes sources and accounts.
    pub fn new(keyed: Keyed, paces: &Paces) -> SharedAttempts {
        SharedAttempts(Mutex::new(Attempts::new(keyed, paces)))
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until the credentials of this attempt are checked; `None`: now.
    pub fn wait(&self, now: Instant, attempt: &Attempt<'_>) -> Option<Duration> {
        self.lock().wait(now, attempt)
    }

    /// Begins an attempt whose credentials are checked elsewhere: [`Attempts::begin`].
    ///
    /// # Errors
    /// The time to wait.
    pub fn begin(&self, now: Instant, attempt: &Attempt<'_>) -> Result<OpenAttempt, Duration> {
        self.lock().begin(now, attempt)
    }

    /// Records a failed sign-in.
    pub fn fail(&self, now: Instant, attempt: &Attempt<'_>) {
        self.lock().fail(now, attempt);
    }

    /// Records a successful sign-in: it clears the failures of its pair and makes its origin known.
    pub fn succeed(&self, now: Instant, attempt: &Attempt<'_>) {
        self.lock().succeed(now, attempt);
    }

    /// The blocks in force, in no order.
    pub fn blocks(&self, now: Instant) -> Vec<Block> {
        self.lock().blocks(now)
    }

    /// Forgets the failures of a source or for an account; returns the number of blocks that were in force.
    pub fn lift(&self, now: Instant, subject: &Subject) -> usize {
        self.lock().lift(now, subject)
    }
}

#[cfg(test)]
mod tests {
    use stdx::rate::Rate;

    use super::*;

    const POLICY: Policy = Policy {
        capacity: 1_000,
        rate: Rate::NEVER,
        free_failures: 20,
        first_penalty: Duration::from_secs(1),
        longest_penalty: Duration::from_secs(60),
        forgive_after: Duration::from_secs(900),
    };

    #[test]
    fn all_addresses_of_an_ipv6_network_share_their_penalty() {
        let limiter = SourceLimiter::new(POLICY);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let now = Instant::from_micros(1_000_000);
        for host in 0..=POLICY.free_failures {
            limiter.fail(now, address(&format!("2001:db8::{host:x}")));
        }
        assert!(!limiter.penalty(now, address("2001:db8::ffff")).is_pass());
        assert!(limiter.penalty(now, address("2001:db8:0:1::1")).is_pass());
    }
}
