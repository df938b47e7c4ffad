//! Session tickets (RFC 5077, RFC 8446 §4.6.1) under keys that are made of the node's secret: every process that has the
//! secret resumes the sessions of the others, so that neither a restart nor the end of another node makes all clients
//! shake hands in full.
//!
//! ```text
//! ticket = period (4 bytes, big-endian) · nonce (12 bytes) · sealed session
//! ```
//! The key of a period is an HMAC of its number. Why keys that a secret on the disk determines are good enough:
//! `docs/decisions/0036-ticket-keys-are-made-of-the-secret.md`.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use hmac::{Hmac, KeyInit, Mac};
use rustls::server::ProducesTickets;
use sha2::Sha256;

use crate::clock::Clock;

/// Seconds for which a key makes tickets: as long as the keys of rustls's own tickets.
const PERIOD: u32 = 6 * 60 * 60;
const PERIOD_LENGTH: usize = 4;
const NONCE_LENGTH: usize = 12;

/// The source of the keys of tickets.
#[derive(Clone)]
pub struct TicketKeys {
    secret: [u8; 32],
    clock: Clock,
}

impl fmt::Debug for TicketKeys {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketKeys")
    }
}

impl TicketKeys {
    /// Keys of this secret, which only nodes that share their clients have.
    pub fn new(secret: [u8; 32], clock: Clock) -> TicketKeys {
        TicketKeys { secret, clock }
    }

    /// Makes and reads tickets for one kind of connection; those of other kinds it cannot read, because their sessions were
    /// begun on other terms.
    pub(super) fn ticketer(&self, kind: &'static str) -> Arc<dyn ProducesTickets> {
        Arc::new(Ticketer { keys: self.clone(), kind })
    }
}

#[derive(Debug)]
struct Ticketer {
    keys: TicketKeys,
    kind: &'static str,
}

impl Ticketer {
    fn period(&self) -> u32 {
        u32::try_from(self.keys.clock.now().unix_seconds() / u64::from(PERIOD)).unwrap_or(u32::MAX)
    }

    fn key(&self, period: u32) -> Option<RandomizedNonceKey> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.keys.secret).expect("HMAC takes keys of any length");
        mac.update(b"belfry's session tickets\0");
        mac.update(self.kind.as_bytes());
        mac.update(&period.to_be_bytes());
        RandomizedNonceKey::new(&AES_256_GCM, &mac.finalize().into_bytes()).ok()
    }

    fn seal(&self, period: u32, plain: &[u8]) -> Option<Vec<u8>> {
        let number = period.to_be_bytes();
        let mut sealed = plain.to_vec();
        let nonce = self.key(period)?.seal_in_place_append_tag(Aad::from(number), &mut sealed).ok()?;
        Some([&number[..], nonce.as_ref(), &sealed].concat())
    }

    fn open(&self, period: u32, ticket: &[u8]) -> Option<Vec<u8>> {
        let (number, rest) = ticket.split_first_chunk::<PERIOD_LENGTH>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LENGTH>()?;
        let made_in = u32::from_be_bytes(*number);
        // The clock of the node that made it may be ahead of ours.
        if made_in.abs_diff(period) > 1 {
            return None;
        }
        let mut sealed = sealed.to_vec();
        let key = self.key(made_in)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key.open_in_place(nonce, Aad::from(*number), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(self.period(), plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(self.period(), cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticketer(secret: u8, kind: &'static str) -> Ticketer {
        Ticketer { keys: TicketKeys::new([secret; 32], Clock::new()), kind }
    }

    #[test]
    fn another_process_with_the_secret_reads_a_ticket() {
        let ticket = ticketer(1, "sip").encrypt(b"session").unwrap();
        assert_eq!(ticketer(1, "sip").decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(ticketer(2, "sip").decrypt(&ticket), None, "of another secret");
        assert_eq!(ticketer(1, "xmpp").decrypt(&ticket), None, "of another kind of connection");
    }

    #[test]
    fn a_ticket_is_read_for_its_own_period_and_the_next() {
        let ticketer = ticketer(1, "sip");
        let ticket = ticketer.seal(7, b"session").unwrap();
        let is_read = |period| ticketer.open(period, &ticket).is_some();
        assert_eq!([5, 6, 7, 8, 9].map(is_read), [false, true, true, true, false]);
    }

    #[test]
    fn a_changed_or_torn_ticket_is_none() {
        let ticketer = ticketer(1, "sip");
        let ticket = ticketer.encrypt(b"session").unwrap();
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(ticketer.decrypt(&changed), None, "byte {at}");
            assert_eq!(ticketer.decrypt(&ticket[..at]), None, "{at} bytes");
        }
    }
}
