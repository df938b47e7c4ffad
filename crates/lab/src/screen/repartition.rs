//! The repartition screens: response times and call lengths by bucket.
//!
//! SIPp counts times into buckets as they come. Here every time is in a histogram, and buckets are read from it, to the histogram's precision.

use std::fmt::Write as _;

use lab_sip::stats::Histogram;

use crate::engine::{Progress, Setup};

/// `index` counts the scenario's response-time counters from 0.
pub(super) fn screen(setup: &Setup, progress: &Progress, index: u16) -> String {
    let mut text = match index {
        0 => {
            String::from("---------------------------- Repartition Screen ------- [1-9]: Change Screen --\n")
        }
        _ => format!(
            "--------------------------- Repartition {} Screen ------ [1-9]: Change Screen --\n",
            index + 1
        ),
    };
    let scenario = &setup.scenario;
    let index = usize::from(index);
    let empty = Histogram::default();
    match scenario.rtds.get(index) {
        Some(name) => {
            let _ = writeln!(text, "  Average Response Time Repartition {name}");
            let timer = progress.total.rtds.get(index);
            table(&mut text, &scenario.response_times, timer.map_or(&empty, |t| &t.service.histogram));
        }
        None => text.push_str("  No repartition defined\n"),
    }
    if index == 0 {
        text.push_str("  Average Call Length Repartition\n");
        table(&mut text, &scenario.call_lengths, &progress.total.call_length.histogram);
    }
    text
}

/// A line a bucket; the words without bounds are SIPp's, with its spelling.
fn table(text: &mut String, bounds: &[u32], histogram: &Histogram) {
    let Some(last) = bounds.last() else {
        text.push_str("  <No repartion defined>\n");
        return;
    };
    let counts = buckets(bounds, histogram);
    let mut low = 0;
    for (high, count) in bounds.iter().zip(&counts) {
        let _ = writeln!(text, "    {low:>10} ms <= n < {high:>10} ms : {count:>10}");
        low = *high;
    }
    let _ = writeln!(text, "                   n >= {last:>10} ms : {:>10}", counts[bounds.len()]);
}

/// How many were below each bound (milliseconds), those of the bounds before taken off; and last, those above all.
pub(crate) fn buckets(bounds: &[u32], histogram: &Histogram) -> Vec<u64> {
    let mut below = 0;
    let mut counts: Vec<u64> = bounds
        .iter()
        .map(|bound| {
            // A histogram rounds: never fewer below a higher bound.
            let now = histogram.count_below(u64::from(*bound) * 1000).max(below);
            let count = now - below;
            below = now;
            count
        })
        .collect();
    counts.push(histogram.len().saturating_sub(below));
    counts
}
