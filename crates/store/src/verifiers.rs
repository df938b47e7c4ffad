//! Verifiers of passwords, from which the password cannot be computed: RFC 7616 §3.4.2 HA1 values, one for
//! each digest algorithm, and SCRAM keys (RFC 5802 §3) where they have been derived.

use std::fmt;
use std::sync::Arc;

use md5::Md5;
use sha2::{Digest, Sha256, Sha512_256};
use stdx::Instant;

use crate::error::StoreError;
use crate::limits;

// Kinds of entries, as they stand in the record.
const MD5: u8 = 1;
const SHA256: u8 = 2;
const SHA512_256: u8 = 3;
const SCRAM_SHA1: u8 = 4;
const SCRAM_SHA256: u8 = 5;
const SCRAM_SHA512: u8 = 6;
/// Empty: the values of the digests are of no password.
const NO_PASSWORD: u8 = 7;
/// Eight bytes: the second since 1970 from which on the digests prove nothing.
const EXPIRES: u8 = 8;
/// Empty: only the value of MD5 is of a password, those of the other digests are of none.
const MD5_ONLY: u8 = 9;

/// The verifiers of one account. Kinds this version does not know are kept as they are, so that a later
/// version's (SCRAM) survive a rollback.
///
/// In the record: entries of kind (1 byte), length (1 byte) and value, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifiers {
    /// `H(user:realm:password)` with MD5.
    pub md5: [u8; 16],
    /// The same with SHA-256.
    pub sha256: [u8; 32],
    /// The same with SHA-512/256.
    pub sha512_256: [u8; 32],
    /// Entries of all other kinds, encoded as in the record.
    other: Box<[u8]>,
}

impl Verifiers {
    /// HA1 is the hash of `user:realm:password`; the realm of an account is its domain.
    pub fn from_password(user: &str, realm: &str, password: &str) -> Self {
        let mut a1 = Vec::with_capacity(user.len() + realm.len() + password.len() + 2);
        for part in [user, ":", realm, ":", password] {
            a1.extend_from_slice(part.as_bytes());
        }
        Verifiers {
            md5: Md5::digest(&a1).into(),
            sha256: Sha256::digest(&a1).into(),
            sha512_256: Sha512_256::digest(&a1).into(),
            other: Box::default(),
        }
    }

    /// Verifiers in whose place those of a password are still to come: no password has these.
    pub fn underived() -> Self {
        Verifiers { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32], other: Box::default() }
    }

    /// Verifiers of an account that has SCRAM keys only, so its password is not known here: no password fits
    /// the digests. `unknown` is random: with its value a digest response could be computed.
    pub fn without_password(unknown: &[u8; 32]) -> Self {
        let mut verifiers = Verifiers::from_password("", "", "");
        verifiers.md5 = Md5::digest([&unknown[..], b"md5"].concat()).into();
        verifiers.sha256 = Sha256::digest([&unknown[..], b"sha-256"].concat()).into();
        verifiers.sha512_256 = Sha512_256::digest([&unknown[..], b"sha-512-256"].concat()).into();
        verifiers.set(NO_PASSWORD, &[]);
        verifiers
    }

    /// Verifiers of an account of which only the HA1 of MD5 is known, as other servers keep it: phones prove it by MD5,
    /// and by no other algorithm. `unknown` is as in [`without_password`](Self::without_password).
    pub fn of_md5(md5: [u8; 16], unknown: &[u8; 32]) -> Self {
        let mut verifiers = Verifiers::without_password(unknown);
        (verifiers.md5, verifiers.other) = (md5, Box::default());
        verifiers.set(MD5_ONLY, &[]);
        verifiers
    }

    /// True if the password is known by the HA1 of MD5 only.
    pub fn are_of_md5_only(&self) -> bool {
        self.find(MD5_ONLY).is_some()
    }

    /// The digests by which a given password is compared with that of the account, of these and of `given`: SHA-256, or MD5
    /// where nothing else is known. The caller compares in constant time.
    pub fn compared<'a>(&'a self, given: &'a Verifiers) -> (&'a [u8], &'a [u8]) {
        match self.are_of_md5_only() {
            true => (&self.md5, &given.md5),
            false => (&self.sha256, &given.sha256),
        }
    }

    /// True if a phone can prove the password: not if the account has SCRAM keys only.
    pub fn are_of_password(&self) -> bool {
        self.find(NO_PASSWORD).is_none()
    }

    /// The same until a time, in whole seconds: verifiers of a password that another service may change.
    #[must_use]
    pub fn expiring_at(mut self, time: Instant) -> Self {
        self.set(EXPIRES, &time.unix_seconds().to_be_bytes());
        self
    }

    /// The time from which on they prove nothing. `None`: they prove the password until it is changed here.
    pub fn expires_at(&self) -> Option<Instant> {
        let seconds = self.find(EXPIRES)?.try_into().ok()?;
        Some(Instant::from_unix_seconds(u64::from_be_bytes(seconds)))
    }

    /// True if they prove nothing any more.
    pub fn are_expired(&self, now: Instant) -> bool {
        self.expires_at().is_some_and(|time| time <= now)
    }

    /// The same without digests: SCRAM keys only. `None`: there are none, and nothing would be left. The
    /// values in the digests' place are made of the keys, so they change with the password.
    pub(crate) fn without_digests(&self) -> Option<Verifiers> {
        if !self.are_of_password() {
            return Some(self.clone());
        }
        let hashes = [ScramHash::Sha1, ScramHash::Sha256, ScramHash::Sha512];
        let keys: Vec<u8> =
            hashes.into_iter().filter_map(|hash| self.find(hash.kind())).flatten().copied().collect();
        let mut verifiers = Verifiers::without_password(&Sha256::digest(&keys).into());
        // First, where `HAS_DIGESTS` looks for it.
        verifiers.other = [&verifiers.other, &self.other].into_iter().flatten().copied().collect();
        (!keys.is_empty()).then_some(verifiers)
    }

    /// True if these prove the same password as others, as far as that can be seen.
    pub(crate) fn prove_the_same(&self, others: &Verifiers) -> bool {
        if self.are_of_password() && others.are_of_password() {
            let by_md5 = self.are_of_md5_only() || others.are_of_md5_only();
            return if by_md5 { self.md5 == others.md5 } else { self.sha256 == others.sha256 };
        }
        let hashes = [ScramHash::Sha1, ScramHash::Sha256, ScramHash::Sha512];
        let mut keys = hashes.into_iter().filter_map(|hash| Some((self.scram(hash)?, others.scram(hash))));
        // Keys are made with a salt of their own: equal ones are of one password.
        keys.any(|(keys, other)| Some(keys) == other)
    }

    /// True if an import writes these over those that an account has: they are of another password, or prove the same
    /// one in more ways. Keys that were made of the same password since are as good as ever.
    pub(crate) fn replace(&self, old: &Verifiers) -> bool {
        let is_more = self.are_of_password()
            && (self.has_scram() || (old.are_of_md5_only() && !self.are_of_md5_only()));
        is_more || !self.prove_the_same(old)
    }

    /// True if SCRAM keys have been derived from the password.
    pub fn has_scram(&self) -> bool {
        [ScramHash::Sha1, ScramHash::Sha256].into_iter().any(|hash| self.scram(hash).is_some())
    }

    /// The keys of SCRAM with that hash.
    pub fn scram(&self, hash: ScramHash) -> Option<ScramKeys> {
        self.find(hash.kind()).and_then(ScramKeys::decode)
    }

    /// The value of the first entry of a kind among `other`. Damaged entries end the search.
    fn find(&self, wanted: u8) -> Option<&[u8]> {
        let mut bytes = &self.other[..];
        while let [kind, length, rest @ ..] = bytes {
            let (value, rest) = rest.split_at_checked(usize::from(*length))?;
            if *kind == wanted {
                return Some(value);
            }
            bytes = rest;
        }
        None
    }

    /// Adds or replaces SCRAM keys, which the caller has derived from the password.
    pub fn set_scram(&mut self, hash: ScramHash, keys: &ScramKeys) {
        self.set(hash.kind(), &keys.encode());
    }

    /// Drops entries of the kind and adds the new one at the end.
    fn set(&mut self, wanted: u8, new: &[u8]) {
        let mut other = Vec::with_capacity(self.other.len() + 160);
        let mut bytes = &self.other[..];
        while let [kind, length, rest @ ..] = bytes {
            let Some((value, rest)) = rest.split_at_checked(usize::from(*length)) else { break };
            if *kind != wanted {
                push(&mut other, *kind, value);
            }
            bytes = rest;
        }
        push(&mut other, wanted, new);
        self.other = other.into();
    }

    /// As [`set_scram`](Self::set_scram), with all of them.
    #[must_use]
    pub fn with_scram(mut self, keys: &[(ScramHash, ScramKeys)]) -> Self {
        for (hash, keys) in keys {
            self.set_scram(*hash, keys);
        }
        self
    }

    /// In SQL: verifiers that have digests of a password. The three digests stand before [`NO_PASSWORD`].
    pub(crate) const HAS_DIGESTS: &str = "substr(verifiers, 87, 2) <> x'0700'";

    /// Digests first, in this order: 18, 34 and 34 bytes with their heads, which is the 86 that `HAS_DIGESTS` counts on.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(86 + self.other.len());
        push(&mut out, MD5, &self.md5);
        push(&mut out, SHA256, &self.sha256);
        push(&mut out, SHA512_256, &self.sha512_256);
        out.extend_from_slice(&self.other);
        out
    }

    /// All three digests must be there and nothing may be left over; then unknown kinds are no damage.
    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Internal { detail: "verifiers of an account are damaged".into() };
        let (mut md5, mut sha256, mut sha512_256) = (None, None, None);
        let mut other = Vec::new();
        for _ in 0..limits::MAX_VERIFIERS {
            let [kind, length, rest @ ..] = bytes else { break };
            let (value, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(damaged)?;
            match *kind {
                MD5 => md5 = value.try_into().ok(),
                SHA256 => sha256 = value.try_into().ok(),
                SHA512_256 => sha512_256 = value.try_into().ok(),
                kind => push(&mut other, kind, value),
            }
            bytes = rest;
        }
        let other = other.into_boxed_slice();
        match (bytes, md5, sha256, sha512_256) {
            ([], Some(md5), Some(sha256), Some(sha512_256)) => {
                Ok(Verifiers { md5, sha256, sha512_256, other })
            }
            _ => Err(damaged()),
        }
    }
}

/// Makes keys of SCRAM for a password; none where that cannot be. The record itself does not know how.
pub type MakeKeys = fn(&str) -> Arc<[(ScramHash, ScramKeys)]>;

/// A hash of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScramHash {
    /// SCRAM-SHA-1 (RFC 5802); keys of 20 bytes.
    Sha1,
    /// SCRAM-SHA-256 (RFC 7677); keys of 32 bytes.
    Sha256,
    /// SCRAM-SHA-512; keys of 64 bytes.
    Sha512,
}

impl ScramHash {
    /// The kind of entry that its keys are kept in.
    fn kind(self) -> u8 {
        match self {
            ScramHash::Sha1 => SCRAM_SHA1,
            ScramHash::Sha256 => SCRAM_SHA256,
            ScramHash::Sha512 => SCRAM_SHA512,
        }
    }
}

/// Salt, iterations, StoredKey and ServerKey; the keys are of one length.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// At most 64 bytes.
    pub salt: Box<[u8]>,
    /// The iteration count `i` of RFC 5802 §5.1.
    pub iterations: u32,
    /// StoredKey of RFC 5802 §3: the hash of the client's key.
    pub stored: Box<[u8]>,
    /// ServerKey of RFC 5802 §3: it proves the server to the client.
    pub server: Box<[u8]>,
}

impl ScramKeys {
    /// Four bytes of iterations, one of the salt's length, the salt, both keys.
    fn encode(&self) -> Vec<u8> {
        let mut out = self.iterations.to_be_bytes().to_vec();
        let salt = &self.salt[..self.salt.len().min(64)];
        out.push(u8::try_from(salt.len()).unwrap_or(64));
        out.extend_from_slice(salt);
        out.extend_from_slice(&self.stored);
        out.extend_from_slice(&self.server);
        out
    }

    /// `None` for anything that cannot be keys. The hash's length is not checked here.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (iterations, rest) = bytes.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first()?;
        let (salt, keys) = rest.split_at_checked(usize::from(*length))?;
        let (stored, server) = keys.split_at_checked(keys.len() / 2)?;
        let is_whole = !stored.is_empty() && stored.len() == server.len();
        is_whole.then(|| ScramKeys {
            salt: salt.into(),
            iterations: u32::from_be_bytes(*iterations),
            stored: stored.into(),
            server: server.into(),
        })
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(hidden)")
    }
}

/// One entry: kind, length, value.
fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    // Values come from this file or were read with a one-byte length.
    let length = u8::try_from(value.len()).expect("a verifier is shorter than 256 bytes");
    out.push(kind);
    out.push(length);
    out.extend_from_slice(value);
}

impl fmt::Debug for Verifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifiers(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn ha1_is_that_of_the_rfc() {
        // RFC 2617 §3.5 uses this user, realm and password; RFC 7616 §3.9.1 the same user with another realm.
        let verifiers = Verifiers::from_password("Mufasa", "testrealm@host.com", "Circle Of Life");
        assert_eq!(hex(&verifiers.md5), "939e7578ed9e3c518a452acee763bce9");
        let verifiers = Verifiers::from_password("Mufasa", "http-auth@example.org", "Circle of Life");
        assert_eq!(hex(&verifiers.md5), "3d78807defe7de2157e2b0b6573a855f");
        assert_eq!(
            hex(&verifiers.sha256),
            "7987c64c30e25f1b74be53f966b49b90f2808aa92faf9a00262392d7b4794232"
        );
    }

    #[test]
    fn kinds_of_verifiers_of_a_later_version_are_kept() {
        let mut bytes = Verifiers::from_password("a", "b", "c").encode();
        bytes.extend_from_slice(&[200, 3, 1, 2, 3]);
        assert_eq!(Verifiers::decode(&bytes).unwrap().encode(), bytes);
    }

    #[test]
    fn keys_of_scram_are_kept_beside_the_others_and_replaced() {
        let keys = |byte: u8| ScramKeys {
            salt: [byte; 16].into(),
            iterations: 4_096,
            stored: [byte; 64].into(),
            server: [byte + 1; 64].into(),
        };
        let mut verifiers = Verifiers::from_password("a", "b", "c");
        assert_eq!(verifiers.scram(ScramHash::Sha512), None);
        verifiers.set_scram(ScramHash::Sha512, &keys(1));
        verifiers.set_scram(ScramHash::Sha1, &keys(3));
        verifiers.set_scram(ScramHash::Sha512, &keys(5));
        let read = Verifiers::decode(&verifiers.encode()).unwrap();
        assert_eq!(read, verifiers);
        assert_eq!(read.scram(ScramHash::Sha512), Some(keys(5)));
        assert_eq!(read.scram(ScramHash::Sha1), Some(keys(3)));
        assert_eq!(read.scram(ScramHash::Sha256), None);
    }

    #[test]
    fn scram_keys_without_a_password_are_marked_so() {
        let keys = ScramKeys {
            salt: [1; 8].into(),
            iterations: 10_000,
            stored: [2; 20].into(),
            server: [3; 20].into(),
        };
        let of = |unknown: u8| {
            Verifiers::without_password(&[unknown; 32]).with_scram(&[(ScramHash::Sha1, keys.clone())])
        };
        let read = Verifiers::decode(&of(1).encode()).unwrap();
        assert_eq!((read.are_of_password(), read.scram(ScramHash::Sha1)), (false, Some(keys.clone())));
        assert_ne!(read.sha256, Verifiers::from_password("", "", "").sha256);
        assert_ne!(read.sha256, of(2).sha256, "whatever is unknown");
        assert!(read.prove_the_same(&of(2)), "the keys are the same");
        let password = Verifiers::from_password("a", "b", "c");
        assert!(password.are_of_password() && !password.prove_the_same(&read));
        assert!(read.prove_the_same(&password.with_scram(&[(ScramHash::Sha1, keys)])));
    }

    #[test]
    fn verifiers_without_digests_contain_scram_keys_only() {
        let keys = |byte| ScramKeys {
            salt: [byte; 16].into(),
            iterations: 4_096,
            stored: [byte; 32].into(),
            server: [byte; 32].into(),
        };
        let full = Verifiers::from_password("a", "b", "c");
        assert_eq!(full.without_digests(), None, "nothing would be left");
        let of =
            |byte| full.clone().with_scram(&[(ScramHash::Sha256, keys(byte))]).without_digests().unwrap();
        let bare = Verifiers::decode(&of(1).encode()).unwrap();
        assert!(!bare.are_of_password() && bare.scram(ScramHash::Sha256) == Some(keys(1)));
        let bytes = bare.encode();
        for digest in [&full.md5[..], &full.sha256, &full.sha512_256] {
            assert!(!bytes.windows(digest.len()).any(|part| part == digest));
        }
        assert_eq!(bytes[86..88], [NO_PASSWORD, 0], "where SQL looks for it");
        assert_ne!(full.clone().with_scram(&[(ScramHash::Sha1, keys(2))]).encode()[86], NO_PASSWORD);
        assert_eq!(bare.without_digests().as_ref(), Some(&bare), "once is enough");
        assert_ne!(of(2).sha256, bare.sha256, "another password, another token");
    }

    #[test]
    fn verifiers_of_a_password_that_another_service_may_change_expire() {
        let (at, second) = (Instant::from_unix_seconds(1_700_000_000), std::time::Duration::from_secs(1));
        let lasting = Verifiers::from_password("a", "b", "c");
        assert_eq!((lasting.expires_at(), lasting.are_expired(at)), (None, false));
        let expiring = Verifiers::decode(&lasting.clone().expiring_at(at).encode()).unwrap();
        assert_eq!((expiring.expires_at(), expiring.sha256), (Some(at), lasting.sha256));
        assert!(expiring.are_of_password() && !expiring.are_expired(at - second) && expiring.are_expired(at));
        assert_eq!(
            expiring.expiring_at(at + second).expires_at(),
            Some(at + second),
            "the later time counts"
        );
    }

    #[test]
    fn a_password_known_by_md5_only_is_compared_by_md5_and_gives_way_to_the_whole() {
        let full = Verifiers::from_password("a", "b", "c");
        let of = |unknown: u8| Verifiers::of_md5(full.md5, &[unknown; 32]);
        let md5 = Verifiers::decode(&of(1).encode()).unwrap();
        assert!(md5.are_of_md5_only() && md5.are_of_password() && !full.are_of_md5_only());
        assert!(md5.sha256 != full.sha256 && md5.sha512_256 != full.sha512_256 && md5.sha256 != of(2).sha256);
        let (known, given) = md5.compared(&full);
        assert!(known == given && full.compared(&full).0.len() == 32);
        assert_ne!(md5.compared(&Verifiers::from_password("a", "b", "d")).0, full.sha256);
        assert!(md5.prove_the_same(&full) && full.prove_the_same(&md5) && md5.prove_the_same(&of(2)));
        assert!(!md5.prove_the_same(&Verifiers::from_password("a", "b", "d")));
        assert!(full.replace(&md5), "it proves more");
        assert!(!md5.replace(&full) && !md5.replace(&of(2)) && !full.replace(&full));
        assert_eq!(md5.without_digests(), None, "nothing else would be left");
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let bytes = Verifiers::from_password("a", "b", "c").encode();
        for cut in 0..bytes.len() {
            assert!(Verifiers::decode(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn debug_shows_nothing() {
        let verifiers = Verifiers::from_password("a", "b", "c");
        assert_eq!(format!("{verifiers:?}"), "Verifiers(hidden)");
    }
}
