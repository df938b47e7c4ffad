//! The service of a domain that has nodes of its own (XEP-0060): any account may create them and is their owner.

use std::rc::Rc;

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid, ns};

use super::node::{AccessModel, Node, NodeAffiliation, NodeConfig, Nodes, SendLast};
use super::{FEATURE, PendingRequest, node_of};
use crate::limits;
use crate::{Host, ItemQuery, Load, Outbox};

/// Access models that depend on presence or a roster are for accounts only.
const OF_ACCOUNTS: [&str; 7] = [
    "access-presence",
    "access-roster",
    "auto-create",
    "auto-subscribe",
    "filtered-notifications",
    "presence-notifications",
    "presence-subscribe",
];

/// Every account may subscribe to a new node and read it, and a new subscriber gets the last item.
pub(super) fn default_config() -> NodeConfig {
    NodeConfig {
        access: AccessModel::Open,
        max_items: limits::SERVICE_ITEMS,
        send_last: SendLast::OnSubscribe,
        ..NodeConfig::default()
    }
}

/// A service has no roster and no presence.
pub(super) fn is_possible(config: &NodeConfig) -> Result<(), StanzaError> {
    if matches!(config.access, AccessModel::Presence | AccessModel::Roster) {
        let text = "a node of a service is open, whitelist or authorize";
        return Err(StanzaError::new(Condition::NotAcceptable, text));
    }
    Ok(())
}

/// Checks that an owner of so many nodes may create one more.
pub(super) fn there_is_room(nodes: &Nodes, who: &Bare) -> Result<(), StanzaError> {
    let is_his = |node: &&Rc<Node>| {
        node.affiliations.iter().any(|(known, is)| known == who && *is == NodeAffiliation::Owner)
    };
    let his = nodes.values().filter(is_his).count();
    if nodes.len() < limits::SERVICE_NODES && his < limits::NODES {
        return Ok(());
    }
    Err(StanzaError::new(Condition::ResourceConstraint, "too many nodes: delete some"))
}

pub(super) fn owners(node: &Node) -> impl Iterator<Item = &Bare> {
    node.affiliations.iter().filter(|(_, is)| *is == NodeAffiliation::Owner).map(|(who, _)| who)
}

impl PendingRequest {
    pub(super) fn is_of_service(&self) -> bool {
        self.owner.local().is_none()
    }

    /// The configuration of a node that is created without a form.
    pub(super) fn default_config(&self) -> NodeConfig {
        if self.is_of_service() { default_config() } else { NodeConfig::default() }
    }
}

impl Host {
    /// For a service, which has the address of its domain and no other.
    pub(crate) fn routed_to_pubsub(
        &mut self,
        now: Instant,
        stanza: &Element,
        from: &Jid,
        to: &Jid,
        out: &mut Outbox,
    ) {
        let is_service = to.local().is_none() && to.resource().is_none();
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {}
            Some(StanzaKind::Message) if is_service && self.pubsub_message(now, from, to, stanza, out) => {
                return;
            }
            Some(StanzaKind::Message) => {
                return self.refuse(stanza, &Condition::ServiceUnavailable.into(), out);
            }
            _ => return,
        }
        if !is_service {
            return self.refuse(stanza, &Condition::ItemNotFound.into(), out);
        }
        let is_get = stanza.attr("type") == Some("get");
        let (Some(payload), 1) = (stanza.first(), stanza.elements().count()) else {
            return self.refuse(stanza, &Condition::BadRequest.into(), out);
        };
        match (payload.name(), payload.ns()) {
            ("pubsub", ns::PUBSUB | ns::PUBSUB_OWNER) => self.pubsub_asked(now, stanza, from, to, out),
            ("query", ns::DISCO_INFO) if is_get => {
                self.describe_service(now, stanza, payload, (from, to), out);
            }
            ("query", ns::DISCO_ITEMS) if is_get => self.list_service(now, stanza, payload, (from, to), out),
            ("ping", ns::PING) if is_get => self.answer(stanza, Ok(None), out),
            _ => self.refuse(stanza, &Condition::ServiceUnavailable.into(), out),
        }
    }

    /// §5.1, §5.3.
    fn describe_service(
        &mut self,
        now: Instant,
        iq: &Element,
        query: &Element,
        (from, to): (&Jid, &Jid),
        out: &mut Outbox,
    ) {
        if let Some(node) = query.attr("node") {
            let iq = iq.clone();
            let then = move |host: &mut Host, info: Result<Element, StanzaError>, out: &mut Outbox| {
                host.answer(&iq, info.map(Some), out);
            };
            return self.describe_node(now, &to.bare(), (from, node), out, then);
        }
        let identity = Element::new("identity", ns::DISCO_INFO)
            .with("category", "pubsub")
            .with("type", "service")
            .with("name", "Publish-subscribe");
        let is_had = |var: &&&str| {
            let name = var.split_once('#').map_or("", |(_, name)| name);
            !OF_ACCOUNTS.contains(&name)
        };
        let own = [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PING];
        let vars = own.iter().chain(FEATURE.account.iter().filter(is_had));
        let features = vars.map(|var| Element::new("feature", ns::DISCO_INFO).with("var", *var));
        let info = Element::new("query", ns::DISCO_INFO).child(identity).children(features);
        self.answer(iq, Ok(Some(info)), out);
    }

    /// §5.2: its nodes; §5.5: a node's items.
    fn list_service(
        &mut self,
        now: Instant,
        iq: &Element,
        query: &Element,
        (from, to): (&Jid, &Jid),
        out: &mut Outbox,
    ) {
        let (iq, service) = (iq.clone(), to.bare());
        if let Some(name) = query.attr("node") {
            return self.list_items(now, iq, Box::from(name), (from, &service), out);
        }
        let jid = service.clone();
        self.list_nodes(now, &service, from, out, move |host, nodes, out| {
            let item = |(name, title): (Box<str>, Box<str>)| {
                let title = (!title.is_empty()).then_some(title);
                let item = Element::new("item", ns::DISCO_ITEMS).with("jid", jid.as_str());
                item.with("node", name).with_opt("name", title)
            };
            let query = nodes.map(|nodes| {
                let shown = nodes.into_iter().take(limits::SERVICE_LISTED);
                Element::new("query", ns::DISCO_ITEMS).children(shown.map(item))
            });
            host.answer(&iq, query.map(Some), out);
        });
    }

    fn list_items(
        &mut self,
        now: Instant,
        iq: Element,
        name: Box<str>,
        (from, service): (&Jid, &Bare),
        out: &mut Outbox,
    ) {
        let (relation, who, owner) = (self.relation(service, from), from.bare(), service.clone());
        let job = move |host: &mut Host, _: Instant, nodes: Result<Rc<Nodes>, _>, out: &mut Outbox| {
            let may = nodes.and_then(|nodes: Rc<Nodes>| node_of(&nodes, &name)?.may_read(&who, &relation));
            if let Err(error) = may {
                return host.refuse(&iq, &error, out);
            }
            let query = ItemQuery { is_ids_only: true, ..ItemQuery::all() };
            let load = Load::Items { owner: owner.clone(), node: name.clone(), query: Box::new(query) };
            host.load(load, out, move |host, _, result, out| {
                let query = super::items_of(result).map(|page| {
                    let item = |(id, _, _): (Box<str>, Instant, Element)| {
                        Element::new("item", ns::DISCO_ITEMS).with("jid", owner.as_str()).with("name", id)
                    };
                    let query = Element::new("query", ns::DISCO_ITEMS).with("node", name.clone());
                    query.children(page.items.into_iter().map(item))
                });
                host.answer(&iq, query.map(Some), out);
            });
        };
        self.with_nodes(now, service, out, Box::new(job));
    }
}
