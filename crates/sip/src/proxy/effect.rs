//! All that a response context can cause, on one screen.

use std::net::SocketAddr;

use smallvec::SmallVec;
use stdx::Instant;
use stdx::slab::Key;

use super::{FinalResponse, ResponseEdit};
use crate::resolve::Hop;
use crate::transport::Transport;

/// An order of a response context to the proxy core.
#[derive(Debug)]
pub(crate) enum ProxyEffect {
    /// The next hop of this branch is needed. Answered by `handle_resolved` or `handle_unsupported_uri`.
    Resolve { branch: usize },
    /// The copy of this branch goes to this hop (RFC 3261 §16.6). Answered by `handle_sent` or `handle_not_sent`.
    Send { branch: usize, hop: Hop },
    /// CANCEL for the INVITE of this client transaction (§16.10). `reason`: the value of its Reason, or nothing.
    Cancel { client: Key, reason: Box<[u8]> },
    /// The response just handled goes upstream (§16.7 step 9).
    Forward { edit: ResponseEdit },
    /// Later 2xx of this client transaction go upstream without a response context (RFC 6026 §7.2).
    ForwardLate { client: Key, edit: ResponseEdit },
    /// The response just handled makes the first early dialog of the INVITE that starts a call.
    CallRings,
    /// The response just handled is the first 2xx to the INVITE that starts a call.
    CallAnswered,
    /// The response just handled is a 2xx: if the request is a BYE, its call has ended.
    Accepted,
    /// The response just handled is a 503: other requests avoid its hop for a while.
    Unavailable,
    /// A hop was silent or could not be reached. `next` is the hop that is tried instead.
    HopFailed { hop: (SocketAddr, Transport), next: Option<Hop> },
    /// The best response goes upstream; the context is over (§16.7 step 6).
    Respond(FinalResponse),
    /// A non-INVITE request timed out: its answer would be late and is not sent (RFC 4320 §4.2). The context is over.
    TimedOut(FinalResponse),
    /// `handle_timer` is to be called at this time.
    Arm { at: Instant },
    /// This client transaction had its time to answer a CANCEL.
    Forget { client: Key },
    /// Every branch is done, and the final response went upstream before.
    Close,
}

/// Most events cause one or two.
pub(crate) type ProxyEffects = SmallVec<[ProxyEffect; 2]>;
