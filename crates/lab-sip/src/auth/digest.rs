//! The response of RFC 7616 §3.4.1 and of the RFCs before it.
//!
//! Used for answers to challenges and for checking a peer's answer. RFC 2069 without `qop`, RFC 2617 with it and with `-sess`, RFC 7616 with
//! SHA-2; the formulas are the same, only the hash differs.

use md5::{Digest, Md5};
use sha2::{Sha256, Sha512_256};

/// In order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Md5,
    Sha256,
    Sha512_256,
}

/// The `algorithm` of a challenge: the hash function, and `-sess` (RFC 7616 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Algorithm {
    /// The hash function of all steps.
    pub(super) hash: Hash,
    /// A `-sess` variant.
    pub(super) session: bool,
    /// AKAv1-MD5: MD5 over a password computed from the nonce.
    pub(super) aka: bool,
}

impl Algorithm {
    pub(super) const MD5: Algorithm = Algorithm { hash: Hash::Md5, session: false, aka: false };

    /// `None` for an algorithm that is not implemented.
    pub(super) fn from_bytes(name: &[u8]) -> Option<Algorithm> {
        let known: [(&str, Hash, bool, bool); 7] = [
            ("MD5", Hash::Md5, false, false),
            ("MD5-sess", Hash::Md5, true, false),
            ("SHA-256", Hash::Sha256, false, false),
            ("SHA-256-sess", Hash::Sha256, true, false),
            ("SHA-512-256", Hash::Sha512_256, false, false),
            ("SHA-512-256-sess", Hash::Sha512_256, true, false),
            ("AKAv1-MD5", Hash::Md5, false, true),
        ];
        known
            .into_iter()
            .find(|(token, ..)| name.eq_ignore_ascii_case(token.as_bytes()))
            .map(|(_, hash, session, aka)| Algorithm { hash, session, aka })
    }
}

/// The quality of protection that a challenge offers and an answer names (RFC 7616 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Qop {
    /// No `qop`: the answer of RFC 2069, without counter and cnonce.
    None,
    /// The request line is protected.
    Auth,
    /// The body is protected too.
    AuthInt,
}

impl Qop {
    /// From a list. As SIPp: the stronger where both are offered.
    pub(super) fn offered(list: &[u8]) -> Qop {
        let has = |word: &str| {
            list.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        };
        if has("auth-int") {
            Qop::AuthInt
        } else if has("auth") {
            Qop::Auth
        } else {
            Qop::None
        }
    }

    pub(super) fn as_bytes(self) -> &'static [u8] {
        match self {
            Qop::None => b"",
            Qop::Auth => b"auth",
            Qop::AuthInt => b"auth-int",
        }
    }
}

/// Everything a response is computed from.
pub(super) struct Response<'a> {
    /// Chosen by the challenge.
    pub(super) algorithm: Algorithm,
    pub(super) username: &'a [u8],
    pub(super) realm: &'a [u8],
    /// The plain password, or RES of AKA.
    pub(super) password: &'a [u8],
    pub(super) nonce: &'a [u8],
    pub(super) method: &'a [u8],
    /// As it stands in the answer, which need not be the Request-URI.
    pub(super) uri: &'a [u8],
    pub(super) qop: Qop,
    /// Empty without `qop`.
    pub(super) cnonce: &'a [u8],
    /// Eight hexadecimal digits: how often the nonce was used.
    pub(super) nc: &'a [u8],
    /// Hashed with `auth-int` only.
    pub(super) body: &'a [u8],
}

impl Response<'_> {
    /// In lower-case hexadecimal.
    pub(super) fn compute(&self) -> Vec<u8> {
        match self.algorithm.hash {
            Hash::Md5 => self.compute_with::<Md5>(),
            Hash::Sha256 => self.compute_with::<Sha256>(),
            Hash::Sha512_256 => self.compute_with::<Sha512_256>(),
        }
    }

    fn compute_with<D: Digest>(&self) -> Vec<u8> {
        // HA1, with `-sess` hashed again with both nonces; HA2; and the response over both (RFC 7616 §3.4.1 to §3.4.3).
        let mut ha1 = hex_of::<D>(&[self.username, self.realm, self.password]);
        if self.algorithm.session {
            ha1 = hex_of::<D>(&[&ha1, self.nonce, self.cnonce]);
        }
        let ha2 = match self.qop {
            Qop::AuthInt => {
                let body = hex_of::<D>(&[self.body]);
                hex_of::<D>(&[self.method, self.uri, &body])
            }
            Qop::None | Qop::Auth => hex_of::<D>(&[self.method, self.uri]),
        };
        match self.qop {
            Qop::None => hex_of::<D>(&[&ha1, self.nonce, &ha2]),
            qop => hex_of::<D>(&[&ha1, self.nonce, self.nc, self.cnonce, qop.as_bytes(), &ha2]),
        }
    }
}

/// The hash of the parts with colons between.
fn hex_of<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut hash = D::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hash.update(b":");
        }
        hash.update(part);
    }
    let mut hex = Vec::with_capacity(64);
    stdx::hex::encode_into(&hash.finalize(), &mut hex);
    hex
}
