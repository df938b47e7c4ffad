//! The schema of PostgreSQL. A row of `schema_version` counts the migrations that were applied.

use crate::error::StoreError;

use super::connection::{Connection, Failure, values};

/// In order; a released one is never edited, only followed by another.
const MIGRATIONS: &[&str] = &[include_str!("../../migrations/postgres/0001_first.sql")];

/// The key of the lock that lets one node at a time change the schema: "belfry" as a number.
const LOCK: i64 = 0x62_65_6c_66_72_79;

/// Brings the schema up to date, in one transaction. Nodes that start together wait for the first of them.
pub(super) fn run(connection: &mut Connection) -> Result<(), StoreError> {
    let name = connection.name().to_owned();
    apply(connection, &name, MIGRATIONS).map_err(|failure| failure.into_store(&name))
}

fn apply(connection: &mut Connection, name: &str, migrations: &[&str]) -> Result<(), Failure> {
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
    connection.batch(if applied.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    applied
}

fn step(connection: &mut Connection, name: &str, migrations: &[&str]) -> Result<(), Failure> {
    connection.query("SELECT pg_advisory_xact_lock($1)", values![LOCK])?;
    connection.batch(
        "CREATE TABLE IF NOT EXISTS schema_version (id integer PRIMARY KEY, version bigint NOT NULL)",
    )?;
    connection.execute("INSERT INTO schema_version VALUES (1, 0) ON CONFLICT DO NOTHING", &[])?;
    let found = connection.number("SELECT version FROM schema_version", &[])?;
    let known = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    let Some(rest) = usize::try_from(found).ok().and_then(|found| migrations.get(found..)) else {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(StoreError::NewerSchema { path: name.into(), found, known }.into());
    };
    for migration in rest {
        connection.batch(migration)?;
    }
    connection.execute("UPDATE schema_version SET version = $1", values![i64::from(known)])?;
    Ok(())
}
