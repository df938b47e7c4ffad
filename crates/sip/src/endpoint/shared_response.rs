//! Responses that the nodes of a farm share, so that one request has one final response although two nodes have forwarded it.
//!
//! Without a link to the worker of its call a request is forwarded where it arrives: a repeated one at another node than the
//! first, with the same branch. The callee answers by the Via of the copy that it got first. A node that gets a response whose Via another
//! life wrote, and proves, shares it with all nodes; those without a client transaction of that branch have no use for it.
//! Those with one would wait for a response until Timer B ends and answer 408 (RFC 3261 §16.8) in the middle of the call; a CANCEL
//! would wait there for a provisional response (§9.1).
//!
//! A node that works on a request because it cannot reach the worker shares the responses to it as well: the worker may be alive, and have
//! the repeated request from a third node. So do both workers of a call slot that moves from one node to another: nodes that have not adopted the
//! new map yet pass requests to the worker before ([`share_moved_calls`]).
//!
//! A node that learns of a final response to an INVITE may get the repeated INVITE afterwards. It remembers the branch for 64*T1, the time that
//! the caller repeats its INVITE, and forwards and answers nothing (`docs/decisions/0088`): nor an INVITE that has waited here meanwhile.

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::environment::response_route::{self, response_route_of_other_life};
use super::lower::{LowerLayers, LowerView};
use super::proxy_core::ProxyCore;
use super::receive::{ResponseOrigin, give_response};
use super::{Endpoint, EndpointEffect, EndpointOutbox, RequestStage, TransactionUser};
use crate::transaction::{T1, TIMEOUT};
use crate::transport::Packet;
use crate::wire::{self, Header, Message, Method};

/// A response to a request that another life forwarded, for all shards of all nodes of the farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedResponse {
    /// The response as it came, the Via of the other life on top.
    pub bytes: Bytes,
    /// The part of the node that shares it.
    pub handling: ResponseHandling,
}

/// The way in which a node has handled a response before it shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseHandling {
    /// Nothing: it has no transaction of that branch, and the response cannot be forwarded without state.
    Unhandled,
    /// It has forwarded the response without state: the caller has it.
    Forwarded,
    /// Its own response context has got it and answers the caller.
    InContext,
}

impl LowerLayers {
    /// True if a branch of the context awaits its final response in this client transaction.
    fn awaits(&self, context: Key, client: Key) -> bool {
        match self.contexts.get(context).map(|context| &context.stage) {
            Some(RequestStage::Proxying(proxied)) => proxied.clients().contains(&client),
            _ => false,
        }
    }

    /// True if the request of this transaction's user was worked on here since its worker could not be reached.
    pub(super) fn is_of_off_slot(&self, user: TransactionUser) -> bool {
        match user {
            TransactionUser::Context(key) => {
                self.contexts.get(key).is_some_and(|context| context.is_off_slot)
            }
            _ => false,
        }
    }
}

/// Shares a response to a request of another life, which its Via has proved. RFC 4320 §4.1: provisional responses to requests
/// other than INVITE change nothing.
pub(super) fn share_response(lower: &mut LowerView<'_>, response: &Message, handling: ResponseHandling) {
    if response.status() >= 200 || response.method() == Method::Invite {
        let branch = wire::top_branch(response).unwrap_or_default();
        let hash = lower.transactions.table.client_hash(branch, response.method_name());
        // A callee that repeats its response without pause costs the farm a few messages a second. A node that could do nothing with the first
        // one and forwards the next one has news: without it another node's copy of the request would answer 408.
        let shared = hash.rotate_left(u32::from(response.status()) % 63 + 1) ^ handling as u64;
        if lower.settled.get_at(lower.now, &shared).is_some() {
            return;
        }
        lower.settled.insert_until(lower.now + T1, shared, ());
        let bytes = response.bytes().clone();
        lower.out.push(EndpointEffect::ShareResponse(SharedResponse { bytes, handling }));
    }
}

/// Shares a response that a response context of this node has got, if another life wrote the Via, or the worker of the request
/// could not be reached.
pub(super) fn share_of_context(lower: &mut LowerView<'_>, response: &Message, is_off_slot: bool) {
    let via = response.top_via();
    if is_off_slot || via.is_some_and(|via| response_route_of_other_life(lower.env, &via).is_some()) {
        share_response(lower, response, ResponseHandling::InContext);
    }
}

/// True if the caller of the INVITE with this branch has its final response from another node.
pub(super) fn is_settled(lower: &LowerView<'_>, branch: &[u8]) -> bool {
    let hash = lower.transactions.table.client_hash(branch, Method::Invite.as_str().as_bytes());
    lower.settled.get_at(lower.now, &hash).is_some()
}

/// The caller of the INVITE with this branch gets its final response from another node, or got it without state.
pub(super) fn note_settled(lower: &mut LowerView<'_>, client_hash: u64) {
    lower.settled.insert_until(lower.now + TIMEOUT, client_hash, ());
}

/// True if the farm counts the life as dead, or its host refuses connections.
pub fn has_ended(endpoint: &Endpoint, life: router::Life) -> bool {
    response_route::has_ended(&endpoint.lower.env, life)
}

/// One whole message from the network, whose worker is a shard of another node that cannot be reached. The worker may get the same
/// request by another node: if it is forwarded here, the responses to it are shared.
pub fn handle_packet_off_slot(
    endpoint: &mut Endpoint,
    now: Instant,
    packet: Packet,
    out: &mut EndpointOutbox,
) {
    endpoint.lower.is_off_slot = true;
    endpoint.handle_packet(now, packet, out);
    forget_off_slot(endpoint);
}

/// True if this endpoint has the transaction of a request: the request is a repetition, the ACK of a failure, or the CANCEL of an INVITE.
/// Whatever the worker of its call slot is, such a request is for the endpoint that has its transaction.
pub fn has_transaction(endpoint: &Endpoint, request: &Bytes) -> bool {
    let Ok(request) = Message::parse_packet(request.clone()) else { return false };
    let Some(via) = request.top_via().filter(|_| request.is_request()) else { return false };
    let method = match request.method() {
        Method::Cancel => Method::Invite,
        method => method,
    };
    let table = &endpoint.lower.transactions.table;
    table.find(table.server_hash(&request, &via, method)).is_some()
}

/// The call slots of the requests whose Call-IDs satisfy `has_moved` have another worker than a moment ago, which is alive as the one before is.
/// Their repetitions may come to the other one, which forwards them with the same branches: responses to them are shared from now on.
pub fn share_moved_calls(endpoint: &mut Endpoint, has_moved: impl Fn(&[u8]) -> bool) {
    for (_, context) in endpoint.lower.contexts.iter_mut() {
        let has_moved = context.request.header(Header::CallId).is_some_and(&has_moved);
        context.is_off_slot |= has_moved;
    }
}

/// After a packet that made the endpoint panic: the next one is its worker's.
pub fn forget_off_slot(endpoint: &mut Endpoint) {
    endpoint.lower.is_off_slot = false;
}

/// Handles a response that another shard or node shares. Its transaction and its context go on as if it had come here; responses to
/// the caller that the other node has sent are not sent again.
pub fn handle_shared_response(
    endpoint: &mut Endpoint,
    now: Instant,
    shared: SharedResponse,
    out: &mut EndpointOutbox,
) {
    let Ok(response) = Message::parse(shared.bytes) else { return };
    if response.is_request() || wire::check_response(&response).is_err() {
        return;
    }
    let branch = wire::top_branch(&response).unwrap_or_default();
    let table = &endpoint.lower.transactions.table;
    let hash = table.client_hash(branch, response.method_name());
    let is_unhandled = shared.handling == ResponseHandling::Unhandled;
    let is_invite = response.method() == Method::Invite;
    let route = response.top_via().and_then(|via| response_route_of_other_life(&endpoint.lower.env, &via));
    // RFC 3261 §16.7 step 5: other failures end one branch.
    let ends_request = matches!(response.status(), 200..300 | 600..)
        || response.status() >= 300
            && (shared.handling == ResponseHandling::Forwarded || route.is_some_and(|route| route.is_only));
    if !is_unhandled && is_invite && ends_request {
        note_settled(&mut endpoint.lower.at(now, out), hash);
    }
    let table = &endpoint.lower.transactions.table;
    let Some(key) = table.find(hash) else { return };
    let Some(user) = table.get(key).map(|transaction| transaction.user) else { return };
    match (user, shared.handling, response.status()) {
        (TransactionUser::Context(_) | TransactionUser::Late { .. }, ResponseHandling::Unhandled, _) => {
            give_response(endpoint, now, key, &response, ResponseOrigin::Shared, out);
        }
        (TransactionUser::Context(_), _, ..200)
        | (TransactionUser::Context(_), ResponseHandling::Forwarded, 200..300) => {
            give_response(endpoint, now, key, &response, ResponseOrigin::Forwarded, out);
        }
        (TransactionUser::Context(_), _, 200..300) if !is_invite => {
            give_response(endpoint, now, key, &response, ResponseOrigin::Forwarded, out);
        }
        // The other node goes on with its other branches, which are the same as those here.
        (TransactionUser::Context(_), ..) if !ends_request => {
            give_response(endpoint, now, key, &response, ResponseOrigin::Forwarded, out);
        }
        // The other node ends the request.
        (TransactionUser::Context(context), ..) if endpoint.lower.awaits(context, key) => {
            ProxyCore::new(&mut endpoint.lower.at(now, out)).stand_down(context);
        }
        // Both nodes have got the response, and go on.
        _ => {}
    }
}
