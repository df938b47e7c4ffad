//! The report as JUnit XML, for pipelines: a test case a threshold, one for failed calls, one for Ringer's own limit.

use std::fmt::Write;

use super::chart::escape;
use super::model::Report;

pub fn document(reports: &[Report]) -> String {
    let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>".to_owned();
    for report in reports {
        suite(&mut out, report);
    }
    out.push_str("</testsuites>\n");
    out
}

/// Name and, when it failed, why.
type Case = (String, Option<String>);

fn cases(report: &Report) -> Vec<Case> {
    let limits = &report.limited_by_ringer;
    let mut cases = vec![("ringer kept up".to_owned(), (!limits.is_empty()).then(|| limits.join("; ")))];
    if report.thresholds.is_empty() {
        let failed = report.totals.failed;
        let causes: Vec<String> =
            report.failures.iter().map(|named| format!("{}: {}", named.name, named.count)).collect();
        let why = (failed > 0).then(|| format!("{failed} failed ({})", causes.join(", ")));
        cases.push(("no call failed".to_owned(), why));
    }
    for threshold in &report.thresholds {
        let measured = threshold.measured.as_deref().unwrap_or("nothing");
        cases.push((threshold.text.clone(), (!threshold.kept).then(|| format!("measured {measured}"))));
    }
    cases
}

fn suite(out: &mut String, report: &Report) {
    let cases = cases(report);
    let failures = cases.iter().filter(|(_, failure)| failure.is_some()).count();
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{:.3}\" timestamp=\"{}\">",
        escape(&report.title),
        cases.len(),
        report.seconds,
        escape(&report.started)
    );
    for (name, failure) in cases {
        let _ = write!(
            out,
            "<testcase classname=\"ringer\" name=\"{}\" time=\"{:.3}\"",
            escape(&name),
            report.seconds
        );
        match failure {
            Some(message) => {
                let _ = writeln!(out, "><failure message=\"{}\"/></testcase>", escape(&message));
            }
            None => out.push_str("/>\n"),
        }
    }
    out.push_str("</testsuite>\n");
}
