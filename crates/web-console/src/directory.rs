//! Roles that a directory gives to its users by their groups: asked for at the sign-in, and again while a session lasts. Tokens of an identity provider
//! give roles by a claim, up to their end: nothing is asked again.
//!
//! A directory that does not answer never raises a role: the last answer counts for the time that the configuration says, then none does. The role of a
//! user who has left a group is gone with the next answer, and the sessions with it. Only sessions that the directory's own password has begun have such a
//! role: else an operator who sets the password of an account here would have it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;
use store::Address;
use tokio::time::{MissedTickBehavior, interval};

use crate::limits;
use crate::role::Role;
use crate::state::{RoleChange, State};

/// An answer of a directory that is awaited.
pub type DirectoryAnswer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The way to the directories of the domains that have one which gives roles.
pub trait Directory: Send + Sync {
    /// The times of the directory of a domain. `None`: no directory gives roles there.
    fn times(&self, domain: &str) -> Option<DirectoryTimes>;

    /// Asks whether this is the user's password in the directory.
    fn check(&self, now: Instant, account: &Address, password: &str) -> DirectoryAnswer<PasswordVerdict>;

    /// Asks for the role that the user's groups give.
    fn role(&self, account: &Address) -> DirectoryAnswer<RoleVerdict>;

    /// True if the tokens of a domain give roles.
    fn takes_tokens(&self, domain: &str) -> bool {
        let _ = domain;
        false
    }

    /// The domains whose tokens give roles and have the issuer that this one claims. Nothing of the token is verified.
    fn domains_of_token(&self, token: &str) -> Vec<Box<str>> {
        let _ = token;
        Vec::new()
    }

    /// True if the tokens of some domain give roles.
    fn takes_any_tokens(&self) -> bool {
        false
    }

    /// The domains whose users are sent to a provider, with its name for people.
    fn providers(&self) -> Vec<(Box<str>, Box<str>)> {
        Vec::new()
    }

    /// Asks for the address at the provider of a domain that the browser is sent to; none: it is not known now.
    fn sign_in_page(&self, domain: &str, request: AuthorizationRequest) -> DirectoryAnswer<Option<Box<str>>> {
        let _ = (domain, request);
        Box::pin(async { None })
    }

    /// Asks the provider of a domain for the user of a code. `ends_at` of the user is the end of the session.
    fn check_code(&self, domain: &str, returned: ReturnedCode) -> DirectoryAnswer<TokenVerdict> {
        let _ = (domain, returned);
        Box::pin(async { TokenVerdict::Unavailable })
    }

    /// Asks whose token this is at a domain.
    fn check_token(&self, now: Instant, domain: &str, token: &str) -> DirectoryAnswer<TokenVerdict> {
        let _ = (now, domain, token);
        Box::pin(async { TokenVerdict::Refused })
    }
}

/// The parameters that a browser carries to a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// The time of the request.
    pub now: Instant,
    /// The address that the provider sends the browser back to.
    pub redirect_uri: String,
    /// Names the sign-in.
    pub state: String,
    /// The ID token repeats it.
    pub nonce: String,
    /// The verifier of PKCE, of which the browser carries the hash only.
    pub verifier: String,
}

/// The code with which a provider has sent a browser back.
#[derive(Clone, PartialEq, Eq)]
pub struct ReturnedCode {
    /// The request as it was.
    pub request: AuthorizationRequest,
    /// The code.
    pub code: String,
    /// The issuer that the answer names (RFC 9207); none: it names none.
    pub issuer: Option<String>,
}

/// The times for which answers of a directory count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryTimes {
    /// The age of an answer at which the directory is asked again.
    pub refresh: Duration,
    /// The age up to which an answer counts while there is no other.
    pub keep: Duration,
}

/// A directory's verdict on a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordVerdict {
    /// It is the user's.
    Right,
    /// It is not, or the user is unknown.
    Wrong,
    /// There is no answer.
    Unavailable,
}

/// A directory's answer to the question for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleVerdict {
    /// The role; none: no group gives one, or there is no such user.
    Known(Option<Role>),
    /// There is no answer.
    Unavailable,
}

/// A source's verdict on a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenVerdict {
    /// The token of this user.
    Accepted(TokenUser),
    /// It is not accepted.
    Refused,
    /// There are no keys to check it with.
    Unavailable,
}

/// The user named by an accepted token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The local part of the address, not prepared.
    pub name: Box<str>,
    /// The role that the claims give; none: they give none.
    pub role: Option<Role>,
    /// The time from which the token is accepted no more.
    pub ends_at: Instant,
}

/// The last answers of directories, of accounts that have signed in.
#[derive(Debug, Default)]
pub(crate) struct KnownRoles {
    by_account: HashMap<Address, KnownRole>,
}

#[derive(Debug)]
struct KnownRole {
    role: Option<Role>,
    /// The time of the answer; none: there was none.
    answered_at: Option<Instant>,
    /// The time of the last question.
    asked_at: Instant,
}

impl KnownRoles {
    /// Handles an answer. The roles before and after it, if they differ.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        account: &Address,
        verdict: RoleVerdict,
        keep: Duration,
    ) -> Option<(Option<Role>, Option<Role>)> {
        if !self.by_account.contains_key(account) && self.by_account.len() >= limits::KNOWN_ROLES {
            self.forget_oldest();
        }
        let unknown = || KnownRole { role: None, answered_at: None, asked_at: now };
        let known = self.by_account.entry(account.clone()).or_insert_with(unknown);
        let before = known.role;
        known.asked_at = now;
        match verdict {
            RoleVerdict::Known(role) => (known.role, known.answered_at) = (role, Some(now)),
            RoleVerdict::Unavailable if !known.counts(now, keep) => known.role = None,
            RoleVerdict::Unavailable => {}
        }
        (before != known.role).then_some((before, known.role))
    }

    /// The role that counts now.
    pub(crate) fn of(&self, now: Instant, account: &Address, keep: Duration) -> Option<Role> {
        self.by_account.get(account).filter(|known| known.counts(now, keep))?.role
    }

    /// True if the directory is to be asked.
    fn is_due(&self, now: Instant, account: &Address, refresh: Duration) -> bool {
        self.by_account.get(account).is_none_or(|known| now.since(known.asked_at) >= refresh)
    }

    fn forget_oldest(&mut self) {
        let oldest = self.by_account.iter().min_by_key(|(_, known)| known.asked_at);
        if let Some(account) = oldest.map(|(account, _)| account.clone()) {
            self.by_account.remove(&account);
        }
    }
}

impl KnownRole {
    fn counts(&self, now: Instant, keep: Duration) -> bool {
        self.answered_at.is_some_and(|answered_at| now.since(answered_at) <= keep)
    }
}

impl State {
    /// True if the tokens of a domain give roles.
    pub(crate) fn takes_tokens(&self, domain: &str) -> bool {
        self.directory.as_deref().is_some_and(|directory| directory.takes_tokens(domain))
    }

    /// The directory that gives roles in a domain, and its times.
    pub(crate) fn directory_of(&self, domain: &str) -> Option<(&dyn Directory, DirectoryTimes)> {
        let directory = self.directory.as_deref()?;
        directory.times(domain).map(|times| (directory, times))
    }

    /// Asks the directory for the role of an account, and keeps the answer. The role that counts then.
    pub(crate) async fn ask_role(
        &self,
        account: &Address,
        (directory, times): (&dyn Directory, DirectoryTimes),
    ) -> Option<Role> {
        let verdict = directory.role(account).await;
        let now = self.now();
        let mut known = self.known_roles();
        let change = known.handle(now, account, verdict, times.keep);
        let role = known.of(now, account, times.keep);
        drop(known);
        if let Some((before, after)) = change {
            let is_known = verdict != RoleVerdict::Unavailable;
            self.log.role_changed(&RoleChange { account: &account.to_string(), before, after, is_known });
        }
        role
    }

    /// The role that the directory has given to an account as far as is known.
    pub(crate) fn known_role(&self, account: &Address) -> Option<Role> {
        let (_, times) = self.directory_of(&account.domain)?;
        self.known_roles().of(self.now(), account, times.keep)
    }
}

/// Asks again for the roles of those accounts whose answer is old, and ends the sessions of accounts that have none any more.
pub(crate) async fn refresh(state: &State) {
    let accounts = state.sessions().accounts_of_directories();
    for account in accounts {
        let Some(found) = state.directory_of(&account.domain) else {
            // A reload has taken the directory away.
            state.sessions().end_of_directory(&account);
            continue;
        };
        let is_due = state.known_roles().is_due(state.now(), &account, found.1.refresh);
        if is_due {
            state.ask_role(&account, found).await;
        }
        let settings = state.settings();
        if state.known_role(&account).max(settings.settings.roles.of(&account)).is_none() {
            state.sessions().end_of_directory(&account);
        }
    }
}

/// Does so for as long as the node serves the console.
pub(crate) async fn keep_fresh(state: Arc<State>) {
    let mut looks = interval(limits::ROLE_LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        refresh(&state).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(100);

    fn at(second: u64) -> Instant {
        Instant::from_unix_seconds(1_800_000_000 + second)
    }

    fn account(user: &str) -> Address {
        Address::new(user, "example.test").unwrap()
    }

    #[test]
    fn a_directory_that_is_away_never_raises_a_role_and_keeps_it_for_its_time_only() {
        let (mut known, alice) = (KnownRoles::default(), account("alice"));
        let (admin, reader) = (Some(Role::Admin), Some(Role::ReadOnly));
        assert_eq!(known.handle(at(0), &alice, RoleVerdict::Unavailable, KEEP), None);
        assert_eq!(known.of(at(0), &alice, KEEP), None, "nothing was known");
        assert_eq!(known.handle(at(1), &alice, RoleVerdict::Known(reader), KEEP), Some((None, reader)));
        assert_eq!(known.handle(at(2), &alice, RoleVerdict::Known(admin), KEEP), Some((reader, admin)));
        assert_eq!(known.handle(at(90), &alice, RoleVerdict::Unavailable, KEEP), None);
        assert_eq!((known.of(at(102), &alice, KEEP), known.of(at(103), &alice, KEEP)), (admin, None));
        assert_eq!(known.handle(at(103), &alice, RoleVerdict::Unavailable, KEEP), Some((admin, None)));
        assert_eq!(known.handle(at(104), &alice, RoleVerdict::Known(reader), KEEP), Some((None, reader)));
        assert_eq!(known.handle(at(105), &alice, RoleVerdict::Known(None), KEEP), Some((reader, None)));
        assert_eq!(known.of(at(105), &alice, KEEP), None, "an answer counts at once");
    }

    #[test]
    fn an_account_is_asked_for_again_after_the_time_of_its_directory_and_the_answers_have_a_bound() {
        let (mut known, alice) = (KnownRoles::default(), account("alice"));
        let refresh = Duration::from_secs(10);
        assert!(known.is_due(at(0), &alice, refresh));
        known.handle(at(0), &alice, RoleVerdict::Unavailable, KEEP);
        assert!(!known.is_due(at(9), &alice, refresh) && known.is_due(at(10), &alice, refresh));
        for number in 0..2 * limits::KNOWN_ROLES {
            let user = account(&format!("user{number}"));
            known.handle(at(1), &user, RoleVerdict::Known(Some(Role::Admin)), KEEP);
        }
        assert_eq!(known.by_account.len(), limits::KNOWN_ROLES);
    }
}
