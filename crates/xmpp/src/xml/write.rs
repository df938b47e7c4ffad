//! Elements as bytes.

use super::element::{Attribute, Element, Node};
use super::name::Name;
use crate::ns;

impl Element {
    /// Appends it. `around` is the default namespace of its parent; it is declared anew where it changes.
    pub fn write(&self, around: &str, out: &mut Vec<u8>) {
        out.push(b'<');
        out.extend_from_slice(self.name.as_bytes());
        if self.ns != *around {
            out.extend_from_slice(b" xmlns=");
            write_value(&self.ns, out);
        }
        for (at, attribute) in self.attributes.iter().enumerate() {
            out.push(b' ');
            match &*attribute.ns {
                "" => {}
                ns::XML => out.extend_from_slice(b"xml:"),
                // Rare: there are hardly attributes with a namespace but `xml:lang`.
                other => {
                    let prefix = Prefix::of(&self.attributes, at);
                    if prefix.is_new {
                        out.extend_from_slice(format!("xmlns:n{}=", prefix.number).as_bytes());
                        write_value(other, out);
                        out.push(b' ');
                    }
                    out.extend_from_slice(format!("n{}:", prefix.number).as_bytes());
                }
            }
            out.extend_from_slice(attribute.name.as_bytes());
            out.push(b'=');
            write_value(&attribute.value, out);
        }
        if self.nodes().is_empty() {
            out.extend_from_slice(b"/>");
            return;
        }
        out.push(b'>');
        self.children.write(&self.ns, out, |nodes, out| {
            for node in nodes {
                match node {
                    Node::Element(element) => element.write(&self.ns, out),
                    Node::Text(text) => write_text(text, out),
                }
            }
        });
        out.extend_from_slice(b"</");
        out.extend_from_slice(self.name.as_bytes());
        out.push(b'>');
    }

    /// Bytes that [`write`](Self::write) appends.
    pub fn written_len(&self, around: &str) -> usize {
        let values: usize = self.attributes.iter().map(|attribute| value_len(&attribute.value)).sum();
        let nodes = self.nodes().iter().map(|node| match node {
            Node::Element(element) => element.written_len(&self.ns),
            Node::Text(text) => text_len(text),
        });
        let tag = element_len(&self.name, &self.ns, around) + attributes_len(&self.attributes) + values;
        tag + self.end_len() + nodes.sum::<usize>()
    }

    /// Bytes of its end.
    pub(super) fn end_len(&self) -> usize {
        if self.nodes().is_empty() { "/>".len() } else { "></>".len() + self.name.len() }
    }

    /// The element as bytes of a stream whose default namespace is `around`.
    pub fn to_bytes(&self, around: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write(around, &mut out);
        out
    }
}

/// A text or a value of an attribute within either kind of quotes, for tags that are written by hand.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let entity: &[u8] = match byte {
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'&' => b"&amp;",
            b'\'' => b"&apos;",
            b'"' => b"&quot;",
            // A reader makes line feeds of carriage returns.
            b'\r' => b"&#13;",
            _ => match excluded(bytes, at) {
                Some(replacement) => replacement,
                None => continue,
            },
        };
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(entity);
        done = at + 1;
    }
    out.extend_from_slice(&bytes[done..]);
}

/// The prefix of an attribute's namespace: those of one element that are in the same namespace share it.
struct Prefix {
    number: usize,
    /// No attribute before it has declared it.
    is_new: bool,
}

impl Prefix {
    fn of(attributes: &[Attribute], at: usize) -> Prefix {
        let is_prefixed = |ns: &Name| !matches!(&**ns, "" | ns::XML);
        let own = &attributes[at].ns;
        let first = attributes[..at].iter().position(|attribute| attribute.ns == *own);
        let number = attributes[..first.unwrap_or(at)].iter().filter(|attribute| is_prefixed(&attribute.ns));
        Prefix { number: number.count(), is_new: first.is_none() }
    }
}

/// Prefixes that are declared for attributes.
pub(super) fn prefixes_of(attributes: &[Attribute]) -> usize {
    let is_new =
        |at: &usize| !matches!(&*attributes[*at].ns, "" | ns::XML) && Prefix::of(attributes, *at).is_new;
    (0..attributes.len()).filter(is_new).count()
}

/// Bytes of an opening tag, without attributes and its end.
pub(super) fn element_len(name: &str, ns: &str, around: &str) -> usize {
    let declared = if ns == around { 0 } else { " xmlns=''".len() + value_len(ns) };
    1 + name.len() + declared
}

/// Bytes of all attributes, without their values.
pub(super) fn attributes_len(attributes: &[Attribute]) -> usize {
    let prefix_len = |(at, attribute): (usize, &Attribute)| match &*attribute.ns {
        "" => 0,
        ns::XML => "xml:".len(),
        other => {
            let prefix = Prefix::of(attributes, at);
            let number = 1 + prefix.number.checked_ilog10().unwrap_or(0) as usize;
            let declared = if prefix.is_new { "xmlns:n='' ".len() + number + value_len(other) } else { 0 };
            "n:".len() + number + declared
        }
    };
    let names: usize = attributes.iter().map(|attribute| " =''".len() + attribute.name.len()).sum();
    names + attributes.iter().enumerate().map(prefix_len).sum::<usize>()
}

/// The replacement of one byte of a character that XML 1.0 §2.2 excludes: U+FFFD in place of control characters, U+FFFE and U+FFFF. Our own texts
/// have none, but those of calls come from other protocols, and a client cannot read its stream behind such a character.
fn excluded(text: &[u8], at: usize) -> Option<&'static [u8]> {
    match text[at] {
        b'\t' | b'\n' | b'\r' => None,
        ..b' ' => Some("\u{fffd}".as_bytes()),
        // The last byte of three makes the difference.
        0xbe | 0xbf if text[..at].ends_with(&[0xef, 0xbf]) => Some(b"\xbd"),
        _ => None,
    }
}

/// The escape of one byte of a text. A text is mostly what people say: quotation marks stay as they are.
fn in_text(text: &[u8], at: usize) -> Option<&'static [u8]> {
    match text[at] {
        b'<' => Some(b"&lt;"),
        b'&' => Some(b"&amp;"),
        // A reader makes line feeds of carriage returns.
        b'\r' => Some(b"&#13;"),
        // XML 1.0 §2.4: not after `]]`, which may be the end of another text.
        b'>' if text[at.saturating_sub(2)..at].iter().all(|byte| *byte == b']') => Some(b"&gt;"),
        _ => excluded(text, at),
    }
}

/// The escape of one byte of an attribute's value between these quotes.
fn in_value(value: &[u8], at: usize, quote: u8) -> Option<&'static [u8]> {
    match value[at] {
        b'<' => Some(b"&lt;"),
        b'&' => Some(b"&amp;"),
        // A reader makes spaces of white space.
        b'\t' => Some(b"&#9;"),
        b'\n' => Some(b"&#10;"),
        b'\r' => Some(b"&#13;"),
        b'\'' if quote == b'\'' => Some(b"&#39;"),
        b'"' if quote == b'"' => Some(b"&#34;"),
        _ => excluded(value, at),
    }
}

/// The quotes that are rarer in it: so a value is never written longer than it can have been read.
fn quote_of(value: &[u8]) -> u8 {
    let count = |quote: u8| value.iter().filter(|byte| **byte == quote).count();
    if value.contains(&b'\'') && count(b'\'') > count(b'"') { b'"' } else { b'\'' }
}

fn write_with(text: &[u8], out: &mut Vec<u8>, entity: impl Fn(usize) -> Option<&'static [u8]>) {
    let mut done = 0;
    for at in 0..text.len() {
        if let Some(entity) = entity(at) {
            out.extend_from_slice(&text[done..at]);
            out.extend_from_slice(entity);
            done = at + 1;
        }
    }
    out.extend_from_slice(&text[done..]);
}

fn len_with(text: &[u8], entity: impl Fn(usize) -> Option<&'static [u8]>) -> usize {
    (0..text.len()).map(|at| entity(at).map_or(1, <[u8]>::len)).sum()
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let text = text.as_bytes();
    write_with(text, out, |at| in_text(text, at));
}

/// Bytes of a text when it is written.
pub(super) fn text_len(text: &str) -> usize {
    len_with(text.as_bytes(), |at| in_text(text.as_bytes(), at))
}

/// With its quotes.
fn write_value(value: &str, out: &mut Vec<u8>) {
    let value = value.as_bytes();
    let quote = quote_of(value);
    out.push(quote);
    write_with(value, out, |at| in_value(value, at, quote));
    out.push(quote);
}

/// Bytes of an attribute's value when it is written, without quotes.
pub(super) fn value_len(value: &str) -> usize {
    let value = value.as_bytes();
    let quote = quote_of(value);
    len_with(value, |at| in_value(value, at, quote))
}

/// The text with `<`, `>`, `&` and quotes escaped, and characters that XML excludes replaced.
pub fn escape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape_into(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
