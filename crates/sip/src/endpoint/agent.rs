//! Requests that this server itself answers or sends: probes of routes, and the event notifier's
//! ([`crate::events`]): subscriptions, publications, messages kept for later.

use bytes::Bytes;
use router::{Answer, AskId, Push};
use stdx::Instant;
use stdx::slab::Key;

use super::forward::next_hop_of;
use super::receive::reply_target;
use super::resolution::Waiting;
use super::{Effect, Endpoint, Outbox, Stage, User};
use crate::events::{EventEffect, Incoming, Onward, Package, RequestId, TxRef};
use crate::resolve::Hop;
use crate::token;
use crate::transport::{Source, Target};
use crate::wire::{Header, Message, Method, Reply, Request, Rewrite, Uri};

impl Endpoint {
    /// Sends an OPTIONS to a route's target; [`Effect::Probed`] tells what became of it.
    pub fn probe(&mut self, now: Instant, id: u64, target: &str, out: &mut Outbox) {
        let next = Uri::parse(target.as_bytes()).ok().and_then(|uri| next_hop_of(&uri));
        self.send_when_resolved(now, next.as_ref(), Waiting::Probe { id, target: target.into() }, out);
    }

    pub(super) fn send_probe(
        &mut self,
        now: Instant,
        id: u64,
        target: &str,
        hop: Option<Hop>,
        out: &mut Outbox,
    ) {
        let sent = hop.and_then(|hop| self.try_probe(now, id, target, hop, out));
        if sent.is_none() {
            out.push(Effect::Probed { id, status: 503 });
        }
    }

    fn try_probe(&mut self, now: Instant, id: u64, target: &str, hop: Hop, out: &mut Outbox) -> Option<()> {
        let listener = self.listener_for(hop.transport, hop.addr, None)?;
        let us = String::from_utf8_lossy(&self.texts[listener].uri).into_owned();
        let unique = self.keys.branch.mac(&[b"probe", &id.to_be_bytes(), &now.as_micros().to_be_bytes()]);
        let mut request = Request::new(b"OPTIONS", target.as_bytes());
        request
            .header("Max-Forwards", b"70")
            .header("From", format!("<{us}>;tag={}", token::to_string(unique)).as_bytes())
            .header("To", format!("<{target}>").as_bytes())
            .header("Call-ID", token::to_string(unique.rotate_left(17)).as_bytes())
            .header("CSeq", b"1 OPTIONS")
            .header("User-Agent", crate::wire::PRODUCT.as_bytes());
        let message = Message::parse(request.finish()).ok()?;
        self.send_own(now, &message, hop, None, User::Probe(id), out)
    }

    /// A request of our own gets its Via and its client transaction. `None`: it cannot be sent.
    fn send_own(
        &mut self,
        now: Instant,
        request: &Message,
        hop: Hop,
        received: Option<&router::Received>,
        user: User,
        out: &mut Outbox,
    ) -> Option<()> {
        let preferred = received.map(|received| received.local);
        let listener = self.listener_for(hop.transport, hop.addr, preferred)?;
        let mut rewrite = Rewrite::new(request);
        rewrite.push_front(Header::Via, |text| {
            self.write_via(text, listener, |text| self.write_branch(text, request, 0, 0));
        });
        let bytes = rewrite.finish();
        let flow = received.and_then(|received| received.flow);
        let target = Target {
            transport: hop.transport,
            remote: hop.addr,
            flow,
            local: Some(self.settings.listeners[listener].addr),
            tls_name: hop.tls_name,
            reconnect: flow.is_none(),
        };
        self.start_client(now, bytes, target, false, user, out).map(drop)
    }

    /// Whether the request is within a subscription that ends here.
    pub(super) fn is_notifiers(&self, request: &Message) -> bool {
        request.method() == Method::Subscribe && self.notifier.owns(request)
    }

    /// Hands a request within a subscription to the notifier.
    pub(super) fn give_to_notifier(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.run_notifier(now, key, "", out);
    }

    /// Whether the request is for the account's event notifier, and no phone: every PUBLISH, and a SUBSCRIBE
    /// to a package that we serve.
    pub(super) fn take_by_agent(&mut self, now: Instant, key: Key, aor: &str, out: &mut Outbox) -> bool {
        let Some(context) = self.contexts.get(key) else { return false };
        let ours = match context.request.method() {
            Method::Publish => true,
            Method::Subscribe => Package::of(&context.request).is_some(),
            _ => false,
        };
        if ours {
            self.run_notifier(now, key, aor, out);
        }
        ours
    }

    pub(super) fn keep_message(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let aor = self.contexts.get(key).and_then(|context| context.callee.clone()).unwrap_or_default();
        self.run_notifier(now, key, &aor, out);
    }

    fn run_notifier(&mut self, now: Instant, key: Key, aor: &str, out: &mut Outbox) {
        if self.refuse_merged(now, key, out) {
            return;
        }
        self.remember_request(key);
        let Some(context) = self.contexts.get_mut(key) else { return };
        context.stage = Stage::Agent;
        let Some(context) = self.contexts.get(key) else { return };
        let contact = self
            .listener_for(context.source.transport, context.source.remote, Some(context.source.local))
            .map_or(String::new(), |index| String::from_utf8_lossy(&self.texts[index].uri).into_owned());
        let account = self.sender_of(key);
        let incoming = Incoming {
            transaction: TxRef(key.to_u64()),
            request: &context.request,
            source: &context.source,
            contact: &contact,
            aor,
            account: account.as_deref(),
        };
        let mut effects = std::mem::take(&mut self.event_effects);
        match context.request.method() {
            Method::Subscribe => self.notifier.handle_subscribe(now, &incoming, &mut effects),
            Method::Publish => self.notifier.handle_publish(now, &incoming, &mut effects),
            _ => self.notifier.handle_message_undelivered(now, &incoming, &mut effects),
        }
        self.perform_events(now, effects, out);
    }

    /// An answer whose number has `events::ASK_BIT` is the notifier's.
    pub(super) fn handle_agent_answer(&mut self, now: Instant, id: AskId, answer: Answer, out: &mut Outbox) {
        let mut effects = std::mem::take(&mut self.event_effects);
        self.notifier.handle_answer(now, id, answer, &mut effects);
        self.perform_events(now, effects, out);
    }

    /// What the router sends unasked.
    pub fn handle_push(&mut self, now: Instant, push: Push, out: &mut Outbox) {
        let mut effects = std::mem::take(&mut self.event_effects);
        self.notifier.handle_push(now, push, &mut effects);
        self.perform_events(now, effects, out);
    }

    pub(super) fn expire_notifier(&mut self, now: Instant, out: &mut Outbox) {
        let mut effects = std::mem::take(&mut self.event_effects);
        self.notifier.expire(now, &mut effects);
        self.perform_events(now, effects, out);
    }

    /// Every subscription ends: its watcher shall subscribe elsewhere.
    pub fn end_subscriptions(&mut self, now: Instant, out: &mut Outbox) {
        let mut effects = std::mem::take(&mut self.event_effects);
        self.notifier.drain(now, &mut effects);
        self.perform_events(now, effects, out);
    }

    pub(super) fn handle_notify_result(&mut self, now: Instant, id: u64, status: u16, out: &mut Outbox) {
        let mut effects = std::mem::take(&mut self.event_effects);
        self.notifier.handle_result(now, RequestId(id), status, &mut effects);
        self.perform_events(now, effects, out);
    }

    pub(super) fn perform_events(&mut self, now: Instant, mut effects: Vec<EventEffect>, out: &mut Outbox) {
        for effect in effects.drain(..) {
            match effect {
                EventEffect::Reply { transaction, bytes } => {
                    self.reply_for_notifier(now, transaction, bytes, out);
                }
                EventEffect::Ask { id, query } => out.push(Effect::Ask { id, query }),
                EventEffect::Request { id, bytes, onward } => {
                    self.send_for_notifier(now, id, bytes, &onward, out);
                }
                EventEffect::Texted { id, texted } => out.push(Effect::Texted { id, texted }),
            }
        }
        // The notifier may have been asked again meanwhile; its effects were performed there.
        self.event_effects = effects;
    }

    fn reply_for_notifier(&mut self, now: Instant, transaction: TxRef, bytes: Bytes, out: &mut Outbox) {
        let key = Key::from_u64(transaction.0);
        let Some(server) = self.contexts.get(key).map(|context| context.server) else { return };
        let status = Message::parse(bytes.clone()).map_or(500, |response| response.status());
        self.respond(now, server, status, bytes, out);
        self.close(key);
    }

    fn send_for_notifier(
        &mut self,
        now: Instant,
        id: RequestId,
        bytes: Bytes,
        onward: &Onward,
        out: &mut Outbox,
    ) {
        if let Some(received) = &onward.received {
            return self.send_notifiers_request(now, id, bytes, onward, Some(Hop::of_flow(received)), out);
        }
        let next = Uri::parse(onward.next_hop.as_bytes()).ok().and_then(|uri| next_hop_of(&uri));
        let waiting = Waiting::Notifier { id, request: bytes, onward: onward.clone() };
        self.send_when_resolved(now, next.as_ref(), waiting, out);
    }

    pub(super) fn send_notifiers_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Bytes,
        onward: &Onward,
        hop: Option<Hop>,
        out: &mut Outbox,
    ) {
        let request = Message::parse(request).ok();
        let hop = hop.filter(|hop| !self.is_forbidden_for(onward, hop));
        let sent = hop.zip(request).and_then(|(hop, request)| {
            self.send_own(now, &request, hop, onward.received.as_ref(), User::Notifier(id.0), out)
        });
        if sent.is_none() {
            self.handle_notify_result(now, id.0, 408, out);
        }
    }

    /// A stream broke the rules; when what came of it is a request, it is told why before the end.
    pub fn handle_stream_fault(&mut self, source: Source, head: Bytes, reply: (u16, &str), out: &mut Outbox) {
        self.counters.malformed += 1;
        let Ok(request) = Message::parse(head) else { return };
        if request.is_request() && request.method() != Method::Ack && request.top_via().is_some() {
            let (status, reason) = reply;
            let tag = self.tag_of(&request, &source);
            let bytes = Reply::new(&request, source.remote, status, reason, Some(&tag)).finish();
            self.transmit(reply_target(&request, &source), bytes, None, out);
        }
    }
}
