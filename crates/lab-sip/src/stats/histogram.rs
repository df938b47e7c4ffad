//! Times: SIPp's mean, deviation and buckets, and HdrHistogram's percentiles beside them.
//!
//! SIPp keeps a sum and a sum of squares, from which mean and deviation follow; percentiles need the histogram. Both are kept for every set.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Three significant digits; memory grows with the largest value seen and is nothing until the first.
#[derive(Debug, Clone, Default)]
pub struct Histogram(Option<Box<hdrhistogram::Histogram<u64>>>);

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.record_times(value, 1);
    }

    fn record_times(&mut self, value: u64, times: u64) {
        let histogram = self.0.get_or_insert_with(|| {
            Box::new(hdrhistogram::Histogram::new(3).expect("three significant digits are within 0 to 5"))
        });
        // Not `saturating_record`: that clamps to what the histogram holds now instead of growing.
        histogram.record_n(value, times).expect("it grows to any u64");
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        let Some(other_counts) = &other.0 else { return };
        match &mut self.0 {
            Some(own_counts) => own_counts.add(&**other_counts).expect("both resize on demand"),
            None => self.0 = Some(other_counts.clone()),
        }
    }

    /// The value that `quantile` (0 to 1) of all are at or below.
    pub fn value_at(&self, quantile: f64) -> Option<u64> {
        self.0.as_ref().filter(|h| !h.is_empty()).map(|h| h.value_at_quantile(quantile))
    }

    /// The greatest value.
    pub fn max(&self) -> Option<u64> {
        self.0.as_ref().filter(|h| !h.is_empty()).map(|h| h.max())
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, |h| h.len())
    }

    /// No value was counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many are below `value`; exact to the histogram's resolution.
    pub fn count_below(&self, value: u64) -> u64 {
        match (&self.0, value.checked_sub(1)) {
            (Some(histogram), Some(last)) => histogram.count_between(0, last),
            _ => 0,
        }
    }
}

/// As pairs of a value and how often it was recorded: what was never recorded takes no room.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let recorded = self.0.iter().flat_map(|h| h.iter_recorded());
        serializer.collect_seq(recorded.map(|at| (at.value_iterated_to(), at.count_at_value())))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut histogram = Histogram::default();
        for (value, times) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            histogram.record_times(value, times);
        }
        Ok(histogram)
    }
}

/// A set of durations, in microseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Durations {
    /// The number of durations.
    pub n: u64,
    /// Microseconds.
    pub sum: f64,
    /// Microseconds squared.
    pub sum_of_squares: f64,
    /// The durations by size.
    pub histogram: Histogram,
}

impl Durations {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.n += 1;
        #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
        let value = micros as f64;
        self.sum += value;
        self.sum_of_squares += value * value;
        self.histogram.record(micros);
    }

    /// Adds the durations of another one.
    pub fn merge(&mut self, other: &Durations) {
        self.n += other.n;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.histogram.merge(&other.histogram);
    }

    /// The mean.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn mean(&self) -> Option<Duration> {
        (self.n > 0).then(|| Duration::from_secs_f64(self.sum / self.n as f64 / 1e6))
    }

    /// Standard deviation of the population, as SIPp computes it.
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn deviation(&self) -> Option<Duration> {
        (self.n > 0).then(|| {
            let n = self.n as f64;
            let mean = self.sum / n;
            Duration::from_secs_f64((self.sum_of_squares / n - mean * mean).max(0.0).sqrt() / 1e6)
        })
    }

    /// The duration below which this share (0 to 1) lies.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        self.histogram.value_at(quantile).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_survive_growth_and_merging() {
        let mut odd = Durations::default();
        let mut even = Durations::default();
        for millis in 1..=1_000 {
            let half = if millis % 2 == 0 { &mut even } else { &mut odd };
            half.record(Duration::from_millis(millis));
        }
        odd.merge(&even);
        assert_eq!(odd.n, 1_000);
        assert_eq!(odd.mean(), Some(Duration::from_micros(500_500)));
        let p99 = odd.quantile(0.99).expect("there are values");
        assert!((Duration::from_millis(989)..Duration::from_millis(992)).contains(&p99), "{p99:?}");
        assert_eq!(odd.histogram.count_below(1_000), 0);
        assert_eq!(odd.histogram.count_below(1_001), 1);
        odd.record(Duration::MAX);
        assert_eq!(odd.histogram.len(), 1_001);
    }

    #[test]
    fn a_histogram_survives_serialization() {
        let mut times = Durations::default();
        for micros in (0..50).chain((1..60).map(|n| n * n * 997_001)) {
            times.record(Duration::from_micros(micros));
        }
        let text = serde_json::to_string(&times).expect("plain data");
        let carried: Durations = serde_json::from_str(&text).expect("the written text");
        assert_eq!((carried.n, carried.mean()), (times.n, times.mean()));
        for quantile in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(carried.quantile(quantile), times.quantile(quantile), "{quantile}");
        }
        assert_eq!(carried.histogram.max(), times.histogram.max());
        let none: Histogram = serde_json::from_str("[]").expect("nothing");
        assert!(none.is_empty() && none.0.is_none());
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let none = Durations::default();
        assert_eq!((none.mean(), none.deviation(), none.quantile(0.5)), (None, None, None));
        assert_eq!(none.histogram.count_below(10), 0);
    }
}
