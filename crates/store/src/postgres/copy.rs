//! A server's database as an end of a copy.
//!
//! [`Source`] reads in one transaction that sees one moment; [`Target`] fills an empty database in one transaction, so that a copy that fails leaves
//! nothing.

use std::path::PathBuf;

use cluster::Bucket;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::copy::{BINDING, Chunk, ChunkHandler, CopySource, CopyTarget, KEPT_MESSAGE, Row, TABLES, Table};
use crate::error::StoreError;
use crate::value::Value;

use super::connection::Connection;
use super::failure::Failure;
use super::{Postgres, migrations};

/// The name of a copy's connections among those of the server.
const APPLICATION: &str = "copy of belfry";

/// Rows that one message of the server brings: some megabytes of the largest stanzas.
const FETCHED: usize = 256;

/// Times that connections of this process that have just ended may still be listed, a tenth of a second apart.
const LOOKS: usize = 20;

/// The copy waits for the other database as long as that takes.
const NO_TIMEOUTS: &str = "SET idle_in_transaction_session_timeout = 0; SET statement_timeout = 0";

/// A connection that waits for any time, to a database with exactly this program's schema.
fn connect(url: &str) -> Result<Connection, StoreError> {
    let postgres = Postgres::open(url)?.with_session_name(APPLICATION).with_patience(None);
    // A copy has the tables and columns that this program knows: it would lose what a later version has added.
    if let Some(later) = postgres.later_schema() {
        return Err(later.refused(postgres.name()));
    }
    let mut connection = postgres.connect()?;
    answer(&mut connection, |connection| connection.batch(NO_TIMEOUTS))?;
    Ok(connection)
}

/// Runs work whose failures name the database.
fn answer<T>(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
) -> Result<T, StoreError> {
    let name = connection.name().to_owned();
    work(connection).map_err(|failure| failure.into_store(&name))
}

/// Connections of nodes and commands are called `belfry` and more.
fn refuse_if_used(connection: &mut Connection) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND application_name LIKE 'belfry%'";
        if connection.number(sql, &[])? == 0 {
            return Ok(());
        }
        connection.batch("SELECT pg_sleep(0.1)")?;
    }
    let found = format!("{}: a node or another command uses it", connection.name());
    let expected = "a database that is not in use: end the node, and give the same command again";
    Err(StoreError::invalid(found, expected).into())
}

fn count(connection: &mut Connection, table: &Table) -> Result<u64, Failure> {
    Ok(connection.number(&format!("SELECT count(*) FROM {}", table.name), &[])?.unsigned_abs())
}

/// A database that is read, as it was at one moment.
pub(crate) struct Source {
    connection: Connection,
}

impl Source {
    pub(crate) fn open(url: &str) -> Result<Source, StoreError> {
        let mut connection = connect(url)?;
        answer(&mut connection, refuse_if_used)?;
        Source::begin(connection)
    }

    /// Nodes use the database meanwhile. Their writes are not read.
    pub(crate) fn open_shared(url: &str) -> Result<Source, StoreError> {
        Source::begin(connect(url)?)
    }

    /// The first read of the transaction takes the moment.
    fn begin(mut connection: Connection) -> Result<Source, StoreError> {
        answer(&mut connection, |connection| {
            connection.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        })?;
        Ok(Source { connection })
    }
}

impl CopySource for Source {
    fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        answer(&mut self.connection, |connection| count(connection, table))
    }

    // A cursor: the server sends `FETCHED` rows at a time.
    fn read(&mut self, table: &Table, take: ChunkHandler<'_>) -> Result<(), StoreError> {
        let Table { name, columns, key, .. } = table;
        let columns = columns.join(", ");
        answer(&mut self.connection, |connection| {
            let declare =
                format!("DECLARE copy_{name} CURSOR FOR SELECT {columns} FROM {name} ORDER BY {key}");
            connection.batch(&declare)?;
            let fetch = format!("FETCH {FETCHED} FROM copy_{name}");
            let mut chunk = Chunk::default();
            loop {
                let rows = connection.query(&fetch, &[])?;
                for row in &rows {
                    let values = (0..row.len()).map(|index| row.try_get::<_, Value<'static>>(index));
                    chunk.push(values.collect::<Result<Row, _>>()?);
                }
                if chunk.is_full() || (rows.is_empty() && !chunk.rows.is_empty()) {
                    take(std::mem::take(&mut chunk))?;
                }
                if rows.is_empty() {
                    break;
                }
            }
            connection.batch(&format!("CLOSE copy_{name}"))
        })
    }

    // The sequence of the ids, which also knows ids of rows that were deleted.
    fn last_id(&mut self, table: &Table) -> Result<i64, StoreError> {
        let sql = format!(
            "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('{}', 'id')::regclass), 0)",
            table.name
        );
        answer(&mut self.connection, |connection| connection.number(&sql, &[]))
    }
}

/// A database that is filled, in one transaction.
pub(crate) struct Target {
    connection: Connection,
}

impl Target {
    pub(crate) fn open(url: &str) -> Result<Target, StoreError> {
        let mut connection = connect(url)?;
        answer(&mut connection, |connection| {
            connection.batch("BEGIN")?;
            lock(connection)?;
            let filled = filled(connection)?;
            let expected = "an empty database: make one with createdb, or drop the old one first";
            refuse_if_filled(connection, &filled, expected)
        })?;
        Ok(Target { connection })
    }

    /// The same as `open`, in the place of a database that no node uses. Its tables, if they have rows, are kept in a schema of this name, which is
    /// returned.
    pub(crate) fn open_over(url: &str, keep_as: Option<&str>) -> Result<(Target, Vec<PathBuf>), StoreError> {
        let mut connection = connect(url)?;
        let kept = answer(&mut connection, |connection| {
            refuse_if_used(connection)?;
            connection.batch("BEGIN")?;
            lock(connection)?;
            let filled = filled(connection)?;
            let Some(name) = keep_as.filter(|_| !filled.is_empty()) else {
                let expected =
                    "an empty database, or --replace, which keeps the old tables in another schema";
                refuse_if_filled(connection, &filled, expected)?;
                return Ok(Vec::new());
            };
            let schema = format!("belfry {name}");
            set_aside(connection, &schema)?;
            Ok(vec![PathBuf::from(schema)])
        })?;
        Ok((Target { connection }, kept))
    }
}

/// Tables of the schema besides those that are copied, and sequences that belong to no table.
const OTHER_TABLES: [&str; 4] = ["probe", "member", "bucket", "schema_version"];
const SEQUENCES: [&str; 2] = ["binding_seq", "xmpp_item_seq"];

/// Moves all tables into a schema of that name, and makes new ones, within the transaction.
fn set_aside(connection: &mut Connection, schema: &str) -> Result<(), Failure> {
    connection.batch(&format!("CREATE SCHEMA \"{schema}\""))?;
    let tables = TABLES.iter().map(|table| table.name).chain(OTHER_TABLES).map(|name| ("TABLE", name));
    for (kind, name) in tables.chain(SEQUENCES.map(|name| ("SEQUENCE", name))) {
        connection.batch(&format!("ALTER {kind} {name} SET SCHEMA \"{schema}\""))?;
    }
    migrations::make(connection)
}

/// Nodes and commands that write wait for the end of the copy.
fn lock(connection: &mut Connection) -> Result<(), Failure> {
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    match connection.batch(&format!("LOCK TABLE {} IN EXCLUSIVE MODE NOWAIT", names.join(", "))) {
        Err(Failure::Postgres(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            let found = format!("{}: another process writes there", connection.name());
            let expected = "a database that is not in use: end the node, or wait for the other copy";
            Err(StoreError::invalid(found, expected).into())
        }
        locked => locked,
    }
}

/// The tables that have rows.
fn filled(connection: &mut Connection) -> Result<Vec<&'static str>, Failure> {
    let mut filled = Vec::new();
    for Table { name, .. } in TABLES {
        if connection.exists(&format!("SELECT 1 FROM {name} LIMIT 1"), &[])? {
            filled.push(*name);
        }
    }
    Ok(filled)
}

/// The error names the tables that have rows.
fn refuse_if_filled(connection: &Connection, filled: &[&str], expected: &str) -> Result<(), Failure> {
    if filled.is_empty() {
        return Ok(());
    }
    let found = format!("{}: it has rows in {}", connection.name(), filled.join(", "));
    Err(StoreError::invalid(found, expected).into())
}

/// The columns of a table with their types. Messages that are kept have the bucket of their address besides, which a file does not
/// have.
fn columns_of(connection: &mut Connection, table: &Table) -> Result<(Vec<&'static str>, Vec<Type>), Failure> {
    let mut columns = table.columns.to_vec();
    if table.name == KEPT_MESSAGE {
        columns.push("bucket");
    }
    let types = connection.types(&format!("SELECT {} FROM {}", columns.join(", "), table.name))?;
    Ok((columns, types))
}

impl CopyTarget for Target {
    fn write(&mut self, table: &Table, mut chunk: Chunk) -> Result<(), StoreError> {
        answer(&mut self.connection, |connection| {
            let (columns, types) = columns_of(connection, table)?;
            if table.name == KEPT_MESSAGE {
                for row in &mut chunk.rows {
                    let bucket = row.get(1).and_then(Value::as_text).map(|aor| Bucket::of(aor).number());
                    row.push(Value::number(bucket));
                }
            }
            let sql = format!("COPY {} ({}) FROM STDIN BINARY", table.name, columns.join(", "));
            connection.copy_in(&sql, &types, chunk.rows.iter()).map(drop)
        })
    }

    fn count(&mut self, table: &Table) -> Result<u64, StoreError> {
        answer(&mut self.connection, |connection| count(connection, table))
    }

    fn end_table(&mut self, table: &Table, last_id: i64) -> Result<(), StoreError> {
        if !table.has_ids() {
            return Ok(());
        }
        // The first id of a sequence that was never used is 1.
        let sql = format!(
            "SELECT setval(pg_get_serial_sequence('{}', 'id'), greatest({last_id}, 1), {last_id} > 0)",
            table.name
        );
        answer(&mut self.connection, |connection| connection.batch(&sql))
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        answer(&mut self.connection, |connection| {
            for (sequence, table) in [("binding_seq", BINDING), ("xmpp_item_seq", "xmpp_item")] {
                let sql = format!(
                    "SELECT setval('{sequence}', greatest(max(seq), 1), max(seq) IS NOT NULL) FROM {table}"
                );
                connection.batch(&sql)?;
            }
            // Without statistics the planner would take every table for empty until the server looks at it by itself.
            for Table { name, .. } in TABLES {
                connection.batch(&format!("ANALYZE {name}"))?;
            }
            Ok(())
        })
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        answer(&mut self.connection, Connection::commit)
    }
}
