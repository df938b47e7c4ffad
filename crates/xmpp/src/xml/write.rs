//! Elements as bytes.

use super::element::{Element, Node};
use crate::ns;

impl Element {
    /// Appends it. `around` is the default namespace of what it stands in; it is declared anew where it changes.
    pub fn write(&self, around: &str, out: &mut Vec<u8>) {
        out.push(b'<');
        out.extend_from_slice(self.name.as_bytes());
        if self.ns != around {
            out.extend_from_slice(b" xmlns='");
            escape_into(&self.ns, out);
            out.push(b'\'');
        }
        let mut prefixes = 0_u32;
        for attribute in &self.attributes {
            out.push(b' ');
            match &*attribute.ns {
                "" => {}
                ns::XML => out.extend_from_slice(b"xml:"),
                other => {
                    // Rare: nobody but the xml prefix needs them.
                    let prefix = format!("n{prefixes}");
                    prefixes += 1;
                    out.extend_from_slice(format!("xmlns:{prefix}='").as_bytes());
                    escape_into(other, out);
                    out.extend_from_slice(format!("' {prefix}:").as_bytes());
                }
            }
            out.extend_from_slice(attribute.name.as_bytes());
            out.extend_from_slice(b"='");
            escape_attribute(&attribute.value, out);
            out.push(b'\'');
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
                    Node::Text(text) => escape_into(text, out),
                }
            }
        });
        out.extend_from_slice(b"</");
        out.extend_from_slice(self.name.as_bytes());
        out.push(b'>');
    }

    /// As bytes that stand in a stream whose default namespace is `around`.
    pub fn to_bytes(&self, around: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write(around, &mut out);
        out
    }
}

/// Text or the value of an attribute, within either kind of quotes.
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
            _ => continue,
        };
        out.extend_from_slice(&bytes[done..at]);
        out.extend_from_slice(entity);
        done = at + 1;
    }
    out.extend_from_slice(&bytes[done..]);
}

/// As [`escape_into`]; a reader makes spaces of an attribute's tabs and line feeds.
fn escape_attribute(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find(['\t', '\n']) {
        escape_into(&rest[..at], out);
        out.extend_from_slice(if rest.as_bytes()[at] == b'\t' { b"&#9;" } else { b"&#10;" });
        rest = &rest[at + 1..];
    }
    escape_into(rest, out);
}

pub fn escape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape_into(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
