//! SASL2 (XEP-0388) with Bind 2 (XEP-0386) and resumption in the same breath.

use super::UserAgent;
use super::fast::{self, NewToken};
use super::{BindRequest, Binding, Bound, C2s, Effect, Outbox, State, features};
use crate::sasl::{self, Failure, Mechanism, Step, Token};
use crate::{Element, limits, ns};

/// The requests that a client makes with its authentication.
#[derive(Debug, Default)]
pub(super) struct Sasl2Request {
    bind: Option<Element>,
    resume: Option<(Box<str>, u32)>,
    pub(super) agent: Option<Box<UserAgent>>,
    pub(super) fast: fast::FastRequest,
    /// That it signed in by, and that it gets.
    pub(super) used: Option<Token>,
    pub(super) token: Option<NewToken>,
    /// Why the old session is not taken up.
    failed: Option<Element>,
}

/// The features that may be requested inline.
pub(super) fn inline(stream: &C2s) -> Element {
    let feature = |var: &'static str| Element::new("feature", ns::BIND2).with("var", var);
    let inline = [ns::SM, ns::CSI, ns::CARBONS].into_iter().map(feature);
    let bind = Element::new("bind", ns::BIND2).child(Element::new("inline", ns::BIND2).children(inline));
    Element::new("inline", ns::SASL2)
        .child(bind)
        .child(Element::new("sm", ns::SM))
        .children(fast::inline(stream))
}

/// XEP-0388 §2.3.1.
fn agent_of(authenticate: &Element) -> Option<Box<UserAgent>> {
    let agent = authenticate.get("user-agent", ns::SASL2)?;
    let short = |text: &str| (1..=limits::USER_AGENT).contains(&text.len());
    let text = |name| agent.content_of(name, ns::SASL2).filter(|text| short(text)).map(Box::from);
    Some(Box::new(UserAgent {
        id: agent.attr("id").filter(|id| short(id)).map(Box::from),
        software: text("software"),
        device: text("device"),
    }))
}

impl Sasl2Request {
    /// The further elements of a success: why the old session was not resumed (XEP-0198 §7.2), and a token.
    fn after(&mut self) -> impl Iterator<Item = Element> + use<> {
        self.failed.take().into_iter().chain(self.token.take().as_ref().map(fast::element))
    }
}

impl C2s {
    pub(super) fn begin2(&mut self, authenticate: &Element, out: &mut Outbox) {
        let initial = authenticate.get("initial-response", ns::SASL2);
        let initial = match initial.map(|initial| sasl::decode(&initial.content())).transpose() {
            Ok(initial) => initial.map(Option::unwrap_or_default),
            Err(failure) => return self.refuse2(failure, out),
        };
        let resume = authenticate
            .get("resume", ns::SM)
            .and_then(|resume| Some((resume.attr("previd")?.into(), resume.attr("h")?.parse().ok()?)));
        let wish = Sasl2Request {
            bind: authenticate.get("bind", ns::BIND2).cloned(),
            resume,
            agent: agent_of(authenticate),
            fast: fast::FastRequest::of(self, authenticate),
            ..Sasl2Request::default()
        };
        let mechanism = authenticate.attr("mechanism").and_then(Mechanism::parse);
        let mechanism = mechanism.filter(|wanted| match wanted {
            Mechanism::HashedToken(binding) => {
                wish.fast.is_by_token && features::tokens(self).any(|offered| offered == *binding)
            }
            wanted => features::mechanisms(self).contains(wanted),
        });
        let agent = wish.agent.as_ref().and_then(|agent| agent.id.clone());
        match self.exchange(mechanism, initial.as_deref(), agent, wish.fast.count) {
            Ok((exchange, step)) => {
                self.state = State::Proving { exchange: Box::new(exchange), two: Some(Box::new(wish)) };
                self.step2(step, out);
            }
            Err(failure) => self.refuse2(failure, out),
        }
    }

    pub(super) fn prove2(&mut self, element: &Element, out: &mut Outbox) {
        let State::Proving { exchange, .. } = &mut self.state else { return };
        if element.is("abort", ns::SASL2) {
            return self.refuse2(Failure::Aborted, out);
        }
        if !element.is("response", ns::SASL2) {
            return self.fail("not-authorized", out);
        }
        match sasl::decode(&element.content()) {
            Ok(response) => {
                let step = exchange.respond(&response.unwrap_or_default());
                self.step2(step, out);
            }
            Err(failure) => self.refuse2(failure, out),
        }
    }

    pub(super) fn step2(&mut self, step: Step, out: &mut Outbox) {
        match step {
            Step::Challenge(bytes) => {
                self.write(&Element::new("challenge", ns::SASL2).text(sasl::encode(&bytes)), out);
            }
            Step::Find(find) => self.find(find, out),
            Step::Success { user, last } => {
                let State::Proving { two, exchange } = &mut self.state else { return };
                let mut wish = two.take().unwrap_or_default();
                wish.used = exchange.take_token();
                match self.identify(&user) {
                    Some(jid) => {
                        self.jid = Some(jid);
                        self.authenticated(last, wish, out);
                    }
                    None => self.refuse2(Failure::NotAuthorized, out),
                }
            }
            Step::Failure(failure) => self.refuse2(failure, out),
        }
    }

    /// Its tokens are in order.
    pub(super) fn signed_in(&mut self, last: Option<Vec<u8>>, mut wish: Box<Sasl2Request>, out: &mut Outbox) {
        let Some(user) = self.jid.clone() else { return };
        if let Some((id, seen)) = wish.resume.take() {
            out.effects.push(Effect::Resume { user, id, seen });
            self.state = State::Binding(Binding::Two { last, wish, resuming: true });
        } else if wish.bind.is_some() {
            self.bind2(last, wish, out);
        } else {
            self.succeed(last, &user, wish.after(), out);
            self.state = State::Choosing;
            self.write(&features::of(self), out);
        }
    }

    fn bind2(&mut self, last: Option<Vec<u8>>, wish: Box<Sasl2Request>, out: &mut Outbox) {
        let (Some(user), Some(bind)) = (self.jid.clone(), &wish.bind) else { return };
        let request = BindRequest {
            user,
            is_anonymous: self.is_anonymous,
            resource: None,
            tag: bind.content_of("tag", ns::BIND2).map(Box::<str>::from),
            agent: wish.agent.clone(),
            is_bind2: true,
            inline: bind.elements().filter(|child| child.ns() != ns::BIND2).cloned().collect(),
        };
        out.effects.push(Effect::Bind(Box::new(request)));
        self.state = State::Binding(Binding::Two { last, wish, resuming: false });
    }

    pub(super) fn bound2(
        &mut self,
        last: Option<Vec<u8>>,
        mut wish: Box<Sasl2Request>,
        resuming: bool,
        bound: Bound,
        out: &mut Outbox,
    ) {
        match bound {
            Bound::Session { jid, inline } => {
                let bound = Element::new("bound", ns::BIND2).children(inline);
                self.succeed(last, &jid, std::iter::once(bound).chain(wish.after()), out);
                self.bound(jid);
                // Nothing is left to be negotiated.
                self.write(&features::of_session(self), out);
            }
            Bound::Resumed { jid, resumed } => {
                self.succeed(last, &jid, std::iter::once(resumed).chain(wish.after()), out);
                self.bound(jid);
                self.write(&features::of_session(self), out);
            }
            Bound::NotResumed { failed } if resuming && wish.bind.is_some() => {
                wish.failed = Some(failed);
                self.bind2(last, wish, out);
            }
            Bound::NotResumed { failed } => {
                let Some(user) = self.jid.clone() else { return };
                self.succeed(last, &user, std::iter::once(failed).chain(wish.after()), out);
                self.write(&features::of(self), out);
            }
            Bound::Refused(_) | Bound::SeeOtherHost(_) => {
                self.jid = None;
                self.refuse2(Failure::TemporaryAuthFailure, out);
            }
        }
    }

    fn succeed(
        &self,
        last: Option<Vec<u8>>,
        jid: &crate::Jid,
        inline: impl IntoIterator<Item = Element>,
        out: &mut Outbox,
    ) {
        let additional =
            last.map(|last| Element::new("additional-data", ns::SASL2).text(sasl::encode(&last)));
        let name = Element::new("authorization-identifier", ns::SASL2).text(jid.as_str());
        let success = Element::new("success", ns::SASL2).children(additional).child(name).children(inline);
        self.write(&success, out);
    }

    pub(super) fn refuse2(&mut self, failure: Failure, out: &mut Outbox) {
        let condition = Element::new(failure.condition(), ns::SASL);
        self.write(&Element::new("failure", ns::SASL2).child(condition), out);
        self.again(failure, out);
    }
}
