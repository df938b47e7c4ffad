//! A stream that another server opened (RFC 6120 §4, XEP-0178 §3, XEP-0220 §2): until it has proved for which domains it
//! speaks nothing of it is passed on, and then nothing but stanzas of these domains.

use std::sync::Arc;

use stdx::Instant;

use super::dialback::{self, Dialback, Verdict};
use super::posh::{CertificateHashes, PeerProofs, PoshFingerprints};
use super::stream::{Fault, StreamInput, StreamParser, fault_of};
use super::{Demands, KeyQuery, Pair, Proof, Refusal, S2sSettings, Security};
use crate::internal::remove_ack_token;
use crate::stanza::{self, Condition};
use crate::xml::{Budget, Measured};
use crate::{Element, Jid, limits, ns, sasl};

/// An event of the stream, for its owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum IncomingEvent {
    /// After the bytes.
    StartTls,
    /// Answered by `handle_verified`.
    Ask(KeyQuery),
    /// Answered by `handle_posh`.
    LookUp(Box<str>),
    /// Stanzas of this pair may come, and go if the stream is bidirectional.
    Paired(Pair, Proof),
    Refused(Pair, Refusal),
    Stanza(Box<Element>),
    /// A stanza that is larger, when it is written again, than stanzas may be here.
    TooLarge(Box<Element>),
    /// After the bytes. `false`: the other side's fault.
    Close {
        in_order: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct IncomingOutput {
    pub(super) bytes: Vec<u8>,
    pub(super) said: Vec<IncomingEvent>,
}

#[derive(Debug, PartialEq, Eq)]
enum IncomingState {
    /// For a header.
    Opening,
    Open,
    /// TLS is being set up.
    Securing,
    /// POSH is asked whether the certificate is the peer's, and the features wait: until then, or without it until the answer.
    Verifying {
        until: Option<Instant>,
    },
}

#[derive(Debug)]
pub(super) struct Incoming {
    settings: Arc<S2sSettings>,
    line: StreamParser,
    state: IncomingState,
    proofs: PeerProofs,
    id: Box<str>,
    /// The `to` of the stream header.
    local: Box<str>,
    remote: Option<Box<str>>,
    lang: Option<Box<str>>,
    /// Proved by SASL: speaks to all our domains.
    certified: Option<Box<str>>,
    pairs: Vec<Pair>,
    asked: Vec<KeyQuery>,
    /// Keys that are not looked at before POSH has answered about their domain.
    verifying: Vec<KeyQuery>,
    is_bidi: bool,
    /// Bytes of the largest stanza that the other server takes (XEP-0478).
    max_bytes: Option<usize>,
    /// Domains that it failed to prove.
    refused: u8,
    /// It has asked about a key, which a server does that need not authenticate.
    has_verified: bool,
}

/// Without the TLS that it would have to begin with.
const NEEDS_TLS: Fault = ("policy-violation", "this server speaks with that domain over TLS only");

impl Incoming {
    /// `id` is unpredictable.
    pub(super) fn new(settings: Arc<S2sSettings>, security: Security, id: Box<str>) -> Incoming {
        let local = settings.domains.first().cloned().unwrap_or_default();
        Incoming {
            settings,
            line: StreamParser::new(),
            state: IncomingState::Opening,
            proofs: PeerProofs::new(security),
            id,
            local,
            remote: None,
            lang: None,
            certified: None,
            pairs: Vec::new(),
            asked: Vec::new(),
            verifying: Vec::new(),
            is_bidi: false,
            max_bytes: None,
            refused: 0,
            has_verified: false,
        }
    }

    pub(super) fn reload(&mut self, settings: Arc<S2sSettings>) {
        self.settings = settings;
    }

    /// The peer has proved or asked something: it is a server, and does not only connect.
    pub(super) fn is_of_use(&self) -> bool {
        !self.pairs.is_empty() || self.has_verified
    }

    pub(super) fn is_closed(&self) -> bool {
        self.line.is_closed()
    }

    pub(super) fn is_bidi(&self) -> bool {
        self.is_bidi
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.proofs.security.encrypted
    }

    /// The certificate of the peer.
    pub(super) fn presented(&self) -> Option<&CertificateHashes> {
        self.proofs.security.presented.as_deref()
    }

    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    pub(super) fn handle_bytes(&mut self, bytes: &[u8], out: &mut IncomingOutput) {
        self.line.put(bytes);
        // A peer has nothing to say before it has the features.
        if matches!(self.state, IncomingState::Verifying { .. })
            && self.line.waiting() > limits::STANZA_BEFORE_AUTH
        {
            return self.fail(("policy-violation", "too much before the features"), out);
        }
        self.go_on(out);
    }

    fn go_on(&mut self, out: &mut IncomingOutput) {
        while matches!(self.state, IncomingState::Opening | IncomingState::Open) && !self.line.is_closed() {
            let is_known = !self.pairs.is_empty();
            let (limit, budget) = match is_known {
                true => (self.settings.max_stanza, Budget::STANZA),
                false => (limits::STANZA_BEFORE_AUTH, Budget::BEFORE_AUTH),
            };
            match self.line.next(limit, budget) {
                Ok(None) => return,
                Ok(Some(StreamInput::Header(header))) => self.open(&header, out),
                Ok(Some(StreamInput::Element(measured))) => self.handle_element(measured, out),
                Ok(Some(StreamInput::Close)) => self.end(true, out),
                Err(error) => self.fail(fault_of(error), out),
            }
        }
    }

    fn open(&mut self, header: &Element, out: &mut IncomingOutput) {
        if self.state != IncomingState::Opening {
            return self.fail(("bad-format", "a second stream"), out);
        }
        if !header.is("stream", ns::STREAM) {
            return self.fail(("invalid-namespace", "expected jabber:server"), out);
        }
        let Some(to) = header.attr("to").and_then(domain) else {
            return self.fail(("improper-addressing", "the stream's `to` is no domain"), out);
        };
        // RFC 6120 §4.9.3.6.
        if !self.settings.is_local(&to) {
            return self.fail(("host-unknown", "that domain is not served here"), out);
        }
        self.local = to;
        self.lang = stanza::stream_lang(header);
        match header.attr("from").map(domain) {
            Some(None) => return self.fail(("improper-addressing", "the stream's `from` is no domain"), out),
            Some(Some(from)) => self.remote = Some(from),
            None => {}
        }
        if let Some(remote) = self.remote.clone().filter(|remote| self.settings.is_local(remote)) {
            // RFC 6120 §4.9.3.9.
            self.refuse(remote, Refusal::Policy("a domain of this server"), out);
            return self.fail(("invalid-from", "that domain is served here"), out);
        }
        // The certificate proved one name: the new stream after SASL (RFC 6120 §6.4.6) cannot have another.
        if self.certified.is_some() && self.certified != self.remote {
            return self.fail(("invalid-from", "another domain than the one that was proved"), out);
        }
        // RFC 6120 §4.9.3.25: without a version the peer speaks a protocol without TLS and features.
        if !stanza::is_version_one(header) {
            return self.fail(("unsupported-version", "expected version 1.0"), out);
        }
        if self.demands().is_none() {
            return self.refuse_by_policy(out);
        }
        self.line.open(&self.local, self.remote.as_deref(), Some(&self.id), &mut out.bytes);
        // RFC 7711 §5: POSH comes before any data of the application.
        match self.remote.clone().filter(|remote| self.proofs.begin(&self.settings, remote)) {
            Some(remote) => {
                self.state = IncomingState::Verifying { until: None };
                out.said.push(IncomingEvent::LookUp(remote));
            }
            None => self.offer(out),
        }
    }

    fn refuse_by_policy(&mut self, out: &mut IncomingOutput) {
        self.refuse(self.remote.clone().unwrap_or_default(), Refusal::Policy("policy"), out);
        self.fail(("policy-violation", "this server does not speak with that domain"), out);
    }

    /// Tells the features of the stream whose header was answered.
    fn offer(&mut self, out: &mut IncomingOutput) {
        // A reload may have changed the policy meanwhile.
        let Some(demands) = self.demands() else { return self.refuse_by_policy(out) };
        self.state = IncomingState::Open;
        let features = self.features(demands);
        self.line.write(&features, &mut out.bytes);
        if let Some(remote) = self.certified.clone() {
            // Only now: nothing goes back before the stream has begun anew.
            let proof = self.proofs.of(&remote).unwrap_or(Proof::Certificate);
            self.pair(Pair { local: self.local.clone(), remote }, proof, out);
        }
    }

    /// Lets the features wait for the certificate until then at the latest, where it is not demanded.
    pub(super) fn hold(&mut self, latest: Instant) {
        let is_demanded = self.demands().is_some_and(|demands| demands.certificate);
        if let IncomingState::Verifying { until } = &mut self.state {
            *until = (!is_demanded).then_some(latest);
        }
    }

    /// The time at which the features wait no longer.
    pub(super) fn hold_until(&self) -> Option<Instant> {
        if let IncomingState::Verifying { until } = self.state { until } else { None }
    }

    /// The features wait no longer.
    pub(super) fn release(&mut self, out: &mut IncomingOutput) {
        if matches!(self.state, IncomingState::Verifying { .. }) && !self.line.is_closed() {
            self.offer(out);
            self.go_on(out);
        }
    }

    /// Takes the outcome of a lookup. `None`: the domain vouches for no certificate.
    pub(super) fn handle_posh(
        &mut self,
        domain: &str,
        fingerprints: Option<&PoshFingerprints>,
        out: &mut IncomingOutput,
    ) {
        self.proofs.handle_posh(domain, fingerprints);
        if self.line.is_closed() {
            return;
        }
        if self.remote.as_deref() == Some(domain) {
            self.release(out);
        }
        let is_of = |question: &mut KeyQuery| *question.pair.remote == *domain;
        for question in self.verifying.extract_if(.., is_of).collect::<Vec<_>>() {
            self.decide(question, out);
        }
    }

    /// The demands on the initiating server, if it has named its domain.
    fn demands(&self) -> Option<Demands> {
        let policy = &self.settings.policy;
        match &self.remote {
            Some(remote) => self.settings.demands(remote),
            None => {
                let demands = Demands { tls: policy.require_tls, certificate: policy.require_certificate };
                (!policy.is_closed()).then_some(demands)
            }
        }
    }

    fn features(&self, demands: Demands) -> Element {
        let mut features = Element::new("features", ns::STREAM);
        let is_encrypted = self.is_encrypted();
        if self.settings.tls && !is_encrypted {
            // RFC 6120 §5.3.1: required TLS says so, and is the only feature then.
            let required = demands.tls.then(|| Element::new("required", ns::TLS));
            features.push(Element::new("starttls", ns::TLS).children(required));
        }
        if is_encrypted || !demands.tls {
            if self.may_be_external() {
                let external = Element::new("mechanism", ns::SASL).text("EXTERNAL");
                features.push(Element::new("mechanisms", ns::SASL).child(external));
            }
            let errors = Element::new("errors", ns::DIALBACK_FEATURE);
            features.push(Element::new("dialback", ns::DIALBACK_FEATURE).child(errors));
            // XEP-0288 §2.1: a stream that is bidirectional already cannot become it again.
            if !self.is_bidi {
                features.push(Element::new("bidi", ns::BIDI_FEATURE));
            }
        }
        let number = |name: &'static str, value: String| Element::new(name, ns::STREAM_LIMITS).text(value);
        let limits = Element::new("limits", ns::STREAM_LIMITS)
            .child(number("max-bytes", self.settings.max_stanza.to_string()))
            .child(number("idle-seconds", self.settings.idle.as_secs().to_string()));
        features.child(limits)
    }

    /// XEP-0178 §3, step 10: only to servers for which it can succeed.
    fn may_be_external(&self) -> bool {
        let is_named = self.remote.as_deref().is_some_and(|remote| self.proofs.of(remote).is_some());
        is_named && self.certified.is_none()
    }

    fn handle_element(&mut self, Measured { element, written, .. }: Measured, out: &mut IncomingOutput) {
        if self.state == IncomingState::Opening {
            return self.fail(("bad-format", "expected a stream"), out);
        }
        if element.is("starttls", ns::TLS) {
            return self.start_tls(out);
        }
        // RFC 6120 §5.3.1: nothing else is negotiated before the required TLS.
        if !self.is_encrypted() && self.demands().is_none_or(|demands| demands.tls) {
            return self.fail(NEEDS_TLS, out);
        }
        if element.is("auth", ns::SASL) {
            self.prove(&element, out);
        } else if element.is("result", ns::DIALBACK) {
            self.result(&element, out);
        } else if element.is("verify", ns::DIALBACK) {
            self.verify(&element, out);
        } else if element.is("bidi", ns::BIDI) {
            // XEP-0288 §2.2: before anything is proved; later it changes nothing.
            self.is_bidi |= self.pairs.is_empty();
            self.max_bytes = super::max_bytes(&element);
        } else if stanza::kind_of(&element).is_some() {
            self.pass(element, written, out);
        } else {
            // RFC 6120 §4.9.3.24.
            self.fail(("unsupported-stanza-type", ""), out);
        }
    }

    fn start_tls(&mut self, out: &mut IncomingOutput) {
        if !self.settings.tls || self.is_encrypted() {
            // RFC 6120 §5.4.2.2.
            self.line.write(&Element::new("failure", ns::TLS), &mut out.bytes);
            return self.end(false, out);
        }
        self.line.write(&Element::new("proceed", ns::TLS), &mut out.bytes);
        self.state = IncomingState::Securing;
        out.said.push(IncomingEvent::StartTls);
    }

    /// The handshake is done; the stream begins anew.
    pub(super) fn handle_secured(&mut self, security: Security, out: &mut IncomingOutput) {
        if self.state != IncomingState::Securing {
            return;
        }
        // RFC 6120 §5.4.3.3: what was learnt before TLS is discarded, bytes of the peer among it.
        self.line.forget();
        self.proofs = PeerProofs::new(security);
        self.state = IncomingState::Opening;
        self.go_on(out);
    }

    /// SASL EXTERNAL: the certificate proves the name.
    fn prove(&mut self, auth: &Element, out: &mut IncomingOutput) {
        let name = match sasl::decode(&auth.content()) {
            Ok(Some(name)) if !name.is_empty() => String::from_utf8(name).ok().as_deref().and_then(domain),
            // XEP-0178 §3: an empty authorization identity stands for the stream's `from`.
            Ok(_) => self.remote.clone(),
            Err(_) => return self.refuse_auth("incorrect-encoding", out),
        };
        if auth.attr("mechanism") != Some("EXTERNAL") || self.certified.is_some() {
            return self.refuse_auth("invalid-mechanism", out);
        }
        let Some(name) = name else { return self.refuse_auth("invalid-authzid", out) };
        if self.proofs.of(&name).is_none() || self.settings.demands(&name).is_none() {
            self.refuse(name, Refusal::WrongCertificate, out);
            return self.refuse_auth("not-authorized", out);
        }
        self.line.write(&Element::new("success", ns::SASL), &mut out.bytes);
        self.remote = Some(name.clone());
        self.certified = Some(name);
        // RFC 6120 §6.4.6: success begins a new stream over the same connection.
        self.line.restart();
        self.state = IncomingState::Opening;
    }

    fn refuse_auth(&mut self, condition: &'static str, out: &mut IncomingOutput) {
        let failure = Element::new("failure", ns::SASL).child(Element::new(condition, ns::SASL));
        self.line.write(&failure, &mut out.bytes);
    }

    fn refuse(&self, remote: Box<str>, why: Refusal, out: &mut IncomingOutput) {
        out.said.push(IncomingEvent::Refused(Pair { local: self.local.clone(), remote }, why));
    }

    fn pair(&mut self, pair: Pair, proof: Proof, out: &mut IncomingOutput) {
        if !self.pairs.contains(&pair) {
            self.pairs.push(pair.clone());
            out.said.push(IncomingEvent::Paired(pair, proof));
        }
    }

    /// A key that is to prove a domain (XEP-0220 §2.1).
    fn result(&mut self, element: &Element, out: &mut IncomingOutput) {
        let Some((remote, local)) = dialback::addresses(element) else {
            return self.fail(("improper-addressing", "expected two domains"), out);
        };
        if element.attr("type").is_some() {
            // An answer, and we never asked: XEP-0220 §5.
            return self.fail(("invalid-from", "an answer to no question"), out);
        }
        let pair = Pair { local, remote };
        // One query of the authoritative server answers both.
        if self.asked.iter().chain(&self.verifying).any(|question| question.pair == pair) {
            return;
        }
        let question = KeyQuery { pair, id: self.id.clone(), key: element.content().trim().into() };
        // A key does not do instead of the certificate; POSH may still prove that.
        let remote = &*question.pair.remote;
        let is_demanded = self.settings.demands(remote).is_some_and(|demands| demands.certificate);
        let has_room = self.verifying.len() < limits::S2S_ASKED_OF_STREAM;
        if is_demanded && has_room && self.settings.is_local(&question.pair.local) {
            let begins = self.proofs.begin(&self.settings, remote);
            if begins || self.proofs.is_open(remote) {
                out.said.extend(begins.then(|| IncomingEvent::LookUp(remote.into())));
                return self.verifying.push(question);
            }
        }
        self.decide(question, out);
    }

    fn decide(&mut self, question: KeyQuery, out: &mut IncomingOutput) {
        let pair = question.pair.clone();
        match self.judge(&pair) {
            Ok(Some(proof)) => {
                self.pair(pair.clone(), proof, out);
                self.answer(&pair, Verdict::Valid, out);
            }
            Ok(None) => {
                self.asked.push(question.clone());
                out.said.push(IncomingEvent::Ask(question));
            }
            Err((condition, why)) => {
                self.answer(&pair, Verdict::Error(condition), out);
                out.said.push(IncomingEvent::Refused(pair, Refusal::Policy(why)));
                self.count_refusal(out);
            }
        }
    }

    /// The verdict that needs no query of the authoritative server.
    fn judge(&self, pair: &Pair) -> Result<Option<Proof>, (Condition, &'static str)> {
        if !self.settings.is_local(&pair.local) {
            return Err((Condition::ItemNotFound, "that domain is not served here"));
        }
        if self.settings.is_local(&pair.remote) {
            return Err((Condition::NotAllowed, "a domain of this server"));
        }
        let demands = self.settings.demands(&pair.remote);
        let demands = demands.ok_or((Condition::PolicyViolation, "policy"))?;
        if demands.tls && !self.is_encrypted() {
            return Err((Condition::PolicyViolation, "no TLS"));
        }
        // XEP-0344 §2: a domain that the certificate proves needs no dialback.
        if let Some(proof) = self.proofs.of(&pair.remote) {
            return Ok(Some(proof));
        }
        if demands.certificate {
            return Err((Condition::NotAuthorized, "no valid certificate"));
        }
        if self.pairs.contains(pair) {
            return Ok(Some(Proof::Dialback));
        }
        let is_full = self.pairs.len() >= limits::S2S_PAIRS_OF_STREAM;
        if is_full || self.asked.len() >= limits::S2S_ASKED_OF_STREAM {
            return Err((Condition::ResourceConstraint, "too many domains on one stream"));
        }
        Ok(None)
    }

    fn answer(&mut self, pair: &Pair, verdict: Verdict, out: &mut IncomingOutput) {
        if !self.line.is_closed() {
            let result = Dialback { name: "result", from: &pair.local, to: &pair.remote, id: None };
            result.answer(verdict, &mut out.bytes);
        }
    }

    /// Takes the verdict of the authoritative server.
    pub(super) fn handle_verified(
        &mut self,
        question: &KeyQuery,
        verdict: Verdict,
        out: &mut IncomingOutput,
    ) {
        let Some(at) = self.asked.iter().position(|asked| asked == question) else { return };
        let pair = self.asked.swap_remove(at).pair;
        if self.line.is_closed() {
            return;
        }
        match verdict {
            Verdict::Valid => self.pair(pair.clone(), Proof::Dialback, out),
            Verdict::Invalid => out.said.push(IncomingEvent::Refused(pair.clone(), Refusal::WrongKey)),
            Verdict::Error(_) => out.said.push(IncomingEvent::Refused(pair.clone(), Refusal::Unverified)),
        }
        self.answer(&pair, verdict, out);
        if verdict == Verdict::Invalid && !self.is_of_use() {
            // The connection has proved nothing: a further attempt needs another connection.
            self.end(false, out);
        }
        if verdict != Verdict::Valid {
            self.count_refusal(out);
        }
    }

    fn count_refusal(&mut self, out: &mut IncomingOutput) {
        self.refused = self.refused.saturating_add(1);
        if self.refused >= limits::S2S_REFUSED_OF_STREAM {
            self.fail(("policy-violation", "too many domains were not proved"), out);
        }
    }

    /// Answers another server's query about a key (XEP-0220 §2.3).
    fn verify(&mut self, element: &Element, out: &mut IncomingOutput) {
        match dialback::answer_verify(&self.settings, element, &mut out.bytes) {
            Ok(()) => self.has_verified = true,
            Err(fault) => self.fail(fault, out),
        }
    }

    fn pass(&mut self, mut element: Element, written: usize, out: &mut IncomingOutput) {
        if self.pairs.is_empty() {
            return self.fail(("not-authorized", "no domain has been proved"), out);
        }
        let (Ok(Some(from)), Ok(Some(to))) = (stanza::from(&element), stanza::to(&element)) else {
            return self.fail(("improper-addressing", "expected `from` and `to`"), out);
        };
        // RFC 6120 §8.1.2.2.
        let is_certified = self.certified.as_deref() == Some(from.domain());
        let is_of = |pair: &Pair| *pair.remote == *from.domain() && *pair.local == *to.domain();
        let is_own = self.settings.is_local(from.domain());
        if is_own || !is_certified && !self.pairs.iter().any(is_of) {
            return self.fail(("invalid-from", "a domain that was not proved"), out);
        }
        if !self.settings.is_local(to.domain()) {
            return self.fail(("host-unknown", "that domain is not served here"), out);
        }
        remove_ack_token(&mut element);
        // RFC 6120 §8.1.5.
        stanza::inherit_lang(&mut element, self.lang.as_deref());
        let element = Box::new(element);
        let fits = written <= self.settings.max_stanza;
        out.said.push(if fits { IncomingEvent::Stanza(element) } else { IncomingEvent::TooLarge(element) });
    }

    /// For the other server; of a pair that was proved. False: it is larger than the other server's limit,
    /// and was not written.
    pub(super) fn send(&mut self, element: &Element, out: &mut IncomingOutput) -> bool {
        self.line.write_within(element, self.max_bytes, &mut out.bytes)
    }

    /// The stream ends.
    fn end(&mut self, in_order: bool, out: &mut IncomingOutput) {
        if self.line.close(&mut out.bytes) {
            out.said.push(IncomingEvent::Close { in_order });
        }
    }

    pub(super) fn close(&mut self, out: &mut IncomingOutput) {
        self.end(true, out);
    }

    pub(super) fn fail(&mut self, fault: Fault, out: &mut IncomingOutput) {
        if self.line.fail(fault, &self.local, &self.id, &mut out.bytes) {
            out.said.push(IncomingEvent::Close { in_order: false });
        }
    }
}

/// A domain and nothing else, prepared.
fn domain(text: &str) -> Option<Box<str>> {
    let jid = Jid::parse(text).ok()?;
    (jid.as_str() == jid.domain()).then(|| jid.domain().into())
}
