//! Limits of nodes and items, with their reasons and the answer beyond them. Those of contacts are a roster's, too.

use std::time::Duration;

/// Bytes of a contact's name and of a group's in a roster (RFC 6121 §2.3.3); a node may let groups in. Beyond: `not-acceptable`.
pub const CONTACT_NAME: usize = 1_023;

/// Groups of one contact in a roster, and groups that a node lets in. Beyond: `not-acceptable`.
pub const CONTACT_GROUPS: usize = 64;

/// Nodes of one account. Beyond: `resource-constraint`. All their configurations are in memory while one is used.
pub const NODES: usize = 200;

/// Nodes of a service, of all owners; of one of them as of an account. Beyond: `resource-constraint`. All are
/// in memory while one is used.
pub const SERVICE_NODES: usize = 2_000;

/// Children of one collection, and the most that its owner may permit. Beyond: `not-allowed`. A request may write all of them, and its answer
/// names them.
pub const COLLECTION_CHILDREN: u32 = 200;

/// Collections above a node. Beyond: `policy-violation`. Each event goes through the subscribers of all of them.
pub const COLLECTION_DEPTH: usize = 8;

/// Accounts that may associate nodes with a collection by name. Beyond: `not-acceptable`. They are in its row.
pub const ASSOCIATION_WHITELIST: usize = 100;

/// Items that a service's node keeps unless its owner says otherwise: a page of news.
pub const SERVICE_ITEMS: u32 = 20;

/// Nodes that a service lists in one answer. Beyond: clients that know their names can use them. An answer
/// has to fit a stanza.
pub const SERVICE_LISTED: usize = 1_000;

/// Bytes of a node's name, an item's id, a title. Beyond: `not-acceptable`.
pub const NODE_NAME: usize = 1_023;

/// Items of one node: the value of `max` for `pubsub#max_items`. Beyond: the oldest is forgotten. A long list
/// of bookmarks.
pub const NODE_ITEMS: u32 = 1_000;

/// Bytes of an item. Beyond: `not-acceptable`. It has to fit a stanza together with a notification's
/// wrapping; an avatar does.
pub const ITEM: usize = 192 << 10;

/// Bytes of a body that is made of a payload. Beyond: cut. The payload is in the event too, and all of it has to fit a stanza.
pub const EVENT_BODY: usize = 2 << 10;

/// Bytes of items in one answer. Beyond: the rest is for another page (XEP-0060 §6.5.4), of which the answer tells.
pub const ITEMS_ANSWER: usize = 224 << 10;

/// Bytes of a node's items that are read at once where all are needed: of bookmarks, a thousand with long names. Beyond:
/// `resource-constraint`, until the client takes some back.
pub const ITEMS_WHOLE: usize = 1 << 20;

/// Subscriptions of one node, and its affiliations. Beyond: `policy-violation`. Each publication goes through all.
pub const NODE_SUBSCRIPTIONS: usize = 500;

/// Subscriptions of one account to one node, a resource each. Beyond: `policy-violation`. Else one account fills the node.
pub const SUBSCRIPTIONS_OF_USER: usize = 20;

/// The longest lease of a subscription (XEP-0060 §12.17), if it has one. Beyond: shortened to this, and the subscriber can
/// read so. Leases are there to end subscriptions that are no longer wanted.
pub const SUBSCRIPTION_LEASE: Duration = Duration::from_secs(366 * 86_400);

/// Accounts with clients whose presence services know. Beyond: those used least recently are unknown, and their subscriptions that end with
/// the presence end.
pub const SUBSCRIBER_ACCOUNTS: usize = 20_000;

/// Clients of each such account. Beyond: unknown, and they cannot have such a subscription.
pub const SUBSCRIBER_CLIENTS: usize = 20;

/// Accounts whose nodes are in memory. Beyond: those used least recently are read again when they are needed.
pub const NODE_OWNERS: usize = 10_000;

/// Questions for the nodes of one account that wait for a change. Beyond: `resource-constraint`.
pub const NODE_QUESTIONS: usize = 64;

/// Clients that were told the newest items, so that they are told but once. Beyond: one is told again.
pub const NODE_NOTIFIED: usize = 200_000;

/// Kinds of clients whose features are not known yet, and clients of each, that are notified once they are.
/// Beyond: they are told with their next presence.
pub const NODE_INTERESTED: usize = 1_000;
/// Clients of each such kind. Beyond: they are told with their next presence.
pub const NODE_INTERESTED_CLIENTS: usize = 64;
