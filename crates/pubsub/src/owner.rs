//! The owner's use cases: create, configure, purge and delete nodes, and manage affiliations and subscriptions (XEP-0060 §8).
//!
//! `request` calls these functions with the nodes of one owner. Each checks the right of the requester and the request,
//! and returns the write of the changed node with the notifications that follow it (`PendingRequest::write`), or the
//! answer.

use std::collections::BTreeSet;
use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::collection::{self, AssociationChange, CollectionForm, NodeChanges};
use super::context::PubSubContext;
use super::interface::PubSubEffect;
use super::node::{FormFault, Node, NodeAffiliation, Nodes};
use super::node_batch::NodeStage;
use super::notify::{EventKind, EventSource, send_event};
use super::options::{NodeSubscription, Subscriber};
use super::publish::{name_is_free, there_is_room};
use super::request::{PendingRequest, PubSubResult};
use super::state::{NodeGoal, NodeWrite, PendingWrite, PubSubWrite};
use super::store::NodeChange;
use super::{fault, service, unsupported};
use crate::limits;

/// The error for a form of an owner.
fn wrong(form: FormFault) -> StanzaError {
    match form {
        FormFault::Malformed | FormFault::Unknown => Condition::BadRequest.into(),
        FormFault::Value => {
            StanzaError::new(Condition::NotAcceptable, "a node cannot be configured with such a value")
        }
    }
}

/// Creates a node (XEP-0060 §8.1): the account itself, or at a service each account of this server, which becomes the owner.
pub(crate) fn create(
    context: &mut PubSubContext<'_>,
    asked: &Rc<PendingRequest>,
    part: &Element,
    nodes: &Nodes,
) -> PubSubResult {
    let is_of_service = asked.is_of_service();
    // At a service each account of this server may have nodes, up to a number of its own.
    let may =
        asked.by.relation.is_owner || (is_of_service && context.entities.is_local(asked.by.user.domain()));
    if !may {
        return Err(Condition::Forbidden.into());
    }
    let given = part.attr("node").filter(|name| !name.is_empty());
    let name: Box<str> = given.map_or_else(|| context.name(), Box::from);
    if nodes.contains_key(&name) {
        // §8.1.3: a node of that name is there already.
        return Err(Condition::Conflict.into());
    }
    name_is_free(&name)?;
    if is_of_service {
        service::there_is_room(nodes, &asked.by.user)?;
    } else {
        there_is_room(nodes)?;
    }
    // §8.1.3: creation and configuration in one request, which fails as a whole.
    let form = asked.iq.first().and_then(|pubsub| pubsub.get("configure", ns::PUBSUB));
    let form = form.and_then(|configure| configure.get("x", ns::DATA));
    let config = match form {
        Some(form) => asked.default_config().with_form(form, "node_config", false).map_err(wrong)?,
        None => asked.default_config(),
    };
    let mut node = Node { config, ..Node::default() };
    if is_of_service {
        service::is_possible(&node.config)?;
        node.affiliations.push((asked.by.user.clone(), NodeAffiliation::Owner));
    }
    let fields = form.map(|form| collection_form(asked, form)).transpose()?.unwrap_or_default();
    let (node, children) = fields.apply(asked, nodes, (&name, node))?;
    // §8.1.1: the answer has the name only if the client gave none.
    let create = given.is_none().then(|| {
        let create = Element::new("create", ns::PUBSUB).with("node", name.clone());
        Element::new("pubsub", ns::PUBSUB).child(create)
    });
    let mut effects = told_in_collections(asked, nodes, (&name, &node), |name| {
        Element::new("create", ns::PUBSUB_EVENT).with("node", name)
    });
    if !children.is_empty() {
        let mut after = nodes.clone();
        after.insert(name.clone(), Rc::new(node.clone()));
        effects.extend(association_events(asked, (nodes, &after), &children));
    }
    // The children name the new node, so it is there first.
    asked.write_all((vec![(name, Some(node))], staged(children)), effects, create)
}

/// The fields of collections in a form (XEP-0248). §7.1.3.1: an account has no collections.
fn collection_form(asked: &PendingRequest, form: &Element) -> Result<CollectionForm, StanzaError> {
    let fields = CollectionForm::read(form).map_err(wrong);
    if asked.is_of_service() {
        return fields;
    }
    // Other fields that an account's form does not have are ignored.
    if fields.is_ok_and(|fields| fields.needs_service()) {
        return Err(unsupported("collections"));
    }
    Ok(CollectionForm::default())
}

fn staged(changes: NodeChanges) -> NodeStage {
    changes.into_iter().map(|(name, node)| (name, Some(node))).collect()
}

/// The effect that tells subscribers of the collections above a node of an event of the node, which has no subscribers of its own yet.
fn told_in_collections(
    asked: &PendingRequest,
    nodes: &Nodes,
    (name, node): (&str, &Node),
    event: impl FnOnce(&str) -> Element,
) -> Vec<PubSubEffect> {
    let source = EventSource::new(&asked.owner, name, nodes, Rc::new(node.clone()));
    if source.collections.is_empty() {
        return Vec::new();
    }
    source.notify(EventKind::Node, event(name)).into_iter().collect()
}

/// The effects that tell subscribers of collections which nodes were associated with them or dissociated from them (XEP-0248 §5.3.2).
fn association_events(
    asked: &PendingRequest,
    (before, after): (&Nodes, &Nodes),
    changes: &[(Box<str>, Node)],
) -> Vec<PubSubEffect> {
    let mut effects = Vec::new();
    for (name, node) in changes {
        let Some(known) = before.get(name) else { continue };
        if known.parent == node.parent {
            continue;
        }
        for (nodes, at, change) in [(before, &**known, "dissociate"), (after, node, "associate")] {
            let source = EventSource::new(&asked.owner, name, nodes, Rc::new(at.clone()));
            let Some((collection, _)) = source.collections.first() else { continue };
            let change = Element::new(change, ns::PUBSUB_EVENT).with("node", name.clone());
            let event =
                Element::new("collection", ns::PUBSUB_EVENT).with("node", collection.clone()).child(change);
            effects.extend(source.notify(EventKind::Association, event));
        }
    }
    effects
}

/// Associates a node with a collection, or dissociates it (XEP-0248 §7.4, §7.5).
pub(crate) fn set_association(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    if !asked.is_of_service() {
        return Err(unsupported("collections"));
    }
    let collection = asked.node_name(part)?;
    let Some((name, node)) = AssociationChange::read(part)?.apply(asked, nodes, &collection)? else {
        return asked.reply(None);
    };
    let effects = association_events(asked, (nodes, nodes), &[(name.clone(), node.clone())]);
    asked.write(name, Some(node), effects, None)
}

/// Configures a node by the form that the owner submits (XEP-0060 §8.2.4).
pub(crate) fn configure(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let Some(form) = part.get("x", ns::DATA) else { return Err(Condition::BadRequest.into()) };
    // §8.2.5: to cancel leaves the configuration as it is.
    if form.attr("type") == Some("cancel") {
        return asked.reply(None);
    }
    let config = node.config.with_form(form, "node_config", false).map_err(wrong)?;
    if asked.is_of_service() {
        service::is_possible(&config)?;
    }
    let fields = collection_form(asked, form)?;
    let (node, children) = fields.apply(asked, nodes, (&name, Node { config, ..Node::clone(node) }))?;
    let mut after = nodes.clone();
    let changed = children.iter().chain([&(name.clone(), node.clone())]).cloned().collect::<NodeChanges>();
    after.extend(changed.iter().map(|(name, node)| (name.clone(), Rc::new(node.clone()))));
    let configuration = node.config.notify_config.then(|| {
        let form = node.config.with_payload.then(|| form_of(asked, (&name, &node), "result", &after));
        Element::new("configuration", ns::PUBSUB_EVENT).with("node", name.clone()).children(form)
    });
    // Told by the new configuration: subscribers that it shuts out do not hear of it.
    let source = EventSource::new(&asked.owner, &name, &after, Rc::new(node.clone()));
    let notification = configuration.and_then(|event| source.notify(EventKind::Node, event));
    let mut effects: Vec<PubSubEffect> = notification.into_iter().collect();
    effects.extend(association_events(asked, (nodes, &after), &changed));
    asked.write_all((staged(children), vec![(name, Some(node))]), effects, None)
}

/// The form with the configuration of a node, as its owner has such forms.
fn form_of(
    asked: &PendingRequest,
    (name, node): (&str, &Node),
    kind: &'static str,
    nodes: &Nodes,
) -> Element {
    if !asked.is_of_service() {
        return node.config.form(kind);
    }
    collection::form(node, kind, collection::children(nodes, name).map(|(name, _)| name))
}

/// Deletes a node with its items (XEP-0060 §8.4). `redirect` tells subscribers where to go on (§8.4.1).
pub(crate) fn delete(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    // XEP-0248 §7.3.3.1: a service is the root of its nodes.
    if asked.is_of_service() && part.attr("node").is_none_or(str::is_empty) {
        return Err(Condition::NotAllowed.into());
    }
    let (name, node) = asked.own_node(part, nodes)?;
    let redirect = part.get("redirect", ns::PUBSUB_OWNER).and_then(|redirect| redirect.attr("uri"));
    let redirect = redirect.map(|uri| Element::new("redirect", ns::PUBSUB_EVENT).with("uri", uri));
    let delete = Element::new("delete", ns::PUBSUB_EVENT).with("node", name.clone()).children(redirect);
    // The audience is that of the node as it was.
    let is_told = node.config.notify_delete;
    let source = EventSource::new(&asked.owner, &name, nodes, Rc::clone(node));
    let notification = if is_told { source.notify(EventKind::Node, delete) } else { None };
    // XEP-0248 §8.2: the nodes of a collection stay, in the root. First, so that none names a collection that is not there.
    let children = collection::children(nodes, &name);
    let children =
        children.map(|(name, node)| (name.into(), Some(collection::without_parent(node)))).collect();
    asked.write_all((children, vec![(name, None)]), notification.into_iter().collect(), None)
}

/// Removes all items of a node (XEP-0060 §8.5). The node stays as it is, with its subscriptions.
pub(crate) fn purge(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let node = Rc::clone(node);
    if node.collection.is_some() {
        return Err(unsupported("purge-nodes"));
    }
    if !node.config.persists {
        return Err(unsupported("persistent-items"));
    }
    let event = Element::new("purge", ns::PUBSUB_EVENT).with("node", name.clone());
    let source = EventSource::new(&asked.owner, &name, nodes, Rc::clone(&node));
    let purge = if node.config.notify_retract { source.notify(EventKind::Items, event) } else { None };
    let effects = purge.into_iter().collect();
    let goal = NodeGoal::Reply { asked: Rc::clone(asked), effects, payload: None };
    let change = NodeChange::Purge { owner: asked.owner.clone(), node: name.clone() };
    let write = NodeWrite { owner: asked.owner.clone(), name, node: Some(Node::clone(&node)), goal };
    Ok(vec![PubSubEffect::Write(change, Box::new(PubSubWrite(PendingWrite::Node(write))))])
}

/// Changes affiliations (XEP-0060 §8.9.2): all that the request names, or none.
pub(crate) fn set_affiliations(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let mut node = Node::clone(node);
    let mut changed = BTreeSet::new();
    for child in part.elements().filter(|child| child.is("affiliation", ns::PUBSUB_OWNER)) {
        let user = child.attr("jid").and_then(|jid| Jid::parse(jid).ok()).map(|jid| jid.bare());
        let affiliation = child.attr("affiliation").and_then(NodeAffiliation::parse);
        let (Some(user), Some(affiliation)) = (user, affiliation) else {
            return Err(Condition::BadRequest.into());
        };
        // §8.9.2.4: "The owner MUST NOT specify multiple <affiliation/> elements for the same entity".
        if !changed.insert(user.clone()) {
            return Err(Condition::BadRequest.into());
        }
        // An account is its only owner, and stays it.
        if !asked.is_of_service() && (user == asked.owner || affiliation == NodeAffiliation::Owner) {
            return Err(Condition::NotAcceptable.into());
        }
        // Replaced, not added: an account has one affiliation.
        node.affiliations.retain(|(known, _)| *known != user);
        // A banned account loses its subscriptions as well, else it would still be notified.
        if affiliation == NodeAffiliation::Outcast {
            node.subscriptions.retain(|known| known.jid.bare() != user);
        }
        if affiliation != NodeAffiliation::None {
            node.affiliations.push((user, affiliation));
        }
    }
    // §8.9.2.4: a node has an owner.
    if asked.is_of_service() && service::owners(&node).next().is_none() {
        return Err(Condition::NotAcceptable.into());
    }
    if node.affiliations.len() > limits::NODE_SUBSCRIPTIONS {
        return Err(StanzaError::new(Condition::PolicyViolation, "too many affiliations of one node"));
    }
    asked.write(name, Some(node), Vec::new(), None)
}

/// Changes subscriptions of others (XEP-0060 §8.8.2); by this the owner also approves a pending one (§8.6).
pub(crate) fn set_subscriptions(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let mut node = Node::clone(node);
    let (mut named, mut changed) = (BTreeSet::new(), Vec::new());
    for child in part.elements().filter(|child| child.is("subscription", ns::PUBSUB_OWNER)) {
        let jid = child.attr("jid").and_then(|jid| Jid::parse(jid).ok());
        let (Some(jid), Some(state)) = (jid, child.attr("subscription").and_then(NodeSubscription::parse))
        else {
            return Err(Condition::BadRequest.into());
        };
        // §8.8.2.4: several elements for one entity have different subscription ids, which do not exist here.
        if !named.insert(jid.clone()) {
            return Err(Condition::BadRequest.into());
        }
        let known = node.subscriber(&jid).cloned();
        // An unchanged subscription is not told again.
        if known.as_ref().map_or(NodeSubscription::None, |known| known.state) == state {
            continue;
        }
        node.subscriptions.retain(|known| known.jid != jid);
        if state != NodeSubscription::None {
            // The options are the subscriber's, and stay when the owner approves the subscription.
            let options = known.map(|known| known.options).unwrap_or_default();
            node.subscriptions.push(Subscriber { jid: jid.clone(), state, options });
        }
        changed.push((jid, state));
    }
    if node.subscriptions.len() > limits::NODE_SUBSCRIPTIONS {
        return Err(fault(Condition::PolicyViolation, "too-many-subscriptions"));
    }
    let told = changed.iter().map(|(jid, state)| tell_state(&asked.owner, &name, jid, *state));
    let told = told.collect();
    asked.write(name, Some(node), told, None)
}

/// The event by which a subscriber learns that its subscription began or ended (§8.8.4).
pub(crate) fn tell_state(owner: &Bare, node: &str, jid: &Jid, state: NodeSubscription) -> PubSubEffect {
    let subscription = Element::new("subscription", ns::PUBSUB_EVENT)
        .with("node", node)
        .with("jid", jid.as_str())
        .with("subscription", state.as_str());
    send_event(owner, jid, subscription)
}

/// An answer with one part in the owner's namespace.
fn of_owner(asked: &Rc<PendingRequest>, part: Element) -> PubSubResult {
    asked.reply(Some(Element::new("pubsub", ns::PUBSUB_OWNER).child(part)))
}

/// The form with the configuration of a node (XEP-0060 §8.2.1).
pub(crate) fn configuration(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let form = form_of(asked, (&name, node), "form", nodes);
    of_owner(asked, Element::new("configure", ns::PUBSUB_OWNER).with("node", name).child(form))
}

/// The form with the configuration that a new node has (XEP-0060 §8.3).
pub(crate) fn default_configuration(asked: &Rc<PendingRequest>) -> PubSubResult {
    if !asked.by.relation.is_owner && !asked.is_of_service() {
        return Err(Condition::Forbidden.into());
    }
    let node = Node { config: asked.default_config(), ..Node::default() };
    let form = form_of(asked, ("", &node), "form", &Nodes::new());
    of_owner(asked, Element::new("default", ns::PUBSUB_OWNER).child(form))
}

/// The affiliations of a node (XEP-0060 §8.9.1). An account is in the list as the owner of its nodes, though it is not stored with them.
pub(crate) fn affiliations(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let item = |user: &Bare, affiliation: NodeAffiliation| {
        Element::new("affiliation", ns::PUBSUB_OWNER)
            .with("jid", user.as_str())
            .with("affiliation", affiliation.as_str())
    };
    of_owner(
        asked,
        Element::new("affiliations", ns::PUBSUB_OWNER)
            .with("node", name)
            .children((!asked.is_of_service()).then(|| item(&asked.owner, NodeAffiliation::Owner)))
            .children(node.affiliations.iter().map(|(user, affiliation)| item(user, *affiliation))),
    )
}

/// The subscriptions of a node (XEP-0060 §8.8.1).
pub(crate) fn subscriptions(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let (name, node) = asked.own_node(part, nodes)?;
    let item = |known: &Subscriber| {
        Element::new("subscription", ns::PUBSUB_OWNER)
            .with("jid", known.jid.as_str())
            .with("subscription", known.state.as_str())
    };
    let list = Element::new("subscriptions", ns::PUBSUB_OWNER).with("node", name);
    of_owner(asked, list.children(node.subscriptions.iter().map(item)))
}
