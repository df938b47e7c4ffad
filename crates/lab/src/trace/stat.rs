//! The statistics file: columns and their positions are SIPp 3.6's.
//!
//! Scripts read columns by their position, so none may be added, moved or renamed; figures that SIPp does not have are in the report.

use std::fmt::Write as _;
use std::time::Duration;

use lab_sip::options::Options;
use lab_sip::scenario::Scenario;
use lab_sip::stats::{Count, Durations, Histogram, Stats};
use stdx::time::Instant;

use super::time::{Timestamp, clock_micros, clock_seconds};
use crate::engine::{Progress, Setup};
use crate::screen::{buckets, per_second};

/// Columns that come twice, of the interval (P) and of the run (C), after `FailedCall`.
const PAIRS: &[(&str, Count)] = &[
    ("SuccessfulCall", Count::SuccessfulCall),
    ("FailedCall", Count::FailedCall),
    ("FailedCannotSendMessage", Count::FailedCannotSendMessage),
    ("FailedMaxUDPRetrans", Count::FailedMaxUdpRetrans),
    ("FailedTcpConnect", Count::FailedTcpConnect),
    ("FailedTcpClosed", Count::FailedTcpClosed),
    ("FailedUnexpectedMessage", Count::FailedUnexpectedMessage),
    ("FailedCallRejected", Count::FailedCallRejected),
    ("FailedCmdNotSent", Count::FailedCmdNotSent),
    ("FailedRegexpDoesntMatch", Count::FailedRegexpDoesntMatch),
    ("FailedRegexpShouldntMatch", Count::FailedRegexpShouldntMatch),
    ("FailedRegexpHdrNotFound", Count::FailedRegexpHdrNotFound),
    ("FailedOutboundCongestion", Count::FailedOutboundCongestion),
    ("FailedTimeoutOnRecv", Count::FailedTimeoutOnRecv),
    ("FailedTimeoutOnSend", Count::FailedTimeoutOnSend),
    ("FailedTestDoesntMatch", Count::FailedTestDoesntMatch),
    ("FailedTestShouldntMatch", Count::FailedTestShouldntMatch),
    ("FailedStrcmpDoesntMatch", Count::FailedStrcmpDoesntMatch),
    ("FailedStrcmpShouldntMatch", Count::FailedStrcmpShouldntMatch),
    ("OutOfCallMsgs", Count::OutOfCallMsgs),
    ("DeadCallMsgs", Count::DeadCallMsgs),
    ("Retransmissions", Count::Retransmissions),
    ("AutoAnswered", Count::AutoAnswered),
    ("Warnings", Count::Warnings),
    ("FatalErrors", Count::FatalErrors),
    ("WatchdogMajor", Count::WatchdogMajor),
    ("WatchdogMinor", Count::WatchdogMinor),
];

/// The names of the columns. Counters, response times and buckets are the scenario's.
pub(super) fn header(options: &Options, scenario: &Scenario) -> String {
    let mut columns: Vec<String> = Vec::new();
    let fixed = "StartTime LastResetTime CurrentTime ElapsedTime(P) ElapsedTime(C) TargetRate CallRate(P) \
                 CallRate(C) IncomingCall(P) IncomingCall(C) OutgoingCall(P) OutgoingCall(C) TotalCallCreated \
                 CurrentCall";
    columns.extend(fixed.split_whitespace().map(str::to_owned));
    let pair = |columns: &mut Vec<String>, name: &str| {
        columns.push(format!("{name}(P)"));
        columns.push(format!("{name}(C)"));
    };
    for (name, _) in PAIRS {
        pair(&mut columns, name);
    }
    for name in &scenario.rtds {
        pair(&mut columns, &format!("ResponseTime{name}"));
        pair(&mut columns, &format!("ResponseTime{name}StDev"));
    }
    pair(&mut columns, "CallLength");
    pair(&mut columns, "CallLengthStDev");
    for name in &scenario.counters {
        pair(&mut columns, name);
    }
    for name in &scenario.rtds {
        bucket_names(&mut columns, &format!("ResponseTimeRepartition{name}"), &scenario.response_times);
    }
    bucket_names(&mut columns, "CallLengthRepartition", &scenario.call_lengths);
    joined(options, &columns)
}

/// A column of the name alone, then one a bucket.
fn bucket_names(columns: &mut Vec<String>, name: &str, bounds: &[u32]) {
    let Some(last) = bounds.last() else { return };
    columns.push(name.to_owned());
    columns.extend(bounds.iter().map(|bound| format!("{name}_<{bound}")));
    columns.push(format!("{name}_>={last}"));
}

/// Every column is followed by the delimiter, the last one too, as in SIPp.
fn joined(options: &Options, columns: &[String]) -> String {
    let mut text = String::new();
    for column in columns {
        let _ = write!(text, "{column}{}", options.files.stat_delimiter);
    }
    text.push('\n');
    text
}

/// A line: `period` are the counts since the last line, which was at `since`.
pub(super) fn line(setup: &Setup, progress: &Progress, period: &Stats, since: Instant) -> String {
    let options = &setup.options;
    let scenario = &setup.scenario;
    let total = &progress.total;
    let mut columns = first_columns(options, progress, period, since);
    for (_, count) in PAIRS {
        columns.push(period.counts[*count].to_string());
        columns.push(total.counts[*count].to_string());
    }
    let nothing = Durations::default();
    let rtd = |stats: &'_ Stats, index: usize| -> Durations {
        stats.rtds.get(index).map_or_else(|| nothing.clone(), |timer| timer.service.clone())
    };
    for index in 0..scenario.rtds.len() {
        durations(&mut columns, &rtd(period, index), &rtd(total, index));
    }
    durations(&mut columns, &period.call_length, &total.call_length);
    for index in 0..scenario.counters.len() {
        for stats in [period, total] {
            columns.push(stats.counters.get(index).copied().unwrap_or(0).to_string());
        }
    }
    let bucketed = if options.files.periodic_rtd { period } else { total };
    for index in 0..scenario.rtds.len() {
        let times = rtd(bucketed, index);
        bucket_values(&mut columns, &scenario.response_times, &times.histogram);
    }
    bucket_values(&mut columns, &scenario.call_lengths, &bucketed.call_length.histogram);
    joined(options, &columns)
}

/// The columns before the pairs.
fn first_columns(options: &Options, progress: &Progress, period: &Stats, since: Instant) -> Vec<String> {
    let created = |stats: &Stats| stats.counts[Count::IncomingCall] + stats.counts[Count::OutgoingCall];
    let stamp = |at: Instant| Timestamp::csv(at, options.files.rfc3339).to_string();
    // As in SIPp a reset of the counters is a start.
    let start = progress.counted_from;
    let (span, elapsed) = (progress.now.since(since), progress.now.since(start));
    let total = &progress.total;
    let gauges = &progress.gauges;
    // With `-users` SIPp's TargetRate is the number of users.
    let target = if options.rate.users.is_some() { f64::from(gauges.users) } else { gauges.target_rate };
    let count = |stats: &Stats, count: Count| stats.counts[count].to_string();
    vec![
        stamp(start),
        stamp(since),
        stamp(progress.now),
        clock_seconds(span),
        clock_seconds(elapsed),
        significant(target),
        significant(per_second(created(period), span)),
        significant(per_second(created(total), elapsed)),
        count(period, Count::IncomingCall),
        count(total, Count::IncomingCall),
        count(period, Count::OutgoingCall),
        count(total, Count::OutgoingCall),
        created(total).to_string(),
        gauges.open_calls.to_string(),
    ]
}

/// Six significant digits, no zeros at the end.
fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let mut decimals = 5_usize;
    let mut bound = 10.0;
    while value.abs() >= bound && decimals > 0 {
        bound *= 10.0;
        decimals -= 1;
    }
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Means and standard deviations, of the period and of the run.
fn durations(columns: &mut Vec<String>, period: &Durations, total: &Durations) {
    let of = |value: Option<Duration>| clock_micros(value.unwrap_or_default());
    columns.push(of(period.mean()));
    columns.push(of(total.mean()));
    columns.push(of(period.deviation()));
    columns.push(of(total.deviation()));
}

/// An empty cell under the name, then the counts.
fn bucket_values(columns: &mut Vec<String>, bounds: &[u32], histogram: &Histogram) {
    if bounds.is_empty() {
        return;
    }
    columns.push(String::new());
    columns.extend(buckets(bounds, histogram).into_iter().map(|count| count.to_string()));
}
