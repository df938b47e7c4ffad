//! Responses of our own, through a server transaction or without one.

use stdx::slab::Key;

use super::{LowerView, latency};
use crate::endpoint::Caller;
use crate::endpoint::context::{RequestContext, RequestStage, TransactionUser};
use crate::endpoint::environment::Environment;
use crate::transaction::{TransactionMachine, TransactionOutput};
use crate::transport::{Source, Transport, is_reliable};
use crate::wire::{Header, Message, Method, Reply};

impl LowerView<'_> {
    /// RFC 3261 §8.2.7: without a transaction; a retransmission is answered anew.
    pub(crate) fn reply_stateless(&mut self, request: &Message, source: &Source, status: u16, reason: &str) {
        let tag = self.env.tag_of(request, source);
        let reply = Reply::new(request, source.remote, status, reason, Some(&tag)).finish();
        self.transmit_alone(request, source, reply);
    }

    /// The final response to a context's request, after which the context is gone.
    pub(crate) fn finish(&mut self, context: Key, status: u16, reason: &str) {
        self.finish_with(context, status, reason, |_| {});
    }

    /// As [`finish`](Self::finish), with headers of its own.
    pub(crate) fn finish_with(
        &mut self,
        key: Key,
        status: u16,
        reason: &str,
        headers: impl FnOnce(&mut Reply),
    ) {
        if status >= 300 {
            self.release(key);
        }
        let Some(context) = self.contexts.get(key) else { return };
        let tag = self.env.tag_of(&context.request, &context.source);
        let mut reply = Reply::new(&context.request, context.source.remote, status, reason, Some(&tag));
        headers(&mut reply);
        if let RequestStage::Proxying(proxied) = &context.stage
            && proxied.purpose().starts_call
            && status >= 300
        {
            self.note_failed(key, status, reason);
        }
        self.note_refused(key, status, reason);
        self.refuse_or_answer(key, status, reply.finish());
    }

    /// The final response of our own to a context's request. Refusals of unauthenticated requests go out once
    /// over UDP and leave nothing behind: while it has heard nothing, the client repeats its request and is
    /// refused again.
    pub(crate) fn refuse_or_answer(&mut self, key: Key, status: u16, response: bytes::Bytes) {
        let Some(context) = self.contexts.get(key) else { return };
        let server = context.server;
        if status < 300 || !self.is_refused_alone(context) {
            self.respond(server, status, response);
            return self.close(key);
        }
        if !matches!(status, 401 | 407) {
            latency::note_first_response(self, key);
        }
        self.perform(server, TransactionOutput { send: Some(response), tell: None });
        self.transactions.table.remove(server);
        self.contexts.remove(key);
    }

    fn is_refused_alone(&self, context: &RequestContext) -> bool {
        let is_undecided = matches!(
            context.stage,
            RequestStage::Planning { .. } | RequestStage::Finding { .. } | RequestStage::Locating { .. }
        );
        // The ACK of a refusal within a dialog has a Route of ours: only a transaction keeps it from the callee.
        let is_outside = context.request.to_tag().is_none();
        let is_authenticated = matches!(context.caller, Some(Caller::Account(_)));
        let is_silent = self.transactions.table.get(context.server).is_some_and(|transaction| {
            match &transaction.machine {
                TransactionMachine::ServerInvite(machine) => machine.is_silent(),
                TransactionMachine::ServerOther(machine) => machine.is_silent(),
                TransactionMachine::ClientInvite(_) | TransactionMachine::ClientOther(_) => false,
            }
        });
        let is_udp = context.source.transport == Transport::Udp;
        is_udp && is_undecided && is_outside && !is_authenticated && is_silent
    }

    /// Forgets a context; its server transaction lives on by its own timers.
    pub(crate) fn close(&mut self, key: Key) {
        let Some(context) = self.contexts.remove(key) else { return };
        if let Some(transaction) = self.transactions.table.get_mut(context.server) {
            transaction.user = TransactionUser::None;
        }
    }

    /// An OPTIONS for ourselves (RFC 3261 §11.2).
    pub(crate) fn answer_options(&mut self, context: Key) {
        let Some(request) = self.contexts.get(context).map(|context| &context.request) else { return };
        let unsupported = unsupported(request, Header::Require, &["path", "outbound", "gruu"]);
        if !unsupported.is_empty() {
            let list = unsupported.join(&b", "[..]);
            let add = |reply: &mut Reply| {
                reply.header("Unsupported", &list);
            };
            return self.finish_with(context, 420, "Bad Extension", add);
        }
        self.finish_with(context, 200, "OK", |reply| {
            reply.header("Allow", crate::wire::ALLOW.as_bytes());
            reply.header("Accept", b"*/*");
            reply.header("Accept-Encoding", b"identity");
            reply.header("Accept-Language", b"en");
            reply.header("Supported", b"path, outbound, gruu");
            reply.header("Allow-Events", b"presence, dialog, message-summary, reg");
            reply.header("Server", crate::wire::PRODUCT.as_bytes());
        });
    }

    /// A final response before the phones have it. Their answers find a transaction that has said its last word.
    pub(crate) fn answer_early(&mut self, key: Key, (status, reason): (u16, &str)) {
        let Some(context) = self.contexts.get(key) else { return };
        let tag = self.env.tag_of(&context.request, &context.source);
        let reply = Reply::new(&context.request, context.source.remote, status, reason, Some(&tag)).finish();
        let server = context.server;
        // The context goes on without it, however soon it ends.
        if let Some(transaction) = self.transactions.table.get_mut(server) {
            transaction.user = TransactionUser::None;
        }
        self.respond(server, status, reply);
    }

    /// The 100 that a transaction asks for: RFC 3261 §17.2.1 to an INVITE, RFC 4320 §4.1 to another request once its client
    /// repeats it only every T2.
    pub(crate) fn send_trying(&mut self, server: Key) {
        let Some(TransactionUser::Context(context)) = self.transactions.table.get(server).map(|tx| tx.user)
        else {
            return;
        };
        let Some(context) = self.contexts.get(context) else { return };
        if has_to_be_repeated(self.env, context) {
            if let Some(transaction) = self.transactions.table.get_mut(server)
                && let TransactionMachine::ServerInvite(machine) = &mut transaction.machine
            {
                machine.withhold_trying(self.now);
            }
            self.perform(server, TransactionOutput::default());
            return;
        }
        let trying = Reply::new(&context.request, context.source.remote, 100, "Trying", None).finish();
        self.respond(server, 100, trying);
    }
}

/// True for an INVITE by UDP that waits at a node of a farm and was not forwarded yet: for an account, or for the owner of an address, which
/// may take seconds after a death or while the database is away. A 100 would stop its repetitions (RFC 3261 §17.1.1.2), and with this
/// node the only copy of it would be lost. So the 100 of §17.2.1 is sent when the request is forwarded.
fn has_to_be_repeated(env: &Environment, context: &RequestContext) -> bool {
    let is_repeated = context.request.method() == Method::Invite && !is_reliable(context.source.transport);
    let is_alone = env.peer_lives.is_empty();
    is_repeated && !is_alone && context.stage.is_before_forwarding()
}

/// RFC 3261 §8.2.2.3 and §16.3 step 5: option tags that the request demands and we do not have.
pub(crate) fn unsupported<'m>(request: &'m Message, header: Header, known: &[&str]) -> Vec<&'m [u8]> {
    request
        .values(header)
        .filter(|option| !known.iter().any(|name| option.eq_ignore_ascii_case(name.as_bytes())))
        .collect()
}
