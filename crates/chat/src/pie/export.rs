//! An account of this server as a `<user>` that another server reads.
//!
//! The inverse of `user`: what [`ExportedAccount::element`] writes, `read_user` reads to the same data. The
//! archive is not part of the element, as it may be larger than memory; the caller writes it in pieces.
//! Private data and nodes are told apart by the names under which the store has them.

use std::collections::BTreeMap;

use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns, sasl};

use super::credentials::{Credentials, MECHANISMS};
use crate::effect::RosterItem;
use crate::imported::{delayed, is_private};

/// The data of one account that go into a file: all but its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedAccount {
    /// The address.
    pub address: Bare,
    /// The credentials.
    pub credentials: Credentials,
    /// The contacts.
    pub roster: Vec<(Bare, RosterItem)>,
    /// The blocked addresses.
    pub blocked: Vec<Jid>,
    /// Messages that wait, and the times at which they came.
    pub messages: Vec<(Instant, Element)>,
    /// Nodes with their configuration, as they are kept.
    pub nodes: Vec<(Box<str>, Element)>,
    /// Node, id and item, of nodes and of data stored as nodes.
    pub items: Vec<(Box<str>, Box<str>, Element)>,
}

impl ExportedAccount {
    /// The `<user/>` element of XEP-0227.
    pub fn element(&self) -> Element {
        let password = self.credentials.password.as_ref().map(|password| password.0.clone());
        let user = Element::new("user", ns::PIE)
            .with("name", self.address.local().unwrap_or_default())
            .with_opt("password", password)
            .children(self.credentials.keys.iter().map(|(hash, keys)| scram(*hash, keys)));
        let vcard =
            self.items.iter().find(|(node, ..)| &**node == ns::VCARD).map(|(.., vcard)| vcard.clone());
        let private = self.items.iter().filter(|(node, id, item)| is_private(node, id, item));
        let messages =
            self.messages.iter().map(|(at, message)| delayed(message.clone(), *at, self.address.domain()));
        let blocked =
            self.blocked.iter().map(|jid| Element::new("item", ns::BLOCKING).with("jid", jid.as_str()));
        let listed = self.roster.iter().filter(|(_, item)| item.is_listed);
        let asking = self.roster.iter().filter_map(|(_, item)| item.asked.as_deref().cloned());
        let parts = [
            Element::new("query", ns::ROSTER).children(listed.map(|(contact, item)| item.element(contact))),
            Element::new("query", ns::PRIVATE).children(private.map(|(.., data)| data.clone())),
            Element::new("offline-messages", ns::PIE).children(messages),
            Element::new("blocklist", ns::BLOCKING).children(blocked),
            self.configurations(),
            self.published(),
        ];
        user.children(asking)
            .children(vcard)
            .children(parts.into_iter().filter(|part| !part.nodes().is_empty()))
    }

    /// Nodes with configuration, affiliations and subscriptions. Each part names its node, as XEP-0227 has all nodes in
    /// one element.
    fn configurations(&self) -> Element {
        let parts = self.nodes.iter().flat_map(|(name, node)| {
            let parts = node.elements().filter(|part| !part.nodes().is_empty());
            parts.map(|part| part.clone().with("node", name.clone()))
        });
        Element::new("pubsub", ns::PUBSUB_OWNER).children(parts)
    }

    /// The items of nodes. Private data and vCards, which are stored as items of no node, go elsewhere.
    fn published(&self) -> Element {
        let mut lists: BTreeMap<&str, Element> = BTreeMap::new();
        for (node, _, item) in &self.items {
            if self.nodes.iter().any(|(known, _)| known == node) {
                let list = || Element::new("items", ns::PUBSUB).with("node", node.clone());
                lists.entry(node).or_insert_with(list).push(item.clone());
            }
        }
        Element::new("pubsub", ns::PUBSUB).children(lists.into_values())
    }
}

/// Keys of SCRAM as XEP-0227 §4.3 has them.
fn scram(hash: sasl::Hash, keys: &sasl::Keys) -> Element {
    let name = MECHANISMS.iter().find(|(_, known)| *known == hash).map_or("", |(name, _)| name);
    let text = |name: &'static str, text: String| Element::new(name, ns::PIE_SCRAM).text(text);
    Element::new("scram-credentials", ns::PIE_SCRAM)
        .with("mechanism", name)
        .child(text("iter-count", keys.iterations.to_string()))
        .child(text("salt", sasl::encode(&keys.salt)))
        .child(text("server-key", sasl::encode(&keys.server)))
        .child(text("stored-key", sasl::encode(&keys.stored)))
}
