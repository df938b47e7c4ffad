//! Joins the user agent of [`crate::session`] to the lower layers. Applications command it by [`commands`].
//!
//! The sessions know dialogs and no transports. Here a request of the peer finds its session, and effects of
//! sessions become responses of server transactions, requests that are resolved (RFC 3263) and sent hop by
//! hop, ACKs, CANCELs, and events for the application. A request of a session is in `own` from its first try
//! to its final response, over all hops; sessions name it by a number and never see a transaction.

pub(super) mod commands;
mod open_calls;

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use self::open_calls::OpenCalls;
use super::context::{RequestStage, TransactionUser};
use super::environment::Environment;
use super::environment::forwarded_copy::next_hop_in;
use super::environment::identity::{IDENTITIES, remove_identities};
use super::ladders::begin_ladder;
use super::lower::{LowerView, ResolutionOwner, UnresolvedMessage};
use super::proxy_core::ProxyCore;
use super::{CallEventKind, Caller, EndpointEffect};
use crate::events::{OutgoingRoute, RequestId, TxRef};
use crate::resolve::{Hop, ResolveFault};
use crate::session::{ReceivedRequest, SessionCounts, SessionEffect, SessionEvent, SessionId, Sessions};
use crate::transport::{Target, Transport};
use crate::wire::{Header, Message, Method, Rewrite};

/// A request of a session on its way: which hops are left, and which transaction tries one now.
pub(crate) struct SessionRequest {
    message: Message,
    onward: OutgoingRoute,
    /// Still to be tried, in the order of RFC 3263 §4.3.
    hops: VecDeque<Hop>,
    /// The number of the try, which makes its branch another (RFC 3261 §8.1.1.7).
    attempt: u8,
    /// The client transaction of the hop that is tried.
    client: Option<Key>,
    /// A hop has answered: no other is tried after a failure.
    had_response: bool,
}

/// The user agent of applications: dialogs of calls that we answer or place, and their requests on the way.
pub(crate) struct UserAgent {
    pub(crate) sessions: Sessions,
    /// Requests of sessions that have no final response.
    own: HashMap<u64, SessionRequest>,
    /// Calls of networks that have not proved to receive anything.
    open_calls: OpenCalls,
}

impl UserAgent {
    /// Without requests under way.
    pub(crate) fn new(sessions: Sessions) -> Self {
        UserAgent { sessions, own: HashMap::new(), open_calls: OpenCalls::default() }
    }

    /// The sessions and their requests now; all zero at rest.
    pub(crate) fn counts(&self) -> SessionCounts {
        SessionCounts { requests: self.own.len(), ..self.sessions.counts() }
    }

    /// Lets the sessions do something and carries out what comes of it.
    fn with_sessions<R>(
        &mut self,
        lower: &mut LowerView<'_>,
        act: impl FnOnce(&mut Sessions, Instant, &mut Vec<SessionEffect>) -> R,
    ) -> R {
        let mut effects = Vec::new();
        let result = act(&mut self.sessions, lower.now, &mut effects);
        for effect in effects {
            self.perform_session(lower, effect);
        }
        result
    }

    /// Performs one effect of a session.
    fn perform_session(&mut self, lower: &mut LowerView<'_>, effect: SessionEffect) {
        match effect {
            SessionEffect::Event(event) => {
                if let SessionEvent::Ended { session, .. } = event {
                    self.open_call_ended(lower, session);
                }
                lower.out.push(EndpointEffect::Session(event));
            }
            SessionEffect::Withheld { id } => self.fail_own(lower, id.0, 480),
            SessionEffect::Reply { transaction, status, bytes } => {
                self.reply_for_session(lower, transaction, status, bytes);
            }
            SessionEffect::Request { id, bytes, onward } => {
                self.send_for_session(lower, id, bytes, &onward);
            }
            SessionEffect::Ack { bytes, onward } => self.send_ack(lower, bytes, &onward),
            SessionEffect::Cancel { id, reason } => {
                if let Some(client) = self.own.get(&id.0).and_then(|own| own.client) {
                    lower.send_cancel(client, reason.as_bytes());
                }
            }
            SessionEffect::Forget { id } => {
                if let Some(client) = self.own.remove(&id.0).and_then(|own| own.client) {
                    lower.transactions.table.remove(client);
                }
            }
            SessionEffect::Call { call_id, local_tag, kind } => {
                if let CallEventKind::Started { from_tag, .. } = &kind
                    && *from_tag == local_tag
                {
                    lower.transactions.ladders.begin_own(lower.now, &call_id);
                }
                // Our own tag, on either side: a session ends by its own dialog only.
                let call = lower.env.keys.call_of(&call_id, local_tag.as_bytes());
                lower.out.push(EndpointEffect::Call(super::CallEvent { call, leg: 0, kind }));
            }
        }
    }

    /// Calls that waited for a proof of their network begin.
    pub(crate) fn begin_proved_calls(&mut self, lower: &mut LowerView<'_>) {
        while let Some(network) = lower.transactions.take_proved_network() {
            self.release_open_calls(lower, network);
        }
    }

    /// Timers of sessions: retransmissions of 2xx and reliable provisional responses, refreshes, patience.
    pub(crate) fn expire_sessions(&mut self, lower: &mut LowerView<'_>) {
        self.with_sessions(lower, |sessions, now, effects| sessions.expire(now, effects));
    }

    /// The plan gave a request to an application. Only an INVITE makes a session; requests within one do not
    /// come by the plan.
    pub(crate) fn give_to_agent(&mut self, lower: &mut LowerView<'_>, key: Key) {
        let Some(context) = lower.contexts.get(key) else { return };
        let request = &context.request;
        match request.method() {
            Method::Ack => ProxyCore::new(lower).finish_ack(key, None),
            _ if request.to_tag().is_some() => {
                lower.finish(key, 481, "Call/Transaction Does Not Exist");
            }
            Method::Invite => self.begin_open_call(lower, key),
            Method::Options => lower.answer_options(key),
            _ => {
                let add = |reply: &mut crate::wire::Reply| {
                    reply.header("Allow", b"INVITE, ACK, CANCEL, BYE, OPTIONS");
                };
                lower.finish_with(key, 405, "Method Not Allowed", add);
            }
        }
    }

    /// Makes a session of an INVITE, whose transaction is answered by it from now on. `None`: it was refused.
    pub(crate) fn start_session(&mut self, lower: &mut LowerView<'_>, key: Key) -> Option<SessionId> {
        if lower.refuse_merged(key) {
            return None;
        }
        lower.remember_request(key);
        begin_ladder(lower, key);
        let context = lower.contexts.get(key)?;
        let proved = lower.transactions.is_transaction_proved(context.server);
        let server = context.server;
        if let Some(credit) =
            lower.transactions.table.get_mut(server).and_then(|transaction| transaction.credit.as_mut())
        {
            credit.limit_finals();
        }
        let context = lower.contexts.get(key)?;
        let (server, source) = (context.server, context.source);
        let (request, caller) = (context.request.clone(), context.caller.clone());
        let contact = lower.env.listeners.contact_for(&source);
        let mut effects = Vec::new();
        let arrived = ReceivedRequest {
            transaction: TxRef(server.to_u64()),
            request: &request,
            source: &source,
            contact: &contact,
            proved,
        };
        let session = self.sessions.handle_invite(
            lower.now,
            &arrived,
            caller.unwrap_or(Caller::Stranger),
            &mut effects,
        );
        if let Some(session) = session {
            lower.set_stage(key, RequestStage::Session(session));
        }
        for effect in effects {
            self.perform_session(lower, effect);
        }
        session
    }

    /// A request within a session: true if it is one, and then it is the session's.
    pub(crate) fn take_by_session(&mut self, lower: &mut LowerView<'_>, key: Key) -> bool {
        let Some(context) = lower.contexts.get(key) else { return false };
        let Some(session) = self.sessions.session_of(&context.request) else { return false };
        let (server, source, request) = (context.server, context.source, context.request.clone());
        lower.set_stage(key, RequestStage::Session(session));
        let contact = lower.env.listeners.contact_for(&source);
        let arrived = ReceivedRequest {
            transaction: TxRef(server.to_u64()),
            request: &request,
            source: &source,
            contact: &contact,
            proved: lower.transactions.is_transaction_proved(server),
        };
        self.with_sessions(lower, |sessions, now, effects| sessions.handle_request(now, &arrived, effects));
        true
    }

    /// An ACK of a 2xx of ours: true if it is one.
    pub(crate) fn take_ack(&mut self, lower: &mut LowerView<'_>, ack: &Message) -> bool {
        let is_ours = self.sessions.owns(ack);
        if is_ours {
            self.with_sessions(lower, |sessions, _, effects| sessions.handle_ack(ack, effects));
        }
        is_ours
    }

    /// A CANCEL for the INVITE of a session.
    pub(crate) fn cancel_session(&mut self, lower: &mut LowerView<'_>, key: Key, session: SessionId) {
        let Some(transaction) = lower.contexts.get(key).map(|context| TxRef(context.server.to_u64())) else {
            return;
        };
        self.with_sessions(lower, |sessions, _, effects| {
            sessions.handle_cancel(session, transaction, effects);
        });
    }

    /// Sends a response by its server transaction. A final one ends the request's context.
    fn reply_for_session(
        &mut self,
        lower: &mut LowerView<'_>,
        transaction: TxRef,
        status: u16,
        bytes: Bytes,
    ) {
        let server = Key::from_u64(transaction.0);
        let Some(user) = lower.transactions.table.get(server).map(|transaction| transaction.user) else {
            return;
        };
        lower.respond(server, status, bytes);
        // The transaction may have ended before: then nothing is left to close.
        if status >= 200
            && let TransactionUser::Context(context) = user
        {
            lower.close(context);
        }
    }

    /// Begins to send a request: over the flow of the phone if there is one, else to the hops of its next
    /// hop.
    fn send_for_session(
        &mut self,
        lower: &mut LowerView<'_>,
        id: RequestId,
        bytes: Bytes,
        onward: &OutgoingRoute,
    ) {
        let Ok(message) = Message::parse(bytes) else {
            return self.fail_own(lower, id.0, 500);
        };
        let (onward, hops) = (onward.clone(), VecDeque::new());
        let (received, next) = (onward.received, next_hop_in(&onward.next_hop));
        self.own.insert(
            id.0,
            SessionRequest { message, onward, hops, attempt: 0, client: None, had_response: false },
        );
        if let Some(received) = &received {
            return self.try_own_hops(lower, id.0, vec![Hop::of_flow(received)]);
        }
        let next = match next {
            Ok(next) => next,
            Err(fault) => return self.fail_own(lower, id.0, fault.status()),
        };
        if let Some(result) = lower.resolve(&next, || ResolutionOwner::Own(id.0)) {
            self.handle_own_resolved(lower, id.0, result);
        }
    }

    /// The next hop was resolved. Hops that the request must not reach (private networks, this server itself)
    /// are left out; without another it fails with 403.
    pub(crate) fn handle_own_resolved(
        &mut self,
        lower: &mut LowerView<'_>,
        id: u64,
        result: Result<Vec<Hop>, ResolveFault>,
    ) {
        match result {
            Ok(mut hops) => {
                let Some(own) = self.own.get(&id) else { return };
                let onward = &own.onward;
                hops.retain(|hop| {
                    onward.may_reach(hop.addr.ip()) && !lower.env.is_forbidden_for(onward, hop)
                });
                if hops.is_empty() {
                    return self.fail_own(lower, id, 403);
                }
                self.try_own_hops(lower, id, hops);
            }
            Err(ResolveFault::NoSuchHost) => self.fail_own(lower, id, 404),
            Err(_) => self.fail_own(lower, id, 503),
        }
    }

    /// Adds hops and tries the first. A request too large for UDP tries TCP first (RFC 3261 §18.1.1).
    fn try_own_hops(&mut self, lower: &mut LowerView<'_>, id: u64, hops: Vec<Hop>) {
        let Some(own) = self.own.get(&id) else { return };
        let (bytes, is_flow) = (own.message.bytes().len(), own.onward.received.is_some());
        let hops = if is_flow { hops } else { lower.with_tcp_first(bytes, hops) };
        if let Some(own) = self.own.get_mut(&id) {
            own.hops.extend(hops);
        }
        self.try_own_hop(lower, id, 503);
    }

    /// Tries the next hop that a listener can reach. Without one the request fails with `status`.
    fn try_own_hop(&mut self, lower: &mut LowerView<'_>, id: u64, status: u16) {
        loop {
            let Some(own) = self.own.get_mut(&id) else { return };
            let Some(hop) = own.hops.pop_front() else { return self.fail_own(lower, id, status) };
            own.attempt = own.attempt.saturating_add(1);
            let (attempt, onward) = (own.attempt, own.onward.clone());
            let message = own.message.clone();
            let branch = lower.env.branch_of(&message, 0, attempt);
            let Some((bytes, target)) = with_own_headers(lower.env, &message, &hop, &onward, &branch) else {
                continue;
            };
            let request = lower.transactions.ready(bytes, &branch, message.method_name());
            let Some(client) = lower.start_client(request, target, TransactionUser::Session(id)) else {
                continue;
            };
            if let Some(own) = self.own.get_mut(&id) {
                own.client = Some(client);
            }
            return;
        }
    }

    /// The remote target may be a name that was not asked for before: then the ACK waits.
    fn send_ack(&mut self, lower: &mut LowerView<'_>, bytes: Bytes, onward: &OutgoingRoute) {
        let Ok(ack) = Message::parse(bytes) else { return };
        if let Some(received) = &onward.received {
            return transmit_session_ack(lower, &ack, &Hop::of_flow(received), onward);
        }
        let next = next_hop_in(&onward.next_hop).ok();
        let waiting = UnresolvedMessage::SessionAck { ack, onward: onward.clone() };
        if let Some((UnresolvedMessage::SessionAck { ack, onward }, hop)) =
            lower.send_when_resolved(next.as_ref(), waiting)
        {
            transmit_resolved_ack(lower, &ack, &onward, hop);
        }
    }

    /// A response to a request of a session. A 503 means the next hop, if there is one; all others are the
    /// session's.
    pub(crate) fn handle_own_response(
        &mut self,
        lower: &mut LowerView<'_>,
        id: u64,
        client: Key,
        response: &Message,
    ) {
        if let Some(own) = self.own.get_mut(&id) {
            own.had_response = true;
            // A phone that is registered has no other way.
            if response.status() == 503 && own.onward.received.is_none() {
                let hop = lower.transactions.table.get(client).map(|tx| tx.target().hop());
                if let Some(hop) = hop {
                    lower.resolutions.handle_unavailable(lower.now, hop, response);
                }
                // RFC 3263 §4.3.
                if !own.hops.is_empty() {
                    return self.try_own_hop(lower, id, 503);
                }
            }
            if response.status() >= 200 {
                self.own.remove(&id);
            }
        }
        if let Some(peer) = lower.transactions.table.get(client).map(|tx| tx.target().remote.ip()) {
            self.sessions.note_peer(RequestId(id), peer);
        }
        self.with_sessions(lower, |sessions, now, effects| {
            sessions.handle_response(now, RequestId(id), response, effects);
        });
    }

    /// A hop did not answer or could not be reached: it is avoided for a while, and the next one is tried.
    pub(crate) fn handle_own_failure(
        &mut self,
        lower: &mut LowerView<'_>,
        id: u64,
        hop: (std::net::SocketAddr, Transport),
        status: u16,
    ) {
        let Some(own) = self.own.get_mut(&id) else { return };
        own.client = None;
        if own.had_response {
            return self.fail_own(lower, id, status);
        }
        let next = own.hops.front().cloned();
        lower.note_tcp_refused(hop, next.as_ref());
        lower.resolutions.penalise(lower.now, hop.0, hop.1);
        self.try_own_hop(lower, id, status);
    }

    /// The request has failed here, with a status as if the peer had sent it (RFC 3261 §8.1.3.1).
    fn fail_own(&mut self, lower: &mut LowerView<'_>, id: u64, status: u16) {
        self.own.remove(&id);
        self.with_sessions(lower, |sessions, now, effects| {
            sessions.handle_failure(now, RequestId(id), status, effects);
        });
    }
}

/// The request with Via and Contact, whose values depend on the listener by which it leaves, and its
/// destination.
fn with_own_headers(
    env: &Environment,
    message: &Message,
    hop: &Hop,
    onward: &OutgoingRoute,
    branch: &[u8],
) -> Option<(Bytes, Target)> {
    let received = onward.received;
    let listener =
        env.listeners.listener_for(hop.transport, hop.addr, received.map(|received| received.local))?;
    let mut rewrite = Rewrite::new(message);
    if message.has_any(IDENTITIES) && !env.trust().trusts_own_hop(onward, hop) {
        remove_identities(&mut rewrite);
    }
    rewrite.push_front(Header::Via, |text| env.write_via(text, listener, branch));
    // RFC 3261 table 2; RFC 3428 §4 forbids it in a MESSAGE.
    let has_none = [Method::Ack, Method::Bye, Method::Prack, Method::Info, Method::Message];
    if !has_none.contains(&message.method()) {
        let uri = &env.listeners.texts[listener].uri;
        rewrite.append("Contact", |text| text.extend_from_slice(&[b"<", &uri[..], b">"].concat()));
    }
    let flow = received.and_then(|received| received.flow);
    let target = Target {
        transport: hop.transport,
        remote: hop.addr,
        flow,
        local: Some(env.listeners.all[listener].addr),
        tls_name: hop.tls_name.clone(),
        reconnect: flow.is_none(),
    };
    Some((rewrite.finish(), target))
}

/// Sends the ACK of a session once its hop is known; without one it is lost.
pub(crate) fn transmit_resolved_ack(
    lower: &mut LowerView<'_>,
    ack: &Message,
    onward: &OutgoingRoute,
    hop: Option<Hop>,
) {
    if let Some(hop) = hop.filter(|hop| onward.may_reach(hop.addr.ip())) {
        transmit_session_ack(lower, ack, &hop, onward);
    }
}

/// Sends an ACK, which has no transaction: a 2xx that comes again brings it again.
fn transmit_session_ack(lower: &mut LowerView<'_>, ack: &Message, hop: &Hop, onward: &OutgoingRoute) {
    if onward.received.is_none() && !onward.may_reach(hop.addr.ip()) {
        return;
    }
    // It has its INVITE's number and must not have its branch (RFC 3261 §17.1.1.3).
    let branch = lower.env.branch_of(ack, 1, 0);
    if let Some((bytes, target)) = with_own_headers(lower.env, ack, hop, onward, &branch) {
        lower.transmit(target, bytes, None);
    }
}
