//! The layers below the cores of an endpoint: transactions, requests that are owed a final response, resolutions. Proxy core,
//! user agent, registrar and event notifier stand on them and do not know each other.

mod call_events;
mod latency;
mod merged;
mod resolution;
mod respond;

use bytes::Bytes;
use router::{AskId, CallInfo, CallPhase, Query};
use stdx::Instant;
use stdx::cache::Cache;
use stdx::hash::HashedKeys;
use stdx::slab::{Key, Slab};
use stdx::wheel::Wheel;

pub(crate) use self::call_events::refused;
pub(crate) use self::resolution::{ResolutionOwner, Resolutions, UnresolvedMessage, first_hop, retry_after};
pub(crate) use self::respond::unsupported;
use super::context::{call_id_of, caller_tag_of};
use super::environment::Environment;
use super::ladders::Passage;
use super::transactions::{ReadyRequest, Transactions, reply_target};
use super::{
    Caller, Counters, EndpointEffect, EndpointOutbox, RequestContext, RequestStage, TransactionUser,
};
use crate::limits;
use crate::resolve::Hop;
use crate::transaction::{
    ServerInvite, ServerOther, TransactionEvent, TransactionMachine, TransactionOutput,
};
use crate::transport::{Source, Target, TransmitId, is_reliable};
use crate::wire::{Header, Message, Method, Rewrite};

/// The state of the lower layers.
pub(crate) struct LowerLayers {
    pub(crate) env: Environment,
    pub(crate) transactions: Transactions,
    pub(crate) contexts: Slab<RequestContext>,
    pub(crate) context_timers: Wheel<Key>,
    pub(crate) resolutions: Resolutions,
    /// Dialogs of calls that were answered and have not ended.
    pub(crate) answered: Cache<u64, (), HashedKeys>,
    /// Server transactions of requests that we answer as a user agent, by From tag, Call-ID and CSeq.
    pub(crate) merging: Cache<u64, Key, HashedKeys>,
    /// Branches of INVITEs whose callers have a final response from another node, or got it without state.
    pub(crate) settled: Cache<u64, (), HashedKeys>,
    pub(crate) counters: Counters,
    /// The message under way is for a worker that cannot be reached: another node may forward it, too.
    pub(crate) is_off_slot: bool,
}

/// The lower layers while one event is handled: the time and the outbox go with them.
pub(crate) struct LowerView<'a> {
    pub(crate) now: Instant,
    pub(crate) out: &'a mut EndpointOutbox,
    pub(crate) env: &'a mut Environment,
    pub(crate) transactions: &'a mut Transactions,
    pub(crate) contexts: &'a mut Slab<RequestContext>,
    context_timers: &'a mut Wheel<Key>,
    pub(crate) resolutions: &'a mut Resolutions,
    answered: &'a mut Cache<u64, (), HashedKeys>,
    merging: &'a mut Cache<u64, Key, HashedKeys>,
    pub(crate) settled: &'a mut Cache<u64, (), HashedKeys>,
    pub(crate) counters: &'a mut Counters,
    /// Another node has sent the caller the responses that this event causes: server transactions note them, and send nothing.
    pub(crate) is_sent_elsewhere: bool,
    is_off_slot: bool,
}

impl LowerLayers {
    pub(crate) fn at<'a>(&'a mut self, now: Instant, out: &'a mut EndpointOutbox) -> LowerView<'a> {
        LowerView {
            now,
            out,
            env: &mut self.env,
            transactions: &mut self.transactions,
            contexts: &mut self.contexts,
            context_timers: &mut self.context_timers,
            resolutions: &mut self.resolutions,
            answered: &mut self.answered,
            merging: &mut self.merging,
            settled: &mut self.settled,
            counters: &mut self.counters,
            is_sent_elsewhere: false,
            is_off_slot: self.is_off_slot,
        }
    }

    /// No room for another request.
    pub(super) fn is_full(&self) -> bool {
        self.contexts.len() >= limits::CONTEXTS || self.transactions.table.len() >= limits::TRANSACTIONS
    }
}

/// One question is open at a time for a request, so its context's key is the question's number.
pub(crate) fn ask_id(context: Key) -> AskId {
    AskId(context.to_u64())
}

impl LowerView<'_> {
    pub(crate) fn transmit(&mut self, target: Target, bytes: Bytes, report: Option<TransmitId>) {
        if self.transactions.ladders.is_any() {
            self.transactions.ladders.note_sent(self.now, target.remote, &bytes, Passage::Sent);
        }
        self.transactions.transmit(target, bytes, report, self.out);
    }

    /// Sends a response without a transaction.
    pub(crate) fn transmit_alone(&mut self, request: &Message, source: &Source, response: Bytes) {
        self.transactions.transmit_alone(self.now, request, source, response, self.out);
    }

    /// A client transaction for a request that is ready to go.
    pub(crate) fn start_client(
        &mut self,
        mut request: ReadyRequest,
        target: Target,
        user: TransactionUser,
    ) -> Option<Key> {
        let transactions = &*self.transactions;
        request.is_in_ladder = transactions.ladders.is_any()
            && match user {
                TransactionUser::Context(context) => {
                    let context = self.contexts.get(context);
                    context.is_some_and(|context| transactions.table.is_in_ladder(context.server))
                }
                TransactionUser::Session(_) => transactions.ladders.has_call_of(request.bytes()),
                _ => false,
            };
        self.transactions.start_client(self.now, request, target, user, self.out)
    }

    /// CANCEL for the INVITE of this client transaction. `reason`: the value of its Reason, or nothing.
    pub(crate) fn send_cancel(&mut self, client: Key, reason: &[u8]) {
        self.transactions.send_cancel(self.now, client, reason, self.out);
    }

    /// Hands a response to a server transaction.
    pub(crate) fn respond(&mut self, server: Key, status: u16, response: Bytes) {
        latency::note_response(self, server, status);
        if self.is_sent_elsewhere {
            self.transactions.note_sent(self.now, server, status, response, self.out);
        } else {
            self.transactions.respond(self.now, server, status, response, self.out);
        }
    }

    /// Carries out a transaction's output, but for the event of its user.
    pub(crate) fn perform(&mut self, key: Key, turn: TransactionOutput) -> Option<TransactionEvent> {
        self.transactions.perform(self.now, key, turn, self.out)
    }

    /// A server transaction and the context that owes its final response.
    pub(crate) fn open(&mut self, hash: u64, request: Message, source: Source) -> Key {
        let reliable = is_reliable(source.transport);
        let target = reply_target(&request, &source);
        let credit = self.transactions.credit(self.now, &request, &source, target.remote);
        let machine = if request.method() == Method::Invite {
            self.counters.invites += 1;
            TransactionMachine::ServerInvite(ServerInvite::start(self.now, reliable))
        } else {
            TransactionMachine::ServerOther(ServerOther::start(self.now, reliable))
        };
        let server = self.transactions.table.insert(hash, machine, target, TransactionUser::None);
        let mut opened = RequestContext::new(server, request, source, 0);
        opened.is_off_slot = self.is_off_slot;
        let is_measured = opened.starts_call() || opened.request.method() == Method::Register;
        opened.unanswered_since = is_measured.then_some(self.now);
        let context = self.contexts.insert(opened);
        self.arm_context(context, self.now + limits::CONTEXT_PATIENCE);
        if let Some(transaction) = self.transactions.table.get_mut(server) {
            transaction.user = TransactionUser::Context(context);
            transaction.credit = credit.map(Box::new);
        }
        if self.transactions.ladders.has_request() {
            self.transactions.table.set_in_ladder(server);
        }
        self.perform(server, TransactionOutput::default());
        context
    }

    /// One wheel entry is outstanding for a context, or more where it had to be woken earlier.
    pub(crate) fn arm_context(&mut self, key: Key, at: Instant) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if at < context.armed {
            context.armed = at;
            self.context_timers.insert(at, key);
        }
    }

    pub(crate) fn set_stage(&mut self, key: Key, stage: RequestStage) {
        if let Some(context) = self.contexts.get_mut(key) {
            context.stage = stage;
        }
    }

    /// True if the sender is no account of ours, as far as is known.
    pub(crate) fn is_of_stranger(&self, key: Key) -> bool {
        self.sender_of(key).is_none()
    }

    /// The account that has proved to be the sender, or need not prove it.
    pub(crate) fn sender_of(&self, key: Key) -> Option<Box<str>> {
        let context = self.contexts.get(key)?;
        match &context.caller {
            Some(Caller::Account(aor)) => Some(aor.clone()),
            _ if context.claim_withheld => None,
            // The plan let the claim stand: a trunk, or an operator that asks for no proof.
            _ => {
                let claim = self.env.claim(&context.request)?;
                Some(format!("{}@{}", claim.user, claim.domain).into())
            }
        }
    }

    /// A call that was admitted never began: it counts no more. One that began is ended by the ledger's events.
    pub(crate) fn release(&mut self, key: Key) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if context.admitted.is_empty()
            || matches!(context.stage, RequestStage::Proxying(_) | RequestStage::Session(_))
        {
            return;
        }
        let (call_id, caller) = (call_id_of(&context.request), caller_tag_of(&context.request));
        for (aor, initiator) in std::mem::take(&mut context.admitted) {
            let call = CallInfo {
                call_id: call_id.clone(),
                local_tag: if initiator { caller.clone() } else { "".into() },
                remote_tag: if initiator { "".into() } else { caller.clone() },
                initiator,
                remote: "".into(),
                phase: CallPhase::Terminated,
            };
            // Not answered.
            self.out.push(EndpointEffect::Ask { id: AskId(0), query: Query::CallChanged { aor, call } });
        }
    }

    pub(crate) fn starts_call(&self, key: Key) -> bool {
        self.contexts.get(key).is_some_and(RequestContext::starts_call)
    }

    /// A request of our own gets its Via and its client transaction. `None`: it cannot be sent.
    pub(crate) fn send_own(
        &mut self,
        request: &Message,
        hop: Hop,
        received: Option<&router::Received>,
        user: TransactionUser,
    ) -> Option<()> {
        let preferred = received.map(|received| received.local);
        let listener = self.env.listeners.listener_for(hop.transport, hop.addr, preferred)?;
        let mut rewrite = Rewrite::new(request);
        let branch = self.env.branch_of(request, 0, 0);
        rewrite.push_front(Header::Via, |text| self.env.write_via(text, listener, &branch));
        let bytes = rewrite.finish();
        let flow = received.and_then(|received| received.flow);
        let target = Target {
            transport: hop.transport,
            remote: hop.addr,
            flow,
            local: Some(self.env.listeners.all[listener].addr),
            tls_name: hop.tls_name,
            reconnect: flow.is_none(),
        };
        let request = self.transactions.ready(bytes, &branch, request.method_name());
        self.start_client(request, target, user).map(drop)
    }
}
