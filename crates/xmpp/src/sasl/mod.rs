//! Signing in: the server's side of the SASL mechanisms, without the XML around it.
//!
//! An [`Exchange`] is told what the client said and answers with a [`Step`]. Where it needs to know an account it says
//! [`Step::Find`] and goes on when it is [given](Exchange::give) what is known.

mod bearer;
mod client;
mod ht;
mod scram;
#[cfg(test)]
mod tests;
mod unknown;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub use client::{ClientKeys, ScramClient};
#[cfg(test)]
pub(crate) use ht::testing::initial as testing_initial;
pub use ht::{Token, TokenBinding, TokenState};
use scram::Scram;
pub use scram::{Hash, Keys, derive};
pub use unknown::{AccountProfile, KeyParameters, UnknownAccounts};

use crate::Jid;

/// The supported mechanisms, the strongest first: RFC 5802, 7677, 4616, 7628, 4422, 4505.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// SCRAM (RFC 5802).
    Scram {
        /// The hash.
        hash: Hash,
        /// Bound to the TLS channel below: the `-PLUS` forms.
        plus: bool,
    },
    /// PLAIN (RFC 4616).
    Plain,
    /// OAUTHBEARER (RFC 7628).
    OAuthBearer,
    /// EXTERNAL (RFC 4422 appendix A).
    External,
    /// ANONYMOUS (RFC 4505).
    Anonymous,
    /// A mechanism of FAST only (XEP-0484).
    HashedToken(TokenBinding),
}

/// All that need no token, in the order they are offered.
pub const ALL: [Mechanism; 10] = [
    Mechanism::External,
    Mechanism::Scram { hash: Hash::Sha512, plus: true },
    Mechanism::Scram { hash: Hash::Sha512, plus: false },
    Mechanism::Scram { hash: Hash::Sha256, plus: true },
    Mechanism::Scram { hash: Hash::Sha256, plus: false },
    Mechanism::Scram { hash: Hash::Sha1, plus: true },
    Mechanism::Scram { hash: Hash::Sha1, plus: false },
    Mechanism::OAuthBearer,
    Mechanism::Plain,
    Mechanism::Anonymous,
];

impl Mechanism {
    /// The mechanism's name.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Scram { hash: Hash::Sha1, plus: false } => "SCRAM-SHA-1",
            Mechanism::Scram { hash: Hash::Sha1, plus: true } => "SCRAM-SHA-1-PLUS",
            Mechanism::Scram { hash: Hash::Sha256, plus: false } => "SCRAM-SHA-256",
            Mechanism::Scram { hash: Hash::Sha256, plus: true } => "SCRAM-SHA-256-PLUS",
            Mechanism::Scram { hash: Hash::Sha512, plus: false } => "SCRAM-SHA-512",
            Mechanism::Scram { hash: Hash::Sha512, plus: true } => "SCRAM-SHA-512-PLUS",
            Mechanism::Plain => "PLAIN",
            Mechanism::OAuthBearer => "OAUTHBEARER",
            Mechanism::External => "EXTERNAL",
            Mechanism::Anonymous => "ANONYMOUS",
            Mechanism::HashedToken(binding) => binding.mechanism(),
        }
    }

    /// The mechanism of a name; `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Mechanism> {
        let tokens = TokenBinding::ALL.into_iter().map(Mechanism::HashedToken);
        ALL.into_iter().chain(tokens).find(|mechanism| mechanism.name() == name)
    }
}

/// Channel binding data of the connection, by the names of RFC 5929 and 9266.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// The binding `tls-exporter` (RFC 9266).
    pub tls_exporter: Option<Box<[u8]>>,
    /// The binding `tls-server-end-point` (RFC 5929).
    pub tls_server_end_point: Option<Box<[u8]>>,
}

impl Bindings {
    /// True without any binding.
    pub fn is_empty(&self) -> bool {
        self.names().next().is_none()
    }

    /// As XEP-0440 announces them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let exporter = self.tls_exporter.is_some().then_some("tls-exporter");
        let end_point = self.tls_server_end_point.is_some().then_some("tls-server-end-point");
        [exporter, end_point].into_iter().flatten()
    }

    fn find(&self, name: &str) -> Option<&[u8]> {
        match name {
            "tls-exporter" => self.tls_exporter.as_deref(),
            "tls-server-end-point" => self.tls_server_end_point.as_deref(),
            _ => None,
        }
    }
}

/// The connection of an exchange.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The channel bindings of the connection.
    pub bindings: Bindings,
    /// The mechanisms and bindings that were offered, for XEP-0474.
    pub offered: Vec<&'static str>,
    /// A user of the certificate that the client showed, where it was verified.
    pub certified: Option<Box<str>>,
    /// Ours, for SCRAM: unpredictable and printable.
    pub nonce: Box<str>,
    /// The domain of the stream.
    pub domain: Box<str>,
    /// Makes keys for unknown accounts, which look as others do, so that challenges do not show which accounts exist.
    pub secret: [u8; 32],
    /// The parameters that unknown accounts seem to have.
    pub looks: UnknownAccounts,
    /// The client's own id, which its tokens are of (XEP-0388 §2.3.1).
    pub agent: Option<Box<str>>,
    /// The number of times that the client has used its token, as it says (XEP-0484 §3.4).
    pub count: Option<u64>,
    /// The bare address in `from` of the stream's header, where an authorization identity has to match it (XEP-0388 §2.3).
    pub caller: Option<Box<str>>,
    /// The URL of the configuration of the OpenID provider that gives tokens of this domain (RFC 7628 §3.2.2).
    pub openid_configuration: Option<Box<str>>,
}

/// The answer to a [`CredentialQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialAnswer {
    /// Keys of the mechanism's hash.
    Keys(Keys),
    /// True if the password that was sent is the account's.
    Password(bool),
    /// There is such an account, and it may sign in.
    Account,
    /// The proof may be checked.
    Proof,
    /// The token is of this user, who has an account.
    User(Box<str>),
    /// The tokens of one client.
    Tokens(Vec<Token>),
    /// No such account, or none that may sign in so.
    NoAccount,
    /// The store could not be asked.
    Unavailable,
}

/// A query for the credentials of an account, which the driver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialQuery {
    /// The keys of an account.
    Keys {
        /// The local part of the address.
        user: Box<str>,
        /// The hash of the keys.
        hash: Hash,
    },
    /// The check of a password.
    Password {
        /// The local part of the address.
        user: Box<str>,
        /// The password that the client sent.
        password: Secret,
    },
    /// The check of a token of an identity provider.
    Bearer {
        /// The local part of the address that the client named; empty if it named none. The token names the user.
        user: Box<str>,
        /// The token.
        token: Secret,
    },
    /// The existence of an account; a certificate has proved its identity.
    Account {
        /// The local part of the address.
        user: Box<str>,
    },
    /// The tokens of one of its clients.
    Tokens {
        /// The local part of the address.
        user: Box<str>,
        /// The id of the client.
        agent: Box<str>,
    },
    /// The check of a proof that was made of an account's keys, which the exchange has: others may have failed for this account since the
    /// challenge, so that the client has to wait.
    Proof {
        /// The local part of the address.
        user: Box<str>,
    },
}

impl CredentialQuery {
    /// As the client named itself.
    pub fn user(&self) -> &str {
        match self {
            CredentialQuery::Keys { user, .. }
            | CredentialQuery::Password { user, .. }
            | CredentialQuery::Bearer { user, .. }
            | CredentialQuery::Account { user }
            | CredentialQuery::Tokens { user, .. }
            | CredentialQuery::Proof { user } => user,
        }
    }
}

/// Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Box<str>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The next step of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the client, and wait for its response.
    Challenge(Vec<u8>),
    /// Answer the query; then the exchange goes on.
    Find(CredentialQuery),
    /// Signed in. `last` is for the client.
    Success {
        /// The authenticated identity.
        user: Identity,
        /// The last data for the client.
        last: Option<Vec<u8>>,
    },
    /// The exchange has failed.
    Failure(Failure),
}

/// The identity that was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A local part as the client sent it.
    User(Box<str>),
    /// An anonymous identity, for as long as the stream lasts.
    Anonymous,
}

/// RFC 6120 §6.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `aborted`.
    Aborted,
    /// `credentials-expired`.
    CredentialsExpired,
    /// `incorrect-encoding`.
    IncorrectEncoding,
    /// `invalid-authzid`.
    InvalidAuthzid,
    /// `invalid-mechanism`.
    InvalidMechanism,
    /// `malformed-request`.
    MalformedRequest,
    /// `not-authorized`.
    NotAuthorized,
    /// `temporary-auth-failure`.
    TemporaryAuthFailure,
    /// `credentials-expired`: the token is not, or not any more, one of the client's.
    TokenRefused,
}

impl Failure {
    /// The condition's name on the wire (RFC 6120 §6.5).
    pub fn condition(self) -> &'static str {
        match self {
            Failure::Aborted => "aborted",
            Failure::CredentialsExpired | Failure::TokenRefused => "credentials-expired",
            Failure::IncorrectEncoding => "incorrect-encoding",
            Failure::InvalidAuthzid => "invalid-authzid",
            Failure::InvalidMechanism => "invalid-mechanism",
            Failure::MalformedRequest => "malformed-request",
            Failure::NotAuthorized => "not-authorized",
            Failure::TemporaryAuthFailure => "temporary-auth-failure",
        }
    }
}

/// The text of `<auth>` or `<response>`: base64, with `=` for nothing (RFC 6120 §6.4.2).
///
/// # Errors
/// `incorrect-encoding`.
pub fn decode(text: &str) -> Result<Option<Vec<u8>>, Failure> {
    match text {
        "" => Ok(None),
        "=" => Ok(Some(Vec::new())),
        _ => STANDARD.decode(text).map(Some).map_err(|_| Failure::IncorrectEncoding),
    }
}

/// The other way round.
pub fn encode(bytes: &[u8]) -> String {
    if bytes.is_empty() { "=".to_owned() } else { STANDARD.encode(bytes) }
}

/// One attempt to sign in.
#[derive(Debug)]
pub struct Exchange {
    context: Context,
    state: ExchangeState,
    /// The one that let it in.
    token: Option<Token>,
}

#[derive(Debug)]
enum ExchangeState {
    /// The client's first words are not here.
    First(Mechanism),
    Scram(Scram),
    /// The client's proof is here, and may not be checked yet.
    ScramProof(Scram, Vec<u8>),
    /// For the account's word on a password, or on whether it is there.
    Password(Box<str>),
    Account(Box<str>),
    Token(ht::Proof),
    /// For the verdict on a token. The user that the client named, or nothing.
    Bearer(Box<str>),
    /// The client was told that its token is refused (RFC 7628 §3.2.3), and its answer is next.
    BearerRefused,
    Over,
}

impl Exchange {
    /// `initial` came with the choice, where it did.
    pub fn start(mechanism: Mechanism, initial: Option<&[u8]>, context: Context) -> (Exchange, Step) {
        let mut exchange = Exchange { context, state: ExchangeState::First(mechanism), token: None };
        let step = match initial {
            Some(initial) => exchange.respond(initial),
            None => Step::Challenge(Vec::new()),
        };
        (exchange, step)
    }

    /// True if the account's word is awaited.
    pub fn is_finding(&self) -> bool {
        match &self.state {
            ExchangeState::Password(_)
            | ExchangeState::Account(_)
            | ExchangeState::Token(_)
            | ExchangeState::Bearer(_)
            | ExchangeState::ScramProof(..) => true,
            ExchangeState::Scram(scram) => !scram.has_challenged(),
            ExchangeState::First(_) | ExchangeState::BearerRefused | ExchangeState::Over => false,
        }
    }

    /// True if the client was told of an account's keys, or that its token is refused, and has not answered.
    pub fn has_challenged(&self) -> bool {
        match &self.state {
            ExchangeState::Scram(scram) => scram.has_challenged(),
            ExchangeState::ScramProof(..) => true,
            state => matches!(state, ExchangeState::BearerRefused),
        }
    }

    /// The token that it was signed in by.
    pub fn take_token(&mut self) -> Option<Token> {
        self.token.take()
    }

    /// The client answered a challenge.
    pub fn respond(&mut self, response: &[u8]) -> Step {
        let step = match std::mem::replace(&mut self.state, ExchangeState::Over) {
            ExchangeState::First(mechanism) => self.first(mechanism, response),
            ExchangeState::Scram(scram) => {
                let user = scram.user().into();
                self.state = ExchangeState::ScramProof(scram, response.to_vec());
                Ok(Step::Find(CredentialQuery::Proof { user }))
            }
            // RFC 7628 §3.2.3: whatever it says.
            ExchangeState::BearerRefused => Err(Failure::NotAuthorized),
            ExchangeState::Bearer(_)
            | ExchangeState::Password(_)
            | ExchangeState::Account(_)
            | ExchangeState::Token(_)
            | ExchangeState::ScramProof(..)
            | ExchangeState::Over => Err(Failure::MalformedRequest),
        };
        step.unwrap_or_else(Step::Failure)
    }

    /// Takes the answer to `Step::Find`.
    pub fn give(&mut self, known: CredentialAnswer) -> Step {
        let step = match (std::mem::replace(&mut self.state, ExchangeState::Over), known) {
            (_, CredentialAnswer::Unavailable) => Err(Failure::TemporaryAuthFailure),
            (ExchangeState::Password(user), CredentialAnswer::Password(true)) => {
                Ok(Step::Success { user: Identity::User(user), last: None })
            }
            (ExchangeState::ScramProof(scram, proof), CredentialAnswer::Proof) => scram.finish(&proof),
            (ExchangeState::Account(user), CredentialAnswer::Account) => {
                Ok(Step::Success { user: Identity::User(user), last: None })
            }
            // No user acts for another.
            (ExchangeState::Bearer(named), CredentialAnswer::User(user))
                if named.is_empty() || named == user =>
            {
                Ok(Step::Success { user: Identity::User(user), last: None })
            }
            (ExchangeState::Bearer(_), _) => {
                self.state = ExchangeState::BearerRefused;
                Ok(Step::Challenge(bearer::refused(self.context.openid_configuration.as_deref())))
            }
            (ExchangeState::Token(proof), CredentialAnswer::Tokens(tokens)) => {
                proof.check(tokens, self.context.count).map(|(token, step)| {
                    self.token = Some(token);
                    step
                })
            }
            // As for a client without tokens: the answer does not show which accounts exist.
            (ExchangeState::Token(_), _) => Err(Failure::TokenRefused),
            (ExchangeState::Scram(mut scram), CredentialAnswer::Keys(keys)) => {
                let challenge = scram.challenge(keys, true, &self.context);
                self.state = ExchangeState::Scram(scram);
                Ok(Step::Challenge(challenge))
            }
            // As if the account existed: the client learns nothing until the proof, which cannot be right.
            (ExchangeState::Scram(mut scram), CredentialAnswer::NoAccount) => {
                let keys = unknown::keys(scram.hash(), scram.user(), &self.context);
                let challenge = scram.challenge(keys, false, &self.context);
                self.state = ExchangeState::Scram(scram);
                Ok(Step::Challenge(challenge))
            }
            _ => Err(Failure::NotAuthorized),
        };
        step.unwrap_or_else(Step::Failure)
    }

    fn first(&mut self, mechanism: Mechanism, message: &[u8]) -> Result<Step, Failure> {
        match mechanism {
            Mechanism::Scram { hash, plus } => {
                let scram = Scram::first(hash, plus, message, &self.context)?;
                let find = CredentialQuery::Keys { user: scram.user().into(), hash };
                self.state = ExchangeState::Scram(scram);
                Ok(Step::Find(find))
            }
            Mechanism::Plain => {
                let (user, password) = plain(message, &self.context)?;
                self.state = ExchangeState::Password(user.clone());
                Ok(Step::Find(CredentialQuery::Password { user, password }))
            }
            Mechanism::OAuthBearer => {
                let (user, token) = bearer::read(message, &self.context)?;
                self.state = ExchangeState::Bearer(user.clone());
                Ok(Step::Find(CredentialQuery::Bearer { user, token }))
            }
            Mechanism::External => {
                let user = external(message, &self.context)?;
                self.state = ExchangeState::Account(user.clone());
                Ok(Step::Find(CredentialQuery::Account { user }))
            }
            Mechanism::HashedToken(binding) => {
                let agent = self.context.agent.clone().ok_or(Failure::MalformedRequest)?;
                let proof = ht::Proof::read(binding, message, &self.context.bindings)?;
                let user = proof.user().into();
                self.state = ExchangeState::Token(proof);
                Ok(Step::Find(CredentialQuery::Tokens { user, agent }))
            }
            Mechanism::Anonymous => Ok(Step::Success { user: Identity::Anonymous, last: None }),
        }
    }
}

/// RFC 4616: `authzid NUL authcid NUL password`.
fn plain(message: &[u8], context: &Context) -> Result<(Box<str>, Secret), Failure> {
    let text = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
    let mut parts = text.split('\0');
    let (Some(authorized), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Failure::MalformedRequest);
    };
    if user.is_empty() || password.is_empty() {
        return Err(Failure::MalformedRequest);
    }
    is_self(authorized, user, context)?;
    Ok((user.into(), Secret(password.into())))
}

/// The user that the certificate names (XEP-0178 §2); the store decides if the user may sign in.
fn external(message: &[u8], context: &Context) -> Result<Box<str>, Failure> {
    let user = context.certified.as_deref().ok_or(Failure::NotAuthorized)?;
    let authorized = std::str::from_utf8(message).map_err(|_| Failure::MalformedRequest)?;
    is_self(authorized, user, context)?;
    Ok(user.into())
}

/// No user acts for another. Clients send nothing, the user, or the user's whole address in the domain of the stream
/// (RFC 6120 §6.3.8).
fn is_self(authorized: &str, user: &str, context: &Context) -> Result<(), Failure> {
    if authorized.is_empty() {
        return Ok(());
    }
    let (local, domain) = authorized.split_once('@').unwrap_or((authorized, &context.domain));
    let address = Jid::parse(&format!("{local}@{domain}")).map_err(|_| Failure::InvalidAuthzid)?;
    let is_callers = context.caller.as_deref().is_none_or(|caller| caller == address.bare_str());
    if local == user && *address.domain() == *context.domain && is_callers {
        Ok(())
    } else {
        Err(Failure::InvalidAuthzid)
    }
}
