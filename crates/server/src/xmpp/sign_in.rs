//! Answers sign-in queries from the accounts of the database.
//!
//! Pure functions over one account. Invariant: an unknown, disabled or foreign account takes the same work and
//! gives the same kind of answer as a wrong password, so that names cannot be found out.

use chat_store::keys::{self, HASHES};
use store::{Account, AccountLimits, ScramHash, ScramKeys, Verifiers};
use subtle::ConstantTimeEq;
use xmpp::Bare;
use xmpp::sasl::{CredentialAnswer, CredentialQuery, Secret};

use crate::limits;

/// The account of that answer, if it may sign in at this domain by this name and its name is valid in XMPP: a
/// name with capital letters is not, for all of its spellings would be one address.
pub(super) fn account_of<'a>(found: Option<&'a Account>, domain: &str) -> Option<&'a Account> {
    // The account of an alias may be of another domain: there the client has to sign in by that domain.
    let account = found.filter(|account| !account.disabled && *account.domain == *domain)?;
    let bare = Bare::new(Some(&account.name), &account.domain).ok()?;
    (bare.local() == Some(&*account.name)).then_some(account)
}

/// Stands in for an unknown account: no password fits, and the check takes as long.
pub(super) fn unknown_account(user: &str, domain: &str) -> Account {
    let (stored, server) = ([0; 20].into(), [0; 20].into());
    let keys = ScramKeys { salt: [0; 16].into(), iterations: limits::SCRAM_ITERATIONS, stored, server };
    Account {
        id: -1,
        name: user.into(),
        domain: domain.into(),
        display_name: "".into(),
        verifiers: Verifiers::without_password(&[0; 32]).with_scram(&[(ScramHash::Sha1, keys)]),
        disabled: true,
        limits: AccountLimits::default(),
        created_at: stdx::Instant::default(),
    }
}

/// Checks a credential.
pub(super) fn check(find: &CredentialQuery, account: Option<&Account>) -> CredentialAnswer {
    match (find, account) {
        (CredentialQuery::Password { password, .. }, Some(account)) => {
            CredentialAnswer::Password(is_password(account, password))
        }
        (CredentialQuery::Password { user, password }, None) => {
            // The work of a check with its result thrown away; without `black_box` the compiler could leave it
            // out.
            let _ = std::hint::black_box(Verifiers::from_password(user, "", &password.0));
            CredentialAnswer::Password(false)
        }
        (CredentialQuery::Keys { hash, .. }, Some(account)) => {
            keys::known(&account.verifiers, *hash).map_or(CredentialAnswer::NoAccount, CredentialAnswer::Keys)
        }
        (CredentialQuery::Account { .. }, Some(_)) => CredentialAnswer::Account,
        // Tokens are asked for by themselves.
        (
            CredentialQuery::Keys { .. } | CredentialQuery::Account { .. } | CredentialQuery::Tokens { .. },
            None,
        )
        // Proofs are checked by the exchange, and paced where it is answered (`ClientAccess::prove`).
        | (CredentialQuery::Proof { .. }, _)
        // So are tokens of identity providers, and domains without a provider accept none.
        | (CredentialQuery::Bearer { .. }, _)
        | (CredentialQuery::Tokens { .. }, Some(_)) => CredentialAnswer::NoAccount,
    }
}

/// Every account has what phones prove (RFC 7616 §3.4.2), and it is cheaper to make than keys of SCRAM.
fn is_password(account: &Account, password: &Secret) -> bool {
    let given = Verifiers::from_password(&account.name, &account.domain, &password.0);
    let (known, given) = account.verifiers.compared(&given);
    // In constant time: a comparison that ends at the first difference would tell how much was right.
    given.ct_eq(known).into()
}

/// True if SCRAM keys are to be made, now that the password is known, or digests that an import could not bring.
pub(super) fn wants_keys(account: &Account) -> bool {
    account.verifiers.are_of_md5_only()
        || HASHES.into_iter().any(|hash| keys::known(&account.verifiers, hash).is_none())
}

#[cfg(test)]
mod tests {
    use xmpp::sasl::{self, Hash};

    use super::*;

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

    fn password(password: &str) -> CredentialQuery {
        CredentialQuery::Password { user: "alice".into(), password: Secret(password.into()) }
    }

    #[test]
    fn the_password_of_a_phone_is_the_password() {
        let alice = account("alice");
        assert_eq!(check(&password("secret"), Some(&alice)), CredentialAnswer::Password(true));
        assert_eq!(check(&password("Secret"), Some(&alice)), CredentialAnswer::Password(false));
        assert_eq!(check(&password("secret"), None), CredentialAnswer::Password(false));
    }

    #[test]
    fn keys_are_there_once_they_are_made() {
        let mut alice = account("alice");
        let find = CredentialQuery::Keys { user: "alice".into(), hash: Hash::Sha256 };
        assert_eq!(check(&find, Some(&alice)), CredentialAnswer::NoAccount);
        assert!(wants_keys(&alice));
        alice.verifiers = alice.verifiers.with_scram(&keys::make("secret"));
        assert!(!wants_keys(&alice));
        let CredentialAnswer::Keys(keys) = check(&find, Some(&alice)) else { panic!("no keys") };
        assert_eq!(keys, sasl::derive(Hash::Sha256, "secret", &keys.salt, limits::SCRAM_ITERATIONS));
    }

    #[test]
    fn no_password_fits_an_unknown_account() {
        let unknown = unknown_account("ghost", "example.org");
        assert!(!unknown.verifiers.are_of_password());
        assert!(!keys::are_of(&unknown.verifiers, &Secret("secret".into())));
        assert!(!keys::are_of(&unknown.verifiers, &Secret("".into())));
        assert_eq!(account_of(Some(&unknown), "example.org"), None);
    }

    #[test]
    fn an_account_that_may_not_sign_in_is_treated_as_unknown() {
        let alice = account("alice");
        assert_eq!(account_of(Some(&alice), "example.org"), Some(&alice));
        assert_eq!(account_of(Some(&alice), "other.org"), None, "an alias in another domain");
        assert_eq!(account_of(Some(&Account { disabled: true, ..alice.clone() }), "example.org"), None);
        assert_eq!(account_of(Some(&account("Alice")), "example.org"), None);
        assert_eq!(account_of(None, "example.org"), None);
    }
}
