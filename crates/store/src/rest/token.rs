//! Verifiers of auth tokens, from which the token cannot be computed. A token is 128 random bits, so one
//! salted hash is enough: a slower one would not make it harder to guess.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stdx::{ct_eq, hex};

/// In the record: the salt and SHA-256 of salt and token, each in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenVerifier {
    salt: String,
    hash: String,
}

impl TokenVerifier {
    /// Hashes a token with this salt.
    pub fn new(token: &str, salt: [u8; 16]) -> Self {
        let salt = hex::encode(&salt);
        TokenVerifier { hash: hash(&salt, token), salt }
    }

    /// The verifier of no token: checks take as long as with a real one, and fail.
    pub fn of_no_token() -> Self {
        TokenVerifier { salt: hex::encode(&[0; 16]), hash: String::new() }
    }

    /// In constant time.
    pub fn is_of(&self, token: &str) -> bool {
        ct_eq(hash(&self.salt, token).as_bytes(), self.hash.as_bytes())
    }
}

fn hash(salt: &str, token: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(salt.as_bytes());
    hash.update(token.as_bytes());
    hex::encode(hash.finalize().as_slice())
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenVerifier(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_accepts_its_token_only_and_depends_on_the_salt() {
        let verifier = TokenVerifier::new("secret", [7; 16]);
        assert!(verifier.is_of("secret"));
        assert!(!verifier.is_of("secreT") && !verifier.is_of(""));
        assert_ne!(verifier, TokenVerifier::new("secret", [8; 16]));
        assert!(!TokenVerifier::of_no_token().is_of(""));
        assert_eq!(format!("{verifier:?}"), "TokenVerifier(hidden)");
    }
}
