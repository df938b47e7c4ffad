//! The check that a message may be acted on (RFC 3261 §8.1.1, §16.3 step 1, §18.3), and the response if not.

use super::header::Header;
use super::message::Message;
use super::scan::position;
use super::uri::Scheme;
use super::values::Values;
use super::via::Via;

/// A request's fault, and the response it deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The status of the response.
    pub status: u16,
    /// The reason phrase of the response.
    pub reason: &'static str,
}

const fn bad(reason: &'static str) -> Fault {
    Fault { status: 400, reason }
}

/// Checks that every request passes before a transaction is made of it.
pub fn check_request(message: &Message) -> Result<(), Fault> {
    check_request_line(message)?;
    check_common(message)?;
    let (_, cseq_method) = message.cseq().ok_or(bad("Bad CSeq"))?;
    if cseq_method != message.method_name() {
        return Err(bad("CSeq Method Mismatch"));
    }
    if message.max_forwards() == Some(None) {
        return Err(bad("Bad Max-Forwards"));
    }
    check_uri(message)
}

/// A response that cannot be trusted is dropped; a response has no answer.
pub fn check_response(message: &Message) -> Result<(), Fault> {
    check_common(message)?;
    message.cseq().map(|_| ()).ok_or(bad("Bad CSeq"))
}

fn check_request_line(message: &Message) -> Result<(), Fault> {
    let version = message.start_line().get(message.uri_span().end + 1..).unwrap_or_default();
    // RFC 3261 §7.1: compared without regard to case.
    if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        // Trailing white space puts an empty version here (trws of RFC 4475 §3.1.2.10).
        let fault = Fault { status: 505, reason: "Version Not Supported" };
        return Err(if version.is_empty() { bad("Bad Request Line") } else { fault });
    }
    // Exactly two single spaces: lwsruri and lwsstart of RFC 4475 §3.1.2.8 and §3.1.2.9.
    if position(b' ', message.uri()).is_some() {
        return Err(bad("Bad Request Line"));
    }
    Ok(())
}

/// RFC 3261 §16.3 step 1: the headers that a server transaction and forwarding need must be well formed; all
/// else passes as it came.
fn check_common(message: &Message) -> Result<(), Fault> {
    if !message.lines_are_sound() {
        return Err(bad("Bad Header Line"));
    }
    check_via(message)?;
    message.call_id().ok_or(bad("Missing Call-ID"))?;
    if !message.has_from_and_to() {
        return Err(bad(if message.from().is_none() { "Bad From" } else { "Bad To" }));
    }
    if message.has_repeated_line() {
        return Err(bad("Repeated Header"));
    }
    check_length(message)
}

/// All values of the top line: ours goes before it, and the text after a value that ends too early would
/// belong to no hop (badinv01 of RFC 4475 §3.1.2.1).
fn check_via(message: &Message) -> Result<(), Fault> {
    let line = message.header(Header::Via).ok_or(bad("Missing Via"))?;
    let top = message.top_via_value().ok_or(bad("Bad Via"))?;
    // Most lines have one value, and the message knows that it is well formed.
    let is_only = top.len() == line.len();
    if is_only || Values::new(line).all(|value| Via::parse(value).is_some()) {
        Ok(())
    } else {
        Err(bad("Bad Via"))
    }
}

/// RFC 3261 §18.3: a datagram shorter than Content-Length says is answered 400.
fn check_length(message: &Message) -> Result<(), Fault> {
    match message.content_length() {
        Some(None) => Err(bad("Bad Content-Length")),
        Some(Some(length)) if length > message.body().len() => Err(bad("Body Shorter Than Content-Length")),
        _ => Ok(()),
    }
}

fn check_uri(message: &Message) -> Result<(), Fault> {
    let uri = message.request_uri().map_err(|_| bad("Bad Request-URI"))?;
    match uri.scheme {
        // RFC 3261 §8.2.2.1. A REGISTER and an OPTIONS of other schemes are nothing we could serve either.
        Scheme::Other => Err(Fault { status: 416, reason: "Unsupported URI Scheme" }),
        // RFC 3261 §19.1.1, table 1: no headers in a Request-URI (escruri of RFC 4475 §3.1.2.11).
        _ if !uri.headers.is_empty() => Err(bad("Headers In Request-URI")),
        _ => Ok(()),
    }
}
