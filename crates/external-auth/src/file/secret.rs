//! The secret of one line of a file of accounts, in the forms that `htpasswd`, `slappasswd`, `mkpasswd` and PostgreSQL write.
//!
//! Invariant: what a comparison costs is bounded when the line is read, not when a client asks.

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier as _, ShaCrypt};

use crate::limits;

/// Keys of SCRAM-SHA-256 (RFC 5802 §3, RFC 7677).
#[derive(Clone, PartialEq, Eq)]
pub struct ScramSha256Keys {
    /// The salt.
    pub salt: Box<[u8]>,
    /// Rounds of PBKDF2.
    pub iterations: u32,
    /// The hash of the client's key.
    pub stored: [u8; 32],
    /// The server's key.
    pub server: [u8; 32],
}

/// Keys are never shown: a server that has them can pose as this one to the client.
impl std::fmt::Debug for ScramSha256Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScramSha256Keys").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The proof of a password.
#[derive(Clone)]
pub(super) enum Secret {
    /// bcrypt, as `htpasswd -B` writes it.
    Bcrypt(Box<str>),
    /// SHA-512-crypt, as `mkpasswd -m sha-512` and `openssl passwd -6` write it.
    Sha512Crypt(Box<str>),
    /// Salted SHA-1, as `slappasswd` writes it.
    SaltedSha1 { digest: [u8; 20], salt: Box<[u8]> },
    /// Keys of SCRAM-SHA-256, as PostgreSQL writes them.
    Scram(Box<ScramSha256Keys>),
}

/// The forms, for messages.
pub(super) const FORMS: &str =
    "bcrypt ($2y$…), SHA-512-crypt ($6$…), {SSHA}… or SCRAM-SHA-256$ROUNDS:SALT$STORED:SERVER";

impl Secret {
    /// Splits a line behind its name into the secret and the columns behind it. Keys of SCRAM have two colons of their own.
    pub(super) fn split(text: &str) -> (&str, Option<&str>) {
        let own = if text.starts_with("SCRAM-") { 2 } else { 0 };
        match text.match_indices(':').nth(own) {
            Some((place, _)) => (&text[..place], Some(&text[place + 1..])),
            None => (text, None),
        }
    }

    /// Reads a secret. The mistake does not show it.
    pub(super) fn parse(text: &str) -> Result<Secret, String> {
        if text.starts_with("$2") {
            parse_bcrypt(text)
        } else if let Some(rest) = text.strip_prefix("$6$") {
            parse_sha_crypt(text, rest)
        } else if let Some(rest) = text.strip_prefix("{SSHA}") {
            let bytes = STANDARD.decode(rest).unwrap_or_default();
            match bytes.split_first_chunk::<20>() {
                Some((digest, salt)) if !salt.is_empty() => {
                    Ok(Secret::SaltedSha1 { digest: *digest, salt: salt.into() })
                }
                _ => Err("{SSHA} without a hash and a salt in base64".to_owned()),
            }
        } else if let Some(rest) = text.strip_prefix("SCRAM-SHA-256$") {
            let keys = parse_scram(rest).ok_or_else(|| {
                format!(
                    "keys of SCRAM that are none; expected ROUNDS:SALT$STORED:SERVER, with at most {} rounds",
                    limits::SCRAM_ITERATIONS
                )
            })?;
            Ok(Secret::Scram(Box::new(keys)))
        } else {
            Err(format!("a secret of an unknown form; expected {FORMS}"))
        }
    }

    /// True if this is the password. Slow on purpose: never on a shard's thread.
    pub(super) fn is_of(&self, password: &str) -> bool {
        match self {
            Secret::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Secret::Sha512Crypt(hash) => {
                ShaCrypt::SHA512.verify_password(password.as_bytes(), &**hash).is_ok()
            }
            Secret::SaltedSha1 { digest: known, salt } => {
                let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
                context.update(password.as_bytes());
                context.update(salt);
                constant_time::verify_slices_are_equal(context.finish().as_ref(), known).is_ok()
            }
            Secret::Scram(keys) => keys.are_of(password),
        }
    }

    /// About what a comparison costs, in rounds of SHA-256.
    pub(super) fn cost(&self) -> u64 {
        match self {
            // A round of bcrypt at cost 10 takes as long as some hundred thousand hashes.
            Secret::Bcrypt(hash) => 200 << cost_of_bcrypt(hash).unwrap_or_default(),
            Secret::Sha512Crypt(_) => u64::from(limits::SHA_CRYPT_ROUNDS),
            Secret::SaltedSha1 { .. } => 1,
            Secret::Scram(keys) => 2 * u64::from(keys.iterations),
        }
    }
}

impl ScramSha256Keys {
    fn are_of(&self, password: &str) -> bool {
        // A password that cannot be prepared was stored as typed, too.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let Some(iterations) = std::num::NonZeroU32::new(self.iterations) else { return false };
        let mut salted = [0; 32];
        let (algorithm, password) = (pbkdf2::PBKDF2_HMAC_SHA256, prepared.as_bytes());
        pbkdf2::derive(algorithm, iterations, &self.salt, password, &mut salted);
        // RFC 5802 §3: StoredKey is H(HMAC(SaltedPassword, "Client Key")).
        let client = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salted), b"Client Key");
        let stored = digest::digest(&digest::SHA256, client.as_ref());
        constant_time::verify_slices_are_equal(stored.as_ref(), &self.stored).is_ok()
    }
}

/// The cost of `$2y$COST$…`. `None`: it is no hash of bcrypt.
fn cost_of_bcrypt(text: &str) -> Option<u32> {
    let rest = ["$2a$", "$2b$", "$2y$"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let (cost, hash) = rest.split_once('$')?;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    // A salt of 22 letters and a hash of 31.
    let fits = cost.len() == 2 && hash.len() == 53 && hash.bytes().all(is_letter);
    cost.parse().ok().filter(|_| fits)
}

fn parse_bcrypt(text: &str) -> Result<Secret, String> {
    let most = limits::BCRYPT_COST;
    match cost_of_bcrypt(text) {
        Some(4..=limits::BCRYPT_COST) => Ok(Secret::Bcrypt(text.into())),
        Some(cost) => Err(format!("bcrypt with a cost of {cost}; expected 4 to {most}")),
        None => Err("a hash of bcrypt that is none; expected $2y$COST$ and 53 letters".to_owned()),
    }
}

fn parse_sha_crypt(text: &str, rest: &str) -> Result<Secret, String> {
    let (rounds, rest) = match rest.strip_prefix("rounds=").and_then(|rest| rest.split_once('$')) {
        Some((rounds, rest)) => (rounds.parse().unwrap_or(u32::MAX), rest),
        None => (5_000, rest),
    };
    let most = limits::SHA_CRYPT_ROUNDS;
    if !(1_000..=most).contains(&rounds) {
        return Err(format!("SHA-512-crypt with other rounds than 1000 to {most}"));
    }
    let fits = |(salt, hash): (&str, &str)| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
        (1..=16).contains(&salt.len()) && hash.len() == 86 && hash.bytes().all(is_letter)
    };
    match rest.split_once('$').is_some_and(fits) {
        true => Ok(Secret::Sha512Crypt(text.into())),
        false => Err("a hash of SHA-512-crypt that is none; expected $6$SALT$ and 86 letters".to_owned()),
    }
}

/// `ROUNDS:SALT$STORED:SERVER`.
fn parse_scram(text: &str) -> Option<ScramSha256Keys> {
    let (salted, keys) = text.split_once('$')?;
    let ((iterations, salt), (stored, server)) = (salted.split_once(':')?, keys.split_once(':')?);
    let key = |text: &str| <[u8; 32]>::try_from(STANDARD.decode(text).ok()?).ok();
    let (iterations, salt) = (iterations.parse().ok()?, STANDARD.decode(salt).ok()?);
    let fits = (1..=limits::SCRAM_ITERATIONS).contains(&iterations)
        && (1..=limits::SCRAM_SALT).contains(&salt.len());
    let keys = ScramSha256Keys { salt: salt.into(), iterations, stored: key(stored)?, server: key(server)? };
    fits.then_some(keys)
}
