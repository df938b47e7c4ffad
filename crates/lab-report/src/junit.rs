//! The report as JUnit XML, for pipelines: a test case a threshold, one for failed calls, one for Ringer's own limit.
//!
//! A run is a test suite. The case "ringer kept up" fails when Ringer was the limit, as all other results say nothing then.

use std::fmt::Write;

use super::chart::escape;
use super::model::Report;

/// The JUnit document of these reports.
pub fn document(reports: &[Report]) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>".to_owned();
    for report in reports {
        suite(&mut out, report);
    }
    out.push_str("</testsuites>\n");
    out
}

/// The outcome of one test case, with the reason in words.
enum CaseOutcome {
    /// As expected.
    Passed,
    /// Not as expected, and why.
    Failed(String),
    /// The run allowed no conclusion.
    Skipped(String),
}

impl CaseOutcome {
    fn failed_if(failed: bool, why: impl FnOnce() -> String) -> CaseOutcome {
        if failed { CaseOutcome::Failed(why()) } else { CaseOutcome::Passed }
    }
}

/// Name and outcome.
type TestCase = (String, CaseOutcome);

/// Without thresholds a run must have no failed call; with them they alone decide.
fn cases(report: &Report) -> Vec<TestCase> {
    let limits = &report.limited_by_ringer;
    let mut cases =
        vec![("ringer kept up".to_owned(), CaseOutcome::failed_if(!limits.is_empty(), || limits.join("; ")))];
    if report.thresholds.is_empty() {
        let failed = report.totals.failed;
        let causes: Vec<String> =
            report.failures.iter().map(|named| format!("{}: {}", named.name, named.count)).collect();
        let name = if report.is_of_users() { "no action failed" } else { "no call failed" };
        let outcome =
            CaseOutcome::failed_if(failed > 0, || format!("{failed} failed ({})", causes.join(", ")));
        cases.push((name.to_owned(), outcome));
    }
    for threshold in &report.thresholds {
        let measured = threshold.measured.as_deref().unwrap_or("nothing");
        let outcome = match threshold.judged {
            true => CaseOutcome::failed_if(!threshold.kept, || format!("measured {measured}")),
            false => CaseOutcome::Skipped(format!("not judged: {measured}")),
        };
        cases.push((threshold.text.clone(), outcome));
    }
    cases
}

/// One suite; its time is that of the run, as single cases have none.
fn suite(out: &mut String, report: &Report) {
    let cases = cases(report);
    let count = |of: fn(&CaseOutcome) -> bool| cases.iter().filter(|(_, outcome)| of(outcome)).count();
    let failures = count(|outcome| matches!(outcome, CaseOutcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, CaseOutcome::Skipped(_)));
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{:.3}\" timestamp=\"{}\">",
        escape(&report.title),
        cases.len(),
        report.seconds,
        escape(&report.started)
    );
    for (name, outcome) in cases {
        let _ = write!(
            out,
            "<testcase classname=\"ringer\" name=\"{}\" time=\"{:.3}\"",
            escape(&name),
            report.seconds
        );
        let (element, message) = match outcome {
            CaseOutcome::Passed => {
                out.push_str("/>\n");
                continue;
            }
            CaseOutcome::Failed(message) => ("failure", message),
            CaseOutcome::Skipped(message) => ("skipped", message),
        };
        let _ = writeln!(out, "><{element} message=\"{}\"/></testcase>", escape(&message));
    }
    out.push_str("</testsuite>\n");
}
