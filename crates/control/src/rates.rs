//! Rates over the last 1, 10 and 60 seconds, from totals looked at once a second.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stdx::Instant;
use stdx::ring::Ring;

use super::status::ShardCounters;

/// Seconds that the rates look back.
const SPANS: [u64; 3] = [1, 10, 60];
/// One sample a second, and the one to compare with.
const SAMPLES: usize = 61;

/// The totals that rates are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([u64; NAMES.len()]);

const NAMES: [&str; 6] =
    ["calls", "calls_answered", "calls_failed", "registrations", "messages_in", "messages_out"];

impl Totals {
    /// Adds up the counters of all shards.
    pub fn of(shards: &[ShardCounters]) -> Self {
        let sum = |read: fn(&ShardCounters) -> u64| shards.iter().map(read).sum();
        Totals([
            sum(|shard| shard.calls_started),
            sum(|shard| shard.calls_answered),
            sum(|shard| shard.calls_failed),
            sum(|shard| shard.registrations),
            sum(|shard| shard.datagrams_in + shard.stream_messages_in),
            sum(|shard| shard.datagrams_out + shard.stream_messages_out),
        ])
    }
}

/// The rate of one kind of event, per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The kind of event, as `calls`.
    pub name: Box<str>,
    /// The rate of the last second.
    pub last_1s: f64,
    /// The mean of the last ten seconds.
    pub last_10s: f64,
    /// The mean of the last minute.
    pub last_60s: f64,
}

/// The samples of the last minute.
pub struct Rates {
    samples: Ring<(Instant, Totals)>,
}

impl Default for Rates {
    fn default() -> Self {
        Rates { samples: Ring::new(SAMPLES) }
    }
}

impl Rates {
    /// Once a second.
    pub fn sample(&mut self, now: Instant, totals: Totals) {
        self.samples.push_over((now, totals));
    }

    /// Up to `now`; over less than the span while the node is younger.
    pub fn rates(&self, now: Instant, totals: Totals) -> Vec<Rate> {
        let [last_1s, last_10s, last_60s] = SPANS.map(|span| self.over(span, now, totals));
        let rate = |(index, name): (usize, &&str)| Rate {
            name: (*name).into(),
            last_1s: last_1s[index],
            last_10s: last_10s[index],
            last_60s: last_60s[index],
        };
        NAMES.iter().enumerate().map(rate).collect()
    }

    fn over(&self, seconds: u64, now: Instant, totals: Totals) -> [f64; NAMES.len()] {
        // The youngest sample that is old enough, else the oldest. A quarter less: ticks are not exact.
        let enough = Duration::from_millis(seconds * 1_000 - 250);
        let old_enough = self.samples.iter().rfind(|(at, _)| now.since(*at) >= enough);
        let Some((at, then)) = old_enough.or_else(|| self.samples.iter().next()) else {
            return [0.0; NAMES.len()];
        };
        let elapsed = now.since(*at).as_secs_f64();
        std::array::from_fn(|index| {
            let more = totals.0[index].saturating_sub(then.0[index]);
            if elapsed < 0.01 { 0.0 } else { more as f64 / elapsed }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Instant {
        Instant::from_unix_seconds(1_800_000_000 + second)
    }

    fn calls(total: u64) -> Totals {
        Totals([total, 0, 0, 0, 0, 0])
    }

    #[test]
    fn each_span_looks_back_as_far_as_it_says() {
        let mut rates = Rates::default();
        // 100 calls/s for a minute, then 10 calls/s for five seconds.
        for second in 0..=60 {
            rates.sample(at(second), calls(second * 100));
        }
        for second in 1..=5 {
            rates.sample(at(60 + second), calls(6_000 + second * 10));
        }
        let now = rates.rates(at(66), calls(6_060));
        assert_eq!(&*now[0].name, "calls");
        assert!((now[0].last_1s - 10.0).abs() < 0.01);
        assert!((now[0].last_10s - 46.0).abs() < 0.01, "{}", now[0].last_10s);
        assert!((now[0].last_60s - 91.0).abs() < 0.01, "{}", now[0].last_60s);
    }

    #[test]
    fn a_young_node_counts_from_its_start() {
        let mut rates = Rates::default();
        assert!(rates.rates(at(0), calls(5))[0].last_60s.abs() < f64::EPSILON);
        rates.sample(at(0), calls(0));
        assert!((rates.rates(at(2), calls(20))[0].last_60s - 10.0).abs() < 0.01);
    }
}
