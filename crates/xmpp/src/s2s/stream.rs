//! The common part of streams of both directions: bytes to elements and back.
//!
//! On the wire stanzas are in `jabber:server`; in memory they are in `jabber:client`, as everywhere.

use crate::xml::{Budget, Frame, Framer, Measured, Prefixes, XmlError, escape, parse_header, parse_within};
use crate::{Element, ns};

pub(super) enum StreamInput {
    Header(Element),
    Element(Measured),
    Close,
}

/// Why a stream ends: a condition of RFC 6120 §4.9.3 and words.
pub(super) type Fault = (&'static str, &'static str);

#[derive(Debug)]
pub(super) struct StreamParser {
    framer: Framer,
    prefixes: Prefixes,
    /// Our header is out, and our end is not.
    is_open: bool,
    is_closed: bool,
}

impl StreamParser {
    pub(super) fn new() -> StreamParser {
        StreamParser {
            framer: Framer::new(),
            prefixes: Prefixes::default(),
            is_open: false,
            is_closed: false,
        }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.framer.put(bytes);
    }

    /// Bytes that wait to be read.
    pub(super) fn waiting(&self) -> usize {
        self.framer.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The next element of at most `limit` bytes and within a budget. `None`: more is needed.
    pub(super) fn next(&mut self, limit: usize, budget: Budget) -> Result<Option<StreamInput>, XmlError> {
        loop {
            return Ok(Some(match self.framer.next(limit)? {
                None => return Ok(None),
                Some(Frame::Whitespace) => continue,
                Some(Frame::Close) => StreamInput::Close,
                Some(Frame::Header(range)) => {
                    let (header, prefixes) = parse_header(self.framer.bytes(range))?;
                    let is_right = header.is("stream", ns::STREAM) && prefixes.default_ns() == ns::SERVER;
                    self.prefixes = prefixes.reading(ns::SERVER, ns::CLIENT);
                    if is_right {
                        StreamInput::Header(header)
                    } else {
                        StreamInput::Header(Element::new("stream", ""))
                    }
                }
                Some(Frame::Stanza(range)) => {
                    let mut measured = parse_within(self.framer.bytes(range), &self.prefixes, budget)?;
                    // The namespace of the stream, declared once more (RFC 6120 §4.8.2).
                    if is_said_in(&measured.element, ns::SERVER) {
                        measured.element.adopt(ns::SERVER, ns::CLIENT);
                    }
                    StreamInput::Element(measured)
                }
            }));
        }
    }

    /// The stream begins anew after SASL; bytes that already came belong to it.
    pub(super) fn restart(&mut self) {
        self.framer.restart();
        self.is_open = false;
    }

    /// The stream begins anew after TLS; input from before TLS may be an attacker's.
    pub(super) fn forget(&mut self) {
        self.framer = Framer::new();
        self.is_open = false;
    }

    /// `id` is given by the receiving side.
    pub(super) fn open(&mut self, from: &str, to: Option<&str>, id: Option<&str>, out: &mut Vec<u8>) {
        if self.is_open || self.is_closed {
            return;
        }
        let attribute = |name: &str, value: Option<&str>| match value {
            Some(value) => format!(" {name}='{}'", escape(value)),
            None => String::new(),
        };
        let header = format!(
            "<?xml version='1.0'?><stream:stream xmlns='jabber:server' \
             xmlns:stream='http://etherx.jabber.org/streams' xmlns:db='jabber:server:dialback'{}{}{} version='1.0'>",
            attribute("from", Some(from)),
            attribute("to", to),
            attribute("id", id),
        );
        out.extend_from_slice(header.as_bytes());
        self.is_open = true;
    }

    pub(super) fn write(&self, element: &Element, out: &mut Vec<u8>) {
        if self.is_closed {
            return;
        }
        if element.ns() == ns::STREAM {
            // With the prefix that all servers expect.
            out.extend_from_slice(format!("<stream:{}>", element.name()).as_bytes());
            element.elements().for_each(|child| child.write(ns::CLIENT, out));
            out.extend_from_slice(format!("</stream:{}>", element.name()).as_bytes());
        } else {
            // Elements of `jabber:client` get the stream's namespace, unless they declare their own.
            element.write(ns::CLIENT, out);
        }
    }

    /// Unless it takes more bytes than that. False: it does, and was not written.
    pub(super) fn write_within(&self, element: &Element, most: Option<usize>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        self.write(element, out);
        let fits = most.is_none_or(|most| out.len() - start <= most);
        if !fits {
            out.truncate(start);
        }
        fits
    }

    /// True: it was open until now.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) -> bool {
        if self.is_closed {
            return false;
        }
        if self.is_open {
            out.extend_from_slice(b"</stream:stream>");
        }
        self.is_closed = true;
        true
    }

    /// A stream error, and the end. True: it was open until now.
    pub(super) fn fail(&mut self, (condition, text): Fault, from: &str, id: &str, out: &mut Vec<u8>) -> bool {
        if self.is_closed {
            return false;
        }
        self.open(from, None, Some(id), out);
        let words = (!text.is_empty()).then(|| Element::new("text", ns::STREAM_ERRORS).text(text));
        let error = Element::new("error", ns::STREAM)
            .child(Element::new(condition, ns::STREAM_ERRORS))
            .children(words);
        self.write(&error, out);
        self.close(out)
    }
}

/// True if that namespace is still anywhere in it.
fn is_said_in(element: &Element, ns: &str) -> bool {
    element.ns() == ns || element.elements().any(|child| is_said_in(child, ns))
}

pub(super) fn fault_of(error: XmlError) -> Fault {
    let text = match error {
        XmlError::NotWellFormed(what) | XmlError::Restricted(what) | XmlError::TooLarge(what) => what,
        XmlError::BadNamespacePrefix => "a prefix that is not declared",
        XmlError::UnsupportedEncoding => "an encoding other than UTF-8",
    };
    (error.condition(), text)
}
