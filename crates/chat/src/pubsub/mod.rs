//! Nodes and items (XEP-0060) of accounts (XEP-0163): the questions, and an owner's nodes while they are in use.

mod imported;
mod node;
mod notify;
mod owner;
mod publish;
mod service;
mod subscribe;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use stdx::Instant;
use stdx::cache::Cache;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::change_queue::not_written;
use super::effect::{Change, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget};
use super::{Host, ItemPage, ItemQuery, ItemRow, Outbox};
use crate::limits;
pub(crate) use imported::imported;
use node::{Node, NodeAffiliation, Nodes, Relation};
pub(super) use publish::Publication;

const FILE: &str = "crates/chat/src/pubsub/mod.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0060",
            title: "Publish-Subscribe",
            version: "1.26.0",
            level: Level::Partial,
            file: FILE,
            note: "of accounts and of a service; without collections, subscription options and several subscriptions of one address",
        },
        Specification {
            name: "XEP-0163",
            title: "Personal Eventing Protocol",
            version: "1.2.2",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0223",
            title: "Persistent Storage of Private Data via PubSub",
            version: "1.1.1",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
    ],
    account: &[
        ns::PUBSUB,
        "http://jabber.org/protocol/pubsub#access-authorize",
        "http://jabber.org/protocol/pubsub#access-open",
        "http://jabber.org/protocol/pubsub#access-presence",
        "http://jabber.org/protocol/pubsub#access-roster",
        "http://jabber.org/protocol/pubsub#access-whitelist",
        "http://jabber.org/protocol/pubsub#auto-create",
        "http://jabber.org/protocol/pubsub#auto-subscribe",
        "http://jabber.org/protocol/pubsub#config-node",
        "http://jabber.org/protocol/pubsub#config-node-max",
        "http://jabber.org/protocol/pubsub#create-and-configure",
        "http://jabber.org/protocol/pubsub#create-nodes",
        "http://jabber.org/protocol/pubsub#delete-items",
        "http://jabber.org/protocol/pubsub#delete-nodes",
        "http://jabber.org/protocol/pubsub#filtered-notifications",
        "http://jabber.org/protocol/pubsub#instant-nodes",
        "http://jabber.org/protocol/pubsub#item-ids",
        "http://jabber.org/protocol/pubsub#last-published",
        "http://jabber.org/protocol/pubsub#manage-subscriptions",
        "http://jabber.org/protocol/pubsub#member-affiliation",
        "http://jabber.org/protocol/pubsub#meta-data",
        "http://jabber.org/protocol/pubsub#modify-affiliations",
        "http://jabber.org/protocol/pubsub#multi-items",
        "http://jabber.org/protocol/pubsub#outcast-affiliation",
        "http://jabber.org/protocol/pubsub#persistent-items",
        "http://jabber.org/protocol/pubsub#presence-notifications",
        "http://jabber.org/protocol/pubsub#presence-subscribe",
        "http://jabber.org/protocol/pubsub#publish",
        "http://jabber.org/protocol/pubsub#publish-only-affiliation",
        "http://jabber.org/protocol/pubsub#publish-options",
        "http://jabber.org/protocol/pubsub#publisher-affiliation",
        "http://jabber.org/protocol/pubsub#purge-nodes",
        "http://jabber.org/protocol/pubsub#retract-items",
        "http://jabber.org/protocol/pubsub#retrieve-affiliations",
        "http://jabber.org/protocol/pubsub#retrieve-default",
        "http://jabber.org/protocol/pubsub#retrieve-items",
        "http://jabber.org/protocol/pubsub#retrieve-subscriptions",
        "http://jabber.org/protocol/pubsub#rsm",
        "http://jabber.org/protocol/pubsub#subscribe",
    ],
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Account, name: "pubsub", ns: ns::PUBSUB, run: asked },
        IqHandler { at: IqTarget::Account, name: "pubsub", ns: ns::PUBSUB_OWNER, run: asked },
    ],
};

/// The continuation that gets an owner's nodes.
type NodesContinuation = Box<dyn FnOnce(&mut Host, Instant, Result<Rc<Nodes>, StanzaError>, &mut Outbox)>;

pub(super) struct PubSub {
    nodes: Cache<Bare, Rc<Nodes>>,
    /// Owners whose nodes are read or changed, and the requests that wait for that: each is judged by the
    /// current state.
    busy: HashMap<Bare, VecDeque<NodesContinuation>>,
    clients: notify::NotifiedClients,
}

impl Default for PubSub {
    fn default() -> PubSub {
        PubSub {
            nodes: Cache::new(limits::NODE_OWNERS),
            busy: HashMap::new(),
            clients: notify::NotifiedClients::default(),
        }
    }
}

impl PubSub {
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.busy.len()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// A question while the store is asked.
struct PendingRequest {
    iq: Element,
    owner: Bare,
    who: Bare,
    relation: Relation,
}

enum PubSubReply {
    /// The payload of the result.
    Result(Option<Element>),
    /// Once the store has answered.
    Later,
}

type PubSubResult = Result<PubSubReply, StanzaError>;

/// An error with the condition that XEP-0060 has for it.
fn fault(condition: Condition, detail: &'static str) -> StanzaError {
    StanzaError::from(condition).with(Element::new(detail, ns::PUBSUB_ERRORS))
}

fn unsupported(feature: &'static str) -> StanzaError {
    let detail = Element::new("unsupported", ns::PUBSUB_ERRORS).with("feature", feature);
    StanzaError::from(Condition::FeatureNotImplemented).with(detail)
}

fn asked(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    if host.accounts.is_anonymous(&iq.to.bare()) {
        let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no nodes");
        return IqReply::Error(error);
    }
    host.pubsub_asked(now, iq.iq, iq.from, iq.to, out);
    IqReply::Later
}

impl PendingRequest {
    /// The first element that says what is wanted.
    fn part(&self, ns: &'static str) -> Option<&Element> {
        self.iq.first()?.elements().find(|child| child.ns() == ns)
    }

    fn node_name(&self, part: &Element) -> Result<Box<str>, StanzaError> {
        let name = part.attr("node").filter(|name| !name.is_empty());
        Ok(name.ok_or_else(|| fault(Condition::BadRequest, "nodeid-required"))?.into())
    }

    /// The node that a part names, for requests that only its owner may make.
    fn own_node<'a>(
        &self,
        part: &Element,
        nodes: &'a Nodes,
    ) -> Result<(Box<str>, &'a Rc<Node>), StanzaError> {
        let name = self.node_name(part)?;
        let node = node_of(nodes, &name)?;
        match node.affiliation(&self.who, &self.relation) {
            NodeAffiliation::Owner => Ok((name, node)),
            _ => Err(Condition::Forbidden.into()),
        }
    }
}

fn node_of<'a>(nodes: &'a Nodes, name: &str) -> Result<&'a Rc<Node>, StanzaError> {
    nodes.get(name).ok_or_else(|| Condition::ItemNotFound.into())
}

impl Host {
    /// The nodes of an account or a service.
    fn pubsub_asked(&mut self, now: Instant, iq: &Element, from: &Jid, to: &Jid, out: &mut Outbox) {
        let owner = to.bare();
        let asked = PendingRequest {
            iq: iq.clone(),
            relation: self.relation(&owner, from),
            owner: owner.clone(),
            who: from.bare(),
        };
        let job = move |host: &mut Host, now, nodes: Result<Rc<Nodes>, _>, out: &mut Outbox| {
            let asked = Rc::new(asked);
            let reply = nodes.and_then(|nodes| host.perform(now, &asked, &nodes, out));
            match reply {
                Ok(PubSubReply::Result(payload)) => host.answer(&asked.iq, Ok(payload), out),
                Ok(PubSubReply::Later) => {}
                Err(error) => host.refuse(&asked.iq, &error, out),
            }
        };
        self.for_requester(from, |host| host.with_nodes(now, &owner, out, Box::new(job)));
    }

    fn perform(
        &mut self,
        now: Instant,
        asked: &Rc<PendingRequest>,
        nodes: &Rc<Nodes>,
        out: &mut Outbox,
    ) -> PubSubResult {
        let Some(payload) = asked.iq.first() else { return Err(Condition::BadRequest.into()) };
        let is_set = asked.iq.attr("type") == Some("set");
        let space = if payload.ns() == ns::PUBSUB { ns::PUBSUB } else { ns::PUBSUB_OWNER };
        let Some(part) = asked.part(space) else { return Err(Condition::BadRequest.into()) };
        match (space == ns::PUBSUB_OWNER, is_set, part.name()) {
            (false, true, "publish") => self.publish_asked(now, asked, part, nodes, out),
            (false, true, "retract") => self.retract_asked(asked, part, nodes, out),
            (false, false, "items") => self.items_asked(asked, part, nodes, out),
            (false, true, "create") => self.create_asked(asked, part, nodes, out),
            (false, true, "subscribe") => self.subscribe_asked(asked, part, nodes, out),
            (false, true, "unsubscribe") => self.unsubscribe_asked(asked, part, nodes, out),
            (false, false, "subscriptions") => subscribe::own_subscriptions(asked, part, nodes),
            (false, false, "affiliations") => subscribe::own_affiliations(asked, part, nodes),
            (false, _, "options") => Err(unsupported("subscription-options")),
            (false, false, "default") => Err(unsupported("retrieve-default-sub")),
            (true, false, "configure") => owner::config_asked(asked, part, nodes),
            (true, false, "default") => owner::default_asked(asked),
            (true, true, "configure") => self.configure_asked(asked, part, nodes, out),
            (true, true, "delete") => self.delete_asked(asked, part, nodes, out),
            (true, true, "purge") => self.purge_asked(asked, part, nodes, out),
            (true, false, "affiliations") => owner::affiliations_asked(asked, part, nodes),
            (true, false, "subscriptions") => owner::subscriptions_asked(asked, part, nodes),
            (true, true, "affiliations") => self.set_affiliations(asked, part, nodes, out),
            (true, true, "subscriptions") => self.set_subscriptions(asked, part, nodes, out),
            _ => Err(Condition::BadRequest.into()),
        }
    }

    /// The requester's relation to the owner, whose account is in memory.
    fn relation(&self, owner: &Bare, who: &Jid) -> Relation {
        let who = who.bare();
        let item = self.accounts.data(owner).and_then(|data| data.contact(&who));
        Relation {
            // A service belongs to no account; administrators of the server own all of its nodes.
            is_owner: who == *owner || (owner.local().is_none() && self.settings.admins.contains(&who)),
            has_presence: item.is_some_and(|item| item.subscription.has_from()),
            groups: item.map(|item| item.groups.clone()).unwrap_or_default(),
        }
    }

    /// Runs the job with the owner's nodes: at once, or when they are read or not being changed any more.
    fn with_nodes(&mut self, now: Instant, owner: &Bare, out: &mut Outbox, job: NodesContinuation) {
        if let Some(waiting) = self.pubsub.busy.get_mut(owner) {
            if waiting.len() >= limits::NODE_QUESTIONS {
                return job(self, now, Err(super::change_queue::too_many()), out);
            }
            return waiting.push_back(job);
        }
        if let Some(nodes) = self.pubsub.nodes.get(owner).cloned() {
            return job(self, now, Ok(nodes), out);
        }
        self.pubsub.busy.insert(owner.clone(), VecDeque::from([job]));
        self.read_nodes(owner.clone(), Nodes::new(), out);
    }

    /// Page by page, after the nodes that are here already.
    fn read_nodes(&mut self, owner: Bare, mut nodes: Nodes, out: &mut Outbox) {
        let after = nodes.last_key_value().map(|(name, _)| name.clone());
        self.load(Load::Nodes { owner: owner.clone(), after }, out, move |host, now, result, out| {
            let error = match result {
                Ok(StoreReply::Rows(page)) => {
                    let is_last = page.is_complete || page.rows.is_empty();
                    let rows = page.rows.into_iter();
                    nodes.extend(rows.map(|(name, _, row)| (name, Rc::new(Node::from_element(&row)))));
                    if !is_last {
                        return host.read_nodes(owner, nodes, out);
                    }
                    host.pubsub.nodes.insert(owner.clone(), Rc::new(nodes));
                    None
                }
                Ok(_) => Some(Condition::InternalServerError.into()),
                Err(error) => Some(not_read(error)),
            };
            host.nodes_free(now, &owner, error.as_ref(), out);
        });
    }

    fn nodes_free(&mut self, now: Instant, owner: &Bare, error: Option<&StanzaError>, out: &mut Outbox) {
        let mut waiting = self.pubsub.busy.remove(owner).unwrap_or_default();
        while let Some(job) = waiting.pop_front() {
            match error {
                Some(error) => job(self, now, Err(error.clone()), out),
                None => self.with_nodes(now, owner, out, job),
            }
            if let Some(newer) = self.pubsub.busy.get_mut(owner) {
                newer.append(&mut waiting);
                return;
            }
        }
    }

    /// A removed account loses what it is in the nodes that are in memory or being changed.
    pub(super) fn leave_nodes(&mut self, now: Instant, user: &Bare, out: &mut Outbox) {
        // The store has already changed its nodes; they are read again.
        self.pubsub.nodes.retain(|owner, _| owner != user);
        let mut owners: Vec<Bare> = self.pubsub.busy.keys().cloned().collect();
        let busy = &self.pubsub.busy;
        self.pubsub
            .nodes
            .retain(|owner, nodes| busy.contains_key(owner) || !nodes.values().any(|node| node.names(user)));
        owners.retain(|owner| owner != user);
        for owner in owners {
            self.leave_nodes_of(now, owner, user.clone(), out);
        }
    }

    /// A change on its way may have written the account once more: one node after the other is written without it.
    fn leave_nodes_of(&mut self, now: Instant, owner: Bare, user: Bare, out: &mut Outbox) {
        let of = owner.clone();
        let job = move |host: &mut Host, _: Instant, nodes: Result<Rc<Nodes>, _>, out: &mut Outbox| {
            let Ok(nodes) = nodes else { return };
            let Some((name, node)) = nodes.iter().find(|(_, node)| node.names(&user)) else { return };
            let mut node = Node::clone(node);
            node.remove(&user);
            let name = name.clone();
            host.change_node(&owner.clone(), &name, Some(node), out, move |host, now, result, out| {
                if result.is_ok() {
                    host.leave_nodes_of(now, owner, user, out);
                }
            });
        };
        self.with_nodes(now, &of, out, Box::new(job));
    }

    /// Writes one node, or removes it; at most once in a job of [`with_nodes`](Self::with_nodes).
    fn change_node(
        &mut self,
        owner: &Bare,
        name: &str,
        node: Option<Node>,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static,
    ) {
        self.pubsub.busy.entry(owner.clone()).or_default();
        let (owner, name): (Bare, Box<str>) = (owner.clone(), name.into());
        let config = node.as_ref().map(|node| Box::new(node.element()));
        let change = Change::Node { owner: owner.clone(), node: name.clone(), config };
        self.change(change, out, move |host, now, result, out| {
            if result.is_ok()
                && let Some(nodes) = host.pubsub.nodes.get_mut(&owner)
            {
                let nodes = Rc::make_mut(nodes);
                match node {
                    Some(node) => drop(nodes.insert(name, Rc::new(node))),
                    None => drop(nodes.remove(&name)),
                }
            }
            then(host, now, result.map_err(not_written), out);
            host.nodes_free(now, &owner, None, out);
        });
    }

    /// Changes one node and answers; `then` runs when it is on disk.
    fn change_and_answer(
        &mut self,
        asked: &Rc<PendingRequest>,
        name: &str,
        node: Option<Node>,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, &PendingRequest, &mut Outbox) -> Option<Element> + 'static,
    ) -> PubSubResult {
        let shared = Rc::clone(asked);
        self.change_node(&asked.owner, name, node, out, move |host, now, result, out| match result {
            Ok(()) => {
                let payload = then(host, now, &shared, out);
                host.answer(&shared.iq, Ok(payload), out);
            }
            Err(error) => host.refuse(&shared.iq, &error, out),
        });
        Ok(PubSubReply::Later)
    }

    /// An item of the store, the newest of its node.
    pub(super) fn load_newest(
        &mut self,
        owner: &Bare,
        node: &str,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<Option<Element>, StanzaError>, &mut Outbox) + 'static,
    ) {
        let query = Box::new(ItemQuery::newest());
        let load = Load::Items { owner: owner.clone(), node: node.into(), query };
        self.load(load, out, move |host, now, result, out| {
            let newest = items_of(result).map(|page| page.items.into_iter().next().map(|(_, _, item)| item));
            then(host, now, newest, out);
        });
    }

    /// The same for a requester that may not be allowed to read the node.
    pub(super) fn read_newest(
        &mut self,
        now: Instant,
        owner: &Bare,
        (from, name): (&Jid, &'static str),
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Result<Option<Element>, StanzaError>, &mut Outbox) + 'static,
    ) {
        let (relation, who, owner) = (self.relation(owner, from), from.bare(), owner.clone());
        let user = owner.clone();
        let job =
            move |host: &mut Host, _: Instant, nodes: Result<Rc<Nodes>, StanzaError>, out: &mut Outbox| {
                let may_read = nodes
                    .map(|nodes| nodes.get(name).is_some_and(|node| node.may_read(&who, &relation).is_ok()));
                match may_read {
                    Ok(true) => {
                        host.load_newest(&user, name, out, |host, _, newest, out| then(host, newest, out));
                    }
                    Ok(false) => then(host, Ok(None), out),
                    Err(error) => then(host, Err(error), out),
                }
            };
        self.with_nodes(now, &owner, out, Box::new(job));
    }

    /// Names of an owner's nodes that this address may know of, with their titles (XEP-0060 §5.2).
    pub(super) fn list_nodes(
        &mut self,
        now: Instant,
        owner: &Bare,
        from: &Jid,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Result<Vec<(Box<str>, Box<str>)>, StanzaError>, &mut Outbox) + 'static,
    ) {
        let (relation, who) = (self.relation(owner, from), from.bare());
        let job = move |host: &mut Host, _: Instant, nodes: Result<Rc<Nodes>, _>, out: &mut Outbox| {
            let list = nodes.map(|nodes: Rc<Nodes>| {
                let seen = nodes.iter().filter(|(_, node)| node.may_subscribe(&who, &relation).is_ok());
                seen.map(|(name, node)| (name.clone(), node.config.title.clone())).collect()
            });
            then(host, list, out);
        };
        self.with_nodes(now, owner, out, Box::new(job));
    }

    /// The description of a node (§5.3 and §5.4): its `<query/>`.
    pub(super) fn describe_node(
        &mut self,
        now: Instant,
        owner: &Bare,
        (from, name): (&Jid, &str),
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Result<Element, StanzaError>, &mut Outbox) + 'static,
    ) {
        let (relation, who, name) = (self.relation(owner, from), from.bare(), Box::<str>::from(name));
        let job = move |host: &mut Host, _: Instant, nodes: Result<Rc<Nodes>, _>, out: &mut Outbox| {
            let info = nodes.and_then(|nodes| {
                let node = node_of(&nodes, &name)?;
                node.may_subscribe(&who, &relation)?;
                let leaf =
                    Element::new("identity", ns::DISCO_INFO).with("category", "pubsub").with("type", "leaf");
                let feature = Element::new("feature", ns::DISCO_INFO).with("var", ns::PUBSUB);
                Ok(Element::new("query", ns::DISCO_INFO)
                    .with("node", name)
                    .child(leaf)
                    .child(feature)
                    .child(node.config.meta_data()))
            });
            then(host, info, out);
        };
        self.with_nodes(now, owner, out, Box::new(job));
    }
}

/// An unreadable node is an error, and never an empty node.
pub(super) fn items_of(result: Result<StoreReply, StoreFailure>) -> Result<ItemPage, StanzaError> {
    match result {
        Ok(StoreReply::Items(page)) => Ok(page),
        Ok(_) => Err(Condition::InternalServerError.into()),
        Err(error) => Err(not_read(error)),
    }
}

/// All items of a node that is small by nature, the oldest first: a part of them is an error.
pub(super) fn whole(result: Result<StoreReply, StoreFailure>) -> Result<Vec<ItemRow>, StanzaError> {
    let page = items_of(result)?;
    if page.is_cut {
        let text = "the node has more than can be read at once: take items back";
        return Err(StanzaError::new(Condition::ResourceConstraint, text));
    }
    Ok(page.items.into_iter().rev().collect())
}

fn not_read(error: StoreFailure) -> StanzaError {
    match error {
        StoreFailure::Unavailable => {
            StanzaError::new(Condition::ResourceConstraint, "cannot be read now: try again later")
        }
        StoreFailure::Beyond => {
            StanzaError::new(Condition::ResourceConstraint, "more than can be read at once")
        }
        StoreFailure::NotFound => Condition::InternalServerError.into(),
    }
}
