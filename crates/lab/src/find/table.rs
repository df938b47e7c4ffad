//! The tutorial's table of cases, a line a run, printed as the search goes.
//!
//! A published case has the same columns as a run, so that both stand under one heading.

use lab_report::Report;

use super::search::{SearchPhase, TrialVerdict};
use crate::plan::model::{PublishedCase, VariedSetting};

/// Column headings and widths.
const COLUMNS: &[(&str, usize)] = &[
    ("case", 16),
    ("-r", 9),
    ("-l", 9),
    ("calls", 9),
    ("seconds", 9),
    ("calls/s", 9),
    ("open", 8),
    ("ok", 9),
    ("failed", 8),
    ("p50 ms", 9),
    ("p99 ms", 9),
    ("", 0),
];

/// Names of columns for users where they differ from those for calls.
const OF_USERS: &[(&str, &str)] =
    &[("-r", "asked/s"), ("-l", "users"), ("calls", "actions"), ("calls/s", "done/s"), ("open", "at once")];

/// The heading of the table of runs.
pub fn head(vary: VariedSetting) -> String {
    let name = |name: &'static str| {
        let of_users = OF_USERS.iter().find(|(of_calls, _)| vary.is_of_users() && *of_calls == name);
        of_users.map_or(name, |(_, of_users)| of_users).to_owned()
    };
    line(COLUMNS.iter().map(|(column, _)| name(column)))
}

/// A published case; what it does not say is a dash.
pub fn seed(case: &PublishedCase) -> String {
    let dash = || "–".to_owned();
    line([
        format!("seed {}", case.name),
        format!("{:.0}", case.rate),
        case.open.to_string(),
        case.calls.to_string(),
        format!("{:.2}", case.seconds),
        format!("{:.3}", case.calls_per_second),
        case.open.to_string(),
        case.ok.to_string(),
        case.failed.to_string(),
        dash(),
        dash(),
        if case.failed == 0 { "good" } else { "bad" }.to_owned(),
    ])
}

/// One run of the search.
pub fn case(
    number: usize,
    phase: SearchPhase,
    rate: f64,
    limit: u64,
    report: &Report,
    verdict: TrialVerdict,
) -> String {
    let totals = &report.totals;
    let first = report.response_times.first().cloned().unwrap_or_default();
    let word = match phase {
        SearchPhase::Ramp => "ramp",
        SearchPhase::Bisect => "bisect",
        SearchPhase::Repeat => "repeat",
        SearchPhase::Confirm => "confirm",
    };
    line([
        format!("{number} {word}"),
        format!("{rate:.1}"),
        limit.to_string(),
        totals.started.to_string(),
        format!("{:.2}", report.seconds),
        format!("{:.1}", totals.rate),
        totals.peak_open.to_string(),
        totals.successful.to_string(),
        totals.failed.to_string(),
        format!("{:.2}", first.p50),
        format!("{:.2}", first.p99),
        match verdict {
            TrialVerdict::Good => "good".to_owned(),
            TrialVerdict::Bad => format!("bad: {}", why(report)),
            TrialVerdict::LimitedByRinger => {
                format!("Ringer was the limit: {}", report.limited_by_ringer.join("; "))
            }
        },
    ])
}

/// The first thing that was wrong.
fn why(report: &Report) -> String {
    let missed = report.thresholds.iter().find(|threshold| threshold.is_missed()).map(|threshold| {
        format!("{} (measured {})", threshold.text, threshold.measured.as_deref().unwrap_or("nothing"))
    });
    let cause = report.failures.first().map(|named| format!("{} {}", named.count, named.name));
    cause.or(missed).unwrap_or_else(|| "nothing was measured".to_owned())
}

/// The cells in their columns.
fn line(cells: impl IntoIterator<Item = String>) -> String {
    let mut out = String::new();
    for (index, (cell, (_, width))) in cells.into_iter().zip(COLUMNS).enumerate() {
        // Names to the left, numbers to the right, the verdict as long as it is.
        match index {
            0 => out.push_str(&format!("{cell:<width$}")),
            _ if *width > 0 => out.push_str(&format!(" {cell:>width$}")),
            _ => {
                out.push_str("  ");
                out.push_str(&cell);
            }
        }
    }
    out.trim_end().to_owned()
}
