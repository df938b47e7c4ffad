//! Traces of requests to applications: the export is not of this crate.

use std::fmt::Debug;

/// Notes requests to applications.
pub trait RequestTrace: Send + Sync + Debug {
    /// A request of the call with this Call-ID begins. `None`: the call is not traced.
    fn begin(&self, call_id: &str, method: &'static str, url: &str) -> Option<Box<dyn TracedRequest>>;
}

/// A request under way.
pub trait TracedRequest {
    /// The value of `traceparent` (W3C Trace Context §3.2), by which the application can add to the trace.
    fn parent(&self) -> &str;

    /// It has ended with this status; none: without an answer.
    fn end(self: Box<Self>, status: Option<u16>);
}
