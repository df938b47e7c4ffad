//! The restricted XML of RFC 6120 §11: no comments, processing instructions, document types or entities but XML's five.
//!
//! A [`Framer`] cuts a stream into stanzas without understanding them and keeps nothing between two; [`parse`] makes an
//! [`Element`] of one.

mod budget;
mod children;
mod element;
mod frame;
mod name;
mod packed;
mod parse;
mod write;

pub use budget::{Budget, Measured};
pub use element::{Attribute, Element, Node};
pub use frame::{Frame, Framer};
pub use name::Name;
pub use packed::Packed;
pub use parse::{Prefixes, parse, parse_header, parse_of, parse_opening, parse_stored, parse_within};
pub use write::{escape, escape_into};

/// Why bytes are no XML of ours. Its name is the stream error of RFC 6120 §4.9.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlError {
    /// The XML is not well-formed, for this reason.
    NotWellFormed(&'static str),
    /// Comments, processing instructions, DTDs, entities.
    Restricted(&'static str),
    /// A prefix has no namespace.
    BadNamespacePrefix,
    /// Bytes that are not UTF-8, or a declaration of another encoding.
    UnsupportedEncoding,
    /// A limit of `limits.rs`.
    TooLarge(&'static str),
}

impl XmlError {
    /// The condition of the stream error.
    pub fn condition(self) -> &'static str {
        match self {
            XmlError::NotWellFormed(_) => "not-well-formed",
            XmlError::Restricted(_) => "restricted-xml",
            XmlError::BadNamespacePrefix => "bad-namespace-prefix",
            XmlError::UnsupportedEncoding => "unsupported-encoding",
            XmlError::TooLarge(_) => "policy-violation",
        }
    }
}

impl std::fmt::Display for XmlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            XmlError::NotWellFormed(what) | XmlError::Restricted(what) | XmlError::TooLarge(what) => {
                f.write_str(what)
            }
            XmlError::BadNamespacePrefix => f.write_str("a prefix that is not declared"),
            XmlError::UnsupportedEncoding => f.write_str("an encoding other than UTF-8"),
        }
    }
}

impl std::error::Error for XmlError {}
