//! One file: hosts, and in them users, each of which is in memory alone.
//!
//! In: the bytes of an export (XEP-0227), of any size. Out: [`Piece`]s, one at a time: users as elements,
//! includes for the caller to open, and notes about the rest. Memory is bounded by `limits::PIE_USER` and
//! `limits::DEPTH`. A user that is too large or faulty is a piece of its own and does not end the file; a
//! mistake in the structure does, as what follows would have no meaning. Declarations are refused, so no
//! entity can grow.

use std::fmt;
use std::io::{self, Read};

use xmpp::xml::{Prefixes, XmlError, parse_of, parse_opening};
use xmpp::{Element, ns};

use super::lexer::{Declaration, Token, token};
use super::openfire;
use crate::limits;

/// A piece of a file. Lines count from 1.
#[derive(Debug)]
pub enum Piece {
    /// A user.
    User {
        /// The line of the element.
        line: u64,
        /// The host of the user.
        host: Box<str>,
        /// The element `<user/>`.
        element: Box<Element>,
    },
    /// Another file has what stands here (XInclude). `host`: the host of its users, if it holds users.
    Include {
        /// The line of the element.
        line: u64,
        /// The host of its users.
        host: Option<Box<str>>,
        /// The address of the file.
        href: Box<str>,
    },
    /// A user who cannot be read; the next one can.
    Unreadable {
        /// The line of the element.
        line: u64,
        /// The text that stands there.
        found: String,
        /// The text that was expected.
        expected: &'static str,
    },
    /// Something that no user is: its name.
    Other(Box<str>),
}

/// The reason for which a file cannot be read to its end.
#[derive(Debug)]
pub enum PieError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is malformed.
    At {
        /// The line of the mistake.
        line: u64,
        /// The text that stands there.
        found: String,
        /// The text that was expected.
        expected: &'static str,
    },
}

impl fmt::Display for PieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PieError::Io(error) => write!(f, "cannot be read: {error}"),
            PieError::At { line, found, expected } => write!(f, "line {line}: {found}; expected {expected}"),
        }
    }
}

impl std::error::Error for PieError {}

/// The outermost elements that a file may have, for errors.
const ROOT: &str =
    "<server-data xmlns='urn:xmpp:pie:0'>, or a <host> or <user> of that namespace, or <Openfire>";

/// An element that others stand in: `<server-data>` or `<host>`.
#[derive(Debug)]
struct EnclosingElement {
    /// The name as it is written, with its prefix: the end tag has to be the same.
    name: Box<[u8]>,
    prefixes: Prefixes,
    /// The address of the host.
    host: Option<Box<str>>,
    /// It stands in its place and is looked into for hosts; others are passed over, but for users and includes in them.
    is_known: bool,
}

/// Gives the pieces of a file in order.
#[derive(Debug)]
pub struct Document<R> {
    input: R,
    buffer: Vec<u8>,
    /// `buffer` is parsed up to here.
    at: usize,
    /// The line number at `at`.
    line: u64,
    /// Bytes of the file before `at`.
    bytes: u64,
    /// The elements that are open at `at`, the outermost first.
    around: Vec<EnclosingElement>,
    /// The host of a file that another one includes.
    host: Option<Box<str>>,
    /// The host of users of a form that names none.
    domain: Option<Box<str>>,
    /// The file is in Openfire's own form.
    is_openfire: bool,
    /// The input has no more bytes.
    is_at_end: bool,
    /// The outermost element has ended.
    is_whole: bool,
}

impl<R: Read> Document<R> {
    /// `host` is that of the element which includes the file.
    pub fn new(input: R, host: Option<Box<str>>) -> Document<R> {
        Document {
            input,
            buffer: Vec::new(),
            at: 0,
            line: 1,
            bytes: 0,
            around: Vec::new(),
            host,
            domain: None,
            is_openfire: false,
            is_at_end: false,
            is_whole: false,
        }
    }

    /// The same, where a file may be Openfire's own export, too, whose users are of that domain.
    #[must_use]
    pub fn with_domain(mut self, domain: Box<str>) -> Document<R> {
        self.domain = Some(domain);
        self
    }

    /// Bytes of the file that are done with.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `None`: the file has ended.
    ///
    /// # Errors
    /// The text is not XEP-0227, and the rest of the file cannot be interpreted.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, PieError> {
        loop {
            let Some((kind, length)) = self.token()? else {
                return if self.is_whole { Ok(None) } else { Err(self.cut_short()) };
            };
            match kind {
                Token::Text | Token::Cdata if !self.is_space(length) => {
                    return Err(self.bad("text between elements".into(), "elements only"));
                }
                Token::Instruction => self.check_encoding(length)?,
                Token::Open | Token::Empty => {
                    if let Some(piece) = self.element(kind == Token::Empty, length)? {
                        return Ok(Some(piece));
                    }
                    continue;
                }
                Token::Close => self.close(length)?,
                Token::Text | Token::Cdata | Token::Comment => {}
            }
            self.done(length);
        }
    }

    /// A mistake at the present line.
    fn bad(&self, found: String, expected: &'static str) -> PieError {
        PieError::At { line: self.line, found, expected }
    }

    /// The error of a file that ends too early: within an element, or before the first.
    fn cut_short(&self) -> PieError {
        match self.around.last() {
            Some(around) => {
                let name = String::from_utf8_lossy(&around.name);
                self.bad(format!("the file ends within <{name}>"), "a whole file: it has been cut short")
            }
            None => self.bad("the file ends before anything was in it".into(), ROOT),
        }
    }

    /// The kind and length of the next token, which begins at `at`; the buffer has the whole of it. `None`: the file has ended.
    fn token(&mut self) -> Result<Option<(Token, usize)>, PieError> {
        loop {
            match token(&self.buffer[self.at..]) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) if self.is_at_end && self.at == self.buffer.len() => return Ok(None),
                Ok(None) if self.is_at_end => return Err(self.cut_short()),
                Ok(None) if self.buffer.len() - self.at > limits::PIE_USER => {
                    return Err(self.bad("a tag that does not end".into(), "an element with < and >"));
                }
                Ok(None) => self.fill()?,
                Err(Declaration) => {
                    let found = "a document type or another declaration (<!)".into();
                    return Err(self.bad(found, "a file without: entities are not taken"));
                }
            }
        }
    }

    /// Reads as much again as waits already: a long element is then looked through a number of times that grows with the logarithm of its length.
    fn fill(&mut self) -> Result<(), PieError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let wanted = self.buffer.len().max(limits::PIE_READ) as u64;
        let read = self.input.by_ref().take(wanted).read_to_end(&mut self.buffer).map_err(PieError::Io)?;
        self.is_at_end = read == 0;
        Ok(())
    }

    /// Passes over a token, and counts its lines and bytes.
    fn done(&mut self, length: usize) {
        let bytes = &self.buffer[self.at..self.at + length];
        self.line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.bytes += length as u64;
        self.at += length;
    }

    /// The bytes of the token at `at`.
    fn bytes_of(&self, length: usize) -> &[u8] {
        &self.buffer[self.at..self.at + length]
    }

    /// True for white space, which may stand between elements.
    fn is_space(&self, length: usize) -> bool {
        let bytes = self.bytes_of(length);
        // A file of some editors begins with a mark.
        let mark = if self.bytes == 0 { bytes.strip_prefix("\u{feff}".as_bytes()) } else { None };
        mark.unwrap_or(bytes).iter().all(u8::is_ascii_whitespace)
    }

    /// The XML declaration may name only an encoding that is read as UTF-8.
    fn check_encoding(&self, length: usize) -> Result<(), PieError> {
        let text = String::from_utf8_lossy(self.bytes_of(length)).to_ascii_lowercase();
        let encoding =
            text.split_once("encoding").map(|(_, rest)| rest.trim_start_matches([' ', '=', '"', '\'']));
        let is_known = encoding.is_none_or(|name| name.starts_with("utf-8") || name.starts_with("us-ascii"));
        if is_known { Ok(()) } else { Err(self.bad("another encoding".into(), "a file saved as UTF-8")) }
    }

    /// An end tag: it has to be that of the innermost open element.
    fn close(&mut self, length: usize) -> Result<(), PieError> {
        let bytes = self.bytes_of(length);
        let name = bytes[2..length - 1].trim_ascii_end();
        match self.around.last() {
            Some(around) if *around.name == *name => {}
            _ => {
                let found = format!("</{}>", String::from_utf8_lossy(name));
                return Err(self.bad(found, "the end of what was opened last"));
            }
        }
        self.around.pop();
        self.is_whole = self.around.is_empty();
        Ok(())
    }

    /// A tag that opens something: it is entered, or read to its end.
    fn element(&mut self, is_empty: bool, length: usize) -> Result<Option<Piece>, PieError> {
        if self.is_whole {
            return Err(self.bad("something after the end".into(), "one outermost element"));
        }
        let mut tag = self.bytes_of(length).to_vec();
        if is_empty {
            // As one that something is in.
            tag.truncate(length - 2);
            tag.push(b'>');
        }
        let outer = Prefixes::default();
        let outer = self.around.last().map_or(&outer, |around| &around.prefixes);
        let (mut element, prefixes) =
            parse_opening(&tag, outer).map_err(|error| self.bad(error.to_string(), "well-formed XML"))?;
        let prefixes = prefixes.reading(ns::PIE_OLD, ns::PIE);
        element.adopt(ns::PIE_OLD, ns::PIE);
        let is_user = match self.is_openfire {
            true => self.around.len() == 1 && element.is("User", ""),
            false => element.is("user", ns::PIE),
        };
        if is_user {
            return self.user(is_empty, length).map(Some);
        }
        if element.is("include", ns::XINCLUDE) {
            return self.include(&element, is_empty, length).map(Some);
        }
        self.enter(&element, prefixes, is_empty, length)
    }

    /// An element that is neither user nor include: hosts stand in the data, and others are told once by their name, at
    /// the outermost.
    fn enter(
        &mut self,
        element: &Element,
        prefixes: Prefixes,
        is_empty: bool,
        length: usize,
    ) -> Result<Option<Piece>, PieError> {
        let is_data = element.is("server-data", ns::PIE);
        let is_host = element.is("host", ns::PIE);
        let within = self.around.last().map(|around| (around.is_known, around.host.is_some()));
        if within.is_none() && self.domain.is_some() && element.is(openfire::ROOT, "") {
            self.is_openfire = true;
        }
        let fits = match within {
            None => is_data || is_host || self.is_openfire,
            Some((is_known, in_host)) => is_known && is_host && !in_host,
        };
        if within.is_none() && !fits {
            let found = format!("<{}> of namespace {:?}", element.name(), element.ns());
            return Err(self.bad(found, ROOT));
        }
        if self.around.len() >= limits::DEPTH {
            return Err(self.bad("elements too deep inside each other".into(), "users"));
        }
        let host = element.attr("jid").filter(|_| is_host).map(Box::from);
        if is_host && host.is_none() {
            return Err(self.bad("a <host> without jid".into(), "its domain: <host jid='…'>"));
        }
        let is_other = within.is_some_and(|(is_known, _)| is_known) && !fits;
        let piece = is_other.then(|| Piece::Other(name_of(element)));
        if is_empty {
            self.is_whole = self.around.is_empty();
        } else {
            let name = raw_name(self.bytes_of(length)).into();
            self.around.push(EnclosingElement { name, prefixes, host, is_known: fits });
        }
        self.done(length);
        Ok(piece)
    }

    /// An XInclude. It names a file with users of the same host; the caller opens the file, or refuses to.
    fn include(&mut self, element: &Element, is_empty: bool, length: usize) -> Result<Piece, PieError> {
        let line = self.line;
        let plain =
            element.attr("parse").is_none_or(|parse| parse == "xml") && element.attr("xpointer").is_none();
        let Some(href) = element.attr("href").filter(|_| plain).map(Box::from) else {
            let found = "an include of another kind".into();
            return Err(self.bad(found, "href with a file, and neither parse nor xpointer"));
        };
        // Its fallback is for files that are not there; ours have to be.
        self.gather(is_empty, length)?;
        Ok(Piece::Include { line, host: self.host_here(), href })
    }

    /// The host of users that stand here: that of the innermost `<host>`, else of the element that includes the file.
    fn host_here(&self) -> Option<Box<str>> {
        let within = self.around.iter().rev().find_map(|around| around.host.clone());
        within.or_else(|| self.host.clone())
    }

    /// A user is read to its end even if it is too large or faulty, so that the next one can be read.
    fn user(&mut self, is_empty: bool, length: usize) -> Result<Piece, PieError> {
        let line = self.line;
        let host = if self.is_openfire { self.domain.clone() } else { self.host_here() };
        let Some(bytes) = self.gather(is_empty, length)? else {
            let found = format!("a user of more than {} MiB", limits::PIE_USER >> 20);
            return Ok(Piece::Unreadable { line, found, expected: "less, perhaps without an archive" });
        };
        let Some(host) = host else {
            let found = "a <user> outside of a <host>".into();
            return Ok(Piece::Unreadable { line, found, expected: "one within <host jid='…'>" });
        };
        let outer = Prefixes::default();
        let outer = self.around.last().map_or(&outer, |around| &around.prefixes);
        Ok(match parse_of(&bytes, outer, limits::PIE_ELEMENTS) {
            Ok(element) if self.is_openfire => match openfire::user(&element) {
                Ok(element) => Piece::User { line, host, element: Box::new(element) },
                Err((found, expected)) => Piece::Unreadable { line, found, expected },
            },
            Ok(mut element) => {
                element.adopt(ns::PIE_OLD, ns::PIE);
                Piece::User { line, host, element: Box::new(element) }
            }
            Err(error) => Piece::Unreadable { line, found: found_in(error), expected: "well-formed XML" },
        })
    }

    /// The whole of an element that begins here, without comments. `None`: it is too large.
    fn gather(&mut self, is_empty: bool, length: usize) -> Result<Option<Vec<u8>>, PieError> {
        let mut bytes = self.bytes_of(length).to_vec();
        self.done(length);
        self.is_whole = self.around.is_empty() && is_empty;
        let mut depth = usize::from(!is_empty);
        let mut fits = true;
        while depth > 0 {
            let Some((kind, length)) = self.token()? else {
                return Err(
                    self.bad("the file ends within a user".into(), "a whole file: it has been cut short")
                );
            };
            match kind {
                Token::Open => depth += 1,
                Token::Close => depth -= 1,
                Token::Text | Token::Empty | Token::Cdata | Token::Comment | Token::Instruction => {}
            }
            fits &= bytes.len() + length <= limits::PIE_USER;
            if fits && !matches!(kind, Token::Comment | Token::Instruction) {
                bytes.extend_from_slice(&self.buffer[self.at..self.at + length]);
            }
            self.done(length);
        }
        self.is_whole = self.around.is_empty();
        Ok(fits.then_some(bytes))
    }
}

/// The mistake in a user, in words.
fn found_in(error: XmlError) -> String {
    match error {
        XmlError::TooLarge(_) => {
            format!("a user of more than {} elements, or too deep", limits::PIE_ELEMENTS)
        }
        error => error.to_string(),
    }
}

/// The name of an element, with its namespace unless that is the one of XEP-0227.
pub(super) fn name_of(element: &Element) -> Box<str> {
    match element.ns() {
        ns::PIE | "" => format!("<{}>", element.name()).into(),
        ns => format!("<{} xmlns='{ns}'>", element.name()).into(),
    }
}

/// `a:b` of `<a:b c='d'>`.
fn raw_name(tag: &[u8]) -> &[u8] {
    let rest = &tag[1..];
    let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'));
    &rest[..end.unwrap_or(rest.len())]
}
