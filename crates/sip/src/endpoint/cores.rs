//! The cores of an endpoint: the parts above its transactions (RFC 3261 §5, "transaction user"). Each is a machine of its
//! own and knows none of the others; [`Cores`] gives it the requests, responses, failures and timers that concern it. The
//! endpoint calls it with the lower layers, after the transaction layer has had its turn.

use stdx::Instant;
use stdx::slab::Key;

use super::EndpointEffect;
use super::context::{RequestStage, TransactionUser};
use super::event_front::EventFront;
use super::lower::{LowerLayers, LowerView};
use super::proxy_core::{BranchResponse, ProxyCore};
use super::receive::FailedTransaction;
use super::request_router::{Handover, RequestRouter, unavailable};
use super::user_agent::UserAgent;
use crate::transaction::{Transaction, TransactionMachine};
use crate::wire::Message;

/// The machines above the transactions. The proxy core has no state of its own: its response contexts stand in the lower
/// layers.
pub(super) struct Cores {
    pub(super) router: RequestRouter,
    pub(super) events: EventFront,
    pub(super) user_agent: UserAgent,
}

impl Cores {
    /// A request within a session or a subscription of ours goes there, any other to the choice of its targets.
    pub(super) fn dispatch(&mut self, lower: &mut LowerView<'_>, context: Key) {
        if self.router.refuses_extensions(lower, context) || self.user_agent.take_by_session(lower, context) {
            return;
        }
        let is_in_subscription =
            lower.contexts.get(context).is_some_and(|context| self.events.owns(&context.request));
        self.router.dispatch(lower, context, is_in_subscription);
        self.hand_over(lower);
    }

    /// A CANCEL whose INVITE is not here, in a farm: another life may have forwarded it.
    pub(super) fn dispatch_cancel(&mut self, lower: &mut LowerView<'_>, context: Key) {
        self.router.dispatch_cancel(lower, context);
        self.hand_over(lower);
    }

    /// Gives a request that is not forwarded to the part that answers it, and starts the calls whose network
    /// has proved itself.
    pub(super) fn hand_over(&mut self, lower: &mut LowerView<'_>) {
        match self.router.take_handover() {
            Some(Handover::Notifier { request, aor }) => self.events.run_notifier(lower, request, &aor),
            Some(Handover::UserAgent { request }) => self.user_agent.give_to_agent(lower, request),
            None => {}
        }
        self.user_agent.begin_proved_calls(lower);
    }

    /// True if the request is of a dialog that was let through or is held here: one that may pass where new work may
    /// not. A To tag alone says nothing.
    pub(super) fn is_within_dialog(&self, lower: &LowerLayers, request: &Message) -> bool {
        if request.to_tag().is_none() {
            return false;
        }
        let env = &lower.env;
        let restored = env.restore_strictly_routed(request);
        self.user_agent.sessions.owns(request)
            || self.events.notifier.owns(request)
            || lower.is_in_known_call(request)
            || env.own_routes(restored.as_ref().unwrap_or(request)).within.is_some()
    }

    /// The branches are cancelled; a request that is not forwarded yet is answered at once.
    pub(super) fn cancel_context(&mut self, lower: &mut LowerView<'_>, key: Key, cancel: &Message) {
        let Some(context) = lower.contexts.get(key) else { return };
        if lower.transactions.table.get(context.server).is_none_or(|tx| match &tx.machine {
            TransactionMachine::ServerInvite(machine) => machine.has_final(),
            _ => true,
        }) {
            return;
        }
        match context.stage {
            RequestStage::Session(session) => self.user_agent.cancel_session(lower, key, session),
            RequestStage::Proxying(_) => ProxyCore::new(lower).cancel(key, cancel),
            _ => {
                self.user_agent.give_up_waiting(lower, key);
                lower.finish(key, 487, "Request Terminated");
            }
        }
    }

    /// The timer of a response context, or the end of the time that store, router and plan have for an answer.
    pub(super) fn handle_context_timer(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let now = lower.now;
        let Some(context) = lower.contexts.get_mut(key).filter(|context| context.armed <= now) else {
            return;
        };
        context.armed = Instant::FAR_FUTURE;
        match context.stage {
            RequestStage::Session(_) => {}
            RequestStage::Waiting => {
                self.user_agent.give_up_waiting(lower, key);
                self.user_agent.refuse_open_call(lower, key);
            }
            RequestStage::Proxying(_) => ProxyCore::new(lower).handle_timer(key),
            _ => unavailable(lower, key),
        }
    }

    /// A response that a client transaction passes up goes to the core that sent the request (RFC 3261 §17.1).
    pub(super) fn handle_response(
        &mut self,
        lower: &mut LowerView<'_>,
        user: TransactionUser,
        branch_response: &BranchResponse<'_>,
    ) {
        let (key, response) = (branch_response.client, branch_response.message);
        let server = match user {
            TransactionUser::Context(context) => lower.contexts.get(context).map(|context| context.server),
            TransactionUser::Late { server, .. } => Some(server),
            _ => None,
        };
        let target = |key| lower.transactions.table.get(key).map(Transaction::target);
        let rewritten = server
            .and_then(|server| lower.env.response_across_border(|| target(key), || target(server), response));
        let response = rewritten.as_ref().unwrap_or(response);
        let branch_response = &BranchResponse { client: key, from: branch_response.from, message: response };
        match user {
            TransactionUser::Context(context) => {
                ProxyCore::new(lower).handle_branch_response(context, branch_response);
            }
            TransactionUser::Late { server, edit } => {
                ProxyCore::new(lower).forward_response(server, edit, branch_response);
            }
            TransactionUser::Session(id) => self.user_agent.handle_own_response(lower, id, key, response),
            TransactionUser::Probe(id) if response.status() >= 200 => {
                lower.out.push(EndpointEffect::ProbeOutcome { id, status: response.status() });
            }
            TransactionUser::Notifier(id) if response.status() >= 200 => {
                self.events.handle_notify_result(lower, id, response.status());
            }
            TransactionUser::Probe(_) | TransactionUser::Notifier(_) | TransactionUser::None => {}
        }
    }

    /// A client transaction ended without a final response: a timeout, or a transport error (RFC 3261 §17.1.4).
    pub(super) fn handle_failure(&mut self, lower: &mut LowerView<'_>, failed: &FailedTransaction) {
        lower.counters.timeouts += 1;
        match failed.user {
            TransactionUser::Context(context) => ProxyCore::new(lower).handle_branch_failure(context, failed),
            TransactionUser::Probe(id) => {
                lower.out.push(EndpointEffect::ProbeOutcome { id, status: failed.status });
            }
            TransactionUser::Notifier(id) => self.events.handle_notify_result(lower, id, 408),
            TransactionUser::Session(id) => {
                self.user_agent.handle_own_failure(lower, id, failed.hop, failed.status);
            }
            TransactionUser::Late { .. } | TransactionUser::None => {}
        }
    }
}
