//! Authenticates requests: Basic authentication with sid (or e-mail address) and token of an account, or with sid and secret of an API key;
//! tokens of identity providers are checked in `identity`.
//!
//! [`signer`] is the account whose token or key was shown; [`target`] is the account that the path names, which must be the same or below it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stdx::attempts::Cause;
use store::rest::Kind;
use store::rest::key::ApiKey;
use store::rest::token::TokenVerifier;
use store::rest::types::RestAccount;

use crate::fault::Fault;
use crate::limits;
use crate::service::State;
use crate::table::Route;

/// Takes name and token out of an `Authorization` header (RFC 7617).
fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, value) = header.split_once(' ')?;
    // RFC 9110 §11.1: schemes are compared in any case. The bound is far above a sid and a token.
    if !scheme.eq_ignore_ascii_case("basic") || value.len() > 1_024 {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
    // RFC 7617 §2: the name has no colon, the password may have some.
    let (name, token) = text.split_once(':')?;
    Some((name.to_owned(), token.to_owned()))
}

/// The name that a request gives for itself; empty without one.
pub(crate) fn claimed(authorization: &str) -> String {
    basic(authorization).map(|(name, _)| name).unwrap_or_default()
}

/// The reason why a sign-in failed.
pub(crate) enum SignInError {
    /// Counts as a failed attempt.
    Failed(Cause),
    /// The record cannot be asked, or the account may do nothing.
    Fault(Fault),
}

impl From<Fault> for SignInError {
    fn from(fault: Fault) -> Self {
        SignInError::Fault(fault)
    }
}

/// The account that has signed in, and by what.
pub(crate) struct Signer {
    /// The account.
    pub(crate) account: RestAccount,
    /// True if it signed in by an API key or a token of an identity provider, which reach their own account only, and neither accounts nor keys.
    pub(crate) is_by_key: bool,
}

impl Signer {
    /// Twilio's error 20003: its standard keys reach neither `/Accounts` nor `/Keys`. A lost key cannot make others, and is withdrawn for good.
    pub(crate) fn check(&self, route: &Route) -> Result<(), Fault> {
        if self.is_by_key && route.is_for_tokens() {
            let message = "Authenticate: neither an API key nor a token of an identity provider manages accounts and keys, sign in with the account's token";
            return Err(Fault::new(401, 20003, message));
        }
        Ok(())
    }

    /// The account of the path: the signer's own, or for its token one below it.
    pub(crate) fn target(&self, state: &State, name: &str) -> Result<RestAccount, Fault> {
        target(state, (&self.account, self.is_by_key), name)
    }
}

/// The account whose token, or the secret of whose key, was shown. An unknown name costs as much time as a wrong token.
pub(crate) fn signer(state: &State, authorization: &str) -> Result<Signer, SignInError> {
    let (name, token) = basic(authorization).ok_or(SignInError::Failed(Cause::Malformed))?;
    // E-mail addresses of accounts may begin with any letters.
    let is_by_key = name.starts_with("SK") && !name.contains('@');
    let key: Option<ApiKey> = if is_by_key { state.get(&name)? } else { None };
    let account = match &key {
        Some(key) => state.get(&key.common.account)?,
        None if is_by_key => None,
        None => state.account(&name)?,
    };
    let verifier = match (&key, &account) {
        (Some(key), _) => key.secret.clone(),
        (None, Some(account)) => account.token.clone(),
        (None, None) => TokenVerifier::of_no_token(),
    };
    let is_right = verifier.is_of(&token);
    match account {
        Some(account) if is_right => {
            active(state, &account)?;
            Ok(Signer { account, is_by_key })
        }
        Some(_) => Err(SignInError::Failed(Cause::WrongPassword)),
        // The client gets the same answer as for a wrong token; the log tells them apart.
        None => Err(SignInError::Failed(Cause::UnknownAccount)),
    }
}

/// An account is as active as all above it.
pub(crate) fn active(state: &State, account: &RestAccount) -> Result<(), Fault> {
    let mut above = Some(account.clone());
    for _ in 0..limits::MAX_DEPTH {
        let Some(account) = above else { break };
        if account.status != "active" {
            return Err(Fault::new(403, 20005, format!("Account is {}", account.status)));
        }
        above = match &account.parent {
            Some(parent) => state.get(parent)?,
            None => None,
        };
    }
    Ok(())
}

/// The account of the path: the signer's own, or one below it. Others do not exist for the signer, and neither do those below it for a key.
pub(crate) fn target(
    state: &State,
    (signer, is_by_key): (&RestAccount, bool),
    name: &str,
) -> Result<RestAccount, Fault> {
    if name == signer.common.sid || (!name.is_empty() && name == signer.email) {
        return Ok(signer.clone());
    }
    // 404 and not 403: an answer must not tell which sids exist.
    let missing = || Fault::not_found(name);
    if is_by_key {
        return Err(missing());
    }
    let account = state.account(name)?.ok_or_else(missing)?;
    let mut above = account.parent.clone();
    for _ in 0..limits::MAX_DEPTH {
        let Some(parent) = above else { break };
        if parent == signer.common.sid {
            return Ok(account);
        }
        above = state.get::<RestAccount>(&parent)?.and_then(|account| account.parent);
    }
    Err(missing())
}

impl State {
    /// By sid or e-mail address.
    pub(crate) fn account(&self, name: &str) -> Result<Option<RestAccount>, Fault> {
        if name.contains('@') { self.by_name(Kind::Account, None, name) } else { self.get(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_basic_authentication_is_read() {
        assert_eq!(basic("Basic QUM6YTpi"), Some(("AC".into(), "a:b".into())));
        assert_eq!(basic("basic QUM6"), Some(("AC".into(), String::new())));
        for wrong in ["", "Basic", "Basic QUM", "Basic !!!", "Bearer QUM6", "Basic /////w=="] {
            assert_eq!(basic(wrong), None, "{wrong}");
        }
    }
}
