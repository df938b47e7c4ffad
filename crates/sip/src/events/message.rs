//! MESSAGE for somebody who is not there (RFC 3428): kept, and sent when the address comes back.

use bytes::Bytes;
use router::{Aor, Binding, KeepRefused, KeptMessage, Query};
use stdx::Instant;

use super::package::media_type;
use super::{EventEffect, Incoming, Notifier, Onward, Outgoing, Refusal, RequestId, Waiting, sip_uri};
use crate::limits;
use crate::wire::{Address, Header, Message, PRODUCT, Request, Uri, Values, parse_number, write_date};

/// A kept message on its way to all contacts of its recipient.
pub(super) struct Delivery {
    aor: Aor,
    message: u64,
    /// Contacts that have not answered.
    outstanding: usize,
    /// Some contact will never take it.
    is_refused: bool,
}

impl Notifier {
    /// A MESSAGE for an address without bindings. Leads to one `Reply`: 202 once it is in the record.
    pub fn handle_message_undelivered(
        &mut self,
        now: Instant,
        incoming: &Incoming<'_>,
        out: &mut Vec<EventEffect>,
    ) {
        let kept = check_keepable(incoming.request)
            .and_then(|from| self.ask_for(now, incoming, keep_query(now, incoming, from), out));
        if let Err(refusal) = kept {
            self.refuse(incoming, &refusal, out);
        }
    }

    pub(super) fn handle_kept(
        &mut self,
        waiting: &Waiting,
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

    /// To every contact at once, as a proxy would fork it.
    pub(super) fn deliver(
        &mut self,
        bindings: &[Binding],
        message: &KeptMessage,
        out: &mut Vec<EventEffect>,
    ) {
        // Left alone, the router offers it again with the next REGISTER.
        if self.deliveries.len() >= limits::DELIVERIES || bindings.is_empty() {
            return;
        }
        let bindings = &bindings[..bindings.len().min(limits::DELIVERY_CONTACTS)];
        let delivery = self.next_id();
        let [tag, call_id] = [(); 2].map(|()| self.rng.token(limits::TAG_CHARS));
        for binding in bindings {
            let id = RequestId(self.next_id());
            let (bytes, onward) = message_request(binding, message, &tag, &call_id);
            self.requests.insert(id.0, Outgoing::Message { delivery });
            out.push(EventEffect::Request { id, bytes, onward });
        }
        self.deliveries.insert(
            delivery,
            Delivery {
                aor: message.aor.clone(),
                message: message.id,
                outstanding: bindings.len(),
                is_refused: false,
            },
        );
    }

    /// The first 2xx is a delivery. When all others have failed, one refusal for good is enough: the message
    /// would be refused the same way for ever.
    pub(super) fn handle_delivered(&mut self, id: u64, status: u16, out: &mut Vec<EventEffect>) {
        let Some(delivery) = self.deliveries.get_mut(&id) else { return };
        delivery.outstanding -= 1;
        delivery.is_refused |= is_for_good(status);
        let is_over = delivery.outstanding == 0;
        let is_success = (200..300).contains(&status);
        self.counters.messages_delivered += u64::from(is_success);
        let is_done = is_success || is_over && delivery.is_refused;
        if !is_over && !is_done {
            return;
        }
        if let Some(Delivery { aor, message, .. }) = self.deliveries.remove(&id).filter(|_| is_done) {
            self.tell(Query::Delivered { aor, message }, out);
        }
    }
}

/// The sender's URI, when the message can wait.
fn check_keepable(request: &Message) -> Result<&str, Refusal> {
    let absent = || Refusal::new(480, "Temporarily Unavailable");
    if request.body().len() > limits::KEPT_MESSAGE_BYTES {
        return Err(Refusal::limit(413, "Request Entity Too Large"));
    }
    // RFC 3428 §4: what has expired is not delivered. RFC 3994: "is typing" is of the moment.
    let is_expired = request.header(Header::Expires).and_then(parse_number) == Some(0);
    let content_type = media_type(request.header(Header::ContentType).unwrap_or_default());
    if is_expired || content_type.eq_ignore_ascii_case(b"application/im-iscomposing+xml") {
        return Err(absent());
    }
    // What we keep is text and body, not the coding they came in.
    if request.count(Header::ContentEncoding) > 0 {
        return Err(absent());
    }
    let from = request.from().filter(|from| Uri::parse(from.uri).is_ok());
    let from = from.and_then(|from| std::str::from_utf8(from.uri).ok());
    from.ok_or(Refusal::new(400, "Bad From"))
}

fn keep_query(now: Instant, incoming: &Incoming<'_>, from: &str) -> Query {
    let content_type = incoming.request.header(Header::ContentType).unwrap_or(b"text/plain");
    Query::Keep(Box::new(KeptMessage {
        id: 0,
        aor: incoming.aor.into(),
        from: from.into(),
        content_type: one_line(&String::from_utf8_lossy(content_type)),
        body: incoming.request.body().into(),
        sent_at: now,
    }))
}

/// A header value may come folded over lines (RFC 3261 §7.3.1); ours do not go out so.
fn one_line(value: &str) -> Box<str> {
    value.split(['\r', '\n']).map(str::trim).collect::<Vec<_>>().join(" ").into()
}

/// RFC 3428 §4: outside any dialog; Date says when it was sent.
fn message_request(binding: &Binding, message: &KeptMessage, tag: &str, call_id: &str) -> (Bytes, Onward) {
    let contact = &binding.contact;
    let mut request = Request::new(b"MESSAGE", contact.uri.as_bytes());
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
    request.header("User-Agent", PRODUCT.as_bytes());
    let received = contact.received.filter(|_| contact.path.is_empty());
    (request.finish_with(&message.content_type, &message.body), Onward { next_hop, received })
}

/// The phone will answer the same whenever it is asked: it cannot, or does not want to.
fn is_for_good(status: u16) -> bool {
    matches!(status, 405 | 413 | 415 | 416 | 488 | 493 | 501 | 505 | 513 | 603 | 604 | 606)
}
