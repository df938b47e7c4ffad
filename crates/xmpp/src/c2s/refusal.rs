//! Streams that are refused when the client opens them, as the server does not keep up. No TLS and no SASL follows.

use super::C2s;
use crate::{Element, ns};

/// The server has no resources for this stream, which nothing was read from yet: the client's header is answered by `resource-constraint` (RFC 6120
/// §4.9.3.17).
pub fn refuse(stream: &mut C2s) {
    if let Some(sign_in) = &mut stream.sign_in {
        sign_in.is_refused = true;
    }
}

/// True if the stream was refused.
pub fn is_refused(stream: &C2s) -> bool {
    stream.sign_in.as_ref().is_some_and(|sign_in| sign_in.is_refused)
}

pub(super) fn condition() -> Element {
    Element::new("resource-constraint", ns::STREAM_ERRORS)
}

/// A text for people that read logs of clients (RFC 6120 §4.9.2).
pub(super) fn text() -> Element {
    Element::new("text", ns::STREAM_ERRORS).text("the server is busy: try again later")
}
