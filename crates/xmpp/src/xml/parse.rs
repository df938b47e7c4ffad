//! One stanza's bytes to an element.

use std::borrow::Cow;

use super::XmlError;
use super::budget::{Budget, Measured};
use super::element::{Attribute, Element, Node};
use super::name::Name;
use super::write::{attributes_len, element_len, prefixes_of, text_len, value_len};
use crate::{limits, ns};

/// Prefixes that the stream's header declared; its default namespace under the empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(Declared);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Declared {
    #[default]
    Nothing,
    /// The declarations of nearly all clients; they take no memory in a waiting stream.
    Usual,
    /// Boxed twice, as a stream that has them is rare.
    Own(Box<Declarations>),
}

/// Prefixes and their namespaces.
type Declarations = Box<[(Box<str>, Name)]>;

impl Prefixes {
    /// Nothing but a default namespace.
    pub fn of_default(ns: &'static str) -> Prefixes {
        Prefixes(Declared::Own(Box::new([("".into(), Name::Static(ns))].into())))
    }

    /// Reads one declared namespace as another.
    #[must_use]
    pub fn reading(self, namespace: &str, other: &'static str) -> Prefixes {
        let Declared::Own(mut all) = self.0 else { return self };
        for (_, ns) in all.iter_mut().filter(|(_, ns)| *ns == *namespace) {
            *ns = Name::Static(other);
        }
        Prefixes(Declared::Own(all))
    }

    /// The declarations of nearly all clients: `jabber:client` as the default, and `stream`.
    pub fn usual() -> Prefixes {
        Prefixes(Declared::Usual)
    }

    fn all(&self) -> Vec<(&str, Name)> {
        match &self.0 {
            Declared::Nothing => Vec::new(),
            Declared::Usual => vec![("", Name::Static(ns::CLIENT)), ("stream", Name::Static(ns::STREAM))],
            Declared::Own(all) => all.iter().map(|(prefix, ns)| (&**prefix, ns.clone())).collect(),
        }
    }

    fn new(declared: &[(&str, Name)]) -> Prefixes {
        let is = |prefix: &str, ns: &str| declared.iter().any(|(known, its)| *known == prefix && *its == *ns);
        Prefixes(match declared.len() {
            0 => Declared::Nothing,
            2 if is("", ns::CLIENT) && is("stream", ns::STREAM) => Declared::Usual,
            _ => Declared::Own(Box::new(
                declared.iter().map(|(prefix, ns)| ((*prefix).into(), ns.clone())).collect(),
            )),
        })
    }

    fn find(&self, prefix: &str) -> Option<Name> {
        match &self.0 {
            Declared::Nothing => None,
            Declared::Usual => match prefix {
                "" => Some(Name::Static(ns::CLIENT)),
                "stream" => Some(Name::Static(ns::STREAM)),
                _ => None,
            },
            Declared::Own(all) => {
                all.iter().rev().find(|(known, _)| **known == *prefix).map(|(_, ns)| ns.clone())
            }
        }
    }

    /// The default namespace; empty when none was declared.
    pub fn default_ns(&self) -> Name {
        self.find("").unwrap_or_default()
    }
}

/// A whole element, and nothing besides.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse(bytes: &[u8], prefixes: &Prefixes) -> Result<Element, XmlError> {
    Ok(parse_within(bytes, prefixes, Budget::STANZA)?.element)
}

/// As [`parse`], with so many elements in it at most and no bound on its memory: of a file of the operator's,
/// which may have more in one than a stanza has.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_of(bytes: &[u8], prefixes: &Prefixes, elements: usize) -> Result<Element, XmlError> {
    Ok(parse_within(bytes, prefixes, Budget::of_elements(elements))?.element)
}

/// An element of the store: the limits of streams do not hold, for they may have been wider when it was
/// accepted, and an element made of several stanzas may be larger than one. The length of a row bounds it.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_stored(bytes: &[u8]) -> Result<Element, XmlError> {
    Ok(parse_within(bytes, &Prefixes::default(), Budget::STORED)?.element)
}

/// As [`parse`], within a budget.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_within(bytes: &[u8], prefixes: &Prefixes, budget: Budget) -> Result<Measured, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::UnsupportedEncoding)?;
    let mut reader = Reader::new(text, prefixes, budget);
    let element = reader.element()?;
    if reader.at != text.len() {
        return Err(XmlError::NotWellFormed("something after the element"));
    }
    // The form it is sent on in has to fit where it is read again.
    if reader.is_bounded && reader.memory > budget.memory_for(reader.written) {
        return Err(XmlError::TooLarge("a stanza that grows when it is read"));
    }
    Ok(Measured { element, written: reader.written, memory: reader.memory })
}

/// The opening tag of a stream: its name and attributes, and its namespace declarations for all that follows.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_header(bytes: &[u8]) -> Result<(Element, Prefixes), XmlError> {
    parse_opening(bytes, &Prefixes::default())
}

/// The opening tag of an element that stands within others: their namespace declarations hold for it and for
/// all that follows.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_opening(bytes: &[u8], around: &Prefixes) -> Result<(Element, Prefixes), XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::UnsupportedEncoding)?;
    let mut reader = Reader::new(text, around, Budget::BEFORE_AUTH);
    reader.expect("<", "expected a tag")?;
    let tag = reader.open(&around.default_ns(), 0)?;
    if reader.at != text.len() || tag.is_empty {
        return Err(XmlError::NotWellFormed("expected one opening tag"));
    }
    let mut declared = around.all();
    declared.append(&mut reader.declared);
    Ok((tag.element, Prefixes::new(&declared)))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    prefixes: &'a Prefixes,
    /// By the elements that are open.
    declared: Vec<(&'a str, Name)>,
    /// Elements that there may still be.
    left: usize,
    /// Bytes of memory, estimated, and how many they may be.
    memory: usize,
    most_memory: usize,
    is_bounded: bool,
    budget: Budget,
    /// Bytes of the element when it is written again, and their limit.
    written: usize,
    most_written: usize,
}

/// An opening tag.
struct Open<'a> {
    element: Element,
    /// As it is written, for the closing tag.
    name: &'a str,
    is_empty: bool,
    /// Prefixes that were declared outside of it.
    outer: usize,
    /// Namespaces that are declared there when it is written, by the elements around it too.
    declares: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, prefixes: &'a Prefixes, budget: Budget) -> Reader<'a> {
        Reader {
            text,
            at: 0,
            prefixes,
            declared: Vec::new(),
            left: budget.elements,
            budget,
            memory: 0,
            most_memory: budget.memory_for(text.len()),
            is_bounded: budget.memory.is_some(),
            written: 0,
            most_written: text.len().saturating_mul(limits::WRITTEN_PER_BYTE) + limits::WRITTEN_PER_STANZA,
        }
    }

    /// Takes so many bytes of memory, and so many on the wire.
    fn take(&mut self, memory: usize, written: usize) -> Result<(), XmlError> {
        self.written += written;
        self.memory += memory;
        if !self.is_bounded {
            return Ok(());
        }
        if self.written > self.most_written {
            return Err(XmlError::TooLarge("a stanza that grows when it is written"));
        }
        if self.memory > self.most_memory {
            return Err(XmlError::TooLarge("a stanza that grows when it is read"));
        }
        Ok(())
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expect(&mut self, what: &str, problem: &'static str) -> Result<(), XmlError> {
        if !self.rest().starts_with(what) {
            return Err(XmlError::NotWellFormed(problem));
        }
        self.at += what.len();
        Ok(())
    }

    fn skip_space(&mut self) -> bool {
        let before = self.at;
        self.at +=
            self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
        self.at > before
    }

    /// Without recursion: depth is an attacker's choice.
    fn element(&mut self) -> Result<Element, XmlError> {
        self.expect("<", "expected a tag")?;
        let first = self.open(&self.prefixes.default_ns(), 0)?;
        if first.is_empty {
            return Ok(first.element);
        }
        let mut open = vec![first];
        loop {
            let (text, written) = self.content()?;
            let Some(innermost) = open.last_mut() else { break };
            if !text.is_empty() {
                self.take(NODE + ALLOCATION + text.len(), written)?;
                innermost.element.push_text(text);
            }
            if self.rest().starts_with("</") {
                self.at += 2;
                let Some(done) = open.pop() else { break };
                self.close(done.name)?;
                self.declared.truncate(done.outer);
                self.take(0, done.element.end_len())?;
                match open.last_mut() {
                    Some(parent) => parent.element.push(done.element),
                    None => return Ok(done.element),
                }
                continue;
            }
            self.at += 1;
            let tag = self.open(&innermost.element.ns, innermost.declares)?;
            if tag.is_empty {
                self.declared.truncate(tag.outer);
                innermost.element.push(tag.element);
            } else if open.len() >= self.budget.depth {
                return Err(XmlError::TooLarge("elements too deep inside each other"));
            } else {
                open.push(tag);
            }
        }
        Err(XmlError::NotWellFormed("expected a closing tag"))
    }

    fn close(&mut self, name: &str) -> Result<(), XmlError> {
        self.expect(name, "a closing tag of another name")?;
        self.skip_space();
        self.expect(">", "a closing tag of another name")
    }

    /// After `<`.
    fn open(&mut self, around: &Name, declared: usize) -> Result<Open<'a>, XmlError> {
        if self.left == 0 {
            return Err(XmlError::TooLarge("too many elements in a stanza"));
        }
        self.left -= 1;
        let name = self.name()?;
        let outer = self.declared.len();
        let mut raw: Vec<(&'a str, Box<str>, usize)> = Vec::new();
        let is_empty = loop {
            let spaced = self.skip_space();
            if self.rest().starts_with('>') {
                self.at += 1;
                break false;
            }
            if self.rest().starts_with("/>") {
                self.at += 2;
                break true;
            }
            if !spaced {
                return Err(XmlError::NotWellFormed("expected a space before an attribute"));
            }
            let (name, value, written) = self.attribute()?;
            if raw.len() >= self.budget.attributes {
                return Err(XmlError::TooLarge("too many attributes"));
            }
            match name.strip_prefix("xmlns") {
                Some("") => self.declare("", &value, outer)?,
                Some(rest) if rest.starts_with(':') => self.declare(&rest[1..], &value, outer)?,
                _ => raw.push((name, value, written)),
            }
        };
        let (prefix, local) = split(name)?;
        let ns = self.resolve(prefix)?;
        let values: usize = raw.iter().map(|(_, _, written)| written).sum();
        let element = Element::parsed(local_name(local), ns, self.attributes(raw)?);
        let written = element_len(&element.name, &element.ns, around) + attributes_len(&element.attributes);
        let is_declared = element.ns != *around;
        let declares = declared + usize::from(is_declared) + prefixes_of(&element.attributes);
        if declares > limits::DECLARATIONS && self.is_bounded {
            return Err(XmlError::TooLarge("too many namespaces declared"));
        }
        let ns = if is_declared { memory_of(&element.ns) } else { 0 };
        self.take(NODE + memory_of(&element.name) + ns, written + values)?;
        let open = Open { element, name, is_empty, outer, declares };
        if is_empty {
            self.take(0, open.element.end_len())?;
        }
        Ok(open)
    }

    fn attributes(&mut self, raw: Vec<(&str, Box<str>, usize)>) -> Result<Vec<Attribute>, XmlError> {
        let mut attributes: Vec<Attribute> = Vec::with_capacity(raw.len());
        for (name, value, _) in raw {
            let (prefix, local) = split(name)?;
            // The default namespace is not that of attributes.
            let ns = if prefix.is_empty() { Name::Static("") } else { self.resolve(prefix)? };
            if attributes.iter().any(|known| *known.name == *local && known.ns == ns) {
                return Err(XmlError::NotWellFormed("an attribute twice"));
            }
            let name = local_name(local);
            let names = memory_of(&name) + memory_of(&ns);
            self.take(size_of::<Attribute>() + names + ALLOCATION + value.len(), 0)?;
            attributes.push(Attribute { ns, name, value });
        }
        Ok(attributes)
    }

    /// In the tag before which `outer` were declared.
    fn declare(&mut self, prefix: &'a str, uri: &str, outer: usize) -> Result<(), XmlError> {
        if self.declared[outer..].iter().any(|(known, _)| *known == prefix) {
            return Err(XmlError::NotWellFormed("a prefix that is declared twice"));
        }
        let most = if self.is_bounded { limits::DECLARATIONS } else { limits::STORED_ATTRIBUTES };
        if self.declared.len() >= most {
            return Err(XmlError::TooLarge("too many namespaces declared"));
        }
        if self.is_bounded && uri.len() > limits::NAMESPACE {
            return Err(XmlError::TooLarge("a namespace that is too long"));
        }
        let is_xml = prefix == "xml" || prefix == "xmlns" || uri == "http://www.w3.org/2000/xmlns/";
        if is_xml && (prefix, uri) != ("xml", ns::XML) || (uri == ns::XML) != (prefix == "xml") {
            return Err(XmlError::NotWellFormed("a reserved prefix or namespace"));
        }
        if uri.is_empty() && !prefix.is_empty() {
            return Err(XmlError::NotWellFormed("a prefix without a namespace"));
        }
        let ns = ns::intern(uri).map_or_else(|| Name::Shared(uri.into()), Name::Static);
        self.take(memory_of(&ns), 0)?;
        self.declared.push((prefix, ns));
        Ok(())
    }

    fn resolve(&self, prefix: &str) -> Result<Name, XmlError> {
        let declared = self.declared.iter().rev().find(|(known, _)| *known == prefix);
        let found = declared.map(|(_, ns)| ns.clone()).or_else(|| self.prefixes.find(prefix));
        match (found, prefix) {
            (Some(ns), _) => Ok(ns),
            (None, "") => Ok(Name::Static("")),
            (None, "xml") => Ok(Name::Static(ns::XML)),
            (None, _) => Err(XmlError::BadNamespacePrefix),
        }
    }

    fn name(&mut self) -> Result<&'a str, XmlError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        if name.chars().next().is_none_or(|first| !is_name_start(first)) {
            return Err(XmlError::NotWellFormed("expected a name"));
        }
        self.at += end;
        Ok(name)
    }

    /// Its name, its value, and the bytes that the value takes when it is written, without quotes.
    fn attribute(&mut self) -> Result<(&'a str, Box<str>, usize), XmlError> {
        let name = self.name()?;
        self.skip_space();
        self.expect("=", "expected = after an attribute's name")?;
        self.skip_space();
        let quote = match self.rest().as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => char::from(*quote),
            _ => return Err(XmlError::NotWellFormed("expected a quoted value")),
        };
        self.at += 1;
        let rest = self.rest();
        let end = rest.find(quote).ok_or(XmlError::NotWellFormed("a value without an end"))?;
        let raw = &rest[..end];
        if raw.contains('<') {
            return Err(XmlError::NotWellFormed("a < in an attribute"));
        }
        self.at += end + 1;
        let plain = |c: char| if matches!(c, '\t' | '\n' | '\r') { ' ' } else { c };
        let value: Box<str> = unescape(&line_ends(raw), plain)?.into();
        // As it is, unless there was an entity: of the two kinds of quotes only one can stand in it unescaped.
        let written = if raw.contains('&') { value_len(&value) } else { value.len() };
        Ok((name, value, written))
    }

    /// Text and CDATA up to the next tag, and the bytes that it takes when it is written.
    fn content(&mut self) -> Result<(Box<str>, usize), XmlError> {
        let mut text = String::new();
        let mut is_plain = true;
        loop {
            let rest = self.rest();
            let end = rest.find('<').ok_or(XmlError::NotWellFormed("expected a closing tag"))?;
            if end > 0 {
                if rest[..end].contains("]]>") {
                    return Err(XmlError::NotWellFormed("]]> in text"));
                }
                is_plain &= !rest[..end].contains('&') && !rest.starts_with(['>', ']']);
                text += &unescape(&line_ends(&rest[..end]), |c| c)?;
                self.at += end;
            }
            let rest = self.rest();
            if let Some(data) = rest.strip_prefix("<![CDATA[") {
                let end = data.find("]]>").ok_or(XmlError::NotWellFormed("CDATA without an end"))?;
                check(&data[..end])?;
                text += &line_ends(&data[..end]);
                is_plain = false;
                self.at += "<![CDATA[".len() + end + "]]>".len();
            } else if rest.starts_with("<!") || rest.starts_with("<?") {
                return Err(XmlError::Restricted("a comment or processing instruction"));
            } else {
                let written = if is_plain { text.len() } else { text_len(&text) };
                return Ok((text.into(), written));
            }
        }
    }
}

/// The size of an element or a text in its parent: lists of children grow to up to twice what is in them.
const NODE: usize = 2 * size_of::<Node>();

/// The overhead of an allocation.
const ALLOCATION: usize = 24;

fn memory_of(name: &Name) -> usize {
    match name {
        Name::Static(_) => 0,
        Name::Shared(text) => ALLOCATION + 16 + text.len(),
    }
}

/// The names that are in nearly every stanza, sorted: for these nothing is allocated.
const NAMES: &[&str] = &[
    "a",
    "active",
    "body",
    "c",
    "delay",
    "from",
    "h",
    "hash",
    "id",
    "iq",
    "item",
    "jid",
    "message",
    "name",
    "node",
    "origin-id",
    "ping",
    "presence",
    "priority",
    "query",
    "r",
    "request",
    "show",
    "stamp",
    "status",
    "subscription",
    "thread",
    "to",
    "type",
    "var",
    "ver",
    "version",
    "x",
];

fn local_name(local: &str) -> Name {
    match NAMES.binary_search(&local) {
        Ok(at) => Name::Static(NAMES[at]),
        Err(_) => Name::Shared(local.into()),
    }
}

/// A name's prefix and its rest.
fn split(name: &str) -> Result<(&str, &str), XmlError> {
    match name.split_once(':') {
        None => Ok(("", name)),
        Some((prefix, local)) if !prefix.is_empty() && !local.is_empty() && !local.contains(':') => {
            Ok((prefix, local))
        }
        Some(_) => Err(XmlError::NotWellFormed("a name with a colon too many")),
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '_' | ':' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
            | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}' | '\u{200D}' | '\u{2070}'..='\u{218F}'
            | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}'
            | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || c.is_ascii_digit()
        || matches!(c, '-' | '.' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}' | '\u{2040}')
}

/// XML 1.0 §2.2.
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..='\u{10FFFF}')
}

/// Characters that are what they are wherever they stand: nearly all of nearly every text.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'&')
}

fn check(text: &str) -> Result<(), XmlError> {
    if text.chars().all(is_char) { Ok(()) } else { Err(XmlError::NotWellFormed("a forbidden character")) }
}

/// One feed each (XML 1.0 §2.11); those that are written as numbers stay what they are.
fn line_ends(raw: &str) -> Cow<'_, str> {
    if raw.contains('\r') { raw.replace("\r\n", "\n").replace('\r', "\n").into() } else { raw.into() }
}

/// `each` is applied to literal characters, not to those of entities.
fn unescape(raw: &str, each: impl Fn(char) -> char) -> Result<String, XmlError> {
    if is_plain(raw) {
        return Ok(raw.to_owned());
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        check(&rest[..at])?;
        text.extend(rest[..at].chars().map(&each));
        let (entity, after) =
            rest[at + 1..].split_once(';').ok_or(XmlError::NotWellFormed("an & without its ;"))?;
        text.push(entity_char(entity)?);
        rest = after;
    }
    check(rest)?;
    text.extend(rest.chars().map(&each));
    Ok(text)
}

fn entity_char(entity: &str) -> Result<char, XmlError> {
    let number = match entity {
        "lt" => return Ok('<'),
        "gt" => return Ok('>'),
        "amp" => return Ok('&'),
        "apos" => return Ok('\''),
        "quot" => return Ok('"'),
        _ => entity.strip_prefix('#').ok_or(XmlError::Restricted("an entity that is not XML's own"))?,
    };
    let (digits, base) = number.strip_prefix('x').map_or((number, 10), |hex| (hex, 16));
    let is_digits = !digits.is_empty() && digits.bytes().all(|byte| char::from(byte).is_digit(base));
    let code = if is_digits { u32::from_str_radix(digits, base).ok() } else { None };
    code.and_then(char::from_u32)
        .filter(|c| is_char(*c))
        .ok_or(XmlError::NotWellFormed("a number that is no character"))
}

#[cfg(test)]
mod tests;
