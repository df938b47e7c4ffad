//! A client's stream, from its first byte until it is somebody: TLS, SASL, a resource. From then on it is a pipe for
//! stanzas, which another part understands.
//!
//! The driver passes bytes in and performs what comes out; [`C2s::handle_found`], [`C2s::handle_secured`] and
//! [`C2s::handle_bound`] answer the effects of those names. After [`Effect::Close`] nothing more comes.

mod bodies;
mod features;
mod sasl1;
mod sasl2;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::sasl::{self, Exchange};
use crate::xml::{Frame, Framer, Prefixes, XmlError, parse, parse_header};
use crate::{Element, Jid, limits, ns, stanza};

/// The same for all streams of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Served here; the first stands for a stream that names none.
    pub domains: Vec<Box<str>>,
    /// STARTTLS can be done.
    pub tls: bool,
    /// Nobody signs in without TLS. Without a certificate of ours it cannot be asked for.
    pub tls_required: bool,
    pub anonymous: bool,
    /// In-band registration is open (XEP-0077).
    pub registration: bool,
    pub max_stanza: usize,
    /// Seconds without a byte after which a stream may be closed (XEP-0478).
    pub idle_seconds: u32,
    /// Of salts for nobody's accounts.
    pub secret: [u8; 32],
    /// What the server can do (XEP-0115 §6.3), as `host::caps::of_server` makes it.
    pub caps: Option<Element>,
}

/// How stanzas are told from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One document for the whole stream (RFC 6120).
    Stream,
    /// A document each (RFC 7395).
    Messages,
    /// Documents in bodies of HTTP, which another part packs and unpacks (XEP-0206). A stream has no tags of its own.
    Bodies,
}

/// Of the connection, at its begin or after a handshake.
#[derive(Clone, Debug, Default)]
pub struct Security {
    pub encrypted: bool,
    pub bindings: sasl::Bindings,
    /// Address of a client certificate that was verified.
    pub certified: Option<Jid>,
}

/// What a driver does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// After the bytes that were written: TLS as a server, then `handle_secured`.
    StartTls,
    /// Answered by `handle_found`. The domain is one of ours.
    Find { find: sasl::Find, domain: Box<str> },
    /// Make a session. Answered by `handle_bound`.
    Bind(Box<BindRequest>),
    /// Take up an old session: its identity and how many of its stanzas the client has had (XEP-0198). Answered by
    /// `handle_bound`.
    Resume { user: Jid, id: Box<str>, seen: u32 },
    /// From the session's client; `from` is its full address.
    Stanza(Element),
    /// Of stream management, client state and the like: no stanza.
    Nonza(Element),
    /// After the bytes that were written.
    Close,
}

/// The session that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// Bare.
    pub user: Jid,
    pub is_anonymous: bool,
    /// What the client wants to be called, whole (RFC 6120) ...
    pub resource: Option<Box<str>>,
    /// ... or in part, and the server adds to it (XEP-0386).
    pub tag: Option<Box<str>>,
    /// Inline requests of Bind 2, to be done at once; each may have its answer.
    pub inline: Vec<Element>,
}

/// What became of `Bind` or `Resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The full address; answers to inline requests.
    Session {
        jid: Jid,
        inline: Vec<Element>,
    },
    /// It goes on as this address; `resumed` is the answer.
    Resumed {
        jid: Jid,
        resumed: Element,
    },
    /// Not to be resumed; `failed` says why, and the client may bind.
    NotResumed {
        failed: Element,
    },
    Refused(stanza::StanzaError),
    /// Another node (RFC 6120 §4.9.3.19).
    SeeOtherHost(Box<str>),
}

#[derive(Debug, Default)]
pub struct Outbox {
    pub bytes: Vec<u8>,
    /// Where each document of `bytes` ends; not of `Framing::Stream`.
    pub ends: Vec<usize>,
    pub effects: Vec<Effect>,
}

#[derive(Debug)]
enum State {
    /// For the client's header.
    Opening,
    /// For what it chooses of the features.
    Choosing,
    /// TLS is being set up.
    Securing,
    /// An exchange goes on; `two` by SASL2.
    Proving {
        exchange: Box<Exchange>,
        two: Option<Box<sasl2::Wish>>,
    },
    /// For `Bind` or `Resume` to be answered. The id of the iq, or what SASL2 is to answer.
    Binding(Binding),
    Bound,
    /// With an error of that name, or in order.
    Closed(Option<&'static str>),
}

#[derive(Debug)]
enum Binding {
    Iq(Box<Element>),
    Resume,
    /// What the exchange said last; what it wanted besides, when its resumption fails.
    Two {
        last: Option<Vec<u8>>,
        wish: Box<sasl2::Wish>,
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
    security: Security,
    /// Of the stream the client is on, one of ours.
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
    /// Whose account it is that the last `handle_found` was about, where the client used another name of it.
    found_as: Option<Box<str>>,
    id: u64,
    nonce: Box<str>,
}

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
            security,
            domain,
            lang: None,
            jid: None,
            is_anonymous: false,
            failures: 0,
            has_opened: false,
            was_closed: false,
            found_as: None,
            id,
            nonce,
        }
    }

    /// Who it is, once it is somebody.
    pub fn jid(&self) -> Option<&Jid> {
        self.jid.as_ref()
    }

    pub fn is_bound(&self) -> bool {
        matches!(self.state, State::Bound)
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// The client ended the stream in order.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// Attempts to sign in that failed.
    pub fn failures(&self) -> u8 {
        self.failures
    }

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

    /// What follows must not be read before an answer is here; whole documents (`Framing::Messages`) would be lost.
    pub fn is_waiting(&self) -> bool {
        match &self.state {
            State::Securing | State::Binding(_) | State::Closed(_) => true,
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
            Frame::Stanza(range) => match parse(self.framer.bytes(range), &self.prefixes) {
                Ok(element) => self.handle_element(element, out),
                Err(error) => self.xml_error(error, out),
            },
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
        match parse(bytes.trim_ascii(), &Prefixes::default()) {
            Ok(element) if element.is("open", ns::FRAMING) => self.open(&element, out),
            Ok(element) if element.is("close", ns::FRAMING) => self.close_theirs(out),
            Ok(element) => self.handle_element(element, out),
            Err(error) => self.xml_error(error, out),
        }
    }

    fn open(&mut self, header: &Element, out: &mut Outbox) {
        let restarts = self.framing != Framing::Stream && matches!(self.state, State::Choosing);
        if !matches!(self.state, State::Opening) && !restarts {
            return self.fail("bad-format", out);
        }
        self.lang = header.lang().map(Box::from);
        let is_right = match self.framing {
            Framing::Stream => header.is("stream", ns::STREAM) && self.prefixes.default_ns() == ns::CLIENT,
            Framing::Messages | Framing::Bodies => header.is("open", ns::FRAMING),
        };
        if !is_right {
            return self.fail("invalid-namespace", out);
        }
        if let Some(to) = header.attr("to") {
            let domain = Jid::parse(to).ok().map(|jid| Box::<str>::from(jid.domain()));
            match domain.filter(|domain| self.settings.domains.contains(domain)) {
                Some(domain) => self.domain = domain,
                None => return self.fail("host-unknown", out),
            }
        }
        if header.attr("version").is_none_or(|version| !version.starts_with("1.")) {
            return self.fail("unsupported-version", out);
        }
        self.write_header(out);
        self.state = State::Choosing;
        let features = features::of(self);
        self.write(&features, out);
    }

    fn handle_element(&mut self, element: Element, out: &mut Outbox) {
        match &self.state {
            State::Opening => self.fail("bad-format", out),
            State::Choosing if self.jid.is_none() => self.choose(&element, out),
            State::Choosing => self.settle(element, out),
            State::Proving { two: None, .. } => self.prove(&element, out),
            State::Proving { two: Some(_), .. } => self.prove2(&element, out),
            State::Bound => self.pass(element, out),
            State::Securing | State::Binding(_) | State::Closed(_) => {}
        }
    }

    /// Before anybody has signed in.
    fn choose(&mut self, element: &Element, out: &mut Outbox) {
        if element.is("starttls", ns::TLS) {
            if !self.settings.tls || self.security.encrypted || self.framing != Framing::Stream {
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
        } else if stanza::kind_of(element).is_some() {
            self.fail("not-authorized", out);
        } else {
            self.fail("unsupported-stanza-type", out);
        }
    }

    /// Signed in and not bound.
    fn settle(&mut self, element: Element, out: &mut Outbox) {
        let Some(user) = self.jid.clone() else { return };
        if element.is("resume", ns::SM) {
            let (id, seen) = (element.attr("previd"), element.attr("h").and_then(|h| h.parse().ok()));
            let (Some(id), Some(seen)) = (id, seen) else { return self.fail("bad-format", out) };
            out.effects.push(Effect::Resume { user, id: id.into(), seen });
            self.state = State::Binding(Binding::Resume);
            return;
        }
        let bind = element.get("bind", ns::BIND).filter(|_| element.attr("type") == Some("set"));
        let Some(bind) = bind.filter(|_| stanza::kind_of(&element) == Some(stanza::Kind::Iq)) else {
            return self.fail("not-authorized", out);
        };
        let resource = bind.content_of("resource", ns::BIND).map(Box::<str>::from);
        let is_anonymous = self.is_anonymous;
        let request = BindRequest {
            user,
            is_anonymous,
            resource: resource.filter(|name| !name.is_empty()),
            tag: None,
            inline: Vec::new(),
        };
        out.effects.push(Effect::Bind(Box::new(request)));
        self.state = State::Binding(Binding::Iq(Box::new(element)));
    }

    /// Of a session.
    fn pass(&mut self, mut element: Element, out: &mut Outbox) {
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
        if element.attr("type") == Some("set") && element.get("session", ns::SESSION).is_some() {
            // Of RFC 3921: nothing is to be done.
            element.unset("to");
            let answer = stanza::result(&element, None);
            return self.write(&answer, out);
        }
        out.effects.push(Effect::Stanza(element));
    }

    /// The handshake is done; the stream begins anew.
    pub fn handle_secured(&mut self, security: Security, out: &mut Outbox) {
        if !matches!(self.state, State::Securing) {
            return;
        }
        // Whatever came in the clear after `<starttls/>` was somebody else's.
        self.framer = Framer::new();
        self.security = security;
        self.state = State::Opening;
        self.go_on(out);
    }

    /// As [`handle_found`](Self::handle_found), of the account whose name is `user`: an alias signs in as that.
    pub fn handle_found_as(&mut self, known: sasl::Known, user: &str, out: &mut Outbox) {
        self.found_as = Some(user.into());
        self.handle_found(known, out);
    }

    /// The answer to `Find`.
    pub fn handle_found(&mut self, known: sasl::Known, out: &mut Outbox) {
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

    /// The answer to `Bind` or `Resume`.
    pub fn handle_bound(&mut self, bound: Bound, out: &mut Outbox) {
        let State::Binding(binding) = std::mem::replace(&mut self.state, State::Choosing) else { return };
        if let Bound::SeeOtherHost(host) = bound {
            let detail = Element::new("see-other-host", ns::STREAM_ERRORS).text(host);
            return self.fail_as("see-other-host", [detail], out);
        }
        match (binding, bound) {
            (Binding::Iq(iq), Bound::Session { jid, .. }) => {
                let name = Element::new("jid", ns::BIND).text(jid.as_str());
                let answer = stanza::result(&iq, Some(Element::new("bind", ns::BIND).child(name)));
                self.write(&answer, out);
                self.bound(jid);
            }
            (Binding::Iq(iq), Bound::Refused(error)) => {
                let answer = stanza::refusal(&iq, &error);
                self.write(&answer, out);
            }
            (Binding::Resume, Bound::Resumed { jid, resumed }) => {
                self.write(&resumed, out);
                self.bound(jid);
            }
            (Binding::Resume, Bound::NotResumed { failed }) => self.write(&failed, out),
            (Binding::Two { last, wish, resuming }, bound) => self.bound2(last, wish, resuming, bound, out),
            _ => return self.fail("internal-server-error", out),
        }
        self.go_on(out);
    }

    fn bound(&mut self, jid: Jid) {
        self.jid = Some(jid);
        self.state = State::Bound;
        // What only signing in needs.
        self.security.bindings = sasl::Bindings::default();
        self.nonce = Box::default();
        self.found_as = None;
    }

    /// For the client; only while the stream is open.
    pub fn write(&self, element: &Element, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        let around = if self.framing == Framing::Stream { ns::CLIENT } else { "" };
        if self.framing != Framing::Messages && element.ns() == ns::STREAM {
            // With the prefix that everybody expects.
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

    fn write_header(&mut self, out: &mut Outbox) {
        self.has_opened = true;
        if self.framing == Framing::Bodies {
            return;
        }
        let id = format!("{:016x}", self.id);
        // Another id for each header (RFC 6120 §4.7.3).
        self.id = self.id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let lang = crate::xml::escape(self.lang.as_deref().unwrap_or("en"));
        let domain = &self.domain;
        let header = match self.framing {
            Framing::Stream => format!(
                "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='{}' id='{id}' from='{domain}' version='1.0' xml:lang='{lang}'>",
                ns::STREAM
            ),
            Framing::Messages | Framing::Bodies => format!(
                "<open xmlns='{}' id='{id}' from='{domain}' version='1.0' xml:lang='{lang}'/>",
                ns::FRAMING
            ),
        };
        out.bytes.extend_from_slice(header.as_bytes());
        self.end_document(out);
    }

    /// The client's last word, or ours: the stream ends in order.
    pub fn close(&mut self, out: &mut Outbox) {
        self.close_as(None, out);
    }

    fn close_as(&mut self, failure: Option<&'static str>, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if self.has_opened && self.framing != Framing::Bodies {
            out.bytes.extend_from_slice(match self.framing {
                Framing::Messages => b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>",
                Framing::Stream | Framing::Bodies => b"</stream:stream>",
            });
            self.end_document(out);
        }
        self.state = State::Closed(failure);
        out.effects.push(Effect::Close);
    }

    fn xml_error(&mut self, error: XmlError, out: &mut Outbox) {
        let text = Element::new("text", ns::STREAM_ERRORS).text(error.to_string());
        let condition = error.condition();
        self.fail_as(condition, [Element::new(condition, ns::STREAM_ERRORS), text], out);
    }

    /// A stream error (RFC 6120 §4.9.3), and the end.
    pub fn fail(&mut self, condition: &'static str, out: &mut Outbox) {
        self.fail_as(condition, [Element::new(condition, ns::STREAM_ERRORS)], out);
    }

    fn fail_as<const N: usize>(&mut self, condition: &'static str, details: [Element; N], out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if !self.has_opened {
            self.write_header(out);
        }
        self.write(&Element::new("error", ns::STREAM).children(details), out);
        self.close_as(Some(condition), out);
    }
}
