//! The presence of subscribers, as far as a service knows it: clients of this server's accounts send it to the service (RFC 6121 §4.6), and
//! their server sends its end. A service has no roster, and asks no client for its presence.
//!
//! `state` passes presence on to [`SubscriberPresences`] and asks it which subscriptions have ended and which subscribers get an event. All
//! of it is in memory only: after a restart no presence is known, and subscriptions that end with a presence have ended.

use std::time::Duration;

use stdx::Instant;
use stdx::cache::Cache;
use xmpp::{Bare, Element, Jid};

use super::options::{Expiry, NodeSubscription, Show, ShowSet, Subscriber, in_millis};
use crate::limits;

/// The known presence of the clients that have sent presence to services. Beyond the limit those used least recently are unknown.
pub(crate) struct SubscriberPresences {
    /// The accounts' presence, by service and account.
    accounts: Cache<(Bare, Bare), AccountPresence>,
    /// The last time that was counted: each is later than all before, so that a presence that begins in the millisecond in which another
    /// one ended is not taken for it.
    counted: Instant,
}

/// The presence of an account's clients at one service.
struct AccountPresence {
    /// The beginning of the time in which the account has always had a client here, if it has one now.
    since: Instant,
    clients: Vec<ClientPresence>,
}

/// The presence of one client.
struct ClientPresence {
    jid: Jid,
    /// Its beginning and its last value. `None`: the client has left, which is another thing than never having been known.
    present: Option<(Instant, Show)>,
}

/// A presence that a client has sent to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientChange {
    Present,
    Left,
    /// It changes nothing that is known.
    Ignored,
}

impl Default for SubscriberPresences {
    fn default() -> SubscriberPresences {
        SubscriberPresences {
            accounts: Cache::new(limits::SUBSCRIBER_ACCOUNTS),
            counted: Instant::from_micros(0),
        }
    }
}

impl SubscriberPresences {
    /// A presence that a client has sent to a service.
    pub(crate) fn handle_presence(
        &mut self,
        now: Instant,
        (service, client): (&Bare, &Jid),
        presence: &Element,
    ) -> ClientChange {
        let show = match presence.attr("type") {
            _ if client.is_bare() => return ClientChange::Ignored,
            None => Some(Show::of(presence)),
            Some("unavailable" | "error") => None,
            Some(_) => return ClientChange::Ignored,
        };
        let key = (service.clone(), client.bare());
        let Some(show) = show else {
            let account = self.accounts.get_mut(&key);
            let left =
                account.and_then(|account| account.clients.iter_mut().find(|known| known.jid == *client));
            return match left.and_then(|client| client.present.take()) {
                Some(_) => ClientChange::Left,
                None => ClientChange::Ignored,
            };
        };
        let since = self.count(now);
        match self.accounts.get_mut(&key) {
            Some(account) => account.insert(client, since, show),
            None => {
                let clients = vec![ClientPresence { jid: client.clone(), present: Some((since, show)) }];
                self.accounts.insert(key, AccountPresence { since, clients });
            }
        }
        ClientChange::Present
    }

    /// The end of a subscription that ends with the subscriber's presence as it is now; `None`: the subscriber is not known to be present.
    pub(crate) fn current(&mut self, now: Instant, owner: &Bare, subscriber: &Jid) -> Option<Expiry> {
        self.since(owner, subscriber)?;
        Some(Expiry::Presence(self.count(now)))
    }

    /// True if the subscription is over: its lease has ended, or the presence with which it ends.
    pub(crate) fn has_ended(&self, now: Instant, owner: &Bare, subscriber: &Subscriber) -> bool {
        match subscriber.options.expiry {
            None => false,
            Some(Expiry::At(end)) => end <= now,
            Some(Expiry::Presence(at)) => {
                // A presence that began later is another one.
                self.since(owner, &subscriber.jid).is_none_or(|since| since > at)
            }
        }
    }

    /// True if the subscriber gets events: by the state of the subscription, its options, and the subscriber's presence where that is
    /// known. A presence that is not known keeps nothing from the subscriber.
    pub(crate) fn wants_events(&self, owner: &Bare, subscriber: &Subscriber) -> bool {
        let Subscriber { jid, state, options } = subscriber;
        *state == NodeSubscription::Subscribed
            && options.delivers
            && (options.shows == ShowSet::ALL || self.is_shown(owner, jid, options.shows))
    }

    /// True if one of the subscriber's clients has such a presence, or none of them is known.
    fn is_shown(&self, owner: &Bare, subscriber: &Jid, shows: ShowSet) -> bool {
        let Some(account) = self.account(owner, subscriber) else { return true };
        let mut known = account.clients_at(subscriber).peekable();
        known.peek().is_none() || known.any(|client| client.present.is_some_and(|(_, show)| shows.has(show)))
    }

    /// The beginning of the subscriber's presence: a client's of its own, an account's that of the time in which it has always had one.
    fn since(&self, owner: &Bare, subscriber: &Jid) -> Option<Instant> {
        let account = self.account(owner, subscriber)?;
        let present = account.clients_at(subscriber).find_map(|client| client.present)?;
        Some(if subscriber.is_bare() { account.since } else { present.0 })
    }

    fn account(&self, owner: &Bare, subscriber: &Jid) -> Option<&AccountPresence> {
        // Only services are told of presence here; the key is not made for the many subscribers of accounts' nodes.
        owner.local().is_none().then(|| self.accounts.get(&(owner.clone(), subscriber.bare())))?
    }

    /// A time that is later than all before, in milliseconds, and now unless there were many at once.
    fn count(&mut self, now: Instant) -> Instant {
        self.counted = in_millis(now).max(self.counted + Duration::from_millis(1));
        self.counted
    }
}

impl AccountPresence {
    /// The client is present, with this value.
    fn insert(&mut self, client: &Jid, since: Instant, show: Show) {
        if self.clients.iter().all(|known| known.present.is_none()) {
            self.since = since;
        }
        if let Some(known) = self.clients.iter_mut().find(|known| known.jid == *client) {
            let since = known.present.map_or(since, |(since, _)| since);
            known.present = Some((since, show));
            return;
        }
        if self.clients.len() >= limits::SUBSCRIBER_CLIENTS {
            // A client that has left makes room; if none has, the new one stays unknown.
            let Some(left) = self.clients.iter().position(|known| known.present.is_none()) else { return };
            self.clients.swap_remove(left);
        }
        self.clients.push(ClientPresence { jid: client.clone(), present: Some((since, show)) });
    }

    /// The known clients of an address: one of a full address, all of a bare one.
    fn clients_at<'a>(&'a self, address: &'a Jid) -> impl Iterator<Item = &'a ClientPresence> {
        self.clients.iter().filter(|client| address.is_bare() || client.jid == *address)
    }
}

#[cfg(test)]
mod tests {
    use xmpp::ns;

    use super::*;
    use crate::options::{OptionFields, SubscriptionOptions};

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn service() -> Bare {
        Bare::parse("pubsub.x.org").unwrap()
    }

    fn jid(text: &str) -> Jid {
        Jid::parse(text).unwrap()
    }

    fn tell(presences: &mut SubscriberPresences, from: &str, kind: Option<&'static str>, show: &str) {
        let show = (!show.is_empty()).then(|| Element::new("show", ns::CLIENT).text(show));
        let presence = Element::new("presence", ns::CLIENT).with_opt("type", kind).children(show);
        presences.handle_presence(NOW, (&service(), &jid(from)), &presence);
    }

    fn subscriber(address: &str, options: SubscriptionOptions) -> Subscriber {
        Subscriber { jid: jid(address), state: NodeSubscription::Subscribed, options }
    }

    /// A subscription that ends with the presence that the address has now.
    fn temporary(presences: &mut SubscriberPresences, address: &str) -> Option<Subscriber> {
        let expiry = presences.current(NOW, &service(), &jid(address))?;
        Some(subscriber(
            address,
            SubscriptionOptions { expiry: Some(expiry), ..SubscriptionOptions::default() },
        ))
    }

    #[test]
    fn a_temporary_subscription_ends_with_the_presence_and_does_not_come_back() {
        let mut presences = SubscriberPresences::default();
        assert_eq!(temporary(&mut presences, "a@x.org/1"), None, "no presence is known");
        tell(&mut presences, "a@x.org/1", None, "");
        let one = temporary(&mut presences, "a@x.org/1").unwrap();
        let all = temporary(&mut presences, "a@x.org").unwrap();
        let ended =
            |presences: &SubscriberPresences, known: &Subscriber| presences.has_ended(NOW, &service(), known);
        assert!(!ended(&presences, &one) && !ended(&presences, &all));
        // The account has a client as long as the second one is there.
        tell(&mut presences, "a@x.org/2", None, "");
        tell(&mut presences, "a@x.org/1", Some("unavailable"), "");
        assert!(ended(&presences, &one) && !ended(&presences, &all));
        // At the same time, but another presence.
        tell(&mut presences, "a@x.org/1", None, "");
        assert!(ended(&presences, &one) && !ended(&presences, &all));
        tell(&mut presences, "a@x.org/1", Some("unavailable"), "");
        tell(&mut presences, "a@x.org/2", Some("unavailable"), "");
        tell(&mut presences, "a@x.org/2", None, "");
        assert!(ended(&presences, &all));
        // After a restart.
        assert!(ended(&SubscriberPresences::default(), &all));
    }

    #[test]
    fn events_are_for_the_presence_that_the_subscriber_wants_where_it_is_known() {
        let mut presences = SubscriberPresences::default();
        let form = "<x xmlns='jabber:x:data'><field var='pubsub#show-values'><value>chat</value></field></x>";
        let form = xmpp::xml::parse_stored(form.as_bytes()).unwrap();
        let scope = crate::options::OptionsScope {
            now: NOW,
            fields: OptionFields { body: false, shows: true, collection: false },
            presence: None,
        };
        let options = SubscriptionOptions::default().with_form(&form, &scope).unwrap();
        let (one, all) = (subscriber("a@x.org/1", options), subscriber("a@x.org", options));
        let wants = |presences: &SubscriberPresences| {
            [&one, &all].map(|known| presences.wants_events(&service(), known))
        };
        assert_eq!(wants(&presences), [true, true], "nothing is known");
        tell(&mut presences, "a@x.org/1", None, "");
        assert_eq!(wants(&presences), [false, false]);
        tell(&mut presences, "a@x.org/2", None, "chat");
        assert_eq!(wants(&presences), [false, true]);
        tell(&mut presences, "a@x.org/1", None, "chat");
        assert_eq!(wants(&presences), [true, true]);
        tell(&mut presences, "a@x.org/1", Some("unavailable"), "");
        tell(&mut presences, "a@x.org/2", Some("unavailable"), "");
        assert_eq!(wants(&presences), [false, false], "it has left");
        let silent = SubscriptionOptions { delivers: false, ..SubscriptionOptions::default() };
        assert!(!presences.wants_events(&service(), &subscriber("b@x.org", silent)));
    }

    #[test]
    fn an_account_has_so_many_known_clients() {
        let mut presences = SubscriberPresences::default();
        let client = |number: usize| format!("a@x.org/{number}");
        for number in 0..=limits::SUBSCRIBER_CLIENTS {
            tell(&mut presences, &client(number), None, "");
        }
        let last = client(limits::SUBSCRIBER_CLIENTS);
        assert_eq!(temporary(&mut presences, &last), None, "one too many");
        tell(&mut presences, &client(0), Some("unavailable"), "");
        tell(&mut presences, &last, None, "");
        assert!(temporary(&mut presences, &last).is_some());
    }
}
