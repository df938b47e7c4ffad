//! Spans of calls: a span for each request and its answer, received and sent, below one for the whole call.
//!
//! Pure: copies of messages come in with their times, and spans that have ended go out. The call begins with its first INVITE and ends with the answer
//! to its BYE, or with the last failure of its INVITEs. Below it are `INVITE` and the other requests that came in; below such an INVITE the copies that
//! were sent on, one for each branch, and `routing`, which is the time before the first of them. `ringing` and `conversation` are
//! the phases of the call. At each node of a farm the spans are of one trace, with a call of each node.

use std::collections::HashMap;

use stdx::Instant;

use crate::limits;
use crate::message::{CallMessage, Head, Start};
use crate::span::{AttributeValue, Attributes, Span, SpanEvent, SpanId, SpanKind, TraceId};

/// The calls under way of which spans are made.
pub struct CallSpans {
    /// The name of the node, which makes identifiers of spans its own.
    node: Box<str>,
    calls: HashMap<TraceId, Call>,
    missed: u64,
}

struct Call {
    begin: Instant,
    /// The time of the last message.
    last: Instant,
    ringing: Option<Instant>,
    answer: Option<Instant>,
    end: Option<Instant>,
    /// The final status of the call's INVITE.
    status: u16,
    attributes: Attributes,
    open: Vec<OpenRequest>,
    /// Spans that were numbered.
    spans: u64,
}

/// A request without its final answer.
struct OpenRequest {
    is_received: bool,
    branch: Box<[u8]>,
    method: Box<[u8]>,
    /// A copy of it was sent on.
    is_routed: bool,
    span: Span,
}

impl CallSpans {
    /// No calls.
    pub fn new(node: &str) -> CallSpans {
        CallSpans { node: node.into(), calls: HashMap::new(), missed: 0 }
    }

    /// Requests and calls without spans, because there were too many.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Handles a message. Spans that end with it go to `out`.
    pub fn handle_message(&mut self, message: &CallMessage, out: &mut Vec<Span>) {
        let Some(head) = Head::read(&message.head) else { return };
        let trace = TraceId::of(head.call_id);
        if !self.calls.contains_key(&trace) {
            // Registrations and the like have Call-IDs, too.
            if !(matches!(head.start, Start::Request(_)) && head.method == b"INVITE") {
                return;
            }
            if self.calls.len() >= limits::CALLS {
                self.missed += 1;
                return;
            }
        }
        let call = self.calls.entry(trace).or_insert_with(|| Call::new(message.at, &head));
        call.last = call.last.max(message.at);
        match head.start {
            Start::Request(uri) => {
                let is_taken = call.handle_request(message, &head, uri, (trace, &self.node), out);
                self.missed += u64::from(!is_taken);
            }
            Start::Response(status) => call.handle_response(message, &head, status, out),
        }
    }

    /// Ends calls that are over, and those of which nothing was seen for too long.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Span>) {
        let node = &self.node;
        self.calls.retain(|trace, call| {
            let silence = now.since(call.last);
            let is_over = call.end.is_some() && silence >= limits::LINGER || silence >= limits::SILENCE;
            if is_over {
                call.close(*trace, node, out);
            }
            !is_over
        });
    }

    /// Ends all calls: the node stops.
    pub fn finish(&mut self, out: &mut Vec<Span>) {
        for (trace, mut call) in self.calls.drain() {
            call.close(trace, &self.node, out);
        }
    }
}

impl Call {
    fn new(begin: Instant, head: &Head<'_>) -> Call {
        let attributes = vec![
            ("sip.call_id", AttributeValue::text(head.call_id)),
            ("sip.from", AttributeValue::text(head.from)),
            ("sip.to", AttributeValue::text(head.to)),
        ];
        Call {
            begin,
            last: begin,
            ringing: None,
            answer: None,
            end: None,
            status: 0,
            attributes,
            open: Vec::new(),
            spans: 0,
        }
    }

    /// False: there are too many requests of this call.
    fn handle_request(
        &mut self,
        message: &CallMessage,
        head: &Head<'_>,
        uri: &[u8],
        (trace, node): (TraceId, &str),
        out: &mut Vec<Span>,
    ) -> bool {
        let is_known = self.open.iter().any(|open| open.is(message.is_received, head));
        // An ACK has no answer; the answer of a request that came again ends the first one.
        if is_known || head.method == b"ACK" {
            return true;
        }
        if self.open.len() >= limits::OPEN_REQUESTS || self.spans >= limits::SPANS_OF_CALL as u64 {
            return false;
        }
        let root = SpanId::of(trace, node, 0);
        let mut parent = root;
        if !message.is_received
            && let Some(received) =
                self.open.iter_mut().rfind(|open| open.is_received && *open.method == *head.method)
        {
            parent = received.span.id;
            if head.method == b"INVITE" && !std::mem::replace(&mut received.is_routed, true) {
                let id = SpanId::of(trace, node, next(&mut self.spans));
                out.push(Span {
                    id,
                    parent: Some(parent),
                    ..internal(trace, "routing", received.span.begin, message.at)
                });
            }
        }
        if head.method == b"INVITE" {
            // Another attempt, after a challenge for example.
            self.end = None;
        }
        let id = SpanId::of(trace, node, next(&mut self.spans));
        let span = Span {
            id,
            parent: Some(parent),
            kind: if message.is_received { SpanKind::Server } else { SpanKind::Client },
            attributes: vec![
                ("sip.request_uri", AttributeValue::text(uri)),
                ("network.peer.address", AttributeValue::Text(message.peer.ip().to_string().into())),
                ("network.peer.port", AttributeValue::Number(message.peer.port().into())),
            ],
            ..internal(trace, &method_name(head.method), message.at, message.at)
        };
        self.open.push(OpenRequest {
            is_received: message.is_received,
            branch: head.branch.into(),
            method: head.method.into(),
            is_routed: false,
            span,
        });
        true
    }

    fn handle_response(&mut self, message: &CallMessage, head: &Head<'_>, status: u16, out: &mut Vec<Span>) {
        // The answer to a request that we sent is received.
        let Some(place) = self.open.iter().position(|open| open.is(!message.is_received, head)) else {
            return;
        };
        let is_invite = head.method == b"INVITE";
        if status < 200 {
            let events = &mut self.open[place].span.events;
            if status > 100 && events.len() < limits::EVENTS {
                events.push(SpanEvent { at: message.at, name: status.to_string().into() });
            }
            if is_invite && (180..=183).contains(&status) {
                self.ringing.get_or_insert(message.at);
            }
            return;
        }
        let mut span = self.open.swap_remove(place).span;
        span.end = message.at;
        span.is_error = is_failure(status);
        span.attributes.push(("sip.status", AttributeValue::Number(status.into())));
        out.push(span);
        if is_invite && status < 300 {
            self.answer.get_or_insert(message.at);
            self.status = 200;
        } else if is_invite && self.answer.is_none() {
            let is_last = !self.open.iter().any(|open| *open.method == *b"INVITE");
            self.status = status;
            self.end = is_last.then_some(message.at);
        } else if head.method == b"BYE" {
            self.end = Some(message.at);
        }
    }

    fn close(&mut self, trace: TraceId, node: &str, out: &mut Vec<Span>) {
        let root = SpanId::of(trace, node, 0);
        let end = self.end.unwrap_or(self.last);
        for open in self.open.drain(..) {
            let mut span = open.span;
            span.end = self.last;
            span.attributes.push(("belfry.unanswered", AttributeValue::Flag(true)));
            out.push(span);
        }
        let ringing = self.ringing.map(|ringing| ("ringing", ringing, self.answer.unwrap_or(end)));
        let conversation = self.answer.map(|answer| ("conversation", answer, end));
        for (name, begin, end) in ringing.into_iter().chain(conversation) {
            let id = SpanId::of(trace, node, next(&mut self.spans));
            out.push(Span { id, parent: Some(root), ..internal(trace, name, begin, end) });
        }
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.push(("sip.status", AttributeValue::Number(self.status.into())));
        if self.end.is_none() {
            attributes.push(("belfry.unfinished", AttributeValue::Flag(true)));
        }
        let marks = [("ringing", self.ringing), ("answer", self.answer)];
        let events =
            marks.into_iter().filter_map(|(name, at)| Some(SpanEvent { at: at?, name: name.into() }));
        out.push(Span {
            id: root,
            attributes,
            events: events.collect(),
            is_error: is_failure(self.status),
            ..internal(trace, "call", self.begin, end)
        });
    }
}

impl OpenRequest {
    fn is(&self, is_received: bool, head: &Head<'_>) -> bool {
        self.is_received == is_received && *self.branch == *head.branch && *self.method == *head.method
    }
}

/// A span within the node, without an identifier of its own.
fn internal(trace: TraceId, name: &str, begin: Instant, end: Instant) -> Span {
    Span {
        trace,
        id: SpanId::of(trace, "", 0),
        parent: None,
        name: name.into(),
        kind: SpanKind::Internal,
        begin,
        end: end.max(begin),
        attributes: Attributes::new(),
        events: Vec::new(),
        is_error: false,
    }
}

/// The number of the next span of a call.
fn next(spans: &mut u64) -> u64 {
    *spans += 1;
    *spans
}

/// Challenges are no failures, and a branch that another one has overtaken has not failed either.
fn is_failure(status: u16) -> bool {
    status >= 400 && ![401, 407, 487].contains(&status)
}

/// The name of a span: a method of strangers is no name of metrics that collectors make of spans.
fn method_name(method: &[u8]) -> String {
    const KNOWN: [&str; 9] =
        ["INVITE", "BYE", "CANCEL", "UPDATE", "PRACK", "INFO", "REFER", "NOTIFY", "MESSAGE"];
    KNOWN.iter().find(|known| known.as_bytes() == method).map_or("other request", |known| *known).to_owned()
}

#[cfg(test)]
mod tests;
