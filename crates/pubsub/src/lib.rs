//! Nodes and items of publish-subscribe (XEP-0060), those of accounts (XEP-0163) and of services: [`PubSub`], a machine.
//!
//! The machine holds the configuration of nodes while they are in use, and never their items. It changes one owner's nodes one at a
//! time (`state`); each request is a function from the nodes to effects (`owner`, `publish`, `subscribe`), and `notify` computes the
//! audience of an event, which `options` and `presences` of subscribers narrow. `collection` has the tree of a service's nodes (XEP-0248). The store has a change before any subscriber hears of it.
//!
//! In: a [`PubSubEvent`] from the host, and the store's answers. Out: [`PubSubEffect`]s, which the host performs. Accounts, contacts and
//! clients are the host's ([`Entities`]); the machine only reads them.

#![warn(missing_docs)]

mod body;
mod collection;
mod context;
mod imported;
mod interface;
mod items_page;
pub mod limits;
mod node;
mod node_batch;
mod notify;
mod options;
mod owner;
mod owner_nodes;
mod page;
mod presences;
mod publish;
mod request;
mod service;
mod state;
mod store;
mod subscribe;

use std::rc::Rc;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, ns};

pub use collection::ASSOCIATION_WHITELIST;
pub use context::{Entities, NodesView, PubSubContext};
pub use imported::imported;
pub use interface::{FeatureRequest, PubSubEffect, PubSubEvent};
pub use node::Relation;
use node::{Node, Nodes};
pub use notify::{Notification, Recipient};
pub use page::{ItemPage, ItemQuery, ItemRow, NodePage};
pub use publish::Publication;
pub use request::PendingRequest;
pub use service::ServiceRequest;
pub use state::{PubSub, PubSubRead, PubSubWrite};
pub use store::{NodeChange, NodeLoad, NodeReply, WriteFailure};
pub use subscribe::Approval;

/// The features of an account's nodes for service discovery, by the names of XEP-0060 §10.
pub const FEATURES: &[&str] = &[
    ns::PUBSUB,
    "http://jabber.org/protocol/pubsub#access-authorize",
    "http://jabber.org/protocol/pubsub#access-open",
    "http://jabber.org/protocol/pubsub#access-presence",
    "http://jabber.org/protocol/pubsub#access-roster",
    "http://jabber.org/protocol/pubsub#access-whitelist",
    "http://jabber.org/protocol/pubsub#auto-create",
    "http://jabber.org/protocol/pubsub#auto-subscribe",
    "http://jabber.org/protocol/pubsub#config-node",
    "http://jabber.org/protocol/pubsub#config-node-max",
    "http://jabber.org/protocol/pubsub#create-and-configure",
    "http://jabber.org/protocol/pubsub#create-nodes",
    "http://jabber.org/protocol/pubsub#delete-items",
    "http://jabber.org/protocol/pubsub#delete-nodes",
    "http://jabber.org/protocol/pubsub#filtered-notifications",
    "http://jabber.org/protocol/pubsub#instant-nodes",
    "http://jabber.org/protocol/pubsub#item-ids",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#leased-subscription",
    "http://jabber.org/protocol/pubsub#manage-subscriptions",
    "http://jabber.org/protocol/pubsub#member-affiliation",
    "http://jabber.org/protocol/pubsub#meta-data",
    "http://jabber.org/protocol/pubsub#modify-affiliations",
    "http://jabber.org/protocol/pubsub#multi-items",
    "http://jabber.org/protocol/pubsub#outcast-affiliation",
    "http://jabber.org/protocol/pubsub#persistent-items",
    "http://jabber.org/protocol/pubsub#presence-notifications",
    "http://jabber.org/protocol/pubsub#presence-subscribe",
    "http://jabber.org/protocol/pubsub#publish",
    "http://jabber.org/protocol/pubsub#publish-only-affiliation",
    "http://jabber.org/protocol/pubsub#publish-options",
    "http://jabber.org/protocol/pubsub#publisher-affiliation",
    "http://jabber.org/protocol/pubsub#pubsub-on-a-jid",
    "http://jabber.org/protocol/pubsub#purge-nodes",
    "http://jabber.org/protocol/pubsub#retract-items",
    "http://jabber.org/protocol/pubsub#retrieve-affiliations",
    "http://jabber.org/protocol/pubsub#retrieve-default",
    "http://jabber.org/protocol/pubsub#retrieve-default-sub",
    "http://jabber.org/protocol/pubsub#retrieve-items",
    "http://jabber.org/protocol/pubsub#retrieve-subscriptions",
    "http://jabber.org/protocol/pubsub#rsm",
    "http://jabber.org/protocol/pubsub#subscribe",
    "http://jabber.org/protocol/pubsub#subscription-options",
];

/// An error with the condition that XEP-0060 has for it, beside the general one: clients decide by the
/// detail.
fn fault(condition: Condition, detail: &'static str) -> StanzaError {
    StanzaError::from(condition).with(Element::new(detail, ns::PUBSUB_ERRORS))
}

/// The error for a feature that the node or the service lacks; XEP-0060 names the feature in it.
fn unsupported(feature: &'static str) -> StanzaError {
    let detail = Element::new("unsupported", ns::PUBSUB_ERRORS).with("feature", feature);
    StanzaError::from(Condition::FeatureNotImplemented).with(detail)
}

/// A known node, or the error for an unknown one (§6.1.3.12 and others).
fn node_of<'a>(nodes: &'a Nodes, name: &str) -> Result<&'a Rc<Node>, StanzaError> {
    nodes.get(name).ok_or_else(|| Condition::ItemNotFound.into())
}
