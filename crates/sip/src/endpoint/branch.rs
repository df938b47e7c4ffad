//! The branches of a forked request: sent, failed over, answered, cancelled. RFC 3261 §16.6 step 9 on,
//! §16.7, §16.8 (Timer C), §16.9 (transport errors), §16.10 (CANCEL).

use bytes::Bytes;
use router::Received;
use stdx::Instant;
use stdx::slab::Key;

use super::forward::{Copy, hop_of_flow, new_branch, with_challenges, without_top_via};
use super::receive::Failed;
use super::{Endpoint, Outbox, Resolving, Stage, Timer, User};
use crate::proxy::{BranchState, Forking, Outcome, ResponseEdit};
use crate::resolve::{Hop, ResolveFault};
use crate::transaction::{ClientInvite, ClientOther, Machine, TIMEOUT};
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
    pub(super) fn ring_next_group(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let timer_c = self.settings.timer_c;
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        let first = forking.branches.len();
        if let Some(group) = forking.waiting.pop_front() {
            let share = (forking.breadth / group.len().max(1)).max(1);
            forking.branches.extend(group.into_iter().map(|destination| new_branch(destination, share)));
            // §16.6 step 11: each branch has its own Timer C; those of a group start together.
            forking.timer_c = now + timer_c;
        }
        let last = forking.branches.len();
        for index in first..last {
            self.start_branch(now, key, index, out);
        }
        if first == last {
            self.conclude(now, key, out);
        }
    }

    fn start_branch(&mut self, now: Instant, key: Key, index: usize, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Stage::Forking(forking) = &context.stage else { return };
        let destination = &forking.branches[index].destination;
        if let Some(received) = &destination.received {
            let hop = hop_of_flow(received);
            return self.try_hops(now, key, index, vec![hop], out);
        }
        let next = self.contexts.get(key).and_then(|context| {
            self.next_hop(
                &context.request,
                forking_own_routes(&context.stage),
                destination_of(&context.stage, index)?,
            )
        });
        let Some(next) = next else {
            // A tel URI, or one of a scheme nobody routes: there is no hop to try.
            return self.branch_is_done(now, key, index, 416, None, out);
        };
        self.resolve(now, &next, Resolving::Branch(key, index), out);
    }

    pub(super) fn handle_resolved(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        result: Result<Vec<Hop>, ResolveFault>,
        out: &mut Outbox,
    ) {
        let state =
            self.contexts.get_mut(key).and_then(|c| c.forking()?.branches.get(index).map(|b| b.state));
        if state != Some(BranchState::Resolving) {
            // Cancelled while DNS was asked.
            return;
        }
        match result {
            Ok(hops) => self.try_hops(now, key, index, hops, out),
            // §16.6 step 7: as if the branch had answered 503, which step 16.7.6 turns into 500... unless
            // the name does not exist, which is the caller's mistake.
            Err(ResolveFault::NoSuchHost) => self.branch_is_done(now, key, index, 404, None, out),
            Err(_) => self.branch_is_done(now, key, index, 503, None, out),
        }
    }

    fn try_hops(&mut self, now: Instant, key: Key, index: usize, hops: Vec<Hop>, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let bytes = context.request.bytes().len();
        let Some(branch) = context.forking().and_then(|forking| forking.branches.get(index)) else { return };
        // A flow is followed whatever the length.
        let is_flow = branch.destination.received.is_some();
        let hops = if is_flow { hops } else { self.with_tcp_first(now, bytes, hops) };
        if let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) {
            forking.branches[index].hops.extend(hops);
        }
        self.try_next_hop(now, key, index, 503, out);
    }

    /// Sends to the next hop not tried; without one the branch has failed with `status`.
    fn try_next_hop(&mut self, now: Instant, key: Key, index: usize, status: u16, out: &mut Outbox) {
        loop {
            let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else {
                return;
            };
            let closed = forking.closed;
            let Some(branch) = forking.branches.get_mut(index) else { return };
            let Some(hop) = branch.hops.pop_front().filter(|_| !closed) else {
                return self.branch_is_done(now, key, index, status, None, out);
            };
            branch.attempt += 1;
            if self.send_branch(now, key, index, &hop, out) {
                return;
            }
        }
    }

    /// False when it cannot be sent there: no listener of ours reaches the hop.
    fn send_branch(&mut self, now: Instant, key: Key, index: usize, hop: &Hop, out: &mut Outbox) -> bool {
        let Some(context) = self.contexts.get(key) else { return true };
        let Stage::Forking(forking) = &context.stage else { return true };
        let branch = &forking.branches[index];
        if self.is_forbidden_way(&branch.destination, hop) {
            return false;
        }
        // A flow is left by the socket it came in by: no other has its way through the NAT.
        let local = branch.destination.received.map_or(context.source.local, |received| received.local);
        let Some(listener) = self.listener_for(hop.transport, hop.addr, Some(local)) else { return false };
        let made =
            forking.purpose.record_route.then(|| self.request_token(&context.request, &context.source));
        let token = made.as_ref().map(|made| made.token.route);
        let copy = Copy {
            destination: &branch.destination,
            own_routes: forking.purpose.own_routes,
            record_route: made.as_ref(),
            within: forking.purpose.within.as_ref(),
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
        let Some(client) = self.start_client(now, bytes, target, is_invite, User::Context(key), out) else {
            // With our own lines it is more than we would read ourselves.
            return false;
        };
        if let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) {
            forking.token = token;
            forking.branches[index].state = BranchState::Trying { client, cancel: false };
        }
        true
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
        let client = response.client;
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        let Some(index) = forking.branch_of(client) else { return };
        match response.message.status() {
            ..200 => self.handle_provisional(now, key, index, response, out),
            200..300 => self.handle_success(now, key, index, response, out),
            503 if self.has_more_hops(key, index) => {
                if let Some((addr, transport)) = self.table.get(client).map(|tx| tx.target.hop()) {
                    self.resolver.penalise(now, addr, transport);
                }
                self.try_next_hop(now, key, index, 503, out);
            }
            status => {
                let bytes = response.message.bytes().clone();
                if status >= 600 {
                    // §16.7 step 5: a 6xx ends the search, once the others have answered.
                    self.close_forking(now, key, out);
                }
                self.branch_is_done(now, key, index, status, Some(bytes), out);
            }
        }
    }

    fn handle_provisional(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        response: &BranchResponse<'_>,
        out: &mut Outbox,
    ) {
        let timer_c = now + self.settings.timer_c;
        let Some(context) = self.contexts.get_mut(key) else { return };
        let server = context.server;
        // RFC 4320 §4.1: nothing but 100 before the final response to a non-INVITE.
        let status = response.message.status();
        let is_forwarded = status > 100 && context.request.method() == Method::Invite;
        let Some(forking) = context.forking() else { return };
        if status > 100 && !forking.closed {
            // §16.7 step 2: any provisional but 100 resets Timer C.
            forking.timer_c = timer_c;
        }
        let edit = forking.response_edit(index);
        let branch = &mut forking.branches[index];
        if let BranchState::Trying { client, cancel } = branch.state {
            branch.state = BranchState::Proceeding { client, cancelled: false };
            if cancel {
                // §9.1: a CANCEL had to wait for this, and has 64*T1 from here.
                forking.timer_c = now + TIMEOUT;
                self.cancel_branch(now, key, index, out);
            }
        }
        if is_forwarded {
            self.forward_response(now, server, edit, response, out);
        }
    }

    fn handle_success(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        response: &BranchResponse<'_>,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let is_invite = context.request.method() == Method::Invite;
        let server = context.server;
        let Some(forking) = context.forking() else { return };
        let starts_call = forking.purpose.starts_call && !forking.forwarded_final;
        let edit = forking.response_edit(index);
        forking.forwarded_final = true;
        forking.branches[index].state = BranchState::Done;
        if is_invite && let Some(transaction) = self.table.get_mut(response.client) {
            transaction.user = User::Late { server, edit };
        }
        if starts_call {
            self.note_answered(response.message, out);
        }
        self.note_bye_accepted(key, out);
        self.forward_response(now, server, edit, response, out);
        self.close_forking(now, key, out);
        self.conclude(now, key, out);
    }

    pub(super) fn handle_branch_failure(
        &mut self,
        now: Instant,
        key: Key,
        failed: &Failed,
        out: &mut Outbox,
    ) {
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        let Some(index) = forking.branch_of(failed.client) else { return };
        let branch = &forking.branches[index];
        let heard = matches!(branch.state, BranchState::Proceeding { .. });
        // RFC 5626 §5.3: the way that the phone itself opened is closed, and with it the phone is gone.
        let received = branch.destination.received;
        let flow_failed = received.is_some_and(|r| r.flow.is_some() || failed.status == 503);
        let status = if flow_failed { 430 } else { failed.status };
        if heard {
            self.branch_is_done(now, key, index, status, None, out);
        } else {
            // RFC 3263 §4.3: silence or a transport error moves on to the next hop.
            let (addr, transport) = failed.hop;
            let next = branch.hops.front().cloned();
            self.note_tcp_refused(now, failed.hop, next.as_ref());
            self.resolver.penalise(now, addr, transport);
            self.try_next_hop(now, key, index, status, out);
        }
    }

    fn has_more_hops(&self, key: Key, index: usize) -> bool {
        match self.contexts.get(key).map(|context| &context.stage) {
            Some(Stage::Forking(forking)) => !forking.closed && !forking.branches[index].hops.is_empty(),
            _ => false,
        }
    }

    /// A branch has its final word. `response` is as received, our Via still on top.
    fn branch_is_done(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        status: u16,
        response: Option<Bytes>,
        out: &mut Outbox,
    ) {
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        forking.branches[index].state = BranchState::Done;
        if !forking.purpose.search.goes_on(status, response.is_some()) {
            forking.waiting.clear();
        }
        forking.best.consider(status, response);
        let all_done = forking.branches.iter().all(|branch| branch.state == BranchState::Done);
        if all_done && !forking.closed && !forking.waiting.is_empty() {
            return self.ring_next_group(now, key, out);
        }
        self.conclude(now, key, out);
    }

    /// Sends the best response when all is said, and forgets the context when nothing is owed.
    fn conclude(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let server = context.server;
        let is_invite = context.request.method() == Method::Invite;
        let Some(forking) = context.forking() else { return };
        if let Some(outcome) = forking.take_best() {
            self.note_bye_failed(key, &outcome, out);
            // RFC 4320 §4.2: a timed-out non-INVITE is answered by nobody: the answer would be late.
            if outcome.status == 408 && !is_invite {
                self.table.remove(server);
                return self.close(key);
            }
            return self.answer_best(now, key, server, outcome, out);
        }
        if forking.is_over() {
            self.close(key);
        }
    }

    fn answer_best(&mut self, now: Instant, key: Key, server: Key, outcome: Outcome, out: &mut Outbox) {
        let Outcome { status, response, challenges } = outcome;
        let response = response.and_then(|bytes| Message::parse(bytes).ok());
        match response {
            // §16.7 step 6: a 503 is about the hop after us, and not the caller's to act on.
            Some(response) if status != 503 => {
                let reason = String::from_utf8_lossy(response.reason()).into_owned();
                let starts_call = match self.contexts.get(key).map(|context| &context.stage) {
                    Some(Stage::Forking(forking)) => forking.purpose.starts_call,
                    _ => false,
                };
                if starts_call {
                    self.note_failed(key, status, &reason, out);
                }
                let bytes = with_challenges(without_top_via(&response), &challenges);
                self.respond(now, server, status, bytes, out);
                self.close(key);
            }
            _ => {
                let in_dialog = self.contexts.get(key).is_some_and(|c| c.request.to_tag().is_some());
                let (status, reason) = match status {
                    // RFC 5626 §5.3.1: the peer of a dialog is told which it was.
                    430 if in_dialog => (430, "Flow Failed"),
                    _ => concluded(status),
                };
                self.finish(now, key, status, reason, out);
            }
        }
    }

    /// §16.10: every branch that still runs is cancelled; the caller gets what they answer (487).
    pub(super) fn cancel_context(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if self.table.get(context.server).is_none_or(|tx| match &tx.machine {
            Machine::ServerInvite(machine) => machine.has_final(),
            _ => true,
        }) {
            return;
        }
        if let Stage::Session(session) = context.stage {
            return self.cancel_session(now, key, session, out);
        }
        if context.forking().is_none() {
            self.give_up_waiting(key);
            return self.finish(now, key, 487, "Request Terminated", out);
        }
        if let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) {
            forking.best.cancel();
        }
        self.close_forking(now, key, out);
        self.conclude(now, key, out);
    }

    /// No new branches; those that run are cancelled, and given 64*T1 to say so (§9.1).
    fn close_forking(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        if std::mem::replace(&mut forking.closed, true) {
            // A second CANCEL does not prolong the wait.
            return;
        }
        forking.waiting.clear();
        let running = forking.branches.len();
        for index in 0..running {
            self.cancel_branch(now, key, index, out);
        }
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        if forking.branches.iter().any(|branch| branch.state != BranchState::Done) {
            forking.timer_c = now + TIMEOUT;
            self.arm_context(key, now + TIMEOUT);
        }
    }

    fn cancel_branch(&mut self, now: Instant, key: Key, index: usize, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let is_invite = context.request.method() == Method::Invite;
        let Some(forking) = context.forking() else { return };
        let branch = &mut forking.branches[index];
        match &mut branch.state {
            BranchState::Resolving => branch.state = BranchState::Done,
            // §9.1: a CANCEL must not be sent before a provisional response has come.
            BranchState::Trying { cancel, .. } => *cancel = true,
            BranchState::Proceeding { client, cancelled } if !*cancelled && is_invite => {
                *cancelled = true;
                let client = *client;
                self.send_cancel(now, client, out);
            }
            BranchState::Proceeding { .. } | BranchState::Done => {}
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

    /// Timer C (§16.8), the end of the wait after CANCEL, or that of our patience with store and router.
    pub(super) fn handle_context_timer(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key).filter(|context| context.armed <= now) else { return };
        context.armed = Instant::FAR_FUTURE;
        if matches!(context.stage, Stage::Session(_)) {
            return;
        }
        if matches!(context.stage, Stage::Waiting) {
            self.give_up_waiting(key);
            return self.refuse_open_call(now, key, out);
        }
        let Some(forking) = context.forking() else {
            return self.finish(now, key, 500, "Server Internal Error", out);
        };
        if forking.timer_c > now {
            // It was put off by a provisional response.
            let later = forking.timer_c;
            return self.arm_context(key, later);
        }
        if !forking.closed {
            // §16.8: as if 408 had come, whatever the cancelled branches say.
            forking.best.consider(408, None);
            self.close_forking(now, key, out);
            return self.conclude(now, key, out);
        }
        let clients = forking_clients(forking);
        self.abandon_branches(clients);
        let Some(forking) = self.contexts.get_mut(key).and_then(|context| context.forking()) else { return };
        for branch in &mut forking.branches {
            branch.state = BranchState::Done;
        }
        self.conclude(now, key, out);
    }

    fn abandon_branches(&mut self, clients: Vec<Key>) {
        for client in clients {
            self.table.remove(client);
        }
    }
}

fn forking_clients(forking: &Forking) -> Vec<Key> {
    forking
        .branches
        .iter()
        .filter_map(|branch| match branch.state {
            BranchState::Trying { client, .. } | BranchState::Proceeding { client, .. } => Some(client),
            BranchState::Resolving | BranchState::Done => None,
        })
        .collect()
}

fn forking_own_routes(stage: &Stage) -> usize {
    match stage {
        Stage::Forking(forking) => forking.purpose.own_routes,
        _ => 0,
    }
}

fn destination_of(stage: &Stage, index: usize) -> Option<&crate::proxy::Destination> {
    match stage {
        Stage::Forking(forking) => forking.branches.get(index).map(|branch| &branch.destination),
        _ => None,
    }
}

/// What a status that no peer sent is called.
fn concluded(status: u16) -> (u16, &'static str) {
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
