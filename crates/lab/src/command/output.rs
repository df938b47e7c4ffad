//! The files of reports: `--report`, `--json`, `--junit`.
//!
//! Checked before a run and written after it, each as a whole (`whole_file`).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lab_report::Report;

use crate::cli::flags::Outputs;
use crate::whole_file;

/// The files that a run's reports are written to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportFiles {
    /// The page, `--report FILE`.
    pub html: Option<PathBuf>,
    /// The report's data, `--json FILE`.
    pub json: Option<PathBuf>,
    /// Thresholds as test cases, `--junit FILE`.
    pub junit: Option<PathBuf>,
}

impl ReportFiles {
    /// Takes `--report FILE`, `--json FILE`, `--junit FILE` from the words; the rest is given back.
    pub fn take(words: &[String]) -> Result<(ReportFiles, Vec<String>), String> {
        let mut files = ReportFiles::default();
        let mut rest = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let slot = match word.as_str() {
                "--report" => &mut files.html,
                "--json" => &mut files.json,
                "--junit" => &mut files.junit,
                // Not ours: left for the command's own parser.
                _ => {
                    rest.push(word.clone());
                    continue;
                }
            };
            let file = words.next().ok_or_else(|| format!("{word}: expected a file name"))?;
            *slot = Some(PathBuf::from(file));
        }
        Ok((files, rest))
    }

    /// The files that the flags of `ringer sip` name.
    pub fn of(outputs: &Outputs) -> ReportFiles {
        ReportFiles { html: outputs.report.clone(), json: outputs.json.clone(), junit: outputs.junit.clone() }
    }

    /// Fails before a long run rather than after it.
    pub fn check(&self) -> Result<(), String> {
        for path in [&self.html, &self.json, &self.junit].into_iter().flatten() {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if !folder.is_dir() {
                return Err(format!("{}: there is no folder {}", path.display(), folder.display()));
            }
            whole_file::check(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Writes what was asked for and gives the paths written. One run is an object in the JSON file, several are a list. A file
/// that cannot be written keeps none of the others from being written.
pub fn write_reports(files: &ReportFiles, title: &str, reports: &[Report]) -> Result<Vec<PathBuf>, String> {
    let (mut written, mut failed) = (Vec::new(), Vec::new());
    // The text is made only for a file that was asked for.
    let mut write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| {
        let Some(path) = path else { return };
        match whole_file::write(path, 0o666, |out| out.write_all(text().as_bytes())) {
            Ok(()) => written.push(fs::canonicalize(path).unwrap_or_else(|_| path.clone())),
            Err(error) => failed.push(format!("{}: {error}; nothing of it was kept", path.display())),
        }
    };
    write(&files.html, &|| lab_report::page(title, reports));
    write(&files.json, &|| {
        let text = match reports {
            [one] => serde_json::to_string_pretty(one),
            several => serde_json::to_string_pretty(several),
        };
        text.expect("a report is plain data")
    });
    write(&files.junit, &|| lab_report::junit(reports));
    if failed.is_empty() { Ok(written) } else { Err(failed.join("\n")) }
}
