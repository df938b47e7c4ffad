//! The last step: a resource, or an old session taken up again (RFC 6120 §7, XEP-0198 §5).

use super::{Binding, C2s, Effect, Outbox, State};
use crate::stanza::Condition;
use crate::{Element, Jid, ns, stanza};

/// The session that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// Bare.
    pub user: Jid,
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
}

/// A client, as it names itself: the same on each of its streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserAgent {
    /// A UUID that it made once.
    pub id: Option<Box<str>>,
    pub software: Option<Box<str>>,
    pub device: Option<Box<str>>,
}

/// The outcome of `Bind` or `Resume`.
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

impl C2s {
    /// Signed in and not bound.
    pub(super) fn handle_bind_stage(&mut self, element: Element, out: &mut Outbox) {
        let Some(user) = self.jid.clone() else { return };
        if element.is("resume", ns::SM) {
            let (id, seen) = (element.attr("previd"), element.attr("h").and_then(|h| h.parse().ok()));
            let (Some(id), Some(seen)) = (id, seen) else { return self.fail("bad-format", out) };
            out.effects.push(Effect::Resume { user, id: id.into(), seen });
            self.state = State::Binding(Binding::Resume);
            return;
        }
        if self.refuse_management(&element, out) {
            return;
        }
        let bind = element.get("bind", ns::BIND).filter(|_| element.attr("type") == Some("set"));
        let Some(bind) = bind.filter(|_| stanza::kind_of(&element) == Some(stanza::StanzaKind::Iq)) else {
            return self.fail("not-authorized", out);
        };
        let resource = bind.content_of("resource", ns::BIND).map(Box::<str>::from);
        let is_anonymous = self.is_anonymous;
        let request = BindRequest {
            user,
            is_anonymous,
            resource: resource.filter(|name| !name.is_empty()),
            tag: None,
            agent: None,
            is_bind2: false,
            inline: Vec::new(),
        };
        out.effects.push(Effect::Bind(Box::new(request)));
        self.state = State::Binding(Binding::Iq(Box::new(element)));
    }

    /// XEP-0198 §3: before there is a session, `<enable/>` is answered by `<failed/>`. Such elements count as those that an
    /// unauthenticated client may send. False: it is no such element.
    pub(super) fn refuse_management(&mut self, element: &Element, out: &mut Outbox) -> bool {
        if !element.is("enable", ns::SM) && !element.is("resume", ns::SM) {
            return false;
        }
        let reason = Element::new(Condition::UnexpectedRequest.as_str(), ns::STANZA_ERRORS);
        self.write(&Element::new("failed", ns::SM).child(reason), out);
        true
    }

    /// The answer to `Bind` or `Resume`.
    pub fn handle_bound(&mut self, bound: Bound, out: &mut Outbox) {
        let State::Binding(binding) = std::mem::replace(&mut self.state, State::Choosing) else { return };
        if let Bound::SeeOtherHost(host) = bound {
            return self.see_other_host(&host, out);
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

    pub(super) fn bound(&mut self, jid: Jid) {
        self.jid = Some(jid);
        self.state = State::Bound;
        // State that only authentication needs.
        self.entry = None;
    }

    /// Another node is to be asked (RFC 6120 §4.9.3.19).
    pub fn see_other_host(&mut self, host: &str, out: &mut Outbox) {
        let detail = Element::new("see-other-host", ns::STREAM_ERRORS).text(host);
        self.fail_with(detail, out);
    }
}
