//! All that one shard's SIP can cause, on one screen.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use router::{Aor, AskId, Query};
use stdx::Instant;
use stdx::attempts::Cause;

use super::{CallLimits, SharedResponse};
use crate::digest::Ha1s;
use crate::dns::DnsQuery;
use crate::events::TextOutcome;
use crate::session::SessionEvent;
use crate::transport::{Source, TlsNames, Transmit, Transport};

/// An order of the endpoint to the shard that drives it.
#[derive(Debug)]
pub enum EndpointEffect {
    /// One message to a transport; a failure comes back by its `report`.
    Transmit(Transmit),
    /// The account of `user@domain`, aliases resolved, is needed. Answered by `handle_account`.
    Account {
        /// The number that the answer carries.
        id: AskId,
        /// User part, unescaped.
        user: Box<str>,
        /// A domain of ours, lower case.
        domain: Box<str>,
    },
    /// The routing plan's decision on this request is needed. Answered by `handle_plan`.
    Plan {
        /// The number that the answer carries.
        id: AskId,
        /// The request, as far as the plan needs it.
        request: PlanRequest,
    },
    /// To the router of the address's bucket. Answered by `handle_answer`, unless the query is not.
    Ask {
        /// The number that the answer carries.
        id: AskId,
        /// The query, which names its address.
        query: Query,
    },
    /// Answered by `handle_dns`.
    Dns {
        /// The number that the answer carries.
        id: u64,
        /// The question.
        query: DnsQuery,
    },
    /// For all other shards of all nodes of the farm, each by `handle_shared_response`.
    ShareResponse(SharedResponse),
    /// For the application that has the session.
    Session(SessionEvent),
    /// For the ledger.
    Call(CallEvent),
    /// A message of a traced account.
    Trace(TraceEvent),
    /// The outcome of a `probe`: the final status, or 408.
    ProbeOutcome {
        /// The number that the probe was given.
        id: u64,
        /// The final status.
        status: u16,
    },
    /// The outcome of `text`.
    TextOutcome {
        /// The number that the text was given.
        id: u64,
        /// The outcome for the chat client.
        texted: TextOutcome,
    },
    /// Credentials for this account that were wrong, or not looked at. The source is proved.
    AuthenticationFailed {
        /// The source of the request.
        source: Source,
        /// User part of the account that the credentials name.
        user: Box<str>,
        /// The account's domain, lower case.
        domain: Box<str>,
        /// Wrong credentials, or too many attempts.
        cause: Cause,
    },
}

/// The facts about a request that the routing plan decides by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// User part of the Request-URI, unescaped; empty when there is none.
    pub user: Box<str>,
    /// Lower case.
    pub host: Box<str>,
    /// The port of the Request-URI, when it has one.
    pub port: Option<u16>,
    /// The caller; it decides which routes are open.
    pub caller: Caller,
    /// The domain of ours that an unproved caller claims to be of.
    pub claims: Option<Box<str>>,
    /// The address that the request came from.
    pub source: SocketAddr,
    /// The transport that the request came by.
    pub transport: Transport,
    /// The names of the certificate that the source has shown on its connection, when it was verified.
    pub tls_names: Option<TlsNames>,
    /// The source is in the trust domain: it may speak for a domain of ours.
    pub is_trusted: bool,
    /// An INVITE outside of a dialog.
    pub starts_call: bool,
    /// The limits of the caller, when it is an account that has any.
    pub limits: Option<Arc<CallLimits>>,
}

/// The caller of a request, as far as it is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Authenticated.
    Account(Aor),
    /// Without proof of an account.
    Stranger,
}

impl Caller {
    /// The account that has proved to be the caller.
    pub(crate) fn account(&self) -> Option<Aor> {
        match self {
            Caller::Account(aor) => Some(aor.clone()),
            Caller::Stranger => None,
        }
    }
}

/// The routing plan's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// An account of ours, perhaps: to be looked up.
    Local {
        /// User part, unescaped.
        user: Box<str>,
        /// A domain of ours, lower case.
        domain: Box<str>,
    },
    /// Targets in the order to be tried: each inner list rings at once.
    Targets(Vec<Vec<Box<str>>>),
    /// An application of ours: an INVITE makes a session.
    Agent,
    /// The caller must prove its claim; then the plan is asked again.
    Authenticate,
    /// The request is answered with this status.
    Refuse {
        /// The status of the response.
        status: u16,
        /// The reason phrase of the response.
        reason: Box<str>,
    },
    /// The account or the route denies the destination: 403.
    Deny,
    /// Beyond the route's calls a second: 403.
    TooFast,
    /// The plan is not known yet: 503 with Retry-After.
    Unavailable,
}

impl Decision {
    /// True if the request goes nowhere and is answered with a failure.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Decision::Refuse { .. } | Decision::Deny | Decision::TooFast | Decision::Unavailable)
    }
}

/// An account, as far as the endpoint needs it.
#[derive(Clone, Debug)]
pub struct Account {
    /// `user@domain`, aliases resolved.
    pub aor: Aor,
    /// The hashes that passwords are verified with.
    pub ha1s: Ha1s,
    /// True: the account can neither register nor call.
    pub disabled: bool,
    /// The most bindings that the account may have at once.
    pub max_contacts: usize,
    /// `None` for nearly all.
    pub limits: Option<Arc<CallLimits>>,
}

/// For the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEvent {
    /// The keyed hash of its Call-ID and its caller's tag.
    pub call: u64,
    /// The keyed hash of the callee's tag, in `Answered` and `Ended`: a call ends with the dialog that was answered,
    /// not with a fork of it.
    pub leg: u64,
    /// The phase that the call has entered.
    pub kind: CallEventKind,
}

/// The phases of a call that the endpoint reports to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEventKind {
    /// An INVITE is about to be forwarded, or to be given to an application, or an application sends one.
    Started {
        /// The Call-ID.
        call_id: Box<str>,
        /// The caller's tag: two callers may choose one Call-ID.
        from_tag: Box<str>,
        /// The From URI of the INVITE.
        from: Box<str>,
        /// The Request-URI of the INVITE.
        to: Box<str>,
        /// The account that calls, when it is proved.
        caller: Option<Aor>,
        /// The account that is called, when it is one of ours.
        callee: Option<Aor>,
        /// The entry in the ledger for a call that an application places.
        listed: ListedUnder,
    },
    /// An INVITE that had an error of ours before it went anywhere: its only event.
    Refused {
        /// The Call-ID.
        call_id: Box<str>,
        /// The From URI of the INVITE.
        from: Box<str>,
        /// The Request-URI of the INVITE.
        to: Box<str>,
        /// The account that calls, when it is proved.
        caller: Option<Aor>,
        /// The account that is called, when it is one of ours.
        callee: Option<Aor>,
        /// The status that the caller got.
        status: u16,
        /// The reason phrase that the caller got.
        reason: Box<str>,
    },
    /// The first 101 to 199 to the INVITE that has a tag: the early dialog of a callee (RFC 4235 §3.7.1).
    Ringing {
        /// The callee's tag.
        callee_tag: Box<str>,
    },
    /// The first 2xx to the INVITE.
    Answered {
        /// The tag of the callee that has answered.
        callee_tag: Box<str>,
    },
    /// The INVITE came to no 2xx.
    Failed {
        /// The status that the caller got.
        status: u16,
        /// The reason phrase that the caller got.
        reason: Box<str>,
    },
    /// The call goes on at another node, whose copy of the INVITE was answered: it is none of this node's, and has no record here.
    Withdrawn,
    /// An answered call that a life began which has died since, before its `Ended`: its ledger died with it.
    TakenOver {
        /// The Call-ID.
        call_id: Box<str>,
        /// The URI of the caller, of the BYE's From or To.
        from: Box<str>,
        /// The URI of the callee, of the BYE's From or To.
        to: Box<str>,
        /// The time of the INVITE.
        start: Instant,
        /// The time of the 2xx; the start where the BYE does not have it.
        answer: Instant,
    },
    /// The dialog of an answered call is over.
    Ended,
}

/// The accounts under which the ledger lists a call of an application. It changes neither their presence nor the number of
/// calls that they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedUnder {
    /// The application's account.
    pub account: Option<Box<str>>,
    /// The account whose phone is called.
    pub callee: Option<Aor>,
}

/// A message of a traced account.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// The account that is traced.
    pub account: Aor,
    /// The sender of the message.
    pub from: SocketAddr,
    /// The receiver of the message.
    pub to: SocketAddr,
    /// It was received; else it was sent.
    pub is_received: bool,
    /// Passed, or refused by the transport.
    pub traced: Traced,
    /// The message, as on the wire.
    pub bytes: Bytes,
}

/// The event that a trace shows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// It arrived, or was handed to a transport.
    Message,
    /// The transport could not send it: the peer refused, or did not take, the connection.
    Refused(Transport),
}

/// The effects of an endpoint, in the order in which they are to be performed.
pub type EndpointOutbox = Vec<EndpointEffect>;
