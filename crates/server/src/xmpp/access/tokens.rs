//! Tokens of clients (XEP-0484). The database has only a token's name; the token is derived from it, from a
//! secret of the node and from the account as it is: a new password, or another account of that name, voids
//! all tokens before.
//!
//! So a stolen database has no tokens in it, and a change of password needs no list of tokens to revoke. The
//! rows are used up by the write that ends the sign-in, which compares the count of the last use: a token that
//! an eavesdropper replays is refused.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use stdx::Instant;
use store::access::{AccessRead, AccessWrite, FreshToken, TokenRow, TokenWrite, UsedToken};
use store::{Account, StoreError, Write, WriteDone};
use xmpp::c2s::{NewToken, TokenWork};
use xmpp::sasl::{CredentialAnswer, Failure, Secret, Token, TokenBinding, TokenState};

use super::super::{Unavailable, XmppEffect, sign_in};
use super::clients::{AccessContext, ClientAccess, ClientRequest};

/// The key that the tokens of one account are derived from.
#[derive(Clone)]
pub(crate) struct TokenKey([u8; 32]);

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey")
    }
}

/// A MAC of the parts, each with its length before it: no two lists of parts have one MAC.
fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

impl TokenKey {
    /// The key of this account as it is now: its row and its password are part of it.
    pub(crate) fn of(secret: &[u8; 32], account: &Account) -> TokenKey {
        // The number of the row, not the name: an account that was removed and made again is another one.
        TokenKey(mac(secret, &[b"token", &account.id.to_be_bytes(), &account.verifiers.sha256]))
    }

    fn token(&self, agent: &str, id: &[u8]) -> Secret {
        Secret(stdx::hex::encode(&mac(&self.0, &[agent.as_bytes(), id])).into())
    }

    /// Converts the database's rows for the SASL exchange.
    pub(crate) fn known(&self, now: Instant, agent: &str, rows: Vec<TokenRow>) -> CredentialAnswer {
        let tokens = rows.into_iter().filter_map(|row| {
            Some(Token {
                // A mechanism of a later version is left out.
                binding: TokenBinding::parse(&row.mechanism)?,
                secret: self.token(agent, &row.id),
                count: row.count,
                state: state_of(now, &row),
                id: row.id,
            })
        });
        CredentialAnswer::Tokens(tokens.collect())
    }
}

/// The state of a token. In the second half of its lifetime it is due to be replaced.
fn state_of(now: Instant, row: &TokenRow) -> TokenState {
    // Before "due": a token that is over must not be exchanged for a new one.
    if row.expires_at <= now {
        TokenState::TooOld
    } else if row.expires_at.since(now) < row.expires_at.since(row.issued_at) / 2 {
        // A client that signs in once in that time gets a new token.
        TokenState::Due
    } else if row.used {
        TokenState::Used
    } else {
        TokenState::New
    }
}

impl ClientAccess {
    /// Looks up the tokens of a client whose account exists.
    pub(super) fn find_tokens(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        account: &Account,
        agent: Box<str>,
    ) {
        let key = TokenKey::of(&self.access.secret, account);
        let read = AccessRead::Tokens { user: address_of(account), agent: agent.clone() };
        let name = account.name.clone();
        let id = self.pending.insert(ClientRequest::Tokens { stream, name, key, agent });
        cx.outbox.push(XmppEffect::Access { id, read });
    }

    /// Writes, renews or removes a client's tokens: looks up the account first.
    pub(in crate::xmpp) fn tokens(&mut self, cx: &mut AccessContext<'_>, stream: u64, work: Box<TokenWork>) {
        let (user, domain) = (work.user.local().unwrap_or_default().into(), work.user.domain().into());
        let id = self.pending.insert(ClientRequest::TokenWork { stream, work });
        cx.outbox.push(XmppEffect::Account { id, user, domain });
    }

    /// Writes the tokens of a sign-in: the one that was used is counted or revoked, and a new one is given where the client wants one.
    pub(super) fn token_work(
        &mut self,
        cx: &mut AccessContext<'_>,
        stream: u64,
        work: TokenWork,
        found: Result<Option<&Account>, Unavailable>,
    ) {
        let Ok(found) = found else {
            let was_used = work.used.is_some();
            // The database cannot be read: a sign-in by password succeeds without a token, one by token does
            // not.
            return tokens_written(cx, stream, None, was_used, false);
        };
        let Some(account) = sign_in::account_of(found, work.user.domain()) else {
            return cx.tell(stream, |c2s, out| c2s.handle_tokens(Err(Failure::NotAuthorized), out));
        };
        // The key is made of the account as it was read just now, so a token never belongs to an older
        // password.
        let fresh = work.wanted.and_then(|binding| self.fresh(cx.now, account, &work.agent, binding));
        let (fresh, new) = fresh.unzip();
        let was_used = work.used.is_some();
        let revoked = work.revokes;
        let write = TokenWrite {
            user: address_of(account),
            agent: work.agent,
            used: work.used.map(|(id, count)| UsedToken { id, count, revoked }),
            fresh,
        };
        let id = self.pending.insert(ClientRequest::TokensWritten { stream, new, was_used });
        cx.outbox.push(XmppEffect::Write { id, write: Write::Access(AccessWrite::Tokens(Box::new(write))) });
    }

    /// `None`: the system gives no randomness, or tokens are off.
    fn fresh(
        &self,
        now: Instant,
        account: &Account,
        agent: &str,
        binding: TokenBinding,
    ) -> Option<(FreshToken, NewToken)> {
        if self.access.tokens_for.is_zero() {
            return None;
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let expires_at = now + self.access.tokens_for;
        let token = TokenKey::of(&self.access.secret, account).token(agent, &id);
        let mechanism = binding.mechanism().into();
        let fresh = FreshToken { id: id.into(), mechanism, issued_at: now, expires_at };
        Some((fresh, NewToken { token, expires_at }))
    }
}

/// Handles the outcome of a write of tokens.
pub(super) fn tokens_done(
    cx: &mut AccessContext<'_>,
    stream: u64,
    new: Option<NewToken>,
    was_used: bool,
    result: &Result<WriteDone, StoreError>,
) {
    match result {
        // The token is used up, or was used with this count: an eavesdropper may have replayed it.
        Err(StoreError::NotFound { .. }) => {
            cx.tell(stream, |c2s, out| c2s.handle_tokens(Err(Failure::NotAuthorized), out));
        }
        result => tokens_written(cx, stream, new, was_used, result.is_ok()),
    }
}

/// Completes the sign-in. After a password it succeeds even if no token could be written.
fn tokens_written(
    cx: &mut AccessContext<'_>,
    stream: u64,
    new: Option<NewToken>,
    was_used: bool,
    is_done: bool,
) {
    let done = match (is_done, was_used) {
        (true, _) => Ok(new),
        // The use could not be counted, so the same token could be used again: the client is asked to try
        // later.
        (false, true) => Err(Failure::TemporaryAuthFailure),
        (false, false) => Ok(None),
    };
    cx.tell(stream, |c2s, out| c2s.handle_tokens(done, out));
}

fn address_of(account: &Account) -> Box<str> {
    format!("{}@{}", account.name, account.domain).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use store::{AccountLimits, Verifiers};

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn account(id: i64, password: &str) -> Account {
        Account {
            id,
            name: "alice".into(),
            domain: "example.org".into(),
            display_name: "".into(),
            verifiers: Verifiers::from_password("alice", "example.org", password),
            disabled: false,
            limits: AccountLimits::default(),
            created_at: Instant::default(),
        }
    }

    #[test]
    fn a_token_is_of_one_account_one_password_and_one_client() {
        let token = |secret: u8, id, password, agent: &str, name: &[u8]| {
            TokenKey::of(&[secret; 32], &account(id, password)).token(agent, name)
        };
        let first = token(1, 1, "secret", "phone", b"a");
        assert_eq!(first.0.len(), 64);
        assert_eq!(first, token(1, 1, "secret", "phone", b"a"));
        let others = [
            token(2, 1, "secret", "phone", b"a"),
            token(1, 2, "secret", "phone", b"a"),
            token(1, 1, "other", "phone", b"a"),
            token(1, 1, "secret", "desk", b"a"),
            token(1, 1, "secret", "phone", b"b"),
            token(1, 1, "secret", "phon", b"ea"),
        ];
        assert!(others.iter().all(|other| *other != first));
    }

    #[test]
    fn a_token_is_replaced_in_the_second_half_of_its_time() {
        let row = |used| TokenRow {
            id: [1].into(),
            mechanism: "HT-SHA-256-NONE".into(),
            issued_at: NOW,
            expires_at: NOW + Duration::from_secs(100),
            count: 0,
            used,
        };
        let after = |seconds| NOW + Duration::from_secs(seconds);
        assert_eq!(state_of(after(50), &row(false)), TokenState::New);
        assert_eq!(state_of(after(50), &row(true)), TokenState::Used);
        assert_eq!(state_of(after(51), &row(true)), TokenState::Due);
        assert_eq!(state_of(after(51), &row(false)), TokenState::Due);
        assert_eq!(state_of(after(100), &row(true)), TokenState::TooOld);
    }
}
