//! Bounds the rate at which a client may send: two buckets a stream, of stanzas and of bytes. A client that
//! exceeds its allowance is not read from for a while, so TCP slows it down, and no other client waits for
//! it. One that never stops is closed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::shared::C2sConnections;
use super::stream::Stream;
use crate::limits;

/// The allowance of one client per second.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Stanzas a second.
    pub stanzas: u32,
    /// Bytes a second.
    pub bytes: usize,
}

/// When each bucket is full again, nanoseconds since the shard began (the generic cell rate algorithm of ITU-T I.371).
#[derive(Debug, Default)]
pub struct Buckets {
    stanzas: Cell<u64>,
    bytes: Cell<u64>,
    /// The time since which the client has had to wait again and again, without once having a full bucket; 0: it has not.
    behind: Cell<u64>,
}

impl Buckets {
    /// Counts a stanza.
    pub fn take_stanza(&self, now: u64, allowance: Allowance) {
        take(&self.stanzas, now, 1, u64::from(allowance.stanzas));
    }

    /// Counts received bytes. Returns the pause before more is to be read.
    pub fn take_bytes(&self, now: u64, bytes: usize, allowance: Allowance) -> Duration {
        if self.behind.get() > 0 && self.stanzas.get().max(self.bytes.get()) <= now {
            self.behind.set(0);
        }
        take(&self.bytes, now, bytes as u64, allowance.bytes as u64);
        let burst = nanos(limits::XMPP_BURST);
        let full_at = self.stanzas.get().max(self.bytes.get());
        let wait = Duration::from_nanos(full_at.saturating_sub(now).saturating_sub(burst));
        if !wait.is_zero() && self.behind.get() == 0 {
            self.behind.set(now.max(1));
        }
        wait
    }

    /// True if the client has had to wait for longer than [`limits::XMPP_FLOOD`], so that it is no accident.
    pub(super) fn is_abuse(&self, now: u64) -> bool {
        let behind = self.behind.get();
        behind > 0 && now.saturating_sub(behind) > nanos(limits::XMPP_FLOOD)
    }
}

/// Cost beyond the longest pause is forgiven: a client that waits so long has been slowed down enough.
fn take(bucket: &Cell<u64>, now: u64, count: u64, a_second: u64) {
    let cost = u128::from(count) * 1_000_000_000 / u128::from(a_second.max(1));
    let full_at = bucket.get().max(now).saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
    let most = now.saturating_add(nanos(limits::XMPP_BURST + limits::XMPP_PAUSE));
    bucket.set(full_at.min(most));
}

/// Nanoseconds, as the buckets count them.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Streams that are not read from for a while.
pub(super) struct Pauses {
    began: Instant,
    /// The ends of the pauses and the streams; the earliest first.
    ends: RefCell<BTreeSet<(u64, u64)>>,
    changed: Notify,
}

impl Pauses {
    pub(super) fn new() -> Pauses {
        Pauses { began: Instant::now(), ends: RefCell::default(), changed: Notify::new() }
    }

    /// Nanoseconds since the shard began.
    pub(super) fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }

    fn insert(&self, until: u64, stream: u64) {
        self.ends.borrow_mut().insert((until, stream));
        self.changed.notify_one();
    }

    /// Takes a stream that has waited long enough. Else the end of the next pause, if there is one.
    fn next_ended(&self) -> Result<u64, Option<Instant>> {
        let now = self.now();
        let mut ends = self.ends.borrow_mut();
        match ends.first().copied() {
            Some((until, _)) if until > now => Err(Some(self.began + Duration::from_nanos(until))),
            Some((_, stream)) => {
                ends.pop_first();
                Ok(stream)
            }
            None => Err(None),
        }
    }
}

impl C2sConnections {
    /// Counts bytes that came, after the stanzas in them. A stream beyond its allowance is not read from until the end of its pause.
    pub(super) fn pace(&self, stream: &Stream, bytes: usize) {
        let now = self.pauses.now();
        let wait = stream.buckets.take_bytes(now, bytes, self.settings.allowance);
        if wait.is_zero() || stream.paused.replace(true) {
            return;
        }
        if stream.buckets.is_abuse(now) {
            return self.tell(stream, |c2s, out| c2s.fail("policy-violation", out));
        }
        self.counts.count(|counters| counters.pauses += 1);
        self.pauses.insert(now.saturating_add(nanos(wait)), stream.number);
    }
}

/// Runs until it is aborted.
pub(super) async fn end_pauses(shared: Rc<C2sConnections>) {
    let pauses = &shared.pauses;
    loop {
        match pauses.next_ended() {
            Ok(number) => {
                if let Some(stream) = shared.stream(number) {
                    stream.paused.set(false);
                    stream.wake();
                }
            }
            Err(Some(next)) => {
                // A new pause may be shorter than those there are.
                tokio::select! {
                    () = sleep_until(next) => {}
                    () = pauses.changed.notified() => {}
                }
            }
            Err(None) => pauses.changed.notified().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ALLOWANCE: Allowance = Allowance { stanzas: 10, bytes: 1_000 };

    fn burst() -> usize {
        usize::try_from(limits::XMPP_BURST.as_secs()).unwrap() * 1_000
    }

    #[test]
    fn a_burst_passes_and_bytes_and_stanzas_beyond_it_wait() {
        let buckets = Buckets::default();
        assert_eq!(buckets.take_bytes(0, burst(), ALLOWANCE), Duration::ZERO);
        assert_eq!(buckets.take_bytes(0, 500, ALLOWANCE), Duration::from_millis(500));
        assert_eq!(buckets.take_bytes(SECOND, 500, ALLOWANCE), Duration::ZERO, "it has waited");
        for _ in 0..10 * limits::XMPP_BURST.as_secs() {
            buckets.take_stanza(20 * SECOND, ALLOWANCE);
        }
        assert_eq!(buckets.take_bytes(20 * SECOND, 0, ALLOWANCE), Duration::ZERO);
        buckets.take_stanza(20 * SECOND, ALLOWANCE);
        assert_eq!(buckets.take_bytes(20 * SECOND, 0, ALLOWANCE), Duration::from_millis(100));
    }

    #[test]
    fn a_client_that_floods_without_end_is_told_from_one_that_rests() {
        let minute = 60 * SECOND;
        for (rests, is_abuse) in [(false, true), (true, false)] {
            let buckets = Buckets::default();
            let mut now = SECOND;
            for round in 1..1_000 {
                now += nanos(buckets.take_bytes(now, 2_000, ALLOWANCE)) + 1_000;
                if rests && round % 20 == 0 {
                    now += 10 * SECOND;
                }
            }
            assert!(now > 20 * minute, "it has gone on for long");
            assert_eq!(buckets.is_abuse(now), is_abuse);
        }
    }

    #[test]
    fn no_client_waits_longer_than_the_longest_pause() {
        let buckets = Buckets::default();
        assert_eq!(buckets.take_bytes(7, usize::MAX, ALLOWANCE), limits::XMPP_PAUSE);
    }
}
