//! One secret, a key of its own for every purpose.

use sha2::{Digest, Sha256};

/// Keys of different purposes tell nothing of each other, nor of the secret.
pub(crate) fn derive(secret: &[u8; 32], purpose: &str) -> [u8; 16] {
    let digest = Sha256::new().chain_update(secret).chain_update(purpose).finalize();
    std::array::from_fn(|index| digest[index])
}
