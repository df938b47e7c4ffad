//! Joins the event notifier ([`crate::events`]) to the lower layers: subscriptions, publications, messages
//! kept for later.
//!
//! The notifier is a machine that knows neither transactions nor transports. Each function here gives it one
//! input and performs its effects: replies by the server transaction of the request, queries to the router,
//! and requests of its own (NOTIFY, MESSAGE), which are resolved and sent as client transactions. The list of
//! effects is kept between the calls for its memory.

use bytes::Bytes;
use router::{Answer, AskId, Binding, Push, WaitingMessage};
use stdx::Instant;
use stdx::slab::Key;

use super::context::{RequestStage, TransactionUser};
use super::environment::forwarded_copy::next_hop_in;
use super::lower::{LowerView, UnresolvedMessage};
use super::{Endpoint, EndpointEffect, EndpointOutbox};
use crate::events::{self, EventEffect, IncomingRequest, Notifier, OutgoingRoute, RequestId, TxRef};
use crate::resolve::Hop;
use crate::wire::{Message, Method};

/// The owners of the addresses that `has_moved` names have changed: subscriptions to these watch at the new ones.
pub fn watch_again(
    endpoint: &mut Endpoint,
    now: Instant,
    has_moved: impl Fn(&str) -> bool,
    out: &mut EndpointOutbox,
) {
    endpoint.cores.events.watch_again(&mut endpoint.lower.at(now, out), has_moved);
}

/// The event notifier, joined to transactions, resolver and transports.
pub(crate) struct EventFront {
    pub(crate) notifier: Notifier,
    effects: Vec<EventEffect>,
}

impl EventFront {
    pub(crate) fn new(notifier: Notifier) -> Self {
        EventFront { notifier, effects: Vec::new() }
    }

    /// True if the request is within a subscription that ends here.
    pub(crate) fn owns(&self, request: &Message) -> bool {
        request.method() == Method::Subscribe && self.notifier.owns(request)
    }

    /// Gives the notifier a request: within a subscription, for an account, or a MESSAGE that no phone took.
    pub(crate) fn run_notifier(&mut self, lower: &mut LowerView<'_>, key: Key, aor: &str) {
        if lower.refuse_merged(key) {
            return;
        }
        lower.remember_request(key);
        let Some(context) = lower.contexts.get_mut(key) else { return };
        context.stage = RequestStage::Agent;
        let Some(context) = lower.contexts.get(key) else { return };
        let contact = lower
            .env
            .listeners
            .listener_for(context.source.transport, context.source.remote, Some(context.source.local))
            .map_or(String::new(), |index| {
                String::from_utf8_lossy(&lower.env.listeners.texts[index].uri).into_owned()
            });
        let account = lower.sender_of(key);
        let incoming = IncomingRequest {
            transaction: TxRef(key.to_u64()),
            request: &context.request,
            source: &context.source,
            contact: &contact,
            aor,
            account: account.as_deref(),
        };
        let mut effects = std::mem::take(&mut self.effects);
        match context.request.method() {
            Method::Subscribe => self.notifier.handle_subscribe(lower.now, &incoming, &mut effects),
            Method::Publish => self.notifier.handle_publish(lower.now, &incoming, &mut effects),
            _ => self.notifier.handle_message_undelivered(lower.now, &incoming, &mut effects),
        }
        self.perform_events(lower, effects);
    }

    /// An answer whose number has `events::ASK_BIT` is the notifier's.
    pub(crate) fn handle_agent_answer(&mut self, lower: &mut LowerView<'_>, id: AskId, answer: Answer) {
        let mut effects = std::mem::take(&mut self.effects);
        self.notifier.handle_answer(lower.now, id, answer, &mut effects);
        self.perform_events(lower, effects);
    }

    /// A change that the router sends unasked.
    pub(super) fn handle_push(&mut self, lower: &mut LowerView<'_>, push: Push) {
        let mut effects = std::mem::take(&mut self.effects);
        self.notifier.handle_push(lower.now, push, &mut effects);
        self.perform_events(lower, effects);
    }

    /// The owners of these addresses have changed.
    pub(super) fn watch_again(&mut self, lower: &mut LowerView<'_>, has_moved: impl Fn(&str) -> bool) {
        let mut effects = std::mem::take(&mut self.effects);
        events::watch_again(&mut self.notifier, lower.now, has_moved, &mut effects);
        self.perform_events(lower, effects);
    }

    /// Every subscription ends: its watcher shall subscribe elsewhere.
    pub(super) fn end_subscriptions(&mut self, lower: &mut LowerView<'_>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.notifier.drain(lower.now, &mut effects);
        self.perform_events(lower, effects);
    }

    /// Timers of subscriptions and of waiting messages.
    pub(crate) fn expire_notifier(&mut self, lower: &mut LowerView<'_>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.notifier.expire(lower.now, &mut effects);
        self.perform_events(lower, effects);
    }

    /// The final status of a request of the notifier; 408 where it could not be sent.
    pub(crate) fn handle_notify_result(&mut self, lower: &mut LowerView<'_>, id: u64, status: u16) {
        let mut effects = std::mem::take(&mut self.effects);
        self.notifier.handle_result(lower.now, RequestId(id), status, &mut effects);
        self.perform_events(lower, effects);
    }

    /// Performs effects in order.
    pub(crate) fn perform_events(&mut self, lower: &mut LowerView<'_>, mut effects: Vec<EventEffect>) {
        for effect in effects.drain(..) {
            match effect {
                EventEffect::Reply { transaction, bytes } => {
                    self.reply_for_notifier(lower, transaction, bytes);
                }
                EventEffect::Ask { id, query } => lower.out.push(EndpointEffect::Ask { id, query }),
                EventEffect::Request { id, bytes, onward } => {
                    self.send_for_notifier(lower, id, bytes, &onward);
                }
                EventEffect::TextOutcome { id, texted } => {
                    lower.out.push(EndpointEffect::TextOutcome { id, texted });
                }
            }
        }
        // The notifier may have been asked again meanwhile; its effects were performed there.
        self.effects = effects;
    }

    /// Answers a request; its context ends.
    fn reply_for_notifier(&mut self, lower: &mut LowerView<'_>, transaction: TxRef, bytes: Bytes) {
        let key = Key::from_u64(transaction.0);
        let Some(server) = lower.contexts.get(key).map(|context| context.server) else { return };
        let status = Message::parse(bytes.clone()).map_or(500, |response| response.status());
        lower.respond(server, status, bytes);
        lower.close(key);
    }

    /// Sends a request over the flow of its phone (RFC 5626 §5.3), or to the address that its next hop
    /// resolves to.
    fn send_for_notifier(
        &mut self,
        lower: &mut LowerView<'_>,
        id: RequestId,
        bytes: Bytes,
        onward: &OutgoingRoute,
    ) {
        if let Some(received) = &onward.received {
            return self.send_notifiers_request(lower, id, bytes, onward, Some(Hop::of_flow(received)));
        }
        let next = next_hop_in(&onward.next_hop).ok();
        let waiting = UnresolvedMessage::Notifier { id, request: bytes, onward: onward.clone() };
        if let Some((UnresolvedMessage::Notifier { id, request, onward }, hop)) =
            lower.send_when_resolved(next.as_ref(), waiting)
        {
            self.send_notifiers_request(lower, id, request, &onward, hop);
        }
    }

    /// Sends a request to a resolved hop. A hop that the operator forbids counts as unreachable.
    pub(crate) fn send_notifiers_request(
        &mut self,
        lower: &mut LowerView<'_>,
        id: RequestId,
        request: Bytes,
        onward: &OutgoingRoute,
        hop: Option<Hop>,
    ) {
        let request = Message::parse(request).ok();
        let hop = hop.filter(|hop| !lower.env.is_forbidden_for(onward, hop));
        let sent = hop.zip(request).and_then(|(hop, request)| {
            lower.send_own(&request, hop, onward.received.as_ref(), TransactionUser::Notifier(id.0))
        });
        if sent.is_none() {
            self.handle_notify_result(lower, id.0, 408);
        }
    }

    /// Words of chat for the phones of an account. [`EndpointEffect::TextOutcome`] tells what became of them.
    pub(super) fn text(
        &mut self,
        lower: &mut LowerView<'_>,
        id: u64,
        bindings: &[Binding],
        words: &WaitingMessage,
    ) {
        let mut effects = std::mem::take(&mut self.effects);
        self.notifier.text(id, bindings, words, &mut effects);
        self.perform_events(lower, effects);
    }
}
