//! Passwords that were right, for a bounded time and in bounded memory. Of each only a hash is kept, under a key of this
//! process. Refusals are not remembered: a password that has become right is accepted at once.

use std::time::Duration;

use anyhow::{Context as _, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use stdx::Instant;
use stdx::cache::Cache;

/// The passwords that were right.
pub(crate) struct RememberedPasswords {
    key: [u8; 32],
    right: Cache<[u8; 32], ()>,
}

impl RememberedPasswords {
    /// # Errors
    /// The system gives no randomness.
    pub(crate) fn new(capacity: usize) -> Result<RememberedPasswords> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("the system gives no randomness")?;
        Ok(RememberedPasswords { key, right: Cache::new(capacity) })
    }

    /// Each part is preceded by its length: no two users share an entry.
    fn entry(&self, domain: &str, user: &str, password: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        for part in [domain, user, password] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }

    pub(crate) fn is_right(&self, now: Instant, domain: &str, user: &str, password: &str) -> bool {
        self.right.get_at(now, &self.entry(domain, user, password)).is_some()
    }

    pub(crate) fn insert(&mut self, now: Instant, lifetime: Duration, names: (&str, &str), password: &str) {
        if !lifetime.is_zero() {
            let entry = self.entry(names.0, names.1, password);
            self.right.insert_until(now + lifetime, entry, ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_right_password_is_remembered_for_its_user_and_its_time_only() {
        let mut remembered = RememberedPasswords::new(8).unwrap();
        remembered.insert(NOW, MINUTE, ("a.test", "alice"), "secret");
        assert!(remembered.is_right(NOW, "a.test", "alice", "secret"));
        assert!(!remembered.is_right(NOW + MINUTE * 2, "a.test", "alice", "secret"));
        for (domain, user, password) in [
            ("a.test", "alice", "Secret"),
            ("a.test", "bob", "secret"),
            ("b.test", "alice", "secret"),
            ("a.testalice", "", "secret"),
            ("a.test", "alicesecret", ""),
        ] {
            assert!(!remembered.is_right(NOW, domain, user, password), "{domain} {user} {password}");
        }
        remembered.insert(NOW, Duration::ZERO, ("a.test", "bob"), "secret");
        assert!(!remembered.is_right(NOW, "a.test", "bob", "secret"), "nothing is remembered for no time");
    }

    #[test]
    fn the_memory_has_a_bound() {
        let mut remembered = RememberedPasswords::new(8).unwrap();
        for number in 0..100 {
            remembered.insert(NOW, MINUTE, ("a.test", &format!("user{number}")), "secret");
        }
        assert_eq!(remembered.right.len(), 8);
    }
}
