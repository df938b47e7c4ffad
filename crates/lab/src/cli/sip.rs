//! `ringer sip`: flags, setup, run, exit code.
//!
//! [`run`] is also the way of `ringer xmpp`: from a compiled setup to the exit code. The order: thresholds and report files are checked, traces
//! and sockets opened, the run begun; observers are made; `drive` returns at the end; then the reasons, the report and the verdicts are told.

use std::io::IsTerminal as _;

use lab_report::{Report, model, summary, tables};
use lab_sip::call::render::SIPP_RELEASE;
use lab_sip::scenario::{built_in, scenario_schema};

use super::check::check;
use super::explain::explain;
use super::flags::{FlagAction, LiveView, Outputs, ParsedArguments};
use super::progress_lines::ProgressLines;
use super::setup::{BuiltSetup, build, no_built_in, unknown_global};
use super::{ExitCode, background, help, parse, version};
use crate::command::{ReportFiles, write_reports};
use crate::engine::{Progress, Run, RunEnd, RunOutcome, Setup, check_reachable};
use crate::prometheus::{DEFAULT_PORT, Exporter};
use crate::report::Recorder;
use crate::screen::{self, ScreenObserver};
use crate::session::{Observer, RunController, drive};
use crate::threshold::Threshold;
use crate::trace;
use crate::watch::ProcessWatch;
use crate::{control, live};
use lab_sip::stats::Count;
use lab_xmpp::XmppLoad;

/// `program` is the name it was called by, for messages.
pub(super) fn main(program: &str, arguments: &[String]) -> ExitCode {
    if arguments.is_empty() {
        eprint!("{}", help::sip(program));
        return ExitCode::Printed;
    }
    match parse(program, arguments) {
        Ok(asked) => act(program, asked),
        Err(misuse) => {
            eprintln!("{misuse}");
            ExitCode::Fatal
        }
    }
}

/// A run, or the action that takes its place. SIPp exits with 99 after it only printed.
fn act(program: &str, asked: ParsedArguments) -> ExitCode {
    match &asked.action {
        FlagAction::Help => say_text!("{}", help::sip(program)),
        FlagAction::HelpStat => say_text!("{}", help::stat()),
        // Scripts written for SIPp look for the features in it.
        FlagAction::Version => say_line!("SIPp v{SIPP_RELEASE}-TLS-PCAP-RTPSTREAM ({}).", version()),
        FlagAction::OwnVersion => {
            say_line!("{}", version());
            return ExitCode::Success;
        }
        FlagAction::Dump(name) => return dump(name),
        FlagAction::Explain(name) => return explain(name, asked.outputs.json.as_deref()),
        FlagAction::Schema => {
            say_text!("{}", scenario_schema());
            return ExitCode::Success;
        }
        FlagAction::Check | FlagAction::Run => return prepared(asked),
    }
    ExitCode::Printed
}

/// `-sd`: the XML of a scenario that comes with the program.
fn dump(name: &str) -> ExitCode {
    match built_in(name) {
        Some(text) => {
            say_text!("{text}");
            ExitCode::Printed
        }
        None => {
            eprintln!("{}", no_built_in(name));
            ExitCode::Fatal
        }
    }
}

/// `--check`, or the run: in the background, if asked for, once nothing of the setup can fail any more.
fn prepared(asked: ParsedArguments) -> ExitCode {
    let ParsedArguments { options, action, outputs, .. } = asked;
    if action == FlagAction::Check {
        return check(options);
    }
    let BuiltSetup { setup, warnings } = match build(options) {
        Ok(built) => built,
        Err(mistakes) => {
            for mistake in &mistakes {
                eprintln!("{mistake}");
            }
            return ExitCode::Fatal;
        }
    };
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    if let Some(mistake) = unknown_global(&setup) {
        eprintln!("{mistake}");
        return ExitCode::UnknownGlobal;
    }
    if setup.options.behaviour.background {
        if !background::is_child() {
            return to_background();
        }
        // A script may send SIGUSR2 as soon as it knows the process id. An error is told when the run begins.
        let _ = control::signals::listen();
        background::detach();
    }
    run(setup, &outputs)
}

/// The one that stays in the foreground made no call, which is 99 as with SIPp.
fn to_background() -> ExitCode {
    match background::start() {
        Ok(pid) => {
            say_line!("Background mode - PID=[{pid}]");
            ExitCode::NoCalls
        }
        Err(error) => {
            eprintln!("Cannot go to the background: {error}");
            ExitCode::Fatal
        }
    }
}

/// Everything is opened before the first call: trace files, control socket, the run's own sockets.
pub(super) fn run(mut setup: Setup, outputs: &Outputs) -> ExitCode {
    let files = ReportFiles::of(outputs);
    let started = files
        .check()
        .and_then(|()| thresholds(outputs))
        .and_then(|thresholds| traced(&mut setup).map(|()| thresholds))
        .map_err(|why| (why, ExitCode::Fatal))
        .and_then(|thresholds| begin(&setup).map(|begun| (begun, thresholds)));
    let ((mut run, mut controls, screens), thresholds) = match started {
        Ok(started) => started,
        Err((why, code)) => {
            eprintln!("{why}");
            return code;
        }
    };
    let unit = if setup.chat.is_some() { "sign-ins/s" } else { "calls/s" };
    let title = format!("{} at {} {unit}", setup.scenario.name, setup.options.rate.calls);
    let recorder = Recorder::new(&title, thresholds, ProcessWatch::new(&outputs.watch));
    let report = recorder.report();
    let mut observers = match observers(&setup, outputs, screens) {
        Ok(observers) => observers,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::Fatal;
        }
    };
    observers.push(Box::new(recorder));
    let outcome = drive(&setup, &mut run, &mut observers, &mut controls);
    // The terminal is given back before anything else is said.
    drop(observers);
    drop(controls);
    if let Some(chat) = setup.chat.as_ref().filter(|_| outcome.end == RunEnd::NoAccounts) {
        eprintln!("{}", no_accounts(chat, outcome.progress.total.counts[Count::FailedNotAuthorized]));
        return ExitCode::Fatal;
    }
    for reason in &outcome.limited_by_ringer {
        eprintln!("Ringer was the limit: {reason}");
    }
    if let Some(limit) = setup.options.timers.global.filter(|_| failed_by_time(&setup, &outcome)) {
        eprintln!(
            "{} timed out: -timeout {} s, and -timeout_error is set",
            setup.scenario.name,
            limit.as_secs_f64()
        );
    }
    let report = report.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let code = exit_code(&setup, &outcome);
    match conclude(&files, &report) {
        // Told when it happened. Without its traces a good run may be worth nothing.
        Ok(true) if code == ExitCode::Success && trace::is_incomplete() => ExitCode::Fatal,
        Ok(true) => code,
        // A fault of the run says more than a threshold that it made miss.
        Ok(false) if matches!(code, ExitCode::Success | ExitCode::CallsFailed) => ExitCode::ThresholdMissed,
        Ok(false) => code,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::Fatal
        }
    }
}

/// How the accounts of a load are made.
fn no_accounts(chat: &XmppLoad, refused: u64) -> String {
    let (people, last) = (&chat.people, chat.people.all().saturating_sub(1));
    format!(
        "no run: the first {refused} sign-ins were all refused with not-authorized. The accounts {} to {} are not at {}, or have \
         other passwords (--name, --password, --users-file). Write them with: ringer xmpp accounts --users {} --domain {} ..., \
         and give them to the server with: belfry account import FILE",
        people.address(0),
        people.address(last),
        chat.target,
        people.count(),
        people.domain(),
    )
}

/// The code of the run. `-m 0` asks for no call, so that none is a good end, as with SIPp.
fn exit_code(setup: &Setup, outcome: &RunOutcome) -> ExitCode {
    match ExitCode::of_run(outcome, setup.options.timers.global_is_error) {
        ExitCode::NoCalls if setup.options.rate.total == Some(0) => ExitCode::Success,
        code => code,
    }
}

/// `-timeout_error` turned the time-out into a failure.
fn failed_by_time(setup: &Setup, outcome: &RunOutcome) -> bool {
    outcome.end == RunEnd::Timeout && setup.options.timers.global_is_error
}

/// Parses all thresholds. One about growth needs a process that is watched.
fn thresholds(outputs: &Outputs) -> Result<Vec<Threshold>, String> {
    let thresholds: Vec<Threshold> =
        outputs.thresholds.iter().map(|text| Threshold::parse(text)).collect::<Result<_, _>>()?;
    let of_growth = thresholds.iter().find(|threshold| threshold.is_of_growth());
    match of_growth.filter(|_| outputs.watch.is_empty()) {
        Some(threshold) => Err(format!(
            "threshold {:?} is of processes that are watched: expected --watch PID|NAME as well",
            threshold.as_str()
        )),
        None => Ok(thresholds),
    }
}

/// Tells times, failures and verdicts, and writes the reports; whether no threshold was missed.
fn conclude(files: &ReportFiles, report: &Report) -> Result<bool, String> {
    report.tables.iter().for_each(|table| eprint!("{}", tables::text(table)));
    summary::of(report).iter().for_each(|line| eprintln!("{line}"));
    report.thresholds.iter().for_each(|threshold| eprintln!("{threshold}"));
    for path in write_reports(files, &report.title, std::slice::from_ref(report))? {
        eprintln!("report: {}", path.display());
    }
    Ok(!report.thresholds.iter().any(model::ThresholdResult::is_missed))
}

/// Opens the trace files that the flags ask for.
fn traced(setup: &mut Setup) -> Result<(), String> {
    setup.tracer = trace::start(&setup.options, &setup.scenario)?;
    Ok(())
}

/// The run, its controllers, and the screens, which the controllers change.
type StartedRun = (Run, Vec<Box<dyn RunController>>, ScreenObserver);

/// Signals and the control socket come before the run, so that a script may use them from the first call on; keys come last, as they change the
/// terminal.
fn begin(setup: &Setup) -> Result<StartedRun, (String, ExitCode)> {
    let screens = ScreenObserver::new(setup);
    let signals = control::signals::install(screens.remote())
        .map_err(|error| (format!("Cannot listen to signals: {error}"), ExitCode::Fatal))?;
    let socket = control::udp::ControlSocket::bind(&setup.options.network, screens.remote())
        .map_err(|why| (why, ExitCode::Bind))?;
    let run = check_reachable(setup).and_then(|()| Run::start(setup.clone()));
    let run = run.map_err(|error| (error.message, ExitCode::of_start(error.exit)))?;
    let mut controls: Vec<Box<dyn RunController>> = vec![Box::new(signals), Box::new(socket)];
    if !setup.options.behaviour.no_stdin
        && let Some(keys) = control::keys::Terminal::open(screens.remote())
    {
        controls.push(Box::new(keys));
    }
    Ok((run, controls, screens))
}

/// All observers of a run but the report's recorder.
fn observers(
    setup: &Setup,
    outputs: &Outputs,
    screens: ScreenObserver,
) -> Result<Vec<Box<dyn Observer>>, String> {
    let mut observers = crate::trace::observers(setup);
    if let Some(address) = &outputs.prometheus {
        let address = super::value::address(address, DEFAULT_PORT, None)?;
        let exporter =
            Exporter::start(address).map_err(|error| format!("--prometheus {address}: {error}"))?;
        observers.push(Box::new(exporter));
    }
    let background = setup.options.behaviour.background;
    // The view needs a terminal that is watched.
    let live = outputs.live == LiveView::Auto && !background && std::io::stdout().is_terminal();
    match live.then(|| live::LiveScreen::start(screens.remote().shown().clone(), sipp_screen)).transpose() {
        Ok(Some(live)) => observers.push(Box::new(live)),
        // A terminal that cannot be drawn on still takes lines.
        Ok(None) | Err(_) => observers.push(Box::new(ProgressLines::new(setup))),
    }
    observers.push(Box::new(screens));
    Ok(observers)
}

/// The screen of a key from 1 to 9.
fn sipp_screen(setup: &Setup, progress: &Progress, key: u8) -> String {
    let page = screen::ScreenPage::of_key(char::from(b'0' + key)).unwrap_or(screen::ScreenPage::Scenario);
    screen::page(setup, progress, page, screen::ScreenFooter::Running)
}
