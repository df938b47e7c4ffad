//! Sessions that outlive their owner, in a farm whose nodes share a database (`docs/decisions/0071-sessions-that-outlive-their-owner.md`): the
//! node of a client's connection follows the session ([`FollowedSessions`]) and announces it to the next owner when the owner is dead; that
//! one makes it again.
//!
//! [`SessionAnnouncer`] is the side of the connection: it decides, and the functions over [`Xmpp`] perform its effects. `handle_message` and
//! `restore` join it with streams and host.

use chat::{AnnouncedSession, RestoreManner, SeenOccupants, announced_session, handle_restore, occupant_of};
use chat_owners::{BoundStep, ElementStep, FollowedSessions, MessageTarget, MovedStreams, ShardQueues, Way};
use cluster::{Bucket, ShardAddress};
use router::BucketSet;
use stdx::Instant;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::{ConnectionId, Element, ns, stanza};

use super::farm::{self, MOVED};
use super::streams::C2sEvent;
use super::{Xmpp, XmppEffect};
use crate::message::{StreamCondition, XmppShardMessage};

/// The sessions of this shard's clients whose owners are at other nodes, and what their next owners have to be told.
#[derive(Default)]
pub(super) struct SessionAnnouncer {
    followed: FollowedSessions,
    /// Streams whose sessions are lost, until their turn.
    moved: MovedStreams,
    /// Occupants of rooms at other nodes, as clients here see them.
    seen: SeenOccupants,
}

/// An effect of [`SessionAnnouncer`].
#[derive(Debug)]
pub(super) enum AnnouncerEffect {
    /// A message for an owner or a shard.
    Send(MessageTarget, XmppShardMessage),
    /// The stream ends: its session is lost, and the client signs in again.
    End(u64),
}

impl SessionAnnouncer {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.moved.deadline().into_iter().chain(self.followed.deadline()).min()
    }

    /// True if the session of this stream has an owner that is not known to be dead.
    pub(super) fn is_hosted(&self, stream: u64) -> bool {
        self.followed.is_hosted(stream)
    }

    /// True if an element of this client that has not reached its owner is kept here, and goes to the next one.
    pub(super) fn keeps(&self, edge: ConnectionId, is_alive: bool) -> bool {
        !is_alive && self.followed.can_be_announced(edge.connection)
    }

    /// A client asks for a session: it is followed if its owner is at another node.
    pub(super) fn handle_bind(
        &mut self,
        queues: &ShardQueues,
        stream: u64,
        bucket: Bucket,
        request: &BindRequest,
    ) {
        self.followed.remove(stream);
        if queues.shared().is_some() && is_remote(queues, bucket) {
            self.followed.handle_bind(stream, bucket, request);
        }
    }

    /// Notes an element of a client, or the end of its stream. True: the session has no owner now, and the element waits with it. A stream
    /// whose session is lost and cannot be announced is closed, since no session would count the element (XEP-0198 §4).
    pub(super) fn handle_event(
        &mut self,
        now: Instant,
        own: ShardAddress,
        event: &C2sEvent,
        out: &mut Vec<AnnouncerEffect>,
    ) -> bool {
        let (stream, step) = match event {
            C2sEvent::Stanza { stream, element } => {
                (*stream, self.followed.handle_element(now, *stream, (element, true)))
            }
            C2sEvent::Nonza { stream, element } => {
                (*stream, self.followed.handle_element(now, *stream, (element, false)))
            }
            // The next owner ends the session, or keeps it for its client to resume.
            C2sEvent::Gone { stream, in_order, .. } => {
                self.seen.remove(*stream);
                match self.followed.handle_gone(*stream, *in_order) {
                    true => (*stream, ElementStep::Pass),
                    false => (*stream, ElementStep::Keep),
                }
            }
            _ => return false,
        };
        let has_turn = self.moved.take(stream);
        if has_turn {
            self.announce_or_close(own, stream, out);
        }
        has_turn || step == ElementStep::Keep
    }

    /// The owner has died, or serves the account no longer: these streams are announced or closed in turn, and so are the sessions that
    /// dead owners had, whose buckets are `lost`.
    pub(super) fn handle_lost(
        &mut self,
        now: Instant,
        lost: &BucketSet,
        streams: impl IntoIterator<Item = u64>,
        shards: u16,
    ) {
        let announced = self.followed.lose(lost);
        self.moved.insert(now, announced.into_iter().chain(streams), shards);
    }

    /// A stream whose session is lost has its turn.
    fn announce_or_close(&mut self, own: ShardAddress, stream: u64, out: &mut Vec<AnnouncerEffect>) {
        let Some((bucket, session)) = self.followed.announce(stream) else {
            return out.push(AnnouncerEffect::End(stream));
        };
        let edge = ConnectionId { shard: own, connection: stream };
        let is_ending = session.is_ending();
        let message = XmppShardMessage::Restore { edge, session: Box::new(session) };
        out.push(AnnouncerEffect::Send(bucket.into(), message));
        if is_ending {
            out.push(AnnouncerEffect::End(stream));
        }
    }

    /// Notes an occupant that a client sees, of a room whose owner is at another node.
    fn note_occupant(
        &mut self,
        now: Instant,
        stream: u64,
        presence: &Element,
        (queues, settings): (&ShardQueues, &chat::HostSettings),
    ) {
        let Some(occupant) = occupant_of(presence) else { return };
        let is_room = settings.rooms_of(occupant.domain()).is_some();
        if is_room && is_remote(queues, Bucket::of(occupant.bare_str())) {
            self.seen.handle_delivered(now, stream, &occupant, presence);
        }
    }

    /// The owners of these buckets are dead: the next owners of rooms among them learn which occupants the clients here have seen.
    pub(super) fn announce_seen(
        &mut self,
        now: Instant,
        is_lost: impl Fn(&str) -> bool,
        out: &mut Vec<AnnouncerEffect>,
    ) {
        for seen in self.seen.announce(now, is_lost) {
            let Some(room) = stanza::to(&seen).ok().flatten() else { continue };
            let owner = Bucket::of(room.bare_str());
            out.push(AnnouncerEffect::Send(owner.into(), XmppShardMessage::Routed(Box::new(seen))));
        }
    }

    /// Handles the answer of an owner to a request for a session, or to an announcement. Returns the answer if it is for the client.
    fn handle_bound(
        &mut self,
        queues: &ShardQueues,
        stream: u64,
        bound: Bound,
        out: &mut Vec<AnnouncerEffect>,
    ) -> Option<Bound> {
        let edge = ConnectionId { shard: queues.own(), connection: stream };
        let is_remote = match &bound {
            Bound::Session { jid, .. } => is_remote(queues, Bucket::of(jid.bare_str())),
            _ => true,
        };
        match self.followed.handle_bound(stream, bound, is_remote) {
            BoundStep::Pass(bound) => return Some(bound),
            BoundStep::Restored(bucket, elements) => out.extend(elements.into_iter().map(|element| {
                let message = match stanza::kind_of(&element) {
                    Some(_) => XmppShardMessage::Stanza { edge, element },
                    None => XmppShardMessage::Nonza { edge, element },
                };
                AnnouncerEffect::Send(bucket.into(), message)
            })),
            BoundStep::RestoredWithoutStream(bucket, in_order) => {
                out.push(AnnouncerEffect::Send(bucket.into(), XmppShardMessage::Gone { edge, in_order }));
            }
            BoundStep::Refused => out.push(AnnouncerEffect::End(stream)),
        }
        None
    }

    /// Asks owners how many stanzas of these clients they have handled, and announces or closes the streams that have their turn.
    pub(super) fn expire(&mut self, now: Instant, own: ShardAddress, out: &mut Vec<AnnouncerEffect>) {
        for (stream, bucket) in self.followed.take_questions(now) {
            let edge = ConnectionId { shard: own, connection: stream };
            let element = Element::new("r", ns::SM);
            out.push(AnnouncerEffect::Send(bucket.into(), XmppShardMessage::Nonza { edge, element }));
        }
        for stream in self.moved.take_due(now) {
            self.announce_or_close(own, stream, out);
        }
    }

    /// Tells the next owners of lost buckets that all sessions of this shard are announced, once they are.
    pub(super) fn report(&mut self, queues: &ShardQueues, out: &mut Vec<AnnouncerEffect>) {
        let Some(shared) = queues.shared() else { return };
        if !self.moved.is_empty() {
            return;
        }
        let reports = self.followed.take_reports(|bucket| shared.informed_owner(bucket));
        let edge = queues.own();
        out.extend(reports.into_iter().map(|(owner, buckets)| {
            let buckets = Box::new(buckets);
            AnnouncerEffect::Send(owner.into(), XmppShardMessage::AllAnnounced { edge, buckets })
        }));
    }

    /// Accounts that may not sign in any more: their sessions without an owner are not announced. Returns the streams that end.
    pub(super) fn end(&mut self, is_meant: impl Fn(&str) -> bool) -> Vec<u64> {
        self.followed.end(is_meant)
    }
}

/// A message for the owner of this bucket may leave the node.
fn is_remote(queues: &ShardQueues, bucket: Bucket) -> bool {
    matches!(queues.way(bucket.into()), Way::Node(_) | Way::Wait)
}

/// Tells new shards that this one has chat, so that they wait for its sessions if an owner dies.
pub(super) fn greet(own: ShardAddress, shards: &[ShardAddress], out: &mut Vec<AnnouncerEffect>) {
    out.extend(shards.iter().map(|shard| {
        let message = XmppShardMessage::AllAnnounced { edge: own, buckets: Box::default() };
        AnnouncerEffect::Send((*shard).into(), message)
    }));
}

/// Lets the announcer handle an input, and performs its effects.
pub(super) fn with_announcer<T>(
    xmpp: &mut Xmpp,
    now: Instant,
    outbox: &mut Vec<XmppEffect>,
    act: impl FnOnce(&mut SessionAnnouncer, &ShardQueues, &mut Vec<AnnouncerEffect>) -> T,
) -> T {
    // Without an allocation unless there is an effect: most inputs are elements of sessions whose owner lives.
    let mut effects = Vec::new();
    let done = act(&mut xmpp.announcer, &xmpp.queues, &mut effects);
    for effect in effects {
        match effect {
            AnnouncerEffect::Send(to, message) => xmpp.send(now, to, message, outbox),
            AnnouncerEffect::End(stream) => xmpp.streams.fail(stream, MOVED),
        }
    }
    done
}

/// Gives the announcer an event of a client before it goes on. True: it goes no further, as [`SessionAnnouncer::handle_event`] says.
pub(super) fn take_event(
    xmpp: &mut Xmpp,
    now: Instant,
    event: &C2sEvent,
    outbox: &mut Vec<XmppEffect>,
) -> bool {
    if let C2sEvent::Gone { stream, .. } = event {
        xmpp.shedding.handle_gone(*stream);
    }
    let own = xmpp.queues.own();
    with_announcer(xmpp, now, outbox, |announcer, _, out| announcer.handle_event(now, own, event, out))
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
        XmppShardMessage::Bound { edge, bound } => {
            let stream = edge.connection;
            if matches!(*bound, Bound::Session { .. } | Bound::Resumed { .. }) {
                xmpp.counted.end_sign_in(now, xmpp.streams.get(stream));
            }
            if let Some(wait) = xmpp.shedding.handle_bound(now, stream, &bound) {
                xmpp.streams.handle_wait(wait);
            }
            let answer = with_announcer(xmpp, now, outbox, |announcer, queues, out| {
                announcer.handle_bound(queues, stream, *bound, out)
            });
            if let Some(answer) = answer {
                xmpp.streams.handle_bound(stream, answer);
            }
        }
        // A client that is gone already has ended its session there, or left it to be resumed.
        XmppShardMessage::Announced { edge, .. } if xmpp.streams.get(edge.connection).is_none() => {}
        XmppShardMessage::Announced { edge, session } => {
            xmpp.announcer.followed.handle_resumed(edge.connection, *session);
        }
        XmppShardMessage::Restore { edge, session } => restore(xmpp, now, edge, *session, outbox),
        XmppShardMessage::AllAnnounced { edge, buckets } => {
            let Some(shared) = xmpp.queues.shared_mut() else { return };
            shared.barrier().handle_announced(edge, &buckets);
            farm::begin_open(xmpp, now, outbox);
        }
        XmppShardMessage::Close { edge, condition, detail } => {
            xmpp.announcer.followed.remove(edge.connection);
            xmpp.shedding.handle_close(now, edge.connection, condition);
            match condition {
                StreamCondition::IN_ORDER => xmpp.streams.end(edge.connection),
                condition => {
                    xmpp.streams.fail_with(edge.connection, condition.name(), detail.map(|detail| *detail));
                }
            }
        }
        XmppShardMessage::Deliver { edge, element } if xmpp.announcer.is_hosted(edge.connection) => {
            xmpp.streams.deliver(edge.connection, &element);
            if xmpp.queues.shared().is_some() && xmpp.streams.get(edge.connection).is_some() {
                let from = (&xmpp.queues, xmpp.host.get().settings());
                xmpp.announcer.note_occupant(now, edge.connection, &element, from);
            }
            xmpp.announcer.followed.handle_delivered(edge.connection, element);
        }
        XmppShardMessage::Flush { edge } if xmpp.announcer.is_hosted(edge.connection) => {
            xmpp.streams.flush(edge.connection);
        }
        _ => {}
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

/// The announcement of a session of this owner that its client has resumed at another node, for that node.
pub(super) fn resumed_session(xmpp: &Xmpp, edge: ConnectionId, bound: &Bound) -> Option<XmppShardMessage> {
    if !matches!(bound, Bound::Resumed { .. }) || edge.shard.life == xmpp.queues.own().life {
        return None;
    }
    let session = Box::new(announced_session(xmpp.host.get(), edge)?);
    Some(XmppShardMessage::Announced { edge, session })
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster::{Life, ShardMap};

    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_000);
    const OWN: ShardAddress = ShardAddress { life: Life(1), shard: 0 };

    /// The queues of a shard of a farm whose owners are all missing, so that they may be at other nodes.
    fn queues() -> ShardQueues {
        let mut queues = ShardQueues::new(OWN, ShardMap::of_process(OWN.life, 1));
        queues.share_buckets();
        queues
    }

    fn session(jid: &str) -> AnnouncedSession {
        AnnouncedSession {
            jid: xmpp::Jid::parse(jid).expect("an address"),
            id: "id".into(),
            resumable_for: Duration::from_secs(60),
            received: 0,
            acknowledged: 0,
            unacknowledged: Vec::new(),
            presence: None,
            directed: Vec::new(),
            left_rooms: Vec::new(),
            is_interested: false,
            wants_blocklist: false,
            has_carbons: false,
            is_inactive: false,
            takes_offline: false,
            agent: None,
        }
    }

    fn message(stream: u64) -> C2sEvent {
        let element = Element::new("message", ns::CLIENT).with("id", "m");
        C2sEvent::Stanza { stream, element }
    }

    #[test]
    fn a_lost_session_is_announced_in_its_turn_and_its_elements_wait_for_the_next_owner() {
        let (mut announcer, queues, mut out) = (SessionAnnouncer::default(), queues(), Vec::new());
        announcer.followed.handle_resumed(1, session("alice@a.test/x"));
        let alice = Bucket::of("alice@a.test");
        assert!(!announcer.handle_event(START, OWN, &message(1), &mut out), "its owner gets the element");
        announcer.handle_lost(START, &[alice].into_iter().collect(), [], 1);
        assert!(!announcer.is_hosted(1) && announcer.deadline() == Some(START));
        announcer.report(&queues, &mut out);
        assert!(out.is_empty(), "all are announced first: {out:?}");
        announcer.expire(START, OWN, &mut out);
        let [AnnouncerEffect::Send(to, XmppShardMessage::Restore { edge, .. })] = &out[..] else {
            panic!("{out:?}")
        };
        assert_eq!((*to, edge.connection), (alice.into(), 1));
        out.clear();
        assert!(announcer.handle_event(START, OWN, &message(1), &mut out), "there is no owner yet");
        let jid = xmpp::Jid::parse("alice@a.test/x").unwrap();
        let bound = Bound::Session { jid, inline: Vec::new() };
        assert!(announcer.handle_bound(&queues, 1, bound, &mut out).is_none(), "the client notices nothing");
        let mut stanzas = 0;
        for effect in &out {
            let AnnouncerEffect::Send(to, message) = effect else { panic!("{effect:?}") };
            assert_eq!(*to, alice.into(), "{message:?}");
            stanzas += usize::from(matches!(message, XmppShardMessage::Stanza { .. }));
        }
        assert_eq!(stanzas, 2, "the one before the loss was not acknowledged: {out:?}");
        assert!(announcer.is_hosted(1));
    }

    #[test]
    fn a_stream_with_an_unannounced_session_ends_in_its_turn_or_when_its_client_sends() {
        let (mut announcer, mut out) = (SessionAnnouncer::default(), Vec::new());
        // More than have their turn at once.
        announcer.handle_lost(START, &BucketSet::default(), 1..=50, 1);
        assert!(announcer.handle_event(START, OWN, &message(50), &mut out), "no session would count it");
        assert!(matches!(out[..], [AnnouncerEffect::End(50)]), "{out:?}");
        while let Some(at) = announcer.deadline() {
            announcer.expire(at, OWN, &mut out);
        }
        let mut ended: Vec<u64> = out
            .iter()
            .map(|effect| match effect {
                AnnouncerEffect::End(stream) => *stream,
                AnnouncerEffect::Send(..) => panic!("{effect:?}"),
            })
            .collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(1..=50), "each ends once");
    }
}
