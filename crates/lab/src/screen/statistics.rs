//! The statistics screen: counts of the interval and of the run, side by side.

use std::fmt::Write as _;
use std::time::Duration;

use lab_sip::stats::{Count, Durations};

use crate::engine::{Progress, Setup};
use crate::trace::time::{Timestamp, clock_micros};

const RULE: &str = "-------------------------+---------------------------+--------------------------\n";

/// Times, rates and counts in SIPp's order.
pub(super) fn screen(setup: &Setup, progress: &Progress) -> String {
    let rfc3339 = setup.options.files.rfc3339;
    let mut text =
        String::from("----------------------------- Statistics Screen ------- [1-9]: Change Screen --\n");
    let reset = progress.now - progress.span;
    for (name, at) in
        [("Start Time", progress.counted_from), ("Last Reset Time", reset), ("Current Time", progress.now)]
    {
        let _ = writeln!(text, "  {name:<22} | {}", Timestamp::csv(at, rfc3339));
    }
    text.push_str(RULE);
    text.push_str("  Counter Name           | Periodic value            | Cumulative value\n");
    text.push_str(RULE);
    let elapsed = progress.now.since(progress.counted_from);
    row(&mut text, "Elapsed Time", &clock_micros(progress.span), &clock_micros(elapsed));
    let (now, all) = (&progress.interval.counts, &progress.total.counts);
    let created = |counts: &lab_sip::stats::Counts| counts[Count::IncomingCall] + counts[Count::OutgoingCall];
    let rate = |count: u64, span: Duration| format!("{:>8.3} cps", per_second(count, span));
    row(&mut text, "Call Rate", &rate(created(now), progress.span), &rate(created(all), elapsed));
    text.push_str(RULE);
    let count = |text: &mut String, name: &str, which: Count| {
        row(text, name, &format!("{:>8}", now[which]), &format!("{:>8}", all[which]));
    };
    count(&mut text, "Incoming calls created", Count::IncomingCall);
    count(&mut text, "Outgoing calls created", Count::OutgoingCall);
    row(&mut text, "Total Calls created", "", &format!("{:>8}", created(all)));
    row(&mut text, "Current Calls", &format!("{:>8}", progress.gauges.open_calls), "");
    text.push_str(RULE);
    for (index, name) in setup.scenario.counters.iter().enumerate() {
        let value = |counters: &[u64]| format!("{:>8}", counters.get(index).copied().unwrap_or(0));
        let (now, all) = (value(&progress.interval.counters), value(&progress.total.counters));
        row(&mut text, &format!("Counter {name}"), &now, &all);
    }
    if !setup.scenario.counters.is_empty() {
        text.push_str(RULE);
    }
    count(&mut text, "Successful call", Count::SuccessfulCall);
    count(&mut text, "Failed call", Count::FailedCall);
    text.push_str(RULE);
    times(&mut text, setup, progress);
    text
}

/// Means of all counters and of the call length.
fn times(text: &mut String, setup: &Setup, progress: &Progress) {
    let mean =
        |durations: Option<&Durations>| clock_micros(durations.and_then(Durations::mean).unwrap_or_default());
    for (index, name) in setup.scenario.rtds.iter().enumerate() {
        let of = |stats: &lab_sip::stats::Stats| mean(stats.rtds.get(index).map(|timer| &timer.service));
        row(text, &format!("Response Time {name}"), &of(&progress.interval), &of(&progress.total));
    }
    let (now, all) = (&progress.interval.call_length, &progress.total.call_length);
    row(text, "Call Length", &mean(Some(now)), &mean(Some(all)));
}

/// Name and two columns of 25 characters.
fn row(text: &mut String, name: &str, periodic: &str, cumulative: &str) {
    let _ = writeln!(text, "  {name:<22} | {periodic:<25} | {cumulative:<25}");
}

/// Nothing per no time is nothing.
pub(crate) fn per_second(count: u64, span: Duration) -> f64 {
    let seconds = span.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let count = count as f64;
    if seconds > 0.0 { count / seconds } else { 0.0 }
}
