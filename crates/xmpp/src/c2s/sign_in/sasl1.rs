//! SASL as RFC 6120 §6 carries it.

use super::{Attempt, Sasl2Context, SignIn, SignInOutcome};
use crate::c2s::writer::StreamWriter;
use crate::c2s::{Outbox, features};
use crate::sasl::{self, Failure, Mechanism, Step};
use crate::{Element, ns};

impl SignIn {
    /// `<auth>` (RFC 6120 §6.4.2).
    pub(super) fn begin(
        &mut self,
        auth: &Element,
        writer: &mut StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        let initial = match sasl::decode(&auth.content()) {
            Ok(initial) => initial,
            Err(failure) => return self.refuse(failure, writer, out),
        };
        let mechanism = auth.attr("mechanism").and_then(Mechanism::parse);
        // RFC 6120 §6.5.7: a mechanism that was not offered, as PLAIN without TLS, is `invalid-mechanism`.
        let mechanism = mechanism.filter(|named| features::mechanisms(writer, self).contains(named));
        match self.start_exchange(mechanism, initial.as_deref(), Sasl2Context::default(), writer) {
            Ok((exchange, step)) => {
                self.attempt = Some(Attempt { exchange, sasl2: None });
                self.handle_step(step, writer, out)
            }
            Err(failure) => self.refuse(failure, writer, out),
        }
    }

    /// `<response>` or `<abort>` (RFC 6120 §6.4.3, §6.4.4).
    pub(super) fn prove(
        &mut self,
        element: &Element,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        let Some(attempt) = &mut self.attempt else { return SignInOutcome::Pending };
        if element.is("abort", ns::SASL) {
            return self.refuse(Failure::Aborted, writer, out);
        }
        // RFC 6120 §4.9.3.12: nothing but the exchange is possible during it.
        if !element.is("response", ns::SASL) {
            return SignInOutcome::Fail("not-authorized");
        }
        match sasl::decode(&element.content()) {
            Ok(response) => {
                let step = attempt.exchange.respond(&response.unwrap_or_default());
                self.handle_step(step, writer, out)
            }
            Err(failure) => self.refuse(failure, writer, out),
        }
    }

    /// The next step of the exchange.
    pub(super) fn handle_step(
        &mut self,
        step: Step,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        match step {
            Step::Challenge(bytes) => {
                writer.write(&Element::new("challenge", ns::SASL).text(sasl::encode(&bytes)), out);
                SignInOutcome::Pending
            }
            Step::Find(find) => self.find(find, writer, out),
            Step::Success { user, last } => match self.identify(&user, writer) {
                Some(jid) => {
                    let success = Element::new("success", ns::SASL);
                    let last = last.map(|last| sasl::encode(&last)).unwrap_or_default();
                    writer.write(&success.text(last), out);
                    self.attempt = None;
                    SignInOutcome::Authenticated(jid)
                }
                None => self.refuse(Failure::NotAuthorized, writer, out),
            },
            Step::Failure(failure) => self.refuse(failure, writer, out),
        }
    }

    fn refuse(&mut self, failure: Failure, writer: &StreamWriter, out: &mut Outbox) -> SignInOutcome {
        let condition = Element::new(failure.condition(), ns::SASL);
        writer.write(&Element::new("failure", ns::SASL).child(condition), out);
        self.end_attempt(failure)
    }
}
