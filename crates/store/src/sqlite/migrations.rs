//! The schema, from the first day. `PRAGMA user_version` has two numbers of 16 bits: the lower one counts the migrations that were
//! applied, the higher one is the oldest version whose programs may use the schema as it is; 0 there: none but the version itself. So
//! a node can go back to the program of before an upgrade whose migrations only added.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::database::LaterSchema;
use crate::error::StoreError;

/// A change of the schema.
#[derive(Clone, Copy)]
struct Migration {
    sql: &'static str,
    /// The oldest version whose programs may use the schema afterwards. Programs before version 8 use their own alone.
    oldest: u16,
}

/// In order; a released one is never edited, only followed by another.
const MIGRATIONS: &[Migration] = &[
    Migration { sql: include_str!("../../migrations/0001_first.sql"), oldest: 1 },
    Migration { sql: include_str!("../../migrations/0002_rest.sql"), oldest: 2 },
    Migration { sql: include_str!("../../migrations/0003_xmpp.sql"), oldest: 3 },
    Migration { sql: include_str!("../../migrations/0004_access.sql"), oldest: 4 },
    Migration { sql: include_str!("../../migrations/0005_kept_messages.sql"), oldest: 5 },
    Migration { sql: include_str!("../../migrations/0006_rooms.sql"), oldest: 6 },
    Migration { sql: include_str!("../../migrations/0007_limits.sql"), oldest: 7 },
    Migration { sql: include_str!("../../migrations/0008_callees.sql"), oldest: 8 },
    Migration { sql: include_str!("../../migrations/0009_expires.sql"), oldest: 8 },
    Migration { sql: include_str!("../../migrations/0010_call_times.sql"), oldest: 8 },
    Migration { sql: include_str!("../../migrations/0011_calls_of_accounts.sql"), oldest: 8 },
    Migration { sql: include_str!("../../migrations/0012_mailboxes.sql"), oldest: 8 },
];

/// The two numbers of a file's schema.
#[derive(Clone, Copy)]
struct Schema {
    /// The migrations that were applied.
    version: u16,
    /// The oldest version whose programs may use it.
    oldest: u16,
}

impl Schema {
    fn of(user_version: u32) -> Schema {
        let [high, higher, low, lower] = user_version.to_be_bytes();
        let (version, oldest) = (u16::from_be_bytes([low, lower]), u16::from_be_bytes([high, higher]));
        Schema { version, oldest: if oldest == 0 { version } else { oldest } }
    }

    /// The value of `user_version`. A schema that no older program may use is written as before there were two numbers.
    fn user_version(self) -> u32 {
        let oldest = if self.oldest < self.version { self.oldest } else { 0 };
        u32::from(oldest) << 16 | u32::from(self.version)
    }
}

/// Brings the schema up to date. A later schema that this program may use stays as it is.
pub(super) fn run(conn: &mut Connection, path: &Path) -> Result<Option<LaterSchema>, StoreError> {
    apply(conn, path, MIGRATIONS)
}

/// Each in its own transaction: a crash between two leaves a schema some version knows.
fn apply(
    conn: &mut Connection,
    path: &Path,
    migrations: &[Migration],
) -> Result<Option<LaterSchema>, StoreError> {
    let known = u16::try_from(migrations.len()).unwrap_or(u16::MAX);
    let applied = schema(conn, path)?.version;
    for (number, migration) in (0..).zip(migrations).skip(usize::from(applied)) {
        step(conn, *migration, number).map_err(|error| StoreError::from_sqlite(&error, path))?;
    }
    let Schema { version, oldest } = schema(conn, path)?;
    let (found, known) = (u32::from(version), u32::from(known));
    if found <= known {
        Ok(None)
    } else if u32::from(oldest) <= known {
        Ok(Some(LaterSchema { found, known }))
    } else {
        Err(StoreError::NewerSchema { path: path.to_owned(), found, known })
    }
}

/// Applies the migration that follows version `number`.
fn step(conn: &mut Connection, migration: Migration, number: u16) -> rusqlite::Result<()> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Two processes may start at once; the second finds the work done.
    let now: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if Schema::of(now).version == number {
        transaction.execute_batch(migration.sql)?;
        let schema = Schema { version: number + 1, oldest: migration.oldest };
        transaction.pragma_update(None, "user_version", i64::from(schema.user_version()))?;
    }
    transaction.commit()
}

/// Reads the two numbers.
fn schema(conn: &Connection, path: &Path) -> Result<Schema, StoreError> {
    let found: u32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| StoreError::from_sqlite(&error, path))?;
    Ok(Schema::of(found))
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
        newer.push(Migration {
            sql: "ALTER TABLE domain ADD COLUMN note TEXT NOT NULL DEFAULT ''",
            oldest: 12,
        });
        apply(&mut conn, path(), &newer).unwrap();
        let count: i64 =
            conn.query_row("SELECT count(*) FROM domain WHERE note = ''", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
        assert_eq!(apply(&mut conn, path(), &newer), Ok(None));
        // And back: the program of the version before uses it as it is.
        let later = LaterSchema { found: 13, known: 12 };
        assert_eq!(apply(&mut conn, path(), MIGRATIONS), Ok(Some(later)));
        conn.execute("INSERT INTO domain (name, created_at) VALUES ('example.net', 1)", []).unwrap();
        assert!(matches!(
            apply(&mut conn, path(), &MIGRATIONS[..11]),
            Err(StoreError::NewerSchema { found: 13, known: 11, .. })
        ));
    }

    /// Programs before there were two numbers read the whole of them.
    #[test]
    fn a_schema_for_no_older_program_is_written_as_one_number() {
        assert_eq!(Schema { version: 8, oldest: 8 }.user_version(), 8);
        assert_eq!(Schema { version: 9, oldest: 8 }.user_version(), 0x0008_0009);
        let schema = Schema::of(0x0008_0009);
        assert_eq!((schema.version, schema.oldest), (9, 8));
        let schema = Schema::of(8);
        assert_eq!((schema.version, schema.oldest), (8, 8));
    }

    #[test]
    fn a_newer_file_is_refused_with_both_versions() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", 99).unwrap();
        let error = apply(&mut conn, path(), MIGRATIONS).unwrap_err();
        assert_eq!(error, StoreError::NewerSchema { path: path().into(), found: 99, known: 12 });
        assert!(error.to_string().contains("written by a newer belfry (schema 99, this one knows up to 12)"));
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing_behind() {
        let mut conn = Connection::open_in_memory().unwrap();
        let broken = "CREATE TABLE half (a INTEGER); SELECT nonsense FROM nowhere;";
        let broken = [MIGRATIONS[0], MIGRATIONS[1], Migration { sql: broken, oldest: 3 }];
        assert!(apply(&mut conn, path(), &broken).is_err());
        apply(&mut conn, path(), MIGRATIONS).unwrap();
        assert!(conn.execute("INSERT INTO half VALUES (1)", []).is_err());
    }
}
