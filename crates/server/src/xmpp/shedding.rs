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

use chat_owners::{Referrals, SessionRequests, ShardQueues, Way};
use cluster::{Bucket, ShardAddress};
use stdx::Instant;
use xmpp::c2s::{BindRequest, Bound};
use xmpp::sasl::{CredentialAnswer, CredentialQuery};
use xmpp::{Bare, ConnectionId};
use xmpp_io::sign_in_limiter::{DelayedWork, SignInLimiter};
use xmpp_io::streams::Streams;

use super::{Xmpp, XmppEffect};
use crate::message::{StreamCondition, XmppShardMessage};

/// The stream error for clients that are to come again later (RFC 6120 §4.9.3.17).
const BUSY: &str = "resource-constraint";
/// The log says at most so often that sign-ins are refused.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// The state of one shard.
pub(crate) struct Shedding {
    own: ShardAddress,
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
            own,
            requests: SessionRequests::new(u64::from(own.shard)),
            sessions: SignInLimiter::default(),
            referrals: Referrals::default(),
            refused: 0,
            noted: Instant::default(),
            noted_count: 0,
        }
    }

    /// Sign-ins that were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// A turn of the shard that took so long ends `now`.
    pub(crate) fn handle_turn(&mut self, now: Instant, length: Duration, streams: &mut Streams) {
        streams.handle_turn(length);
        self.sessions.handle_delay(now, DelayedWork::Turn, length);
        if now.since(self.noted) < NOTED_EVERY {
            return;
        }
        let refused = self.refused + streams.counters().shed;
        if refused > self.noted_count {
            let sign_ins = refused - self.noted_count;
            tracing::warn!(
                sign_ins,
                "sign-ins of chat clients were refused: the shard does not keep up with them"
            );
            (self.noted, self.noted_count) = (now, refused);
        }
    }

    /// A client of this shard names itself. True: it is refused, as the owner of its account would refuse it.
    fn refuses_sign_in(&mut self, now: Instant, queues: &ShardQueues, user: &str, domain: &str) -> bool {
        if queues.shared().is_none() {
            return false;
        }
        // An alias has another bucket than its account: its sign-in may be refused by the owner all the same.
        let Some(owner) = Bare::parse(&format!("{user}@{domain}")).ok() else { return false };
        let Way::Node(owner) = queues.way(Bucket::of(owner.as_str()).into()) else { return false };
        let may_begin = self.requests.may_begin(now, owner);
        self.refused += u64::from(!may_begin);
        !may_begin
    }

    /// A client of this shard asks for a new session; `way` leads to its owner.
    pub(super) fn handle_bind(&mut self, now: Instant, stream: u64, way: Way) {
        match way {
            Way::Own | Way::Shard(_) => self.requests.insert(now, stream, None),
            Way::Node(owner) => self.requests.insert(now, stream, Some(owner)),
            // While an owner is missing, the wait says nothing about load.
            Way::Wait | Way::Nowhere => self.requests.remove(stream),
        }
    }

    /// The owner has answered a client of this shard. Returns the time for which the client has waited for its session.
    pub(super) fn handle_bound(&mut self, now: Instant, stream: u64, bound: &Bound) -> Option<Duration> {
        if matches!(bound, Bound::Session { .. }) {
            return self.requests.handle_bound(now, stream);
        }
        self.requests.remove(stream);
        None
    }

    /// The owner ends the stream of a client of this shard.
    pub(super) fn handle_close(&mut self, now: Instant, stream: u64, condition: StreamCondition) {
        match condition.name() {
            BUSY => self.requests.handle_refused(now, stream),
            _ => self.requests.remove(stream),
        }
    }

    /// The connection of a client is gone.
    pub(super) fn handle_gone(&mut self, stream: u64) {
        self.requests.remove(stream);
    }

    /// True if a client of another node is to go to the host of this one, where its account is. While the node does not keep up or leaves, no
    /// client is called to it.
    fn refers(&mut self, now: Instant, request: &BindRequest, account: &Bare, streams: &Streams) -> bool {
        let is_busy = self.sessions.is_limiting() || streams.is_limiting();
        let may_refer = request.can_move && !request.is_anonymous && !is_busy && !streams.is_leaving();
        may_refer && self.referrals.refers(now, account)
    }

    fn is_of_other_node(&self, edge: ConnectionId) -> bool {
        edge.shard.life != self.own.life
    }

    /// True if a client of another node may have a new session here; while the owner does not keep up, these are limited.
    fn admits(&mut self, now: Instant) -> bool {
        let admits = self.sessions.admit(now);
        self.refused += u64::from(!admits);
        admits
    }

    /// This owner has answered a request for a session. Those of other nodes' clients are limited.
    pub(super) fn handle_answered(&mut self, now: Instant, edge: ConnectionId, bound: &Bound) {
        if self.is_of_other_node(edge) && matches!(bound, Bound::Session { .. } | Bound::Resumed { .. }) {
            self.sessions.handle_completed(now);
        }
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
    // A proof is the end of a sign-in that was admitted.
    let is_proof = matches!(find, CredentialQuery::Proof { .. });
    if !is_proof && xmpp.shedding.refuses_sign_in(now, &xmpp.queues, find.user(), &domain) {
        xmpp.streams.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
    } else {
        xmpp.with_clients(now, outbox, |clients, cx| clients.find(cx, stream, find, domain));
    }
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
    let is_of_other_node = xmpp.shedding.is_of_other_node(edge);
    if let Some(host) = &xmpp.clients.access().own_host
        && let Ok(account) = Bare::parse(request.user.bare_str())
    {
        if !is_of_other_node {
            xmpp.shedding.referrals.handle_arrival(&account);
        } else if xmpp.shedding.refers(now, request, &account, &xmpp.streams) {
            let bound = Box::new(Bound::SeeOtherHost(host.clone()));
            return xmpp.send(now, edge.shard, XmppShardMessage::Bound { edge, bound }, outbox);
        }
    }
    if !is_of_other_node || xmpp.shedding.admits(now) {
        return xmpp.tell_host(now, outbox, |host, out| host.handle_bind(now, edge, request, out));
    }
    let condition = StreamCondition::named(BUSY);
    xmpp.send(now, edge.shard, XmppShardMessage::Close { edge, condition, detail: None }, outbox);
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_unix_seconds(1_000);

    #[test]
    fn an_owner_that_refuses_sessions_is_asked_for_fewer_and_other_ends_say_nothing() {
        let (own, owner) = (ShardAddress::default(), ShardAddress::new(cluster::Life(2), 0));
        let begun_after = |condition| {
            let mut shedding = Shedding::new(own);
            for stream in 0..50 {
                shedding.handle_bind(START, stream, Way::Node(owner));
                shedding.handle_close(START, stream, StreamCondition::named(condition));
            }
            (0..50).filter(|_| shedding.requests.may_begin(START, owner)).count()
        };
        assert_eq!(begun_after("not-authorized"), 50);
        assert!(begun_after(BUSY) < 25);
    }

    #[test]
    fn the_wait_for_a_session_is_known_only_of_an_owner_that_was_asked() {
        let mut shedding = Shedding::new(ShardAddress::default());
        let jid = xmpp::Jid::parse("alice@a.test/x").unwrap();
        let bound = Bound::Session { jid, inline: Vec::new() };
        let wait = Duration::from_millis(40);
        for way in [Way::Own, Way::Node(ShardAddress::new(cluster::Life(2), 0))] {
            shedding.handle_bind(START, 1, way);
            assert_eq!(shedding.handle_bound(START + wait, 1, &bound), Some(wait), "{way:?}");
        }
        // While the owner is missing, the wait says nothing about load.
        shedding.handle_bind(START, 1, Way::Wait);
        assert_eq!(shedding.handle_bound(START + wait, 1, &bound), None);
        // Nor after the client has gone.
        shedding.handle_bind(START, 1, Way::Own);
        shedding.handle_gone(1);
        assert_eq!(shedding.handle_bound(START + wait, 1, &bound), None);
    }
}
