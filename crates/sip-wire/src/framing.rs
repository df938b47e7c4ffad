//! Cutting a stream into messages: Content-Length (RFC 3261 §18.3), keep-alives (RFC 5626 §3.5.1).

use bytes::Bytes;

use crate::limits::{MAX_STREAM_BODY, MAX_STREAM_HEAD};

/// One piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message, head and body, in memory of exactly its size.
    Message(Bytes),
    /// CRLFCRLF: the peer wants to see a CRLF.
    Ping,
    /// A single CRLF: the peer's answer to our ping, or padding before a message (RFC 3261 §7.5).
    Pong,
}

/// The stream cannot be cut any further; the connection has to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameFault {
    /// The rule that the stream broke.
    pub kind: FrameFaultKind,
    /// Start line and headers, as far as they came; enough to address an answer when `reply` gives one.
    pub head: Bytes,
}

/// The reason why a stream cannot be cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameFaultKind {
    /// More than `limits::MAX_STREAM_HEAD` bytes without an empty line.
    HeadTooLarge,
    /// RFC 3261 §18.3: on a stream the Content-Length is mandatory.
    ContentLengthMissing,
    /// Not a number.
    ContentLengthInvalid,
    /// Two that differ.
    ContentLengthConflicting,
    /// More than `limits::MAX_STREAM_BODY` bytes announced.
    BodyTooLarge,
}

impl FrameFault {
    /// The answer the peer should get if `head` is a request; `None` when there is no whole head to answer.
    pub fn reply(&self) -> Option<(u16, &'static str)> {
        match self.kind {
            FrameFaultKind::HeadTooLarge => None,
            FrameFaultKind::ContentLengthMissing => Some((400, "Missing Content-Length")),
            FrameFaultKind::ContentLengthInvalid => Some((400, "Bad Content-Length")),
            FrameFaultKind::ContentLengthConflicting => Some((400, "Conflicting Content-Length")),
            FrameFaultKind::BodyTooLarge => Some((413, "Request Entity Too Large")),
        }
    }
}

/// Cuts one stream. Push what was read, then call `next` until it gives `None`. Between messages it holds
/// no memory.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Bytes of `buffer` already handed out.
    start: usize,
    state: FramerState,
}

/// The framer's position in the stream (RFC 3261 §18.3).
#[derive(Debug)]
enum FramerState {
    /// Before a message. `matched` bytes of CRLFCRLF were seen and consumed.
    Between { matched: usize },
    /// In the head. Both count from `Framer::start`: where the current line begins, and how far it was
    /// searched for its end.
    Head { line: usize, searched: usize },
    /// The head is whole; the message will have `length` bytes in all.
    Body { length: usize },
    /// After a fault nothing more can be told apart.
    Dead,
}

impl Default for FramerState {
    fn default() -> Self {
        FramerState::Between { matched: 0 }
    }
}

/// The keep-alive of RFC 5626 §3.5.1, which a single CRLF answers.
const PING: &[u8] = b"\r\n\r\n";

impl Framer {
    /// A framer without bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if !matches!(self.state, FramerState::Dead) {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole piece. After a fault there is none any more.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, so this is no iterator")]
    pub fn next(&mut self) -> Option<Result<Frame, FrameFault>> {
        let frame = self.step();
        if frame.is_none() || self.start == self.buffer.len() {
            self.forget_consumed();
        }
        frame
    }

    /// Nothing of a message is waiting for its rest.
    pub fn is_between_messages(&self) -> bool {
        matches!(self.state, FramerState::Between { .. })
    }

    /// Bytes of memory held, for tests and for counting.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Gives back the memory of bytes that were handed out. The rest that is copied came with the last push, as a message or a
    /// keep-alive ended in it: a large message that comes in many pieces is copied once.
    fn forget_consumed(&mut self) {
        if self.start == 0 {
            return;
        }
        let rest = &self.buffer[self.start..];
        let length = match self.state {
            FramerState::Body { length } => length,
            _ => rest.len(),
        };
        let mut buffer = Vec::with_capacity(length);
        buffer.extend_from_slice(rest);
        self.buffer = buffer;
        self.start = 0;
    }

    fn step(&mut self) -> Option<Result<Frame, FrameFault>> {
        loop {
            match self.state {
                FramerState::Between { matched } => match self.between(matched) {
                    BetweenMessages::Starved => return None,
                    BetweenMessages::Frame(frame) => return Some(Ok(frame)),
                    BetweenMessages::Message => self.state = FramerState::Head { line: 0, searched: 0 },
                },
                FramerState::Head { line, searched } => match self.head(line, searched)? {
                    Ok(length) => self.state = FramerState::Body { length },
                    Err(fault) => return Some(Err(fault)),
                },
                FramerState::Body { length } => return self.body(length).map(Ok),
                FramerState::Dead => return None,
            }
        }
    }

    /// Consumes line ends one byte at a time, so that where the stream was split cannot matter.
    fn between(&mut self, mut matched: usize) -> BetweenMessages {
        while let Some(&byte) = self.buffer.get(self.start) {
            if byte != b'\r' && byte != b'\n' {
                self.state = FramerState::Between { matched: 0 };
                return if matched >= 2 {
                    BetweenMessages::Frame(Frame::Pong)
                } else {
                    BetweenMessages::Message
                };
            }
            self.start += 1;
            matched = if byte == PING[matched] { matched + 1 } else { usize::from(byte == b'\r') };
            if matched == PING.len() {
                self.state = FramerState::Between { matched: 0 };
                return BetweenMessages::Frame(Frame::Ping);
            }
        }
        self.state = FramerState::Between { matched };
        BetweenMessages::Starved
    }

    /// Looks for the empty line. `Some(Ok)` is the length of the whole message.
    fn head(&mut self, mut line: usize, mut searched: usize) -> Option<Result<usize, FrameFault>> {
        let bytes = &self.buffer[self.start..];
        let bytes = &bytes[..bytes.len().min(MAX_STREAM_HEAD)];
        while let Some(found) = memchr::memchr(b'\n', &bytes[searched..]) {
            let end = searched + found;
            searched = end + 1;
            // COMPAT(lenient peers): a bare LF ends a line too, as in RFC 4475's spirit of liberal reading.
            if matches!(&bytes[line..end], b"" | b"\r") {
                return Some(self.finish_head(searched));
            }
            line = searched;
        }
        if bytes.len() == MAX_STREAM_HEAD {
            return Some(Err(self.fault(FrameFaultKind::HeadTooLarge, MAX_STREAM_HEAD)));
        }
        self.state = FramerState::Head { line, searched: bytes.len() };
        None
    }

    fn finish_head(&mut self, head: usize) -> Result<usize, FrameFault> {
        match content_length(&self.buffer[self.start..self.start + head]) {
            Ok(body) => Ok(head + body),
            Err(kind) => Err(self.fault(kind, head)),
        }
    }

    fn body(&mut self, length: usize) -> Option<Frame> {
        let bytes = &self.buffer[self.start..];
        if bytes.len() < length {
            // One growth to the final size instead of doublings; behind other bytes it comes when they are given back.
            let missing = length - bytes.len();
            if self.start == 0 {
                self.buffer.reserve_exact(missing);
            }
            return None;
        }
        let message = Bytes::copy_from_slice(&bytes[..length]);
        self.start += length;
        self.state = FramerState::default();
        Some(Frame::Message(message))
    }

    fn fault(&mut self, kind: FrameFaultKind, head: usize) -> FrameFault {
        let head = Bytes::copy_from_slice(&self.buffer[self.start..self.start + head]);
        self.start = self.buffer.len();
        self.state = FramerState::Dead;
        FrameFault { kind, head }
    }
}

/// The bytes found between two messages.
enum BetweenMessages {
    Starved,
    Frame(Frame),
    Message,
}

/// The body's length as the head announces it. The same value twice is tolerated.
fn content_length(head: &[u8]) -> Result<usize, FrameFaultKind> {
    let mut found = None;
    let mut rest = head;
    while let Some(line) = next_line(&mut rest) {
        let Some(value) = content_length_value(line) else { continue };
        let length = parse_length(value)?;
        if found.is_some_and(|earlier| earlier != length) {
            return Err(FrameFaultKind::ContentLengthConflicting);
        }
        found = Some(length);
    }
    found.ok_or(FrameFaultKind::ContentLengthMissing)
}

/// One header with its folded continuation lines (RFC 3261 §7.3.1), line ends inside it included.
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut end = 0;
    loop {
        end += memchr::memchr(b'\n', &rest[end..])? + 1;
        if !matches!(rest.get(end), Some(b' ' | b'\t')) {
            let (line, after) = rest.split_at(end);
            *rest = after;
            return Some(line);
        }
    }
}

fn content_length_value(line: &[u8]) -> Option<&[u8]> {
    // Almost every header is told apart by its first letter.
    if !matches!(line.first(), Some(b'C' | b'c' | b'L' | b'l')) {
        return None;
    }
    let colon = memchr::memchr(b':', line)?;
    let name = line[..colon].trim_ascii_end();
    let is_length = name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"l");
    is_length.then(|| line[colon + 1..].trim_ascii())
}

fn parse_length(value: &[u8]) -> Result<usize, FrameFaultKind> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(FrameFaultKind::ContentLengthInvalid);
    }
    // Saturating: any number of digits is a number, and too large is what it then is.
    let length = value
        .iter()
        .fold(0usize, |length, digit| length.saturating_mul(10).saturating_add(usize::from(digit - b'0')));
    if length > MAX_STREAM_BODY { Err(FrameFaultKind::BodyTooLarge) } else { Ok(length) }
}

#[cfg(test)]
mod tests;
