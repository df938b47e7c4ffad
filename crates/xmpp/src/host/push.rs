//! Push notifications (XEP-0357).

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

#[derive(Default)]
pub(super) struct Push {}
