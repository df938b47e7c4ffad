//! The reads and writes of the database that commands ask for, in words that cross the socket. A node
//! performs them on its store service, a command without a node on the file; both through the same
//! conversions.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stdx::Instant;
use store::access::{AccessWrite, Invitation};
use store::{
    Account, AccountFilter, AccountLimits, Address, Alias, CallFilter, CallRecord, Domain, Loaded,
    NewAccount, Read, Route, StoreError, Write,
};

use super::protocol::{Failure, FailureKind};
use crate::routes;
use crate::xmpp::access::hash_of;
use crate::xmpp::keys;

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
    AddAccount {
        address: Address,
        password: Secret,
        display_name: Box<str>,
        limits: AccountLimits,
    },
    SetPassword {
        account: Address,
        password: Secret,
    },
    SetDisplayName {
        account: Address,
        display_name: Box<str>,
    },
    SetDisabled {
        account: Address,
        disabled: bool,
    },
    SetLimits {
        account: Address,
        limits: AccountLimits,
    },
    RemoveAccount {
        account: Address,
    },
    AddDomain {
        name: Box<str>,
    },
    RemoveDomain {
        name: Box<str>,
    },
    AddAlias {
        alias: Address,
        account: Address,
    },
    RemoveAlias {
        alias: Address,
    },
    /// Permits the making of an account with this token (XEP-0445).
    Invite {
        token: Secret,
        domain: Box<str>,
        name: Option<Box<str>>,
        inviter: Option<Box<str>>,
        good_for: Duration,
    },
    /// A route of that name is replaced when `replace`, else it is a failure.
    AddRoute {
        route: Route,
        replace: bool,
    },
    RemoveRoute {
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
        address: Address,
    },
    Accounts(AccountFilter),
    Aliases {
        account: Option<Address>,
    },
    Domains,
    Routes,
    Calls(CallFilter),
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
        }
    }
}

/// The record's answer, without verifiers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    Account(Option<AccountRow>),
    Accounts(Vec<AccountRow>),
    Aliases(Vec<Alias>),
    Domains(Vec<Domain>),
    Routes(Vec<Route>),
    Calls(Vec<CallRecord>),
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
            Loaded::KeptMessages(_)
            | Loaded::KeptCounts(_)
            | Loaded::Rest(_)
            | Loaded::Xmpp(_)
            | Loaded::Access(_) => {
                return Err(StoreError::Internal { detail: "an answer nobody asked for".into() });
            }
        })
    }
}

/// An account as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRow {
    pub address: Address,
    pub display_name: Box<str>,
    pub disabled: bool,
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
