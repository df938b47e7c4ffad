//! The shard between chat and the farm, where nodes share a database: the farm's view and orders for `xmpp::farm`, and its messages
//! for other nodes.
//!
//! Out: encoded messages on the links, and each refusal of a link as an input of chat. Invariant: a message of
//! chat that has left `ShardQueues::take_for_nodes` is sent, comes back by `handle_unsent` or `handle_returned`, or was
//! refused to its sender; none is dropped in silence.

use std::sync::Arc;

use cluster::link::{Message, SendFailure};
use cluster::{Bucket, Life, ShardAddress};
use farm::view::FarmView;
use router::BucketSet;
use stdx::Instant;

use super::node_links::node_links;
use super::xmpp::XmppAdapter;
use super::{Shard, buckets};
use crate::message::{InboxMessage, LocalMessage, LocalXmppMessage, ShardMessage, XmppShardMessage};
use crate::xmpp::farm as chat;
use shard_message::wire::{self, Decoded};

/// True if the shard has chat, on buckets of a farm.
fn is_on(shard: &Shard) -> bool {
    shard.xmpp.is_some() && buckets::is_shared(shard)
}

/// Before the first turn.
pub(super) fn begin(shard: &mut Shard, now: Instant) {
    if !is_on(shard) {
        return;
    }
    shard.with_xmpp(now, |xmpp, _| chat::share_buckets(xmpp));
    if let Some(view) = shard.farm.as_ref().and_then(|farm| farm.view.clone()) {
        handle_view(shard, now, &view);
    }
}

/// At the beginning of a turn: the node may have lost the authority of an owner since the last.
pub(super) fn begin_turn(shard: &mut Shard, now: Instant) {
    if !is_on(shard) {
        return;
    }
    let may_act = shard.farm.as_ref().is_some_and(|farm| farm.may_act(now));
    // Before any message of the turn: without authority nothing may be answered as an owner.
    if let Some(shared) = shard.xmpp.as_mut().and_then(|adapter| adapter.xmpp.queues.shared_mut()) {
        shared.set_may_act(may_act);
    }
    // Reads may have ended that an ended bucket waits for.
    buckets::handle_written(shard, now);
}

/// The farm is now so.
pub(super) fn handle_view(shard: &mut Shard, now: Instant, view: &Arc<FarmView>) {
    if is_on(shard) {
        shard.with_xmpp(now, |xmpp, outbox| chat::handle_view(xmpp, now, view, outbox));
    }
}

/// The shard serves those of these buckets that `is_served` names, and no longer the others.
pub(super) fn set_served(
    shard: &mut Shard,
    now: Instant,
    buckets: impl Iterator<Item = Bucket>,
    is_served: impl Fn(&Shard, Bucket) -> bool,
) {
    if !is_on(shard) {
        return;
    }
    let (served, ended): (Vec<Bucket>, Vec<Bucket>) = buckets.partition(|bucket| is_served(shard, *bucket));
    let (served, ended): (BucketSet, BucketSet) = (served.into_iter().collect(), ended.into_iter().collect());
    shard.with_xmpp(now, |xmpp, outbox| {
        // First the end of buckets: their sessions close before messages for new buckets are handled.
        if !ended.is_empty() {
            chat::stop(xmpp, now, &ended, outbox);
        }
        if !served.is_empty() {
            chat::serve(xmpp, now, &served, outbox);
        }
    });
}

/// Adds the buckets that have ended here and have writes of chat under way: they are not drained yet.
pub(super) fn add_writing(chat: Option<&mut XmppAdapter>, writing: &mut BucketSet) {
    if let Some(adapter) = chat {
        chat::add_writing(&mut adapter.xmpp, writing);
    }
}

/// Sends the turn's messages for other nodes.
pub(super) fn post(shard: &mut Shard, now: Instant) {
    if !is_on(shard) {
        return;
    }
    let Some(adapter) = &mut shard.xmpp else { return };
    let messages = adapter.xmpp.queues.take_for_nodes();
    let view = shard.farm.as_ref().and_then(|farm| farm.view.as_ref());
    // A farm that is being upgraded has nodes that would not know the message.
    let is_understood = view.is_some_and(|view| view.map.level() >= wire::CHAT_SINCE);
    for (to, copies) in messages {
        post_copies(shard, now, (to, is_understood), copies);
    }
}

/// Sends a message, or a stanza for several addresses, to a shard. False beside the address: it would not know the message.
fn post_copies(
    shard: &mut Shard,
    now: Instant,
    (to, is_understood): (ShardAddress, bool),
    copies: Vec<XmppShardMessage>,
) {
    let own = shard.parts.edge.shard;
    let encoded = wire::chat_copies(to, own, &copies).filter(|_| is_understood);
    let sent = encoded.map(|encoded| {
        let bytes = encoded.wire_bytes();
        node_links(shard).send(now, to, encoded).map(|()| bytes).map_err(|error| error.reason)
    });
    if sent == Some(Err(SendFailure::TooLong)) && copies.len() > 1 {
        // Each for itself is shorter by the other addresses.
        return copies.into_iter().for_each(|copy| post_copies(shard, now, (to, is_understood), vec![copy]));
    }
    for message in copies {
        shard.with_xmpp(now, |xmpp, outbox| match sent {
            Some(Ok(bytes)) => chat::handle_sent(xmpp, now, to, message, bytes),
            // It would be as long the next time.
            Some(Err(SendFailure::TooLong)) => drop(xmpp.take_back(now, vec![message], outbox)),
            failed => {
                let is_dead = failed == Some(Err(SendFailure::Dead));
                chat::handle_unsent(xmpp, now, (to, is_dead), message, outbox);
            }
        });
    }
}

/// A message that found the inbox of a shard of this node full; one of chat for another node goes back to its sender. Returns a message
/// between shards, for the shard to take back.
pub(super) fn take_back(shard: &mut Shard, now: Instant, message: InboxMessage) -> Option<ShardMessage> {
    match message {
        InboxMessage::Shard(message) => Some(message),
        InboxMessage::Local(LocalMessage::ToNode { life, message }) => {
            handle_returned(shard, now, (life, false), &message);
            None
        }
        // The process's own messages that may be dropped end with an answer to their asker.
        InboxMessage::Local(_) => None,
    }
}

/// A message that another node did not take, that an earlier link of its own may have had, or, with true beside its life, that it has not received before
/// its death. True if it is one of chat: it goes to the shard that has sent it.
pub(super) fn handle_returned(
    shard: &mut Shard,
    now: Instant,
    (to, is_dead): (Life, bool),
    message: &Message,
) -> bool {
    // The shard that has sent it is named in the message: the link belongs to all shards of the node.
    let Some(sender) = wire::chat_sender(message) else { return false };
    let Ok(Decoded::Message(ShardMessage::Xmpp(messages))) = wire::read(message) else { return true };
    let to = ShardAddress::new(to, u16::from(message.shard));
    for message in messages {
        let returned = LocalXmppMessage::Returned { to, is_dead, message: Box::new(message) };
        if sender == shard.parts.edge.shard {
            shard.with_xmpp(now, |xmpp, outbox| xmpp.handle_local_message(now, returned, outbox));
        } else if let Some(outlet) = shard.parts.outlets.get(usize::from(sender)) {
            // There are no more of them than the link's queue has held.
            outlet.answer_all(&mut vec![LocalMessage::Xmpp(returned).into()]);
        }
    }
    true
}
