//! The service of a domain that has nodes of its own (XEP-0060): any account may create them and is their owner.

use std::rc::Rc;

use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::context::{NodesView, PubSubContext};
use super::interface::{PubSubEffect, PubSubEvent};
use super::node::{AccessModel, Node, NodeAffiliation, NodeConfig, Nodes, SendLast};
use super::page::{ItemPage, ItemQuery, ItemRow};
use super::request::PendingRequest;
use super::state::{PendingRead, PubSubRead};
use super::store::NodeLoad;
use super::subscribe::Approval;
use super::{FEATURES, node_of};
use crate::limits;

/// Features of XEP-0060 that the service does not announce: they depend on presence or a roster, or say that an account has nodes.
const OF_ACCOUNTS: [&str; 8] = [
    "access-presence",
    "access-roster",
    "auto-create",
    "auto-subscribe",
    "filtered-notifications",
    "presence-notifications",
    "presence-subscribe",
    "pubsub-on-a-jid",
];

/// Every account may subscribe to a new node and read it, and a new subscriber gets the last item.
pub(crate) fn default_config() -> NodeConfig {
    NodeConfig {
        access: AccessModel::Open,
        max_items: limits::SERVICE_ITEMS,
        send_last: SendLast::OnSubscribe,
        ..NodeConfig::default()
    }
}

/// A service has no roster and no presence.
pub(crate) fn has_access_model(access: AccessModel) -> bool {
    !matches!(access, AccessModel::Presence | AccessModel::Roster)
}

/// Checks that a service can have a node of this configuration.
pub(crate) fn is_possible(config: &NodeConfig) -> Result<(), StanzaError> {
    if !has_access_model(config.access) {
        let text = "a node of a service is open, whitelist or authorize";
        return Err(StanzaError::new(Condition::NotAcceptable, text));
    }
    Ok(())
}

/// Checks that an account that owns so many nodes may create one more: each account has a limit, and so has
/// the service.
pub(crate) fn there_is_room(nodes: &Nodes, user: &Bare) -> Result<(), StanzaError> {
    let is_of_owner = |node: &&Rc<Node>| {
        node.affiliations.iter().any(|(known, is)| known == user && *is == NodeAffiliation::Owner)
    };
    let of_owner = nodes.values().filter(is_of_owner).count();
    if nodes.len() < limits::SERVICE_NODES && of_owner < limits::NODES {
        return Ok(());
    }
    Err(StanzaError::new(Condition::ResourceConstraint, "too many nodes: delete some"))
}

/// The owners of a node of a service. An account's node has the account, which is in no list.
pub(crate) fn owners(node: &Node) -> impl Iterator<Item = &Bare> {
    node.affiliations.iter().filter(|(_, is)| *is == NodeAffiliation::Owner).map(|(user, _)| user)
}

impl PendingRequest {
    /// True if the nodes are a service's, whose address is a domain.
    pub(crate) fn is_of_service(&self) -> bool {
        self.owner.local().is_none()
    }

    /// The configuration of a node that is created without a form.
    pub(crate) fn default_config(&self) -> NodeConfig {
        if self.is_of_service() { default_config() } else { NodeConfig::default() }
    }
}

/// A request of service discovery to a service, which its nodes answer.
pub struct ServiceRequest {
    pub(crate) iq: Element,
    from: Jid,
    query: ServiceQuery,
}

/// The question of a request of service discovery.
enum ServiceQuery {
    /// §5.2: the nodes.
    Nodes,
    /// §5.3: one node.
    Node(Box<str>),
    /// §5.5: the items of a node, or the nodes of a collection.
    Items(Box<str>),
}

impl ServiceRequest {
    /// Answers from the owner's nodes. The items of a node are read from the store first, if the sender may read them.
    pub(crate) fn answer(self, context: &PubSubContext<'_>, owner: &Bare, nodes: &Rc<Nodes>) -> PubSubEffect {
        let view = NodesView { nodes: Rc::clone(nodes), by: context.requester(owner, &self.from) };
        let answer = match self.query {
            ServiceQuery::Nodes => {
                let items = view.items(owner).take(limits::SERVICE_LISTED);
                Ok(Element::new("query", ns::DISCO_ITEMS).children(items))
            }
            ServiceQuery::Node(name) => view.describe(&name),
            ServiceQuery::Items(name) => {
                let node = node_of(nodes, &name);
                let read = |node: &Rc<Node>| {
                    node.may_read(&view.by.user, &view.by.relation).map(|()| Rc::clone(node))
                };
                match node.and_then(read) {
                    // XEP-0248 §5.2: the items of a collection are its nodes.
                    Ok(node) if node.collection.is_some() => {
                        let items = view.items_in(owner, Some(&*name)).take(limits::SERVICE_LISTED);
                        Ok(Element::new("query", ns::DISCO_ITEMS).with("node", name.clone()).children(items))
                    }
                    Ok(_) => return read_ids(self.iq, owner, name),
                    Err(error) => Err(error),
                }
            }
        };
        PubSubEffect::Answer(self.iq, answer.map(Some))
    }
}

/// Reads the ids of a node's items without their payloads, which discovery does not show.
fn read_ids(iq: Element, owner: &Bare, name: Box<str>) -> PubSubEffect {
    let query = Box::new(ItemQuery { is_ids_only: true, ..ItemQuery::all() });
    let load = NodeLoad::Items { owner: owner.clone(), node: name.clone(), query };
    PubSubEffect::Load(load, PubSubRead(PendingRead::ItemIds { iq, owner: owner.clone(), name }))
}

/// The items of a node for service discovery.
pub(crate) fn item_list(owner: &Bare, name: Box<str>, page: ItemPage) -> Element {
    let item = |(id, _, _): ItemRow| {
        Element::new("item", ns::DISCO_ITEMS).with("jid", owner.as_str()).with("name", id)
    };
    Element::new("query", ns::DISCO_ITEMS).with("node", name).children(page.items.into_iter().map(item))
}

/// The consequence of a stanza to a service.
pub(crate) enum ServiceStanza<'a> {
    /// It needs nodes.
    Event(PubSubEvent<'a>),
    /// It is answered without nodes.
    Answer(Result<Option<Element>, StanzaError>),
    /// A presence for the service itself.
    Presence,
    Ignore,
}

impl<'a> ServiceStanza<'a> {
    /// Reads a stanza for a service, which has the address of its domain and no other. Requests for nodes are events of the machine; others are
    /// answered here.
    pub(crate) fn parse(stanza: &'a Element, from: &'a Jid, to: &'a Jid) -> ServiceStanza<'a> {
        let is_service = to.local().is_none() && to.resource().is_none();
        let refuse = |condition: Condition| ServiceStanza::Answer(Err(condition.into()));
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {}
            Some(StanzaKind::Message) => {
                let approval = if is_service { Approval::parse(from, to, stanza) } else { None };
                return match approval {
                    Some(approval) => ServiceStanza::Event(PubSubEvent::Approval { approval, from, to }),
                    None => refuse(Condition::ServiceUnavailable),
                };
            }
            Some(StanzaKind::Presence) if is_service => return ServiceStanza::Presence,
            // Presence for other addresses, and answers to requests that the service never makes.
            _ => return ServiceStanza::Ignore,
        }
        if !is_service {
            return refuse(Condition::ItemNotFound);
        }
        let is_get = stanza.attr("type") == Some("get");
        let (Some(payload), 1) = (stanza.first(), stanza.elements().count()) else {
            return refuse(Condition::BadRequest);
        };
        let node = payload.attr("node").map(Box::<str>::from);
        let query = match (payload.name(), payload.ns()) {
            ("pubsub", ns::PUBSUB | ns::PUBSUB_OWNER) => {
                return ServiceStanza::Event(PubSubEvent::Request { iq: stanza, from, to });
            }
            ("query", ns::DISCO_INFO) if is_get => match node {
                Some(name) => ServiceQuery::Node(name),
                None => return ServiceStanza::Answer(Ok(Some(service_info()))),
            },
            ("query", ns::DISCO_ITEMS) if is_get => node.map_or(ServiceQuery::Nodes, ServiceQuery::Items),
            ("ping", ns::PING) if is_get => return ServiceStanza::Answer(Ok(None)),
            _ => return refuse(Condition::ServiceUnavailable),
        };
        let request = ServiceRequest { iq: stanza.clone(), from: from.clone(), query };
        ServiceStanza::Event(PubSubEvent::ServiceRequest(request, to))
    }
}

/// The description of the service (§5.1).
fn service_info() -> Element {
    let identity = Element::new("identity", ns::DISCO_INFO)
        .with("category", "pubsub")
        .with("type", "service")
        .with("name", "Publish-subscribe");
    // The features of accounts' nodes, less those that need a roster or presence.
    let is_had = |var: &&&str| {
        let name = var.split_once('#').map_or("", |(_, name)| name);
        !OF_ACCOUNTS.contains(&name)
    };
    let own = [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PING, "http://jabber.org/protocol/pubsub#collections"];
    let vars = own.iter().chain(FEATURES.iter().filter(is_had));
    let features = vars.map(|var| Element::new("feature", ns::DISCO_INFO).with("var", *var));
    Element::new("query", ns::DISCO_INFO).child(identity).children(features)
}
