//! SASL as RFC 6120 §6 carries it.

use stdx::attempts::Cause;

use super::{C2s, Effect, FAILURES, Outbox, State, features};
use crate::sasl::{self, Context, CredentialQuery, Exchange, Failure, Identity, Mechanism, Step};
use crate::{Element, Jid, ns};

impl C2s {
    pub(super) fn begin(&mut self, auth: &Element, out: &mut Outbox) {
        let initial = match sasl::decode(&auth.content()) {
            Ok(initial) => initial,
            Err(failure) => return self.refuse(failure, out),
        };
        let mechanism = auth.attr("mechanism").and_then(Mechanism::parse);
        let mechanism = mechanism.filter(|wanted| features::mechanisms(self).contains(wanted));
        match self.exchange(mechanism, initial.as_deref(), None, None) {
            Ok((exchange, step)) => {
                self.state = State::Proving { exchange: Box::new(exchange), two: None };
                self.step(step, out);
            }
            Err(failure) => self.refuse(failure, out),
        }
    }

    /// `None`: it was not offered. `agent` and `count` are SASL2's.
    pub(super) fn exchange(
        &mut self,
        mechanism: Option<Mechanism>,
        initial: Option<&[u8]>,
        agent: Option<Box<str>>,
        count: Option<u64>,
    ) -> Result<(Exchange, Step), Failure> {
        let mechanism = mechanism.ok_or(Failure::InvalidMechanism)?;
        let offered = features::mechanisms(self);
        let id = self.next_id();
        let nonce = format!("{}{id:x}", self.entry().nonce).into();
        let context = Context {
            bindings: self.entry().security.bindings.clone(),
            offered: offered.iter().map(|mechanism| mechanism.name()).collect(),
            certified: self.entry().security.certified.as_ref().and_then(Jid::local).map(Box::from),
            // A proof of one exchange is none in the next (RFC 5802 §7).
            nonce,
            domain: self.domain.clone(),
            secret: self.settings.secret,
            looks: self.settings.looks.clone(),
            agent,
            count,
        };
        Ok(Exchange::start(mechanism, initial, context))
    }

    /// `<response>` or `<abort>`.
    pub(super) fn prove(&mut self, element: &Element, out: &mut Outbox) {
        let State::Proving { exchange, .. } = &mut self.state else { return };
        if element.is("abort", ns::SASL) {
            return self.refuse(Failure::Aborted, out);
        }
        if !element.is("response", ns::SASL) {
            return self.fail("not-authorized", out);
        }
        match sasl::decode(&element.content()) {
            Ok(response) => {
                let step = exchange.respond(&response.unwrap_or_default());
                self.step(step, out);
            }
            Err(failure) => self.refuse(failure, out),
        }
    }

    pub(super) fn step(&mut self, step: Step, out: &mut Outbox) {
        match step {
            Step::Challenge(bytes) => {
                self.write(&Element::new("challenge", ns::SASL).text(sasl::encode(&bytes)), out);
            }
            Step::Find(find) => self.find(find, out),
            Step::Success { user, last } => match self.identify(&user) {
                Some(jid) => {
                    let success = Element::new("success", ns::SASL);
                    let last = last.map(|last| sasl::encode(&last)).unwrap_or_default();
                    self.write(&success.text(last), out);
                    self.jid = Some(jid);
                    self.state = State::Opening;
                    // The stream begins anew; bytes that the client sent ahead belong to it.
                    self.framer.restart();
                }
                None => self.refuse(Failure::NotAuthorized, out),
            },
            Step::Failure(failure) => self.refuse(failure, out),
        }
    }

    pub(super) fn find(&mut self, find: CredentialQuery, out: &mut Outbox) {
        self.entry_mut().claimed = Some(find.user().into());
        out.effects.push(Effect::Find { find, domain: self.domain.clone() });
    }

    /// The bare address of the authenticated user.
    pub(super) fn identify(&mut self, user: &Identity) -> Option<Jid> {
        let local = match user {
            // The client may have used an alias; the account's own name counts.
            Identity::User(user) => self.entry_mut().found_as.take().unwrap_or_else(|| user.clone()),
            Identity::Anonymous => {
                self.is_anonymous = true;
                format!("{:016x}{}", self.id, self.entry().nonce.to_ascii_lowercase()).into()
            }
        };
        Jid::new(Some(&local), &self.domain, None).ok()
    }

    fn refuse(&mut self, failure: Failure, out: &mut Outbox) {
        let condition = Element::new(failure.condition(), ns::SASL);
        self.write(&Element::new("failure", ns::SASL).child(condition), out);
        self.again(failure, out);
    }

    /// Some tries are free; then the stream ends, and with it the connection that a guesser needs.
    pub(super) fn again(&mut self, failure: Failure, out: &mut Outbox) {
        let is_there = self.entry_mut().found_as.take().is_some();
        let before = std::mem::replace(&mut self.state, State::Choosing);
        let cause = match failure {
            // A challenge tells what an account is like, so giving up after it is a try.
            Failure::Aborted => {
                matches!(before, State::Proving { exchange, .. } if exchange.has_challenged())
                    .then_some(Cause::Aborted)
            }
            // Expired credentials and failures of the server are not guesses.
            Failure::CredentialsExpired | Failure::TemporaryAuthFailure => None,
            Failure::NotAuthorized if is_there => Some(Cause::WrongPassword),
            Failure::NotAuthorized if self.entry().claimed.is_some() => Some(Cause::UnknownAccount),
            _ => Some(Cause::Malformed),
        };
        if let Some(cause) = cause {
            self.count_failure(cause);
        }
        self.entry_mut().claimed = None;
        if self.failures >= FAILURES {
            self.fail("policy-violation", out);
        }
    }
}
