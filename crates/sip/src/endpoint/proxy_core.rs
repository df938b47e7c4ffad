//! Performs the effects of response contexts ([`crate::proxy`]): next hops are resolved, copies are made and sent,
//! responses go upstream.

use bytes::Bytes;
use router::Received;
use stdx::Instant;
use stdx::slab::Key;

use super::forward::{Copy, max_breadth, with_challenges, without_top_via};
use super::receive::Failed;
use super::{Endpoint, Outbox, Resolving, Stage, Timer, User};
use crate::proxy::{
    Destination, FinalResponse, ForwardedRequest, ProxyEffect, ProxyEffects, Purpose, ResponseContext,
    ResponseEdit,
};
use crate::resolve::{Hop, ResolveFault};
use crate::transaction::{ClientInvite, ClientOther, Machine};
use crate::transport::{Target, is_reliable};
use crate::wire::{Header, Message, Method, Request, Via};

/// A response to one of our client transactions.
pub(super) struct BranchResponse<'m> {
    pub(super) client: Key,
    /// Where the request went.
    pub(super) from: Received,
    pub(super) message: &'m Message,
}

impl Endpoint {
    /// Forwards the request of a context to these targets.
    pub(super) fn begin_proxying(
        &mut self,
        now: Instant,
        key: Key,
        groups: Vec<Vec<Destination>>,
        purpose: Purpose,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let breadth = max_breadth(&context.request);
        if breadth == 0 {
            if purpose.starts_call {
                self.note_failed(key, 440, "Max-Breadth Exceeded", out);
            }
            return self.finish(now, key, 440, "Max-Breadth Exceeded", out);
        }
        let is_invite = context.request.method() == Method::Invite;
        let request = ForwardedRequest { purpose, is_invite, breadth, timer_c: self.settings.timer_c };
        context.stage = Stage::Proxying(Box::new(ResponseContext::new(request, groups)));
        self.drive_proxy(now, key, None, out, |proxied, effects| proxied.start(now, effects));
    }

    /// Gives a response context an event, and performs its effects. `response` is the one that the event is about.
    fn drive_proxy(
        &mut self,
        now: Instant,
        key: Key,
        response: Option<&BranchResponse<'_>>,
        out: &mut Outbox,
        event: impl FnOnce(&mut ResponseContext, &mut ProxyEffects),
    ) {
        let Some(proxied) = self.contexts.get_mut(key).and_then(|context| context.response_context()) else {
            return;
        };
        let mut effects = ProxyEffects::new();
        event(proxied, &mut effects);
        for effect in effects {
            self.perform_proxy(now, key, effect, response, out);
        }
    }

    fn perform_proxy(
        &mut self,
        now: Instant,
        key: Key,
        effect: ProxyEffect,
        response: Option<&BranchResponse<'_>>,
        out: &mut Outbox,
    ) {
        match effect {
            ProxyEffect::Resolve { branch } => self.resolve_branch(now, key, branch, out),
            ProxyEffect::Send { branch, hop } => self.send_branch(now, key, branch, &hop, out),
            ProxyEffect::Cancel { client } => self.send_cancel(now, client, out),
            ProxyEffect::Forward { edit } => {
                let server = self.contexts.get(key).map(|context| context.server);
                if let Some((server, response)) = server.zip(response) {
                    self.forward_response(now, server, edit, response, out);
                }
            }
            ProxyEffect::ForwardLate { client, edit } => {
                let server = self.contexts.get(key).map(|context| context.server);
                if let Some((server, transaction)) = server.zip(self.table.get_mut(client)) {
                    transaction.user = User::Late { server, edit };
                }
            }
            ProxyEffect::CallAnswered => {
                if let Some(response) = response {
                    self.note_answered(response.message, out);
                }
            }
            ProxyEffect::Accepted => self.note_bye_accepted(key, out),
            ProxyEffect::Unavailable { client } => {
                if let Some((addr, transport)) = self.table.get(client).map(|tx| tx.target.hop()) {
                    self.resolver.penalise(now, addr, transport);
                }
            }
            ProxyEffect::HopFailed { hop, next } => {
                self.note_tcp_refused(now, hop, next.as_ref());
                self.resolver.penalise(now, hop.0, hop.1);
            }
            ProxyEffect::Respond(best) => {
                self.note_bye_failed(key, &best, out);
                self.respond_best(now, key, best, out);
            }
            ProxyEffect::TimedOut(best) => {
                self.note_bye_failed(key, &best, out);
                if let Some(context) = self.contexts.get(key) {
                    self.table.remove(context.server);
                }
                self.close(key);
            }
            ProxyEffect::Arm { at } => self.arm_context(key, at),
            ProxyEffect::Forget { client } => self.table.remove(client),
            ProxyEffect::Close => self.close(key),
        }
    }

    fn resolve_branch(&mut self, now: Instant, key: Key, index: usize, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let Stage::Proxying(proxied) = &context.stage else { return };
        let Some(branch) = proxied.branch(index) else { return };
        let next = self.next_hop(&context.request, proxied.purpose().own_routes, &branch.destination);
        match next {
            Some(next) => drop(self.resolve(now, &next, Resolving::Branch(key, index), out)),
            None => self.drive_proxy(now, key, None, out, |proxied, effects| {
                proxied.handle_unsupported_uri(now, index, effects);
            }),
        }
    }

    pub(super) fn handle_resolved(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        result: Result<Vec<Hop>, ResolveFault>,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let bytes = context.request.bytes().len();
        let result = result.map(|hops| self.with_tcp_first(now, bytes, hops));
        self.drive_proxy(now, key, None, out, |proxied, effects| {
            proxied.handle_resolved(now, index, result, effects);
        });
    }

    fn send_branch(&mut self, now: Instant, key: Key, index: usize, hop: &Hop, out: &mut Outbox) {
        let sent = self.try_send_branch(now, key, index, hop, out);
        self.drive_proxy(now, key, None, out, |proxied, effects| match sent {
            Some((client, token)) => proxied.handle_sent(index, client, token),
            None => proxied.handle_not_sent(now, index, effects),
        });
    }

    /// The client transaction of the copy, and the token in its Record-Route. `None`: no listener of ours reaches the hop,
    /// or with our own header fields the copy is longer than what we would read ourselves.
    fn try_send_branch(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        hop: &Hop,
        out: &mut Outbox,
    ) -> Option<(Key, Option<u64>)> {
        let context = self.contexts.get(key)?;
        let Stage::Proxying(proxied) = &context.stage else { return None };
        let branch = proxied.branch(index)?;
        if self.is_forbidden_way(&branch.destination, hop) {
            return None;
        }
        // A flow is left by the socket it came in by: no other has its way through the NAT.
        let local = branch.destination.received.map_or(context.source.local, |received| received.local);
        let listener = self.listener_for(hop.transport, hop.addr, Some(local))?;
        let purpose = proxied.purpose();
        let made = purpose.record_route.then(|| self.request_token(&context.request, &context.source));
        let token = made.as_ref().map(|made| made.token.route);
        let copy = Copy {
            destination: &branch.destination,
            own_routes: purpose.own_routes,
            record_route: made.as_ref(),
            within: purpose.within.as_ref(),
            branch: index,
            attempt: branch.attempt,
            breadth: Some(branch.breadth),
            listener,
            is_trusted: self.trusts_hop(hop, &branch.destination, context.request.to_tag().is_none()),
            asserted: context.asserted(),
        };
        let bytes = self.build_copy(&context.request, &context.source, &copy);
        let target = self.target_of(hop, &branch.destination, listener);
        let is_invite = context.request.method() == Method::Invite;
        let client = self.start_client(now, bytes, target, is_invite, User::Context(key), out)?;
        Some((client, token))
    }

    /// A client transaction for a request that is ready to go.
    pub(super) fn start_client(
        &mut self,
        now: Instant,
        bytes: Bytes,
        target: Target,
        is_invite: bool,
        user: User,
        out: &mut Outbox,
    ) -> Option<Key> {
        let message = Message::parse(bytes.clone()).ok()?;
        let branch = message.top_via().as_ref().and_then(Via::branch)?;
        let hash = self.table.client_hash(branch, message.method_name());
        let reliable = is_reliable(target.transport);
        let (machine, turn) = if is_invite {
            let (machine, turn) = ClientInvite::start(now, bytes, reliable);
            (Machine::ClientInvite(machine), turn)
        } else {
            let (machine, turn) = ClientOther::start(now, bytes, reliable);
            (Machine::ClientOther(machine), turn)
        };
        let key = self.table.insert(hash, machine, target, user);
        self.perform(key, turn, out);
        Some(key)
    }

    /// Hands a response to the request's server transaction, as it goes upstream.
    pub(super) fn forward_response(
        &mut self,
        now: Instant,
        server: Key,
        edit: ResponseEdit,
        response: &BranchResponse<'_>,
        out: &mut Outbox,
    ) {
        let bytes = self.upstream_copy(response.message, &response.from, edit);
        self.respond(now, server, response.message.status(), bytes, out);
    }

    /// RFC 3261 §16.7.
    pub(super) fn handle_branch_response(
        &mut self,
        now: Instant,
        key: Key,
        response: &BranchResponse<'_>,
        out: &mut Outbox,
    ) {
        self.drive_proxy(now, key, Some(response), out, |proxied, effects| {
            proxied.handle_response(now, response.client, response.message, effects);
        });
    }

    pub(super) fn handle_branch_failure(
        &mut self,
        now: Instant,
        key: Key,
        failed: &Failed,
        out: &mut Outbox,
    ) {
        self.drive_proxy(now, key, None, out, |proxied, effects| {
            proxied.handle_failure(now, failed.client, failed.hop, failed.status, effects);
        });
    }

    fn respond_best(&mut self, now: Instant, key: Key, best: FinalResponse, out: &mut Outbox) {
        let FinalResponse { status, response, challenges } = best;
        let Some(context) = self.contexts.get(key) else { return };
        let Stage::Proxying(proxied) = &context.stage else { return };
        match response.and_then(|bytes| Message::parse(bytes).ok()) {
            // §16.7 step 6: a 503 is about the hop after us, and not the caller's to act on.
            Some(response) if status != 503 => {
                let (server, starts_call) = (context.server, proxied.purpose().starts_call);
                if starts_call {
                    let reason = String::from_utf8_lossy(response.reason()).into_owned();
                    self.note_failed(key, status, &reason, out);
                }
                let bytes = with_challenges(without_top_via(&response), &challenges);
                self.respond(now, server, status, bytes, out);
                self.close(key);
            }
            _ => {
                let (status, reason) = match status {
                    // RFC 5626 §5.3.1: the peer of a dialog is told which it was.
                    430 if context.request.to_tag().is_some() => (430, "Flow Failed"),
                    _ => own_final_response(status),
                };
                self.finish(now, key, status, reason, out);
            }
        }
    }

    /// CANCEL: the branches are cancelled; a request that is not forwarded yet is answered at once.
    pub(super) fn cancel_context(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if self.table.get(context.server).is_none_or(|tx| match &tx.machine {
            Machine::ServerInvite(machine) => machine.has_final(),
            _ => true,
        }) {
            return;
        }
        match context.stage {
            Stage::Session(session) => self.cancel_session(now, key, session, out),
            Stage::Proxying(_) => {
                self.drive_proxy(now, key, None, out, |proxied, effects| proxied.cancel(now, effects));
            }
            _ => {
                self.give_up_waiting(key);
                self.finish(now, key, 487, "Request Terminated", out);
            }
        }
    }

    pub(super) fn send_cancel(&mut self, now: Instant, client: Key, out: &mut Outbox) {
        let Some(transaction) = self.table.get(client) else { return };
        let Machine::ClientInvite(machine) = &transaction.machine else { return };
        let Some(invite) = machine.request().and_then(|bytes| Message::parse(bytes.clone()).ok()) else {
            return;
        };
        let to = invite.header(Header::To).unwrap_or_default().to_vec();
        let cancel = Request::from_invite("CANCEL", &invite, &to);
        let target = transaction.target.clone();
        self.start_client(now, cancel, target, false, User::Nobody, out);
    }

    /// One wheel entry is outstanding for a context, or more where it had to be woken earlier.
    pub(super) fn arm_context(&mut self, key: Key, at: Instant) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if at < context.armed {
            context.armed = at;
            self.wheel.insert(at, Timer::Context(key));
        }
    }

    /// The timer of a response context, or the end of the time that store, router and plan have for an answer.
    pub(super) fn handle_context_timer(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key).filter(|context| context.armed <= now) else { return };
        context.armed = Instant::FAR_FUTURE;
        match context.stage {
            Stage::Session(_) => {}
            Stage::Waiting => {
                self.give_up_waiting(key);
                self.refuse_open_call(now, key, out);
            }
            Stage::Proxying(_) => {
                self.drive_proxy(now, key, None, out, |proxied, effects| proxied.handle_timer(now, effects));
            }
            _ => self.finish(now, key, 500, "Server Internal Error", out),
        }
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
