//! The dialog a subscription lives in, seen from its notifier: the UAS of RFC 3261 §12.

use router::Received;

use super::{EventRefusal, IncomingRequest, OutgoingRoute};
use crate::transport::{Source, has_known_transport, is_reliable};
use crate::wire::{Address, Header, Message, RequestBuilder, Uri, parse_ip, request_uri};

/// The dialog of a subscription, as its notifier (RFC 6665 §4.4.1).
pub(super) struct Dialog {
    pub(super) call_id: Box<[u8]>,
    pub(super) local_tag: Box<str>,
    pub(super) remote_tag: Box<[u8]>,
    /// The To of the SUBSCRIBE, without a tag: the From of every NOTIFY.
    local: Box<[u8]>,
    /// The From of the SUBSCRIBE, tag and all.
    remote: Box<[u8]>,
    /// Our Contact, without angle brackets.
    contact: Box<str>,
    route_set: Box<[Box<[u8]>]>,
    remote_target: Box<[u8]>,
    received: Option<Received>,
    remote_cseq: u32,
    local_cseq: u32,
}

impl Dialog {
    /// RFC 3261 §12.1.1.
    pub(super) fn of(incoming: &IncomingRequest<'_>, local_tag: Box<str>) -> Result<Dialog, EventRefusal> {
        let request = incoming.request;
        let bad = |reason| EventRefusal::new(400, reason);
        let remote_target = contact_of(request)?.ok_or(bad("Missing Contact"))?;
        let route_set: Box<[Box<[u8]>]> = request.values(Header::RecordRoute).map(Box::from).collect();
        Ok(Dialog {
            call_id: request.call_id().ok_or(bad("Missing Call-ID"))?.into(),
            local_tag,
            remote_tag: request.from_tag().ok_or(bad("Missing From Tag"))?.into(),
            local: request.header(Header::To).ok_or(bad("Missing To"))?.into(),
            remote: request.header(Header::From).ok_or(bad("Missing From"))?.into(),
            contact: incoming.contact.into(),
            received: received(incoming.source, remote_target, route_set.first().map(|route| &**route)),
            route_set,
            remote_target: remote_target.into(),
            remote_cseq: request.cseq().ok_or(bad("Bad CSeq"))?.0,
            local_cseq: 0,
        })
    }

    pub(super) fn is_of(&self, request: &Message) -> bool {
        request.call_id() == Some(&*self.call_id) && request.from_tag() == Some(&*self.remote_tag)
    }

    /// RFC 3261 §12.2.2: a CSeq that is not higher is 500; a Contact replaces the remote target.
    pub(super) fn accept(&mut self, incoming: &IncomingRequest<'_>) -> Result<(), EventRefusal> {
        let number = incoming.request.cseq().map_or(0, |(number, _)| number);
        if number <= self.remote_cseq {
            return Err(EventRefusal::new(500, "CSeq Out Of Order"));
        }
        if let Some(target) = contact_of(incoming.request)? {
            self.remote_target = target.into();
        }
        self.remote_cseq = number;
        self.contact = incoming.contact.into();
        self.received = {
            let route = self.route_set.first().map(|route| &**route);
            received(incoming.source, &self.remote_target, route)
        };
        Ok(())
    }

    pub(super) fn contact_header(&self) -> String {
        format!("<{}>", self.contact)
    }

    /// RFC 3261 §12.2.1.1. The caller adds what NOTIFY wants; Via is the endpoint's.
    pub(super) fn request(&mut self, method: &str) -> (RequestBuilder, OutgoingRoute) {
        self.local_cseq += 1;
        let (uri, routes) = self.route();
        let mut request = RequestBuilder::new(method.as_bytes(), &request_uri(&uri));
        for route in &routes {
            request.header("Route", route);
        }
        let first = routes.first().and_then(|route| Address::parse(route)).map(|route| route.uri);
        let next_hop = String::from_utf8_lossy(first.unwrap_or(&uri)).into();
        request.header("Max-Forwards", b"70");
        request.header("From", &[&self.local, &b";tag="[..], self.local_tag.as_bytes()].concat());
        request.header("To", &self.remote);
        request.header("Call-ID", &self.call_id);
        request.header("CSeq", format!("{} {method}", self.local_cseq).as_bytes());
        request.header("Contact", self.contact_header().as_bytes());
        (request, OutgoingRoute { next_hop, received: self.received, public_only: false, is_binding: false })
    }

    /// Request-URI and Route values. A first route without `lr` is a strict router: it gets the Request-URI
    /// (RFC 3261 §12.2.1.1).
    fn route(&self) -> (Box<[u8]>, Vec<Box<[u8]>>) {
        let first = self.route_set.first().and_then(|route| Address::parse(route)).map(|route| route.uri);
        match first {
            Some(uri) if Uri::parse(uri).is_ok_and(|uri| !uri.is_loose_router()) => {
                let mut routes = self.route_set[1..].to_vec();
                routes.push([b"<", &*self.remote_target, b">"].concat().into());
                (uri.into(), routes)
            }
            _ => (self.remote_target.clone(), self.route_set.to_vec()),
        }
    }
}

/// The one Contact's URI. It becomes a Request-URI, so it must be one.
fn contact_of(request: &Message) -> Result<Option<&[u8]>, EventRefusal> {
    let mut values = request.values(Header::Contact);
    let Some(value) = values.next() else { return Ok(None) };
    let uri = Address::parse(value).map(|address| address.uri);
    let is_sound = |uri: &[u8]| Uri::parse(uri).is_ok_and(|uri| uri.is_sip()) && uri.is_ascii();
    match (uri.filter(|uri| is_sound(uri)), values.next()) {
        (Some(uri), None) => Ok(Some(uri)),
        _ => Err(EventRefusal::new(400, "Bad Contact")),
    }
}

/// The peer's own address, where what it says of itself does not lead there: `route` is the nearest of its Record-Route
/// values. A stranger could name any host in it or in its Contact, and a phone behind a NAT names one that cannot be
/// reached. On a connection without a proxy it is the connection (RFC 5626 §5.3).
pub(crate) fn received(source: &Source, remote_target: &[u8], route: Option<&[u8]>) -> Option<Received> {
    let next =
        route.map_or(remote_target, |value| Address::parse(value).map_or(value, |address| address.uri));
    let leads_there = Uri::parse(next).is_ok_and(|uri| {
        let maddr = uri.params.get("maddr").filter(|host| !host.is_empty());
        let host = parse_ip(maddr.unwrap_or(uri.host));
        host.is_some_and(|ip| ip.to_canonical() == source.remote.ip().to_canonical())
            && has_known_transport(&uri)
    });
    let is_direct_connection = route.is_none() && is_reliable(source.transport);
    (is_direct_connection || !leads_there).then_some(Received {
        transport: source.transport,
        local: source.local,
        remote: source.remote,
        flow: source.flow,
    })
}
