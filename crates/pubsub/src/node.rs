//! A node: its configuration, affiliations and subscriptions (XEP-0060 §4 and §16.4).
//! All here is pure: rights follow from the node and the requester's relation to the owner. A configuration is stored as a form.

use std::collections::BTreeMap;
use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::collection::{self, CollectionConfig};
use super::fault;
use super::options::{NodeSubscription, Subscriber, flag};
use crate::limits;

/// The nodes of one owner, by name.
pub(crate) type Nodes = BTreeMap<Box<str>, Rc<Node>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
/// A node without its items.
pub(crate) struct Node {
    pub(crate) config: NodeConfig,
    pub(crate) affiliations: Vec<(Bare, NodeAffiliation)>,
    pub(crate) subscriptions: Vec<Subscriber>,
    /// The name of the collection that has the node (XEP-0248); `None`: the root.
    pub(crate) parent: Option<Box<str>>,
    /// The node is a collection.
    pub(crate) collection: Option<CollectionConfig>,
}

/// The access model: the entities that may subscribe and read (§4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AccessModel {
    Open,
    /// Subscribers of the owner's presence.
    #[default]
    Presence,
    /// Contacts in one of some groups of the owner's roster.
    Roster,
    /// Entities that the owner approves.
    Authorize,
    Whitelist,
}

const ACCESS: [(&str, AccessModel); 5] = [
    ("open", AccessModel::Open),
    ("presence", AccessModel::Presence),
    ("roster", AccessModel::Roster),
    ("authorize", AccessModel::Authorize),
    ("whitelist", AccessModel::Whitelist),
];

/// The publish model: the entities beside publishers and owners that may publish (`pubsub#publish_model`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PublishModel {
    #[default]
    Publishers,
    Subscribers,
    Open,
}

const PUBLISH: [(&str, PublishModel); 3] = [
    ("publishers", PublishModel::Publishers),
    ("subscribers", PublishModel::Subscribers),
    ("open", PublishModel::Open),
];

/// The occasions at which the newest item is sent again (`pubsub#send_last_published_item`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SendLast {
    Never,
    OnSubscribe,
    #[default]
    OnSubscribeAndPresence,
}

const SEND_LAST: [(&str, SendLast); 3] = [
    ("never", SendLast::Never),
    ("on_sub", SendLast::OnSubscribe),
    ("on_sub_and_presence", SendLast::OnSubscribeAndPresence),
];

/// The lasting relation of an account to the node (§4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeAffiliation {
    Owner,
    Publisher,
    PublishOnly,
    Member,
    None,
    Outcast,
}

const AFFILIATIONS: [(&str, NodeAffiliation); 6] = [
    ("owner", NodeAffiliation::Owner),
    ("publisher", NodeAffiliation::Publisher),
    ("publish-only", NodeAffiliation::PublishOnly),
    ("member", NodeAffiliation::Member),
    ("none", NodeAffiliation::None),
    ("outcast", NodeAffiliation::Outcast),
];

pub(crate) fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], of: T) -> &'static str {
    words.iter().find(|(_, known)| *known == of).map_or("", |(word, _)| word)
}

pub(crate) fn meant<T: Copy>(words: &[(&'static str, T)], word: &str) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant)
}

impl NodeAffiliation {
    pub(crate) fn as_str(self) -> &'static str {
        word(&AFFILIATIONS, self)
    }

    pub(crate) fn parse(text: &str) -> Option<NodeAffiliation> {
        meant(&AFFILIATIONS, text)
    }
}

/// The configuration of a node: the fields of §16.4.3 that are known here. The default is that of XEP-0163 §2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeConfig {
    pub(crate) title: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) access: AccessModel,
    pub(crate) groups: Vec<Box<str>>,
    pub(crate) publish: PublishModel,
    pub(crate) persists: bool,
    pub(crate) max_items: u32,
    pub(crate) send_last: SendLast,
    pub(crate) notifies: bool,
    pub(crate) with_payload: bool,
    pub(crate) notify_retract: bool,
    pub(crate) notify_delete: bool,
    pub(crate) notify_config: bool,
}

impl Default for NodeConfig {
    fn default() -> NodeConfig {
        NodeConfig {
            title: "".into(),
            kind: "".into(),
            access: AccessModel::default(),
            groups: Vec::new(),
            publish: PublishModel::default(),
            // XEP-0163 §2: events of an account are about its current state, so the newest item is enough.
            persists: true,
            max_items: 1,
            send_last: SendLast::default(),
            notifies: true,
            with_payload: true,
            notify_retract: true,
            notify_delete: true,
            notify_config: false,
        }
    }
}

const PREFIX: &str = "http://jabber.org/protocol/pubsub#";

/// The fields of a node's description, which any entity gets that may discover the node (§5.4).
const META_DATA: [&str; 5] =
    ["pubsub#title", "pubsub#type", "pubsub#access_model", "pubsub#publish_model", "pubsub#max_items"];

/// The reason for which a form is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormFault {
    Malformed,
    /// A field that this server does not know.
    Unknown,
    /// A value that cannot be had.
    Value,
}

impl NodeConfig {
    /// `None`: an unknown field; `Some(false)`: not with these values.
    fn set(&mut self, var: &str, values: &[String]) -> Option<bool> {
        let value = values.first().map(String::as_str).unwrap_or_default();
        let flag = flag(value);
        let is_set = match var {
            "pubsub#title" => put_text(&mut self.title, value),
            "pubsub#type" => put_text(&mut self.kind, value),
            "pubsub#access_model" => put(&mut self.access, meant(&ACCESS, value)),
            "pubsub#publish_model" => put(&mut self.publish, meant(&PUBLISH, value)),
            "pubsub#send_last_published_item" => put(&mut self.send_last, meant(&SEND_LAST, value)),
            "pubsub#persist_items" => put(&mut self.persists, flag),
            "pubsub#deliver_notifications" => put(&mut self.notifies, flag),
            "pubsub#deliver_payloads" => put(&mut self.with_payload, flag),
            "pubsub#notify_retract" => put(&mut self.notify_retract, flag),
            "pubsub#notify_delete" => put(&mut self.notify_delete, flag),
            "pubsub#notify_config" => put(&mut self.notify_config, flag),
            "pubsub#max_items" => put(&mut self.max_items, max_items(value)),
            "pubsub#roster_groups_allowed" => {
                self.groups = values.iter().map(|group| group.as_str().into()).collect();
                values.len() <= limits::CONTACT_GROUPS
                    && values.iter().all(|group| group.len() <= limits::CONTACT_NAME)
            }
            _ => return None,
        };
        Some(is_set)
    }

    fn fields(&self) -> Vec<(&'static str, &'static str, Vec<Box<str>>)> {
        let flag = |is: bool| vec![Box::from(if is { "1" } else { "0" })];
        let one = |text: &str| vec![Box::from(text)];
        vec![
            ("pubsub#title", "text-single", one(&self.title)),
            ("pubsub#type", "text-single", one(&self.kind)),
            ("pubsub#access_model", "list-single", one(word(&ACCESS, self.access))),
            ("pubsub#roster_groups_allowed", "list-multi", self.groups.clone()),
            ("pubsub#publish_model", "list-single", one(word(&PUBLISH, self.publish))),
            ("pubsub#persist_items", "boolean", flag(self.persists)),
            ("pubsub#max_items", "text-single", one(&self.max_items.to_string())),
            ("pubsub#send_last_published_item", "list-single", one(word(&SEND_LAST, self.send_last))),
            ("pubsub#deliver_notifications", "boolean", flag(self.notifies)),
            ("pubsub#deliver_payloads", "boolean", flag(self.with_payload)),
            ("pubsub#notify_retract", "boolean", flag(self.notify_retract)),
            ("pubsub#notify_delete", "boolean", flag(self.notify_delete)),
            ("pubsub#notify_config", "boolean", flag(self.notify_config)),
        ]
    }

    /// `form` to be filled in, `submit` as it is kept, `result` as subscribers are told.
    pub(crate) fn form(&self, kind: &'static str) -> Element {
        self.form_of("node_config", kind, |_| true, |_| true)
    }

    /// §5.4: the public fields of a node, of those in §16.4.2.
    pub(crate) fn meta_data(&self) -> Element {
        self.form_of("meta-data", "result", |var| META_DATA.contains(&var), |_| true)
    }

    /// The fields that `has` names, as a form of the type `name`. It offers the access models that `offers` names.
    pub(crate) fn form_of(
        &self,
        name: &str,
        kind: &'static str,
        has: impl Fn(&str) -> bool,
        offers: impl Fn(AccessModel) -> bool,
    ) -> Element {
        let value = |text: &str| Element::new("value", ns::DATA).text(text);
        let type_of_form = Element::new("field", ns::DATA)
            .with("var", "FORM_TYPE")
            .with("type", "hidden")
            .child(value(&format!("{PREFIX}{name}")));
        let form = Element::new("x", ns::DATA).with("type", kind).child(type_of_form);
        form.children(self.fields().into_iter().filter(|(var, ..)| has(var)).map(|(var, field, values)| {
            let words: Vec<&'static str> = match var {
                _ if kind != "form" => Vec::new(),
                "pubsub#access_model" => {
                    ACCESS.iter().filter(|(_, access)| offers(*access)).map(|(word, _)| *word).collect()
                }
                "pubsub#publish_model" => PUBLISH.iter().map(|(word, _)| *word).collect(),
                "pubsub#send_last_published_item" => SEND_LAST.iter().map(|(word, _)| *word).collect(),
                _ => Vec::new(),
            };
            let option = |word: &str| Element::new("option", ns::DATA).child(value(word));
            // XEP-0004 §3.3: the values of a list are among its options.
            let chosen = values.iter().filter(|_| kind == "form" && field == "list-multi");
            let options: Vec<Element> =
                words.into_iter().chain(chosen.map(|text| &**text)).map(option).collect();
            Element::new("field", ns::DATA)
                .with("var", var)
                .with("type", field)
                .children(values.iter().map(|text| value(text)))
                .children(options)
        }))
    }

    /// This configuration with the values of the form.
    ///
    /// # Errors
    /// The form is not of that type, or has an impossible value. Unknown fields are an error only if `strict`.
    pub(crate) fn with_form(&self, form: &Element, of: &str, strict: bool) -> Result<NodeConfig, FormFault> {
        let mut config = self.clone();
        if form.attr("type").is_some_and(|kind| kind != "submit") {
            return Err(FormFault::Malformed);
        }
        for field in form.elements().filter(|child| child.is("field", ns::DATA)) {
            let var = field.attr("var").ok_or(FormFault::Malformed)?;
            let values = field.elements().filter(|child| child.is("value", ns::DATA));
            let values: Vec<String> = values.map(|value| value.content().into_owned()).collect();
            if var == "FORM_TYPE" {
                let is_it = values.first().and_then(|value| value.strip_prefix(PREFIX)) == Some(of);
                if !is_it {
                    return Err(FormFault::Malformed);
                }
                continue;
            }
            match config.set(var, &values) {
                Some(true) => {}
                Some(false) => return Err(FormFault::Value),
                None if strict => return Err(FormFault::Unknown),
                None => {}
            }
        }
        Ok(config)
    }

    /// The configuration as it was stored, whatever the limits are now. `None`: it has an unknown field, or
    /// lacks one that is always written.
    fn stored(form: &Element) -> Option<NodeConfig> {
        let mut config = NodeConfig::default();
        let mut has_access = false;
        for field in form.elements().filter(|child| child.is("field", ns::DATA)) {
            let var = field.attr("var")?;
            let values = field.elements().filter(|child| child.is("value", ns::DATA));
            let values: Vec<String> = values.map(|value| value.content().into_owned()).collect();
            has_access |= var == "pubsub#access_model";
            match var {
                "pubsub#max_items" => {
                    let stored: u32 = values.first()?.parse().ok()?;
                    config.max_items = stored.clamp(1, limits::NODE_ITEMS);
                }
                // Of these values only the length can be wrong.
                "pubsub#title" | "pubsub#type" | "pubsub#roster_groups_allowed" => {
                    config.set(var, &values);
                }
                var if config.set(var, &values) == Some(false) => return None,
                _ => {}
            }
        }
        has_access.then_some(config)
    }

    /// True if a client that comes gets the newest item (XEP-0163 §4.3).
    pub(crate) fn sends_newest_on_presence(&self) -> bool {
        self.send_last == SendLast::OnSubscribeAndPresence && self.notifies && self.persists
    }

    /// The number of items that the store keeps: at least one, as a node without items has `persists` off.
    pub(crate) fn keep(&self) -> u32 {
        self.max_items.max(1)
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    match value {
        Some(value) => {
            *place = value;
            true
        }
        None => false,
    }
}

/// Sets the text also when it is too long: a stored text stays readable when the limit shrinks. The result refuses a submitted one.
fn put_text(place: &mut Box<str>, value: &str) -> bool {
    *place = value.into();
    value.len() <= limits::NODE_NAME
}

/// The value of `pubsub#max_items`; `max` (§16.4.4) is as many as there may be.
fn max_items(text: &str) -> Option<u32> {
    match text {
        "max" => Some(limits::NODE_ITEMS),
        _ => text.parse().ok().filter(|count| (1..=limits::NODE_ITEMS).contains(count)),
    }
}

/// The relation of a requester to the owner.
#[derive(Clone, Debug, Default)]
pub struct Relation {
    /// The requester owns the nodes: its own, or all of a service.
    pub is_owner: bool,
    /// Sees the owner's presence.
    pub has_presence: bool,
    /// The groups of the owner's roster that have the requester.
    pub groups: Vec<Box<str>>,
}

impl Node {
    pub(crate) fn affiliation(&self, user: &Bare, relation: &Relation) -> NodeAffiliation {
        if relation.is_owner {
            return NodeAffiliation::Owner;
        }
        let known = self.affiliations.iter().find(|(known, _)| known == user);
        known.map_or(NodeAffiliation::None, |(_, affiliation)| *affiliation)
    }

    /// True if the account has an affiliation other than a ban, a subscription or a place in a list: its removal changes the node.
    pub(crate) fn names(&self, user: &Bare) -> bool {
        let is_of = |(known, is): &(Bare, NodeAffiliation)| known == user && *is != NodeAffiliation::Outcast;
        self.affiliations.iter().any(is_of)
            || self.subscriptions.iter().any(|known| known.jid.bare() == *user)
            || self.collection.as_ref().is_some_and(|collection| collection.whitelist.contains(user))
    }

    pub(crate) fn remove(&mut self, user: &Bare) {
        self.affiliations.retain(|(known, is)| known != user || *is == NodeAffiliation::Outcast);
        self.subscriptions.retain(|known| known.jid.bare() != *user);
        if let Some(collection) = &mut self.collection {
            collection.whitelist.retain(|known| known != user);
        }
    }

    /// The number of subscriptions of an account: each of its resources may have one.
    pub(crate) fn subscriptions_of(&self, user: &Bare) -> usize {
        self.subscriptions.iter().filter(|known| known.jid.bare() == *user).count()
    }

    /// The subscription of an address.
    pub(crate) fn subscriber(&self, jid: &Jid) -> Option<&Subscriber> {
        self.subscriptions.iter().find(|known| known.jid == *jid)
    }

    /// An address has one subscription, so this one replaces another.
    pub(crate) fn insert_subscriber(&mut self, subscriber: Subscriber) {
        match self.subscriptions.iter_mut().find(|known| known.jid == subscriber.jid) {
            Some(known) => *known = subscriber,
            None => self.subscriptions.push(subscriber),
        }
    }

    /// True if any address of this account is subscribed.
    pub(crate) fn is_subscribed(&self, user: &Bare) -> bool {
        let mut of_user = self.subscriptions.iter().filter(|known| known.jid.bare() == *user);
        of_user.any(|known| known.state == NodeSubscription::Subscribed)
    }

    /// §6.1.3 and §6.5.9: checks that this account may subscribe. In the `Authorize` model the owner decides.
    pub(crate) fn may_subscribe(&self, user: &Bare, relation: &Relation) -> Result<(), StanzaError> {
        // The affiliation goes before the access model: a member enters a whitelist, and an outcast is kept out of an open node.
        match self.affiliation(user, relation) {
            NodeAffiliation::Owner | NodeAffiliation::Publisher | NodeAffiliation::Member => return Ok(()),
            NodeAffiliation::Outcast | NodeAffiliation::PublishOnly => {
                return Err(Condition::Forbidden.into());
            }
            NodeAffiliation::None => {}
        }
        let in_group = || relation.groups.iter().any(|group| self.config.groups.contains(group));
        match self.config.access {
            AccessModel::Open | AccessModel::Authorize => Ok(()),
            AccessModel::Presence if relation.has_presence => Ok(()),
            AccessModel::Presence => Err(fault(Condition::NotAuthorized, "presence-subscription-required")),
            AccessModel::Roster if in_group() => Ok(()),
            AccessModel::Roster => Err(fault(Condition::NotAuthorized, "not-in-roster-group")),
            AccessModel::Whitelist => Err(fault(Condition::NotAllowed, "closed-node")),
        }
    }

    /// Checks that this account may read items (§6.5.9): under `Authorize`, not all that may subscribe.
    pub(crate) fn may_read(&self, user: &Bare, relation: &Relation) -> Result<(), StanzaError> {
        self.may_subscribe(user, relation)?;
        let is_let_in = self.config.access != AccessModel::Authorize
            || self.affiliation(user, relation) != NodeAffiliation::None
            || self.is_subscribed(user);
        if is_let_in { Ok(()) } else { Err(fault(Condition::NotAuthorized, "not-subscribed")) }
    }

    /// True if this account may publish (§7.1.3.1): by its affiliation, or by the publish model.
    pub(crate) fn may_publish(&self, user: &Bare, relation: &Relation) -> bool {
        match self.affiliation(user, relation) {
            NodeAffiliation::Owner | NodeAffiliation::Publisher | NodeAffiliation::PublishOnly => true,
            NodeAffiliation::Outcast => false,
            NodeAffiliation::Member | NodeAffiliation::None => match self.config.publish {
                PublishModel::Publishers => false,
                PublishModel::Subscribers => self.is_subscribed(user),
                PublishModel::Open => true,
            },
        }
    }

    /// The node as the store has it, in the elements of the protocol.
    pub(crate) fn element(&self) -> Element {
        let affiliations = self.affiliations.iter().map(|(user, affiliation)| {
            Element::new("affiliation", ns::PUBSUB_OWNER)
                .with("jid", user.as_str())
                .with("affiliation", affiliation.as_str())
        });
        let subscriptions = self.subscriptions.iter().map(Subscriber::element);
        let form = self.config.form("submit").children(collection::stored(self));
        Element::new("pubsub", ns::PUBSUB_OWNER)
            .child(Element::new("configure", ns::PUBSUB_OWNER).child(form))
            .child(Element::new("affiliations", ns::PUBSUB_OWNER).children(affiliations))
            .child(Element::new("subscriptions", ns::PUBSUB_OWNER).children(subscriptions))
    }

    /// A node that is only partly readable exists and is closed: its name stays taken, only affiliations that
    /// could be read admit an account, and all others stay out.
    pub(crate) fn from_element(element: &Element) -> Node {
        let form = element.get("configure", ns::PUBSUB_OWNER).and_then(|part| part.get("x", ns::DATA));
        let affiliations = listed(element, "affiliations", |child| {
            let affiliation = NodeAffiliation::parse(child.attr("affiliation")?)?;
            Some((Bare::parse(child.attr("jid")?).ok()?, affiliation))
        });
        let subscriptions = listed(element, "subscriptions", Subscriber::from_element);
        // An entry that cannot be read may be a ban: without it an open node would admit the account again.
        let is_whole = affiliations.is_whole && subscriptions.is_whole;
        let config = form.and_then(NodeConfig::stored).filter(|_| is_whole);
        let (parent, collection) = form.map(collection::from_stored).unwrap_or_default();
        let closed = || NodeConfig { access: AccessModel::Whitelist, ..NodeConfig::default() };
        Node {
            config: config.unwrap_or_else(closed),
            affiliations: affiliations.known,
            subscriptions: subscriptions.known,
            parent,
            collection,
        }
    }
}

/// The entries of a stored list that could be parsed.
struct ParsedList<T> {
    known: Vec<T>,
    is_whole: bool,
}

fn listed<T>(element: &Element, name: &str, read: impl Fn(&Element) -> Option<T>) -> ParsedList<T> {
    let Some(list) = element.get(name, ns::PUBSUB_OWNER) else {
        return ParsedList { known: Vec::new(), is_whole: false };
    };
    let known: Vec<T> = list.elements().filter_map(read).collect();
    ParsedList { is_whole: known.len() == list.elements().count(), known }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_node_is_read_as_it_was_written(
            access in 0..5_usize, publish in 0..3_usize, last in 0..3_usize, max in 1..=limits::NODE_ITEMS,
            flags in any::<[bool; 6]>(), title in "[ -~]{0,20}", groups in prop::collection::vec("[a-z]{1,9}", 0..3),
            accounts in prop::collection::vec(("[a-z]{1,9}", 0..6_usize, 0..2_usize), 0..4),
        ) {
            let [persists, notifies, with_payload, notify_retract, notify_delete, notify_config] = flags;
            let node = Node {
                config: NodeConfig {
                    title: title.into(), kind: "urn:x".into(), access: ACCESS[access].1,
                    groups: groups.into_iter().map(Box::from).collect(), publish: PUBLISH[publish].1,
                    persists, max_items: max, send_last: SEND_LAST[last].1, notifies, with_payload,
                    notify_retract, notify_delete, notify_config,
                },
                affiliations: accounts.iter().map(|(name, at, _)| {
                    (Bare::new(Some(name), "x.org").unwrap(), AFFILIATIONS[*at].1)
                }).collect(),
                subscriptions: accounts.iter().map(|(name, _, at)| {
                    let state = [NodeSubscription::Subscribed, NodeSubscription::Pending][*at];
                    Subscriber::new(Jid::new(Some(name), "x.org", Some("r")).unwrap(), state)
                }).collect(),
                ..Node::default()
            };
            let bytes = node.element().to_bytes("");
            let again = xmpp::xml::parse(&bytes, &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap();
            prop_assert_eq!(Node::from_element(&again), node);
        }
    }

    #[test]
    fn a_node_that_cannot_be_read_wholly_is_closed() {
        let node = Node::from_element(&Element::new("pubsub", ns::PUBSUB_OWNER));
        assert_eq!(node.config.access, AccessModel::Whitelist);
        let stored = |affiliation: &str, access: &str| {
            let open = Node {
                config: NodeConfig { access: AccessModel::Open, ..NodeConfig::default() },
                ..Node::default()
            };
            let text = String::from_utf8(open.element().to_bytes("")).unwrap();
            let member = format!(
                "<affiliations><affiliation jid='eve@x' affiliation='{affiliation}'/></affiliations>"
            );
            let text = text.replace("<affiliations/>", &member).replace(">open<", &format!(">{access}<"));
            Node::from_element(&xmpp::xml::parse_stored(text.as_bytes()).unwrap()).config.access
        };
        assert_eq!(stored("outcast", "open"), AccessModel::Open);
        assert_eq!(stored("banned", "open"), AccessModel::Whitelist, "a word of a later version");
        assert_eq!(stored("outcast", "nonsense"), AccessModel::Whitelist);
    }

    #[test]
    fn a_node_at_every_limit_is_read_as_it_was_written_and_also_when_limits_have_shrunk() {
        let long = |n: usize| -> Box<str> { format!("{n:04}{}", "'<&\u{e9}".repeat(300)).into() };
        let jid = |n: usize| Jid::new(Some("u"), "example.org", Some(&format!("{n}{}", "x".repeat(1_000))));
        let node = Node {
            config: NodeConfig {
                title: long(0),
                kind: long(1),
                max_items: limits::NODE_ITEMS,
                groups: (0..2 * limits::CONTACT_GROUPS).map(long).collect(),
                ..NodeConfig::default()
            },
            affiliations: (0..limits::NODE_SUBSCRIPTIONS)
                .map(|n| (Bare::new(Some(&format!("u{n}")), "example.org").unwrap(), NodeAffiliation::Member))
                .collect(),
            subscriptions: (0..limits::NODE_SUBSCRIPTIONS)
                .map(|n| Subscriber::new(jid(n).unwrap(), NodeSubscription::Subscribed))
                .collect(),
            ..Node::default()
        };
        assert!(node.config.title.len() > limits::NODE_NAME, "longer than a title may be");
        let stored = xmpp::xml::parse_stored(&node.element().to_bytes("")).unwrap();
        assert_eq!(Node::from_element(&stored), node);
    }
}
