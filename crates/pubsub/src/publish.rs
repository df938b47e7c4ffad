//! Publishing, taking back and reading items (XEP-0060 §6.5, §7).
//!
//! A write goes to the store first; only its success notifies the audience, tells other features of the account and answers the
//! request, in that order. An item whose node does not exist is written after its node, and not at all without it.

use std::cell::RefCell;
use std::rc::Rc;

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, ns};

use super::context::PubSubContext;
use super::interface::{FeatureRequest, PubSubEffect};
use super::items_page::ItemsPage;
use super::node::{FormFault, Node, NodeAffiliation, NodeConfig, Nodes};
use super::notify::EventSource;
use super::request::{PendingRequest, PubSubResult};
use super::state::{NodeGoal, NodeWrite, PendingRead, PendingWrite, PubSubRead, PubSubWrite};
use super::store::{NodeChange, NodeLoad, WriteFailure, kept};
use super::{fault, node_of, unsupported};
use crate::limits;

/// Nodes that are kept like items but are none of these: private data (XEP-0049), the used part of a quota,
/// and vCards (XEP-0054). A client that could publish there would write into another feature's data.
const RESERVED: [&str; 3] = ["private:", "quota:", "vcard-temp"];

/// Checks the name of a new node: it does not reach data of features that the store keeps as items.
pub(crate) fn name_is_free(name: &str) -> Result<(), StanzaError> {
    if name.len() > limits::NODE_NAME || RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
        let text = "a node cannot have that name: choose another";
        return Err(StanzaError::new(Condition::NotAcceptable, text));
    }
    Ok(())
}

/// Something of the server's own that is published for an account: the copy of an avatar, of bookmarks.
pub struct Publication {
    /// The name of the node.
    pub node: &'static str,
    /// The id of the item.
    pub id: Box<str>,
    /// The one child of the item.
    pub payload: Element,
    /// The fields of the form that configures a node created by publishing.
    pub options: &'static [(&'static str, &'static str)],
}

impl Publication {
    /// The node, as it is made when there is none.
    fn node(&self) -> Node {
        let config = NodeConfig::default().with_form(&submit(self.options), "publish-options", true);
        Node { config: config.unwrap_or_default(), ..Node::default() }
    }

    /// The item in the form that the store has.
    fn item(&self) -> Element {
        Element::new("item", ns::PUBSUB).with("id", self.id.clone()).child(self.payload.clone())
    }

    /// The writes of the item into an account without such a node, for an import.
    pub fn changes(&self, owner: &Bare, at: Instant) -> [NodeChange; 2] {
        let node = self.node();
        let config = Some(Box::new(node.element()));
        let item = kept(owner, (self.node, &self.id), self.item(), at, node.config.keep());
        [NodeChange::Node { owner: owner.clone(), node: self.node.into(), config }, item]
    }
}

/// An item that is being published in a node. It carries all that follows the write, as the node may change
/// or go meanwhile.
pub(crate) struct ItemWrite {
    /// The node as it was when the request was checked: its audience and options are those that the publisher
    /// saw.
    source: EventSource,
    id: Box<str>,
    item: Element,
    pub(crate) goal: WriteGoal,
}

/// The purpose of an [`ItemWrite`].
pub(crate) enum WriteGoal {
    /// Answer the request. `is_new`: the node was made for the item. `payload` and `name` are for the copy of bookmarks, `answer` for the client.
    Reply {
        asked: Rc<PendingRequest>,
        answer: Element,
        payload: Option<Element>,
        is_new: bool,
        name: Box<str>,
    },
    /// Go on with the feature that published.
    Feature(FeatureRequest),
}

impl WriteGoal {
    /// The item is published, or cannot be.
    pub(crate) fn finish(self, result: Result<(), StanzaError>, effects: &mut Vec<PubSubEffect>) {
        effects.push(match self {
            WriteGoal::Feature(then) => PubSubEffect::Done(then, result),
            WriteGoal::Reply { asked, answer, payload, is_new, name } => match result {
                // Bookmarks that another publisher wrote are mirrored when the owner changes them next.
                Ok(()) if asked.by.relation.is_owner => {
                    let answer = Some(answer);
                    PubSubEffect::MirrorBookmarks { asked, node: name, payload, is_new, answer }
                }
                result => PubSubEffect::Reply(asked, result.map(|()| Some(answer))),
            },
        });
    }
}

impl ItemWrite {
    /// Writes the item into a node that is there. Notifications are sent only after the item is stored.
    pub(crate) fn begin(self, now: Instant) -> Vec<PubSubEffect> {
        // A node that keeps no items has nothing to write; it notifies only.
        let EventSource { owner, name, node, .. } = &self.source;
        if !node.config.persists {
            let mut effects = Vec::new();
            self.handle_written(Ok(()), &mut effects);
            return effects;
        }
        let change = NodeChange::Item {
            owner: owner.clone(),
            node: name.clone(),
            id: self.id.clone(),
            item: Some(Box::new(self.item.clone())),
            at: now,
            keep: node.config.keep(),
        };
        vec![PubSubEffect::Write(change, Box::new(PubSubWrite(PendingWrite::Item(self))))]
    }

    /// Into a node that is made for it (§7.1.4).
    fn begin_with_node(self) -> PubSubEffect {
        let EventSource { owner, name, node, .. } = self.source.clone();
        let node = Some(Node::clone(&node));
        NodeWrite { owner, name, node, goal: NodeGoal::Publish(Box::new(self)) }.begin()
    }

    /// The item is on disk (or need not be), or could not be written.
    pub(crate) fn handle_written(self, result: Result<(), StanzaError>, effects: &mut Vec<PubSubEffect>) {
        let ItemWrite { source, item, goal, .. } = self;
        if result.is_ok() {
            let (owner, node) = (source.owner.clone(), source.name.clone());
            let event = event_item(&item, &source.node.config);
            effects.extend(source.notify_item(event));
            // Avatars and bookmarks are an account's; a service has nodes for all kinds of items.
            if let Some(payload) = item.first().filter(|_| owner.local().is_some()) {
                let payload = payload.clone();
                effects.push(PubSubEffect::Published { owner, node, payload });
            }
        }
        goal.finish(result, effects);
    }
}

impl Publication {
    /// Begins a publication for the account itself, by another feature of it.
    pub(crate) fn begin(
        self,
        now: Instant,
        owner: &Bare,
        nodes: &Nodes,
        then: FeatureRequest,
    ) -> Vec<PubSubEffect> {
        let known = nodes.get(self.node).cloned();
        let is_new = known.is_none();
        let node = known.unwrap_or_else(|| Rc::new(self.node()));
        let item = ItemWrite {
            source: EventSource::new(owner, self.node, nodes, node),
            item: self.item(),
            id: self.id,
            goal: WriteGoal::Feature(then),
        };
        if is_new { vec![item.begin_with_node()] } else { item.begin(now) }
    }
}

/// An item that is being retracted.
pub(crate) struct ItemRemoval {
    pub(crate) source: EventSource,
    pub(crate) id: Box<str>,
    /// The audience of the node is notified.
    pub(crate) is_told: bool,
    pub(crate) goal: RemovalGoal,
}

/// The purpose of an [`ItemRemoval`].
pub(crate) enum RemovalGoal {
    /// Answer the request.
    Reply(Rc<PendingRequest>),
    /// Go on with the feature that retracted, after the last of its removals.
    Feature(Rc<RefCell<RemovalGroup>>),
}

/// The removals of one request of a feature that are not answered. The last one answers the request, with the first error among them.
pub(crate) struct RemovalGroup {
    left: usize,
    result: Result<(), StanzaError>,
    then: FeatureRequest,
}

impl RemovalGroup {
    pub(crate) fn new(removals: usize, then: FeatureRequest) -> Rc<RefCell<RemovalGroup>> {
        Rc::new(RefCell::new(RemovalGroup { left: removals, result: Ok(()), then }))
    }

    /// One more removal is answered. The effect that answers the request, if it was the last one.
    fn finish_one(&mut self, result: Result<(), StanzaError>) -> Option<PubSubEffect> {
        self.left -= 1;
        if self.result.is_ok() {
            self.result = result;
        }
        (self.left == 0).then(|| PubSubEffect::Done(self.then, self.result.clone()))
    }
}

impl ItemRemoval {
    /// The effect that writes it.
    pub(crate) fn begin(self) -> PubSubEffect {
        PubSubEffect::Write(
            removal(&self.source.owner, &self.source.name, &self.id),
            Box::new(PubSubWrite(PendingWrite::Removal(self))),
        )
    }

    /// The item is gone from the disk, or could not be removed. Only what was removed is told.
    pub(crate) fn handle_written(self, result: Result<(), WriteFailure>, effects: &mut Vec<PubSubEffect>) {
        let name = self.source.name.clone();
        if result.is_ok() && self.is_told {
            effects.extend(self.source.notify_item(retracted(&self.id)));
        }
        effects.push(match (self.goal, result) {
            (RemovalGoal::Feature(group), result) => {
                // To retract an item that is not there is no fault of a feature.
                let result =
                    result.or_else(|failure| if failure.is_absent { Ok(()) } else { Err(failure.error) });
                return effects.extend(group.borrow_mut().finish_one(result));
            }
            (RemovalGoal::Reply(asked), Ok(())) if asked.by.relation.is_owner => {
                let (node, payload, answer) = (name, None, None);
                PubSubEffect::MirrorBookmarks { asked, node, payload, is_new: false, answer }
            }
            (RemovalGoal::Reply(asked), Ok(())) => PubSubEffect::Reply(asked, Ok(None)),
            (RemovalGoal::Reply(asked), Err(failure)) => {
                let not_there = || Condition::ItemNotFound.into();
                PubSubEffect::Reply(asked, Err(if failure.is_absent { not_there() } else { failure.error }))
            }
        });
    }
}

/// Publishes one item (XEP-0060 §7.1), in an order that tells a stranger nothing: right, options, id, payload. A node that is not there is
/// made for its owner.
pub(crate) fn publish(
    context: &mut PubSubContext<'_>,
    asked: &Rc<PendingRequest>,
    part: &Element,
    nodes: &Nodes,
) -> PubSubResult {
    let name = asked.node_name(part)?;
    let mut given = part.elements().filter(|child| child.is("item", ns::PUBSUB));
    let (item, more) = (given.next(), given.next());
    // Several items would be written one by one, so a failure could leave a part of the request done.
    if more.is_some() {
        return Err(fault(Condition::BadRequest, "invalid-payload"));
    }
    let options = asked.iq.first().and_then(|pubsub| pubsub.get("publish-options", ns::PUBSUB));
    let options = options.and_then(|options| options.get("x", ns::DATA));
    let known = nodes.get(&name);
    // §7.1.3.1, before the options: a stranger learns nothing of the configuration.
    if known.is_some_and(|node| !node.may_publish(&asked.by.user, &asked.by.relation)) {
        return Err(Condition::Forbidden.into());
    }
    // XEP-0248 §4.1: a collection has no items.
    if known.is_some_and(|node| node.collection.is_some()) {
        return Err(unsupported("publish"));
    }
    // §7.1.5: with a known node the options are a precondition, with a new one its configuration.
    let (node, is_new) = match known {
        Some(node) => {
            meets(node, options)?;
            (Rc::clone(node), false)
        }
        None => (Rc::new(new_node(asked, &name, nodes, options)?), true),
    };
    let id: Box<str> = match checked_id(item)? {
        Some(id) => id.into(),
        None => context.name(),
    };
    let item = item_to_keep(item, &id, asked, &node.config)?;
    let goal = WriteGoal::Reply {
        asked: Rc::clone(asked),
        answer: published(&name, &id),
        payload: item.first().cloned(),
        is_new,
        name: name.clone(),
    };
    let source = EventSource::new(&asked.owner, &name, nodes, node);
    let item = ItemWrite { source, id, item, goal };
    Ok(if is_new { vec![item.begin_with_node()] } else { item.begin(context.now) })
}

/// Retracts one item (XEP-0060 §7.2).
pub(crate) fn retract(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let name = asked.node_name(part)?;
    let node = Rc::clone(node_of(nodes, &name)?);
    let mut given = part.elements().filter(|child| child.is("item", ns::PUBSUB));
    // §7.2.3.4.
    let (Some(item), None) = (given.next(), given.next()) else {
        return Err(fault(Condition::BadRequest, "item-required"));
    };
    let id = checked_id(Some(item))?;
    let id: Box<str> = id.ok_or_else(|| fault(Condition::BadRequest, "item-required"))?.into();
    // §7.2.3.1 and §4.1: a `publish-only` affiliate may not delete.
    if !matches!(asked.affiliation(&node), NodeAffiliation::Owner | NodeAffiliation::Publisher) {
        return Err(Condition::Forbidden.into());
    }
    // A node without items has none to retract.
    if !node.config.persists || node.collection.is_some() {
        return Err(unsupported("persistent-items"));
    }
    let is_told = matches!(part.attr("notify"), Some("1" | "true")) || node.config.notify_retract;
    let source = EventSource::new(&asked.owner, &name, nodes, node);
    let goal = RemovalGoal::Reply(Rc::clone(asked));
    Ok(vec![ItemRemoval { source, id, is_told, goal }.begin()])
}

/// Reads items of a node (XEP-0060 §6.5).
pub(crate) fn items(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let name = asked.node_name(part)?;
    let node = node_of(nodes, &name)?;
    node.may_read(&asked.by.user, &asked.by.relation)?;
    // XEP-0248 §6.2.3: the items of all nodes below it may be many.
    if node.collection.is_some() {
        return Err(unsupported("retrieve-items"));
    }
    if !node.config.persists {
        return Err(unsupported("persistent-items"));
    }
    let page = ItemsPage::read(part, asked.iq.first())?;
    let query = Box::new(page.query.clone());
    let load = NodeLoad::Items { owner: asked.owner.clone(), node: name.clone(), query };
    Ok(vec![PubSubEffect::Load(load, PubSubRead(PendingRead::Items { asked: Rc::clone(asked), name, page }))])
}

/// The change that removes an item.
fn removal(owner: &Bare, node: &str, id: &str) -> NodeChange {
    // The removal trims no other item, so `keep` is as large as it can be; the time is not used.
    let at = Instant::from_micros(0);
    NodeChange::Item {
        owner: owner.clone(),
        node: node.into(),
        id: id.into(),
        item: None,
        at,
        keep: u32::MAX,
    }
}

/// The event by which subscribers learn that an item is gone (§7.2.2.1).
fn retracted(id: &str) -> Element {
    Element::new("retract", ns::PUBSUB_EVENT).with("id", id)
}

/// The item as a notification has it: without payload if the node is configured so.
pub(crate) fn event_item(item: &Element, config: &NodeConfig) -> Element {
    let payload = item.elements().filter(|_| config.with_payload).cloned();
    Element::new("item", ns::PUBSUB_EVENT)
        .with_opt("id", item.attr("id"))
        .with_opt("publisher", item.attr("publisher"))
        .children(payload)
}

/// The answer to a publication: the node and the id, which the node may have chosen (§7.1.2).
fn published(node: &str, id: &str) -> Element {
    let item = Element::new("item", ns::PUBSUB).with("id", id);
    let publish = Element::new("publish", ns::PUBSUB).with("node", node).child(item);
    Element::new("pubsub", ns::PUBSUB).child(publish)
}

/// A submitted form with these fields, as a client would send it: the server's own publications take the
/// clients' way.
fn submit(fields: &[(&'static str, &'static str)]) -> Element {
    Element::new("x", ns::DATA).with("type", "submit").children(fields.iter().map(|(var, value)| {
        let value = Element::new("value", ns::DATA).text(*value);
        Element::new("field", ns::DATA).with("var", *var).child(value)
    }))
}

/// Checks the options that a publisher relies on (§7.1.5): the node must be configured so already, as publishing never changes it.
fn meets(node: &Node, options: Option<&Element>) -> Result<(), StanzaError> {
    let Some(form) = options else { return Ok(()) };
    match node.config.with_form(form, "publish-options", true) {
        // Every field that the form has must be as it is; fields that it lacks do not matter.
        Ok(wanted) if wanted == node.config => Ok(()),
        Err(FormFault::Malformed) => Err(Condition::BadRequest.into()),
        _ => Err(fault(Condition::Conflict, "precondition-not-met")),
    }
}

/// The node that is made for an item, with the publish options as its configuration. Only owners of accounts make nodes by publishing
/// (XEP-0163 §3).
fn new_node(
    asked: &PendingRequest,
    name: &str,
    nodes: &Nodes,
    options: Option<&Element>,
) -> Result<Node, StanzaError> {
    if !asked.by.relation.is_owner || asked.is_of_service() {
        // §7.1.3.3: a service makes no nodes by publishing, and an account only for its owner.
        return Err(Condition::ItemNotFound.into());
    }
    name_is_free(name)?;
    there_is_room(nodes)?;
    let config = match options.map(|form| NodeConfig::default().with_form(form, "publish-options", true)) {
        None => NodeConfig::default(),
        Some(Ok(config)) => config,
        Some(Err(FormFault::Malformed)) => return Err(Condition::BadRequest.into()),
        Some(Err(_)) => return Err(fault(Condition::Conflict, "precondition-not-met")),
    };
    Ok(Node { config, ..Node::default() })
}

/// Checks the number of nodes of an account: all their configurations are in memory together.
pub(crate) fn there_is_room(nodes: &Nodes) -> Result<(), StanzaError> {
    if nodes.len() < limits::NODES {
        return Ok(());
    }
    Err(StanzaError::new(Condition::ResourceConstraint, "the account has too many nodes: delete some"))
}

/// The id that the publisher gave; `None`: the node chooses one (§7.1.2).
fn checked_id(item: Option<&Element>) -> Result<Option<&str>, StanzaError> {
    let id = item.and_then(|item| item.attr("id")).filter(|id| !id.is_empty());
    if id.is_some_and(|id| id.len() > limits::NODE_NAME) {
        return Err(StanzaError::new(Condition::NotAcceptable, "an item's id is too long"));
    }
    Ok(id)
}

/// The item as it is stored and told: it has to have exactly the parts that the node wants (§7.1.3).
fn item_to_keep(
    item: Option<&Element>,
    id: &str,
    asked: &PendingRequest,
    config: &NodeConfig,
) -> Result<Element, StanzaError> {
    let wants_payload = config.persists || config.with_payload;
    let Some(item) = item else {
        let is_bare_event = !wants_payload;
        let none = Element::new("item", ns::PUBSUB).with("id", id);
        return if is_bare_event { Ok(none) } else { Err(fault(Condition::BadRequest, "item-required")) };
    };
    match (item.elements().count(), wants_payload) {
        (1, true) | (0, false) => {}
        (0, true) => return Err(fault(Condition::BadRequest, "payload-required")),
        (_, false) if !config.persists && !config.with_payload => {
            return Err(fault(Condition::BadRequest, "item-forbidden"));
        }
        _ => return Err(fault(Condition::BadRequest, "invalid-payload")),
    }
    // A publisher that need not be the owner gets the item's id.
    let is_told = !asked.by.relation.is_owner || asked.is_of_service();
    let publisher = is_told.then(|| asked.by.user.as_str());
    let item = Element::new("item", ns::PUBSUB)
        .with("id", id)
        .with_opt("publisher", publisher)
        .children(item.first().cloned());
    if item.to_bytes(ns::CLIENT).len() > limits::ITEM {
        // §7.1.3.4.
        return Err(fault(Condition::NotAcceptable, "payload-too-big"));
    }
    Ok(item)
}
