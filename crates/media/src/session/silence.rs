//! A peer that has gone quiet: neither RTP nor RTCP for a given time.

use std::time::Duration;

use stdx::time::Instant;

/// The time without any packet. Checked with every RTCP interval, so it is exact to five seconds.
#[derive(Debug, Default)]
pub(super) struct Silence {
    limit: Option<Duration>,
    /// When the last packet came, or when waiting for one began.
    since: Option<Instant>,
    /// This silence was reported; a packet begins another.
    is_reported: bool,
}

impl Silence {
    /// The time after which a silence is reported; `None`: never.
    pub(super) fn limit(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    /// A packet of the peer's came, or none is expected now.
    pub(super) fn end(&mut self, now: Instant) {
        self.since = Some(now);
        self.is_reported = false;
    }

    /// The length of a silence over the limit, once.
    pub(super) fn check(&mut self, now: Instant) -> Option<Duration> {
        let silence = now.since(*self.since.get_or_insert(now));
        let is_over = self.limit.is_some_and(|limit| silence >= limit);
        let is_new = is_over && !self.is_reported;
        self.is_reported |= is_over;
        is_new.then_some(silence)
    }
}
