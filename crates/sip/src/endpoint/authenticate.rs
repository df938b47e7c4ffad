//! Who calls: RFC 3261 §22.

use stdx::Instant;
use stdx::slab::Key;

use super::{Account, Caller, Endpoint, Outbox};
use crate::transport::{Source, Transmit};
use crate::wire::Message;

impl Endpoint {
    pub(super) fn challenge_without_state(
        &mut self,
        _now: Instant,
        _request: &Message,
        _source: &Source,
    ) -> Option<Transmit> {
        None
    }

    pub(super) fn identify_caller(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.plan(now, key, Caller::Stranger, out);
    }

    pub(super) fn verify(&mut self, now: Instant, key: Key, account: Option<Account>, out: &mut Outbox) {
        let _ = account;
        self.finish(now, key, 403, "Forbidden", out);
    }
}
