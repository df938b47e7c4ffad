//! Sign-in by a token of an identity provider (RFC 6750), which names an account by its sid.
//!
//! The node checks the token with each request, as for chat (`ControlPlane::check_identity_token`), so that it counts up to its end and not longer. Such a
//! request reaches what one with an API key reaches: the account that is named, and neither accounts, keys nor accounts below it.

use std::collections::VecDeque;
use std::net::IpAddr;

use stdx::attempts::Cause;
use store::rest::types::RestAccount;
use store::{Address, Loaded, Read};

use crate::control::IdentityVerdict;
use crate::fault::Fault;
use crate::limits;
use crate::service::State;
use crate::sign_in::{SignInError, Signer, active};

/// The token in the value of `Authorization` (RFC 6750 §2.1). Other schemes have none.
pub fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// The account that a token names.
pub(crate) fn signer(state: &State, from: IpAddr, token: &str) -> Result<Signer, SignInError> {
    let (user, sid) = match state.control.check_identity_token(token) {
        IdentityVerdict::Accepted { user, account } => (user, account),
        IdentityVerdict::Refused => return Err(SignInError::Failed(Cause::WrongPassword)),
        // As any other value that cannot be a sign-in here.
        IdentityVerdict::NoSource => return Err(SignInError::Failed(Cause::Malformed)),
        IdentityVerdict::Unavailable => {
            let message = "The token cannot be checked now: the keys of its issuer are not known";
            return Err(Fault::new(503, 20503, message).into());
        }
    };
    // By the sid only: an e-mail address is changed by its account.
    let account: Option<RestAccount> = if sid.starts_with("AC") { state.get(&sid)? } else { None };
    let Some(account) = account.filter(|account| account.common.sid == *sid) else {
        return Err(SignInError::Failed(Cause::UnknownAccount));
    };
    if !state.may_sign_in(&user)? {
        return Err(SignInError::Failed(Cause::UnknownAccount));
    }
    active(state, &account)?;
    if state.identity_tokens().insert(state.hash(token)) {
        state.control.identity_signed_in(from, &account.common.sid, &user);
    }
    Ok(Signer { account, is_by_key: true })
}

impl State {
    /// False for a user whose account of chat is disabled, and for an alias of another account. An account is not needed.
    fn may_sign_in(&self, user: &Address) -> Result<bool, Fault> {
        let read = Read::Account { user: user.user.clone(), domain: user.domain.clone() };
        Ok(match self.repository.read(read)? {
            Loaded::Account(Some(account)) => !account.disabled && account.address() == *user,
            Loaded::Account(None) => true,
            _ => false,
        })
    }
}

/// Hashes of the tokens that have signed in last, so that the audit log has each of them once.
#[derive(Debug, Default)]
pub(crate) struct IdentityTokens(VecDeque<u64>);

impl IdentityTokens {
    /// True if it was not there. One more takes the place of the oldest.
    fn insert(&mut self, hash: u64) -> bool {
        if self.0.contains(&hash) {
            return false;
        }
        if self.0.len() >= limits::IDENTITY_TOKENS {
            self.0.pop_front();
        }
        self.0.push_back(hash);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_in_a_field_of_its_scheme_only() {
        assert_eq!(bearer("Bearer a.b.c"), Some("a.b.c"));
        assert_eq!(bearer("bearer  a.b.c "), Some("a.b.c"));
        for other in ["", "Bearer", "Bearer ", "Basic YTpi", "a.b.c", "Bearers a.b.c"] {
            assert_eq!(bearer(other), None, "{other}");
        }
    }

    #[test]
    fn a_token_is_new_once_and_those_that_are_kept_have_a_bound() {
        let mut tokens = IdentityTokens::default();
        assert!(tokens.insert(7) && !tokens.insert(7));
        for hash in 100..100 + limits::IDENTITY_TOKENS as u64 {
            assert!(tokens.insert(hash));
        }
        assert_eq!(tokens.0.len(), limits::IDENTITY_TOKENS);
        assert!(tokens.insert(7), "forgotten");
    }
}
