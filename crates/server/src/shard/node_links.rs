//! The ways of a shard's messages to other nodes, and to the other shards of its own: the links, or the inbox of the shard that has them.
//! The first shard of a node has the links; the others send through its inbox.

use cluster::ShardAddress;
use cluster::link::{Message, SendError};
use sip::endpoint::SharedResponse;
use stdx::Instant;

use super::Shard;
use super::farm::FarmAdapter;
use crate::message::{InboxMessage, LocalMessage, ShardMessage};
use shard_message::wire;

/// The ways by which a shard sends to other nodes.
pub(super) struct NodeLinks<'a> {
    pub(super) own: ShardAddress,
    /// `None`: the node is alone.
    pub(super) farm: Option<&'a mut FarmAdapter>,
    /// Messages for other shards of this node at the end of the turn, by number.
    post: &'a mut [Vec<InboxMessage>],
}

/// The links and inboxes of a shard.
pub(super) fn node_links(shard: &mut Shard) -> NodeLinks<'_> {
    NodeLinks::new(shard.parts.edge, shard.farm.as_mut(), &mut shard.post)
}

impl<'a> NodeLinks<'a> {
    pub(super) fn new(
        own: ShardAddress,
        farm: Option<&'a mut FarmAdapter>,
        post: &'a mut [Vec<InboxMessage>],
    ) -> NodeLinks<'a> {
        NodeLinks { own, farm, post }
    }

    /// Sends to another node by the link, or through the shard that has it.
    ///
    /// # Errors
    /// The message, if this shard has the links and they do not take it.
    pub(super) fn send(&mut self, now: Instant, to: ShardAddress, message: Message) -> Result<(), SendError> {
        match self.farm.as_mut().filter(|adapter| adapter.links.is_some()) {
            Some(adapter) => adapter.send(now, to.life, message),
            None => {
                self.post[0].push(LocalMessage::ToNode { life: to.life, message }.into());
                Ok(())
            }
        }
    }

    /// Sends a message that is lost if it cannot be sent now. An answer or news of the router: the asker has a deadline, and a watch is
    /// refreshed. A message between a conference or queue and its members: both sides repeat each second what they know, and sound that is
    /// late is worth nothing.
    pub(super) fn send_or_drop(&mut self, now: Instant, to: ShardAddress, message: &ShardMessage) {
        for message in wire::encode(to, message) {
            let _ = self.send(now, to, message);
        }
    }

    /// Puts a message into the inbox of a shard of this node, if it has one of this number.
    pub(super) fn post(&mut self, shard: u16, message: InboxMessage) {
        if let Some(post) = self.post.get_mut(usize::from(shard)) {
            post.push(message);
        }
    }

    /// Puts a message into the inboxes of all other shards of this node.
    pub(super) fn post_to_others(&mut self, message: impl Fn() -> InboxMessage) {
        let own = usize::from(self.own.shard);
        for (_, post) in self.post.iter_mut().enumerate().filter(|(number, _)| *number != own) {
            post.push(message());
        }
    }

    /// Gives a response to the other shards of this node.
    pub(super) fn give_to_shards(&mut self, shared: &SharedResponse) {
        self.post_to_others(|| ShardMessage::SharedResponse(shared.clone()).into());
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Epoch, Life};

    use super::*;

    #[test]
    fn a_shard_without_links_sends_through_the_first() {
        let (own, to) = (ShardAddress::new(Life(1), 1), ShardAddress::new(Life(2), 0));
        let mut post = [Vec::new(), Vec::new(), Vec::new()];
        let mut links = NodeLinks::new(own, None, &mut post);
        let message = Message { kind: 0, epoch: Epoch(0), shard: 0, body: Default::default() };
        assert!(links.send(Instant::default(), to, message).is_ok());
        links.post(7, LocalMessage::HostRefuses(Life(2)).into());
        links.post_to_others(|| LocalMessage::HostRefuses(Life(2)).into());
        let is_to_node = |message: &InboxMessage| {
            matches!(message, InboxMessage::Local(LocalMessage::ToNode { life: Life(2), .. }))
        };
        assert_eq!(post.each_ref().map(Vec::len), [2, 0, 1], "a shard that is not there has no inbox");
        assert!(is_to_node(&post[0][0]));
    }
}
