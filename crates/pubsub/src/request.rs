//! A request with `<pubsub/>` (XEP-0060): its effects on the nodes of an owner. `state` calls
//! [`PendingRequest::perform`] when the owner's nodes are in memory; `publish`, `subscribe` and `owner` have
//! the requests of publishers, subscribers and owners.
//!
//! A request is answered exactly once: at once with `reply` or an error, or by the goal of the write that it
//! begins.

use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, ns};

use super::context::{PubSubContext, Requester};
use super::interface::PubSubEffect;
use super::node::{Node, NodeAffiliation, Nodes};
use super::node_batch::{NodeBatch, NodeStage};
use super::presences::SubscriberPresences;
use super::state::{NodeGoal, NodeWrite};
use super::{fault, node_of, owner, publish, subscribe};

/// A request while the store is asked. Shared by its effects, the last of which answers it.
pub struct PendingRequest {
    /// The request as it came, for the answer.
    pub(crate) iq: Element,
    /// The account or service whose nodes it is about: its `to`.
    pub(crate) owner: Bare,
    /// The sender, and its relation to the owner when the request began.
    pub(crate) by: Requester,
}

/// The effects of a request, or the error that answers it.
pub(crate) type PubSubResult = Result<Vec<PubSubEffect>, StanzaError>;

impl PendingRequest {
    /// The request as it came, for the answer.
    pub fn iq(&self) -> &Element {
        &self.iq
    }

    /// The account or service whose nodes it is about: its `to`.
    pub fn owner(&self) -> &Bare {
        &self.owner
    }

    /// The child of `<pubsub/>` that names the action. Others, as `<configure/>` beside `<create/>`, belong to it and follow it.
    fn part(&self, ns: &'static str) -> Option<&Element> {
        self.iq.first()?.elements().find(|child| child.ns() == ns)
    }

    pub(crate) fn node_name(&self, part: &Element) -> Result<Box<str>, StanzaError> {
        let name = part.attr("node").filter(|name| !name.is_empty());
        Ok(name.ok_or_else(|| fault(Condition::BadRequest, "nodeid-required"))?.into())
    }

    /// The requester's affiliation with a node.
    pub(crate) fn affiliation(&self, node: &Node) -> NodeAffiliation {
        node.affiliation(&self.by.user, &self.by.relation)
    }

    /// The node that a part names, for requests that only its owner may make.
    pub(crate) fn own_node<'a>(
        &self,
        part: &Element,
        nodes: &'a Nodes,
    ) -> Result<(Box<str>, &'a Rc<Node>), StanzaError> {
        let name = self.node_name(part)?;
        let node = node_of(nodes, &name)?;
        match self.affiliation(node) {
            NodeAffiliation::Owner => Ok((name, node)),
            _ => Err(Condition::Forbidden.into()),
        }
    }

    /// Dispatches by the namespace (`#owner` or the other), by set or get, and by the name of the action.
    /// A request that is not in the list is `bad-request`.
    pub(crate) fn perform(
        self: &Rc<Self>,
        context: &mut PubSubContext<'_>,
        presences: &mut SubscriberPresences,
        nodes: &Rc<Nodes>,
    ) -> PubSubResult {
        let Some(payload) = self.iq.first() else { return Err(Condition::BadRequest.into()) };
        let is_set = self.iq.attr("type") == Some("set");
        let space = if payload.ns() == ns::PUBSUB { ns::PUBSUB } else { ns::PUBSUB_OWNER };
        let Some(part) = self.part(space) else { return Err(Condition::BadRequest.into()) };
        match (space == ns::PUBSUB_OWNER, is_set, part.name()) {
            (false, true, "publish") => publish::publish(context, self, part, nodes),
            (false, true, "retract") => publish::retract(self, part, nodes),
            (false, false, "items") => publish::items(self, part, nodes),
            (false, true, "create") => owner::create(context, self, part, nodes),
            (false, true, "subscribe") => subscribe::subscribe(context, presences, self, part, nodes),
            (false, true, "unsubscribe") => subscribe::unsubscribe(self, part, nodes),
            (false, false, "subscriptions") => subscribe::own_subscriptions(self, part, nodes),
            (false, false, "affiliations") => subscribe::own_affiliations(self, part, nodes),
            (false, false, "options") => subscribe::options(context, self, part, nodes),
            (false, true, "options") => subscribe::set_options(context, presences, self, part, nodes),
            (false, false, "default") => subscribe::default_options(context, self, part, nodes),
            (true, false, "configure") => owner::configuration(self, part, nodes),
            (true, false, "default") => owner::default_configuration(self),
            (true, true, "configure") => owner::configure(self, part, nodes),
            (true, true, "delete") => owner::delete(self, part, nodes),
            (true, true, "purge") => owner::purge(self, part, nodes),
            (true, false, "affiliations") => owner::affiliations(self, part, nodes),
            (true, false, "subscriptions") => owner::subscriptions(self, part, nodes),
            (true, true, "collection") => owner::set_association(self, part, nodes),
            (true, true, "affiliations") => owner::set_affiliations(self, part, nodes),
            (true, true, "subscriptions") => owner::set_subscriptions(self, part, nodes),
            _ => Err(Condition::BadRequest.into()),
        }
    }

    /// The answer needs nothing of the store.
    pub(crate) fn reply(self: &Rc<Self>, payload: Option<Element>) -> PubSubResult {
        Ok(vec![PubSubEffect::Reply(Rc::clone(self), Ok(payload))])
    }

    /// Writes one node; `None` deletes it. When it is on disk, the effects come, and then the answer with
    /// `payload`. A write that fails is answered by an error, without the effects.
    pub(crate) fn write(
        self: &Rc<Self>,
        name: Box<str>,
        node: Option<Node>,
        effects: Vec<PubSubEffect>,
        payload: Option<Element>,
    ) -> PubSubResult {
        let goal = NodeGoal::Reply { asked: Rc::clone(self), effects, payload };
        Ok(vec![NodeWrite { owner: self.owner.clone(), name, node, goal }.begin()])
    }

    /// Writes several nodes, all of the first stage before the second one. It is answered like [`PendingRequest::write`].
    pub(crate) fn write_all(
        self: &Rc<Self>,
        stages: (NodeStage, NodeStage),
        effects: Vec<PubSubEffect>,
        payload: Option<Element>,
    ) -> PubSubResult {
        let goal = NodeGoal::Reply { asked: Rc::clone(self), effects, payload };
        let (first, then) = stages;
        let stages = if first.is_empty() { (then, first) } else { (first, then) };
        Ok(NodeBatch::begin(&self.owner, stages, goal))
    }
}
