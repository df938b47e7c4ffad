//! Attributes and elements that the parts of this server add to stanzas for each other. They are on no wire:
//! each stream removes them from its input.

use crate::Element;

/// The namespace of these attributes and elements.
pub const NS: &str = "urn:belfry:handled";

/// Removes the ack token from a stanza that comes from outside, where only a forged one can be.
pub fn remove_ack_token(stanza: &mut Element) {
    stanza.take_ns("mark", NS);
}

/// Marks a client's stanza that fits as it came, and does not as it would be written: it is counted (XEP-0198 §4) and refused.
pub fn mark_too_large(stanza: &mut Element) {
    stanza.set_ns("too-large", NS, "");
}
