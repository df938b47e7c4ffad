//! The pace at which passwords may be tried (RFC 7616 §5.6 names the guessing of passwords over the network).
//!
//! SIP, XMPP and REST each have an `Attempts`. A failure counts only where its source is proved: by a nonce that is bound
//! to it, or by a connection. Tries are paced, never locked out: by source and account, so that a shared address hinders
//! no other account; and, more widely, by source over all accounts and by account over all sources, where those that
//! have signed in from there before are spared. No pace is slower than two seconds, so the right password gets in within
//! that.

mod open;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::Instant;
use crate::cache::Cache;
use crate::hash::{HashedKeys, Keyed};
use crate::limits::BLOCK_NAME;
use crate::rate::{Limiter, Penalty, Policy, Verdict};
use crate::source::SourcePrefix;
pub use open::OpenAttempt;
use open::OpenAttempts;

/// One attempt to sign in: its source and the account that it claims.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// With the port only where a device keeps it, as a phone over UDP does.
    pub source: SocketAddr,
    /// One spelling for each account. Empty: the attempt names none, and is counted by its source alone.
    pub user: &'a str,
    /// Empty where names have no domain.
    pub domain: &'a str,
}

/// The paces, and the sizes of the tables.
#[derive(Clone, Copy, Debug)]
pub struct Paces {
    /// Failures for one account from one source.
    pub pair: Policy,
    /// Failures of one source over all accounts that have not signed in from there.
    pub source: Policy,
    /// Failures for one account from all sources where it has not signed in.
    pub account: Policy,
    /// Networks from which accounts have signed in, with their ports: entries, about 40 bytes each, and their lifetime.
    pub known: usize,
    /// An entry is dropped this long after the last sign-in from its network.
    pub known_lifetime: Duration,
    /// Blocks that are remembered with their names, for `blocks`.
    pub named: usize,
}

/// Why a sign-in failed. The names stand in logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The password, or a proof made of it, was wrong.
    WrongPassword,
    /// Absent, or not allowed to sign in.
    UnknownAccount,
    /// Given up after the server's challenge, which tells what a guess can be checked against.
    Aborted,
    /// Credentials that cannot be read, or of a mechanism that was not offered.
    Malformed,
    /// An invitation that is unknown, used up or too old.
    UnknownInvitation,
    /// The secret of a component was wrong, or the key or certificate of another server.
    WrongSecret,
    /// The server of a domain could not be asked whether a key is its own.
    Unverified,
    /// Too many failures before: the credentials were not looked at.
    TooManyAttempts,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 8] = [
        Cause::WrongPassword,
        Cause::UnknownAccount,
        Cause::Aborted,
        Cause::Malformed,
        Cause::UnknownInvitation,
        Cause::WrongSecret,
        Cause::Unverified,
        Cause::TooManyAttempts,
    ];

    /// The cause's name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::WrongPassword => "wrong-password",
            Cause::UnknownAccount => "unknown-account",
            Cause::Aborted => "aborted",
            Cause::Malformed => "malformed",
            Cause::UnknownInvitation => "unknown-invitation",
            Cause::WrongSecret => "wrong-secret",
            Cause::Unverified => "unverified",
            Cause::TooManyAttempts => "too-many-attempts",
        }
    }
}

/// Attempts that are paced: of a source, for an account, or of a source for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// `None`: all sources.
    pub source: Option<SourcePrefix>,
    /// `user@domain`. `None`: all accounts.
    pub account: Option<Box<str>>,
    /// The failures that led to the block, and its end.
    pub penalty: Penalty,
}

/// The blocks that `lift` removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The blocks of this network, for all accounts.
    Source(SourcePrefix),
    /// As in [`Block::account`].
    Account(Box<str>),
}

/// The failed attempts that are remembered, in bounded memory.
pub struct Attempts {
    keyed: Keyed,
    /// By source and account. A device that has signed in is a source of its own, by its port.
    pairs: Limiter<u64>,
    sources: Limiter<SourcePrefix>,
    accounts: Limiter<u64>,
    /// Networks from which an account has signed in, by the hash of both, with the ports of its devices.
    known: Cache<u64, Ports, HashedKeys>,
    known_lifetime: Duration,
    /// The names behind the hashes of blocks.
    names: Cache<Key, Name>,
    /// Attempts that are being checked.
    open: OpenAttempts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Pair(u64),
    Account(u64),
}

struct Name {
    source: Option<SourcePrefix>,
    account: Option<Box<str>>,
}

impl Attempts {
    /// No attempts so far. `keyed` hashes sources and accounts.
    pub fn new(keyed: Keyed, paces: &Paces) -> Self {
        Attempts {
            keyed,
            pairs: Limiter::new(paces.pair),
            sources: Limiter::new(paces.source),
            accounts: Limiter::new(paces.account),
            known: Cache::of_hashes(paces.known),
            known_lifetime: paces.known_lifetime,
            names: Cache::new(paces.named),
            open: OpenAttempts::default(),
        }
    }

    /// The time until the credentials are checked; `None`: now.
    pub fn wait(&self, now: Instant, attempt: &Attempt<'_>) -> Option<Duration> {
        let (pair, is_known) = self.pair(now, attempt);
        let mut verdicts = [self.pairs.penalty(now, pair), Verdict::Pass, Verdict::Pass];
        if !is_known {
            verdicts[1] = self.sources.penalty(now, SourcePrefix::of(attempt.source.ip()));
            verdicts[2] = self.accounts.penalty(now, self.account(attempt.user, attempt.domain));
        }
        let wait = |verdict: Verdict| match verdict {
            Verdict::Pass => None,
            Verdict::Refuse { retry_after } => Some(retry_after),
        };
        verdicts.into_iter().filter_map(wait).max()
    }

    /// Begins an attempt whose credentials are checked elsewhere, while others may begin: it counts as a failure of its pair, and of its account,
    /// until the result is dropped. Drop it once the outcome is recorded.
    ///
    /// # Errors
    /// The time to wait: too many have failed, or are open.
    pub fn begin(&mut self, now: Instant, attempt: &Attempt<'_>) -> Result<OpenAttempt, Duration> {
        if let Some(wait) = self.wait(now, attempt) {
            return Err(wait);
        }
        let (pair, is_known) = self.pair(now, attempt);
        // Not of the source: after a restart all users of a shared address sign in at once.
        let account =
            (!is_known && !attempt.user.is_empty()).then(|| self.account(attempt.user, attempt.domain));
        let has_room = |limiter: &Limiter<u64>, key: u64, open: usize| {
            let allowed = limiter.policy().free_failures.saturating_sub(limiter.failures(now, &key)).max(1);
            open < allowed as usize
        };
        if !has_room(&self.pairs, pair, self.open.count(Key::Pair(pair))) {
            return Err(self.pairs.policy().first_penalty);
        }
        if let Some(account) = account
            && !has_room(&self.accounts, account, self.open.count(Key::Account(account)))
        {
            return Err(self.accounts.policy().first_penalty);
        }
        Ok(self.open.begin(Key::Pair(pair), account.map(Key::Account)))
    }

    /// Records a failed sign-in.
    pub fn fail(&mut self, now: Instant, attempt: &Attempt<'_>) {
        let source = SourcePrefix::of(attempt.source.ip());
        let (pair, is_known) = self.pair(now, attempt);
        self.pairs.fail(now, pair);
        self.name(Key::Pair(pair), self.pairs.failed(now, &pair), Some(source), attempt);
        if is_known {
            return;
        }
        self.sources.fail(now, source);
        if !attempt.user.is_empty() {
            let account = self.account(attempt.user, attempt.domain);
            self.accounts.fail(now, account);
            self.name(Key::Account(account), self.accounts.failed(now, &account), None, attempt);
        }
    }

    /// Records a successful sign-in: it clears the failures of its pair and makes its origin known.
    pub fn succeed(&mut self, now: Instant, attempt: &Attempt<'_>) {
        let origin = self.origin(attempt);
        let mut ports = self.known.get_at(now, &origin).copied().unwrap_or_default();
        self.pairs.succeed(self.pair_of(origin, ports, attempt.source.port()));
        ports.insert(attempt.source.port());
        self.known.insert_until(now + self.known_lifetime, origin, ports);
    }

    /// The blocks in force, in no order. Pairs and accounts of which the names are no longer remembered are left out.
    pub fn blocks(&self, now: Instant) -> Vec<Block> {
        let sources = self.sources.all_failed(now).map(|(source, penalty)| Block {
            source: Some(source),
            account: None,
            penalty,
        });
        let named = self.names.iter().filter_map(|(key, name)| {
            let penalty = self.penalty_of(now, *key)?;
            Some(Block { source: name.source, account: name.account.clone(), penalty })
        });
        sources.chain(named).collect()
    }

    /// Forgets the failures of a source or for an account. The blocks that were in force.
    pub fn lift(&mut self, now: Instant, subject: &Subject) -> usize {
        let is_meant = |name: &Name| match subject {
            Subject::Source(source) => name.source == Some(*source),
            Subject::Account(account) => name.account.as_ref() == Some(account),
        };
        let meant = self.names.iter().filter(|(_, name)| is_meant(name)).map(|(key, _)| *key);
        let mut lifted = 0;
        for key in meant.collect::<Vec<_>>() {
            lifted += usize::from(self.penalty_of(now, key).is_some());
            self.names.remove(&key);
            match key {
                Key::Pair(pair) => self.pairs.forget(&pair),
                Key::Account(account) => self.accounts.forget(&account),
            }
        }
        match subject {
            Subject::Source(source) => {
                lifted += usize::from(self.sources.failed(now, source).is_some());
                self.sources.forget(source);
            }
            Subject::Account(account) => {
                let (user, domain) = account.rsplit_once('@').unwrap_or((account, ""));
                for (user, domain) in [(user, domain), (&**account, "")] {
                    let key = self.account(user, domain);
                    self.accounts.forget(&key);
                }
            }
        }
        lifted
    }

    fn penalty_of(&self, now: Instant, key: Key) -> Option<Penalty> {
        match key {
            Key::Pair(pair) => self.pairs.failed(now, &pair),
            Key::Account(account) => self.accounts.failed(now, &account),
        }
    }

    fn name(
        &mut self,
        key: Key,
        penalty: Option<Penalty>,
        source: Option<SourcePrefix>,
        attempt: &Attempt<'_>,
    ) {
        let Some(penalty) = penalty else { return };
        let account = (!attempt.user.is_empty()).then(|| account_name(attempt.user, attempt.domain));
        self.names.insert_until(penalty.forgiven_at, key, Name { source, account });
    }

    /// The key of the pair, and whether the account has signed in from this network.
    fn pair(&self, now: Instant, attempt: &Attempt<'_>) -> (u64, bool) {
        let origin = self.origin(attempt);
        match self.known.get_at(now, &origin) {
            Some(&ports) => (self.pair_of(origin, ports, attempt.source.port()), true),
            None => (origin, false),
        }
    }

    fn pair_of(&self, origin: u64, ports: Ports, port: u16) -> u64 {
        if ports.contains(port) {
            self.keyed.hash_parts(&[&origin.to_be_bytes(), &port.to_be_bytes()])
        } else {
            origin
        }
    }

    /// The network with the account.
    fn origin(&self, attempt: &Attempt<'_>) -> u64 {
        let network = SourcePrefix::of(attempt.source.ip()).to_bytes();
        self.keyed.hash_parts(&[&network, attempt.user.as_bytes(), attempt.domain.as_bytes()])
    }

    fn account(&self, user: &str, domain: &str) -> u64 {
        self.keyed.hash_parts(&[user.as_bytes(), domain.as_bytes()])
    }
}

/// The ports of the devices of one account in one network: the four that signed in last.
#[derive(Clone, Copy, Debug, Default)]
struct Ports {
    ports: [u16; 4],
    count: u8,
    next: u8,
}

impl Ports {
    fn contains(&self, port: u16) -> bool {
        self.ports[..usize::from(self.count)].contains(&port)
    }

    fn insert(&mut self, port: u16) {
        if self.contains(port) {
            return;
        }
        self.ports[usize::from(self.next)] = port;
        self.next = (self.next + 1) % 4;
        self.count = (self.count + 1).min(4);
    }
}

impl fmt::Debug for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("pairs", &self.pairs.len()).finish_non_exhaustive()
    }
}

/// `user@domain`, or the user alone where names have no domain; cut, for names come from strangers.
pub fn account_name(user: &str, domain: &str) -> Box<str> {
    let whole = if domain.is_empty() { user.to_owned() } else { format!("{user}@{domain}") };
    if whole.len() <= BLOCK_NAME {
        return whole.into();
    }
    let end = whole.floor_char_boundary(BLOCK_NAME - '…'.len_utf8());
    format!("{}…", &whole[..end]).into()
}

/// Whole seconds for Retry-After, at least one.
pub fn retry_after(wait: Duration) -> u64 {
    wait.as_micros().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX)
}

/// The address alone, where the port says nothing: connections have another port each time.
pub fn without_port(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests;
