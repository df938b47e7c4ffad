//! A lenient reader of the XML that scenarios are written in: what pugixml and SIPp's own parser forgive, this forgives.
//!
//! Bytes stay as they are (ISO-8859-1 or UTF-8); nothing is expanded but the five named entities and `&#N;`.
//!
//! `read` drops carriage returns, then goes from one `<` to the next. Open elements are a stack; a closed one moves into its parent's children, or
//! becomes the root. The meaning of elements is the compiler's business: names and attributes are not looked at here.

/// Elements inside elements; a scenario has four levels.
const MAX_DEPTH: usize = 32;

/// One element with what a scenario needs of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Element {
    /// As written, with the case of its letters.
    pub(super) name: String,
    /// The line of the start tag, counted from 1.
    pub(super) line: u32,
    pub(super) attributes: Vec<Attribute>,
    pub(super) children: Vec<Element>,
    /// The first CDATA section, as SIPp takes it.
    pub(super) cdata: Option<XmlChunk>,
    /// Line of the first text outside CDATA that is not blank.
    pub(super) stray_text: Option<u32>,
}

/// An attribute of an element, with its line.
#[derive(Debug, Clone)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) value: Vec<u8>,
    pub(super) line: u32,
}

/// The text of a CDATA section, which is the message of a `<send>`, with the place where its lines begin to count.
#[derive(Debug, Clone)]
pub(super) struct XmlChunk {
    pub(super) bytes: Vec<u8>,
    /// The line of the first byte.
    pub(super) line: u32,
}

/// The reason why a text is no XML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct XmlError {
    pub(super) line: u32,
    pub(super) message: String,
}

/// The first element at the top, and the line of a second one if there is one.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Element,
    pub(super) second_root: Option<u32>,
    /// The root's end tag is missing.
    pub(super) root_is_open: bool,
}

/// Reads a whole file; ends at the first mistake.
pub(super) fn read(bytes: &[u8]) -> Result<Document, XmlError> {
    // Carriage returns carry nothing here: SIPp drops them on reading.
    let bytes: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != b'\r').collect();
    Reader { bytes: &bytes, pos: 0, line: 1, open: Vec::new(), root: None, second_root: None }.run()
}

/// The position in the text of a scenario.
struct Reader<'a> {
    bytes: &'a [u8],
    /// Offset in bytes of the part that is not read yet.
    pos: usize,
    /// The line at `pos`, from 1; `skip` keeps it in step.
    line: u32,
    /// Elements whose end tag has not come, the outermost first.
    open: Vec<Element>,
    /// The first element that closed with no other around it.
    root: Option<Element>,
    /// The line of a further one, which the compiler reports as a mistake.
    second_root: Option<u32>,
}

impl Reader<'_> {
    /// Text between two tags, then the markup, until no `<` is left.
    fn run(mut self) -> Result<Document, XmlError> {
        while let Some(offset) = memchr::memchr(b'<', self.rest()) {
            self.note_text(offset);
            self.skip(offset);
            self.markup()?;
        }
        // COMPAT(SIPp): it reads elements until there are no more, so a scenario may end with its last step.
        let root_is_open = self.open.len() == 1 && self.root.is_none();
        if root_is_open && let Some(root) = self.open.pop() {
            self.close(root);
        }
        if let Some(element) = self.open.last() {
            return Err(XmlError { line: element.line, message: never_closed(element) });
        }
        let second_root = self.second_root;
        match self.root {
            Some(root) => Ok(Document { root, second_root, root_is_open }),
            None => Err(XmlError {
                line: self.line,
                message: "no element at all: expected <scenario>".to_owned(),
            }),
        }
    }

    /// Decides by the bytes after the `<`, the longer openings first, since `<!` begins three of them.
    /// At a `<`.
    fn markup(&mut self) -> Result<(), XmlError> {
        let rest = self.rest();
        if rest.starts_with(b"<!--") {
            self.comment()
        } else if rest.starts_with(b"<![CDATA[") {
            self.cdata()
        } else if rest.starts_with(b"<?") {
            self.skip_past(b"?>", 2, "`<?` is never closed: expected `?>`")
        } else if rest.starts_with(b"<!") {
            self.declaration()
        } else if rest.starts_with(b"</") {
            self.end_tag()
        } else if rest.get(1).is_some_and(|&byte| is_name_start(byte)) {
            self.start_tag()
        } else {
            Err(self
                .mistake("a `<` that begins no tag: expected a name after it, or `&lt;` for the character"))
        }
    }

    /// Also called within a start tag, between attributes.
    fn comment(&mut self) -> Result<(), XmlError> {
        // From the third byte on: SIPp takes `<!-->` for a whole comment.
        self.skip_past(b"-->", 2, "`<!--` is never closed: expected `-->`")
    }

    /// Sections after an element's first are read over. A section outside all elements is dropped.
    fn cdata(&mut self) -> Result<(), XmlError> {
        const OPEN: usize = b"<![CDATA[".len();
        let Some(length) = memchr::memmem::find(&self.rest()[OPEN..], b"]]>") else {
            return Err(self.mistake("`<![CDATA[` is never closed: expected `]]>`"));
        };
        let chunk = XmlChunk { bytes: self.rest()[OPEN..OPEN + length].to_vec(), line: self.line };
        if let Some(element) = self.open.last_mut() {
            element.cdata.get_or_insert(chunk);
        }
        self.skip(OPEN + length + 3);
        Ok(())
    }

    /// `<!DOCTYPE …>` with or without an internal subset, wherever it stands.
    fn declaration(&mut self) -> Result<(), XmlError> {
        let rest = self.rest();
        if is_dash(&rest[2..]) {
            return Err(self.mistake("`<!` with a typographic dash: expected `<!--` (two hyphens)"));
        }
        if rest.starts_with(b"<!-") {
            return Err(self.mistake("`<!-` begins no comment: expected `<!--`"));
        }
        let close = memchr::memchr(b'>', rest);
        let subset = memchr::memchr(b'[', rest);
        match (subset, close) {
            (Some(subset), Some(close)) if subset < close => {
                self.skip_past(b"]", subset, "`<!` with `[` is never closed: expected `]>`")?;
                self.skip_past(b">", 0, "`<!` is never closed: expected `>`")
            }
            _ => self.skip_past(b">", 2, "`<!` is never closed: expected `>`"),
        }
    }

    /// Must name the innermost open element: nothing is closed by guessing.
    fn end_tag(&mut self) -> Result<(), XmlError> {
        let line = self.line;
        self.skip(2);
        let name = self.name();
        let Some(close) = memchr::memchr(b'>', self.rest()) else {
            let is_root = self.open.len() == 1 && self.root.is_none() && self.open[0].name == name;
            if is_root && self.rest().trim_ascii().is_empty() {
                // COMPAT(SIPp): the root is as good as closed.
                return Ok(());
            }
            return Err(XmlError { line, message: format!("</{name} is never closed: expected `>`") });
        };
        self.skip(close + 1);
        let Some(element) = self.open.pop() else {
            return Err(XmlError {
                line,
                message: format!("</{name}> closes nothing: no element is open here"),
            });
        };
        if element.name != name {
            return Err(XmlError {
                line,
                message: format!(
                    "</{name}> where </{}> was expected, to close the element opened in line {}",
                    element.name, element.line
                ),
            });
        }
        self.close(element);
        Ok(())
    }

    /// Reads the attributes up to `>` or `/>`. A `<` before that is a forgotten `>`, unless it begins a comment.
    fn start_tag(&mut self) -> Result<(), XmlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.mistake(&format!("more than {MAX_DEPTH} elements inside each other")));
        }
        let line = self.line;
        self.skip(1);
        let mut element = Element { name: self.name(), line, ..Element::default() };
        loop {
            self.skip_blanks();
            match self.rest() {
                [] | [b'<', ..] if !self.rest().starts_with(b"<!--") => {
                    let message = format!("<{} is never closed: expected `>` or `/>`", element.name);
                    return Err(XmlError { line, message });
                }
                [b'<', ..] => self.comment()?,
                [b'/', b'>', ..] => {
                    self.skip(2);
                    self.close(element);
                    return Ok(());
                }
                [b'>', ..] => {
                    self.skip(1);
                    self.open.push(element);
                    return Ok(());
                }
                _ => {
                    if let Some(attribute) = self.attribute(&element.name)? {
                        element.attributes.push(attribute);
                    }
                }
            }
        }
    }

    /// `None`: a word without a value, which means nothing.
    fn attribute(&mut self, element: &str) -> Result<Option<Attribute>, XmlError> {
        let line = self.line;
        let name = self.name();
        if name.is_empty() {
            if typographic_quote(self.rest()) {
                return Err(self.mistake(&format!("a typographic quote in <{element}>: expected \" or '")));
            }
            self.skip(1);
            return Ok(None);
        }
        self.skip_blanks();
        if self.rest().first() != Some(&b'=') {
            return Ok(None);
        }
        self.skip(1);
        self.skip_blanks();
        let quote = match self.rest().first() {
            Some(&quote @ (b'"' | b'\'')) => quote,
            _ if typographic_quote(self.rest()) => {
                return Err(self.mistake(&format!(
                    "{name}= in <{element}> has a typographic quote, as copied from a web page: expected \" or '"
                )));
            }
            _ => {
                return Err(
                    self.mistake(&format!("{name}= in <{element}> has no quoted value: expected \" or '"))
                );
            }
        };
        self.skip(1);
        let Some(length) = value_length(self.rest(), quote) else {
            let message =
                format!("the value of {name}= in <{element}> is never closed: expected {}", quote as char);
            return Err(XmlError { line, message });
        };
        let value = unescape(&self.rest()[..length]);
        self.skip(length + 1);
        Ok(Some(Attribute { name, value, line }))
    }

    /// Hands a complete element to the one around it, or makes it the root.
    fn close(&mut self, element: Element) {
        if let Some(parent) = self.open.last_mut() {
            parent.children.push(element);
        } else if self.root.is_none() {
            self.root = Some(element);
        } else {
            self.second_root.get_or_insert(element.line);
        }
    }

    /// Notes where text stands outside CDATA, for the message about a missing section; `length` bytes from here, up to the next tag.
    fn note_text(&mut self, length: usize) {
        let text = &self.bytes[self.pos..self.pos + length];
        let Some(first) = text.iter().position(|byte| !byte.is_ascii_whitespace()) else { return };
        let line = self.line + newlines(&text[..first]);
        if let Some(element) = self.open.last_mut() {
            element.stray_text.get_or_insert(line);
        }
    }

    /// Reads up to a blank, one of `/ > = < " '`, or a typographic quote, which is reported later as what it is.
    fn name(&mut self) -> String {
        let rest = self.rest();
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/>=<\"'".contains(byte);
        let mut length = rest.iter().position(ends).unwrap_or(rest.len());
        if let Some(quote) = (0..length).find(|&at| typographic_quote(&rest[at..])) {
            length = quote;
        }
        let name = text(&rest[..length]);
        self.skip(length);
        name
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.pos..]
    }

    /// The only way forward, so that lines are counted everywhere.
    fn skip(&mut self, length: usize) {
        let end = (self.pos + length).min(self.bytes.len());
        self.line += newlines(&self.bytes[self.pos..end]);
        self.pos = end;
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        let length = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.skip(length);
    }

    /// Past the first `end` at or after `from` bytes from here.
    fn skip_past(&mut self, end: &[u8], from: usize, otherwise: &str) -> Result<(), XmlError> {
        let found = self.rest().get(from..).and_then(|rest| memchr::memmem::find(rest, end));
        match found {
            Some(offset) => {
                self.skip(from + offset + end.len());
                Ok(())
            }
            None => Err(self.mistake(otherwise)),
        }
    }

    /// A mistake at the line of `pos`.
    fn mistake(&self, message: &str) -> XmlError {
        XmlError { line: self.line, message: message.to_owned() }
    }
}

/// For an element without an end tag.
pub(super) fn never_closed(element: &Element) -> String {
    format!("<{0}> is never closed: expected </{0}> before the end of the file", element.name)
}

/// Bytes as text: UTF-8 when they are, else ISO-8859-1.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// As many lines as a piece of text adds to the line it begins in.
pub(super) fn newlines(bytes: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or(u32::MAX)
}

/// Every byte beyond ASCII may begin a name: files come in UTF-8 and in ISO-8859-1.
fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b':' || byte >= 0x80
}

/// En dash or em dash, in UTF-8 or in Windows-1252.
fn is_dash(bytes: &[u8]) -> bool {
    bytes.starts_with("–".as_bytes())
        || bytes.starts_with("—".as_bytes())
        || matches!(bytes.first(), Some(0x96 | 0x97))
}

/// “ ” „ ‘ ’ ″ in UTF-8, or their Windows-1252 bytes.
fn typographic_quote(bytes: &[u8]) -> bool {
    const QUOTES: [&str; 6] = ["“", "”", "„", "‘", "’", "″"];
    QUOTES.iter().any(|quote| bytes.starts_with(quote.as_bytes()))
        || matches!(bytes.first(), Some(0x84 | 0x91..=0x94))
}

/// Up to the closing quote; a backslash keeps the byte after it from being one, as in SIPp.
fn value_length(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
}

/// SIPp's backslash escapes and XML's entities.
/// Both in one pass, so that the result of one is never taken for the other.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let (bytes, used) = match raw[at] {
            b'\\' => backslash(raw.get(at + 1).copied()),
            b'&' => entity(&raw[at..]),
            byte => (CharacterBytes::one(byte), 1),
        };
        out.extend_from_slice(bytes.as_slice());
        at += used;
    }
    out
}

/// Up to four bytes, what one character can come to.
struct CharacterBytes {
    bytes: [u8; 4],
    length: usize,
}

impl CharacterBytes {
    fn one(byte: u8) -> Self {
        CharacterBytes { bytes: [byte, 0, 0, 0], length: 1 }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The bytes that a backslash and the next byte mean, and how many bytes of the text they take. An unknown escape keeps its backslash, as regular
/// expressions in attributes need it.
fn backslash(next: Option<u8>) -> (CharacterBytes, usize) {
    match next {
        Some(byte @ (b'\\' | b'"')) => (CharacterBytes::one(byte), 2),
        Some(b'n') => (CharacterBytes::one(b'\n'), 2),
        Some(b't') => (CharacterBytes::one(b'\t'), 2),
        Some(b'r') => (CharacterBytes::one(b'\r'), 2),
        Some(byte) => (CharacterBytes { bytes: [b'\\', byte, 0, 0], length: 2 }, 2),
        None => (CharacterBytes::one(b'\\'), 1),
    }
}

/// An unknown entity stands for itself.
/// With the number of bytes that it takes, as for a backslash.
fn entity(raw: &[u8]) -> (CharacterBytes, usize) {
    /// `&#1114111;` is the longest that means a character.
    const LONGEST: usize = 10;
    let end = raw.iter().take(LONGEST).position(|&byte| byte == b';');
    let Some(end) = end else { return (CharacterBytes::one(b'&'), 1) };
    let byte = match &raw[1..end] {
        b"lt" => b'<',
        b"gt" => b'>',
        b"amp" => b'&',
        b"quot" => b'"',
        b"apos" => b'\'',
        [b'#', number @ ..] => match character(number) {
            Some(character) => {
                let mut bytes = [0; 4];
                let length = character.encode_utf8(&mut bytes).len();
                return (CharacterBytes { bytes, length }, end + 1);
            }
            None => return (CharacterBytes::one(b'&'), 1),
        },
        _ => return (CharacterBytes::one(b'&'), 1),
    };
    (CharacterBytes::one(byte), end + 1)
}

/// The `N` of `&#N;`, or `xN` in hexadecimal; nothing for numbers that are no Unicode character.
fn character(number: &[u8]) -> Option<char> {
    let number = std::str::from_utf8(number).ok()?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(code)
}
