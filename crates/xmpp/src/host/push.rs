//! Push notifications (XEP-0357).

use stdx::Instant;
use stdx::slab::Key;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Bare, Element};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

#[derive(Default)]
pub(super) struct Push {}

impl Host {
    pub(super) fn push_slept(&mut self, _now: Instant, _key: Key) {}
    pub(super) fn push_woke(&mut self, _key: Key) {}
    pub(super) fn push_message(
        &mut self,
        _now: Instant,
        _user: &Bare,
        _message: &Element,
        _out: &mut Outbox,
    ) {
    }
}
