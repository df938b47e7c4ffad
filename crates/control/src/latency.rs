//! Latencies of the node: histograms of each shard, and what clients met within the last seconds.

use std::array;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stdx::Instant;
use stdx::latency::LatencyHistogram;
use stdx::ring::Ring;

use super::status::ShardCounters;

/// The time that summaries look back.
const SPAN: Duration = Duration::from_secs(10);
/// One sample a second, and the one to compare with.
const SAMPLES: usize = 11;

/// The latencies that a node measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// From a new INVITE outside dialogs to the first response but a 100 or a challenge.
    Invite,
    /// From a REGISTER to its response, unless that is a challenge.
    Register,
    /// From the arrival of a chat message until it is delivered or stored.
    Message,
    /// From the name of a chat account to its session.
    SignIn,
    /// The turns of shards in which there was something to do.
    Turn,
}

impl Latency {
    /// All of them, in the order of lists.
    pub const ALL: [Latency; 5] =
        [Latency::Invite, Latency::Register, Latency::Message, Latency::SignIn, Latency::Turn];

    /// The name in texts and as a part of other names.
    pub const fn name(self) -> &'static str {
        match self {
            Latency::Invite => "invite",
            Latency::Register => "register",
            Latency::Message => "message",
            Latency::SignIn => "sign_in",
            Latency::Turn => "turn",
        }
    }
}

/// One latency of a shard, since its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// The latency.
    pub latency: Latency,
    /// Numbers by bucket, each without those below it, with the bounds of [`stdx::latency::BOUNDS`].
    pub buckets: Box<[u64]>,
    /// The sum of all, in microseconds.
    pub sum_micros: u64,
}

impl LatencyCounts {
    /// The counts of a histogram.
    pub fn of(latency: Latency, histogram: &LatencyHistogram) -> LatencyCounts {
        LatencyCounts { latency, buckets: histogram.buckets().into(), sum_micros: histogram.sum_micros() }
    }

    /// The histogram with these counts.
    pub fn histogram(&self) -> LatencyHistogram {
        LatencyHistogram::of(&self.buckets, self.sum_micros)
    }
}

/// A latency of the last ten seconds, over all shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// The latency.
    pub latency: Latency,
    /// The number of those that ended in that time.
    pub count: u64,
    /// The median, in microseconds; none if there were none.
    pub p50_micros: Option<u64>,
    /// The latency that 99 of 100 did not exceed, in microseconds.
    pub p99_micros: Option<u64>,
}

/// One histogram for each latency.
pub(super) type Histograms = [LatencyHistogram; Latency::ALL.len()];

/// Adds up the histograms of all shards.
pub(super) fn sum(shards: &[ShardCounters]) -> Histograms {
    let mut sums = Histograms::default();
    for counts in shards.iter().flat_map(|shard| &shard.latencies) {
        for (sum, _) in sums.iter_mut().zip(Latency::ALL).filter(|(_, latency)| *latency == counts.latency) {
            sum.add(&counts.histogram());
        }
    }
    sums
}

/// The histograms of the last seconds.
pub(super) struct RecentLatencies {
    samples: Ring<(Instant, Histograms)>,
}

impl Default for RecentLatencies {
    fn default() -> Self {
        RecentLatencies { samples: Ring::new(SAMPLES) }
    }
}

impl RecentLatencies {
    /// Once a second.
    pub(super) fn sample(&mut self, now: Instant, histograms: Histograms) {
        self.samples.push_over((now, histograms));
    }

    /// The latencies up to `now`, of the last ten seconds; of less while the node is younger.
    pub(super) fn summaries(&self, now: Instant, histograms: &Histograms) -> Vec<LatencySummary> {
        // A quarter of a second less: ticks are not exact.
        let enough = SPAN - Duration::from_millis(250);
        let old_enough = self.samples.iter().rfind(|(at, _)| now.since(*at) >= enough);
        let before = old_enough.or_else(|| self.samples.iter().next()).map(|(_, before)| *before);
        let before = before.unwrap_or_default();
        let recent: Histograms = array::from_fn(|at| histograms[at].since(&before[at]));
        let summary = |(latency, histogram): (Latency, LatencyHistogram)| LatencySummary {
            latency,
            count: histogram.count(),
            p50_micros: histogram.quantile_micros(500),
            p99_micros: histogram.quantile_micros(990),
        };
        Latency::ALL.into_iter().zip(recent).map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(millis: u64, times: u64) -> ShardCounters {
        let mut histogram = LatencyHistogram::default();
        (0..times).for_each(|_| histogram.record(Duration::from_millis(millis)));
        let latencies = vec![LatencyCounts::of(Latency::Register, &histogram)];
        ShardCounters { latencies, ..ShardCounters::new(0) }
    }

    #[test]
    fn a_summary_is_of_the_last_ten_seconds_and_of_all_shards() {
        let at = |second: u64| Instant::from_unix_seconds(1_800_000_000 + second);
        let mut recent = RecentLatencies::default();
        // Slow ones, twenty seconds ago.
        for second in 0..20 {
            recent.sample(at(second), sum(&[shard(400, 100)]));
        }
        let now = sum(&[shard(400, 100), shard(8, 50)]);
        let summaries = recent.summaries(at(20), &now);
        let register = summaries.iter().find(|summary| summary.latency == Latency::Register).unwrap();
        assert_eq!((register.count, register.p50_micros), (50, Some(7_500)));
        assert!(summaries[0].p99_micros.is_none(), "no INVITE came: {summaries:?}");
    }
}
