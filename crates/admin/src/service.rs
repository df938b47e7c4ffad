//! The surroundings of handlers: the database, the node, and a request with its account.
//!
//! [`State`] is made once and shared; a `Context` (`table`) is made for each request. Handlers run on threads that may wait, so nothing here is
//! asynchronous.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stdx::attempts::{Attempt, Attempts, Block, Cause, Subject, without_port};
use stdx::hash::Keyed;
use stdx::{Instant, hex};
use store::rest::types::{Common, RestAccount};
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite, Row, Sum, UsageFilter};
use store::{Loaded, MakeKeys, Read, StoreError, Write, WriteDone};

use crate::control::{ControlPlane, Source};
use crate::fault::Fault;
use crate::identity::IdentityTokens;
use crate::limits;

/// The database, waited for: called on threads of the blocking pool.
pub trait Repository: Send + Sync {
    /// Reads on the calling thread.
    fn read(&self, read: Read) -> Result<Loaded, StoreError>;
    /// Returns after it is on disk. `StoreError::Closed` when the queue is full or the server stops.
    fn write(&self, write: Write) -> Result<WriteDone, StoreError>;
}

/// A database of one's own, one request at a time: for the command line and tests.
pub struct Blocking(Mutex<store::Admin>);

impl Blocking {
    /// Wraps a database of one's own.
    pub fn new(admin: store::Admin) -> Self {
        Blocking(Mutex::new(admin))
    }
}

impl Repository for Blocking {
    fn read(&self, read: Read) -> Result<Loaded, StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(&read)
    }

    fn write(&self, write: Write) -> Result<WriteDone, StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(&write)
    }
}

/// Shared by all requests.
pub struct State {
    pub(crate) repository: Arc<dyn Repository>,
    pub(crate) control: Arc<dyn ControlPlane>,
    /// The domain of clients' logins.
    pub(crate) domain: Box<str>,
    /// The beginning of URLs in answers, without a slash at its end.
    pub(crate) public_url: Box<str>,
    /// Derives SCRAM keys of clients' passwords.
    pub(crate) keys: MakeKeys,
    /// Failed sign-ins by address and name, which slow further ones down.
    attempts: Mutex<Attempts>,
    /// The tokens that have signed in last.
    identity_tokens: Mutex<IdentityTokens>,
    /// Hashes them.
    token_key: Keyed,
}

impl State {
    /// `domain` is where new clients get their accounts: the first of the served ones. `public_url` is where applications find this interface,
    /// without a slash at its end. `keys` are made of clients' passwords.
    pub fn new(
        repository: Arc<dyn Repository>,
        control: Arc<dyn ControlPlane>,
        domain: &str,
        public_url: &str,
        keys: MakeKeys,
    ) -> Arc<Self> {
        let attempts = Mutex::new(Attempts::new(Keyed::new(table_key()), &limits::SIGN_IN));
        let (identity_tokens, token_key) = (Mutex::default(), Keyed::new(table_key()));
        let (domain, public_url) = (domain.into(), public_url.into());
        Arc::new(State {
            repository,
            control,
            domain,
            public_url,
            keys,
            attempts,
            identity_tokens,
            token_key,
        })
    }

    /// The node's time, which tests set.
    pub(crate) fn now(&self) -> Instant {
        self.control.now()
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn identity_tokens(&self) -> MutexGuard<'_, IdentityTokens> {
        self.identity_tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hash of a token, with a key of the process.
    pub(crate) fn hash(&self, token: &str) -> u64 {
        self.token_key.hash(token.as_bytes())
    }

    /// The time until this address may try to sign in by that name again; `None`: it may now.
    pub(crate) fn wait(&self, from: IpAddr, name: &str) -> Option<Duration> {
        let wait = self.attempts().wait(self.now(), &attempt(from, name));
        if wait.is_some() {
            self.control.sign_in_failed(from, name, Cause::TooManyAttempts);
        }
        wait
    }

    /// Counts a failed sign-in against the address and the name, and has the node log it.
    pub(crate) fn failed(&self, from: IpAddr, name: &str, cause: Cause) {
        self.attempts().fail(self.now(), &attempt(from, name));
        self.control.sign_in_failed(from, name, cause);
    }

    /// Forgets the failures of this address at this name.
    pub(crate) fn succeeded(&self, from: IpAddr, name: &str) {
        self.attempts().succeed(self.now(), &attempt(from, name));
    }

    /// Addresses and accounts whose sign-ins are paced.
    pub fn blocks(&self) -> Vec<Block> {
        self.attempts().blocks(self.now())
    }

    /// Forgets the failures of an address or for an account. The blocks that were in force.
    pub fn lift_block(&self, subject: &Subject) -> usize {
        self.attempts().lift(self.now(), subject)
    }

    /// Reads from the table of resources.
    fn rest(&self, read: RestRead) -> Result<RestLoaded, Fault> {
        match self.repository.read(Read::Rest(read))? {
            Loaded::Rest(loaded) => Ok(loaded),
            _ => Err(Fault::new(500, 20500, "Internal Server Error")),
        }
    }

    /// The resource of that sid, whichever account owns it: handlers check the owner.
    pub(crate) fn get<T: Resource>(&self, sid: &str) -> Result<Option<T>, Fault> {
        self.one(RestRead::Sid { kind: T::KIND, sid: sid.into() })
    }

    /// The resource with that value in the column `name`; of all accounts when `account` is `None`.
    pub(crate) fn by_name<T: Resource>(
        &self,
        kind: Kind,
        account: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, Fault> {
        self.one(RestRead::Name { kind, account: account.map(Box::from), name: name.into() })
    }

    /// The resource of a row, if there is one.
    fn one<T: Resource>(&self, read: RestRead) -> Result<Option<T>, Fault> {
        match self.rest(read)? {
            RestLoaded::Row(Some(row)) => Ok(Some(T::from_row(&row)?)),
            _ => Ok(None),
        }
    }

    /// One page of rows, and the number of rows on all pages.
    pub(crate) fn list(&self, filter: RestFilter) -> Result<(Vec<Row>, u64), Fault> {
        match self.rest(RestRead::List(filter))? {
            RestLoaded::Page { rows, total } => Ok((rows, total)),
            _ => Ok((Vec::new(), 0)),
        }
    }

    /// Sums for each period, kind and direction.
    pub(crate) fn usage(&self, filter: UsageFilter) -> Result<Vec<Sum>, Fault> {
        match self.rest(RestRead::Usage(filter))? {
            RestLoaded::Sums(sums) => Ok(sums),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns once the new row is on disk; 409 if the sid or a unique name is taken.
    pub(crate) fn insert<T: Resource>(&self, resource: &T) -> Result<(), Fault> {
        let write = RestWrite::Insert(Box::new(resource.row()?));
        Ok(self.repository.write(Write::Rest(write)).map(drop)?)
    }

    /// Returns once the changed row is on disk; 404 if it was deleted meanwhile.
    pub(crate) fn replace<T: Resource>(&self, resource: &T) -> Result<(), Fault> {
        let write = RestWrite::Replace(Box::new(resource.row()?));
        Ok(self.repository.write(Write::Rest(write)).map(drop)?)
    }

    /// Returns once the row is deleted; 404 if there was none.
    pub(crate) fn remove(&self, kind: Kind, sid: &str) -> Result<(), Fault> {
        let write = RestWrite::Remove { kind, sid: sid.into() };
        Ok(self.repository.write(Write::Rest(write)).map(drop)?)
    }

    /// A new resource's common fields.
    pub(crate) fn common(&self, prefix: &str, account: &RestAccount) -> Common {
        let now = self.now();
        Common {
            sid: sid(prefix, &*self.control),
            account: account.common.sid.clone(),
            created_at: now,
            updated_at: now,
        }
    }
}

/// Two letters and 32 hexadecimal digits.
pub fn sid(prefix: &str, source: &dyn Source) -> String {
    format!("{prefix}{}", token(source))
}

/// 128 unpredictable bits in hexadecimal digits.
pub fn token(source: &dyn Source) -> String {
    let mut bytes = [0; 16];
    source.fill_random(&mut bytes);
    hex::encode(&bytes)
}

/// The key of the hashes in the table of attempts. It comes from the standard library's randomness, because `Source` is for
/// secrets and sids.
fn table_key() -> [u8; 16] {
    let random = RandomState::new();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&random.hash_one(1_u8).to_be_bytes());
    key[8..].copy_from_slice(&random.hash_one(2_u8).to_be_bytes());
    key
}

/// By the name as it was given: sid or e-mail address.
fn attempt(from: IpAddr, name: &str) -> Attempt<'_> {
    Attempt { source: without_port(from), user: name, domain: "" }
}
