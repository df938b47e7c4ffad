//! The account that a new server has, and new tokens for accounts: what a command of the operator does.
//!
//! Used by the node at its start ([`ensure_account`]) and by `belfry rest token` ([`renew_token`]); `resources::accounts` shares the making of
//! accounts.

use store::rest::token::TokenVerifier;
use store::rest::types::{Common, RestAccount};
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite};
use store::{Loaded, Read, StoreError, Write};

use crate::control::Source;
use crate::service::{Repository, sid, token};

/// Sid and token of an account. The token is nowhere else: it is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The account's sid, the name in Basic authentication.
    pub sid: String,
    /// The token, the password in Basic authentication.
    pub token: String,
    /// Signs requests to the account's applications (`X-Twilio-Signature`): the token, unless another key was set.
    pub signing_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}, hidden)", self.sid)
    }
}

/// Makes the first account, with this sid: when there is no account yet, or `given` is its token, which then counts
/// whatever the record says. `None`: there was nothing to make; the sid and token are not new.
pub fn ensure_account(
    repository: &dyn Repository,
    source: &dyn Source,
    sid: &str,
    given: Option<&str>,
) -> Result<Option<Credentials>, StoreError> {
    if let Some(mut account) = account(repository, sid)? {
        // The configuration's token signs as well: it is the key of the numbers in the configuration.
        if let Some(given) =
            given.filter(|given| !account.token.is_of(given) || account.signing_key != *given)
        {
            account.token = TokenVerifier::new(given, salt(source));
            account.signing_key = given.to_owned();
            account.common.updated_at = source.now();
            repository.write(Write::Rest(RestWrite::Replace(Box::new(account.row()?))))?;
        }
        return Ok(None);
    }
    let filter = RestFilter { limit: 1, ..RestFilter::all(Kind::Account) };
    let is_first = matches!(
        repository.read(Read::Rest(RestRead::List(filter)))?,
        Loaded::Rest(RestLoaded::Page { total: 0, .. })
    );
    if !is_first && given.is_none() {
        return Ok(None);
    }
    let (mut account, mut token) = new_account(source, None, "Default account");
    account.common.sid = sid.to_owned();
    account.common.account = sid.to_owned();
    if let Some(given) = given {
        given.clone_into(&mut token);
        account.token = TokenVerifier::new(given, salt(source));
        account.signing_key = given.to_owned();
    }
    repository.write(Write::Rest(RestWrite::Insert(Box::new(account.row()?))))?;
    Ok(Some(Credentials { sid: sid.to_owned(), token, signing_key: account.signing_key }))
}

/// The account of a sid.
fn account(repository: &dyn Repository, sid: &str) -> Result<Option<RestAccount>, StoreError> {
    match repository.read(Read::Rest(RestRead::Sid { kind: Kind::Account, sid: sid.into() }))? {
        Loaded::Rest(RestLoaded::Row(Some(row))) => RestAccount::from_row(&row).map(Some),
        _ => Ok(None),
    }
}

/// Gives an account a new token, to replace a lost one. The old one signs in no more.
pub fn renew_token(
    repository: &dyn Repository,
    source: &dyn Source,
    sid: &str,
) -> Result<Credentials, StoreError> {
    let missing = || StoreError::NotFound { what: format!("account {sid}") };
    let mut account = account(repository, sid)?.ok_or_else(missing)?;
    let token = token(source);
    set_token(&mut account, &token, source);
    account.common.updated_at = source.now();
    repository.write(Write::Rest(RestWrite::Replace(Box::new(account.row()?))))?;
    Ok(Credentials { sid: sid.into(), token, signing_key: account.signing_key })
}

/// Replaces the token. An account that signed with the old token signs with the new one; a signing key of its own stays.
pub(crate) fn set_token(account: &mut RestAccount, token: &str, source: &dyn Source) {
    if account.is_signed_by_token() {
        token.clone_into(&mut account.signing_key);
    }
    account.token = TokenVerifier::new(token, salt(source));
}

/// A new, active account and its token. Requests to its applications are signed with the token, as Twilio's libraries
/// expect.
pub(crate) fn new_account(
    source: &dyn Source,
    parent: Option<&str>,
    friendly_name: &str,
) -> (RestAccount, String) {
    let (now, sid, secret) = (source.now(), sid("AC", source), token(source));
    let account = RestAccount {
        common: Common { account: sid.clone(), sid, created_at: now, updated_at: now },
        parent: parent.map(str::to_owned),
        friendly_name: friendly_name.into(),
        email: String::new(),
        status: "active".into(),
        token: TokenVerifier::new(&secret, salt(source)),
        signing_key: secret.clone(),
    };
    (account, secret)
}

/// 16 random bytes, new for each verifier.
pub(crate) fn salt(source: &dyn Source) -> [u8; 16] {
    let mut salt = [0; 16];
    source.fill_random(&mut salt);
    salt
}
