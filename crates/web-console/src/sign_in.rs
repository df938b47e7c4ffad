//! Sign-in by an account's address and password, a token of its domain, or at the provider of its domain, and the check of a session with each request.

mod by_provider;
mod by_token;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use axum::http::StatusCode;
use chat_store::keys;
use serde_json::{Value, json};
use stdx::attempts::{Attempt, Cause, OpenAttempt, retry_after, without_port};
use store::{Account, Address, ScramHash, ScramKeys, Verifiers};
use subtle::ConstantTimeEq as _;
use xmpp::sasl::Secret;

use crate::directory::PasswordVerdict;
use crate::fault::Fault;
use crate::limits;
use crate::role::Role;
use crate::sessions::{Proof, Session, SignedIn, Token};
use crate::state::{ActiveSettings, AuditLine, FailedSignIn, State};
pub(crate) use by_provider::{answer as answer_provider, ways};
pub(crate) use by_token::bearer_user;

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
    let address = prepared_for_source(state, address);
    let attempt = Attempt { source: without_port(from), user: &address.user, domain: &address.domain };
    // Until the outcome counts: passwords that are checked at once are paced as those one after another.
    let _open = begin_check(state, &attempt, from, name)?;
    let mut open = OpenCheck { state, attempt: &attempt, from, name, has_ended: false };
    if let Some(proof) = proof_of_source(state, &address, &password).await {
        open.has_ended = true;
        return sign_in_by_source(state, settings, &attempt, (address.clone(), proof, from, name)).await;
    }
    // A text as long as a token is no password.
    if password.len() > limits::MAX_TEXT {
        open.has_ended = true;
        return Err(refuse(state, &attempt, from, name, Cause::WrongPassword));
    }
    let account = match state.node.account(address.clone()).await {
        Ok(account) => account,
        Err(fault) => {
            // No password was checked here.
            open.has_ended = true;
            return Err(fault);
        }
    };
    let Ok(permit) = Arc::clone(&state.checks).try_acquire_owned() else {
        open.has_ended = true;
        return Err(Fault::too_many(1));
    };
    let may_be = |account: &Account| !account.disabled && !account.verifiers.are_expired(state.now());
    let account = account.filter(may_be);
    let (of, user) = (account.clone(), address.clone());
    let check = tokio::task::spawn_blocking(move || {
        let is_right = is_password(of.as_ref(), &user, password);
        drop(permit);
        is_right
    });
    let is_right = check.await.unwrap_or(false);
    open.has_ended = true;
    // The client gets the same answer; the log tells them apart.
    let cause = if account.is_some() { Cause::WrongPassword } else { Cause::UnknownAccount };
    let Some(account) = account.filter(|_| is_right) else {
        return Err(refuse(state, &attempt, from, name, cause));
    };
    state.attempts().succeed(state.now(), &attempt);
    let address = account.address();
    let role = settings.settings.roles.of(&address);
    let proof = Proof::Account(account.verifiers.sha256);
    let signed_in = SignedIn { account: address, proof, token: state.random() };
    begin_session(state, settings, signed_in, (role, from))
}

/// Begins the session of an account that has proved itself, if it has a role.
fn begin_session(
    state: &State,
    settings: &ActiveSettings,
    signed_in: SignedIn,
    (role, from): (Option<Role>, IpAddr),
) -> Result<(Token, Value), Fault> {
    // Any user of an identity provider may try again and again.
    if role.is_some() || state.is_refusal_noted(&signed_in.account) {
        state.log.audit(&AuditLine {
            account: &signed_in.account.to_string(),
            role,
            from,
            action: "SignIn",
            subject: if matches!(signed_in.proof, Proof::Token { .. }) { "token" } else { "" },
            refused: role.is_none().then_some(StatusCode::FORBIDDEN.as_u16()),
        });
    }
    let Some(role) = role else {
        return Err(Fault::forbidden(
            "this account has no role here: name it in [console] admins, operators or readers, or its group or role in [[accounts.sources]] groups or roles",
        ));
    };
    let (token, csrf) = (signed_in.token, state.random());
    let now = state.now();
    let mut sessions = state.sessions();
    sessions.begin(now, signed_in, &csrf, settings.lifetimes());
    let session = sessions.find(now, &token, true, settings.lifetimes()).ok_or_else(Fault::signed_out)?;
    Ok((token, describe(&session, role, settings.settings.docs.is_some())))
}

/// An address as chat prepares it, where a directory or tokens give roles: all spellings of a name are one user there (RFC 4519 §2.3), whose failed sign-ins
/// count together. An address that no account of chat can have stays as it is.
fn prepared_for_source(state: &State, address: Address) -> Address {
    if state.directory_of(&address.domain).is_none() && !state.takes_tokens(&address.domain) {
        return address;
    }
    prepared(&address.user, &address.domain).unwrap_or(address)
}

/// An address as chat prepares it. None: no account of chat can have it.
pub(crate) fn prepared(user: &str, domain: &str) -> Option<Address> {
    let jid = xmpp::Jid::new(Some(user), domain, None).ok()?;
    Address::new(jid.local()?, jid.domain()).ok()
}

/// The proof that this is the user's password in the directory of the domain, or a token of the user. Else the account's own password counts, which has the
/// roles of the configuration only.
async fn proof_of_source(state: &State, address: &Address, password: &str) -> Option<Proof> {
    if let Some((directory, _)) = state.directory_of(&address.domain) {
        let verdict = directory.check(state.now(), address, password).await;
        return (verdict == PasswordVerdict::Right).then_some(Proof::Directory);
    }
    by_token::proof_of(state, address, password).await
}

/// Begins the session of a user that a source of the domain has accepted. An account here is not needed.
async fn sign_in_by_source(
    state: &State,
    settings: &ActiveSettings,
    attempt: &Attempt<'_>,
    (account, proof, from, name): (Address, Proof, IpAddr, &str),
) -> Result<(Token, Value), Fault> {
    if !may_sign_in(state, &account).await? {
        return Err(refuse(state, attempt, from, name, Cause::UnknownAccount));
    }
    state.attempts().succeed(state.now(), attempt);
    let given = match (proof, state.directory_of(&account.domain)) {
        (Proof::Directory, Some(found)) => state.ask_role(&account, found).await,
        (Proof::Token { role, .. }, _) => role,
        (Proof::Directory, None) | (Proof::Account(_), _) => None,
    };
    let role = settings.settings.roles.of(&account).max(given);
    let signed_in = SignedIn { account, proof, token: state.random() };
    begin_session(state, settings, signed_in, (role, from))
}

/// False for an account that is disabled here, and for an alias.
async fn may_sign_in(state: &State, account: &Address) -> Result<bool, Fault> {
    let found = state.node.account(account.clone()).await?;
    Ok(found.is_none_or(|found| is_usable(&found, account)))
}

/// The directory or the token has vouched for this name: an alias of another account is not it.
fn is_usable(found: &Account, account: &Address) -> bool {
    !found.disabled && found.address() == *account
}

/// A password that is being checked. The check goes on when its client leaves, so that the attempt counts: else a client that leaves
/// each time would never be paced.
struct OpenCheck<'a> {
    state: &'a State,
    attempt: &'a Attempt<'a>,
    from: IpAddr,
    name: &'a str,
    has_ended: bool,
}

impl Drop for OpenCheck<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            // The fault is for a client that is not there any more.
            let _ = refuse(self.state, self.attempt, self.from, self.name, Cause::Aborted);
        }
    }
}

/// The signed-in account, its role, the token of changes, and whether there is documentation below `/docs/`.
pub(crate) fn describe(session: &Session, role: Role, has_docs: bool) -> Value {
    json!({ "account": session.account.to_string(), "role": role.name(), "csrf": session.csrf, "docs": has_docs })
}

fn pace(state: &State, attempt: &Attempt<'_>, from: IpAddr, name: &str) -> Result<(), Fault> {
    let Some(wait) = state.attempts().wait(state.now(), attempt) else { return Ok(()) };
    state.log.sign_in_failed(&FailedSignIn { from, account: name, cause: Cause::TooManyAttempts });
    Err(Fault::too_many(retry_after(wait)))
}

/// The same for a check that takes its time: the attempt counts as a failure until the result is dropped.
fn begin_check(state: &State, attempt: &Attempt<'_>, from: IpAddr, name: &str) -> Result<OpenAttempt, Fault> {
    let begun = state.attempts().begin(state.now(), attempt);
    begun.map_err(|wait| {
        state.log.sign_in_failed(&FailedSignIn { from, account: name, cause: Cause::TooManyAttempts });
        Fault::too_many(retry_after(wait))
    })
}

fn refuse(state: &State, attempt: &Attempt<'_>, from: IpAddr, name: &str, cause: Cause) -> Fault {
    state.attempts().fail(state.now(), attempt);
    state.log.sign_in_failed(&FailedSignIn { from, account: name, cause });
    Fault::new(StatusCode::UNAUTHORIZED, "the account or the password is wrong")
}

/// Takes milliseconds: as much is done for every account, known or unknown, with digests or with keys of SCRAM only, so that the
/// time tells nothing.
fn is_password(account: Option<&Account>, address: &Address, password: String) -> bool {
    let (name, domain) = match account {
        Some(account) => (&account.name, &account.domain),
        None => (&address.user, &address.domain),
    };
    let given = Verifiers::from_password(name, domain, &password);
    let known = account.map(|account| &account.verifiers);
    let digests = known.filter(|known| known.are_of_password());
    let keyed = known.filter(|known| !known.are_of_password() && !keys::all_known(known).is_empty());
    let are_keys = keys::are_of(keyed.unwrap_or(&STAND_IN), &Secret(password.into()));
    match digests {
        Some(digests) => {
            let (known, given) = digests.compared(&given);
            given.ct_eq(known).into()
        }
        None => are_keys && keyed.is_some(),
    }
}

/// Keys of no password.
static STAND_IN: LazyLock<Verifiers> = LazyLock::new(|| {
    let (stored, server) = ([0; 20].into(), [0; 20].into());
    let iterations = xmpp::limits::SCRAM_ITERATIONS;
    let keys = ScramKeys { salt: [0; 16].into(), iterations, stored, server };
    Verifiers::without_password(&[0; 32]).with_scram(&[(ScramHash::Sha1, keys)])
});

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
                let is_same = |account: &Account, verifier: [u8; 32]| {
                    !account.disabled
                        && !account.verifiers.are_expired(now)
                        && account.address() == session.account
                        && account.verifiers.sha256 == verifier
                };
                let is_good = match session.proof {
                    Proof::Account(verifier) => account.is_some_and(|account| is_same(&account, verifier)),
                    // Its password is not here, and an account need not be.
                    Proof::Directory | Proof::Token { .. } => {
                        account.is_none_or(|account| is_usable(&account, &session.account))
                    }
                };
                if !is_good {
                    state.sessions().end(&token);
                    return Err(Fault::signed_out());
                }
                state.sessions().checked(now, &token);
            }
            Err(fault) if is_change => return Err(fault),
            Err(_) => {}
        }
    }
    let given = match session.proof {
        Proof::Account(_) => None,
        Proof::Directory => state.known_role(&session.account),
        Proof::Token { role, .. } => role,
    };
    let role = settings.settings.roles.of(&session.account).max(given).ok_or_else(Fault::signed_out)?;
    Ok(User { token, session, role })
}

#[cfg(test)]
mod tests {
    use rustix::time::{ClockId, clock_gettime};
    use store::AccountLimits;

    use super::*;

    fn account(verifiers: Verifiers) -> Account {
        Account {
            id: 1,
            name: "alice".into(),
            domain: "example.test".into(),
            display_name: "".into(),
            verifiers,
            disabled: false,
            limits: AccountLimits::default(),
            created_at: stdx::Instant::default(),
        }
    }

    /// The least processor time of some checks, in nanoseconds.
    fn cost(account: Option<&Account>) -> u64 {
        let address = Address::new("alice", "example.test").unwrap();
        let one = || {
            let before = clock_gettime(ClockId::ThreadCPUTime);
            assert!(!is_password(account, &address, "wrong".into()));
            let after = clock_gettime(ClockId::ThreadCPUTime);
            (after.tv_sec - before.tv_sec) * 1_000_000_000 + (after.tv_nsec - before.tv_nsec)
        };
        (0..5).map(|_| one()).min().unwrap().unsigned_abs()
    }

    #[test]
    fn an_unknown_account_and_every_kind_of_known_one_cost_the_same() {
        let digests = Verifiers::from_password("alice", "example.test", "secret");
        let keys_only = Verifiers::without_password(&[7; 32]).with_scram(&keys::make("secret"));
        let of_directory = Verifiers::without_password(&[7; 32]);
        let least = cost(None);
        for verifiers in [digests, keys_only, of_directory] {
            let known = cost(Some(&account(verifiers)));
            assert!(known < 3 * least && least < 3 * known, "{known} ns, and {least} ns when unknown");
        }
    }

    #[test]
    fn the_right_password_is_right_by_digests_and_by_keys() {
        let address = Address::new("alice", "example.test").unwrap();
        let digests = Verifiers::from_password("alice", "example.test", "secret");
        let keys_only = Verifiers::without_password(&[7; 32]).with_scram(&keys::make("secret"));
        let both = digests.clone().with_scram(&keys::make("secret"));
        for verifiers in [digests, keys_only, both] {
            let alice = account(verifiers);
            assert!(is_password(Some(&alice), &address, "secret".into()));
            for wrong in ["", "Secret", "secret "] {
                assert!(!is_password(Some(&alice), &address, wrong.into()), "{wrong:?}");
            }
        }
        assert!(!is_password(None, &address, "secret".into()));
        assert!(!is_password(Some(&account(Verifiers::without_password(&[7; 32]))), &address, "".into()));
    }
}
