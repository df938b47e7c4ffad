//! The memory that one element may take.

use super::element::Element;
use crate::limits;

/// The memory and written size that one element may take, in relation to the bytes it came in: sizes of an element in memory and on the wire are an
/// attacker's choice, their ratio is not.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Elements, the outermost among them.
    pub(super) elements: usize,
    /// Elements inside each other.
    pub(super) depth: usize,
    /// Attributes of one element.
    pub(super) attributes: usize,
    /// Bytes of memory, estimated, for each byte and besides. `None`: as many as it takes.
    pub(super) memory: Option<(usize, usize)>,
}

impl Budget {
    /// As much memory as it takes.
    pub(super) const fn of_elements(elements: usize) -> Budget {
        Budget { elements, depth: limits::DEPTH, attributes: limits::ATTRIBUTES, memory: None }
    }

    /// Bytes of memory for an element of so many bytes.
    pub fn memory_for(self, bytes: usize) -> usize {
        let (per_byte, besides) = self.memory.unwrap_or((usize::MAX, 0));
        bytes.saturating_mul(per_byte).saturating_add(besides)
    }

    /// The budget of a client's stanza. The additions on its way still fit the limits of another such server:
    /// else a client could end the stream between two.
    pub const CLIENT: Budget = Budget {
        elements: limits::ELEMENTS - limits::ADDED,
        depth: limits::DEPTH - limits::ADDED,
        attributes: limits::ATTRIBUTES - limits::ADDED,
        ..Budget::STANZA
    };
    /// The budget of a stanza of another server or a component.
    pub const STANZA: Budget = Budget {
        elements: limits::ELEMENTS,
        depth: limits::DEPTH,
        attributes: limits::ATTRIBUTES,
        memory: Some((limits::MEMORY_PER_BYTE, limits::MEMORY_PER_STANZA)),
    };
    /// The budget of an element of the store.
    pub(super) const STORED: Budget = Budget {
        elements: usize::MAX,
        depth: limits::STORED_DEPTH,
        attributes: limits::STORED_ATTRIBUTES,
        memory: None,
    };
    /// The budget of an element that came before its sender was authenticated.
    pub const BEFORE_AUTH: Budget = Budget {
        elements: limits::ELEMENTS_BEFORE_AUTH,
        depth: limits::DEPTH,
        attributes: limits::ATTRIBUTES,
        memory: Some((limits::MEMORY_PER_BYTE_BEFORE_AUTH, limits::MEMORY_PER_ELEMENT_BEFORE_AUTH)),
    };
}

/// An element, and the bytes it takes when it is written where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The element.
    pub element: Element,
    /// Bytes of the element when it is written.
    pub written: usize,
    /// Bytes of memory that it takes, estimated.
    pub memory: usize,
}
