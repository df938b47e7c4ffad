//! `ringer report FILE.json…`: the page of one run, or several runs side by side, from their JSON.
//!
//! Nothing is measured here: reports are read as `ringer sip --json` and others wrote them, and the page is made anew.

use std::fs;
use std::path::Path;

use lab_report::Report;

use super::compare;
use super::output::{ReportFiles, write_reports};
use crate::cli::ExitCode;

const USAGE: &str = "usage: ringer report RUN.json [MORE.json …] [--report PAGE.html] [--junit FILE.xml]
       ringer report --compare FIRST.json SECOND.json [--tolerance 5%] [--html PAGE.html] [--json FILE]
Makes the page (default: the first file's name with .html) from what `ringer sip --json`, `ringer find --json` or
`ringer run --json` wrote. Several runs are compared in one table above their charts. `ringer report --compare --help` says more
of comparisons.";

/// Runs `ringer report`.
pub fn report(program: &str, words: &[String]) -> ExitCode {
    let done = match words.iter().any(|word| word == "--compare") {
        true if is_for_help(words) => Ok((vec![compare::USAGE.to_owned()], ExitCode::Success)),
        true => compare::compared(words),
        false => work(words).map(|lines| (lines, ExitCode::Success)),
    };
    match done {
        Ok((lines, code)) => {
            lines.iter().for_each(|line| say_line!("{line}"));
            code
        }
        Err(message) => {
            eprintln!("{program}: {message}");
            ExitCode::Fatal
        }
    }
}

fn is_for_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "--help" || word == "-h")
}

/// The words of `ringer report` without `--compare`, understood.
pub(super) struct ReportArguments {
    files: ReportFiles,
    /// Runs as JSON, one at least.
    inputs: Vec<String>,
}

impl ReportArguments {
    pub(super) fn parse(words: &[String]) -> Result<ReportArguments, String> {
        let (mut files, inputs) = ReportFiles::take(words)?;
        let first = inputs.first().ok_or_else(|| format!("no run given\n{USAGE}"))?;
        if let Some(flag) = inputs.iter().find(|word| word.starts_with('-')) {
            return Err(format!("unknown flag {flag}\n{USAGE}"));
        }
        if files == ReportFiles::default() {
            files.html = Some(Path::new(first).with_extension("html"));
        }
        Ok(ReportArguments { files, inputs })
    }
}

/// The paths written, a line each.
fn work(words: &[String]) -> Result<Vec<String>, String> {
    if is_for_help(words) {
        return Ok(vec![USAGE.to_owned()]);
    }
    let ReportArguments { files, inputs } = ReportArguments::parse(words)?;
    files.check()?;
    let mut reports = Vec::new();
    for input in &inputs {
        reports.extend(read(input)?);
    }
    let title = if reports.len() == 1 { reports[0].title.clone() } else { format!("{} runs", reports.len()) };
    let written = write_reports(&files, &title, &reports)?;
    Ok(written.iter().map(|path| path.display().to_string()).collect())
}

/// One report, or a list of them, from a JSON file; a mistake has its line.
pub(super) fn read(input: &str) -> Result<Vec<Report>, String> {
    let text = fs::read_to_string(input).map_err(|error| format!("{input}: {error}"))?;
    let fault =
        |error: serde_json::Error| format!("{input}:{}: not a report of Ringer: {error}", error.line());
    if text.trim_start().starts_with('[') {
        serde_json::from_str(&text).map_err(fault)
    } else {
        serde_json::from_str(&text).map(|report| vec![report]).map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_page_is_made_beside_the_json() {
        let folder = tempfile::tempdir().expect("a folder");
        let json = folder.path().join("run.json");
        let report = Report { title: "a run".to_owned(), ..Report::default() };
        fs::write(&json, serde_json::to_string(&report).expect("plain")).expect("written");
        let lines = work(&words(&json.display().to_string())).expect("a report");
        assert_eq!(lines.len(), 1);
        let page = fs::read_to_string(json.with_extension("html")).expect("the page");
        assert!(page.contains("<h1>a run</h1>"));
        fs::write(&json, serde_json::to_string(&vec![report.clone(), report]).expect("plain"))
            .expect("written");
        work(&words(&json.display().to_string())).expect("a list");
        assert!(fs::read_to_string(json.with_extension("html")).expect("the page").contains("2 runs"));
    }

    #[test]
    fn mistakes_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let broken = folder.path().join("broken.json");
        fs::write(&broken, "{\n\"tool\": 3\n}").expect("written");
        let path = broken.display().to_string();
        for (line, says) in [
            (String::new(), "no run given"),
            ("missing.json".to_owned(), "missing.json: No such file"),
            (path.clone(), "broken.json:2: not a report"),
            (format!("{path} --repor x"), "unknown flag --repor"),
            (format!("{path} --report /nowhere/x.html"), "there is no folder /nowhere"),
        ] {
            let error = work(&words(&line)).expect_err(&line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
