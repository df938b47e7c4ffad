//! Message carbons (XEP-0280): what one session sends or gets, the others see.

use stdx::Instant;
use stdx::slab::Key;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Bare, Element};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// With Bind 2.
    pub(super) fn carbons_inline(&mut self, _key: Key, _request: &Element) -> Option<Element> {
        None
    }

    pub(super) fn carbons_sent(&mut self, _now: Instant, _key: Key, _message: &Element, _out: &mut Outbox) {}

    /// `except` gets it anyway.
    pub(super) fn carbons_received(
        &mut self,
        _now: Instant,
        _user: &Bare,
        _except: Option<Key>,
        _message: &Element,
        _out: &mut Outbox,
    ) {
    }
}
