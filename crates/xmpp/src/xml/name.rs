//! Names and namespaces of elements and attributes.

use std::ops::Deref;
use std::sync::Arc;

/// A constant of ours, or text from the wire. All elements of a stanza that are in one declared namespace share its
/// text: a long namespace that is declared once costs its length once.
#[derive(Clone)]
pub enum Name {
    /// A name that the code knows.
    Static(&'static str),
    /// Any other name.
    Shared(Arc<str>),
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Name::Static(text) => text,
            Name::Shared(text) => text,
        }
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::Static("")
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Name {
        Name::Static(text)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        let (own, others): (&str, &str) = (self, other);
        std::ptr::eq(own, others) || own == others
    }
}

impl Eq for Name {}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}
