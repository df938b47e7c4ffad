//! Nodes and items (XEP-0060) of services and accounts (XEP-0163).

use stdx::Instant;

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

#[derive(Default)]
pub(super) struct PubSub {}

impl PubSub {
    pub(super) fn deadline(&self) -> Option<Instant> {
        None
    }
}
