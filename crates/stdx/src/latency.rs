//! Latencies in buckets: counting one is a search of fourteen bounds and two additions, without memory of its own.
//!
//! Each owner counts into a histogram of its own; readers take copies, add them up, and subtract an earlier copy for an interval.

use std::time::Duration;

/// Upper bounds of the buckets but the last, in microseconds, as Prometheus' `le` has them: from what one turn of a loop takes to
/// what a client waits for before it gives up.
pub const BOUNDS: [u64; 14] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000,
];

/// Numbers of latencies by bucket, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Latencies of each bucket alone, not of those below it too; the last has those above all bounds.
    buckets: [u64; BOUNDS.len() + 1],
    /// Microseconds of all.
    sum: u64,
}

impl LatencyHistogram {
    /// A histogram of counts that were read elsewhere. Buckets that are missing are empty, and more than there are bounds for count in the last.
    pub fn of(buckets: &[u64], sum_micros: u64) -> Self {
        let mut histogram = LatencyHistogram { sum: sum_micros, ..LatencyHistogram::default() };
        for (at, count) in buckets.iter().enumerate() {
            histogram.buckets[at.min(BOUNDS.len())] += count;
        }
        histogram
    }

    /// Counts one latency.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.buckets[BOUNDS.partition_point(|bound| *bound < micros)] += 1;
        self.sum = self.sum.saturating_add(micros);
    }

    /// Adds the latencies of another.
    pub fn add(&mut self, other: &LatencyHistogram) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(bucket, more)| *bucket += more);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The latencies since an earlier copy.
    #[must_use]
    pub fn since(&self, earlier: &LatencyHistogram) -> LatencyHistogram {
        let buckets = std::array::from_fn(|at| self.buckets[at].saturating_sub(earlier.buckets[at]));
        LatencyHistogram { buckets, sum: self.sum.saturating_sub(earlier.sum) }
    }

    /// Latencies by bucket, one more than [`BOUNDS`].
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all latencies, in microseconds.
    pub fn sum_micros(&self) -> u64 {
        self.sum
    }

    /// The latency that so many of a thousand do not exceed, in microseconds: within its bucket latencies count as evenly spread, as in
    /// Prometheus' `histogram_quantile`, and above the last bound as that bound. `None`: there are no latencies.
    pub fn quantile_micros(&self, of_thousand: u64) -> Option<u64> {
        let rank = self.count() as f64 * of_thousand as f64 / 1_000.0;
        let mut below = 0;
        for (at, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            if (below + count) as f64 >= rank {
                let Some(high) = BOUNDS.get(at) else { return BOUNDS.last().copied() };
                let low = at.checked_sub(1).map_or(0, |at| BOUNDS[at]);
                let share = (rank - below as f64) / *count as f64;
                return Some(low + (share * (high - low) as f64) as u64);
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_latency_of_a_bound_counts_below_it_and_the_longest_in_the_last_bucket() {
        let mut histogram = LatencyHistogram::default();
        for micros in [0, 1_000, 1_001, 30_000_000, 30_000_001, u64::MAX] {
            histogram.record(Duration::from_micros(micros));
        }
        let buckets = histogram.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[13], buckets[14]), (2, 1, 1, 2));
        assert_eq!((histogram.count(), histogram.sum_micros()), (6, u64::MAX));
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.quantile_micros(500), None);
        (0..99).for_each(|_| histogram.record(Duration::from_millis(2)));
        histogram.record(Duration::from_secs(60));
        assert_eq!(histogram.quantile_micros(990), Some(2_500));
        assert_eq!(histogram.quantile_micros(500), Some(1_757), "1,000 and 50/99 of 1,500");
        assert_eq!(histogram.quantile_micros(999), Some(30_000_000), "above all bounds");
    }

    #[test]
    fn counts_of_another_version_with_other_buckets_are_kept() {
        let fewer = LatencyHistogram::of(&[1, 2], 7);
        let more = LatencyHistogram::of(&[1; 20], 7);
        assert_eq!((fewer.count(), more.count(), more.buckets()[14]), (3, 20, 6));
    }

    proptest! {
        #[test]
        fn a_difference_added_to_the_earlier_copy_is_the_later_one(
            first in proptest::collection::vec(0..40_000_000_u64, 0..50),
            second in proptest::collection::vec(0..40_000_000_u64, 0..50),
        ) {
            let mut histogram = LatencyHistogram::default();
            first.iter().for_each(|micros| histogram.record(Duration::from_micros(*micros)));
            let mut earlier = histogram;
            second.iter().for_each(|micros| histogram.record(Duration::from_micros(*micros)));
            let more = histogram.since(&earlier);
            prop_assert_eq!(more.count(), second.len() as u64);
            earlier.add(&more);
            prop_assert_eq!(earlier, histogram);
        }
    }
}
