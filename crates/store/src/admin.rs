//! The record for the command line: blocking calls on an opened store, used when no server runs.
//!
//! Used by the commands that change accounts, by imports, and by a node while it starts.
//!
//! While one runs, the same [`Write`] and [`Read`] go through its [`Service`](crate::Service), whose caches
//! then know of the change.

use std::io;

use stdx::Instant;

use crate::call_search::{CallPage, CallSearch};
use crate::error::StoreError;
use crate::import::{self, ImportOptions, Imported, Progress, Users};
use crate::record::{Loaded, Read, Reader, Store, Write, WriteDone, Writer};
use crate::types::{
    Account, AccountFilter, Address, Alias, CallFilter, CallRecord, Domain, NewAccount, Route, check_password,
};
use crate::verifiers::Verifiers;

/// A reader and a writer of the database, used on the calling thread.
pub struct Admin {
    reader: Box<dyn Reader>,
    writer: Box<dyn Writer>,
}

impl Admin {
    /// Opens a reader and a writer.
    pub fn new(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Admin { reader: store.reader()?, writer: store.writer()? })
    }

    /// Writes one thing and waits until it is on disk.
    pub fn write(&mut self, write: &Write) -> Result<WriteDone, StoreError> {
        let one = self.writer.write_group(std::slice::from_ref(write)).pop();
        one.unwrap_or_else(|| Err(StoreError::Internal { detail: "a write without a result".into() }))
    }

    /// Reads on the calling thread.
    pub fn read(&mut self, read: &Read) -> Result<Loaded, StoreError> {
        self.reader.load(read)
    }

    /// Adds an account, and returns its id.
    pub fn add_account(&mut self, account: NewAccount) -> Result<i64, StoreError> {
        match self.write(&Write::AddAccount(Box::new(account)))? {
            WriteDone::Added { id } => Ok(id),
            other => Err(unexpected(&other)),
        }
    }

    /// The account of an address or of an alias.
    pub fn account(&mut self, address: &Address) -> Result<Account, StoreError> {
        let Address { user, domain } = address.clone();
        match self.read(&Read::Account { user, domain })? {
            Loaded::Account(Some(account)) => Ok(*account),
            Loaded::Account(None) => Err(StoreError::not_found(format!("account {address}"))),
            other => Err(unexpected(&other)),
        }
    }

    /// One page; the next one starts `after` the last address of this.
    pub fn accounts(&mut self, filter: AccountFilter) -> Result<Vec<Account>, StoreError> {
        match self.read(&Read::Accounts(filter))? {
            Loaded::Accounts(accounts) => Ok(accounts),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets the password, and so drops SCRAM keys made of the old one.
    pub fn set_password(&mut self, account: Address, password: &str) -> Result<(), StoreError> {
        check_password(password)?;
        let verifiers = Verifiers::from_password(&account.user, &account.domain, password);
        self.write(&Write::SetVerifiers { account, verifiers }).map(drop)
    }

    /// Disables or enables an account.
    pub fn set_disabled(&mut self, account: Address, disabled: bool) -> Result<(), StoreError> {
        self.write(&Write::SetDisabled { account, disabled }).map(drop)
    }

    /// Removes an account with its aliases.
    pub fn remove_account(&mut self, account: Address) -> Result<(), StoreError> {
        self.write(&Write::RemoveAccount { account }).map(drop)
    }

    /// Makes the domain unless it is there.
    pub fn ensure_domain(&mut self, name: &str, now: Instant) -> Result<(), StoreError> {
        match self.write(&Write::AddDomain { name: name.into(), created_at: now }) {
            Ok(_) | Err(StoreError::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes a domain; fails while it has accounts or aliases.
    pub fn remove_domain(&mut self, name: &str) -> Result<(), StoreError> {
        self.write(&Write::RemoveDomain { name: name.into() }).map(drop)
    }

    /// Returns all domains.
    pub fn domains(&mut self) -> Result<Vec<Domain>, StoreError> {
        match self.read(&Read::Domains)? {
            Loaded::Domains(domains) => Ok(domains),
            other => Err(unexpected(&other)),
        }
    }

    /// Adds an alias of an account.
    pub fn add_alias(&mut self, alias: Address, account: Address) -> Result<(), StoreError> {
        self.write(&Write::AddAlias { alias, account }).map(drop)
    }

    /// Removes an alias.
    pub fn remove_alias(&mut self, alias: Address) -> Result<(), StoreError> {
        self.write(&Write::RemoveAlias { alias }).map(drop)
    }

    /// The aliases of one account, or all.
    pub fn aliases(&mut self, account: Option<Address>) -> Result<Vec<Alias>, StoreError> {
        match self.read(&Read::Aliases { account })? {
            Loaded::Aliases(aliases) => Ok(aliases),
            other => Err(unexpected(&other)),
        }
    }

    /// Adds a route, and returns its id.
    pub fn add_route(&mut self, route: Route) -> Result<i64, StoreError> {
        match self.write(&Write::AddRoute(Box::new(route)))? {
            WriteDone::Added { id } => Ok(id),
            other => Err(unexpected(&other)),
        }
    }

    /// Removes a route.
    pub fn remove_route(&mut self, name: &str) -> Result<(), StoreError> {
        self.write(&Write::RemoveRoute { name: name.into() }).map(drop)
    }

    /// In the order they were added.
    pub fn routes(&mut self) -> Result<Vec<Route>, StoreError> {
        match self.read(&Read::Routes)? {
            Loaded::Routes(routes) => Ok(routes),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of the calls that match.
    pub fn search_calls(&mut self, search: CallSearch) -> Result<CallPage, StoreError> {
        match self.read(&Read::CallSearch(search))? {
            Loaded::CallPage(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// Newest first.
    pub fn calls(&mut self, filter: CallFilter) -> Result<Vec<CallRecord>, StoreError> {
        match self.read(&Read::Calls(filter))? {
            Loaded::Calls(calls) => Ok(calls),
            other => Err(unexpected(&other)),
        }
    }

    /// See `Writer::secret`.
    pub fn secret(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.writer.secret(name, fresh)
    }

    /// See [`crate::import`]. Stops at the first line it cannot read; what came before it is on disk. `progress` is
    /// told after each batch, and which of its accounts had another password.
    pub fn import(
        &mut self,
        csv: impl io::Read + Send,
        options: &ImportOptions,
        progress: &mut dyn FnMut(Progress, &[Address]),
    ) -> Result<Imported, StoreError> {
        self.import_users(&mut import::Lines::new(csv, options), options, progress)
    }

    /// The same of users that come from elsewhere; `default_domain`, `now` and `keys` of the options are theirs to heed.
    ///
    /// # Errors
    /// Theirs, or the record's; what was read before it is on disk.
    pub fn import_users<U: Users>(
        &mut self,
        users: &mut U,
        options: &ImportOptions,
        progress: &mut dyn FnMut(Progress, &[Address]),
    ) -> Result<Imported, U::Error> {
        import::run(&mut *self.writer, users, options, progress)
    }
}

/// A database that answers a read with another kind of answer is a defect of it.
fn unexpected(answer: &dyn std::fmt::Debug) -> StoreError {
    StoreError::Internal { detail: format!("an answer of another kind: {answer:?}") }
}
