//! SIPp's trace files. Shards hand lines to one writer thread over a bounded queue; what a trace does not want costs one branch.
//!
//! Nothing is lost: when the queue is full a shard waits for the writer. A trace of all messages at a rate the disk
//! cannot take therefore slows the run, which its lateness then shows; a log with gaps would not show it.

mod call_debug;
mod counts;
mod log;
mod stat;
#[cfg(test)]
mod tests;
pub mod time;
mod writer;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

pub(crate) use log::is_incomplete;
use parking_lot::Mutex;
use stdx::time::Instant;

use crate::engine::{Outcome, Progress, Setup};
use crate::options::{Options, TraceFile, Transport};
use crate::scenario::Scenario;
use crate::session::Observer;

/// Lines that may wait for the writer: a few megabytes of messages at most.
const QUEUE: usize = 4096;
/// Codes kept between two lines of `-trace_error_codes`: five minutes at 3,000 failures a second.
const CODES: usize = 1 << 20;
/// Errors kept for the screens.
const RECENT: usize = 16;

/// A shard's end of it. Cheap to clone. The default one traces nothing.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    wants: Arc<Wants>,
    queue: SyncSender<Line>,
    recent: Mutex<VecDeque<String>>,
    /// Codes since the last line of `-trace_error_codes`, oldest first.
    codes: Mutex<VecDeque<u16>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// A trace that can be switched while the run goes on, or is on from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    Messages = 1,
    ShortMessages = 2,
    Errors = 4,
    Logs = 8,
    CallDebug = 16,
    ResponseTimes = 32,
    ErrorCodes = 64,
}

/// Bits of [`Trace`]. Relaxed: a line more or less around a switch does not matter.
#[derive(Debug, Default)]
struct Wants(AtomicU8);

impl Wants {
    fn of(options: &Options) -> Wants {
        let files = &options.files;
        let bits = [
            (Trace::Messages, files.messages.on),
            (Trace::ShortMessages, files.short_messages.on),
            (Trace::Errors, files.errors.on),
            (Trace::Logs, files.logs.on),
            (Trace::CallDebug, files.call_debug.on),
            (Trace::ResponseTimes, files.rtt.on),
            (Trace::ErrorCodes, files.error_codes.on),
        ];
        Wants(AtomicU8::new(bits.iter().filter(|(_, on)| *on).map(|(trace, _)| *trace as u8).sum()))
    }

    fn any(&self, bits: u8) -> bool {
        self.0.load(Ordering::Relaxed) & bits != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Sent,
    Received,
}

/// What the writer is handed.
#[derive(Debug)]
enum Line {
    Message {
        at: Instant,
        direction: Direction,
        transport: Transport,
        call_id: Box<[u8]>,
        bytes: Box<[u8]>,
    },
    Error {
        at: Instant,
        text: Box<str>,
    },
    Log(Box<[u8]>),
    CallDebug {
        at: Instant,
        call_id: Box<[u8]>,
        text: Box<str>,
    },
    EndCallDebug {
        call_id: Box<[u8]>,
        failed: bool,
    },
    ResponseTime {
        at: Instant,
        micros: u64,
        rtd: u16,
    },
    /// The run began.
    Begin(Instant),
    /// Everything before it is to be on disk.
    End,
}

impl Tracer {
    /// Opens the files of the traces that are on and starts the writer. `Err` names the file.
    pub fn start(options: &Options, scenario: &Scenario) -> Result<Tracer, String> {
        let wants = Arc::new(Wants::of(options));
        let writer = writer::Writer::open(options, &scenario.source.stem(), Arc::clone(&wants))?;
        let (queue, lines) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || writer.run(&lines))
            .map_err(|error| format!("the trace thread cannot be started: {error}"))?;
        Ok(Tracer(Some(Arc::new(Shared {
            wants,
            queue,
            recent: Mutex::default(),
            codes: Mutex::default(),
            writer: Mutex::new(Some(thread)),
        }))))
    }

    fn wants(&self, bits: u8) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.wants.any(bits))
    }

    /// Turns a trace on or off while the run goes on. Its file is made with the first line.
    pub fn switch(&self, trace: Trace, on: bool) {
        let Some(shared) = &self.0 else { return };
        if on {
            shared.wants.0.fetch_or(trace as u8, Ordering::Relaxed);
        } else {
            shared.wants.0.fetch_and(!(trace as u8), Ordering::Relaxed);
        }
    }

    fn hand(&self, line: Line) {
        if let Some(shared) = &self.0 {
            // The writer is gone only when the run is over; what comes after has nowhere to go.
            let _ = shared.queue.send(line);
        }
    }

    /// `-trace_msg` or `-trace_shortmsg` is on: the engine calls [`Tracer::message`] for every message.
    pub fn wants_messages(&self) -> bool {
        self.wants(Trace::Messages as u8 | Trace::ShortMessages as u8)
    }

    pub fn message(
        &self,
        at: Instant,
        direction: Direction,
        transport: Transport,
        call_id: &[u8],
        bytes: &[u8],
    ) {
        if self.wants_messages() {
            self.hand(Line::Message {
                at,
                direction,
                transport,
                call_id: call_id.into(),
                bytes: bytes.into(),
            });
        }
    }

    /// `-trace_err`; also the last error of the live view.
    pub fn error(&self, at: Instant, text: &str) {
        let Some(shared) = &self.0 else { return };
        {
            let mut recent = shared.recent.lock();
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(text.to_owned());
        }
        if shared.wants.any(Trace::Errors as u8) {
            self.hand(Line::Error { at, text: text.into() });
        }
    }

    /// The last errors, newest last, at most sixteen: for `Progress::errors`.
    pub fn recent_errors(&self) -> Vec<String> {
        self.0.as_ref().map_or_else(Vec::new, |shared| shared.recent.lock().iter().cloned().collect())
    }

    /// `<log>`, `-trace_logs`.
    pub fn log(&self, _at: Instant, text: &[u8]) {
        if self.wants(Trace::Logs as u8) {
            self.hand(Line::Log(text.into()));
        }
    }

    /// `-trace_calldebug`: collected per call, written when it fails.
    pub fn wants_call_debug(&self) -> bool {
        self.wants(Trace::CallDebug as u8)
    }

    pub fn call_debug(&self, at: Instant, call_id: &[u8], text: &str) {
        if self.wants_call_debug() {
            self.hand(Line::CallDebug { at, call_id: call_id.into(), text: text.into() });
        }
    }

    /// `-trace_rtt`.
    pub fn wants_response_times(&self) -> bool {
        self.wants(Trace::ResponseTimes as u8)
    }

    pub fn response_time(&self, at: Instant, micros: u64, rtd: u16) {
        if self.wants_response_times() {
            self.hand(Line::ResponseTime { at, micros, rtd });
        }
    }

    /// The call is over: what was collected of it is written if it failed, and forgotten if not.
    pub fn end_call_debug(&self, call_id: &[u8], failed: bool) {
        if self.wants_call_debug() {
            self.hand(Line::EndCallDebug { call_id: call_id.into(), failed });
        }
    }

    /// `-trace_error_codes`: a response that was not expected.
    pub fn error_code(&self, _at: Instant, code: u16) {
        let Some(shared) = &self.0 else { return };
        if shared.wants.any(Trace::ErrorCodes as u8) {
            let mut codes = shared.codes.lock();
            if codes.len() == CODES {
                codes.pop_front();
            }
            codes.push_back(code);
        }
    }

    /// The codes since the last time, oldest first.
    fn take_error_codes(&self) -> VecDeque<u16> {
        self.0.as_ref().map_or_else(VecDeque::new, |shared| std::mem::take(&mut *shared.codes.lock()))
    }

    /// The run begins: `-trace_rtt` counts its milliseconds from here. Without it, from the first response time.
    pub fn begin(&self, at: Instant) {
        if self.wants_response_times() {
            self.hand(Line::Begin(at));
        }
    }

    /// Waits until everything handed over is written.
    pub fn finish(&self) {
        let Some(shared) = &self.0 else { return };
        let Some(writer) = shared.writer.lock().take() else { return };
        let _ = shared.queue.send(Line::End);
        if writer.join().is_err() {
            eprintln!("The trace writer ended early; its files are not whole");
        }
    }
}

/// `<scenario>_<pid>_<suffix>`, or the name that was given.
pub fn file_name(setup: &Setup, file: &TraceFile, suffix: &str) -> PathBuf {
    name(&setup.scenario.source.stem(), file, suffix)
}

fn name(stem: &str, file: &TraceFile, suffix: &str) -> PathBuf {
    file.file.clone().unwrap_or_else(|| PathBuf::from(format!("{stem}_{}_{suffix}", std::process::id())))
}

/// The statistics files that are on, and the end of the writer.
pub fn observers(setup: &Setup) -> Vec<Box<dyn Observer>> {
    let mut observers: Vec<Box<dyn Observer>> = Vec::new();
    let files = &setup.options.files;
    if files.stat.on {
        observers.push(Box::new(counts::Table::new(setup, counts::Kind::Stat)));
    }
    if files.counts.on {
        observers.push(Box::new(counts::Table::new(setup, counts::Kind::Counts)));
    }
    if files.error_codes.on {
        observers.push(Box::new(counts::Table::new(setup, counts::Kind::ErrorCodes)));
    }
    observers.push(Box::new(Finish));
    observers
}

/// At the end the trace files are whole.
struct Finish;

impl Observer for Finish {
    fn progress(&mut self, _setup: &Setup, _progress: &Progress) {}

    fn ended(&mut self, setup: &Setup, _outcome: &Outcome) {
        setup.tracer.finish();
    }
}
