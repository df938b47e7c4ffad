//! The settings of sources, as `belfry.toml` gives them.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::file::FileSettings;
use crate::ldap::{FilterTemplate, GroupSettings, NameTemplate};
use crate::provider::configuration_url;
use crate::token::{TokenRoles, TokenUse};

/// A password or a token, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub Box<str>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// The source of one domain.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// The domain whose users it knows.
    pub domain: Box<str>,
    /// The protocol.
    pub kind: SourceKind,
    /// A query without a verdict after this time is unavailable.
    pub timeout: Duration,
    /// A password that was right counts as right for so long without asking again; zero: the source is asked each time.
    pub remember: Duration,
    /// The digests of a password that was right are kept in the database for so long, for phones (SIP digest); zero: they are
    /// not kept.
    pub keep_digests: Duration,
}

/// The protocol of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    /// LDAP (RFC 4511).
    Ldap(Box<LdapSettings>),
    /// An HTTP service.
    Http(Box<HttpSettings>),
    /// JSON web tokens (RFC 7519).
    Jwt(Box<JwtSettings>),
    /// A file of accounts.
    File(Box<FileSettings>),
}

/// The times of answers about groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTimes {
    /// The age of an answer at which the source is asked again.
    pub refresh: Duration,
    /// The age of the last answer up to which it counts while the source gives no other.
    pub keep: Duration,
}

/// A file answers at once, so that it is asked often, and an old answer never has to count for long.
const TIMES_OF_FILE: GroupTimes =
    GroupTimes { refresh: Duration::from_secs(10), keep: Duration::from_secs(60) };

impl SourceSettings {
    /// True if groups or tokens of the source give roles at the console.
    pub fn gives_roles(&self) -> bool {
        let groups = match &self.kind {
            SourceKind::Ldap(ldap) => ldap.groups.as_ref().map(|groups| &groups.roles),
            SourceKind::File(file) => Some(&file.roles),
            SourceKind::Http(_) | SourceKind::Jwt(_) => None,
        };
        self.token_roles().is_some() || groups.is_some_and(|roles| !roles.is_empty())
    }

    /// The claim of tokens that gives roles. `None`: tokens give none.
    pub fn token_roles(&self) -> Option<&TokenRoles> {
        match &self.kind {
            SourceKind::Jwt(jwt) => jwt.roles.as_ref(),
            SourceKind::Ldap(_) | SourceKind::Http(_) | SourceKind::File(_) => None,
        }
    }

    /// The provider to which the console's page sends users of the domain. `None`: to none.
    pub fn provider(&self) -> Option<&ProviderSettings> {
        match &self.kind {
            SourceKind::Jwt(jwt) => jwt.provider.as_ref(),
            SourceKind::Ldap(_) | SourceKind::Http(_) | SourceKind::File(_) => None,
        }
    }

    /// The URL of the configuration of that provider (OpenID Connect Discovery 1.0 §4). `None`: the issuer is known by its name only.
    pub fn openid_configuration(&self) -> Option<String> {
        match &self.kind {
            SourceKind::Jwt(jwt) if jwt.provider.is_some() => Some(configuration_url(&jwt.issuer)),
            SourceKind::Jwt(_) | SourceKind::Ldap(_) | SourceKind::Http(_) | SourceKind::File(_) => None,
        }
    }

    /// The intervals at which the groups that give roles or are in rosters are asked for. `None`: the source has no groups.
    pub fn group_times(&self) -> Option<GroupTimes> {
        match &self.kind {
            SourceKind::Ldap(ldap) => {
                let times =
                    |groups: &GroupSettings| GroupTimes { refresh: groups.refresh, keep: groups.keep };
                ldap.groups.as_ref().map(times)
            }
            SourceKind::File(_) => Some(TIMES_OF_FILE),
            SourceKind::Http(_) | SourceKind::Jwt(_) => None,
        }
    }
}

impl SourceKind {
    /// True if users prove themselves by tokens, not by passwords.
    pub fn is_by_token(&self) -> bool {
        matches!(self, SourceKind::Jwt(_))
    }

    /// The name of the protocol, in the configuration and in logs.
    pub fn name(&self) -> &'static str {
        match self {
            SourceKind::Ldap(_) => "ldap",
            SourceKind::Http(_) => "http",
            SourceKind::Jwt(_) => "jwt",
            SourceKind::File(_) => "file",
        }
    }

    /// The files that are named.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let mut secret = None;
        let (authorities, other) = match self {
            SourceKind::Ldap(ldap) => {
                let LdapSettings { authorities, lookup, .. } = &mut **ldap;
                let other = match lookup {
                    LdapLookup::Search { bind: Some((_, file)), .. } => Some(file),
                    LdapLookup::Search { .. } | LdapLookup::Template(_) => None,
                };
                (authorities.as_mut(), other)
            }
            SourceKind::Http(http) => (http.authorities.as_mut(), http.token_file.as_mut()),
            SourceKind::Jwt(jwt) => {
                let JwtSettings { authorities, keys, provider, .. } = &mut **jwt;
                let other = match keys {
                    KeySource::File(file) => Some(file),
                    KeySource::Url(_) => None,
                };
                secret = provider.as_mut().and_then(|provider| provider.client_secret_file.as_mut());
                (authorities.as_mut(), other)
            }
            SourceKind::File(file) => (None, Some(&mut file.path)),
        };
        authorities.into_iter().chain(other).chain(secret)
    }
}

/// A directory.
#[derive(Clone, Debug, PartialEq)]
pub struct LdapSettings {
    /// A name or an address.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
    /// The protection of the connection.
    pub security: LdapSecurity,
    /// PEM: the authorities of the directory's certificate. `None`: the system's.
    pub authorities: Option<PathBuf>,
    /// The way from a user's name to the name that the directory takes.
    pub lookup: LdapLookup,
    /// The groups that give roles or are in rosters; with a search for users only. `None`: none.
    pub groups: Option<GroupSettings>,
}

/// The protection of a connection with a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdapSecurity {
    /// None; the configuration allows it on loopback only.
    Clear,
    /// StartTLS (RFC 4511 §4.14), before anything else is sent.
    StartTls,
    /// TLS from the first byte: `ldaps`.
    Tls,
}

/// The way from a user's name to the name that the directory takes in a bind.
#[derive(Clone, Debug, PartialEq)]
pub enum LdapLookup {
    /// The user's entry is searched, and has to be the only one.
    Search {
        /// The account that searches, and the file whose first line is its password. `None`: anonymous.
        bind: Option<(Box<str>, PathBuf)>,
        /// The entry below which users are.
        base: Box<str>,
        /// The filter of the user's entry.
        filter: FilterTemplate,
    },
    /// The name follows from the user's.
    Template(NameTemplate),
}

/// The form of a request to an HTTP service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// `application/x-www-form-urlencoded`.
    Form,
    /// `application/json`.
    Json,
}

/// An HTTP service.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    /// The URL that is asked.
    pub url: Box<str>,
    /// The form of the request.
    pub form: BodyForm,
    /// The file whose first line is sent as `Authorization: Bearer`.
    pub token_file: Option<PathBuf>,
    /// PEM: the authorities of the service's certificate. `None`: the system's.
    pub authorities: Option<PathBuf>,
}

/// The tokens that are accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtSettings {
    /// The keys of the issuer.
    pub keys: KeySource,
    /// PEM: the authorities of the certificate of the keys' URL. `None`: the system's.
    pub authorities: Option<PathBuf>,
    /// `iss` of a token.
    pub issuer: Box<str>,
    /// `aud` of a token, or one of them.
    pub audience: Box<str>,
    /// The claim that names the user.
    pub user_claim: Box<str>,
    /// The difference of clocks that is tolerated.
    pub leeway: Duration,
    /// The claim that gives roles at the console. `None`: tokens give none.
    pub roles: Option<TokenRoles>,
    /// The claim that names an account of REST. `None`: tokens do not sign in there.
    pub account_claim: Option<Box<str>>,
    /// The provider to which the console's page sends users. `None`: to none.
    pub provider: Option<ProviderSettings>,
}

impl JwtSettings {
    /// True if the tokens are for this use.
    pub(crate) fn are_for(&self, purpose: TokenUse) -> bool {
        match purpose {
            TokenUse::Console => self.roles.is_some(),
            TokenUse::Rest => self.account_claim.is_some(),
        }
    }
}

/// An OpenID provider (OpenID Connect Core 1.0) at which this service is a client. Its issuer is that of the tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSettings {
    /// `client_id` of this service, and the audience of its ID tokens.
    pub client_id: Box<str>,
    /// The file whose first line is the client's secret. `None`: a public client, of which PKCE alone proves that it asks.
    pub client_secret_file: Option<PathBuf>,
    /// Scopes that are asked for; `openid` is one of them.
    pub scopes: Vec<Box<str>>,
    /// The provider's name for people.
    pub label: Box<str>,
    /// The longest time of a session: the claims count so long.
    pub session: Duration,
    /// `client_id` of the users' page, a public client that asks for tokens of chat. `None`: the page sends no user there.
    pub app_client_id: Option<Box<str>>,
}

/// The source of a key set (RFC 7517).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file, which is read again when a token names an unknown key.
    File(PathBuf),
    /// A URL of HTTPS, or of HTTP on loopback.
    Url(Box<str>),
}

/// True for a host of this machine, which may be spoken with in the clear.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The secret in a file: its first line.
///
/// # Errors
/// A file that cannot be read, or whose first line is empty.
pub(crate) fn first_line(file: &Path) -> Result<Box<str>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("the secret of {}", file.display()))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.into()),
        _ => bail!("{}: its first line is empty; expected a secret there", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        for host in ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["localhost.example.net", "10.0.0.1", "example.net", "", "::"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_hidden_text_is_not_shown() {
        assert!(!format!("{:?}", Hidden("hush".into())).contains("hush"));
    }
}
