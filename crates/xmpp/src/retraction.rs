//! The elements of message retraction (XEP-0424): the mark of a retracted message, and the tombstone that stands for it in an
//! archive. Accounts and rooms have their own rules for who may retract a message; its remains are the same in both.

use stdx::Instant;

use crate::{Element, ns};

/// `<retracted/>` with the time of the retraction.
pub fn retracted(now: Instant) -> Element {
    Element::new("retracted", ns::RETRACT).with("stamp", crate::time::stamp(now))
}

/// The tombstone of a message (XEP-0424 §4): its sender and ids, and nothing of its content.
pub fn tombstone(old: &Element, retracted: Element) -> Element {
    // A client that has the message finds its tombstone by these; `<x/>` has the real address that the archive of a room kept.
    let is_known = |child: &&Element| {
        child.is("origin-id", ns::SID)
            || child.is("occupant-id", ns::OCCUPANT_ID)
            || child.is("x", ns::MUC_USER)
    };
    let mut stone = Element::new("message", ns::CLIENT);
    for name in ["from", "to", "id", "type"] {
        if let Some(value) = old.attr(name) {
            stone.set(name, value);
        }
    }
    stone.children(old.elements().filter(is_known).cloned()).child(retracted)
}
