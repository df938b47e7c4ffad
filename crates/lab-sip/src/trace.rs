//! The traces of a run, as calls and shards see them: a line goes to one writer thread over a bounded queue; a line of a trace that
//! is off costs one branch. The writer and the files are `lab::trace`'s.
//!
//! Nothing is lost: when the queue is full a shard waits for the writer. A trace of all messages at a rate the disk
//! cannot take therefore slows the run, which its lateness then shows; a log with gaps would not show it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use stdx::time::Instant;

use crate::options::{Options, Transport};

/// Lines that may wait for the writer: a few megabytes of messages at most.
const QUEUE: usize = 4096;
/// Codes kept between two lines of `-trace_error_codes`: five minutes at 3,000 failures a second.
const CODES: usize = 1 << 20;
/// Errors kept for the screens.
const RECENT: usize = 16;

/// A shard's end of it. Cheap to clone. The default one traces nothing.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<TracerState>>);

#[derive(Debug)]
struct TracerState {
    /// Shared with the writer.
    switches: Arc<TraceSwitches>,
    /// To the writer; a full queue blocks.
    queue: SyncSender<TraceLine>,
    /// The last errors, for the screens.
    recent: Mutex<VecDeque<String>>,
    /// Codes since the last line of `-trace_error_codes`, oldest first.
    codes: Mutex<VecDeque<u16>>,
    /// The thread to wait for at the end.
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// A trace that can be switched while the run goes on, or is on from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// `-trace_msg`.
    Messages = 1,
    /// `-trace_shortmsg`.
    ShortMessages = 2,
    /// `-trace_err`.
    Errors = 4,
    /// `-trace_logs`.
    Logs = 8,
    /// `-trace_calldebug`.
    CallDebug = 16,
    /// `-trace_rtt`.
    ResponseTimes = 32,
    /// `-trace_error_codes`.
    ErrorCodes = 64,
}

/// The traces that are on: bits of [`Trace`]. Relaxed: a line more or less around a switch does not matter.
#[derive(Debug, Default)]
pub struct TraceSwitches(AtomicU8);

impl TraceSwitches {
    /// The traces that the options turn on.
    pub fn new(options: &Options) -> TraceSwitches {
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
        TraceSwitches(AtomicU8::new(bits.iter().filter(|(_, on)| *on).map(|(trace, _)| *trace as u8).sum()))
    }

    /// The trace is on.
    pub fn is_on(&self, trace: Trace) -> bool {
        self.any(trace as u8)
    }

    /// At least one trace of `bits` is on.
    fn any(&self, bits: u8) -> bool {
        self.0.load(Ordering::Relaxed) & bits != 0
    }
}

/// The direction of a traced message, as seen from Ringer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From Ringer to the peer.
    Sent,
    /// From the peer to Ringer.
    Received,
}

/// An entry for the writer thread of the trace files.
#[derive(Debug)]
pub enum TraceLine {
    /// For the logs of messages, long and short.
    Message {
        /// The time at which it was sent or received.
        at: Instant,
        /// Sent or received.
        direction: Direction,
        /// The transport, named in the entry.
        transport: Transport,
        /// The Call-ID, for the short log.
        call_id: Box<[u8]>,
        /// The message, as on the wire.
        bytes: Box<[u8]>,
    },
    /// For the error log.
    Error {
        /// The time of the event.
        at: Instant,
        /// One or more lines, without the time.
        text: Box<str>,
    },
    /// A text of `<log>`, rendered.
    Log(Box<[u8]>),
    /// For the history of one call, which is held until the call ends.
    CallDebug {
        /// The time of the event.
        at: Instant,
        /// The Call-ID, which names the history.
        call_id: Box<[u8]>,
        /// One line, without the time.
        text: Box<str>,
    },
    /// A call ended: its history is written or dropped.
    EndCallDebug {
        /// The Call-ID, which names the history.
        call_id: Box<[u8]>,
        /// True: the history is written.
        failed: bool,
    },
    /// For the log of response times.
    ResponseTime {
        /// The end of the response time.
        at: Instant,
        /// The response time, in microseconds.
        micros: u64,
        /// The name of the counter: each scenario of the run has its own.
        name: Box<str>,
    },
    /// The run began.
    Begin(Instant),
    /// Everything before it is to be on disk.
    End,
}

impl Tracer {
    /// A tracer and the queue that its writer reads; [`Tracer::set_writer`] hands over the thread that does so.
    pub fn new(switches: Arc<TraceSwitches>) -> (Tracer, Receiver<TraceLine>) {
        let (queue, lines) = sync_channel(QUEUE);
        let state = TracerState {
            switches,
            queue,
            recent: Mutex::default(),
            codes: Mutex::default(),
            writer: Mutex::default(),
        };
        (Tracer(Some(Arc::new(state))), lines)
    }

    /// The thread that [`Tracer::finish`] waits for.
    pub fn set_writer(&self, writer: JoinHandle<()>) {
        if let Some(state) = &self.0 {
            *state.writer.lock() = Some(writer);
        }
    }

    fn is_on(&self, bits: u8) -> bool {
        self.0.as_ref().is_some_and(|state| state.switches.any(bits))
    }

    /// Turns a trace on or off while the run goes on. Its file is made with the first line.
    pub fn switch(&self, trace: Trace, on: bool) {
        let Some(state) = &self.0 else { return };
        if on {
            state.switches.0.fetch_or(trace as u8, Ordering::Relaxed);
        } else {
            state.switches.0.fetch_and(!(trace as u8), Ordering::Relaxed);
        }
    }

    /// Waits while the queue is full.
    fn send(&self, line: TraceLine) {
        if let Some(state) = &self.0 {
            // The writer is gone only when the run is over; what comes after has nowhere to go.
            let _ = state.queue.send(line);
        }
    }

    /// `-trace_msg` or `-trace_shortmsg` is on: the engine calls [`Tracer::message`] for every message.
    pub fn wants_messages(&self) -> bool {
        self.is_on(Trace::Messages as u8 | Trace::ShortMessages as u8)
    }

    /// `-trace_msg`, `-trace_shortmsg`.
    pub fn message(
        &self,
        at: Instant,
        direction: Direction,
        transport: Transport,
        call_id: &[u8],
        bytes: &[u8],
    ) {
        if self.wants_messages() {
            self.send(TraceLine::Message {
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
        let Some(state) = &self.0 else { return };
        {
            let mut recent = state.recent.lock();
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(text.to_owned());
        }
        if state.switches.any(Trace::Errors as u8) {
            self.send(TraceLine::Error { at, text: text.into() });
        }
    }

    /// The last errors, newest last, at most sixteen: for `Progress::errors`.
    pub fn recent_errors(&self) -> Vec<String> {
        self.0.as_ref().map_or_else(Vec::new, |state| state.recent.lock().iter().cloned().collect())
    }

    /// `<log>`, `-trace_logs`.
    pub fn log(&self, _at: Instant, text: &[u8]) {
        if self.is_on(Trace::Logs as u8) {
            self.send(TraceLine::Log(text.into()));
        }
    }

    /// `-trace_calldebug`: collected per call, written when it fails.
    pub fn wants_call_debug(&self) -> bool {
        self.is_on(Trace::CallDebug as u8)
    }

    /// `-trace_calldebug`: a line about a call.
    pub fn call_debug(&self, at: Instant, call_id: &[u8], text: &str) {
        if self.wants_call_debug() {
            self.send(TraceLine::CallDebug { at, call_id: call_id.into(), text: text.into() });
        }
    }

    /// `-trace_rtt`.
    pub fn wants_response_times(&self) -> bool {
        self.is_on(Trace::ResponseTimes as u8)
    }

    /// `-trace_rtt`: a response time of the counter with this name.
    pub fn response_time(&self, at: Instant, micros: u64, name: &str) {
        if self.wants_response_times() {
            self.send(TraceLine::ResponseTime { at, micros, name: name.into() });
        }
    }

    /// The call is over: what was collected of it is written if it failed, and forgotten if not.
    pub fn end_call_debug(&self, call_id: &[u8], failed: bool) {
        if self.wants_call_debug() {
            self.send(TraceLine::EndCallDebug { call_id: call_id.into(), failed });
        }
    }

    /// `-trace_error_codes`: a response that was not expected.
    pub fn error_code(&self, _at: Instant, code: u16) {
        let Some(state) = &self.0 else { return };
        if state.switches.any(Trace::ErrorCodes as u8) {
            let mut codes = state.codes.lock();
            if codes.len() == CODES {
                codes.pop_front();
            }
            codes.push_back(code);
        }
    }

    /// The codes since the previous call, oldest first.
    pub fn take_error_codes(&self) -> VecDeque<u16> {
        self.0.as_ref().map_or_else(VecDeque::new, |state| std::mem::take(&mut *state.codes.lock()))
    }

    /// The run begins: `-trace_rtt` counts its milliseconds from here. Without it, from the first response time.
    pub fn begin(&self, at: Instant) {
        if self.wants_response_times() {
            self.send(TraceLine::Begin(at));
        }
    }

    /// Waits until everything handed over is written.
    pub fn finish(&self) {
        let Some(state) = &self.0 else { return };
        let Some(writer) = state.writer.lock().take() else { return };
        let _ = state.queue.send(TraceLine::End);
        if writer.join().is_err() {
            eprintln!("The trace writer ended early; its files are not whole");
        }
    }
}
