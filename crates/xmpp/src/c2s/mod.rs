//! A client's stream, from its first byte until a resource is bound: TLS, SASL, binding. From then on it is a pipe for
//! stanzas, which another part understands. [`C2s`] opens and ends the stream and passes each element to the machine of
//! its stage: `sign_in` until the client has authenticated, `bind` until it has a session. `writer` is the outgoing half.
//!
//! The driver passes bytes in and performs what comes out; [`C2s::handle_found`], [`C2s::handle_secured`] and
//! [`C2s::handle_bound`] answer the effects of those names. After [`Effect::Close`] nothing more comes.

#[cfg(test)]
mod access_tests;
mod bind;
mod effect;
#[cfg(test)]
mod external_tests;
mod fast;
mod features;
pub mod refusal;
mod register;
mod sign_in;
#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use bind::{BindRequest, Bound, UserAgent};
use bind::{Binder, Binding, BindingOutcome};
use effect::session_effect;
pub use effect::{Effect, Framing, Outbox, Security};
pub use fast::{NewToken, TokenWork};
pub use register::{InvitationGrant, Registration};
pub use register::{form_value, register_value};
pub use sign_in::FailedAttempt;
use sign_in::{SignIn, SignInOutcome};
pub use trace::Direction;
use writer::StreamWriter;

use crate::sasl::{self, Mechanism};
use crate::stanza::StanzaError;
use crate::xml::{Budget, Frame, Framer, Measured, Prefixes, XmlError, parse_header, parse_within};
use crate::{Element, Jid, Level, Specification, limits, ns, stanza};

/// Specifications of client streams, besides those of all streams.
pub const SPECIFICATIONS: &[Specification] = &[fast::SPECIFICATION, register::SPECIFICATION, CERTIFICATES];

const CERTIFICATES: Specification = Specification {
    name: "XEP-0178",
    title: "Best Practices for Use of SASL EXTERNAL with Certificates",
    version: "1.2",
    level: Level::Partial,
    file: "crates/net/src/certified.rs",
    note: "clients: a certificate of exactly one address; one that is not certified ends the handshake",
};

/// The credential that a service outside the database takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalCredential {
    /// A password: PLAIN is offered.
    Password,
    /// A password, or its proof by keys of SCRAM-SHA-256, which are there for each account: both are offered.
    PasswordOrKeys,
    /// A token: OAUTHBEARER is offered.
    Token,
}

/// The same for all streams of a server.
#[derive(Clone, Debug, Default)]
pub struct C2sSettings {
    /// Served here; the first stands for a stream that names none.
    pub domains: Vec<Box<str>>,
    /// STARTTLS can be done.
    pub tls: bool,
    /// Authentication requires TLS. Without a certificate of ours it cannot be required.
    pub tls_required: bool,
    /// Clients may sign in by ANONYMOUS.
    pub anonymous: bool,
    /// Registration is open (XEP-0077).
    pub registration: bool,
    /// Registration is open to invited users (XEP-0445).
    pub invitations: bool,
    /// Clients get tokens (XEP-0484).
    pub tokens: bool,
    /// The domains whose users another service knows, and what it takes. Their accounts have no keys of SCRAM but those of the service, get no
    /// tokens (XEP-0484), and are not made in band.
    pub external: Arc<BTreeMap<Box<str>, ExternalCredential>>,
    /// The URLs of the configurations of OpenID providers, by the domains that take their tokens.
    pub openid_configurations: Arc<BTreeMap<Box<str>, Box<str>>>,
    /// The largest stanza that is read, in bytes.
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

#[derive(Debug)]
enum C2sState {
    /// The client's header is next.
    Opening,
    /// The features are sent: the client signs in, or if it is signed in, binds.
    Negotiating,
    /// TLS is being set up.
    Securing,
    /// `Bind`, `Resume` or `Tokens` is to be answered.
    Binding(Box<Binding>),
    /// The client has a resource (RFC 6120 §7).
    Bound,
    /// The client has closed its stream; the stanzas that its session was sent before that are still written (RFC 6120 §4.4).
    Ending,
    /// Nothing is read or written any more.
    Closed {
        /// The client has closed its stream.
        by_client: bool,
    },
}

impl C2sState {
    /// The request whose answer is here. `None`: the stream has ended, and the answer is late.
    fn take_binding(&mut self) -> Option<Binding> {
        match std::mem::replace(self, C2sState::Negotiating) {
            C2sState::Binding(binding) => Some(*binding),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// A client's stream.
#[derive(Debug)]
pub struct C2s {
    writer: StreamWriter,
    framer: Framer,
    /// The namespaces of the client's header.
    prefixes: Prefixes,
    state: C2sState,
    /// Until the stream is bound.
    sign_in: Option<Box<SignIn>>,
    /// Bare from signing in, full from binding.
    jid: Option<Jid>,
}

impl C2s {
    /// `id` and `nonce` are unpredictable.
    pub fn new(
        settings: Arc<C2sSettings>,
        framing: Framing,
        security: Security,
        id: u64,
        nonce: Box<str>,
    ) -> C2s {
        C2s {
            writer: StreamWriter::new(settings, framing, id),
            framer: Framer::new(),
            prefixes: Prefixes::of_default(ns::CLIENT),
            state: C2sState::Opening,
            sign_in: Some(Box::new(SignIn::new(security, nonce))),
            jid: None,
        }
    }

    /// The identity, once it is authenticated.
    pub fn jid(&self) -> Option<&Jid> {
        self.jid.as_ref()
    }

    /// True once the client has bound a resource.
    pub fn is_bound(&self) -> bool {
        matches!(self.state, C2sState::Bound)
    }

    /// True once the stream is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, C2sState::Closed { .. })
    }

    /// The client ended the stream in order.
    pub fn was_closed(&self) -> bool {
        matches!(self.state, C2sState::Ending | C2sState::Closed { by_client: true })
    }

    /// Bytes of a stanza wait for its rest.
    pub fn is_within_stanza(&self) -> bool {
        !self.framer.is_empty()
    }

    /// The framing of the stream.
    pub fn framing(&self) -> Framing {
        self.writer.framing
    }

    /// One of ours.
    pub fn domain(&self) -> &str {
        self.writer.domain()
    }

    /// Bytes that came. Reads on only while nothing is awaited from elsewhere: stanzas keep their order.
    pub fn handle_bytes(&mut self, bytes: &[u8], out: &mut Outbox) {
        match self.writer.framing {
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
            match self.framer.next(self.bounds().0) {
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
            C2sState::Securing | C2sState::Binding(_) | C2sState::Ending | C2sState::Closed { .. } => true,
            C2sState::Negotiating => self.sign_in.as_ref().is_some_and(|sign_in| sign_in.is_waiting()),
            C2sState::Opening | C2sState::Bound => false,
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
                match parse_within(self.framer.bytes(range), &self.prefixes, self.bounds().1) {
                    Ok(measured) => self.handle_element(measured, out),
                    Err(error) => self.xml_error(error, out),
                }
            }
            Frame::Whitespace => self.perform(SignIn::after_whitespace(self.sign_in.as_deref()), out),
            Frame::Close => self.handle_close(out),
        }
    }

    /// The client ended the stream. One with a session stays open for the stanzas that are on their way to it, until
    /// [`close`](Self::close).
    pub fn handle_close(&mut self, out: &mut Outbox) {
        match &mut self.state {
            C2sState::Bound => {
                self.state = C2sState::Ending;
                out.effects.push(Effect::End);
            }
            C2sState::Ending => {}
            C2sState::Closed { by_client } => *by_client = true,
            _ => {
                self.state = C2sState::Ending;
                self.close(out);
            }
        }
    }

    fn handle_message(&mut self, bytes: &[u8], out: &mut Outbox) {
        if bytes.len() > self.bounds().0 {
            return self.xml_error(XmlError::TooLarge("a stanza larger than this server takes"), out);
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return self.perform(SignIn::after_whitespace(self.sign_in.as_deref()), out);
        }
        match parse_within(bytes.trim_ascii(), &Prefixes::default(), self.bounds().1) {
            Ok(Measured { element, .. }) if element.is("open", ns::FRAMING) => self.open(&element, out),
            Ok(Measured { element, .. }) if element.is("close", ns::FRAMING) => self.handle_close(out),
            Ok(measured) => self.handle_element(measured, out),
            Err(error) => self.xml_error(error, out),
        }
    }

    /// One document of `Framing::Bodies`; the stream begins, or begins anew, with `<open/>` (RFC 7395). Not while
    /// [`is_waiting`](Self::is_waiting).
    pub fn handle_payload(&mut self, payload: Element, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if payload.is("open", ns::FRAMING) {
            self.open(&payload, out);
        } else {
            let written = payload.written_len("");
            self.handle_element(Measured { element: payload, written, memory: 0 }, out);
        }
    }

    /// The longest stanza that the client may send now, in bytes, and the bounds of its structure: smaller before it has
    /// signed in.
    fn bounds(&self) -> (usize, Budget) {
        match self.jid {
            Some(_) => (self.writer.settings.max_stanza, Budget::CLIENT),
            None => (limits::STANZA_BEFORE_AUTH, Budget::BEFORE_AUTH),
        }
    }

    /// The client for binding; `None` if it has not signed in.
    fn binder(&self) -> Option<Binder<'_>> {
        let is_anonymous = self.sign_in.as_ref().is_some_and(|sign_in| sign_in.is_anonymous);
        Some(Binder { user: self.jid.as_ref()?, is_anonymous, writer: &self.writer })
    }

    fn open(&mut self, header: &Element, out: &mut Outbox) {
        let is_idle = self.sign_in.as_ref().is_some_and(|sign_in| sign_in.is_idle());
        let framing = self.writer.framing;
        // A stream of documents restarts by another `<open/>` (RFC 7395 §3.7).
        let restarts = framing != Framing::Stream && matches!(self.state, C2sState::Negotiating) && is_idle;
        if !matches!(self.state, C2sState::Opening) && !restarts {
            return self.fail("bad-format", out);
        }
        self.writer.lang = stanza::stream_lang(header);
        let is_right = match framing {
            Framing::Stream => header.is("stream", ns::STREAM) && self.prefixes.default_ns() == ns::CLIENT,
            Framing::Messages | Framing::Bodies => header.is("open", ns::FRAMING),
        };
        if !is_right {
            return self.fail("invalid-namespace", out);
        }
        let caller = header.attr("from").and_then(|from| Jid::parse(from).ok());
        if let Some(sign_in) = &mut self.sign_in {
            sign_in.caller = caller.map(|jid| jid.bare_str().into());
        }
        if let Some(to) = header.attr("to") {
            let Some(to) = Jid::parse(to).ok().filter(|to| self.writer.serves(to.domain())) else {
                return self.fail("host-unknown", out);
            };
            // RFC 6120 §4.9.3.12: signed in at a domain is signed in there only.
            if self.jid.as_ref().is_some_and(|jid| jid.domain() != to.domain()) {
                return self.fail("not-authorized", out);
            }
            self.writer.set_domain(to.domain());
        }
        if refusal::is_refused(self) {
            return self.fail_with(refusal::condition(), Some(refusal::text()), out);
        }
        let Some(sign_in) = &mut self.sign_in else { return };
        sign_in.forget_negotiation();
        if !stanza::is_version_one(header) {
            return self.fail("unsupported-version", out);
        }
        self.writer.write_header(sign_in.caller.as_deref(), out);
        self.state = C2sState::Negotiating;
        let features = match self.jid {
            Some(_) => features::after(&self.writer),
            None => features::before(&self.writer, sign_in),
        };
        self.writer.write(&features, out);
    }

    fn handle_element(&mut self, Measured { element, written, .. }: Measured, out: &mut Outbox) {
        self.writer.trace.record(Direction::In, &element, out);
        let sign_in = self.sign_in.as_mut().filter(|_| self.jid.is_none());
        if sign_in.is_some_and(|sign_in| !sign_in.admits_element()) {
            return self.fail("policy-violation", out);
        }
        match (&self.state, &mut self.sign_in) {
            (C2sState::Opening, _) => self.fail("bad-format", out),
            (C2sState::Negotiating, Some(sign_in)) if self.jid.is_none() => {
                let outcome = sign_in.handle_element(&element, &mut self.writer, out);
                self.perform(outcome, out);
            }
            (C2sState::Negotiating, _) => {
                let Some(binder) = self.binder() else { return };
                let outcome = binder.handle_element(element, out);
                self.perform_binding(outcome, out);
            }
            (C2sState::Bound, _) => {
                let Some(jid) = &self.jid else { return };
                match session_effect(&self.writer, jid, element, written) {
                    Ok(effect) => out.effects.push(effect),
                    Err(condition) => self.fail(condition, out),
                }
            }
            (C2sState::Securing | C2sState::Binding(_) | C2sState::Ending | C2sState::Closed { .. }, _) => {}
        }
    }

    /// The consequences of an input of the sign-in.
    fn perform(&mut self, outcome: SignInOutcome, out: &mut Outbox) {
        match outcome {
            SignInOutcome::Pending => {}
            SignInOutcome::StartTls => {
                self.state = C2sState::Securing;
                out.effects.push(Effect::StartTls);
            }
            SignInOutcome::Authenticated(jid) => {
                self.jid = Some(jid);
                self.state = C2sState::Opening;
                // The stream begins anew; bytes that the client sent ahead belong to it.
                self.framer.restart();
                self.writer.restart();
            }
            SignInOutcome::Authenticated2 { jid, last, request } => {
                self.jid = Some(jid);
                let Some(binder) = self.binder() else { return };
                let outcome = binder.begin_sasl2(last, request, out);
                self.perform_binding(outcome, out);
            }
            SignInOutcome::Fail(condition) => self.fail(condition, out),
            SignInOutcome::Close => self.close(out),
        }
    }

    /// The consequences of an input of the binding.
    fn perform_binding(&mut self, outcome: BindingOutcome, out: &mut Outbox) {
        match outcome {
            BindingOutcome::Waiting(binding) => self.state = C2sState::Binding(Box::new(binding)),
            BindingOutcome::Negotiating => self.state = C2sState::Negotiating,
            BindingOutcome::Established(jid) => {
                self.jid = Some(jid);
                self.state = C2sState::Bound;
                // State that only signing in needs.
                self.sign_in = None;
            }
            BindingOutcome::Refused(failure) => {
                self.jid = None;
                self.state = C2sState::Negotiating;
                let Some(sign_in) = &mut self.sign_in else { return };
                let outcome = sign_in.refuse2(failure, &self.writer, out);
                self.perform(outcome, out);
            }
            BindingOutcome::Fail(condition) => self.fail(condition, out),
        }
    }

    /// The answer to `Tokens`, with the client's new token, if any.
    pub fn handle_tokens(&mut self, done: Result<Option<NewToken>, sasl::Failure>, out: &mut Outbox) {
        let Some(binding) = self.state.take_binding() else { return };
        let Some(binder) = self.binder() else { return };
        let outcome = binder.handle_tokens(binding, done, out);
        self.perform_binding(outcome, out);
        self.go_on(out);
    }

    /// The answer to `Bind` or `Resume`.
    pub fn handle_bound(&mut self, bound: Bound, out: &mut Outbox) {
        let Some(binding) = self.state.take_binding() else { return };
        if let Bound::SeeOtherHost(host) = bound {
            return self.see_other_host(&host, out);
        }
        let Some(binder) = self.binder() else { return };
        let outcome = binder.handle_bound(binding, bound, out);
        self.perform_binding(outcome, out);
        self.go_on(out);
    }

    /// Another node is to be asked (RFC 6120 §4.9.3.19).
    pub fn see_other_host(&mut self, host: &str, out: &mut Outbox) {
        self.fail_with(Element::new("see-other-host", ns::STREAM_ERRORS).text(host), None, out);
    }

    /// The handshake is done; the stream begins anew.
    pub fn handle_secured(&mut self, security: Security, out: &mut Outbox) {
        if !matches!(self.state, C2sState::Securing) {
            return;
        }
        // Input without TLS after `<starttls/>` may be an attacker's.
        self.framer = Framer::new();
        self.writer.restart();
        if let Some(sign_in) = &mut self.sign_in {
            sign_in.security = security;
        }
        self.state = C2sState::Opening;
        self.go_on(out);
    }

    /// As [`handle_found`](Self::handle_found), of the account whose name is `user`: an alias signs in as that.
    pub fn handle_found_as(&mut self, known: sasl::CredentialAnswer, user: &str, out: &mut Outbox) {
        if let Some(sign_in) = &mut self.sign_in {
            sign_in.note_alias(user);
        }
        self.handle_found(known, out);
    }

    /// The answer to `CredentialQuery`.
    pub fn handle_found(&mut self, known: sasl::CredentialAnswer, out: &mut Outbox) {
        let Some(sign_in) = &mut self.sign_in else { return };
        let outcome = sign_in.handle_found(known, &mut self.writer, out);
        self.perform(outcome, out);
        self.go_on(out);
    }

    /// The answer to `Invited`.
    pub fn handle_invited(&mut self, invited: Result<InvitationGrant, StanzaError>, out: &mut Outbox) {
        let Some(sign_in) = &mut self.sign_in else { return };
        let outcome = sign_in.handle_invited(invited, &self.writer, out);
        self.perform(outcome, out);
        self.go_on(out);
    }

    /// The answer to `Register`.
    pub fn handle_registered(&mut self, done: Result<(), StanzaError>, out: &mut Outbox) {
        let Some(sign_in) = &mut self.sign_in else { return };
        sign_in.handle_registered(done, &self.writer, out);
        self.go_on(out);
    }

    /// The name that the client has signed in by, or tries to; until the stream is bound.
    pub fn claimed(&self) -> Option<&str> {
        self.sign_in.as_ref()?.claimed()
    }

    /// Attempts to sign in that have failed since the last call.
    pub fn take_failed(&mut self) -> Vec<FailedAttempt> {
        self.sign_in.as_mut().map(|sign_in| sign_in.take_failed()).unwrap_or_default()
    }

    /// The mechanism by which the client signed in, or tries to.
    pub fn mechanism(&self) -> Option<&'static str> {
        self.writer.trace.mechanism.map(Mechanism::name)
    }

    /// The condition of the stream error that ended the stream (RFC 6120 §4.9.3).
    pub fn error(&self) -> Option<&str> {
        self.writer.trace.error.as_ref().map(|condition| &***condition)
    }

    /// True if elements are copied to `Outbox::traced`.
    pub fn set_traced(&mut self, is_traced: bool) {
        self.writer.trace.is_traced = is_traced;
    }

    /// For the client; only while the stream is open.
    pub fn write(&self, element: &Element, out: &mut Outbox) {
        if !self.is_closed() {
            self.writer.write(element, out);
        }
    }

    /// The connection is gone. A client that has had a challenge and did not answer it has tried, and failed.
    pub fn handle_gone(&mut self) {
        self.state = C2sState::Closed { by_client: self.was_closed() };
        if let Some(sign_in) = &mut self.sign_in {
            sign_in.handle_end();
        }
    }

    /// The client's last word, or ours: the stream ends in order.
    pub fn close(&mut self, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        self.writer.write_end(out);
        self.handle_gone();
        out.effects.push(Effect::Close);
    }

    fn xml_error(&mut self, error: XmlError, out: &mut Outbox) {
        let text = Element::new("text", ns::STREAM_ERRORS).text(error.to_string());
        self.fail_with(Element::new(error.condition(), ns::STREAM_ERRORS), Some(text), out);
    }

    /// A stream error (RFC 6120 §4.9.3), and the end.
    pub fn fail(&mut self, condition: &'static str, out: &mut Outbox) {
        self.fail_with(Element::new(condition, ns::STREAM_ERRORS), None, out);
    }

    /// A stream error as `fail` sends it, with a text (§4.9.2) or an application-specific condition (§4.9.4).
    pub fn fail_with(&mut self, condition: Element, more: Option<Element>, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        let caller = self.sign_in.as_ref().and_then(|sign_in| sign_in.caller.as_deref());
        self.writer.write_error(condition, more, caller, out);
        self.close(out);
    }
}
