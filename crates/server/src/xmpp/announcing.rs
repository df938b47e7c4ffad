//! Sessions that outlive their owner, in a farm whose nodes share a database (`docs/decisions/0071-sessions-that-outlive-their-owner.md`): the
//! node of a client's connection follows the session ([`FollowedSessions`](chat_owners::FollowedSessions)) and announces it to
//! the next owner when the owner is dead; that one makes it again.

use chat::{AnnouncedSession, RestoreManner, announced_session, handle_restore, occupant_of};
use chat_owners::{BoundStep, ElementStep, Way};
use cluster::{Bucket, ShardAddress};
use stdx::Instant;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::{ConnectionId, Element, ns, stanza};

use super::farm::{self, MOVED};
use super::shedding;
use super::streams::C2sEvent;
use super::{Xmpp, XmppEffect};
use crate::message::{StreamCondition, XmppShardMessage};

/// A client asks for a session: it is followed if its owner is at another node.
pub(super) fn handle_bind(xmpp: &mut Xmpp, now: Instant, stream: u64, bucket: Bucket, request: &BindRequest) {
    shedding::handle_bind(xmpp, now, stream, bucket);
    xmpp.followed.remove(stream);
    if xmpp.queues.shared().is_some() && is_remote(xmpp, bucket) {
        xmpp.followed.handle_bind(stream, bucket, request);
    }
}

/// A message for the owner of this bucket may leave the node.
fn is_remote(xmpp: &Xmpp, bucket: Bucket) -> bool {
    matches!(xmpp.queues.way(bucket.into()), Way::Node(_) | Way::Wait)
}

/// Notes an element of a client, or the end of its stream. True: the session has no owner now, and the element waits with it. A stream
/// whose session is lost and cannot be announced is closed, since no session would count the element (XEP-0198 §4).
pub(super) fn handle_event(
    xmpp: &mut Xmpp,
    now: Instant,
    event: &C2sEvent,
    outbox: &mut Vec<XmppEffect>,
) -> bool {
    let (stream, step) = match event {
        C2sEvent::Stanza { stream, element } => {
            (*stream, xmpp.followed.handle_element(now, *stream, (element, true)))
        }
        C2sEvent::Nonza { stream, element } => {
            (*stream, xmpp.followed.handle_element(now, *stream, (element, false)))
        }
        // The next owner ends the session, or keeps it for its client to resume.
        C2sEvent::Gone { stream, in_order, .. } => {
            xmpp.seen.remove(*stream);
            shedding::handle_gone(xmpp, *stream);
            match xmpp.followed.handle_gone(*stream, *in_order) {
                true => (*stream, ElementStep::Pass),
                false => (*stream, ElementStep::Keep),
            }
        }
        _ => return false,
    };
    let has_turn = xmpp.moved.take(stream);
    if has_turn {
        announce_or_close(xmpp, now, stream, outbox);
    }
    has_turn || step == ElementStep::Keep
}

/// A stream whose session is lost has its turn.
fn announce_or_close(xmpp: &mut Xmpp, now: Instant, stream: u64, outbox: &mut Vec<XmppEffect>) {
    let Some((bucket, session)) = xmpp.followed.announce(stream) else {
        return xmpp.streams.fail(stream, MOVED);
    };
    let edge = ConnectionId { shard: xmpp.queues.own(), connection: stream };
    let is_ending = session.is_ending();
    xmpp.send(now, bucket, XmppShardMessage::Restore { edge, session: Box::new(session) }, outbox);
    if is_ending {
        xmpp.streams.fail(stream, MOVED);
    }
}

/// Handles a message of an owner for a connection. An element of a dead owner is dropped: the next one sends what the client has not
/// acknowledged.
pub(super) fn handle_message(
    xmpp: &mut Xmpp,
    now: Instant,
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    match message {
        XmppShardMessage::Bound { edge, bound } => handle_bound(xmpp, now, edge.connection, *bound, outbox),
        // A client that is gone already has ended its session there, or left it to be resumed.
        XmppShardMessage::Announced { edge, .. } if xmpp.streams.get(edge.connection).is_none() => {}
        XmppShardMessage::Announced { edge, session } => {
            xmpp.followed.handle_resumed(edge.connection, *session);
        }
        XmppShardMessage::Restore { edge, session } => restore(xmpp, now, edge, *session, outbox),
        XmppShardMessage::AllAnnounced { edge, buckets } => {
            let Some(shared) = xmpp.queues.shared_mut() else { return };
            shared.barrier().handle_announced(edge, &buckets);
            farm::begin_open(xmpp, now, outbox);
        }
        XmppShardMessage::Close { edge, condition, detail } => {
            xmpp.followed.remove(edge.connection);
            shedding::handle_close(xmpp, now, edge.connection, condition);
            match condition {
                StreamCondition::IN_ORDER => xmpp.streams.end(edge.connection),
                condition => {
                    xmpp.streams.fail_with(edge.connection, condition.name(), detail.map(|detail| *detail));
                }
            }
        }
        XmppShardMessage::Deliver { edge, element } if xmpp.followed.is_hosted(edge.connection) => {
            xmpp.streams.deliver(edge.connection, &element);
            note_occupant(xmpp, now, edge.connection, &element);
            xmpp.followed.handle_delivered(edge.connection, element);
        }
        XmppShardMessage::Flush { edge } if xmpp.followed.is_hosted(edge.connection) => {
            xmpp.streams.flush(edge.connection);
        }
        _ => {}
    }
}

/// Notes an occupant that a client sees, of a room whose owner is at another node.
fn note_occupant(xmpp: &mut Xmpp, now: Instant, stream: u64, presence: &Element) {
    if xmpp.queues.shared().is_none() || xmpp.streams.get(stream).is_none() {
        return;
    }
    let Some(occupant) = occupant_of(presence) else { return };
    let is_room = xmpp.host.get().settings().rooms_of(occupant.domain()).is_some();
    if is_room && is_remote(xmpp, Bucket::of(occupant.bare_str())) {
        xmpp.seen.handle_delivered(now, stream, &occupant, presence);
    }
}

/// The owners of these buckets are dead: the next owners of rooms among them learn which occupants the clients here have seen.
pub(super) fn announce_seen(
    xmpp: &mut Xmpp,
    now: Instant,
    is_lost: impl Fn(&str) -> bool,
    outbox: &mut Vec<XmppEffect>,
) {
    for seen in xmpp.seen.announce(now, is_lost) {
        let Some(room) = stanza::to(&seen).ok().flatten() else { continue };
        let message = XmppShardMessage::Routed(Box::new(seen));
        xmpp.send(now, Bucket::of(room.bare_str()), message, outbox);
    }
}

/// The session of a connection ends at this owner. A client that has closed its stream gets the end of it after all that the host has sent.
pub(super) fn end_session(
    xmpp: &mut Xmpp,
    now: Instant,
    (edge, in_order): (ConnectionId, bool),
    outbox: &mut Vec<XmppEffect>,
) {
    xmpp.tell_host(now, outbox, |host, out| host.handle_gone(now, edge, in_order, out));
    if in_order {
        let condition = StreamCondition::IN_ORDER;
        xmpp.send(now, edge.shard, XmppShardMessage::Close { edge, condition, detail: None }, outbox);
    }
}

/// Handles the answer of an owner to a request for a session, or to an announcement.
fn handle_bound(xmpp: &mut Xmpp, now: Instant, stream: u64, bound: Bound, outbox: &mut Vec<XmppEffect>) {
    shedding::handle_bound(xmpp, now, stream, &bound);
    let edge = ConnectionId { shard: xmpp.queues.own(), connection: stream };
    let is_remote = match &bound {
        Bound::Session { jid, .. } => is_remote(xmpp, Bucket::of(jid.bare_str())),
        _ => true,
    };
    match xmpp.followed.handle_bound(stream, bound, is_remote) {
        BoundStep::Pass(bound) => xmpp.streams.handle_bound(stream, bound),
        BoundStep::Restored(bucket, elements) => {
            for element in elements {
                let message = match stanza::kind_of(&element) {
                    Some(_) => XmppShardMessage::Stanza { edge, element },
                    None => XmppShardMessage::Nonza { edge, element },
                };
                xmpp.send(now, bucket, message, outbox);
            }
        }
        BoundStep::RestoredWithoutStream(bucket, in_order) => {
            xmpp.send(now, bucket, XmppShardMessage::Gone { edge, in_order }, outbox);
        }
        BoundStep::Refused => xmpp.streams.fail(stream, MOVED),
    }
}

/// Announces a session of this owner to the node where its client has resumed it.
pub(super) fn announce_resumed(
    xmpp: &mut Xmpp,
    now: Instant,
    edge: ConnectionId,
    outbox: &mut Vec<XmppEffect>,
) {
    if edge.shard.life == xmpp.queues.own().life {
        return;
    }
    if let Some(session) = announced_session(xmpp.host.get(), edge) {
        let session = Box::new(session);
        xmpp.send(now, edge.shard, XmppShardMessage::Announced { edge, session }, outbox);
    }
}

/// This owner makes a session again.
fn restore(
    xmpp: &mut Xmpp,
    now: Instant,
    edge: ConnectionId,
    session: AnnouncedSession,
    outbox: &mut Vec<XmppEffect>,
) {
    let Some(shared) = xmpp.queues.shared() else { return };
    let (manner, lost) = (RestoreManner { is_late: !shared.is_beginning() }, shared.lost().clone());
    let is_lost = move |bare: &str| lost.contains(Bucket::of(bare));
    let is_connected = shared.has(edge.shard);
    xmpp.tell_host(now, outbox, |host, out| {
        handle_restore(host, now, (edge, session), manner, is_lost, out);
        if !is_connected {
            // The node of the connection has died since; the client may resume the session elsewhere.
            host.handle_gone(now, edge, false, out);
        }
    });
}

/// Asks owners how many stanzas of these clients they have handled, and announces or closes the streams that have their turn.
pub(super) fn expire(xmpp: &mut Xmpp, now: Instant, outbox: &mut Vec<XmppEffect>) {
    for (stream, bucket) in xmpp.followed.take_questions(now) {
        let edge = ConnectionId { shard: xmpp.queues.own(), connection: stream };
        let element = Element::new("r", ns::SM);
        xmpp.send(now, bucket, XmppShardMessage::Nonza { edge, element }, outbox);
    }
    for stream in xmpp.moved.take_due(now) {
        announce_or_close(xmpp, now, stream, outbox);
    }
}

/// Tells the next owners of lost buckets that all sessions of this shard are announced, once they are.
pub(super) fn report(xmpp: &mut Xmpp, now: Instant, outbox: &mut Vec<XmppEffect>) {
    let Some(shared) = xmpp.queues.shared() else { return };
    if !xmpp.moved.is_empty() {
        return;
    }
    let reports = xmpp.followed.take_reports(|bucket| shared.informed_owner(bucket));
    let edge = xmpp.queues.own();
    for (owner, buckets) in reports {
        let buckets = Box::new(buckets);
        xmpp.send(now, owner, XmppShardMessage::AllAnnounced { edge, buckets }, outbox);
    }
}

/// Tells new shards that this one has chat, so that they wait for its sessions if an owner dies.
pub(super) fn greet(xmpp: &mut Xmpp, now: Instant, shards: &[ShardAddress], outbox: &mut Vec<XmppEffect>) {
    let edge = xmpp.queues.own();
    for shard in shards {
        let buckets = Box::default();
        xmpp.send(now, *shard, XmppShardMessage::AllAnnounced { edge, buckets }, outbox);
    }
}

/// True if an element of this client that has not reached its owner is kept here, and goes to the next one.
pub(super) fn keeps(xmpp: &Xmpp, edge: ConnectionId, is_alive: bool) -> bool {
    !is_alive && xmpp.followed.can_be_announced(edge.connection)
}

/// Accounts that may not sign in any more: their sessions without an owner are not announced.
pub(super) fn end(xmpp: &mut Xmpp, is_meant: impl Fn(&str) -> bool, condition: &'static str) {
    for stream in xmpp.followed.end(is_meant) {
        xmpp.streams.fail(stream, condition);
    }
}
