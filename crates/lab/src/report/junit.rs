//! The report as JUnit XML, for pipelines: a test case a threshold, one for failed calls, one for Ringer's own limit.

use std::fmt::Write;

use super::chart::escape;
use super::model::Report;

pub fn document(report: &Report) -> String {
    let mut cases: Vec<(String, Option<String>)> = Vec::new();
    let limits = &report.limited_by_ringer;
    cases.push(("ringer kept up".to_owned(), (!limits.is_empty()).then(|| limits.join("; "))));
    if report.thresholds.is_empty() {
        let failed = report.totals.failed;
        let causes: Vec<String> =
            report.failures.iter().map(|named| format!("{}: {}", named.name, named.count)).collect();
        cases.push((
            "no call failed".to_owned(),
            (failed > 0).then(|| format!("{failed} failed ({})", causes.join(", "))),
        ));
    }
    for threshold in &report.thresholds {
        let measured = threshold.measured.as_deref().unwrap_or("nothing");
        cases.push((threshold.text.clone(), (!threshold.kept).then(|| format!("measured {measured}"))));
    }
    let failures = cases.iter().filter(|(_, failure)| failure.is_some()).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{:.3}\" timestamp=\"{}\">\n",
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
    out.push_str("</testsuite></testsuites>\n");
    out
}
