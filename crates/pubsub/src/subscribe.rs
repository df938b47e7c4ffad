//! Subscribing to a node and ending that (XEP-0060 §6.1, §6.2), and the list of one's subscriptions (§5.6,
//! §5.7).
//!
//! An address has one subscription of a node. Its states are `Subscribed` and `Pending`; a pending one gets
//! no events until an owner has approved it, by the form that is sent here or by the list of subscriptions
//! (`owner`).

use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::context::Requester;
use super::interface::PubSubEffect;
use super::node::{AccessModel, Node, NodeAffiliation, NodeSubscription, Nodes, SendLast};
use super::notify::send_newest;
use super::owner::tell_state;
use super::request::{PendingRequest, PubSubResult};
use super::state::{NodeGoal, NodeWrite};
use super::{fault, node_of};
use crate::limits;

/// `FORM_TYPE` of the form by which an owner decides (§8.6).
const AUTHORIZATION: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";

/// Subscribes the requester to a node (XEP-0060 §6.1). In a node that is open on request (`authorize`) the subscription waits for an owner, who
/// gets a form.
pub(crate) fn subscribe(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let jid = own_jid(asked, part)?;
    let name = asked.node_name(part)?;
    let node = node_of(nodes, &name)?;
    node.may_subscribe(&asked.by.who, &asked.by.relation)?;
    match node.state(&jid) {
        Some(NodeSubscription::Pending) => {
            return Err(fault(Condition::NotAuthorized, "pending-subscription"));
        }
        // §6.1.6: with one subscription for each address, it is the one there is.
        Some(NodeSubscription::Subscribed) => {
            return asked.reply(Some(told(&name, &jid, NodeSubscription::Subscribed)));
        }
        Some(NodeSubscription::None) | None => {}
    }
    // Each publication goes through all subscriptions, and one account must not take the places of all others.
    if node.subscriptions.len() >= limits::NODE_SUBSCRIPTIONS
        || node.subscriptions_of(&asked.by.who) >= limits::SUBSCRIPTIONS_OF_USER
    {
        return Err(fault(Condition::PolicyViolation, "too-many-subscriptions"));
    }
    let has_to_wait =
        node.config.access == AccessModel::Authorize && asked.affiliation(node) == NodeAffiliation::None;
    let state = if has_to_wait { NodeSubscription::Pending } else { NodeSubscription::Subscribed };
    let mut node = Node::clone(node);
    node.subscriptions.push((jid.clone(), state));
    // Performed when the subscription is on disk: an item or a form that comes earlier would be of a subscription that may fail.
    let mut effects = Vec::new();
    if state == NodeSubscription::Subscribed && node.config.send_last != SendLast::Never {
        effects.push(send_newest(&asked.owner, &name, &Rc::new(node.clone()), &jid));
    }
    if state == NodeSubscription::Pending {
        let form = |owner: &Bare| PubSubEffect::Send(approval_form(&asked.owner, owner, (&name, &jid)));
        // A node of a service may have several owners, an account's has the account.
        if asked.is_of_service() {
            effects.extend(super::service::owners(&node).map(form));
        } else {
            effects.push(form(&asked.owner));
        }
    }
    let payload = told(&name, &jid, state);
    asked.write(name, Some(node), effects, Some(payload))
}

/// Ends a subscription of the requester (XEP-0060 §6.2).
pub(crate) fn unsubscribe(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let name = asked.node_name(part)?;
    let node = node_of(nodes, &name)?;
    let jid = part.attr("jid").and_then(|jid| Jid::parse(jid).ok());
    let jid = jid.ok_or_else(|| fault(Condition::BadRequest, "jid-required"))?;
    // §6.2.3: an entity ends only its own subscriptions; the owner of the node changes the list instead (§8.8.2).
    if jid.bare() != asked.by.who {
        return Err(Condition::Forbidden.into());
    }
    // §6.2.3.5: there are no subscription ids, so that one is ignored.
    if node.state(&jid).is_none() {
        return Err(fault(Condition::UnexpectedRequest, "not-subscribed"));
    }
    let mut node = Node::clone(node);
    node.subscriptions.retain(|(known, _)| *known != jid);
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
        let may = node.affiliation(&by.who, &by.relation) == NodeAffiliation::Owner;
        // The form is a message, which any entity can send: the right to decide is checked here, against the node as it is now.
        if !may || node.state(&jid) != Some(NodeSubscription::Pending) {
            return None;
        }
        let state = if self.is_approved { NodeSubscription::Subscribed } else { NodeSubscription::None };
        let mut node = Node::clone(node);
        node.subscriptions.retain(|(known, _)| *known != jid);
        if state == NodeSubscription::Subscribed {
            node.subscriptions.push((jid.clone(), state));
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
    let jid = jid.filter(|jid| jid.bare() == asked.by.who);
    jid.ok_or_else(|| fault(Condition::BadRequest, "invalid-jid"))
}

/// A subscription as lists and answers have it.
fn subscription(name: &str, jid: &Jid, state: NodeSubscription) -> Element {
    Element::new("subscription", ns::PUBSUB)
        .with("node", name)
        .with("jid", jid.as_str())
        .with("subscription", state.as_str())
}

/// The answer to a request to subscribe: with the state, as it may be pending (§6.1.2).
fn told(name: &str, jid: &Jid, state: NodeSubscription) -> Element {
    Element::new("pubsub", ns::PUBSUB).child(subscription(name, jid, state))
}

/// Lists the requester's subscriptions, of one node or of all (XEP-0060 §5.6).
pub(crate) fn own_subscriptions(asked: &Rc<PendingRequest>, part: &Element, nodes: &Nodes) -> PubSubResult {
    let of = part.attr("node");
    if let Some(name) = of {
        node_of(nodes, name)?;
    }
    let wanted = nodes.iter().filter(|(name, _)| of.is_none_or(|of| of == &***name));
    let of_user = wanted.flat_map(|(name, node)| {
        let of_user = node.subscriptions.iter().filter(|(jid, _)| jid.bare() == asked.by.who);
        of_user.map(move |(jid, state)| subscription(name, jid, *state))
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
        let affiliation = node.affiliation(&asked.by.who, &asked.by.relation);
        (affiliation != NodeAffiliation::None).then(|| {
            Element::new("affiliation", ns::PUBSUB)
                .with("node", name.clone())
                .with("affiliation", affiliation.as_str())
        })
    });
    let list = Element::new("affiliations", ns::PUBSUB).with_opt("node", of).children(of_user);
    asked.reply(Some(Element::new("pubsub", ns::PUBSUB).child(list)))
}
