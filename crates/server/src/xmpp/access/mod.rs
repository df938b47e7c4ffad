//! Signs clients in (`clients`): by password and keys, by tokens (`tokens`, XEP-0484), by sources outside the database
//! (`external`), and with accounts made in band (`registration`, XEP-0077, XEP-0445).
//!
//! The state machine of a stream (`xmpp::c2s`) asks by `C2sEvent`; `ClientAccess` of the shard answers it, after reads and writes of the
//! store. All shards share [`Access`]: settings, and the failures by source and account, which pace guessing at whichever shard.

mod clients;
mod external;
mod invitation_page;
mod registration;
mod tokens;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use stdx::Instant;
use stdx::attempts::{Attempt, Cause, OpenAttempt, account_name, without_port};
use stdx::hash::Keyed;
use stdx::rate::{Policy, Rate};

pub(super) use clients::{AccessContext, ClientAccess};
pub(crate) use registration::NewAccount;
pub(super) use registration::NewContacts;
use tokens::TokenKey;

use config::{Config, Registration};
use external_auth::{Authenticator, FileAccounts, SourceSettings};
use logging::sign_in_failures::{Failure, Service, SignInFailures};
use net::source_limiter::{SharedAttempts, SourceLimiter};
use xmpp::Jid;

use crate::limits;

/// The same for all shards.
pub(crate) struct Access {
    /// The key that tokens are derived from.
    pub(crate) secret: [u8; 32],
    /// The lifetime of a token; zero: tokens are off.
    pub(crate) tokens_for: Duration,
    pub(crate) registration: Registration,
    /// The database keeps the digests that phones prove passwords by.
    pub(crate) digests: bool,
    /// The hosts that clients are referred to while the node drains.
    pub(crate) other_hosts: Vec<Box<str>>,
    /// The host that clients of other nodes are referred to when this node has their account.
    pub(crate) own_host: Option<Box<str>>,
    /// Accounts made of late, by source.
    made: SourceLimiter,
    /// Failed sign-ins, by source and account.
    pub(crate) attempts: SharedAttempts,
    pub(crate) failures: Arc<SignInFailures>,
    /// Wrong secrets of components, by source.
    pub(crate) wrong_secrets: Arc<SourceLimiter>,
    /// The sources of sign-ins outside the database. `None`: there are none.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
}

impl Access {
    pub(crate) fn new(
        secret: [u8; 32],
        config: &Config,
        failures: Arc<SignInFailures>,
        authenticator: Option<Arc<Authenticator>>,
    ) -> Arc<Access> {
        let (access, registration) = (&config.access, &config.registration);
        let per_hour = registration.per_hour.max(1);
        let policy = Policy {
            capacity: limits::XMPP_REGISTERING,
            rate: Rate { interval: Duration::from_hours(1) / per_hour, burst: per_hour },
            // Failures are the streams' to count.
            free_failures: u32::MAX,
            first_penalty: Duration::ZERO,
            longest_penalty: Duration::ZERO,
            forgive_after: Duration::ZERO,
        };
        Arc::new(Access {
            secret,
            tokens_for: access.tokens,
            registration: registration.clone(),
            digests: config.accounts.digests,
            other_hosts: access.other_hosts.clone(),
            own_host: access.own_host.clone(),
            made: SourceLimiter::new(policy),
            attempts: SharedAttempts::new(attempts_key(&secret), &sip::limits::WRONG_PASSWORDS),
            failures,
            wrong_secrets: Arc::new(SourceLimiter::new(limits::WRONG_SECRETS)),
            authenticator,
        })
    }

    /// The source of sign-ins of a domain. `None`: its accounts sign in by the database.
    fn source_of(&self, domain: &str) -> Option<&SourceSettings> {
        self.authenticator.as_ref()?.source_of(domain)
    }

    /// The accounts of a domain whose source of sign-ins is a file.
    fn accounts_of_file(&self, domain: &str) -> Option<Arc<FileAccounts>> {
        self.authenticator.as_ref()?.accounts_of_file(domain)
    }

    /// The time until that client may try to sign in as that user again; `None`: it may now. A refusal is
    /// noted.
    pub(crate) fn wait(&self, now: Instant, claim: &Claim<'_>) -> Option<Duration> {
        let wait = self.attempts.wait(now, &claim.attempt());
        if wait.is_some() {
            self.note(now, claim, Cause::TooManyAttempts);
        }
        wait
    }

    /// Begins a check whose outcome comes later; `None`: the client may not try now. A refusal is noted.
    fn begin(&self, now: Instant, claim: &Claim<'_>) -> Option<OpenAttempt> {
        let begun = self.attempts.begin(now, &claim.attempt());
        if begun.is_err() {
            self.note(now, claim, Cause::TooManyAttempts);
        }
        begun.ok()
    }

    /// Counts a failed sign-in for the pace of the next ones, and notes it in the log.
    pub(crate) fn fail(&self, now: Instant, claim: &Claim<'_>, cause: Cause) {
        self.attempts.fail(now, &claim.attempt());
        self.note(now, claim, cause);
    }

    fn note(&self, now: Instant, claim: &Claim<'_>, cause: Cause) {
        let account = if claim.user.is_empty() { "".into() } else { account_name(&claim.user, claim.domain) };
        let (transport, address) = (claim.transport, claim.remote);
        self.failures
            .note(now, &Failure { service: Service::Xmpp, transport, address, account: &account, cause });
    }

    /// True if this source may make one more account now.
    fn may_make(&self, now: Instant, source: IpAddr) -> bool {
        self.made.allow(now, source).is_pass()
    }

    /// The reason why a password is not accepted.
    fn password_fault(&self, password: &str) -> Option<String> {
        let least = self.registration.min_password as usize;
        let most = store::limits::MAX_PASSWORD;
        let fits = (least..=most).contains(&password.len());
        (!fits).then(|| format!("a password has {least} to {most} bytes"))
    }
}

/// A client, and the account that it says it is.
pub(crate) struct Claim<'a> {
    pub(crate) remote: IpAddr,
    pub(crate) transport: &'static str,
    /// Prepared (RFC 7622 §3.3), so that all spellings of a name are one account. Empty: none that could be one.
    user: Box<str>,
    domain: &'a str,
}

impl<'a> Claim<'a> {
    pub(crate) fn new((remote, transport): (IpAddr, &'static str), user: &str, domain: &'a str) -> Claim<'a> {
        let jid = Jid::new(Some(user), domain, None).ok();
        let user = jid.as_ref().and_then(Jid::local).unwrap_or_default().into();
        Claim { remote, transport, user, domain }
    }

    pub(crate) fn attempt(&self) -> Attempt<'_> {
        Attempt { source: without_port(self.remote), user: &self.user, domain: self.domain }
    }
}

/// The key of the hashes in the table of attempts.
fn attempts_key(secret: &[u8; 32]) -> Keyed {
    let mut key = [0; 16];
    let digest = Sha256::new().chain_update(b"attempts").chain_update(secret).finalize();
    key.copy_from_slice(&digest[..16]);
    Keyed::new(key)
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("registration", &self.registration).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_name_are_one_account_to_its_pace() {
        let peer = (IpAddr::from([192, 0, 2, 1]), "tls");
        for user in ["alice", "Alice", "ALICE", "\u{ff41}lice"] {
            let claim = Claim::new(peer, user, "example.test");
            assert_eq!((claim.attempt().user, claim.attempt().domain), ("alice", "example.test"), "{user}");
        }
        for user in ["", "a b", "a@b", "x\ny"] {
            assert_eq!(Claim::new(peer, user, "example.test").attempt().user, "", "{user}");
        }
    }
}
