//! From a connection to a signed-in user.
//!
//! The order: features, STARTTLS where the load asks for it, features again, SASL, a new stream, bind, the old session where a server still wants it, the
//! roster. A login for an account ends after the registration. `sign_in` performs each [`LoginProgress`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xmpp::sasl::{ClientKeys, ScramClient};
use xmpp::{Element, ns};

use super::failure::FailureCause;
use super::model::{SaslMechanism, StreamSecurity, XmppLoad};
use super::register::RegistrationResult;
use super::stanzas;

/// The result of one element.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginProgress {
    /// The next element is awaited.
    Nothing,
    /// TLS begins after the bytes written so far.
    StartTls,
    /// The stream begins anew.
    Authenticated,
    /// All steps are done; the roster.
    SignedIn(Element),
    /// The registration was answered.
    Registered(RegistrationResult),
    /// The login is over.
    Failed(FailureCause),
}

/// The element that is awaited.
#[derive(Debug, PartialEq, Eq)]
enum LoginState {
    /// `<stream:features/>`.
    Features,
    /// The answer to STARTTLS.
    Proceed,
    /// The answer to the registration.
    Register,
    /// A SASL challenge, success or failure.
    Proof,
    /// The answer to the resource binding.
    Bind,
    /// The answer to the session request of RFC 3921.
    Session,
    /// The roster.
    Roster,
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginPurpose {
    /// A session.
    SignIn,
    /// An account, and no more.
    Register,
}

/// Boxed: only while signing in.
#[derive(Debug)]
pub(super) struct Login {
    purpose: LoginPurpose,
    step: LoginState,
    /// TLS is up.
    is_secured: bool,
    /// SASL has succeeded: the features that come are those of the new stream.
    is_authenticated: bool,
    /// RFC 3921: some servers still want it.
    wants_session: bool,
    /// The exchange under way.
    scram: Option<ScramClient>,
}

/// The account that signs in.
pub(super) struct LoginIdentity<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
    /// The client's nonce of SCRAM.
    pub(super) nonce: String,
    /// Keys of an earlier sign-in, which spare the iterations of the hash.
    pub(super) kept: &'a mut Option<ClientKeys>,
}

impl Login {
    pub(super) fn new(chat: &XmppLoad, purpose: LoginPurpose) -> Login {
        Login {
            purpose,
            step: LoginState::Features,
            is_secured: chat.security == StreamSecurity::Tls,
            is_authenticated: false,
            wants_session: false,
            scram: None,
        }
    }

    /// TLS is up: features come again.
    pub(super) fn secured(&mut self) {
        self.is_secured = true;
        self.step = LoginState::Features;
    }

    pub(super) fn handle(
        &mut self,
        chat: &XmppLoad,
        mut id: LoginIdentity<'_>,
        element: &Element,
        out: &mut Vec<u8>,
    ) -> LoginProgress {
        match self.step {
            LoginState::Features if element.is("features", ns::STREAM) => {
                self.choose(chat, &id, element, out)
            }
            LoginState::Proceed if element.is("proceed", ns::TLS) => LoginProgress::StartTls,
            LoginState::Proceed if element.is("failure", ns::TLS) => {
                LoginProgress::Failed(FailureCause::NotOffered)
            }
            LoginState::Register => match RegistrationResult::of(element) {
                _ if element.attr("id") != Some("register") => LoginProgress::Nothing,
                Ok(registered) => LoginProgress::Registered(registered),
                Err(cause) => LoginProgress::Failed(cause),
            },
            LoginState::Proof => self.prove(&mut id, element, out),
            LoginState::Bind | LoginState::Session | LoginState::Roster => self.settle(element, out),
            LoginState::Features | LoginState::Proceed => LoginProgress::Failed(FailureCause::Nonsense),
        }
    }

    /// The next step from the features that the server offers.
    fn choose(
        &mut self,
        chat: &XmppLoad,
        id: &LoginIdentity<'_>,
        features: &Element,
        out: &mut Vec<u8>,
    ) -> LoginProgress {
        if chat.security == StreamSecurity::StartTls && !self.is_secured {
            if features.get("starttls", ns::TLS).is_none() {
                return LoginProgress::Failed(FailureCause::NotOffered);
            }
            stanzas::starttls(out);
            self.step = LoginState::Proceed;
            return LoginProgress::Nothing;
        }
        if self.is_authenticated {
            let session = features.get("session", ns::SESSION);
            self.wants_session =
                session.is_some_and(|session| session.get("optional", ns::SESSION).is_none());
            stanzas::bind(out);
            self.step = LoginState::Bind;
            return LoginProgress::Nothing;
        }
        // Whether it is announced or not: not every server that takes it does so.
        if self.purpose == LoginPurpose::Register {
            stanzas::register(out, id.name, id.password);
            self.step = LoginState::Register;
            return LoginProgress::Nothing;
        }
        let offered = features.get("mechanisms", ns::SASL);
        let wanted = chat.mechanism.name();
        let is_offered =
            offered.is_some_and(|offered| offered.elements().any(|one| one.content().trim() == wanted));
        if !is_offered {
            return LoginProgress::Failed(FailureCause::NotOffered);
        }
        let initial = match chat.mechanism {
            SaslMechanism::Plain => format!("\0{}\0{}", id.name, id.password),
            SaslMechanism::Anonymous => "ringer".to_owned(),
            SaslMechanism::Scram(hash) => {
                let scram = ScramClient::new(hash, id.name, &id.nonce);
                self.scram.insert(scram).first()
            }
        };
        stanzas::auth(out, wanted, &STANDARD.encode(initial));
        self.step = LoginState::Proof;
        LoginProgress::Nothing
    }

    /// SASL: answers challenges, and checks the server's own proof.
    fn prove(&mut self, id: &mut LoginIdentity<'_>, element: &Element, out: &mut Vec<u8>) -> LoginProgress {
        let content = || STANDARD.decode(element.content().trim()).unwrap_or_default();
        match (element.name(), element.ns(), &mut self.scram) {
            ("challenge", ns::SASL, Some(scram)) => match scram.answer(&content(), id.password, id.kept) {
                Ok(answer) => {
                    stanzas::response(out, &STANDARD.encode(answer));
                    LoginProgress::Nothing
                }
                Err(_) => LoginProgress::Failed(FailureCause::Nonsense),
            },
            ("success", ns::SASL, scram) => {
                if scram.as_ref().is_some_and(|scram| !scram.is_server(&content())) {
                    return LoginProgress::Failed(FailureCause::Nonsense);
                }
                self.scram = None;
                self.is_authenticated = true;
                self.step = LoginState::Features;
                LoginProgress::Authenticated
            }
            ("failure", ns::SASL, _) => {
                // Keys of an old password are of no use.
                *id.kept = None;
                LoginProgress::Failed(FailureCause::of_sasl_failure(element))
            }
            _ => LoginProgress::Failed(FailureCause::Nonsense),
        }
    }

    /// The answers to bind, session and roster, one after the other.
    fn settle(&mut self, element: &Element, out: &mut Vec<u8>) -> LoginProgress {
        let wanted = match self.step {
            LoginState::Bind => "bind",
            LoginState::Session => "session",
            _ => "roster",
        };
        let is_answer = element.name() == "iq" && element.attr("id") == Some(wanted);
        match (is_answer, element.attr("type")) {
            (true, Some("result")) => {}
            (true, _) => return LoginProgress::Failed(FailureCause::of_stanza_error(element)),
            // Something for the account that could not wait.
            (false, _) => return LoginProgress::Nothing,
        }
        match self.step {
            LoginState::Bind if self.wants_session => {
                stanzas::session(out);
                self.step = LoginState::Session;
            }
            LoginState::Bind | LoginState::Session => {
                stanzas::roster_get(out, "roster");
                self.step = LoginState::Roster;
            }
            _ => {
                let roster = element.get("query", ns::ROSTER).cloned();
                return LoginProgress::SignedIn(roster.unwrap_or_else(|| Element::new("query", ns::ROSTER)));
            }
        }
        LoginProgress::Nothing
    }
}
