//! Editing a message without parsing it into a tree: every byte that is not named stays as it was.

use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::header::Header;
use super::message::{HeaderLine, Message};
use super::scan::{defuse, trim_end, write_uri};
use super::values::Values;

/// A list of cuts and pastes over a message, carried out by [`finish`](Rewrite::finish).
#[derive(Debug)]
pub struct Rewrite<'m> {
    message: &'m Message,
    /// The pasted bytes, all in one buffer.
    text: Vec<u8>,
    patches: SmallVec<[Patch; 8]>,
}

/// A range of the original bytes, and the bytes that replace it.
#[derive(Clone, Debug)]
struct Patch {
    cut: Range<usize>,
    paste: Range<usize>,
}

impl<'m> Rewrite<'m> {
    /// A rewrite without changes.
    pub fn new(message: &'m Message) -> Self {
        Rewrite { message, text: Vec::with_capacity(256), patches: SmallVec::new() }
    }

    /// Replaces the Request-URI.
    pub fn set_uri(&mut self, uri: &[u8]) {
        self.paste(self.message.uri_span(), |text| write_uri(text, uri));
    }

    /// Adds Content-Length where there is none: a datagram may do without, a stream may not (RFC 3261 §18.3).
    pub fn ensure_content_length(&mut self) {
        if self.first(Header::ContentLength).is_none() {
            let length = self.message.body().len();
            self.append("Content-Length", |text| {
                let _ = write!(text, "{length}");
            });
        }
    }

    /// A new line before the first of that name. Where there is none: a Via before all others, anything else
    /// after the Vias, which peers like to find together. COMPAT(sipp).
    pub fn push_front(&mut self, header: Header, value: impl FnOnce(&mut Vec<u8>)) {
        let at = self.first(header).map_or_else(|| self.place_of_new(header), |line| line.start as usize);
        self.paste_line(at..at, header.as_str(), value);
    }

    /// A new line after all others.
    pub fn append(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        let at = self.message.headers_end();
        self.paste_line(at..at, name, value);
    }

    /// Replaces the first line's value; appends a line when there is none.
    pub fn set(&mut self, header: Header, value: impl FnOnce(&mut Vec<u8>)) {
        match self.first(header) {
            Some(line) => self.paste(line.value(), value),
            None => self.append(header.as_str(), value),
        }
    }

    /// Removes all lines of a header.
    pub fn remove_all(&mut self, header: Header) {
        let message = self.message;
        for line in message.lines().iter().filter(|line| line.header == header) {
            self.cut(line.whole());
        }
    }

    /// Removes each line of that name whose value `is_unwanted` names.
    pub fn remove_lines(&mut self, header: Header, is_unwanted: impl Fn(&[u8]) -> bool) {
        let message = self.message;
        let lines = message.lines().iter().filter(|line| line.header == header);
        for line in lines.filter(|line| is_unwanted(&message.bytes()[line.value()])) {
            self.cut(line.whole());
        }
    }

    /// Removes the lines of headers that have no [`Header`] of their own and one of these names.
    pub fn remove_named(&mut self, names: &[&str]) {
        let message = self.message;
        for line in message.lines().iter().filter(|line| line.header == Header::Other) {
            let name = message.bytes()[line.whole()].split(|&b| b == b':').next().unwrap_or_default();
            if names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(trim_end(name))) {
                self.cut(line.whole());
            }
        }
    }

    /// Removes the first value: its whole line when it stands there alone.
    pub fn remove_first_value(&mut self, header: Header) {
        self.remove_first_values(header, 1);
    }

    /// Removes the first `count` values, over as many lines as they stand on.
    pub fn remove_first_values(&mut self, header: Header, mut count: usize) {
        let message = self.message;
        for line in message.lines().iter().filter(|line| line.header == header) {
            if count == 0 {
                return;
            }
            let mut values = Values::new(&message.bytes()[line.value()]);
            let mut next = values.next();
            while count > 0 && next.is_some() {
                count -= 1;
                next = values.next();
            }
            match next {
                Some(kept) => {
                    let keep_from = self.position_of(kept);
                    self.cut(line.value_start as usize..keep_from);
                }
                None => self.cut(line.whole()),
            }
        }
    }

    /// Removes the last value over all lines of that name (a strict router's Request-URI trick).
    pub fn remove_last_value(&mut self, header: Header) {
        let message = self.message;
        let Some(line) = message.lines().iter().rev().find(|line| line.header == header) else { return };
        let mut values: SmallVec<[&[u8]; 4]> = Values::new(&message.bytes()[line.value()]).collect();
        values.pop();
        match values.last() {
            Some(last) => {
                let keep_to = self.position_of(last) + last.len();
                self.cut(keep_to..line.value_end as usize);
            }
            None => self.cut(line.whole()),
        }
    }

    /// Replaces bytes that were borrowed from this very message.
    pub fn replace(&mut self, part: &[u8], with: impl FnOnce(&mut Vec<u8>)) {
        let start = self.position_of(part);
        self.paste(start..start + part.len(), with);
    }

    /// The edited message.
    pub fn finish(mut self) -> Bytes {
        // Stable: pastes at one place stand in the order they were asked for, and before what is cut there.
        self.patches.sort_by_key(|patch| (patch.cut.start, patch.cut.end));
        let source = self.message.bytes();
        // To the byte, where no two cuts overlap: then Bytes takes the vector as it is.
        let cut: usize = self.patches.iter().map(|patch| patch.cut.len()).sum();
        let mut out = Vec::with_capacity((source.len() + self.text.len()).saturating_sub(cut));
        let mut at = 0;
        for patch in &self.patches {
            // A value may be removed twice, and with its line; writing over one another is a mistake.
            debug_assert!(patch.cut.start >= at || patch.paste.is_empty(), "two edits of the same bytes");
            out.extend_from_slice(&source[at..patch.cut.start.max(at)]);
            out.extend_from_slice(&self.text[patch.paste.clone()]);
            at = patch.cut.end.max(at);
        }
        out.extend_from_slice(&source[at..]);
        Bytes::from(out)
    }

    fn place_of_new(&self, header: Header) -> usize {
        let vias = self.message.lines().iter().rev().find(|line| line.header == Header::Via);
        match vias {
            Some(last) if header != Header::Via => last.end as usize,
            _ => self.message.headers_start(),
        }
    }

    fn first(&self, header: Header) -> Option<&'m HeaderLine> {
        self.message.lines().iter().find(|line| line.header == header)
    }

    fn position_of(&self, part: &[u8]) -> usize {
        let start = (part.as_ptr() as usize).wrapping_sub(self.message.bytes().as_ptr() as usize);
        assert!(
            start + part.len() <= self.message.bytes().len(),
            "the part must be borrowed from the message"
        );
        start
    }

    fn paste_line(&mut self, at: Range<usize>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b": ");
        self.write_value(value);
        self.text.extend_from_slice(b"\r\n");
        self.add(at, start);
    }

    fn paste(&mut self, cut: Range<usize>, value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        self.write_value(value);
        self.add(cut, start);
    }

    fn cut(&mut self, cut: Range<usize>) {
        self.add(cut, self.text.len());
    }

    fn write_value(&mut self, value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        value(&mut self.text);
        defuse(&mut self.text[start..]);
    }

    /// The bytes written from `start` on replace `cut`.
    fn add(&mut self, cut: Range<usize>, start: usize) {
        self.patches.push(Patch { cut, paste: start..self.text.len() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let text = "INVITE sip:bob@b.test SIP/2.0\r\nv: SIP/2.0/UDP a;branch=z9hG4bK1, SIP/2.0/TCP b\r\n\
                    Route: <sip:p1;lr>, <sip:p2;lr>\r\nX-Odd:  kept \r\n folded\r\nContent-Length: 0\r\n\r\n";
        Message::parse(Bytes::from(text)).unwrap()
    }

    #[test]
    fn untouched_bytes_stay() {
        let message = message();
        assert_eq!(Rewrite::new(&message).finish(), message.bytes());
    }

    #[test]
    fn edits_touch_only_the_named_parts() {
        let message = message();
        let mut rewrite = Rewrite::new(&message);
        rewrite.set_uri(b"sip:c@d");
        rewrite.push_front(Header::Via, |v| v.extend_from_slice(b"SIP/2.0/UDP us"));
        rewrite.remove_first_value(Header::Route);
        rewrite.set(Header::MaxForwards, |v| v.extend_from_slice(b"69"));
        let text = String::from_utf8(rewrite.finish().to_vec()).unwrap();
        assert_eq!(
            text,
            "INVITE sip:c@d SIP/2.0\r\nVia: SIP/2.0/UDP us\r\nv: SIP/2.0/UDP a;branch=z9hG4bK1, SIP/2.0/TCP b\r\n\
             Route: <sip:p2;lr>\r\nX-Odd:  kept \r\n folded\r\nContent-Length: 0\r\nMax-Forwards: 69\r\n\r\n"
        );
    }

    #[test]
    fn an_edit_cannot_start_a_header() {
        let message = message();
        let mut rewrite = Rewrite::new(&message);
        rewrite.set_uri(b"sip:a SIP/2.0\r\nX-Evil: 1");
        rewrite.append("X-Ours", |text| text.extend_from_slice(b"a\r\nX-Evil: 2"));
        let edited = Message::parse(rewrite.finish()).unwrap();
        assert_eq!(edited.header_named("X-Evil"), None);
        assert_eq!(edited.uri(), b"sip:a%20SIP/2.0%0D%0AX-Evil:%201");
        assert_eq!(edited.header_named("X-Ours"), Some(&b"a  X-Evil: 2"[..]));
    }

    #[test]
    fn a_value_can_be_removed_twice() {
        let message = message();
        let mut rewrite = Rewrite::new(&message);
        rewrite.remove_first_value(Header::Route);
        rewrite.remove_first_values(Header::Route, 2);
        let edited = Message::parse(rewrite.finish()).unwrap();
        assert_eq!(edited.count(Header::Route), 0);
    }

    #[test]
    fn a_length_is_added_once() {
        let text = "MESSAGE sip:b@b SIP/2.0\r\nTo: <sip:b@b>\r\n\r\nhello";
        let message = Message::parse(Bytes::from(text)).unwrap();
        let mut rewrite = Rewrite::new(&message);
        rewrite.ensure_content_length();
        let edited = Message::parse(rewrite.finish()).unwrap();
        assert_eq!((edited.content_length(), edited.body()), (Some(Some(5)), &b"hello"[..]));
        let mut again = Rewrite::new(&edited);
        again.ensure_content_length();
        assert_eq!(again.finish(), edited.bytes());
    }

    #[test]
    fn the_last_value_can_go() {
        let message = message();
        let mut rewrite = Rewrite::new(&message);
        rewrite.remove_last_value(Header::Route);
        let edited = Message::parse(rewrite.finish()).unwrap();
        assert_eq!(edited.header(Header::Route), Some(&b"<sip:p1;lr>"[..]));
    }
}
