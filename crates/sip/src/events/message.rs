//! MESSAGE for an address without bindings (RFC 3428): kept, and sent when the address comes back. Texts of
//! chat clients go to phones the same way.
//!
//! The router keeps the message until [`Query::Delivered`] says that a phone has taken it or refused it for
//! good. After any other outcome it is offered again, so that a phone may get it twice but none is lost by a
//! phone that was out of reach.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use router::{Aor, Binding, BoundTarget, KeepRefused, Offer, Query, WaitingMessage, bound_targets};
use stdx::Instant;

use super::package::media_type;
use super::{
    EventCounters, EventEffect, EventRefusal, Identifiers, IncomingRequest, Notifier, OutgoingRoute,
    RequestId, TextOutcome, WaitingRequest, sip_uri,
};
use crate::limits;
use crate::wire::{
    Address, Header, Message, PRODUCT, RequestBuilder, Uri, Values, parse_number, request_uri, write_date,
};

/// A kept message on its way to all contacts of its recipient.
struct MessageDelivery {
    origin: MessageOrigin,
    /// Contacts that have not answered.
    outstanding: usize,
    /// Some contact will never take it.
    is_refused: bool,
    /// For other flows of an instance; `None`: no instance has any.
    copies: Option<Box<MessageCopies>>,
}

/// A message with the fields that all its copies share.
struct MessageCopies {
    message: WaitingMessage,
    tag: String,
    call_id: String,
}

/// A copy of a message without a final response.
struct OpenRequest {
    /// The number of its delivery.
    delivery: u64,
    /// The other flows of the instance, each for the case that those before it have failed.
    other_flows: VecDeque<Binding>,
}

/// The origin of a MESSAGE: it decides where its outcome goes.
enum MessageOrigin {
    /// A message that the router keeps.
    Kept { aor: Aor, message: u64 },
    /// A text of a chat client, by the number that its sender chose.
    Text { id: u64 },
}

/// The end of the Call-IDs of messages from chat. Such a MESSAGE is never offered to chat again.
const OF_CHAT: &str = "@chat";

/// Messages on their way to phones, and their requests without a final response.
#[derive(Default)]
pub(super) struct MessageDeliveries {
    open: HashMap<u64, MessageDelivery>,
    by_request: HashMap<u64, OpenRequest>,
}

impl MessageDeliveries {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Sends a kept message.
    /// To every contact at once, as a proxy would fork it; the flows of one instance are one contact.
    pub(super) fn deliver(
        &mut self,
        ids: &mut Identifiers,
        bindings: &[Binding],
        message: &WaitingMessage,
        out: &mut Vec<EventEffect>,
    ) {
        // Left alone, the router offers it again with the next REGISTER.
        if self.has_room(bindings) {
            let origin = MessageOrigin::Kept { aor: message.aor.clone(), message: message.id };
            self.send_to_all(ids, bindings, message, origin, out);
        }
    }

    /// Sends a text of chat to the phones of an account.
    pub(super) fn text(
        &mut self,
        ids: &mut Identifiers,
        id: u64,
        bindings: &[Binding],
        words: &WaitingMessage,
        out: &mut Vec<EventEffect>,
    ) {
        if !self.has_room(bindings) {
            return out.push(EventEffect::TextOutcome { id, texted: TextOutcome::Failed });
        }
        self.send_to_all(ids, bindings, words, MessageOrigin::Text { id }, out);
    }

    fn has_room(&self, bindings: &[Binding]) -> bool {
        self.open.len() < limits::DELIVERIES && !bindings.is_empty()
    }

    fn send_to_all(
        &mut self,
        ids: &mut Identifiers,
        bindings: &[Binding],
        message: &WaitingMessage,
        origin: MessageOrigin,
        out: &mut Vec<EventEffect>,
    ) {
        let mut targets = bound_targets(bindings.to_vec());
        targets.truncate(limits::DELIVERY_CONTACTS);
        let delivery = ids.next_id();
        // One tag and one Call-ID for all contacts, as of a forked request: a phone that is behind two of
        // them can refuse the second as merged (RFC 3261 §8.2.2.2).
        let [tag, call_id] = [(); 2].map(|()| ids.token());
        let call_id = match origin {
            MessageOrigin::Kept { .. } => call_id,
            MessageOrigin::Text { .. } => call_id + OF_CHAT,
        };
        let outstanding = targets.len();
        let has_others = targets.iter().any(|target| !target.other_flows.is_empty());
        for BoundTarget { binding, other_flows } in targets {
            let id = RequestId(ids.next_id());
            let (bytes, onward) = message_request(&binding, message, &tag, &call_id);
            self.by_request.insert(id.0, OpenRequest { delivery, other_flows: other_flows.into() });
            out.push(EventEffect::Request { id, bytes, onward });
        }
        let copies = has_others.then(|| Box::new(MessageCopies { message: message.clone(), tag, call_id }));
        self.open.insert(delivery, MessageDelivery { origin, outstanding, is_refused: false, copies });
    }

    /// Sends another copy by the next flow of the instance. False: there is none.
    fn send_by_next_flow(
        &mut self,
        ids: &mut Identifiers,
        mut request: OpenRequest,
        out: &mut Vec<EventEffect>,
    ) -> bool {
        let delivery = self.open.get(&request.delivery);
        let Some(copies) = delivery.and_then(|delivery| delivery.copies.as_ref()) else { return false };
        let Some(binding) = request.other_flows.pop_front() else { return false };
        let MessageCopies { message, tag, call_id } = &**copies;
        let id = RequestId(ids.next_id());
        let (bytes, onward) = message_request(&binding, message, tag, call_id);
        self.by_request.insert(id.0, request);
        out.push(EventEffect::Request { id, bytes, onward });
        true
    }

    /// The first 2xx is a delivery. When all others have failed, one refusal for good is enough: the message
    /// would be refused the same way for ever. Returns the report to the router, if one is due.
    pub(super) fn handle_status(
        &mut self,
        ids: &mut Identifiers,
        (request, status): (RequestId, u16),
        counters: &mut EventCounters,
        out: &mut Vec<EventEffect>,
    ) -> Option<Query> {
        let request = self.by_request.remove(&request.0)?;
        let id = request.delivery;
        // RFC 5626 §7: any other response is that of the instance.
        if matches!(status, 408 | 430) && self.send_by_next_flow(ids, request, out) {
            return None;
        }
        let delivery = self.open.get_mut(&id)?;
        delivery.outstanding -= 1;
        delivery.is_refused |= is_for_good(status);
        let is_over = delivery.outstanding == 0;
        let is_success = (200..300).contains(&status);
        counters.messages_delivered += u64::from(is_success);
        let texted = match (is_success, delivery.is_refused) {
            (true, _) => TextOutcome::Taken,
            (false, true) => TextOutcome::Refused,
            (false, false) => TextOutcome::Failed,
        };
        if !is_over && !is_success {
            return None;
        }
        match self.open.remove(&id).map(|delivery| delivery.origin) {
            Some(MessageOrigin::Text { id }) => {
                out.push(EventEffect::TextOutcome { id, texted });
                None
            }
            Some(MessageOrigin::Kept { aor, message }) if texted != TextOutcome::Failed => {
                Some(Query::Delivered { aor, message })
            }
            Some(MessageOrigin::Kept { .. }) | None => None,
        }
    }
}

impl Notifier {
    /// Words of chat for the phones of an account; `EventEffect::TextOutcome` tells what became of them.
    pub fn text(
        &mut self,
        id: u64,
        bindings: &[Binding],
        words: &WaitingMessage,
        out: &mut Vec<EventEffect>,
    ) {
        self.deliveries.text(&mut self.ids, id, bindings, words, out);
    }

    /// A MESSAGE for an address without bindings. Leads to one `Reply`: 202 once it is in the record.
    pub fn handle_message_undelivered(
        &mut self,
        now: Instant,
        incoming: &IncomingRequest<'_>,
        out: &mut Vec<EventEffect>,
    ) {
        let kept = check_keepable(incoming.request)
            .and_then(|from| self.ask_for(now, incoming, keep_query(now, incoming, from), out));
        if let Err(refusal) = kept {
            self.refuse(incoming, &refusal, out);
        }
    }

    /// The router's answer to a MESSAGE that was to be kept. Only 202 says that the sender need not send it
    /// again.
    pub(super) fn handle_kept(
        &mut self,
        waiting: &WaitingRequest,
        result: Result<(), KeepRefused>,
        out: &mut Vec<EventEffect>,
    ) {
        self.counters.messages_kept += u64::from(result.is_ok());
        let (status, reason) = match result {
            // RFC 3428 §7: accepted, not delivered.
            Ok(()) => (202, "Accepted"),
            Err(KeepRefused::TooMany) => (480, "Temporarily Unavailable"),
            Err(KeepRefused::TooLarge) => (413, "Request Entity Too Large"),
            Err(KeepRefused::StoreFailed) => (500, "Message Could Not Be Kept"),
        };
        let reply = self.reply_to(&waiting.request, &waiting.source, status, reason);
        out.push(EventEffect::Reply { transaction: waiting.transaction, bytes: reply.finish() });
    }
}

/// The offer of a MESSAGE to chat clients. `None`: it came from chat, has expired or is too long.
pub(crate) fn offer_query(
    now: Instant,
    request: &Message,
    aor: &str,
    sender: Option<&str>,
    has_phones: bool,
) -> Option<Query> {
    let is_of_chat = request.call_id().is_some_and(|call_id| call_id.ends_with(OF_CHAT.as_bytes()));
    let is_expired = expires(request) == Some(0);
    let is_coded = request.count(Header::ContentEncoding) > 0;
    let is_long = request.body().len() > limits::KEPT_MESSAGE_BYTES;
    if is_of_chat || is_expired || is_coded || is_long {
        return None;
    }
    let message = message_of(now, request, aor, sender_of(request)?);
    Some(Query::Offer(Box::new(Offer { message, sender: sender.map(Aor::from), has_phones })))
}

/// The sender's URI, when the message can wait.
fn check_keepable(request: &Message) -> Result<&str, EventRefusal> {
    let absent = || EventRefusal::new(480, "Temporarily Unavailable");
    if request.body().len() > limits::KEPT_MESSAGE_BYTES {
        return Err(EventRefusal::limit(413, "Request Entity Too Large"));
    }
    // RFC 3428 §4: an expired message is not delivered. RFC 3994: "is typing" is of the moment.
    let is_expired = expires(request) == Some(0);
    let content_type = media_type(request.header(Header::ContentType).unwrap_or_default());
    if is_expired || content_type.eq_ignore_ascii_case(b"application/im-iscomposing+xml") {
        return Err(absent());
    }
    // The message is stored as text and body, not in its content coding.
    if request.count(Header::ContentEncoding) > 0 {
        return Err(absent());
    }
    sender_of(request).ok_or(EventRefusal::new(400, "Bad From"))
}

/// Seconds for which a MESSAGE is of use (RFC 3261 §20.19). A value that is not a number is ignored.
fn expires(request: &Message) -> Option<u32> {
    request.header(Header::Expires).and_then(parse_number)
}

/// The URI of From, if it is one that a message of ours may repeat in its own From.
fn sender_of(request: &Message) -> Option<&str> {
    let from = request.from().filter(|from| Uri::parse(from.uri).is_ok());
    from.and_then(|from| std::str::from_utf8(from.uri).ok())
}

/// A stranger's message counts towards a smaller limit, by the router.
fn keep_query(now: Instant, incoming: &IncomingRequest<'_>, from: &str) -> Query {
    let message = Box::new(message_of(now, incoming.request, incoming.aor, from));
    if incoming.account.is_some() { Query::Keep(message) } else { Query::KeepOfStranger(message) }
}

/// The number is set where the message is kept.
fn message_of(now: Instant, request: &Message, aor: &str, from: &str) -> WaitingMessage {
    let content_type = request.header(Header::ContentType).unwrap_or(b"text/plain");
    WaitingMessage {
        id: 0,
        aor: aor.into(),
        from: from.into(),
        content_type: one_line(&String::from_utf8_lossy(content_type)),
        body: request.body().into(),
        sent_at: now,
        expires_at: expires(request).map(|seconds| now + Duration::from_secs(seconds.into())),
    }
}

/// A header value may come folded over lines (RFC 3261 §7.3.1); ours do not go out so.
fn one_line(value: &str) -> Box<str> {
    value.split(['\r', '\n']).map(str::trim).collect::<Vec<_>>().join(" ").into()
}

/// RFC 3428 §4: outside any dialog; Date says when it was sent.
fn message_request(
    binding: &Binding,
    message: &WaitingMessage,
    tag: &str,
    call_id: &str,
) -> (Bytes, OutgoingRoute) {
    let contact = &binding.contact;
    let mut request = RequestBuilder::new(b"MESSAGE", &request_uri(contact.uri.as_bytes()));
    // RFC 3327 §5.3.
    for route in Values::new(contact.path.as_bytes()) {
        request.header("Route", route);
    }
    let first = Values::new(contact.path.as_bytes()).next().and_then(Address::parse);
    let next_hop = first.map_or(contact.uri.clone(), |route| String::from_utf8_lossy(route.uri).into());
    request.header("Max-Forwards", b"70");
    request.header("From", format!("<{}>;tag={tag}", message.from).as_bytes());
    request.header("To", format!("<{}>", sip_uri(&message.aor)).as_bytes());
    request.header("Call-ID", call_id.as_bytes());
    request.header("CSeq", b"1 MESSAGE");
    let mut date = Vec::with_capacity(29);
    write_date(&mut date, message.sent_at);
    request.header("Date", &date);
    // RFC 3428 §4: counted from Date, so that the phone can tell when it has expired.
    if let Some(end) = message.expires_at {
        let seconds = end.since(message.sent_at).as_secs();
        request.header("Expires", seconds.to_string().as_bytes());
    }
    request.header("User-Agent", PRODUCT.as_bytes());
    let received = contact.received.filter(|_| contact.path.is_empty());
    (
        request.finish_with(&message.content_type, &message.body),
        OutgoingRoute { next_hop, received, public_only: false, is_binding: contact.path.is_empty() },
    )
}

/// The phone will answer the same whenever it is asked: it cannot, or does not want to.
fn is_for_good(status: u16) -> bool {
    matches!(status, 405 | 413 | 415 | 416 | 488 | 493 | 501 | 505 | 513 | 603 | 604 | 606)
}
