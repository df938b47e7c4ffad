//! SASL2 (XEP-0388) with Bind 2 (XEP-0386) and resumption in the same breath.

use super::{BindRequest, Binding, Bound, C2s, Effect, Outbox, State, features};
use crate::sasl::{self, Failure, Step};
use crate::{Element, ns};

/// What the client wants once it has signed in.
#[derive(Debug, Default)]
pub(super) struct Wish {
    bind: Option<Element>,
    resume: Option<(Box<str>, u32)>,
}

/// What may be asked for inline.
pub(super) fn inline() -> Element {
    let feature = |var: &'static str| Element::new("feature", ns::BIND2).with("var", var);
    let inline = [ns::SM, ns::CSI, ns::CARBONS].into_iter().map(feature);
    let bind = Element::new("bind", ns::BIND2).child(Element::new("inline", ns::BIND2).children(inline));
    Element::new("inline", ns::SASL2).child(bind).child(Element::new("sm", ns::SM))
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
        let wish = Wish { bind: authenticate.get("bind", ns::BIND2).cloned(), resume };
        match self.exchange(authenticate.attr("mechanism"), initial.as_deref()) {
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
                let State::Proving { two, .. } = &mut self.state else { return };
                let wish = two.take().unwrap_or_default();
                match self.identify(&user) {
                    Some(jid) => {
                        self.jid = Some(jid);
                        self.signed_in(last, wish, out);
                    }
                    None => self.refuse2(Failure::NotAuthorized, out),
                }
            }
            Step::Failure(failure) => self.refuse2(failure, out),
        }
    }

    fn signed_in(&mut self, last: Option<Vec<u8>>, mut wish: Box<Wish>, out: &mut Outbox) {
        let Some(user) = self.jid.clone() else { return };
        if let Some((id, seen)) = wish.resume.take() {
            out.effects.push(Effect::Resume { user, id, seen });
            self.state = State::Binding(Binding::Two { last, wish, resuming: true });
        } else if wish.bind.is_some() {
            self.bind2(last, wish, out);
        } else {
            self.succeed(last, &user, Vec::new(), out);
            self.state = State::Choosing;
            self.write(&features::of(self), out);
        }
    }

    fn bind2(&mut self, last: Option<Vec<u8>>, wish: Box<Wish>, out: &mut Outbox) {
        let (Some(user), Some(bind)) = (self.jid.clone(), &wish.bind) else { return };
        let request = BindRequest {
            user,
            is_anonymous: self.is_anonymous,
            resource: None,
            tag: bind.content_of("tag", ns::BIND2).map(Box::<str>::from),
            inline: bind.elements().filter(|child| child.ns() != ns::BIND2).cloned().collect(),
        };
        out.effects.push(Effect::Bind(Box::new(request)));
        self.state = State::Binding(Binding::Two { last, wish, resuming: false });
    }

    pub(super) fn bound2(
        &mut self,
        last: Option<Vec<u8>>,
        wish: Box<Wish>,
        resuming: bool,
        bound: Bound,
        out: &mut Outbox,
    ) {
        match bound {
            Bound::Session { jid, inline } => {
                let bound = Element::new("bound", ns::BIND2).children(inline);
                self.succeed(last, &jid, vec![bound], out);
                self.bound(jid);
                // Nothing is left to be negotiated.
                self.write(&features::of_session(self), out);
            }
            Bound::Resumed { jid, resumed } => {
                self.succeed(last, &jid, vec![resumed], out);
                self.bound(jid);
                self.write(&features::of_session(self), out);
            }
            Bound::NotResumed { .. } if resuming && wish.bind.is_some() => self.bind2(last, wish, out),
            Bound::NotResumed { failed } => {
                let Some(user) = self.jid.clone() else { return };
                self.succeed(last, &user, vec![failed], out);
                self.write(&features::of(self), out);
            }
            Bound::Refused(_) | Bound::SeeOtherHost(_) => {
                self.jid = None;
                self.refuse2(Failure::TemporaryAuthFailure, out);
            }
        }
    }

    fn succeed(&self, last: Option<Vec<u8>>, jid: &crate::Jid, inline: Vec<Element>, out: &mut Outbox) {
        let additional =
            last.map(|last| Element::new("additional-data", ns::SASL2).text(sasl::encode(&last)));
        let name = Element::new("authorization-identifier", ns::SASL2).text(jid.as_str());
        let success = Element::new("success", ns::SASL2).children(additional).child(name).children(inline);
        self.write(&success, out);
    }

    fn refuse2(&mut self, failure: Failure, out: &mut Outbox) {
        let condition = Element::new(failure.condition(), ns::SASL);
        self.write(&Element::new("failure", ns::SASL2).child(condition), out);
        self.again(failure, out);
    }
}
