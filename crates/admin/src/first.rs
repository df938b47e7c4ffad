//! The account that a new server has, and new tokens for accounts: what a command of the operator does.

use store::rest::token::TokenVerifier;
use store::rest::types::{Common, RestAccount};
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite};
use store::{Loaded, Read, StoreError, Write};

use crate::control::ControlPlane;
use crate::service::{Repository, sid, token};

/// Sid and token of an account. The token is nowhere else: it is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub sid: String,
    pub token: String,
    /// Signs requests to the account's applications (`X-Twilio-Signature`).
    pub signing_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}, hidden)", self.sid)
    }
}

/// Makes the first account when there is none. `None`: there is one already.
pub fn ensure_account(
    repository: &dyn Repository,
    control: &dyn ControlPlane,
) -> Result<Option<Credentials>, StoreError> {
    let filter = RestFilter { limit: 1, ..RestFilter::all(Kind::Account) };
    match repository.read(Read::Rest(RestRead::List(filter)))? {
        Loaded::Rest(RestLoaded::Page { total: 0, .. }) => {}
        _ => return Ok(None),
    }
    let (account, token) = new_account(control, None, "Default account");
    let credentials =
        Credentials { sid: account.common.sid.clone(), token, signing_key: account.signing_key.clone() };
    repository.write(Write::Rest(RestWrite::Insert(Box::new(account.row()?))))?;
    Ok(Some(credentials))
}

/// Gives an account a new token, for who lost it. The old one signs in no more.
pub fn renew_token(
    repository: &dyn Repository,
    control: &dyn ControlPlane,
    sid: &str,
) -> Result<Credentials, StoreError> {
    let read = RestRead::Sid { kind: Kind::Account, sid: sid.into() };
    let Loaded::Rest(RestLoaded::Row(Some(row))) = repository.read(Read::Rest(read))? else {
        return Err(StoreError::NotFound { what: format!("account {sid}") });
    };
    let mut account = RestAccount::from_row(&row)?;
    let token = token(control);
    account.token = TokenVerifier::new(&token, salt(control));
    account.common.updated_at = control.now();
    repository.write(Write::Rest(RestWrite::Replace(Box::new(account.row()?))))?;
    Ok(Credentials { sid: sid.into(), token, signing_key: account.signing_key })
}

pub(crate) fn new_account(
    control: &dyn ControlPlane,
    parent: Option<&str>,
    friendly_name: &str,
) -> (RestAccount, String) {
    let (now, sid, secret) = (control.now(), sid("AC", control), token(control));
    let account = RestAccount {
        common: Common { account: sid.clone(), sid, created_at: now, updated_at: now },
        parent: parent.map(str::to_owned),
        friendly_name: friendly_name.into(),
        email: String::new(),
        status: "active".into(),
        token: TokenVerifier::new(&secret, salt(control)),
        signing_key: token(control),
    };
    (account, secret)
}

pub(crate) fn salt(control: &dyn ControlPlane) -> [u8; 16] {
    let mut salt = [0; 16];
    control.fill_random(&mut salt);
    salt
}
