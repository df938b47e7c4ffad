//! `ringer find`: the search on the command line.
//!
//! Three ways lead to a [`SearchRequest`]: flags of `ringer sip`, of `ringer xmpp`, or a plan with `[find]`. The search then runs in
//! `find::Searcher`, which prints its table as it goes; here are the verdict in words and the exit code.

use std::sync::Arc;
use std::time::Duration;

use lab_report::Report;

use super::output::{ReportFiles, write_reports};
use super::{parse_load, parse_sip, run::PlanArguments, stop_on_interrupt};
use crate::cli::ExitCode;
use crate::cli::flags::Outputs;
use crate::engine::Setup;
use crate::find::search::{SearchOutcome, TrialVerdict};
use crate::find::{FindArguments, OPTIONS, SearchResult, Searcher, USER_OPTIONS, table};
use crate::plan::model::VariedSetting;
use crate::plan::{LoadCommand, Plan};
use crate::threshold::Threshold;
use crate::watch::WatchedProcesses;

const USAGE: &str = "usage: ringer find [flags of ringer sip] TARGET
       ringer find xmpp TARGET [flags of ringer xmpp]
       ringer find --plan NAME|FILE --target HOST:PORT [--set name=value]
Searches the highest rate, or number of open calls or of users, with zero failures and every threshold kept: a ramp,
bisection with repeats, then a confirming run (RFC 7502). Every run is a line of the table; Ctrl-C ends the search.";

/// Runs `ringer find`.
pub fn find(program: &str, words: &[String]) -> ExitCode {
    if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
        say_line!("{}", usage());
        return if words.is_empty() { ExitCode::Fatal } else { ExitCode::Success };
    }
    work(words).unwrap_or_else(|message| {
        eprintln!("{program}: {message}");
        ExitCode::Fatal
    })
}

fn usage() -> String {
    let mut out = format!("{USAGE}\n");
    let list = |options: &[(&str, &str)]| -> String {
        options.iter().map(|(option, help)| format!("  {option:<26} {help}\n")).collect()
    };
    out.push_str(&list(OPTIONS));
    out.push_str("with xmpp, in place of -r and -l, and --factor to --confirm-at-most as above:\n");
    out.push_str(&list(USER_OPTIONS));
    out.push_str("  --report, --json, --junit, --threshold, --watch as for ringer sip");
    out
}

/// The search, from flags or from a plan.
struct SearchRequest {
    /// The setting to vary, its range and the method.
    arguments: FindArguments,
    /// The load; each run changes the varied setting.
    setup: Setup,
    /// Reports, thresholds and watched processes.
    outputs: Outputs,
    /// Published cases to print above the search's own.
    seed: Option<crate::plan::model::PublishedTest>,
    /// The plan's files stay while it is searched.
    _plan: Option<crate::plan::PreparedPlan>,
}

/// Reads the words, checks everything that can be checked, searches, and writes the reports of all runs.
fn work(words: &[String]) -> Result<ExitCode, String> {
    let wanted = match words.split_first() {
        Some((first, words)) if first == "xmpp" => of_users(words)?,
        _ if words.iter().any(|word| word == "--plan") => of_plan(words)?,
        _ => of_flags(words)?,
    };
    let texts = wanted.outputs.thresholds.iter();
    let thresholds: Vec<Threshold> = texts.map(|text| Threshold::parse(text)).collect::<Result<_, _>>()?;
    let files = ReportFiles::of(&wanted.outputs);
    files.check()?;
    let stop = stop_on_interrupt()?;
    if let Some(seed) = &wanted.seed {
        say_line!("{}", seed.title);
        say_line!("{}", table::head(wanted.arguments.vary));
        seed.case.iter().for_each(|case| say_line!("{}", table::seed(case)));
        say_line!();
    }
    // A meter for each run: its processor time counts from the start of the run.
    let watched = WatchedProcesses::new(&wanted.outputs.watch);
    let meter = || watched.meter();
    let mut searcher = Searcher {
        setup: &wanted.setup,
        parse_xmpp: &|words| parse_load(LoadCommand::Xmpp, words),
        arguments: &wanted.arguments,
        thresholds: &thresholds,
        meter: &meter,
        stop: &stop,
        print: &mut |line| say_line!("{line}"),
        observers: &Vec::new,
    };
    let searched = searcher.run()?;
    let (text, code) = conclusion(&searched, wanted.arguments.vary);
    say_line!("\n{text}");
    let reports: Vec<Report> = searched.runs.into_iter().map(|(_, _, report)| report).collect();
    for path in write_reports(&files, &text, &reports)? {
        say_line!("report: {}", path.display());
    }
    Ok(code)
}

/// `ringer find` with the flags of `ringer sip`.
fn of_flags(words: &[String]) -> Result<SearchRequest, String> {
    let arguments = FindArguments::split(words)?;
    let (setup, outputs) = parse_sip(&arguments.rest)?;
    Ok(SearchRequest { arguments, setup, outputs, seed: None, _plan: None })
}

/// `ringer find xmpp` with the flags of `ringer xmpp`.
fn of_users(words: &[String]) -> Result<SearchRequest, String> {
    let arguments = FindArguments::split_xmpp(words)?;
    let (setup, outputs) = crate::cli::build_xmpp(&arguments.rest)?;
    Ok(SearchRequest { arguments, setup, outputs, seed: None, _plan: None })
}

/// `ringer find --plan`: range and load come from the plan, the method from the flags.
fn of_plan(words: &[String]) -> Result<SearchRequest, String> {
    // The search's own options may stand among the plan's words.
    let mut arguments = FindArguments::split(words)?;
    let words = PlanArguments::parse(&arguments.rest)?;
    let plan: Plan = words.plan()?;
    let find = plan
        .find
        .clone()
        .ok_or_else(|| "this plan has no [find]: expected one with generator, vary, from, to".to_owned())?;
    let prepared = words.prepare(plan)?;
    let load = prepared.loads.iter().find(|load| load.generator.name == find.generator);
    let load = load.ok_or_else(|| format!("no generator is called {:?}", find.generator))?;
    let mut setup = load.setup.clone();
    // A rate a second, whatever period the load's own `-rp` has.
    if let Some(rate) = find.rate {
        let mut options = (*setup.options).clone();
        options.rate.calls = rate * options.rate.period.as_secs_f64();
        setup.options = Arc::new(options);
    }
    let outputs = Outputs { thresholds: load.generator.thresholds.clone(), ..words.outputs() };
    arguments.vary = find.vary;
    (arguments.search.from, arguments.search.to) = (find.from, find.to);
    // Whole calls; an even number of users, as contacts are mutual; rates have no unit.
    arguments.search.unit = match find.vary {
        VariedSetting::Open => 1.0,
        VariedSetting::Users => 2.0,
        VariedSetting::Rate | VariedSetting::Actions | VariedSetting::Logins => 0.0,
    };
    if find.vary.is_of_users() != setup.chat.is_some() {
        return Err(format!(
            "[find] of generator {:?}: expected vary = rate or open for calls, users, actions or logins for users",
            find.generator
        ));
    }
    arguments.step = arguments.step.or(find.seconds.map(Duration::from_secs));
    let seed = prepared.plan.seed.clone();
    Ok(SearchRequest { arguments, setup, outputs, seed, _plan: Some(prepared) })
}

/// The words are understood; a plan that is a file is not opened.
#[cfg(test)]
pub(super) fn read(words: &[String]) -> Result<(), String> {
    match words.split_first() {
        Some((first, words)) if first == "xmpp" => of_users(words).map(drop),
        _ if words.iter().any(|word| word == "--plan") => {
            PlanArguments::parse(&FindArguments::split(words)?.rest)?.read()
        }
        _ => {
            let rest = FindArguments::split(words)?.rest;
            crate::cli::parse("ringer find", &rest).map(drop).map_err(|mistake| mistake.to_string())
        }
    }
}

/// The result in one sentence. A search that Ringer itself ended is told apart from one that the server ended.
fn conclusion(searched: &SearchResult, vary: VariedSetting) -> (String, ExitCode) {
    let unit = match vary {
        VariedSetting::Rate => "calls a second",
        VariedSetting::Open => "calls open at once",
        VariedSetting::Users => "users",
        VariedSetting::Actions => "actions of users a second",
        VariedSetting::Logins => "sign-ins a second",
    };
    let what = if vary.is_of_users() { "actions" } else { "calls" };
    // The last good run is the confirming one when something was found.
    let confirmed = searched.runs.iter().rev().find(|(_, verdict, _)| *verdict == TrialVerdict::Good);
    let calls = confirmed.map_or(0, |(_, _, report)| report.totals.successful);
    match searched.found {
        Some(SearchOutcome::Highest(value)) => (
            format!("found: {value:.1} {unit}, confirmed with {calls} {what} and no failure"),
            ExitCode::Success,
        ),
        Some(SearchOutcome::AtLeast(value)) => (
            format!(
                "found: at least {value:.1} {unit} (the end of the range), confirmed with {calls} {what}"
            ),
            ExitCode::Success,
        ),
        Some(SearchOutcome::RingerEndedAt(Some(value))) => (
            format!("not found: Ringer was the limit; the server carried {value:.1} {unit}"),
            ExitCode::RingerWasTheLimit,
        ),
        Some(SearchOutcome::RingerEndedAt(None)) => {
            ("not found: Ringer was the limit at the lowest value".to_owned(), ExitCode::RingerWasTheLimit)
        }
        Some(SearchOutcome::Nothing) => (
            format!("not found: the lowest value already failed; try a lower number of {unit}"),
            ExitCode::ThresholdMissed,
        ),
        Some(SearchOutcome::NotConfirmed(value)) => {
            (format!("not found: {value:.1} {unit} did not survive a longer run"), ExitCode::ThresholdMissed)
        }
        None => ("stopped".to_owned(), ExitCode::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(load: &str, vary: &str) -> Result<SearchRequest, String> {
        let text = format!(
            "about = \"x\"\n[[generator]]\nname = \"a\"\n{load}\n[find]\ngenerator = \"a\"\nvary = \"{vary}\"\nfrom = 10\nto = 100\n"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("plan.toml");
        std::fs::write(&file, text).expect("written");
        let words = ["--plan", &file.display().to_string(), "--target", "127.0.0.1:5222"].map(str::to_owned);
        of_plan(&words)
    }

    #[test]
    fn a_plan_names_the_varied_setting_of_calls_or_users() {
        let (calls, users) = ("sip = [\"-sn\", \"uac\", \"{target}\"]", "xmpp = [\"{target}\"]");
        for (load, vary, unit) in [
            (calls, "rate", 0.0),
            (calls, "open", 1.0),
            (users, "users", 2.0),
            (users, "actions", 0.0),
            (users, "logins", 0.0),
        ] {
            let wanted = plan(load, vary).unwrap_or_else(|error| panic!("{vary}: {error}"));
            let search = &wanted.arguments.search;
            assert_eq!((search.from, search.to, search.unit), (10.0, 100.0, unit), "{vary}");
        }
        for (load, vary) in [(calls, "users"), (users, "rate")] {
            let error = plan(load, vary).err().expect(vary);
            assert!(error.contains("expected vary = rate or open for calls"), "{error}");
        }
    }

    #[test]
    fn users_are_found_by_their_own_flags() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let wanted = of_users(&words("127.0.0.1 --search logins --from 5 --to 9 --users 50")).expect("right");
        assert_eq!(wanted.arguments.vary, VariedSetting::Logins);
        assert!(wanted.outputs.thresholds.iter().any(|threshold| threshold == "lost == 0"));
        for (text, says) in [("127.0.0.1 -r 1..2", "unknown flag -r"), ("--from 1", "no target")] {
            assert!(of_users(&words(text)).err().expect(text).contains(says), "{text}");
        }
    }
}
