//! `ringer report --compare FIRST.json SECOND.json`: each figure of two runs with its difference.
//!
//! The order: the output files are checked, both reports read, their runs paired by position, each pair compared (`lab_report::compare`), then
//! lines, page and JSON are written. Without `--tolerance` the exit code is 0, as nothing was asked to be judged.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use lab_report::compare::{Comparison, compare};
use lab_report::{Report, comparison_page, tables};

use crate::cli::ExitCode;
use crate::whole_file;

/// How the arguments are written.
pub(super) const USAGE: &str = "\
usage: ringer report --compare FIRST.json SECOND.json [--tolerance 5%] [--html PAGE.html] [--json FILE]
Prints each figure of both runs with its difference and share, and marks those that got worse by more than the tolerance
(5 % unless said otherwise). Figures of runs that are not comparable (another scenario, rate or machine, too short, or
Ringer was the limit) are not marked. With --tolerance the exit code is 99 when a figure got worse, and 98 when the runs
are not comparable. Without it the exit code is 0 whatever the figures are, as a run without thresholds does not fail:
give --tolerance where a script or a pipeline is to stop.";

/// The tolerance that figures are marked by when none is given.
const TOLERANCE: f64 = 0.05;

/// The words behind `ringer report --compare`, understood.
#[derive(Debug, Default, PartialEq)]
struct CompareArguments {
    /// Two files, the earlier run first.
    inputs: Vec<String>,
    /// A share, 0.05 for 5 %; `None`: figures are marked by `TOLERANCE` and nothing is judged.
    tolerance: Option<f64>,
    /// The page to write.
    html: Option<PathBuf>,
    /// The comparison as data.
    json: Option<PathBuf>,
}

/// The lines to print, and the exit code.
pub(super) fn compared(words: &[String]) -> Result<(Vec<String>, ExitCode), String> {
    let arguments = CompareArguments::parse(words)?;
    let [first, second] = &arguments.inputs[..] else {
        return Err(format!("{} runs given, expected two\n{USAGE}", arguments.inputs.len()));
    };
    for path in [&arguments.html, &arguments.json].into_iter().flatten() {
        whole_file::check(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let (before, after) = (super::report::read(first)?, super::report::read(second)?);
    // `ringer find` and `ringer run` write lists: the runs of two lists belong together by their place.
    if before.len() != after.len() || before.is_empty() {
        let (count, other) = (before.len(), after.len());
        return Err(format!(
            "{first} has {count} runs and {second} {other}: expected as many, and at least one"
        ));
    }
    let tolerance = arguments.tolerance.unwrap_or(TOLERANCE);
    let pairs: Vec<(Comparison, &Report, &Report)> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (compare(before, after, tolerance), before, after))
        .collect();
    let mut lines = Vec::new();
    for (comparison, ..) in &pairs {
        told(comparison, &mut lines);
    }
    if let Some(path) = &arguments.html {
        write(path, &comparison_page(&pairs))?;
        lines.push(format!("page: {}", path.display()));
    }
    let comparisons: Vec<&Comparison> = pairs.iter().map(|(comparison, ..)| comparison).collect();
    if let Some(path) = &arguments.json {
        let text = match &comparisons[..] {
            [one] => serde_json::to_string_pretty(one),
            several => serde_json::to_string_pretty(several),
        };
        write(path, &text.map_err(|error| format!("{}: {error}", path.display()))?)?;
    }
    let code = if arguments.tolerance.is_some() { code(&comparisons) } else { ExitCode::Success };
    Ok((lines, code))
}

/// The titles, the reasons not to compare, the table and the verdict of one pair.
fn told(comparison: &Comparison, lines: &mut Vec<String>) {
    lines.push(format!("first: {}", comparison.titles[0]));
    lines.push(format!("second: {}", comparison.titles[1]));
    lines.extend(comparison.not_comparable.iter().map(|reason| format!("NOT COMPARABLE: {reason}")));
    lines.extend(tables::text(&comparison.table()).lines().map(str::to_owned));
    lines.push(comparison.verdict());
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    whole_file::write(path, 0o666, |out| out.write_all(text.as_bytes()))
        .map_err(|error| format!("{}: {error}; nothing of it was kept", path.display()))
}

/// In files with several runs a figure that got worse in one pair counts more than another pair that is not comparable. A pair that is not
/// comparable has no figure that got worse.
fn code(comparisons: &[&Comparison]) -> ExitCode {
    if comparisons.iter().any(|comparison| comparison.worse().next().is_some()) {
        ExitCode::ThresholdMissed
    } else if comparisons.iter().any(|comparison| !comparison.not_comparable.is_empty()) {
        ExitCode::RingerWasTheLimit
    } else {
        ExitCode::Success
    }
}

impl CompareArguments {
    fn parse(words: &[String]) -> Result<CompareArguments, String> {
        let mut arguments = CompareArguments::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word}: expected a value"));
            match word.as_str() {
                // The word that chose this command; it may stand anywhere.
                "--compare" => {}
                "--tolerance" => arguments.tolerance = Some(share(value()?)?),
                "--html" | "--report" => arguments.html = Some(PathBuf::from(value()?)),
                "--json" => arguments.json = Some(PathBuf::from(value()?)),
                flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}\n{USAGE}")),
                input => arguments.inputs.push(input.to_owned()),
            }
        }
        Ok(arguments)
    }
}

/// `5%`, or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let parsed = match text.strip_suffix('%') {
        Some(number) => number.trim().parse::<f64>().map(|per_cent| per_cent / 100.0),
        None => text.parse(),
    };
    parsed
        .ok()
        // Up to ten times as much: a larger tolerance would judge nothing.
        .filter(|share| (0.0..=10.0).contains(share))
        .ok_or_else(|| format!("--tolerance {text}: expected a share such as 5%, at most 1000%"))
}

/// The words are understood.
#[cfg(test)]
pub(super) fn read(words: &[String]) -> Result<(), String> {
    CompareArguments::parse(words).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_report::model::{ReportTotals, TimeSummary};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn run(folder: &Path, name: &str, p99: f64) -> String {
        let times = TimeSummary { name: "1".to_owned(), n: 500, p99, ..TimeSummary::default() };
        let report = Report {
            title: name.to_owned(),
            machine: "one".to_owned(),
            seconds: 20.0,
            totals: ReportTotals { successful: 500, started: 500, rate: 25.0, ..ReportTotals::default() },
            response_times: vec![times],
            ..Report::default()
        };
        let path = folder.join(name);
        std::fs::write(&path, serde_json::to_string(&report).expect("plain")).expect("written");
        path.display().to_string()
    }

    #[test]
    fn the_exit_code_follows_the_tolerance() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (run(folder.path(), "a.json", 4.0), run(folder.path(), "b.json", 4.4));
        let page = folder.path().join("page.html");
        let coded = |more: &str| {
            let (lines, code) =
                compared(&words(&format!("--compare {first} {second} {more}"))).expect("right");
            (lines.join("\n"), code)
        };
        let (text, code) = coded("");
        assert!(code == ExitCode::Success && text.contains("WORSE"), "marked, and no more: {text}");
        assert_eq!(coded("--tolerance 5%").1, ExitCode::ThresholdMissed);
        assert_eq!(coded("--tolerance 0.2").1, ExitCode::Success);
        let (text, _) = coded(&format!("--html {0} --json {0}.json", page.display()));
        assert!(text.contains("1 figure got worse by more than 5 %") && text.contains("page: "), "{text}");
        assert!(std::fs::read_to_string(&page).expect("the page").contains("a.json → b.json"));
        let json = std::fs::read_to_string(format!("{}.json", page.display())).expect("the figures");
        assert!(json.contains("\"change\": \"worse\""), "{json}");
    }

    #[test]
    fn runs_that_are_not_comparable_are_no_success() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = run(folder.path(), "a.json", 4.0);
        let slower = std::fs::read_to_string(run(folder.path(), "slower.json", 8.0)).expect("read");
        let second = folder.path().join("b.json");
        std::fs::write(&second, slower.replace("\"one\"", "\"two\"")).expect("written");
        let line = format!("{first} --compare {} --tolerance 5%", second.display());
        let (lines, code) = compared(&words(&line)).expect("right");
        assert_eq!(code, ExitCode::RingerWasTheLimit);
        assert!(lines.contains(&"NOT COMPARABLE: the machines differ: one; two".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("WORSE")), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("not judged: the runs are not comparable"));
    }

    #[test]
    fn mistakes_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = run(folder.path(), "a.json", 4.0);
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let whole = std::fs::read_to_string(&good).expect("read");
        let truncated = file("cut.json", &whole[..whole.len() / 2]);
        let (other, none) = (file("package.json", "{\"name\": \"x\"}"), file("none.json", "[]"));
        for (line, says) in [
            ("--compare".to_owned(), "0 runs given, expected two"),
            (format!("--compare {good}"), "1 runs given, expected two"),
            (format!("--compare {good} missing.json"), "missing.json: No such file"),
            (format!("--compare {good} {truncated}"), "not a report of Ringer: EOF"),
            (format!("--compare {good} {other}"), "not a report of Ringer: missing field"),
            (format!("--compare {good} {none}"), "has 1 runs and"),
            (format!("--compare {good} {good} --tolerance much"), "expected a share such as 5%"),
            (format!("--compare {good} {good} --tolerance -3%"), "expected a share such as 5%"),
            (format!("--compare {good} {good} --tolerance"), "expected a value"),
            (format!("--compare {good} {good} --htm x"), "unknown flag --htm"),
            (format!("--compare {good} {good} --html /nowhere/x.html"), "/nowhere/x.html: No such file"),
        ] {
            let error = compared(&words(&line)).expect_err(&line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
