//! Messages to the calls of one shard, and effects that these calls request of their shard.

use std::sync::Arc;

use router::{Received, WaitingMessage};

use super::rooms::RoomMessage;
use super::{HelperResult, Numbers, Order};

/// One message for the calls of a shard.
#[derive(Debug)]
pub enum VoiceShardMessage {
    /// A helper's result for a call.
    Done(HelperResult),
    /// Between a conference or queue and its members.
    Room(RoomMessage),
    /// A request of the REST interface. All shards are asked; the one that knows the call does it.
    Control(Order),
    /// Bindings have changed.
    Numbers(Arc<Numbers>),
}

/// Effects of calls besides SIP. The shard performs them in order, once the calls are through with their input.
#[derive(Debug)]
pub(crate) enum VoiceEffect {
    /// For the calls of a shard; never our own.
    Post { shard: u16, message: VoiceShardMessage },
    /// Writes to the record; no answer is awaited.
    Write(store::Write),
    /// Answered by `Voice::handle_resolved`; `Voice::account_known` before it, when it is one of ours.
    Resolve { ticket: u64, address: Address, purpose: Purpose },
    /// A call that an account has counted by its limit goes on, or is over.
    CallChanged { aor: router::Aor, call: router::CallInfo },
    /// For an account that is not there. Answered by `Voice::handle_kept`.
    Keep { ticket: u64, message: Box<WaitingMessage> },
}

/// The purpose of looking an address up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It meets the limits of routes and accounts.
    Call,
    Text,
}

/// A call to an account whose calls at once are limited: counted there until the last of the phones that ring for it, or
/// the one that has answered, is gone.
#[derive(Debug)]
pub(crate) struct CountedCall {
    pub(crate) aor: router::Aor,
    /// Its name to the router; that of no dialog.
    pub(crate) name: Box<str>,
    pub(crate) from: Box<str>,
}

impl CountedCall {
    /// The call as the router sees it.
    pub(crate) fn changed(&self, phase: router::CallPhase) -> VoiceEffect {
        let call = router::CallInfo {
            call_id: self.name.clone(),
            local_tag: "".into(),
            remote_tag: "".into(),
            initiator: false,
            remote: self.from.clone(),
            phase,
        };
        VoiceEffect::CallChanged { aor: self.aor.clone(), call }
    }
}

/// A callee's address: a user of ours, or any address that the routing plan resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Unescaped: a name or a number.
    pub(crate) user: Box<str>,
    /// Empty: the default domain.
    pub(crate) host: Box<str>,
    pub(crate) port: Option<u16>,
}

/// One address at which a callee is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The Request-URI.
    pub(crate) uri: Box<str>,
    /// Route values before it.
    pub(crate) path: Box<str>,
    pub(crate) received: Option<Received>,
    /// A document names it, not the plan: private networks are out of its reach unless `voice.allow_private` is set.
    pub(crate) public_only: bool,
    /// It is a binding: calls and texts go by it neither to a route's system nor to ourselves.
    pub(crate) is_binding: bool,
}

/// Groups in the order to be tried, each of which is reached at once; or the status that says why there is none. No
/// group: the host is not ours, and no route leads there.
pub(crate) type Resolved = Result<Vec<Vec<Destination>>, u16>;
