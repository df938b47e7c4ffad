//! The parts of a host that publish-subscribe reads: the relation of a requester to an owner depends on rosters, and the
//! audience of a node on the features of clients.

use std::collections::HashSet;
use std::rc::Rc;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::StanzaError;
use xmpp::{Bare, Element, Jid, ns};

use super::node::{Node, Nodes, Relation};
use super::{collection, node_of};

/// The accounts, contacts and clients of a host, as nodes need them. An owner whose account is not in memory has no contacts.
pub trait Entities {
    /// The relation of an account, of this server or another, to an owner of nodes.
    fn relation(&self, owner: &Bare, user: &Bare) -> Relation;

    /// True if the domain has accounts of this server.
    fn is_local(&self, domain: &str) -> bool;

    /// True for an anonymous account: nothing of it is stored, and it has no nodes.
    fn is_anonymous(&self, user: &Bare) -> bool;

    /// The contacts that see the owner's presence, without those that it has blocked.
    fn watchers(&self, owner: &Bare) -> Vec<&Bare>;

    /// The features of clients with this hash (XEP-0115), if they are known.
    fn abilities_of(&self, ver: &str) -> Option<Rc<HashSet<Box<str>>>>;

    /// The clients of an account that are here, with the hashes of their features.
    fn clients_of(&self, account: &Bare) -> Vec<(Jid, Rc<str>)>;

    /// The clients of an account that are here and have this feature.
    fn clients_with(&self, account: &Bare, feature: &str) -> Vec<&Jid>;
}

/// A view of the host, for one event.
pub struct PubSubContext<'a> {
    /// The current time.
    pub now: Instant,
    /// The host's accounts, contacts and clients.
    pub entities: &'a dyn Entities,
    /// Makes the names of nodes and items that have none.
    pub rng: &'a mut Rng,
}

/// The account that asks for something, and its relation to the owner of the nodes at that moment.
pub(crate) struct Requester {
    pub(crate) user: Bare,
    pub(crate) relation: Relation,
}

/// The nodes of an owner, as a requester may see them.
pub struct NodesView {
    pub(crate) nodes: Rc<Nodes>,
    pub(crate) by: Requester,
}

impl PubSubContext<'_> {
    /// The requester's relation to the owner, whose account is in memory.
    pub(crate) fn relation(&self, owner: &Bare, user: &Jid) -> Relation {
        self.entities.relation(owner, &user.bare())
    }

    /// The sender of a request with its relation to the owner.
    pub(crate) fn requester(&self, owner: &Bare, from: &Jid) -> Requester {
        Requester { user: from.bare(), relation: self.relation(owner, from) }
    }

    /// An unpredictable name of a node or an item.
    pub(crate) fn name(&mut self) -> Box<str> {
        format!("{:016x}", self.rng.next_u64()).into()
    }
}

impl NodesView {
    /// True if there is such a node, and the requester may read it.
    pub fn may_read(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.may_read(&self.by.user, &self.by.relation).is_ok())
    }

    /// The nodes that the requester may know of (XEP-0060 §5.2).
    fn list(&self) -> impl Iterator<Item = (&str, &Rc<Node>)> {
        let seen = |node: &Node| node.may_subscribe(&self.by.user, &self.by.relation).is_ok();
        self.nodes.iter().filter(move |(_, node)| seen(node)).map(|(name, node)| (&**name, node))
    }

    /// The nodes of [`NodesView::list`] that are in this collection; `None`: the root (XEP-0248 §5.2).
    fn list_in<'a>(&'a self, collection: Option<&'a str>) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_in = move |node: &Node| match collection {
            Some(name) => node.parent.as_deref() == Some(name),
            None => collection::is_in_root(&self.nodes, node),
        };
        let nodes = self.list().filter(move |(_, node)| is_in(node));
        nodes.map(|(name, node)| (name, &*node.config.title))
    }

    /// The description of a node (§5.3 and §5.4): its `<query/>`.
    pub fn describe(&self, name: &str) -> Result<Element, StanzaError> {
        let node = node_of(&self.nodes, name)?;
        node.may_subscribe(&self.by.user, &self.by.relation)?;
        let kind = if node.collection.is_some() { "collection" } else { "leaf" };
        let identity = Element::new("identity", ns::DISCO_INFO).with("category", "pubsub").with("type", kind);
        let feature = Element::new("feature", ns::DISCO_INFO).with("var", ns::PUBSUB);
        Ok(Element::new("query", ns::DISCO_INFO)
            .with("node", name)
            .child(identity)
            .child(feature)
            .child(node.config.meta_data()))
    }

    /// The item of service discovery for each node that the requester may know of and that is in no collection.
    pub fn items<'a>(&'a self, owner: &'a Bare) -> impl Iterator<Item = Element> + 'a {
        self.items_in(owner, None)
    }

    /// The items of a collection; `None`: those of the root.
    pub(crate) fn items_in<'a>(
        &'a self,
        owner: &'a Bare,
        collection: Option<&'a str>,
    ) -> impl Iterator<Item = Element> + 'a {
        self.list_in(collection).map(|(name, title)| {
            let title = (!title.is_empty()).then_some(title);
            let item = Element::new("item", ns::DISCO_ITEMS).with("jid", owner.as_str());
            item.with("node", name).with_opt("name", title)
        })
    }
}
