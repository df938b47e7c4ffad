//! Counters of the streams of one shard, and the same by kind: connections by transport, sign-ins by mechanism, stream
//! errors by condition.

use std::cell::RefCell;
use std::collections::BTreeMap;

use control::{Family, KindCount};
use sip::transport::Transport;
use xmpp::c2s::C2s;

use crate::kinds::{Stanzas, name_of};

/// Counters since the start of the shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Connections now.
    pub open: u64,
    /// Connections so far.
    pub accepted: u64,
    /// Closed as soon as they came: too many.
    pub refused: u64,
    /// Streams that were refused because the shard did not keep up.
    pub shed: u64,
    /// TLS and WebSocket handshakes that failed.
    pub handshake_failures: u64,
    /// Stanzas received.
    pub stanzas_in: Stanzas,
    /// Stanzas sent.
    pub stanzas_out: Stanzas,
    /// Sessions that clients have resumed (XEP-0198 §5).
    pub resumed: u64,
    /// Clients that sent too much were not read from for a while.
    pub pauses: u64,
    /// Clients that did not read.
    pub overflows: u64,
    /// Silent for too long, or too slow to sign in.
    pub timeouts: u64,
    /// Streams that the client's bytes ended.
    pub faults: u64,
    /// Requests of HTTP.
    pub http_requests: u64,
    /// Requests of HTTP that were refused.
    pub http_refused: u64,
    /// Requests of BOSH that broke its rules.
    pub bosh_faults: u64,
    /// Files that were put.
    pub uploads: u64,
    /// Files that were given out.
    pub downloads: u64,
    /// Defects met.
    pub panics: u64,
}

/// The counters that all tasks of a shard's streams write. All on one thread.
#[derive(Default)]
pub(super) struct StreamCounts {
    counters: RefCell<Counters>,
    /// As in `limits` no kind is a client's to name.
    kinds: RefCell<BTreeMap<(Family, Box<str>), u64>>,
}

impl StreamCounts {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.counters.borrow_mut());
    }

    /// The counters now.
    pub(super) fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    /// Open connections.
    pub(super) fn open(&self) -> u64 {
        self.counters.borrow().open
    }

    /// Defects met since the last call.
    pub(super) fn take_panics(&self) -> u64 {
        std::mem::take(&mut self.counters.borrow_mut().panics)
    }

    /// A connection was accepted.
    pub(super) fn connected(&self, transport: Transport) {
        self.count(|counters| {
            counters.open += 1;
            counters.accepted += 1;
        });
        self.count_kind(Family::Connections, name_of(transport));
    }

    /// An accepted connection has ended.
    pub(super) fn disconnected(&self, transport: Transport) {
        self.discount(transport);
        self.counters.borrow_mut().open -= 1;
    }

    /// STARTTLS.
    pub(super) fn moved(&self, from: Transport, to: Transport) {
        self.discount(from);
        self.count_kind(Family::Connections, name_of(to));
    }

    /// A client has signed in.
    pub(super) fn signed_in(&self, c2s: &C2s) {
        self.count_kind(Family::SignIns, c2s.mechanism().unwrap_or("other"));
    }

    /// A stream has ended, with this error if with any.
    pub(super) fn ended(&self, c2s: &C2s) {
        if let Some(condition) = c2s.error() {
            self.count_kind(Family::StreamErrors, condition);
        }
    }

    pub(super) fn kinds(&self) -> Vec<KindCount> {
        let row = |((family, kind), count): (&(Family, Box<str>), &u64)| KindCount {
            family: *family,
            kind: kind.clone(),
            count: *count,
        };
        self.kinds.borrow().iter().map(row).collect()
    }

    fn count_kind(&self, family: Family, kind: &str) {
        *self.kinds.borrow_mut().entry((family, kind.into())).or_default() += 1;
    }

    fn discount(&self, transport: Transport) {
        let kind = (Family::Connections, name_of(transport).into());
        if let Some(count) = self.kinds.borrow_mut().get_mut(&kind) {
            *count = count.saturating_sub(1);
        }
    }
}
