//! One message of a traced account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use stdx::Instant;
use tokio::sync::mpsc;
use xmpp::c2s::Direction;

use crate::ChatTrace;
use crate::limits;

/// Bytes of a message that a full trace shows.
const SHOWN: usize = 16 * 1024;

/// Characters of a label or a Call-ID in a line. Identifiers that phones make have some 60; longer ones are a stranger's.
const SHOWN_TEXT: usize = 256;

/// One message of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLine {
    /// Microseconds since the Unix epoch, by the clock of the node that handled the message.
    pub at_micros: u64,
    /// `belfry`, or an address as `udp:192.0.2.7:5060`.
    pub from: Box<str>,
    /// The receiver, in the same form.
    pub to: Box<str>,
    /// `INVITE`, or `180 (INVITE)`.
    pub label: Box<str>,
    /// The Call-ID of the message.
    pub call_id: Box<str>,
    /// The whole message, credentials masked; only in a full trace.
    pub message: Option<Box<str>>,
    /// The address of the chat session; without a Call-ID then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<str>>,
    /// The node that handled the message, in a trace of a farm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Box<str>>,
}

/// News of a trace, for the command that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceNews {
    /// One message.
    Line(TraceLine),
    /// Another node of the farm has ceased to take part in the trace, or takes part again.
    Node {
        /// The node's name.
        name: Box<str>,
        /// False: it does not answer, and its messages are not shown.
        takes_part: bool,
    },
}

impl TraceLine {
    /// Describes one SIP message as it is on the wire, as far as it can be read; a message that is not SIP is
    /// labelled with its first bytes.
    pub fn of(at: Instant, from: &str, to: &str, message: &[u8], full: bool) -> Self {
        let end = message.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(message.len());
        let first = String::from_utf8_lossy(&message[..end.min(256)]).into_owned();
        let method =
            header(message, b"cseq", b"").and_then(|value| value.split_whitespace().nth(1).map(String::from));
        let label = match (first.strip_prefix("SIP/2.0 "), method) {
            (Some(status), Some(method)) => format!("{} ({method})", status.get(..3).unwrap_or(status)),
            (Some(status), None) => status.to_owned(),
            (None, _) => first.split(' ').next().unwrap_or_default().to_owned(),
        };
        TraceLine {
            at_micros: at.as_micros(),
            from: from.into(),
            to: to.into(),
            label: label.chars().take(SHOWN_TEXT).collect::<String>().into(),
            call_id: header(message, b"call-id", b"i")
                .unwrap_or_default()
                .chars()
                .take(SHOWN_TEXT)
                .collect::<String>()
                .into(),
            message: full.then(|| mask_credentials(&message[..message.len().min(SHOWN)]).into()),
            session: None,
            node: None,
        }
    }

    /// Describes one SIP request that could not be sent, as `INVITE refused (TCP)`; `transport` as a Via names it.
    pub fn of_refused(at: Instant, from: &str, to: &str, transport: &str, request: &[u8]) -> Self {
        let line = TraceLine::of(at, from, to, request, false);
        TraceLine { label: format!("{} refused ({})", line.label, transport).into(), ..line }
    }

    /// Describes one element of a chat client's stream.
    pub fn of_chat(at: Instant, trace: &ChatTrace, full: bool) -> Self {
        let (client, server) = (trace.session.clone(), Box::from("belfry"));
        let (from, to) = match trace.direction {
            Direction::In => (client, server),
            Direction::Out => (server, client),
        };
        let shown = || trace.xml.chars().take(SHOWN).collect::<String>().into();
        TraceLine {
            at_micros: at.as_micros(),
            from,
            to,
            label: trace.label.clone(),
            call_id: Box::default(),
            message: full.then(shown),
            session: Some(trace.session.clone()),
            node: None,
        }
    }

    /// Returns the time of the message.
    pub fn at(&self) -> Instant {
        Instant::from_micros(self.at_micros)
    }
}

/// The sink of a traced account's messages. Clones go to all shards; sending never waits.
#[derive(Clone, Debug)]
pub struct TraceSink {
    lines: mpsc::Sender<TraceNews>,
    missed: Arc<AtomicU64>,
    full: bool,
    /// The name of this node, in a trace of a farm.
    node: Option<Box<str>>,
}

/// The other end: a command reads here.
#[derive(Debug)]
pub struct TraceLines {
    lines: mpsc::Receiver<TraceNews>,
    missed: Arc<AtomicU64>,
}

impl TraceSink {
    /// With `full`, lines carry whole messages.
    pub fn new(full: bool) -> (TraceSink, TraceLines) {
        let (sender, lines) = mpsc::channel(limits::TRACE_QUEUE);
        let missed = Arc::new(AtomicU64::new(0));
        let sink = TraceSink { lines: sender, missed: missed.clone(), full, node: None };
        (sink, TraceLines { lines, missed })
    }

    /// The same sink, whose lines name this node.
    #[must_use]
    pub fn of_node(self, name: &str) -> TraceSink {
        TraceSink { node: Some(name.into()), ..self }
    }

    /// True if lines carry whole messages.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// One message on its way; `from` and `to` as in `TraceLine`. Left out, and counted, when the queue is full.
    pub fn message(&self, at: Instant, from: &str, to: &str, message: &[u8]) {
        self.line_of(|| TraceLine::of(at, from, to, message, self.full));
    }

    /// One request that could not be sent. Left out, and counted, in the same way.
    pub fn refused(&self, at: Instant, from: &str, to: &str, transport: &str, request: &[u8]) {
        self.line_of(|| TraceLine::of_refused(at, from, to, transport, request));
    }

    /// One element of a chat client's stream. Left out, and counted, in the same way.
    pub fn chat(&self, at: Instant, trace: &ChatTrace) {
        self.line_of(|| TraceLine::of_chat(at, trace, self.full));
    }

    /// One message that another node handled. Left out, and counted, in the same way.
    pub fn line(&self, line: TraceLine) {
        self.send(|| TraceNews::Line(line));
    }

    /// Another node has ceased to take part, or takes part again. Left out, and counted, in the same way.
    pub fn node(&self, name: &str, takes_part: bool) {
        self.send(|| TraceNews::Node { name: name.into(), takes_part });
    }

    fn line_of(&self, line: impl FnOnce() -> TraceLine) {
        self.send(|| TraceNews::Line(TraceLine { node: self.node.clone(), ..line() }));
    }

    fn send(&self, news: impl FnOnce() -> TraceNews) {
        match self.lines.try_reserve() {
            Ok(place) => place.send(news()),
            Err(_) => self.miss(1),
        }
    }

    /// So many messages were lost on their way here.
    pub fn miss(&self, messages: u64) {
        self.missed.fetch_add(messages, Ordering::Relaxed);
    }

    /// Waits until the reader has gone: then the trace is to be forgotten.
    pub async fn closed(&self) {
        self.lines.closed().await;
    }

    /// Returns true once the reader has gone.
    pub fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }
}

impl TraceLines {
    /// `None`: the node ended the trace.
    pub async fn next(&mut self) -> Option<TraceNews> {
        self.lines.recv().await
    }

    /// Messages left out since this was last asked.
    pub fn missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }
}

/// The value of the first header of this name, long or short.
fn header(message: &[u8], long: &[u8], short: &[u8]) -> Option<String> {
    let mut lines = message.split(|byte| *byte == b'\n').skip(1);
    lines.by_ref().take_while(|line| !line.trim_ascii().is_empty()).find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = line[..colon].trim_ascii();
        let is = name.eq_ignore_ascii_case(long) || (!short.is_empty() && name.eq_ignore_ascii_case(short));
        is.then(|| String::from_utf8_lossy(line[colon + 1..].trim_ascii()).into_owned())
    })
}

/// Replaces by `***` every value from which a password could be guessed (RFC 7616 `response`, `rspauth`, and
/// the credentials of a Basic or Bearer scheme).
pub fn mask_credentials(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    let (mut masked, mut secret, mut body) = (String::with_capacity(text.len()), false, false);
    for line in text.split_inclusive('\n') {
        body |= line.trim_end().is_empty();
        if !line.starts_with([' ', '\t']) {
            secret = !body && carries_credentials(line);
        }
        masked.push_str(&if secret { mask_line(line) } else { line.to_owned() });
    }
    masked
}

fn carries_credentials(line: &str) -> bool {
    let name = line.split(':').next().unwrap_or_default().trim_ascii_end();
    ["authorization", "proxy-authorization", "authentication-info", "proxy-authentication-info"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Digest parameters stay readable except the two that are made from the password; other schemes are masked whole.
fn mask_line(line: &str) -> String {
    let value = line.split_once(':').map_or(line, |(_, value)| value).trim_ascii();
    let lower = value.to_ascii_lowercase();
    if ["basic", "bearer"].iter().any(|scheme| lower.starts_with(scheme)) {
        let head = &line[..line.len() - line.trim_start_matches(|c| c != ':').len()];
        return format!("{head}: ***\r\n");
    }
    let mut parts: Vec<String> = Vec::new();
    for part in line.split(',') {
        let name = part.split('=').next().unwrap_or_default();
        let key = name.rsplit([' ', '\t', ':']).find(|word| !word.is_empty()).unwrap_or_default();
        let secret = ["response", "rspauth"].iter().any(|known| key.eq_ignore_ascii_case(known));
        let end = if part.ends_with('\n') { "\r\n" } else { "" };
        parts.push(if secret && part.contains('=') { format!("{name}=***{end}") } else { part.to_owned() });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_learns_the_number_of_missed_messages() {
        let (sink, lines) = TraceSink::new(false);
        for _ in 0..limits::TRACE_QUEUE + 3 {
            sink.message(Instant::from_unix_seconds(1), "a", "b", b"BYE sip:b SIP/2.0");
        }
        assert_eq!((lines.missed(), lines.missed()), (3, 0));
        assert!(!sink.is_closed());
        drop(lines);
        assert!(sink.is_closed());
    }

    const REGISTER: &str = "REGISTER sip:example.test SIP/2.0\r\n\
        i: abc@host\r\nCSeq: 2 REGISTER\r\n\
        Authorization: Digest username=\"alice\", realm=\"example.test\",\r\n\
        \tresponse=\"0123456789abcdef\", nc=00000001\r\n\
        Proxy-Authorization: Digest response=\"feed\"\r\n\
        Authorization : Basic YWxpY2U6c2VjcmV0\r\n\
        \r\nresponse=\"body\"";

    #[test]
    fn long_text_of_a_stranger_is_cut() {
        let call_id = "é".repeat(30_000);
        let message = format!("SIP/2.0 200 OK\r\nCall-ID: {call_id}\r\nCSeq: 1 {call_id}\r\n\r\n");
        let line = TraceLine::of(Instant::from_unix_seconds(1), "a", "b", message.as_bytes(), false);
        assert_eq!((line.call_id.chars().count(), line.label.chars().count()), (SHOWN_TEXT, SHOWN_TEXT));
    }

    #[test]
    fn labels_name_the_method_or_the_status() {
        let at = Instant::from_unix_seconds(1);
        let label = |message: &str| TraceLine::of(at, "a", "b", message.as_bytes(), false).label;
        assert_eq!(&*label(REGISTER), "REGISTER");
        assert_eq!(&*label("SIP/2.0 180 Ringing\r\nCSeq: 1 INVITE\r\n\r\n"), "180 (INVITE)");
        assert_eq!(&*label("SIP/2.0 200 OK\r\n\r\nCSeq: 1 BYE\r\n"), "200 OK");
        assert_eq!(&*label(""), "");
        let line = TraceLine::of(at, "a", "b", REGISTER.as_bytes(), true);
        assert_eq!((&*line.call_id, line.message.is_some()), ("abc@host", true));
        let refused = TraceLine::of_refused(at, "a", "b", "TCP", REGISTER.as_bytes());
        assert_eq!((&*refused.label, &*refused.call_id), ("REGISTER refused (TCP)", "abc@host"));
    }

    #[test]
    fn nothing_a_password_could_be_guessed_from_is_shown() {
        let masked = mask_credentials(REGISTER.as_bytes());
        for secret in ["0123456789abcdef", "feed", "YWxpY2U6c2VjcmV0"] {
            assert!(!masked.contains(secret), "{masked}");
        }
        assert!(masked.contains("\tresponse=***, nc=00000001\r\n"), "{masked}");
        assert!(masked.contains("username=\"alice\""), "{masked}");
        assert!(masked.ends_with("\r\n\r\nresponse=\"body\""), "{masked}");
    }
}
