//! Messages from the network: parsed, checked, matched to a transaction, or new (RFC 3261 §18, §17.1.3, §17.2.3).

use std::net::SocketAddr;

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::context::TransactionUser;
use super::environment::Environment;
use super::environment::loops::{is_own_tag, route_after};
use super::ladders::Passage;
use super::lower::LowerView;
use super::proxy_core::{BranchResponse, ForwardedAck, ProxyCore};
use super::shared_response::share_of_context;
use super::takeover::{forward_cancel, handle_response_of_other_life};
use super::transactions::reply_target;
use super::{Caller, Endpoint, EndpointOutbox, Intake, RequestContext};
use crate::limits;
use crate::transaction::{TransactionEvent, TransactionMachine};
use crate::transport::{Packet, Source, TransmitId, Transport};
use crate::wire::{self, Header, Message, Method, ParseError, Reply, Unparsed};

/// The time that a client is told to wait when a shard is behind; short, since shards recover within a second.
const RETRY_AFTER_OVERLOAD: &[u8] = b"5";
/// The time that a client is told to wait when the process leaves.
const RETRY_AFTER_DRAIN: &[u8] = b"30";

/// A client transaction that ended without a final response; it is in no table any more.
pub(super) struct FailedTransaction {
    pub(super) user: TransactionUser,
    pub(super) client: Key,
    pub(super) hop: (SocketAddr, Transport),
    pub(super) status: u16,
}

/// The way by which a response came to its transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum ResponseOrigin<'a> {
    /// From the network.
    Network(&'a Source),
    /// Another node has got it, and has no transaction for it.
    Shared,
    /// Another node has got it, and has forwarded it to the caller.
    Forwarded,
}

impl Endpoint {
    /// One whole message from the network.
    pub fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut EndpointOutbox) {
        let Packet { bytes, source } = packet;
        let message = match Message::parse_packet(bytes) {
            Ok(message) => message,
            Err(Unparsed { error: ParseError::Unfinished, bytes }) => {
                return self.lower.at(now, out).handle_unfinished(&bytes, &source);
            }
            Err(_) => {
                self.lower.counters.unparsable += 1;
                return;
            }
        };
        self.lower.transactions.trace_received(&message, source.remote, source.local, out);
        if message.is_request() {
            self.lower.counters.requests += 1;
            self.handle_request(now, message, source, out);
        } else {
            self.lower.counters.responses += 1;
            self.handle_response(now, &message, &source, out);
        }
    }

    fn handle_request(&mut self, now: Instant, request: Message, source: Source, out: &mut EndpointOutbox) {
        let method = request.method();
        if let Err(fault) = wire::check_request(&request) {
            self.lower.counters.malformed += 1;
            // Without a Via there is nowhere to answer.
            if method != Method::Ack && request.header(Header::Via).is_some() {
                self.lower.at(now, out).reply_stateless(&request, &source, fault.status, fault.reason);
            }
            return;
        }
        let Some(request) = self.lower.env.without_untrusted_identity(request, &source) else { return };
        let Some(via) = request.top_via() else { return };
        let transactions = &mut self.lower.transactions;
        let hash = transactions.table.server_hash(&request, &via, method);
        transactions.note_tag(now, &request, &source, &via, || self.lower.env.tag_of(&request, &source));
        self.cores.user_agent.begin_proved_calls(&mut self.lower.at(now, out));
        let known = self.lower.transactions.table.find(hash);
        // RFC 6026 §7.1: an ACK that finds its INVITE accepted is for the callee. COMPAT(RFC 2543 callers): theirs
        // has the INVITE's branch, or none.
        let is_known = |key: &Key| method != Method::Ack || !self.lower.transactions.table.is_accepted(*key);
        if let Some(key) = known.filter(is_known) {
            return self.lower.at(now, out).handle_known_request(key, &request);
        }
        self.lower.transactions.ladders.handle_request(now, source.remote, &request);
        match method {
            Method::Ack if self.cores.user_agent.take_ack(&mut self.lower.at(now, out), &request) => {}
            Method::Ack => self.handle_stray_ack(now, request, source, out),
            Method::Cancel => self.handle_cancel(now, hash, request, source, out),
            _ => self.handle_new_request(now, hash, request, source, out),
        }
    }

    fn handle_new_request(
        &mut self,
        now: Instant,
        hash: u64,
        request: Message,
        source: Source,
        out: &mut EndpointOutbox,
    ) {
        let is_admitted =
            self.cores.router.authentication.admits(&mut self.lower.at(now, out), &request, &source);
        let is_shed = is_admitted && self.is_shed(&request);
        let authentication = &mut self.cores.router.authentication;
        let lower = &mut self.lower.at(now, out);
        if !is_admitted {
            lower.counters.unproved_limited += 1;
            // The flood may be forged and this request genuine; its sender answers the challenge: that costs
            // no memory, as a SYN cookie.
            if let Some(challenge) = authentication.challenge_alone(lower, &request, &source) {
                lower.transmit_alone(&request, &source, challenge);
            }
            return;
        }
        if is_shed {
            let is_draining = self.intake == Intake::Draining;
            let wait = if is_draining { RETRY_AFTER_DRAIN } else { RETRY_AFTER_OVERLOAD };
            return lower.transmit_alone(&request, &source, unavailable(lower.env, &request, &source, wait));
        }
        if let Some((status, reason)) = lower.refuse_by_hops(&request) {
            if request.method() == Method::Invite && self.cores.is_within_dialog(&self.lower, &request) {
                // Its ACK has a Route of ours: only a transaction keeps it from the callee.
                let lower = &mut self.lower.at(now, out);
                let context = lower.open(hash, request, source);
                return lower.finish(context, status, reason);
            }
            return self.lower.at(now, out).reply_stateless(&request, &source, status, reason);
        }
        if let Some(refusal) = authentication.challenge_without_state(lower, &request, &source) {
            lower.counters.challenged += 1;
            return lower.transmit_alone(&request, &source, refusal);
        }
        let context = lower.open(hash, request, source);
        self.cores.dispatch(lower, context);
    }

    /// True if a new request is not taken: there is no room, or the shard takes requests within dialogs only.
    fn is_shed(&mut self, request: &Message) -> bool {
        let is_shed = self.lower.is_full()
            || self.intake != Intake::Open && !self.cores.is_within_dialog(&self.lower, request);
        self.lower.counters.shed += u64::from(is_shed);
        is_shed
    }

    /// An ACK that matches no transaction of ours: to a 2xx (RFC 3261 §13.2.2.4, §16.11), or to an error
    /// response that we sent without a transaction. An ACK has no answer.
    fn handle_stray_ack(&mut self, now: Instant, ack: Message, source: Source, out: &mut EndpointOutbox) {
        let env = &self.lower.env;
        let ack = env.restore_strictly_routed(&ack).unwrap_or(ack);
        if ack.max_forwards() == Some(Some(0)) {
            return;
        }
        let own = env.own_routes(&ack);
        if let Some(within) = &own.within {
            let forwarded = ForwardedAck::within(ack, source, own.count, within);
            return ProxyCore::new(&mut self.lower.at(now, out)).forward_ack(forwarded);
        }
        // To our own error response: its tag is made of the branch, which such an ACK has from its INVITE. By a
        // Route that we did not write, or round in a loop, nothing is relayed.
        let is_to_us = is_own_tag(env, &ack, &source);
        if is_to_us || route_after(&ack, own.count).is_some() || env.is_loop(&ack) {
            return;
        }
        // Not by a dialog that was let through: it is new work like any other.
        if self.is_shed(&ack) {
            return;
        }
        // COMPAT(sipp): its built-in uac keeps no Route; the ACK goes where its INVITE went. The context has
        // no server transaction, so that no answer can come of it.
        let lower = &mut self.lower.at(now, out);
        let key = lower.contexts.insert(RequestContext::new(Key::from_u64(0), ack, source, own.count));
        lower.arm_context(key, now + limits::CONTEXT_PATIENCE);
        self.cores.router.plan(lower, key, Caller::Stranger);
    }

    /// RFC 3261 §9.2: 200 to the CANCEL, then the branches of its INVITE are cancelled.
    fn handle_cancel(
        &mut self,
        now: Instant,
        hash: u64,
        cancel: Message,
        source: Source,
        out: &mut EndpointOutbox,
    ) {
        let Some(via) = cancel.top_via() else { return };
        let table = &self.lower.transactions.table;
        let invite = table.find(table.server_hash(&cancel, &via, Method::Invite));
        if invite.is_none() && self.lower.env.is_in_farm() {
            return forward_cancel(self, now, hash, cancel, source, out);
        }
        let lower = &mut self.lower.at(now, out);
        let Some(invite) = invite else {
            return lower.reply_stateless(&cancel, &source, 481, "Call/Transaction Does Not Exist");
        };
        lower.reply_stateless(&cancel, &source, 200, "OK");
        if let Some(TransactionUser::Context(context)) =
            lower.transactions.table.get(invite).map(|tx| tx.user)
        {
            self.cores.cancel_context(lower, context, &cancel);
        }
    }

    fn handle_response(
        &mut self,
        now: Instant,
        response: &Message,
        source: &Source,
        out: &mut EndpointOutbox,
    ) {
        if wire::check_response(response).is_err() {
            self.lower.counters.unparsable += 1;
            return;
        }
        let branch = wire::top_branch(response).unwrap_or_default();
        let table = &self.lower.transactions.table;
        let hash = table.client_hash(branch, response.method_name());
        let Some(key) = table.find(hash) else {
            // RFC 6026 §8.9: a proxy must not forward a stray response. One to a request of another life is none.
            if !handle_response_of_other_life(&mut self.lower.at(now, out), response, hash) {
                self.lower.counters.stray_responses += 1;
            }
            return;
        };
        give_response(self, now, key, response, ResponseOrigin::Network(source), out);
    }

    pub(super) fn handle_transaction_timer(&mut self, now: Instant, key: Key, out: &mut EndpointOutbox) {
        let Some(transaction) = self.lower.transactions.table.disarm(now, key) else { return };
        let turn = transaction.machine.handle_timer(now);
        let failed = FailedTransaction {
            user: transaction.user,
            client: key,
            hop: transaction.target().hop(),
            status: 408,
        };
        if turn.send.as_ref().is_some_and(|bytes| !bytes.starts_with(b"SIP/2.0 100")) {
            self.lower.counters.retransmissions_sent += 1;
        }
        let lower = &mut self.lower.at(now, out);
        match lower.perform(key, turn) {
            Some(TransactionEvent::Timeout) => {
                self.cores.handle_failure(&mut self.lower.at(now, out), &failed);
            }
            // Timer H: the caller never acknowledged; its context was answered long ago.
            Some(TransactionEvent::NoAck) => lower.counters.timeouts += 1,
            Some(TransactionEvent::Slow) => lower.send_trying(key),
            Some(TransactionEvent::Response) | None => {}
        }
    }

    /// The server could not send what `report` names.
    pub fn handle_send_failed(&mut self, now: Instant, report: TransmitId, out: &mut EndpointOutbox) {
        let key = Key::from_u64(report.0);
        let transactions = &mut self.lower.transactions;
        let Some(transaction) = transactions.table.get(key) else { return };
        // A response, or an ACK, that cannot be sent is repeated on request; a request fails over (§16.9).
        if !transaction.machine.awaits_response() {
            return;
        }
        if transaction.is_in_ladder()
            && let Some(request) = transaction.machine.request()
        {
            let to = transaction.target().remote;
            transactions.ladders.note_sent(now, to, request, Passage::Refused);
        }
        transactions.trace_refused(key, out);
        let failed = FailedTransaction {
            user: transaction.user,
            client: key,
            hop: transaction.target().hop(),
            status: 503,
        };
        transactions.table.remove(key);
        self.cores.handle_failure(&mut self.lower.at(now, out), &failed);
    }

    /// A stream broke the rules. If its bytes are the head of a request, that is answered before the end.
    pub fn handle_stream_fault(
        &mut self,
        source: Source,
        head: Bytes,
        reply: (u16, &str),
        out: &mut EndpointOutbox,
    ) {
        self.lower.counters.malformed += 1;
        let Ok(request) = Message::parse(head) else { return };
        if request.is_request() && request.method() != Method::Ack && request.top_via().is_some() {
            let (status, reason) = reply;
            let tag = self.lower.env.tag_of(&request, &source);
            let bytes = Reply::new(&request, source.remote, status, reason, Some(&tag)).finish();
            self.lower.transactions.transmit(reply_target(&request, &source), bytes, None, out);
        }
    }
}

/// Gives a response to its client transaction, and to the user of that.
pub(super) fn give_response(
    endpoint: &mut Endpoint,
    now: Instant,
    key: Key,
    response: &Message,
    origin: ResponseOrigin<'_>,
    out: &mut EndpointOutbox,
) {
    let transactions = &mut endpoint.lower.transactions;
    let Some(transaction) = transactions.table.get_mut(key) else { return };
    if transaction.user.forwards() && response.values(Header::Via).nth(1).is_none() {
        // §16.7 step 3: a response without a second Via has no receiver.
        endpoint.lower.counters.stray_responses += 1;
        return;
    }
    let turn = match &mut transaction.machine {
        TransactionMachine::ClientInvite(machine) => machine.handle_response(now, response),
        TransactionMachine::ClientOther(machine) => machine.handle_response(now, response.status()),
        TransactionMachine::ServerInvite(_) | TransactionMachine::ServerOther(_) => return,
    };
    let user = transaction.user;
    // The transaction may be gone after its turn.
    let target = transaction.target();
    if transaction.is_in_ladder()
        && let ResponseOrigin::Network(source) = origin
    {
        transactions.ladders.note_received(now, source.remote, response);
    }
    if let ResponseOrigin::Network(source) = origin
        && source.transport == Transport::Udp
        && source.remote == target.remote
    {
        transactions.note_receipt(now, source.remote);
    }
    endpoint.cores.user_agent.begin_proved_calls(&mut endpoint.lower.at(now, out));
    let is_off_slot = endpoint.lower.is_of_off_slot(user);
    let lower = &mut endpoint.lower.at(now, out);
    if let Some(TransactionEvent::Response) = lower.perform(key, turn) {
        lower.is_sent_elsewhere = matches!(origin, ResponseOrigin::Forwarded);
        let branch_response = BranchResponse { client: key, from: target.received(), message: response };
        endpoint.cores.handle_response(lower, user, &branch_response);
        if !matches!(origin, ResponseOrigin::Forwarded) && user.forwards() {
            share_of_context(lower, response, is_off_slot);
        }
    }
}

impl LowerView<'_> {
    /// A header without the empty line that ends it (RFC 3261 §7). A request is answered as far as it came (§21.4.1),
    /// so that the sender's author learns what is missing; anything else is counted.
    fn handle_unfinished(&mut self, bytes: &[u8], source: &Source) {
        let line_end: &[u8] = if bytes.ends_with(b"\n") { b"\r\n" } else { b"\r\n\r\n" };
        let finished = Message::parse([bytes, line_end].concat().into());
        let is_answered = |message: &Message| {
            message.is_request() && message.method() != Method::Ack && message.top_via().is_some()
        };
        match finished.ok().filter(is_answered) {
            Some(request) => {
                self.counters.malformed += 1;
                self.reply_stateless(&request, source, 400, "Missing Empty Line");
            }
            None => self.counters.unfinished += 1,
        }
    }

    fn handle_known_request(&mut self, key: Key, request: &Message) {
        let Some(transaction) = self.transactions.table.get_mut(key) else { return };
        let method = request.method();
        if transaction.is_in_ladder() {
            let from = transaction.target().remote;
            self.transactions.ladders.note_received(self.now, from, request);
        }
        if let Some(credit) = &mut transaction.credit {
            credit.pay(request.bytes().len());
        }
        let turn = match &mut transaction.machine {
            TransactionMachine::ServerInvite(machine) if method == Method::Ack => {
                machine.handle_ack(self.now)
            }
            TransactionMachine::ServerInvite(machine) => machine.handle_retransmission(),
            TransactionMachine::ServerOther(machine) => machine.handle_retransmission(),
            TransactionMachine::ClientInvite(_) | TransactionMachine::ClientOther(_) => return,
        };
        if method != Method::Ack {
            self.counters.retransmissions_received += 1;
        }
        if let Some(TransactionEvent::Slow) = self.perform(key, turn) {
            self.send_trying(key);
        }
    }

    /// RFC 3261 §16.3 steps 3 and 4, RFC 5393 §4.2.
    fn refuse_by_hops(&mut self, request: &Message) -> Option<(u16, &'static str)> {
        // §16.3 step 3 is a proxy's: OPTIONS and REGISTER may be for ourselves.
        let may_be_ours = matches!(request.method(), Method::Options | Method::Register);
        if request.max_forwards() == Some(Some(0)) && !may_be_ours {
            self.counters.too_many_hops += 1;
            return Some((483, "Too Many Hops"));
        }
        if self.env.is_loop(request) {
            self.counters.loops += 1;
            return Some((482, "Loop Detected"));
        }
        None
    }
}

/// A 503 with Retry-After (RFC 3261 §21.5.4): the shard takes no new work.
fn unavailable(env: &Environment, request: &Message, source: &Source, wait: &[u8]) -> Bytes {
    let tag = env.tag_of(request, source);
    let mut reply = Reply::new(request, source.remote, 503, "Service Unavailable", Some(&tag));
    reply.header("Retry-After", wait);
    reply.finish()
}
