//! What joins the user agent of [`crate::session`] to transactions, resolver and transports; and the commands
//! by which an application speaks to it.

use std::collections::VecDeque;

use bytes::Bytes;
use router::Received;
use stdx::Instant;
use stdx::slab::Key;

use super::forward::next_hop_of;
use super::identity::{IDENTITIES, remove_identities};
use super::resolution::{Resolving, Waiting};
use super::{Caller, Effect, Endpoint, Outbox, Stage, User};
use crate::events::{Onward, RequestId, TxRef};
use crate::resolve::{Hop, ResolveFault};
use crate::session::{
    Arrived, CommandError, Invite, MessageId, MessageOut, OfferId, ReferId, SessionCounts, SessionEffect,
    SessionEvent, SessionId, SessionRules, Sessions,
};
use crate::transport::{Source, Target, Transport};
use crate::wire::{Header, Message, Method, Rewrite, Uri};

/// A request of a session on its way: which hops are left, and which transaction tries one now.
pub(super) struct OwnRequest {
    message: Message,
    onward: Onward,
    hops: VecDeque<Hop>,
    attempt: u8,
    client: Option<Key>,
    heard: bool,
}

/// The commands of an application. What they cause comes out as effects; a session that has ended takes none.
impl Endpoint {
    pub fn set_session_rules(&mut self, rules: SessionRules) {
        self.sessions.set_rules(rules);
    }

    /// Where this endpoint reaches itself.
    pub fn own_address(&self) -> Option<Received> {
        let is_udp = |listener: &&super::Listener| listener.transport == Transport::Udp;
        let addr = self.settings.listeners.iter().find(is_udp)?.addr;
        Some(Received { transport: Transport::Udp, local: addr, remote: addr, flow: None })
    }

    /// The address that answered the session's last request of ours: the signalling's own.
    pub fn peer_of(&self, session: SessionId) -> Option<std::net::IpAddr> {
        self.sessions.peer_of(session)
    }

    /// What sessions hold now; all zero at rest.
    pub fn session_counts(&self) -> SessionCounts {
        SessionCounts { requests: self.own.len(), ..self.sessions.counts() }
    }

    /// Places a call. Events: `Ringing`, `Answered`, and in any case `Ended`.
    pub fn invite(
        &mut self,
        now: Instant,
        invite: Invite,
        out: &mut Outbox,
    ) -> Result<SessionId, CommandError> {
        self.with_sessions(now, out, |sessions, effects| sessions.invite(now, invite, effects))
    }

    /// Sends a MESSAGE outside of any dialog; `MessageAnswered` tells its final status.
    pub fn message(
        &mut self,
        now: Instant,
        text: MessageOut,
        out: &mut Outbox,
    ) -> Result<MessageId, CommandError> {
        self.with_sessions(now, out, |sessions, effects| sessions.message(text, effects))
    }

    /// A provisional response, 101 to 199, to a session that was `Invited`; `sdp` may be empty.
    pub fn ring(
        &mut self,
        now: Instant,
        session: SessionId,
        status: u16,
        sdp: Bytes,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| sessions.ring(now, session, status, sdp, effects))
    }

    /// 200 to a session that was `Invited`; headers of the application's own go with it.
    pub fn answer(
        &mut self,
        now: Instant,
        session: SessionId,
        sdp: Bytes,
        headers: Vec<(Box<str>, Box<str>)>,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| sessions.answer(now, session, sdp, headers, effects))
    }

    /// 3xx to 6xx to a session that was `Invited`; a 3xx has its Contacts among the headers.
    pub fn reject(
        &mut self,
        now: Instant,
        session: SessionId,
        status: u16,
        reason: &str,
        headers: &[(Box<str>, Box<str>)],
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.reject(session, status, reason, headers, effects)
        })
    }

    /// Ends a session in whatever stage: 480, CANCEL or BYE, the last with a Reason (RFC 3326). Again: nothing.
    pub fn hang_up(&mut self, now: Instant, session: SessionId, reason: Option<&str>, out: &mut Outbox) {
        self.with_sessions(now, out, |sessions, effects| sessions.hang_up(now, session, reason, effects));
    }

    /// A re-INVITE with new SDP.
    pub fn offer(
        &mut self,
        now: Instant,
        session: SessionId,
        sdp: &Bytes,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| sessions.offer(session, sdp, effects))
    }

    pub fn accept_offer(
        &mut self,
        now: Instant,
        session: SessionId,
        offer: OfferId,
        sdp: Bytes,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.accept_offer(now, session, offer, sdp, effects)
        })
    }

    pub fn refuse_offer(
        &mut self,
        now: Instant,
        session: SessionId,
        offer: OfferId,
        status: u16,
        reason: &str,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.refuse_offer(session, offer, status, reason, effects)
        })
    }

    /// INFO or MESSAGE within the session; `Responded` tells the outcome.
    pub fn tell_peer(
        &mut self,
        now: Instant,
        session: SessionId,
        method: Method,
        content_type: &str,
        body: &Bytes,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.tell_peer(session, method, content_type, body, effects)
        })
    }

    /// REFER: the peer shall call `target`. Events: `ReferAnswered`, `ReferProgress`.
    pub fn refer(
        &mut self,
        now: Instant,
        session: SessionId,
        target: &str,
        referred_by: Option<&str>,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.refer(session, target, referred_by, effects)
        })
    }

    pub fn accept_refer(
        &mut self,
        now: Instant,
        session: SessionId,
        refer: ReferId,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| sessions.accept_refer(session, refer, effects))
    }

    pub fn refuse_refer(
        &mut self,
        now: Instant,
        session: SessionId,
        refer: ReferId,
        status: u16,
        reason: &str,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.refuse_refer(session, refer, status, reason, effects)
        })
    }

    /// How the call of an accepted REFER goes: a status, and whether it is the last word.
    #[expect(clippy::too_many_arguments, reason = "a status line and its place")]
    pub fn notify_refer(
        &mut self,
        now: Instant,
        session: SessionId,
        refer: ReferId,
        status: u16,
        reason: &str,
        over: bool,
        out: &mut Outbox,
    ) -> Result<(), CommandError> {
        self.with_sessions(now, out, |sessions, effects| {
            sessions.notify_refer(session, refer, status, reason, over, effects)
        })
    }
}

impl Endpoint {
    /// Lets the sessions do something and carries out what comes of it.
    fn with_sessions<R>(
        &mut self,
        now: Instant,
        out: &mut Outbox,
        act: impl FnOnce(&mut Sessions, &mut Vec<SessionEffect>) -> R,
    ) -> R {
        let mut effects = Vec::new();
        let result = act(&mut self.sessions, &mut effects);
        for effect in effects {
            self.perform_session(now, effect, out);
        }
        result
    }

    fn perform_session(&mut self, now: Instant, effect: SessionEffect, out: &mut Outbox) {
        match effect {
            SessionEffect::Event(event) => {
                if let SessionEvent::Ended { session, .. } = event {
                    self.open_call_ended(now, session, out);
                }
                out.push(Effect::Session(event));
            }
            SessionEffect::Withheld { id } => self.fail_own(now, id.0, 480, out),
            SessionEffect::Reply { transaction, status, bytes } => {
                self.reply_for_session(now, transaction, status, bytes, out);
            }
            SessionEffect::Request { id, bytes, onward } => {
                self.send_for_session(now, id, bytes, &onward, out);
            }
            SessionEffect::Ack { bytes, onward } => self.send_ack(now, bytes, &onward, out),
            SessionEffect::Cancel { id } => {
                if let Some(client) = self.own.get(&id.0).and_then(|own| own.client) {
                    self.send_cancel(now, client, out);
                }
            }
            SessionEffect::Forget { id } => {
                if let Some(client) = self.own.remove(&id.0).and_then(|own| own.client) {
                    self.table.remove(client);
                }
            }
            SessionEffect::Call { call_id, local_tag, kind } => {
                // Our own tag, on either side: a session ends by its own dialog only.
                let call = self.keys.call_of(&call_id, local_tag.as_bytes());
                out.push(Effect::Call(super::CallEvent { call, leg: 0, kind }));
            }
        }
    }

    pub(super) fn expire_sessions(&mut self, now: Instant, out: &mut Outbox) {
        self.with_sessions(now, out, |sessions, effects| sessions.expire(now, effects));
    }

    /// The plan gave a request to an application.
    pub(super) fn give_to_agent(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get(key) else { return };
        let request = &context.request;
        match request.method() {
            Method::Ack => self.finish_ack(now, key, None, out),
            _ if request.to_tag().is_some() => {
                self.finish(now, key, 481, "Call/Transaction Does Not Exist", out);
            }
            Method::Invite => self.begin_open_call(now, key, out),
            Method::Options => self.answer_options(now, key, out),
            _ => {
                let add = |reply: &mut crate::wire::Reply| {
                    reply.header("Allow", b"INVITE, ACK, CANCEL, BYE, OPTIONS");
                };
                self.finish_with(now, key, 405, "Method Not Allowed", add, out);
            }
        }
    }

    pub(super) fn start_session(&mut self, now: Instant, key: Key, out: &mut Outbox) -> Option<SessionId> {
        if self.refuse_merged(now, key, out) {
            return None;
        }
        self.remember_request(key);
        let context = self.contexts.get(key)?;
        let proved = self.is_transaction_proved(context.server);
        let server = context.server;
        if let Some(credit) = self.table.get_mut(server).and_then(|transaction| transaction.credit.as_mut()) {
            credit.limit_finals();
        }
        let context = self.contexts.get(key)?;
        let (server, source) = (context.server, context.source);
        let (request, caller) = (context.request.clone(), context.caller.clone());
        let contact = self.contact_for(&source);
        let mut effects = Vec::new();
        let arrived = Arrived {
            transaction: TxRef(server.to_u64()),
            request: &request,
            source: &source,
            contact: &contact,
            proved,
        };
        let session =
            self.sessions.handle_invite(now, &arrived, caller.unwrap_or(Caller::Stranger), &mut effects);
        if let Some(session) = session {
            self.set_stage(key, Stage::Session(session));
        }
        for effect in effects {
            self.perform_session(now, effect, out);
        }
        session
    }

    /// A request within a session, if it is.
    pub(super) fn take_by_session(&mut self, now: Instant, key: Key, out: &mut Outbox) -> bool {
        let Some(context) = self.contexts.get(key) else { return false };
        let Some(session) = self.sessions.session_of(&context.request) else { return false };
        let (server, source, request) = (context.server, context.source, context.request.clone());
        self.set_stage(key, Stage::Session(session));
        let contact = self.contact_for(&source);
        let arrived = Arrived {
            transaction: TxRef(server.to_u64()),
            request: &request,
            source: &source,
            contact: &contact,
            proved: true,
        };
        self.with_sessions(now, out, |sessions, effects| sessions.handle_request(now, &arrived, effects));
        true
    }

    /// An ACK of a 2xx of ours, if it is.
    pub(super) fn take_ack(&mut self, now: Instant, ack: &Message, out: &mut Outbox) -> bool {
        let is_ours = self.sessions.owns(ack);
        if is_ours {
            self.with_sessions(now, out, |sessions, effects| sessions.handle_ack(ack, effects));
        }
        is_ours
    }

    pub(super) fn cancel_session(&mut self, now: Instant, key: Key, session: SessionId, out: &mut Outbox) {
        let Some(transaction) = self.contexts.get(key).map(|context| TxRef(context.server.to_u64())) else {
            return;
        };
        self.with_sessions(now, out, |sessions, effects| {
            sessions.handle_cancel(session, transaction, effects);
        });
    }

    fn contact_for(&self, source: &Source) -> String {
        let listener = self.listener_for(source.transport, source.remote, Some(source.local));
        listener.map_or(String::new(), |index| String::from_utf8_lossy(&self.texts[index].uri).into_owned())
    }

    fn reply_for_session(
        &mut self,
        now: Instant,
        transaction: TxRef,
        status: u16,
        bytes: Bytes,
        out: &mut Outbox,
    ) {
        let server = Key::from_u64(transaction.0);
        let Some(user) = self.table.get(server).map(|transaction| transaction.user) else { return };
        self.respond(now, server, status, bytes, out);
        if status >= 200
            && let User::Context(context) = user
        {
            self.close(context);
        }
    }

    fn send_for_session(
        &mut self,
        now: Instant,
        id: RequestId,
        bytes: Bytes,
        onward: &Onward,
        out: &mut Outbox,
    ) {
        let Ok(message) = Message::parse(bytes) else {
            return self.fail_own(now, id.0, 500, out);
        };
        let (onward, hops) = (onward.clone(), VecDeque::new());
        let (received, next) = (onward.received, Uri::parse(onward.next_hop.as_bytes()));
        let next = next.ok().and_then(|uri| next_hop_of(&uri));
        self.own.insert(id.0, OwnRequest { message, onward, hops, attempt: 0, client: None, heard: false });
        if let Some(received) = &received {
            return self.try_own_hops(now, id.0, vec![Hop::of_flow(received)], out);
        }
        let Some(next) = next else { return self.fail_own(now, id.0, 416, out) };
        self.resolve(now, &next, Resolving::Own(id.0), out);
    }

    pub(super) fn handle_own_resolved(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Vec<Hop>, ResolveFault>,
        out: &mut Outbox,
    ) {
        match result {
            Ok(mut hops) => {
                let Some(own) = self.own.get(&id) else { return };
                let onward = &own.onward;
                hops.retain(|hop| onward.may_reach(hop.addr.ip()) && !self.is_forbidden_for(onward, hop));
                if hops.is_empty() {
                    return self.fail_own(now, id, 403, out);
                }
                self.try_own_hops(now, id, hops, out);
            }
            Err(ResolveFault::NoSuchHost) => self.fail_own(now, id, 404, out),
            Err(_) => self.fail_own(now, id, 503, out),
        }
    }

    fn try_own_hops(&mut self, now: Instant, id: u64, hops: Vec<Hop>, out: &mut Outbox) {
        let Some(own) = self.own.get(&id) else { return };
        let (bytes, is_flow) = (own.message.bytes().len(), own.onward.received.is_some());
        let hops = if is_flow { hops } else { self.with_tcp_first(now, bytes, hops) };
        if let Some(own) = self.own.get_mut(&id) {
            own.hops.extend(hops);
        }
        self.try_own_hop(now, id, 503, out);
    }

    fn try_own_hop(&mut self, now: Instant, id: u64, status: u16, out: &mut Outbox) {
        loop {
            let Some(own) = self.own.get_mut(&id) else { return };
            let Some(hop) = own.hops.pop_front() else { return self.fail_own(now, id, status, out) };
            own.attempt = own.attempt.saturating_add(1);
            let (attempt, onward) = (own.attempt, own.onward.clone());
            let message = own.message.clone();
            let Some((bytes, target)) = self.ready(&message, &hop, &onward, attempt) else {
                continue;
            };
            let is_invite = message.method() == Method::Invite;
            let Some(client) = self.start_client(now, bytes, target, is_invite, User::Session(id), out)
            else {
                continue;
            };
            if let Some(own) = self.own.get_mut(&id) {
                own.client = Some(client);
            }
            return;
        }
    }

    /// With Via and Contact: what they say depends on the listener it leaves by.
    fn ready(&self, message: &Message, hop: &Hop, onward: &Onward, attempt: u8) -> Option<(Bytes, Target)> {
        let received = onward.received;
        let listener = self.listener_for(hop.transport, hop.addr, received.map(|received| received.local))?;
        let mut rewrite = Rewrite::new(message);
        if message.has_any(IDENTITIES) && !self.trusts_own_hop(onward, hop) {
            remove_identities(&mut rewrite);
        }
        // The ACK of a 2xx has its INVITE's number and must not have its branch (RFC 3261 §17.1.1.3).
        let index = usize::from(message.method() == Method::Ack);
        rewrite.push_front(Header::Via, |text| {
            self.write_via(text, listener, |text| self.write_branch(text, message, index, attempt));
        });
        // RFC 3261 table 2; RFC 3428 §4 forbids it in a MESSAGE.
        let has_none = [Method::Ack, Method::Bye, Method::Prack, Method::Info, Method::Message];
        if !has_none.contains(&message.method()) {
            let uri = &self.texts[listener].uri;
            rewrite.append("Contact", |text| text.extend_from_slice(&[b"<", &uri[..], b">"].concat()));
        }
        let flow = received.and_then(|received| received.flow);
        let target = Target {
            transport: hop.transport,
            remote: hop.addr,
            flow,
            local: Some(self.settings.listeners[listener].addr),
            tls_name: hop.tls_name.clone(),
            reconnect: flow.is_none(),
        };
        Some((rewrite.finish(), target))
    }

    /// The remote target may be a name that was not asked for before: then the ACK waits.
    fn send_ack(&mut self, now: Instant, bytes: Bytes, onward: &Onward, out: &mut Outbox) {
        let Ok(ack) = Message::parse(bytes) else { return };
        if let Some(received) = &onward.received {
            return self.transmit_session_ack(&ack, &Hop::of_flow(received), onward, out);
        }
        let next = Uri::parse(onward.next_hop.as_bytes()).ok().and_then(|uri| next_hop_of(&uri));
        let waiting = Waiting::SessionAck { ack, onward: onward.clone() };
        self.send_when_resolved(now, next.as_ref(), waiting, out);
    }

    pub(super) fn transmit_session_ack(
        &mut self,
        ack: &Message,
        hop: &Hop,
        onward: &Onward,
        out: &mut Outbox,
    ) {
        if onward.received.is_none() && !onward.may_reach(hop.addr.ip()) {
            return;
        }
        if let Some((bytes, target)) = self.ready(ack, hop, onward, 0) {
            self.transmit(target, bytes, None, out);
        }
    }

    pub(super) fn handle_own_response(
        &mut self,
        now: Instant,
        id: u64,
        client: Key,
        response: &Message,
        out: &mut Outbox,
    ) {
        if let Some(own) = self.own.get_mut(&id) {
            own.heard = true;
            if response.status() == 503 && !own.hops.is_empty() {
                // RFC 3263 §4.3.
                if let Some((addr, transport)) = self.table.get(client).map(|tx| tx.target.hop()) {
                    self.resolver.penalise(now, addr, transport);
                }
                return self.try_own_hop(now, id, 503, out);
            }
            if response.status() >= 200 {
                self.own.remove(&id);
            }
        }
        if let Some(peer) = self.table.get(client).map(|tx| tx.target.remote.ip()) {
            self.sessions.note_peer(RequestId(id), peer);
        }
        self.with_sessions(now, out, |sessions, effects| {
            sessions.handle_response(now, RequestId(id), response, effects);
        });
    }

    pub(super) fn handle_own_failure(
        &mut self,
        now: Instant,
        id: u64,
        hop: (std::net::SocketAddr, Transport),
        status: u16,
        out: &mut Outbox,
    ) {
        let Some(own) = self.own.get_mut(&id) else { return };
        own.client = None;
        if own.heard {
            return self.fail_own(now, id, status, out);
        }
        let next = own.hops.front().cloned();
        self.note_tcp_refused(now, hop, next.as_ref());
        self.resolver.penalise(now, hop.0, hop.1);
        self.try_own_hop(now, id, status, out);
    }

    fn fail_own(&mut self, now: Instant, id: u64, status: u16, out: &mut Outbox) {
        self.own.remove(&id);
        self.with_sessions(now, out, |sessions, effects| {
            sessions.handle_failure(now, RequestId(id), status, effects);
        });
    }
}
