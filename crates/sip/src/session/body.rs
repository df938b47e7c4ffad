//! The session description in a body: alone, or as a part of multipart/mixed (RFC 5621 §3.1, RFC 2046 §5.1).
//!
//! Sessions offer and answer SDP. A trunk may send it beside a part for the telephone network (RFC 3204), or a location beside
//! it (RFC 6442); what is not understood is passed over unless its sender says that it is required.

use bytes::Bytes;

use super::SDP;
use crate::wire::{Header, Message, Params, trim};

/// The types that a session reads.
pub(super) const ACCEPT: &str = "application/sdp, multipart/mixed";

/// Status, reason and a header of a refusal.
pub(super) type BodyRefusal = (u16, &'static str, Option<(&'static str, String)>);

/// The session description of a message. A body without a type counts as one.
pub fn sdp_of(message: &Message) -> Option<Bytes> {
    if is_coded(message) {
        return None;
    }
    let (kind, params) = typed(message.header(Header::ContentType).unwrap_or_default());
    let text = if is_multipart(kind) {
        MultipartReader::new(message.body(), params)?.find(Part::is_description)?.body
    } else if kind.is_empty() || is_sdp(kind) {
        message.body()
    } else {
        return None;
    };
    (!text.is_empty()).then(|| message.bytes().slice_ref(text))
}

/// RFC 3261 §8.2.3: a body that is not understood is refused with what is, unless it is optional.
pub(super) fn check_body(request: &Message) -> Result<(), BodyRefusal> {
    let handling = handling_of(request.header_named("Content-Disposition").unwrap_or_default());
    if request.body().is_empty() || handling == Handling::Optional {
        return Ok(());
    }
    if is_coded(request) {
        return Err((415, "Unsupported Media Type", Some(("Accept-Encoding", "identity".to_owned()))));
    }
    let (kind, params) = typed(request.header(Header::ContentType).unwrap_or_default());
    let is_understood = if is_multipart(kind) {
        let mut parts =
            MultipartReader::new(request.body(), params).ok_or((400, "Missing Boundary", None))?;
        parts.all(|part| part.is_description() || handling_of(part.disposition) != Handling::Required)
    } else {
        is_sdp(kind)
    };
    if is_understood {
        return Ok(());
    }
    Err((415, "Unsupported Media Type", Some(("Accept", ACCEPT.to_owned()))))
}

/// The `handling` parameter of Content-Disposition (RFC 3261 §20.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handling {
    Unsaid,
    Optional,
    Required,
}

fn handling_of(disposition: &[u8]) -> Handling {
    match typed(disposition).1.get("handling") {
        Some(value) if value.eq_ignore_ascii_case(b"optional") => Handling::Optional,
        Some(value) if value.eq_ignore_ascii_case(b"required") => Handling::Required,
        _ => Handling::Unsaid,
    }
}

fn is_coded(message: &Message) -> bool {
    message.values(Header::ContentEncoding).any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

fn is_sdp(kind: &[u8]) -> bool {
    kind.eq_ignore_ascii_case(SDP.as_bytes())
}

fn is_multipart(kind: &[u8]) -> bool {
    kind.eq_ignore_ascii_case(b"multipart/mixed")
}

/// A value and its parameters.
fn typed(value: &[u8]) -> (&[u8], Params<'_>) {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    (trim(&value[..end]), Params(value.get(end + 1..).unwrap_or_default()))
}

/// One part of a multipart body.
struct Part<'a> {
    kind: &'a [u8],
    disposition: &'a [u8],
    /// It is not in the bytes of its type.
    is_coded: bool,
    body: &'a [u8],
}

impl<'a> Part<'a> {
    /// `text` is what stands between two delimiters.
    fn parse(text: &'a [u8]) -> Part<'a> {
        let mut part = Part { kind: b"text/plain", disposition: b"", is_coded: false, body: text };
        loop {
            let end = memchr::memchr(b'\n', part.body).map_or(part.body.len(), |end| end + 1);
            let (line, rest) = part.body.split_at(end);
            part.body = rest;
            let line = trim(line);
            if line.is_empty() {
                return part;
            }
            let colon = memchr::memchr(b':', line).unwrap_or(line.len());
            let (name, value) = (trim(&line[..colon]), trim(line.get(colon + 1..).unwrap_or_default()));
            match name.to_ascii_lowercase().as_slice() {
                b"content-type" => part.kind = typed(value).0,
                b"content-disposition" => part.disposition = value,
                b"content-encoding" | b"content-transfer-encoding" => {
                    let plain = [&b"identity"[..], b"7bit", b"8bit", b"binary"];
                    part.is_coded |= !plain.iter().any(|plain| value.eq_ignore_ascii_case(plain));
                }
                _ => {}
            }
        }
    }

    fn is_description(&self) -> bool {
        is_sdp(self.kind) && !self.is_coded
    }
}

/// The parts of a multipart body, in their order.
struct MultipartReader<'a> {
    delimiter: Vec<u8>,
    rest: Option<&'a [u8]>,
}

impl<'a> MultipartReader<'a> {
    /// `None`: there is no boundary, or no part.
    fn new(body: &'a [u8], params: Params<'_>) -> Option<MultipartReader<'a>> {
        let boundary = params.unquoted("boundary").filter(|boundary| !boundary.is_empty())?;
        let mut parts = MultipartReader { delimiter: [b"--", boundary].concat(), rest: Some(body) };
        // Text before the first delimiter is no part.
        parts.next_text()?;
        parts.rest.is_some().then_some(parts)
    }

    /// The text up to the next delimiter, or to the end of a body that is cut off.
    fn next_text(&mut self) -> Option<&'a [u8]> {
        let text = self.rest.take()?;
        for at in memchr::memmem::find_iter(text, &self.delimiter) {
            let after = &text[at + self.delimiter.len()..];
            let is_last = after.starts_with(b"--");
            let line_end = memchr::memchr(b'\n', after).map_or(after.len(), |end| end + 1);
            let is_line =
                (at == 0 || text[at - 1] == b'\n') && (is_last || trim(&after[..line_end]).is_empty());
            if !is_line {
                continue;
            }
            self.rest = (!is_last).then_some(&after[line_end..]);
            // The line end before a delimiter belongs to it.
            let before = text[..at].strip_suffix(b"\n").unwrap_or_default();
            return Some(before.strip_suffix(b"\r").unwrap_or(before));
        }
        Some(text)
    }
}

impl<'a> Iterator for MultipartReader<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        self.next_text().map(Part::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content_type: &str, body: &str) -> Option<String> {
        let text = format!("SIP/2.0 200 OK\r\nContent-Type: {content_type}\r\n\r\n{body}");
        let message = Message::parse(Bytes::from(text)).unwrap();
        sdp_of(&message).map(|sdp| String::from_utf8_lossy(&sdp).into_owned())
    }

    #[test]
    fn a_description_is_found_where_it_stands() {
        let mixed = "multipart/mixed; boundary=x";
        let sdp = "Content-Type: application/sdp\r\n\r\nv=0\r\n";
        for (content_type, body, expected) in [
            ("application/sdp", "v=0\r\n".to_owned(), Some("v=0\r\n")),
            ("application/SDP ;charset=utf-8", "v=0".to_owned(), Some("v=0")),
            ("application/isup;version=x", "v=0".to_owned(), None),
            (mixed, format!("--x\r\n{sdp}--x--"), Some("v=0")),
            (mixed, format!("--x\r\n{sdp}\r\n--x--\r\n"), Some("v=0\r\n")),
            (mixed, format!("before\r\n--x\r\n\r\ntext\r\n--x  \r\n{sdp}\r\n--x--after"), Some("v=0\r\n")),
            (mixed, format!("--x\n{}\n--x--", sdp.replace('\r', "")), Some("v=0\n")),
            ("multipart/mixed;boundary=\"x y\"", format!("--x y\r\n{sdp}--x y--"), Some("v=0")),
            // No delimiter ends it: the body's end does.
            (mixed, format!("--x\r\n{sdp}"), Some("v=0\r\n")),
            // The delimiter of another boundary, and one within a line.
            (mixed, format!("--x\r\n{sdp}x --x\r\n--xy\r\n\r\n--x--"), Some("v=0\r\nx --x\r\n--xy\r\n")),
            (mixed, format!("--x\r\nContent-Transfer-Encoding: base64\r\n{sdp}--x--"), None),
            (mixed, format!("--x--\r\n{sdp}"), None),
            (mixed, sdp.to_owned(), None),
            (mixed, "--x".to_owned(), None),
            ("multipart/mixed", format!("--\r\n{sdp}----"), None),
        ] {
            assert_eq!(found(content_type, &body).as_deref(), expected, "{content_type} {body}");
        }
    }
}
