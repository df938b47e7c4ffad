//! `[last_…]`: headers of the last received message, found and joined as SIPp does.
//!
//! Names are matched without case and with their compact forms; several headers of one name are joined by commas.

use smallvec::SmallVec;

use crate::call::message::uri;

/// The compact forms SIPp knows (RFC 3261 §7.3.3).
const COMPACT: [(&str, u8); 8] = [
    ("call-id", b'i'),
    ("contact", b'm'),
    ("content-encoding", b'e'),
    ("content-length", b'l'),
    ("content-type", b'c'),
    ("from", b'f'),
    ("to", b't'),
    ("via", b'v'),
];

/// The positions of a message's headers: one pass, however many of them are looked up.
#[derive(Default)]
pub(super) struct HeaderIndex {
    /// Start, colon and end of each line with its folds. Most messages have fewer.
    lines: SmallVec<[(u32, u32, u32); 16]>,
}

impl HeaderIndex {
    /// Finds all header lines of a message, up to the blank line.
    pub(super) fn of(message: &[u8]) -> HeaderIndex {
        let first = skip_line(message);
        let mut at = message.len() - first.len();
        let lines = HeaderLines { rest: first }.filter_map(|line| {
            let start = at;
            at += line.len();
            let colon = memchr::memchr(b':', line)?;
            // No message is as long as 2^32.
            Some((start as u32, (start + colon) as u32, at as u32))
        });
        HeaderIndex { lines: lines.collect() }
    }

    /// Values of a header by its name (with or without colon) or short form, in order, outer white space off.
    /// A folded value is given with its folds in it. `message` is the one the index is of.
    pub(super) fn values<'m>(&self, message: &'m [u8], name: &str) -> impl Iterator<Item = &'m [u8]> {
        self.spelled_values(message, name).map(|(_, value)| value.trim_ascii_start())
    }

    /// The same with the names as the message spells them, and the blanks between colon and value.
    fn spelled_values<'m>(
        &self,
        message: &'m [u8],
        name: &str,
    ) -> impl Iterator<Item = (&'m [u8], &'m [u8])> {
        let name = name.strip_suffix(':').unwrap_or(name).trim();
        let compact =
            COMPACT.iter().find(|(long, _)| name.eq_ignore_ascii_case(long)).map(|(_, short)| *short);
        self.lines.iter().filter_map(move |(start, colon, end)| {
            let (start, colon, end) = (*start as usize, *colon as usize, *end as usize);
            let found = message.get(start..colon)?.trim_ascii_end();
            let same = found.eq_ignore_ascii_case(name.as_bytes())
                || matches!((found, compact), ([one], Some(short)) if one.eq_ignore_ascii_case(&short));
            if same { Some((found, message.get(colon + 1..end)?.trim_ascii_end())) } else { None }
        })
    }
}

/// Appends `HeaderName: value, value`, the first as the message spells it, blanks and folds included; nothing without such
/// a header.
pub(super) fn write_last(out: &mut Vec<u8>, index: &HeaderIndex, message: &[u8], name: &str) {
    for (number, (spelled, value)) in index.spelled_values(message, name).enumerate() {
        if number == 0 {
            out.extend_from_slice(spelled);
            out.push(b':');
            out.extend_from_slice(value);
        } else {
            out.extend_from_slice(b", ");
            out.extend_from_slice(value.trim_ascii_start());
        }
    }
}

/// Appends `value, value`, without the header's name; nothing without such a header.
pub(super) fn write_last_value(out: &mut Vec<u8>, index: &HeaderIndex, message: &[u8], name: &str) {
    for (number, value) in index.values(message, name).enumerate() {
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value);
    }
}

/// The URI of `To`: SIPp's `[last_Request_URI]`.
pub(super) fn last_request_uri<'m>(index: &HeaderIndex, message: &'m [u8]) -> &'m [u8] {
    index.values(message, "To").next().map_or(&[], uri)
}

/// The number of `CSeq`, 0 without one.
pub(super) fn last_cseq(index: &HeaderIndex, message: &[u8]) -> i64 {
    let value = index.values(message, "CSeq").next().unwrap_or_default();
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
}

/// Header lines, folds joined, up to the blank line.
struct HeaderLines<'m> {
    rest: &'m [u8],
}

impl<'m> Iterator for HeaderLines<'m> {
    type Item = &'m [u8];

    fn next(&mut self) -> Option<&'m [u8]> {
        if self.rest.is_empty() || self.rest.starts_with(b"\r\n") || self.rest.starts_with(b"\n") {
            return None;
        }
        let mut end = 0;
        loop {
            end += memchr::memchr(b'\n', &self.rest[end..]).map_or(self.rest.len() - end, |at| at + 1);
            if !matches!(self.rest.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(line)
    }
}

/// Everything behind the first line.
fn skip_line(message: &[u8]) -> &[u8] {
    memchr::memchr(b'\n', message).map_or(&[], |at| &message[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"SIP/2.0 200 OK\r\nVia: one;a=1\r\nv:two\r\nVIA : three\r\n  folded \r\nt: \"T\" <sip:t@x>;tag=9\r\n\
        CSeq:   42 INVITE\r\nEmpty: \r\nTight:x\r\nContent-Length: 0\r\n\r\nVia: body\r\n";

    fn last(name: &str) -> String {
        let mut out = Vec::new();
        write_last(&mut out, &HeaderIndex::of(MESSAGE), MESSAGE, name);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn headers_of_one_name_are_joined_by_commas() {
        assert_eq!(last("Via"), "Via: one;a=1, two, three\r\n  folded");
        assert_eq!(last("via:"), "Via: one;a=1, two, three\r\n  folded");
        assert_eq!(last("To:"), "t: \"T\" <sip:t@x>;tag=9");
        assert_eq!(last("CSeq"), "CSeq:   42 INVITE");
        assert_eq!(last("Tight"), "Tight:x");
        assert_eq!(last("Empty"), "Empty:");
        assert_eq!(last("Contact"), "");
    }

    #[test]
    fn values_stand_without_their_name() {
        let value = |name| {
            let mut out = Vec::new();
            write_last_value(&mut out, &HeaderIndex::of(MESSAGE), MESSAGE, name);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(value("To"), "\"T\" <sip:t@x>;tag=9");
        assert_eq!(value("Via"), "one;a=1, two, three\r\n  folded");
        assert_eq!(value("Contact"), "");
    }

    #[test]
    fn parts_of_headers_are_found() {
        assert_eq!(last_request_uri(&HeaderIndex::of(MESSAGE), MESSAGE), b"sip:t@x");
        assert_eq!(last_cseq(&HeaderIndex::of(MESSAGE), MESSAGE), 42);
        assert_eq!(last_cseq(&HeaderIndex::of(b"OPTIONS"), b"OPTIONS"), 0);
        assert_eq!(
            last_request_uri(&HeaderIndex::of(b"X\r\nTo: sip:x\r\n\r\n"), b"X\r\nTo: sip:x\r\n\r\n"),
            b"sip:x"
        );
        assert_eq!(
            last_request_uri(&HeaderIndex::of(b"X\r\nTo: <sip:x\r\n\r\n"), b"X\r\nTo: <sip:x\r\n\r\n"),
            b""
        );
    }

    #[test]
    fn a_broken_message_has_its_readable_headers() {
        assert_eq!(
            HeaderIndex::of(b"X\nVia:a\nVia").values(b"X\nVia:a\nVia", "Via").collect::<Vec<_>>(),
            [b"a"]
        );
        assert_eq!(HeaderIndex::of(b"").values(b"", "Via").count(), 0);
        assert_eq!(
            HeaderIndex::of(b"X\r\n folded first\r\nVia: b")
                .values(b"X\r\n folded first\r\nVia: b", "Via")
                .collect::<Vec<_>>(),
            [b"b"]
        );
    }
}
