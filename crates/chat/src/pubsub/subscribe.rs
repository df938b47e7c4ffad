//! Subscribing to a node and ending that (XEP-0060 §6.1, §6.2), and the list of one's subscriptions (§5.6,
//! §5.7).

use std::rc::Rc;

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::super::{Host, Outbox};
use super::node::{AccessModel, Node, NodeAffiliation, NodeSubscription, Nodes, SendLast};
use super::{PendingRequest, PubSubReply, PubSubResult, fault, node_of};
use crate::limits;

const AUTHORIZATION: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";

impl Host {
    /// §6.1.
    pub(super) fn subscribe_asked(
        &mut self,
        asked: &Rc<PendingRequest>,
        part: &Element,
        nodes: &Rc<Nodes>,
        out: &mut Outbox,
    ) -> PubSubResult {
        let jid = own_jid(asked, part)?;
        let name = asked.node_name(part)?;
        let node = node_of(nodes, &name)?;
        node.may_subscribe(&asked.who, &asked.relation)?;
        match node.state(&jid) {
            Some(NodeSubscription::Pending) => {
                return Err(fault(Condition::NotAuthorized, "pending-subscription"));
            }
            // §6.1.6: with one subscription for each address, it is the one there is.
            Some(NodeSubscription::Subscribed) => {
                return Ok(PubSubReply::Result(Some(told(&name, &jid, NodeSubscription::Subscribed))));
            }
            Some(NodeSubscription::None) | None => {}
        }
        if node.subscriptions.len() >= limits::NODE_SUBSCRIPTIONS
            || node.subscriptions_of(&asked.who) >= limits::SUBSCRIPTIONS_OF_USER
        {
            return Err(fault(Condition::PolicyViolation, "too-many-subscriptions"));
        }
        let has_to_wait = node.config.access == AccessModel::Authorize
            && node.affiliation(&asked.who, &asked.relation) == NodeAffiliation::None;
        let state = if has_to_wait { NodeSubscription::Pending } else { NodeSubscription::Subscribed };
        let mut node = Node::clone(node);
        node.subscriptions.push((jid.clone(), state));
        let owners = match asked.is_of_service() {
            true => super::service::owners(&node).cloned().collect(),
            false => vec![asked.owner.clone()],
        };
        let sends_last = state == NodeSubscription::Subscribed && node.config.send_last != SendLast::Never;
        self.change_and_answer(asked, &name.clone(), Some(node.clone()), out, move |host, _, asked, out| {
            if sends_last {
                host.send_newest(&asked.owner, &name, &Rc::new(node), &jid, out);
            }
            if state == NodeSubscription::Pending {
                for owner in &owners {
                    host.ask_owner(asked, owner, (&name, &jid), out);
                }
            }
            Some(told(&name, &jid, state))
        })
    }

    /// §6.2.
    pub(super) fn unsubscribe_asked(
        &mut self,
        asked: &Rc<PendingRequest>,
        part: &Element,
        nodes: &Rc<Nodes>,
        out: &mut Outbox,
    ) -> PubSubResult {
        let name = asked.node_name(part)?;
        let node = node_of(nodes, &name)?;
        let jid = part.attr("jid").and_then(|jid| Jid::parse(jid).ok());
        let jid = jid.ok_or_else(|| fault(Condition::BadRequest, "jid-required"))?;
        if jid.bare() != asked.who {
            return Err(Condition::Forbidden.into());
        }
        // §6.2.3.5: there are no subscription ids, so that one is ignored.
        if node.state(&jid).is_none() {
            return Err(fault(Condition::UnexpectedRequest, "not-subscribed"));
        }
        let mut node = Node::clone(node);
        node.subscriptions.retain(|(known, _)| *known != jid);
        self.change_and_answer(asked, &name, Some(node), out, |_, _, _, _| None)
    }

    /// §8.6: the owner has filled in the form. True: the message needs no delivery.
    pub(crate) fn pubsub_message(
        &mut self,
        now: Instant,
        from: &Jid,
        to: &Jid,
        message: &Element,
        out: &mut Outbox,
    ) -> bool {
        let owner = to.bare();
        let form = message.get("x", ns::DATA).filter(|form| form.attr("type") == Some("submit"));
        let is_of_service = owner.local().is_none();
        let is_his = to.is_bare() && (is_of_service || from.bare() == owner);
        let Some(form) = form.filter(|_| is_his) else { return false };
        let of = |var: &str| {
            let mut fields = form.elements().filter(|field| field.attr("var") == Some(var));
            fields.next()?.content_of("value", ns::DATA).map(std::borrow::Cow::into_owned)
        };
        if of("FORM_TYPE").as_deref() != Some(AUTHORIZATION) {
            return false;
        }
        let jid = of("pubsub#subscriber_jid").and_then(|jid| Jid::parse(&jid).ok());
        let (Some(jid), Some(name)) = (jid, of("pubsub#node")) else { return true };
        let is_let_in = matches!(of("pubsub#allow").as_deref(), Some("1" | "true"));
        let state = if is_let_in { NodeSubscription::Subscribed } else { NodeSubscription::None };
        let (user, who, relation) = (owner.clone(), from.bare(), self.relation(&owner, from));
        let job = move |host: &mut Host, _, nodes: Result<Rc<Nodes>, StanzaError>, out: &mut Outbox| {
            let Some(node) = nodes.ok().and_then(|nodes| nodes.get(&*name).cloned()) else { return };
            if node.affiliation(&who, &relation) != NodeAffiliation::Owner {
                return;
            }
            // A subscription that is no longer pending needs no answer.
            if node.state(&jid) != Some(NodeSubscription::Pending) {
                return;
            }
            let mut node = Node::clone(&node);
            node.subscriptions.retain(|(known, _)| *known != jid);
            if state == NodeSubscription::Subscribed {
                node.subscriptions.push((jid.clone(), state));
            }
            host.change_node(&user.clone(), &name.clone(), Some(node), out, move |host, _, result, out| {
                // If it is not on disk, the subscription stays pending, and the owner may answer again.
                if result.is_ok() {
                    host.tell_state(&user, &name, &jid, state, out);
                }
            });
        };
        self.with_nodes(now, &owner, out, Box::new(job));
        true
    }

    /// §8.6: a form for the owner, who fills it in, or manages the subscriptions.
    fn ask_owner(
        &mut self,
        asked: &PendingRequest,
        owner: &Bare,
        (node, jid): (&str, &Jid),
        out: &mut Outbox,
    ) {
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
        let message = Element::new("message", ns::CLIENT)
            .with("type", "headline")
            .with("from", asked.owner.as_str())
            .with("to", owner.as_str())
            .child(form);
        self.route(message, out);
    }
}

/// §6.1.3.1: an entity subscribes itself only.
fn own_jid(asked: &PendingRequest, part: &Element) -> Result<Jid, StanzaError> {
    let jid = part.attr("jid").and_then(|jid| Jid::parse(jid).ok());
    let jid = jid.filter(|jid| jid.bare() == asked.who);
    jid.ok_or_else(|| fault(Condition::BadRequest, "invalid-jid"))
}

fn subscription(name: &str, jid: &Jid, state: NodeSubscription) -> Element {
    Element::new("subscription", ns::PUBSUB)
        .with("node", name)
        .with("jid", jid.as_str())
        .with("subscription", state.as_str())
}

fn told(name: &str, jid: &Jid, state: NodeSubscription) -> Element {
    Element::new("pubsub", ns::PUBSUB).child(subscription(name, jid, state))
}

/// §5.6.
pub(super) fn own_subscriptions(asked: &PendingRequest, part: &Element, nodes: &Nodes) -> PubSubResult {
    let of = part.attr("node");
    if let Some(name) = of {
        node_of(nodes, name)?;
    }
    let wanted = nodes.iter().filter(|(name, _)| of.is_none_or(|of| of == &***name));
    let his = wanted.flat_map(|(name, node)| {
        let his = node.subscriptions.iter().filter(|(jid, _)| jid.bare() == asked.who);
        his.map(move |(jid, state)| subscription(name, jid, *state))
    });
    let list = Element::new("subscriptions", ns::PUBSUB).with_opt("node", of).children(his);
    Ok(PubSubReply::Result(Some(Element::new("pubsub", ns::PUBSUB).child(list))))
}

/// §5.7.
pub(super) fn own_affiliations(asked: &PendingRequest, part: &Element, nodes: &Nodes) -> PubSubResult {
    let of = part.attr("node");
    if let Some(name) = of {
        node_of(nodes, name)?;
    }
    let wanted = nodes.iter().filter(|(name, _)| of.is_none_or(|of| of == &***name));
    let his = wanted.filter_map(|(name, node)| {
        let affiliation = node.affiliation(&asked.who, &asked.relation);
        (affiliation != NodeAffiliation::None).then(|| {
            Element::new("affiliation", ns::PUBSUB)
                .with("node", name.clone())
                .with("affiliation", affiliation.as_str())
        })
    });
    let list = Element::new("affiliations", ns::PUBSUB).with_opt("node", of).children(his);
    Ok(PubSubReply::Result(Some(Element::new("pubsub", ns::PUBSUB).child(list))))
}
