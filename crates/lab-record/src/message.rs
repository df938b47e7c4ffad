//! SIP messages as a capture has them: start line, header fields in order, body.
//!
//! Crate `sip` has a parser for messages that it must route and answer. This one is for messages that others
//! have exchanged already: it reads as much as it can, keeps the order of the fields and their values, and
//! refuses only a message that belongs to no transaction (without Call-ID or CSeq).

/// A message, parsed as far as scenarios need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SipMessage {
    /// The first line.
    pub start: StartLine,
    /// Header fields in order, one entry a line: long names, folded lines joined, values trimmed. Bytes that
    /// are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// The bytes behind the empty line, cut to Content-Length where there is one.
    pub body: Vec<u8>,
}

/// The first line of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartLine {
    /// A request.
    Request {
        /// The method.
        method: String,
        /// The Request-URI.
        uri: String,
    },
    /// A response.
    Response {
        /// The status code.
        code: u16,
        /// The reason phrase.
        reason: String,
    },
}

/// Compact forms (RFC 3261 §7.3.3, and the RFCs of the other fields, such as RFC 6665 for `o` and `u`, RFC
/// 3515 for `r`). Scenarios are written with long names, so that later code compares one spelling.
const COMPACT: &[(&str, &str)] = &[
    ("v", "Via"),
    ("f", "From"),
    ("t", "To"),
    ("i", "Call-ID"),
    ("m", "Contact"),
    ("l", "Content-Length"),
    ("c", "Content-Type"),
    ("e", "Content-Encoding"),
    ("s", "Subject"),
    ("k", "Supported"),
    ("o", "Event"),
    ("r", "Refer-To"),
    ("b", "Referred-By"),
    ("u", "Allow-Events"),
    ("x", "Session-Expires"),
];

/// True if bytes begin as a SIP message does: a status line, or a request line that ends in the version. Only
/// the first line is read, as `tcp` asks this of a message that is not whole yet.
pub(crate) fn is_sip(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_status = line.strip_prefix(b"SIP/2.0 ").is_some_and(|rest| {
        rest.len() >= 3
            && rest[..3].iter().all(u8::is_ascii_digit)
            && rest.get(3).is_none_or(|byte| *byte == b' ')
    });
    let is_request = line.strip_suffix(b" SIP/2.0").is_some_and(|rest| {
        let method = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
        !method.is_empty() && method.len() < rest.len() && method.iter().all(u8::is_ascii_uppercase)
    });
    is_status || is_request
}

/// The length of the header with its empty line; `None` while the empty line is missing.
pub(crate) fn header_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// The number in Content-Length or `l`. 0 without the field: over TCP a message without it has no body that
/// could be told from the next message. `None` for a value that is no number.
pub(crate) fn content_length(head: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(head);
    let field = text.split("\r\n").filter_map(|line| line.split_once(':')).find(|(name, _)| {
        let name = name.trim();
        name.eq_ignore_ascii_case("Content-Length") || name.eq_ignore_ascii_case("l")
    });
    field.map_or(Some(0), |(_, value)| value.trim().parse().ok())
}

impl SipMessage {
    /// A datagram, or the exact bytes of one message of a stream. `None` for bytes that are no SIP message,
    /// or one without Call-ID or CSeq.
    pub fn parse(bytes: &[u8]) -> Option<SipMessage> {
        if !is_sip(bytes) {
            return None;
        }
        let end = header_end(bytes).unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let start = start_line(lines.next()?)?;
        let mut headers: Vec<(String, String)> = Vec::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            if line.starts_with([' ', '\t']) {
                // RFC 3261 §7.3.1: a folded line continues the field.
                if let Some((_, value)) = headers.last_mut() {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                headers.push((long_name(name.trim()), value.trim().to_owned()));
            }
        }
        let body = &bytes[end..];
        let length = content_length(&bytes[..end]).unwrap_or(body.len());
        // Without Content-Length the body of a datagram goes to its end (RFC 3261 §18.3).
        let has_length = headers.iter().any(|(name, _)| name == "Content-Length");
        let body = if has_length { &body[..length.min(body.len())] } else { body };
        let message = SipMessage { start, headers, body: body.to_vec() };
        (message.header("Call-ID").is_some() && message.cseq().is_some()).then_some(message)
    }

    /// The first value of a header field. The name is compared without case, in its long form.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The Call-ID.
    pub fn call_id(&self) -> &str {
        self.header("Call-ID").unwrap_or_default()
    }

    /// Number and method of CSeq. `None` if the field is missing or its number does not fit into 32 bits (RFC
    /// 3261 §8.1.1.5).
    pub fn cseq(&self) -> Option<(u32, &str)> {
        let (number, method) = self.header("CSeq")?.split_once([' ', '\t'])?;
        Some((number.parse().ok()?, method.trim()))
    }

    /// The method; for a response that of the request it answers, from CSeq.
    pub fn method(&self) -> &str {
        match &self.start {
            StartLine::Request { method, .. } => method,
            StartLine::Response { .. } => self.cseq().map_or("", |(_, method)| method),
        }
    }

    /// The status code of a response.
    pub fn code(&self) -> Option<u16> {
        match self.start {
            StartLine::Request { .. } => None,
            StartLine::Response { code, .. } => Some(code),
        }
    }

    /// The branch of the topmost Via, or an empty text (elements of RFC 2543 have none).
    pub fn branch(&self) -> &str {
        parameter(self.header("Via").unwrap_or_default().split(',').next().unwrap_or_default(), "branch")
            .unwrap_or_default()
    }

    /// The tag of From or To, whichever `header` names.
    pub fn tag(&self, header: &str) -> Option<&str> {
        let value = self.header(header)?;
        // A parameter inside <…> belongs to the address.
        let parameters = value.rsplit_once('>').map_or(value, |(_, rest)| rest);
        parameter(parameters, "tag")
    }
}

/// Reads a request line or a status line. Status codes outside 100 to 699 do not exist (RFC 3261 §7.2).
fn start_line(line: &str) -> Option<StartLine> {
    if let Some(rest) = line.strip_prefix("SIP/2.0 ") {
        let code = rest.get(..3)?.parse().ok().filter(|code| (100..700).contains(code))?;
        return Some(StartLine::Response { code, reason: rest.get(4..).unwrap_or_default().to_owned() });
    }
    let (method, rest) = line.split_once(' ')?;
    let uri = rest.strip_suffix(" SIP/2.0")?;
    Some(StartLine::Request { method: method.to_owned(), uri: uri.trim().to_owned() })
}

/// The long form of a compact name, and the usual spelling of the names that scenarios treat apart; others
/// keep the sender's spelling.
fn long_name(name: &str) -> String {
    let long = COMPACT.iter().find(|(compact, _)| compact.eq_ignore_ascii_case(name));
    if let Some((_, long)) = long {
        return (*long).to_owned();
    }
    let known = ["Via", "From", "To", "Call-ID", "CSeq", "Contact", "Content-Length", "Content-Type"];
    let known = known.into_iter().find(|known| known.eq_ignore_ascii_case(name));
    known.unwrap_or(name).to_owned()
}

/// The value of `;name=value` in a text that begins with something else, such as an address. Names are
/// compared without case (RFC 3261 §7.3.1).
pub(crate) fn parameter<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let found = text.split(';').skip(1).filter_map(|part| part.split_once('='));
    let mut found = found.filter(|(known, _)| known.trim().eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_fields_with_long_names() {
        let text = b"INVITE sip:b@h SIP/2.0\r\nv: SIP/2.0/UDP h;branch=z9hG4bK1, SIP/2.0/UDP g;branch=2\r\nf: \"A;tag=x\" <sip:a@h;tag=y>;tag=1\r\n\
            t: <sip:b@h>\r\ni: 7@h\r\nCSEQ: 5  INVITE\r\nSubject: one\r\n  two\r\nl: 3\r\n\r\nabcdef";
        let message = SipMessage::parse(text).expect("SIP");
        assert_eq!(
            (message.call_id(), message.cseq(), message.branch()),
            ("7@h", Some((5, "INVITE")), "z9hG4bK1")
        );
        assert_eq!((message.tag("From"), message.tag("To")), (Some("1"), None));
        assert_eq!((message.header("Subject"), message.body.as_slice()), (Some("one two"), &b"abc"[..]));
    }

    #[test]
    fn text_that_is_not_sip_is_not_parsed() {
        for text in [
            "",
            "GET / HTTP/1.1\r\nCall-ID: 1\r\nCSeq: 1 A\r\n\r\n",
            "SIP/2.0 2000 OK\r\nCall-ID: 1\r\nCSeq: 1 A\r\n\r\n",
            "SIP/2.0 999 OK\r\nCall-ID: 1\r\nCSeq: 1 A\r\n\r\n",
            "INVITE sip:b SIP/2.0\r\nCall-ID: 1\r\n\r\n",
            "INVITE sip:b SIP/2.0\r\nCSeq: 1 INVITE\r\n\r\n",
            "\u{80}\0\0\0",
        ] {
            assert_eq!(SipMessage::parse(text.as_bytes()), None, "{text}");
        }
    }
}
