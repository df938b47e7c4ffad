//! The schema, from the first day. `PRAGMA user_version` counts the migrations that were applied.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;

/// In order; a released one is never edited, only followed by another.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_first.sql"),
    include_str!("../../migrations/0002_rest.sql"),
    include_str!("../../migrations/0003_xmpp.sql"),
    include_str!("../../migrations/0004_access.sql"),
    include_str!("../../migrations/0005_kept_messages.sql"),
    include_str!("../../migrations/0006_rooms.sql"),
    include_str!("../../migrations/0007_limits.sql"),
    include_str!("../../migrations/0008_callees.sql"),
];

pub(super) fn run(conn: &mut Connection, path: &Path) -> Result<(), StoreError> {
    apply(conn, path, MIGRATIONS)
}

/// Each in its own transaction: a crash between two leaves a schema some version knows.
pub(super) fn apply(conn: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), StoreError> {
    let known = migrations.len();
    let applied = version(conn, path, known)?;
    for (number, migration) in migrations.iter().enumerate().skip(applied) {
        step(conn, migration, number).map_err(|error| StoreError::from_sqlite(&error, path))?;
    }
    version(conn, path, known).map(drop)
}

fn step(conn: &mut Connection, migration: &str, number: usize) -> rusqlite::Result<()> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Two processes may start at once; the second finds the work done.
    let now: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if usize::try_from(now) == Ok(number) {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", i64::try_from(number + 1).unwrap_or(i64::MAX))?;
    }
    transaction.commit()
}

fn version(conn: &Connection, path: &Path, known: usize) -> Result<usize, StoreError> {
    let found: u32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| StoreError::from_sqlite(&error, path))?;
    match usize::try_from(found) {
        Ok(found) if found <= known => Ok(found),
        _ => {
            let known = u32::try_from(known).unwrap_or(u32::MAX);
            Err(StoreError::NewerSchema { path: path.to_owned(), found, known })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> &'static Path {
        Path::new("belfry.db")
    }

    #[test]
    fn an_old_file_is_brought_up_to_date_and_keeps_its_rows() {
        let mut conn = Connection::open_in_memory().unwrap();
        apply(&mut conn, path(), MIGRATIONS).unwrap();
        conn.execute("INSERT INTO domain (name, created_at) VALUES ('example.org', 1)", []).unwrap();
        let mut newer = MIGRATIONS.to_vec();
        newer.push("ALTER TABLE domain ADD COLUMN note TEXT NOT NULL DEFAULT ''");
        apply(&mut conn, path(), &newer).unwrap();
        let count: i64 =
            conn.query_row("SELECT count(*) FROM domain WHERE note = ''", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
        apply(&mut conn, path(), &newer).unwrap();
    }

    #[test]
    fn a_newer_file_is_refused_with_both_versions() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", 99).unwrap();
        let error = apply(&mut conn, path(), MIGRATIONS).unwrap_err();
        assert_eq!(error, StoreError::NewerSchema { path: path().into(), found: 99, known: 8 });
        assert!(error.to_string().contains("written by a newer belfry (schema 99, this one knows up to 8)"));
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing_behind() {
        let mut conn = Connection::open_in_memory().unwrap();
        let broken =
            [MIGRATIONS[0], MIGRATIONS[1], "CREATE TABLE half (a INTEGER); SELECT nonsense FROM nowhere;"];
        assert!(apply(&mut conn, path(), &broken).is_err());
        apply(&mut conn, path(), MIGRATIONS).unwrap();
        assert!(conn.execute("INSERT INTO half VALUES (1)", []).is_err());
    }
}
