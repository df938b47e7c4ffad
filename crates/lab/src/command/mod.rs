//! `ringer report`, `ringer find`, `ringer run`, `ringer record`: what stands beside `ringer sip`. Each takes the name it was called by
//! and the words after it.

mod compare;
mod find;
mod output;
mod record;
mod report;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use find::find;
pub use output::{ReportFiles, write_reports};
pub use record::record;
pub use report::report;
pub use run::run;

use crate::cli;
use crate::engine::Setup;
use crate::plan::LoadCommand;

/// `ringer sip`'s words to a set-up; all mistakes in one text.
fn parse_sip(words: &[String]) -> Result<(Setup, cli::flags::Outputs), String> {
    let asked = cli::parse("ringer sip", words).map_err(|misuse| misuse.to_string())?;
    let built = cli::build(asked.options).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    })?;
    for warning in &built.warnings {
        eprintln!("warning: {warning}");
    }
    Ok((built.setup, asked.outputs))
}

/// The words of a load of a plan, by its command.
fn parse_load(command: LoadCommand, words: &[String]) -> Result<Setup, String> {
    match command {
        LoadCommand::Sip => parse_sip(words).map(|(setup, _)| setup),
        LoadCommand::Xmpp => cli::build_xmpp(words).map(|(setup, _)| setup),
    }
}

/// The words of a command other than `sip` and `xmpp` are understood, as far as this goes without files and a run.
#[cfg(test)]
pub(crate) fn read(command: &str, words: &[String]) -> Result<(), String> {
    match command {
        "find" => find::read(words),
        "run" => run::PlanArguments::parse(words)?.read(),
        "report" if words.iter().any(|word| word == "--compare") => compare::read(words),
        "report" => report::ReportArguments::parse(words).map(drop),
        _ => record::RecordArguments::parse(words).map(drop),
    }
}

/// Set by the first Ctrl-C; the second ends the program.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            // 128 and the number of SIGINT, as shells have it.
            std::process::exit(130);
        }
        eprintln!("ending; once more to end at once");
    })
    .map_err(|error| format!("cannot listen to Ctrl-C: {error}"))?;
    Ok(stop)
}
