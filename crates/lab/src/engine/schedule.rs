//! When calls are due. Integers all the way: call `n` is due at a time computed from `n`, so nothing adds up
//! over days.
//!
//! [`Schedule`] is the whole run's and answers when call `n` is due; [`ShardArrivals`] takes one shard's part of it. A change of the rate makes
//! a new schedule that begins at the call that is due next.

use std::time::Duration;

use stdx::rng::Rng;
use stdx::time::Instant;

/// Nanoseconds of a microsecond, the unit of `Instant`.
const NANOS: u128 = 1_000;
/// A rate is kept in millionths of a call: `-r 0.000001` is the slowest.
const PARTS: u128 = 1_000_000;

/// Calls per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallRate {
    /// Millionths of a call.
    parts: u64,
    /// Nanoseconds.
    period: u64,
}

impl CallRate {
    /// No calls at all: paused, or a rate of zero.
    pub(super) const STOPPED: CallRate = CallRate { parts: 0, period: 1 };

    pub(super) fn new(calls: f64, period: Duration) -> CallRate {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates; negative is zero"
        )]
        let parts = (calls * PARTS as f64).round() as u64;
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        CallRate { parts, period }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    pub(super) fn per_second(self) -> f64 {
        self.parts as f64 / PARTS as f64 * 1e9 / self.period as f64
    }

    /// Nanoseconds that `n` calls take.
    fn span(self, n: u64) -> Option<u128> {
        let parts = u128::from(self.parts);
        (parts > 0).then(|| u128::from(n) * u128::from(self.period) * PARTS / parts)
    }

    /// Calls that begin within `nanos`, the one at its start not counted.
    fn calls_in(self, nanos: u128) -> u64 {
        // Multiplied before it is divided: exact, and far from the end of 128 bits.
        let calls = nanos.saturating_mul(u128::from(self.parts)) / (u128::from(self.period) * PARTS);
        u64::try_from(calls).unwrap_or(u64::MAX)
    }
}

/// Evenly spaced arrivals, from one of them on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    /// The rate from `anchor` on.
    pace: CallRate,
    /// This call is due at `anchor`, nanoseconds since the Unix epoch.
    first: u64,
    anchor: u128,
    /// When the call before it was due.
    last: Option<u128>,
}

impl Schedule {
    pub(super) fn new(start: Instant, pace: CallRate) -> Schedule {
        Schedule { pace, first: 0, anchor: nanos(start), last: None }
    }

    pub(super) fn pace(&self) -> CallRate {
        self.pace
    }

    /// `FAR_FUTURE` while the rate is zero. Calls before the anchor, left over from another rate, are due with it.
    pub(super) fn due(&self, index: u64) -> Instant {
        match self.pace.span(index.saturating_sub(self.first)) {
            Some(span) => instant(self.anchor + span),
            None => Instant::FAR_FUTURE,
        }
    }

    /// Another rate from `now` on: calls that are due by then stay where they were; the next follows the last
    /// by the new distance, or at once when that has passed.
    pub(super) fn change(&mut self, now: Instant, pace: CallRate) {
        let at = nanos(now);
        let next = self.next_after(at);
        let last = match next.checked_sub(self.first + 1).and_then(|steps| self.pace.span(steps)) {
            Some(span) => Some(self.anchor + span),
            None => self.last,
        };
        // After a rate of zero the next call follows the last one by the new distance, however long ago that was: then it is due at once.
        let follows = match (last, pace.span(1)) {
            (Some(last), Some(gap)) => last + gap,
            // The first of all has not been due yet.
            (None, _) => self.anchor,
            (Some(_), None) => at,
        };
        *self = Schedule { pace, first: next, anchor: follows.max(at), last };
    }

    /// The first call due after this time.
    fn next_after(&self, at: u128) -> u64 {
        match at.checked_sub(self.anchor) {
            Some(passed) if self.pace.parts > 0 => {
                // A span is rounded down, so the call counted last may be followed by one more in the same nanosecond.
                let mut next = self.first + self.pace.calls_in(passed) + 1;
                while self.pace.span(next - self.first).is_some_and(|span| span <= passed) {
                    next += 1;
                }
                next
            }
            _ => self.first,
        }
    }
}

/// The arrivals of one of several shards: every `of`-th call, or its share of a Poisson process.
#[derive(Debug)]
pub(super) enum ShardArrivals {
    /// Calls `next`, `next + of`, …: the shards of a run take them in turn.
    Even { schedule: Schedule, next: u64, of: u64 },
    /// The sum of independent processes is one again, at the sum of their rates.
    Poisson { schedule: Schedule, next: Instant, of: u64, rng: Rng },
}

impl ShardArrivals {
    pub(super) fn even(schedule: Schedule, shard: usize, of: usize) -> Self {
        ShardArrivals::Even { schedule, next: shard as u64, of: of as u64 }
    }

    pub(super) fn poisson(schedule: Schedule, of: usize, mut rng: Rng, start: Instant) -> Self {
        let next = start + gap(&schedule, of as u64, &mut rng);
        ShardArrivals::Poisson { schedule, next, of: of as u64, rng }
    }

    /// When the next call is due.
    pub(super) fn due(&self) -> Instant {
        match self {
            ShardArrivals::Even { schedule, next, .. } => schedule.due(*next),
            ShardArrivals::Poisson { schedule, next, .. } if schedule.pace.parts > 0 => *next,
            ShardArrivals::Poisson { .. } => Instant::FAR_FUTURE,
        }
    }

    /// The next call was started, or could not be.
    pub(super) fn pass(&mut self) {
        match self {
            ShardArrivals::Even { next, of, .. } => *next += *of,
            ShardArrivals::Poisson { schedule, next, of, rng } => *next = *next + gap(schedule, *of, rng),
        }
    }

    pub(super) fn change(&mut self, now: Instant, changed: Schedule) {
        match self {
            ShardArrivals::Even { schedule, .. } => *schedule = changed,
            ShardArrivals::Poisson { schedule, next, of, rng } => {
                *schedule = changed;
                // The process has no memory: a fresh gap from now on is as good as any.
                *next = now + gap(schedule, *of, rng);
            }
        }
    }
}

/// An exponential gap by the inverse of its distribution. The uniform number is in (0, 1], as the logarithm of 0 has no value.
fn gap(schedule: &Schedule, of: u64, rng: &mut Rng) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "53 random bits")]
    let uniform = ((rng.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    #[expect(clippy::cast_precision_loss, reason = "a number of threads")]
    let rate = schedule.pace.per_second() / of as f64;
    if rate <= 0.0 {
        Duration::ZERO
    } else {
        Duration::try_from_secs_f64(-uniform.ln() / rate).unwrap_or(Duration::MAX)
    }
}

fn nanos(at: Instant) -> u128 {
    u128::from(at.as_micros()) * NANOS
}

fn instant(nanos: u128) -> Instant {
    u64::try_from(nanos / NANOS).map_or(Instant::FAR_FUTURE, Instant::from_micros)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_700_000_000);

    #[test]
    fn a_rate_is_kept() {
        let schedule = Schedule::new(START, CallRate::new(50.0, Duration::from_secs(1)));
        assert_eq!(schedule.due(0), START);
        assert_eq!(schedule.due(1), START + Duration::from_millis(20));
        assert_eq!(schedule.due(50), START + Duration::from_secs(1));
        let slow = Schedule::new(START, CallRate::new(0.5, Duration::from_secs(7)));
        assert_eq!(slow.due(1), START + Duration::from_secs(14));
        assert_eq!(Schedule::new(START, CallRate::STOPPED).due(3), Instant::FAR_FUTURE);
    }

    #[test]
    fn a_new_rate_begins_after_the_last_call() {
        let mut schedule = Schedule::new(START, CallRate::new(10.0, Duration::from_secs(1)));
        // Due so far: 0, 100, 200 ms.
        schedule.change(START + Duration::from_millis(250), CallRate::new(2.0, Duration::from_secs(1)));
        assert_eq!(schedule.due(3), START + Duration::from_millis(700));
        // 200 ms have passed since the last: at 100 a second the next is due at once.
        schedule.change(START + Duration::from_millis(400), CallRate::new(100.0, Duration::from_secs(1)));
        assert_eq!(schedule.due(3), START + Duration::from_millis(400));
        assert_eq!(schedule.due(4), START + Duration::from_millis(410));
    }

    #[test]
    fn a_pause_delays_and_loses_nothing() {
        let pace = CallRate::new(10.0, Duration::from_secs(1));
        let mut schedule = Schedule::new(START, pace);
        schedule.change(START + Duration::from_millis(250), CallRate::STOPPED);
        assert_eq!(schedule.due(3), Instant::FAR_FUTURE);
        schedule.change(START + Duration::from_secs(60), pace);
        assert_eq!(schedule.due(3), START + Duration::from_secs(60));
        assert_eq!(schedule.due(4), START + Duration::from_millis(60_100));
    }

    #[test]
    fn poisson_keeps_its_mean_over_shards() {
        let schedule = Schedule::new(START, CallRate::new(1_000.0, Duration::from_secs(1)));
        let mut due = 0;
        for shard in 0..3 {
            let mut arrivals = ShardArrivals::poisson(schedule, 3, Rng::seeded(shard), START);
            while arrivals.due() < START + Duration::from_secs(100) {
                arrivals.pass();
                due += 1;
            }
        }
        // Three standard deviations of a Poisson count of 100,000.
        assert!((99_050..100_950).contains(&due), "{due}");
    }

    proptest! {
        #[test]
        fn ten_days_at_odd_rates_end_on_the_microsecond(calls in 1u64..1_000_000, period in 1u64..100_000, days in 1u64..11) {
            // `calls` an odd number of milliseconds long: whole periods end exactly.
            let pace = CallRate::new(calls as f64, Duration::from_millis(period));
            let schedule = Schedule::new(START, pace);
            let periods = days * 86_400_000 / period;
            let length = Duration::from_millis(periods * period);
            prop_assert_eq!(schedule.due(calls * periods), START + length);
        }

        #[test]
        fn shards_share_the_calls_and_time_goes_on(rate in 0.001f64..100_000.0, shards in 1usize..9, n in 0u64..1_000_000) {
            let schedule = Schedule::new(START, CallRate::new(rate, Duration::from_secs(1)));
            prop_assert!(schedule.due(n) <= schedule.due(n + 1));
            let mut seen: Vec<Instant> = Vec::new();
            for shard in 0..shards {
                let mut arrivals = ShardArrivals::even(schedule, shard, shards);
                for _ in 0..4 {
                    seen.push(arrivals.due());
                    arrivals.pass();
                }
            }
            seen.sort();
            let all: Vec<Instant> = (0..4 * shards as u64).map(|index| schedule.due(index)).collect();
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn changes_never_lose_or_double_a_call(changes in prop::collection::vec((1u64..5_000_000, 0.0f64..2_000.0), 1..20)) {
            let mut schedule = Schedule::new(START, CallRate::new(100.0, Duration::from_secs(1)));
            let (mut now, mut next) = (START, 0u64);
            for (after, rate) in changes {
                now = now + Duration::from_micros(after);
                while schedule.due(next) <= now {
                    next += 1;
                }
                let before = schedule.first;
                schedule.change(now, CallRate::new(rate, Duration::from_secs(1)));
                prop_assert!(schedule.first >= before);
                // Calls due by now are behind the new anchor or, rounded to microseconds, at most at it.
                prop_assert!(next.abs_diff(schedule.first) <= 1 || schedule.due(next) >= now);
                prop_assert!(schedule.due(schedule.first) >= now);
            }
        }
    }
}
