//! Entity capabilities (XEP-0115): what contacts' clients can do, asked once for each kind and checked.

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Element, Jid};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

#[derive(Default)]
pub(super) struct Caps {}

impl Host {
    pub(super) fn caps_heard(
        &mut self,
        _now: Instant,
        _from: &Jid,
        _user: &crate::Bare,
        _presence: &Element,
        _out: &mut Outbox,
    ) {
    }
    pub(super) fn caps_gone(&mut self, _jid: &Jid) {}

    /// Perhaps the answer to a question of ours.
    pub(super) fn caps_answered(&mut self, _now: Instant, _from: &Jid, _iq: &Element, _out: &mut Outbox) {}
}
