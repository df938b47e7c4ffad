//! Sign-ins that are refused while shards do not keep up (`docs/decisions/0112-sign-ins-are-shed-when-they-begin.md`).
//!
//! | where | what | answer |
//! |---|---|---|
//! | the shard of the connection, as it opens | `xmpp_io::sign_in_limiter` of [`Streams`](super::Streams) | `resource-constraint` before TLS and SASL; with TLS from the start, closed |
//! | the shard of the connection, as the client names itself | the owner, at another node, has refused others of late ([`SessionRequests`]) | `temporary-auth-failure` |
//! | the owner of the account | a request for a new session from another node | `resource-constraint` |
//!
//! A client whose sign-in has begun here is not refused by this node, and resumption (XEP-0198) never is by the owner: it costs less than a new session,
//! whose contacts are told.

use std::time::Duration;

use chat_owners::{Referrals, SessionRequests, Way};
use cluster::{Bucket, ShardAddress};
use stdx::Instant;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::sasl::{CredentialAnswer, CredentialQuery};
use xmpp::{Bare, ConnectionId};
use xmpp_io::sign_in_limiter::{DelayedWork, SignInLimiter};

use super::{Xmpp, XmppEffect};
use crate::message::{StreamCondition, XmppShardMessage};

/// The stream error for clients that are to come again later (RFC 6120 §4.9.3.17).
const BUSY: &str = "resource-constraint";
/// The log says at most so often that sign-ins are refused.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// The state of one shard.
pub(super) struct Shedding {
    requests: SessionRequests,
    /// Limits sessions for clients of other nodes.
    sessions: SignInLimiter,
    /// Clients of other nodes that were referred to this one.
    referrals: Referrals,
    /// Requests for sessions of other nodes' clients, and sign-ins for owners that refuse them.
    refused: u64,
    noted: Instant,
    /// The sign-ins that were refused until then.
    noted_count: u64,
}

impl Shedding {
    pub(super) fn new(own: ShardAddress) -> Shedding {
        Shedding {
            requests: SessionRequests::new(u64::from(own.shard)),
            sessions: SignInLimiter::default(),
            referrals: Referrals::default(),
            refused: 0,
            noted: Instant::default(),
            noted_count: 0,
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

/// A turn of the shard that took so long ends `now`.
pub(crate) fn handle_turn(xmpp: &mut Xmpp, now: Instant, length: Duration) {
    xmpp.streams.handle_turn(length);
    let shedding = &mut xmpp.shedding;
    shedding.sessions.handle_delay(now, DelayedWork::Turn, length);
    if now.since(shedding.noted) < NOTED_EVERY {
        return;
    }
    let refused = shedding.refused + xmpp.streams.counters().shed;
    if refused > shedding.noted_count {
        let sign_ins = refused - shedding.noted_count;
        tracing::warn!(
            sign_ins,
            "sign-ins of chat clients were refused: the shard does not keep up with them"
        );
        (shedding.noted, shedding.noted_count) = (now, refused);
    }
}

/// A client of this shard names itself: its credentials are looked for, unless the owner of the account would refuse it.
pub(super) fn find(
    xmpp: &mut Xmpp,
    now: Instant,
    stream: u64,
    (find, domain): (CredentialQuery, Box<str>),
    outbox: &mut Vec<XmppEffect>,
) {
    if refuses_sign_in(xmpp, now, find.user(), &domain) {
        xmpp.streams.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
    } else {
        xmpp.with_clients(now, outbox, |clients, cx| clients.find(cx, stream, find, domain));
    }
}

fn refuses_sign_in(xmpp: &mut Xmpp, now: Instant, user: &str, domain: &str) -> bool {
    if xmpp.queues.shared().is_none() {
        return false;
    }
    // An alias has another bucket than its account: its sign-in may be refused by the owner all the same.
    let Some(owner) = Bare::parse(&format!("{user}@{domain}")).ok() else { return false };
    let Way::Node(owner) = xmpp.queues.way(Bucket::of(owner.as_str()).into()) else { return false };
    let may_begin = xmpp.shedding.requests.may_begin(now, owner);
    xmpp.shedding.refused += u64::from(!may_begin);
    !may_begin
}

/// A client of this shard asks for a new session, which has this owner.
pub(super) fn handle_bind(xmpp: &mut Xmpp, now: Instant, stream: u64, bucket: Bucket) {
    match xmpp.queues.way(bucket.into()) {
        Way::Own | Way::Shard(_) => xmpp.shedding.requests.insert(now, stream, None),
        Way::Node(owner) => xmpp.shedding.requests.insert(now, stream, Some(owner)),
        // While an owner is missing, the wait says nothing about load.
        Way::Wait | Way::Nowhere => xmpp.shedding.requests.remove(stream),
    }
}

/// The owner has answered a client of this shard.
pub(super) fn handle_bound(xmpp: &mut Xmpp, now: Instant, stream: u64, bound: &Bound) {
    if matches!(bound, Bound::Session { .. } | Bound::Resumed { .. }) {
        xmpp.counted.end_sign_in(now, xmpp.streams.get(stream));
    }
    match bound {
        Bound::Session { .. } => {
            if let Some(wait) = xmpp.shedding.requests.handle_bound(now, stream) {
                xmpp.streams.handle_wait(wait);
            }
        }
        _ => xmpp.shedding.requests.remove(stream),
    }
}

/// The owner ends the stream of a client of this shard.
pub(super) fn handle_close(xmpp: &mut Xmpp, now: Instant, stream: u64, condition: StreamCondition) {
    match condition.name() {
        BUSY => xmpp.shedding.requests.handle_refused(now, stream),
        _ => xmpp.shedding.requests.remove(stream),
    }
}

/// The connection of a client is gone.
pub(super) fn handle_gone(xmpp: &mut Xmpp, stream: u64) {
    xmpp.shedding.requests.remove(stream);
}

/// A client asks this owner for a new session. One of another node may be referred to this node's own host; while the owner does not keep up,
/// those from other nodes are limited.
pub(super) fn bind(
    xmpp: &mut Xmpp,
    now: Instant,
    edge: ConnectionId,
    request: &BindRequest,
    outbox: &mut Vec<XmppEffect>,
) {
    if let Some(host) = referred_to(xmpp, now, edge, request) {
        let bound = Box::new(Bound::SeeOtherHost(host));
        return xmpp.send(now, edge.shard, XmppShardMessage::Bound { edge, bound }, outbox);
    }
    if !is_of_other_node(xmpp, edge) || xmpp.shedding.sessions.admit(now) {
        return xmpp.tell_host(now, outbox, |host, out| host.handle_bind(now, edge, request, out));
    }
    xmpp.shedding.refused += 1;
    let condition = StreamCondition::named(BUSY);
    xmpp.send(now, edge.shard, XmppShardMessage::Close { edge, condition, detail: None }, outbox);
}

/// The host that the client is to go to. While the node does not keep up or leaves, no client is called to it.
fn referred_to(xmpp: &mut Xmpp, now: Instant, edge: ConnectionId, request: &BindRequest) -> Option<Box<str>> {
    let host = xmpp.clients.access().own_host.clone()?;
    let account = Bare::parse(request.user.bare_str()).ok()?;
    if !is_of_other_node(xmpp, edge) {
        xmpp.shedding.referrals.handle_arrival(&account);
        return None;
    }
    let is_busy = xmpp.shedding.sessions.is_limiting() || xmpp.streams.is_limiting();
    let may_refer = request.can_move && !request.is_anonymous && !is_busy && !xmpp.streams.is_leaving();
    (may_refer && xmpp.shedding.referrals.refers(now, &account)).then_some(host)
}

/// This owner has answered a request for a session.
pub(super) fn handle_answered(xmpp: &mut Xmpp, now: Instant, edge: ConnectionId, bound: &Bound) {
    if is_of_other_node(xmpp, edge) && matches!(bound, Bound::Session { .. } | Bound::Resumed { .. }) {
        xmpp.shedding.sessions.handle_completed(now);
    }
}

fn is_of_other_node(xmpp: &Xmpp, edge: ConnectionId) -> bool {
    edge.shard.life != xmpp.queues.own().life
}
