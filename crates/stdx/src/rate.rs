//! Rate limits: token buckets, alone and by key, with a penalty that grows with failures.

use std::hash::Hash;
use std::time::Duration;

use crate::Instant;
use crate::cache::Cache;

/// The decision of a rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The event is within the limit, and is counted.
    Pass,
    /// Not now. It passes after this long if no other event passes before.
    Refuse {
        /// Time until one more event is within the limit.
        retry_after: Duration,
    },
}

impl Verdict {
    /// True for [`Verdict::Pass`].
    pub fn is_pass(self) -> bool {
        self == Verdict::Pass
    }

    fn wait(retry_after: Duration) -> Self {
        if retry_after.is_zero() { Verdict::Pass } else { Verdict::Refuse { retry_after } }
    }
}

/// One turn every `interval` on average, `burst` turns at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time between two turns on average.
    pub interval: Duration,
    /// Turns that may be taken at once.
    pub burst: u32,
}

impl Rate {
    /// Refuses each event.
    pub const NEVER: Rate = Rate { interval: Duration::MAX, burst: 0 };

    /// Zero a second is `NEVER`; a burst of less than one is one.
    pub fn per_second(turns: u32, burst: u32) -> Self {
        match Duration::from_secs(1).checked_div(turns) {
            Some(interval) => Rate { interval, burst: burst.max(1) },
            None => Rate::NEVER,
        }
    }
}

/// Keeps one number: when the bucket will be full again (the generic cell rate algorithm of ITU-T I.371).
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: Rate,
    level: BucketLevel,
}

impl TokenBucket {
    /// Starts full.
    pub const fn new(rate: Rate) -> Self {
        TokenBucket { rate, level: BucketLevel(0) }
    }

    /// Takes a turn, or says how long until there is one.
    pub fn take(&mut self, now: Instant) -> Verdict {
        self.level.take(self.rate, now)
    }

    /// The contents of the bucket stay; from now on it fills at the new rate.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }
}

/// Nanoseconds since the Unix epoch at which the bucket is full.
#[derive(Clone, Copy, Debug, Default)]
struct BucketLevel(u64);

impl BucketLevel {
    fn take(&mut self, rate: Rate, now: Instant) -> Verdict {
        if rate.burst == 0 {
            return Verdict::Refuse { retry_after: rate.interval };
        }
        let now = now.as_micros().saturating_mul(1_000);
        let interval = u64::try_from(rate.interval.as_nanos()).unwrap_or(u64::MAX);
        let full_at = self.0.max(now);
        let allowance = interval.saturating_mul(u64::from(rate.burst) - 1);
        let early = (full_at - now).saturating_sub(allowance);
        if early == 0 {
            self.0 = full_at.saturating_add(interval);
        }
        // In whole microseconds, rounded up: a turn taken exactly then passes.
        Verdict::wait(Duration::from_micros(early.div_ceil(1_000)))
    }
}

/// The rates and penalties that a `Limiter` applies to each of its keys.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Keys remembered at most; beyond that one that was idle is forgotten, those under penalty last.
    pub capacity: usize,
    /// The failures that a key may have on average without a penalty.
    pub rate: Rate,
    /// Failures in a row before there is a penalty: people mistype.
    pub free_failures: u32,
    /// After the first failure beyond the free ones; each further one doubles it.
    pub first_penalty: Duration,
    /// The doubling ends here.
    pub longest_penalty: Duration,
    /// Failures are forgotten this long after the last one.
    pub forgive_after: Duration,
}

/// The failures of one key that has more than the free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Penalty {
    /// Failures in a row.
    pub failures: u32,
    /// The last one.
    pub failed_at: Instant,
    /// Until then every attempt is refused.
    pub refused_until: Instant,
    /// The failures are forgotten then if there are no more.
    pub forgiven_at: Instant,
}

/// Token buckets by key, e.g. the source address of sign-in attempts, in bounded memory.
pub struct Limiter<K> {
    policy: Policy,
    sources: Cache<K, PenaltyRecord>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PenaltyRecord {
    level: BucketLevel,
    failures: u32,
    failed_at: Instant,
    blocked_until: Instant,
}

impl<K: Hash + Eq + Copy> Limiter<K> {
    /// A limiter without entries.
    pub fn new(policy: Policy) -> Self {
        Limiter { policy, sources: Cache::new(policy.capacity.max(1)) }
    }

    /// Decides if this key may try now. A refused attempt costs it nothing.
    pub fn allow(&mut self, now: Instant, key: K) -> Verdict {
        let rate = self.policy.rate;
        let record = self.record(now, key);
        match Verdict::wait(record.blocked_until.since(now)) {
            Verdict::Pass => record.level.take(rate, now),
            refused => refused,
        }
    }

    /// As `allow`, without taking a turn or remembering a new key: is it under penalty now?
    pub fn penalty(&self, now: Instant, key: K) -> Verdict {
        let until = self.sources.get(&key).map_or(Instant::default(), |record| record.blocked_until);
        Verdict::wait(until.since(now))
    }

    /// The attempt failed.
    pub fn fail(&mut self, now: Instant, key: K) {
        let policy = self.policy;
        let record = self.record(now, key);
        if now.since(record.failed_at) >= policy.forgive_after {
            record.failures = 0;
        }
        record.failures = record.failures.saturating_add(1);
        record.failed_at = now;
        record.blocked_until = record.blocked_until.max(now + policy.penalty(record.failures));
    }

    /// The attempt succeeded: one failure less. Not all of them, or a client with one good password could
    /// guess at others between two uses of it.
    pub fn succeed(&mut self, key: K) {
        if let Some(record) = self.sources.get_mut(&key) {
            record.failures = record.failures.saturating_sub(1);
        }
    }

    /// The failures of a key, where they are more than the free ones and not forgiven.
    pub fn failed(&self, now: Instant, key: &K) -> Option<Penalty> {
        self.policy.penalty_of(now, self.sources.get(key)?)
    }

    /// The failures of a key that are not forgiven, the free ones among them.
    pub fn failures(&self, now: Instant, key: &K) -> u32 {
        let record =
            self.sources.get(key).filter(|record| now.since(record.failed_at) < self.policy.forgive_after);
        record.map_or(0, |record| record.failures)
    }

    /// The rates and penalties.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// All keys with such failures, in no order.
    pub fn all_failed(&self, now: Instant) -> impl Iterator<Item = (K, Penalty)> + '_ {
        let failed =
            move |(key, record): (&K, &PenaltyRecord)| Some((*key, self.policy.penalty_of(now, record)?));
        self.sources.iter().filter_map(failed)
    }

    /// Forgets a key and its penalty.
    pub fn forget(&mut self, key: &K) {
        self.sources.remove(key);
    }

    /// The number of keys with an entry.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    fn record(&mut self, now: Instant, key: K) -> &mut PenaltyRecord {
        if self.sources.get(&key).is_none() {
            let under_penalty = |record: &PenaltyRecord| record.blocked_until > now;
            self.sources.insert_sparing(Instant::FAR_FUTURE, key, PenaltyRecord::default(), under_penalty);
        }
        self.sources.get_mut(&key).expect("inserted just above, and the capacity is at least one")
    }
}

impl Policy {
    fn penalty_of(&self, now: Instant, record: &PenaltyRecord) -> Option<Penalty> {
        let PenaltyRecord { failures, failed_at, blocked_until, .. } = *record;
        let forgiven_at = failed_at + self.forgive_after;
        let counts = failures > self.free_failures && now < forgiven_at.max(blocked_until);
        counts.then_some(Penalty { failures, failed_at, refused_until: blocked_until, forgiven_at })
    }

    fn penalty(&self, failures: u32) -> Duration {
        match failures.saturating_sub(self.free_failures) {
            0 => Duration::ZERO,
            counted => {
                let factor = 2u32.checked_pow(counted - 1).unwrap_or(u32::MAX);
                self.first_penalty.saturating_mul(factor).min(self.longest_penalty)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: Policy = Policy {
        capacity: 100,
        rate: Rate { interval: Duration::from_millis(100), burst: 5 },
        free_failures: 2,
        first_penalty: Duration::from_secs(1),
        longest_penalty: Duration::from_secs(60),
        forgive_after: Duration::from_secs(600),
    };

    fn millis(millis: u64) -> Instant {
        Instant::from_micros(1_800_000_000_000_000 + millis * 1_000)
    }

    fn refused(millis: u64) -> Verdict {
        Verdict::Refuse { retry_after: Duration::from_millis(millis) }
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(Rate::per_second(10, 3));
        assert!((0..3).all(|_| bucket.take(millis(0)).is_pass()));
        assert_eq!(bucket.take(millis(0)), refused(100));
        assert_eq!(bucket.take(millis(60)), refused(40));
        assert!(bucket.take(millis(100)).is_pass());
        assert!((0..3).all(|_| bucket.take(millis(10_000)).is_pass()));
        assert_eq!(bucket.take(millis(10_000)), refused(100));
    }

    #[test]
    fn never_is_never() {
        assert_eq!(Rate::per_second(0, 10), Rate::NEVER);
        assert!(!TokenBucket::new(Rate::NEVER).take(millis(0)).is_pass());
    }

    #[test]
    fn penalties_double_up_to_the_longest() {
        let mut limiter = Limiter::new(POLICY);
        let mut now = millis(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            limiter.fail(now, 1);
            let wait = match limiter.penalty(now, 1) {
                Verdict::Pass => Duration::ZERO,
                Verdict::Refuse { retry_after } => retry_after,
            };
            assert_eq!(limiter.allow(now, 1).is_pass(), wait.is_zero());
            waits.push(wait.as_secs());
            now = now + wait;
            assert!(limiter.penalty(now, 1).is_pass());
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn time_forgives_and_success_takes_one_back() {
        let mut limiter = Limiter::new(POLICY);
        (0..3).for_each(|_| limiter.fail(millis(0), 1));
        assert_eq!(limiter.allow(millis(0), 1), refused(1_000));
        limiter.succeed(1);
        limiter.fail(millis(2_000), 1);
        assert_eq!(limiter.penalty(millis(2_000), 1), refused(1_000));
        limiter.fail(millis(602_000), 1);
        assert!(limiter.allow(millis(602_000), 1).is_pass());
    }

    #[test]
    fn keys_do_not_pay_for_each_other() {
        let mut limiter = Limiter::new(POLICY);
        (0..20).for_each(|_| limiter.fail(millis(0), 1));
        assert!((0..5).all(|_| limiter.allow(millis(0), 2).is_pass()));
        assert_eq!(limiter.allow(millis(0), 2), refused(100));
        assert!(limiter.allow(millis(0), 3).is_pass());
    }

    #[test]
    fn a_flood_of_sources_stays_bounded_and_does_not_free_the_guilty() {
        let mut limiter = Limiter::new(POLICY);
        (0..20).for_each(|_| limiter.fail(millis(0), 0));
        for source in 1..10_000 {
            assert!(limiter.allow(millis(1), source).is_pass());
        }
        assert_eq!(limiter.len(), POLICY.capacity);
        assert!(!limiter.allow(millis(2), 0).is_pass());
    }

    proptest! {
        #[test]
        fn a_bucket_never_gives_more_than_it_may(
            turns in 1u32..2_000,
            burst in 1u32..20,
            gaps in prop::collection::vec(0u64..5_000, 1..300),
        ) {
            let mut bucket = TokenBucket::new(Rate::per_second(turns, burst));
            let (mut now, mut passed) = (0u64, 0u64);
            for gap in gaps {
                now += gap;
                let at = Instant::from_micros(now);
                match bucket.take(at) {
                    Verdict::Pass => passed += 1,
                    Verdict::Refuse { retry_after } => {
                        let mut again = bucket;
                        prop_assert!(again.take(at + retry_after).is_pass());
                    }
                }
                let allowed = u128::from(burst) + u128::from(now) * u128::from(turns) / 999_999;
                prop_assert!(u128::from(passed) <= allowed + 1);
            }
        }
    }
}
