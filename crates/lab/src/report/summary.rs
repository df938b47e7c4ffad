//! The last lines on the terminal: how long it took, what failed and why, before the verdicts on thresholds.

use super::model::{NamedTimes, Report, ReportTable, TimeSummary};
use super::tables;

/// Errors shown, and how much of each fits a line or two.
const ERRORS: usize = 3;
const ERROR_CHARS: usize = 160;

/// A line each. Users of chat have their times on their screen.
pub fn of(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(table) = times(report).filter(|_| !report.is_of_users()) {
        lines.extend(tables::text(&table).lines().map(str::to_owned));
    }
    if report.totals.failed > 0 {
        let causes = listed(&report.failures, |name| name.trim_start_matches("Failed"));
        lines.push(format!("{} failed: {causes}", report.totals.failed));
    }
    if !report.error_codes.is_empty() {
        let codes = listed(&report.error_codes, |name| name);
        lines.push(format!("answers that were not expected: {codes}"));
    }
    let errors = report.errors.iter().filter(|_| report.totals.failed > 0).rev().take(ERRORS);
    lines.extend(errors.map(|error| format!("error: {}", first_line(error))));
    lines
}

fn times(report: &Report) -> Option<ReportTable> {
    let response = report.response_times.iter().map(|times| (format!("response {}", times.name), times));
    let all = response.chain([("call length".to_owned(), &report.call_length)]);
    let row = |(name, times): (String, &TimeSummary)| {
        let figures = [times.mean, times.p50, times.p90, times.p99, times.max];
        let figures = figures.into_iter().map(|figure| format!("{figure:.3}"));
        [name, times.n.to_string()].into_iter().chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = all.filter(|(_, times)| times.n > 0).map(row).collect();
    (!rows.is_empty()).then(|| ReportTable {
        head: ["milliseconds", "number", "mean", "p50", "p90", "p99", "max"].map(str::to_owned).to_vec(),
        measured: rows,
        ..ReportTable::default()
    })
}

fn listed(named: &[NamedTimes], show: fn(&str) -> &str) -> String {
    let each: Vec<String> =
        named.iter().map(|named| format!("{} {}", show(&named.name), named.count)).collect();
    each.join(", ")
}

fn first_line(error: &str) -> String {
    let first = error.lines().next().unwrap_or_default();
    match first.char_indices().nth(ERROR_CHARS) {
        Some((cut, _)) => format!("{}…", &first[..cut]),
        None => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(name: &str, p99: f64) -> TimeSummary {
        TimeSummary {
            name: name.to_owned(),
            n: 10,
            mean: 2.0,
            p50: 1.5,
            p90: 3.0,
            p99,
            max: 9.0,
            ..TimeSummary::default()
        }
    }

    #[test]
    fn a_run_of_calls_has_its_percentiles() {
        let report = Report {
            response_times: vec![times("1", 4.25)],
            call_length: times("call length", 5_000.0),
            ..Report::default()
        };
        assert_eq!(
            of(&report),
            [
                "milliseconds  number   mean    p50    p90       p99    max",
                "response 1        10  2.000  1.500  3.000     4.250  9.000",
                "call length       10  2.000  1.500  3.000  5000.000  9.000",
            ]
        );
        assert!(of(&Report::default()).is_empty());
    }

    #[test]
    fn failures_have_their_causes() {
        let named = |name: &str, count| NamedTimes { name: name.to_owned(), count };
        let mut report = Report {
            failures: vec![named("FailedUnexpectedMessage", 48), named("FailedTimeoutOnRecv", 2)],
            error_codes: vec![named("404", 48)],
            errors: vec!["first".into(), "second\nSIP/2.0 404".into(), "x".repeat(500), "last".into()],
            ..Report::default()
        };
        report.totals.failed = 50;
        let lines = of(&report);
        assert_eq!(lines[0], "50 failed: UnexpectedMessage 48, TimeoutOnRecv 2");
        assert_eq!(lines[1], "answers that were not expected: 404 48");
        assert_eq!((lines[2].as_str(), lines[4].as_str()), ("error: last", "error: second"));
        assert_eq!(lines[3].chars().count(), "error: ".len() + ERROR_CHARS + 1);
        assert_eq!(lines.len(), 5);
    }
}
