//! Responses of our own, through a server transaction or without one.

use stdx::Instant;
use stdx::slab::Key;

use super::receive::reply_target;
use super::{Caller, Context, Endpoint, Intake, Outbox, Stage, User};
use crate::token;
use crate::transaction::{Machine, Turn};
use crate::transport::{Source, Transport, address_bytes};
use crate::wire::{Header, Message, Method, Reply};

/// What a client is told to wait when a shard is behind; short, since shards recover within a second.
const RETRY_AFTER_OVERLOAD: &[u8] = b"5";
/// What a client is told to wait when the process leaves.
const RETRY_AFTER_DRAIN: &[u8] = b"30";

impl Endpoint {
    /// The To tag of our own responses: the same for every retransmission of a request, on any shard, and known
    /// only at the address that they go to.
    pub(super) fn tag_of(&self, request: &Message, source: &Source) -> String {
        let branch = request.top_via().and_then(|via| via.branch()).unwrap_or_default();
        let call_id = request.call_id().unwrap_or_default();
        let address = address_bytes(source.remote.ip());
        token::to_string(self.keys.branch.mac(&[b"tag", branch, call_id, &address]))
    }

    /// RFC 3261 §8.2.7: without a transaction; a retransmission is answered anew.
    pub(super) fn reply_stateless(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        status: u16,
        reason: &str,
        out: &mut Outbox,
    ) {
        let tag = self.tag_of(request, source);
        let reply = Reply::new(request, source.remote, status, reason, Some(&tag)).finish();
        self.transmit_alone(now, request, source, reply, out);
    }

    /// Sends a response without a transaction.
    pub(super) fn transmit_alone(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        response: bytes::Bytes,
        out: &mut Outbox,
    ) {
        if self.is_covered_alone(now, request, source, response.len()) {
            self.transmit(reply_target(request, source), response, None, out);
        }
    }

    pub(super) fn reply_unavailable(
        &mut self,
        now: Instant,
        request: &Message,
        source: &Source,
        out: &mut Outbox,
    ) {
        let tag = self.tag_of(request, source);
        let mut reply = Reply::new(request, source.remote, 503, "Service Unavailable", Some(&tag));
        let wait = if self.intake == Intake::Draining { RETRY_AFTER_DRAIN } else { RETRY_AFTER_OVERLOAD };
        reply.header("Retry-After", wait);
        self.transmit_alone(now, request, source, reply.finish(), out);
    }

    /// The final response to a context's request, after which the context is gone.
    pub(super) fn finish(&mut self, now: Instant, context: Key, status: u16, reason: &str, out: &mut Outbox) {
        self.finish_with(now, context, status, reason, |_| {}, out);
    }

    /// As [`finish`](Self::finish), with headers of its own.
    pub(super) fn finish_with(
        &mut self,
        now: Instant,
        key: Key,
        status: u16,
        reason: &str,
        headers: impl FnOnce(&mut Reply),
        out: &mut Outbox,
    ) {
        if status >= 300 {
            self.release(key, out);
        }
        let Some(context) = self.contexts.get(key) else { return };
        let tag = self.tag_of(&context.request, &context.source);
        let mut reply = Reply::new(&context.request, context.source.remote, status, reason, Some(&tag));
        headers(&mut reply);
        if let Stage::Proxying(proxied) = &context.stage
            && proxied.purpose().starts_call
            && status >= 300
        {
            self.note_failed(key, status, reason, out);
        }
        self.note_refused(key, status, reason, out);
        self.refuse_or_answer(now, key, status, reply.finish(), out);
    }

    /// The final response of our own to a context's request. Refusals of what is not authenticated go out once over UDP
    /// and leave nothing behind: while it has heard nothing, the client repeats its request and is refused again.
    pub(super) fn refuse_or_answer(
        &mut self,
        now: Instant,
        key: Key,
        status: u16,
        response: bytes::Bytes,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let server = context.server;
        if status < 300 || !self.is_refused_alone(context) {
            self.respond(now, server, status, response, out);
            return self.close(key);
        }
        self.perform(server, Turn { send: Some(response), tell: None }, out);
        self.table.remove(server);
        self.contexts.remove(key);
    }

    fn is_refused_alone(&self, context: &Context) -> bool {
        let is_undecided =
            matches!(context.stage, Stage::Planning { .. } | Stage::Finding { .. } | Stage::Locating { .. });
        // The ACK of a refusal within a dialog has a Route of ours: only a transaction keeps it from the callee.
        let is_outside = context.request.to_tag().is_none();
        let is_authenticated = matches!(context.caller, Some(Caller::Account(_)));
        let is_silent =
            self.table.get(context.server).is_some_and(|transaction| match &transaction.machine {
                Machine::ServerInvite(machine) => machine.is_silent(),
                Machine::ServerOther(machine) => machine.is_silent(),
                Machine::ClientInvite(_) | Machine::ClientOther(_) => false,
            });
        let is_udp = context.source.transport == Transport::Udp;
        is_udp && is_undecided && is_outside && !is_authenticated && is_silent
    }

    /// Hands a response to a server transaction.
    pub(super) fn respond(
        &mut self,
        now: Instant,
        server: Key,
        status: u16,
        response: bytes::Bytes,
        out: &mut Outbox,
    ) {
        let Some(transaction) = self.table.get_mut(server) else { return };
        let is_invite = matches!(transaction.machine, Machine::ServerInvite(_));
        if is_invite && (101..300).contains(&status) && transaction.target.transport == Transport::Udp {
            let address = transaction.target.remote;
            self.note_shown(now, &response, address);
        }
        let Some(transaction) = self.table.get_mut(server) else { return };
        let turn = match &mut transaction.machine {
            Machine::ServerInvite(machine) => machine.respond(now, status, response),
            Machine::ServerOther(machine) => machine.respond(now, status, response),
            Machine::ClientInvite(_) | Machine::ClientOther(_) => Turn::default(),
        };
        self.perform(server, turn, out);
    }

    /// Forgets a context; its server transaction lives on by its own timers.
    pub(super) fn close(&mut self, key: Key) {
        let Some(context) = self.contexts.remove(key) else { return };
        if let Some(transaction) = self.table.get_mut(context.server) {
            transaction.user = User::Nobody;
        }
    }

    /// An OPTIONS for ourselves (RFC 3261 §11.2).
    pub(super) fn answer_options(&mut self, now: Instant, context: Key, out: &mut Outbox) {
        let Some(request) = self.contexts.get(context).map(|context| &context.request) else { return };
        let unsupported = Self::unsupported(request, Header::Require, &["path", "outbound", "gruu"]);
        if !unsupported.is_empty() {
            let list = unsupported.join(&b", "[..]);
            let add = |reply: &mut Reply| {
                reply.header("Unsupported", &list);
            };
            return self.finish_with(now, context, 420, "Bad Extension", add, out);
        }
        self.finish_with(
            now,
            context,
            200,
            "OK",
            |reply| {
                reply.header("Allow", crate::wire::ALLOW.as_bytes());
                reply.header("Accept", b"*/*");
                reply.header("Supported", b"path, outbound, gruu");
                reply.header("Allow-Events", b"presence, dialog, message-summary, reg");
                reply.header("Server", crate::wire::PRODUCT.as_bytes());
            },
            out,
        );
    }

    /// RFC 3261 §8.2.2.3 and §16.3 step 5: what the request demands of us, and we do not have.
    pub(super) fn unsupported<'m>(request: &'m Message, header: Header, known: &[&str]) -> Vec<&'m [u8]> {
        request
            .values(header)
            .filter(|option| !known.iter().any(|name| option.eq_ignore_ascii_case(name.as_bytes())))
            .collect()
    }

    /// RFC 3261 §16.3 steps 3 and 4, RFC 5393 §4.2.
    pub(super) fn refuse_by_hops(&mut self, request: &Message) -> Option<(u16, &'static str)> {
        // §16.3 step 3 is a proxy's: OPTIONS and REGISTER may be for ourselves.
        let may_be_ours = matches!(request.method(), Method::Options | Method::Register);
        if request.max_forwards() == Some(Some(0)) && !may_be_ours {
            self.counters.too_many_hops += 1;
            return Some((483, "Too Many Hops"));
        }
        if self.is_loop(request) {
            self.counters.loops += 1;
            return Some((482, "Loop Detected"));
        }
        None
    }
}
