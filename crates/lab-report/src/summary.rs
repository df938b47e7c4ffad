//! The last lines on the terminal: how long it took, what failed and why, before the verdicts on thresholds.
//!
//! Written to standard error by `ringer sip` and `ringer xmpp`, and for each load of a plan to standard output.

use super::model::{NamedTimes, Report, ReportTable, TimeSummary};
use super::tables;

/// Errors shown, and how much of each fits a line or two.
/// Errors shown: the newest.
const ERRORS: usize = 3;
/// Characters of each, a line or two of a terminal.
const ERROR_CHARS: usize = 160;

/// A line each. Users of chat have their times on their screen.
pub fn of(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> = totals(report).collect();
    if let Some(table) = times(report).filter(|_| !report.is_of_users()) {
        lines.extend(tables::text(&table).lines().map(str::to_owned));
    }
    if report.totals.failed > 0 {
        let causes = listed(&report.failures, |name| name.trim_start_matches("Failed"));
        lines.push(format!("{} failed: {causes}", report.totals.failed));
        lines.extend(report.silence.clone());
    }
    if !report.error_codes.is_empty() {
        let codes = listed(&report.error_codes, |name| name);
        lines.push(format!("answers that were not expected: {codes}"));
    }
    // A run without failures may have had harmless errors: they stay in the log.
    let errors = report.errors.iter().filter(|_| report.totals.failed > 0).rev().take(ERRORS);
    lines.extend(errors.map(|error| format!("error: {}", first_line(error))));
    lines
}

/// The totals with their rates; for calls the messages as well. Empty for a run in which nothing was due.
fn totals(report: &Report) -> impl Iterator<Item = String> {
    let totals = &report.totals;
    let ended = totals.successful + totals.failed;
    let all = ended + totals.blocked;
    #[expect(clippy::cast_precision_loss, reason = "calls of a run")]
    let share = 100.0 * totals.successful as f64 / all.max(1) as f64;
    let noun = if report.is_of_users() { "sign-ins and actions" } else { "calls" };
    let done = format!(
        "{noun}: {} ok of {all} ({share:.2} %), {} failed, {} blocked, {:.1} a second",
        totals.successful, totals.failed, totals.blocked, totals.rate
    );
    let messages = format!(
        "messages: {} sent, {} received, {} retransmissions",
        totals.messages_sent, totals.messages_received, totals.retransmissions
    );
    let messages = Some(messages).filter(|_| !report.is_of_users());
    std::iter::once(done).chain(messages).take_while(move |_| all > 0)
}

/// The response times that have values, and the call length.
fn times(report: &Report) -> Option<ReportTable> {
    let response = report.response_times.iter().map(|times| (format!("response {}", times.name), times));
    let all = response.chain([("call length".to_owned(), &report.call_length)]);
    let row = |(name, times): (String, &TimeSummary)| {
        let figures = [times.mean, times.min, times.p50, times.p90, times.p95, times.p99, times.max];
        let figures = figures.into_iter().map(|figure| format!("{figure:.3}"));
        [name, times.n.to_string()].into_iter().chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = all.filter(|(_, times)| times.n > 0).map(row).collect();
    (!rows.is_empty()).then(|| ReportTable {
        head: ["milliseconds", "number", "mean", "min", "p50", "p90", "p95", "p99", "max"]
            .map(str::to_owned)
            .to_vec(),
        measured: rows,
        ..ReportTable::default()
    })
}

/// `486 12, 503 3`: names and numbers by commas.
fn listed(named: &[NamedTimes], show: fn(&str) -> &str) -> String {
    let each: Vec<String> =
        named.iter().map(|named| format!("{} {}", show(&named.name), named.count)).collect();
    each.join(", ")
}

/// The first line of an error, cut at a whole character.
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
            min: 0.5,
            p50: 1.5,
            p90: 3.0,
            p95: 3.5,
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
                "milliseconds  number   mean    min    p50    p90    p95       p99    max",
                "response 1        10  2.000  0.500  1.500  3.000  3.500     4.250  9.000",
                "call length       10  2.000  0.500  1.500  3.000  3.500  5000.000  9.000",
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
            silence: Some("nothing answered".into()),
            errors: vec!["first".into(), "second\nSIP/2.0 404".into(), "x".repeat(500), "last".into()],
            ..Report::default()
        };
        report.totals.failed = 50;
        report.totals.successful = 150;
        let lines = of(&report);
        assert_eq!(lines[0], "calls: 150 ok of 200 (75.00 %), 50 failed, 0 blocked, 0.0 a second");
        assert_eq!(lines[1], "messages: 0 sent, 0 received, 0 retransmissions");
        let lines = &lines[2..];
        assert_eq!(lines[0], "50 failed: UnexpectedMessage 48, TimeoutOnRecv 2");
        assert_eq!(lines[1], "nothing answered");
        let lines = &lines[1..];
        assert_eq!(lines[1], "answers that were not expected: 404 48");
        assert_eq!((lines[2].as_str(), lines[4].as_str()), ("error: last", "error: second"));
        assert_eq!(lines[3].chars().count(), "error: ".len() + ERROR_CHARS + 1);
        assert_eq!(lines.len(), 5);
    }
}
