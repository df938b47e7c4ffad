//! The parts of a host that publish-subscribe reads: the relation of a requester to an owner depends on rosters, and the
//! audience of a node on the features of clients.

use std::rc::Rc;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::StanzaError;
use xmpp::{Bare, Element, Jid, ns};

use super::super::account_memory::AccountMemory;
use super::super::caps::Caps;
use super::super::{Host, HostSettings, Outbox};
use super::node::{Nodes, Relation};
use super::node_of;

/// A view of the host, for one event.
pub(in super::super) struct PubSubContext<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a HostSettings,
    pub(super) accounts: &'a AccountMemory,
    pub(super) caps: &'a Caps,
    pub(super) rng: &'a mut Rng,
}

/// The account that asks for something, and its relation to the owner of the nodes at that moment.
pub(super) struct Requester {
    pub(super) who: Bare,
    pub(super) relation: Relation,
}

/// The nodes of an owner, as a requester may see them.
pub(crate) struct NodesView {
    pub(super) nodes: Rc<Nodes>,
    pub(super) by: Requester,
}

/// The continuation of another feature that gets the nodes.
pub(crate) type ViewContinuation = Box<dyn FnOnce(&mut Host, Result<NodesView, StanzaError>, &mut Outbox)>;

impl PubSubContext<'_> {
    /// The requester's relation to the owner, whose account is in memory.
    pub(super) fn relation(&self, owner: &Bare, who: &Jid) -> Relation {
        let who = who.bare();
        let item = self.accounts.data(owner).and_then(|data| data.contact(&who));
        Relation {
            // A service belongs to no account; administrators of the server own all of its nodes.
            is_owner: who == *owner || (owner.local().is_none() && self.settings.admins.contains(&who)),
            has_presence: item.is_some_and(|item| item.subscription.has_from()),
            groups: item.map(|item| item.groups.clone()).unwrap_or_default(),
        }
    }

    /// The sender of a request with its relation to the owner.
    pub(super) fn requester(&self, owner: &Bare, from: &Jid) -> Requester {
        Requester { who: from.bare(), relation: self.relation(owner, from) }
    }

    /// An unpredictable name of a node or an item.
    pub(super) fn name(&mut self) -> Box<str> {
        super::super::token(self.rng)[..16].into()
    }
}

impl NodesView {
    /// True if there is such a node, and the requester may read it.
    pub(crate) fn may_read(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.may_read(&self.by.who, &self.by.relation).is_ok())
    }

    /// Names of the nodes that the requester may know of, with their titles (XEP-0060 §5.2).
    pub(crate) fn list(&self) -> impl Iterator<Item = (&str, &str)> {
        let seen = |node: &super::node::Node| node.may_subscribe(&self.by.who, &self.by.relation).is_ok();
        let nodes = self.nodes.iter().filter(move |(_, node)| seen(node));
        nodes.map(|(name, node)| (&**name, &*node.config.title))
    }

    /// The description of a node (§5.3 and §5.4): its `<query/>`.
    pub(crate) fn describe(&self, name: &str) -> Result<Element, StanzaError> {
        let node = node_of(&self.nodes, name)?;
        node.may_subscribe(&self.by.who, &self.by.relation)?;
        let leaf = Element::new("identity", ns::DISCO_INFO).with("category", "pubsub").with("type", "leaf");
        let feature = Element::new("feature", ns::DISCO_INFO).with("var", ns::PUBSUB);
        Ok(Element::new("query", ns::DISCO_INFO)
            .with("node", name)
            .child(leaf)
            .child(feature)
            .child(node.config.meta_data()))
    }

    /// The item of service discovery for each node of [`NodesView::list`].
    pub(crate) fn items<'a>(&'a self, owner: &'a Bare) -> impl Iterator<Item = Element> + 'a {
        self.list().map(|(name, title)| {
            let title = (!title.is_empty()).then_some(title);
            let item = Element::new("item", ns::DISCO_ITEMS).with("jid", owner.as_str());
            item.with("node", name).with_opt("name", title)
        })
    }
}
