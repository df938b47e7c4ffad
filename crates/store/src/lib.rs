//! The record: what belfry acknowledged survives `kill -9`.
//!
//! Accounts, domains, aliases, routes, the log of bindings, kept messages, call records and the resources of the
//! REST interface ([`rest`]) and what XMPP keeps ([`xmpp`]), behind the traits
//! of [`record`]; [`Sqlite`] is the embedded form, [`Postgres`] the one that nodes share. A running server speaks to it through [`Service`] (one
//! writer thread with group commit, reader threads, bounded queues); the command line through [`Admin`].
//!
//! The record knows no SIP: a binding is a blob the router wrote and will read. It never reads the clock and
//! never makes randomness: both are arguments.

#![warn(missing_docs)]

pub mod access;
pub mod admin;
pub mod backup;
mod call_search;
pub mod copy;
mod database;
pub mod error;
pub mod import;
pub mod limits;
pub mod notices;
pub mod ownership;
pub mod postgres;
mod queue;
mod reads;
pub mod record;
pub mod rest;
mod retry_queue;
mod scram_text;
mod search;
pub mod service;
pub mod sqlite;
pub mod types;
mod value;
pub mod verifiers;
pub mod xmpp;

pub use admin::Admin;
pub use call_search::{CallPage, CallSearch};
pub use copy::{BindingOwner, CopiedTable, CopyEnd, CopyOptions, CopyProgress};
pub use database::{Database, LaterSchema};
pub use error::StoreError;
pub use import::{Existing, ImportOptions, Imported, NewUser, Progress, SourceUser, Users};
pub use notices::{AccountChange, Notice, NoticeListener};
pub use ownership::{BucketClaim, ClaimAnswer, GivenBucket, Ownership};
pub use postgres::Postgres;
pub use record::{
    BindingRow, BindingWrite, Loaded, LoggedBinding, Read, Reader, Store, Write, WriteDone, Writer,
};
pub use scram_text::read as read_scram_keys;
pub use service::{Busy, Completions, Service, ServiceOptions, Ticket};
pub use sqlite::{Options, Sqlite};
pub use types::{
    Account, AccountFilter, AccountLimits, Address, Alias, CallFilter, CallRecord, Domain, NewAccount,
    Pattern, Route, RoutePolicy, RouteTarget, WaitingMessage,
};
pub use verifiers::{MakeKeys, ScramHash, ScramKeys, Verifiers};
