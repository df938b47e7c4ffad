//! Rooms (XEP-0045).

use stdx::Instant;

use super::feature::Feature;
use super::{Host, Outbox};
use crate::stanza::Condition;
use crate::{Element, Jid};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

/// Rooms of this host.
#[derive(Default)]
pub(super) struct Rooms {}

impl Rooms {
    pub(super) fn deadline(&self) -> Option<Instant> {
        None
    }
}

impl Host {
    pub(super) fn expire_rooms(&mut self, _now: Instant, _out: &mut Outbox) {}

    /// For a room, an occupant or the service.
    pub(super) fn routed_to_room(
        &mut self,
        _now: Instant,
        element: Element,
        _from: &Jid,
        _to: &Jid,
        out: &mut Outbox,
    ) {
        self.refuse(&element, &Condition::ServiceUnavailable.into(), out);
    }
}
