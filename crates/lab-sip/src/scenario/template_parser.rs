//! Cuts messages and arguments at their keywords, and trims messages as SIPp does, so that rendering only concatenates.
//!
//! Two callers: the compiler for messages and arguments, and `compile_template` for texts that come later. The order for a message is
//! [`trim_cdata`], then [`cut`]; the result has literals and keywords in turn.

use super::lexicon::{self, KeywordForm};
use super::model::VarRef;
use super::template::{AuthParams, Keyword, Template, TemplatePart};
use super::xml::{newlines, text};

/// SIPp's longest keyword.
const MAX_KEYWORD: usize = 256;
/// The most mistakes reported for one text.
const MAX_ERRORS: usize = 20;
/// Characters of a line that an error shows.
const MAX_SHOWN: usize = 80;
/// `[field0 line="[field1 line=\"…\"]"]`: scenarios nest no deeper.
const MAX_NESTING: usize = 4;

/// Gives the slot of a variable, making one for a name not met before.
pub(super) type VariableResolver<'a> = dyn FnMut(&str) -> Result<VarRef, String> + 'a;

/// A mistake inside a text, by lines below its first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TemplateError {
    /// Lines below the first line of the text.
    pub(super) line: u32,
    /// The text that was found and what was expected.
    pub(super) message: String,
}

/// A message out of CDATA, trimmed, with the number of lines cut off before it.
pub(super) struct TrimmedMessage {
    /// The message.
    pub(super) bytes: Vec<u8>,
    /// For the lines of mistakes.
    pub(super) lines_before: u32,
    /// Line ends cut off behind it.
    newlines_after: u32,
}

impl TrimmedMessage {
    /// A message to a SIP peer ends with a line end when the text had one.
    pub(super) fn into_message(mut self) -> Vec<u8> {
        if self.newlines_after > 0 && self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
        self.bytes
    }
}

/// SIPp's trimming, its order of passes included: blanks around line ends go, first spaces and then tabs,
/// so that a line that starts with a tab and then spaces keeps the spaces. A text without an empty line gets one at its end.
pub(super) fn trim_cdata(cdata: &[u8]) -> TrimmedMessage {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n');
    let start = cdata.iter().position(|byte| !blank(byte)).unwrap_or(cdata.len());
    let end = cdata.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    let mut bytes = cdata[start..end].to_vec();
    for blank in [b' ', b'\t'] {
        bytes = without_after_newline(&bytes, blank);
        bytes = without_before_newline(&bytes, blank);
    }
    if memchr::memmem::find(&bytes, b"\n\n").is_none() {
        bytes.extend_from_slice(b"\n\n");
    }
    TrimmedMessage { bytes, lines_before: newlines(&cdata[..start]), newlines_after: newlines(&cdata[end..]) }
}

/// Removes blanks at the beginning of lines.
fn without_after_newline(bytes: &[u8], blank: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        let at_start = out.last() == Some(&b'\n');
        if byte != blank || !at_start {
            out.push(byte);
        }
    }
    out
}

/// Removes blanks at the end of lines.
fn without_before_newline(bytes: &[u8], blank: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte == b'\n' {
            while out.last() == Some(&blank) {
                out.pop();
            }
        }
        out.push(byte);
    }
    out
}

/// Line ends become CRLF, `\xNN` its byte, `[…]` keywords. All mistakes are reported.
pub(super) fn cut(
    source: &[u8],
    variables: &mut VariableResolver<'_>,
) -> Result<Template, Vec<TemplateError>> {
    cut_nested(source, variables, 0)
}

/// `depth`: how many keywords this text is nested in.
fn cut_nested(
    source: &[u8],
    variables: &mut VariableResolver<'_>,
    depth: usize,
) -> Result<Template, Vec<TemplateError>> {
    let mut cutter = TemplateParser {
        source,
        at: 0,
        variables,
        depth,
        literal: Vec::new(),
        template: Template::default(),
        errors: Vec::new(),
    };
    cutter.run();
    if cutter.errors.is_empty() { Ok(cutter.template) } else { Err(cutter.errors) }
}

/// The parser of one text, and the template so far.
struct TemplateParser<'a, 'b> {
    /// The text.
    source: &'a [u8],
    /// The next byte to read.
    at: usize,
    /// Gives slots to names.
    variables: &'a mut VariableResolver<'b>,
    depth: usize,
    /// Text since the last keyword.
    literal: Vec<u8>,
    template: Template,
    errors: Vec<TemplateError>,
}

impl TemplateParser<'_, '_> {
    fn run(&mut self) {
        while let Some(&byte) = self.source.get(self.at) {
            if self.errors.len() >= MAX_ERRORS {
                return;
            }
            match byte {
                b'\\' if self.source.get(self.at + 1) == Some(&b'x') => self.hex(),
                b'\n' => {
                    self.literal.extend_from_slice(b"\r\n");
                    self.at += 1;
                }
                b'[' => self.bracket(),
                _ => {
                    self.literal.push(byte);
                    self.at += 1;
                }
            }
        }
        self.flush();
    }

    /// `\xNN`: two characters are consumed whatever they are, as in SIPp.
    fn hex(&mut self) {
        let digit = |at: usize| self.source.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        if let Some(first) = digit(self.at + 2) {
            let value = digit(self.at + 3).map_or(first, |second| first << 4 | second);
            self.literal.push(u8::try_from(value).expect("two hexadecimal digits are a byte"));
            self.at += 4;
        } else {
            self.at += 3;
        }
    }

    /// At a `[`: `[[local_ip]]` is a bracket, a keyword, a bracket.
    fn bracket(&mut self) {
        let inside = self.at + 1;
        match unquoted_bracket(&self.source[inside..]) {
            Some((b'[', length)) => {
                // A bracket before the closing one: what stood so far is text.
                self.literal.extend_from_slice(&to_crlf(&self.source[self.at..inside + length]));
                self.at = inside + length;
            }
            Some((_, length))
                if length <= MAX_KEYWORD && !self.source[inside..inside + length].contains(&b'\n') =>
            {
                let word = &self.source[inside..inside + length];
                match self.keyword(word) {
                    Ok(Some(keyword)) => self.push(keyword),
                    Ok(None) => {
                        self.literal.push(b'[');
                        self.literal.extend_from_slice(word);
                        self.literal.push(b']');
                    }
                    Err(message) => self.error(message),
                }
                self.at = inside + length + 1;
            }
            _ => {
                let line: String = text(line_at(self.source, self.at)).chars().take(MAX_SHOWN).collect();
                self.error(format!(
                    "`[` is not closed on its line in `{line}`: expected `]`, or `\\x5B` for the character"
                ));
                self.at = inside;
            }
        }
    }

    /// `None`: text in brackets that is no keyword (`[::1]`, `[0-9]`).
    fn keyword(&mut self, word: &[u8]) -> Result<Option<Keyword>, String> {
        let (name, parameters) = split_name(word);
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        if let Some(variable) = name.strip_prefix('$') {
            let variable = split_offset(variable).0;
            return (self.variables)(variable).map(|variable| Some(Keyword::Var(variable)));
        }
        // `[last_Request_URI]` and others that the lexicon has are not headers.
        if let Some(header) = name.strip_prefix("last_")
            && lexicon::keyword(split_offset(name).0).is_none()
        {
            return Ok(Some(match header.strip_suffix(".value") {
                Some(header) => Keyword::LastValue(header.into()),
                None => Keyword::Last(header.into()),
            }));
        }
        if let Some(parametric) = self.parametric(name, parameters)? {
            return Ok(Some(parametric));
        }
        let (bare, offset) = if name.starts_with("tdmmap") { (name, 0) } else { split_offset(name) };
        match lexicon::keyword(bare).map(|keyword| keyword.form) {
            Some(KeywordForm::Plain(keyword)) => Ok(Some(keyword())),
            Some(KeywordForm::Offset(keyword)) => Ok(Some(keyword(offset))),
            Some(KeywordForm::Crypto) => Ok(Some(Keyword::Crypto(bare.into()))),
            // A word that is no keyword may be given by `-key`; whether it is, is known only with the options.
            Some(KeywordForm::Parametric) | None if could_be_key(name, bare) && parameters.is_empty() => {
                Ok(Some(Keyword::Key(bare.into())))
            }
            _ => Ok(None),
        }
    }

    /// Keywords with parameters: fields, credentials, files, fill.
    fn parametric(&mut self, name: &str, parameters: &[u8]) -> Result<Option<Keyword>, String> {
        if let Some(number) = name.strip_prefix("field")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            let field = if number.is_empty() {
                0
            } else {
                number.parse().map_err(|_| format!("[{name}]: {number} is no field number"))?
            };
            let file = parameter(parameters, "file=").map(|file| text(&file).into_boxed_str());
            let line = self.nested(parameters, "line=")?.map(Box::new);
            return Ok(Some(Keyword::Field { field, file, line }));
        }
        match name {
            "authentication" => Ok(Some(Keyword::Authentication(Box::new(AuthParams {
                username: self.nested(parameters, "username=")?,
                password: self.nested(parameters, "password=")?,
                aka_k: self.nested(parameters, "aka_K=")?,
                aka_op: self.nested(parameters, "aka_OP=")?,
                aka_amf: self.nested(parameters, "aka_AMF=")?,
            })))),
            "file" if !parameters.is_empty() => match self.nested(parameters, "name=")? {
                Some(file) => Ok(Some(Keyword::File(Box::new(file)))),
                None => Err("[file] without a name: expected [file name=\"…\"]".to_owned()),
            },
            "fill" if !parameters.is_empty() => {
                let Some(variable) = parameter(parameters, "variable=") else {
                    return Err(
                        "[fill] without a variable: expected [fill text=\"…\" variable=\"…\"]".to_owned()
                    );
                };
                let text = parameter(parameters, "text=").unwrap_or_else(|| b"X".to_vec());
                let variable = (self.variables)(&crate::scenario::xml::text(&variable))?;
                Ok(Some(Keyword::Fill { text: text.into_boxed_slice(), variable }))
            }
            _ => Ok(None),
        }
    }

    /// A parameter that is a template itself.
    fn nested(&mut self, parameters: &[u8], name: &str) -> Result<Option<Template>, String> {
        let Some(value) = parameter(parameters, name) else { return Ok(None) };
        if self.depth >= MAX_NESTING {
            return Err(format!("keywords nested more than {MAX_NESTING} deep"));
        }
        cut_nested(&value, self.variables, self.depth + 1)
            .map(Some)
            .map_err(|mut errors| errors.swap_remove(0).message)
    }

    fn push(&mut self, keyword: Keyword) {
        self.flush();
        self.template.has_len |= matches!(keyword, Keyword::Len(_));
        self.template.parts.push(TemplatePart::Keyword(keyword));
    }

    /// Text so far becomes a part.
    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let literal = std::mem::take(&mut self.literal);
            self.template.parts.push(TemplatePart::Text(literal.into_boxed_slice()));
        }
    }

    /// Notes a mistake with its line.
    fn error(&mut self, message: String) {
        self.errors.push(TemplateError { line: newlines(&self.source[..self.at]), message });
    }
}

/// The next bracket that is in no pair of double quotes, and where; none when it is too far for a keyword.
fn unquoted_bracket(bytes: &[u8]) -> Option<(u8, usize)> {
    let mut quoted = false;
    for (at, &byte) in bytes.iter().take(MAX_KEYWORD + 1).enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'[' | b']' if !quoted => return Some((byte, at)),
            _ => {}
        }
    }
    None
}

/// Line ends as SIP has them.
fn to_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

/// The line that has this byte.
fn line_at(bytes: &[u8], at: usize) -> &[u8] {
    let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |newline| at + newline);
    &bytes[start..end]
}

/// The keyword and the text behind its first blank.
fn split_name(word: &[u8]) -> (&[u8], &[u8]) {
    match word.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
        Some(blank) => (&word[..blank], &word[blank + 1..]),
        None => (word, &[]),
    }
}

/// `cseq+1` is `cseq` and 1; the first `+` decides, else the first `-`, and only with a digit behind it.
fn split_offset(name: &str) -> (&str, i32) {
    let Some(sign) = name.find('+').or_else(|| name.find('-')) else { return (name, 0) };
    let number = &name[sign..];
    let digits = number[1..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return (name, 0);
    }
    let offset = number[1..=digits].parse::<i32>().unwrap_or(i32::MAX);
    (&name[..sign], if number.starts_with('-') { -offset } else { offset })
}

/// True if `-key` could name it; an address or a range of characters in brackets is text.
fn could_be_key(name: &str, bare: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    // `[a-z]` is a range of a regular expression.
    let range = matches!(name.as_bytes(), [_, b'-', _]);
    !range && bare.bytes().all(word) && bare.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `name="value"` (a backslash quotes), `name=value` up to a blank, `name=0x5B07` bytes in hexadecimal. Empty is absent.
fn parameter(parameters: &[u8], name: &str) -> Option<Vec<u8>> {
    let start = memchr::memmem::find(parameters, name.as_bytes())? + name.len();
    let value = &parameters[start..];
    let value = match value {
        [b'0', b'x', hex @ ..] => hex_bytes(hex),
        [b'"', quoted @ ..] => {
            let mut out = Vec::new();
            let mut bytes = quoted.iter();
            while let Some(&byte) = bytes.next() {
                match byte {
                    b'"' => break,
                    b'\\' => out.extend(bytes.next()),
                    _ => out.push(byte),
                }
            }
            out
        }
        plain => plain.iter().copied().take_while(|byte| (33..=126).contains(byte)).collect(),
    };
    Some(value).filter(|value| !value.is_empty())
}

fn hex_bytes(hex: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .iter()
        .map_while(|&byte| char::from(byte).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |value, digit| value << 4 | digit)).collect()
}
