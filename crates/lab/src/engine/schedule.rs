//! When calls are due. Integers all the way: call `n` is due at a time computed from `n`, so nothing adds up
//! over days.
//!
//! [`Schedule`] is the whole run's and answers when call `n` is due; [`ShardArrivals`] takes one shard's part of it. A change of the rate makes
//! a new schedule that begins at the call that is due next; calls before it, which a shard that is behind has yet to start, keep their times.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::rng::Rng;
use stdx::time::Instant;

use super::limits::{DRAWN_OVERDUE, RATES_BEHIND};

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

    /// `FAR_FUTURE` while the rate is zero. Calls before the anchor are another schedule's; here they are due with it.
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
    /// Calls `next`, `next + of`, …: the shards of a run take them in turn. A call that an earlier schedule made due keeps its time; `earlier`
    /// has those that the shard is not done with, at most `RATES_BEHIND`.
    Even { schedule: Schedule, earlier: VecDeque<Schedule>, next: u64, of: u64 },
    /// The sum of independent processes is one again, at the sum of their rates. `changes` are those that `next` has not reached, at most
    /// `RATES_BEHIND`.
    Poisson { schedule: Schedule, changes: VecDeque<(Instant, Schedule)>, next: Instant, of: u64, rng: Rng },
}

impl ShardArrivals {
    pub(super) fn even(schedule: Schedule, shard: usize, of: usize) -> Self {
        ShardArrivals::Even { schedule, earlier: VecDeque::new(), next: shard as u64, of: of as u64 }
    }

    pub(super) fn poisson(schedule: Schedule, of: usize, mut rng: Rng, start: Instant) -> Self {
        let next = start + gap(&schedule, of as u64, &mut rng);
        ShardArrivals::Poisson { schedule, changes: VecDeque::new(), next, of: of as u64, rng }
    }

    /// When the next call is due.
    pub(super) fn due(&self) -> Instant {
        let newest = match self {
            ShardArrivals::Even { schedule, .. } => schedule,
            ShardArrivals::Poisson { schedule, changes, .. } => {
                changes.back().map_or(schedule, |last| &last.1)
            }
        };
        // A pause holds back the calls that were due before it, too.
        if newest.pace.parts == 0 {
            return Instant::FAR_FUTURE;
        }
        match self {
            ShardArrivals::Even { schedule, earlier, next, .. } => {
                earlier.front().unwrap_or(schedule).due(*next)
            }
            ShardArrivals::Poisson { next, .. } => *next,
        }
    }

    /// The next call was started, or could not be.
    pub(super) fn pass(&mut self) {
        match self {
            ShardArrivals::Even { next, of, .. } => {
                *next += *of;
                self.forget_earlier();
            }
            ShardArrivals::Poisson { schedule, changes, next, of, rng } => {
                *next = *next + gap(schedule, *of, rng);
                // The process has no memory: from the change on a fresh gap is as good as any.
                while let Some((at, changed)) = changes.front().copied()
                    && *next > at
                {
                    changes.pop_front();
                    *schedule = changed;
                    *next = at + gap(schedule, *of, rng);
                }
            }
        }
    }

    pub(super) fn change(&mut self, now: Instant, changed: Schedule) {
        match self {
            ShardArrivals::Even { schedule, earlier, .. } => {
                let before = std::mem::replace(schedule, changed);
                // A rate of zero has made no call due.
                if before.pace.parts > 0 {
                    earlier.push_back(before);
                }
                if earlier.len() > RATES_BEHIND {
                    earlier.pop_front();
                }
                self.forget_earlier();
            }
            ShardArrivals::Poisson { schedule, changes, next, of, rng } => {
                if changes.is_empty() && *next >= now {
                    *schedule = changed;
                    *next = now + gap(schedule, *of, rng);
                } else if changes.len() < RATES_BEHIND {
                    changes.push_back((now, changed));
                } else if let Some(last) = changes.back_mut() {
                    last.1 = changed;
                }
            }
        }
    }

    /// Drops the schedules all of whose calls have passed at this shard.
    fn forget_earlier(&mut self) {
        let ShardArrivals::Even { schedule, earlier, next, .. } = self else { return };
        while !earlier.is_empty() && *next >= earlier.get(1).unwrap_or(&*schedule).first {
            earlier.pop_front();
        }
    }

    /// The number of calls that are due before `end` and have not passed; none during a pause. They are counted and not passed one by one: there
    /// may be billions.
    pub(super) fn overdue(mut self, end: Instant) -> u64 {
        if self.due() >= end {
            return 0;
        }
        if let ShardArrivals::Even { schedule, earlier, next, of } = &self {
            let mut schedules = earlier.iter().chain([schedule]).peekable();
            let mut stop = *next;
            while let Some(one) = schedules.next() {
                let until = schedules.peek().map_or(u64::MAX, |following| following.first);
                stop = one.next_after(nanos(end).saturating_sub(1)).min(until);
                if stop < until {
                    break;
                }
            }
            return stop.saturating_sub(*next).div_ceil(*of);
        }
        let mut count = 0;
        while self.due() < end && count < DRAWN_OVERDUE {
            self.pass();
            count += 1;
        }
        count + self.expected(end)
    }

    /// The calls of a Poisson process from the next to `end`, by its rate.
    fn expected(&self, end: Instant) -> u64 {
        let ShardArrivals::Poisson { schedule, next, of, .. } = self else { return 0 };
        #[expect(clippy::cast_precision_loss, reason = "a number of threads")]
        let rate = schedule.pace.per_second() / *of as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        let calls = (end.since(*next).as_secs_f64() * rate).round() as u64;
        calls
    }
}

/// An exponential gap by the inverse of its distribution. The uniform number is in (0, 1], as the logarithm of 0 has no value.
fn gap(schedule: &Schedule, of: u64, rng: &mut Rng) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "53 random bits")]
    let uniform = ((rng.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    #[expect(clippy::cast_precision_loss, reason = "a number of threads")]
    let rate = schedule.pace.per_second() / of as f64;
    if rate <= 0.0 {
        Duration::MAX
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

    fn every(second: f64) -> CallRate {
        CallRate::new(second, Duration::from_secs(1))
    }

    #[test]
    fn calls_that_a_shard_has_yet_to_start_keep_their_times_when_the_rate_changes() {
        let mut schedule = Schedule::new(START, every(10.0));
        let mut arrivals = ShardArrivals::even(schedule, 0, 1);
        let changes = [(250, every(2.0)), (1_300, CallRate::STOPPED), (2_000, every(20.0))];
        for (millis, rate) in changes {
            let now = START + Duration::from_millis(millis);
            schedule.change(now, rate);
            arrivals.change(now, schedule);
            let paused = if rate == CallRate::STOPPED { Instant::FAR_FUTURE } else { START };
            assert_eq!(arrivals.due(), paused);
        }
        let due: Vec<u128> = (0..7)
            .map(|_| {
                let due = arrivals.due().since(START).as_millis();
                arrivals.pass();
                due
            })
            .collect();
        assert_eq!(due, [0, 100, 200, 700, 1_200, 2_000, 2_050]);
    }

    #[test]
    fn no_poisson_arrival_is_lost_when_a_shard_is_behind() {
        let mut schedule = Schedule::new(START, every(1_000.0));
        let mut arrivals = ShardArrivals::poisson(schedule, 1, Rng::seeded(1), START);
        let at = |seconds| START + Duration::from_secs(seconds);
        for (second, rate) in [(100, every(500.0)), (150, CallRate::STOPPED), (200, every(500.0))] {
            schedule.change(at(second), rate);
            arrivals.change(at(second), schedule);
        }
        let mut due = [0; 3];
        while arrivals.due() < at(250) {
            let seconds = arrivals.due().since(START).as_secs();
            due[if seconds < 100 { 0 } else { 1 + usize::from(seconds >= 150) }] += 1;
            assert!(!(150..200).contains(&seconds), "paused");
            arrivals.pass();
        }
        // Three standard deviations.
        assert!((99_050..100_950).contains(&due[0]), "{due:?}");
        assert!(due[1..].iter().all(|due| (24_520..25_480).contains(due)), "{due:?}");
    }

    #[test]
    fn overdue_poisson_arrivals_are_drawn_and_beyond_that_reckoned() {
        let schedule = Schedule::new(START, every(10_000.0));
        for seconds in [5, 100] {
            let arrivals = ShardArrivals::poisson(schedule, 2, Rng::seeded(1), START);
            let overdue = arrivals.overdue(START + Duration::from_secs(seconds));
            let wanted = seconds * 5_000;
            assert!(overdue.abs_diff(wanted) < 2_000, "{overdue}, not {wanted}");
        }
    }

    proptest! {
        #[test]
        fn overdue_calls_are_those_that_would_pass(
            changes in prop::collection::vec((1u64..3_000_000, 0.0f64..500.0), 0..60),
            shard in 0usize..3,
            passed in 0usize..50,
            more in 0u64..3_000_000,
        ) {
            let mut schedule = Schedule::new(START, every(100.0));
            let mut counted = ShardArrivals::even(schedule, shard, 3);
            let mut passing = ShardArrivals::even(schedule, shard, 3);
            let mut now = START;
            for (after, rate) in changes {
                now = now + Duration::from_micros(after);
                schedule.change(now, every(rate));
                counted.change(now, schedule);
                passing.change(now, schedule);
            }
            for _ in 0..passed {
                counted.pass();
                passing.pass();
            }
            let end = now + Duration::from_micros(more);
            let mut count = 0;
            while passing.due() < end {
                passing.pass();
                count += 1;
            }
            prop_assert_eq!(counted.overdue(end), count);
        }

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
