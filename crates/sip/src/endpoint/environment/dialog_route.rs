//! Where the requests of a dialog may go: the tokens of [`super::route_token`] made of requests and responses, and
//! checked where they come back. RFC 3261 §16.4, §16.6 step 4, §16.7 step 8; RFC 5658.
//!
//! | made of | for | at |
//! |---|---|---|
//! | a request that creates a dialog | the callee's side: the way back to the caller | `forward` |
//! | a 101 to 2xx with a To tag | the caller's side: our Record-Route value is rewritten | `upstream_copy` |
//! | a Contact that refreshes a target | whichever side did not send it | both |
//!
//! The word of a peer that no operator configured counts only for itself: where its Record-Route or Contact names
//! another host than the one it speaks from, requests go where it speaks from.

use std::net::IpAddr;

use bytes::Bytes;
use router::Received;
use smallvec::SmallVec;
use stdx::Instant;

use super::Environment;
use super::call_stamp::{CallStamp, call_stamp_in, call_stamp_text, parse_call_stamp};
use super::loops::route_after;
use super::route_token::{
    CertifiedContact, DialogId, FlowText, RemoteTarget, Token, TokenKind, request_token_in, target_proof,
    write_certified,
};
use crate::proxy::{DialogProof, ResponseEdit, WayBack};
use crate::token;
use crate::transport::{Source, has_known_transport, is_reliable};
use crate::wire::{Address, Header, Message, Method, Rewrite, Uri, parse_ip};

/// Our own values in a Route header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnRoutes {
    /// The number of values at the front that name us.
    pub(crate) count: usize,
    /// The last of them is a Record-Route of ours for this dialog, and everything behind it is as we proved it.
    pub(crate) within: Option<DialogRequest>,
}

impl OwnRoutes {
    /// The flow by which a request within a dialog leaves.
    pub(crate) fn flow(&self) -> Option<Received> {
        self.within.as_ref().and_then(|within| within.flow)
    }
}

/// A request that goes where its dialog leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialogRequest {
    pub(crate) flow: Option<Received>,
    /// The Request-URI without our certificate, when it had one.
    pub(crate) uri: Option<Vec<u8>>,
    pub(crate) proof: DialogProof,
}

/// The token for our Record-Route values in a request, and the flow behind it.
pub(crate) struct RequestToken {
    pub(crate) token: Token,
    pub(crate) flow: Option<FlowText>,
    /// In a farm, of an INVITE that starts a call: the value of `s`.
    pub(crate) call_stamp: Option<Vec<u8>>,
}

impl Environment {
    /// Reads our own values at the front of Route (§16.4).
    pub(crate) fn own_routes(&self, request: &Message) -> OwnRoutes {
        let mut own = OwnRoutes::default();
        let mut last = None;
        for value in request.values(Header::Route) {
            let Some(uri) = Address::parse(value).and_then(|a| a.parsed_uri().ok()) else { break };
            if !self.listeners.is_us(&uri) {
                // Another node of the farm has written the first one, and named an address of its own: the token proves that. Not
                // every client sends a request to the address of its Route, and the slot of a call moves.
                if own.count == 0 && self.prove_within(request, &uri, 1).is_some() {
                    own.count = 1;
                    last = Some(uri);
                }
                break;
            }
            own.count += 1;
            last = Some(uri);
        }
        // The last one is the nearest to the next hop: its token has what lies behind us on that side.
        own.within = last.and_then(|uri| self.prove_within(request, &uri, own.count));
        own
    }

    fn prove_within(&self, request: &Message, own: &Uri<'_>, count: usize) -> Option<DialogRequest> {
        let key = &self.keys.route;
        let token = Token::parse(own)?;
        let dialog = DialogId {
            call_id: request.call_id()?,
            remote_tag: request.to_tag()?,
            local_tag: request.from_tag().unwrap_or_default(),
        };
        let flow = own.params.get("f").unwrap_or_default();
        if !token.fits(key, &dialog, flow, request.values(Header::Route).skip(count)) {
            return None;
        }
        let (flow, remote, uri) = match CertifiedContact::of(key, &dialog, request.uri()) {
            Some(certified) => (certified.flow, certified.proof, Some(certified.uri)),
            None if token.target == target_proof(key, &dialog, flow, &RemoteTarget::of_request(request)) => {
                (flow, token.target, None)
            }
            None => return None,
        };
        let flow = match flow {
            [] => None,
            text => Some(FlowText::parse(text, &self.listeners.all)?),
        };
        let local = own.params.get("o").and_then(token::parse);
        let from_caller = token.kind == TokenKind::Response;
        Some(DialogRequest { flow, uri, proof: DialogProof { remote, local, from_caller } })
    }

    /// The way back to the sender of a request, for its addressee.
    pub(crate) fn request_token(&self, request: &Message, source: &Source) -> RequestToken {
        let contact = contact_of(request);
        let flow = self.sender_flow(request, &contact, source);
        let text = flow.as_ref().map_or(&b""[..], FlowText::as_bytes);
        let dialog = DialogId {
            call_id: request.call_id().unwrap_or_default(),
            remote_tag: request.from_tag().unwrap_or_default(),
            local_tag: b"",
        };
        let routes = request.values(Header::RecordRoute);
        let kind = TokenKind::Request;
        let token = Token::new(&self.keys.route, kind, &dialog, text, routes, &contact);
        RequestToken { token, flow, call_stamp: None }
    }

    /// The flow by which later requests reach the sender of a request: always on a connection, and on UDP when what
    /// it says of itself is not where it sends from, because of a NAT or of malice.
    fn sender_flow(
        &self,
        request: &Message,
        contact: &RemoteTarget<'_>,
        source: &Source,
    ) -> Option<FlowText> {
        let received = Received {
            transport: source.transport,
            local: source.local,
            remote: source.remote,
            flow: source.flow,
        };
        let nearest = request.values(Header::RecordRoute).next();
        // A trusted gateway may answer at another address than it calls from.
        let may_follow = self.trust().trusts_source(source) && !self.leads_back(nearest, contact)
            || self.leads_to(nearest, contact, source.remote.ip());
        if !is_reliable(source.transport) && may_follow {
            return None;
        }
        FlowText::of(&received, &self.listeners.all)
    }

    /// True if a request that goes by `route`, or else to `contact`, goes to this host, by a transport that we know. Another port of it is fine:
    /// not all user agents send from where they listen. A GRUU of ours is looked up each time (RFC 5627 §6.1).
    fn leads_to(&self, route: Option<&[u8]>, contact: &RemoteTarget<'_>, ip: IpAddr) -> bool {
        let of_route =
            |value| RemoteTarget::of(Address::parse(value).map_or(value, |address| address.uri)).uri;
        let Some(uri) = route.map_or(contact.uri, of_route) else { return false };
        if route.is_none() && names_us_alone(self, &uri) {
            return false;
        }
        let maddr = uri.params.get("maddr").filter(|host| !host.is_empty());
        match parse_ip(maddr.unwrap_or(uri.host)) {
            Some(host) => {
                uri.is_sip() && has_known_transport(&uri) && host.to_canonical() == ip.to_canonical()
            }
            None => route.is_none() && maddr.is_none() && self.is_own_gruu(&uri),
        }
    }

    /// True if a request without a route goes to `contact`, and this is an address of ours: it would come back here.
    fn leads_back(&self, route: Option<&[u8]>, contact: &RemoteTarget<'_>) -> bool {
        route.is_none() && contact.uri.is_some_and(|uri| names_us_alone(self, &uri))
    }

    /// A GRUU is the only remote target that is looked up: any other Contact, in a domain of ours too, is where the
    /// user agent listens (RFC 3261 §12.2.1.1).
    pub(crate) fn is_own_gruu(&self, uri: &Uri<'_>) -> bool {
        uri.is_sip() && uri.params.has("gr") && self.settings.serves(uri.host)
    }

    /// Certifies the Contact of a request within a dialog, when it may be news to the addressee (§12.2).
    pub(crate) fn certify_sender(
        &self,
        rewrite: &mut Rewrite<'_>,
        request: &Message,
        source: &Source,
        proof: &DialogProof,
    ) {
        if !refreshes_target(request) {
            return;
        }
        let flow = self.sender_flow(request, &contact_of(request), source);
        let dialog = DialogId {
            call_id: request.call_id().unwrap_or_default(),
            remote_tag: request.from_tag().unwrap_or_default(),
            local_tag: b"",
        };
        self.certify(rewrite, request, &dialog, flow.as_ref(), proof.local);
    }

    /// Puts a proof into the Contact, unless it is the one that `known` is a proof of.
    fn certify(
        &self,
        rewrite: &mut Rewrite<'_>,
        message: &Message,
        dialog: &DialogId<'_>,
        flow: Option<&FlowText>,
        known: Option<u64>,
    ) {
        let value = message.values(Header::Contact).next();
        let Some((value, contact)) = value.and_then(|value| Some((value, Address::parse(value)?))) else {
            return;
        };
        let Some(uri) = contact.parsed_uri().ok().filter(Uri::is_sip) else { return };
        // A GRUU of ours is looked up each time.
        if flow.is_none() && self.is_own_gruu(&uri) {
            return;
        }
        let flow = flow.map_or(&b""[..], FlowText::as_bytes);
        let target = RemoteTarget { text: contact.uri, uri: Some(uri) };
        let proof = target_proof(&self.keys.route, dialog, flow, &target);
        if known == Some(proof) {
            return;
        }
        let is_bare = !value.contains(&b'<');
        rewrite.replace(contact.uri, |text| {
            text.extend_from_slice(if is_bare { b"<" } else { b"" });
            write_certified(text, contact.uri, proof, flow);
            text.extend_from_slice(if is_bare { b">" } else { b"" });
        });
    }

    /// A response on its way upstream: without our Via, and with the route values that let later requests of
    /// its dialog pass (§16.7 steps 3, 8 and 9). `target` is where the request went. `now` is the time of an answer.
    pub(crate) fn upstream_copy(
        &self,
        now: Instant,
        response: &Message,
        target: &Received,
        edit: ResponseEdit,
    ) -> Bytes {
        let mut rewrite = Rewrite::new(response);
        rewrite.remove_first_value(Header::Via);
        if (101..300).contains(&response.status()) {
            match edit {
                ResponseEdit::None => {}
                ResponseEdit::RecordRoute { token, way } => {
                    self.rewrite_record_route(&mut rewrite, now, response, (target, way), token);
                }
                ResponseEdit::Contact { known, way } if refreshes_target(response) => {
                    self.certify_responder(&mut rewrite, response, target, known, way);
                }
                ResponseEdit::Contact { .. } => {}
            }
        }
        rewrite.ensure_content_length();
        rewrite.finish()
    }

    fn rewrite_record_route(
        &self,
        rewrite: &mut Rewrite<'_>,
        now: Instant,
        response: &Message,
        (target, way): (&Received, WayBack),
        token: u64,
    ) {
        let Some(to_tag) = response.to_tag() else { return };
        // Values above ours are of the proxies between us and the callee, the nearest to us last.
        let mut above: SmallVec<[&[u8]; 4]> = SmallVec::new();
        let mut own_route = None;
        for value in response.values(Header::RecordRoute) {
            let found = request_token_in(value).filter(|(_, found)| found.route == token);
            match found.filter(|_| value.starts_with(b"<")) {
                Some((at, found)) => {
                    own_route = Some((value, at, found));
                    break;
                }
                None => above.push(value),
            }
        }
        let Some((value, at, request)) = own_route else { return };
        let contact = contact_of(response);
        let flow = self.responder_flow(above.last().copied(), &contact, target, way);
        let flow = flow.as_ref().map_or(&b""[..], FlowText::as_bytes);
        let dialog = DialogId {
            call_id: response.call_id().unwrap_or_default(),
            remote_tag: to_tag,
            local_tag: response.from_tag().unwrap_or_default(),
        };
        let routes = above.iter().rev().copied();
        let made = Token::new(&self.keys.route, TokenKind::Response, &dialog, flow, routes, &contact);
        let call_stamp = self.is_in_farm().then(|| answered_call_stamp(self, now, response, value)).flatten();
        rewrite.replace(value, |text| {
            text.extend_from_slice(&value[..at]);
            made.write_params(text, flow);
            if let Some(stamp) = call_stamp {
                text.extend_from_slice(b";s=");
                text.extend_from_slice(&stamp);
            }
            // The callee's view of the caller, by which an unchanged refresh is recognised.
            text.extend_from_slice(b";o=");
            token::write(text, request.target);
            text.push(b'>');
        });
    }

    fn responder_flow(
        &self,
        nearest: Option<&[u8]>,
        contact: &RemoteTarget<'_>,
        target: &Received,
        way: WayBack,
    ) -> Option<FlowText> {
        match way {
            WayBack::Followed if !self.leads_back(nearest, contact) => return None,
            WayBack::Checked if self.leads_to(nearest, contact, target.remote.ip()) => return None,
            WayBack::Followed | WayBack::Checked | WayBack::Flow => {}
        }
        FlowText::of(target, &self.listeners.all)
    }

    fn certify_responder(
        &self,
        rewrite: &mut Rewrite<'_>,
        response: &Message,
        target: &Received,
        known: u64,
        way: WayBack,
    ) {
        let dialog = DialogId {
            call_id: response.call_id().unwrap_or_default(),
            remote_tag: response.to_tag().unwrap_or_default(),
            local_tag: b"",
        };
        let contact = contact_of(response);
        // The same Contact by the same way is what the other side has.
        let usual = match way {
            WayBack::Flow => self.responder_flow(None, &contact, target, way),
            WayBack::Followed | WayBack::Checked => None,
        };
        let text = usual.as_ref().map_or(&b""[..], FlowText::as_bytes);
        if target_proof(&self.keys.route, &dialog, text, &contact) == known {
            return;
        }
        let flow = self.responder_flow(None, &contact, target, way);
        self.certify(rewrite, response, &dialog, flow.as_ref(), None);
    }
}

/// The destination of a request that came by a genuine Route, `own` values of which are ours.
pub(crate) fn destination_within(
    request: &Message,
    own: usize,
    within: &DialogRequest,
) -> crate::proxy::Destination {
    let uri = within.uri.as_deref().unwrap_or(request.uri());
    // Route values behind ours decide, and the token covers them.
    let trusted = route_after(request, own).is_some();
    crate::proxy::Destination { trusted, ..crate::proxy::Destination::new(uri, within.flow) }
}

/// RFC 3261 §12.2, RFC 3311, RFC 6665 §3.1, RFC 3515: requests with a Contact that replaces the remote target, and their
/// responses.
fn refreshes_target(message: &Message) -> bool {
    matches!(
        message.method(),
        Method::Invite | Method::Update | Method::Subscribe | Method::Notify | Method::Refer
    )
}

/// True if the URI is an address of ours and no GRUU.
fn names_us_alone(env: &Environment, uri: &Uri<'_>) -> bool {
    env.listeners.is_us(uri) && !env.is_own_gruu(uri)
}

/// The first Contact; empty where there is none.
fn contact_of(message: &Message) -> RemoteTarget<'_> {
    let contact = message.values(Header::Contact).next().and_then(Address::parse);
    RemoteTarget::of(contact.map_or(&b""[..], |contact| contact.uri))
}

/// The value of `s` for the caller's side, which a 2xx gives the time of the answer.
fn answered_call_stamp(env: &Environment, now: Instant, response: &Message, value: &[u8]) -> Option<Vec<u8>> {
    let (call_id, caller_tag) = (response.call_id()?, response.from_tag()?);
    let stamp = parse_call_stamp(env, call_stamp_in(value)?, call_id, caller_tag)?;
    let answer = (response.status() >= 200).then_some(now);
    Some(call_stamp_text(env, &CallStamp { answer, ..stamp }, call_id, caller_tag))
}

#[cfg(test)]
mod tests {
    use router::{Life, ShardAddress};

    use super::*;
    use crate::endpoint::EndpointSettings;

    const TARGET: &str = "sip:bob@192.0.2.7:5062";

    /// The own Route values of a BYE with these.
    fn own(env: &Environment, routes: &str) -> OwnRoutes {
        let text = format!(
            "BYE {TARGET} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1\r\nMax-Forwards: 70\r\nRoute: {routes}\r\n\
             From: <sip:alice@192.0.2.9>;tag=a1\r\nTo: <sip:bob@example.test>;tag=b2\r\nCall-ID: 1-4711@192.0.2.9\r\nCSeq: 2 BYE\r\n\
             Content-Length: 0\r\n\r\n"
        );
        env.own_routes(&Message::parse(text.into()).unwrap())
    }

    /// A Route value of this address, made by a node of the farm, with these values behind it.
    fn route(env: &Environment, address: &str, behind: &[&str]) -> String {
        let dialog = DialogId { call_id: b"1-4711@192.0.2.9", remote_tag: b"b2", local_tag: b"a1" };
        let target = RemoteTarget::of(TARGET.as_bytes());
        let behind = behind.iter().map(|value| value.as_bytes());
        let mut uri = format!("sip:{address};lr").into_bytes();
        Token::new(&env.keys.route, TokenKind::Response, &dialog, b"", behind, &target)
            .write_params(&mut uri, b"");
        format!("<{}>", String::from_utf8(uri).unwrap())
    }

    /// The nodes of a farm have one key, and a request within a call may come to another one than its Route names.
    #[test]
    fn a_route_of_another_node_is_ours_where_its_token_proves_it() {
        let address = ShardAddress { life: Life(7), shard: 0 };
        let env = Environment::new(EndpointSettings::for_tests(address, "127.0.0.1:5060".parse().unwrap()));
        let here = route(&env, "127.0.0.1:5060", &[]);
        let there = route(&env, "127.0.0.2:5060", &[]);
        for routes in [&here, &there] {
            let own = own(&env, routes);
            assert!(own.count == 1 && own.within.is_some_and(|within| within.flow.is_none()), "{routes}");
        }
        // Other nodes' values behind it are where the request goes next.
        let next = "<sip:proxy.example.net;lr>";
        let longer = format!("{}, {next}", route(&env, "127.0.0.2:5060", &[next]));
        assert_eq!(own(&env, &longer).count, 1);
        // A value of another host's, one of another route set, and one behind another proxy's are not ours.
        for routes in [
            "<sip:127.0.0.2:5060;lr>".to_owned(),
            format!("{there}, {next}"),
            format!("{next}, {there}"),
            there.replace(";t=s", ";t=r"),
        ] {
            assert_eq!(own(&env, &routes), OwnRoutes::default(), "{routes}");
        }
    }
}
