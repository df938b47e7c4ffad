//! What the record knows of who signs in.

use std::sync::Arc;

use store::{Account, ScramHash, ScramKeys, Verifiers};
use subtle::ConstantTimeEq;
use xmpp::Bare;
use xmpp::sasl::{self, Find, Hash, Known, Secret};

use crate::limits;

/// The account of that answer, where it may sign in at this domain by this name, and has an address of XMPP's: one
/// with capital letters has not, for all of its spellings would be somebody's.
pub(super) fn account_of<'a>(found: Option<&'a Account>, domain: &str) -> Option<&'a Account> {
    let account = found.filter(|account| !account.disabled && *account.domain == *domain)?;
    let bare = Bare::new(Some(&account.name), &account.domain).ok()?;
    (bare.local() == Some(&*account.name)).then_some(account)
}

/// Whether it is so.
pub(super) fn check(find: &Find, account: Option<&Account>) -> Known {
    match (find, account) {
        (Find::Password { password, .. }, Some(account)) => Known::Password(is_password(account, password)),
        (Find::Password { .. }, None) => Known::Password(false),
        (Find::Keys { hash, .. }, Some(account)) => match account.verifiers.scram(name_of(*hash)) {
            Some(keys) => Known::Keys(sasl::Keys {
                salt: keys.salt,
                iterations: keys.iterations,
                stored: keys.stored,
                server: keys.server,
            }),
            None => Known::Nobody,
        },
        (Find::Account { .. }, Some(_)) => Known::Account,
        // Tokens are asked for by themselves.
        (Find::Keys { .. } | Find::Account { .. } | Find::Tokens { .. }, None)
        | (Find::Tokens { .. }, Some(_)) => Known::Nobody,
    }
}

/// Every account has what phones prove (RFC 7616 §3.4.2), and it is cheaper to make than keys of SCRAM.
fn is_password(account: &Account, password: &Secret) -> bool {
    let given = Verifiers::from_password(&account.name, &account.domain, &password.0);
    given.sha256.ct_eq(&account.verifiers.sha256).into()
}

/// Of an account that came with keys only, by the first of them. Takes milliseconds: not on a shard.
pub(crate) fn is_password_of_keys(verifiers: &Verifiers, password: &Secret) -> bool {
    HASHES.iter().find_map(|hash| Some((*hash, verifiers.scram(name_of(*hash))?))).is_some_and(
        |(hash, known)| {
            let keys = sasl::derive(hash, &password.0, &known.salt, known.iterations);
            keys.stored.ct_eq(&known.stored).into()
        },
    )
}

/// Whether keys of SCRAM are to be made, now that the password is known.
pub(super) fn wants_keys(account: &Account) -> bool {
    HASHES.iter().any(|hash| account.verifiers.scram(name_of(*hash)).is_none())
}

const HASHES: [Hash; 3] = [Hash::Sha1, Hash::Sha256, Hash::Sha512];

fn name_of(hash: Hash) -> ScramHash {
    match hash {
        Hash::Sha1 => ScramHash::Sha1,
        Hash::Sha256 => ScramHash::Sha256,
        Hash::Sha512 => ScramHash::Sha512,
    }
}

/// Keys of all hashes for a password. Takes milliseconds: not on a shard. None when the system gives no randomness: the
/// account then has none, as one whose password the record has only hashes of.
pub(crate) fn make_keys(password: &str) -> Arc<[(ScramHash, ScramKeys)]> {
    let make = |hash| {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).ok()?;
        let keys = sasl::derive(hash, password, &salt, limits::SCRAM_ITERATIONS);
        let sasl::Keys { salt, iterations, stored, server } = keys;
        Some((name_of(hash), ScramKeys { salt, iterations, stored, server }))
    };
    HASHES.into_iter().filter_map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::AccountLimits;

    fn account(name: &str) -> Account {
        Account {
            id: 1,
            name: name.into(),
            domain: "example.org".into(),
            display_name: "".into(),
            verifiers: Verifiers::from_password(name, "example.org", "secret"),
            disabled: false,
            limits: AccountLimits::default(),
            created_at: stdx::Instant::default(),
        }
    }

    fn password(password: &str) -> Find {
        Find::Password { user: "alice".into(), password: Secret(password.into()) }
    }

    #[test]
    fn the_password_of_a_phone_is_the_password() {
        let alice = account("alice");
        assert_eq!(check(&password("secret"), Some(&alice)), Known::Password(true));
        assert_eq!(check(&password("Secret"), Some(&alice)), Known::Password(false));
        assert_eq!(check(&password("secret"), None), Known::Password(false));
    }

    #[test]
    fn keys_are_there_once_they_are_made() {
        let mut alice = account("alice");
        let find = Find::Keys { user: "alice".into(), hash: Hash::Sha256 };
        assert_eq!(check(&find, Some(&alice)), Known::Nobody);
        assert!(wants_keys(&alice));
        alice.verifiers = alice.verifiers.with_scram(&make_keys("secret"));
        assert!(!wants_keys(&alice));
        let Known::Keys(keys) = check(&find, Some(&alice)) else { panic!("no keys") };
        assert_eq!(keys, sasl::derive(Hash::Sha256, "secret", &keys.salt, limits::SCRAM_ITERATIONS));
    }

    #[test]
    fn keys_without_a_password_tell_the_right_one() {
        let keys = make_keys("secret");
        for only in 0..keys.len() {
            let verifiers = Verifiers::without_password(&[7; 32]).with_scram(&keys[only..=only]);
            assert!(is_password_of_keys(&verifiers, &Secret("secret".into())));
            assert!(!is_password_of_keys(&verifiers, &Secret("Secret".into())));
        }
        assert!(!is_password_of_keys(&Verifiers::without_password(&[7; 32]), &Secret("".into())));
    }

    #[test]
    fn who_may_not_sign_in_is_as_nobody() {
        let alice = account("alice");
        assert_eq!(account_of(Some(&alice), "example.org"), Some(&alice));
        assert_eq!(account_of(Some(&alice), "other.org"), None, "an alias in another domain");
        assert_eq!(account_of(Some(&Account { disabled: true, ..alice.clone() }), "example.org"), None);
        assert_eq!(account_of(Some(&account("Alice")), "example.org"), None);
        assert_eq!(account_of(None, "example.org"), None);
    }
}
