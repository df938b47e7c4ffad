//! Discovery (XEP-0030): what an address is, can do and has.

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };
