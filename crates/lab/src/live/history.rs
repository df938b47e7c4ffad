//! The last minutes of a run, for the sparklines.

use std::collections::VecDeque;

use lab_sip::stats::Count;

use crate::engine::Progress;

/// Seconds kept: more than any terminal is wide.
pub(super) const KEPT: usize = 600;

/// The points of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<HistoryPoint>,
}

/// One interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HistoryPoint {
    /// Successful calls of the interval.
    pub(super) completed: u64,
    /// Failed calls of the interval.
    pub(super) failed: u64,
    /// Open calls at its end.
    pub(super) open: u64,
    /// Microseconds.
    pub(super) p99: u64,
}

impl History {
    pub(super) fn push(&mut self, progress: &Progress) {
        if self.points.len() == KEPT {
            self.points.pop_front();
        }
        let stats = &progress.interval;
        let p99 = stats.rtds.first().and_then(|timer| timer.service.histogram.value_at(0.99));
        self.points.push_back(HistoryPoint {
            completed: stats.counts[Count::SuccessfulCall],
            failed: stats.counts[Count::FailedCall],
            open: progress.gauges.open_calls,
            p99: p99.unwrap_or(0),
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// The newest `width` values, oldest first.
    pub(super) fn last(&self, width: usize, get: fn(&HistoryPoint) -> u64) -> Vec<u64> {
        let skip = self.points.len().saturating_sub(width);
        self.points.iter().skip(skip).map(get).collect()
    }
}
