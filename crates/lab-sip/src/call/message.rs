//! A received message, read as leniently as SIPp reads it: what matching needs is found in one pass, the rest when asked for.
//!
//! [`Incoming::parse`] finds the start line, five headers and the body; other headers are searched when a step asks for them. Nothing is checked
//! beyond what the scenario needs: a lab must accept what a server under test sends.

use memchr::{memchr, memchr_iter, memmem};

/// Borrows the datagram, or the frame cut from a stream.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// The whole message, as on the wire.
    pub bytes: &'a [u8],
    /// The request line or status line.
    pub start: StartLine<'a>,
    /// The value of the first Call-ID.
    pub call_id: &'a [u8],
    /// The number of the CSeq header.
    pub cseq_number: u32,
    /// The method of the CSeq header: for a response, that of its request.
    pub cseq_method: &'a [u8],
    /// `branch` of the topmost Via, empty without one.
    pub branch: &'a [u8],
    /// Values of the first Via, From and To.
    pub via: Option<&'a [u8]>,
    /// The first From.
    pub from: Option<&'a [u8]>,
    /// The first To.
    pub to: Option<&'a [u8]>,
    /// Offset of the body; `bytes.len()` without one.
    pub body: usize,
}

/// The start line of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// A request (RFC 3261 §7.1).
    Request {
        /// The method as written.
        method: &'a [u8],
        /// The Request-URI as written.
        uri: &'a [u8],
    },
    /// A response (RFC 3261 §7.2).
    Response {
        /// The status code.
        code: u16,
    },
}

/// Why bytes are not a message we can count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSip {
    /// The first line is neither a request line nor a status line.
    NoStartLine,
    /// Without a Call-ID the message belongs to no call.
    NoCallId,
    /// Without a CSeq no step can be matched.
    NoCseq,
}

/// Long and compact names (RFC 3261 §7.3.3 and the registry of later RFCs).
const COMPACT: [(&str, u8); 19] = [
    ("via", b'v'),
    ("from", b'f'),
    ("to", b't'),
    ("call-id", b'i'),
    ("contact", b'm'),
    ("content-length", b'l'),
    ("content-type", b'c'),
    ("content-encoding", b'e'),
    ("subject", b's'),
    ("supported", b'k'),
    ("event", b'o'),
    ("allow-events", b'u'),
    ("refer-to", b'r'),
    ("referred-by", b'b'),
    ("session-expires", b'x'),
    ("accept-contact", b'a'),
    ("reject-contact", b'j'),
    ("request-disposition", b'd'),
    ("identity", b'y'),
];

impl<'a> Incoming<'a> {
    /// Parses the parts of a message that every call needs.
    pub fn parse(bytes: &'a [u8]) -> Result<Incoming<'a>, NotSip> {
        let first =
            bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).ok_or(NotSip::NoStartLine)?;
        let line_end = memchr(b'\n', &bytes[first..]).map_or(bytes.len(), |at| first + at);
        let start = start_line(trim(&bytes[first..line_end])).ok_or(NotSip::NoStartLine)?;
        let mut found = FoundHeaders::default();
        let mut body = bytes.len();
        let mut line = line_end + 1;
        for newline in memchr_iter(b'\n', bytes.get(line..).unwrap_or_default()).map(|at| at + line_end + 1) {
            match bytes[line] {
                b'\n' => {
                    body = newline + 1;
                    break;
                }
                b'\r' if line + 1 == newline => {
                    body = newline + 1;
                    break;
                }
                // Only lines that may be one of the five headers are looked at.
                b'c' | b'C' | b'v' | b'V' | b'i' | b'I' | b'f' | b'F' | b't' | b'T' => {
                    found.header(bytes, line, newline);
                }
                _ => {}
            }
            line = newline + 1;
        }
        if body == bytes.len() && line < bytes.len() {
            // The last line lacks its end.
            found.header(bytes, line, bytes.len());
        }
        let call_id = found.call_id.filter(|value| !value.is_empty()).ok_or(NotSip::NoCallId)?;
        let (cseq_number, cseq_method) = found.cseq.and_then(cseq).ok_or(NotSip::NoCseq)?;
        let branch = found.via.map_or(&[][..], branch);
        let FoundHeaders { via, from, to, .. } = found;
        Ok(Incoming { bytes, start, call_id, cseq_number, cseq_method, branch, via, from, to, body })
    }

    /// The response code, or 0 for a request.
    pub fn code(&self) -> u16 {
        match self.start {
            StartLine::Response { code } => code,
            StartLine::Request { .. } => 0,
        }
    }

    /// The method of a request; empty for a response.
    pub fn method(&self) -> &'a [u8] {
        match self.start {
            StartLine::Request { method, .. } => method,
            StartLine::Response { .. } => &[],
        }
    }

    /// The start line without its end.
    pub fn start_text(&self) -> &'a [u8] {
        start_text(self.bytes)
    }

    /// All values of a header by its name or short form (a colon at its end does not matter), in order, as they
    /// stand: folded lines included, blanks at both ends not.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        header_values(self.bytes, name)
    }

    /// The same headers, name included, without the line's end.
    pub fn header_lines(&self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        header_lines(self.bytes, name)
    }

    /// The `tag` of the To header.
    pub fn to_tag(&self) -> Option<&'a [u8]> {
        tag(self.to?)
    }

    /// The text of the body.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body..]
    }
}

/// The values of a header in a message that is kept as bytes; see [`Incoming::header_values`].
pub fn header_values<'a>(bytes: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    header_lines(bytes, name).map(|line| {
        let colon = memchr(b':', line).map_or(line.len(), |at| at + 1);
        trim(&line[colon..])
    })
}

/// Whole lines of a header in a message that is kept as bytes; see [`Incoming::header_lines`].
pub fn header_lines<'a>(bytes: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let wanted = HeaderName::new(name);
    let mut rest = after_start_line(bytes);
    std::iter::from_fn(move || {
        loop {
            let line = next_header(&mut rest)?;
            let colon = memchr(b':', line).unwrap_or(line.len());
            if wanted.is(trim(&line[..colon])) {
                return Some(line);
            }
        }
    })
}

/// The URI of a From, To, Contact or Route value. RFC 3261 §20.10: without angle brackets, parameters after the URI
/// belong to the header.
pub fn uri(value: &[u8]) -> &[u8] {
    let mut quoted = false;
    let open = value.iter().position(|byte| {
        quoted ^= *byte == b'"';
        *byte == b'<' && !quoted
    });
    match open {
        Some(open) => {
            let inner = &value[open + 1..];
            memchr(b'>', inner).map_or(&[], |close| &inner[..close])
        }
        None => memchr(b';', value).map_or(value, |end| &value[..end]).trim_ascii(),
    }
}

/// `;tag=` of a From or To value.
pub fn tag(value: &[u8]) -> Option<&[u8]> {
    let after_uri = memchr::memrchr(b'>', value).map_or(0, |at| at + 1);
    parameter(&value[after_uri..], b"tag")
}

/// The branch of the topmost Via of a message that is kept as bytes; empty without one.
pub fn top_branch(bytes: &[u8]) -> &[u8] {
    header_values(bytes, "Via").next().map_or(&[][..], branch)
}

/// The Call-ID a call is found by: `xxx///id` stands for `id`, so that one call may hold several dialogs.
pub fn own_call_id(call_id: &[u8], ignore_slashes: bool) -> &[u8] {
    if ignore_slashes {
        return call_id;
    }
    memmem::find(call_id, b"///").map_or(call_id, |at| &call_id[at + 3..])
}

/// The name of a header in full, and its compact form.
struct HeaderName {
    /// As the caller wrote it, or the full form of a compact one.
    long: Box<str>,
    /// The compact letter, 0 without one.
    compact: u8,
}

impl HeaderName {
    fn new(name: &str) -> HeaderName {
        let name = name.trim_end_matches(':').trim();
        let known = COMPACT.iter().find(|(long, short)| {
            long.eq_ignore_ascii_case(name)
                || (name.len() == 1 && name.as_bytes()[0].eq_ignore_ascii_case(short))
        });
        match known {
            Some((long, short)) => HeaderName { long: (*long).into(), compact: *short },
            None => HeaderName { long: name.into(), compact: 0 },
        }
    }

    /// Names are compared without case (RFC 3261 §7.3.1).
    fn is(&self, name: &[u8]) -> bool {
        match name {
            [letter] => letter.eq_ignore_ascii_case(&self.compact) || self.long.as_bytes() == name,
            _ => name.eq_ignore_ascii_case(self.long.as_bytes()),
        }
    }
}

/// The headers found by the one pass over a message.
#[derive(Default)]
struct FoundHeaders<'a> {
    call_id: Option<&'a [u8]>,
    cseq: Option<&'a [u8]>,
    via: Option<&'a [u8]>,
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
}

impl<'a> FoundHeaders<'a> {
    /// Takes the line if it is one of the five, the first of each.
    fn header(&mut self, bytes: &'a [u8], line: usize, end: usize) {
        let text = &bytes[line..end];
        // The length of the name and the place of its value. Byte patterns, as this runs for most lines of every message.
        let slot = match text {
            [b'c' | b'C', b'a' | b'A', b'l' | b'L', b'l' | b'L', b'-', b'i' | b'I', b'd' | b'D', ..] => {
                (7, &mut self.call_id)
            }
            [b'c' | b'C', b's' | b'S', b'e' | b'E', b'q' | b'Q', ..] => (4, &mut self.cseq),
            [b'v' | b'V', b'i' | b'I', b'a' | b'A', ..] => (3, &mut self.via),
            [b'f' | b'F', b'r' | b'R', b'o' | b'O', b'm' | b'M', ..] => (4, &mut self.from),
            [b't' | b'T', b'o' | b'O', ..] => (2, &mut self.to),
            [b'f' | b'F', b':' | b' ' | b'\t', ..] => (1, &mut self.from),
            [b't' | b'T', b':' | b' ' | b'\t', ..] => (1, &mut self.to),
            [b'i' | b'I', b':' | b' ' | b'\t', ..] => (1, &mut self.call_id),
            [b'v' | b'V', b':' | b' ' | b'\t', ..] => (1, &mut self.via),
            _ => return,
        };
        let (name_len, slot) = slot;
        let blanks = text[name_len..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let colon = name_len + blanks;
        // The first header of a name counts.
        if slot.is_none() && text.get(colon) == Some(&b':') {
            let end = folded_end(bytes, end);
            *slot = Some(trim(&bytes[line + colon + 1..end]));
        }
    }
}

/// Moves the end of a header line past the lines folded into it.
fn folded_end(bytes: &[u8], mut end: usize) -> usize {
    while matches!(bytes.get(end + 1), Some(b' ' | b'\t')) {
        end = memchr(b'\n', &bytes[end + 1..]).map_or(bytes.len(), |at| end + 1 + at);
    }
    end
}

/// Cuts the next header, folds included, off `rest`; `None` at the empty line.
fn next_header<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = *rest;
    if bytes.is_empty() || bytes[0] == b'\n' || bytes.starts_with(b"\r\n") {
        return None;
    }
    let end = folded_end(bytes, memchr(b'\n', bytes).unwrap_or(bytes.len()));
    *rest = bytes.get(end + 1..).unwrap_or_default();
    let line = &bytes[..end];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// The start line; line ends before it are skipped (RFC 3261 §7.5).
fn start_text(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let end = memchr(b'\n', &bytes[first..]).map_or(bytes.len(), |at| first + at);
    trim(&bytes[first..end])
}

/// Everything behind the start line.
fn after_start_line(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    memchr(b'\n', &bytes[first..]).map_or(&[][..], |at| &bytes[first + at + 1..])
}

/// A status line or a request line.
fn start_line(line: &[u8]) -> Option<StartLine<'_>> {
    let space = memchr(b' ', line)?;
    if line.starts_with(b"SIP/2.0") {
        let code = line[space + 1..].iter().take_while(|byte| byte.is_ascii_digit()).take(4);
        let code = code.fold(0u16, |sum, digit| sum * 10 + u16::from(digit - b'0'));
        // Response codes are three digits (RFC 3261 §7.2).
        return (100..1000).contains(&code).then_some(StartLine::Response { code });
    }
    // SIPp takes methods of up to 63 letters.
    if space == 0 || space > 63 {
        return None;
    }
    let rest = trim(&line[space + 1..]);
    let uri = &rest[..memchr(b' ', rest).unwrap_or(rest.len())];
    Some(StartLine::Request { method: &line[..space], uri })
}

/// Number and method. A number that is too large saturates.
fn cseq(value: &[u8]) -> Option<(u32, &[u8])> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let number = value[..digits]
        .iter()
        .fold(0u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    let method = trim(&value[digits..]);
    let end = method.iter().position(u8::is_ascii_whitespace).unwrap_or(method.len());
    Some((number, &method[..end]))
}

/// The branch of the first of several Vias in one header.
fn branch(via: &[u8]) -> &[u8] {
    parameter(&via[..memchr(b',', via).unwrap_or(via.len())], b"branch").unwrap_or_default()
}

/// The value of `;name=value`, without a case to the name.
fn parameter<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = text;
    loop {
        rest = &rest[memchr(b';', rest)? + 1..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        rest = &rest[blanks..];
        if rest.len() > name.len()
            && rest[..name.len()].eq_ignore_ascii_case(name)
            && rest[name.len()] == b'='
        {
            let value = &rest[name.len() + 1..];
            let end = value
                .iter()
                .position(|byte| matches!(byte, b';' | b',' | b'>' | b' ' | b'\t' | b'\r' | b'\n'));
            return Some(&value[..end.unwrap_or(value.len())]);
        }
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INVITE: &[u8] = b"INVITE sip:bob@biloxi.example SIP/2.0\r\n\
        Via: SIP/2.0/UDP pc33.example;branch=z9hG4bK776;received=127.0.0.1, SIP/2.0/UDP x;branch=other\r\n\
        v: SIP/2.0/UDP second;branch=z9hG4bKsecond\r\n\
        To: Bob <sip:bob@biloxi.example;tag=no>;tag=\r\n\
        f: Alice <sip:alice@atlanta.example>;tag=1928\r\n\
        Subject: one\r\n\tand more\r\n\
        I: a84b4c76e66710@pc33\r\n\
        CSEQ: 314159 INVITE\r\n\
        l: 4\r\n\r\nv=0\n";

    #[test]
    fn one_pass_finds_all_fields_for_matching() {
        let message = Incoming::parse(INVITE).unwrap();
        assert_eq!(message.start, StartLine::Request { method: b"INVITE", uri: b"sip:bob@biloxi.example" });
        assert_eq!(message.call_id, b"a84b4c76e66710@pc33");
        assert_eq!((message.cseq_number, message.cseq_method), (314_159, &b"INVITE"[..]));
        assert_eq!(message.branch, b"z9hG4bK776");
        assert_eq!(message.body(), b"v=0\n");
        assert_eq!(message.code(), 0);
    }

    #[test]
    fn headers_are_found_by_either_name_folded_or_not() {
        let message = Incoming::parse(INVITE).unwrap();
        for name in ["Via", "via:", "V", "v:"] {
            assert_eq!(message.header_values(name).count(), 2, "{name}");
        }
        assert_eq!(
            message.header_lines("From:").next(),
            Some(&b"f: Alice <sip:alice@atlanta.example>;tag=1928"[..])
        );
        assert_eq!(message.header_values("s").next(), Some(&b"one\r\n\tand more"[..]));
        assert_eq!(message.header_values("X-None").next(), None);
        assert_eq!(message.to_tag(), Some(&b""[..]));
        assert_eq!(tag(b"<sip:a;tag=no>;x=1; TAG=yes;z"), Some(&b"yes"[..]));
        assert_eq!(tag(b"<sip:a;tag=no>"), None);
    }

    #[test]
    fn a_body_is_not_searched_for_headers() {
        let message =
            Incoming::parse(b"BYE sip:a SIP/2.0\nCall-ID: 1\nCSeq: 2 BYE\n\nCall-ID: 9\nX-A: 1\n").unwrap();
        assert_eq!(message.call_id, b"1");
        assert_eq!(message.header_values("X-A").next(), None);
        assert_eq!(message.body(), b"Call-ID: 9\nX-A: 1\n");
    }

    #[test]
    fn lenient_but_not_blind() {
        let folded = Incoming::parse(b"\r\n\r\nSIP/2.0 200\r\nCall-ID:\r\n x\r\nCSeq : 7   BYE").unwrap();
        assert_eq!((folded.code(), folded.call_id, folded.cseq_method), (200, &b"x"[..], &b"BYE"[..]));
        for (bytes, why) in [
            (&b""[..], NotSip::NoStartLine),
            (b"\r\n\r\n", NotSip::NoStartLine),
            (b"GARBAGE", NotSip::NoStartLine),
            (b"SIP/2.0 20 OK\r\nCall-ID: 1\r\nCSeq: 1 A\r\n\r\n", NotSip::NoStartLine),
            (b"BYE sip:a SIP/2.0\r\nCSeq: 1 BYE\r\n\r\n", NotSip::NoCallId),
            (b"BYE sip:a SIP/2.0\r\nCall-ID: \r\nCSeq: 1 BYE\r\n\r\n", NotSip::NoCallId),
            (b"BYE sip:a SIP/2.0\r\nCall-ID: 1\r\n\r\n", NotSip::NoCseq),
            (b"BYE sip:a SIP/2.0\r\nCall-ID: 1\r\nCSeq: BYE\r\n\r\n", NotSip::NoCseq),
        ] {
            assert_eq!(Incoming::parse(bytes).map(|_| ()), Err(why), "{}", String::from_utf8_lossy(bytes));
        }
    }

    /// `xxx///id` is a second dialog of the call `id`.
    #[test]
    fn slashes_name_the_call() {
        assert_eq!(own_call_id(b"leg2///1-9@host", false), b"1-9@host");
        assert_eq!(own_call_id(b"leg2///1-9@host", true), b"leg2///1-9@host");
        assert_eq!(own_call_id(b"1-9@host", false), b"1-9@host");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = Incoming::parse(&bytes) {
                prop_assert!(message.body <= bytes.len());
                message.header_values("Via").for_each(drop);
            }
        }

        #[test]
        fn a_message_cut_or_spoiled_is_no_panic(at in 0..INVITE.len(), byte: u8, cut: bool) {
            let mut bytes = INVITE.to_vec();
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            if let Ok(message) = Incoming::parse(&bytes) {
                message.to_tag();
                for name in ["To", "v", "Subject"] {
                    message.header_lines(name).for_each(drop);
                }
            }
        }
    }
}
