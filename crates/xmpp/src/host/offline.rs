//! Messages for who is not there (XEP-0160, XEP-0013).

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::stanza::Condition;
use crate::{Bare, Element, Jid};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// Nobody can take it now.
    pub(super) fn keep_message(
        &mut self,
        _now: Instant,
        _from: &Jid,
        _user: &Bare,
        message: Element,
        out: &mut Outbox,
    ) {
        self.refuse(&message, &Condition::ServiceUnavailable.into(), out);
    }
}
