//! The transactions of an endpoint: the messages of [`crate::transaction`]'s machines go out here, as far as
//! an unproved source has paid for it, and its timers are kept.

mod proof;

use std::net::SocketAddr;

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;
use stdx::wheel::Wheel;

pub(crate) use self::proof::SourceCredit;
pub(crate) use self::proof::SourceProofs;
use super::ladders::{CallLadders, Passage};
use super::{EndpointEffect, EndpointOutbox, TraceEvent, Traced, TracedAccount, TransactionUser};
use crate::limits;
use crate::transaction::{
    ClientInvite, ClientOther, TransactionEvent, TransactionMachine, TransactionOutput, TransactionTable,
};
use crate::transport::{Source, Target, Transmit, TransmitId, Transport, is_reliable};
use crate::wire::{self, Message, Method, RequestBuilder, Uri};

/// All transactions of one endpoint, and the sources over UDP that they were proved by.
pub(crate) struct Transactions {
    pub(crate) table: TransactionTable<TransactionUser>,
    pub(crate) proofs: SourceProofs,
    wheel: Wheel<Key>,
    /// Accounts whose messages are traced.
    pub(crate) traced: Vec<TracedAccount>,
    /// The messages of recent calls.
    pub(crate) ladders: CallLadders,
}

/// A request that is written, and the key of its client transaction.
pub(crate) struct ReadyRequest {
    bytes: Bytes,
    /// The hash of the branch of its topmost Via and of its method, by which responses find the transaction (RFC 3261 §17.1.3).
    hash: u64,
    is_invite: bool,
    /// Its call has a ladder.
    pub(crate) is_in_ladder: bool,
}

impl ReadyRequest {
    /// The request, as on the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Transactions {
    pub(crate) fn new(
        table: TransactionTable<TransactionUser>,
        proofs: SourceProofs,
        ladders: CallLadders,
        now: Instant,
    ) -> Self {
        Transactions { table, proofs, wheel: Wheel::new(now), traced: Vec::new(), ladders }
    }

    /// Moves transactions whose timers are due to `due`.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Vec<Key>) {
        self.wheel.expire(now, due);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// A request that is written, with the branch of its topmost Via and its method.
    pub(crate) fn ready(&self, bytes: Bytes, branch: &[u8], method: &[u8]) -> ReadyRequest {
        let is_invite = Method::from_bytes(method) == Method::Invite;
        let hash = self.table.client_hash(branch, method);
        ReadyRequest { bytes, hash, is_invite, is_in_ladder: false }
    }

    /// A client transaction for a request that is ready to go.
    pub(crate) fn start_client(
        &mut self,
        now: Instant,
        request: ReadyRequest,
        target: Target,
        user: TransactionUser,
        out: &mut EndpointOutbox,
    ) -> Option<Key> {
        let ReadyRequest { bytes, hash, is_invite, is_in_ladder } = request;
        if bytes.len() > limits::MESSAGE_BYTES {
            return None;
        }
        let reliable = is_reliable(target.transport);
        let (machine, turn) = if is_invite {
            let (machine, turn) = ClientInvite::start(now, bytes, reliable);
            (TransactionMachine::ClientInvite(machine), turn)
        } else {
            let (machine, turn) = ClientOther::start(now, bytes, reliable);
            (TransactionMachine::ClientOther(machine), turn)
        };
        let key = self.table.insert(hash, machine, target, user);
        if is_in_ladder {
            self.table.set_in_ladder(key);
        }
        self.perform(now, key, turn, out);
        Some(key)
    }

    /// CANCEL for the INVITE of this client transaction. `reason`: the value of its Reason, or nothing.
    pub(crate) fn send_cancel(&mut self, now: Instant, client: Key, reason: &[u8], out: &mut EndpointOutbox) {
        let Some(transaction) = self.table.get(client) else { return };
        let TransactionMachine::ClientInvite(machine) = &transaction.machine else { return };
        let Some(invite) = machine.request().and_then(parse_copy) else { return };
        // RFC 3261 §9.1: its branch is the INVITE's.
        let Some(branch) = wire::top_branch(&invite) else { return };
        let bytes = RequestBuilder::cancel(&invite, reason);
        let mut cancel = self.ready(bytes, branch, Method::Cancel.as_str().as_bytes());
        let target = transaction.target();
        cancel.is_in_ladder = self.table.is_in_ladder(client);
        self.start_client(now, cancel, target, TransactionUser::None, out);
    }

    /// Sends a response without a transaction.
    pub(crate) fn transmit_alone(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        response: bytes::Bytes,
        out: &mut EndpointOutbox,
    ) {
        if self.is_covered_alone(now, request, source, response.len()) {
            let target = reply_target(request, source);
            if self.ladders.is_any() && request.method() != Method::Register {
                self.ladders.note_sent(now, target.remote, &response, Passage::Sent);
            }
            self.transmit(target, response, None, out);
        }
    }

    /// Hands a response to a server transaction.
    pub(crate) fn respond(
        &mut self,
        now: Instant,
        server: Key,
        status: u16,
        response: bytes::Bytes,
        out: &mut EndpointOutbox,
    ) {
        let Some(transaction) = self.table.get(server) else { return };
        let is_invite = matches!(transaction.machine, TransactionMachine::ServerInvite(_));
        let target = transaction.target();
        if is_invite && (101..300).contains(&status) && target.transport == Transport::Udp {
            self.note_shown(now, &response, target.remote);
        }
        let turn = self.respond_by(now, server, status, response);
        self.perform(now, server, turn, out);
    }

    /// The client has got this response of a server transaction by another way: the transaction goes on as if it had sent it.
    pub(crate) fn note_sent(
        &mut self,
        now: Instant,
        server: Key,
        status: u16,
        response: Bytes,
        out: &mut EndpointOutbox,
    ) {
        self.respond_by(now, server, status, response);
        self.perform(now, server, TransactionOutput::default(), out);
    }

    fn respond_by(&mut self, now: Instant, server: Key, status: u16, response: Bytes) -> TransactionOutput {
        match self.table.get_mut(server).map(|transaction| &mut transaction.machine) {
            Some(TransactionMachine::ServerInvite(machine)) => machine.respond(now, status, response),
            Some(TransactionMachine::ServerOther(machine)) => machine.respond(now, status, response),
            Some(TransactionMachine::ClientInvite(_) | TransactionMachine::ClientOther(_)) | None => {
                TransactionOutput::default()
            }
        }
    }

    /// Performs a transaction's output, except its event.
    pub(crate) fn perform(
        &mut self,
        now: Instant,
        key: Key,
        turn: TransactionOutput,
        out: &mut EndpointOutbox,
    ) -> Option<TransactionEvent> {
        if let Some(bytes) = turn.send
            && self.is_covered(key, &bytes)
            && let Some(transaction) = self.table.get(key)
        {
            let target = transaction.target();
            if transaction.is_in_ladder() {
                self.ladders.note_sent(now, target.remote, &bytes, Passage::Sent);
            }
            self.transmit(target, bytes, Some(TransmitId(key.to_u64())), out);
        }
        if let Some(deadline) = self.table.settle(key) {
            self.wheel.insert(deadline, key);
        }
        turn.tell
    }

    pub(crate) fn transmit(
        &mut self,
        target: Target,
        bytes: bytes::Bytes,
        report: Option<TransmitId>,
        out: &mut EndpointOutbox,
    ) {
        if !self.traced.is_empty()
            && let Ok(message) = Message::parse(bytes.clone())
        {
            let from = target.local.unwrap_or(target.remote);
            self.trace_as(Traced::Message, &message, (from, target.remote), false, out);
        }
        out.push(EndpointEffect::Transmit(Transmit { target, bytes, report }));
    }

    pub(crate) fn trace_received(
        &self,
        message: &Message,
        from: SocketAddr,
        to: SocketAddr,
        out: &mut EndpointOutbox,
    ) {
        self.trace_as(Traced::Message, message, (from, to), true, out);
    }

    /// A request that could not be sent: the trace shows which attempt it was.
    pub(crate) fn trace_refused(&self, key: Key, out: &mut EndpointOutbox) {
        if self.traced.is_empty() {
            return;
        }
        let Some(transaction) = self.table.get(key) else { return };
        if let Some(request) = transaction.machine.request().and_then(parse_copy) {
            let target = transaction.target();
            let ends = (target.local.unwrap_or(target.remote), target.remote);
            self.trace_as(Traced::Refused(target.transport), &request, ends, false, out);
        }
    }

    fn trace_as(
        &self,
        traced: Traced,
        message: &Message,
        (from, to): (SocketAddr, SocketAddr),
        is_received: bool,
        out: &mut EndpointOutbox,
    ) {
        if self.traced.is_empty() {
            return;
        }
        let uris = [message.from(), message.to()].map(|address| Uri::parse(address?.uri).ok());
        for account in &self.traced {
            if uris.iter().flatten().any(|uri| account.is_named_by(uri)) {
                let bytes = message.bytes().clone();
                let account = account.account.clone();
                let event = TraceEvent { account, from, to, is_received, traced, bytes };
                out.push(EndpointEffect::Trace(event));
            }
        }
    }
}

/// The message that a transaction keeps.
fn parse_copy(bytes: &[u8]) -> Option<Message> {
    Message::parse(Bytes::copy_from_slice(bytes)).ok()
}

/// Where responses to a request go: RFC 3261 §18.2.2, RFC 3581 §4.
pub(crate) fn reply_target(request: &Message, source: &Source) -> Target {
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
pub(crate) fn reply_address(via: &wire::Via<'_>, source: &Source) -> SocketAddr {
    let mut remote = source.remote;
    if is_reliable(source.transport) || via.rport().is_none() {
        let default = if source.transport == Transport::Tls { 5061 } else { 5060 };
        remote.set_port(via.port.unwrap_or(default));
    }
    remote
}
