//! The parameters of our Record-Route URIs, and of Contacts that we certify: keyed proofs of where requests of one
//! dialog may go.
//!
//! `t` is made for one addressee: it covers the dialog, the addressee's tag, the flow `f`, every Route value behind
//! ours and the remote target. A request is relayed by our Route only where all of these fit, so neither a stranger
//! nor a participant of a dialog can have us send anywhere else. The check needs the secret and nothing else: it
//! passes on any node and after a restart (`docs/decisions/0018-routes-are-proofs.md`).
//!
//! `f` names the connection, or the address behind a NAT, of the addressee (RFC 5626 §5.3).
//! `bt` in a Contact certifies a refreshed target (RFC 3261 §12.2): the route set of a dialog never changes.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use router::{FlowId, Life, Received, ShardAddress};
use stdx::hash::Keyed;

use crate::endpoint::Listener;
use crate::limits;
use crate::token;
use crate::wire::{Address, Message, Scheme, Uri, unescape};

/// Characters of one proof, as [`token::write`] writes it.
const PROOF: usize = 13;

/// Comparable forms of a few URIs: most dialogs have one or two behind us, of 40 bytes each, which need no allocation.
struct Canonical {
    room: [u8; Canonical::ROOM],
    /// Bytes in `room`; what does not fit there stands, with all before it, in `long`.
    length: usize,
    long: Vec<u8>,
}

impl Canonical {
    const ROOM: usize = 128;

    fn new() -> Self {
        Canonical { room: [0; Canonical::ROOM], length: 0, long: Vec::new() }
    }

    fn push(&mut self, part: &[u8]) {
        if let Some(room) = self.room.get_mut(self.length..self.length + part.len()) {
            room.copy_from_slice(part);
            self.length += part.len();
            return;
        }
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.room[..self.length]);
            self.length = Canonical::ROOM;
        }
        self.long.extend_from_slice(part);
    }

    fn as_bytes(&self) -> &[u8] {
        if self.long.is_empty() { &self.room[..self.length] } else { &self.long }
    }

    fn as_mut_bytes(&mut self) -> &mut [u8] {
        if self.long.is_empty() { &mut self.room[..self.length] } else { &mut self.long }
    }
}

/// The kind of message that the token was made of; it decides which tags were known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A request: the addressee is its sender, the other tag is not known yet.
    Request,
    /// A response that creates the dialog: the addressee is its sender, both tags are known.
    Response,
}

/// The dialog that a token is of, seen from the sender of a request that uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialogId<'a> {
    pub(crate) call_id: &'a [u8],
    /// The addressee's tag: the To tag of a request that uses the token.
    pub(crate) remote_tag: &'a [u8],
    /// The other tag; empty in a token made of a request.
    pub(crate) local_tag: &'a [u8],
}

/// The remote target of a dialog (RFC 3261 §12.1.1), parsed once for all that is asked of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteTarget<'a> {
    pub(crate) text: &'a [u8],
    /// `None`: the text is not a URI.
    pub(crate) uri: Option<Uri<'a>>,
}

impl<'a> RemoteTarget<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        RemoteTarget { text, uri: Uri::parse(text).ok() }
    }

    /// The Request-URI of a request within the dialog.
    pub(crate) fn of_request(request: &'a Message) -> Self {
        RemoteTarget { text: request.uri(), uri: request.request_uri().ok() }
    }
}

/// The value of `t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Covers everything, `target` included.
    pub(crate) route: u64,
    /// Covers the remote target and the flow. Apart, because a refreshed target replaces it.
    pub(crate) target: u64,
}

impl Token {
    /// A token for requests that go by `routes`, or by `flow`, to `target`.
    pub(crate) fn new<'v>(
        key: &Keyed,
        kind: TokenKind,
        dialog: &DialogId<'_>,
        flow: &[u8],
        routes: impl Iterator<Item = &'v [u8]>,
        target: &RemoteTarget<'_>,
    ) -> Token {
        let target = target_proof(key, dialog, flow, target);
        Token { kind, route: route_proof(key, kind, dialog, flow, routes, target), target }
    }

    /// The token of a Route or Record-Route URI.
    pub(crate) fn parse(uri: &Uri<'_>) -> Option<Token> {
        Token::from_bytes(uri.params.get("t")?)
    }

    fn from_bytes(text: &[u8]) -> Option<Token> {
        let (kind, proofs) = text.split_first()?;
        let kind = match kind {
            b'r' => TokenKind::Request,
            b's' => TokenKind::Response,
            _ => return None,
        };
        let (route, target) = proofs.split_at_checked(PROOF)?;
        Some(Token { kind, route: token::parse(route)?, target: token::parse(target)? })
    }

    /// True if it was made for this dialog, flow and Route values. `target` is not compared with anything.
    pub(crate) fn fits<'v>(
        &self,
        key: &Keyed,
        dialog: &DialogId<'_>,
        flow: &[u8],
        routes: impl Iterator<Item = &'v [u8]>,
    ) -> bool {
        // Both sides are 64-bit numbers: the comparison takes the same time whatever they are.
        self.route == route_proof(key, self.kind, dialog, flow, routes, self.target)
    }

    /// `;t=...[;f=...]`, to stand after a listener's URI and `;lr`.
    pub(crate) fn write_params(&self, out: &mut Vec<u8>, flow: &[u8]) {
        out.extend_from_slice(b";t=");
        out.push(if self.kind == TokenKind::Request { b'r' } else { b's' });
        token::write(out, self.route);
        token::write(out, self.target);
        if !flow.is_empty() {
            out.extend_from_slice(b";f=");
            out.extend_from_slice(flow);
        }
    }
}

/// The route half of a request's token in a Record-Route value, where it begins, and the token itself: found
/// without reading the value as an address.
pub(crate) fn request_token_in(value: &[u8]) -> Option<(usize, Token)> {
    const START: &[u8] = b";t=r";
    let at = memchr::memmem::find(value, START)?;
    let text = value.get(at + START.len() - 1..at + START.len() + 2 * PROOF)?;
    Some((at, Token::from_bytes(text)?))
}

/// A proof over the remote target and the flow by which it is reached.
pub(crate) fn target_proof(
    key: &Keyed,
    dialog: &DialogId<'_>,
    flow: &[u8],
    target: &RemoteTarget<'_>,
) -> u64 {
    let mut canonical = Canonical::new();
    push_canonical(&mut canonical, target);
    key.mac(&[b"target", dialog.call_id, dialog.remote_tag, flow, canonical.as_bytes()])
}

fn route_proof<'v>(
    key: &Keyed,
    kind: TokenKind,
    dialog: &DialogId<'_>,
    flow: &[u8],
    routes: impl Iterator<Item = &'v [u8]>,
    target: u64,
) -> u64 {
    let mut canonical = Canonical::new();
    for value in routes {
        let uri = Address::parse(value).map_or(value, |address| address.uri);
        push_canonical(&mut canonical, &RemoteTarget::of(uri));
    }
    let (purpose, local_tag): (&[u8], &[u8]) = match kind {
        TokenKind::Request => (b"request", b""),
        TokenKind::Response => (b"response", dialog.local_tag),
    };
    let (call_id, remote_tag) = (dialog.call_id, dialog.remote_tag);
    key.mac(&[purpose, call_id, remote_tag, local_tag, flow, canonical.as_bytes(), &target.to_be_bytes()])
}

/// Appends the parts of a URI that decide where it leads: scheme, user, host, port, transport, maddr, loose routing, `gr`. User agents may reorder or
/// drop other parameters. Every part has its length in front, so that no two URIs have one form by shifting bytes.
fn push_canonical(out: &mut Canonical, target: &RemoteTarget<'_>) {
    let Some(uri) = target.uri.filter(|uri| uri.scheme != Scheme::Other) else {
        push_part(out, b"?");
        return push_part(out, target.text);
    };
    let lr = if uri.is_loose_router() { b'l' } else { b'-' };
    out.push(&[uri.scheme as u8, lr]);
    push_user(out, uri.user.unwrap_or_default());
    push_lower(out, uri.host);
    out.push(&uri.port.unwrap_or(0).to_be_bytes());
    push_lower(out, uri.params.get("transport").unwrap_or_default());
    push_lower(out, uri.params.get("maddr").unwrap_or_default());
    // A GRUU is looked up, other targets are not: one must not pass for the other. No scheme has this number.
    if uri.params.has("gr") {
        out.push(b"g");
    }
}

fn push_part(out: &mut Canonical, part: &[u8]) {
    out.push(&length_of(part.len()));
    out.push(part);
}

fn push_lower(out: &mut Canonical, part: &[u8]) {
    push_part(out, part);
    let bytes = out.as_mut_bytes();
    let start = bytes.len() - part.len();
    bytes[start..].make_ascii_lowercase();
}

/// Escapes undone: some user agents write them anew.
fn push_user(out: &mut Canonical, user: &[u8]) {
    if user.contains(&b'%') { push_part(out, &unescape(user)) } else { push_part(out, user) }
}

fn length_of(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// Our certificate in a Contact URI: the refreshed target and its flow are proved for this dialog.
const CERTIFICATE: &str = "bt";

/// A certificate that fits, in a Request-URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertifiedContact<'a> {
    pub(crate) proof: u64,
    /// Text of the flow; empty when the target itself is followed.
    pub(crate) flow: &'a [u8],
    /// The Request-URI without the certificate.
    pub(crate) uri: Vec<u8>,
}

impl<'a> CertifiedContact<'a> {
    /// The certified Contact in a Request-URI, when its certificate is of this dialog.
    pub(crate) fn of(key: &Keyed, dialog: &DialogId<'_>, uri: &'a [u8]) -> Option<CertifiedContact<'a>> {
        // Most Request-URIs have none: they are not parsed for it.
        memchr::memmem::find(uri, b";bt=")?;
        let target = RemoteTarget::of(uri);
        let parsed = target.uri?;
        let certificates = parsed.params.iter().filter(|param| param.name == CERTIFICATE.as_bytes());
        certificates.take(limits::CERTIFICATES).find_map(|param| {
            let (proof, flow) = param.value?.split_at_checked(PROOF)?;
            let proof = token::parse(proof).filter(|p| *p == target_proof(key, dialog, flow, &target))?;
            let start = (param.name.as_ptr() as usize).wrapping_sub(uri.as_ptr() as usize);
            // The semicolon before it goes with it.
            let end = start + CERTIFICATE.len() + 1 + PROOF + flow.len();
            let uri = [uri.get(..start.checked_sub(1)?)?, uri.get(end..)?].concat();
            Some(CertifiedContact { proof, flow, uri })
        })
    }
}

/// The Contact's URI with a certificate; it needs angle brackets around it.
pub(crate) fn write_certified(out: &mut Vec<u8>, uri: &[u8], proof: u64, flow: &[u8]) {
    // Headers of a URI stand last (RFC 3261 §19.1.1).
    let headers = Uri::parse(uri).map_or(0, |parsed| parsed.headers.len());
    let end = if headers == 0 { uri.len() } else { uri.len() - headers - 1 };
    out.extend_from_slice(&uri[..end]);
    out.extend_from_slice(b";");
    out.extend_from_slice(CERTIFICATE.as_bytes());
    out.extend_from_slice(b"=");
    token::write(out, proof);
    out.extend_from_slice(flow);
    out.extend_from_slice(&uri[end..]);
}

/// A flow in letters that may stand in a URI parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlowText(Vec<u8>);

impl FlowText {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// `listener-address-port[-life-shard-number]`, numbers in hexadecimal.
    pub(crate) fn of(received: &Received, listeners: &[Listener]) -> Option<FlowText> {
        let listener = listeners
            .iter()
            .position(|l| l.transport == received.transport && l.addr == received.local)
            .or_else(|| listeners.iter().position(|l| l.transport == received.transport))?;
        let mut text = Vec::with_capacity(48);
        let _ = write!(text, "{listener:x}-");
        match received.remote.ip() {
            IpAddr::V4(ip) => text.extend_from_slice(format!("{:08x}", u32::from(ip)).as_bytes()),
            IpAddr::V6(ip) => text.extend_from_slice(format!("{:032x}", u128::from(ip)).as_bytes()),
        }
        let _ = write!(text, "-{:x}", received.remote.port());
        if let Some(flow) = received.flow {
            let _ = write!(text, "-{:x}-{:x}-{:x}", flow.edge.life.0, flow.edge.shard, flow.number);
        }
        Some(FlowText(text))
    }

    /// Back from a text that a proof covers.
    pub(crate) fn parse(text: &[u8], listeners: &[Listener]) -> Option<Received> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split('-');
        let listener = listeners.get(usize::from_str_radix(parts.next()?, 16).ok()?)?;
        let address = parts.next()?;
        let ip = match address.len() {
            8 => IpAddr::V4(u32::from_str_radix(address, 16).ok()?.into()),
            _ => IpAddr::V6(u128::from_str_radix(address, 16).ok()?.into()),
        };
        let port = u16::from_str_radix(parts.next()?, 16).ok()?;
        let flow = match (parts.next(), parts.next(), parts.next()) {
            (Some(life), Some(shard), Some(number)) => Some(FlowId {
                edge: ShardAddress {
                    life: Life(u32::from_str_radix(life, 16).ok()?),
                    shard: u16::from_str_radix(shard, 16).ok()?,
                },
                number: u64::from_str_radix(number, 16).ok()?,
            }),
            _ => None,
        };
        Some(Received {
            transport: listener.transport,
            local: listener.addr,
            remote: SocketAddr::new(ip, port),
            flow,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Transport;

    const KEY: Keyed = Keyed::new([7; 16]);
    const DIALOG: DialogId<'static> = DialogId { call_id: b"call", remote_tag: b"b", local_tag: b"a" };

    fn token(kind: TokenKind, routes: &[&[u8]], target: &[u8]) -> Token {
        Token::new(&KEY, kind, &DIALOG, b"", routes.iter().copied(), &RemoteTarget::of(target))
    }

    #[test]
    fn a_canonical_form_holds_short_and_long_parts() {
        for lengths in [&[0, 3, 120][..], &[100, 28, 1, 0, 5], &[129, 2], &[128, 0], &[40, 100, 40]] {
            let (mut canonical, mut plain) = (Canonical::new(), Vec::new());
            for (index, &length) in lengths.iter().enumerate() {
                let part = vec![b'A' + index as u8; length];
                push_lower(&mut canonical, &part);
                plain.extend_from_slice(&length_of(length));
                plain.extend_from_slice(&part.to_ascii_lowercase());
            }
            assert_eq!(canonical.as_bytes(), plain);
        }
    }

    #[test]
    fn a_flow_survives_its_text() {
        let listeners = [Listener::new(Transport::Tcp, "127.0.0.1:5060".parse().unwrap())];
        for (remote, flow) in [
            ("10.1.2.3:49152", None),
            (
                "[2001:db8::1]:5060",
                Some(FlowId { edge: ShardAddress { life: Life(3), shard: 1 }, number: 77 }),
            ),
        ] {
            let received = Received {
                transport: Transport::Tcp,
                local: listeners[0].addr,
                remote: remote.parse().unwrap(),
                flow,
            };
            let text = FlowText::of(&received, &listeners).unwrap();
            assert_eq!(FlowText::parse(text.as_bytes(), &listeners), Some(received));
        }
    }

    #[test]
    fn a_token_fits_its_dialog_its_flow_and_its_routes_only() {
        let routes: &[&[u8]] = &[b"<sip:p1;lr>", b"<sip:p2:5070;lr=on;x=1>"];
        let target = RemoteTarget::of(b"sip:b@h");
        let made = Token::new(&KEY, TokenKind::Response, &DIALOG, b"0-1-2", routes.iter().copied(), &target);
        let mut uri = b"sip:127.0.0.1:5060;lr".to_vec();
        made.write_params(&mut uri, b"0-1-2");
        let uri = Uri::parse(&uri).unwrap();
        assert_eq!(Token::parse(&uri), Some(made));
        assert_eq!(uri.params.get("f"), Some(&b"0-1-2"[..]));
        let fits = |dialog: DialogId<'_>, flow: &[u8], routes: &[&[u8]]| {
            made.fits(&KEY, &dialog, flow, routes.iter().copied())
        };
        assert!(fits(DIALOG, b"0-1-2", routes));
        assert!(
            fits(DIALOG, b"0-1-2", &[b"<sip:P1;lr=yes>", b"<sip:p2:5070;lr>"]),
            "the same hops, written otherwise"
        );
        assert!(!fits(DialogId { call_id: b"other", ..DIALOG }, b"0-1-2", routes));
        assert!(!fits(DialogId { remote_tag: b"x", ..DIALOG }, b"0-1-2", routes));
        assert!(!fits(DialogId { local_tag: b"x", ..DIALOG }, b"0-1-2", routes));
        assert!(
            !fits(DialogId { remote_tag: b"a", local_tag: b"b", ..DIALOG }, b"0-1-2", routes),
            "the other way"
        );
        assert!(!fits(DIALOG, b"", routes));
        assert!(!fits(DIALOG, b"0-1-2", &routes[..1]));
        assert!(!fits(DIALOG, b"0-1-2", &[routes[0], routes[1], b"<sip:victim;lr>"]));
        assert!(!fits(DIALOG, b"0-1-2", &[routes[0], b"<sip:p2:5071;lr>"]));
        assert!(
            !fits(DIALOG, b"0-1-2", &[routes[0], b"<sip:p2:5070>"]),
            "a strict router takes the Request-URI"
        );
        assert!(!fits(DIALOG, b"0-1-2", &[routes[0], b"<sip:p2:5070;lr;maddr=victim>"]));
    }

    #[test]
    fn a_token_of_a_request_leaves_the_other_tag_open() {
        let made = token(TokenKind::Request, &[], b"sip:b@h");
        let other = DialogId { local_tag: b"any", ..DIALOG };
        assert!(made.fits(&KEY, &other, b"", std::iter::empty()));
        let as_response = Token { kind: TokenKind::Response, ..made };
        assert!(!as_response.fits(&KEY, &DIALOG, b"", std::iter::empty()));
    }

    #[test]
    fn a_target_is_compared_by_its_routing_parts() {
        let of = |target: &[u8]| token(TokenKind::Response, &[], target).target;
        let bob = of(b"sip:%62ob@Host.test:5080;transport=TCP;ob");
        assert_eq!(bob, of(b"sip:bob@host.test:5080;x=y;transport=tcp"));
        for other in [
            &b"sip:carol@host.test:5080;transport=tcp"[..],
            b"sips:bob@host.test:5080;transport=tcp",
            b"sip:bob@host.test;transport=tcp",
            b"sip:bob@host.test:5080",
            b"sip:bob@victim.test:5080;transport=tcp",
            b"sip:bob@host.test:5080;transport=tcp;maddr=10.0.0.9",
            b"tel:bob",
            b"",
        ] {
            assert_ne!(bob, of(other), "{}", String::from_utf8_lossy(other));
        }
        assert_ne!(of(b"urn:service:a"), of(b"urn:service:b"));
    }

    #[test]
    fn a_request_token_is_found_in_a_record_route_value() {
        let made = token(TokenKind::Request, &[], b"sip:b@h");
        let mut value = b"<sip:us;lr".to_vec();
        made.write_params(&mut value, b"0-1-2");
        value.extend_from_slice(b">;x=1");
        assert_eq!(request_token_in(&value), Some((10, made)));
        assert_eq!(request_token_in(&value[..30]), None);
        assert_eq!(request_token_in(b"<sip:us;lr;t=s>"), None);
    }

    #[test]
    fn a_certified_contact_comes_back_without_its_certificate() {
        for (contact, flow) in [
            (&b"sip:b@h:5080;ob"[..], &b""[..]),
            (b"sip:b@h", b"0-0a000001-13c4"),
            (b"sip:b@h;bt=notours", b""),
            (b"sip:b@h;ob?X=y", b""),
        ] {
            let proof = target_proof(&KEY, &DIALOG, flow, &RemoteTarget::of(contact));
            let mut certified = Vec::new();
            write_certified(&mut certified, contact, proof, flow);
            let back = CertifiedContact::of(&KEY, &DIALOG, &certified).unwrap();
            assert_eq!((&back.uri[..], back.flow, back.proof), (contact, flow, proof));
            let another = DialogId { remote_tag: b"x", ..DIALOG };
            assert_eq!(CertifiedContact::of(&KEY, &another, &certified), None);
            let moved = String::from_utf8(certified).unwrap().replace("@h", "@victim");
            assert_eq!(CertifiedContact::of(&KEY, &DIALOG, moved.as_bytes()), None);
        }
    }
}
