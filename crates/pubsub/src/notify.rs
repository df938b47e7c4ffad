//! Notifications of the events of a node: to subscribers, and clients that ask for it by their abilities (XEP-0060 §7.1.2,
//! XEP-0163 §4).
//!
//! A notification is made when its change is on disk; the host asks for its audience once the owner's roster is in memory.
//! Beside the notifications of changes there are those of the newest item, for clients that come ([`NotifiedClients`]) and
//! for new subscribers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use stdx::Instant;
use stdx::cache::Cache;
use xmpp::{Bare, Element, Jid, ns};

use super::body;
use super::collection::{self, CollectionPath};
use super::context::PubSubContext;
use super::interface::PubSubEffect;
use super::node::{Node, Nodes};
use super::options::{Subscriber, SubscriptionType};
use super::page::ItemQuery;
use super::presences::SubscriberPresences;
use super::publish::event_item;
use super::state::{PendingRead, PubSubRead};
use super::store::NodeLoad;
use crate::limits;

/// Clients of contacts and of the owner itself, which get the newest items when they come, once for each set of features. Both caches are
/// bounded: a client that has been dropped from one is told again, or not until its next presence.
pub(crate) struct NotifiedClients {
    /// By hash of owner and client: the hash of the abilities it had when it was told.
    told: Cache<u64, u64>,
    /// The key is the hash of abilities that are still asked for (`caps`); the value names owner and client.
    waiting: Cache<Box<str>, Vec<(Bare, Jid)>>,
}

impl Default for NotifiedClients {
    fn default() -> NotifiedClients {
        NotifiedClients {
            told: Cache::new(limits::NODE_NOTIFIED),
            waiting: Cache::new(limits::NODE_INTERESTED),
        }
    }
}

/// A short name for a pair of addresses: the cache needs only to tell them apart.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl NotifiedClients {
    /// A presence that an account of ours got, or one of its sessions sent. Returns the hash of the client's features if
    /// they are known.
    pub(crate) fn handle_presence<'a>(
        &mut self,
        context: &PubSubContext<'_>,
        user: &Bare,
        from: &Jid,
        presence: &'a Element,
    ) -> Option<&'a str> {
        if presence.attr("type").is_some() {
            self.told.remove(&hash((user, from)));
            return None;
        }
        let ver = presence.get("c", ns::CAPS).and_then(|caps| caps.attr("ver"))?;
        let relation = context.relation(user, from);
        if !(relation.is_owner || relation.has_presence) || context.entities.is_anonymous(user) {
            return None;
        }
        if context.entities.abilities_of(ver).is_some() {
            return Some(ver);
        }
        let client = (user.clone(), from.clone());
        match self.waiting.get_mut(ver) {
            Some(known) if known.len() < limits::NODE_INTERESTED_CLIENTS && !known.contains(&client) => {
                known.push(client);
            }
            Some(_) => {}
            None => drop(self.waiting.insert(ver.into(), vec![client])),
        }
        None
    }

    /// The features of this hash are known from now on: the accounts of the clients that wait for them. The audience is in
    /// the roster, which may have left memory meanwhile.
    pub(crate) fn take_waiting(&mut self, ver: &str) -> Vec<PubSubEffect> {
        let waiting = self.waiting.remove(ver).unwrap_or_default().into_iter();
        waiting.map(|(user, client)| PubSubEffect::LoadAccount { user, client, ver: ver.into() }).collect()
    }

    /// The client is about to get the newest items. False: it got them with these features before.
    pub(crate) fn begin(&mut self, user: &Bare, client: &Jid, ver: &str) -> bool {
        let ver = hash(ver);
        self.told.insert(hash((user, client)), ver) != Some(ver)
    }
}

/// A recipient of an event.
pub struct Recipient {
    jid: Jid,
    /// The stanza has a body, if one can be made of the event.
    has_body: bool,
    /// The collection by whose subscription the event comes, which a header of the stanza names (XEP-0248 §5.3.1).
    collection: Option<Box<str>>,
}

impl Recipient {
    /// A subscriber of a node, by its options.
    fn of(node: &Node, subscriber: &Subscriber) -> Recipient {
        let has_body = subscriber.options.with_body && body::is_possible(&node.config);
        Recipient { jid: subscriber.jid.clone(), has_body, collection: None }
    }

    /// An address that has no subscription, or whatever its options are.
    fn without_options(jid: &Jid) -> Recipient {
        Recipient { jid: jid.clone(), has_body: false, collection: None }
    }
}

/// The kind of an event for subscribers of collections (XEP-0248 §5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// About items of a node: they were published, retracted or purged.
    Items,
    /// About a node itself: it was created, configured or deleted.
    Node,
    /// A node was associated with a collection, or dissociated from it: an event of the collection, for its subscribers and those above it.
    Association,
}

/// A node and the collections above it, at the time of an event.
#[derive(Clone)]
pub(crate) struct EventSource {
    pub(crate) owner: Bare,
    /// The name of the node.
    pub(crate) name: Box<str>,
    /// The node whose subscribers and access model give the audience: after a change of its configuration, the new one.
    pub(crate) node: Rc<Node>,
    pub(crate) collections: CollectionPath,
}

/// An event of a node, for its audience, which is computed when it is sent.
pub struct Notification {
    source: EventSource,
    kind: EventKind,
    event: Element,
}

impl Notification {
    /// The owner of the node.
    pub fn owner(&self) -> &Bare {
        &self.source.owner
    }

    /// The stanza for one recipient.
    pub fn message(&self, to: &Recipient) -> Element {
        message(&self.source.owner, to, self.event.clone())
    }

    /// The recipients, each subscription once: subscribers whose options have it so, those of the collections above the node, and clients
    /// of contacts that ask for the node by their features. Subscribers that the access model shuts out by now are left out, as are
    /// blocked contacts.
    pub(crate) fn audience(
        &self,
        context: &PubSubContext<'_>,
        presences: &SubscriberPresences,
    ) -> Vec<Recipient> {
        let mut audience = match self.kind {
            EventKind::Association => Vec::new(),
            EventKind::Items | EventKind::Node => self.audience_of_node(context, presences),
        };
        let EventSource { owner, node, collections, .. } = &self.source;
        for (above, (name, collection)) in collections.iter().enumerate() {
            let header = (above > 0 || self.kind != EventKind::Association).then(|| name.clone());
            for known in &collection.subscriptions {
                if !self.is_wanted(known, above + 1) || !presences.wants_events(owner, known) {
                    continue;
                }
                let (user, relation) = (known.jid.bare(), context.relation(owner, &known.jid));
                // A collection opens none of its nodes: the subscriber has to be let in by each on the way.
                let is_open = |node: &Node| match self.kind {
                    EventKind::Items => node.may_read(&user, &relation).is_ok(),
                    EventKind::Node | EventKind::Association => node.may_subscribe(&user, &relation).is_ok(),
                };
                let between = collections[..above].iter().map(|(_, node)| node);
                if collection.may_subscribe(&user, &relation).is_ok()
                    && is_open(node)
                    && between.into_iter().all(|node| is_open(node))
                {
                    let collection = header.clone();
                    audience.push(Recipient { collection, ..Recipient::without_options(&known.jid) });
                }
            }
        }
        audience
    }

    /// True if a subscriber of a collection wants this event of a node so many levels below it.
    fn is_wanted(&self, subscriber: &Subscriber, level: usize) -> bool {
        let wanted = match subscriber.options.kind {
            SubscriptionType::All => true,
            SubscriptionType::Items => self.kind == EventKind::Items,
            SubscriptionType::Nodes => self.kind != EventKind::Items,
        };
        wanted && subscriber.options.depth.is_none_or(|depth| level <= depth as usize)
    }

    /// The recipients without those of collections.
    fn audience_of_node(
        &self,
        context: &PubSubContext<'_>,
        presences: &SubscriberPresences,
    ) -> Vec<Recipient> {
        let EventSource { owner, name, node, .. } = &self.source;
        let subscribed = node.subscriptions.iter().filter(|known| {
            let is_allowed =
                || node.may_subscribe(&known.jid.bare(), &context.relation(owner, &known.jid)).is_ok();
            presences.wants_events(owner, known) && is_allowed()
        });
        let mut audience: Vec<Recipient> = subscribed.map(|known| Recipient::of(node, known)).collect();
        // A client that has subscribed gets the event once, not also for its features. Features are a request of their own: options
        // of a subscription do not change it.
        let explicit = audience.len();
        let feature = format!("{name}+notify");
        let mut contacts = vec![owner];
        contacts.extend(context.entities.watchers(owner));
        for contact in contacts {
            let clients = context.entities.clients_with(contact, &feature);
            if clients.is_empty()
                || node.may_read(contact, &context.relation(owner, contact.as_jid())).is_err()
            {
                continue;
            }
            for client in clients {
                let has_it =
                    audience[..explicit].iter().any(|to| to.jid == *client || to.jid == *contact.as_jid());
                if !has_it {
                    audience.push(Recipient::without_options(client));
                }
            }
        }
        audience
    }
}

impl EventSource {
    /// A node among those of its owner.
    pub(crate) fn new(owner: &Bare, name: &str, nodes: &Nodes, node: Rc<Node>) -> EventSource {
        let collections = collection::path(nodes, &node);
        EventSource { owner: owner.clone(), name: name.into(), node, collections }
    }

    /// The effect that tells the audience of a node, if the node notifies: its options count for subscribers of collections, too (XEP-0248
    /// §5.3.1).
    pub(crate) fn notify(self, kind: EventKind, event: Element) -> Option<PubSubEffect> {
        let notifies = match (kind, self.collections.first()) {
            (EventKind::Association, Some((_, collection))) => collection.config.notifies,
            _ => self.node.config.notifies,
        };
        notifies.then(|| PubSubEffect::Notify(Notification { source: self, kind, event }))
    }

    /// The effect that tells the audience of one item that was published or retracted, if the node notifies.
    pub(crate) fn notify_item(self, item: Element) -> Option<PubSubEffect> {
        let items = Element::new("items", ns::PUBSUB_EVENT).with("node", self.name.clone()).child(item);
        self.notify(EventKind::Items, items)
    }
}

/// An event for one recipient, whatever it has subscribed to.
pub(crate) fn send_event(owner: &Bare, to: &Jid, event: Element) -> PubSubEffect {
    PubSubEffect::Send(message(owner, &Recipient::without_options(to), event))
}

/// The effect that sends the newest item to one client.
pub(crate) fn send_newest(owner: &Bare, name: &str, node: &Rc<Node>, to: &Jid) -> PubSubEffect {
    let (owner, name, node, to) = (owner.clone(), Box::<str>::from(name), Rc::clone(node), to.clone());
    let query = Box::new(ItemQuery::newest());
    let load = NodeLoad::Items { owner: owner.clone(), node: name.clone(), query };
    PubSubEffect::Load(load, PubSubRead(PendingRead::Newest { owner, name, node, to }))
}

/// The newest item, with the time it was published.
pub(crate) fn newest_message(
    (owner, name, node): (&Bare, &str, &Node),
    to: &Jid,
    at: Instant,
    item: &Element,
) -> Element {
    let items =
        Element::new("items", ns::PUBSUB_EVENT).with("node", name).child(event_item(item, &node.config));
    let delay =
        Element::new("delay", ns::DELAY).with("from", owner.as_str()).with("stamp", xmpp::time::stamp(at));
    let to = node
        .subscriber(to)
        .map_or_else(|| Recipient::without_options(to), |known| Recipient::of(node, known));
    message(owner, &to, items).child(delay)
}

/// An event as a message. A headline: it is neither stored for later nor archived.
fn message(owner: &Bare, to: &Recipient, event: Element) -> Element {
    let body = if to.has_body { body::body_of(&event) } else { None };
    let headers = to.collection.as_ref().map(|collection| {
        let header = Element::new("header", ns::SHIM).with("name", "Collection").text(collection.clone());
        Element::new("headers", ns::SHIM).child(header)
    });
    Element::new("message", ns::CLIENT)
        .with("type", "headline")
        .with("from", owner.as_str())
        .with("to", to.jid.as_str())
        .children(body)
        .child(Element::new("event", ns::PUBSUB_EVENT).child(event))
        .children(headers)
}
