//! Contacts (RFC 6121 §2) with versions.

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };
