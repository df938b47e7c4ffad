//! The sources of requests that came from another address than the call's peer: their responses go there.
//!
//! `flow` calls [`note`] with each datagram before it is handled; `send` and `unexpected` ask for the [`destination`] of what they have rendered.
//! Over a stream a response takes the connection of its request, which is the engine's matter.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::receive::mix;
use super::{Call, CallContext};
use crate::call::SendTo;
use crate::call::message::{Incoming, top_branch};

/// Requests whose sources are kept: more than a peer leaves unanswered at a time.
const KEPT: usize = 8;

/// Hashes of top branches and where their requests came from, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RequestSources(VecDeque<(u64, SocketAddr)>);

/// Keeps the source of a request, unless it is the peer that the call sends to anyway.
pub(super) fn note(call: &mut Call, ctx: &CallContext<'_>, message: &Incoming<'_>, from: SocketAddr) {
    if from == call.identity.remote && known(call).is_none() {
        return;
    }
    // An ACK has no response.
    let network = &ctx.env.options.network;
    if matches!(message.method(), b"" | b"ACK") || network.transport.is_reliable() {
        return;
    }
    let RequestSources(kept) = call.flow.rare.get_or_insert_default().sources.get_or_insert_default();
    let branch = mix(0, message.branch);
    // A request that comes again from elsewhere, and a CANCEL, have the branch of the one before.
    kept.retain(|(known, _)| *known != branch);
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back((branch, from));
}

/// A response goes where the request with its top branch came from (RFC 3261 §18.2.2, RFC 3581 §4).
pub(super) fn destination(call: &Call, bytes: &[u8]) -> SendTo {
    let Some(RequestSources(kept)) = known(call) else { return SendTo::Flow };
    if !bytes.starts_with(b"SIP/2.0 ") {
        return SendTo::Flow;
    }
    let branch = mix(0, top_branch(bytes));
    let source = kept.iter().find(|(known, _)| *known == branch);
    source.map_or(SendTo::Flow, |(_, from)| SendTo::Source(*from))
}

fn known(call: &Call) -> Option<&RequestSources> {
    call.flow.rare.as_ref()?.sources.as_ref()
}

impl Call {
    /// `<setdest>`: from now on the sources of all requests are kept, as the peer is no longer where the call began.
    pub(in crate::call) fn keep_sources(&mut self) {
        self.flow.rare.get_or_insert_default().sources.get_or_insert_default();
    }
}
