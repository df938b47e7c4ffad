//! A client's stream, from its first byte until a resource is bound: TLS, SASL, binding. From then on it is a pipe for
//! stanzas, which another part understands.
//!
//! The driver passes bytes in and performs what comes out; [`C2s::handle_found`], [`C2s::handle_secured`] and
//! [`C2s::handle_bound`] answer the effects of those names. After [`Effect::Close`] nothing more comes.

#[cfg(test)]
mod access_tests;
mod bind;
mod bodies;
mod bounds;
mod failed;
mod fast;
mod features;
mod header;
mod register;
mod sasl1;
mod sasl2;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::{Arc, LazyLock};

pub use bind::{BindRequest, Bound, UserAgent};
pub use failed::FailedAttempt;
pub use fast::{NewToken, TokenWork};
pub use register::{InvitationGrant, Registration};
pub use register::{form_value, register_value};

use crate::internal::{mark_too_large, remove_ack_token};
use crate::sasl::{self, Exchange};
use crate::xml::{Frame, Framer, Measured, Prefixes, XmlError, parse_header, parse_within};
use crate::{Element, Jid, Level, Specification, limits, ns, stanza};
pub use trace::Direction;

/// Specifications of client streams, besides those of all streams.
pub const SPECIFICATIONS: &[Specification] = &[fast::SPECIFICATION, register::SPECIFICATION, CERTIFICATES];

const CERTIFICATES: Specification = Specification {
    name: "XEP-0178",
    title: "Best Practices for Use of SASL EXTERNAL with Certificates",
    version: "1.2",
    level: Level::Partial,
    file: "crates/server/src/net/certified.rs",
    note: "clients: a certificate of exactly one address; one that is not certified ends the handshake",
};

/// The same for all streams of a server.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Served here; the first stands for a stream that names none.
    pub domains: Vec<Box<str>>,
    /// STARTTLS can be done.
    pub tls: bool,
    /// Authentication requires TLS. Without a certificate of ours it cannot be required.
    pub tls_required: bool,
    pub anonymous: bool,
    /// Registration is open (XEP-0077).
    pub registration: bool,
    /// Registration is open to invited users (XEP-0445).
    pub invitations: bool,
    /// Clients get tokens (XEP-0484).
    pub tokens: bool,
    pub max_stanza: usize,
    /// Seconds without a byte after which a stream may be closed (XEP-0478).
    pub idle_seconds: u32,
    /// The secret of challenges for unknown accounts.
    pub secret: [u8; 32],
    /// The profiles of each domain's accounts, for challenges to unauthenticated clients.
    pub looks: sasl::UnknownAccounts,
    /// The server's entity capabilities (XEP-0115 §6.3), as `chat::caps::of_server` makes it.
    pub caps: Option<Element>,
}

/// The delimiting of stanzas on the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One document for the whole stream (RFC 6120).
    Stream,
    /// A document each (RFC 7395).
    Messages,
    /// Documents in bodies of HTTP, which another part packs and unpacks (XEP-0206). A stream has no tags of its own.
    Bodies,
}

/// The security of the connection, at its begin or after a handshake.
#[derive(Clone, Debug, Default)]
pub struct Security {
    pub encrypted: bool,
    pub bindings: sasl::Bindings,
    /// Address of a client certificate that was verified.
    pub certified: Option<Jid>,
}

/// An effect, which the driver performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// After the bytes that were written: TLS as a server, then `handle_secured`.
    StartTls,
    /// Answered by `handle_found`. The domain is one of ours.
    Find { find: sasl::CredentialQuery, domain: Box<str> },
    /// Answered by `handle_tokens`.
    Tokens(Box<TokenWork>),
    /// Asks if this invitation is valid. Answered by `handle_invited`.
    Invited { token: Box<str>, domain: Box<str> },
    /// Make an account. Answered by `handle_registered`.
    Register(Box<Registration>),
    /// Make a session. Answered by `handle_bound`.
    Bind(Box<BindRequest>),
    /// Take up an old session: its identity and how many of its stanzas the client has had (XEP-0198). Answered by
    /// `handle_bound`.
    Resume { user: Jid, id: Box<str>, seen: u32 },
    /// From the session's client; `from` is its full address.
    Stanza(Element),
    /// An element of stream management, client state and the like: no stanza.
    Nonza(Element),
    /// After the bytes that were written.
    Close,
}

/// The output of a stream: bytes for the client and effects for the host.
#[derive(Debug, Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    /// Where each document of `bytes` ends; not of `Framing::Stream`.
    pub ends: Vec<usize>,
    pub effects: Vec<Effect>,
    /// An element that was received or sent, credentials masked; of a stream that is traced.
    pub traced: Vec<(Direction, Element)>,
}

#[derive(Debug)]
enum State {
    /// For the client's header.
    Opening,
    /// The client chooses one of the features.
    Choosing,
    /// TLS is being set up.
    Securing,
    /// For `InvitationGrant` or `Register` to be answered.
    Registering(Box<Element>),
    /// An exchange goes on; `two` by SASL2.
    Proving {
        exchange: Box<Exchange>,
        two: Option<Box<sasl2::Sasl2Request>>,
    },
    /// For `Bind` or `Resume` to be answered. The id of the iq, or the pending answer of SASL2.
    Binding(Binding),
    Bound,
    Closed,
}

#[derive(Debug)]
enum Binding {
    Iq(Box<Element>),
    Resume,
    /// SASL2 waits for `Tokens` to be answered.
    Tokens {
        last: Option<Vec<u8>>,
        wish: Box<sasl2::Sasl2Request>,
    },
    /// The last message of the exchange, and the client's further requests if its resumption fails.
    Two {
        last: Option<Vec<u8>>,
        wish: Box<sasl2::Sasl2Request>,
        resuming: bool,
    },
}

/// A client's stream.
#[derive(Debug)]
pub struct C2s {
    settings: Arc<Settings>,
    framing: Framing,
    framer: Framer,
    prefixes: Prefixes,
    state: State,
    /// Until it is bound.
    entry: Option<Box<Entry>>,
    /// The domain of the stream, one of ours.
    domain: Box<str>,
    lang: Option<Box<str>>,
    /// Bare from signing in, full from binding.
    jid: Option<Jid>,
    is_anonymous: bool,
    failures: u8,
    /// Our header is out.
    has_opened: bool,
    /// The client has closed its stream.
    was_closed: bool,
    id: u64,
    seen: trace::TraceState,
}

/// The state of a stream until it is bound.
#[derive(Debug, Default)]
struct Entry {
    security: Security,
    nonce: Box<str>,
    /// The account that the last `handle_found` was about, if the client used an alias of it.
    found_as: Option<Box<str>>,
    /// The bare address in `from` of the client's header.
    caller: Option<Box<str>>,
    /// Elements that came.
    heard: u16,
    /// It may make an account by this.
    invitation: Option<Box<register::Invitation>>,
    /// The name that the client gave in its latest exchange.
    claimed: Option<Box<str>>,
    /// Since the driver took the last ones.
    failed: Vec<FailedAttempt>,
}

/// The state of a stream that is bound.
static PAST: LazyLock<Entry> = LazyLock::new(Entry::default);

/// Wrong passwords before the stream ends.
const FAILURES: u8 = 5;

impl C2s {
    /// `id` and `nonce` are unpredictable.
    pub fn new(
        settings: Arc<Settings>,
        framing: Framing,
        security: Security,
        id: u64,
        nonce: Box<str>,
    ) -> C2s {
        let domain = settings.domains.first().cloned().unwrap_or_default();
        C2s {
            settings,
            framing,
            framer: Framer::new(),
            prefixes: Prefixes::of_default(ns::CLIENT),
            state: State::Opening,
            entry: Some(Box::new(Entry { security, nonce, ..Entry::default() })),
            domain,
            lang: None,
            jid: None,
            is_anonymous: false,
            failures: 0,
            has_opened: false,
            was_closed: false,
            id,
            seen: trace::TraceState::default(),
        }
    }

    fn entry(&self) -> &Entry {
        self.entry.as_deref().unwrap_or(&PAST)
    }

    fn entry_mut(&mut self) -> &mut Entry {
        self.entry.get_or_insert_default()
    }

    /// The identity, once it is authenticated.
    pub fn jid(&self) -> Option<&Jid> {
        self.jid.as_ref()
    }

    /// True once the client has bound a resource.
    pub fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound)
    }

    /// True once the stream is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// The client ended the stream in order.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// Bytes of a stanza wait for its rest.
    pub fn is_within_stanza(&self) -> bool {
        !self.framer.is_empty()
    }

    /// The framing of the stream.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// One of ours.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Bytes that came. Reads on only while nothing is awaited from elsewhere: stanzas keep their order.
    pub fn handle_bytes(&mut self, bytes: &[u8], out: &mut Outbox) {
        match self.framing {
            Framing::Stream => {
                self.framer.put(bytes);
                self.go_on(out);
            }
            Framing::Messages => self.handle_message(bytes, out),
            Framing::Bodies => {}
        }
    }

    fn go_on(&mut self, out: &mut Outbox) {
        while !self.is_waiting() {
            let limit =
                if self.jid.is_some() { self.settings.max_stanza } else { limits::STANZA_BEFORE_AUTH };
            match self.framer.next(limit) {
                Ok(Some(frame)) => self.handle_frame(frame, out),
                Ok(None) => return,
                Err(error) => return self.xml_error(error, out),
            }
        }
    }

    /// True while further input must not be read before an answer is here; whole documents
    /// (`Framing::Messages`) would be lost.
    pub fn is_waiting(&self) -> bool {
        match &self.state {
            State::Securing | State::Registering(_) | State::Binding(_) | State::Closed => true,
            State::Proving { exchange, .. } => exchange.is_finding(),
            State::Opening | State::Choosing | State::Bound => false,
        }
    }

    fn handle_frame(&mut self, frame: Frame, out: &mut Outbox) {
        match frame {
            Frame::Header(range) => match parse_header(self.framer.bytes(range)) {
                Ok((header, prefixes)) => {
                    self.prefixes = prefixes;
                    self.open(&header, out);
                }
                Err(error) => self.xml_error(error, out),
            },
            Frame::Stanza(range) => {
                match parse_within(self.framer.bytes(range), &self.prefixes, self.budget()) {
                    Ok(measured) => self.handle_element(measured, out),
                    Err(error) => self.xml_error(error, out),
                }
            }
            Frame::Whitespace => {}
            Frame::Close => self.close_theirs(out),
        }
    }

    fn close_theirs(&mut self, out: &mut Outbox) {
        self.was_closed = true;
        self.close(out);
    }

    fn handle_message(&mut self, bytes: &[u8], out: &mut Outbox) {
        let limit = if self.jid.is_some() { self.settings.max_stanza } else { limits::STANZA_BEFORE_AUTH };
        if bytes.len() > limit {
            return self.xml_error(XmlError::TooLarge("a stanza larger than this server takes"), out);
        }
        // Keep-alives.
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match parse_within(bytes.trim_ascii(), &Prefixes::default(), self.budget()) {
            Ok(Measured { element, .. }) if element.is("open", ns::FRAMING) => self.open(&element, out),
            Ok(Measured { element, .. }) if element.is("close", ns::FRAMING) => self.close_theirs(out),
            Ok(measured) => self.handle_element(measured, out),
            Err(error) => self.xml_error(error, out),
        }
    }

    fn open(&mut self, header: &Element, out: &mut Outbox) {
        let restarts = self.framing != Framing::Stream && matches!(self.state, State::Choosing);
        if !matches!(self.state, State::Opening) && !restarts {
            return self.fail("bad-format", out);
        }
        self.lang = stanza::stream_lang(header);
        let is_right = match self.framing {
            Framing::Stream => header.is("stream", ns::STREAM) && self.prefixes.default_ns() == ns::CLIENT,
            Framing::Messages | Framing::Bodies => header.is("open", ns::FRAMING),
        };
        if !is_right {
            return self.fail("invalid-namespace", out);
        }
        let caller = header.attr("from").and_then(|from| Jid::parse(from).ok());
        self.entry_mut().caller = caller.map(|jid| jid.bare_str().into());
        if let Some(to) = header.attr("to") {
            let domain = Jid::parse(to).ok().map(|jid| Box::<str>::from(jid.domain()));
            match domain.filter(|domain| self.settings.domains.contains(domain)) {
                // RFC 6120 §4.9.3.12: signed in at a domain is signed in there only.
                Some(domain) if self.jid.as_ref().is_some_and(|jid| *jid.domain() != *domain) => {
                    return self.fail("not-authorized", out);
                }
                Some(domain) => self.domain = domain,
                None => return self.fail("host-unknown", out),
            }
        }
        // Negotiation before the restart, perhaps for another domain, does not count for this stream (RFC
        // 6120 §4.3.3).
        if let Some(entry) = &mut self.entry {
            (entry.invitation, entry.found_as) = (None, None);
        }
        if !stanza::is_version_one(header) {
            return self.fail("unsupported-version", out);
        }
        self.write_header(out);
        self.state = State::Choosing;
        let features = features::of(self);
        self.write(&features, out);
    }

    fn handle_element(&mut self, Measured { element, written, .. }: Measured, out: &mut Outbox) {
        self.trace(Direction::In, &element, out);
        if self.jid.is_none() && !self.may_go_on() {
            return self.fail("policy-violation", out);
        }
        match &self.state {
            State::Opening => self.fail("bad-format", out),
            State::Choosing if self.jid.is_none() => self.choose(&element, out),
            State::Choosing => self.handle_bind_stage(element, out),
            State::Proving { two: None, .. } => self.prove(&element, out),
            State::Proving { two: Some(_), .. } => self.prove2(&element, out),
            State::Bound => self.pass(element, written, out),
            State::Securing | State::Registering(_) | State::Binding(_) | State::Closed => {}
        }
    }

    /// Before authentication.
    fn choose(&mut self, element: &Element, out: &mut Outbox) {
        self.see_mechanism(element);
        if element.is("starttls", ns::TLS) {
            if !self.settings.tls || self.entry().security.encrypted || self.framing != Framing::Stream {
                self.write(&Element::new("failure", ns::TLS), out);
                return self.close(out);
            }
            self.write(&Element::new("proceed", ns::TLS), out);
            self.state = State::Securing;
            out.effects.push(Effect::StartTls);
        } else if element.is("auth", ns::SASL) {
            self.begin(element, out);
        } else if element.is("authenticate", ns::SASL2) {
            self.begin2(element, out);
        } else if register::may_ask(self, element) {
            self.register(element, out);
        } else if stanza::kind_of(element).is_some() {
            self.fail("not-authorized", out);
        } else if !self.refuse_management(element, out) {
            self.fail("unsupported-stanza-type", out);
        }
    }

    /// Passes an element of a bound client on to its session.
    fn pass(&mut self, mut element: Element, written: usize, out: &mut Outbox) {
        let Some(jid) = &self.jid else { return };
        if stanza::kind_of(&element).is_none() {
            return match element.ns() {
                ns::SM | ns::CSI => out.effects.push(Effect::Nonza(element)),
                _ => self.fail("unsupported-stanza-type", out),
            };
        }
        let is_own = match stanza::from(&element) {
            Ok(None) => true,
            Ok(Some(from)) => from == *jid || (from.is_bare() && from.as_str() == jid.bare_str()),
            Err(_) => false,
        };
        if !is_own {
            return self.fail("invalid-from", out);
        }
        element.set("from", jid.as_str());
        remove_ack_token(&mut element);
        stanza::inherit_lang(&mut element, self.lang.as_deref());
        if written > self.settings.max_stanza {
            mark_too_large(&mut element);
        }
        out.effects.push(Effect::Stanza(element));
    }

    /// The handshake is done; the stream begins anew.
    pub fn handle_secured(&mut self, security: Security, out: &mut Outbox) {
        if !matches!(self.state, State::Securing) {
            return;
        }
        // Input without TLS after `<starttls/>` may be an attacker's.
        self.framer = Framer::new();
        self.entry_mut().security = security;
        self.state = State::Opening;
        self.go_on(out);
    }

    /// As [`handle_found`](Self::handle_found), of the account whose name is `user`: an alias signs in as that.
    pub fn handle_found_as(&mut self, known: sasl::CredentialAnswer, user: &str, out: &mut Outbox) {
        self.entry_mut().found_as = Some(user.into());
        self.handle_found(known, out);
    }

    /// The answer to `CredentialQuery`.
    pub fn handle_found(&mut self, known: sasl::CredentialAnswer, out: &mut Outbox) {
        let State::Proving { exchange, two } = &mut self.state else { return };
        if !exchange.is_finding() {
            return;
        }
        let step = exchange.give(known);
        if two.is_some() {
            self.step2(step, out);
        } else {
            self.step(step, out);
        }
        self.go_on(out);
    }

    /// For the client; only while the stream is open.
    pub fn write(&self, element: &Element, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        self.trace(Direction::Out, element, out);
        let around = if self.framing == Framing::Stream { ns::CLIENT } else { "" };
        if self.framing != Framing::Messages && element.ns() == ns::STREAM {
            // With the prefix that all clients expect.
            out.bytes.extend_from_slice(format!("<stream:{}>", element.name()).as_bytes());
            element.elements().for_each(|child| child.write(around, &mut out.bytes));
            out.bytes.extend_from_slice(format!("</stream:{}>", element.name()).as_bytes());
        } else {
            element.write(around, &mut out.bytes);
        }
        self.end_document(out);
    }

    fn end_document(&self, out: &mut Outbox) {
        if self.framing != Framing::Stream {
            out.ends.push(out.bytes.len());
        }
    }

    /// Another one for each header (RFC 6120 §4.7.3) and each exchange.
    fn next_id(&mut self) -> u64 {
        let id = self.id;
        self.id = id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        id
    }

    /// The connection is gone. A client that has had a challenge and says nothing to it has tried, and failed.
    pub fn handle_gone(&mut self) {
        let before = std::mem::replace(&mut self.state, State::Closed);
        if matches!(before, State::Proving { exchange, .. } if exchange.has_challenged()) {
            self.count_failure(stdx::attempts::Cause::Aborted);
        }
    }

    /// The client's last word, or ours: the stream ends in order.
    pub fn close(&mut self, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if self.has_opened && self.framing != Framing::Bodies {
            out.bytes.extend_from_slice(match self.framing {
                Framing::Stream | Framing::Bodies => b"</stream:stream>",
                Framing::Messages => b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>",
            });
            self.end_document(out);
        }
        self.handle_gone();
        out.effects.push(Effect::Close);
    }

    fn xml_error(&mut self, error: XmlError, out: &mut Outbox) {
        let text = Element::new("text", ns::STREAM_ERRORS).text(error.to_string());
        self.fail_as(Element::new(error.condition(), ns::STREAM_ERRORS), Some(text), out);
    }

    /// A stream error (RFC 6120 §4.9.3), and the end.
    pub fn fail(&mut self, condition: &'static str, out: &mut Outbox) {
        self.fail_with(Element::new(condition, ns::STREAM_ERRORS), out);
    }

    fn fail_with(&mut self, condition: Element, out: &mut Outbox) {
        self.fail_as(condition, None, out);
    }

    fn fail_as(&mut self, condition: Element, text: Option<Element>, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if !self.has_opened {
            self.write_header(out);
        }
        self.seen.error = Some(condition.name().into());
        let error = Element::new("error", ns::STREAM).child(condition).children(text);
        self.write(&error, out);
        self.close(out);
    }
}
