//! PUBLISH: RFC 3903 §6, for presence only.
//!
//! The request is checked here in the order of §6, and becomes a query to the router, which has the published
//! documents and their entity tags; its answer makes the reply. A document is passed on unread: its watchers,
//! and chat, make of it what they can.

use std::sync::Arc;

use router::{Publish, PublishRefused, Published, Query};
use stdx::Instant;

use super::package::{EventHeader, PIDF, Package, media_type};
use super::subscribe::{check_require, granted};
use super::{EventEffect, EventRefusal, EventRules, IncomingRequest, Notifier, OpenQuery, WaitingRequest};
use crate::limits;
use crate::wire::{Header, Message, eq_ignore_case};

impl Notifier {
    /// A PUBLISH. Leads to one `Reply`, with the router's answer when there was anything to ask.
    pub fn handle_publish(
        &mut self,
        now: Instant,
        incoming: &IncomingRequest<'_>,
        out: &mut Vec<EventEffect>,
    ) {
        let asked =
            publish_query(incoming, &self.rules).and_then(|query| self.ask_for(now, incoming, query, out));
        if let Err(refusal) = asked {
            self.refuse(incoming, &refusal, out);
        }
    }

    /// Asks the router and keeps what the reply is made of. Refused when too many wait already.
    pub(super) fn ask_for(
        &mut self,
        now: Instant,
        incoming: &IncomingRequest<'_>,
        query: Query,
        out: &mut Vec<EventEffect>,
    ) -> Result<(), EventRefusal> {
        self.check_room()?;
        let waiting = WaitingRequest {
            transaction: incoming.transaction,
            request: incoming.request.clone(),
            source: *incoming.source,
        };
        self.ask(now, query, OpenQuery::Request(Box::new(waiting)), out);
        Ok(())
    }

    pub(super) fn handle_published(
        &mut self,
        waiting: &WaitingRequest,
        result: &Result<Published, PublishRefused>,
        out: &mut Vec<EventEffect>,
    ) {
        let (status, reason) = match result {
            Ok(_) => (200, "OK"),
            Err(PublishRefused::ConditionalRequestFailed) => (412, "Conditional Request Failed"),
            Err(PublishRefused::TooMany) => (403, "Too Many Publications"),
        };
        let mut reply = self.reply_to(&waiting.request, &waiting.source, status, reason);
        if let Ok(published) = result {
            reply.header("SIP-ETag", published.etag.as_bytes());
            reply.header("Expires", published.expires.to_string().as_bytes());
        }
        out.push(EventEffect::Reply { transaction: waiting.transaction, bytes: reply.finish() });
    }
}

/// The query that a sound PUBLISH puts to the router.
fn publish_query(incoming: &IncomingRequest<'_>, rules: &EventRules) -> Result<Query, EventRefusal> {
    let request = incoming.request;
    check_require(request)?;
    check_event(request)?;
    // A client may publish only its own account's presence.
    if incoming.account != Some(incoming.aor) {
        return Err(EventRefusal::new(403, "Forbidden"));
    }
    let etag = etag_of(request)?;
    let expires = granted(request, rules)?;
    let document = document_of(request)?;
    // RFC 3903 §4.1, table 1: an initial publication has a body.
    if etag.is_none() && document.is_none() {
        return Err(EventRefusal::new(400, "Missing Body"));
    }
    let publish = Publish { aor: incoming.aor.into(), etag, document, expires };
    Ok(Query::Publish(Box::new(publish)))
}

/// RFC 3903 §6 step 2: an event package that may be published.
fn check_event(request: &Message) -> Result<(), EventRefusal> {
    match EventHeader::of(request) {
        Ok(EventHeader { package: Package::Presence, .. }) => Ok(()),
        _ => Err(EventRefusal::new(489, "Bad Event").with("Allow-Events", Package::Presence.as_str())),
    }
}

/// RFC 3903 §6 step 3: one tag or none. Without one the publication is an initial one.
fn etag_of(request: &Message) -> Result<Option<Box<str>>, EventRefusal> {
    let mut values = request.values(Header::SipIfMatch);
    let first = values.next().map(|tag| std::str::from_utf8(tag).map(Box::from));
    match (first.transpose(), values.next()) {
        (Ok(etag), None) => Ok(etag),
        _ => Err(EventRefusal::new(400, "Bad SIP-If-Match")),
    }
}

/// RFC 3903 §6 step 5: PIDF, uncoded, of a bounded size. `None`: a refresh or a removal.
fn document_of(request: &Message) -> Result<Option<Arc<[u8]>>, EventRefusal> {
    let body = request.body();
    if body.is_empty() {
        return Ok(None);
    }
    let content_type = media_type(request.header(Header::ContentType).unwrap_or_default());
    if !eq_ignore_case(content_type, PIDF) || request.count(Header::ContentEncoding) > 0 {
        return Err(EventRefusal::new(415, "Unsupported Media Type").with("Accept", PIDF));
    }
    if body.len() > limits::PUBLISHED_BYTES {
        return Err(EventRefusal::limit(413, "Request Entity Too Large"));
    }
    Ok(Some(body.into()))
}
