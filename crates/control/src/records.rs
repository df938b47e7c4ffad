//! The reads and writes of the database that commands ask for, in words that cross the socket. A node
//! performs them on its store service, a command without a node on the file; both through the same
//! conversions.

use std::fmt;
use std::time::Duration;

use chat_store::invitation::hash_of;
use chat_store::keys;
use serde::{Deserialize, Serialize};
use stdx::Instant;
use store::access::{AccessWrite, Invitation};
use store::{
    Account, AccountFilter, AccountLimits, Address, Alias, CallFilter, CallPage, CallRecord, CallSearch,
    Domain, Loaded, NewAccount, Read, Route, StoreError, Write,
};

use super::protocol::{Failure, FailureKind};
use crate::routes;

/// A password on its way. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: &str) -> Self {
        Secret(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// One change of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Adds an account; fails when the address is taken, as an account or an alias.
    AddAccount {
        /// The address of the account, `user@domain`.
        address: Address,
        /// The password; only its verifiers are stored.
        password: Secret,
        /// The name for people; may be empty.
        display_name: Box<str>,
        /// Limits of calls and destinations.
        limits: AccountLimits,
    },
    /// Replaces the password of an account.
    SetPassword {
        /// The address of the account.
        account: Address,
        /// The new password; only its verifiers are stored.
        password: Secret,
    },
    /// Replaces the name that an account shows to people.
    SetDisplayName {
        /// The address of the account.
        account: Address,
        /// The new name; may be empty.
        display_name: Box<str>,
    },
    /// Disables an account, or enables it again.
    SetDisabled {
        /// The address of the account.
        account: Address,
        /// `true`: the account is disabled.
        disabled: bool,
    },
    /// Replaces the limits of an account.
    SetLimits {
        /// The address of the account.
        account: Address,
        /// Limits of calls and destinations; prefixes that cannot be compiled are a failure.
        limits: AccountLimits,
    },
    /// Removes an account.
    RemoveAccount {
        /// The address of the account.
        account: Address,
    },
    /// Adds a domain of accounts.
    AddDomain {
        /// A host name.
        name: Box<str>,
    },
    /// Removes a domain.
    RemoveDomain {
        /// A host name.
        name: Box<str>,
    },
    /// Adds a further address of an account.
    AddAlias {
        /// The further address.
        alias: Address,
        /// The address of the account.
        account: Address,
    },
    /// Removes a further address; the account stays.
    RemoveAlias {
        /// The further address.
        alias: Address,
    },
    /// Permits the making of an account with this token (XEP-0445).
    Invite {
        /// The token of the invitation; only its hash is stored.
        token: Secret,
        /// The domain of the new account.
        domain: Box<str>,
        /// The user part that the account must have; `None`: the invited user chooses.
        name: Option<Box<str>>,
        /// The account that invites; `None` for an operator.
        inviter: Option<Box<str>>,
        /// Time until the token expires.
        good_for: Duration,
    },
    /// A route of that name is replaced when `replace`, else it is a failure.
    AddRoute {
        /// The route; one that cannot be compiled is a failure.
        route: Route,
        /// A route of the same name is replaced.
        replace: bool,
    },
    /// Removes a route.
    RemoveRoute {
        /// The name of the route.
        name: Box<str>,
    },
}

impl Change {
    /// Checks what the record cannot: passwords are hashed here, routes are compiled to see that they can be.
    pub fn into_write(self, now: Instant) -> Result<Write, Failure> {
        Ok(match self {
            Change::AddAccount { address, password, display_name, limits } => {
                routes::check_deny(&limits.deny)
                    .map_err(|problem| Failure::new(FailureKind::Invalid, problem))?;
                let account = NewAccount::with_password(address, &password.0, now)?;
                let verifiers = account.verifiers.clone().with_scram(&keys::make(&password.0));
                Write::AddAccount(Box::new(NewAccount { display_name, limits, verifiers, ..account }))
            }
            Change::SetPassword { account, password } => {
                // The store's rule for passwords, without making an account.
                let checked = NewAccount::with_password(account.clone(), &password.0, now)?;
                let verifiers = checked.verifiers.with_scram(&keys::make(&password.0));
                Write::SetVerifiers { account, verifiers }
            }
            Change::SetDisplayName { account, display_name } => {
                Write::SetDisplayName { account, display_name }
            }
            Change::SetDisabled { account, disabled } => Write::SetDisabled { account, disabled },
            Change::SetLimits { account, limits } => {
                routes::check_deny(&limits.deny)
                    .map_err(|problem| Failure::new(FailureKind::Invalid, problem))?;
                Write::SetLimits { account, limits }
            }
            Change::RemoveAccount { account } => Write::RemoveAccount { account },
            Change::AddDomain { name } => Write::AddDomain { name, created_at: now },
            Change::RemoveDomain { name } => Write::RemoveDomain { name },
            Change::AddAlias { alias, account } => Write::AddAlias { alias, account },
            Change::RemoveAlias { alias } => Write::RemoveAlias { alias },
            Change::Invite { token, domain, name, inviter, good_for } => {
                let hash = hash_of(&token.0);
                let (registers, expires_at) = (true, now + good_for);
                let invitation = Invitation { hash, domain, name, inviter, registers, expires_at };
                Write::Access(AccessWrite::Invite(Box::new(invitation)))
            }
            Change::AddRoute { route, replace } => {
                routes::check(&route).map_err(|problem| Failure::new(FailureKind::Invalid, problem))?;
                let route = Box::new(Route { created_at: now, ..route });
                if replace { Write::ReplaceRoute(route) } else { Write::AddRoute(route) }
            }
            Change::RemoveRoute { name } => Write::RemoveRoute { name },
        })
    }
}

/// One question to the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Also by an alias.
    Account {
        /// The address of the account, or an alias of it.
        address: Address,
    },
    /// A page of accounts, in the order of their addresses.
    Accounts(AccountFilter),
    /// Further addresses of accounts.
    Aliases {
        /// The address of one account; `None`: those of all accounts.
        account: Option<Address>,
    },
    /// All domains.
    Domains,
    /// All routes.
    Routes,
    /// The call records that match.
    Calls(CallFilter),
    /// A page of the call records that match.
    CallSearch(CallSearch),
}

impl From<Ask> for Read {
    fn from(ask: Ask) -> Self {
        match ask {
            Ask::Account { address } => Read::Account { user: address.user, domain: address.domain },
            Ask::Accounts(filter) => Read::Accounts(filter),
            Ask::Aliases { account } => Read::Aliases { account },
            Ask::Domains => Read::Domains,
            Ask::Routes => Read::Routes,
            Ask::Calls(filter) => Read::Calls(filter),
            Ask::CallSearch(search) => Read::CallSearch(search),
        }
    }
}

/// The record's answer, without verifiers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    /// The answer to [`Ask::Account`]; `None`: there is no such account.
    Account(Option<AccountRow>),
    /// The answer to [`Ask::Accounts`].
    Accounts(Vec<AccountRow>),
    /// The answer to [`Ask::Aliases`].
    Aliases(Vec<Alias>),
    /// The answer to [`Ask::Domains`].
    Domains(Vec<Domain>),
    /// The answer to [`Ask::Routes`].
    Routes(Vec<Route>),
    /// The answer to [`Ask::Calls`].
    Calls(Vec<CallRecord>),
    /// The answer to [`Ask::CallSearch`].
    CallPage(CallPage),
}

impl TryFrom<Loaded> for Listing {
    type Error = StoreError;

    /// Fails for what no `Ask` asks for.
    fn try_from(loaded: Loaded) -> Result<Self, StoreError> {
        Ok(match loaded {
            Loaded::Account(account) => Listing::Account(account.map(|account| AccountRow::from(*account))),
            Loaded::Accounts(accounts) => {
                Listing::Accounts(accounts.into_iter().map(AccountRow::from).collect())
            }
            Loaded::Aliases(aliases) => Listing::Aliases(aliases),
            Loaded::Domains(domains) => Listing::Domains(domains),
            Loaded::Routes(routes) => Listing::Routes(routes),
            Loaded::Calls(calls) => Listing::Calls(calls),
            Loaded::CallPage(page) => Listing::CallPage(page),
            Loaded::KeptMessages(_)
            | Loaded::KeptCounts(_)
            | Loaded::Bindings(_)
            | Loaded::Rest(_)
            | Loaded::Xmpp(_)
            | Loaded::Access(_) => {
                return Err(StoreError::Internal { detail: "an answer to no question".into() });
            }
        })
    }
}

/// An account as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    /// The address of the account, `user@domain`.
    pub address: Address,
    /// The name for people; may be empty.
    pub display_name: Box<str>,
    /// An operator has disabled the account.
    pub disabled: bool,
    /// Limits of calls and destinations.
    pub limits: AccountLimits,
    /// Seconds since the Unix epoch.
    pub created_at: u64,
}

impl From<Account> for AccountRow {
    fn from(account: Account) -> Self {
        AccountRow {
            address: account.address(),
            display_name: account.display_name,
            disabled: account.disabled,
            limits: account.limits,
            created_at: account.created_at.unix_seconds(),
        }
    }
}
