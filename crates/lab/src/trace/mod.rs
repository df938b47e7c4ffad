//! SIPp's trace files: the writer thread of [`lab_sip::trace::Tracer`], and the files of statistics.
//!
//! Shards give lines to a bounded queue by [`Tracer`]; the thread of `writer` takes them and writes files (`log`, `call_debug`). Files with a line
//! every `-fd` (`counts`, `stat`) are observers of the run's thread.

mod call_debug;
mod counts;
mod log;
mod stat;
#[cfg(test)]
mod tests;
pub mod time;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use lab_sip::options::{Options, TraceFile};
use lab_sip::scenario::Scenario;
use lab_sip::trace::{TraceSwitches, Tracer};

pub(crate) use log::is_incomplete;

use crate::engine::{Progress, RunOutcome, Setup};
use crate::session::Observer;

/// Opens the files of the traces that are on and starts the writer. `Err` names the file.
pub fn start(options: &Options, scenario: &Scenario) -> Result<Tracer, String> {
    let switches = Arc::new(TraceSwitches::new(options));
    let writer = writer::TraceWriter::open(options, &scenario.source.stem(), Arc::clone(&switches))?;
    let (tracer, lines) = Tracer::new(switches);
    let thread = std::thread::Builder::new()
        .name("trace".to_owned())
        .spawn(move || writer.run(&lines))
        .map_err(|error| format!("the trace thread cannot be started: {error}"))?;
    tracer.set_writer(thread);
    Ok(tracer)
}

/// `<scenario>_<pid>_<suffix>`, or the name that was given.
pub fn file_name(setup: &Setup, file: &TraceFile, suffix: &str) -> PathBuf {
    name(&setup.scenario.source.stem(), file, suffix)
}

/// The process's id keeps runs of one folder apart.
fn name(stem: &str, file: &TraceFile, suffix: &str) -> PathBuf {
    file.file.clone().unwrap_or_else(|| PathBuf::from(format!("{stem}_{}_{suffix}", std::process::id())))
}

/// The statistics files that are on, and the end of the writer.
pub fn observers(setup: &Setup) -> Vec<Box<dyn Observer>> {
    let mut observers: Vec<Box<dyn Observer>> = Vec::new();
    let files = &setup.options.files;
    if files.stat.on {
        observers.push(Box::new(counts::StatisticsFile::new(setup, counts::TableKind::Stat)));
    }
    if files.counts.on {
        observers.push(Box::new(counts::StatisticsFile::new(setup, counts::TableKind::Counts)));
    }
    if files.error_codes.on {
        observers.push(Box::new(counts::StatisticsFile::new(setup, counts::TableKind::ErrorCodes)));
    }
    observers.push(Box::new(TraceFinisher));
    observers
}

/// At the end the trace files are whole.
struct TraceFinisher;

impl Observer for TraceFinisher {
    fn progress(&mut self, _setup: &Setup, _progress: &Progress) {}

    fn ended(&mut self, setup: &Setup, _outcome: &RunOutcome) {
        setup.tracer.finish();
    }
}
