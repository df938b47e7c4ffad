//! SUBSCRIBE: RFC 6665 §4.2.1, inside and outside a dialog.

use std::time::Duration;

use router::{Aor, Query, State, WatchId};
use stdx::Instant;
use stdx::slab::Key;

use super::dialog::Dialog;
use super::package::{self, EventHeader, Package};
use super::{
    EventEffect, EventRefusal, EventRules, IncomingRequest, Notifier, OpenQuery, RequestId, WatchPolicy,
};
use crate::limits;
use crate::wire::{Header, Message, Reply, parse_number};

/// One subscription: RFC 6665 §4.1.2 states "active"; it is gone when it is "terminated".
pub(super) struct Subscription {
    pub(super) aor: Aor,
    pub(super) event: EventHeader,
    /// The account that made it, when that was proved: no other refreshes it.
    account: Option<Box<str>>,
    /// The hash of address and watcher.
    watcher: u64,
    pub(super) dialog: Dialog,
    /// Over then. A fetch is over when it begins.
    pub(super) until: Instant,
    /// The router watches until then.
    watched_until: Instant,
    /// The wheel has an entry for then; `FAR_FUTURE` when it has none.
    pub(super) wake_at: Instant,
    /// The last state from the router; `None` until it answered.
    pub(super) latest: Option<State>,
    /// `latest`, or that nothing changed, is still to be told.
    pub(super) is_due: bool,
    /// One NOTIFY at a time: two could overtake each other.
    pub(super) in_flight: Option<RequestId>,
    /// The next change is not told before.
    pub(super) not_before: Instant,
    /// Version of the next document.
    pub(super) version: u32,
}

impl Notifier {
    /// A SUBSCRIBE, initial or in a dialog. Always leads to one `Reply`; an accepted one to a NOTIFY as well.
    pub fn handle_subscribe(
        &mut self,
        now: Instant,
        incoming: &IncomingRequest<'_>,
        out: &mut Vec<EventEffect>,
    ) {
        let handled = if incoming.request.to_tag().is_some() {
            self.refresh(now, incoming, out)
        } else {
            self.subscribe(now, incoming, out)
        };
        if let Err(refusal) = handled {
            self.refuse(incoming, &refusal, out);
        }
    }

    pub(super) fn find_dialog(&self, request: &Message) -> Option<Key> {
        let tag = std::str::from_utf8(request.to_tag()?).ok()?;
        let key = *self.by_tag.get(tag)?;
        self.subscriptions.get(key).filter(|subscription| subscription.dialog.is_of(request)).map(|_| key)
    }

    fn subscribe(
        &mut self,
        now: Instant,
        incoming: &IncomingRequest<'_>,
        out: &mut Vec<EventEffect>,
    ) -> Result<(), EventRefusal> {
        check_require(incoming.request)?;
        let event = EventHeader::of(incoming.request)?;
        if !package::accepts(incoming.request, event.package.content_type()) {
            return Err(EventRefusal::new(406, "Not Acceptable").with("Accept", event.package.content_type()));
        }
        let expires = granted(incoming.request, &self.rules)?;
        self.rules.authorise_watch(event.package, incoming)?;
        let watcher = self.admit(incoming)?;
        let local_tag = self.ids.tag();
        let dialog = Dialog::of(incoming, local_tag.clone())?;
        let subscription = Subscription {
            aor: incoming.aor.into(),
            event,
            account: incoming.account.map(Box::from),
            watcher,
            dialog,
            until: now + Duration::from_secs(expires.into()),
            watched_until: now,
            wake_at: Instant::FAR_FUTURE,
            latest: None,
            is_due: true,
            in_flight: None,
            not_before: now,
            version: 0,
        };
        subscription.accepted(incoming, expires, out);
        let key = self.subscriptions.insert(subscription);
        self.by_tag.insert(local_tag, key);
        *self.by_watcher.entry(watcher).or_default() += 1;
        self.watch(now, key, OpenQuery::State, out);
        Ok(())
    }

    /// Room for one more; the hash under which this watcher is counted.
    fn admit(&self, incoming: &IncomingRequest<'_>) -> Result<u64, EventRefusal> {
        self.check_room()?;
        if self.subscriptions.len() >= limits::SUBSCRIPTIONS {
            return Err(EventRefusal::busy());
        }
        // A stranger is as many as addresses, not as the names it invents.
        let watcher_name =
            incoming.account.map_or_else(|| incoming.source.remote.ip().to_string(), str::to_owned);
        let watcher = self.keyed.hash_parts(&[incoming.aor.as_bytes(), watcher_name.as_bytes()]);
        let has = self.by_watcher.get(&watcher).copied().unwrap_or_default();
        if has >= limits::SUBSCRIPTIONS_PER_WATCHER {
            return Err(EventRefusal::limit(403, "Too Many Subscriptions"));
        }
        Ok(watcher)
    }

    /// RFC 6665 §4.2.1.4: in a dialog it refreshes, or with `Expires: 0` ends, the subscription.
    fn refresh(
        &mut self,
        now: Instant,
        incoming: &IncomingRequest<'_>,
        out: &mut Vec<EventEffect>,
    ) -> Result<(), EventRefusal> {
        let unknown_dialog = || EventRefusal::new(481, "Subscription Does Not Exist");
        let key = self.find_dialog(incoming.request).ok_or_else(unknown_dialog)?;
        check_require(incoming.request)?;
        self.check_room()?;
        let event = EventHeader::of(incoming.request)?;
        let expires = granted(incoming.request, &self.rules)?;
        let subscription = self.subscriptions.get_mut(key).ok_or_else(unknown_dialog)?;
        // RFC 6665 §4.5.2: dialogs are not shared, so another event is a subscription we do not have.
        if event != subscription.event {
            return Err(unknown_dialog());
        }
        if subscription.account.is_some() && subscription.account.as_deref() != incoming.account {
            return Err(EventRefusal::new(403, "Forbidden"));
        }
        subscription.dialog.accept(incoming)?;
        subscription.until = now + Duration::from_secs(expires.into());
        subscription.accepted(incoming, expires, out);
        match expires {
            0 => self.advance(now, key, out),
            _ => self.watch(now, key, OpenQuery::State, out),
        }
        Ok(())
    }

    /// Asks for the state now and, unless this is a fetch, for its changes.
    fn watch(
        &mut self,
        now: Instant,
        key: Key,
        asked: impl FnOnce(Key) -> OpenQuery,
        out: &mut Vec<EventEffect>,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        let until = subscription.until;
        subscription.watched_until = until;
        let (aor, topic) = (subscription.aor.clone(), subscription.event.package.topic());
        let watch = WatchId(key.to_u64());
        let watcher = subscription.account.clone().filter(|account| {
            self.rules.watching == WatchPolicy::Contacts
                && !self.rules.strangers_see_presence
                && *account != aor
        });
        let query = match watcher {
            Some(watcher) => Query::WatchByConsent { watcher, aor, topic, watch, until },
            None => Query::Watch { aor, topic, watch, until },
        };
        self.ask(now, query, asked(key), out);
    }

    /// Lets go of a subscription; the router is told to, when it would not by itself.
    pub(super) fn forget(
        &mut self,
        now: Instant,
        key: Key,
        out: &mut Vec<EventEffect>,
    ) -> Option<Subscription> {
        let subscription = self.subscriptions.remove(key)?;
        self.by_tag.remove(&subscription.dialog.local_tag);
        if let Some(count) = self.by_watcher.get_mut(&subscription.watcher) {
            *count -= 1;
            if *count == 0 {
                self.by_watcher.remove(&subscription.watcher);
            }
        }
        if subscription.watched_until > now {
            let topic = subscription.event.package.topic();
            let query = Query::Unwatch { aor: subscription.aor.clone(), topic, watch: WatchId(key.to_u64()) };
            self.tell(query, out);
        }
        Some(subscription)
    }
}

/// The owners of these addresses have changed: the new ones are asked as by a refresh, as watches do not move.
pub(crate) fn watch_again(
    notifier: &mut Notifier,
    now: Instant,
    has_moved: impl Fn(&str) -> bool,
    out: &mut Vec<EventEffect>,
) {
    let is_moved = |subscription: &Subscription| subscription.until > now && has_moved(&subscription.aor);
    let all = notifier.subscriptions.iter();
    let moved: Vec<Key> =
        all.filter(|(_, subscription)| is_moved(subscription)).map(|(key, _)| key).collect();
    for key in moved {
        notifier.watch(now, key, OpenQuery::Moved, out);
    }
}

/// The new owner is silent: the subscription would hear of no change any more, so it is asked again.
pub(super) fn handle_silent_owner(
    notifier: &mut Notifier,
    now: Instant,
    key: Key,
    out: &mut Vec<EventEffect>,
) {
    if notifier.subscriptions.get(key).is_some_and(|subscription| subscription.until > now) {
        notifier.watch(now, key, OpenQuery::Moved, out);
    }
}

impl EventRules {
    /// RFC 6665 §4.2.1.3: presence and calls are for the account itself and those that the policy names; messages and
    /// registrations are for the account alone.
    fn authorise_watch(&self, package: Package, incoming: &IncomingRequest<'_>) -> Result<(), EventRefusal> {
        let is_own = incoming.account == Some(incoming.aor);
        let by_policy = incoming.account.is_some()
            && match self.watching {
                // The roster is asked with the state.
                WatchPolicy::Contacts => self.chat,
                WatchPolicy::Accounts => true,
                WatchPolicy::Owner => false,
            };
        let may = match package {
            Package::Presence => is_own || by_policy || self.strangers_see_presence,
            Package::Dialog => is_own || by_policy,
            Package::MessageSummary | Package::Reg => is_own,
        };
        if may { Ok(()) } else { Err(EventRefusal::new(403, "Forbidden")) }
    }
}

impl Subscription {
    /// Answers a SUBSCRIBE with 200 and the granted interval.
    fn accepted(&self, incoming: &IncomingRequest<'_>, expires: u32, out: &mut Vec<EventEffect>) {
        let dialog = &self.dialog;
        let mut reply =
            Reply::new(incoming.request, incoming.source.remote, 200, "OK", Some(&dialog.local_tag));
        reply.copy_all(incoming.request, Header::RecordRoute);
        reply.header("Contact", dialog.contact_header().as_bytes());
        reply.header("Expires", expires.to_string().as_bytes());
        out.push(EventEffect::Reply { transaction: incoming.transaction, bytes: reply.finish() });
    }
}

/// RFC 3261 §8.2.2.3: we offer no extension that a subscriber could require.
pub(super) fn check_require(request: &Message) -> Result<(), EventRefusal> {
    let unsupported: Vec<_> = request.values(Header::Require).map(String::from_utf8_lossy).collect();
    if unsupported.is_empty() {
        return Ok(());
    }
    Err(EventRefusal::new(420, "Bad Extension").with("Unsupported", unsupported.join(", ")))
}

/// The granted interval in seconds, by the request and the rules. `Expires` absent means what the package
/// likes (RFC 6665 §4.2.1.1): the longest.
pub(super) fn granted(request: &Message, rules: &EventRules) -> Result<u32, EventRefusal> {
    let Some(value) = request.header(Header::Expires) else { return Ok(rules.max_expires) };
    let requested = parse_number(value).ok_or(EventRefusal::new(400, "Bad Expires"))?;
    // Longer than an hour is never "too brief", whatever the rules say.
    let shortest = rules.min_expires.min(3_600);
    if requested > 0 && requested < shortest {
        let refusal = EventRefusal::new(423, "Interval Too Brief");
        return Err(refusal.with("Min-Expires", shortest.to_string()));
    }
    Ok(requested.min(rules.max_expires))
}
