//! Nodes of an account as XEP-0227 §4.10 has them: the configurations in one element, the items in another. A
//! node whose configuration is missing or cannot be read is closed, so that an import never shows items to
//! more entities than before.
//!
//! In: the `<user>` of an export, of this server or of another. Out: the changes that write its nodes and
//! items, and the kinds of things that had to be left out, which the import reports.

use std::collections::BTreeMap;

use stdx::Instant;
use xmpp::{Bare, Element, ns};

use super::node::{AccessModel, Node, NodeConfig};
use super::publish::name_is_free;
use super::store::{NodeChange, kept};
use crate::limits;

/// The nodes of a `<user>`, and the kinds of things that are not imported, in the plural.
pub fn imported(owner: &Bare, user: &Element, at: Instant) -> (Vec<NodeChange>, Vec<&'static str>) {
    let mut passed = Vec::new();
    let mut nodes: BTreeMap<Box<str>, Node> = BTreeMap::new();
    for (name, parts) in configured(user) {
        if name_is_free(&name).is_err() || nodes.len() >= limits::NODES {
            passed.push("nodes");
            continue;
        }
        nodes.insert(name, read(&parts, &mut passed));
    }
    let mut items = Vec::new();
    for list in parts(user, ns::PUBSUB).filter(|part| part.name() == "items") {
        let name = list.attr("node").unwrap_or_default();
        let is_known = nodes.contains_key(name);
        if name_is_free(name).is_err() || name.is_empty() || (!is_known && nodes.len() >= limits::NODES) {
            passed.push("nodes");
            continue;
        }
        let node = nodes.entry(name.into()).or_insert_with(closed);
        for item in list.elements() {
            match item_of(item) {
                Some((id, item)) => items.push(kept(owner, (name, &id), item, at, node.config.keep())),
                None => passed.push("items of nodes"),
            }
        }
    }
    let nodes = nodes.into_iter().map(|(name, node)| NodeChange::Node {
        owner: owner.clone(),
        node: name,
        config: Some(Box::new(node.element())),
    });
    (nodes.chain(items).collect(), passed)
}

/// The parts of all `<pubsub/>` of a user in one namespace: items, or configurations.
fn parts<'a>(user: &'a Element, ns: &'static str) -> impl Iterator<Item = &'a Element> {
    user.elements().filter(move |child| child.is("pubsub", ns)).flat_map(Element::elements)
}

/// The configured nodes by name, each in one element in the form that the store has.
fn configured(user: &Element) -> BTreeMap<Box<str>, Element> {
    let mut nodes: BTreeMap<Box<str>, Element> = BTreeMap::new();
    for part in parts(user, ns::PUBSUB_OWNER) {
        if let Some(name) = part.attr("node").filter(|name| !name.is_empty()) {
            let node = nodes.entry(name.into()).or_insert_with(|| Element::new("pubsub", ns::PUBSUB_OWNER));
            node.push(part.clone());
        }
    }
    nodes
}

/// A node from its parts. Subscriptions and affiliations beyond the limit are dropped.
fn read(parts: &Element, passed: &mut Vec<&'static str>) -> Node {
    let form = parts.get("configure", ns::PUBSUB_OWNER).and_then(|configure| configure.get("x", ns::DATA));
    let config = form.and_then(|form| NodeConfig::default().with_form(form, "node_config", false).ok());
    if config.is_none() {
        passed.push("configurations of nodes, which only their owners see now");
    }
    // Accounts have no collections here.
    let mut node = Node { parent: None, collection: None, ..Node::from_element(parts) };
    node.config = config.unwrap_or_else(|| closed().config);
    node.subscriptions.truncate(limits::NODE_SUBSCRIPTIONS);
    node.affiliations.truncate(limits::NODE_SUBSCRIPTIONS);
    node
}

/// A node whose configuration is unknown: its items are kept and not shown.
fn closed() -> Node {
    let config =
        NodeConfig { access: AccessModel::Whitelist, max_items: limits::NODE_ITEMS, ..NodeConfig::default() };
    Node { config, ..Node::default() }
}

/// The id and the item in the form that the store has; `None`: it has no payload or breaks a limit.
fn item_of(item: &Element) -> Option<(Box<str>, Element)> {
    let id = item.attr("id").filter(|id| !id.is_empty() && id.len() <= limits::NODE_NAME)?;
    let payload = item.first().filter(|_| item.is("item", ns::PUBSUB))?.clone();
    let kept = Element::new("item", ns::PUBSUB).with("id", id).child(payload);
    (kept.to_bytes(ns::CLIENT).len() <= limits::ITEM).then(|| (id.into(), kept))
}
