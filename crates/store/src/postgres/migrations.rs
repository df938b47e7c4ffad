//! The schema of PostgreSQL. The one row of `schema_version` has two numbers: `version` counts the migrations that were applied, and
//! `oldest` is the oldest version whose programs may use the schema as it is. While a farm changes from one version to the next, nodes
//! of both use one database, so a migration that only adds leaves `oldest` as it is.

use cluster::Bucket;

use crate::database::LaterSchema;
use crate::error::StoreError;

use super::connection::{Connection, values};
use super::failure::Failure;

/// A change of the schema.
struct Migration {
    sql: &'static str,
    /// Changes of rows that SQL cannot make.
    fill: fn(&mut Connection) -> Result<(), Failure>,
    /// The oldest version whose programs may use the schema afterwards.
    oldest: u32,
}

/// In order; a released one is never edited, only followed by another.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/postgres/0001_first.sql"), fill: |_| Ok(()), oldest: 1 },
    // Programs of version 1 write kept messages without a bucket, and single numbers of bindings.
    Migration {
        sql: include_str!("../../migrations/postgres/0002_farm.sql"),
        fill: fill_kept_buckets,
        oldest: 2,
    },
    Migration {
        sql: include_str!("../../migrations/postgres/0003_expires.sql"),
        fill: |_| Ok(()),
        oldest: 2,
    },
    Migration {
        sql: include_str!("../../migrations/postgres/0004_call_times.sql"),
        fill: |_| Ok(()),
        oldest: 2,
    },
    Migration {
        sql: include_str!("../../migrations/postgres/0005_calls_of_accounts.sql"),
        fill: |_| Ok(()),
        oldest: 2,
    },
    Migration {
        sql: include_str!("../../migrations/postgres/0006_mailboxes.sql"),
        fill: |_| Ok(()),
        oldest: 2,
    },
];

/// The key of the lock that lets one node at a time change the schema: "belfry" as a number.
const LOCK: i64 = 0x62_65_6c_66_72_79;

/// Brings the schema up to date, in one transaction. Nodes that start together wait for the first of them. A later schema that this
/// program may use stays as it is.
pub(super) fn run(connection: &mut Connection) -> Result<Option<LaterSchema>, StoreError> {
    let name = connection.name().to_owned();
    apply(connection, &name, MIGRATIONS).map_err(|failure| failure.into_store(&name))
}

/// Makes the tables within the transaction of a caller that has moved the old ones away.
pub(super) fn make(connection: &mut Connection) -> Result<(), Failure> {
    let name = connection.name().to_owned();
    step(connection, &name, MIGRATIONS).map(drop)
}

/// Refuses a database of another encoding than UTF-8, which could not keep every name, and performs the step in a transaction.
fn apply(
    connection: &mut Connection,
    name: &str,
    migrations: &[Migration],
) -> Result<Option<LaterSchema>, Failure> {
    let encoding = connection.query_first("SHOW server_encoding", &[])?.map(|row| row.get::<_, String>(0));
    if encoding.as_deref() != Some("UTF8") {
        let found = encoding.unwrap_or_default();
        return Err(StoreError::invalid(
            format!("{name}: a database with the encoding {found}"),
            "one that was made with UTF8: createdb --encoding UTF8 --template template0 NAME",
        )
        .into());
    }
    connection.batch("BEGIN")?;
    let applied = step(connection, name, migrations);
    if applied.is_ok() {
        connection.commit()?;
    } else {
        connection.batch("ROLLBACK")?;
    }
    applied
}

/// Applies the migrations that are missing, within a transaction. The lock ends with it.
fn step(
    connection: &mut Connection,
    name: &str,
    migrations: &[Migration],
) -> Result<Option<LaterSchema>, Failure> {
    connection.query("SELECT pg_advisory_xact_lock($1)", values![LOCK])?;
    // The client writes notices to the log, and that a table is there is none for an operator.
    connection.batch("SET LOCAL client_min_messages = warning")?;
    connection.batch(
        "CREATE TABLE IF NOT EXISTS schema_version (id integer PRIMARY KEY, version bigint NOT NULL)",
    )?;
    connection
        .execute("INSERT INTO schema_version (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING", &[])?;
    let found = connection.number("SELECT version FROM schema_version", &[])?;
    let known = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    if found > i64::from(known) {
        let oldest = connection.number("SELECT oldest FROM schema_version", &[])?;
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if oldest <= i64::from(known) {
            return Ok(Some(LaterSchema { found, known }));
        }
        return Err(StoreError::NewerSchema { path: name.into(), found, known }.into());
    }
    let applied = usize::try_from(found).unwrap_or(0);
    for migration in &migrations[applied..] {
        connection.batch(migration.sql)?;
        (migration.fill)(connection)?;
    }
    if let Some(last) = migrations[applied..].last() {
        connection.execute(
            "UPDATE schema_version SET version = $1, oldest = $2",
            values![i64::from(known), i64::from(last.oldest)],
        )?;
    }
    Ok(None)
}

/// Version 1 kept messages without the bucket of their address.
fn fill_kept_buckets(connection: &mut Connection) -> Result<(), Failure> {
    let rows = connection.query("SELECT DISTINCT aor FROM kept_message", &[])?;
    let aors: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let buckets: Vec<i16> = aors.iter().map(|aor| Bucket::of(aor).number().cast_signed()).collect();
    let sql = "UPDATE kept_message SET bucket = given.bucket \
               FROM unnest($1::text[], $2::smallint[]) AS given (aor, bucket) WHERE kept_message.aor = given.aor";
    connection.execute(sql, values![aors, buckets])?;
    connection.batch(
        "ALTER TABLE kept_message ALTER COLUMN bucket SET NOT NULL; \
         CREATE INDEX kept_message_bucket ON kept_message (bucket, aor)",
    )
}
