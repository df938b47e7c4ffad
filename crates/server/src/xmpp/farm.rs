//! Chat of a shard in a farm whose nodes share a database (`docs/decisions/0063-chat-on-a-farm.md`). The owner of a bucket, a shard of any
//! node, has the sessions, rooms and nodes of its addresses; a client's connection is at the node that has accepted it.
//!
//! `shard::chat_farm` calls these functions: when the farm's view changes, when the shard serves or stops buckets, and for messages
//! that come from other shards or come back. [`SharedOwners`](chat_owners::SharedOwners) has the state.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use chat::{MessageNumber, ownership};
use chat_owners::{MessageTarget, OwnerChange, SentMessage, ShardQueues, Way, bucket_of};
use cluster::{Bucket, ShardAddress};
use farm::view::FarmView;
use router::BucketSet;
use stdx::Instant;
use xmpp::s2s::Outcome;
use xmpp::{ConnectionId, Element, stanza};

use super::announcing::with_announcer;
use super::{Xmpp, XmppEffect};
use super::{announcing, remote};
use crate::message::{StreamCondition, XmppShardMessage};

/// The stream error for clients whose session has ended because its owner is another now (RFC 6120 §4.9.3.16): the client opens a
/// new stream and signs in again.
pub(super) const MOVED: &str = "reset";

/// Buckets are those of a farm whose nodes share a database, and none is served yet.
pub(crate) fn share_buckets(xmpp: &mut Xmpp) {
    xmpp.queues.share_buckets();
    ownership::share_addresses(xmpp.host.get_mut());
}

/// The farm is now so: connections of dead nodes are gone, clients whose session has moved or is lost come again, and sessions here learn
/// that contacts and rooms have other owners.
pub(crate) fn handle_view(xmpp: &mut Xmpp, now: Instant, view: &Arc<FarmView>, outbox: &mut Vec<XmppEffect>) {
    let Some(shared) = xmpp.queues.shared_mut() else { return };
    // The order below matters: first connections of dead nodes go, then sessions move, and only then messages
    // are sent again to the new owners.
    let OwnerChange { moved, lost, new_shards, has_lost_nodes } = shared.set_view(view);
    if has_lost_nodes {
        xmpp.tell_host(now, outbox, |host, out| {
            ownership::handle_shards_gone(host, now, |shard| !view.has(shard), out);
        });
    }
    if !moved.is_empty() {
        let streams = xmpp.streams.close_unbound(|bucket| moved.contains(bucket), MOVED);
        xmpp.announcer.handle_lost(now, &lost, streams, xmpp.queues.map().shards());
        if let Some(shared) = xmpp.queues.shared_mut() {
            shared.drop_elements(|stream| !xmpp.announcer.is_hosted(stream));
        }
        // Before messages for these sessions, as far as their turn is now.
        with_announcer(xmpp, now, outbox, |announcer, queues, out| announcer.expire(now, queues.own(), out));
        let has_moved = |bare: &str| moved.contains(Bucket::of(bare));
        let is_lost = |bare: &str| lost.contains(Bucket::of(bare));
        // Before the occupants enter again.
        with_announcer(xmpp, now, outbox, |announcer, _, out| announcer.announce_seen(now, is_lost, out));
        xmpp.tell_host(now, outbox, |host, out| {
            ownership::handle_owners_changed(host, now, has_moved, is_lost, out);
        });
    }
    // Before `retry`: messages that a dead node had are older than those that wait, and stand before them in
    // the queue.
    let lost = xmpp.unhandled.set_view(view);
    let for_components = wait_again(&mut xmpp.queues, now, lost, xmpp.host.get().settings());
    retry(xmpp, now, outbox);
    remote::handle_view(xmpp, now, view, (&moved, &new_shards), outbox);
    for element in for_components {
        xmpp.route(now, Box::new(element), outbox);
    }
    with_announcer(xmpp, now, outbox, |announcer, queues, out| {
        announcing::greet(queues.own(), &new_shards, out);
        announcer.report(queues, out);
    });
    // The nodes that have gone are not waited for.
    begin_open(xmpp, now, outbox);
}

/// Messages that a dead node had and has not reported as handled wait for the next owners of their addresses. Returns those for components.
fn wait_again(
    queues: &mut ShardQueues,
    now: Instant,
    lost: Vec<SentMessage>,
    settings: &chat::HostSettings,
) -> Vec<Element> {
    let (foreign, lost): (Vec<_>, Vec<_>) =
        lost.into_iter().partition(|sent| remote::is_foreign(settings, &sent.element));
    let lost = lost.into_iter().map(|sent| (sent.bucket, XmppShardMessage::Routed(sent.element)));
    let lost: Vec<_> = lost.collect();
    if !lost.is_empty()
        && let Some(shared) = queues.shared_mut()
    {
        shared.wait_first(now, lost);
    }
    foreign.into_iter().map(|sent| *sent.element).collect()
}

/// The shard can serve these buckets from now on. Chat of those that a dead owner had begins when their sessions are announced.
pub(crate) fn serve(xmpp: &mut Xmpp, now: Instant, buckets: &BucketSet, outbox: &mut Vec<XmppEffect>) {
    let Some(shared) = xmpp.queues.shared_mut() else { return };
    let begins = shared.barrier().hold(now, buckets);
    begin_buckets(xmpp, now, &begins, outbox);
}

/// Begins chat of the buckets whose sessions are announced.
pub(super) fn begin_open(xmpp: &mut Xmpp, now: Instant, outbox: &mut Vec<XmppEffect>) {
    let Some(shared) = xmpp.queues.shared_mut() else { return };
    let begins = shared.barrier().take_open(now);
    begin_buckets(xmpp, now, &begins, outbox);
}

/// Serves these buckets: messages that have waited for them are handled now, in their order.
fn begin_buckets(xmpp: &mut Xmpp, now: Instant, buckets: &BucketSet, outbox: &mut Vec<XmppEffect>) {
    let Some(shared) = xmpp.queues.shared_mut().filter(|_| !buckets.is_empty()) else { return };
    shared.serve(now, buckets);
    // Another owner may have changed what memory had of them before.
    ownership::forget_unused(xmpp.host.get_mut());
    shared.set_beginning(true);
    retry(xmpp, now, outbox);
    if let Some(shared) = xmpp.queues.shared_mut() {
        shared.set_beginning(false);
    }
}

/// The shard serves these buckets no longer: their sessions and rooms end. Unacknowledged messages are stored.
pub(crate) fn stop(xmpp: &mut Xmpp, now: Instant, buckets: &BucketSet, outbox: &mut Vec<XmppEffect>) {
    let Some(shared) = xmpp.queues.shared_mut() else { return };
    // From here on new messages for these buckets wait or go to the next owner.
    let served = shared.stop(buckets);
    if served.is_empty() {
        return;
    }
    xmpp.router.stop(&served);
    let is_meant = |bare: &str| served.contains(Bucket::of(bare));
    xmpp.tell_host(now, outbox, |host, out| ownership::end_addresses(host, now, is_meant, MOVED, out));
    let (last, _) = xmpp.host_requests.span();
    if let Some(shared) = xmpp.queues.shared_mut() {
        // The store's requests up to this number are those of the sessions that have just ended.
        shared.drain(served, last);
    }
}

/// Adds the buckets that have ended and whose writes are under way.
pub(crate) fn add_writing(xmpp: &mut Xmpp, writing: &mut BucketSet) {
    let (last, earliest) = xmpp.host_requests.span();
    if let Some(shared) = xmpp.queues.shared_mut() {
        shared.writing(earliest, last, writing);
    }
}

/// A message has left by the link to the node of this shard. `bytes`: its size on the wire. A message of an account is kept until it is
/// handled.
pub(crate) fn handle_sent(
    xmpp: &mut Xmpp,
    now: Instant,
    to: ShardAddress,
    message: XmppShardMessage,
    bytes: usize,
) {
    let bucket = match &message {
        // Any bucket does: it is not sent to the owner of one.
        XmppShardMessage::ToComponent { element, .. } => {
            stanza::from(element).ok().flatten().map(|from| Bucket::of(from.bare_str()))
        }
        message => bucket_of(message),
    };
    if let XmppShardMessage::Routed(element) | XmppShardMessage::ToComponent { element, .. } = message
        && let Some((number, bucket)) = number_of(xmpp, &element).zip(bucket)
    {
        xmpp.unhandled.insert(now, number, SentMessage { element, bucket, to: to.life, bytes });
    }
}

/// The number of a message of this shard's accounts.
fn number_of(xmpp: &Xmpp, message: &Element) -> Option<MessageNumber> {
    let number = MessageNumber::of_message(message, xmpp.queues.own())?;
    // Other servers and components could have made it up.
    is_of_account(xmpp, message).then_some(number)
}

fn is_of_account(xmpp: &Xmpp, message: &Element) -> bool {
    let sender = stanza::from(message).ok().flatten();
    sender.is_some_and(|sender| xmpp.host.get().settings().is_local(sender.domain()))
}

/// Sends a message by the link to another node. A message of an account gets a number, so that the other node reports when it is
/// handled; with too many that are not, it is refused.
pub(super) fn send_to_node(
    xmpp: &mut Xmpp,
    now: Instant,
    to: ShardAddress,
    mut message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    if let XmppShardMessage::Routed(element) | XmppShardMessage::ToComponent { element, .. } = &mut message
        && is_of_account(xmpp, element)
    {
        // Only a message that has no number of its session gets one here.
        MessageNumber::mark_unacknowledged(element, xmpp.queues.own(), xmpp.unhandled.next_number());
        if xmpp.unhandled.is_full() && number_of(xmpp, element).is_some() {
            return drop(xmpp.take_back(now, vec![message], outbox));
        }
    }
    xmpp.queues.push_for_node(to, message);
}

/// Handles a message of another shard, of this node or another one.
pub(crate) fn handle_message(
    xmpp: &mut Xmpp,
    now: Instant,
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    if let XmppShardMessage::Routed(element) = &message
        && let Some(number) = MessageNumber::of_report(element, xmpp.queues.own())
    {
        xmpp.unhandled.handle_handled(number);
    }
    match xmpp.queues.shared().and_then(|shared| shared.handle_arrival(&message)) {
        Some(target) => wait(xmpp, now, target, message, outbox),
        None => xmpp.handle_message(now, message, outbox),
    }
}

/// Keeps a message until its receiver is there; one of too many is refused.
pub(super) fn wait(
    xmpp: &mut Xmpp,
    now: Instant,
    target: MessageTarget,
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    let waits = match xmpp.queues.shared_mut() {
        Some(shared) => shared.wait(now, target, message),
        None => Err(message),
    };
    if let Err(message) = waits {
        xmpp.take_back(now, vec![message], outbox);
    }
}

/// A message of this shard that the link to another node gives back: it may have arrived there. True beside the address: the node is
/// dead, whatever this shard has been told of the farm.
pub(super) fn handle_returned(
    xmpp: &mut Xmpp,
    now: Instant,
    (to, is_dead): (ShardAddress, bool),
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    if let XmppShardMessage::Routed(element) | XmppShardMessage::ToComponent { element, .. } = &message
        && let Some(number) = number_of(xmpp, element)
        // It was handled, or sent again after the node's death: to send it once more would only repeat it.
        && !xmpp.unhandled.handle_returned(number, to.life)
    {
        return;
    }
    handle_unsent(xmpp, now, (to, is_dead), message, outbox);
}

/// A message of this shard that another node has not received; true: because it is dead. A message for an address goes to the next owner; a session or a
/// connection that has missed something goes on by XEP-0198 on another stream.
pub(crate) fn handle_unsent(
    xmpp: &mut Xmpp,
    now: Instant,
    (to, is_dead): (ShardAddress, bool),
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    let Some(shared) = xmpp.queues.shared() else { return };
    let is_alive = !is_dead && shared.has(to);
    match message {
        // It goes to the next owner with the session.
        XmppShardMessage::Stanza { edge, .. }
        | XmppShardMessage::Nonza { edge, .. }
        | XmppShardMessage::Drained { edge }
            if xmpp.announcer.keeps(edge, is_alive) => {}
        XmppShardMessage::Stanza { edge, .. }
        | XmppShardMessage::Nonza { edge, .. }
        | XmppShardMessage::Drained { edge } => {
            xmpp.streams.fail(edge.connection, "resource-constraint");
        }
        XmppShardMessage::Bound { edge, .. }
        | XmppShardMessage::Announced { edge, .. }
        | XmppShardMessage::Deliver { edge, .. }
        | XmppShardMessage::Flush { edge } => lose_connection(xmpp, now, edge, is_alive, outbox),
        XmppShardMessage::Outbound { receipt, .. } => {
            remote::handle_outcome(xmpp, now, receipt, Outcome::Untaken, outbox);
        }
        XmppShardMessage::ToComponent { element, .. } => {
            remote::handle_unsent_to_component(xmpp, now, &element, outbox);
        }
        XmppShardMessage::Gone { .. }
        | XmppShardMessage::Close { .. }
        | XmppShardMessage::Reply { .. }
        | XmppShardMessage::OutboundOutcome { .. }
        | XmppShardMessage::AttachOutcome { .. }
        | XmppShardMessage::Detached { .. }
            if is_alive =>
        {
            wait(xmpp, now, to.into(), message, outbox);
        }
        message => {
            if let Some(bucket) = bucket_of(&message) {
                wait(xmpp, now, bucket.into(), message, outbox);
            }
        }
    }
}

/// A connection at another node has missed an element of its session.
fn lose_connection(
    xmpp: &mut Xmpp,
    now: Instant,
    edge: ConnectionId,
    is_alive: bool,
    outbox: &mut Vec<XmppEffect>,
) {
    xmpp.tell_host(now, outbox, |host, out| host.handle_gone(now, edge, false, out));
    if is_alive {
        let condition = StreamCondition::named("resource-constraint");
        wait(xmpp, now, edge.shard.into(), XmppShardMessage::Close { edge, condition, detail: None }, outbox);
    }
}

/// Does what is due.
pub(super) fn expire(xmpp: &mut Xmpp, now: Instant, outbox: &mut Vec<XmppEffect>) {
    xmpp.unhandled.expire(now);
    with_announcer(xmpp, now, outbox, |announcer, queues, out| announcer.expire(now, queues.own(), out));
    with_announcer(xmpp, now, outbox, |announcer, queues, out| announcer.report(queues, out));
    begin_open(xmpp, now, outbox);
    if xmpp.queues.shared().is_some() {
        remote::expire(xmpp, now, outbox);
    }
    let Some(shared) = xmpp.queues.shared_mut() else { return };
    let (begins, is_retry_due) = (shared.take_begin(now), shared.is_retry_due(now));
    if is_retry_due {
        retry(xmpp, now, outbox);
    }
    if begins {
        xmpp.tell_host(now, outbox, |host, out| host.begin(out));
    }
}

/// Sends the messages whose receiver is there now, and refuses those that have waited too long.
fn retry(xmpp: &mut Xmpp, now: Instant, outbox: &mut Vec<XmppEffect>) {
    let Some(waiting) = xmpp.queues.shared_mut().map(super::SharedOwners::take_waiting) else { return };
    let local = xmpp.queues.map();
    let (mut kept, mut blocked) = (VecDeque::new(), HashSet::new());
    for message in waiting {
        let Some(shared) = xmpp.queues.shared_mut() else { return };
        let way = shared.way_of_waiting(&message, &blocked, local);
        // A later message for the same bucket must not overtake this one.
        if way == Way::Wait && !message.is_over(now) {
            if let MessageTarget::Owner(bucket) = message.target {
                blocked.insert(bucket);
            }
            kept.push_back(message);
            continue;
        }
        shared.release(&message);
        match way {
            Way::Own => xmpp.handle_message(now, message.message, outbox),
            Way::Shard(to) => xmpp.queues.push(to, message.message),
            Way::Node(to) => send_to_node(xmpp, now, to, message.message, outbox),
            Way::Wait | Way::Nowhere => drop(xmpp.take_back(now, vec![message.message], outbox)),
        }
    }
    if let Some(shared) = xmpp.queues.shared_mut() {
        shared.keep(now, kept);
    }
}
