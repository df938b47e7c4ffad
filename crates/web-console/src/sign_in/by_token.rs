//! Sign-in by a token of the identity provider of a domain: at the page, with the account's address, and in each request, by `Authorization: Bearer`
//! (RFC 6750).
//!
//! A token is checked once, when its session begins. The session has the role that its claims give, and ends with it: the provider is not asked again, so a
//! user who has lost a role there has it here until the token's end. Requests with a token have a session as well, found by a keyed hash of the token, so that
//! they are bounded, stand in the log and end as all others do.

use std::net::IpAddr;

use axum::http::StatusCode;
use sha2::{Digest as _, Sha256};
use stdx::attempts::{Attempt, Cause, without_port};
use store::Address;

use super::{OpenCheck, User, begin_session, may_sign_in, pace, prepared, refuse, user_of};
use crate::directory::{TokenUser, TokenVerdict};
use crate::fault::Fault;
use crate::sessions::{Proof, SignedIn, Token};
use crate::state::{ActiveSettings, State};

/// The proof that a text is a token of this account. None: it is no token, or one of another account, and may be a password.
pub(super) async fn proof_of(state: &State, account: &Address, text: &str) -> Option<Proof> {
    let directory = state.directory.as_deref().filter(|_| state.takes_tokens(&account.domain))?;
    let text = text.trim();
    // Three parts (RFC 7515 §7.1): a password is not looked at as a token, which takes its time when refused.
    if text.split('.').count() != 3 {
        return None;
    }
    match directory.check_token(state.now(), &account.domain, text).await {
        TokenVerdict::Accepted(user) if prepared(&user.name, &account.domain).as_ref() == Some(account) => {
            Some(Proof::Token { role: user.role, ends_at: user.ends_at })
        }
        TokenVerdict::Accepted(_) | TokenVerdict::Refused | TokenVerdict::Unavailable => None,
    }
}

/// The user of a request that has a token. The first request begins the session.
pub(crate) async fn bearer_user(
    state: &State,
    settings: &ActiveSettings,
    (bearer, from): (&str, IpAddr),
    (by_user, is_change): (bool, bool),
) -> Result<User, Fault> {
    let hash = Sha256::new().chain_update(state.bearer_key).chain_update(bearer);
    let token: Token = hash.finalize().into();
    let is_known = state.sessions().find(state.now(), &token, by_user, settings.lifetimes()).is_some();
    if !is_known {
        let (account, user) = check_bearer(state, bearer, from).await?;
        let role = settings.settings.roles.of(&account).max(user.role);
        let proof = Proof::Token { role: user.role, ends_at: user.ends_at };
        begin_session(state, settings, SignedIn { account, proof, token }, (role, from))?;
    }
    user_of(state, settings, Some(token), (by_user, is_change)).await
}

/// The account whose token this is. Failures are counted by their address: an unverified token names no account.
async fn check_bearer(state: &State, bearer: &str, from: IpAddr) -> Result<(Address, TokenUser), Fault> {
    let unnamed = Attempt { source: without_port(from), user: "", domain: "" };
    pace(state, &unnamed, from, "")?;
    let mut open = OpenCheck { state, attempt: &unnamed, from, name: "", has_ended: false };
    let accepted = find_account(state, bearer).await;
    let may = match &accepted {
        Ok(Some((account, _))) => may_sign_in(state, account).await,
        Ok(None) => Ok(false),
        Err(_) => Ok(true),
    };
    open.has_ended = true;
    match (accepted?, may?) {
        (Some(found), true) => Ok(found),
        (found, _) => {
            let cause = if found.is_some() { Cause::UnknownAccount } else { Cause::WrongPassword };
            // The answer is that of a request with a token.
            let _ = refuse(state, &unnamed, from, "", cause);
            Err(Fault::bad_token())
        }
    }
}

/// Asks the domains of the issuer that the token claims, in the order of the configuration: the first that accepts it counts.
async fn find_account(state: &State, bearer: &str) -> Result<Option<(Address, TokenUser)>, Fault> {
    let Some(directory) = state.directory.as_deref() else { return Ok(None) };
    let domains = directory.domains_of_token(bearer);
    if domains.is_empty() {
        // Nothing was checked, so nothing is counted: a proxy may put a token of another service into each request.
        return Err(Fault::bad_token());
    }
    let mut is_unknown = false;
    for domain in domains {
        match directory.check_token(state.now(), &domain, bearer).await {
            TokenVerdict::Accepted(user) => {
                return Ok(prepared(&user.name, &domain).map(|account| (account, user)));
            }
            TokenVerdict::Refused => {}
            TokenVerdict::Unavailable => is_unknown = true,
        }
    }
    if is_unknown {
        let message = "tokens cannot be checked now: the keys of their issuer are not known";
        return Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, message));
    }
    Ok(None)
}
