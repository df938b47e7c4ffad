//! Private data (XEP-0049).

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };
