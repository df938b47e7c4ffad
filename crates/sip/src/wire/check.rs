//! Whether a message is good enough to act on (RFC 3261 §8.1.1, §16.3 step 1, §18.3), and the answer when not.

use super::header::Header;
use super::message::{Kind, Message};
use super::method::Method;
use super::scan::is_token;
use super::uri::{Scheme, Uri};

/// A request's fault, and the response it deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub status: u16,
    pub reason: &'static str,
}

const fn bad(reason: &'static str) -> Fault {
    Fault { status: 400, reason }
}

/// What every request must have before a transaction is made of it.
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

/// A response that cannot be trusted is dropped; nobody answers a response.
pub fn check_response(message: &Message) -> Result<(), Fault> {
    check_common(message)?;
    message.cseq().map(|_| ()).ok_or(bad("Bad CSeq"))
}

fn check_request_line(message: &Message) -> Result<(), Fault> {
    let line = message.start_line();
    let version = memchr::memrchr(b' ', line).map_or(&b""[..], |at| &line[at + 1..]);
    if version != b"SIP/2.0" {
        // Trailing white space puts an empty version here (RFC 4475 §3.1.2.9).
        let fault = Fault { status: 505, reason: "Version Not Supported" };
        return Err(if version.is_empty() { bad("Bad Request Line") } else { fault });
    }
    // Exactly two single spaces: lwsstart and lwsruri of RFC 4475.
    if memchr::memchr_iter(b' ', line).count() != 2 {
        return Err(bad("Bad Request Line"));
    }
    Ok(())
}

fn check_common(message: &Message) -> Result<(), Fault> {
    message.top_via().ok_or(bad("Bad Via"))?;
    message.call_id().ok_or(bad("Missing Call-ID"))?;
    let from = message.from().ok_or(bad("Bad From"))?;
    let to = message.to().ok_or(bad("Bad To"))?;
    if !display_is_sound(from.display) || !display_is_sound(to.display) {
        return Err(bad("Bad Display Name"));
    }
    for header in [Header::From, Header::To, Header::CallId, Header::CSeq] {
        if message.count(header) > 1 {
            return Err(bad("Repeated Header"));
        }
    }
    check_length(message)
}

/// RFC 3261 §18.3: a datagram shorter than Content-Length says is answered 400.
fn check_length(message: &Message) -> Result<(), Fault> {
    let available = message.bytes().len() - message.body_start();
    match message.content_length() {
        Some(None) => Err(bad("Bad Content-Length")),
        Some(Some(length)) if length > available => Err(bad("Body Shorter Than Content-Length")),
        _ if message.count(Header::ContentLength) > 1 => Err(bad("Repeated Content-Length")),
        _ => Ok(()),
    }
}

/// Unquoted display names are tokens and spaces (RFC 4475 §3.1.2.15, baddn).
fn display_is_sound(display: &[u8]) -> bool {
    display.first() == Some(&b'"')
        || display
            .split(|&b| super::scan::is_lws(b))
            .all(|word| word.is_empty() || is_token(word) || !word.is_ascii())
}

fn check_uri(message: &Message) -> Result<(), Fault> {
    let uri = Uri::parse(message.uri()).map_err(|_| bad("Bad Request-URI"))?;
    match uri.scheme {
        // RFC 3261 §8.2.2.1. A REGISTER and an OPTIONS of other schemes are nothing we could serve either.
        Scheme::Other => Err(Fault { status: 416, reason: "Unsupported URI Scheme" }),
        _ if !uri.headers.is_empty()
            && matches!(message.kind(), Kind::Request { method: Method::Invite }) =>
        {
            // escruri of RFC 4475 §3.1.2.11: headers are not allowed in a Request-URI.
            Err(bad("Headers In Request-URI"))
        }
        _ => Ok(()),
    }
}
