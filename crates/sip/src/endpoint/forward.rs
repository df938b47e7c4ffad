//! The forwarded request: RFC 3261 §16.6 steps 1 to 8, and the two things forwarded without a context,
//! ACK to a 2xx and late 2xx.

use bytes::Bytes;
use stdx::Instant;
use stdx::slab::Key;

use super::dialog_route::{RequestToken, Within};
use super::resolution::Waiting;
use super::routing::{first_address, route_after};
use super::{Caller, Context, Endpoint, Intake, Outbox, Stage};
use crate::limits;
use crate::proxy::{Destination, DialogProof, Purpose, ResponseContext};
use crate::resolve::{Hop, NextHop};
use crate::transport::{Source, Target, Transport};
use crate::wire::{Header, Message, Method, Rewrite, Scheme, Uri, Values, Via, write_via_with_source};

/// How one copy of a request is to be changed.
pub(super) struct Copy<'a> {
    pub(super) destination: &'a Destination,
    pub(super) own_routes: usize,
    pub(super) record_route: Option<&'a RequestToken>,
    pub(super) within: Option<&'a DialogProof>,
    pub(super) branch: usize,
    pub(super) attempt: u8,
    /// Max-Breadth of the copy; an ACK has none.
    pub(super) breadth: Option<usize>,
    pub(super) listener: usize,
    /// It stays in the trust domain.
    pub(super) is_trusted: bool,
    /// The account that is to be asserted there.
    pub(super) asserted: Option<&'a str>,
}

/// An ACK to a 2xx and where it goes.
#[derive(Debug)]
pub(super) struct ForwardedAck {
    pub(super) ack: Message,
    source: Source,
    own_routes: usize,
    destination: Destination,
}

impl Endpoint {
    /// A request by our own Record-Route: where it goes, its Route or its flow says.
    pub(super) fn forward_in_dialog(
        &mut self,
        now: Instant,
        key: Key,
        own_routes: usize,
        within: &Within,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let destination = Self::destination_within(&context.request, own_routes, within);
        // RFC 6665 §4.3: a NOTIFY may be the first that a subscriber hears of its dialog.
        let record_route = context.request.method() == Method::Notify;
        let within = Some(within.proof);
        let purpose = Purpose { own_routes, record_route, within, ..Purpose::default() };
        self.begin_proxying(now, key, vec![vec![destination]], purpose, out);
    }

    /// An ACK that matches no transaction of ours: to a 2xx (RFC 3261 §13.2.2.4, §16.11), or to an error
    /// response that we sent without a transaction. Nobody answers an ACK, whatever becomes of it.
    pub(super) fn handle_stray_ack(&mut self, now: Instant, ack: Message, source: Source, out: &mut Outbox) {
        let ack = self.restore_strictly_routed(&ack).unwrap_or(ack);
        if ack.max_forwards() == Some(Some(0)) {
            return;
        }
        let own = self.own_routes(&ack);
        if let Some(within) = &own.within {
            let destination = Self::destination_within(&ack, own.count, within);
            let forwarded = ForwardedAck { ack, source, own_routes: own.count, destination };
            return self.forward_ack(now, forwarded, out);
        }
        // To our own error response: its tag is made of the branch, which such an ACK has from its INVITE. By a
        // Route that we did not write, or round in a loop, nothing is relayed.
        let is_to_us = ack.to_tag() == Some(self.tag_of(&ack, &source).as_bytes());
        if is_to_us || route_after(&ack, own.count).is_some() || self.is_loop(&ack) {
            return;
        }
        // Not by a dialog that was let through: it is new work like any other.
        if self.is_full() || self.intake != Intake::Open && !self.is_within_dialog(&ack) {
            self.counters.shed += 1;
            return;
        }
        // COMPAT(sipp): its built-in uac keeps no Route; the ACK goes where its INVITE went. The context has
        // no server transaction, so that no answer can come of it.
        let key = self.contexts.insert(Context::new(Key::from_u64(0), ack, source, own.count));
        self.arm_context(key, now + limits::CONTEXT_PATIENCE);
        self.plan(key, Caller::Stranger, out);
    }

    /// The plan has said where an ACK without our Route goes.
    pub(super) fn finish_ack(&mut self, now: Instant, key: Key, to: Option<&Destination>, out: &mut Outbox) {
        let Some(context) = self.contexts.remove(key) else { return };
        let own_routes = match context.stage {
            Stage::Planning { own_routes } | Stage::Locating { own_routes, .. } => own_routes,
            _ => 0,
        };
        if let Some(destination) = to.cloned() {
            let forwarded =
                ForwardedAck { ack: context.request, source: context.source, own_routes, destination };
            self.forward_ack(now, forwarded, out);
        }
    }

    /// The remote target of the 2xx may be a name that was not asked for before: then the ACK waits, at most
    /// as long as DNS takes. A lost one is asked for by the next 2xx (RFC 3261 §13.2.2.4).
    fn forward_ack(&mut self, now: Instant, forwarded: ForwardedAck, out: &mut Outbox) {
        if let Some(received) = &forwarded.destination.received {
            return self.transmit_ack(&forwarded, &Hop::of_flow(received), out);
        }
        let next = self.next_hop(&forwarded.ack, forwarded.own_routes, &forwarded.destination);
        self.send_when_resolved(now, next.as_ref(), Waiting::Ack(forwarded), out);
    }

    pub(super) fn transmit_ack(&mut self, forwarded: &ForwardedAck, hop: &Hop, out: &mut Outbox) {
        let ForwardedAck { ack, source, own_routes, destination } = forwarded;
        let local = destination.received.map_or(source.local, |received| received.local);
        let Some(listener) = self.listener_for(hop.transport, hop.addr, Some(local)) else { return };
        let copy = Copy {
            destination,
            own_routes: *own_routes,
            record_route: None,
            within: None,
            branch: 0,
            attempt: 0,
            breadth: None,
            listener,
            is_trusted: self.trusts_hop(hop, destination, false),
            asserted: None,
        };
        let bytes = self.build_copy(ack, source, &copy);
        let target = self.target_of(hop, destination, listener);
        self.transmit(target, bytes, None, out);
    }

    /// RFC 3261 §16.6: the copy that one branch sends.
    pub(super) fn build_copy(&self, request: &Message, source: &Source, copy: &Copy<'_>) -> Bytes {
        let mut rewrite = Rewrite::new(request);
        self.write_top_via(&mut rewrite, request, source, copy);
        set_max_forwards(&mut rewrite, request);
        if let Some(breadth) = copy.breadth {
            rewrite.set(Header::MaxBreadth, |text| text.extend_from_slice(breadth.to_string().as_bytes()));
        }
        self.rewrite_routes(&mut rewrite, request, copy);
        if let Some(made) = copy.record_route {
            let incoming = self
                .listener_for(source.transport, source.remote, Some(source.local))
                .filter(|&index| self.settings.listeners[index].transport == source.transport);
            self.record_route(&mut rewrite, made, incoming, copy.listener);
        }
        if let Some(proof) = copy.within {
            self.certify_sender(&mut rewrite, request, source, proof);
        }
        self.rewrite_identity(&mut rewrite, request, copy);
        rewrite.ensure_content_length();
        rewrite.finish()
    }

    fn write_top_via(&self, rewrite: &mut Rewrite<'_>, request: &Message, source: &Source, copy: &Copy<'_>) {
        rewrite.push_front(Header::Via, |text| {
            self.write_via(text, copy.listener, |text| {
                self.write_branch(text, request, copy.branch, copy.attempt);
            });
        });
        let top = request.header(Header::Via).and_then(|line| Values::new(line).next());
        if let Some((value, via)) = top.and_then(|value| Some((value, Via::parse(value)?))) {
            rewrite.replace(value, |text| write_via_with_source(text, value, &via, source.remote));
        }
    }

    fn rewrite_routes(&self, rewrite: &mut Rewrite<'_>, request: &Message, copy: &Copy<'_>) {
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
        match strict {
            // §16.6 step 6: a strict router wants itself in the Request-URI and the target last in Route.
            Some(route) => {
                rewrite.set_uri(route.uri);
                rewrite.remove_first_values(Header::Route, copy.own_routes + 1);
                rewrite.append("Route", |text| {
                    text.push(b'<');
                    text.extend_from_slice(&copy.destination.uri);
                    text.push(b'>');
                });
            }
            None if copy.destination.uri[..] != *request.uri() => rewrite.set_uri(&copy.destination.uri),
            None => {}
        }
    }

    /// RFC 3261 §16.6 step 7: the first Route that is not ours, else the Request-URI.
    pub(super) fn next_hop(&self, request: &Message, own: usize, to: &Destination) -> Option<NextHop> {
        let from_path = first_address(&to.path);
        let from_route = || route_after(request, own);
        let route = from_path.or_else(from_route);
        let uri = match &route {
            Some(address) => address.parsed_uri().ok()?,
            None => Uri::parse(&to.uri).ok()?,
        };
        next_hop_of(&uri)
    }

    pub(super) fn target_of(&self, hop: &Hop, destination: &Destination, listener: usize) -> Target {
        let received = destination.received.as_ref().filter(|received| received.remote == hop.addr);
        Target {
            transport: hop.transport,
            remote: hop.addr,
            flow: received.and_then(|received| received.flow),
            local: Some(self.settings.listeners[listener].addr),
            tls_name: hop.tls_name.clone(),
            reconnect: received.is_none_or(|received| received.flow.is_none()),
        }
    }
}

pub(super) fn without_top_via(response: &Message) -> Bytes {
    let mut rewrite = Rewrite::new(response);
    rewrite.remove_first_value(Header::Via);
    rewrite.ensure_content_length();
    rewrite.finish()
}

/// RFC 3261 §16.7 step 7: the challenges of every branch, so that the caller can answer them all at once.
pub(super) fn with_challenges(response: Bytes, others: &[Bytes]) -> Bytes {
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
    rewrite.set(Header::MaxForwards, |text| text.extend_from_slice(hops.to_string().as_bytes()));
}

/// RFC 5393 §5.3.3. A value that is not a number is ignored.
pub(super) fn max_breadth(request: &Message) -> usize {
    let given =
        request.header(Header::MaxBreadth).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    given.map_or(limits::MAX_BREADTH, |breadth: usize| breadth.min(limits::MAX_BREADTH))
}

pub(super) fn next_hop_of(uri: &Uri<'_>) -> Option<NextHop> {
    if !uri.is_sip() {
        return None;
    }
    let secure = uri.scheme == Scheme::Sips;
    let transport = uri.params.get("transport").and_then(|name| transport_of(name, secure));
    // RFC 3261 §19.1.1: maddr overrides the host.
    let host = uri.params.get("maddr").filter(|host| !host.is_empty()).unwrap_or(uri.host);
    let host = std::str::from_utf8(host).ok()?.to_ascii_lowercase();
    Some(NextHop { host: host.into(), port: uri.port, transport, secure })
}

fn transport_of(name: &[u8], secure: bool) -> Option<Transport> {
    match name.to_ascii_lowercase().as_slice() {
        b"udp" => Some(Transport::Udp),
        b"tcp" if secure => Some(Transport::Tls),
        b"tcp" => Some(Transport::Tcp),
        b"tls" => Some(Transport::Tls),
        b"ws" if secure => Some(Transport::Wss),
        b"ws" => Some(Transport::Ws),
        b"wss" => Some(Transport::Wss),
        _ => None,
    }
}

impl Context {
    pub(super) fn new(server: Key, request: Message, source: Source, own_routes: usize) -> Self {
        let stage = Stage::Planning { own_routes };
        Context {
            server,
            request,
            source,
            caller: None,
            limits: None,
            admitted: Vec::new(),
            callee: None,
            gruu: None,
            stage,
            claim_withheld: false,
            armed: Instant::FAR_FUTURE,
        }
    }

    pub(super) fn response_context(&mut self) -> Option<&mut ResponseContext> {
        match &mut self.stage {
            Stage::Proxying(proxied) => Some(proxied),
            _ => None,
        }
    }
}
