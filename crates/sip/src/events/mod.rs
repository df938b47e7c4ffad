//! The edge's event notifier and message agent: SUBSCRIBE and NOTIFY (RFC 6665), PUBLISH (RFC 3903), and
//! MESSAGEs that wait for their recipient (RFC 3428).
//!
//! It holds the subscription dialogs that end here, but not the state that they report: the router has it,
//! asked with `Query::Watch`, and it is rendered for the wire here. One [`Notifier`] a shard.
//!
//! A SUBSCRIBE is answered 200 at once; the NOTIFY that must follow goes out with the router's answer.
//!
//! A watch of another account's presence is put as `Query::WatchByConsent`: that account's roster decides (`docs/decisions/0021`).

mod body;
mod dialog;
mod message;
mod notify;
mod package;
mod publish;
mod subscribe;
#[cfg(test)]
mod tests;
mod xml;

use std::collections::HashMap;

use bytes::Bytes;
use router::{Answer, AskId, Push, Query, Received};
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};
use stdx::wheel::Wheel;

use crate::limits;
use crate::transport::Source;
use crate::wire::{Message, Reply};
pub(crate) use dialog::received as dialog_received;
use message::MessageDeliveries;
pub(crate) use message::offer_query;
pub use package::Package;
use subscribe::Subscription;
pub(crate) use subscribe::watch_again;

/// The settings of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRules {
    /// Seconds; shorter subscriptions and publications get 423 (RFC 6665 §4.2.1.1: under an hour only).
    pub min_expires: u32,
    /// Seconds; longer ones are cut, and the answer says so.
    pub max_expires: u32,
    /// True if those without an account here may watch presence. Other packages are for accounts only.
    pub strangers_see_presence: bool,
    /// The accounts that may watch another.
    pub watching: WatchPolicy,
    /// True if there are chat clients: MESSAGEs for accounts are then offered to them, too.
    pub chat: bool,
}

/// The accounts that may watch the presence and the calls of another. An account may always watch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPolicy {
    /// Those that its roster lets see its presence; without chat there are no rosters, and none may.
    Contacts,
    /// Every account.
    Accounts,
    /// The account itself only.
    Owner,
}

impl Default for EventRules {
    fn default() -> Self {
        EventRules {
            min_expires: 60,
            max_expires: 3_600,
            strangers_see_presence: false,
            watching: WatchPolicy::Contacts,
            chat: false,
        }
    }
}

/// The endpoint's own name for a server transaction that waits for its final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TxRef(pub u64);

/// Names a request of ours until its final response is told to [`Notifier::handle_result`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// A request, and the endpoint's knowledge of it.
#[derive(Clone, Copy, Debug)]
pub struct IncomingRequest<'a> {
    /// The server transaction that the answer goes to.
    pub transaction: TxRef,
    /// The request itself.
    pub request: &'a Message,
    /// The source; responses and NOTIFYs go back there.
    pub source: &'a Source,
    /// The URI by which the sender reaches the listener it came in by, without angle brackets: our Contact.
    pub contact: &'a str,
    /// The account of the Request-URI, aliases resolved. Ignored inside a dialog.
    pub aor: &'a str,
    /// The sender, when it was proved or needs no proof here.
    pub account: Option<&'a str>,
}

/// Where a request of ours goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingRoute {
    /// The URI that RFC 3263 is done with: the topmost Route, else the Request-URI.
    pub next_hop: Box<str>,
    /// Go there instead: the peer is behind a NAT or on a connection.
    pub received: Option<Received>,
    /// Addresses of private networks are no destination (see `session::Invite::public_only`).
    pub public_only: bool,
    /// The target is a binding: neither a route's system nor an address of ours is a destination.
    pub is_binding: bool,
}

impl OutgoingRoute {
    /// True if a resolved address may be sent to.
    pub fn may_reach(&self, address: std::net::IpAddr) -> bool {
        !self.public_only || !stdx::address::is_private(address)
    }
}

/// Everything the notifier can cause.
#[derive(Clone, Debug, PartialEq)]
pub enum EventEffect {
    /// The final response of this transaction.
    Reply {
        /// The server transaction to answer.
        transaction: TxRef,
        /// The whole response.
        bytes: Bytes,
    },
    /// For the router of the query's address. The answer goes to [`Notifier::handle_answer`]; its number has
    /// [`ASK_BIT`] set, so that the endpoint tells it from its own.
    Ask {
        /// The number of the query.
        id: AskId,
        /// The query, which names its address.
        query: Query,
    },
    /// A request without Via. Its final status, or 408, is told to [`Notifier::handle_result`] once.
    Request {
        /// The number that the result carries.
        id: RequestId,
        /// The request, as on the wire but for its Via.
        bytes: Bytes,
        /// The next hop, and the flow when there is one.
        onward: OutgoingRoute,
    },
    /// The outcome of [`Notifier::text`].
    TextOutcome {
        /// The number that the text was given.
        id: u64,
        /// The outcome for the chat client.
        texted: TextOutcome,
    },
}

/// The answer of phones to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOutcome {
    /// One has it.
    Taken,
    /// One will never take it, and the others did not.
    Refused,
    /// None answered, or none could be asked.
    Failed,
}

/// Set in the number of every query the notifier asks.
pub const ASK_BIT: u64 = 1 << 63;

/// The subscriptions and requests that the notifier holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Subscriptions that have not expired.
    pub subscriptions: usize,
    /// Queries without an answer yet.
    pub asked: usize,
    /// Kept messages on their way to a phone.
    pub deliveries: usize,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounters {
    /// NOTIFY requests sent.
    pub notifies: u64,
    /// Subscriptions that ended because the watcher of a NOTIFY was gone.
    pub peers_gone: u64,
    /// Requests refused, those that met a limit included.
    pub refused: u64,
    /// Requests that met a limit of `limits`.
    pub limited: u64,
    /// MESSAGEs that the router stored.
    pub messages_kept: u64,
    /// Stored MESSAGEs that a phone took.
    pub messages_delivered: u64,
    /// Queries that the router did not answer in time.
    pub unanswered: u64,
}

/// Our end of subscriptions to presence, dialogs and messages waiting (RFC 6665).
pub struct Notifier {
    rules: EventRules,
    ids: Identifiers,
    keyed: Keyed,
    subscriptions: Slab<Subscription>,
    /// By our tag, which no two dialogs share.
    by_tag: HashMap<Box<str>, Key>,
    /// Subscriptions by the hash of address and watcher, for `limits::SUBSCRIPTIONS_PER_WATCHER`.
    by_watcher: HashMap<u64, usize>,
    open_queries: HashMap<u64, OpenQuery>,
    /// NOTIFYs without a final response.
    requests: HashMap<u64, Key>,
    deliveries: MessageDeliveries,
    wheel: Wheel<NotifierTimer>,
    counters: EventCounters,
}

/// The source of the notifier's numbers, tags and Call-IDs.
struct Identifiers {
    rng: Rng,
    /// The end of our tags: the shard's place in a farm; empty alone.
    tag_end: Box<str>,
    last_id: u64,
}

impl Identifiers {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn token(&mut self) -> String {
        self.rng.token(limits::TAG_CHARS)
    }

    /// Our tag in a new subscription.
    fn tag(&mut self) -> Box<str> {
        let mut tag = self.token();
        tag.push_str(&self.tag_end);
        tag.into()
    }
}

/// A question to the router that is not answered.
enum OpenQuery {
    State(Key),
    /// The watch of a subscription whose address has a new owner: the state is told only if it is another one.
    Moved(Key),
    /// A PUBLISH or a MESSAGE that still has no final response.
    Request(Box<WaitingRequest>),
}

struct WaitingRequest {
    transaction: TxRef,
    request: Message,
    source: Source,
}

/// Late and repeated ones find nothing due and are ignored.
#[derive(Clone, Copy)]
enum NotifierTimer {
    Subscription(Key),
    Asked(u64),
}

impl Notifier {
    /// A notifier without subscriptions.
    pub fn new(rules: EventRules, mut rng: Rng, now: Instant) -> Self {
        let mut key = [0; 16];
        rng.fill(&mut key);
        Notifier {
            rules,
            ids: Identifiers { rng, tag_end: "".into(), last_id: 0 },
            keyed: Keyed::new(key),
            subscriptions: Slab::new(),
            by_tag: HashMap::new(),
            by_watcher: HashMap::new(),
            open_queries: HashMap::new(),
            requests: HashMap::new(),
            deliveries: MessageDeliveries::default(),
            wheel: Wheel::new(now),
            counters: EventCounters::default(),
        }
    }

    /// After a reload; granted subscriptions stay.
    pub fn set_rules(&mut self, rules: EventRules) {
        self.rules = rules;
    }

    /// True if this request belongs to a dialog held here.
    pub fn owns(&self, request: &Message) -> bool {
        self.find_dialog(request).is_some()
    }

    /// New subscriptions name the shard that has them.
    pub(crate) fn set_tag_end(&mut self, end: &str) {
        self.ids.tag_end = end.into();
    }

    /// The router's answer to an `Ask`. An answer that is not waited for is ignored.
    pub fn handle_answer(&mut self, now: Instant, id: AskId, answer: Answer, out: &mut Vec<EventEffect>) {
        match (self.open_queries.remove(&id.0), answer) {
            (Some(OpenQuery::State(key)), Answer::State(state)) => {
                self.handle_state(now, key, state, true, out);
            }
            (Some(OpenQuery::Moved(key)), Answer::State(state)) => {
                self.handle_state(now, key, state, false, out);
            }
            (Some(OpenQuery::State(key) | OpenQuery::Moved(key)), Answer::WatchRefused) => {
                self.handle_watch_refused(now, key, out);
            }
            (Some(OpenQuery::State(key)), Answer::Unavailable) => self.handle_no_state(now, key, out),
            (Some(OpenQuery::Request(waiting)), Answer::Unavailable) => {
                let mut reply = self.reply_to(&waiting.request, &waiting.source, 503, "Service Unavailable");
                reply.header("Retry-After", limits::UNAVAILABLE_RETRY_AFTER.to_string().as_bytes());
                out.push(EventEffect::Reply { transaction: waiting.transaction, bytes: reply.finish() });
            }
            (Some(OpenQuery::Request(waiting)), Answer::Published(result)) => {
                self.handle_published(&waiting, &result, out);
            }
            (Some(OpenQuery::Request(waiting)), Answer::Kept(result)) => {
                self.handle_kept(&waiting, result, out);
            }
            // An answer to another question than ours, or a moved watch without an owner: the timer ends the wait.
            (Some(asked), _) => {
                self.open_queries.insert(id.0, asked);
            }
            (None, _) => {}
        }
    }

    /// News of the router for a watch.
    pub fn handle_push(&mut self, now: Instant, push: Push, out: &mut Vec<EventEffect>) {
        match push {
            Push::State { watch, state } => {
                self.handle_state(now, Key::from_u64(watch.0), state, false, out);
            }
            Push::Deliver { bindings, message } => {
                self.deliveries.deliver(&mut self.ids, &bindings, &message, out);
            }
            // For the shard's accounts and its `AccountCalls`.
            Push::AccountChanged { .. } | Push::Watched { .. } => {}
        }
    }

    /// The final status of a request of ours; 408 when none came or it could not be sent.
    pub fn handle_result(&mut self, now: Instant, id: RequestId, status: u16, out: &mut Vec<EventEffect>) {
        match self.requests.remove(&id.0) {
            Some(key) => self.handle_notified(now, key, status, out),
            // A MESSAGE, or a last NOTIFY: its dialog is gone whatever the peer says.
            None => {
                let (ids, counters) = (&mut self.ids, &mut self.counters);
                if let Some(query) = self.deliveries.handle_status(ids, (id, status), counters, out) {
                    self.tell(query, out);
                }
            }
        }
    }

    /// Call it when `deadline` has come.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<EventEffect>) {
        let mut due = Vec::new();
        self.wheel.expire(now, &mut due);
        for timer in due {
            match timer {
                NotifierTimer::Subscription(key) => self.handle_timer(now, key, out),
                NotifierTimer::Asked(id) => self.give_up(now, id, out),
            }
        }
    }

    /// When `expire` has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// The figures of this moment.
    pub fn counts(&self) -> EventCounts {
        EventCounts {
            subscriptions: self.subscriptions.len(),
            asked: self.open_queries.len(),
            deliveries: self.deliveries.len(),
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> EventCounters {
        self.counters
    }

    /// Checks that one more request may wait for the router.
    fn check_room(&self) -> Result<(), EventRefusal> {
        if self.open_queries.len() >= limits::ASKED { Err(EventRefusal::busy()) } else { Ok(()) }
    }

    fn ask(&mut self, now: Instant, query: Query, asked: OpenQuery, out: &mut Vec<EventEffect>) {
        let id = ASK_BIT | self.ids.next_id();
        self.open_queries.insert(id, asked);
        self.wheel.insert(now + limits::ASK_PATIENCE, NotifierTimer::Asked(id));
        out.push(EventEffect::Ask { id: AskId(id), query });
    }

    /// For a query that is not answered.
    fn tell(&mut self, query: Query, out: &mut Vec<EventEffect>) {
        let id = ASK_BIT | self.ids.next_id();
        out.push(EventEffect::Ask { id: AskId(id), query });
    }

    /// The router did not answer in time.
    fn give_up(&mut self, now: Instant, id: u64, out: &mut Vec<EventEffect>) {
        let asked = self.open_queries.remove(&id);
        self.counters.unanswered += u64::from(asked.is_some());
        match asked {
            Some(OpenQuery::State(key)) => self.handle_no_state(now, key, out),
            Some(OpenQuery::Moved(key)) => subscribe::handle_silent_owner(self, now, key, out),
            Some(OpenQuery::Request(waiting)) => {
                let reply = self.reply_to(&waiting.request, &waiting.source, 504, "Server Time-out");
                out.push(EventEffect::Reply { transaction: waiting.transaction, bytes: reply.finish() });
            }
            None => {}
        }
    }

    fn reply_to(&mut self, request: &Message, source: &Source, status: u16, reason: &str) -> Reply {
        let tag = self.ids.token();
        Reply::new(request, source.remote, status, reason, Some(&tag))
    }

    fn refuse(&mut self, incoming: &IncomingRequest<'_>, refusal: &EventRefusal, out: &mut Vec<EventEffect>) {
        self.counters.refused += 1;
        self.counters.limited += u64::from(refusal.is_limit);
        let mut reply = self.reply_to(incoming.request, incoming.source, refusal.status, refusal.reason);
        for (name, value) in &refusal.headers {
            reply.header(name, value.as_bytes());
        }
        out.push(EventEffect::Reply { transaction: incoming.transaction, bytes: reply.finish() });
    }
}

/// A peer's fault, and the answer it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EventRefusal {
    status: u16,
    reason: &'static str,
    headers: Vec<(&'static str, String)>,
    /// A limit of ours was met.
    is_limit: bool,
}

impl EventRefusal {
    fn new(status: u16, reason: &'static str) -> Self {
        EventRefusal { status, reason, headers: Vec::new(), is_limit: false }
    }

    fn limit(status: u16, reason: &'static str) -> Self {
        EventRefusal { is_limit: true, ..EventRefusal::new(status, reason) }
    }

    fn busy() -> Self {
        let retry_after = limits::EVENTS_RETRY_AFTER.to_string();
        EventRefusal::limit(503, "Service Unavailable").with("Retry-After", retry_after)
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// `sip:user@domain`, the URI of an address of record.
fn sip_uri(aor: &str) -> String {
    format!("sip:{aor}")
}
