//! Requests that wait at a node while their call slot gets another worker.
//!
//! Without a link to the worker of its call a request is worked on where it arrives (`shared_response`), and may wait there for seconds: for
//! an account while the database is away, or for the next owner of an address. Its client repeats it meanwhile. Once the farm has another
//! worker for the slot, the repetitions go there, and two nodes would forward the request. Where the nodes have addresses of their own the
//! copies differ in their sent-by, so the callee takes the second for another request (RFC 3261 §17.2.3) and refuses it with 482 (§8.2.2.2).
//!
//! So a node gives what it has not forwarded to the new worker, for which it is the first copy or a repetition (`docs/decisions/0118`).

use stdx::Instant;

use super::context::{RequestContext, RequestStage};
use super::{Endpoint, EndpointOutbox};
use crate::transport::Packet;

/// The requests that wait here, of which nothing was forwarded, and whose Call-IDs satisfy `has_other_worker`. The endpoint forgets them:
/// they are to be given to their workers.
pub fn take_waiting(
    endpoint: &mut Endpoint,
    now: Instant,
    has_other_worker: impl Fn(&[u8]) -> bool,
    out: &mut EndpointOutbox,
) -> Vec<Packet> {
    let is_taken = |context: &RequestContext| {
        may_go(context) && context.request.call_id().is_some_and(&has_other_worker)
    };
    let contexts = endpoint.lower.contexts.iter();
    let taken: Vec<_> = contexts.filter(|(_, context)| is_taken(context)).map(|(key, _)| key).collect();
    let mut lower = endpoint.lower.at(now, out);
    let mut packets = Vec::with_capacity(taken.len());
    for key in taken {
        lower.release(key);
        if let Some(context) = lower.contexts.remove(key) {
            lower.transactions.table.remove(context.server);
            packets.push(Packet { bytes: context.request.bytes().clone(), source: context.source });
        }
    }
    packets
}

/// True for a request outside a dialog that waits for an account, or for the owner of an address: another node can begin again with it. Not
/// while an owner is asked for one more call of an account, as its answer would count a call that is not here.
fn may_go(context: &RequestContext) -> bool {
    let is_counted = matches!(context.stage, RequestStage::Admitting { .. });
    context.stage.is_before_forwarding() && !is_counted && context.request.to_tag().is_none()
}
