//! Message archives (XEP-0313) of accounts, and the stable ids they give (XEP-0359).

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::stanza::Condition;
use crate::{Bare, Element, Jid};

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

    /// A message of an archive's owner, with whom; the answer is its id there.
    pub(super) fn archive_write(
        &mut self,
        _now: Instant,
        _owner: &Bare,
        _with: &Jid,
        _stanza: &Element,
        _out: &mut Outbox,
    ) -> Box<str> {
        self.token().into()
    }

    /// A question for an archive, by one who may read it.
    pub(super) fn archive_query(&mut self, _now: Instant, _owner: &Bare, iq: &Element, out: &mut Outbox) {
        self.refuse(iq, &Condition::ServiceUnavailable.into(), out);
    }
}
