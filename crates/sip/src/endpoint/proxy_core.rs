//! Performs the effects of response contexts ([`crate::proxy`]): next hops are resolved, copies are made and sent,
//! responses go upstream.

use bytes::Bytes;
use router::Received;
use stdx::Instant;
use stdx::slab::Key;

use super::CallEventKind;
use super::context::{RequestStage, TransactionUser};
use super::environment::call_stamp::{CallStamp, call_stamp_text};
use super::environment::dialog_route::{DialogRequest, destination_within};
use super::environment::forwarded_copy::{
    ForwardedCopy, NextHopFault, max_breadth, next_hop, with_challenges, without_top_via,
};
use super::environment::response_route::ResponseRoute;
use super::lower::{LowerView, ResolutionOwner, UnresolvedMessage};
use super::receive::FailedTransaction;
use super::shared_response::is_settled;
use super::transactions::reply_target;
use crate::proxy::{
    Destination, FinalResponse, ForwardedRequest, ForwardingPurpose, ProxyEffect, ProxyEffects,
    ResponseContext, ResponseEdit,
};
use crate::resolve::{Hop, ResolveFault};
use crate::transport::Source;
use crate::wire::{Message, Method};

/// A response to one of our client transactions.
pub(crate) struct BranchResponse<'m> {
    pub(crate) client: Key,
    /// The hop that the request went to.
    pub(crate) from: Received,
    pub(crate) message: &'m Message,
}

/// An ACK to a 2xx and where it goes.
#[derive(Debug)]
pub(crate) struct ForwardedAck {
    pub(crate) ack: Message,
    source: Source,
    own_routes: usize,
    destination: Destination,
}

impl ForwardedAck {
    /// An ACK that came by our Route.
    pub(super) fn within(ack: Message, source: Source, own_routes: usize, within: &DialogRequest) -> Self {
        let destination = destination_within(&ack, own_routes, within);
        ForwardedAck { ack, source, own_routes, destination }
    }
}

/// The proxy core at one event: it gives response contexts their events, and performs their effects.
pub(crate) struct ProxyCore<'a, 'l> {
    lower: &'a mut LowerView<'l>,
}

impl<'a, 'l> ProxyCore<'a, 'l> {
    pub(crate) fn new(lower: &'a mut LowerView<'l>) -> Self {
        ProxyCore { lower }
    }

    /// Forwards the request of a context to these targets.
    pub(crate) fn begin_proxying(
        &mut self,
        key: Key,
        groups: Vec<Vec<Destination>>,
        purpose: ForwardingPurpose,
    ) {
        let Some(context) = self.lower.contexts.get_mut(key) else { return };
        let breadth = max_breadth(&context.request);
        if breadth == 0 {
            if purpose.starts_call {
                self.lower.note_failed(key, 440, "Max-Breadth Exceeded");
            }
            return self.lower.finish(key, 440, "Max-Breadth Exceeded");
        }
        let is_invite = context.request.method() == Method::Invite;
        let request =
            ForwardedRequest { purpose, is_invite, breadth, timer_c: self.lower.env.settings.timer_c };
        context.stage = RequestStage::Proxying(Box::new(ResponseContext::new(request, groups)));
        self.drive_proxy(key, None, |proxied, now, effects| proxied.start(now, effects));
    }

    /// A CANCEL by itself goes to all targets of its INVITE at once (RFC 3261 §16.10), each copy with the branch of the
    /// INVITE's first attempt there. A target that has no such INVITE answers 481, which changes nothing.
    pub(crate) fn forward_cancel(&mut self, key: Key, groups: Vec<Vec<Destination>>, own_routes: usize) {
        self.lower.answer_early(key, (200, "OK"));
        let all = groups.into_iter().flatten().collect();
        let purpose = ForwardingPurpose { own_routes, ..ForwardingPurpose::default() };
        self.begin_proxying(key, vec![all], purpose);
    }

    /// A request by our own Record-Route: where it goes, its Route or its flow says.
    pub(crate) fn forward_in_dialog(&mut self, key: Key, own_routes: usize, within: &DialogRequest) {
        let Some(context) = self.lower.contexts.get(key) else { return };
        let destination = destination_within(&context.request, own_routes, within);
        // RFC 6665 §4.3: a NOTIFY may be the first that a subscriber hears of its dialog.
        let record_route = context.request.method() == Method::Notify;
        let within = Some(within.proof);
        let purpose = ForwardingPurpose { own_routes, record_route, within, ..ForwardingPurpose::default() };
        self.begin_proxying(key, vec![vec![destination]], purpose);
    }

    /// Gives a response context an event, and performs its effects. `response` is the one that the event is about.
    fn drive_proxy(
        &mut self,
        key: Key,
        response: Option<&BranchResponse<'_>>,
        event: impl FnOnce(&mut ResponseContext, Instant, &mut ProxyEffects),
    ) {
        let Some(proxied) = self.lower.contexts.get_mut(key).and_then(|context| context.response_context())
        else {
            return;
        };
        let mut effects = ProxyEffects::new();
        event(proxied, self.lower.now, &mut effects);
        for effect in effects {
            self.perform_proxy(key, effect, response);
        }
    }

    fn perform_proxy(&mut self, key: Key, effect: ProxyEffect, response: Option<&BranchResponse<'_>>) {
        match effect {
            ProxyEffect::Resolve { branch } => self.resolve_branch(key, branch),
            ProxyEffect::Send { branch, hop } => self.send_branch(key, branch, &hop),
            ProxyEffect::Cancel { client, reason } => self.lower.send_cancel(client, &reason),
            ProxyEffect::Forward { edit } => {
                let server = self.lower.contexts.get(key).map(|context| context.server);
                if let Some((server, response)) = server.zip(response) {
                    self.forward_response(server, edit, response);
                }
            }
            ProxyEffect::ForwardLate { client, edit } => {
                let server = self.lower.contexts.get(key).map(|context| context.server);
                if let Some((server, transaction)) = server.zip(self.lower.transactions.table.get_mut(client))
                {
                    transaction.user = TransactionUser::Late { server, edit };
                }
            }
            ProxyEffect::CallRings => {
                if let Some(response) = response {
                    self.lower.note_ringing(response.message);
                }
            }
            ProxyEffect::CallAnswered => {
                if let Some(response) = response {
                    self.lower.note_answered(response.message);
                }
            }
            ProxyEffect::Accepted => self.lower.note_bye_accepted(key),
            ProxyEffect::Unavailable => {
                if let Some(BranchResponse { from, message, .. }) = response {
                    let hop = (from.remote, from.transport);
                    self.lower.resolutions.handle_unavailable(self.lower.now, hop, message);
                }
            }
            ProxyEffect::HopFailed { hop, next } => {
                self.lower.note_tcp_refused(hop, next.as_ref());
                self.lower.resolutions.penalise(self.lower.now, hop.0, hop.1);
            }
            ProxyEffect::Respond(best) => {
                self.lower.note_bye_failed(key, &best);
                self.respond_best(key, best);
            }
            ProxyEffect::TimedOut(best) => {
                self.lower.note_bye_failed(key, &best);
                if let Some(context) = self.lower.contexts.get(key) {
                    self.lower.transactions.table.remove(context.server);
                }
                self.lower.close(key);
            }
            ProxyEffect::Arm { at } => self.lower.arm_context(key, at),
            ProxyEffect::Forget { client } => self.lower.transactions.table.remove(client),
            ProxyEffect::Close => self.lower.close(key),
        }
    }

    fn resolve_branch(&mut self, key: Key, index: usize) {
        let Some(context) = self.lower.contexts.get(key) else { return };
        let RequestStage::Proxying(proxied) = &context.stage else { return };
        let Some(branch) = proxied.branch(index) else { return };
        let next = next_hop(&context.request, proxied.purpose().own_routes, &branch.destination);
        match next {
            Ok(next) => {
                if let Some(result) = self.lower.resolve(&next, || ResolutionOwner::Branch(key, index)) {
                    self.handle_resolved(key, index, result);
                }
            }
            Err(NextHopFault::Scheme) => self.drive_proxy(key, None, |proxied, now, effects| {
                proxied.handle_unsupported_uri(now, index, effects);
            }),
            Err(NextHopFault::Transport) => self.handle_resolved(key, index, Err(ResolveFault::Unsupported)),
        }
    }

    pub(crate) fn handle_resolved(&mut self, key: Key, index: usize, result: Result<Vec<Hop>, ResolveFault>) {
        let Some(context) = self.lower.contexts.get(key) else { return };
        let bytes = context.request.bytes().len();
        let result = result.map(|hops| self.lower.with_tcp_first(bytes, hops));
        let is_paused =
            result.as_ref().is_ok_and(|hops| self.lower.resolutions.is_paused(self.lower.now, hops));
        self.drive_proxy(key, None, |proxied, now, effects| {
            proxied.handle_resolved(now, index, result, is_paused, effects);
        });
    }

    fn send_branch(&mut self, key: Key, index: usize, hop: &Hop) {
        // Before the copy leaves: a callee whose call is over would ring again.
        if self.is_settled_elsewhere(key) {
            return self.stand_down(key);
        }
        let sent = self.try_send_branch(key, index, hop);
        self.drive_proxy(key, None, |proxied, now, effects| match sent {
            Some((client, token)) => proxied.handle_sent(index, client, token),
            None => proxied.handle_not_sent(now, index, effects),
        });
    }

    /// True if another node answers the caller of this INVITE, by whichever of its targets. One whose response is here, too, says nothing: both nodes may
    /// have it, and each would leave the caller to the other.
    fn is_settled_elsewhere(&self, key: Key) -> bool {
        let Some(context) = self.lower.contexts.get(key) else { return false };
        let RequestStage::Proxying(proxied) = &context.stage else { return false };
        if context.request.method() != Method::Invite || self.lower.settled.is_empty() {
            return false;
        }
        proxied.open_attempts().any(|(index, attempt)| {
            is_settled(self.lower, &self.lower.env.branch_of(&context.request, index, attempt))
        })
    }

    /// Another node answers the caller: the context ends without a response, and its server transaction absorbs the request's
    /// repetitions. No branch is cancelled: they are the other node's, too.
    pub(crate) fn stand_down(&mut self, key: Key) {
        let Some(context) = self.lower.contexts.get(key) else { return };
        let RequestStage::Proxying(proxied) = &context.stage else { return };
        let (server, is_invite) = (context.server, context.request.method() == Method::Invite);
        for client in proxied.clients() {
            self.lower.transactions.table.remove(client);
        }
        if proxied.purpose().starts_call {
            self.lower.note_call(key, CallEventKind::Withdrawn);
        }
        if is_invite {
            // RFC 6026 §7.1: Accepted absorbs the INVITE.
            self.lower.transactions.note_sent(self.lower.now, server, 200, Bytes::new(), self.lower.out);
        } else {
            self.lower.transactions.table.remove(server);
        }
        self.lower.close(key);
    }

    /// The client transaction of the copy, and the token in its Record-Route. `None`: no listener of ours
    /// reaches the hop, or with our own header fields the copy is longer than the limit on our own input.
    fn try_send_branch(&mut self, key: Key, index: usize, hop: &Hop) -> Option<(Key, Option<u64>)> {
        let context = self.lower.contexts.get(key)?;
        let RequestStage::Proxying(proxied) = &context.stage else { return None };
        let branch = proxied.branch(index)?;
        if self.lower.env.is_forbidden_way(&branch.destination, hop) {
            return None;
        }
        // A flow is left by the socket it came in by: no other has its way through the NAT.
        let local = branch.destination.received.map_or(context.source.local, |received| received.local);
        let listener = self.lower.env.listeners.listener_for(hop.transport, hop.addr, Some(local))?;
        let purpose = proxied.purpose();
        let mut made =
            purpose.record_route.then(|| self.lower.env.request_token(&context.request, &context.source));
        if let Some(made) = made.as_mut().filter(|_| purpose.starts_call && self.lower.env.is_in_farm()) {
            let stamp =
                CallStamp { life: self.lower.env.settings.edge.life, start: self.lower.now, answer: None };
            let call_id = context.request.call_id().unwrap_or_default();
            let caller_tag = context.request.from_tag().unwrap_or_default();
            made.call_stamp = Some(call_stamp_text(self.lower.env, &stamp, call_id, caller_tag));
        }
        let token = made.as_ref().map(|made| made.token.route);
        let target = self.lower.env.target_of(hop, &branch.destination, listener);
        let response_route = self.lower.env.is_in_farm().then(|| ResponseRoute {
            downstream: target.received(),
            upstream: reply_target(&context.request, &context.source).received(),
            edit: ResponseEdit::of(&branch.destination, token, purpose.within),
            is_only: proxied.is_only_branch(index),
        });
        let branch_text = self.lower.env.branch_of(&context.request, index, branch.attempt);
        let copy = ForwardedCopy {
            destination: &branch.destination,
            own_routes: purpose.own_routes,
            record_route: made.as_ref(),
            within: purpose.within.as_ref(),
            branch: &branch_text,
            breadth: Some(branch.breadth),
            listener,
            response_route,
            is_trusted: self.lower.env.trust().trusts_hop(
                hop,
                &branch.destination,
                context.request.to_tag().is_none(),
            ),
            asserted: context.asserted(),
        };
        let bytes = self.lower.env.build_copy(&context.request, &context.source, &copy);
        let method = context.request.method_name();
        let request = self.lower.transactions.ready(bytes, &branch_text, method);
        let client = self.lower.start_client(request, target, TransactionUser::Context(key))?;
        Some((client, token))
    }

    /// Hands a response to the request's server transaction, as it goes upstream.
    pub(crate) fn forward_response(
        &mut self,
        server: Key,
        edit: ResponseEdit,
        response: &BranchResponse<'_>,
    ) {
        let bytes = self.lower.env.upstream_copy(self.lower.now, response.message, &response.from, edit);
        self.lower.respond(server, response.message.status(), bytes);
    }

    /// RFC 3261 §16.7.
    pub(crate) fn handle_branch_response(&mut self, key: Key, response: &BranchResponse<'_>) {
        self.drive_proxy(key, Some(response), |proxied, now, effects| {
            proxied.handle_response(now, response.client, response.message, effects);
        });
    }

    pub(crate) fn handle_branch_failure(&mut self, key: Key, failed: &FailedTransaction) {
        self.drive_proxy(key, None, |proxied, now, effects| {
            proxied.handle_failure(now, failed.client, failed.hop, failed.status, effects);
        });
    }

    fn respond_best(&mut self, key: Key, best: FinalResponse) {
        let FinalResponse { status, response, challenges } = best;
        let Some(context) = self.lower.contexts.get(key) else { return };
        let RequestStage::Proxying(proxied) = &context.stage else { return };
        match response.and_then(|bytes| Message::parse(bytes).ok()) {
            // §16.7 step 6: a 503 is about the hop after us, and not the caller's to act on.
            Some(response) if status != 503 => {
                let (server, starts_call) = (context.server, proxied.purpose().starts_call);
                if starts_call {
                    let reason = String::from_utf8_lossy(response.reason()).into_owned();
                    self.lower.note_failed(key, status, &reason);
                }
                let bytes = with_challenges(without_top_via(&response), &challenges);
                self.lower.respond(server, status, bytes);
                self.lower.close(key);
            }
            _ => {
                let (status, reason) = match status {
                    // RFC 5626 §5.3.1: the peer of a dialog is told which it was.
                    430 if context.request.to_tag().is_some() => (430, "Flow Failed"),
                    _ => own_final_response(status),
                };
                self.lower.finish(key, status, reason);
            }
        }
    }

    /// The plan has said where an ACK without our Route goes.
    pub(crate) fn finish_ack(&mut self, key: Key, to: Option<&Destination>) {
        let Some(context) = self.lower.contexts.remove(key) else { return };
        let own_routes = match context.stage {
            RequestStage::Planning { own_routes } | RequestStage::Locating { own_routes, .. } => own_routes,
            _ => 0,
        };
        if let Some(destination) = to.cloned() {
            let forwarded =
                ForwardedAck { ack: context.request, source: context.source, own_routes, destination };
            self.forward_ack(forwarded);
        }
    }

    /// The remote target of the 2xx may be a name that was not asked for before: then the ACK waits, at most
    /// as long as DNS takes. A lost one is asked for by the next 2xx (RFC 3261 §13.2.2.4).
    pub(crate) fn forward_ack(&mut self, forwarded: ForwardedAck) {
        if let Some(received) = &forwarded.destination.received {
            return self.transmit_ack(&forwarded, &Hop::of_flow(received));
        }
        let next = next_hop(&forwarded.ack, forwarded.own_routes, &forwarded.destination).ok();
        let resolved = self.lower.send_when_resolved(next.as_ref(), UnresolvedMessage::Ack(forwarded));
        if let Some((UnresolvedMessage::Ack(forwarded), hop)) = resolved {
            self.transmit_resolved_ack(&forwarded, hop);
        }
    }

    /// Without a hop the ACK is lost.
    pub(crate) fn transmit_resolved_ack(&mut self, forwarded: &ForwardedAck, hop: Option<Hop>) {
        if let Some(hop) = hop {
            self.transmit_ack(forwarded, &hop);
        }
    }

    fn transmit_ack(&mut self, forwarded: &ForwardedAck, hop: &Hop) {
        let ForwardedAck { ack, source, own_routes, destination } = forwarded;
        let local = destination.received.map_or(source.local, |received| received.local);
        let Some(listener) = self.lower.env.listeners.listener_for(hop.transport, hop.addr, Some(local))
        else {
            return;
        };
        let copy = ForwardedCopy {
            destination,
            own_routes: *own_routes,
            record_route: None,
            within: None,
            branch: &self.lower.env.branch_of(ack, 0, 0),
            breadth: None,
            listener,
            response_route: None,
            is_trusted: self.lower.env.trust().trusts_hop(hop, destination, false),
            asserted: None,
        };
        let bytes = self.lower.env.build_copy(ack, source, &copy);
        let target = self.lower.env.target_of(hop, destination, listener);
        self.lower.transmit(target, bytes, None);
    }

    /// CANCEL came for the request. RFC 3326 §2: its Reason is copied into the CANCELs of the branches.
    pub(crate) fn cancel(&mut self, key: Key, cancel: &Message) {
        let reasons = cancel.others().filter(|(name, _)| name.eq_ignore_ascii_case(b"Reason"));
        let reason = reasons.map(|(_, value)| value).collect::<Vec<_>>().join(&b", "[..]);
        self.drive_proxy(key, None, |proxied, now, effects| proxied.cancel(now, &reason, effects));
    }

    /// The timer of the response context.
    pub(crate) fn handle_timer(&mut self, key: Key) {
        self.drive_proxy(key, None, |proxied, now, effects| proxied.handle_timer(now, effects));
    }
}

/// The status and reason of a final response that no peer sent.
fn own_final_response(status: u16) -> (u16, &'static str) {
    match status {
        404 => (404, "Not Found"),
        416 => (416, "Unsupported URI Scheme"),
        // RFC 5626 §5.3.1: 430 is between proxies; without another flow the phone is not there.
        430 | 480 => (480, "Temporarily Unavailable"),
        487 => (487, "Request Terminated"),
        408 => (408, "Request Timeout"),
        // §16.7 step 6: 503 becomes 500.
        _ => (500, "Server Internal Error"),
    }
}
