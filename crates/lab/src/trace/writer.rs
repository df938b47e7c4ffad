//! The writer thread: lines in, files out, in SIPp's forms.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use memchr::memmem;
use stdx::time::Instant;

use super::log::{Limits, Log};
use super::time::Stamp;
use super::{Direction, Line, name};
use crate::options::{Options, Transport};

/// How long a line may sit in a buffer before it is on disk.
const FLUSH: Duration = Duration::from_millis(200);

pub(super) struct Writer {
    rfc3339: bool,
    /// `-trace_rtt` counts from here.
    started: Option<Instant>,
    messages: Option<Log>,
    short: Option<Log>,
    errors: Option<Log>,
    logs: Option<Log>,
    call_debug: Option<Log>,
    rtt: Option<Log>,
    /// Response times come in lots of `-rtt_freq`.
    rtt_lot: Vec<u8>,
    rtt_count: u64,
    rtt_frequency: u64,
}

impl Writer {
    /// Opens what is on; the error log comes into being with the first error, as SIPp's does.
    pub(super) fn open(options: &Options, stem: &str) -> Result<Writer, String> {
        let files = &options.files;
        let ring =
            Limits { ring_files: files.ring_files, ring_size: files.ring_size, max_size: files.max_size };
        let log = |file: &crate::options::TraceFile, suffix: &str, limits: Limits| {
            file.on.then(|| Log::new(name(stem, file, suffix), file.append, limits))
        };
        let mut writer = Writer {
            rfc3339: files.rfc3339,
            started: None,
            messages: log(&files.messages, "messages.log", ring),
            short: log(&files.short_messages, "shortmessages.log", ring),
            errors: log(&files.errors, "errors.log", ring),
            logs: log(&files.logs, "logs.log", ring),
            call_debug: log(&files.call_debug, "calldebug.log", ring),
            rtt: log(&files.rtt, "rtt.csv", Limits::default()),
            rtt_lot: Vec::new(),
            rtt_count: 0,
            rtt_frequency: files.rtt_frequency.max(1),
        };
        let now = [&mut writer.messages, &mut writer.short, &mut writer.logs, &mut writer.call_debug];
        for log in now.into_iter().flatten() {
            log.open()?;
        }
        if let Some(rtt) = &mut writer.rtt {
            let between = &files.stat_delimiter;
            rtt.open()?;
            rtt.write(format!("Date_ms{between}response_time_ms{between}rtd_no\n").as_bytes());
        }
        Ok(writer)
    }

    pub(super) fn run(mut self, lines: &Receiver<Line>) {
        loop {
            match lines.recv_timeout(FLUSH) {
                Ok(Line::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(line) => self.write(line),
                Err(RecvTimeoutError::Timeout) => self.flush(),
            }
        }
        let lot = std::mem::take(&mut self.rtt_lot);
        if let Some(rtt) = &mut self.rtt {
            rtt.write(&lot);
        }
        self.flush();
    }

    fn flush(&mut self) {
        let all = [
            &mut self.messages,
            &mut self.short,
            &mut self.errors,
            &mut self.logs,
            &mut self.call_debug,
            &mut self.rtt,
        ];
        for log in all.into_iter().flatten() {
            log.flush();
        }
    }

    fn write(&mut self, line: Line) {
        match line {
            Line::Message { at, direction, transport, call_id, bytes } => {
                if let Some(log) = &mut self.messages {
                    log.write(&message(at, self.rfc3339, direction, transport, &bytes));
                }
                if let Some(log) = &mut self.short {
                    log.write(&short_message(at, self.rfc3339, direction, &call_id, &bytes));
                }
            }
            Line::Error { at, text } => {
                if let Some(log) = &mut self.errors {
                    if log.is_new() {
                        log.write(b"The following events occurred:\n");
                    }
                    log.write(format!("{}: {}\n", Stamp::csv(at, self.rfc3339), text.trim_end()).as_bytes());
                }
            }
            Line::Log(text) => {
                if let Some(log) = &mut self.logs {
                    log.write(&text);
                    log.write(b"\n");
                }
            }
            Line::CallDebug { at, call_id, text } => {
                if let Some(log) = &mut self.call_debug {
                    let rule = "-".repeat(79);
                    let id = String::from_utf8_lossy(&call_id);
                    let at = Stamp::csv(at, self.rfc3339);
                    let text = text.trim_end();
                    log.write(
                        format!("{rule}\nCall debugging information for call {id}:\n{at} {text}\n{rule}\n\n")
                            .as_bytes(),
                    );
                }
            }
            Line::ResponseTime { at, micros, rtd } => self.response_time(at, micros, rtd),
            Line::Begin(at) => self.started = Some(at),
            Line::End => {}
        }
    }

    fn response_time(&mut self, at: Instant, micros: u64, rtd: u16) {
        use std::io::Write as _;

        let since = at.since(*self.started.get_or_insert(at));
        let (millis, rest) = (since.as_millis(), since.subsec_micros() % 1000);
        let number = u32::from(rtd) + 1;
        // A Vec takes every byte.
        let _ = writeln!(self.rtt_lot, "{millis}.{rest:03};{};{number}", micros / 1000);
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
    let at = Stamp::message(at, rfc3339);
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
    let mut line = format!("{}\t{mark}\t", Stamp::csv(at, rfc3339)).into_bytes();
    line.extend_from_slice(call_id);
    line.extend_from_slice(b"\tCSeq:");
    line.extend_from_slice(cseq(bytes));
    line.push(b'\t');
    line.extend_from_slice(first_line(bytes));
    line.push(b'\n');
    line
}

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
