//! Slots for files (XEP-0363).

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

#[derive(Default)]
pub(super) struct Upload {}
