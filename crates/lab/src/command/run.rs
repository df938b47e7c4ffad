//! `ringer run`: a plan on the command line.
//!
//! The order: the plan is read and scaled, its values are filled in and its loads compiled (`PreparedPlan`), the loads run stage by stage
//! (`plan::run`) with a line a second for each, and then tables, verdicts and reports are written.

use std::fs;
use std::path::Path;

use lab_report::{Report, summary, tables};
use lab_sip::stats::Count;

use super::output::{ReportFiles, write_reports};
use super::{parse_load, stop_on_interrupt};
use crate::cli::ExitCode;
use crate::cli::flags::Outputs;
use crate::engine::{Progress, Setup};
use crate::plan::model::PublishedTest;
use crate::plan::{self, Plan, PlanOutcome, PreparedPlan, SHIPPED};
use crate::watch::WatchedProcesses;

const USAGE: &str =
    "usage: ringer run PLAN --target HOST:PORT [--scale X] [--set name=value …] [--watch PID|NAME …]
                  [--report FILE.html] [--json FILE] [--junit FILE]
       ringer run --list          the plans that come with Ringer
       ringer run PLAN --show     the plan's text; copy it to make your own
PLAN is a name of the list or a TOML file. A missed threshold is exit code 99.";

/// Runs `ringer run`.
pub fn run(program: &str, words: &[String]) -> ExitCode {
    if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
        say_line!("{USAGE}");
        return if words.is_empty() { ExitCode::Fatal } else { ExitCode::Success };
    }
    work(words).unwrap_or_else(|message| {
        eprintln!("{program}: {message}");
        ExitCode::Fatal
    })
}

/// The words of `ringer run` and `ringer find --plan`.
#[derive(Debug, Default)]
pub(super) struct PlanArguments {
    /// A shipped plan or a file.
    name: Option<String>,
    /// The server under test, `{target}` in the plan.
    target: Option<String>,
    /// `--set name=value`.
    sets: Vec<(String, String)>,
    /// Processes whose time and memory are measured.
    watch: Vec<String>,
    files: ReportFiles,
    /// Print the names of the shipped plans.
    list: bool,
    /// Print the plan's text.
    show: bool,
    /// The factor of the plan's scaled values.
    scale: Option<f64>,
}

impl PlanArguments {
    pub(super) fn parse(words: &[String]) -> Result<PlanArguments, String> {
        let (files, words) = ReportFiles::take(words)?;
        let mut parsed = PlanArguments { files, ..PlanArguments::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned().ok_or_else(|| format!("{word}: expected a value"));
            match word.as_str() {
                "--list" => parsed.list = true,
                "--show" => parsed.show = true,
                "--plan" => parsed.name = Some(value()?),
                "--target" => parsed.target = Some(value()?),
                "--watch" => parsed.watch.push(value()?),
                "--scale" => {
                    let given = value()?;
                    let scale = given.parse().map_err(|_| format!("--scale {given}: expected a number"))?;
                    parsed.scale = Some(scale);
                }
                "--set" => {
                    let pair = value()?;
                    let (name, value) =
                        pair.split_once('=').ok_or_else(|| format!("--set {pair}: expected name=value"))?;
                    parsed.sets.push((name.to_owned(), value.to_owned()));
                }
                flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}\n{USAGE}")),
                name if parsed.name.is_none() => parsed.name = Some(name.to_owned()),
                other => return Err(format!("{other:?} is one plan too many\n{USAGE}")),
            }
        }
        Ok(parsed)
    }

    /// The plan that is meant is one; a file is not opened.
    #[cfg(test)]
    pub(super) fn read(&self) -> Result<(), String> {
        let is_file = self.name.as_ref().is_some_and(|name| name.ends_with(".toml"));
        if self.list || is_file { Ok(()) } else { self.plan().map(drop) }
    }

    /// Name or path, and text.
    fn text(&self) -> Result<(String, String), String> {
        let name = self.name.clone().ok_or_else(|| format!("no plan given\n{USAGE}"))?;
        // A shipped plan wins over a file of the same name; a path with a folder names the file.
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Ok((name, (*text).to_owned()));
        }
        if !Path::new(&name).exists() {
            let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "{name}: no such file, and no plan of this name: expected one of {}",
                known.join(", ")
            ));
        }
        let text = fs::read_to_string(&name).map_err(|error| format!("{name}: {error}"))?;
        Ok((name, text))
    }

    /// The plan, scaled.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let (name, text) = self.text()?;
        let mut plan = Plan::parse(&text, &name).map_err(|error| error.to_string())?;
        if let Some(scale) = self.scale {
            plan.scale(scale)?;
        }
        Ok(plan)
    }

    /// The plan with its values filled in and its loads compiled.
    pub(super) fn prepare(&self, plan: Plan) -> Result<PreparedPlan, String> {
        let target = self.target.as_deref().ok_or_else(|| "no --target HOST:PORT given".to_owned())?;
        PreparedPlan::new(plan, target, &self.sets, &parse_load)
    }

    /// The same as the flags of `ringer sip` would have named them.
    pub(super) fn outputs(&self) -> Outputs {
        Outputs {
            report: self.files.html.clone(),
            json: self.files.json.clone(),
            junit: self.files.junit.clone(),
            watch: self.watch.clone(),
            ..Outputs::default()
        }
    }
}

/// Lists, shows or runs.
fn work(words: &[String]) -> Result<ExitCode, String> {
    let words = PlanArguments::parse(words)?;
    if words.list {
        for (name, text) in SHIPPED {
            let plan = Plan::parse(text, name).map_err(|error| error.to_string())?;
            say_line!("{name:<16} {}", plan.about);
        }
        return Ok(ExitCode::Success);
    }
    let plan = words.plan()?;
    if words.show {
        say_text!("{}", words.text()?.1);
        return Ok(ExitCode::Success);
    }
    words.files.check()?;
    let (about, needs) = (plan.about.clone(), plan.needs.clone());
    let prepared = words.prepare(plan)?;
    eprintln!("{about}");
    if !needs.is_empty() {
        eprintln!("needs {needs}");
    }
    let stop = stop_on_interrupt()?;
    let watched = WatchedProcesses::new(&words.watch);
    let meter = || watched.meter();
    let finished =
        plan::run(&prepared, &meter, &stop, &mut |name, setup, progress| line(name, setup, progress))?;
    print_results(&finished, prepared.plan.seed.as_ref());
    let reports: Vec<Report> = finished.reports.iter().map(|(_, report)| report.clone()).collect();
    for path in write_reports(&words.files, &about, &reports)? {
        say_line!("report: {}", path.display());
    }
    Ok(code(&finished))
}

/// Ringer's own limit comes first: its figures judge nothing.
fn code(finished: &PlanOutcome) -> ExitCode {
    if finished.limited_by_ringer() {
        ExitCode::RingerWasTheLimit
    } else if finished.passed() {
        ExitCode::Success
    } else {
        ExitCode::ThresholdMissed
    }
}

/// One interval of one load.
fn line(name: &str, setup: &Setup, progress: &Progress) {
    let (now, all) = (&progress.interval.counts, &progress.total.counts);
    let p99 = progress.interval.rtds.first().and_then(|timer| timer.service.quantile(0.99));
    let p99 = p99.map_or_else(String::new, |p99| format!("  p99 {:.2} ms", p99.as_secs_f64() * 1e3));
    let stage = progress.gauges.stage_told();
    let stage = if stage.is_empty() { stage } else { format!("  {stage}") };
    eprintln!(
        "{:>4} s  {name:<10} {:>7} started  {:>7} ok  {:>5} failed  {:>6} open{p99}{stage}",
        progress.now.since(progress.started).as_secs(),
        now[Count::OutgoingCall] + now[Count::IncomingCall],
        now[Count::SuccessfulCall],
        all[Count::FailedCall],
        progress.gauges.open_calls,
    );
    // Errors of calls stand in the error log of their load.
    if let Some(error) = progress.errors.last().filter(|_| setup.chat.is_some()) {
        eprintln!("        {error}");
    }
}

/// The tables of published figures, then the verdicts of each load.
fn print_results(finished: &PlanOutcome, seed: Option<&PublishedTest>) {
    // The loads of a plan watch the same processes: once is enough.
    let shown = |name: &str| seed.is_none_or(|seed| seed.generator == name);
    for (_, report) in finished.reports.iter().filter(|(name, _)| shown(name)) {
        report.tables.iter().for_each(|table| say_text!("{}", tables::text(table)));
    }
    for (name, report) in &finished.reports {
        summary::of(report).iter().for_each(|line| say_line!("{name}: {line}"));
        report.thresholds.iter().for_each(|threshold| say_line!("{name}: {threshold}"));
        for reason in &report.limited_by_ringer {
            say_line!("{name}: Ringer was the limit, the run does not count: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PlanArguments, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        PlanArguments::parse(&words)
    }

    #[test]
    fn words_are_understood() {
        let words = parse("cgp-r4 --target 127.0.0.1:5060 --set rate=10 --watch belfry --report r.html")
            .expect("right");
        assert_eq!(words.name.as_deref(), Some("cgp-r4"));
        assert_eq!(words.sets, [("rate".to_owned(), "10".to_owned())]);
        assert!(words.plan().is_ok());
    }

    #[test]
    fn mistakes_name_the_expected_input() {
        for (text, says) in [
            ("cgp-r9", "expected one of cgp-r1"),
            ("", "no plan given"),
            ("cgp-r1 --targe x", "unknown flag --targe"),
            ("cgp-r1 --set rate", "expected name=value"),
            ("cgp-r1 cgp-r2", "one plan too many"),
        ] {
            let error = parse(text).and_then(|words| words.plan().map(|_| ())).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        let words = parse("cgp-r1").expect("right");
        let error = words.prepare(words.plan().expect("shipped")).err().expect("no target");
        assert!(error.contains("no --target"), "{error}");
    }
}
