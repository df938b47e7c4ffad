//! A reading connection.
//!
//! A read may be sent again, so one that fails because the connection broke is tried once more on a new one.

use std::time::Duration;

use crate::error::StoreError;
use crate::limits;
use crate::record::{Loaded, LoggedBinding, Read, Reader};
use crate::xmpp::XmppRead;

use super::connection::{Connection, from_micros};
use super::failure::Failure;
use super::{Postgres, access, accounts, bindings, rest, routes, xmpp_read};

/// One thread's reader.
pub(super) struct PostgresReader {
    connection: Connection,
    /// The limit of the session's reads is a client's.
    is_limited: bool,
}

impl PostgresReader {
    pub(super) fn new(postgres: &Postgres) -> Result<Self, StoreError> {
        Ok(PostgresReader { connection: postgres.connect()?, is_limited: false })
    }

    /// An operator's read may take its time; a client's read must not delay those of others.
    fn limit(&mut self, is_clients: bool) -> Result<(), Failure> {
        if self.connection.ensure()? {
            self.is_limited = false;
        }
        if self.is_limited != is_clients {
            let limit = if is_clients { limits::READ_TIME.as_millis() } else { 0 };
            let set = format!("SET statement_timeout = {limit}");
            match self.connection.batch(&set) {
                Err(failure) if failure.is_of_connection() => {
                    self.connection.ensure()?;
                    self.connection.batch(&set)?;
                }
                set => set?,
            }
            self.is_limited = is_clients;
        }
        Ok(())
    }

    /// A read of a client has a limit for the statement at the server, and every read one for the answer.
    fn try_load(&mut self, read: &Read) -> Result<Loaded, Failure> {
        let is_clients =
            matches!(read, Read::Xmpp(read) if !matches!(read, XmppRead::Waiting | XmppRead::Kept { .. }));
        self.limit(is_clients)?;
        self.connection.set_patience(patience(read));
        match load(&mut self.connection, read) {
            Err(failure) if failure.is_of_connection() => {
                self.limit(is_clients)?;
                load(&mut self.connection, read)
            }
            loaded => loaded,
        }
    }

    /// All rows of bindings; only a page of them is in memory at a time.
    fn try_replay(&mut self, visit: &mut dyn FnMut(LoggedBinding<'_>)) -> Result<u64, Failure> {
        self.limit(false)?;
        self.connection.visit("SELECT seq, written_at, record FROM binding", &mut |row| {
            visit(LoggedBinding {
                seq: row.try_get(0)?,
                written_at: from_micros(row.try_get(1)?),
                record: row.try_get(2)?,
            });
            Ok(())
        })
    }
}

impl Reader for PostgresReader {
    fn load(&mut self, read: &Read) -> Result<Loaded, StoreError> {
        self.try_load(read).map_err(|failure| failure.into_store(self.connection.name()))
    }

    fn replay(&mut self, visit: &mut dyn FnMut(LoggedBinding<'_>)) -> Result<u64, StoreError> {
        self.try_replay(visit).map_err(|failure| failure.into_store(self.connection.name()))
    }
}

/// The time that the server may take for a read.
fn patience(read: &Read) -> Duration {
    match read {
        Read::Accounts(_)
        | Read::Aliases { account: None }
        | Read::Domains
        | Read::Calls(_)
        | Read::CallSearch(_)
        | Read::Rest(_) => limits::OPERATOR_ANSWER_TIME,
        _ => limits::ANSWER_TIME,
    }
}

/// Each kind of read to its module.
fn load(connection: &mut Connection, read: &Read) -> Result<Loaded, Failure> {
    Ok(match read {
        Read::Account { user, domain } => {
            Loaded::Account(accounts::load(connection, user, domain)?.map(Box::new))
        }
        Read::Accounts(filter) => Loaded::Accounts(accounts::list(connection, filter)?),
        Read::Aliases { account } => Loaded::Aliases(accounts::aliases(connection, account.as_ref())?),
        Read::Domains => Loaded::Domains(accounts::domains(connection)?),
        Read::Routes => Loaded::Routes(routes::list(connection)?),
        Read::Calls(filter) => Loaded::Calls(routes::calls(connection, filter)?),
        Read::CallSearch(search) => Loaded::CallPage(routes::search_calls(connection, search)?),
        Read::KeptMessages { aor } => Loaded::KeptMessages(routes::kept(connection, aor)?),
        Read::Rest(read) => Loaded::Rest(rest::load(connection, read)?),
        Read::Xmpp(read) => Loaded::Xmpp(xmpp_read::load(connection, read)?),
        Read::Access(read) => Loaded::Access(access::load(connection, read)?),
        Read::KeptCounts => Loaded::KeptCounts(routes::kept_counts(connection)?),
        Read::BucketBindings { buckets, after } => {
            Loaded::Bindings(bindings::of_buckets(connection, buckets, after)?)
        }
        Read::Bindings { bucket, aor } => Loaded::Bindings(bindings::of_address(connection, *bucket, aor)?),
        Read::BucketKeptCounts { buckets } => {
            Loaded::KeptCounts(routes::kept_counts_of_buckets(connection, buckets)?)
        }
    })
}
