//! Traces of calls and stanzas for OpenTelemetry: spans made of copies of SIP messages ([`CallSpans`], pure) and of stanzas ([`StanzaSpans`], pure),
//! and the thread that sends them to a collector ([`Exporter`], OTLP over HTTP in JSON).
//!
//! The node copies the heads of messages of sampled calls where they pass its sockets, and of calls and stanzas of accounts that are traced; nothing is
//! copied of others. The trace of a call is made of its Call-ID, so all nodes of a farm add to one trace.

#![warn(missing_docs)]

mod calls;
mod exporter;
pub mod limits;
mod message;
mod span;
mod stanzas;

pub use calls::CallSpans;
pub use exporter::{ApplicationRequest, Exporter, ExporterSettings, ExporterStatus, PartSpan};
pub use message::CallMessage;
pub use span::{AttributeValue, Attributes, Span, SpanEvent, SpanId, SpanKind, TraceId, request_body};
pub use stanzas::{Stanza, StanzaSpans};
