//! vCards (XEP-0054, XEP-0292) and avatars in presence (XEP-0153, XEP-0398).

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };
