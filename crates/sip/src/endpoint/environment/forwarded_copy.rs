//! The copy of a request that goes to a target: RFC 3261 §16.6 steps 1 to 8. And the changes to responses on their way upstream.

use bytes::Bytes;

use super::Environment;
use super::dialog_route::RequestToken;
use super::loops::{first_address, is_sips, route_after};
use super::response_route::{ResponseRoute, write_response_route};
use crate::limits;
use crate::proxy::{Destination, DialogProof};
use crate::resolve::{Hop, NextHop};
use crate::transport::{Source, Target, uri_transport};
use crate::wire::{Header, Message, Rewrite, Scheme, Uri, request_uri, write_number, write_via_with_source};

/// The changes that one copy of a request needs.
pub(crate) struct ForwardedCopy<'a> {
    pub(crate) destination: &'a Destination,
    pub(crate) own_routes: usize,
    pub(crate) record_route: Option<&'a RequestToken>,
    pub(crate) within: Option<&'a DialogProof>,
    /// The branch parameter of its Via.
    pub(crate) branch: &'a [u8],
    /// Max-Breadth of the copy; an ACK has none.
    pub(crate) breadth: Option<usize>,
    pub(crate) listener: usize,
    /// In a farm, for a request whose responses go upstream.
    pub(crate) response_route: Option<ResponseRoute>,
    /// It stays in the trust domain.
    pub(crate) is_trusted: bool,
    /// The account that is to be asserted there.
    pub(crate) asserted: Option<&'a str>,
}

impl Environment {
    /// RFC 3261 §16.6: the copy that one branch sends.
    pub(crate) fn build_copy(&self, request: &Message, source: &Source, copy: &ForwardedCopy<'_>) -> Bytes {
        let mut rewrite = Rewrite::new(request);
        self.write_top_via(&mut rewrite, request, source, copy);
        set_max_forwards(&mut rewrite, request);
        if let Some(breadth) = copy.breadth {
            rewrite.set(Header::MaxBreadth, |text| write_number(text, breadth));
        }
        self.rewrite_routes(&mut rewrite, request, copy);
        if let Some(made) = copy.record_route {
            let incoming = self
                .listeners
                .listener_for(source.transport, source.remote, Some(source.local))
                .filter(|&index| self.listeners.all[index].transport == source.transport);
            let is_sips = is_sips(request.uri());
            self.record_route(&mut rewrite, made, (incoming, copy.listener), is_sips);
        }
        if let Some(proof) = copy.within {
            self.certify_sender(&mut rewrite, request, source, proof);
        }
        self.rewrite_identity(&mut rewrite, request, source, copy);
        rewrite.ensure_content_length();
        rewrite.finish()
    }

    fn write_top_via(
        &self,
        rewrite: &mut Rewrite<'_>,
        request: &Message,
        source: &Source,
        copy: &ForwardedCopy<'_>,
    ) {
        rewrite.push_front(Header::Via, |text| {
            self.write_via(text, copy.listener, copy.branch);
            if let Some(route) = &copy.response_route {
                write_response_route(self, text, copy.branch, route);
            }
        });
        if let Some((value, via)) = request.top_via_value().zip(request.top_via()) {
            rewrite.replace(value, |text| write_via_with_source(text, value, &via, source.remote));
        }
    }

    fn rewrite_routes(&self, rewrite: &mut Rewrite<'_>, request: &Message, copy: &ForwardedCopy<'_>) {
        if copy.own_routes > 0 {
            rewrite.remove_first_values(Header::Route, copy.own_routes);
        }
        if !copy.destination.path.is_empty() {
            rewrite.push_front(Header::Route, |text| {
                text.extend_from_slice(copy.destination.path.as_bytes());
            });
        }
        let next = route_after(request, copy.own_routes).filter(|_| copy.destination.path.is_empty());
        let strict = next.filter(|route| route.parsed_uri().is_ok_and(|uri| !uri.is_loose_router()));
        // §16.6 step 2: a binding may have parts that a Request-URI may not.
        let target = request_uri(&copy.destination.uri);
        match strict {
            // §16.6 step 6: a strict router wants itself in the Request-URI and the target last in Route.
            Some(route) => {
                rewrite.set_uri(&request_uri(route.uri));
                rewrite.remove_first_values(Header::Route, copy.own_routes + 1);
                rewrite.append("Route", |text| {
                    text.push(b'<');
                    text.extend_from_slice(&target);
                    text.push(b'>');
                });
            }
            None if *target != *request.uri() => rewrite.set_uri(&target),
            None => {}
        }
    }

    pub(crate) fn target_of(&self, hop: &Hop, destination: &Destination, listener: usize) -> Target {
        let received = destination.received.as_ref().filter(|received| received.remote == hop.addr);
        Target {
            transport: hop.transport,
            remote: hop.addr,
            flow: received.and_then(|received| received.flow),
            local: Some(self.listeners.all[listener].addr),
            tls_name: hop.tls_name.clone(),
            reconnect: received.is_none_or(|received| received.flow.is_none()),
        }
    }
}

/// RFC 3261 §16.6 step 7: the first Route that is not ours, else the Request-URI.
pub(crate) fn next_hop(request: &Message, own: usize, to: &Destination) -> Result<NextHop, NextHopFault> {
    let from_path = first_address(&to.path);
    let from_route = || route_after(request, own);
    let route = from_path.or_else(from_route);
    let uri = match &route {
        Some(address) => address.parsed_uri(),
        None => Uri::parse(&to.uri),
    };
    next_hop_of(&uri.map_err(|_| NextHopFault::Scheme)?)
}

pub(crate) fn without_top_via(response: &Message) -> Bytes {
    let mut rewrite = Rewrite::new(response);
    rewrite.remove_first_value(Header::Via);
    rewrite.ensure_content_length();
    rewrite.finish()
}

/// RFC 3261 §16.7 step 7: the challenges of every branch, so that the caller can answer them all at once.
pub(crate) fn with_challenges(response: Bytes, others: &[Bytes]) -> Bytes {
    if others.is_empty() {
        return response;
    }
    let Ok(message) = Message::parse(response.clone()) else { return response };
    let mut rewrite = Rewrite::new(&message);
    for other in others.iter().filter_map(|bytes| Message::parse(bytes.clone()).ok()) {
        for header in [Header::WwwAuthenticate, Header::ProxyAuthenticate] {
            for challenge in other.header_lines(header) {
                rewrite.append(header.as_str(), |text| text.extend_from_slice(challenge));
            }
        }
    }
    rewrite.finish()
}

fn set_max_forwards(rewrite: &mut Rewrite<'_>, request: &Message) {
    let hops = match request.max_forwards() {
        Some(Some(hops)) => hops.saturating_sub(1),
        _ => limits::MAX_FORWARDS,
    };
    rewrite.set(Header::MaxForwards, |text| write_number(text, hops.into()));
}

/// RFC 5393 §5.3.3. A value that is not a number is ignored.
pub(crate) fn max_breadth(request: &Message) -> usize {
    let breadth =
        request.header(Header::MaxBreadth).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    breadth.map_or(limits::MAX_BREADTH, |breadth: usize| breadth.min(limits::MAX_BREADTH))
}

/// The reason why a URI names no next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHopFault {
    /// It is no sip or sips URI.
    Scheme,
    /// Its `transport` parameter names none that we know, SCTP for example. RFC 3263 §4.1: "that transport protocol SHOULD be used", so
    /// that no other is chosen for it; the request fails as if the transport had (RFC 3261 §16.9).
    Transport,
}

impl NextHopFault {
    /// The status of a request of our own that fails so (RFC 3261 §8.1.3.1 and §21.4.14).
    pub(crate) fn status(self) -> u16 {
        match self {
            NextHopFault::Scheme => 416,
            NextHopFault::Transport => 503,
        }
    }
}

/// The next hop that a URI in text names.
pub(crate) fn next_hop_in(uri: &str) -> Result<NextHop, NextHopFault> {
    next_hop_of(&Uri::parse(uri.as_bytes()).map_err(|_| NextHopFault::Scheme)?)
}

fn next_hop_of(uri: &Uri<'_>) -> Result<NextHop, NextHopFault> {
    if !uri.is_sip() {
        return Err(NextHopFault::Scheme);
    }
    let secure = uri.scheme == Scheme::Sips;
    let named = uri.params.get("transport").map(|name| uri_transport(name, secure));
    let transport = named.map(|known| known.ok_or(NextHopFault::Transport)).transpose()?;
    // RFC 3261 §19.1.1: maddr overrides the host.
    let host = uri.params.get("maddr").filter(|host| !host.is_empty()).unwrap_or(uri.host);
    let host = std::str::from_utf8(host).map_err(|_| NextHopFault::Scheme)?.to_ascii_lowercase();
    Ok(NextHop { host: host.into(), port: uri.port, transport, secure })
}
