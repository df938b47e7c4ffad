//! Messages that we make: replies to a request, and requests of our own.

use std::io::Write;
use std::net::SocketAddr;

use bytes::Bytes;

use super::header::Header;
use super::message::{Message, top_via_is_alone};
use super::scan::{defuse, write_number, write_uri};
use super::values::Values;
use super::via::Via;

/// Name and version that our own messages carry.
pub const PRODUCT: &str = concat!("Belfry/", env!("CARGO_PKG_VERSION"));

/// A response in the making (RFC 3261 §8.2.6.2): Via, From, To, Call-ID and CSeq are the request's.
#[derive(Debug)]
pub struct Reply {
    out: Vec<u8>,
}

impl Reply {
    /// `source` marks the top Via with `received` and `rport`; `to_tag` is added when To has no tag yet.
    pub fn new(
        request: &Message,
        source: SocketAddr,
        status: u16,
        reason: &str,
        to_tag: Option<&str>,
    ) -> Self {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(b"SIP/2.0 ");
        write_number(&mut out, status.into());
        out.push(b' ');
        write_value(&mut out, reason.as_bytes());
        copy_vias(&mut out, request, source);
        copy_line(&mut out, request, Header::From, "From");
        copy_to(&mut out, request, to_tag);
        copy_line(&mut out, request, Header::CallId, "Call-ID");
        copy_line(&mut out, request, Header::CSeq, "CSeq");
        if status == 100 {
            // RFC 3261 §8.2.6.1.
            copy_line(&mut out, request, Header::Timestamp, "Timestamp");
        }
        Reply { out }
    }

    /// Bytes written so far.
    #[expect(clippy::len_without_is_empty, reason = "a reply has its start line from the beginning")]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Adds a header line.
    pub fn header(&mut self, name: &str, value: &[u8]) -> &mut Self {
        write_line(&mut self.out, name, value);
        self
    }

    /// Copies every line of that name from the request (Record-Route into a dialog-making response).
    pub fn copy_all(&mut self, request: &Message, header: Header) -> &mut Self {
        for value in request.header_lines(header) {
            write_line(&mut self.out, header.as_str(), value);
        }
        self
    }

    /// The response without a body.
    pub fn finish(self) -> Bytes {
        finish_with_body(self.out, "", b"")
    }

    /// The response with a body.
    pub fn finish_with(self, content_type: &str, body: &[u8]) -> Bytes {
        finish_with_body(self.out, content_type, body)
    }
}

/// A request in the making. Headers stand in the order they are added.
#[derive(Debug)]
pub struct RequestBuilder {
    out: Vec<u8>,
}

impl RequestBuilder {
    /// A request line and no headers.
    pub fn new(method: &[u8], uri: &[u8]) -> Self {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(method);
        out.push(b' ');
        write_uri(&mut out, uri);
        out.extend_from_slice(b" SIP/2.0\r\n");
        RequestBuilder { out }
    }

    /// A CANCEL for an INVITE that we sent (RFC 3261 §9.1), or the ACK for its final error response
    /// (§17.1.1.3), whose To the ACK carries.
    pub fn from_invite(method: &str, invite: &Message, to: &[u8]) -> Bytes {
        RequestBuilder::of_invite(method, invite, to).finish()
    }

    /// A CANCEL with the value of its Reason (RFC 3326 §2), which may be empty.
    pub fn cancel(invite: &Message, reason: &[u8]) -> Bytes {
        let to = invite.header(Header::To).unwrap_or_default();
        let mut request = RequestBuilder::of_invite("CANCEL", invite, to);
        if !reason.is_empty() {
            request.header("Reason", reason);
        }
        request.finish()
    }

    fn of_invite(method: &str, invite: &Message, to: &[u8]) -> RequestBuilder {
        let mut request = RequestBuilder::new(method.as_bytes(), invite.uri());
        if let Some(via) = invite.header(Header::Via).and_then(|line| Values::new(line).next()) {
            request.header("Via", via);
        }
        for route in invite.header_lines(Header::Route) {
            request.header("Route", route);
        }
        request.header("Max-Forwards", b"70");
        copy_line(&mut request.out, invite, Header::From, "From");
        request.header("To", to);
        copy_line(&mut request.out, invite, Header::CallId, "Call-ID");
        let number = invite.cseq().map_or(0, |(number, _)| number);
        let _ = write!(request.out, "CSeq: {number} {method}\r\n");
        request
    }

    /// Adds a header line.
    pub fn header(&mut self, name: &str, value: &[u8]) -> &mut Self {
        write_line(&mut self.out, name, value);
        self
    }

    /// The request without a body.
    pub fn finish(self) -> Bytes {
        finish_with_body(self.out, "", b"")
    }

    /// The request with a body.
    pub fn finish_with(self, content_type: &str, body: &[u8]) -> Bytes {
        finish_with_body(self.out, content_type, body)
    }
}

/// The Via value with the parameters that the receiving side adds by RFC 3261 §18.2.1 and RFC 3581 §4.
pub fn write_via_with_source(out: &mut Vec<u8>, value: &[u8], via: &Via<'_>, source: SocketAddr) {
    let wants_rport = via.rport().is_some();
    // A socket of both families shows IPv4 peers as mapped addresses; the peer does not know itself so.
    let ip = source.ip().to_canonical();
    let is_source = super::uri::parse_ip(via.host).is_some_and(|host| host.to_canonical() == ip);
    if !wants_rport && is_source && via.received().is_none() {
        out.extend_from_slice(value);
        return;
    }
    let params_start = memchr::memchr(b';', value).unwrap_or(value.len());
    out.extend_from_slice(super::scan::trim(&value[..params_start]));
    for param in via.params.iter() {
        // The sender's own values do not count.
        if param.name.eq_ignore_ascii_case(b"received") || param.name.eq_ignore_ascii_case(b"rport") {
            continue;
        }
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    if wants_rport || !is_source {
        // Without brackets (RFC 5118 §4.5).
        let _ = write!(out, ";received={ip}");
    }
    if wants_rport {
        let _ = write!(out, ";rport={}", source.port());
    }
}

fn copy_vias(out: &mut Vec<u8>, request: &Message, source: SocketAddr) {
    for (index, line) in request.header_lines(Header::Via).enumerate() {
        let mut values = Values::new(line);
        let top = if index == 0 { request.top_via_value().zip(request.top_via()) } else { None };
        let Some((value, via)) = top else {
            write_line(out, "Via", line);
            continue;
        };
        out.extend_from_slice(b"Via: ");
        let start = out.len();
        write_via_with_source(out, value, &via, source);
        if top_via_is_alone(request) {
            end_line(out, start);
            continue;
        }
        values.next();
        for other in values {
            out.extend_from_slice(b", ");
            out.extend_from_slice(other);
        }
        end_line(out, start);
    }
}

fn copy_to(out: &mut Vec<u8>, request: &Message, tag: Option<&str>) {
    let Some(value) = request.header(Header::To) else { return };
    out.extend_from_slice(b"To: ");
    let start = out.len();
    out.extend_from_slice(value);
    if let (Some(tag), None) = (tag, request.to_tag()) {
        out.extend_from_slice(b";tag=");
        out.extend_from_slice(tag.as_bytes());
    }
    end_line(out, start);
}

fn copy_line(out: &mut Vec<u8>, message: &Message, header: Header, name: &str) {
    if let Some(value) = message.header(header) {
        write_line(out, name, value);
    }
}

fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    write_value(out, value);
}

fn write_value(out: &mut Vec<u8>, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(value);
    end_line(out, start);
}

/// Ends the line whose value starts at `start`.
fn end_line(out: &mut Vec<u8>, start: usize) {
    defuse(&mut out[start..]);
    out.extend_from_slice(b"\r\n");
}

fn finish_with_body(mut out: Vec<u8>, content_type: &str, body: &[u8]) -> Bytes {
    if !content_type.is_empty() {
        write_line(&mut out, "Content-Type", content_type.as_bytes());
    }
    out.extend_from_slice(b"Content-Length: ");
    write_number(&mut out, body.len());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
    // To size: replies lie in their transactions until the last timer.
    Bytes::from(out.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via_of(value: &str, source: &str) -> String {
        let via = Via::parse(value.as_bytes()).unwrap();
        let mut out = Vec::new();
        write_via_with_source(&mut out, value.as_bytes(), &via, source.parse().unwrap());
        String::from_utf8(out).unwrap()
    }

    /// RFC 3261 §18.2.1, RFC 3581 §4.
    #[test]
    fn a_via_says_where_it_came_from() {
        let known = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1";
        assert_eq!(via_of(known, "192.0.2.1:5060"), known);
        assert_eq!(via_of(known, "[::ffff:192.0.2.1]:5060"), known);
        assert_eq!(via_of(known, "192.0.2.2:5060"), format!("{known};received=192.0.2.2"));
        assert_eq!(via_of(known, "[2001:db8::1]:5060"), format!("{known};received=2001:db8::1"));
        assert_eq!(
            via_of("SIP/2.0/UDP 192.0.2.1:9 ;rport;branch=z9hG4bK1", "192.0.2.1:7000"),
            "SIP/2.0/UDP 192.0.2.1:9;branch=z9hG4bK1;received=192.0.2.1;rport=7000"
        );
        assert_eq!(
            via_of("SIP/2.0/UDP 192.0.2.1;received=10.0.0.1;branch=z9hG4bK1", "192.0.2.1:5060"),
            known,
            "the sender's own parameter goes"
        );
    }

    #[test]
    fn written_values_cannot_start_a_header() {
        let text = "OPTIONS sip:b@b SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@a>;x=a\rb;tag=1\r\n\
                    To: <sip:b@b>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\r\n";
        let request = Message::parse(Bytes::from(text)).unwrap();
        let source = "192.0.2.1:5060".parse().unwrap();
        let mut reply = Reply::new(&request, source, 400, "Bad\r\nX-Evil: 1", Some("t"));
        reply.header("Warning", b"399 a \"x\"\r\nX-Evil: 2");
        let reply = Message::parse(reply.finish()).unwrap();
        assert_eq!(reply.header_named("X-Evil"), None);
        assert!(super::super::check_response(&reply).is_ok());
        let own = RequestBuilder::new(b"OPTIONS", b"sip:a b\r\nX-Evil: 3@c").finish();
        assert!(own.starts_with(b"OPTIONS sip:a%20b%0D%0AX-Evil:%203@c SIP/2.0\r\n"));
    }
}
