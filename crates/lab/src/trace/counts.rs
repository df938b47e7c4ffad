//! The files that get a line every `-fd`: statistics, counts of steps, unexpected codes.
//!
//! One [`StatisticsFile`] a kind, each an observer. A line is due when `-fd` has passed since the last one, and one more is written at the end.

use std::fmt::Write as _;

use lab_sip::options::Options;
use lab_sip::scenario::Scenario;
use lab_sip::scenario::model::{SentKind, StepKind};
use lab_sip::stats::Stats;
use stdx::time::Instant;

use super::file_name;
use super::log::{LogFile, LogLimits};
use super::stat;
use super::time::{Timestamp, clock_micros};
use crate::engine::{Progress, RunOutcome, Setup};
use crate::screen::expected;
use crate::session::Observer;

/// The kind of a file, with its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    /// `-trace_stat`.
    Stat,
    /// `-trace_counts`.
    Counts,
    /// `-trace_error_codes`.
    ErrorCodes,
}

/// A file with a line every `-fd`.
pub(super) struct StatisticsFile {
    kind: TableKind,
    log: LogFile,
    /// The counters since the last line, which began at `since`.
    period: Stats,
    since: Option<Instant>,
    /// At least one line was written.
    told: bool,
}

impl StatisticsFile {
    pub(super) fn new(setup: &Setup, kind: TableKind) -> StatisticsFile {
        let files = &setup.options.files;
        let (file, suffix) = match kind {
            TableKind::Stat => (&files.stat, ".csv"),
            TableKind::Counts => (&files.counts, "counts.csv"),
            TableKind::ErrorCodes => (&files.error_codes, "error_codes.csv"),
        };
        let mut log = LogFile::new(file_name(setup, file, suffix), file.append, LogLimits::default());
        match kind {
            TableKind::Stat => log.write(stat::header(&setup.options, &setup.scenario).as_bytes()),
            TableKind::Counts => log.write(counts_header(&setup.options, &setup.scenario).as_bytes()),
            TableKind::ErrorCodes => {}
        }
        log.flush();
        StatisticsFile { kind, log, period: Stats::default(), since: None, told: false }
    }

    /// Writes a line and begins the next period.
    fn line(&mut self, setup: &Setup, progress: &Progress) {
        let since = self.since.unwrap_or(progress.started);
        let line = match self.kind {
            TableKind::Stat => stat::line(setup, progress, &self.period, since),
            TableKind::Counts => counts_line(setup, progress),
            TableKind::ErrorCodes => codes_line(setup, progress),
        };
        self.log.write(line.as_bytes());
        self.log.flush();
        self.period = Stats::default();
        self.since = Some(progress.now);
        self.told = true;
    }
}

impl Observer for StatisticsFile {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        self.period.merge(&progress.interval);
        let since = self.since.unwrap_or(progress.started);
        // Intervals come about every second; one that is due within half of it is due.
        let due = progress.now + std::time::Duration::from_millis(500);
        if due.since(since) >= setup.options.files.stat_period {
            self.line(setup, progress);
        }
    }

    fn ended(&mut self, setup: &Setup, outcome: &RunOutcome) {
        self.period.merge(&outcome.progress.interval);
        self.line(setup, &outcome.progress);
    }
}

/// The first two columns of counts and codes.
fn head(options: &Options, progress: &Progress) -> String {
    let between = &options.files.stat_delimiter;
    let at = Timestamp::csv(progress.now, options.files.rfc3339);
    format!("{at}{between}{}{between}", clock_micros(progress.now.since(progress.counted_from)))
}

/// Columns of `-trace_counts`: as SIPp 3.6 has them, which counts a `nop` as a pause.
pub(super) fn counts_header(options: &Options, scenario: &Scenario) -> String {
    let between = &options.files.stat_delimiter;
    let mut text = format!("CurrentTime{between}ElapsedTime{between}");
    for (index, step) in scenario.steps.iter().enumerate() {
        let (name, columns) = columns(&step.kind);
        for column in columns {
            let _ = write!(text, "{index}_{name}_{column}{between}");
        }
    }
    text.push('\n');
    text
}

/// The name of a step and its columns.
fn columns(kind: &StepKind) -> (String, &'static [&'static str]) {
    match kind {
        StepKind::Send(send) => {
            let name = match &send.what {
                SentKind::Request(method) => method.to_string(),
                SentKind::Response(code) => code.to_string(),
            };
            let columns: &[&str] = match send.retrans {
                Some(_) => &["Sent", "Retrans", "Timeout"],
                None => &["Sent", "Retrans"],
            };
            (name, columns)
        }
        StepKind::Recv(recv) => (expected(&recv.expect), &["Recv", "Retrans", "Timeout", "Unexp"]),
        StepKind::Pause(_) | StepKind::TimeWait(_) | StepKind::Nop => {
            ("Pause".to_owned(), &["Sessions", "Unexp"])
        }
        StepKind::SendCmd { .. } => ("SendCmd".to_owned(), &["Sent"]),
        StepKind::RecvCmd { .. } => ("RecvCmd".to_owned(), &["Recv"]),
    }
}

/// A line of counts since the start of the run.
fn counts_line(setup: &Setup, progress: &Progress) -> String {
    let between = &setup.options.files.stat_delimiter;
    let mut text = head(&setup.options, progress);
    for (index, step) in setup.scenario.steps.iter().enumerate() {
        let counts = progress.total.steps.get(index).copied().unwrap_or_default();
        for column in columns(&step.kind).1 {
            let value = match *column {
                "Retrans" => counts.retransmissions,
                "Timeout" => counts.timeouts,
                "Unexp" => counts.unexpected,
                _ => counts.messages,
            };
            let _ = write!(text, "{value}{between}");
        }
    }
    text.push('\n');
    text
}

/// Every code that came since the line before, the newest first as SIPp 3.6 has them.
fn codes_line(setup: &Setup, progress: &Progress) -> String {
    let mut text = head(&setup.options, progress);
    for code in setup.tracer.take_error_codes().iter().rev() {
        let _ = write!(text, "{code},");
    }
    text.push('\n');
    text
}
