//! One stanza's bytes to an element.

use std::borrow::Cow;

use super::XmlError;
use super::element::{Attribute, Element, Name};
use crate::{limits, ns};

/// Prefixes that the stream's header declared; its default namespace under the empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(Declared);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Declared {
    #[default]
    Nothing,
    /// What clients declare, nearly all of them: of a stream that waits it takes nothing.
    Usual,
    Own(Box<[(Box<str>, Name)]>),
}

impl Prefixes {
    /// Nothing but a default namespace.
    pub fn of_default(ns: &'static str) -> Prefixes {
        Prefixes(Declared::Own([("".into(), Cow::Borrowed(ns))].into()))
    }

    /// What was declared as one namespace is read as another.
    #[must_use]
    pub fn reading(self, namespace: &str, other: &'static str) -> Prefixes {
        let Declared::Own(mut all) = self.0 else { return self };
        for (_, ns) in all.iter_mut().filter(|(_, ns)| ns == namespace) {
            *ns = Cow::Borrowed(other);
        }
        Prefixes(Declared::Own(all))
    }

    /// What clients declare: theirs as the default, and `stream`.
    pub fn usual() -> Prefixes {
        Prefixes(Declared::Usual)
    }

    fn all(&self) -> Vec<(&str, Name)> {
        match &self.0 {
            Declared::Nothing => Vec::new(),
            Declared::Usual => vec![("", Cow::Borrowed(ns::CLIENT)), ("stream", Cow::Borrowed(ns::STREAM))],
            Declared::Own(all) => all.iter().map(|(prefix, ns)| (&**prefix, ns.clone())).collect(),
        }
    }

    fn new(declared: &[(&str, Name)]) -> Prefixes {
        let is = |prefix: &str, ns: &str| declared.iter().any(|(known, its)| *known == prefix && its == ns);
        Prefixes(match declared.len() {
            0 => Declared::Nothing,
            2 if is("", ns::CLIENT) && is("stream", ns::STREAM) => Declared::Usual,
            _ => Declared::Own(declared.iter().map(|(prefix, ns)| ((*prefix).into(), ns.clone())).collect()),
        })
    }

    fn find(&self, prefix: &str) -> Option<Name> {
        match &self.0 {
            Declared::Nothing => None,
            Declared::Usual => match prefix {
                "" => Some(Cow::Borrowed(ns::CLIENT)),
                "stream" => Some(Cow::Borrowed(ns::STREAM)),
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
    parse_of(bytes, prefixes, limits::ELEMENTS)
}

/// As [`parse`], with so many elements in it at most: of a file, which may have more in one than a stanza has.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_of(bytes: &[u8], prefixes: &Prefixes, elements: usize) -> Result<Element, XmlError> {
    whole(bytes, prefixes, elements, false)
}

/// An element of the store: the limits of streams do not hold, for they may have been wider when it was accepted, and what
/// several stanzas made may be more than one can be. The length of a row bounds it.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_stored(bytes: &[u8]) -> Result<Element, XmlError> {
    whole(bytes, &Prefixes::default(), usize::MAX, true)
}

fn whole(bytes: &[u8], prefixes: &Prefixes, left: usize, is_stored: bool) -> Result<Element, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::UnsupportedEncoding)?;
    let mut reader = Reader::new(text, prefixes);
    (reader.left, reader.is_stored) = (left, is_stored);
    let element = reader.element()?;
    if reader.at != text.len() {
        return Err(XmlError::NotWellFormed("something after the element"));
    }
    Ok(element)
}

/// The opening tag of a stream: its name and attributes, and what it declares for all that follows.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_header(bytes: &[u8]) -> Result<(Element, Prefixes), XmlError> {
    parse_opening(bytes, &Prefixes::default())
}

/// The opening tag of an element that stands within others: what they declare holds for it and for all that follows.
///
/// # Errors
/// As [`XmlError`] says.
pub fn parse_opening(bytes: &[u8], around: &Prefixes) -> Result<(Element, Prefixes), XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::UnsupportedEncoding)?;
    let mut reader = Reader::new(text, around);
    reader.expect("<", "expected a tag")?;
    let tag = reader.open()?;
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
    is_stored: bool,
}

/// An opening tag.
struct Open<'a> {
    element: Element,
    /// As it is written, for the closing tag.
    name: &'a str,
    is_empty: bool,
    /// Prefixes that were declared outside of it.
    outer: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, prefixes: &'a Prefixes) -> Reader<'a> {
        let left = limits::ELEMENTS;
        Reader { text, at: 0, prefixes, declared: Vec::new(), left, is_stored: false }
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
        let first = self.open()?;
        if first.is_empty {
            return Ok(first.element);
        }
        let mut open = vec![first];
        loop {
            let text = self.content()?;
            let Some(innermost) = open.last_mut() else { break };
            innermost.element.push_text(text);
            if self.rest().starts_with("</") {
                self.at += 2;
                let Some(done) = open.pop() else { break };
                self.close(done.name)?;
                self.declared.truncate(done.outer);
                match open.last_mut() {
                    Some(parent) => parent.element.push(done.element),
                    None => return Ok(done.element),
                }
                continue;
            }
            self.at += 1;
            let tag = self.open()?;
            if tag.is_empty {
                self.declared.truncate(tag.outer);
                innermost.element.push(tag.element);
            } else if open.len() >= if self.is_stored { limits::STORED_DEPTH } else { limits::DEPTH } {
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
    fn open(&mut self) -> Result<Open<'a>, XmlError> {
        if self.left == 0 {
            return Err(XmlError::TooLarge("too many elements in a stanza"));
        }
        self.left -= 1;
        let name = self.name()?;
        let outer = self.declared.len();
        let mut raw: Vec<(&'a str, Box<str>)> = Vec::new();
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
            let (name, value) = self.attribute()?;
            if raw.len() >= if self.is_stored { limits::STORED_ATTRIBUTES } else { limits::ATTRIBUTES } {
                return Err(XmlError::TooLarge("too many attributes"));
            }
            match name.strip_prefix("xmlns") {
                Some("") => self.declare("", &value)?,
                Some(rest) if rest.starts_with(':') => self.declare(&rest[1..], &value)?,
                _ => raw.push((name, value)),
            }
        };
        let (prefix, local) = split(name)?;
        let ns = self.resolve(prefix)?;
        let element = Element::parsed(local_name(local), ns, self.attributes(raw)?);
        Ok(Open { element, name, is_empty, outer })
    }

    fn attributes(&self, raw: Vec<(&str, Box<str>)>) -> Result<Vec<Attribute>, XmlError> {
        let mut attributes: Vec<Attribute> = Vec::with_capacity(raw.len());
        for (name, value) in raw {
            let (prefix, local) = split(name)?;
            // The default namespace is not that of attributes.
            let ns = if prefix.is_empty() { Cow::Borrowed("") } else { self.resolve(prefix)? };
            if attributes.iter().any(|known| known.name == local && known.ns == ns) {
                return Err(XmlError::NotWellFormed("an attribute twice"));
            }
            attributes.push(Attribute { ns, name: local_name(local), value });
        }
        Ok(attributes)
    }

    fn declare(&mut self, prefix: &'a str, uri: &str) -> Result<(), XmlError> {
        let is_xml = prefix == "xml" || prefix == "xmlns" || uri == "http://www.w3.org/2000/xmlns/";
        if is_xml && (prefix, uri) != ("xml", ns::XML) || (uri == ns::XML) != (prefix == "xml") {
            return Err(XmlError::NotWellFormed("a reserved prefix or namespace"));
        }
        if uri.is_empty() && !prefix.is_empty() {
            return Err(XmlError::NotWellFormed("a prefix without a namespace"));
        }
        let ns = ns::intern(uri).map_or_else(|| Cow::Owned(uri.to_owned()), Cow::Borrowed);
        self.declared.push((prefix, ns));
        Ok(())
    }

    fn resolve(&self, prefix: &str) -> Result<Name, XmlError> {
        let declared = self.declared.iter().rev().find(|(known, _)| *known == prefix);
        let found = declared.map(|(_, ns)| ns.clone()).or_else(|| self.prefixes.find(prefix));
        match (found, prefix) {
            (Some(ns), _) => Ok(ns),
            (None, "") => Ok(Cow::Borrowed("")),
            (None, "xml") => Ok(Cow::Borrowed(ns::XML)),
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

    fn attribute(&mut self) -> Result<(&'a str, Box<str>), XmlError> {
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
        Ok((name, unescape(&line_ends(raw), plain)?.into()))
    }

    /// Text and CDATA up to the next tag.
    fn content(&mut self) -> Result<Box<str>, XmlError> {
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let end = rest.find('<').ok_or(XmlError::NotWellFormed("expected a closing tag"))?;
            if end > 0 {
                if rest[..end].contains("]]>") {
                    return Err(XmlError::NotWellFormed("]]> in text"));
                }
                text += &unescape(&line_ends(&rest[..end]), |c| c)?;
                self.at += end;
            }
            let rest = self.rest();
            if let Some(data) = rest.strip_prefix("<![CDATA[") {
                let end = data.find("]]>").ok_or(XmlError::NotWellFormed("CDATA without an end"))?;
                check(&data[..end])?;
                text += &line_ends(&data[..end]);
                self.at += "<![CDATA[".len() + end + "]]>".len();
            } else if rest.starts_with("<!") || rest.starts_with("<?") {
                return Err(XmlError::Restricted("a comment or processing instruction"));
            } else {
                return Ok(text.into());
            }
        }
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
        Ok(at) => Cow::Borrowed(NAMES[at]),
        Err(_) => Cow::Owned(local.to_owned()),
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

/// `each` is done to what was written as itself, not to what an entity stands for.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Element, XmlError> {
        parse(text.as_bytes(), &Prefixes::of_default(ns::CLIENT))
    }

    #[test]
    fn usual_names_are_found() {
        assert!(NAMES.is_sorted());
        assert!(NAMES.iter().all(|name| matches!(local_name(name), Cow::Borrowed(_))));
    }

    #[test]
    fn line_ends_are_feeds_unless_they_are_written_as_numbers() {
        let element = read("<a b='1\r\n2'>x\r\ny\rz&#13;\n<![CDATA[c\r\nd]]></a>").unwrap();
        assert_eq!(element.content(), "x\ny\nz\r\nc\nd");
        assert_eq!(element.attr("b"), Some("1 2"));
        let bytes = element.to_bytes(ns::CLIENT);
        assert_eq!(read(&String::from_utf8(bytes).unwrap()), Ok(element));
    }

    #[test]
    fn namespaces_are_resolved_and_declared_again_where_they_change() {
        let element = read(
            "<message to='a&amp;b' xml:lang='de'><body>1 &lt; 2 &#x263A;</body>\
             <x:y xmlns:x='urn:x' x:z='1'><q xmlns='urn:q'/><x:w/></x:y></message>",
        )
        .unwrap();
        assert!(element.is("message", ns::CLIENT));
        assert_eq!((element.attr("to"), element.lang()), (Some("a&b"), Some("de")));
        assert_eq!(element.content_of("body", ns::CLIENT).unwrap(), "1 < 2 ☺");
        let inner = element.get("y", "urn:x").unwrap();
        assert_eq!(inner.attr_ns("z", "urn:x"), Some("1"));
        assert!(inner.get("q", "urn:q").is_some() && inner.get("w", "urn:x").is_some());
        assert_eq!(
            String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap(),
            "<message to='a&amp;b' xml:lang='de'><body>1 &lt; 2 ☺</body>\
             <y xmlns='urn:x' xmlns:n0='urn:x' n0:z='1'><q xmlns='urn:q'/><w/></y></message>"
        );
    }

    #[test]
    fn mistakes_have_the_stream_errors_that_the_text_names() {
        for (text, condition) in [
            ("<a", "not-well-formed"),
            ("<a></b>", "not-well-formed"),
            ("<a x='1' x='2'/>", "not-well-formed"),
            ("<a x=1/>", "not-well-formed"),
            ("<a x='<'/>", "not-well-formed"),
            ("<a>&#0;</a>", "not-well-formed"),
            ("<a>\u{1}</a>", "not-well-formed"),
            ("<a>]]></a>", "not-well-formed"),
            ("<a:b:c/>", "not-well-formed"),
            ("<a xmlns:xml='urn:x'/>", "not-well-formed"),
            ("<a/><b/>", "not-well-formed"),
            ("<a>&nbsp;</a>", "restricted-xml"),
            ("<a><!-- x --></a>", "restricted-xml"),
            ("<x:a/>", "bad-namespace-prefix"),
            ("<a x:b='1'/>", "bad-namespace-prefix"),
        ] {
            assert_eq!(read(text).unwrap_err().condition(), condition, "{text}");
        }
        assert_eq!(
            parse(b"<a>\xFF</a>", &Prefixes::default()).unwrap_err().condition(),
            "unsupported-encoding"
        );
        let deep = "<a>".repeat(limits::DEPTH + 1) + &"</a>".repeat(limits::DEPTH + 1);
        assert_eq!(read(&deep).unwrap_err().condition(), "policy-violation");
    }

    #[test]
    fn a_prefix_of_the_stream_is_known_in_its_stanzas() {
        let header = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' xmlns:e='urn:e' to='x'>";
        let (header, prefixes) = parse_header(header).unwrap();
        assert!(header.is("stream", ns::STREAM));
        assert_eq!(prefixes.default_ns(), ns::CLIENT);
        assert!(parse(b"<e:x/>", &prefixes).unwrap().is("x", "urn:e"));
    }

    fn element() -> impl Strategy<Value = Element> {
        let text = "[ -~\u{a0}-\u{d7ff}]{0,12}";
        let leaf = (0..3_usize, text, text).prop_map(|(name, value, text)| {
            let (name, ns) = [("a", "urn:1"), ("b", "urn:2"), ("c", ns::CLIENT)][name];
            Element::new(name, ns).with("v", value).text(text)
        });
        leaf.prop_recursive(4, 20, 4, |inner| {
            (inner.clone(), prop::collection::vec(inner, 0..4))
                .prop_map(|(outer, children)| outer.children(children))
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(element in element()) {
            let bytes = element.to_bytes(ns::CLIENT);
            prop_assert_eq!(parse(&bytes, &Prefixes::of_default(ns::CLIENT)).unwrap(), element);
        }

        #[test]
        fn no_bytes_make_it_panic(text in "[<>/a-c='\" &;:!\\[\\]x#]{0,60}") {
            let _ = read(&text);
        }
    }
}
