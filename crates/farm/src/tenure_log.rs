//! A line in the log for the buckets that the node begins and ceases to serve, at level debug. The agent's thread collects
//! them while it performs the effects of one input, so a takeover of a thousand buckets is one line and not a thousand.
//! The lines of all nodes together show that no epoch of a bucket has had two owners.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cluster::{Bucket, Epoch, Life};

/// The buckets of one input.
#[derive(Debug, Default)]
pub(crate) struct TenureLog {
    served: BTreeMap<Epoch, Vec<u16>>,
    stopped: BTreeMap<Epoch, Vec<u16>>,
}

impl TenureLog {
    /// The node answers for the bucket from now on.
    pub(crate) fn serve(&mut self, bucket: Bucket, epoch: Epoch) {
        self.served.entry(epoch).or_default().push(bucket.number());
    }

    /// The node answers for the bucket no more.
    pub(crate) fn stop(&mut self, bucket: Bucket, epoch: Epoch) {
        self.stopped.entry(epoch).or_default().push(bucket.number());
    }

    /// Writes a line for each epoch and forgets it.
    pub(crate) fn write(&mut self, life: Life) {
        for (epoch, buckets) in std::mem::take(&mut self.stopped) {
            tracing::debug!(%life, %epoch, buckets = ranges(buckets), "buckets are no longer served");
        }
        for (epoch, buckets) in std::mem::take(&mut self.served) {
            tracing::debug!(%life, %epoch, buckets = ranges(buckets), "buckets are served");
        }
    }
}

/// Writes numbers as ranges: `0-12,14,20-21`.
fn ranges(mut numbers: Vec<u16>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let mut text = String::new();
    for range in numbers.chunk_by(|one, next| one + 1 == *next) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match range {
            [one] => write!(text, "{comma}{one}"),
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_written_as_ranges() {
        assert_eq!(ranges(vec![]), "");
        assert_eq!(ranges(vec![7]), "7");
        assert_eq!(ranges(vec![20, 0, 2, 1, 4_095, 21, 2]), "0-2,20-21,4095");
    }
}
