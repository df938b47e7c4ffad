//! Roles: which accounts may do what at the console.

use std::collections::HashMap;

use store::Address;

/// A role; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything, changes nothing.
    ReadOnly,
    /// Changes accounts of users, ends sessions, lifts blocks.
    Operator,
    /// Changes everything.
    Admin,
}

impl Role {
    /// The name in answers and logs.
    pub fn name(self) -> &'static str {
        match self {
            Role::ReadOnly => "read-only",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// The accounts that have a role, as the configuration names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(HashMap<Address, Role>);

impl Roles {
    /// Addresses that cannot be read are left out: the configuration refuses them. An account that is named twice has the greater role.
    pub fn new<'a>(named: impl IntoIterator<Item = (Role, &'a str)>) -> Roles {
        let mut roles: HashMap<Address, Role> = HashMap::new();
        for (role, text) in named {
            if let Ok(address) = Address::parse(text, None) {
                let known = roles.entry(address).or_insert(role);
                *known = role.max(*known);
            }
        }
        Roles(roles)
    }

    /// The role of an account; none: it may not use the console.
    pub fn of(&self, account: &Address) -> Option<Role> {
        self.0.get(account).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_the_greatest_role_that_names_it_and_others_have_none() {
        let roles = Roles::new([
            (Role::Admin, "alice@Example.test"),
            (Role::ReadOnly, "alice@example.test"),
            (Role::ReadOnly, "bob@example.test"),
            (Role::Admin, "nonsense"),
        ]);
        let of = |text| roles.of(&Address::parse(text, None).unwrap());
        assert_eq!(of("alice@example.test"), Some(Role::Admin));
        assert_eq!(of("bob@example.test"), Some(Role::ReadOnly));
        assert_eq!((of("Alice@example.test"), of("carol@example.test")), (None, None));
        assert!(Role::Admin > Role::Operator && Role::Operator > Role::ReadOnly);
    }
}
