//! Keys of SCRAM (RFC 5802): the store's, and the same as SASL takes them.

use std::sync::Arc;

use store::{ScramHash, ScramKeys, Verifiers};
use subtle::ConstantTimeEq;
use xmpp::sasl::{self, Hash, Keys, Secret};

/// The hashes of which accounts have keys.
pub const HASHES: [Hash; 3] = [Hash::Sha1, Hash::Sha256, Hash::Sha512];

/// The keys of an account with that hash.
pub fn known(verifiers: &Verifiers, hash: Hash) -> Option<Keys> {
    let ScramKeys { salt, iterations, stored, server } = verifiers.scram(kind(hash))?;
    Some(Keys { salt, iterations, stored, server })
}

/// All keys of an account.
pub fn all_known(verifiers: &Verifiers) -> Vec<(Hash, Keys)> {
    HASHES.into_iter().filter_map(|hash| Some((hash, known(verifiers, hash)?))).collect()
}

/// Keys as the store takes them.
pub fn kept(hash: Hash, keys: Keys) -> (ScramHash, ScramKeys) {
    let Keys { salt, iterations, stored, server } = keys;
    (kind(hash), ScramKeys { salt, iterations, stored, server })
}

fn kind(hash: Hash) -> ScramHash {
    match hash {
        Hash::Sha1 => ScramHash::Sha1,
        Hash::Sha256 => ScramHash::Sha256,
        Hash::Sha512 => ScramHash::Sha512,
    }
}

/// Checks a password against the first SCRAM keys of an account that has keys only. Takes milliseconds: not
/// on a shard.
pub fn are_of(verifiers: &Verifiers, password: &Secret) -> bool {
    let first = HASHES.into_iter().find_map(|hash| Some((hash, known(verifiers, hash)?)));
    first.is_some_and(|(hash, known)| {
        let keys = sasl::derive(hash, &password.0, &known.salt, known.iterations);
        keys.stored.ct_eq(&known.stored).into()
    })
}

/// Keys of all hashes for a password. Takes milliseconds: not on a shard. None when the system gives no randomness: the
/// account then has none, as one whose password the record has only hashes of.
pub fn make(password: &str) -> Arc<[(ScramHash, ScramKeys)]> {
    HASHES.into_iter().filter_map(|hash| make_one(hash, password)).collect()
}

/// The keys for a password that an account does not have yet.
pub fn make_missing(verifiers: &Verifiers, password: &str) -> Arc<[(ScramHash, ScramKeys)]> {
    let missing = HASHES.into_iter().filter(|hash| known(verifiers, *hash).is_none());
    missing.filter_map(|hash| make_one(hash, password)).collect()
}

fn make_one(hash: Hash, password: &str) -> Option<(ScramHash, ScramKeys)> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).ok()?;
    Some(kept(hash, sasl::derive(hash, password, &salt, xmpp::limits::SCRAM_ITERATIONS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_password_tell_the_right_one() {
        let keys = make("secret");
        for only in 0..keys.len() {
            let verifiers = Verifiers::without_password(&[7; 32]).with_scram(&keys[only..=only]);
            assert!(are_of(&verifiers, &Secret("secret".into())));
            assert!(!are_of(&verifiers, &Secret("Secret".into())));
        }
        assert!(!are_of(&Verifiers::without_password(&[7; 32]), &Secret("".into())));
    }
}
