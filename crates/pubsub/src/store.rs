//! The reads and changes that the machine wants of a store, and the answers. The host translates both to its own requests.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element};

use super::page::{ItemPage, ItemQuery, NodePage};

/// A read of the store.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeLoad {
    /// A page of an owner's nodes, by name: [`NodeReply::Nodes`].
    Nodes {
        /// The account or service.
        owner: Bare,
        /// The name after which the page begins.
        after: Option<Box<str>>,
    },
    /// A page of a node's items: [`NodeReply::Items`].
    Items {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The items.
        query: Box<ItemQuery>,
    },
}

/// The answer to a [`NodeLoad`].
#[derive(Clone, Debug, PartialEq)]
pub enum NodeReply {
    /// A page of nodes.
    Nodes(NodePage),
    /// A page of items.
    Items(ItemPage),
}

/// A change of the store.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeChange {
    /// Writes a node's configuration; `None` removes the node with its items.
    Node {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The configuration, as [`PubSub`](crate::PubSub) reads it again.
        config: Option<Box<Element>>,
    },
    /// Removes all items of a node, which stays.
    Purge {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
    },
    /// Writes an item; `None` removes it. The newest `keep` items of the node stay.
    Item {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The id of the item.
        id: Box<str>,
        /// The item.
        item: Option<Box<Element>>,
        /// The time of the change.
        at: Instant,
        /// The number of items that the node keeps.
        keep: u32,
    },
}

/// The reason why a change was not written.
#[derive(Clone, Debug)]
pub struct WriteFailure {
    /// The thing that was to be changed is not there.
    pub is_absent: bool,
    /// The error for the entity that asked for the change.
    pub error: StanzaError,
}

/// The page that was asked for. An unreadable node is an error, and never an empty node.
pub(crate) fn items_of(result: Result<NodeReply, StanzaError>) -> Result<ItemPage, StanzaError> {
    match result? {
        NodeReply::Items(page) => Ok(page),
        NodeReply::Nodes(_) => Err(Condition::InternalServerError.into()),
    }
}

/// The write of one item; `place`: node and id.
pub(crate) fn kept(owner: &Bare, place: (&str, &str), item: Element, at: Instant, keep: u32) -> NodeChange {
    let (node, id) = place;
    let item = Some(Box::new(item));
    NodeChange::Item { owner: owner.clone(), node: node.into(), id: id.into(), item, at, keep }
}
