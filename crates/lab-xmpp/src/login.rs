//! From a connection to a signed-in user.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xmpp::sasl::{ClientKeys, ScramClient};
use xmpp::{Element, ns};

use super::failure::Cause;
use super::lines;
use super::model::{Chat, Mechanism, Security};
use super::register::Registered;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Nothing,
    /// After what was written.
    StartTls,
    /// The stream begins anew.
    Authenticated,
    SignedIn(Element),
    Registered(Registered),
    Failed(Cause),
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Features,
    Proceed,
    Register,
    Proof,
    Bind,
    Session,
    Roster,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    SignIn,
    /// An account, and no more.
    Register,
}

/// Boxed: only while signing in.
#[derive(Debug)]
pub(super) struct Login {
    purpose: Purpose,
    step: Step,
    is_secured: bool,
    is_authenticated: bool,
    /// RFC 3921: some servers still want it.
    wants_session: bool,
    scram: Option<ScramClient>,
}

/// Who signs in.
pub(super) struct Who<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
    pub(super) nonce: String,
    pub(super) kept: &'a mut Option<ClientKeys>,
}

impl Login {
    pub(super) fn new(chat: &Chat, purpose: Purpose) -> Login {
        Login {
            purpose,
            step: Step::Features,
            is_secured: chat.security == Security::Tls,
            is_authenticated: false,
            wants_session: false,
            scram: None,
        }
    }

    pub(super) fn secured(&mut self) {
        self.is_secured = true;
        self.step = Step::Features;
    }

    pub(super) fn handle(
        &mut self,
        chat: &Chat,
        mut who: Who<'_>,
        element: &Element,
        out: &mut Vec<u8>,
    ) -> Progress {
        match self.step {
            Step::Features if element.is("features", ns::STREAM) => self.choose(chat, &who, element, out),
            Step::Proceed if element.is("proceed", ns::TLS) => Progress::StartTls,
            Step::Proceed if element.is("failure", ns::TLS) => Progress::Failed(Cause::NotOffered),
            Step::Register => match Registered::of(element) {
                _ if element.attr("id") != Some("register") => Progress::Nothing,
                Ok(registered) => Progress::Registered(registered),
                Err(cause) => Progress::Failed(cause),
            },
            Step::Proof => self.prove(&mut who, element, out),
            Step::Bind | Step::Session | Step::Roster => self.settle(element, out),
            Step::Features | Step::Proceed => Progress::Failed(Cause::Nonsense),
        }
    }

    fn choose(&mut self, chat: &Chat, who: &Who<'_>, features: &Element, out: &mut Vec<u8>) -> Progress {
        if chat.security == Security::StartTls && !self.is_secured {
            if features.get("starttls", ns::TLS).is_none() {
                return Progress::Failed(Cause::NotOffered);
            }
            lines::starttls(out);
            self.step = Step::Proceed;
            return Progress::Nothing;
        }
        if self.is_authenticated {
            let session = features.get("session", ns::SESSION);
            self.wants_session =
                session.is_some_and(|session| session.get("optional", ns::SESSION).is_none());
            lines::bind(out);
            self.step = Step::Bind;
            return Progress::Nothing;
        }
        // Whether it is announced or not: not every server that takes it does so.
        if self.purpose == Purpose::Register {
            lines::register(out, who.name, who.password);
            self.step = Step::Register;
            return Progress::Nothing;
        }
        let offered = features.get("mechanisms", ns::SASL);
        let wanted = chat.mechanism.name();
        let is_offered =
            offered.is_some_and(|offered| offered.elements().any(|one| one.content().trim() == wanted));
        if !is_offered {
            return Progress::Failed(Cause::NotOffered);
        }
        let initial = match chat.mechanism {
            Mechanism::Plain => format!("\0{}\0{}", who.name, who.password),
            Mechanism::Anonymous => "ringer".to_owned(),
            Mechanism::Scram(hash) => {
                let scram = ScramClient::new(hash, who.name, &who.nonce);
                self.scram.insert(scram).first()
            }
        };
        lines::auth(out, wanted, &STANDARD.encode(initial));
        self.step = Step::Proof;
        Progress::Nothing
    }

    fn prove(&mut self, who: &mut Who<'_>, element: &Element, out: &mut Vec<u8>) -> Progress {
        let content = || STANDARD.decode(element.content().trim()).unwrap_or_default();
        match (element.name(), element.ns(), &mut self.scram) {
            ("challenge", ns::SASL, Some(scram)) => match scram.answer(&content(), who.password, who.kept) {
                Ok(answer) => {
                    lines::response(out, &STANDARD.encode(answer));
                    Progress::Nothing
                }
                Err(_) => Progress::Failed(Cause::Nonsense),
            },
            ("success", ns::SASL, scram) => {
                if scram.as_ref().is_some_and(|scram| !scram.is_server(&content())) {
                    return Progress::Failed(Cause::Nonsense);
                }
                self.scram = None;
                self.is_authenticated = true;
                self.step = Step::Features;
                Progress::Authenticated
            }
            ("failure", ns::SASL, _) => {
                // Keys of an old password are of no use.
                *who.kept = None;
                Progress::Failed(Cause::of_sasl_failure(element))
            }
            _ => Progress::Failed(Cause::Nonsense),
        }
    }

    fn settle(&mut self, element: &Element, out: &mut Vec<u8>) -> Progress {
        let wanted = match self.step {
            Step::Bind => "bind",
            Step::Session => "session",
            _ => "roster",
        };
        let is_answer = element.name() == "iq" && element.attr("id") == Some(wanted);
        match (is_answer, element.attr("type")) {
            (true, Some("result")) => {}
            (true, _) => return Progress::Failed(Cause::of_stanza_error(element)),
            // Something for the account that could not wait.
            (false, _) => return Progress::Nothing,
        }
        match self.step {
            Step::Bind if self.wants_session => {
                lines::session(out);
                self.step = Step::Session;
            }
            Step::Bind | Step::Session => {
                lines::roster_get(out, "roster");
                self.step = Step::Roster;
            }
            _ => {
                let roster = element.get("query", ns::ROSTER).cloned();
                return Progress::SignedIn(roster.unwrap_or_else(|| Element::new("query", ns::ROSTER)));
            }
        }
        Progress::Nothing
    }
}
