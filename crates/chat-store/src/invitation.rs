//! Invitations to make an account (XEP-0445).

use sha2::{Digest as _, Sha256};

/// The hash of an invitation's token, as the database has it.
pub fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
