//! A request for which we owe a final response, and the stages it passes.

use std::sync::Arc;

use stdx::Instant;
use stdx::slab::Key;

use super::environment::ClaimedSender;
use super::request_router::AdmissionSide;
use super::{CallLimits, Caller};
use crate::digest::InspectedCredentials;
use crate::proxy::{ResponseContext, ResponseEdit};
use crate::registrar::gruu::Instance;
use crate::session::SessionId;
use crate::transport::Source;
use crate::wire::{Message, Method, lossy};

/// A request for which we owe a final response.
#[derive(Debug)]
pub(crate) struct RequestContext {
    /// Its server transaction.
    pub(crate) server: Key,
    pub(crate) request: Message,
    pub(crate) source: Source,
    pub(crate) caller: Option<Caller>,
    /// The limits of the account that is the caller, when it has any.
    pub(crate) limits: Option<Arc<CallLimits>>,
    /// The accounts that have this call counted, though it has not begun, and whether each is the caller.
    pub(crate) admitted: Vec<(router::Aor, bool)>,
    /// The account it is for, once known.
    pub(crate) callee: Option<router::Aor>,
    /// The one phone that its GRUU names, while the account is looked up.
    pub(crate) gruu: Option<Instance>,
    pub(crate) stage: RequestStage,
    /// It was worked on here since its worker could not be reached: the responses to it are shared with the other nodes of the farm.
    pub(crate) is_off_slot: bool,
    /// The plan was asked without the domain that the sender claims.
    pub(crate) claim_withheld: bool,
    /// The hash by which copies of it that come by other ways are told (RFC 3261 §8.2.2.2), once they have been looked for.
    pub(crate) name: Option<u64>,
    /// The time at which it came, until the first response whose latency counts; `None` of requests whose latency does not count.
    pub(crate) unanswered_since: Option<Instant>,
    /// The earliest wheel entry that is outstanding for it.
    pub(crate) armed: Instant,
}

/// The stage of a request. One question is open at a time, so the context's key is the question's id.
#[derive(Debug)]
pub(crate) enum RequestStage {
    /// The account whose password the request claims to know.
    Authenticating { own_routes: usize, claim: ClaimedSender, credentials: Box<InspectedCredentials> },
    /// The routing plan. `own_routes` Route values are ours and come off.
    Planning { own_routes: usize },
    /// The check that the caller, or the callee, may have one more call.
    Admitting { own_routes: usize, side: AdmissionSide },
    /// The account that the Request-URI names.
    Finding { own_routes: usize },
    /// The bindings of that account.
    Locating { own_routes: usize, instance: Option<Instance> },
    /// Chat clients have the word on a MESSAGE; these phones get it, too.
    Offering { own_routes: usize, bindings: Vec<router::Binding> },
    /// The router's word on a REGISTER.
    Registering { aor: router::Aor },
    /// Targets are tried.
    Proxying(Box<ResponseContext>),
    /// The event notifier's answer.
    Agent,
    /// An acknowledgement from the source's network, before an application gets the call.
    Waiting,
    /// The answer of a session's application, which has patience of its own.
    Session(SessionId),
}

impl RequestStage {
    /// True while the request waits for an account, for bindings, or for the owner of an address, and was not forwarded yet.
    pub(crate) fn is_before_forwarding(&self) -> bool {
        match self {
            RequestStage::Authenticating { .. }
            | RequestStage::Planning { .. }
            | RequestStage::Admitting { .. }
            | RequestStage::Finding { .. }
            | RequestStage::Locating { .. } => true,
            RequestStage::Offering { .. }
            | RequestStage::Registering { .. }
            | RequestStage::Proxying(_)
            | RequestStage::Agent
            | RequestStage::Waiting
            | RequestStage::Session(_) => false,
        }
    }
}

/// The user of a transaction, which gets its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionUser {
    Context(Key),
    /// A client transaction whose context is done: further 2xx go straight up (RFC 6026 §7.2).
    Late {
        server: Key,
        edit: ResponseEdit,
    },
    /// A request of our own, by the number its maker gave it.
    Probe(u64),
    Notifier(u64),
    Session(u64),
    /// The response is not needed.
    None,
}

impl TransactionUser {
    /// True if responses go upstream.
    pub(crate) fn forwards(self) -> bool {
        matches!(self, TransactionUser::Context(_) | TransactionUser::Late { .. })
    }
}

impl RequestContext {
    pub(crate) fn starts_call(&self) -> bool {
        self.request.method() == Method::Invite && self.request.to_tag().is_none()
    }

    /// The account that sent the request, where that was proved and the request may say so (RFC 3325 §9.1: not in an ACK or CANCEL).
    pub(crate) fn asserted(&self) -> Option<&str> {
        match &self.caller {
            Some(Caller::Account(aor)) if !matches!(self.request.method(), Method::Ack | Method::Cancel) => {
                Some(aor)
            }
            _ => None,
        }
    }

    pub(crate) fn new(server: Key, request: Message, source: Source, own_routes: usize) -> Self {
        let stage = RequestStage::Planning { own_routes };
        RequestContext {
            server,
            request,
            source,
            caller: None,
            limits: None,
            admitted: Vec::new(),
            callee: None,
            gruu: None,
            stage,
            is_off_slot: false,
            claim_withheld: false,
            name: None,
            unanswered_since: None,
            armed: Instant::FAR_FUTURE,
        }
    }

    pub(crate) fn response_context(&mut self) -> Option<&mut ResponseContext> {
        match &mut self.stage {
            RequestStage::Proxying(proxied) => Some(proxied),
            _ => None,
        }
    }
}

/// As the events of the call name it.
pub(crate) fn call_id_of(request: &Message) -> Box<str> {
    lossy(request.call_id())
}

pub(crate) fn caller_tag_of(request: &Message) -> Box<str> {
    lossy(request.from_tag())
}
