//! The ways of a shard's messages of XMPP to other shards, and the messages on their way until the shard takes them at the end of
//! its turn.

use std::collections::HashMap;

use cluster::{Bucket, ShardAddress, ShardMap};
use shard_message::limits::COPIES;
use shard_message::{XmppShardMessage, is_copy};

use super::shared_owners::SharedOwners;

/// The receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageTarget {
    /// The shard that owns the addresses of this bucket.
    Owner(Bucket),
    /// This shard.
    Shard(ShardAddress),
}

impl From<ShardAddress> for MessageTarget {
    fn from(shard: ShardAddress) -> MessageTarget {
        MessageTarget::Shard(shard)
    }
}

impl From<Bucket> for MessageTarget {
    fn from(bucket: Bucket) -> MessageTarget {
        MessageTarget::Owner(bucket)
    }
}

/// The way of a message to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The receiver is this shard.
    Own,
    /// It goes by the queue of a shard of this process.
    Shard(ShardAddress),
    /// It goes by the link to another node.
    Node(ShardAddress),
    /// It waits until the owner is known and serves the bucket.
    Wait,
    /// The receiver is a shard of a life that is over.
    Nowhere,
}

/// One queue for each shard of the node, by number, and one for other nodes.
pub struct ShardQueues {
    own: ShardAddress,
    map: ShardMap,
    /// Only where nodes of a farm share a database.
    shared: Option<Box<SharedOwners>>,
    /// Taken at the end of the turn by [`ShardQueues::take`].
    queues: Vec<Vec<XmppShardMessage>>,
    /// Taken at the end of the turn by [`ShardQueues::take_for_nodes`].
    for_nodes: Vec<(ShardAddress, XmppShardMessage)>,
}

impl ShardQueues {
    /// Empty queues of this shard, for the shards of its process.
    pub fn new(own: ShardAddress, map: ShardMap) -> ShardQueues {
        let queues = map.all().map(|_| Vec::new()).collect();
        ShardQueues { own, map, shared: None, queues, for_nodes: Vec::new() }
    }

    /// Buckets are those of a farm whose nodes share a database.
    pub fn share_buckets(&mut self) {
        self.shared = Some(Box::new(SharedOwners::new(self.own)));
    }

    /// The owners of a farm's buckets; none where the process owns all of them.
    pub fn shared(&self) -> Option<&SharedOwners> {
        self.shared.as_deref()
    }

    /// The owners of a farm's buckets, to be changed.
    pub fn shared_mut(&mut self) -> Option<&mut SharedOwners> {
        self.shared.as_deref_mut()
    }

    /// The shard whose queues these are.
    pub fn own(&self) -> ShardAddress {
        self.own
    }

    /// The shards of this process.
    pub fn map(&self) -> ShardMap {
        self.map
    }

    /// True if this shard owns the address.
    pub fn owns(&self, bare: &str) -> bool {
        let bucket = Bucket::of(bare);
        match &self.shared {
            Some(shared) => shared.serves(bucket),
            None => self.map.owner(bucket) == self.own,
        }
    }

    /// True if this shard tells the contacts of an account that its process has removed: the owner does, or the first shard of a process that does
    /// not have the owner.
    pub fn tells_contacts_of(&self, bare: &str) -> bool {
        let bucket = Bucket::of(bare);
        let owner = match &self.shared {
            Some(shared) => shared.view.as_ref().and_then(|view| view.owner(bucket)),
            None => Some(self.map.owner(bucket)),
        };
        match owner.filter(|owner| self.map.has(*owner)) {
            Some(owner) => owner == self.own,
            None => self.own.shard == 0,
        }
    }

    /// The way of a message now.
    pub fn way(&self, target: MessageTarget) -> Way {
        if let Some(shared) = &self.shared {
            return shared.way(target, self.map);
        }
        let to = match target {
            MessageTarget::Owner(bucket) => self.map.owner(bucket),
            MessageTarget::Shard(shard) => shard,
        };
        if to == self.own {
            Way::Own
        } else if self.map.has(to) {
            Way::Shard(to)
        } else {
            Way::Nowhere
        }
    }

    /// For a shard of the map.
    pub fn push(&mut self, to: ShardAddress, message: XmppShardMessage) {
        self.queues[usize::from(to.shard)].push(message);
    }

    /// Queues a message for a shard of another node.
    pub fn push_for_node(&mut self, to: ShardAddress, message: XmppShardMessage) {
        self.for_nodes.push((to, message));
    }

    /// Moves out what waits for a shard.
    pub fn take(&mut self, shard: usize) -> Vec<XmppShardMessage> {
        std::mem::take(&mut self.queues[shard])
    }

    /// Moves out what is for other nodes, in runs: each is one message, or one stanza for several addresses of a shard. Stanzas for owners keep
    /// their order, and so does all that is for connections.
    pub fn take_for_nodes(&mut self) -> Vec<(ShardAddress, Vec<XmppShardMessage>)> {
        let mut runs: Vec<(ShardAddress, Vec<XmppShardMessage>)> = Vec::new();
        // The place of the last run for a shard: a message joins no earlier one. A presence for contacts of this shard causes elements for clients
        // between those for owners.
        let mut last = HashMap::new();
        for (to, message) in self.for_nodes.drain(..) {
            let receiver = (to, matches!(message, XmppShardMessage::Routed(_)));
            let run = last.get(&receiver).and_then(|place: &usize| runs.get_mut(*place));
            match run {
                Some((_, run)) if run.len() < COPIES && is_copy(&run[0], &message) => run.push(message),
                _ => {
                    last.insert(receiver, runs.len());
                    runs.push((to, vec![message]));
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use cluster::Life;
    use xmpp::{ConnectionId, Element, ns};

    use super::*;
    use crate::shared_owners::tests::view;

    const ONE: ShardAddress = ShardAddress { life: Life(1), shard: 0 };
    const TWO: ShardAddress = ShardAddress { life: Life(2), shard: 0 };

    fn queues() -> ShardQueues {
        ShardQueues::new(ShardAddress::new(Life(9), 0), ShardMap::of_process(Life(9), 1))
    }

    fn presence(show: &'static str, to: &str) -> XmppShardMessage {
        let show = Element::new("show", ns::CLIENT).text(show);
        let presence =
            Element::new("presence", ns::CLIENT).with("from", "alice@example.net/desk").child(show);
        XmppShardMessage::Routed(Box::new(presence.copy_to(to)))
    }

    /// The runs, each as its shard's life and its addresses.
    fn runs(queues: &mut ShardQueues) -> Vec<(u32, Vec<String>)> {
        let of = |message: XmppShardMessage| match message {
            XmppShardMessage::Routed(element) => element.attr("to").unwrap_or_default().to_owned(),
            other => format!("{other:?}"),
        };
        let runs = queues.take_for_nodes().into_iter();
        runs.map(|(to, run)| (to.life.0, run.into_iter().map(of).collect())).collect()
    }

    #[test]
    fn one_shard_of_a_process_tells_the_contacts_of_a_removed_account() {
        let map = ShardMap::of_process(ONE.life, 3);
        // In a farm the last of the nodes owns all buckets.
        let tellers = |farm: Option<&[Life]>| {
            let tells = |own: ShardAddress| {
                let mut queues = ShardQueues::new(own, map);
                if let Some(lives) = farm {
                    queues.share_buckets();
                    if let Some(shared) = queues.shared_mut().filter(|_| !lives.is_empty()) {
                        shared.set_view(&view(lives));
                    }
                }
                queues.tells_contacts_of("alice@example.net").then_some(own)
            };
            map.all().filter_map(tells).collect::<Vec<_>>()
        };
        assert_eq!(tellers(None), [map.owner(Bucket::of("alice@example.net"))], "the owner");
        let first = ShardAddress::new(ONE.life, 0);
        assert_eq!(tellers(Some(&[ONE.life, TWO.life])), [first], "the owner is another node's");
        assert_eq!(tellers(Some(&[TWO.life, ONE.life])), [first], "the owner");
        assert_eq!(tellers(Some(&[])), [first], "no owner is known");
    }

    #[test]
    fn a_presence_goes_once_to_each_node_of_contacts() {
        let mut queues = queues();
        for (to, contact) in [(ONE, "a"), (TWO, "b"), (ONE, "c"), (TWO, "d"), (ONE, "e")] {
            queues.push_for_node(to, presence("away", contact));
        }
        let expected = [(1, vec!["a".into(), "c".into(), "e".into()]), (2, vec!["b".into(), "d".into()])];
        assert_eq!(runs(&mut queues), expected);
        assert!(queues.take_for_nodes().is_empty());
    }

    #[test]
    fn messages_for_a_shard_keep_their_order() {
        let mut queues = queues();
        queues.push_for_node(ONE, presence("away", "a"));
        queues.push_for_node(ONE, presence("dnd", "a"));
        queues.push_for_node(ONE, presence("away", "c"));
        let edge = |connection| ConnectionId { shard: ONE, connection };
        let deliver = |connection| match presence("away", "z") {
            XmppShardMessage::Routed(element) => {
                XmppShardMessage::Deliver { edge: edge(connection), element: *element }
            }
            other => other,
        };
        queues.push_for_node(ONE, deliver(1));
        queues.push_for_node(ONE, deliver(2));
        queues.push_for_node(ONE, XmppShardMessage::Flush { edge: edge(2) });
        queues.push_for_node(ONE, presence("away", "e"));
        queues.push_for_node(ONE, deliver(2));
        let found = runs(&mut queues);
        assert_eq!(
            found.iter().map(|(_, run)| run.len()).collect::<Vec<_>>(),
            [1, 1, 2, 2, 1, 1],
            "{found:?}"
        );
        assert_eq!(
            (&found[1].1[..], &found[2].1[..]),
            (&["a".to_owned()][..], &["c".to_owned(), "e".into()][..])
        );
    }

    #[test]
    fn a_stanza_for_very_many_goes_in_several_messages() {
        let mut queues = queues();
        (0..2 * COPIES + 1).for_each(|number| {
            queues.push_for_node(ONE, presence("away", &format!("{number}")));
        });
        let found = runs(&mut queues);
        assert_eq!(found.iter().map(|(_, run)| run.len()).collect::<Vec<_>>(), [COPIES, COPIES, 1]);
    }
}
