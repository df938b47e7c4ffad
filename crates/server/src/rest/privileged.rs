//! The accounts that the configuration gives a role at the console, or makes administrators of chat: a password set by the REST interface of an
//! account below the first one would have their rights.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use config::Config;
use store::Address;

use crate::console::chat_admins;

/// These accounts; a reload of the configuration may name others.
pub(super) struct PrivilegedAccounts(Mutex<HashSet<Address>>);

impl PrivilegedAccounts {
    pub(super) fn new(config: &Config) -> Self {
        PrivilegedAccounts(Mutex::new(named(config)))
    }

    /// Takes over what a reload has changed.
    pub(super) fn reconfigure(&self, config: &Config) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = named(config);
    }

    pub(super) fn contains(&self, account: &Address) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(account)
    }
}

fn named(config: &Config) -> HashSet<Address> {
    let console = &config.console;
    let with_role = [&console.readers, &console.operators, &console.admins];
    let with_role = with_role.into_iter().flatten().filter_map(|text| Address::parse(text, None).ok());
    with_role.chain(chat_admins(&config.xmpp.operating.admins)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_with_a_role_are_those_of_the_console_and_the_administrators_of_chat() {
        let config = |text: &str| Config::parse(text, "belfry.toml".as_ref()).unwrap();
        let accounts = PrivilegedAccounts::new(&config(
            "[console]\nadmins = [\"alice@example.test\"]\noperators = [\"op@example.test\"]\n\
             [xmpp]\nadmins = [\"Chief@example.test\"]\n",
        ));
        let has = |user: &str| accounts.contains(&Address::new(user, "example.test").unwrap());
        assert!(has("alice") && has("op") && has("chief"));
        assert!(!has("bob"));
        accounts.reconfigure(&config("[console]\nadmins = [\"bob@example.test\"]\n"));
        let has = |user: &str| accounts.contains(&Address::new(user, "example.test").unwrap());
        assert!(has("bob") && !has("alice"));
    }
}
