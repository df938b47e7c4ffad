//! A dialog of a user agent, of either side: RFC 3261 §12.
//!
//! Plain data: the numbers, tags, target and route set, and the requests and replies that are built of them.
//! Via and Contact are not written here, as they depend on the listener by which a message leaves
//! (`endpoint::user_agent`).

use router::Received;

use super::incoming::reply_effect;
use super::{ReceivedRequest, SUPPORTED, SessionEffect, SessionEffects};
use crate::endpoint::CallEventKind;
use crate::events::{OutgoingRoute, dialog_received};
use crate::transport::Source;
use crate::wire::{Address, Header, Message, Reply, RequestBuilder, Uri, Values, request_uri};

/// The dialog of a session (RFC 3261 §12).
#[derive(Clone, Debug)]
pub(super) struct Dialog {
    /// The Call-ID, on either side.
    pub(super) call_id: Box<[u8]>,
    pub(super) local_tag: Box<str>,
    /// Empty until a response of the peer has one.
    pub(super) remote_tag: Box<[u8]>,
    /// Our name-addr without its tag.
    local: Box<[u8]>,
    /// The peer's name-addr, tag and all.
    remote: Box<[u8]>,
    /// Record-Routes in the order in which requests of ours go through them.
    route_set: Box<[Box<[u8]>]>,
    /// The peer's Contact: the Request-URI of our requests.
    remote_target: Box<[u8]>,
    /// The flow to a phone behind a NAT; `None`: its target is reachable by itself.
    received: Option<Received>,
    /// See [`super::Invite::public_only`].
    public_only: bool,
    /// See [`super::Invite::is_binding`]; of the INVITE alone.
    is_binding: bool,
    /// The number of the peer's last request; 0 before the first.
    remote_cseq: u32,
    /// The number of our last request.
    pub(super) local_cseq: u32,
}

/// The fault of a message that should make or move a dialog: a status and its reason.
pub(super) struct DialogFault(pub(super) u16, pub(super) &'static str);

impl Dialog {
    /// RFC 3261 §12.1.1: the INVITE is the peer's.
    pub(super) fn of_request(request: &Message, source: &Source, local_tag: Box<str>) -> Option<Dialog> {
        let remote_target = contact_of(request)?;
        let route_set: Box<[Box<[u8]>]> = request.values(Header::RecordRoute).map(Box::from).collect();
        Some(Dialog {
            call_id: request.call_id()?.into(),
            local_tag,
            remote_tag: request.from_tag()?.into(),
            local: request.header(Header::To)?.into(),
            remote: request.header(Header::From)?.into(),
            received: dialog_received(source, remote_target, route_set.first().map(|route| &**route)),
            route_set,
            remote_target: remote_target.into(),
            public_only: false,
            is_binding: false,
            remote_cseq: request.cseq()?.0,
            local_cseq: 0,
        })
    }

    /// Before any response: requests go where the INVITE goes.
    pub(super) fn calling(invite: &super::Invite, call_id: Box<[u8]>, local_tag: Box<str>) -> Option<Dialog> {
        let uri = Uri::parse(invite.target.as_bytes()).ok()?;
        let from_is_sound = Address::parse(invite.from.as_bytes()).is_some_and(|from| from.tag().is_none());
        if !uri.is_sip() || !from_is_sound {
            return None;
        }
        let target: Box<[u8]> = request_uri(invite.target.as_bytes()).into();
        let to = if invite.to.is_empty() {
            [b"<", &*target, b">"].concat().into()
        } else {
            Box::from(invite.to.as_bytes())
        };
        Address::parse(&to)?;
        Some(Dialog {
            call_id,
            local_tag,
            remote_tag: Box::default(),
            local: invite.from.as_bytes().into(),
            remote: to,
            route_set: Values::new(invite.path.as_bytes()).map(Box::from).collect(),
            remote_target: target,
            received: invite.received,
            public_only: invite.public_only,
            // A Path is of a proxy that is trusted to register.
            is_binding: invite.is_binding && invite.path.is_empty(),
            remote_cseq: 0,
            local_cseq: 0,
        })
    }

    /// RFC 3261 §12.1.2: the dialog that a response to its INVITE makes of this one.
    pub(super) fn of_response(&self, response: &Message) -> Option<Dialog> {
        let tag = response.to_tag()?;
        let mut routes: Vec<Box<[u8]>> = response.values(Header::RecordRoute).map(Box::from).collect();
        routes.reverse();
        // A phone behind a NAT that no proxy stands before stays reachable by its flow alone, and a Record-Route that
        // names another host than the flow's is not believed.
        let received = self.received.filter(|received| {
            let Received { transport, local, remote, flow } = *received;
            let source = Source { transport, local, remote, flow };
            let route = routes.first().map(|route| &**route);
            route.is_none() || dialog_received(&source, &self.remote_target, route).is_some()
        });
        Some(Dialog {
            remote_tag: tag.into(),
            remote: response.header(Header::To)?.into(),
            remote_target: contact_of(response).map_or(self.remote_target.clone(), Box::from),
            route_set: routes.into(),
            received,
            is_binding: false,
            ..self.clone()
        })
    }

    /// The 2xx that made this dialog belongs to an early one, which goes on in it. Of an early dialog's state only the route set and the
    /// target are made anew (RFC 3261 §13.2.2.4).
    pub(super) fn confirm(&mut self, early: &Dialog) {
        self.remote_cseq = early.remote_cseq;
    }

    /// For the ledger.
    pub(super) fn call_effect(&self, kind: CallEventKind) -> SessionEffect {
        let (call_id, local_tag) = (self.call_id.clone(), self.local_tag.clone());
        SessionEffect::Call { call_id, local_tag, kind }
    }

    pub(super) fn is_of(&self, request: &Message) -> bool {
        request.call_id() == Some(&*self.call_id) && request.from_tag() == Some(&*self.remote_tag)
    }

    /// RFC 3261 §12.2.2: numbers of requests only grow. A lower one is late or repeated.
    pub(super) fn accept(&mut self, request: &Message) -> Result<(), DialogFault> {
        let number = request.cseq().map_or(0, |(number, _)| number);
        if self.remote_cseq != 0 && number <= self.remote_cseq {
            return Err(DialogFault(500, "CSeq Out Of Order"));
        }
        self.remote_cseq = number;
        Ok(())
    }

    /// Answers a request of the peer.
    pub(super) fn reply(
        &self,
        arrived: &ReceivedRequest<'_>,
        status: u16,
        reason: &str,
        out: &mut SessionEffects,
    ) {
        self.reply_with(arrived, (status, reason), None, out);
    }

    /// As [`reply`](Self::reply), with one header more.
    pub(super) fn reply_with(
        &self,
        arrived: &ReceivedRequest<'_>,
        (status, reason): (u16, &str),
        header: Option<(&str, &str)>,
        out: &mut SessionEffects,
    ) {
        let tag = Some(&*self.local_tag);
        let mut reply = Reply::new(arrived.request, arrived.source.remote, status, reason, tag);
        if let Some((name, value)) = header {
            reply.header(name, value.as_bytes());
        }
        if status == 200 {
            reply.header("Supported", SUPPORTED.as_bytes());
        }
        out.push(reply_effect(arrived.transaction, status, reply.finish()));
    }

    /// Target refresh (§12.2): by re-INVITE and UPDATE, and the 2xx to them. The route set stays as it was.
    pub(super) fn refresh_target(&mut self, message: &Message, source: Option<&Source>) {
        let Some(target) = contact_of(message) else { return };
        self.remote_target = target.into();
        if let Some(source) = source {
            self.received = dialog_received(source, target, self.route_set.first().map(|route| &**route));
        }
    }

    /// RFC 3261 §12.2.1.1, with a fresh CSeq. Via and Contact are the endpoint's.
    pub(super) fn request(&mut self, method: &str) -> (RequestBuilder, OutgoingRoute) {
        self.local_cseq += 1;
        self.request_numbered(method, self.local_cseq)
    }

    /// As [`request`](Self::request); the ACK of a 2xx has its INVITE's number.
    pub(super) fn request_numbered(&self, method: &str, number: u32) -> (RequestBuilder, OutgoingRoute) {
        let (uri, routes) = self.route();
        let mut request = RequestBuilder::new(method.as_bytes(), &request_uri(&uri));
        for route in &routes {
            request.header("Route", route);
        }
        let first = routes.first().and_then(|route| Address::parse(route)).map(|route| route.uri);
        let next_hop = String::from_utf8_lossy(first.unwrap_or(&uri)).into();
        request
            .header("Max-Forwards", b"70")
            .header("From", &[&self.local, &b";tag="[..], self.local_tag.as_bytes()].concat())
            .header("To", &self.remote)
            .header("Call-ID", &self.call_id)
            .header("CSeq", format!("{number} {method}").as_bytes());
        let Dialog { received, public_only, is_binding, .. } = *self;
        (request, OutgoingRoute { next_hop, received, public_only, is_binding })
    }

    /// The Request-URI and the Routes (§12.2.1.1). A first route without `lr` is a strict router: it gets the
    /// Request-URI, and the target is the last Route.
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
fn contact_of(message: &Message) -> Option<&[u8]> {
    let uri = message.values(Header::Contact).next().and_then(Address::parse)?.uri;
    let is_sound = Uri::parse(uri).is_ok_and(|uri| uri.is_sip()) && uri.is_ascii();
    is_sound.then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_uri_has_neither_headers_nor_a_method() {
        for (uri, expected) in [
            ("sip:bob@example.org", "sip:bob@example.org"),
            ("sip:bob@example.org?", "sip:bob@example.org"),
            ("sip:bob@example.org?Subject=x;y", "sip:bob@example.org"),
            ("sip:bob@example.org:5070;method=BYE", "sip:bob@example.org:5070"),
            ("sip:bob@[::1];user=phone;Method=INVITE;lr?X=1", "sip:bob@[::1];user=phone;lr"),
            ("sip:bob;method=x@example.org;transport=tcp", "sip:bob;method=x@example.org;transport=tcp"),
            ("sip:why?;method=x@example.org", "sip:why?;method=x@example.org"),
            ("tel:+1555;phone-context=a", "tel:+1555;phone-context=a"),
        ] {
            assert_eq!(request_uri(uri.as_bytes()).escape_ascii().to_string(), expected, "{uri}");
            let invite =
                crate::session::Invite { target: uri.into(), from: "<sip:a@b>".into(), ..Default::default() };
            let Some(mut dialog) = Dialog::calling(&invite, Box::default(), Box::default()) else { continue };
            let (request, _) = dialog.request("INVITE");
            let bytes = request.finish().escape_ascii().to_string();
            assert!(bytes.starts_with(&format!("INVITE {expected} SIP/2.0\\r\\n")), "{bytes}");
        }
    }

    /// RFC 3261 §12.2.1.1: parameters that a Request-URI may not have are stripped of a strict router, too.
    #[test]
    fn a_strict_router_is_asked_without_its_method() {
        let invite = crate::session::Invite {
            target: "sip:bob@example.org".into(),
            from: "<sip:a@b>".into(),
            path: "<sip:p.example.org;method=INVITE>".into(),
            ..Default::default()
        };
        let mut dialog = Dialog::calling(&invite, Box::default(), Box::default()).unwrap();
        let bytes = dialog.request("INVITE").0.finish().escape_ascii().to_string();
        assert!(bytes.starts_with("INVITE sip:p.example.org SIP/2.0"), "{bytes}");
    }
}
