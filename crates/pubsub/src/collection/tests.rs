//! The tree of nodes stays one whatever is asked, and the events of a node reach the subscribers of collections above it who may have them.

use std::collections::BTreeMap;
use std::collections::HashSet;

use proptest::prelude::*;
use stdx::Instant;
use stdx::rng::Rng;

use super::*;
use crate::context::{Entities, PubSubContext, Requester};
use crate::interface::PubSubEffect;
use crate::node::{AccessModel, NodeConfig, Relation};
use crate::notify::{EventKind, EventSource};
use crate::options::{NodeSubscription, Subscriber, SubscriptionOptions, SubscriptionType};
use crate::presences::SubscriberPresences;

/// Nodes `n0` to `n9`, of which the first six are collections.
const NODES: usize = 10;
const COLLECTIONS: usize = 6;

fn name(number: usize) -> String {
    format!("n{number}")
}

fn bare(text: &str) -> Bare {
    Bare::parse(text).unwrap()
}

fn node(number: usize) -> Node {
    Node { collection: (number < COLLECTIONS).then(CollectionConfig::default), ..Node::default() }
}

fn nodes() -> Nodes {
    (0..NODES).map(|number| (Box::from(name(number)), Rc::new(node(number)))).collect()
}

/// A request of an account, which owns all nodes or none.
fn asked(user: &str, is_owner: bool) -> PendingRequest {
    let relation = Relation { is_owner, ..Relation::default() };
    let by = Requester { user: bare(user), relation };
    PendingRequest { iq: Element::new("iq", ns::CLIENT), owner: bare("pubsub.x.org"), by }
}

fn put(nodes: &mut Nodes, name: &str, node: Node) {
    nodes.insert(name.into(), Rc::new(node));
}

/// The detail of an error, or its condition.
fn reason<T: std::fmt::Debug>(result: Result<T, StanzaError>) -> String {
    let error = result.unwrap_err();
    let element = xmpp::stanza::refusal(&Element::new("iq", ns::CLIENT).with("id", "1"), &error);
    let error = element.get("error", ns::CLIENT).unwrap();
    let mut parts: Vec<String> =
        error.elements().filter(|part| part.name() != "text").map(|part| part.name().to_owned()).collect();
    parts.reverse();
    parts.join(" in ")
}

fn submitted(fields: &[(&str, &[&str])]) -> Element {
    let fields = fields.iter().map(|(var, values)| {
        let values = values.iter().map(|value| Element::new("value", ns::DATA).text(*value));
        Element::new("field", ns::DATA).with("var", *var).children(values)
    });
    Element::new("x", ns::DATA).with("type", "submit").children(fields)
}

fn apply(
    asked: &PendingRequest,
    nodes: &Nodes,
    name: &str,
    fields: &[(&str, &[&str])],
) -> Result<(Node, NodeChanges), StanzaError> {
    let node = nodes.get(name).map_or_else(Node::default, |node| Node::clone(node));
    CollectionForm::read(&submitted(fields)).unwrap().apply(asked, nodes, (name, node))
}

#[test]
fn a_node_is_stored_with_its_collection_and_a_leaf_in_the_root_as_before() {
    let collection = CollectionConfig {
        children_max: 7,
        policy: AssociationPolicy::Whitelist,
        whitelist: vec![bare("a@x.org"), bare("b@x.org")],
    };
    for (parent, collection) in [
        (None, None),
        (Some("top"), None),
        (None, Some(CollectionConfig::default())),
        (Some("<top>"), Some(collection)),
    ] {
        let node = Node { parent: parent.map(Box::from), collection, ..Node::default() };
        let bytes = node.element().to_bytes("");
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(text.contains("node_type"), node != Node::default(), "{text}");
        assert_eq!(Node::from_element(&xmpp::xml::parse_stored(&bytes).unwrap()), node);
    }
}

/// The next account of its name may do nothing that this one might.
#[test]
fn an_account_that_is_removed_is_in_no_list() {
    let collection =
        CollectionConfig { whitelist: vec![bare("a@x.org"), bare("b@x.org")], ..Default::default() };
    let mut node = Node { collection: Some(collection), ..Node::default() };
    assert!(node.names(&bare("a@x.org")) && !node.names(&bare("c@x.org")));
    node.remove(&bare("a@x.org"));
    assert!(!node.names(&bare("a@x.org")) && node.names(&bare("b@x.org")));
}

#[test]
fn a_node_goes_only_where_owners_and_limits_let_it() {
    let mut nodes = nodes();
    let (owner, other) = (asked("o@x.org", true), asked("e@x.org", false));
    let associate = |asked: &PendingRequest, nodes: &Nodes, child: &str, into: &str| {
        AssociationChange::Associate(child).apply(asked, nodes, into)
    };
    assert_eq!(reason(associate(&owner, &nodes, "n8", "n9")), "invalid-options in not-allowed");
    assert_eq!(reason(associate(&owner, &nodes, "n0", "n0")), "invalid-options in not-allowed");
    assert_eq!(reason(associate(&owner, &nodes, "none", "n0")), "item-not-found");
    assert_eq!(reason(associate(&owner, &nodes, "n9", "none")), "item-not-found");
    assert_eq!(reason(associate(&other, &nodes, "n9", "n0")), "forbidden");
    // A node of the requester's own in another's collection, by the collection's policy.
    let own = Node { affiliations: vec![(bare("e@x.org"), NodeAffiliation::Owner)], ..Node::default() };
    put(&mut nodes, "n9", own);
    let policy = |nodes: &mut Nodes, policy, whitelist: &[&str]| {
        let whitelist = whitelist.iter().map(|user| bare(user)).collect();
        let collection = CollectionConfig { policy, whitelist, ..CollectionConfig::default() };
        put(nodes, "n0", Node { collection: Some(collection), ..Node::default() });
        associate(&other, nodes, "n9", "n0").is_ok()
    };
    assert!(!policy(&mut nodes, AssociationPolicy::Owners, &["e@x.org"]));
    assert!(!policy(&mut nodes, AssociationPolicy::Whitelist, &["f@x.org"]));
    assert!(policy(&mut nodes, AssociationPolicy::Whitelist, &["e@x.org"]));
    assert!(policy(&mut nodes, AssociationPolicy::All, &[]));
    let (name, node) = associate(&other, &nodes, "n9", "n0").unwrap().unwrap();
    put(&mut nodes, &name, node);
    assert_eq!(associate(&other, &nodes, "n9", "n0"), Ok(None), "it is there");
    assert_eq!(reason(associate(&owner, &nodes, "n9", "n1")), "conflict");
    let dissociate = |asked: &PendingRequest, nodes: &Nodes, from: &str| {
        AssociationChange::Dissociate("n9").apply(asked, nodes, from)
    };
    assert_eq!(reason(dissociate(&owner, &nodes, "n1")), "bad-request");
    assert_eq!(reason(dissociate(&asked("f@x.org", false), &nodes, "n0")), "forbidden");
    for user in [&owner, &other] {
        assert_eq!(dissociate(user, &nodes, "n0").unwrap().unwrap().1.parent, None);
    }
}

#[test]
fn a_form_changes_both_ends_of_an_association() {
    let owner = asked("o@x.org", true);
    let mut nodes = nodes();
    let (node, _) = apply(&owner, &nodes, "n9", &[("pubsub#collection", &["n0"])]).unwrap();
    assert_eq!(node.parent.as_deref(), Some("n0"));
    put(&mut nodes, "n9", node);
    // The root is an empty value.
    assert_eq!(apply(&owner, &nodes, "n9", &[("pubsub#collection", &[""])]).unwrap().0.parent, None);
    let (_, changes) = apply(&owner, &nodes, "n0", &[("pubsub#children", &["n8", "n7"])]).unwrap();
    let changes: Vec<(&str, Option<&str>)> =
        changes.iter().map(|(name, node)| (&**name, node.parent.as_deref())).collect();
    assert_eq!(changes, [("n9", None), ("n7", Some("n0")), ("n8", Some("n0"))]);
    let refused = |name: &str, fields: &[(&str, &[&str])]| reason(apply(&owner, &nodes, name, fields));
    assert_eq!(refused("n8", &[("pubsub#children", &["n7"])]), "invalid-options in not-allowed");
    assert_eq!(refused("n0", &[("pubsub#node_type", &["leaf"])]), "invalid-options in not-allowed");
    assert_eq!(refused("n8", &[("pubsub#node_type", &["collection"])]), "invalid-options in not-allowed");
    assert_eq!(
        refused("n8", &[("pubsub#collection", &["n0", "n1"])]),
        "unsupported in feature-not-implemented"
    );
    assert_eq!(refused("n1", &[("pubsub#children", &["n9"])]), "conflict");
    let few: &[(&str, &[&str])] = &[("pubsub#children_max", &["1"]), ("pubsub#children", &["n8", "n9"])];
    assert_eq!(refused("n0", few), "max-nodes-exceeded in not-allowed");
    for wrong in
        [("pubsub#node_type", "tree"), ("pubsub#children_max", "0"), ("pubsub#children_max", "1000000")]
    {
        assert_eq!(CollectionForm::read(&submitted(&[(wrong.0, &[wrong.1])])).unwrap_err(), FormFault::Value);
    }
}

#[test]
fn collections_are_nested_so_deep_and_no_deeper() {
    let owner = asked("o@x.org", true);
    let mut nodes = Nodes::new();
    let deep = limits::COLLECTION_DEPTH;
    for level in 0..=deep {
        let parent = (level > 0).then(|| name(level - 1).into());
        let collection = (level < deep).then(CollectionConfig::default);
        put(&mut nodes, &name(level), Node { parent, collection, ..Node::default() });
    }
    assert_eq!(path(&nodes, &nodes[&*name(deep)]).len(), deep);
    put(&mut nodes, "top", Node { collection: Some(CollectionConfig::default()), ..Node::default() });
    let result = AssociationChange::Associate("n0").apply(&owner, &nodes, "top");
    assert_eq!(reason(result), "policy-violation");
    nodes.remove(&*name(deep));
    assert!(AssociationChange::Associate("n0").apply(&owner, &nodes, "top").is_ok());
}

/// A step of a request: node, collection and kind.
type Step = (usize, usize, u8);

/// Performs a step as its owner; a refused one changes nothing.
fn perform(nodes: &mut Nodes, (node, collection, kind): Step) {
    let (owner, child, into) = (asked("o@x.org", true), name(node), name(collection));
    match kind {
        0 => {
            if let Ok(Some((name, node))) = AssociationChange::Associate(&child).apply(&owner, nodes, &into) {
                put(nodes, &name, node);
            }
        }
        1 => {
            if let Ok(Some((name, node))) = AssociationChange::Dissociate(&child).apply(&owner, nodes, &into)
            {
                put(nodes, &name, node);
            }
        }
        2 => {
            if let Ok((node, _)) = apply(&owner, nodes, &child, &[("pubsub#collection", &[&into])]) {
                put(nodes, &child, node);
            }
        }
        3 => {
            let other = name((node + 3) % NODES);
            let children: &[&str] = &[&child, &other];
            if let Ok((node, changes)) = apply(&owner, nodes, &into, &[("pubsub#children", children)]) {
                changes.into_iter().for_each(|(name, node)| put(nodes, &name, node));
                put(nodes, &into, node);
            }
        }
        _ => {
            let left: Vec<_> = children(nodes, &into)
                .map(|(name, node)| (Box::<str>::from(name), without_parent(node)))
                .collect();
            left.into_iter().for_each(|(name, node)| put(nodes, &name, node));
            // The same name may be used anew, and has no nodes then.
            put(nodes, &into, super::tests::node(collection));
        }
    }
}

/// A host without rosters.
struct NoContacts;

impl Entities for NoContacts {
    fn relation(&self, _: &Bare, _: &Bare) -> Relation {
        Relation::default()
    }
    fn is_local(&self, _: &str) -> bool {
        true
    }
    fn is_anonymous(&self, _: &Bare) -> bool {
        false
    }
    fn watchers(&self, _: &Bare) -> Vec<&Bare> {
        Vec::new()
    }
    fn abilities_of(&self, _: &str) -> Option<Rc<HashSet<Box<str>>>> {
        None
    }
    fn clients_of(&self, _: &Bare) -> Vec<(Jid, Rc<str>)> {
        Vec::new()
    }
    fn clients_with(&self, _: &Bare, _: &str) -> Vec<&Jid> {
        Vec::new()
    }
}

/// The subscriptions of collections that get an event of a node, by walking down from each of them.
fn expected(nodes: &Nodes, leaf: &str, kind: EventKind) -> BTreeMap<(String, String), usize> {
    let mut all = BTreeMap::new();
    let none = Relation::default();
    for (collection, node) in nodes.iter().filter(|(_, node)| node.collection.is_some()) {
        for known in &node.subscriptions {
            let user = known.jid.bare();
            let is_open = |node: &Node| match kind {
                EventKind::Items => node.may_read(&user, &none).is_ok(),
                _ => node.may_subscribe(&user, &none).is_ok(),
            };
            let kinds: &[SubscriptionType] = match kind {
                EventKind::Items => &[SubscriptionType::Items, SubscriptionType::All],
                _ => &[SubscriptionType::Nodes, SubscriptionType::All],
            };
            let is_wanted = known.state == NodeSubscription::Subscribed
                && kinds.contains(&known.options.kind)
                && node.may_subscribe(&user, &none).is_ok();
            let mut level = vec![collection.clone()];
            for depth in 1..=NODES {
                let is_below =
                    |node: &Node| node.parent.as_ref().is_some_and(|parent| level.contains(parent));
                let below = nodes.iter().filter(|(_, node)| is_below(node) && is_open(node));
                let below: Vec<Box<str>> = below.map(|(name, _)| name.clone()).collect();
                level = below;
                let is_deep_enough = known.options.depth.is_none_or(|most| depth <= most as usize);
                if is_wanted && is_deep_enough && level.iter().any(|name| **name == *leaf) {
                    *all.entry((known.jid.to_string(), collection.to_string())).or_default() += 1;
                }
            }
        }
    }
    all
}

/// Address, access model, type and depth.
type Subscription = (usize, usize, usize, Option<u32>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Nodes are associated, dissociated, configured and deleted at random: they are a tree, and each subscription of a collection gets an
    /// event of a node at most once, if every node on the way is open to its subscriber.
    #[test]
    fn nodes_are_a_tree_and_each_subscription_gets_an_event_once(
        steps in prop::collection::vec((0..NODES, 0..COLLECTIONS, 0..5_u8), 1..60),
        access in prop::collection::vec(0..3_usize, NODES),
        subscriptions in prop::collection::vec((0..4_usize, 0..COLLECTIONS, 0..3_usize, prop::option::of(0..4_u32)), 0..20),
        approved in prop::collection::vec((0..4_usize, 0..NODES), 0..6),
    ) {
        let mut nodes = nodes();
        for step in steps {
            perform(&mut nodes, step);
            for (name, node) in &nodes {
                let above = path(&nodes, node);
                prop_assert!(above.iter().all(|(above, _)| above != name), "{name} is in itself");
                prop_assert!(above.len() <= limits::COLLECTION_DEPTH);
                prop_assert!(above.last().is_none_or(|(_, top)| top.parent.is_none()), "the path ends at the root");
            }
        }
        for (number, access) in access.into_iter().enumerate() {
            let access = [AccessModel::Open, AccessModel::Whitelist, AccessModel::Authorize][access];
            let node = Node::clone(&nodes[&*name(number)]);
            put(&mut nodes, &name(number), Node { config: NodeConfig { access, ..node.config }, ..node });
        }
        for (user, number) in approved {
            let mut node = Node::clone(&nodes[&*name(number)]);
            node.affiliations.push((bare(&format!("u{user}@x.org")), NodeAffiliation::Member));
            put(&mut nodes, &name(number), node);
        }
        let subscriptions: Vec<Subscription> = subscriptions;
        for (user, number, kind, depth) in subscriptions {
            let kind = [SubscriptionType::Items, SubscriptionType::Nodes, SubscriptionType::All][kind];
            let options = SubscriptionOptions { kind, depth, ..SubscriptionOptions::default() };
            let jid = Jid::parse(&format!("u{user}@x.org")).unwrap();
            let mut node = Node::clone(&nodes[&*name(number)]);
            node.insert_subscriber(Subscriber { jid, state: NodeSubscription::Subscribed, options });
            put(&mut nodes, &name(number), node);
        }
        let mut rng = Rng::seeded(1);
        let context = PubSubContext { now: Instant::from_micros(0), entities: &NoContacts, rng: &mut rng };
        for number in COLLECTIONS..NODES {
            for kind in [EventKind::Items, EventKind::Node] {
                let (name, node) = nodes.get_key_value(&*name(number)).unwrap();
                let source = EventSource::new(&bare("pubsub.x.org"), name, &nodes, Rc::clone(node));
                let Some(PubSubEffect::Notify(told)) = source.notify(kind, Element::new("x", ns::PUBSUB_EVENT)) else {
                    panic!("the node notifies");
                };
                let mut got = BTreeMap::new();
                for to in told.audience(&context, &SubscriberPresences::default()) {
                    let message = told.message(&to);
                    let header = message.get("headers", ns::SHIM).and_then(Element::first).unwrap();
                    prop_assert_eq!(header.attr("name"), Some("Collection"));
                    let key = (message.attr("to").unwrap().to_owned(), header.content().into_owned());
                    *got.entry(key).or_insert(0_usize) += 1;
                }
                prop_assert!(got.values().all(|count| *count == 1), "{got:?}");
                prop_assert_eq!(got, expected(&nodes, name, kind));
            }
        }
    }
}
