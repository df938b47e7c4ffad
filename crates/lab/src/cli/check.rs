//! `ringer sip --check`: everything a run would read, and every mistake in it; no call is made.
//!
//! The same steps as before a run (`setup::load`), except that no target is asked for and nothing is bound. Mistakes go to standard error and
//! are counted; warnings go to standard output and leave the exit code 0.

use lab_sip::options::{Options, ScenarioName};
use lab_sip::scenario::model::ScenarioSource;
use lab_sip::scenario::{Scenario, counted, summary};

use super::ExitCode;
use super::setup::{BuiltSetup, load, unknown_global};
use crate::engine::Setup;

/// Prints the result; the exit code is 0 without mistakes, 255 with any.
pub(super) fn check(options: Options) -> ExitCode {
    let name = match &options.scenario.main {
        Some(ScenarioName::File(path)) => path.display().to_string(),
        Some(ScenarioName::BuiltIn(name)) => name.clone(),
        // The default of a run too, as with SIPp.
        None => "uac".to_owned(),
    };
    let loaded = load(options).and_then(|built| match unknown_global(&built.setup) {
        Some(mistake) => Err(vec![mistake]),
        None => Ok(built),
    });
    match loaded {
        Ok(BuiltSetup { setup, warnings }) => {
            for line in told(&setup) {
                say_line!("{line}");
            }
            for warning in warnings {
                say_line!("{warning} (warning)");
            }
            ExitCode::Success
        }
        Err(mistakes) => {
            for mistake in &mistakes {
                eprintln!("{mistake}");
            }
            eprintln!("{name}: {}", counted(mistakes.len(), "mistake"));
            ExitCode::Fatal
        }
    }
}

/// A line for every scenario and every injection file.
fn told(setup: &Setup) -> Vec<String> {
    let scenarios = [Some(&setup.scenario), setup.receive.as_ref(), setup.out_of_call.as_ref()];
    let mut lines: Vec<String> = scenarios
        .into_iter()
        .flatten()
        .map(|scenario| format!("{}: {}", written(scenario), summary(scenario)))
        .collect();
    let injection = &setup.options.injection;
    for (index, path) in injection.files.iter().enumerate() {
        lines.push(format!(
            "{}: {}",
            path.display(),
            counted(setup.files.line_count(index) as usize, "line")
        ));
    }
    lines
}

/// A scenario's name as the operator gave it.
fn written(scenario: &Scenario) -> String {
    match &scenario.source {
        ScenarioSource::File(path) => path.display().to_string(),
        ScenarioSource::BuiltIn(name) => (*name).to_owned(),
    }
}
