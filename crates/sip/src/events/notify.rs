//! NOTIFY (RFC 6665 §4.2.2): when a subscription sends one, and the last one that ends it.
//!
//! States come in from the router, statuses from the watcher; out go requests. A subscription has at most one
//! NOTIFY without a final response, so that the watcher sees the states in their order. Changes within
//! [`limits::NOTIFY_INTERVAL`] are told as one, the newest.

use bytes::Bytes;
use router::State;
use stdx::Instant;
use stdx::slab::Key;

use super::subscribe::Subscription;
use super::{EventEffect, Notifier, NotifierTimer, RequestId, body};
use crate::limits;
use crate::wire::PRODUCT;

/// Why a subscription ends, in the words of RFC 6665 §4.1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It expired, or its subscriber ended it.
    Timeout,
    /// Subscribe anew at once: this node is going.
    Deactivated,
    /// Subscribe anew later: the state could not be had.
    Probation,
    /// Do not subscribe anew: the watched account has not consented.
    Rejected,
}

impl Reason {
    fn to_header(self) -> String {
        match self {
            Reason::Timeout => "terminated;reason=timeout".to_owned(),
            Reason::Deactivated => "terminated;reason=deactivated".to_owned(),
            Reason::Rejected => "terminated;reason=rejected".to_owned(),
            Reason::Probation => {
                format!("terminated;reason=probation;retry-after={}", limits::EVENTS_RETRY_AFTER)
            }
        }
    }
}

impl Notifier {
    /// Ends every subscription so that its subscriber makes a new one, elsewhere.
    pub fn drain(&mut self, now: Instant, out: &mut Vec<EventEffect>) {
        let keys: Vec<Key> = self.subscriptions.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.terminate(now, key, Reason::Deactivated, out);
        }
    }

    /// The router's answer, which is sent at once (RFC 6665 §4.2.1.2), or pushed.
    pub(super) fn handle_state(
        &mut self,
        now: Instant,
        key: Key,
        state: State,
        is_answer: bool,
        out: &mut Vec<EventEffect>,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        // The same state again is no news, but an answer to a SUBSCRIBE is always due.
        let is_news = subscription.latest.as_ref() != Some(&state);
        subscription.is_due |= is_answer || is_news;
        subscription.latest = Some(state);
        // The NOTIFY after a SUBSCRIBE does not wait for the interval.
        if is_answer {
            subscription.not_before = now;
        }
        self.advance(now, key, out);
    }

    /// The watched account does not let this one see it: nothing of it is told, not even what was before.
    pub(super) fn handle_watch_refused(&mut self, now: Instant, key: Key, out: &mut Vec<EventEffect>) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        // The last NOTIFY has no body then.
        subscription.latest = None;
        self.counters.refused += 1;
        self.terminate(now, key, Reason::Rejected, out);
    }

    /// The router is silent. With an older state in hand the subscription goes on.
    pub(super) fn handle_no_state(&mut self, now: Instant, key: Key, out: &mut Vec<EventEffect>) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if subscription.latest.is_none() {
            return self.terminate(now, key, Reason::Probation, out);
        }
        subscription.is_due = true;
        self.advance(now, key, out);
    }

    /// The final status of a NOTIFY, or 408 where none came.
    pub(super) fn handle_notified(
        &mut self,
        now: Instant,
        key: Key,
        status: u16,
        out: &mut Vec<EventEffect>,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        subscription.in_flight = None;
        if ends_subscription(status) {
            self.counters.peers_gone += 1;
            // RFC 6665 §4.2.2: removed, and nothing is sent to a watcher that is gone.
            self.forget(now, key, out);
        } else {
            self.advance(now, key, out);
        }
    }

    /// Performs the work that is due now and sets the timer for the next.
    pub(super) fn advance(&mut self, now: Instant, key: Key, out: &mut Vec<EventEffect>) {
        let Some(subscription) = self.subscriptions.get(key) else { return };
        if subscription.latest.is_none() {
            // The router's answer comes, or its timer does.
        } else if subscription.until <= now {
            self.terminate(now, key, Reason::Timeout, out);
        } else if subscription.is_due && subscription.in_flight.is_none() && subscription.not_before <= now {
            self.notify(now, key, out);
        }
        self.arrange(key);
    }

    pub(super) fn handle_timer(&mut self, now: Instant, key: Key, out: &mut Vec<EventEffect>) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        // The entry in the wheel is used up; `arrange` sets the next.
        if subscription.wake_at <= now {
            subscription.wake_at = Instant::FAR_FUTURE;
        }
        self.advance(now, key, out);
    }

    /// One entry in the wheel is enough, the earliest: refreshing a thousand times leaves no thousand timers.
    fn arrange(&mut self, key: Key) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        let waits = subscription.is_due && subscription.in_flight.is_none();
        let next = if waits { subscription.not_before.min(subscription.until) } else { subscription.until };
        if subscription.latest.is_some() && next < subscription.wake_at {
            subscription.wake_at = next;
            self.wheel.insert(next, NotifierTimer::Subscription(key));
        }
    }

    /// Sends the newest state with the time that is left. That is rounded up, so that it is 0 for no
    /// subscription that is active.
    fn notify(&mut self, now: Instant, key: Key, out: &mut Vec<EventEffect>) {
        let id = RequestId(self.ids.next_id());
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        self.counters.notifies += 1;
        subscription.is_due = false;
        subscription.in_flight = Some(id);
        subscription.not_before = now + limits::NOTIFY_INTERVAL;
        let left = subscription.until.since(now).as_micros().div_ceil(1_000_000);
        out.push(subscription.notify(now, id, &format!("active;expires={left}")));
        self.requests.insert(id.0, key);
    }

    /// The last NOTIFY. It waits for nothing, and its answer is not waited for.
    fn terminate(&mut self, now: Instant, key: Key, reason: Reason, out: &mut Vec<EventEffect>) {
        let id = RequestId(self.ids.next_id());
        if let Some(mut subscription) = self.forget(now, key, out) {
            self.counters.notifies += 1;
            // Nothing awaits its status any more.
            if let Some(open) = subscription.in_flight {
                self.requests.remove(&open.0);
            }
            out.push(subscription.notify(now, id, &reason.to_header()));
        }
    }
}

impl Subscription {
    /// The version counts the documents that were sent, so that the watcher sees their order (RFC 4235 §4.3).
    /// A NOTIFY without a body, before the first state or after a refusal, does not count.
    fn notify(&mut self, now: Instant, id: RequestId, state: &str) -> EventEffect {
        let (mut request, onward) = self.dialog.request("NOTIFY");
        request.header("Event", self.event.to_header().as_bytes());
        request.header("Subscription-State", state.as_bytes());
        request.header("User-Agent", PRODUCT.as_bytes());
        let bytes: Bytes = match &self.latest {
            Some(latest) => {
                let body = body::render(now, &self.aor, latest, self.version);
                self.version += 1;
                request.finish_with(self.event.package.content_type(), &body)
            }
            None => request.finish(),
        };
        EventEffect::Request { id, bytes, onward }
    }
}

/// RFC 6665 §4.2.2 lists the answers that mean that the watcher is gone; 408 is also how a timeout is told.
fn ends_subscription(status: u16) -> bool {
    matches!(status, 404 | 405 | 408 | 410 | 416 | 480..=485 | 489 | 501 | 604)
}
