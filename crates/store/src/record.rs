//! The record's contract: what can be written and read. SQLite and PostgreSQL are behind it.
//!
//! [`Write`] and [`Read`] are all that the rest of the program can do with the database. A [`Store`] opens [`Writer`]s and [`Reader`]s; a [`Write`]
//! is answered by a [`WriteDone`], and a [`Read`] by a [`Loaded`]. Both databases pass the same tests.

use std::sync::Arc;

use stdx::Instant;

use crate::access::{AccessLoaded, AccessRead, AccessWrite};
use crate::call_search::{CallPage, CallSearch};
use crate::error::StoreError;
use crate::import::{Existing, Imported, NewUser};
use crate::rest::{RestLoaded, RestRead, RestWrite, Row};
use crate::types::{
    Account, AccountFilter, AccountLimits, Address, Alias, CallFilter, CallRecord, Domain, NewAccount, Route,
    WaitingMessage,
};
use crate::verifiers::{ScramHash, ScramKeys, Verifiers};
use crate::xmpp::{RosterRow, XmppLoaded, XmppRead, XmppWrite};

/// One change. All of a group are on disk together, or those that failed say so.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Append to the log of bindings. Answered with `WriteDone::Logged`.
    Binding(BindingWrite),
    /// Rows of the log that are dead: superseded, or all their bindings have ended. They are deleted by and by.
    ForgetBindings {
        /// The numbers of the rows.
        rows: Box<[i64]>,
    },
    /// Comes every few seconds. Deletes rows of the log that were written before, and dead ones that have waited for
    /// `limits::DEAD_BINDING`; at most `limits::CLEAN_CHUNK` at a time of the first, and a few hundred of the others.
    CleanBindings {
        /// Rows written before are deleted.
        before: Instant,
    },
    /// Add the record of a call that has ended.
    Call(Box<CallRecord>),
    /// As `Call`, unless the same record is there: of a write that was tried, with an outcome that is not known. Answered with
    /// `WriteDone::Changed`, of one row or none.
    EnsureCall(Box<CallRecord>),
    /// Delete records of calls that ended before; at most `limits::CLEAN_CHUNK` at a time.
    ForgetCalls {
        /// Records of calls that ended before are deleted.
        before: Instant,
    },
    /// Keep a message for an address. Answered with `WriteDone::Added`.
    Keep(Box<WaitingMessage>),
    /// Delete a message that was delivered; one that is not there is no fault.
    ForgetMessage {
        /// The address that it was kept for.
        aor: Box<str>,
        /// `WaitingMessage::id`.
        id: u64,
    },
    /// Delete messages sent before; at most `limits::CLEAN_CHUNK` at a time.
    ForgetMessages {
        /// Messages sent before are deleted.
        before: Instant,
    },

    /// Add an account. `Exists` where its address is taken.
    AddAccount(Box<NewAccount>),
    /// Set another password.
    SetVerifiers {
        /// The account.
        account: Address,
        /// The verifiers of the new password.
        verifiers: Verifiers,
    },
    /// Adds keys of SCRAM, unless the password has changed since: `of` is the SHA-256 verifier of the one they are of.
    AddScram {
        /// The account.
        account: Address,
        /// SHA-256 verifier of the password that the keys are of.
        of: [u8; 32],
        /// The keys, one of each hash.
        keys: Arc<[(ScramHash, ScramKeys)]>,
    },
    /// The password of an account that had keys of SCRAM only is known now, unless there is another since: `of` as above.
    LearnPassword {
        /// The account.
        account: Address,
        /// SHA-256 verifier of the password that was there.
        of: [u8; 32],
        /// The verifiers of the password.
        verifiers: Verifiers,
    },
    /// Set the name that is shown to others.
    SetDisplayName {
        /// The account.
        account: Address,
        /// The name; may be empty.
        display_name: Box<str>,
    },
    /// Disable or enable an account. A client of the REST interface then counts as enabled: it is not its request that disables the account.
    SetDisabled {
        /// The account.
        account: Address,
        /// True: no client may sign in.
        disabled: bool,
    },
    /// Set the limits of an account's calls.
    SetLimits {
        /// The account.
        account: Address,
        /// The limits from now on.
        limits: AccountLimits,
    },
    /// Sets whether accounts keep the digests that phones prove passwords by (RFC 7616), from now on and for
    /// every writer. Without: stored digests are removed, and `Changed` counts the accounts that have nothing
    /// else.
    KeepDigests(bool),
    /// One row that changes with each time: fails while the database cannot be written, for whatever reason.
    Probe {
        /// The time, which makes each row another one.
        at: Instant,
    },
    /// Its aliases go with it, and so does the client of the REST interface that it was made with.
    RemoveAccount {
        /// The account.
        account: Address,
    },
    /// Add a domain.
    AddDomain {
        /// The domain, in lower case.
        name: Box<str>,
        /// The time of the command.
        created_at: Instant,
    },
    /// Refused while there are accounts or aliases in it.
    RemoveDomain {
        /// The domain, in lower case.
        name: Box<str>,
    },
    /// Add another address of an account.
    AddAlias {
        /// The other address.
        alias: Address,
        /// The account that it leads to.
        account: Address,
    },
    /// Remove an alias.
    RemoveAlias {
        /// The other address.
        alias: Address,
    },
    /// Add a route. `Exists` where its name is taken.
    AddRoute(Box<Route>),
    /// Replaces the route of the same name.
    ReplaceRoute(Box<Route>),
    /// Remove a route.
    RemoveRoute {
        /// The name of the route.
        name: Box<str>,
    },

    /// A resource of the REST interface.
    Rest(RestWrite),
    /// Add a client of the REST interface: its row and its account, or neither. `Exists` where the login has a row or the address an
    /// account. Answered with `WriteDone::ClientAdded`.
    AddClient {
        /// The row of the client.
        row: Box<Row>,
        /// The account of its login.
        account: Box<NewAccount>,
        /// True: no phone may sign in yet.
        disabled: bool,
    },
    /// A change of a client's account: `SetVerifiers`, `SetDisplayName`, `SetDisabled`, `SetLimits` or `RemoveAccount`. `NotFound` if the client
    /// is gone, or its address has another account by now.
    OfClient {
        /// The sid of the client.
        sid: Box<str>,
        /// The change.
        write: Box<Write>,
    },

    /// Data of chat.
    Xmpp(XmppWrite),
    /// Tokens, invitations and accounts made in band.
    Access(AccessWrite),
}

impl Write {
    /// True if it deletes rows that have had their time, a chunk at once.
    pub(crate) fn cleans(&self) -> bool {
        matches!(
            self,
            Write::CleanBindings { .. }
                | Write::ForgetCalls { .. }
                | Write::ForgetMessages { .. }
                | Write::Rest(RestWrite::Forget { .. })
                | Write::Xmpp(XmppWrite::ForgetArchive { .. })
                | Write::Access(AccessWrite::Clean { .. })
        )
    }

    /// The account that is changed by a write which may be one of a client.
    pub(crate) fn changed_account(&self) -> Option<&Address> {
        match self {
            Write::SetVerifiers { account, .. }
            | Write::SetDisplayName { account, .. }
            | Write::SetDisabled { account, .. }
            | Write::SetLimits { account, .. }
            | Write::RemoveAccount { account } => Some(account),
            _ => None,
        }
    }
}

/// The complete set of bindings of an address. The record does not look inside.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingWrite {
    /// The bucket of the address: a farm reads bindings by bucket.
    pub bucket: u16,
    /// The address of record.
    pub aor: Box<str>,
    /// The epoch of the bucket's owner: of two owners, the later one's write remains. 0 outside a farm: it remains over any other.
    pub epoch: u64,
    /// The time of the write.
    pub written_at: Instant,
    /// The row of the address that lived until now.
    pub replaces: Option<i64>,
    /// Nothing is bound any more.
    pub empties: bool,
    /// The bindings as the router wrote them.
    pub record: Box<[u8]>,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteDone {
    /// The number of the binding's row in the log. Numbers grow, and none is given twice while a process runs.
    Logged {
        /// The number of the row.
        seq: i64,
    },
    /// The id of what was added or kept.
    Added {
        /// The id of the row.
        id: i64,
    },
    /// Rows changed or deleted. `limits::CLEAN_CHUNK` of a cleaning write means that there are more; the service then
    /// repeats a cleaning write by itself.
    Changed {
        /// The number of rows.
        rows: u64,
    },
    /// The account is gone, and with it the contacts that it had.
    Removed {
        /// The contacts by bare address.
        roster: Vec<(Box<str>, RosterRow)>,
        /// True if a client of the REST interface went with it.
        had_client: bool,
    },
    /// A client of the REST interface and its account.
    ClientAdded {
        /// The id of the account.
        id: i64,
    },
}

impl WriteDone {
    /// True if there is a client of the REST interface more or less: caller ids of applications have changed.
    pub fn changes_clients(&self) -> bool {
        matches!(self, WriteDone::ClientAdded { .. } | WriteDone::Removed { had_client: true, .. })
    }
}

/// A read. Each variant names its answer, or `Loaded` has one of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// The account of an address, also by an alias; the domain in lower case. Answered with `Loaded::Account`.
    Account {
        /// The user part, unescaped.
        user: Box<str>,
        /// The domain, in lower case.
        domain: Box<str>,
    },
    /// The accounts that fit.
    Accounts(AccountFilter),
    /// The aliases of an account, or all of them.
    Aliases {
        /// `None`: the aliases of all accounts.
        account: Option<Address>,
    },
    /// All domains.
    Domains,
    /// All routes.
    Routes,
    /// Records of calls, the newest first.
    Calls(CallFilter),
    /// A page of the calls that match. Answered with `Loaded::CallPage`.
    CallSearch(CallSearch),
    /// Oldest first, at most `limits::MAX_KEPT_LOADED`.
    KeptMessages {
        /// The address that they were kept for.
        aor: Box<str>,
    },
    /// Every address something is kept for, and how much: what a router wants to know when it starts.
    KeptCounts,
    /// The bindings of the addresses of some buckets, at most `limits::BINDINGS_LOADED`: the rows that a new owner has to know. They come in
    /// the order of the buckets, and by address. For databases that nodes share. Answered with `Loaded::Bindings`.
    BucketBindings {
        /// The numbers of the buckets.
        buckets: Box<[u16]>,
        /// The last address that was read of the first bucket: its later ones are read; empty for all.
        after: Box<str>,
    },
    /// The bindings of one address, while those of its bucket are being read. For databases that nodes share. Answered with
    /// `Loaded::Bindings`.
    Bindings {
        /// The number of the address's bucket.
        bucket: u16,
        /// The address of record.
        aor: Box<str>,
    },
    /// The addresses of some buckets that something is kept for, and how much. For databases that nodes share. Answered with
    /// `Loaded::KeptCounts`.
    BucketKeptCounts {
        /// The numbers of the buckets.
        buckets: Box<[u16]>,
    },
    /// Resources of the REST interface. Answered with `Loaded::Rest`.
    Rest(RestRead),
    /// Answered with `Loaded::Xmpp`.
    Xmpp(XmppRead),
    /// Answered with `Loaded::Access`.
    Access(AccessRead),
}

/// The answer to a [`Read`].
#[derive(Clone, Debug, PartialEq)]
pub enum Loaded {
    /// `None`: no such address. A disabled account is an answer, not an absence.
    Account(Option<Box<Account>>),
    /// By name.
    Accounts(Vec<Account>),
    /// By account and name.
    Aliases(Vec<Alias>),
    /// By name.
    Domains(Vec<Domain>),
    /// In the order in which they were added.
    Routes(Vec<Route>),
    /// The newest first.
    Calls(Vec<CallRecord>),
    /// The order is by the times of their ends, the newest first.
    CallPage(CallPage),
    /// The oldest first.
    KeptMessages(Vec<WaitingMessage>),
    /// Address and number of messages.
    KeptCounts(Vec<(Box<str>, u32)>),
    /// By address.
    Bindings(Vec<BindingRow>),
    /// To `Read::Rest`.
    Rest(RestLoaded),
    /// To `Read::Xmpp`.
    Xmpp(XmppLoaded),
    /// To `Read::Access`.
    Access(AccessLoaded),
}

/// The bindings of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRow {
    /// The address of record.
    pub aor: Box<str>,
    /// The number of the row.
    pub seq: i64,
    /// The bindings as the router wrote them.
    pub record: Box<[u8]>,
}

/// One row of the log of bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedBinding<'a> {
    /// The number of the row.
    pub seq: i64,
    /// The time at which it was written.
    pub written_at: Instant,
    /// The bindings as the router wrote them.
    pub record: &'a [u8],
}

/// A database. Readers see every write that ended before their read.
pub trait Store: Send + Sync {
    /// Opens a reader.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;
    /// One at a time is enough; a second one waits for the first's transaction.
    fn writer(&self) -> Result<Box<dyn Writer>, StoreError>;
}

/// Reads on the calling thread.
pub trait Reader: Send {
    /// Performs a read.
    fn load(&mut self, read: &Read) -> Result<Loaded, StoreError>;

    /// Visits every row of the log in order, one in memory at a time. Returns how many. The newest row of an address is
    /// its state; older ones may still be there.
    fn replay(&mut self, visit: &mut dyn FnMut(LoggedBinding<'_>)) -> Result<u64, StoreError>;
}

/// Writes on the calling thread.
pub trait Writer: Send {
    /// Writes all in one transaction and returns after it is on disk, with one result per write, in order.
    /// A write at fault itself (`StoreError::is_of_item`) fails alone; any other error fails the whole group
    /// and nothing of it was written.
    fn write_group(&mut self, group: &[Write]) -> Vec<Result<WriteDone, StoreError>>;

    /// A named secret, made once: `fresh` becomes it when there is none yet. Returns the one that counts.
    fn secret(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError>;

    /// Writes many users in one transaction; makes domains that are not there. Also those that had another password.
    fn import(
        &mut self,
        users: &[NewUser],
        existing: Existing,
    ) -> Result<(Imported, Vec<Address>), StoreError>;
}
