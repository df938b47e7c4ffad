//! Client state (XEP-0352): what an inactive client can do without is kept back.

use stdx::Instant;
use stdx::slab::Key;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::Element;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// `<active/>` or `<inactive/>`.
    pub(super) fn csi(&mut self, _now: Instant, _key: Key, _state: &Element, _out: &mut Outbox) {}
}
