//! `ringer sip`: flags, setup, run, exit code.

use super::flags::{Action, Asked, Live, Outputs};
use super::progress_lines::ProgressLines;
use super::setup::{Built, build, no_built_in};
use super::{ExitCode, background, help, parse, version};
use crate::control;
use crate::engine::{Run, Setup};
use crate::scenario::built_in;
use crate::screen::Screens;
use crate::session::{Control, Observer, drive};
use crate::trace::Tracer;

pub(super) fn main(program: &str, arguments: &[String]) -> ExitCode {
    if arguments.is_empty() {
        eprint!("{}", help::sip(program));
        return ExitCode::Fatal;
    }
    match parse(program, arguments) {
        Ok(asked) => act(program, asked),
        Err(misuse) => {
            eprintln!("{misuse}");
            ExitCode::Fatal
        }
    }
}

fn act(program: &str, asked: Asked) -> ExitCode {
    match &asked.action {
        Action::Help => print!("{}", help::sip(program)),
        Action::HelpStat => print!("{}", help::stat()),
        Action::Version => println!("{}", version()),
        Action::Dump(name) => return dump(name),
        Action::Check | Action::Run => return prepared(asked),
    }
    ExitCode::Success
}

fn dump(name: &str) -> ExitCode {
    match built_in(name) {
        Some(text) => {
            print!("{text}");
            ExitCode::Success
        }
        None => {
            eprintln!("{}", no_built_in(name));
            ExitCode::Fatal
        }
    }
}

fn prepared(asked: Asked) -> ExitCode {
    let Asked { options, action, outputs, .. } = asked;
    let Built { setup, warnings } = match build(options) {
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
    if action == Action::Check {
        println!("{}", checked(&setup));
        return ExitCode::Success;
    }
    if setup.options.behaviour.background && !background::is_child() {
        return match background::start() {
            Ok(pid) => {
                println!("Background mode - PID=[{pid}]");
                ExitCode::Success
            }
            Err(error) => {
                eprintln!("Cannot go to the background: {error}");
                ExitCode::Fatal
            }
        };
    }
    run(setup, &outputs)
}

fn checked(setup: &Setup) -> String {
    let scenario = &setup.scenario;
    format!(
        "{}: \"{}\" is right: {} steps, {} variables, {} response-time counters",
        scenario.source.stem(),
        scenario.name,
        scenario.steps.len(),
        scenario.variables.call.len() + scenario.variables.user.len() + scenario.variables.global.len(),
        scenario.rtds.len(),
    )
}

/// Everything is opened before the first call: trace files, control socket, the run's own sockets.
fn run(mut setup: Setup, outputs: &Outputs) -> ExitCode {
    let started = match traced(&mut setup) {
        Ok(()) => begin(&setup),
        Err(why) => Err((why, ExitCode::Fatal)),
    };
    let (mut run, mut controls, screens) = match started {
        Ok(begun) => begun,
        Err((why, code)) => {
            eprintln!("{why}");
            return code;
        }
    };
    let mut observers = observers(&setup, outputs, screens);
    let outcome = drive(&setup, &mut run, &mut observers, &mut controls);
    // The terminal is given back before anything else is said.
    drop(controls);
    for reason in &outcome.limited_by_ringer {
        eprintln!("Ringer was the limit: {reason}");
    }
    ExitCode::of_run(&outcome, setup.options.timers.global_is_error)
}

fn traced(setup: &mut Setup) -> Result<(), String> {
    setup.tracer = Tracer::start(&setup.options, &setup.scenario)?;
    Ok(())
}

type Begun = (Run, Vec<Box<dyn Control>>, Screens);

fn begin(setup: &Setup) -> Result<Begun, (String, ExitCode)> {
    let screens = Screens::new(setup);
    let signals = control::signals::install(screens.remote())
        .map_err(|error| (format!("Cannot listen to signals: {error}"), ExitCode::Fatal))?;
    let socket = control::udp::Socket::bind(&setup.options.network, screens.remote())
        .map_err(|why| (why, ExitCode::Bind))?;
    let run = Run::start(setup.clone()).map_err(|error| (error.message, ExitCode::of_start(error.exit)))?;
    let mut controls: Vec<Box<dyn Control>> = vec![Box::new(signals), Box::new(socket)];
    if !setup.options.behaviour.no_stdin
        && let Some(keys) = control::keys::Terminal::open(screens.remote())
    {
        controls.push(Box::new(keys));
    }
    Ok((run, controls, screens))
}

/// Everyone who watches a run. The live view, the report's recorder and Prometheus join here.
fn observers(setup: &Setup, outputs: &Outputs, screens: Screens) -> Vec<Box<dyn Observer>> {
    let mut observers = crate::trace::observers(setup);
    let _ = (outputs.live == Live::Auto, &outputs.report);
    observers.push(Box::new(ProgressLines::new(setup)));
    observers.push(Box::new(screens));
    observers
}
