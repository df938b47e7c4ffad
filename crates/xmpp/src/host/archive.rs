//! Message archives (XEP-0313) of accounts, and the stable ids they give (XEP-0359).

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Bare, Element, ns};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

/// With its stable id (XEP-0359).
pub(super) fn with_id(message: Element, owner: &Bare, id: Box<str>) -> Element {
    message.child(Element::new("stanza-id", ns::SID).with("by", owner.as_str()).with("id", id))
}

impl Host {
    /// A message that a session of the account sends.
    pub(super) fn archive_sent(
        &mut self,
        _now: Instant,
        _user: &Bare,
        _message: &Element,
        _mark: Option<&str>,
        _out: &mut Outbox,
    ) -> Option<Box<str>> {
        None
    }

    /// A message for the account; it gets its id.
    pub(super) fn archive_received(
        &mut self,
        _now: Instant,
        _user: &Bare,
        _message: &mut Element,
        _out: &mut Outbox,
    ) {
    }
}
