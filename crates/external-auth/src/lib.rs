//! Sign-in by sources outside the database, one for each domain that has one: LDAP and Active Directory ([`ldap`]), an HTTP
//! service ([`http`]), JSON web tokens ([`jwt`]), for which a browser is sent to an OpenID provider ([`provider`]), a file of
//! accounts ([`file`]).
//!
//! A shard hands a [`Query`] to the [`Authenticator`] and goes on; the thread of the authenticator asks the source and calls
//! back with a [`Verdict`]. Queries that wait, queries under way and the time of each are bounded for each source, so that a
//! source that does not answer hinders no other domain. Accounts are not the business of this crate: the caller looks for
//! the account of the user that a verdict names, or makes it.

#![warn(missing_docs)]

mod answers;
mod authenticator;
mod file;
mod http;
mod issuer_check;
mod jwt;
mod keys;
mod ldap;
mod limits;
mod provider;
mod remembered;
mod settings;
mod tls;
mod token;

pub use answers::{Answer, AnswerReceiver, MemberAnswer, PageAnswer, RoleAnswer, TokenAnswer};
pub use authenticator::{Authenticator, Credential, Query, RoleVerdict, Verdict};
pub use file::{FileAccounts, FileSettings, LineFault, ScramSha256Keys, is_open_to_others, read_accounts};
pub use http::client as http_client;
pub use issuer_check::{IssuerConfiguration, IssuerReport};
pub use ldap::{DirectoryRole, FilterTemplate, GroupFilter, GroupSettings, MemberForm, NameTemplate};
pub use provider::{AuthorizationQuery, CodeQuery};
pub use settings::{
    BodyForm, GroupTimes, Hidden, HttpSettings, JwtSettings, KeySource, LdapLookup, LdapSecurity,
    LdapSettings, ProviderSettings, SourceKind, SourceSettings, is_loopback,
};
pub use token::{TokenRoles, TokenUse, TokenUser, TokenVerdict};

/// No source could give a verdict: the reason, for the operator. It holds no password and no token.
#[derive(Debug)]
pub(crate) struct SourceFailure(pub(crate) String);

impl SourceFailure {
    pub(crate) fn new(what: impl std::fmt::Display) -> SourceFailure {
        SourceFailure(what.to_string())
    }
}

impl std::fmt::Display for SourceFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
