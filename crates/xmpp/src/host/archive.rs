//! Message archives (XEP-0313) of accounts, and the stable ids they give (XEP-0359).

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Bare, Element};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// A message that a session of the account sends.
    pub(super) fn archive_sent(
        &mut self,
        _now: Instant,
        _user: &Bare,
        _message: &Element,
        _out: &mut Outbox,
    ) {
    }

    /// A message for the account; it gets its id.
    pub(super) fn archive_received(
        &mut self,
        _now: Instant,
        _user: &Bare,
        _message: &mut Element,
        _out: &mut Outbox,
    ) {
    }
}
