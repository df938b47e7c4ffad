//! Signing in: the part of a stream between its features and an authenticated client. SASL (`sasl1`), SASL2 (`sasl2`) and
//! registration ([`register`](super::register)) are chosen here. The machine writes its answers itself; a
//! [`SignInOutcome`] tells the stream ([`C2s`](super::C2s)) all that changes the stream's own state.

mod sasl1;
mod sasl2;

use stdx::attempts::Cause;

pub(super) use self::sasl2::{Sasl2Request, inline, success};
use super::bind::answer_management;
use super::register::{self, InBandRegistration, InvitationGrant};
use super::writer::StreamWriter;
use super::{Effect, Framing, Outbox, Security};
use crate::sasl::{Context, CredentialAnswer, CredentialQuery, Exchange, Failure, Identity, Mechanism, Step};
use crate::stanza::StanzaError;
use crate::{Element, Jid, limits, ns, stanza};

/// Wrong passwords before the stream ends.
pub(super) const FAILURES: u8 = 5;

/// An attempt to sign in that failed, or a guess at an invitation: for limits and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// As the client named itself. Empty: it had not.
    pub user: Box<str>,
    /// The reason of the failure.
    pub cause: Cause,
}

/// The consequence of one input of the sign-in for its stream.
#[derive(Debug)]
pub(super) enum SignInOutcome {
    /// The client or the driver has the next word.
    Pending,
    /// `<proceed/>` is written (RFC 6120 §5.4.2.3): TLS follows.
    StartTls,
    /// SASL: the stream begins anew (RFC 6120 §6.4.6). The bare address.
    Authenticated(Jid),
    /// SASL2: the requests that came with the authentication are next. The success is not yet written.
    Authenticated2 { jid: Jid, last: Option<Vec<u8>>, request: Box<Sasl2Request> },
    /// The stream ends with this error (RFC 6120 §4.9.3).
    Fail(&'static str),
    /// The stream ends in order.
    Close,
}

/// The context of an exchange that only SASL2 has, by the names of [`Context`]'s fields.
#[derive(Debug, Default)]
struct Sasl2Context {
    agent: Option<Box<str>>,
    count: Option<u64>,
    caller: Option<Box<str>>,
}

/// One exchange of SASL messages that goes on.
#[derive(Debug)]
struct Attempt {
    exchange: Box<Exchange>,
    /// By SASL2; `None` by SASL.
    sasl2: Option<Box<Sasl2Request>>,
}

/// The state of a stream that only signing in needs; it is dropped when the stream is bound.
#[derive(Debug, Default)]
pub(super) struct SignIn {
    /// The connection's TLS, channel bindings and certificate.
    pub(super) security: Security,
    /// Makes the nonces of all exchanges; unpredictable.
    nonce: Box<str>,
    /// The bare address in `from` of the client's header.
    pub(super) caller: Option<Box<str>>,
    pub(super) is_anonymous: bool,
    /// The server has no resources for the stream, which ends when the client opens it.
    pub(super) is_refused: bool,
    attempt: Option<Attempt>,
    registration: InBandRegistration,
    /// The account that the last `handle_found` was about, if the client used an alias of it.
    found_as: Option<Box<str>>,
    /// The name that the client gave in its latest exchange.
    claimed: Option<Box<str>>,
    /// Elements received so far.
    elements: u16,
    /// Attempts of this stream that failed.
    failures: u8,
    /// Those that the driver has not taken yet.
    failed: Vec<FailedAttempt>,
}

impl SignIn {
    pub(super) fn new(security: Security, nonce: Box<str>) -> SignIn {
        SignIn { security, nonce, ..SignIn::default() }
    }

    /// Counts an element. False: a client that only asks and does not sign in is not answered for ever.
    pub(super) fn admits_element(&mut self) -> bool {
        self.elements = self.elements.saturating_add(1);
        self.elements <= limits::ELEMENTS_SENT_BEFORE_AUTH
    }

    /// No exchange and no registration goes on.
    pub(super) fn is_idle(&self) -> bool {
        self.attempt.is_none() && !self.registration.is_pending()
    }

    /// A keep-alive came. Within an exchange of SASL2 it ends the stream: the client may send the exchange's elements only
    /// (XEP-0388 §2.4).
    pub(super) fn after_whitespace(sign_in: Option<&SignIn>) -> SignInOutcome {
        let attempt = sign_in.and_then(|sign_in| sign_in.attempt.as_ref());
        match attempt {
            Some(Attempt { sasl2: Some(_), .. }) => SignInOutcome::Fail("not-authorized"),
            _ => SignInOutcome::Pending,
        }
    }

    /// True while the driver owes an answer, and no further element may be read.
    pub(super) fn is_waiting(&self) -> bool {
        self.registration.is_pending()
            || self.attempt.as_ref().is_some_and(|attempt| attempt.exchange.is_finding())
    }

    /// Negotiation before a restart, perhaps for another domain, does not count for the new stream (RFC 6120 §4.3.3).
    pub(super) fn forget_negotiation(&mut self) {
        self.registration.forget_invitation();
        self.found_as = None;
    }

    /// The name that the client has signed in by, or tries to.
    pub(super) fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// Attempts that have failed since the last call.
    pub(super) fn take_failed(&mut self) -> Vec<FailedAttempt> {
        std::mem::take(&mut self.failed)
    }

    /// Attempts of this stream that failed.
    #[cfg(test)]
    pub(super) fn failures(&self) -> u8 {
        self.failures
    }

    /// An element of a client that has not signed in.
    pub(super) fn handle_element(
        &mut self,
        element: &Element,
        writer: &mut StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        match &self.attempt {
            _ if self.registration.is_pending() => SignInOutcome::Pending,
            None => self.choose(element, writer, out),
            Some(Attempt { sasl2: None, .. }) => self.prove(element, writer, out),
            Some(Attempt { sasl2: Some(_), .. }) => self.prove2(element, writer, out),
        }
    }

    /// The client chooses one of the features.
    fn choose(&mut self, element: &Element, writer: &mut StreamWriter, out: &mut Outbox) -> SignInOutcome {
        writer.trace.note_mechanism(element);
        if element.is("starttls", ns::TLS) {
            if !writer.settings.tls || self.security.encrypted || writer.framing != Framing::Stream {
                writer.write(&Element::new("failure", ns::TLS), out);
                return SignInOutcome::Close;
            }
            writer.write(&Element::new("proceed", ns::TLS), out);
            SignInOutcome::StartTls
        } else if element.is("auth", ns::SASL) {
            self.begin(element, writer, out)
        } else if element.is("authenticate", ns::SASL2) {
            self.begin2(element, writer, out)
        } else if register::may_ask(writer, self, element) {
            self.registration.handle_iq(element, writer, out);
            SignInOutcome::Pending
        } else if stanza::kind_of(element).is_some() {
            SignInOutcome::Fail("not-authorized")
        } else if answer_management(element, writer, out) {
            SignInOutcome::Pending
        } else {
            SignInOutcome::Fail("unsupported-stanza-type")
        }
    }

    /// The next `handle_found` is about the account of this name, of which the client used an alias.
    pub(super) fn note_alias(&mut self, user: &str) {
        self.found_as = Some(user.into());
    }

    /// The answer to `Effect::Find`.
    pub(super) fn handle_found(
        &mut self,
        known: CredentialAnswer,
        writer: &mut StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.exchange.is_finding());
        let Some(attempt) = attempt else { return SignInOutcome::Pending };
        let step = attempt.exchange.give(known);
        if attempt.sasl2.is_some() {
            self.handle_step2(step, writer, out)
        } else {
            self.handle_step(step, writer, out)
        }
    }

    /// The answer to `Effect::Invited`.
    pub(super) fn handle_invited(
        &mut self,
        invited: Result<InvitationGrant, StanzaError>,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        // A client that guesses invitations counts as one that guesses passwords.
        if self.registration.handle_invited(invited, writer, out) {
            self.count_failure(Cause::UnknownInvitation);
        }
        self.check_failures()
    }

    /// The answer to `Effect::Register`.
    pub(super) fn handle_registered(
        &mut self,
        done: Result<(), StanzaError>,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) {
        self.registration.handle_registered(done, writer, out);
    }

    /// The stream has ended. A client that has had a challenge and did not answer it has tried, and failed.
    pub(super) fn handle_end(&mut self) {
        self.registration = InBandRegistration::default();
        if self.attempt.take().is_some_and(|attempt| attempt.exchange.has_challenged()) {
            self.count_failure(Cause::Aborted);
        }
    }

    /// `mechanism`: `None` if it was not offered.
    fn start_exchange(
        &self,
        mechanism: Option<Mechanism>,
        initial: Option<&[u8]>,
        sasl2: Sasl2Context,
        writer: &mut StreamWriter,
    ) -> Result<(Box<Exchange>, Step), Failure> {
        let mechanism = mechanism.ok_or(Failure::InvalidMechanism)?;
        let offered = super::features::mechanisms(writer, self);
        let id = writer.next_id();
        let context = Context {
            bindings: self.security.bindings.clone(),
            offered: offered.iter().map(|mechanism| mechanism.name()).collect(),
            certified: self.security.certified.as_ref().and_then(Jid::local).map(Box::from),
            // A proof of one exchange is none in the next (RFC 5802 §7).
            nonce: format!("{}{id:x}", self.nonce).into(),
            domain: writer.domain().into(),
            secret: writer.settings.secret,
            looks: writer.settings.looks.clone(),
            agent: sasl2.agent,
            count: sasl2.count,
            caller: sasl2.caller,
            openid_configuration: writer.settings.openid_configurations.get(writer.domain()).cloned(),
        };
        let (exchange, step) = Exchange::start(mechanism, initial, context);
        Ok((Box::new(exchange), step))
    }

    /// Asks the driver for the credentials of the account.
    fn find(&mut self, find: CredentialQuery, writer: &StreamWriter, out: &mut Outbox) -> SignInOutcome {
        self.claimed = Some(find.user().into());
        out.effects.push(Effect::Find { find, domain: writer.domain().into() });
        SignInOutcome::Pending
    }

    /// The bare address of the authenticated user.
    fn identify(&mut self, user: &Identity, writer: &StreamWriter) -> Option<Jid> {
        let local = match user {
            // The client may have used an alias; the account's own name counts.
            Identity::User(user) => self.found_as.take().unwrap_or_else(|| user.clone()),
            Identity::Anonymous => {
                self.is_anonymous = true;
                format!("{:016x}{}", writer.id(), self.nonce.to_ascii_lowercase()).into()
            }
        };
        Jid::new(Some(&local), writer.domain(), None).ok()
    }

    /// The exchange failed; the refusal is written. Some tries are free (RFC 6120 §6.4.5); then the stream ends, and with
    /// it the connection that a guesser needs.
    fn end_attempt(&mut self, failure: Failure) -> SignInOutcome {
        let is_there = self.found_as.take().is_some();
        let attempt = self.attempt.take();
        let cause = match failure {
            // A challenge tells what an account is like, so giving up after it is a try.
            Failure::Aborted => {
                attempt.is_some_and(|attempt| attempt.exchange.has_challenged()).then_some(Cause::Aborted)
            }
            // Expired credentials and failures of the server are not guesses.
            Failure::CredentialsExpired | Failure::TemporaryAuthFailure => None,
            Failure::NotAuthorized | Failure::TokenRefused if is_there => Some(Cause::WrongPassword),
            Failure::NotAuthorized | Failure::TokenRefused if self.claimed.is_some() => {
                Some(Cause::UnknownAccount)
            }
            _ => Some(Cause::Malformed),
        };
        if let Some(cause) = cause {
            self.count_failure(cause);
        }
        self.claimed = None;
        self.check_failures()
    }

    fn count_failure(&mut self, cause: Cause) {
        self.failures = self.failures.saturating_add(1);
        let user = self.claimed.take().unwrap_or_default();
        self.failed.push(FailedAttempt { user, cause });
    }

    fn check_failures(&self) -> SignInOutcome {
        if self.failures >= FAILURES {
            SignInOutcome::Fail("policy-violation")
        } else {
            SignInOutcome::Pending
        }
    }
}
