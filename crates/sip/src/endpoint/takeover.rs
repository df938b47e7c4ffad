//! The part of a node of a farm in requests that another life forwarded, which has died since or cannot be reached.
//!
//! A response for a life that the farm does not count as dead comes here only when no link leads to its node. If its host refuses connections
//! the process has ended, and the caller need not wait until the farm has agreed on that: a 180 is sent once. If the network is
//! cut or the node stands still, the life may be alive. Then only final responses to requests other than INVITE are forwarded, which
//! end the caller's transaction (RFC 3261 §17.1.2.2); those to an INVITE are left to the life and the callee's repetitions, as the caller
//! would see the life's own 100 and 180 after them (`docs/decisions/0059`).
//!
//! A response goes by the way that our Via proves ([`ResponseRoute`]): provisional ones and 2xx as they come, without
//! state (RFC 3261 §16.11); the callee repeats its 2xx until the ACK comes. A failure of the only branch is the
//! request's final response: for an INVITE it gets a server transaction, which repeats it until the caller's ACK, and the
//! callee's transaction gets its ACK from here (§17.1.1.3). The failure of one branch of several is dropped: the others
//! may still answer. A 487 of a dead life's branch is the request's final response all the same: the branch was cancelled, and all branches
//! of a request are cancelled together (§16.10), or after another one's 2xx, which has ended the caller's transaction (§16.7 step 10).
//!
//! A CANCEL without its INVITE is forwarded as the INVITE was (§16.10): to the targets that it names now, with the branches that
//! [`branch_of`](super::environment::Environment::branch_of) derives alike on any node.

use bytes::Bytes;
use router::Received;
use stdx::Instant;

use super::environment::response_route::{
    ResponseRoute, is_of_ended_life, response_route_of_other_life, target_by,
};
use super::lower::LowerView;
use super::shared_response::{note_settled, share_response};
use super::{Endpoint, EndpointOutbox, ResponseHandling, TransactionUser};
use crate::limits;
use crate::transaction::{ServerInvite, TransactionMachine};
use crate::transport::{Source, Transport, is_reliable};
use crate::wire::{Header, Message, Method, RequestBuilder, Rewrite, Via};

impl Endpoint {
    /// The node is one of a farm, which counts these lives as dead. From now on the tags of dialogs that end here are
    /// followed by `.n<life>.<shard>`, so that their requests find this shard when their call slot has moved.
    pub fn set_dead_lives(&mut self, dead: &[router::Life]) {
        if !self.lower.env.is_in_farm() {
            let edge = self.lower.env.settings.edge;
            let end = format!(".n{:x}.{:x}", edge.life.0, edge.shard);
            self.cores.user_agent.sessions.set_tag_end(&end);
            self.cores.events.notifier.set_tag_end(&end);
        }
        self.lower.env.dead_lives = Some(dead.into());
    }

    /// The lives of the other nodes of the farm, as this node sees it. Their responses come here only while their nodes cannot be
    /// reached.
    pub fn set_peer_lives(&mut self, peers: impl Iterator<Item = router::Life>) {
        let env = &mut self.lower.env;
        env.peer_lives = peers.collect();
        env.refused_lives.retain(|life| env.peer_lives.contains(life));
    }

    /// The host of another node refuses connections: no process listens there. False if that is known already, or the life is none of
    /// the farm's.
    pub fn set_host_refuses(&mut self, life: router::Life) -> bool {
        let env = &mut self.lower.env;
        let is_new = env.peer_lives.contains(&life) && !env.refused_lives.contains(&life);
        if is_new {
            env.refused_lives.push(life);
        }
        is_new
    }
}

/// A CANCEL whose INVITE is not here. RFC 3261 §16.10: it is forwarded as its INVITE would be. Another life may have
/// forwarded that.
pub(super) fn forward_cancel(
    endpoint: &mut Endpoint,
    now: Instant,
    hash: u64,
    cancel: Message,
    source: Source,
    out: &mut EndpointOutbox,
) {
    let authentication = &mut endpoint.cores.router.authentication;
    if endpoint.lower.is_full() || !authentication.admits(&mut endpoint.lower.at(now, out), &cancel, &source)
    {
        return;
    }
    let lower = &mut endpoint.lower.at(now, out);
    let context = lower.open(hash, cancel, source);
    endpoint.cores.dispatch_cancel(lower, context);
}

/// A response that matches no transaction; `client_hash` is the key of the one that it would match. True if it was to a request of
/// another life, and was forwarded. Other nodes may have forwarded the request, too: it is shared with them.
pub(super) fn handle_response_of_other_life(
    lower: &mut LowerView<'_>,
    response: &Message,
    client_hash: u64,
) -> bool {
    let env = &*lower.env;
    if !env.is_in_farm() {
        return false;
    }
    let Some(via) = response.top_via() else { return false };
    let Some(route) = response_route_of_other_life(env, &via) else { return false };
    let is_ended = is_of_ended_life(env, &via);
    let is_final = route.is_only || is_ended && response.status() == 487;
    // RFC 3261 §16.7 step 3: a response without a second Via has no receiver.
    let Some(next) = response.values(Header::Via).nth(1).and_then(Via::parse) else { return false };
    let is_invite = response.method() == Method::Invite;
    let is_forwarded = match response.status() {
        // RFC 4320 §4.1: no provisional response to other requests is forwarded.
        ..=100 => false,
        _ if is_invite && !is_ended => false,
        101..200 => is_invite && forward_stateless(lower, response, &route),
        200..300 => forward_stateless(lower, response, &route),
        _ if !is_final => false,
        _ if is_invite => fail_invite_of_other_life(lower, response, &next, &route),
        _ => forward_stateless(lower, response, &route),
    };
    if is_forwarded && is_invite && response.status() >= 200 {
        note_settled(lower, client_hash);
    }
    let handling = if is_forwarded { ResponseHandling::Forwarded } else { ResponseHandling::Unhandled };
    share_response(lower, response, handling);
    is_forwarded
}

fn forward_stateless(lower: &mut LowerView<'_>, response: &Message, route: &ResponseRoute) -> bool {
    if !may_send_upstream(lower, &route.upstream) {
        return false;
    }
    let bytes = upstream_copy_of_other_life(lower, response, route);
    lower.transmit(target_by(&route.upstream), bytes, None);
    true
}

/// An INVITE has failed: its only branch, or all that were cancelled. `next` is the caller's Via, by which its ACK and its CANCEL find the
/// transaction.
fn fail_invite_of_other_life(
    lower: &mut LowerView<'_>,
    response: &Message,
    next: &Via<'_>,
    route: &ResponseRoute,
) -> bool {
    let table = &lower.transactions.table;
    let hash = table.server_hash(response, next, Method::Invite);
    if table.find(hash).is_none() {
        if lower.transactions.table.len() >= limits::TRANSACTIONS
            || !may_send_upstream(lower, &route.upstream)
        {
            return false;
        }
        let bytes = upstream_copy_of_other_life(lower, response, route);
        let (status, bytes) = match response.status() {
            // RFC 3261 §16.7 step 6: a 503 is about the hop after us.
            503 => (500, with_status_500(&bytes)),
            status => (status, bytes),
        };
        let reliable = is_reliable(route.upstream.transport);
        let machine =
            TransactionMachine::ServerInvite(ServerInvite::Proceeding { trying: None, last: None, reliable });
        let target = target_by(&route.upstream);
        let server = lower.transactions.table.insert(hash, machine, target, TransactionUser::None);
        lower.respond(server, status, bytes);
    }
    let ack = ack_of(response, &route.downstream);
    lower.transmit(target_by(&route.downstream), ack, None);
    true
}

/// As the transaction's user would have sent it on.
fn upstream_copy_of_other_life(lower: &LowerView<'_>, response: &Message, route: &ResponseRoute) -> Bytes {
    let env = &lower.env;
    let (from, to) = (|| Some(target_by(&route.downstream)), || Some(target_by(&route.upstream)));
    let rewritten = env.response_across_border(from, to, response);
    env.upstream_copy(lower.now, rewritten.as_ref().unwrap_or(response), &route.downstream, route.edit)
}

/// The credit of the request's transaction died with it: a source over UDP that this node does not know pays with its
/// network's rate of new requests.
fn may_send_upstream(lower: &mut LowerView<'_>, upstream: &Received) -> bool {
    let (now, proofs) = (lower.now, &mut lower.transactions.proofs);
    upstream.transport != Transport::Udp
        || proofs.is_proved(now, upstream.remote)
        || proofs.admits(now, upstream.remote.ip())
}

/// RFC 3261 §17.1.1.3, for a request of which only its response is left. Its Request-URI and Route are not; the hop that gets
/// it finds the transaction by the branch.
fn ack_of(response: &Message, downstream: &Received) -> Bytes {
    let mut ack = RequestBuilder::new(b"ACK", format!("sip:{}", downstream.remote).as_bytes());
    let line = |header| response.header(header).unwrap_or_default();
    if let Some(via) = response.values(Header::Via).next() {
        ack.header("Via", via);
    }
    ack.header("Max-Forwards", b"70");
    ack.header("From", line(Header::From));
    ack.header("To", line(Header::To));
    ack.header("Call-ID", response.call_id().unwrap_or_default());
    let number = response.cseq().map_or(0, |(number, _)| number);
    ack.header("CSeq", format!("{number} ACK").as_bytes());
    ack.finish()
}

fn with_status_500(response: &Bytes) -> Bytes {
    let Ok(message) = Message::parse(response.clone()) else { return response.clone() };
    let mut rewrite = Rewrite::new(&message);
    // The time is the hop's, too.
    rewrite.remove_all(Header::RetryAfter);
    let bytes = rewrite.finish();
    let line_end = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1);
    [&b"SIP/2.0 500 Server Internal Error\r\n"[..], &bytes[line_end..]].concat().into()
}
