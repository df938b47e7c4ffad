//! The last step: a resource, or an old session taken up again (RFC 6120 §7, XEP-0198 §5).

use super::fast::NewToken;
use super::sign_in::{Sasl2Request, success};
use super::writer::StreamWriter;
use super::{Effect, Outbox, features};
use crate::sasl::Failure;
use crate::stanza::Condition;
use crate::{Element, Jid, ns, stanza};

/// The session that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// Bare.
    pub user: Jid,
    /// The client signed in by ANONYMOUS.
    pub is_anonymous: bool,
    /// The resource that the client requests, whole (RFC 6120) ...
    pub resource: Option<Box<str>>,
    /// ... or in part, and the server adds to it (XEP-0386).
    pub tag: Option<Box<str>>,
    /// The client's user agent (XEP-0388 §2.3.1).
    pub agent: Option<Box<UserAgent>>,
    /// It came with signing in (XEP-0386).
    pub is_bind2: bool,
    /// Inline requests of Bind 2, to be done at once; each may have its answer.
    pub inline: Vec<Element>,
    /// Its stream is one of TCP, and can be sent to another host (RFC 6120 §4.9.3.19).
    pub can_move: bool,
}

/// A client, as it names itself: the same on each of its streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserAgent {
    /// A UUID that it made once.
    pub id: Option<Box<str>>,
    /// The name of the software.
    pub software: Option<Box<str>>,
    /// The name of the device.
    pub device: Option<Box<str>>,
}

/// The outcome of `Bind` or `Resume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The full address; answers to inline requests.
    Session {
        /// The full address.
        jid: Jid,
        /// Answers to inline requests.
        inline: Vec<Element>,
    },
    /// It goes on as this address; `resumed` is the answer.
    Resumed {
        /// The full address.
        jid: Jid,
        /// The answer `<resumed/>`.
        resumed: Element,
    },
    /// Not to be resumed; `failed` says why, and the client may bind.
    NotResumed {
        /// The answer `<failed/>`.
        failed: Element,
    },
    /// The session is refused with this error.
    Refused(stanza::StanzaError),
    /// Another node (RFC 6120 §4.9.3.19).
    SeeOtherHost(Box<str>),
}

/// The request that waits for the driver's answer.
#[derive(Debug)]
pub(super) enum Binding {
    /// `Effect::Bind` for this iq (RFC 6120 §7.6).
    Iq(Box<Element>),
    /// `Effect::Resume` for `<resume/>` (XEP-0198 §5).
    Resume,
    /// `Effect::Tokens`, of a client that authenticated by SASL2.
    Tokens {
        /// The last message of the exchange.
        last: Option<Vec<u8>>,
        request: Box<Sasl2Request>,
    },
    /// `Effect::Bind` or `Effect::Resume`, requested with SASL2.
    Sasl2(Sasl2Binding),
}

/// A resource or an old session that was requested with SASL2.
#[derive(Debug)]
pub(super) struct Sasl2Binding {
    /// The last message of the exchange.
    last: Option<Vec<u8>>,
    /// The client's further requests, if its resumption fails.
    request: Box<Sasl2Request>,
    is_resumption: bool,
}

/// XEP-0198 §3: before there is a session, `<enable/>` is answered by `<failed/>`. Such elements count as those that an
/// unauthenticated client may send. False: it is no such element.
pub(super) fn answer_management(element: &Element, writer: &StreamWriter, out: &mut Outbox) -> bool {
    if !element.is("enable", ns::SM) && !element.is("resume", ns::SM) {
        return false;
    }
    let reason = Element::new(Condition::UnexpectedRequest.as_str(), ns::STANZA_ERRORS);
    writer.write(&Element::new("failed", ns::SM).child(reason), out);
    true
}

/// The consequence of one input of the binding for its stream. All answers are written.
#[derive(Debug)]
pub(super) enum BindingOutcome {
    /// The driver has the next word.
    Waiting(Binding),
    /// The client may try again, or bind.
    Negotiating,
    /// The client has a session of this full address.
    Established(Jid),
    /// The requests that came with SASL2 could not be granted: the client is not signed in.
    Refused(Failure),
    /// The stream ends with this error (RFC 6120 §4.9.3).
    Fail(&'static str),
}

/// The client of a stream that is signed in and not bound.
pub(super) struct Binder<'a> {
    /// Bare.
    pub(super) user: &'a Jid,
    pub(super) is_anonymous: bool,
    pub(super) writer: &'a StreamWriter,
}

impl Binder<'_> {
    /// An element of the client, which has no request under way.
    pub(super) fn handle_element(&self, element: Element, out: &mut Outbox) -> BindingOutcome {
        if element.is("resume", ns::SM) {
            let (id, seen) = (element.attr("previd"), element.attr("h").and_then(|h| h.parse().ok()));
            let (Some(id), Some(seen)) = (id, seen) else { return BindingOutcome::Fail("bad-format") };
            out.effects.push(Effect::Resume { user: self.user.clone(), id: id.into(), seen });
            return BindingOutcome::Waiting(Binding::Resume);
        }
        if answer_management(&element, self.writer, out) {
            return BindingOutcome::Negotiating;
        }
        let bind = element.get("bind", ns::BIND).filter(|_| element.attr("type") == Some("set"));
        let Some(bind) = bind.filter(|_| stanza::kind_of(&element) == Some(stanza::StanzaKind::Iq)) else {
            return BindingOutcome::Fail("not-authorized");
        };
        let resource = bind.content_of("resource", ns::BIND).map(Box::<str>::from);
        let request = BindRequest {
            user: self.user.clone(),
            is_anonymous: self.is_anonymous,
            resource: resource.filter(|name| !name.is_empty()),
            tag: None,
            agent: None,
            is_bind2: false,
            can_move: false,
            inline: Vec::new(),
        };
        out.effects.push(Effect::Bind(Box::new(request)));
        BindingOutcome::Waiting(Binding::Iq(Box::new(element)))
    }

    /// The client has authenticated by SASL2. Its tokens come first: a used token must be void before anything
    /// follows.
    pub(super) fn begin_sasl2(
        &self,
        last: Option<Vec<u8>>,
        mut request: Box<Sasl2Request>,
        out: &mut Outbox,
    ) -> BindingOutcome {
        match request.take_token_work(self.user, self.is_anonymous) {
            Some(work) => {
                out.effects.push(Effect::Tokens(Box::new(work)));
                BindingOutcome::Waiting(Binding::Tokens { last, request })
            }
            None => self.begin_requests(last, request, out),
        }
    }

    /// The client's tokens are in order: an old session is taken up, a resource bound, or neither.
    fn begin_requests(
        &self,
        last: Option<Vec<u8>>,
        mut request: Box<Sasl2Request>,
        out: &mut Outbox,
    ) -> BindingOutcome {
        if let Some((id, seen)) = request.resume.take() {
            out.effects.push(Effect::Resume { user: self.user.clone(), id, seen });
            BindingOutcome::Waiting(Binding::Sasl2(Sasl2Binding { last, request, is_resumption: true }))
        } else if let Some(bind) = request.bind_request(self.user, self.is_anonymous) {
            out.effects.push(Effect::Bind(Box::new(bind)));
            BindingOutcome::Waiting(Binding::Sasl2(Sasl2Binding { last, request, is_resumption: false }))
        } else {
            self.writer.write(&success(last, self.user, request.after()), out);
            self.writer.write(&features::after(self.writer), out);
            BindingOutcome::Negotiating
        }
    }

    /// The answer to `Tokens`, with the client's new token, if any.
    pub(super) fn handle_tokens(
        &self,
        binding: Binding,
        done: Result<Option<NewToken>, Failure>,
        out: &mut Outbox,
    ) -> BindingOutcome {
        match (binding, done) {
            (Binding::Tokens { last, mut request }, Ok(token)) => {
                request.token = token;
                self.begin_requests(last, request, out)
            }
            (Binding::Tokens { .. }, Err(failure)) => BindingOutcome::Refused(failure),
            // Another effect is to be answered.
            (other, _) => BindingOutcome::Waiting(other),
        }
    }

    /// The answer to `Bind` or `Resume`.
    pub(super) fn handle_bound(&self, binding: Binding, bound: Bound, out: &mut Outbox) -> BindingOutcome {
        match (binding, bound) {
            (Binding::Iq(iq), Bound::Session { jid, .. }) => {
                let name = Element::new("jid", ns::BIND).text(jid.as_str());
                let answer = stanza::result(&iq, Some(Element::new("bind", ns::BIND).child(name)));
                self.writer.write(&answer, out);
                BindingOutcome::Established(jid)
            }
            (Binding::Iq(iq), Bound::Refused(error)) => {
                self.writer.write(&stanza::refusal(&iq, &error), out);
                BindingOutcome::Negotiating
            }
            (Binding::Resume, Bound::Resumed { jid, resumed }) => {
                self.writer.write(&resumed, out);
                BindingOutcome::Established(jid)
            }
            (Binding::Resume, Bound::NotResumed { failed }) => {
                self.writer.write(&failed, out);
                BindingOutcome::Negotiating
            }
            (Binding::Sasl2(binding), bound) => self.finish_sasl2(binding, bound, out),
            _ => BindingOutcome::Fail("internal-server-error"),
        }
    }

    /// With SASL2 the answer to `Bind` or `Resume` goes into the success (XEP-0386 §3.2, XEP-0198 §7.2).
    fn finish_sasl2(&self, binding: Sasl2Binding, bound: Bound, out: &mut Outbox) -> BindingOutcome {
        let Sasl2Binding { last, mut request, is_resumption } = binding;
        let (jid, first) = match bound {
            Bound::Session { jid, inline } => (jid, Element::new("bound", ns::BIND2).children(inline)),
            Bound::Resumed { jid, resumed } => (jid, resumed),
            Bound::NotResumed { failed } if is_resumption && request.bind.is_some() => {
                request.failed = Some(failed);
                return self.begin_requests(last, request, out);
            }
            Bound::NotResumed { failed } => {
                let answers = std::iter::once(failed).chain(request.after());
                self.writer.write(&success(last, self.user, answers), out);
                self.writer.write(&features::after(self.writer), out);
                return BindingOutcome::Negotiating;
            }
            Bound::Refused(_) | Bound::SeeOtherHost(_) => {
                return BindingOutcome::Refused(Failure::TemporaryAuthFailure);
            }
        };
        let answers = std::iter::once(first).chain(request.after());
        self.writer.write(&success(last, &jid, answers), out);
        // Nothing is left to be negotiated.
        self.writer.write(&features::of_session(self.writer), out);
        BindingOutcome::Established(jid)
    }
}
