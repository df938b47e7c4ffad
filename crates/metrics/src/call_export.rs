//! Metrics of receivers of call records (`[calls.export]`), with the receiver as label.

use std::fmt::Write as _;

use control::CallExportStatus;

use super::{Kind, escaped, head, row};

struct CallExportMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&CallExportStatus) -> u64,
}

const CALL_EXPORT: [CallExportMetric; 5] = [
    CallExportMetric {
        name: "belfry_call_export_waiting",
        kind: Kind::Gauge,
        help: "Call records that wait on disk for their receiver",
        read: |export| export.waiting,
    },
    CallExportMetric {
        name: "belfry_call_export_lag_seconds",
        kind: Kind::Gauge,
        help: "Seconds since the end of the oldest call that waits; 0 if none does",
        read: |export| export.lag_seconds,
    },
    CallExportMetric {
        name: "belfry_call_export_sent_total",
        kind: Kind::Counter,
        help: "Call records that their receiver has taken",
        read: |export| export.sent,
    },
    CallExportMetric {
        name: "belfry_call_export_dropped_total",
        kind: Kind::Counter,
        help: "Call records that were not sent: the queue or its disk was full, or the receiver refused them alone",
        read: |export| export.dropped,
    },
    CallExportMetric {
        name: "belfry_call_export_failures_total",
        kind: Kind::Counter,
        help: "Groups of call records that their receiver did not take, and that are sent again",
        read: |export| export.failures,
    },
];

/// Nothing of a node without receivers.
pub(super) fn write(out: &mut String, exports: &[CallExportStatus]) {
    if exports.is_empty() {
        return;
    }
    for metric in &CALL_EXPORT {
        head(out, metric.name, metric.kind, metric.help);
        for export in exports {
            let (receiver, value) = (escaped(&export.receiver), (metric.read)(export));
            let _ = writeln!(out, "{}{{receiver=\"{receiver}\"}} {value}", metric.name);
        }
    }
}

pub(super) fn reference(page: &mut String) {
    page.push_str("\n## Of receivers of call records, with the label `receiver`\n\nThe database or the URL of `[calls.export]`.\n\n| name | kind | meaning |\n|---|---|---|\n");
    CALL_EXPORT.iter().for_each(|metric| row(page, metric.name, metric.kind, metric.help));
}
