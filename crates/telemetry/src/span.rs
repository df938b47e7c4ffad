//! A span as OpenTelemetry has it, and its form in JSON (OTLP/HTTP, `ExportTraceServiceRequest`).

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stdx::Instant;

use crate::limits;

/// The trace of a call: the same at each node, as it is made of the Call-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// A span within a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// The part of a request that a span shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Something within this node.
    Internal,
    /// A request that the node has received.
    Server,
    /// A request that the node has sent.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(Box<str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

/// Names of attributes with their values.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// A moment within a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanEvent {
    /// The time of it.
    pub at: Instant,
    /// Its name, as `180`.
    pub name: Box<str>,
}

/// A part of a call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The call.
    pub trace: TraceId,
    /// The span itself.
    pub id: SpanId,
    /// The span that it is a part of; none of the whole call.
    pub parent: Option<SpanId>,
    /// Its name, as `INVITE`.
    pub name: Box<str>,
    /// The part in a request.
    pub kind: SpanKind,
    /// The begin.
    pub begin: Instant,
    /// The end.
    pub end: Instant,
    /// Facts about it.
    pub attributes: Attributes,
    /// Moments within it.
    pub events: Vec<SpanEvent>,
    /// The request has failed.
    pub is_error: bool,
}

impl TraceId {
    /// The trace of the call with this Call-ID.
    pub fn of(call_id: &[u8]) -> TraceId {
        let hash = Sha256::new().chain_update("trace of a call").chain_update(call_id).finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        TraceId(id)
    }
}

impl SpanId {
    /// The span of this number that a node makes of a call. 0 is the call itself.
    pub(crate) fn of(trace: TraceId, node: &str, number: u64) -> SpanId {
        let hash = Sha256::new()
            .chain_update(trace.0)
            .chain_update(number.to_be_bytes())
            .chain_update(node)
            .finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        SpanId(id)
    }
}

impl AttributeValue {
    /// A text, cut at its limit. Bytes that are not UTF-8 are replaced.
    pub(crate) fn text(bytes: &[u8]) -> AttributeValue {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(limits::TEXT_BYTES)]);
        AttributeValue::Text(text.into())
    }
}

/// The body of a request with these spans. `node`: the name of the node, if it has one.
pub fn request_body(spans: &[Span], version: &str, node: &str) -> Vec<u8> {
    let mut resource: Attributes = vec![
        ("service.name", AttributeValue::Text("belfry".into())),
        ("service.version", AttributeValue::Text(version.into())),
    ];
    if !node.is_empty() {
        resource.push(("service.instance.id", AttributeValue::Text(node.into())));
    }
    let scope = json!({ "name": "belfry.calls", "version": version });
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&resource) },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] });
    body.to_string().into_bytes()
}

fn span(span: &Span) -> Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
    };
    let events =
        span.events.iter().map(|event| json!({ "timeUnixNano": nanos(event.at), "name": &*event.name }));
    let mut value = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "name": &*span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.begin),
        "endTimeUnixNano": nanos(span.end),
        "attributes": attributes(&span.attributes),
        "events": events.collect::<Vec<_>>(),
        // `STATUS_CODE_ERROR`, or unset.
        "status": if span.is_error { json!({ "code": 2 }) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        value["parentSpanId"] = parent.to_string().into();
    }
    value
}

fn attributes(attributes: &Attributes) -> Vec<Value> {
    let one = |(name, value): &(&str, AttributeValue)| {
        let value = match value {
            AttributeValue::Text(text) => json!({ "stringValue": &**text }),
            // Numbers of 64 bits are texts in JSON of Protocol Buffers.
            AttributeValue::Number(number) => json!({ "intValue": number.to_string() }),
            AttributeValue::Flag(flag) => json!({ "boolValue": flag }),
        };
        json!({ "key": name, "value": value })
    };
    attributes.iter().map(one).collect()
}

fn nanos(at: Instant) -> String {
    format!("{}000", at.as_micros())
}

/// Hexadecimal, in JSON too, unlike other bytes of Protocol Buffers.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&stdx::hex::encode(&self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&stdx::hex::encode(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_the_form_of_otlp() {
        let at = Instant::from_micros(1_800_000_000_123_456);
        let trace = TraceId::of(b"a@b");
        let span = Span {
            trace,
            id: SpanId::of(trace, "n", 1),
            parent: Some(SpanId::of(trace, "n", 0)),
            name: "INVITE".into(),
            kind: SpanKind::Client,
            begin: at,
            end: at,
            attributes: vec![("sip.status", AttributeValue::Number(486)), ("x", AttributeValue::Flag(true))],
            events: vec![SpanEvent { at, name: "180".into() }],
            is_error: true,
        };
        let body: Value = serde_json::from_slice(&request_body(&[span], "1.2", "n1")).unwrap();
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][2]["value"]["stringValue"], "n1");
        let span = &resource["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"].as_str().map(str::len), Some(32));
        assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
        assert_ne!(span["spanId"], span["parentSpanId"]);
        assert_eq!((&span["kind"], &span["status"]["code"]), (&json!(3), &json!(2)));
        assert_eq!(span["startTimeUnixNano"], "1800000000123456000");
        assert_eq!(span["events"][0], json!({ "timeUnixNano": "1800000000123456000", "name": "180" }));
        assert_eq!(span["attributes"][0], json!({ "key": "sip.status", "value": { "intValue": "486" } }));
    }

    #[test]
    fn a_text_is_cut_and_bytes_that_are_no_text_are_replaced() {
        assert_eq!(AttributeValue::text(b"a\xff"), AttributeValue::Text("a\u{fffd}".into()));
        let AttributeValue::Text(long) = AttributeValue::text(&[b'a'; 1_000]) else { panic!("a text") };
        assert_eq!(long.len(), limits::TEXT_BYTES);
    }
}
