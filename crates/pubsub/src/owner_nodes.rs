//! The nodes of one owner in memory, without subscriptions that have ended.
//!
//! `state` keeps one [`OwnerNodes`] for each owner in use. A subscription ends with its lease or with the presence of its subscriber
//! (XEP-0060 §12.17, §12.4); it leaves memory at the first event after that, and the store with the next change of its node. Indexes name
//! the nodes where something may end, so that an event does not visit all subscriptions.

use std::collections::BTreeSet;
use std::rc::Rc;

use stdx::Instant;
use xmpp::Bare;

use super::node::{Node, Nodes};
use super::options::{Expiry, Subscriber};

/// The nodes of an owner, all of them.
pub(crate) struct OwnerNodes {
    nodes: Rc<Nodes>,
    /// Each node that has leases, with the end of the first one.
    leases: BTreeSet<(Instant, Box<str>)>,
    /// The accounts that have subscriptions that end with their presence, and the nodes of these.
    temporary: BTreeSet<(Bare, Box<str>)>,
}

/// True for a subscription that has ended.
pub(crate) type HasEnded<'a> = &'a dyn Fn(&Subscriber) -> bool;

impl OwnerNodes {
    /// The nodes as the store has them.
    pub(crate) fn new(nodes: Nodes, has_ended: HasEnded<'_>) -> OwnerNodes {
        let (leases, temporary) = (BTreeSet::new(), BTreeSet::new());
        let mut owned = OwnerNodes { nodes: Rc::new(nodes), leases, temporary };
        let may_end = |node: &Node| node.subscriptions.iter().any(|known| known.options.expiry.is_some());
        let nodes = owned.nodes.iter().filter(|(_, node)| may_end(node));
        let names: Vec<Box<str>> = nodes.map(|(name, _)| name.clone()).collect();
        for name in names {
            owned.end(&name, has_ended);
        }
        owned
    }

    /// The nodes by name.
    pub(crate) fn nodes(&self) -> &Rc<Nodes> {
        &self.nodes
    }

    /// A node was written; `None`: it was removed. A subscription may have ended while it was written.
    pub(crate) fn insert(&mut self, name: &str, node: Option<Node>, has_ended: HasEnded<'_>) {
        if let Some(known) = self.nodes.get(name) {
            if let Some(end) = first_end(known) {
                self.leases.remove(&(end, Box::from(name)));
            }
            for account in temporary(known) {
                self.temporary.remove(&(account, Box::from(name)));
            }
        }
        let nodes = Rc::make_mut(&mut self.nodes);
        let Some(mut node) = node else { return drop(nodes.remove(name)) };
        node.subscriptions.retain(|known| !has_ended(known));
        self.leases.extend(first_end(&node).map(|end| (end, Box::<str>::from(name))));
        self.temporary.extend(temporary(&node).map(|account| (account, Box::<str>::from(name))));
        nodes.insert(name.into(), Rc::new(node));
    }

    /// Removes subscriptions whose lease has ended.
    pub(crate) fn expire(&mut self, now: Instant, has_ended: HasEnded<'_>) {
        while self.leases.first().is_some_and(|(end, _)| *end <= now)
            && let Some((_, name)) = self.leases.pop_first()
        {
            self.end(&name, has_ended);
        }
    }

    /// A client of the account has left: removes subscriptions that end with its presence.
    pub(crate) fn handle_left(&mut self, account: &Bare, has_ended: HasEnded<'_>) {
        let from = (account.clone(), Box::<str>::default());
        let of_account = self.temporary.range(from..).take_while(|(known, _)| known == account);
        let names: Vec<Box<str>> = of_account.map(|(_, name)| name.clone()).collect();
        for name in names {
            self.end(&name, has_ended);
        }
    }

    /// Removes subscriptions of a node that have ended.
    fn end(&mut self, name: &str, has_ended: HasEnded<'_>) {
        if let Some(node) = self.nodes.get(name).map(|node| Node::clone(node)) {
            self.insert(name, Some(node), has_ended);
        }
    }
}

/// The end of the first lease among a node's subscriptions.
fn first_end(node: &Node) -> Option<Instant> {
    let ends = node.subscriptions.iter().filter_map(|known| match known.options.expiry {
        Some(Expiry::At(end)) => Some(end),
        Some(Expiry::Presence(_)) | None => None,
    });
    ends.min()
}

/// The accounts that have subscriptions of a node that end with their presence.
fn temporary(node: &Node) -> impl Iterator<Item = Bare> {
    let ends = |known: &&Subscriber| matches!(known.options.expiry, Some(Expiry::Presence(_)));
    node.subscriptions.iter().filter(ends).map(|known| known.jid.bare())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xmpp::Jid;

    use super::*;
    use crate::options::{NodeSubscription, SubscriptionOptions};

    fn subscriber(number: usize, expiry: Option<Expiry>) -> Subscriber {
        let jid = Jid::parse(&format!("u{number}@x.org")).unwrap();
        let options = SubscriptionOptions { expiry, ..SubscriptionOptions::default() };
        Subscriber { jid, state: NodeSubscription::Subscribed, options }
    }

    fn is_over(now: Instant, known: &Subscriber) -> bool {
        matches!(known.options.expiry, Some(Expiry::At(end)) if end <= now)
    }

    proptest! {
        /// Nodes are written and time goes on, in any order: no ended subscription is in memory, and all others are.
        #[test]
        fn memory_has_all_subscriptions_that_have_not_ended(
            steps in prop::collection::vec((0..3_usize, prop::collection::vec(prop::option::of(0..40_u64), 0..4), 0..5_u64), 1..20),
        ) {
            let mut now = Instant::from_micros(0);
            let mut owned = OwnerNodes::new(Nodes::new(), &|_| false);
            let mut model: [Vec<Subscriber>; 3] = Default::default();
            for (at, ends, pause) in steps {
                let subscribers = ends.iter().enumerate().map(|(number, end)| {
                    subscriber(number, end.map(|end| Expiry::At(Instant::from_micros(end))))
                });
                model[at] = subscribers.collect();
                let node = Node { subscriptions: model[at].clone(), ..Node::default() };
                let node = (!ends.is_empty()).then_some(node);
                owned.insert(&at.to_string(), node, &|known| is_over(now, known));
                now = Instant::from_micros(now.as_micros() + pause);
                owned.expire(now, &|known| is_over(now, known));
                for (at, all) in model.iter().enumerate() {
                    let known = owned.nodes().get(&*at.to_string());
                    let known: Vec<Subscriber> = known.map(|node| node.subscriptions.clone()).unwrap_or_default();
                    let expected: Vec<Subscriber> = all.iter().filter(|one| !is_over(now, one)).cloned().collect();
                    prop_assert_eq!(known, expected);
                }
            }
        }
    }

    #[test]
    fn a_client_that_leaves_ends_its_temporary_subscriptions_only() {
        let expiry = Some(Expiry::Presence(Instant::from_micros(0)));
        let nodes = ["a", "b"].map(|name| {
            let subscriptions = vec![subscriber(1, expiry), subscriber(2, expiry), subscriber(3, None)];
            (Box::from(name), Rc::new(Node { subscriptions, ..Node::default() }))
        });
        let mut owned = OwnerNodes::new(Nodes::from(nodes), &|_| false);
        let account = Bare::parse("u1@x.org").unwrap();
        let left = account.clone();
        owned.handle_left(&account, &move |known| known.options.expiry.is_some() && known.jid.bare() == left);
        for node in owned.nodes().values() {
            let left: Vec<&str> = node.subscriptions.iter().map(|known| known.jid.as_str()).collect();
            assert_eq!(left, ["u2@x.org", "u3@x.org"]);
        }
        assert_eq!(owned.temporary.len(), 2);
    }
}
