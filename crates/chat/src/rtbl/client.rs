//! The client of real-time block lists: subscribes to each list's node, reads its items, and follows what is added and retracted.
//!
//! A round is a subscription (XEP-0060 §6.1) and a read of all items (§6.5), by pages of XEP-0059 where the service knows them. It is
//! repeated each hour, as a service may forget subscriptions and notifications may be lost while it is away, and sooner after a failure.
//! Until a round has ended well, the content of before stays. A new content is published at most once a second, however many
//! notifications come.

use std::sync::Arc;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza;
use xmpp::{Element, ns};

use super::entries::EntrySet;
use super::{AddressHash, RtblList, RtblLists, RtblSource};
use crate::limits;

/// An order of the client to its driver.
#[derive(Debug)]
pub enum RtblEffect {
    /// Sends a request to the service of a list, from an address of the server. The request has an `id` that peers cannot guess; the answer
    /// is the input of [`RtblClient::handle_answer`].
    Send(Box<Element>),
    /// Hosts use this content from now on.
    Publish(Arc<RtblLists>),
    /// A list was read, for the first time or after a failure.
    Loaded {
        /// The list.
        source: Box<RtblSource>,
        /// The number of its entries.
        entries: usize,
    },
    /// A list cannot be read. Reported once, until it can be read again.
    Failed {
        /// The list.
        source: Box<RtblSource>,
        /// The reason.
        failure: RtblFailure,
        /// Entries of before, which stay in use.
        entries: usize,
    },
    /// A list has more entries than [`limits::RTBL_ENTRIES`]; those beyond have no effect. Reported once.
    Full {
        /// The list.
        source: Box<RtblSource>,
    },
}

/// The reason why a list is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RtblFailure {
    /// No answer came in time.
    NoAnswer,
    /// The service answered with this condition.
    Refused(Box<str>),
    /// The items can be read, but the service refuses the subscription: changes are seen once an hour.
    NotSubscribed(Box<str>),
}

impl std::fmt::Display for RtblFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RtblFailure::NoAnswer => f.write_str("no answer in time"),
            RtblFailure::Refused(condition) => write!(f, "the service answered {condition}"),
            RtblFailure::NotSubscribed(condition) => {
                write!(f, "the service refused the subscription: {condition}")
            }
        }
    }
}

/// The step of a list's round.
#[derive(Debug)]
enum Step {
    /// The next round begins then.
    Waiting { until: Instant },
    /// The subscription is not answered.
    Subscribing { id: Box<str>, until: Instant },
    /// A page of items is not answered.
    Reading { id: Box<str>, until: Instant, read: ReadItems },
}

/// The items that a round has read so far.
#[derive(Debug, Default)]
struct ReadItems {
    entries: EntrySet,
    /// Items of all pages, those that are no hashes too.
    items: usize,
    /// The id that the last page ended with.
    last: Option<Box<str>>,
    /// The condition with which the subscription was refused.
    not_subscribed: Option<Box<str>>,
}

/// One list.
#[derive(Debug)]
struct FollowedList {
    source: RtblSource,
    entries: EntrySet,
    step: Step,
    /// Failed rounds in a row.
    failures: u32,
    /// The state of the last report; `None`: none yet.
    is_well: Option<bool>,
    is_full: bool,
}

impl FollowedList {
    fn insert(&mut self, entry: AddressHash) {
        if let Step::Reading { read, .. } = &mut self.step {
            read.entries.insert(entry);
        }
        self.entries.insert(entry);
    }

    fn remove(&mut self, entry: &AddressHash) {
        if let Step::Reading { read, .. } = &mut self.step {
            read.entries.remove(entry);
        }
        self.entries.remove(entry);
    }

    fn clear(&mut self) {
        if let Step::Reading { read, .. } = &mut self.step {
            read.entries = EntrySet::default();
        }
        self.entries = EntrySet::default();
    }

    fn deadline(&self) -> Instant {
        match &self.step {
            Step::Waiting { until } | Step::Subscribing { until, .. } | Step::Reading { until, .. } => *until,
        }
    }

    fn is_asked(&self, answer_id: &str) -> bool {
        match &self.step {
            Step::Waiting { .. } => false,
            Step::Subscribing { id, .. } | Step::Reading { id, .. } => **id == *answer_id,
        }
    }
}

/// The client of all lists of a process.
#[derive(Debug)]
pub struct RtblClient {
    lists: Vec<FollowedList>,
    rng: Rng,
    /// The content has changed, and is published then.
    publish_at: Option<Instant>,
    published_at: Option<Instant>,
}

impl RtblClient {
    /// The client of these lists, whose first rounds begin with the first [`RtblClient::expire`]; `seed` seeds the ids of requests.
    pub fn new(sources: &[RtblSource], now: Instant, seed: [u8; 32]) -> RtblClient {
        let list = |source: &RtblSource| FollowedList {
            source: source.clone(),
            entries: EntrySet::default(),
            step: Step::Waiting { until: now },
            failures: 0,
            is_well: None,
            is_full: false,
        };
        RtblClient {
            lists: sources.iter().map(list).collect(),
            rng: Rng::from_seed(seed),
            publish_at: None,
            published_at: None,
        }
    }

    /// Lists whose last round has failed.
    pub fn failing(&self) -> usize {
        self.lists.iter().filter(|list| list.failures > 0).count()
    }

    /// The time at which to call `expire`.
    pub fn deadline(&self) -> Option<Instant> {
        self.lists.iter().map(FollowedList::deadline).chain(self.publish_at).min()
    }

    /// Handles the timers that are due at `now`. `subscriber` is the bare address that subscribes: the server's.
    pub fn expire(&mut self, now: Instant, subscriber: &str, out: &mut Vec<RtblEffect>) {
        for list in self.lists.iter_mut().filter(|list| list.deadline() <= now) {
            if matches!(list.step, Step::Waiting { .. }) {
                let id: Box<str> = crate::token(&mut self.rng).into();
                out.push(RtblEffect::Send(Box::new(subscription(&list.source, &id, subscriber))));
                list.step = Step::Subscribing { id, until: now + limits::RTBL_ANSWER };
            } else {
                fail(list, now, RtblFailure::NoAnswer, out);
            }
        }
        if self.publish_at.is_some_and(|at| at <= now) {
            self.publish_at = None;
            self.published_at = Some(now);
            let lists = self.lists.iter().map(|list| RtblList {
                entries: list.entries.clone(),
                rooms: list.source.rooms,
                strangers: list.source.strangers,
            });
            out.push(RtblEffect::Publish(Arc::new(RtblLists { lists: lists.collect() })));
        }
    }

    /// Handles the answer to a request. An answer of another address than the list's service is ignored.
    pub fn handle_answer(&mut self, now: Instant, answer: &Element, out: &mut Vec<RtblEffect>) {
        let (Some(id), Ok(Some(from))) = (answer.attr("id"), stanza::from(answer)) else { return };
        let is_it =
            |list: &&mut FollowedList| list.is_asked(id) && list.source.service.as_str() == from.bare_str();
        let Some(list) = self.lists.iter_mut().find(is_it) else { return };
        let step = std::mem::replace(&mut list.step, Step::Waiting { until: now + limits::RTBL_REFRESH });
        let refused = (answer.attr("type") != Some("result")).then(|| condition_of(answer));
        match step {
            Step::Subscribing { .. } => {
                let read = ReadItems { not_subscribed: refused, ..ReadItems::default() };
                ask_page(list, now, read, &mut self.rng, out);
            }
            Step::Reading { mut read, .. } => match refused {
                Some(condition) => fail(list, now, RtblFailure::Refused(condition), out),
                None => match read_page(&mut read, &list.source, answer) {
                    None => fail(list, now, RtblFailure::Refused("no items of the list".into()), out),
                    Some(true) => ask_page(list, now, read, &mut self.rng, out),
                    Some(false) => {
                        finish(list, read, out);
                        self.changed(now);
                    }
                },
            },
            Step::Waiting { .. } => {}
        }
    }

    /// Handles a message of a service: what it adds to or retracts from a list (XEP-0060 §7.1.2.1, §7.2.2.1), or purges (§8.5.2). The caller
    /// has checked that the message is of its `from`.
    pub fn handle_event(&mut self, now: Instant, message: &Element) {
        let Ok(Some(from)) = stanza::from(message) else { return };
        let Some(event) = message.get("event", ns::PUBSUB_EVENT) else { return };
        let mut is_changed = false;
        for action in event.elements() {
            let node = action.attr("node").unwrap_or_default();
            let is_it = |list: &&mut FollowedList| {
                *list.source.node == *node && list.source.service.as_str() == from.bare_str()
            };
            let Some(list) = self.lists.iter_mut().find(is_it) else { continue };
            match action.name() {
                "items" => action.elements().for_each(|item| match (item.name(), entry_of(item)) {
                    ("item", Some(entry)) => list.insert(entry),
                    ("retract", Some(entry)) => list.remove(&entry),
                    _ => {}
                }),
                "purge" => list.clear(),
                // A deleted node is a list that is not maintained any more; its content stays until the operator removes it.
                _ => continue,
            }
            is_changed = true;
        }
        if is_changed {
            self.changed(now);
        }
    }

    /// The content is published, at once or a while after it was published last.
    fn changed(&mut self, now: Instant) {
        let earliest = self.published_at.map_or(now, |last| last + limits::RTBL_PUBLISH);
        self.publish_at = Some(self.publish_at.unwrap_or(earliest.max(now)));
    }
}

/// XEP-0060 §6.1.1. To subscribe again changes nothing where there is a subscription.
fn subscription(source: &RtblSource, id: &str, subscriber: &str) -> Element {
    let subscribe = Element::new("subscribe", ns::PUBSUB).with("node", &*source.node).with("jid", subscriber);
    request(source, "set", id).child(Element::new("pubsub", ns::PUBSUB).child(subscribe))
}

fn request(source: &RtblSource, kind: &str, id: &str) -> Element {
    let iq = Element::new("iq", ns::CLIENT).with("type", kind).with("id", id);
    iq.with("to", source.service.as_str())
}

/// Asks for the first page of items, or for the one after the last (XEP-0060 §6.5.4 and XEP-0059 §2.1). A service without pages gives all
/// items at once.
fn ask_page(
    list: &mut FollowedList,
    now: Instant,
    read: ReadItems,
    rng: &mut Rng,
    out: &mut Vec<RtblEffect>,
) {
    let id: Box<str> = crate::token(rng).into();
    let text = |name, text: &str| Element::new(name, ns::RSM).text(text);
    let after = read.last.as_deref().map(|last| text("after", last));
    let set = Element::new("set", ns::RSM).child(text("max", &limits::RTBL_PAGE.to_string())).children(after);
    let items = Element::new("items", ns::PUBSUB).with("node", &*list.source.node);
    let pubsub = Element::new("pubsub", ns::PUBSUB).child(items).child(set);
    out.push(RtblEffect::Send(Box::new(request(&list.source, "get", &id).child(pubsub))));
    list.step = Step::Reading { id, until: now + limits::RTBL_ANSWER, read };
}

/// Reads a page; `None`: the answer is none of the list. True: there may be another one. A service that answers with the same page for
/// ever, or with items that are no entries, is asked no further after twice the entries of a list.
fn read_page(read: &mut ReadItems, source: &RtblSource, answer: &Element) -> Option<bool> {
    let pubsub = answer.get("pubsub", ns::PUBSUB)?;
    let items = pubsub
        .get("items", ns::PUBSUB)
        .filter(|items| items.attr("node").is_none_or(|node| *node == *source.node))?;
    let before = read.items;
    for item in items.elements().filter(|item| item.is("item", ns::PUBSUB)) {
        read.items += 1;
        if let Some(entry) = entry_of(item) {
            read.entries.insert(entry);
        }
    }
    let Some(set) = pubsub.get("set", ns::RSM) else { return Some(false) };
    let last = set.content_of("last", ns::RSM).map(|last| Box::from(&*last));
    let count = set.content_of("count", ns::RSM).and_then(|count| count.trim().parse::<usize>().ok());
    let is_new = last.is_some() && last != read.last;
    read.last = last;
    let may_follow = is_new
        && read.items > before
        && read.items < 2 * limits::RTBL_ENTRIES
        && read.entries.len() < limits::RTBL_ENTRIES
        && count.is_none_or(|count| read.items < count);
    Some(may_follow)
}

/// The hash that an item or a retraction names.
fn entry_of(item: &Element) -> Option<AddressHash> {
    stdx::hex::decode_array(item.attr("id")?)
}

/// All items were read.
fn finish(list: &mut FollowedList, read: ReadItems, out: &mut Vec<RtblEffect>) {
    list.entries = read.entries;
    list.failures = 0;
    let source = || Box::new(list.source.clone());
    let entries = list.entries.len();
    if let Some(condition) = read.not_subscribed {
        if list.is_well != Some(false) {
            let failure = RtblFailure::NotSubscribed(condition);
            out.push(RtblEffect::Failed { source: source(), failure, entries });
        }
        list.is_well = Some(false);
    } else {
        if list.is_well != Some(true) {
            out.push(RtblEffect::Loaded { source: source(), entries });
        }
        list.is_well = Some(true);
    }
    let is_full = entries >= limits::RTBL_ENTRIES;
    if is_full && !list.is_full {
        out.push(RtblEffect::Full { source: source() });
    }
    list.is_full = is_full;
}

/// A round has failed: the next one begins sooner than after a good one, later after each failure.
fn fail(list: &mut FollowedList, now: Instant, failure: RtblFailure, out: &mut Vec<RtblEffect>) {
    let pause = limits::RTBL_RETRY.saturating_mul(1 << list.failures.min(16)).min(limits::RTBL_REFRESH);
    list.step = Step::Waiting { until: now + pause };
    list.failures = list.failures.saturating_add(1);
    if list.is_well != Some(false) {
        let source = Box::new(list.source.clone());
        out.push(RtblEffect::Failed { source, failure, entries: list.entries.len() });
    }
    list.is_well = Some(false);
}

/// The condition of an error.
fn condition_of(answer: &Element) -> Box<str> {
    let condition = answer.get("error", ns::CLIENT).and_then(Element::first).map(Element::name);
    condition.unwrap_or("an error").into()
}
