//! Cuts a stream's bytes into its header, stanzas and end.

use std::ops::Range;

use super::XmlError;
use crate::limits;

/// A piece of a stream, by its place in the framer's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The opening tag of the stream, an XML declaration before it left out.
    Header(Range<usize>),
    /// A whole child of the stream header: its range in the bytes.
    Stanza(Range<usize>),
    /// White space between stanzas, which keeps the connection alive.
    Whitespace,
    /// The closing tag of the stream.
    Close,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramerState {
    #[default]
    Text,
    /// After `<`.
    Tag,
    /// In a tag that began with a name (`false`) or with `/` (`true`), outside quotes; with the last character.
    InTag {
        closing: bool,
        slash: bool,
    },
    Quoted(u8),
    /// After `<!`; how much of `[CDATA[` there was.
    Bang(u8),
    /// The number of bytes of `]]>` so far.
    Cdata(u8),
    /// After `<?`, at the beginning of a stream only; whether the last one was `?`.
    Declaration(bool),
}

/// Bytes that wait for the rest of their stanza. Between two stanzas it owns no memory.
#[derive(Debug, Default)]
pub struct Framer {
    bytes: Vec<u8>,
    /// Where the next byte to be looked at is, and where the frame began.
    at: usize,
    start: usize,
    depth: u32,
    state: FramerState,
    /// The header has been seen.
    is_open: bool,
    /// Anything but white space has been seen.
    has_begun: bool,
}

const CDATA: &[u8] = b"[CDATA[";

impl Framer {
    /// A framer without bytes.
    pub fn new() -> Framer {
        Framer::default()
    }

    /// Bytes that came.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The stream begins anew: after TLS or SASL. Bytes that already came belong to it.
    pub fn restart(&mut self) {
        let rest = self.bytes.split_off(self.start.min(self.bytes.len()));
        *self = Framer { bytes: rest, ..Framer::default() };
    }

    /// The bytes of a frame; as long as nothing else is done.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True without bytes of an unfinished element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of its own.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The next frame, of at most `limit` bytes. `None`: more is needed.
    ///
    /// # Errors
    /// The bytes are not well-formed, restricted or too large; the stream cannot go on.
    pub fn next(&mut self, limit: usize) -> Result<Option<Frame>, XmlError> {
        while self.at < self.bytes.len() {
            let byte = self.bytes[self.at];
            let frame = self.step(byte)?;
            self.at += 1;
            if self.at - self.start > limit && !matches!(frame, Some(Frame::Whitespace)) {
                return Err(XmlError::TooLarge("a stanza larger than this server takes"));
            }
            if let Some(frame) = frame {
                self.start = self.at;
                return Ok(Some(frame));
            }
        }
        self.forget();
        Ok(None)
    }

    /// Drops the bytes that have been scanned.
    fn forget(&mut self) {
        if self.start > 0 {
            // The rest came with the last bytes, as a frame ended in them, and is copied once. With `drain` it would keep all the
            // memory of a read.
            self.bytes = self.bytes.split_off(self.start);
        }
        self.at -= self.start;
        self.start = 0;
    }

    fn step(&mut self, byte: u8) -> Result<Option<Frame>, XmlError> {
        match (self.state, byte) {
            (FramerState::Text, b'<') => {
                if self.depth <= 1 {
                    self.start = self.at;
                }
                self.state = FramerState::Tag;
            }
            (FramerState::Text, _) if self.depth > 1 => {}
            (FramerState::Text, b' ' | b'\t' | b'\r' | b'\n') => {
                return Ok(self.is_open.then_some(Frame::Whitespace).or_else(|| {
                    // Before the header it is nothing.
                    self.start = self.at + 1;
                    None
                }));
            }
            // In no UTF-8: the mark that UTF-16 begins with (RFC 6120 §11.6).
            (FramerState::Text, 0xfe | 0xff) => return Err(XmlError::UnsupportedEncoding),
            (FramerState::Text, _) => return Err(XmlError::NotWellFormed("text between stanzas")),
            (FramerState::Tag, b'/') => self.state = FramerState::InTag { closing: true, slash: false },
            (FramerState::Tag, b'!') => self.state = FramerState::Bang(0),
            (FramerState::Tag, b'?') if !self.has_begun => self.state = FramerState::Declaration(false),
            (FramerState::Tag, b'?') => return Err(XmlError::Restricted("a processing instruction")),
            (FramerState::Tag, _) => self.state = FramerState::InTag { closing: false, slash: false },
            (FramerState::InTag { .. }, b'"' | b'\'') => self.state = FramerState::Quoted(byte),
            (FramerState::InTag { .. }, b'<') => return Err(XmlError::NotWellFormed("a tag within a tag")),
            (FramerState::InTag { closing, slash }, b'>') => return self.end_of_tag(closing, slash),
            (FramerState::InTag { closing, .. }, _) => {
                self.state = FramerState::InTag { closing, slash: byte == b'/' };
            }
            (FramerState::Quoted(quote), _) if byte == quote => {
                self.state = FramerState::InTag { closing: false, slash: false };
            }
            (FramerState::Quoted(_), _) => {}
            (FramerState::Bang(seen), _) => return self.bang(seen, byte),
            (FramerState::Cdata(2), b'>') => self.state = FramerState::Text,
            (FramerState::Cdata(seen), b']') => self.state = FramerState::Cdata((seen + 1).min(2)),
            (FramerState::Cdata(_), _) => self.state = FramerState::Cdata(0),
            (FramerState::Declaration(true), b'>') => {
                check_declaration(&self.bytes[self.start..=self.at])?;
                self.has_begun = true;
                self.state = FramerState::Text;
                self.start = self.at + 1;
            }
            (FramerState::Declaration(_), _) => self.state = FramerState::Declaration(byte == b'?'),
        }
        Ok(None)
    }

    fn bang(&mut self, seen: u8, byte: u8) -> Result<Option<Frame>, XmlError> {
        if byte != CDATA[usize::from(seen)] {
            return Err(XmlError::Restricted("a comment or document type"));
        }
        if self.depth <= 1 {
            return Err(XmlError::NotWellFormed("text between stanzas"));
        }
        let seen = seen + 1;
        self.state =
            if usize::from(seen) == CDATA.len() { FramerState::Cdata(0) } else { FramerState::Bang(seen) };
        Ok(None)
    }

    fn end_of_tag(&mut self, closing: bool, slash: bool) -> Result<Option<Frame>, XmlError> {
        self.state = FramerState::Text;
        self.has_begun = true;
        let range = self.start..self.at + 1;
        match (self.depth, closing, slash) {
            (0, false, false) => {
                (self.depth, self.is_open) = (1, true);
                Ok(Some(Frame::Header(range)))
            }
            (0, ..) => Err(XmlError::NotWellFormed("a stream that ends before it begins")),
            (1, true, _) => {
                self.depth = 0;
                Ok(Some(Frame::Close))
            }
            (1, false, true) => Ok(Some(Frame::Stanza(range))),
            (_, false, true) => Ok(None),
            (_, false, false) => {
                self.depth += 1;
                // One that never ends need not be read to its end. The stream is the first.
                if self.depth as usize > limits::DEPTH + 1 {
                    return Err(XmlError::TooLarge("elements too deep inside each other"));
                }
                Ok(None)
            }
            (depth, true, _) => {
                self.depth = depth - 1;
                Ok((self.depth == 1).then_some(Frame::Stanza(range)))
            }
        }
    }
}

/// RFC 6120 §11.5 and §11.6: before the header there may be an XML declaration; the encoding that it names is UTF-8.
fn check_declaration(bytes: &[u8]) -> Result<(), XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::UnsupportedEncoding)?;
    let is_space = |c: char| c.is_ascii_whitespace();
    let Some(rest) = text.strip_prefix("<?xml").filter(|rest| rest.starts_with(is_space)) else {
        return Err(XmlError::Restricted("a processing instruction"));
    };
    let Some((_, encoding)) = rest.split_once("encoding") else { return Ok(()) };
    let is_quote = |c: char| matches!(c, '\'' | '"');
    let value = encoding.trim_start_matches(|c| is_space(c) || c == '=');
    let name = value.strip_prefix(is_quote).and_then(|value| value.split(is_quote).next());
    if name.is_some_and(|name| name.eq_ignore_ascii_case("UTF-8")) {
        return Ok(());
    }
    Err(XmlError::UnsupportedEncoding)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = "<?xml version='1.0'?>\n<stream:stream to=\"a>b\"> <a/><b x='/>'>t<c/></b>\n<d><![CDATA[<x]]]></d></stream:stream>";

    fn frames(pieces: &[&[u8]]) -> Result<Vec<String>, XmlError> {
        let mut framer = Framer::new();
        let mut all = Vec::new();
        for piece in pieces {
            framer.put(piece);
            while let Some(frame) = framer.next(1_000)? {
                all.push(match frame {
                    Frame::Header(range) | Frame::Stanza(range) => {
                        String::from_utf8_lossy(framer.bytes(range)).into_owned()
                    }
                    other => format!("{other:?}"),
                });
            }
        }
        Ok(all)
    }

    const FRAMES: [&str; 7] = [
        "<stream:stream to=\"a>b\">",
        "Whitespace",
        "<a/>",
        "<b x='/>'>t<c/></b>",
        "Whitespace",
        "<d><![CDATA[<x]]]></d>",
        "Close",
    ];

    #[test]
    fn a_stream_is_cut_into_stanzas() {
        assert_eq!(frames(&[STREAM.as_bytes()]).unwrap(), FRAMES);
    }

    #[test]
    fn a_declaration_says_utf_8_or_nothing() {
        for right in
            ["<?xml version='1.0'?>", "<?xml version=\"1.0\" encoding = \"utf-8\" standalone='yes'?>", ""]
        {
            assert_eq!(frames(&[right.as_bytes(), b"<a>"]), Ok(vec!["<a>".to_owned()]), "{right}");
        }
        let encoding = Err(XmlError::UnsupportedEncoding);
        assert_eq!(frames(&[b"<?xml version='1.0' encoding='UTF-16'?><a>"]), encoding);
        assert_eq!(frames(&[b"<?xml version='1.0' encoding=?><a>"]), encoding);
        assert_eq!(frames(&[b"\xff\xfe<\0a\0>\0"]), encoding);
        let restricted = Err(XmlError::Restricted("a processing instruction"));
        assert_eq!(frames(&[b"<?xml-stylesheet href='x'?><a>"]), restricted);
        assert_eq!(frames(&[b"<?php ?><a>"]), restricted);
    }

    proptest! {
        #[test]
        fn however_it_comes(cuts in prop::collection::vec(0..STREAM.len(), 0..8)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &STREAM.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(frames(&pieces).unwrap(), FRAMES);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = frames(&[b"<s>", &bytes]);
        }
    }

    #[test]
    fn xml_that_xmpp_forbids_is_refused() {
        for (bytes, condition) in [
            ("<s><!-- x --></s>", "restricted-xml"),
            ("<!DOCTYPE s><s>", "restricted-xml"),
            ("<s><?php ?></s>", "restricted-xml"),
            ("<s>text", "not-well-formed"),
            ("<s/>", "not-well-formed"),
            ("<s><a <b>", "not-well-formed"),
        ] {
            assert_eq!(frames(&[bytes.as_bytes()]).unwrap_err().condition(), condition, "{bytes}");
        }
    }

    #[test]
    fn a_stanza_that_never_ends_is_refused_at_the_limit() {
        let mut framer = Framer::new();
        framer.put(b"<s><a>");
        while framer.next(100).unwrap().is_some() {}
        framer.put(&[b'x'; 200]);
        assert_eq!(framer.next(100).unwrap_err().condition(), "policy-violation");
    }

    #[test]
    fn between_two_stanzas_nothing_is_kept() {
        let mut framer = Framer::new();
        framer.put(b"<s><a>x</a>");
        while framer.next(100).unwrap().is_some() {}
        assert_eq!(framer.capacity(), 0);
    }

    #[test]
    fn within_a_stanza_no_memory_of_those_before_it_is_kept() {
        let mut framer = Framer::new();
        framer.put(b"<s>");
        for _ in 0..100 {
            framer.put(&b"<a/>".repeat(10_000));
            framer.put(b"<b");
            while framer.next(100).unwrap().is_some() {}
            assert!(framer.capacity() < 100, "{}", framer.capacity());
            framer.put(b"/>");
        }
    }
}
