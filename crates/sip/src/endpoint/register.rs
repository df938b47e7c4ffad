//! REGISTER: RFC 3261 §10.3.

use router::{Binding, RegisterRefused};
use stdx::Instant;
use stdx::slab::Key;

use super::{Endpoint, Outbox};

impl Endpoint {
    pub(super) fn begin_register(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.finish(now, key, 403, "Forbidden", out);
    }

    pub(super) fn finish_register(
        &mut self,
        now: Instant,
        key: Key,
        result: Result<Vec<Binding>, RegisterRefused>,
        out: &mut Outbox,
    ) {
        let _ = result;
        self.finish(now, key, 500, "Server Internal Error", out);
    }
}
