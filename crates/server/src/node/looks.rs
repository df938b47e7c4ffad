//! The parameters of a domain's accounts that clients see before they sign in, so that an unknown account
//! looks like the others.
//!
//! A client learns salt length and iterations of an account before it proves a password (RFC 5802 §5.1). If
//! unknown accounts had other values than known ones, names could be tried without a password. So
//! `xmpp::sasl::UnknownAccounts` draws the parameters of an unknown name from the kinds that this module
//! counts. They are read once, at the start: a kind that comes later is not imitated until the next start.

use anyhow::Result;
use chat_store::keys;
use store::{AccountFilter, Loaded, Read, Reader, Verifiers};
use xmpp::sasl::{AccountProfile, Hash, KeyParameters, UnknownAccounts};

use crate::limits;

/// Reads the first accounts of each domain: imported accounts with keys of another server are among them, if
/// there are any.
pub(super) fn read(reader: &mut dyn Reader, domains: &[Box<str>]) -> Result<UnknownAccounts> {
    let mut all = Vec::new();
    // One page a domain: the start must not take longer with more accounts.
    for domain in domains {
        let filter = AccountFilter {
            domain: Some(domain.clone()),
            prefix: "".into(),
            after: None,
            limit: limits::LOOKED_AT,
        };
        let Loaded::Accounts(accounts) = reader.load(&Read::Accounts(filter))? else { continue };
        all.push((domain.clone(), profiles(accounts.iter().map(|account| &account.verifiers))));
    }
    Ok(UnknownAccounts::new(all))
}

/// The kinds of these accounts with the number of each. Beyond [`limits::LOOKS`] kinds, accounts of further ones are not counted.
fn profiles<'a>(accounts: impl Iterator<Item = &'a Verifiers>) -> Vec<AccountProfile> {
    let mut profiles: Vec<AccountProfile> = Vec::new();
    for verifiers in accounts {
        let look = |hash| {
            let keys = keys::known(verifiers, hash)?;
            Some(KeyParameters { iterations: keys.iterations, salt: keys.salt.len() })
        };
        let (sha1, sha256, sha512) = (look(Hash::Sha1), look(Hash::Sha256), look(Hash::Sha512));
        // Counted apart from the profile itself, so that accounts are compared by their parameters alone.
        let profile =
            AccountProfile { sha1, sha256, sha512, only_keys: !verifiers.are_of_password(), accounts: 0 };
        let is_like = |known: &AccountProfile| AccountProfile { accounts: 0, ..known.clone() } == profile;
        match profiles.iter().position(is_like) {
            Some(at) => profiles[at].accounts += 1,
            None if profiles.len() < limits::LOOKS => {
                profiles.push(AccountProfile { accounts: 1, ..profile });
            }
            None => {}
        }
    }
    profiles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_look_alike_are_counted_together() {
        let own = Verifiers::from_password("a", "b", "c").with_scram(&keys::make("c"));
        let only = Verifiers::without_password(&[1; 32]).with_scram(&keys::make("c")[..1]);
        let plain = Verifiers::from_password("a", "b", "c");
        let found = profiles([&own, &only, &own, &plain].into_iter());
        let look = Some(KeyParameters { iterations: limits::SCRAM_ITERATIONS, salt: 16 });
        assert_eq!(
            found,
            [
                AccountProfile { sha1: look, sha256: look, sha512: look, only_keys: false, accounts: 2 },
                AccountProfile { sha1: look, only_keys: true, accounts: 1, ..AccountProfile::default() },
                AccountProfile { accounts: 1, ..AccountProfile::default() },
            ]
        );
    }
}
