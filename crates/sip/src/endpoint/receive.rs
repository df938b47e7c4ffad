//! What arrives: parsed, checked, matched to a transaction, or new (RFC 3261 §18, §17.1.3, §17.2.3).

use std::net::SocketAddr;

use stdx::Instant;
use stdx::slab::Key;

use super::proxy_core::BranchResponse;
use super::{Context, Effect, Endpoint, Intake, Outbox, Timer, TraceEvent, Traced, User};
use crate::limits;
use crate::transaction::{Machine, ServerInvite, ServerOther, Tell, Turn};
use crate::transport::{Packet, Source, Target, Transmit, TransmitId, Transport, is_reliable};
use crate::wire::{self, Header, Message, Method, ParseError, Reply};

/// A client transaction that ended without a final response; it is in no table any more.
pub(super) struct Failed {
    user: User,
    pub(super) client: Key,
    pub(super) hop: (SocketAddr, Transport),
    pub(super) status: u16,
}

impl Endpoint {
    /// One whole message from the network.
    pub fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        let Packet { bytes, source } = packet;
        let message = match Message::parse(bytes.clone()) {
            Ok(message) => message,
            Err(ParseError::Unfinished) => return self.handle_unfinished(now, &bytes, &source, out),
            Err(_) => {
                self.counters.unparsable += 1;
                return;
            }
        };
        if !self.traced.is_empty() {
            self.trace(&message, source.remote, source.local, out);
        }
        if message.is_request() {
            self.counters.requests += 1;
            self.handle_request(now, message, source, out);
        } else {
            self.counters.responses += 1;
            self.handle_response(now, &message, &source, out);
        }
    }

    /// A header without the empty line that ends it (RFC 3261 §7). A request is answered as far as it came (§21.4.1),
    /// so that the sender's author learns what is missing; anything else is counted.
    fn handle_unfinished(&mut self, now: Instant, bytes: &[u8], source: &Source, out: &mut Outbox) {
        let line_end: &[u8] = if bytes.ends_with(b"\n") { b"\r\n" } else { b"\r\n\r\n" };
        let finished = Message::parse([bytes, line_end].concat().into());
        let is_answered = |message: &Message| {
            message.is_request() && message.method() != Method::Ack && message.top_via().is_some()
        };
        match finished.ok().filter(is_answered) {
            Some(request) => {
                self.counters.malformed += 1;
                self.reply_stateless(now, &request, source, 400, "Missing Empty Line", out);
            }
            None => self.counters.unfinished += 1,
        }
    }

    fn handle_request(&mut self, now: Instant, request: Message, source: Source, out: &mut Outbox) {
        let method = request.method();
        if let Err(fault) = wire::check_request(&request) {
            self.counters.malformed += 1;
            // Without a Via there is nowhere to answer.
            if method != Method::Ack && request.header(Header::Via).is_some() {
                self.reply_stateless(now, &request, &source, fault.status, fault.reason, out);
            }
            return;
        }
        let Some(request) = self.without_untrusted_identity(request, &source) else { return };
        let Some(via) = request.top_via() else { return };
        let hash = self.table.server_hash(&request, &via, method);
        self.note_tag(now, &request, &source, &via, out);
        let known = self.table.find(hash);
        // RFC 6026 §7.1: an ACK that finds its INVITE accepted is for the callee. COMPAT(RFC 2543 callers): theirs
        // has the INVITE's branch, or none.
        if let Some(key) = known.filter(|&key| method != Method::Ack || !self.table.is_accepted(key)) {
            return self.handle_known_request(now, key, &request, out);
        }
        match method {
            Method::Ack if self.take_ack(now, &request, out) => {}
            Method::Ack => self.handle_stray_ack(now, request, source, out),
            Method::Cancel => self.handle_cancel(now, &request, &source, out),
            _ => self.handle_new_request(now, hash, request, source, out),
        }
    }

    fn handle_known_request(&mut self, now: Instant, key: Key, request: &Message, out: &mut Outbox) {
        let Some(transaction) = self.table.get_mut(key) else { return };
        let method = request.method();
        if let Some(credit) = &mut transaction.credit {
            credit.pay(request.bytes().len());
        }
        let turn = match &mut transaction.machine {
            Machine::ServerInvite(machine) if method == Method::Ack => machine.handle_ack(now),
            Machine::ServerInvite(machine) => machine.handle_retransmission(),
            Machine::ServerOther(machine) => machine.handle_retransmission(),
            Machine::ClientInvite(_) | Machine::ClientOther(_) => return,
        };
        if method != Method::Ack {
            self.counters.retransmissions_received += 1;
        }
        self.perform(key, turn, out);
    }

    fn handle_new_request(
        &mut self,
        now: Instant,
        hash: u64,
        request: Message,
        source: Source,
        out: &mut Outbox,
    ) {
        if !self.is_admitted(now, &request, &source) {
            self.counters.unproved_limited += 1;
            // The flood may be forged and this its owner, who answers the challenge: that costs no memory, as a SYN cookie.
            if let Some(challenge) = self.challenge_alone(now, &request, &source) {
                self.transmit_alone(now, &request, &source, challenge, out);
            }
            return;
        }
        if self.is_full() || self.intake != Intake::Open && !self.is_within_dialog(&request) {
            self.counters.shed += 1;
            return self.reply_unavailable(now, &request, &source, out);
        }
        if let Some((status, reason)) = self.refuse_by_hops(&request) {
            if request.method() == Method::Invite && self.is_within_dialog(&request) {
                // Its ACK has a Route of ours: only a transaction keeps it from the callee.
                let context = self.open(now, hash, request, source, out);
                return self.finish(now, context, status, reason, out);
            }
            return self.reply_stateless(now, &request, &source, status, reason, out);
        }
        if let Some(refusal) = self.challenge_without_state(now, &request, &source) {
            self.counters.challenged += 1;
            return self.transmit_alone(now, &request, &source, refusal, out);
        }
        let context = self.open(now, hash, request, source, out);
        self.dispatch(now, context, out);
    }

    /// Whether a new request is looked at: those of unproved networks are paced.
    fn is_admitted(&mut self, now: Instant, request: &Message, source: &Source) -> bool {
        let Some(via) = request.top_via() else { return false };
        self.is_proved(now, source, &via)
            || self.proofs.admits(now, source.remote.ip())
            || self.has_genuine_nonce(now, request, source)
    }

    /// A server transaction and the context that owes its final response.
    fn open(&mut self, now: Instant, hash: u64, request: Message, source: Source, out: &mut Outbox) -> Key {
        let reliable = is_reliable(source.transport);
        let target = reply_target(&request, &source);
        let credit = self.credit(now, &request, &source, target.remote);
        let machine = if request.method() == Method::Invite {
            self.counters.invites += 1;
            let trying = Reply::new(&request, source.remote, 100, "Trying", None).finish();
            Machine::ServerInvite(ServerInvite::start(now, trying, reliable))
        } else {
            Machine::ServerOther(ServerOther::start(now, reliable))
        };
        let server = self.table.insert(hash, machine, target, User::Nobody);
        let context = self.contexts.insert(Context::new(server, request, source, 0));
        self.arm_context(context, now + limits::CONTEXT_PATIENCE);
        if let Some(transaction) = self.table.get_mut(server) {
            transaction.user = User::Context(context);
            transaction.credit = credit;
        }
        self.perform(server, Turn::default(), out);
        context
    }

    /// RFC 3261 §9.2: 200 to the CANCEL, then the branches of its INVITE are cancelled.
    fn handle_cancel(&mut self, now: Instant, cancel: &Message, source: &Source, out: &mut Outbox) {
        let Some(via) = cancel.top_via() else { return };
        let invite = self.table.find(self.table.server_hash(cancel, &via, Method::Invite));
        let Some(invite) = invite else {
            return self.reply_stateless(now, cancel, source, 481, "Call/Transaction Does Not Exist", out);
        };
        self.reply_stateless(now, cancel, source, 200, "OK", out);
        if let Some(User::Context(context)) = self.table.get(invite).map(|tx| tx.user) {
            self.cancel_context(now, context, out);
        }
    }

    fn handle_response(&mut self, now: Instant, response: &Message, source: &Source, out: &mut Outbox) {
        if wire::check_response(response).is_err() {
            self.counters.unparsable += 1;
            return;
        }
        let branch = response.top_via().and_then(|via| via.branch()).unwrap_or_default();
        let hash = self.table.client_hash(branch, response.method_name());
        let Some(key) = self.table.find(hash) else {
            // RFC 6026 §8.9: a proxy must not forward a stray response.
            self.counters.stray_responses += 1;
            return;
        };
        let Some(transaction) = self.table.get_mut(key) else { return };
        if transaction.user.forwards() && response.values(Header::Via).nth(1).is_none() {
            // §16.7 step 3: without a second Via it is for nobody.
            self.counters.stray_responses += 1;
            return;
        }
        let turn = match &mut transaction.machine {
            Machine::ClientInvite(machine) => machine.handle_response(now, response),
            Machine::ClientOther(machine) => machine.handle_response(now, response.status()),
            Machine::ServerInvite(_) | Machine::ServerOther(_) => return,
        };
        let user = transaction.user;
        // The transaction may be gone after its turn.
        let from = transaction.target.received();
        if source.transport == Transport::Udp && source.remote == transaction.target.remote {
            self.note_receipt(now, source.remote, out);
        }
        if let Some(Tell::Response) = self.perform(key, turn, out) {
            self.tell_response(now, user, &BranchResponse { client: key, from, message: response }, out);
        }
    }

    fn tell_response(
        &mut self,
        now: Instant,
        user: User,
        branch_response: &BranchResponse<'_>,
        out: &mut Outbox,
    ) {
        let (key, response) = (branch_response.client, branch_response.message);
        let server = match user {
            User::Context(context) => self.contexts.get(context).map(|context| context.server),
            User::Late { server, .. } => Some(server),
            _ => None,
        };
        let rewritten = server.and_then(|server| self.response_across_border(key, server, response));
        let response = rewritten.as_ref().unwrap_or(response);
        let branch_response = &BranchResponse { client: key, from: branch_response.from, message: response };
        match user {
            User::Context(context) => self.handle_branch_response(now, context, branch_response, out),
            User::Late { server, edit } => self.forward_response(now, server, edit, branch_response, out),
            User::Session(id) => self.handle_own_response(now, id, key, response, out),
            User::Probe(id) if response.status() >= 200 => {
                out.push(Effect::Probed { id, status: response.status() });
            }
            User::Notifier(id) if response.status() >= 200 => {
                self.handle_notify_result(now, id, response.status(), out);
            }
            User::Probe(_) | User::Notifier(_) | User::Nobody => {}
        }
    }

    pub(super) fn handle_transaction_timer(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(transaction) = self.table.disarm(now, key) else { return };
        let turn = transaction.machine.handle_timer(now);
        let failed =
            Failed { user: transaction.user, client: key, hop: transaction.target.hop(), status: 408 };
        if turn.send.as_ref().is_some_and(|bytes| !bytes.starts_with(b"SIP/2.0 100")) {
            self.counters.retransmissions_sent += 1;
        }
        match self.perform(key, turn, out) {
            Some(Tell::Timeout) => self.tell_failure(now, &failed, out),
            // Timer H: the caller never acknowledged; its context was answered long ago.
            Some(Tell::NoAck) => self.counters.timeouts += 1,
            Some(Tell::Slow) => self.send_trying(now, key, out),
            Some(Tell::Response) | None => {}
        }
    }

    /// The server could not send what `report` names.
    pub fn handle_send_failed(&mut self, now: Instant, report: TransmitId, out: &mut Outbox) {
        let key = Key::from_u64(report.0);
        let Some(transaction) = self.table.get(key) else { return };
        // A response, or an ACK, that cannot be sent is repeated on request; a request fails over (§16.9).
        if !transaction.machine.awaits_response() {
            return;
        }
        self.trace_refused(key, out);
        let Some(transaction) = self.table.get(key) else { return };
        let failed =
            Failed { user: transaction.user, client: key, hop: transaction.target.hop(), status: 503 };
        self.table.remove(key);
        self.tell_failure(now, &failed, out);
    }

    fn tell_failure(&mut self, now: Instant, failed: &Failed, out: &mut Outbox) {
        self.counters.timeouts += 1;
        match failed.user {
            User::Context(context) => self.handle_branch_failure(now, context, failed, out),
            User::Probe(id) => out.push(Effect::Probed { id, status: failed.status }),
            User::Notifier(id) => self.handle_notify_result(now, id, 408, out),
            User::Session(id) => self.handle_own_failure(now, id, failed.hop, failed.status, out),
            User::Late { .. } | User::Nobody => {}
        }
    }

    /// RFC 4320 §4.1: a 100 once the client of a non-INVITE request repeats it only every T2.
    fn send_trying(&mut self, now: Instant, server: Key, out: &mut Outbox) {
        let Some(User::Context(context)) = self.table.get(server).map(|tx| tx.user) else { return };
        let Some(context) = self.contexts.get(context) else { return };
        let trying = Reply::new(&context.request, context.source.remote, 100, "Trying", None).finish();
        self.respond(now, server, 100, trying, out);
    }

    pub(super) fn is_full(&self) -> bool {
        self.contexts.len() >= limits::CONTEXTS || self.table.len() >= limits::TRANSACTIONS
    }

    /// Carries out a transaction's turn, but for what it tells.
    pub(super) fn perform(&mut self, key: Key, turn: Turn, out: &mut Outbox) -> Option<Tell> {
        if let Some(bytes) = turn.send
            && self.is_covered(key, &bytes)
            && let Some(transaction) = self.table.get(key)
        {
            let target = transaction.target.clone();
            self.transmit(target, bytes, Some(TransmitId(key.to_u64())), out);
        }
        if let Some(deadline) = self.table.settle(key) {
            self.wheel.insert(deadline, Timer::Transaction(key));
        }
        turn.tell
    }

    pub(super) fn transmit(
        &mut self,
        target: Target,
        bytes: bytes::Bytes,
        report: Option<TransmitId>,
        out: &mut Outbox,
    ) {
        if !self.traced.is_empty()
            && let Ok(message) = Message::parse(bytes.clone())
        {
            let from = target.local.unwrap_or(target.remote);
            self.trace(&message, from, target.remote, out);
        }
        out.push(Effect::Transmit(Transmit { target, bytes, report }));
    }

    fn trace(&self, message: &Message, from: SocketAddr, to: SocketAddr, out: &mut Outbox) {
        self.trace_as(Traced::Message, message, (from, to), out);
    }

    /// A request that could not be sent: the trace shows which attempt it was.
    fn trace_refused(&self, key: Key, out: &mut Outbox) {
        if self.traced.is_empty() {
            return;
        }
        let Some(transaction) = self.table.get(key) else { return };
        let request = transaction.machine.request().and_then(|bytes| Message::parse(bytes.clone()).ok());
        if let Some(request) = request {
            let target = &transaction.target;
            let ends = (target.local.unwrap_or(target.remote), target.remote);
            self.trace_as(Traced::Refused(target.transport), &request, ends, out);
        }
    }

    fn trace_as(
        &self,
        traced: Traced,
        message: &Message,
        (from, to): (SocketAddr, SocketAddr),
        out: &mut Outbox,
    ) {
        let names = |address: Option<wire::Address<'_>>, account: &str| {
            address.is_some_and(|a| memchr::memmem::find(a.uri, account.as_bytes()).is_some())
        };
        for account in &self.traced {
            if names(message.from(), account) || names(message.to(), account) {
                let bytes = message.bytes().clone();
                let account = account.clone();
                out.push(Effect::Trace(TraceEvent { account, from, to, traced, bytes }));
            }
        }
    }
}

/// Where responses to a request go: RFC 3261 §18.2.2, RFC 3581 §4.
pub(super) fn reply_target(request: &Message, source: &Source) -> Target {
    // A WebSocket client cannot be connected to; of a connection that is gone, the sent-by port is left.
    let is_websocket = matches!(source.transport, Transport::Ws | Transport::Wss);
    let via = request.top_via().filter(|_| !is_websocket);
    let remote = via.map_or(source.remote, |via| reply_address(&via, source));
    Target {
        transport: source.transport,
        remote,
        flow: source.flow,
        local: Some(source.local),
        tls_name: None,
        reconnect: !is_websocket,
    }
}

/// The source's address, with the port of the Via where the client asks for that.
pub(super) fn reply_address(via: &wire::Via<'_>, source: &Source) -> SocketAddr {
    let mut remote = source.remote;
    if is_reliable(source.transport) || via.rport().is_none() {
        let default = if source.transport == Transport::Tls { 5061 } else { 5060 };
        remote.set_port(via.port.unwrap_or(default));
    }
    remote
}
