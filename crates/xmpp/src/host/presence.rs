//! Presence and subscriptions (RFC 6121 §3 and §4).

use stdx::Instant;
use stdx::slab::Key;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::{Element, Jid};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// From a session of ours: its own presence, directed presence, or a subscription stanza.
    pub(super) fn presence_from(
        &mut self,
        _now: Instant,
        _key: Key,
        _to: Option<Jid>,
        _presence: Element,
        _out: &mut Outbox,
    ) {
    }

    /// For an account of ours or one of its sessions.
    pub(super) fn presence_to(
        &mut self,
        _now: Instant,
        _from: &Jid,
        _to: &Jid,
        _presence: Element,
        _out: &mut Outbox,
    ) {
    }

    /// The session ends: who saw it learns that.
    pub(super) fn presence_ended(&mut self, _now: Instant, _key: Key, _out: &mut Outbox) {}
}
