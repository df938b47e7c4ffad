//! Metrics of the export of traces of calls (`[telemetry]`).

use std::fmt::Write as _;

use control::TelemetryStatus;

use super::{Kind, head, row};

/// Name, meaning and value of a counter.
type Counter = (&'static str, &'static str, fn(&TelemetryStatus) -> u64);

const TELEMETRY: [Counter; 4] = [
    ("belfry_telemetry_spans_sent_total", "Spans that the collector of traces has taken", |status| {
        status.sent
    }),
    (
        "belfry_telemetry_spans_dropped_total",
        "Spans that were dropped: too many waited for the collector, or it refused them",
        |status| status.dropped,
    ),
    (
        "belfry_telemetry_missed_total",
        "Messages, stanzas, requests and calls that no spans were made of, because there were too many",
        |status| status.missed,
    ),
    ("belfry_telemetry_failures_total", "Requests to the collector of traces that failed", |status| {
        status.failures
    }),
];

/// Nothing of a node without a collector.
pub(super) fn write(out: &mut String, telemetry: Option<&TelemetryStatus>) {
    let Some(telemetry) = telemetry else { return };
    for (name, help, read) in &TELEMETRY {
        head(out, name, Kind::Counter, help);
        let _ = writeln!(out, "{name} {}", read(telemetry));
    }
}

pub(super) fn reference(page: &mut String) {
    page.push_str("\n## Of the export of traces of calls\n\nOf nodes with `[telemetry] otlp`.\n\n| name | kind | meaning |\n|---|---|---|\n");
    TELEMETRY.iter().for_each(|(name, help, _)| row(page, name, Kind::Counter, help));
}
