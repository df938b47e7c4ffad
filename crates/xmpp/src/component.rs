//! The stream of an external component (XEP-0114): a header, a handshake, and from then on stanzas both ways.
//! All local parts and resources at its domain belong to the component.
//!
//! The driver passes bytes in and performs the effects; [`Component::handle_attached`] answers
//! [`Effect::Attach`]. After [`Effect::Close`] nothing more comes.

use std::sync::Arc;

use sha1::{Digest, Sha1};

use crate::internal::remove_ack_token;
use crate::sasl::Secret;
use crate::stanza::{self, Condition, StanzaError};
use crate::xml::{Budget, Frame, Framer, Measured, Prefixes, XmlError, parse, parse_header, parse_within};
use crate::{Element, Jid, Level, Specification, limits, ns};

/// XEP-0114, as service discovery and the documentation list it.
pub const SPECIFICATIONS: &[Specification] = &[Specification {
    name: "XEP-0114",
    title: "Jabber Component Protocol",
    version: "1.6",
    level: Level::Complete,
    file: "crates/xmpp/src/component.rs",
    note: "several connections of one component share its stanzas by their senders",
}];

/// A component that may connect.
#[derive(Clone, Debug)]
pub struct ComponentCredentials {
    /// Prepared, as a [`Jid`] has it.
    pub domain: Box<str>,
    /// The secret that the component shares with the server (XEP-0114 §3).
    pub secret: Secret,
}

/// The same for all streams of a server.
#[derive(Clone, Debug)]
pub struct ComponentSettings {
    /// The components that may connect.
    pub components: Vec<ComponentCredentials>,
    /// The largest stanza that is read, in bytes.
    pub max_stanza: usize,
}

impl ComponentSettings {
    /// True if a component serves the domain.
    pub fn is_component(&self, domain: &str) -> bool {
        self.find(domain).is_some()
    }

    fn find(&self, domain: &str) -> Option<&ComponentCredentials> {
        self.components.iter().find(|known| *known.domain == *domain)
    }
}

/// An effect, which the driver performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It has proved to be this component. Answered by `handle_attached`.
    Attach {
        /// The domain of the component.
        domain: Box<str>,
    },
    /// The secret was wrong.
    Failed,
    /// From an address of the component's.
    Stanza(Element),
    /// After the bytes that were written.
    Close,
}

/// The result of attaching a component to its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachOutcome {
    /// The component is attached.
    Here,
    /// As many as may be are connected already.
    Conflict,
    /// Too many wrong secrets came from there: this one is not looked at either.
    Barred,
}

/// The output of a stream: bytes for the component and effects for the host.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Bytes for the component.
    pub bytes: Vec<u8>,
    /// Effects for the driver, in order.
    pub effects: Vec<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComponentState {
    /// For its header.
    Opening,
    /// For its handshake.
    Proving,
    /// For `Attach` to be answered.
    Attaching,
    AttachOutcome,
    Closed,
}

/// A component's stream.
#[derive(Debug)]
pub struct Component {
    settings: Arc<ComponentSettings>,
    framer: Framer,
    prefixes: Prefixes,
    state: ComponentState,
    /// Once it has named one that may connect.
    domain: Box<str>,
    id: Box<str>,
    lang: Option<Box<str>>,
    has_opened: bool,
}

impl Component {
    /// `id` is unpredictable: it is what keeps a handshake from being used twice.
    pub fn new(settings: Arc<ComponentSettings>, id: Box<str>) -> Component {
        Component {
            settings,
            framer: Framer::new(),
            prefixes: Prefixes::default(),
            state: ComponentState::Opening,
            domain: Box::default(),
            id,
            lang: None,
            has_opened: false,
        }
    }

    /// The component's domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// True once the component has authenticated.
    pub fn is_attached(&self) -> bool {
        self.state == ComponentState::AttachOutcome
    }

    /// True once the stream is over.
    pub fn is_closed(&self) -> bool {
        self.state == ComponentState::Closed
    }

    /// True if further input must not be read before an answer is here.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, ComponentState::Attaching | ComponentState::Closed)
    }

    /// Bytes that came.
    pub fn handle_bytes(&mut self, bytes: &[u8], out: &mut Outbox) {
        self.framer.put(bytes);
        self.go_on(out);
    }

    fn go_on(&mut self, out: &mut Outbox) {
        while !self.is_waiting() {
            let limit =
                if self.is_attached() { self.settings.max_stanza } else { limits::COMPONENT_HANDSHAKE };
            match self.framer.next(limit) {
                Ok(Some(frame)) => self.handle_frame(frame, out),
                Ok(None) => return,
                Err(error) => return self.xml_error(error, out),
            }
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
                    Ok(measured) if self.state == ComponentState::Proving => {
                        self.prove(&measured.element, out);
                    }
                    Ok(Measured { element, written, .. }) => self.pass(element, written, out),
                    Err(error) => self.xml_error(error, out),
                }
            }
            // Its keep-alive.
            Frame::Whitespace => {}
            Frame::Close => self.close(out),
        }
    }

    /// XEP-0114 §3, steps 1 and 2. Its `to` is not our name but its own.
    fn open(&mut self, header: &Element, out: &mut Outbox) {
        if !header.is("stream", ns::STREAM) || self.prefixes.default_ns() != ns::COMPONENT {
            return self.fail("invalid-namespace", "expected jabber:component:accept", out);
        }
        let Some(to) = header.attr("to") else {
            return self.fail("improper-addressing", "expected to, the component's domain", out);
        };
        let domain = Jid::parse(to).ok().filter(|jid| jid.local().is_none() && jid.is_bare());
        let Some(known) = domain.and_then(|jid| self.settings.find(jid.domain()).cloned()) else {
            return self.fail("host-unknown", "no component of this name may connect", out);
        };
        self.domain = known.domain;
        self.lang = stanza::stream_lang(header);
        self.write_header(out);
        self.state = ComponentState::Proving;
    }

    /// XEP-0114 §3, steps 3 to 6.
    fn prove(&mut self, element: &Element, out: &mut Outbox) {
        if !element.is("handshake", ns::COMPONENT) {
            return self.fail("not-authorized", "expected the handshake", out);
        }
        let settings = Arc::clone(&self.settings);
        let Some(known) = settings.find(&self.domain) else {
            return self.fail("host-unknown", "no component of this name may connect", out);
        };
        let expected = handshake(&self.id, &known.secret);
        if stdx::ct_eq(expected.as_bytes(), element.content().trim().as_bytes()) {
            self.state = ComponentState::Attaching;
            out.effects.push(Effect::Attach { domain: self.domain.clone() });
        } else {
            out.effects.push(Effect::Failed);
            self.fail("not-authorized", "the secret is another", out);
        }
    }

    /// The answer to `Attach`.
    pub fn handle_attached(&mut self, attached: AttachOutcome, out: &mut Outbox) {
        if self.state != ComponentState::Attaching {
            return;
        }
        match attached {
            AttachOutcome::Here => {
                self.state = ComponentState::AttachOutcome;
                Element::new("handshake", ns::COMPONENT).write(ns::COMPONENT, &mut out.bytes);
                self.go_on(out);
            }
            AttachOutcome::Conflict => {
                self.fail("conflict", "as many connections of this component as may be are open", out);
            }
            AttachOutcome::Barred => {
                self.fail("policy-violation", "too many wrong secrets from this address: wait a minute", out);
            }
        }
    }

    fn budget(&self) -> Budget {
        if self.is_attached() { Budget::STANZA } else { Budget::BEFORE_AUTH }
    }

    /// XEP-0114 §3: addresses are the component's own word, but for the domain.
    fn pass(&mut self, mut element: Element, written: usize, out: &mut Outbox) {
        element.adopt(ns::COMPONENT, ns::CLIENT);
        remove_ack_token(&mut element);
        stanza::inherit_lang(&mut element, self.lang.as_deref());
        if stanza::kind_of(&element).is_none() {
            return self.fail("unsupported-stanza-type", "expected message, presence or iq", out);
        }
        match stanza::from(&element) {
            Ok(Some(from)) if *from.domain() == *self.domain => element.set("from", from.as_str()),
            // COMPAT(components written for Prosody, which fills it in): without one it is from the domain.
            Ok(None) => element.set("from", self.domain.clone()),
            _ => return self.fail("invalid-from", "expected an address of the component's domain", out),
        }
        let error = match stanza::to(&element) {
            Ok(Some(_)) if written > self.settings.max_stanza => {
                StanzaError::new(Condition::PolicyViolation, stanza::TOO_LARGE)
            }
            Ok(Some(_)) => return out.effects.push(Effect::Stanza(element)),
            Ok(None) => StanzaError::new(Condition::BadRequest, "a component's stanza needs a to"),
            Err(_) => {
                element.unset("to");
                Condition::JidMalformed.into()
            }
        };
        if stanza::may_be_refused(&element) {
            self.write(&stanza::refusal(&element, &error), out);
        }
    }

    /// For the component; only while it is attached.
    pub fn write(&self, stanza: &Element, out: &mut Outbox) {
        if self.is_attached() {
            // Elements of `jabber:client` get this stream's namespace, as between servers.
            stanza.write(ns::CLIENT, &mut out.bytes);
        }
    }

    /// RFC 6120 §4.6.1: a space, so that a dead connection is found while no stanzas are sent.
    pub fn keep_alive(&self, out: &mut Outbox) {
        if self.is_attached() {
            out.bytes.push(b' ');
        }
    }

    fn write_header(&mut self, out: &mut Outbox) {
        self.has_opened = true;
        let from = if self.domain.is_empty() { String::new() } else { format!(" from='{}'", self.domain) };
        let header = format!(
            "<?xml version='1.0'?><stream:stream xmlns='{}' xmlns:stream='{}' id='{}'{from}>",
            ns::COMPONENT,
            ns::STREAM,
            self.id,
        );
        out.bytes.extend_from_slice(header.as_bytes());
    }

    /// Its last word, or ours: the stream ends in order.
    pub fn close(&mut self, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if self.has_opened {
            out.bytes.extend_from_slice(b"</stream:stream>");
        }
        self.state = ComponentState::Closed;
        out.effects.push(Effect::Close);
    }

    fn xml_error(&mut self, error: XmlError, out: &mut Outbox) {
        self.fail(error.condition(), &error.to_string(), out);
    }

    /// A stream error (RFC 6120 §4.9.3), and the end.
    pub fn fail(&mut self, condition: &'static str, text: &str, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if !self.has_opened {
            self.write_header(out);
        }
        let text = (!text.is_empty()).then(|| Element::new("text", ns::STREAM_ERRORS).text(text));
        out.bytes.extend_from_slice(b"<stream:error>");
        let condition = Element::new(condition, ns::STREAM_ERRORS);
        [condition].into_iter().chain(text).for_each(|child| child.write(ns::COMPONENT, &mut out.bytes));
        out.bytes.extend_from_slice(b"</stream:error>");
        self.close(out);
    }
}

/// The stanzas in these bytes of a [`Component`]'s stream that have not left whole: of the bytes, the first `sent` have. A stanza that has left in
/// part is one of them, for a component acts on whole stanzas only.
pub fn unsent(bytes: &[u8], sent: usize) -> Vec<Element> {
    let mut framer = Framer::new();
    // The bytes are a part of a stream, after its header.
    framer.put(format!("<stream:stream xmlns='{}' xmlns:stream='{}'>", ns::CLIENT, ns::STREAM).as_bytes());
    framer.put(bytes);
    let mut stanzas = Vec::new();
    while let Ok(Some(frame)) = framer.next(usize::MAX) {
        match frame {
            Frame::Stanza(range) if bytes.len() - framer.len() > sent => {
                let stanza = parse(framer.bytes(range), &Prefixes::usual()).ok();
                stanzas.extend(stanza.filter(|stanza| stanza::kind_of(stanza).is_some()));
            }
            Frame::Header(_) | Frame::Stanza(_) | Frame::Whitespace => {}
            Frame::Close => break,
        }
    }
    stanzas
}

/// XEP-0114 §3: the SHA-1 of the stream's id and the secret, in hexadecimal and lower case.
fn handshake(id: &str, secret: &Secret) -> String {
    stdx::hex::encode(&Sha1::new().chain_update(id).chain_update(secret.0.as_bytes()).finalize())
}

#[cfg(test)]
mod tests;
