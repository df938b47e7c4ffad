//! An element that is kept for long and looked at seldom.

use super::element::Element;
use super::parse::{Prefixes, parse_of};
use crate::{limits, ns};

/// As its bytes, which take a quarter of its memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed(Box<[u8]>);

impl Packed {
    /// Packs an element as the bytes of its XML.
    pub fn new(element: &Element) -> Packed {
        Packed(element.to_bytes(ns::CLIENT).into())
    }

    /// `None` only of an element that could not have come over a stream.
    pub fn unpack(&self) -> Option<Element> {
        parse_of(&self.0, &Prefixes::usual(), limits::ELEMENTS).ok()
    }
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}
