//! Effects that the calls of one shard request of it, and addresses as calls see them.

use router::{Received, ShardAddress, WaitingMessage};

use super::rooms::RoomMessage;

/// Effects of calls besides SIP. The shard performs them in order, once the calls are through with their input.
#[derive(Debug)]
pub enum VoiceEffect {
    /// For the calls of a shard of this node or of another one; never our own. Answered by nothing, and may be lost.
    Post {
        /// The receiving shard, which gives it to `Voice::handle_room_message`.
        to: ShardAddress,
        /// Between a conference or queue and its members.
        message: RoomMessage,
    },
    /// Writes to the record; no answer is awaited.
    Write(store::Write),
    /// Writes a recording that goes into a mailbox to the record; the clients of the account are told. No answer is awaited.
    Voicemail(Box<store::rest::Row>),
    /// Answered by `Voice::handle_resolved`; `Voice::account_known` before it, when it is one of ours.
    Resolve {
        /// The name of the question.
        ticket: u64,
        /// The address to look up.
        address: Address,
        /// Decides the limits that apply.
        purpose: Purpose,
    },
    /// A call that an account has counted by its limit goes on, or is over.
    CallChanged {
        /// The account.
        aor: router::Aor,
        /// The call and its phase.
        call: router::CallInfo,
    },
    /// For an account that is not there. Answered by `Voice::handle_kept`.
    Keep {
        /// The name of the question.
        ticket: u64,
        /// The text.
        message: Box<WaitingMessage>,
    },
}

/// The purpose of looking an address up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It meets the limits of routes and accounts.
    Call,
    /// A text meets no limit of a route.
    Text,
    /// Only an account is meant, whatever answers calls to its address.
    Mailbox,
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
pub struct Address {
    /// Unescaped: a name or a number.
    pub user: Box<str>,
    /// Empty: the default domain.
    pub host: Box<str>,
    /// `None`: of the transport, or as DNS says (RFC 3263).
    pub port: Option<u16>,
}

/// One address at which a callee is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The Request-URI.
    pub uri: Box<str>,
    /// Route values before it.
    pub path: Box<str>,
    /// The connection or address that a binding was registered from.
    pub received: Option<Received>,
    /// A document names it, not the plan: private networks are out of its reach unless `voice.allow_private` is set.
    pub public_only: bool,
    /// It is a binding: calls and texts go by it neither to a route's system nor to ourselves.
    pub is_binding: bool,
}

/// Groups in the order to be tried, each of which is reached at once; or the status that says why there is none. No
/// group: the host is not ours, and no route leads there.
pub type Resolved = Result<Vec<Vec<Destination>>, u16>;
