//! How fast passwords may be tried (RFC 7616 §5.6 names the guessing of passwords over the network).
//!
//! A failure counts only with a nonce that is bound to the source, so a forged source causes none. Tries are paced, never
//! locked out: by source and account, so that a shared address hinders no other account; and, more widely,
//! by source over all accounts and by account over all sources, where those that have signed in from there before are
//! spared. No pace is slower than two seconds, so the right password gets in within that.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::Instant;
use stdx::cache::Cache;
use stdx::hash::Keyed;
use stdx::rate::{Limiter, Verdict};
use stdx::source::SourcePrefix;

use crate::limits;

/// One attempt to sign in: its source and the account that it claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) source: SocketAddr,
    pub(super) user: &'a str,
    pub(super) domain: &'a str,
}

/// The failed attempts that one shard remembers, in bounded memory.
pub(super) struct Attempts {
    keyed: Keyed,
    /// By source and account. A device that has signed in is a source of its own, by its port.
    pairs: Limiter<u64>,
    sources: Limiter<SourcePrefix>,
    accounts: Limiter<u64>,
    /// Networks and devices from which an account has signed in.
    known: Cache<u64, ()>,
}

impl Attempts {
    pub(super) fn new(keyed: Keyed) -> Self {
        Attempts {
            keyed,
            pairs: Limiter::new(limits::WRONG_BY_PAIR),
            sources: Limiter::new(limits::WRONG_BY_SOURCE),
            accounts: Limiter::new(limits::WRONG_BY_ACCOUNT),
            known: Cache::new(limits::KNOWN_DEVICES),
        }
    }

    /// How long the credentials are not looked at; `None`: they are.
    pub(super) fn wait(&self, now: Instant, attempt: &Attempt<'_>) -> Option<Duration> {
        let is_known = self.known.get_at(now, &self.place(attempt, None)).is_some();
        let mut verdicts = [self.pairs.penalty(now, self.pair(now, attempt)), Verdict::Pass, Verdict::Pass];
        if !is_known {
            verdicts[1] = self.sources.penalty(now, SourcePrefix::of(attempt.source.ip()));
            verdicts[2] = self.accounts.penalty(now, self.account(attempt));
        }
        let wait = |verdict: Verdict| match verdict {
            Verdict::Pass => None,
            Verdict::Refuse { retry_after } => Some(retry_after),
        };
        verdicts.into_iter().filter_map(wait).max()
    }

    pub(super) fn fail(&mut self, now: Instant, attempt: &Attempt<'_>) {
        let pair = self.pair(now, attempt);
        self.pairs.fail(now, pair);
        if self.known.get_at(now, &self.place(attempt, None)).is_none() {
            let account = self.account(attempt);
            self.sources.fail(now, SourcePrefix::of(attempt.source.ip()));
            self.accounts.fail(now, account);
        }
    }

    pub(super) fn succeed(&mut self, now: Instant, attempt: &Attempt<'_>) {
        let pair = self.pair(now, attempt);
        self.pairs.succeed(pair);
        for port in [None, Some(attempt.source.port())] {
            let place = self.place(attempt, port);
            self.known.insert_until(now + limits::KNOWN_DEVICE_LIFETIME, place, ());
        }
    }

    fn pair(&self, now: Instant, attempt: &Attempt<'_>) -> u64 {
        let device = self.place(attempt, Some(attempt.source.port()));
        match self.known.get_at(now, &device) {
            Some(()) => device,
            None => self.place(attempt, None),
        }
    }

    /// A network, or one port of it, with the account.
    fn place(&self, attempt: &Attempt<'_>, port: Option<u16>) -> u64 {
        let network = SourcePrefix::of(attempt.source.ip()).to_bytes();
        let port = port.map_or([0; 3], |port| [1, port.to_be_bytes()[0], port.to_be_bytes()[1]]);
        self.keyed.hash_parts(&[&network, &port, attempt.user.as_bytes(), attempt.domain.as_bytes()])
    }

    fn account(&self, attempt: &Attempt<'_>) -> u64 {
        self.keyed.hash_parts(&[attempt.user.as_bytes(), attempt.domain.as_bytes()])
    }
}

/// Whole seconds for Retry-After, at least one.
pub(super) fn retry_after(wait: Duration) -> u64 {
    wait.as_micros().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX)
}

/// The address alone, where the port says nothing: connections have another port each time.
pub(super) fn without_port(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

    fn attempt<'a>(source: &str, user: &'a str) -> Attempt<'a> {
        Attempt { source: source.parse().unwrap(), user, domain: "example.test" }
    }

    fn attempts() -> Attempts {
        Attempts::new(Keyed::new([9; 16]))
    }

    /// Tries as fast as it may for so long; how many were looked at.
    fn guess(attempts: &mut Attempts, seconds: u64, each: impl Fn(u64) -> (String, String)) -> u64 {
        let (mut now, mut tried, mut number) = (NOW, 0, 0);
        while now < NOW + Duration::from_secs(seconds) {
            let (source, user) = each(number);
            number += 1;
            let attempt = attempt(&source, &user);
            if attempts.wait(now, &attempt).is_none() {
                attempts.fail(now, &attempt);
                tried += 1;
            }
            now = now + Duration::from_millis(1);
        }
        tried
    }

    #[test]
    fn guessing_is_slow_by_source_and_account_by_source_and_by_account() {
        let one = |_| ("192.0.2.1:5060".to_owned(), "alice".to_owned());
        let tried = guess(&mut attempts(), 600, one);
        assert!((250..330).contains(&tried), "one account from one source: {tried} in ten minutes");
        let many_accounts = |number| ("192.0.2.1:5060".to_owned(), format!("user{number}"));
        let tried = guess(&mut attempts(), 60, many_accounts);
        assert!(tried < 400, "every account from one source: {tried} in a minute");
        let many_sources =
            |number| (format!("10.{}.{}.1:5060", number / 256, number % 256), "alice".to_owned());
        let tried = guess(&mut attempts(), 60, many_sources);
        assert!(tried < 400, "one account from everywhere: {tried} in a minute");
        let one_network = |number| {
            (format!("[2001:db8::{:x}:{:x}]:5060", number >> 16, number & 0xffff), "alice".to_owned())
        };
        let tried = guess(&mut attempts(), 600, one_network);
        assert!((250..330).contains(&tried), "an IPv6 /64 is one source: {tried}");
    }

    #[test]
    fn no_wait_is_longer_than_two_seconds() {
        let mut attempts = attempts();
        let alice = attempt("192.0.2.1:5060", "alice");
        for number in 0..10_000 {
            attempts.fail(NOW, &alice);
            let elsewhere = format!("10.0.{}.{}:5060", number / 256, number % 256);
            attempts.fail(NOW, &attempt(&elsewhere, "alice"));
        }
        assert!(attempts.wait(NOW, &alice).is_some());
        assert_eq!(attempts.wait(NOW + Duration::from_secs(2), &alice), None);
    }

    #[test]
    fn a_shared_address_hinders_no_account_that_has_signed_in_from_there() {
        let mut attempts = attempts();
        let bob = attempt("192.0.2.1:5070", "bob");
        attempts.succeed(NOW, &bob);
        for number in 0..1_000 {
            attempts.fail(NOW, &attempt("192.0.2.1:6000", &format!("user{number}")));
            attempts.fail(NOW, &attempt("192.0.2.1:6000", "bob"));
        }
        assert_eq!(attempts.wait(NOW, &bob), None, "nor its own phone by guesses at it from the next one");
        assert!(attempts.wait(NOW, &attempt("192.0.2.1:6000", "bob")).is_some());
        let carol = attempt("192.0.2.1:5071", "carol");
        assert!(attempts.wait(NOW, &carol).is_some_and(|wait| wait < Duration::from_secs(1)));
    }
}
