//! The hash functions of RFC 7616 §6.1 and the hashes of a password that an account keeps.

use md5::{Digest, Md5};
use sha2::{Sha256, Sha512_256};

/// Hex digits of the longest digest.
pub(crate) const HEX_MAX: usize = 64;

/// A hash function without its `-sess` variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// MD5 (RFC 7616 §3.2).
    Md5,
    /// SHA-256 (RFC 7616 §3.2).
    Sha256,
    /// SHA-512/256 (RFC 7616 §3.2).
    Sha512_256,
}

impl Hash {
    /// The token of the `algorithm` parameter.
    pub fn as_str(self) -> &'static str {
        match self {
            Hash::Md5 => "MD5",
            Hash::Sha256 => "SHA-256",
            Hash::Sha512_256 => "SHA-512-256",
        }
    }

    /// Bytes of a digest.
    pub(crate) fn length(self) -> usize {
        match self {
            Hash::Md5 => 16,
            Hash::Sha256 | Hash::Sha512_256 => 32,
        }
    }

    /// Without regard to case; `None` for functions that we do not compute.
    pub fn from_bytes(token: &[u8]) -> Option<Hash> {
        [Hash::Sha256, Hash::Sha512_256, Hash::Md5]
            .into_iter()
            .find(|hash| token.eq_ignore_ascii_case(hash.as_str().as_bytes()))
    }
}

/// The algorithm that a client names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The hash function, without `-sess`.
    pub hash: Hash,
    /// `-sess`: HA1 is hashed once more with nonce and cnonce.
    pub session: bool,
}

impl Algorithm {
    /// `MD5`, also for a client that names no algorithm (RFC 7616 §3.4).
    pub const MD5: Algorithm = Algorithm { hash: Hash::Md5, session: false };
    /// `SHA-256`.
    pub const SHA_256: Algorithm = Algorithm { hash: Hash::Sha256, session: false };
    /// `SHA-512-256`.
    pub const SHA_512_256: Algorithm = Algorithm { hash: Hash::Sha512_256, session: false };

    /// The algorithm of a token, in any case; `None` if it is unknown.
    pub fn from_bytes(token: &[u8]) -> Option<Algorithm> {
        let split = token.len().saturating_sub(5);
        if token[split..].eq_ignore_ascii_case(b"-sess") {
            return Some(Algorithm { hash: Hash::from_bytes(&token[..split])?, session: true });
        }
        Some(Algorithm { hash: Hash::from_bytes(token)?, session: false })
    }
}

/// H(user ":" realm ":" password) by each function: all that is kept of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Ha1s {
    /// HA1 by MD5.
    pub md5: [u8; 16],
    /// HA1 by SHA-256.
    pub sha256: [u8; 32],
    /// HA1 by SHA-512/256.
    pub sha512_256: [u8; 32],
}

impl Ha1s {
    /// Computes the hashes of all algorithms from a password.
    pub fn compute(user: &str, realm: &str, password: &str) -> Ha1s {
        let text = format!("{user}:{realm}:{password}");
        Ha1s {
            md5: Md5::digest(&text).into(),
            sha256: Sha256::digest(&text).into(),
            sha512_256: Sha512_256::digest(&text).into(),
        }
    }

    pub(crate) fn of(&self, hash: Hash) -> &[u8] {
        match hash {
            Hash::Md5 => &self.md5,
            Hash::Sha256 => &self.sha256,
            Hash::Sha512_256 => &self.sha512_256,
        }
    }
}

impl std::fmt::Debug for Ha1s {
    /// As good as the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ha1s")
    }
}

/// A digest as lower-case hexadecimal digits, without an allocation.
#[derive(Clone, Copy)]
pub(crate) struct Hex {
    digits: [u8; HEX_MAX],
    length: usize,
}

impl Hex {
    pub(crate) fn of(bytes: &[u8]) -> Hex {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; HEX_MAX];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Hex { digits, length: (bytes.len() * 2).min(HEX_MAX) }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.length]
    }
}

/// H of the parts joined by colons, as hexadecimal digits.
pub(crate) fn hash_hex(hash: Hash, parts: &[&[u8]]) -> Hex {
    match hash {
        Hash::Md5 => joined::<Md5>(parts),
        Hash::Sha256 => joined::<Sha256>(parts),
        Hash::Sha512_256 => joined::<Sha512_256>(parts),
    }
}

fn joined<D: Digest>(parts: &[&[u8]]) -> Hex {
    let mut hasher = D::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hasher.update(b":");
        }
        hasher.update(part);
    }
    Hex::of(&hasher.finalize())
}
