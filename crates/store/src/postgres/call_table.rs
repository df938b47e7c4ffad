//! A table of call records in a database of others: it has nothing else of the store's schema, and a row of a call that is there already is left as
//! it is.

use std::time::Duration;

use crate::error::StoreError;
use crate::limits;
use crate::types::CallRecord;

use super::Postgres;
use super::connection::{Connection, values};
use super::failure::Failure;
use super::routes::CallColumns;

/// The table and its index. Documented in `docs/operating.md`.
const MAKE: &str = "CREATE TABLE IF NOT EXISTS belfry_call (\
    id text PRIMARY KEY, call_id text NOT NULL, from_uri text NOT NULL, to_uri text NOT NULL, \
    started_at timestamptz NOT NULL, answered_at timestamptz, ended_at timestamptz NOT NULL, \
    code integer NOT NULL, reason text NOT NULL, account text, callee text); \
    CREATE INDEX IF NOT EXISTS belfry_call_by_end ON belfry_call (ended_at)";

/// The times come as microseconds since 1970.
const INSERT: &str = "INSERT INTO belfry_call \
    (id, call_id, from_uri, to_uri, started_at, answered_at, ended_at, code, reason, account, callee) \
    SELECT id, call_id, from_uri, to_uri, to_timestamp(started / 1e6), to_timestamp(answered / 1e6), \
    to_timestamp(ended / 1e6), code, reason, account, callee \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], \
    $8::int[], $9::text[], $10::text[], $11::text[]) \
    AS call (id, call_id, from_uri, to_uri, started, answered, ended, code, reason, account, callee) \
    ON CONFLICT (id) DO NOTHING";

/// A record with the key of its call.
#[derive(Clone, Copy, Debug)]
pub struct CallRow<'a> {
    /// The key.
    pub id: &'a str,
    /// The record.
    pub record: &'a CallRecord,
}

/// Rows that were not inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallTableFault {
    /// The server is away, or takes no rows of ours now.
    Away(StoreError),
    /// A value of one of the rows is at fault.
    Refused(StoreError),
}

/// The table `belfry_call` of a database. It is made if it is not there.
pub struct CallTable {
    postgres: Postgres,
    /// `None`: not connected, or the last use has failed.
    connection: Option<Connection>,
}

impl CallTable {
    /// Connects when rows are inserted. The URL is as for [`Postgres::open`].
    ///
    /// # Errors
    /// A URL that cannot be read.
    pub fn new(url: &str) -> Result<CallTable, StoreError> {
        let postgres = Postgres::of_url(url)?.with_patience(Some(limits::ANSWER_TIME));
        Ok(CallTable { postgres: postgres.with_session_name("belfry calls"), connection: None })
    }

    /// The servers and the database, without a password.
    pub fn name(&self) -> &str {
        self.postgres.name()
    }

    /// Inserts all rows in one transaction, and returns the number of those that were not there.
    ///
    /// # Errors
    /// None of the rows was inserted, as far as is known: a server that went away may have inserted them.
    pub fn insert(&mut self, rows: &[CallRow<'_>]) -> Result<u64, CallTableFault> {
        let inserted = self.try_insert(rows);
        if let Err(CallTableFault::Away(_)) = inserted {
            self.connection = None;
        }
        inserted
    }

    fn try_insert(&mut self, rows: &[CallRow<'_>]) -> Result<u64, CallTableFault> {
        let connection = match &mut self.connection {
            Some(connection) => {
                // The server may have closed it since its last use.
                connection.ensure_alive().map_err(CallTableFault::Away)?;
                connection
            }
            none => none.insert(connect(&self.postgres).map_err(CallTableFault::Away)?),
        };
        let records: Vec<&CallRecord> = rows.iter().map(|row| row.record).collect();
        let ids: Vec<&str> = rows.iter().map(|row| row.id).collect();
        let columns = CallColumns::of(&records);
        let mut all = values![ids].to_vec();
        all.extend(columns.values());
        connection.execute(INSERT, &all).map_err(|failure| {
            let is_of_value = failure.is_of_value();
            let error = failure.into_store(self.postgres.name());
            if is_of_value { CallTableFault::Refused(error) } else { CallTableFault::Away(error) }
        })
    }
}

/// Connects, and makes the table if it is not there: then a user needs no right to make tables.
fn connect(postgres: &Postgres) -> Result<Connection, StoreError> {
    let named = |failure: Failure| failure.into_store(postgres.name());
    let mut connection = Connection::open(postgres, Duration::ZERO)?;
    if !connection.exists("SELECT 1 WHERE to_regclass('belfry_call') IS NOT NULL", &[]).map_err(named)? {
        connection.batch(MAKE).map_err(named)?;
    }
    Ok(connection)
}
