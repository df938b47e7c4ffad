//! The writer thread: lines in, files out, in SIPp's forms.
//!
//! [`TraceWriter::open`] opens what is on before the run; `run` then takes lines until the end. A switch may change while it runs, so each line
//! looks at it again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use lab_sip::options::{Options, Transport};
use lab_sip::trace::{Direction, Trace, TraceLine, TraceSwitches};
use memchr::memmem;
use stdx::time::Instant;

use super::call_debug::CallDebug;
use super::log::{LogFile, LogLimits};
use super::name;
use super::time::Timestamp;
use crate::engine::clock::Clock;

/// How long a line may sit in a buffer before it is on disk.
const FLUSH: Duration = Duration::from_millis(200);

/// The open files and what is kept between lines.
pub(super) struct TraceWriter {
    /// The form of all times.
    rfc3339: bool,
    /// `-trace_rtt` counts from here.
    started: Option<Instant>,
    /// The traces that are on now.
    switches: Arc<TraceSwitches>,
    /// `-trace_msg`.
    messages: LogFile,
    /// `-trace_shortmsg`.
    short: LogFile,
    /// `-trace_err`.
    errors: LogFile,
    /// `-trace_logs`.
    logs: LogFile,
    /// `-trace_calldebug`.
    call_debug: LogFile,
    /// Lines of calls that have not ended.
    calls: CallDebug,
    /// `-trace_rtt`; `None` without it.
    rtt: Option<LogFile>,
    /// Response times come in lots of `-rtt_freq`.
    rtt_lot: Vec<u8>,
    /// Response times so far.
    rtt_count: u64,
    /// `-rtt_freq`, at least 1.
    rtt_frequency: u64,
}

impl TraceWriter {
    /// Opens what is on; the error log comes into being with the first error, as SIPp's does.
    pub(super) fn open(
        options: &Options,
        stem: &str,
        switches: Arc<TraceSwitches>,
    ) -> Result<TraceWriter, String> {
        let files = &options.files;
        let ring =
            LogLimits { ring_files: files.ring_files, ring_size: files.ring_size, max_size: files.max_size };
        let log = |file: &lab_sip::options::TraceFile, suffix: &str, limits: LogLimits| {
            LogFile::new(name(stem, file, suffix), file.append, limits)
        };
        let mut writer = TraceWriter {
            rfc3339: files.rfc3339,
            started: None,
            switches,
            calls: CallDebug::default(),
            messages: log(&files.messages, "messages.log", ring),
            short: log(&files.short_messages, "shortmessages.log", ring),
            errors: log(&files.errors, "errors.log", ring),
            logs: log(&files.logs, "logs.log", ring),
            call_debug: log(&files.call_debug, "calldebug.log", ring),
            rtt: files.rtt.on.then(|| log(&files.rtt, "rtt.csv", LogLimits::default())),
            rtt_lot: Vec::new(),
            rtt_count: 0,
            rtt_frequency: files.rtt_frequency.max(1),
        };
        for (trace, log) in [
            (Trace::Messages, &mut writer.messages),
            (Trace::ShortMessages, &mut writer.short),
            (Trace::Logs, &mut writer.logs),
            (Trace::CallDebug, &mut writer.call_debug),
        ] {
            if writer.switches.is_on(trace) {
                log.open()?;
            }
        }
        if let Some(rtt) = &mut writer.rtt {
            let between = &files.stat_delimiter;
            rtt.open()?;
            rtt.write(format!("Date_ms{between}response_time_ms{between}rtd_no\n").as_bytes());
        }
        Ok(writer)
    }

    /// Writes lines until the end of the run. The buffers are flushed at most `FLUSH` after a line.
    pub(super) fn run(mut self, lines: &Receiver<TraceLine>) {
        let mut clean = true;
        let clock = Clock::new();
        let mut flush_at = clock.now();
        loop {
            // Lines that come without a pause are on disk in time all the same.
            let now = clock.now();
            if clean {
                flush_at = now + FLUSH;
            } else if now >= flush_at {
                self.flush();
                (clean, flush_at) = (true, now + FLUSH);
            }
            match lines.recv_timeout(flush_at.since(now)) {
                Ok(TraceLine::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(line) => {
                    self.write(line);
                    clean = false;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let lot = std::mem::take(&mut self.rtt_lot);
        if let Some(rtt) = &mut self.rtt {
            rtt.write(&lot);
        }
        self.flush();
    }

    fn flush(&mut self) {
        let all =
            [&mut self.messages, &mut self.short, &mut self.errors, &mut self.logs, &mut self.call_debug];
        for log in all.into_iter().chain(&mut self.rtt) {
            log.flush();
        }
    }

    /// One line into the files that it belongs to.
    fn write(&mut self, line: TraceLine) {
        match line {
            TraceLine::Message { at, direction, transport, call_id, bytes } => {
                if self.switches.is_on(Trace::Messages) {
                    self.messages.write(&message(at, self.rfc3339, direction, transport, &bytes));
                }
                if self.switches.is_on(Trace::ShortMessages) {
                    self.short.write(&short_message(at, self.rfc3339, direction, &call_id, &bytes));
                }
            }
            TraceLine::Error { at, text } => {
                if self.errors.is_new() {
                    self.errors.write(b"The following events occurred:\n");
                }
                let line = format!("{}: {}\n", Timestamp::csv(at, self.rfc3339), text.trim_end());
                self.errors.write(line.as_bytes());
            }
            TraceLine::Log(text) => {
                self.logs.write(&text);
                self.logs.write(b"\n");
            }
            TraceLine::CallDebug { at, call_id, text } => {
                let line = format!("{} {text}\n", Timestamp::csv(at, self.rfc3339));
                self.calls.add(call_id, &line);
            }
            TraceLine::EndCallDebug { call_id, failed } => {
                if let Some(text) = self.calls.end(&call_id).filter(|_| failed) {
                    // A call that succeeded is forgotten.
                    self.call_debug.write(&text);
                }
            }
            TraceLine::ResponseTime { at, micros, name } => self.response_time(at, micros, &name),
            TraceLine::Begin(at) => self.started = Some(at),
            TraceLine::End => {}
        }
    }

    /// `Date_ms;response_time_ms;rtd_no`: times since the start, and the name of the counter, as in SIPp. Lines wait for a lot of
    /// `-rtt_freq`.
    fn response_time(&mut self, at: Instant, micros: u64, name: &str) {
        use std::io::Write as _;

        let since = at.since(*self.started.get_or_insert(at));
        let (millis, rest) = (since.as_millis(), since.subsec_micros() % 1000);
        // A Vec takes every byte.
        let _ = writeln!(self.rtt_lot, "{millis}.{rest:03};{};{name}", micros / 1000);
        self.rtt_count += 1;
        if self.rtt_count.is_multiple_of(self.rtt_frequency) {
            if let Some(rtt) = &mut self.rtt {
                rtt.write(&self.rtt_lot);
            }
            self.rtt_lot.clear();
        }
    }
}

/// One entry of the messages log.
pub(super) fn message(
    at: Instant,
    rfc3339: bool,
    direction: Direction,
    transport: Transport,
    bytes: &[u8],
) -> Vec<u8> {
    let word = transport.via_word();
    let n = bytes.len();
    let what = match direction {
        Direction::Sent => format!("sent ({n} bytes):"),
        Direction::Received => format!("received [{n}] bytes :"),
    };
    let at = Timestamp::message(at, rfc3339);
    let rule = "-".repeat(47);
    let mut entry = format!("{rule} {at}\n{word} message {what}\n\n").into_bytes();
    entry.extend_from_slice(bytes);
    entry.push(b'\n');
    entry
}

/// One line of the short messages log.
pub(super) fn short_message(
    at: Instant,
    rfc3339: bool,
    direction: Direction,
    call_id: &[u8],
    bytes: &[u8],
) -> Vec<u8> {
    let mark = if direction == Direction::Sent { 'S' } else { 'R' };
    let mut line = format!("{}\t{mark}\t", Timestamp::csv(at, rfc3339)).into_bytes();
    line.extend_from_slice(call_id);
    line.extend_from_slice(b"\tCSeq:");
    line.extend_from_slice(cseq(bytes));
    line.push(b'\t');
    line.extend_from_slice(first_line(bytes));
    line.push(b'\n');
    line
}

/// The start line of a message.
fn first_line(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
    &bytes[..end]
}

/// The value of CSeq, or nothing.
fn cseq(bytes: &[u8]) -> &[u8] {
    let head = &bytes[..memmem::find(bytes, b"\r\n\r\n").unwrap_or(bytes.len())];
    head.split(|byte| *byte == b'\n')
        .find(|line| line.len() > 5 && line[..5].eq_ignore_ascii_case(b"cseq:"))
        .map_or(b"", |line| line[5..].trim_ascii())
}
