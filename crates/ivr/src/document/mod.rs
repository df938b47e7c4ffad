//! Documents: RCML and TwiML, one language with two names. Bytes to typed verbs, every mistake at once.
//!
//! The order of [`Document::parse`]: bytes to text (`xml::decode`), its limits (`xml::check_limits`), text to a tree (`xml::read`), elements to verbs (`read`), attributes by the
//! tables (`fields`). Only a text that is no XML, or has no `<Response>`, is refused; every other mistake is a [`Note`].
//!
//! The reader works by the tables of `lexicon`, of which `docs/rcml.md` is made.

mod dial;
mod fields;
mod lexicon;
#[cfg(test)]
mod played;
mod read;
mod reference;
mod speech;
#[cfg(test)]
mod tests;
mod verb;
mod voices;
mod xml;

use std::fmt;

use crate::limits;

pub use read::tones;
pub use reference::reference_page;
pub use verb::*;

/// Numbers of notes and notifications: Twilio's where it has one.
pub mod code {
    /// The application's answer had a status that is no success.
    pub const STATUS: u32 = 11200;
    /// The application could not be reached.
    pub const UNREACHABLE: u32 = 11205;
    /// Documents lead to documents without end.
    pub const CIRCLE: u32 = 11215;
    /// A URL that is none, or not of HTTP.
    pub const URL: u32 = 11100;
    /// A document that is too large.
    pub const TOO_LARGE: u32 = 11750;
    /// Not XML, or no `<Response>`.
    pub const NOT_A_DOCUMENT: u32 = 12100;
    /// A verb that could not be performed as written.
    pub const INVALID: u32 = 12200;
    /// An answer that is neither document, audio nor text.
    pub const CONTENT_TYPE: u32 = 12300;
    /// A prompt that could not be played.
    pub const PROMPT: u32 = 13420;
    /// A recording that could not be kept.
    pub const RECORDING: u32 = 13600;
    /// Speech that was not understood for a reason of ours.
    pub const RECOGNITION: u32 = 13610;
    /// A party that could not be reached for a reason of ours.
    pub const DIAL: u32 = 13200;
    /// A call to an address that is not there.
    pub const NO_SUCH_NUMBER: u32 = 13224;
    /// A call that failed in SIP for another reason.
    pub const CALL_FAILED: u32 = 32011;
    /// A message or mail that could not be sent.
    pub const MESSAGE: u32 = 14100;
    /// A stream that broke.
    pub const STREAM: u32 = 31900;
}

/// A parsed document: its verbs, and notes on elements that were ignored or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// The verbs of `<Response>` in their order.
    pub verbs: Vec<Verb>,
    /// In the order of their lines.
    pub notes: Vec<Note>,
}

/// Something to tell the application's author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// From 1.
    pub line: u32,
    /// In characters, from 1; 1 where only the line is known.
    pub column: u32,
    /// The consequence for the document.
    pub severity: Severity,
    /// One of [`code`].
    pub code: u32,
    /// A sentence that names the element and the attribute.
    pub text: String,
}

/// The severity of a [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The document is performed as written.
    Info,
    /// Something was ignored or replaced.
    Warning,
    /// A verb, or the document, was not performed.
    Error,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = self.severity.as_str();
        write!(f, "line {}: {} ({severity} {})", self.line, self.text, self.code)
    }
}

impl Document {
    /// The answer's body. `charset` is that of its Content-Type, which wins over the XML declaration (RFC 7303 §3.2).
    /// The error is what makes it no document at all; everything less is a note, and the rest is performed.
    pub fn parse(bytes: &[u8], charset: Option<&str>) -> Result<Document, Note> {
        let fatal = |(line, column): (u32, u32), code: u32, text: String| Note {
            line,
            column,
            severity: Severity::Error,
            code,
            text,
        };
        if bytes.len() > limits::DOCUMENT_BYTES {
            let text = format!("{} bytes: a document has at most {}", bytes.len(), limits::DOCUMENT_BYTES);
            return Err(fatal((1, 1), code::TOO_LARGE, text));
        }
        let text = xml::decode(bytes, charset).map_err(|text| fatal((1, 1), code::NOT_A_DOCUMENT, text))?;
        xml::check_limits(&text).map_err(|(place, text)| fatal(place, code::NOT_A_DOCUMENT, text))?;
        let declared;
        let tree = match xml::read(&text) {
            // The fault may be a prefix alone. Most documents have none, and are parsed once.
            Err(_) => {
                declared = xml::with_declared_prefixes(&text);
                xml::read(&declared)
            }
            tree => tree,
        };
        let tree = tree.map_err(|(place, text)| fatal(place, code::NOT_A_DOCUMENT, text))?;
        read::document(&tree)
    }
}

/// A place in the text of a document. Its column is counted only for a note: a line may be as long as the document.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// From 1.
    line: u32,
    /// In bytes, from the beginning of the text.
    offset: usize,
}

/// Notes as they arise, and where in the text they do.
struct Notes<'t> {
    /// At most [`limits::DOCUMENT_NOTES`].
    list: Vec<Note>,
    /// Byte offset at which each line begins.
    lines: Vec<usize>,
    /// The document.
    text: &'t str,
}

impl<'t> Notes<'t> {
    /// Finds the beginnings of lines once, for all notes.
    fn new(text: &'t str) -> Notes<'t> {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
        Notes { list: Vec::new(), lines: std::iter::once(0).chain(ends).collect(), text }
    }

    /// The place of a byte.
    fn place_at(&self, offset: usize) -> Place {
        let line = u32::try_from(self.lines.partition_point(|&start| start <= offset)).unwrap_or(u32::MAX);
        Place { line, offset }
    }

    /// A note about a place.
    fn note(&self, place: Place, severity: Severity, code: u32, text: String) -> Note {
        let start = self.lines.partition_point(|&start| start <= place.offset).saturating_sub(1);
        let before = self.lines.get(start).and_then(|&start| self.text.get(start..place.offset));
        let column = before.map_or(0, |before| before.chars().count()) + 1;
        Note { line: place.line, column: u32::try_from(column).unwrap_or(u32::MAX), severity, code, text }
    }

    /// True if further notes are dropped: their text need not be made.
    fn is_full(&self) -> bool {
        self.list.len() >= limits::DOCUMENT_NOTES
    }

    /// Beyond the limit, notes are dropped.
    fn add(&mut self, place: Place, severity: Severity, code: u32, text: String) {
        if !self.is_full() {
            let note = self.note(place, severity, code, text);
            self.list.push(note);
        }
    }

    /// The element has no effect here, which its author should know.
    fn info(&mut self, place: Place, text: String) {
        self.add(place, Severity::Info, code::INVALID, text);
    }

    /// Something was ignored or replaced.
    fn warn(&mut self, place: Place, text: String) {
        self.add(place, Severity::Warning, code::INVALID, text);
    }

    /// A verb is left out.
    fn error(&mut self, place: Place, code: u32, text: String) {
        self.add(place, Severity::Error, code, text);
    }
}
