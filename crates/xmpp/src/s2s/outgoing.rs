//! A stream that we open to another server: TLS where there is any, then authentication, by certificate
//! (XEP-0178) or dialback (XEP-0220), for all our domains that have stanzas to send.

use std::sync::Arc;

use stdx::Instant;

use super::dialback::{self, Dialback, Verdict};
use super::posh::{CertificateHashes, PeerProofs, PoshFingerprints};
use super::stream::{Fault, StreamInput, StreamParser, fault_of};
use super::{Demands, Failure, KeyQuery, Pair, Proof, S2sSettings, Security};
use crate::internal::remove_ack_token;
use crate::stanza::{self, Condition};
use crate::xml::{Budget, Measured};
use crate::{Element, limits, ns, sasl};

/// An event of the stream, for its owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OutgoingEvent {
    /// After the bytes.
    StartTls,
    /// Answered by `handle_posh`.
    LookUp(Box<str>),
    /// `authorize` and `ask` may be said from now on. Once.
    Ready,
    /// A domain of ours may speak.
    Authorized(Box<str>, Proof),
    Refused(Box<str>, Failure),
    Verified(KeyQuery, Verdict),
    /// A stanza of the other server (XEP-0288), to a domain that is authorized.
    Stanza(Box<Element>),
    /// A stanza that is larger, when it is written again, than stanzas may be here.
    TooLarge(Box<Element>),
    /// After the bytes. `None`: the other side ended it in order.
    Close(Option<Failure>),
}

#[derive(Debug, Default)]
pub(super) struct OutgoingOutput {
    pub(super) bytes: Vec<u8>,
    pub(super) said: Vec<OutgoingEvent>,
}

#[derive(Debug, PartialEq, Eq)]
enum OutgoingState {
    /// For the header.
    Opening,
    /// For the features.
    Choosing,
    /// For `<proceed/>`.
    AskingTls,
    /// TLS is being set up.
    Securing,
    /// POSH is asked whether the certificate is the other server's, and its features wait: until then, or without it until
    /// the answer.
    Verifying {
        features: Element,
        until: Option<Instant>,
    },
    /// For the answer to EXTERNAL.
    Proving,
    Open,
}

#[derive(Debug)]
pub(super) struct Outgoing {
    settings: Arc<S2sSettings>,
    demands: Demands,
    line: StreamParser,
    state: OutgoingState,
    proofs: PeerProofs,
    /// The `from` of the stream header.
    local: Box<str>,
    remote: Box<str>,
    /// The id of the other server's newest header.
    id: Box<str>,
    lang: Option<Box<str>>,
    /// May speak; the one that SASL proved among them.
    authorized: Vec<Box<str>>,
    asked: Vec<Box<str>>,
    questions: Vec<KeyQuery>,
    has_tried_external: bool,
    is_certified: bool,
    has_dialback: bool,
    is_bidi: bool,
    was_ready: bool,
    /// Bytes of the largest stanza that the other server takes (XEP-0478).
    max_bytes: Option<usize>,
}

impl Outgoing {
    pub(super) fn new(
        settings: Arc<S2sSettings>,
        demands: Demands,
        Pair { local, remote }: Pair,
        avoid_external: bool,
    ) -> Outgoing {
        Outgoing {
            settings,
            demands,
            line: StreamParser::new(),
            state: OutgoingState::Opening,
            proofs: PeerProofs::new(Security::default()),
            local,
            remote,
            id: "".into(),
            lang: None,
            authorized: Vec::new(),
            asked: Vec::new(),
            questions: Vec::new(),
            has_tried_external: avoid_external,
            is_certified: false,
            has_dialback: false,
            is_bidi: false,
            was_ready: false,
            max_bytes: None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == OutgoingState::Open && !self.line.is_closed()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.proofs.security.encrypted
    }

    /// The certificate of the other server.
    pub(super) fn presented(&self) -> Option<&CertificateHashes> {
        self.proofs.security.presented.as_deref()
    }

    /// The way in which its certificate proves the other server's domain.
    pub(super) fn peer_proof(&self) -> Option<Proof> {
        self.proofs.of(&self.remote)
    }

    /// EXTERNAL was refused: the next attempt does without.
    pub(super) fn was_refused_external(&self) -> bool {
        self.has_tried_external && !self.is_certified
    }

    /// True if that domain of ours can get leave to speak on this stream too.
    pub(super) fn takes(&self, local: &str) -> bool {
        self.is_ready() && (self.has_dialback || self.authorized.is_empty() || self.may_send(local))
    }

    pub(super) fn may_send(&self, local: &str) -> bool {
        self.authorized.iter().any(|known| **known == *local)
    }

    pub(super) fn handle_connected(&mut self, security: Security, out: &mut OutgoingOutput) {
        self.proofs = PeerProofs::new(security);
        self.line.open(&self.local, Some(&self.remote), None, &mut out.bytes);
    }

    pub(super) fn handle_secured(&mut self, security: Security, out: &mut OutgoingOutput) {
        if self.state != OutgoingState::Securing {
            return;
        }
        self.line.forget();
        self.state = OutgoingState::Opening;
        self.handle_connected(security, out);
    }

    pub(super) fn handle_bytes(&mut self, bytes: &[u8], out: &mut OutgoingOutput) {
        self.line.put(bytes);
        // After its features a server waits for our choice.
        if self.is_verifying() && self.line.waiting() > limits::STANZA_BEFORE_AUTH {
            return self.fail(("policy-violation", "too much after the features"), out);
        }
        self.go_on(out);
    }

    fn is_verifying(&self) -> bool {
        matches!(self.state, OutgoingState::Verifying { .. })
    }

    fn go_on(&mut self, out: &mut OutgoingOutput) {
        while self.state != OutgoingState::Securing && !self.is_verifying() && !self.line.is_closed() {
            // A server that only we have called has proved nothing.
            let (limit, budget) = match self.authorized.is_empty() {
                true => (limits::STANZA_BEFORE_AUTH, Budget::BEFORE_AUTH),
                false => (self.settings.max_stanza, Budget::STANZA),
            };
            match self.line.next(limit, budget) {
                Ok(None) => return,
                Ok(Some(StreamInput::Header(header))) => self.opened(&header, out),
                Ok(Some(StreamInput::Element(measured))) => self.handle_element(measured, out),
                Ok(Some(StreamInput::Close)) => self.end(None, out),
                Err(error) => self.fail(fault_of(error), out),
            }
        }
    }

    fn opened(&mut self, header: &Element, out: &mut OutgoingOutput) {
        if self.state != OutgoingState::Opening {
            return self.fail(("bad-format", "a second stream"), out);
        }
        if !header.is("stream", ns::STREAM) {
            return self.fail(("invalid-namespace", "expected jabber:server"), out);
        }
        if !stanza::is_version_one(header) {
            return self.fail(("unsupported-version", "expected version 1.0"), out);
        }
        self.id = header.attr("id").unwrap_or_default().into();
        self.lang = stanza::stream_lang(header);
        self.state = OutgoingState::Choosing;
    }

    fn handle_element(&mut self, Measured { element, written, .. }: Measured, out: &mut OutgoingOutput) {
        if element.is("error", ns::STREAM) {
            return self.end(Some(failure_of(&element)), out);
        }
        match self.state {
            OutgoingState::Choosing if element.is("features", ns::STREAM) => self.choose(&element, out),
            OutgoingState::AskingTls if element.is("proceed", ns::TLS) => {
                self.state = OutgoingState::Securing;
                out.said.push(OutgoingEvent::StartTls);
            }
            OutgoingState::Proving if element.is("success", ns::SASL) => {
                self.is_certified = true;
                self.line.restart();
                self.line.open(&self.local, Some(&self.remote), None, &mut out.bytes);
                self.state = OutgoingState::Opening;
            }
            // XEP-0178 §3, step 13: another way may do.
            OutgoingState::Proving if element.is("failure", ns::SASL) => self.ready(out),
            OutgoingState::Open => self.handle_open(element, written, out),
            OutgoingState::Opening
            | OutgoingState::Choosing
            | OutgoingState::AskingTls
            | OutgoingState::Securing
            | OutgoingState::Verifying { .. }
            | OutgoingState::Proving => {
                self.fail(("unsupported-stanza-type", ""), out);
            }
        }
    }

    /// Chooses the next step among the features that are offered.
    fn choose(&mut self, features: &Element, out: &mut OutgoingOutput) {
        let has_starttls = features.get("starttls", ns::TLS).is_some();
        let is_encrypted = self.is_encrypted();
        if !is_encrypted && has_starttls && self.settings.tls {
            self.line.write(&Element::new("starttls", ns::TLS), &mut out.bytes);
            self.state = OutgoingState::AskingTls;
            return;
        }
        if !is_encrypted && self.demands.tls {
            return self.give_up("the server offers no TLS", out);
        }
        // RFC 7711 §5: POSH comes before any data of the application.
        if self.proofs.begin(&self.settings, &self.remote) {
            self.state = OutgoingState::Verifying { features: features.clone(), until: None };
            return out.said.push(OutgoingEvent::LookUp(self.remote.clone()));
        }
        if self.demands.certificate && self.peer_proof().is_none() {
            return self.give_up("the server has no valid certificate", out);
        }
        // RFC 6120 §4.9.3.23.
        if features.elements().any(requires_unknown_feature) {
            return self.fail(("unsupported-feature", "a required feature is not known here"), out);
        }
        self.max_bytes = super::max_bytes(features);
        self.has_dialback = features.get("dialback", ns::DIALBACK_FEATURE).is_some();
        if features.get("bidi", ns::BIDI_FEATURE).is_some() && !self.is_bidi && !self.is_certified {
            self.line.write(&Element::new("bidi", ns::BIDI), &mut out.bytes);
            self.is_bidi = true;
        }
        let is_external = |mechanism: &Element| mechanism.content() == "EXTERNAL";
        let mechanisms = features.get("mechanisms", ns::SASL);
        let has_external = mechanisms.is_some_and(|offered| offered.elements().any(is_external));
        if has_external && is_encrypted && !self.has_tried_external {
            self.has_tried_external = true;
            let auth = Element::new("auth", ns::SASL).with("mechanism", "EXTERNAL");
            self.line.write(&auth.text(sasl::encode(self.local.as_bytes())), &mut out.bytes);
            self.state = OutgoingState::Proving;
            return;
        }
        self.ready(out);
    }

    /// Lets the features wait for the certificate until then at the latest, where it is not demanded.
    pub(super) fn hold(&mut self, latest: Instant) {
        let is_demanded = self.demands.certificate;
        if let OutgoingState::Verifying { until, .. } = &mut self.state {
            *until = (!is_demanded).then_some(latest);
        }
    }

    /// The time at which the features wait no longer.
    pub(super) fn hold_until(&self) -> Option<Instant> {
        if let OutgoingState::Verifying { until, .. } = &self.state { *until } else { None }
    }

    /// The features wait no longer.
    pub(super) fn release(&mut self, out: &mut OutgoingOutput) {
        if !self.is_verifying() || self.line.is_closed() {
            return;
        }
        let verifying = std::mem::replace(&mut self.state, OutgoingState::Choosing);
        if let OutgoingState::Verifying { features, .. } = verifying {
            self.choose(&features, out);
            self.go_on(out);
        }
    }

    /// Takes the outcome of the lookup. `None`: the domain vouches for no certificate.
    pub(super) fn handle_posh(&mut self, fingerprints: Option<&PoshFingerprints>, out: &mut OutgoingOutput) {
        let remote = self.remote.clone();
        self.proofs.handle_posh(&remote, fingerprints);
        self.release(out);
    }

    fn ready(&mut self, out: &mut OutgoingOutput) {
        self.state = OutgoingState::Open;
        if self.is_certified && !self.may_send(&self.local) {
            self.authorized.push(self.local.clone());
            out.said.push(OutgoingEvent::Authorized(self.local.clone(), Proof::Certificate));
        }
        if !std::mem::replace(&mut self.was_ready, true) {
            out.said.push(OutgoingEvent::Ready);
        }
    }

    fn give_up(&mut self, why: &'static str, out: &mut OutgoingOutput) {
        self.end(Some(Failure::new(Condition::RemoteServerNotFound, why)), out);
    }

    /// Asks for leave to speak for a domain of ours (XEP-0220 §2.1).
    pub(super) fn authorize(&mut self, local: &str, out: &mut OutgoingOutput) {
        if !self.is_ready() || self.may_send(local) || self.asked.iter().any(|asked| **asked == *local) {
            return;
        }
        self.asked.push(local.into());
        let key = dialback::key(&self.settings.secret, &self.remote, local, &self.id);
        Dialback { name: "result", from: local, to: &self.remote, id: None }.ask(&key, &mut out.bytes);
    }

    /// Asks whether a key is theirs.
    pub(super) fn ask(&mut self, question: KeyQuery, out: &mut OutgoingOutput) {
        let KeyQuery { pair, id, key } = &question;
        Dialback { name: "verify", from: &pair.local, to: &pair.remote, id: Some(id) }
            .ask(key, &mut out.bytes);
        self.questions.push(question);
    }

    fn handle_open(&mut self, element: Element, written: usize, out: &mut OutgoingOutput) {
        if element.is("result", ns::DIALBACK) {
            self.result(&element, out);
        } else if element.is("verify", ns::DIALBACK) {
            self.verify(&element, out);
        } else if stanza::kind_of(&element).is_some() {
            self.pass(element, written, out);
        } else if !element.is("features", ns::STREAM) {
            self.fail(("unsupported-stanza-type", ""), out);
        }
    }

    fn result(&mut self, element: &Element, out: &mut OutgoingOutput) {
        let Some((from, to)) = dialback::addresses(element) else {
            return self.fail(("improper-addressing", "expected two domains"), out);
        };
        let Some(verdict) = dialback::verdict(element) else {
            // They may prove themselves on a stream of their own.
            let refusal = Verdict::Error(Condition::FeatureNotImplemented);
            return Dialback { name: "result", from: &to, to: &from, id: None }
                .answer(refusal, &mut out.bytes);
        };
        let asked = self.asked.iter().position(|local| **local == *to).filter(|_| from == self.remote);
        let Some(at) = asked else { return };
        let local = self.asked.swap_remove(at);
        match verdict {
            Verdict::Valid => {
                self.authorized.push(local.clone());
                out.said.push(OutgoingEvent::Authorized(local, Proof::Dialback));
            }
            Verdict::Invalid => {
                let text = "the server did not believe that we are who we are";
                out.said
                    .push(OutgoingEvent::Refused(local, Failure::new(Condition::RemoteServerNotFound, text)));
            }
            Verdict::Error(condition) => {
                let text = format!("the server refused us: {}", condition.as_str());
                out.said
                    .push(OutgoingEvent::Refused(local, Failure::new(Condition::RemoteServerNotFound, text)));
            }
        }
    }

    fn verify(&mut self, element: &Element, out: &mut OutgoingOutput) {
        let Some(verdict) = dialback::verdict(element) else {
            // With XEP-0288 a question may come this way.
            if let Err(fault) = dialback::answer_verify(&self.settings, element, &mut out.bytes) {
                self.fail(fault, out);
            }
            return;
        };
        let Some((from, to)) = dialback::addresses(element) else {
            return self.fail(("improper-addressing", "expected two domains"), out);
        };
        let is_it = |question: &KeyQuery| {
            question.pair.local == to
                && question.pair.remote == from
                && element.attr("id") == Some(&question.id)
        };
        if let Some(at) = self.questions.iter().position(is_it) {
            out.said.push(OutgoingEvent::Verified(self.questions.swap_remove(at), verdict));
        }
    }

    /// XEP-0288: only what is between domains that have proved themselves to each other.
    fn pass(&mut self, mut element: Element, written: usize, out: &mut OutgoingOutput) {
        if !self.is_bidi {
            return self.fail(("not-authorized", "this stream has one direction"), out);
        }
        let (Ok(Some(from)), Ok(Some(to))) = (stanza::from(&element), stanza::to(&element)) else {
            return self.fail(("improper-addressing", "expected `from` and `to`"), out);
        };
        let is_own = self.settings.is_local(from.domain());
        if is_own || *from.domain() != *self.remote || !self.may_send(to.domain()) {
            return self.fail(("invalid-from", "a domain that was not proved"), out);
        }
        remove_ack_token(&mut element);
        stanza::inherit_lang(&mut element, self.lang.as_deref());
        let element = Box::new(element);
        let fits = written <= self.settings.max_stanza;
        out.said.push(if fits { OutgoingEvent::Stanza(element) } else { OutgoingEvent::TooLarge(element) });
    }

    /// False: it is larger than the other server's limit, and was not written.
    pub(super) fn send(&mut self, element: &Element, out: &mut OutgoingOutput) -> bool {
        self.line.write_within(element, self.max_bytes, &mut out.bytes)
    }

    fn end(&mut self, failure: Option<Failure>, out: &mut OutgoingOutput) {
        if self.line.close(&mut out.bytes) {
            out.said.push(OutgoingEvent::Close(failure));
        }
    }

    /// Nothing is to be said any more.
    pub(super) fn close(&mut self, out: &mut OutgoingOutput) {
        self.line.close(&mut out.bytes);
    }

    fn fail(&mut self, fault: Fault, out: &mut OutgoingOutput) {
        let (id, local) = (self.id.clone(), self.local.clone());
        if self.line.fail(fault, &local, &id, &mut out.bytes) {
            let text = format!("the server said what no server says: {}", fault.0);
            let failure = Failure::new(Condition::RemoteServerNotFound, text);
            out.said.push(OutgoingEvent::Close(Some(failure)));
        }
    }
}

/// True for a stream feature that has to be negotiated (RFC 6120 §4.3.2) and is none of ours.
fn requires_unknown_feature(feature: &Element) -> bool {
    let is_known = matches!(feature.ns(), ns::TLS | ns::SASL | ns::DIALBACK_FEATURE | ns::BIDI_FEATURE);
    !is_known && feature.get("required", feature.ns()).is_some()
}

/// The failure that a stream error means for stanzas that wait.
fn failure_of(error: &Element) -> Failure {
    let condition = error.elements().find(|child| child.ns() == ns::STREAM_ERRORS && child.name() != "text");
    let name = condition.map_or("no reason", Element::name);
    let kind = match name {
        "system-shutdown" | "resource-constraint" | "connection-timeout" | "reset" => {
            Condition::RemoteServerTimeout
        }
        _ => Condition::RemoteServerNotFound,
    };
    Failure::new(kind, format!("the server ended the stream: {name}"))
}
