//! Collections (XEP-0248): nodes of a service that have other nodes in place of items. A node is in one collection or in the root, so the nodes
//! are a tree; the root is the service itself, and has no row.
//!
//! The row of a node names its collection; the children of a collection are derived from these names, so that an association is the write of
//! one node. `owner` calls this module to configure and delete nodes, `notify` asks it for the collections above a node ([`path`]). All here
//! is pure. The nodes of accounts (XEP-0163) have no collections.

use std::collections::BTreeSet;
use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::node::{FormFault, Node, NodeAffiliation, Nodes, meant, word};
use super::request::PendingRequest;
use super::{fault, node_of, service, unsupported};
use crate::limits;

/// The configuration that only a collection has (§7.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectionConfig {
    pub(crate) children_max: u32,
    pub(crate) policy: AssociationPolicy,
    pub(crate) whitelist: Vec<Bare>,
}

impl Default for CollectionConfig {
    fn default() -> CollectionConfig {
        CollectionConfig {
            children_max: limits::COLLECTION_CHILDREN,
            policy: AssociationPolicy::default(),
            whitelist: Vec::new(),
        }
    }
}

/// The field of a collection's configuration with the accounts that may associate nodes.
pub const ASSOCIATION_WHITELIST: &str = "pubsub#children_association_whitelist";

/// The entities beside owners that may associate nodes with a collection (`pubsub#children_association_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AssociationPolicy {
    All,
    #[default]
    Owners,
    Whitelist,
}

const POLICIES: [(&str, AssociationPolicy); 3] = [
    ("all", AssociationPolicy::All),
    ("owners", AssociationPolicy::Owners),
    ("whitelist", AssociationPolicy::Whitelist),
];

/// Fields of a node's configuration that have no meaning for a collection, which has no items.
const OF_ITEMS: [&str; 6] = [
    "pubsub#publish_model",
    "pubsub#persist_items",
    "pubsub#max_items",
    "pubsub#send_last_published_item",
    "pubsub#deliver_payloads",
    "pubsub#notify_retract",
];

/// The collections above a node, the nearest first, with their names.
pub(crate) type CollectionPath = Vec<(Box<str>, Rc<Node>)>;

/// The collections above a node. A name of no collection ends the path: the node is in the root.
pub(crate) fn path(nodes: &Nodes, node: &Node) -> CollectionPath {
    above(nodes, node).map(|(name, node)| (name.into(), Rc::clone(node))).collect()
}

fn above<'a>(nodes: &'a Nodes, node: &'a Node) -> impl Iterator<Item = (&'a str, &'a Rc<Node>)> {
    let next = move |node: &'a Node| {
        let name = node.parent.as_deref()?;
        Some((name, collection_at(nodes, name)?))
    };
    // There are no longer paths, and a stored one that went round would never end.
    std::iter::successors(next(node), move |&(_, node)| next(node)).take(limits::COLLECTION_DEPTH)
}

fn collection_at<'a>(nodes: &'a Nodes, name: &str) -> Option<&'a Rc<Node>> {
    nodes.get(name).filter(|node| node.collection.is_some())
}

/// True if a node is in no collection that exists.
pub(crate) fn is_in_root(nodes: &Nodes, node: &Node) -> bool {
    node.parent.as_deref().is_none_or(|name| collection_at(nodes, name).is_none())
}

/// The nodes of a collection.
pub(crate) fn children<'a>(
    nodes: &'a Nodes,
    collection: &'a str,
) -> impl Iterator<Item = (&'a str, &'a Rc<Node>)> {
    let children = nodes.iter().filter(move |(_, node)| node.parent.as_deref() == Some(collection));
    children.map(|(name, node)| (&**name, node))
}

/// The levels of nodes below a node.
fn levels_below(nodes: &Nodes, name: &str) -> usize {
    if collection_at(nodes, name).is_none() {
        return 0;
    }
    let places = nodes.values().filter_map(|node| above(nodes, node).position(|(above, _)| above == name));
    places.max().map_or(0, |place| place + 1)
}

/// §7.2.3.1, §7.2.3.4 and §7.2.3.5: the options cannot be.
fn invalid() -> StanzaError {
    fault(Condition::NotAllowed, "invalid-options")
}

/// §7.2.3.3.
fn too_many_children() -> StanzaError {
    fault(Condition::NotAllowed, "max-nodes-exceeded")
}

/// True if the requester may associate nodes of its own with this collection.
fn admits(asked: &PendingRequest, node: &Node, collection: &CollectionConfig) -> bool {
    match (asked.affiliation(node), collection.policy) {
        (NodeAffiliation::Owner, _) => true,
        (NodeAffiliation::Outcast, _) | (_, AssociationPolicy::Owners) => false,
        (_, AssociationPolicy::All) => true,
        (_, AssociationPolicy::Whitelist) => collection.whitelist.contains(&asked.by.user),
    }
}

/// The node, associated with that collection.
///
/// # Errors
/// The errors of §7.2.3: the requester may not, the collection is a leaf or full, or the nodes would be no tree.
fn associated(
    asked: &PendingRequest,
    nodes: &Nodes,
    (name, node): (&str, &Node),
    into: &str,
) -> Result<Node, StanzaError> {
    let above = node_of(nodes, into)?;
    let Some(collection) = &above.collection else { return Err(invalid()) };
    if !admits(asked, above, collection) {
        return Err(Condition::Forbidden.into());
    }
    if name == into || self::above(nodes, above).any(|(above, _)| above == name) {
        return Err(invalid());
    }
    if children(nodes, into).count() >= collection.children_max as usize {
        return Err(too_many_children());
    }
    if self::above(nodes, above).count() + 1 + levels_below(nodes, name) > limits::COLLECTION_DEPTH {
        return Err(StanzaError::new(Condition::PolicyViolation, "collections are nested too deeply"));
    }
    Ok(Node { parent: Some(into.into()), ..node.clone() })
}

/// The nodes that a request changes, by name.
pub(crate) type NodeChanges = Vec<(Box<str>, Node)>;

/// The fields of collections in a submitted form.
#[derive(Debug, Default)]
pub(crate) struct CollectionForm {
    /// `pubsub#node_type` is `collection`, or `leaf`.
    is_collection: Option<bool>,
    /// The names in `pubsub#collection`; none: the root.
    parents: Option<BTreeSet<Box<str>>>,
    /// The names in `pubsub#children`.
    children: Option<BTreeSet<Box<str>>>,
    children_max: Option<u32>,
    policy: Option<AssociationPolicy>,
    whitelist: Option<Vec<Bare>>,
}

impl CollectionForm {
    /// Reads a form; other fields are passed over.
    ///
    /// # Errors
    /// A value that cannot be.
    pub(crate) fn read(form: &Element) -> Result<CollectionForm, FormFault> {
        let mut read = CollectionForm::default();
        for field in form.elements().filter(|child| child.is("field", ns::DATA)) {
            let values = field.elements().filter(|child| child.is("value", ns::DATA));
            let values: Vec<String> = values.map(|value| value.content().into_owned()).collect();
            // An empty value of `pubsub#collection` is the root (§7.2.1).
            let names =
                || values.iter().filter(|name| !name.is_empty()).map(|name| name.as_str().into()).collect();
            let value = values.first().map(String::as_str).unwrap_or_default();
            match field.attr("var").unwrap_or_default() {
                "pubsub#node_type" => {
                    read.is_collection = Some(match value {
                        "leaf" => false,
                        "collection" => true,
                        _ => return Err(FormFault::Value),
                    });
                }
                "pubsub#collection" => read.parents = Some(names()),
                "pubsub#children" => read.children = Some(names()),
                "pubsub#children_max" => {
                    let max = value
                        .parse::<u32>()
                        .ok()
                        .filter(|max| (1..=limits::COLLECTION_CHILDREN).contains(max));
                    read.children_max = Some(max.ok_or(FormFault::Value)?);
                }
                "pubsub#children_association_policy" => {
                    // The registry has `owners`, §7.2.1 has `owner`.
                    let value = if value == "owner" { "owners" } else { value };
                    read.policy = Some(meant(&POLICIES, value).ok_or(FormFault::Value)?);
                }
                ASSOCIATION_WHITELIST => {
                    let all: Option<Vec<Bare>> =
                        values.iter().map(|jid| Jid::parse(jid).ok().map(|jid| jid.bare())).collect();
                    let all = all.filter(|all| all.len() <= limits::ASSOCIATION_WHITELIST);
                    read.whitelist = Some(all.ok_or(FormFault::Value)?);
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// True if the form wants something that only a service has.
    pub(crate) fn needs_service(&self) -> bool {
        let has_names =
            |names: &Option<BTreeSet<Box<str>>>| names.as_ref().is_some_and(|names| !names.is_empty());
        self.is_collection == Some(true) || has_names(&self.parents) || has_names(&self.children)
    }

    /// The node with the values of the form, and the other nodes that change with it: its children, those that leave it first.
    ///
    /// # Errors
    /// The errors of §7.2.3.
    pub(crate) fn apply(
        self,
        asked: &PendingRequest,
        nodes: &Nodes,
        (name, mut node): (&str, Node),
    ) -> Result<(Node, NodeChanges), StanzaError> {
        self.set_type(&mut node, nodes.contains_key(name))?;
        if self.is_empty() {
            return Ok((node, NodeChanges::new()));
        }
        let CollectionForm { parents, children: wanted, children_max, policy, whitelist, .. } = self;
        if let Some(collection) = &mut node.collection {
            collection.children_max = children_max.unwrap_or(collection.children_max);
            collection.policy = policy.unwrap_or(collection.policy);
            if let Some(whitelist) = whitelist {
                collection.whitelist = whitelist;
            }
        } else if wanted.as_ref().is_some_and(|wanted| !wanted.is_empty()) {
            return Err(invalid());
        }
        // The other nodes are judged by a copy that has the changes so far.
        let mut changed = nodes.clone();
        changed.insert(name.into(), Rc::new(node.clone()));
        if let Some(parents) = parents {
            let mut parents = parents.into_iter();
            let parent = parents.next();
            if parents.next().is_some() {
                return Err(unsupported("multi-collections"));
            }
            node = match parent {
                Some(parent) if node.parent.as_ref() == Some(&parent) => node,
                Some(parent) => associated(asked, &changed, (name, &node), &parent)?,
                None => Node { parent: None, ..node },
            };
            changed.insert(name.into(), Rc::new(node.clone()));
        }
        let changes = wanted
            .map_or(Ok(NodeChanges::new()), |wanted| set_children(asked, &mut changed, name, &wanted))?;
        let most = node.collection.as_ref().map_or(0, |collection| collection.children_max as usize);
        if node.collection.is_some() && children(&changed, name).count() > most {
            return Err(too_many_children());
        }
        Ok((node, changes))
    }

    /// True if the form has no field that needs the other nodes, or that only a collection has.
    fn is_empty(&self) -> bool {
        let CollectionForm { parents, children, children_max, policy, whitelist, .. } = self;
        (parents.is_none() && children.is_none())
            && (children_max.is_none() && policy.is_none() && whitelist.is_none())
    }

    /// Sets the type of a new node; that of one that exists stays (§7.2.3.4; a leaf does not become a collection either, as it may: its
    /// items would be lost).
    fn set_type(&self, node: &mut Node, exists: bool) -> Result<(), StanzaError> {
        match self.is_collection {
            Some(is_collection) if exists && is_collection != node.collection.is_some() => Err(invalid()),
            Some(true) if !exists => {
                node.collection = Some(CollectionConfig::default());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Gives a collection these children and no others.
fn set_children(
    asked: &PendingRequest,
    nodes: &mut Nodes,
    collection: &str,
    wanted: &BTreeSet<Box<str>>,
) -> Result<NodeChanges, StanzaError> {
    let left = children(nodes, collection).filter(|(name, _)| !wanted.contains(*name));
    let mut changes: NodeChanges = left.map(|(name, node)| (name.into(), without_parent(node))).collect();
    for (name, node) in &changes {
        nodes.insert(name.clone(), Rc::new(node.clone()));
    }
    for name in wanted {
        if let Some(node) = own_child(asked, nodes, name, collection)? {
            nodes.insert(name.clone(), Rc::new(node.clone()));
            changes.push((name.clone(), node));
        }
    }
    Ok(changes)
}

/// A node of the requester's, associated with a collection on the collection's side. `None`: it is in it already.
fn own_child(
    asked: &PendingRequest,
    nodes: &Nodes,
    name: &str,
    collection: &str,
) -> Result<Option<Node>, StanzaError> {
    let node = node_of(nodes, name)?;
    if node.parent.as_deref() == Some(collection) {
        return Ok(None);
    }
    // A collection does not take nodes of others: their owners associate them.
    if asked.affiliation(node) != NodeAffiliation::Owner {
        return Err(Condition::Forbidden.into());
    }
    // Nor from another collection, as a node has one only.
    if !is_in_root(nodes, node) {
        return Err(Condition::Conflict.into());
    }
    associated(asked, nodes, (name, node), collection).map(Some)
}

/// The node, in the root.
pub(crate) fn without_parent(node: &Node) -> Node {
    Node { parent: None, ..node.clone() }
}

/// A change of one association (§7.4, §7.5).
pub(crate) enum AssociationChange<'a> {
    Associate(&'a str),
    Dissociate(&'a str),
}

impl<'a> AssociationChange<'a> {
    /// Reads the part of a request, which has one change.
    pub(crate) fn read(part: &'a Element) -> Result<AssociationChange<'a>, StanzaError> {
        let mut changes = part.elements().filter(|child| child.ns() == ns::PUBSUB_OWNER);
        let (Some(change), None) = (changes.next(), changes.next()) else {
            return Err(Condition::BadRequest.into());
        };
        let node = change.attr("node").filter(|node| !node.is_empty());
        let node = node.ok_or_else(|| fault(Condition::BadRequest, "nodeid-required"))?;
        match change.name() {
            "associate" => Ok(AssociationChange::Associate(node)),
            "dissociate" => Ok(AssociationChange::Dissociate(node)),
            _ => Err(Condition::BadRequest.into()),
        }
    }

    /// The name of the node, and the node as it is afterwards. `None`: it is so already.
    ///
    /// # Errors
    /// The errors of §7.4.3 and §7.5.3.
    pub(crate) fn apply(
        &self,
        asked: &PendingRequest,
        nodes: &Nodes,
        collection: &str,
    ) -> Result<Option<(Box<str>, Node)>, StanzaError> {
        let above = node_of(nodes, collection)?;
        if above.collection.is_none() {
            return Err(invalid());
        }
        match *self {
            AssociationChange::Associate(name) => {
                Ok(own_child(asked, nodes, name, collection)?.map(|node| (name.into(), node)))
            }
            AssociationChange::Dissociate(name) => {
                let node = node_of(nodes, name)?;
                // Either owner may part them.
                let owns = |node: &Node| asked.affiliation(node) == NodeAffiliation::Owner;
                if !owns(node) && !owns(above) {
                    return Err(Condition::Forbidden.into());
                }
                if node.parent.as_deref() != Some(collection) {
                    return Err(Condition::BadRequest.into());
                }
                Ok(Some((name.into(), without_parent(node))))
            }
        }
    }
}

fn field(
    var: &'static str,
    kind: &'static str,
    values: impl IntoIterator<Item = impl AsRef<str>>,
) -> Element {
    let value = |text: &str| Element::new("value", ns::DATA).text(text);
    let field = Element::new("field", ns::DATA).with("var", var).with("type", kind);
    field.children(values.into_iter().map(|text| value(text.as_ref())))
}

/// The fields of a node that every form of a service has, then those of a collection.
fn fields(node: &Node) -> Vec<Element> {
    let kind = if node.collection.is_some() { "collection" } else { "leaf" };
    let mut fields = vec![
        field("pubsub#node_type", "list-single", [kind]),
        field("pubsub#collection", "text-multi", [node.parent.as_deref().unwrap_or_default()]),
    ];
    if let Some(collection) = &node.collection {
        let max = collection.children_max.to_string();
        let whitelist = collection.whitelist.iter().map(Bare::as_str);
        fields.extend([
            field("pubsub#children_max", "text-single", [max]),
            field("pubsub#children_association_policy", "list-single", [word(&POLICIES, collection.policy)]),
            field(ASSOCIATION_WHITELIST, "jid-multi", whitelist),
        ]);
    }
    fields
}

/// The form with the configuration of a service's node, with the children of a collection that are given (§8.3: the form has both ends of
/// each association).
pub(crate) fn form<'a>(
    node: &Node,
    kind: &'static str,
    children: impl IntoIterator<Item = &'a str>,
) -> Element {
    let is_collection = node.collection.is_some();
    let has =
        |var: &str| var != "pubsub#roster_groups_allowed" && !(is_collection && OF_ITEMS.contains(&var));
    let form = node.config.form_of("node_config", kind, has, service::has_access_model);
    let children = is_collection.then(|| field("pubsub#children", "text-multi", children));
    let options = |var: &str| -> Vec<&'static str> {
        match var {
            "pubsub#node_type" => vec!["leaf", "collection"],
            "pubsub#children_association_policy" => POLICIES.iter().map(|(word, _)| *word).collect(),
            _ => Vec::new(),
        }
    };
    let fields = fields(node).into_iter().map(|field| {
        let words = options(field.attr("var").unwrap_or_default());
        let value = |text: &str| Element::new("value", ns::DATA).text(text);
        let option = |word: &str| Element::new("option", ns::DATA).child(value(word));
        field.children(words.into_iter().filter(|_| kind == "form").map(option))
    });
    form.children(fields).children(children)
}

/// The fields of a node's row beside those of a leaf in the root, which needs none.
pub(crate) fn stored(node: &Node) -> Vec<Element> {
    if node.parent.is_none() && node.collection.is_none() { Vec::new() } else { fields(node) }
}

/// Reads these fields of a stored form, whatever the limits are now: the name of the collection, and the node as a collection. A policy that
/// cannot be read admits owners only.
pub(crate) fn from_stored(form: &Element) -> (Option<Box<str>>, Option<CollectionConfig>) {
    let (mut parent, mut is_collection, mut collection) = (None, false, CollectionConfig::default());
    for field in form.elements().filter(|child| child.is("field", ns::DATA)) {
        let mut values = field.elements().filter(|child| child.is("value", ns::DATA)).map(Element::content);
        match field.attr("var").unwrap_or_default() {
            "pubsub#node_type" => is_collection = values.next().as_deref() == Some("collection"),
            "pubsub#collection" => {
                parent = values.next().filter(|name| !name.is_empty()).map(|name| Box::from(&*name));
            }
            "pubsub#children_max" => {
                let max = values.next().and_then(|max| max.parse().ok());
                collection.children_max = max.unwrap_or(limits::COLLECTION_CHILDREN);
            }
            "pubsub#children_association_policy" => {
                let policy = values.next().and_then(|word| meant(&POLICIES, &word));
                collection.policy = policy.unwrap_or_default();
            }
            ASSOCIATION_WHITELIST => {
                collection.whitelist = values.filter_map(|jid| Bare::parse(&jid).ok()).collect();
            }
            _ => {}
        }
    }
    (parent, is_collection.then_some(collection))
}

#[cfg(test)]
mod tests;
