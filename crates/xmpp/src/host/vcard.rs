//! vCards (XEP-0054, XEP-0292) and avatars in presence (XEP-0153, XEP-0398).

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Bare, Element};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// Something was published for an account.
    pub(super) fn vcard_published(
        &mut self,
        _now: Instant,
        _owner: &Bare,
        _node: &str,
        _payload: &Element,
        _out: &mut Outbox,
    ) {
    }
}
