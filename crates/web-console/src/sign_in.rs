//! Sign-in by an account's address and password, and the check of a session with each request.

use std::net::IpAddr;

use axum::http::StatusCode;
use chat_store::keys;
use serde_json::{Value, json};
use stdx::attempts::{Attempt, Cause, retry_after, without_port};
use store::{Account, Address, Verifiers};
use subtle::ConstantTimeEq as _;
use xmpp::sasl::Secret;

use crate::fault::Fault;
use crate::role::Role;
use crate::sessions::{Session, SignedIn, Token};
use crate::state::{ActiveSettings, AuditLine, FailedSignIn, State};

/// The session of a request, and the role that its account has now.
pub(crate) struct User {
    pub(crate) token: Token,
    pub(crate) session: Session,
    pub(crate) role: Role,
}

/// Begins a session. The answer is the same for an unknown account and a wrong password.
pub(crate) async fn sign_in(
    state: &State,
    settings: &ActiveSettings,
    from: IpAddr,
    (name, password): (&str, String),
) -> Result<(Token, Value), Fault> {
    let domain = &settings.settings.default_domain;
    let Ok(address) = Address::parse(name.trim().trim_start_matches("sip:"), Some(domain)) else {
        let unnamed = Attempt { source: without_port(from), user: "", domain: "" };
        pace(state, &unnamed, from, name)?;
        return Err(refuse(state, &unnamed, from, name, Cause::Malformed));
    };
    let attempt = Attempt { source: without_port(from), user: &address.user, domain: &address.domain };
    pace(state, &attempt, from, name)?;
    let account = state.node.account(address.clone()).await?;
    let Ok(_permit) = state.checks.try_acquire() else {
        return Err(Fault::too_many(1));
    };
    let may_be = |account: &Account| !account.disabled && !account.verifiers.are_expired(state.now());
    let account = account.filter(may_be);
    let (of, user) = (account.clone(), address.clone());
    let check = tokio::task::spawn_blocking(move || is_password(of.as_ref(), &user, password));
    let is_right = check.await.unwrap_or(false);
    // The client gets the same answer; the log tells them apart.
    let cause = if account.is_some() { Cause::WrongPassword } else { Cause::UnknownAccount };
    let Some(account) = account.filter(|_| is_right) else {
        return Err(refuse(state, &attempt, from, name, cause));
    };
    state.attempts().succeed(state.now(), &attempt);
    let address = account.address();
    let role = settings.settings.roles.of(&address);
    state.log.audit(&AuditLine {
        account: &address.to_string(),
        role,
        from,
        action: "SignIn",
        subject: "",
        refused: role.is_none().then_some(StatusCode::FORBIDDEN.as_u16()),
    });
    let Some(role) = role else {
        return Err(Fault::forbidden(
            "this account has no role here: name it in [console] admins, operators or readers",
        ));
    };
    let random = [state.random(), state.random()];
    let signed_in = SignedIn { account: address, verifier: account.verifiers.sha256 };
    let now = state.now();
    let mut sessions = state.sessions();
    sessions.begin(now, signed_in, &random, settings.lifetimes());
    let session = sessions.find(now, &random[0], true, settings.lifetimes()).ok_or_else(Fault::signed_out)?;
    Ok((random[0], describe(&session, role)))
}

/// The signed-in account, its role, and the token of changes.
pub(crate) fn describe(session: &Session, role: Role) -> Value {
    json!({ "account": session.account.to_string(), "role": role.name(), "csrf": session.csrf })
}

fn pace(state: &State, attempt: &Attempt<'_>, from: IpAddr, name: &str) -> Result<(), Fault> {
    let Some(wait) = state.attempts().wait(state.now(), attempt) else { return Ok(()) };
    state.log.sign_in_failed(&FailedSignIn { from, account: name, cause: Cause::TooManyAttempts });
    Err(Fault::too_many(retry_after(wait)))
}

fn refuse(state: &State, attempt: &Attempt<'_>, from: IpAddr, name: &str, cause: Cause) -> Fault {
    state.attempts().fail(state.now(), attempt);
    state.log.sign_in_failed(&FailedSignIn { from, account: name, cause });
    Fault::new(StatusCode::UNAUTHORIZED, "the account or the password is wrong")
}

/// Takes milliseconds where an account has keys of SCRAM only. An unknown account costs what one with digests does.
fn is_password(account: Option<&Account>, address: &Address, password: String) -> bool {
    let Some(account) = account else {
        let _ = std::hint::black_box(Verifiers::from_password(&address.user, &address.domain, &password));
        return false;
    };
    if !account.verifiers.are_of_password() {
        return keys::are_of(&account.verifiers, &Secret(password.into()));
    }
    let given = Verifiers::from_password(&account.name, &account.domain, &password);
    given.sha256.ct_eq(&account.verifiers.sha256).into()
}

/// The session of a token. `is_change`: the account is read from the database before; else it is read after some seconds, and a
/// database that is away ends no session, so that the state of the node can be watched meanwhile.
pub(crate) async fn user_of(
    state: &State,
    settings: &ActiveSettings,
    token: Option<Token>,
    (by_user, is_change): (bool, bool),
) -> Result<User, Fault> {
    let token = token.ok_or_else(Fault::signed_out)?;
    let now = state.now();
    let found = state.sessions().find(now, &token, by_user, settings.lifetimes());
    let session = found.ok_or_else(Fault::signed_out)?;
    if is_change || state.sessions().wants_check(now, &token) {
        match state.node.account(session.account.clone()).await {
            Ok(account) => {
                let is_same = |account: &Account| {
                    !account.disabled
                        && !account.verifiers.are_expired(now)
                        && account.address() == session.account
                        && account.verifiers.sha256 == session.verifier
                };
                if !account.as_ref().is_some_and(is_same) {
                    state.sessions().end(&token);
                    return Err(Fault::signed_out());
                }
                state.sessions().checked(now, &token);
            }
            Err(fault) if is_change => return Err(fault),
            Err(_) => {}
        }
    }
    let role = settings.settings.roles.of(&session.account).ok_or_else(Fault::signed_out)?;
    Ok(User { token, session, role })
}
