//! Subscribing to a node and ending that (XEP-0060 §6.1, §6.2), the options of a subscription (§6.3, §6.4), and the list of one's
//! subscriptions (§5.6, §5.7).
//!
//! An address has one subscription of a node. Its states are `Subscribed` and `Pending`; a pending one gets
//! no events until an owner has approved it, by the form that is sent here or by the list of subscriptions
//! (`owner`).

use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::context::{PubSubContext, Requester};
use super::interface::PubSubEffect;
use super::node::{AccessModel, Node, NodeAffiliation, Nodes, SendLast};
use super::notify::send_newest;
use super::options::{
    NodeSubscription, OptionFields, OptionsScope, Subscriber, SubscriptionOptions, invalid_options,
};
use super::owner::tell_state;
use super::presences::SubscriberPresences;
use super::request::{PendingRequest, PubSubResult};
use super::state::{NodeGoal, NodeWrite};
use super::{body, fault, node_of};
use crate::limits;

/// `FORM_TYPE` of the form by which an owner decides (§8.6).
const AUTHORIZATION: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";

/// Subscribes the requester to a node (XEP-0060 §6.1). In a node that is open on request (`authorize`) the subscription waits for an owner, who
/// gets a form. The request may have options (§6.3.7).
pub(crate) fn subscribe(
    context: &PubSubContext<'_>,
    presences: &mut SubscriberPresences,
    asked: &Rc<PendingRequest>,
    part: &Element,
    nodes: &Nodes,
) -> PubSubResult {
    let jid = own_jid(asked, part)?;
    let name = asked.node_name(part)?;
    let node = node_of(nodes, &name)?;
    node.may_subscribe(&asked.by.user, &asked.by.relation)?;
    let known = node.subscriber(&jid).filter(|known| known.state != NodeSubscription::None);
    if known.is_some_and(|known| known.state == NodeSubscription::Pending) {
        return Err(fault(Condition::NotAuthorized, "pending-subscription"));
    }
    let scope = scope(context, presences, asked, (node, &jid));
    let given = given_options(asked)?;
    let before = known.map(|known| known.options).unwrap_or_default();
    let options = given.map_or(Ok(before), |form| before.with_form(form, &scope))?;
    let shown = given.map(|_| options.form("result", scope.fields));
    if let Some(known) = known {
        // §6.1.6: with one subscription for each address, it is the one there is, with the options of this request.
        let answer = Some(told(&name, known, shown));
        if options == before {
            return asked.reply(answer);
        }
        let mut node = Node::clone(node);
        node.insert_subscriber(Subscriber { options, ..known.clone() });
        return asked.write(name, Some(node), Vec::new(), answer);
    }
    // Each publication goes through all subscriptions, and one account must not take the places of all others.
    if node.subscriptions.len() >= limits::NODE_SUBSCRIPTIONS
        || node.subscriptions_of(&asked.by.user) >= limits::SUBSCRIPTIONS_OF_USER
    {
        return Err(fault(Condition::PolicyViolation, "too-many-subscriptions"));
    }
    let has_to_wait =
        node.config.access == AccessModel::Authorize && asked.affiliation(node) == NodeAffiliation::None;
    let state = if has_to_wait { NodeSubscription::Pending } else { NodeSubscription::Subscribed };
    let subscriber = Subscriber { jid, state, options };
    let mut node = Node::clone(node);
    node.insert_subscriber(subscriber.clone());
    // Performed when the subscription is on disk: an item or a form that comes earlier would be of a subscription that may fail.
    let mut effects = Vec::new();
    // A collection has no items (XEP-0248 §4.1).
    let has_items = node.collection.is_none() && node.config.send_last != SendLast::Never;
    if has_items && presences.wants_events(&asked.owner, &subscriber) {
        effects.push(send_newest(&asked.owner, &name, &Rc::new(node.clone()), &subscriber.jid));
    }
    if state == NodeSubscription::Pending {
        effects.extend(approval_forms(asked, &name, &node, &subscriber.jid));
    }
    let payload = told(&name, &subscriber, shown);
    asked.write(name, Some(node), effects, Some(payload))
}

/// Asks the owners of a node about a subscription that waits for them.
fn approval_forms(asked: &PendingRequest, name: &str, node: &Node, jid: &Jid) -> Vec<PubSubEffect> {
    let form = |owner: &Bare| PubSubEffect::Send(approval_form(&asked.owner, owner, (name, jid)));
    // A node of a service may have several owners, an account's has the account.
    if asked.is_of_service() {
        super::service::owners(node).map(form).collect()
    } else {
        vec![form(&asked.owner)]
    }
}

/// The form of options in a request to subscribe. §6.3.7: `<options/>` follows `<subscribe/>`, which has the node and the address, and
/// has neither of its own.
fn given_options(asked: &PendingRequest) -> Result<Option<&Element>, StanzaError> {
    let Some(options) = asked.iq.first().and_then(|pubsub| pubsub.get("options", ns::PUBSUB)) else {
        return Ok(None);
    };
    if options.attr("node").is_some() || options.attr("jid").is_some() {
        return Err(Condition::BadRequest.into());
    }
    Ok(options.get("x", ns::DATA))
}

/// The options that this address may have.
fn scope(
    context: &PubSubContext<'_>,
    presences: &mut SubscriberPresences,
    asked: &PendingRequest,
    (node, jid): (&Node, &Jid),
) -> OptionsScope {
    let presence = presences.current(context.now, &asked.owner, jid);
    OptionsScope { now: context.now, fields: fields(context, asked, Some(node)), presence }
}

/// The fields of the requester's forms. Services may know the presence of this server's clients, which send it to them.
fn fields(context: &PubSubContext<'_>, asked: &PendingRequest, node: Option<&Node>) -> OptionFields {
    OptionFields {
        body: node.is_some_and(|node| body::is_possible(&node.config)),
        shows: asked.is_of_service() && context.entities.is_local(asked.by.user.domain()),
        collection: node.is_some_and(|node| node.collection.is_some()),
    }
}

/// The node and the subscription that a request for options names (§6.3.4). There are no subscription ids, so that one is ignored, as
/// in a request to unsubscribe.
fn own_subscriber<'a>(
    asked: &PendingRequest,
    part: &Element,
    nodes: &'a Nodes,
) -> Result<(Box<str>, &'a Node, &'a Subscriber), StanzaError> {
    let name = asked.node_name(part)?;
    let node = node_of(nodes, &name)?;
    let jid = part.attr("jid").and_then(|jid| Jid::parse(jid).ok());
    let jid = jid.ok_or_else(|| fault(Condition::BadRequest, "jid-required"))?;
    // §6.3.4.1: only the subscriber itself has a right to its options, not even the owner of the node.
    if jid.bare() != asked.by.user {
        return Err(Condition::Forbidden.into());
    }
    let known = node.subscriber(&jid).filter(|known| known.state != NodeSubscription::None);
    let known = known.ok_or_else(|| fault(Condition::UnexpectedRequest, "not-subscribed"))?;
    Ok((name, node, known))
}

/// The form with the options of a subscription (XEP-0060 §6.3.2). A subscription that waits for an owner has options, too.
pub(crate) fn options(
    context: &PubSubContext<'_>,
    asked: &Rc<PendingRequest>,
    part: &Element,
    nodes: &Nodes,
) -> PubSubResult {
    let (name, node, known) = own_subscriber(asked, part, nodes)?;
    let form = known.options.form("form", fields(context, asked, Some(node)));
    let options = Element::new("options", ns::PUBSUB).with("node", name).with("jid", known.jid.as_str());
    asked.reply(Some(Element::new("pubsub", ns::PUBSUB).child(options.child(form))))
}

/// Sets options of a subscription by the form that the subscriber submits (XEP-0060 §6.3.5).
pub(crate) fn set_options(
    context: &PubSubContext<'_>,
    presences: &mut SubscriberPresences,
    asked: &Rc<PendingRequest>,
    part: &Element,
    nodes: &Nodes,
) -> PubSubResult {
    // §6.3.7: options of a new subscription follow `<subscribe/>`.
    if asked.iq.first().is_some_and(|pubsub| pubsub.get("subscribe", ns::PUBSUB).is_some()) {
        return Err(Condition::BadRequest.into());
    }
    let (name, node, known) = own_subscriber(asked, part, nodes)?;
    let form = part.get("x", ns::DATA).ok_or_else(invalid_options)?;
    // XEP-0004 §3.2: to cancel leaves the options as they are.
    if form.attr("type") == Some("cancel") {
        return asked.reply(None);
    }
    let scope = scope(context, presences, asked, (node, &known.jid));
    let options = known.options.with_form(form, &scope)?;
    if options == known.options {
        return asked.reply(None);
    }
    let mut node = Node::clone(node);
    node.insert_subscriber(Subscriber { options, ..known.clone() });
    asked.write(name, Some(node), Vec::new(), None)
}

/// The options that a new subscription has, of one node or of any (XEP-0060 §6.4): the same for all.
pub(crate) fn default_options(
    context: &PubSubContext<'_>,
    asked: &Rc<PendingRequest>,
    part: &Element,
    nodes: &Nodes,
) -> PubSubResult {
    let of = part.attr("node");
    let node = of.map(|name| node_of(nodes, name)).transpose()?;
    let fields = fields(context, asked, node.map(|node| &**node));
    let form = SubscriptionOptions::default().form("result", fields);
    let default = Element::new("default", ns::PUBSUB).with_opt("node", of).child(form);
    asked.reply(Some(Element::new("pubsub", ns::PUBSUB).child(default)))
}

/// Ends a subscription of the requester (XEP-0060 §6.2).
pub(crate) fn unsubscribe(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let name = asked.node_name(part)?;
    let node = node_of(nodes, &name)?;
    let jid = part.attr("jid").and_then(|jid| Jid::parse(jid).ok());
    let jid = jid.ok_or_else(|| fault(Condition::BadRequest, "jid-required"))?;
    // §6.2.3: an entity ends only its own subscriptions; the owner of the node changes the list instead (§8.8.2).
    if jid.bare() != asked.by.user {
        return Err(Condition::Forbidden.into());
    }
    // §6.2.3.5: there are no subscription ids, so that one is ignored.
    if node.subscriber(&jid).is_none() {
        return Err(fault(Condition::UnexpectedRequest, "not-subscribed"));
    }
    let mut node = Node::clone(node);
    node.subscriptions.retain(|known| known.jid != jid);
    asked.write(name, Some(node), Vec::new(), None)
}

/// The decision of a node's owner on a pending subscription: the form that it has filled in (§8.6).
pub struct Approval {
    /// The subscriber and the node. `None`: the form does not name them.
    subscription: Option<(Jid, String)>,
    is_approved: bool,
}

impl Approval {
    /// False: the form lacks the subscriber or the node, and nothing is decided.
    pub(crate) fn is_complete(&self) -> bool {
        self.subscription.is_some()
    }

    /// `None`: the message is no such form, and is delivered.
    pub fn parse(from: &Jid, to: &Jid, message: &Element) -> Option<Approval> {
        let form = message.get("x", ns::DATA).filter(|form| form.attr("type") == Some("submit"));
        // An account decides about its own nodes, an owner about a service's; other messages with such a form are delivered as
        // they are.
        let may_be = to.is_bare() && (to.local().is_none() || from.bare_str() == to.as_str());
        let form = form.filter(|_| may_be)?;
        let of = |var: &str| {
            let mut fields = form.elements().filter(|field| field.attr("var") == Some(var));
            fields.next()?.content_of("value", ns::DATA).map(std::borrow::Cow::into_owned)
        };
        if of("FORM_TYPE").as_deref() != Some(AUTHORIZATION) {
            return None;
        }
        let jid = of("pubsub#subscriber_jid").and_then(|jid| Jid::parse(&jid).ok());
        let is_approved = matches!(of("pubsub#allow").as_deref(), Some("1" | "true"));
        Some(Approval { subscription: jid.zip(of("pubsub#node")), is_approved })
    }

    /// The write that follows from the decision; `None`: the sender may not decide, or the subscription is no longer pending.
    pub(crate) fn decide(self, owner: &Bare, by: &Requester, nodes: &Nodes) -> Option<PubSubEffect> {
        let (jid, name) = self.subscription?;
        let node = nodes.get(&*name)?;
        let may = node.affiliation(&by.user, &by.relation) == NodeAffiliation::Owner;
        // The form is a message, which any entity can send: the right to decide is checked here, against the node as it is now.
        let pending = node.subscriber(&jid).filter(|known| known.state == NodeSubscription::Pending);
        let pending = pending.filter(|_| may)?.clone();
        let state = if self.is_approved { NodeSubscription::Subscribed } else { NodeSubscription::None };
        let mut node = Node::clone(node);
        node.subscriptions.retain(|known| known.jid != jid);
        if state == NodeSubscription::Subscribed {
            node.subscriptions.push(Subscriber { state, ..pending });
        }
        let goal = NodeGoal::Effects(vec![tell_state(owner, &name, &jid, state)]);
        Some(NodeWrite { owner: owner.clone(), name: name.into(), node: Some(node), goal }.begin())
    }
}

/// The form by which an owner decides on a pending subscription (§8.6); the owner may change the list of subscriptions instead.
fn approval_form(service: &Bare, owner: &Bare, (node, jid): (&str, &Jid)) -> Element {
    let field = |var: &'static str, kind: &'static str, value: &str| {
        let value = Element::new("value", ns::DATA).text(value);
        Element::new("field", ns::DATA).with("var", var).with("type", kind).child(value)
    };
    let form = Element::new("x", ns::DATA)
        .with("type", "form")
        .child(field("FORM_TYPE", "hidden", AUTHORIZATION))
        .child(field("pubsub#node", "text-single", node))
        .child(field("pubsub#subscriber_jid", "jid-single", jid.as_str()))
        .child(field("pubsub#allow", "boolean", "0"));
    Element::new("message", ns::CLIENT)
        .with("type", "headline")
        .with("from", service.as_str())
        .with("to", owner.as_str())
        .child(form)
}

/// The address that is to be subscribed: one of the requester's own (§6.1.3.1).
fn own_jid(asked: &PendingRequest, part: &Element) -> Result<Jid, StanzaError> {
    let jid = part.attr("jid").and_then(|jid| Jid::parse(jid).ok());
    let jid = jid.filter(|jid| jid.bare() == asked.by.user);
    jid.ok_or_else(|| fault(Condition::BadRequest, "invalid-jid"))
}

/// A subscription as lists and answers have it.
fn subscription(name: &str, subscriber: &Subscriber) -> Element {
    Element::new("subscription", ns::PUBSUB)
        .with("node", name)
        .with("jid", subscriber.jid.as_str())
        .with("subscription", subscriber.state.as_str())
}

/// The answer to a request to subscribe: with the state, as it may be pending (§6.1.2), and with the options that the request has led
/// to (§6.3.7). §6.1.5: it says that there are options.
fn told(name: &str, subscriber: &Subscriber, options: Option<Element>) -> Element {
    let subscription = subscription(name, subscriber).child(Element::new("subscribe-options", ns::PUBSUB));
    let options = options.map(|form| Element::new("options", ns::PUBSUB).child(form));
    Element::new("pubsub", ns::PUBSUB).child(subscription).children(options)
}

/// Lists the requester's subscriptions, of one node or of all (XEP-0060 §5.6).
pub(crate) fn own_subscriptions(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let of = part.attr("node");
    if let Some(name) = of {
        node_of(nodes, name)?;
    }
    let wanted = nodes.iter().filter(|(name, _)| of.is_none_or(|of| of == &***name));
    let of_user = wanted.flat_map(|(name, node)| {
        let of_user = node.subscriptions.iter().filter(|known| known.jid.bare() == asked.by.user);
        of_user.map(move |known| subscription(name, known))
    });
    let list = Element::new("subscriptions", ns::PUBSUB).with_opt("node", of).children(of_user);
    asked.reply(Some(Element::new("pubsub", ns::PUBSUB).child(list)))
}

/// Lists the requester's affiliations, of one node or of all (XEP-0060 §5.7).
pub(crate) fn own_affiliations(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let of = part.attr("node");
    if let Some(name) = of {
        node_of(nodes, name)?;
    }
    let wanted = nodes.iter().filter(|(name, _)| of.is_none_or(|of| of == &***name));
    let of_user = wanted.filter_map(|(name, node)| {
        let affiliation = node.affiliation(&asked.by.user, &asked.by.relation);
        (affiliation != NodeAffiliation::None).then(|| {
            Element::new("affiliation", ns::PUBSUB)
                .with("node", name.clone())
                .with("affiliation", affiliation.as_str())
        })
    });
    let list = Element::new("affiliations", ns::PUBSUB).with_opt("node", of).children(of_user);
    asked.reply(Some(Element::new("pubsub", ns::PUBSUB).child(list)))
}
