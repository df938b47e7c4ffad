//! Sessions of signed-in operators, in memory: a restart of the node signs all out.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stdx::{Instant, hex};
use store::Address;

use crate::limits;
use crate::role::Role;

/// The secret in a browser's cookie, or the key of a session whose requests have a token of an identity provider.
pub(crate) type Token = [u8; limits::TOKEN];

/// One signed-in browser.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) account: Address,
    /// The token that each change shows in a header: a page of another origin cannot read it.
    pub(crate) csrf: Box<str>,
    /// Proves what the sign-in was by.
    pub(crate) proof: Proof,
    began_at: Instant,
    /// The last action of the user; requests that the page makes by itself are none.
    used_at: Instant,
    checked_at: Instant,
}

/// The password or token that has begun a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The account's own: its verifier.
    Account([u8; 32]),
    /// The user's in a directory, which gives a role.
    Directory,
    /// A token, which gives this role up to its end.
    Token { role: Option<Role>, ends_at: Instant },
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_token: HashMap<Token, Session>,
}

/// The times after which sessions end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) idle: Duration,
    pub(crate) absolute: Duration,
}

/// A sign-in that has succeeded.
pub(crate) struct SignedIn {
    pub(crate) account: Address,
    pub(crate) proof: Proof,
    /// Names the session, and cannot be guessed.
    pub(crate) token: Token,
}

impl Sessions {
    /// Begins a session. `csrf`, the token of changes, is as unpredictable as that of the session.
    pub(crate) fn begin(&mut self, now: Instant, signed_in: SignedIn, csrf: &Token, lifetimes: Lifetimes) {
        self.expire(now, lifetimes);
        let SignedIn { account, proof, token } = signed_in;
        if self.by_token.values().filter(|session| session.account == account).count()
            >= limits::SESSIONS_PER_ACCOUNT
        {
            self.end_oldest(|session| session.account == account);
        }
        if self.by_token.len() >= limits::SESSIONS {
            self.end_oldest(|_| true);
        }
        let csrf = hex::encode(csrf).into();
        let session = Session { account, csrf, proof, began_at: now, used_at: now, checked_at: now };
        self.by_token.insert(token, session);
    }

    /// The session of a token. `by_user`: the user has done something, so that the session is not idle.
    pub(crate) fn find(
        &mut self,
        now: Instant,
        token: &Token,
        by_user: bool,
        lifetimes: Lifetimes,
    ) -> Option<Session> {
        let session = self.by_token.get_mut(token)?;
        if is_over(session, now, lifetimes) {
            self.by_token.remove(token);
            return None;
        }
        if by_user {
            session.used_at = now;
        }
        Some(session.clone())
    }

    /// True if the account of the session is to be checked again.
    pub(crate) fn wants_check(&self, now: Instant, token: &Token) -> bool {
        let age = |session: &Session| now.since(session.checked_at);
        self.by_token.get(token).is_some_and(|session| age(session) >= limits::ACCOUNT_CHECK)
    }

    pub(crate) fn checked(&mut self, now: Instant, token: &Token) {
        if let Some(session) = self.by_token.get_mut(token) {
            session.checked_at = now;
        }
    }

    pub(crate) fn end(&mut self, token: &Token) {
        self.by_token.remove(token);
    }

    /// True if the account has a session whose token gives it a role now.
    pub(crate) fn has_role_of_token(&self, now: Instant, account: &Address) -> bool {
        let gives = |proof: Proof| matches!(proof, Proof::Token { role: Some(_), ends_at } if now < ends_at);
        self.by_token.values().any(|session| session.account == *account && gives(session.proof))
    }

    /// The accounts of sessions that a directory has begun, each once.
    pub(crate) fn accounts_of_directories(&self) -> Vec<Address> {
        let of_directories = self.by_token.values().filter(|session| session.proof == Proof::Directory);
        let accounts: HashSet<&Address> = of_directories.map(|session| &session.account).collect();
        accounts.into_iter().cloned().collect()
    }

    /// Ends the sessions of an account that a directory has begun.
    pub(crate) fn end_of_directory(&mut self, account: &Address) {
        self.by_token.retain(|_, session| session.proof != Proof::Directory || session.account != *account);
    }

    fn expire(&mut self, now: Instant, lifetimes: Lifetimes) {
        self.by_token.retain(|_, session| !is_over(session, now, lifetimes));
    }

    fn end_oldest(&mut self, is_meant: impl Fn(&Session) -> bool) {
        let meant = self.by_token.iter().filter(|(_, session)| is_meant(session));
        let oldest = meant.min_by_key(|(_, session)| session.used_at).map(|(token, _)| *token);
        if let Some(token) = oldest {
            self.by_token.remove(&token);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_token.len()
    }
}

fn is_over(session: &Session, now: Instant, lifetimes: Lifetimes) -> bool {
    let is_token_over = matches!(session.proof, Proof::Token { ends_at, .. } if now >= ends_at);
    is_token_over
        || now.since(session.used_at) >= lifetimes.idle
        || now.since(session.began_at) >= lifetimes.absolute
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIMES: Lifetimes =
        Lifetimes { idle: Duration::from_secs(60), absolute: Duration::from_secs(600) };

    fn at(second: u64) -> Instant {
        Instant::from_unix_seconds(1_800_000_000 + second)
    }

    fn token(number: usize) -> Token {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&number.to_be_bytes());
        token
    }

    fn begin(sessions: &mut Sessions, now: Instant, user: &str, number: usize) {
        let account = Address::new(user, "example.test").unwrap();
        let signed_in = SignedIn { account, proof: Proof::Account([1; 32]), token: token(number) };
        sessions.begin(now, signed_in, &[9; 32], LIFETIMES);
    }

    #[test]
    fn a_session_ends_without_actions_of_the_user_and_after_its_lifetime() {
        let mut sessions = Sessions::default();
        begin(&mut sessions, at(0), "alice", 1);
        assert!(sessions.find(at(59), &token(1), false, LIFETIMES).is_some(), "the page asks by itself");
        assert!(sessions.find(at(60), &token(1), false, LIFETIMES).is_none(), "which does not count");
        begin(&mut sessions, at(100), "alice", 2);
        for second in (100..700).step_by(50) {
            assert!(sessions.find(at(second), &token(2), true, LIFETIMES).is_some(), "{second}");
        }
        assert!(sessions.find(at(700), &token(2), true, LIFETIMES).is_none(), "whatever was done");
        assert!(sessions.find(at(700), &token(3), true, LIFETIMES).is_none(), "a token of no session");
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn sessions_are_bounded_by_account_and_in_all() {
        let mut sessions = Sessions::default();
        for number in 0..limits::SESSIONS_PER_ACCOUNT + 1 {
            begin(&mut sessions, at(number as u64), "alice", number);
        }
        assert_eq!(sessions.len(), limits::SESSIONS_PER_ACCOUNT);
        assert!(sessions.find(at(20), &token(0), true, LIFETIMES).is_none(), "the oldest made room");
        for number in 0..limits::SESSIONS {
            begin(&mut sessions, at(21), &format!("user{number}"), 1_000 + number);
        }
        assert_eq!(sessions.len(), limits::SESSIONS);
    }

    #[test]
    fn a_session_by_a_token_ends_with_it_and_gives_its_role_until_then() {
        let mut sessions = Sessions::default();
        let account = Address::new("alice", "example.test").unwrap();
        let mut begin = |number, role, ends_at| {
            let proof = Proof::Token { role, ends_at };
            let signed_in = SignedIn { account: account.clone(), proof, token: token(number) };
            sessions.begin(at(0), signed_in, &[9; 32], LIFETIMES);
        };
        begin(1, None, at(50));
        begin(2, Some(Role::ReadOnly), at(30));
        let has_role = |sessions: &Sessions, second| sessions.has_role_of_token(at(second), &account);
        assert!(has_role(&sessions, 29) && !has_role(&sessions, 30));
        let other = Address::new("bob", "example.test").unwrap();
        assert!(!sessions.has_role_of_token(at(0), &other));
        assert!(sessions.find(at(29), &token(2), true, LIFETIMES).is_some());
        assert!(sessions.find(at(30), &token(2), true, LIFETIMES).is_none(), "the token is over");
        assert!(sessions.find(at(49), &token(1), true, LIFETIMES).is_some());
    }

    #[test]
    fn an_account_is_checked_again_after_some_seconds() {
        let mut sessions = Sessions::default();
        begin(&mut sessions, at(0), "alice", 1);
        assert!(!sessions.wants_check(at(4), &token(1)) && sessions.wants_check(at(5), &token(1)));
        sessions.checked(at(5), &token(1));
        assert!(!sessions.wants_check(at(9), &token(1)));
        sessions.end(&token(1));
        assert!(sessions.find(at(9), &token(1), true, LIFETIMES).is_none());
    }
}
