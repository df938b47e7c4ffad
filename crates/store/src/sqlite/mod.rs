//! The record in one SQLite file: WAL, and `synchronous=FULL`, so a commit is on disk when it returns.
//!
//! [`Sqlite`] opens the file; each [`reader`](Store::reader) and the [`writer`](Store::writer) has a connection of its own. The other modules are the
//! statements, by kind of row; those of PostgreSQL are in `postgres` under the same names.

mod access;
mod accounts;
mod bindings;
pub(crate) mod copy;
mod import;
mod migrations;
mod reader;
mod replaced_file;
mod rest;
mod routes;
mod writer;
mod xmpp;
mod xmpp_read;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use stdx::Instant;

use crate::database::LaterSchema;
use crate::error::StoreError;
use crate::limits;
use crate::record::{Reader, Store, Writer};

use reader::SqliteReader;
use writer::SqliteWriter;

/// The settings of connections.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time that a write waits for another process that holds the database.
    pub busy_timeout: Duration,
    /// Page cache of one connection, KiB. An import wants as much as the index of accounts.
    pub cache_kib: u32,
    /// Pages of 4 KiB in the write-ahead log before they are taken to the file.
    pub checkpoint_pages: u32,
    /// The file may not grow beyond so many pages of 4 KiB; a write that would is `StoreError::Full`.
    pub max_pages: Option<u32>,
    /// The configuration of a room or node without what an account is in it, when that account is removed; the store looks
    /// into no XML. `None`: it is as it was.
    pub without_user: fn(&str, &str) -> Option<String>,
}

/// The default of `without_user`, for databases without rooms and nodes.
fn unchanged(_: &str, _: &str) -> Option<String> {
    None
}

/// 16 MiB, four times SQLite's own: the few hot pages of the log of bindings are then written to the file four
/// times less often.
const CHECKPOINT_PAGES: u32 = 4_000;

impl Default for Options {
    fn default() -> Self {
        Options {
            busy_timeout: limits::BUSY_TIMEOUT,
            cache_kib: 16 * 1024,
            checkpoint_pages: CHECKPOINT_PAGES,
            max_pages: None,
            without_user: unchanged,
        }
    }
}

/// The file and how to open it. Connections are made by `reader` and `writer`.
#[derive(Clone, Debug)]
pub struct Sqlite {
    path: PathBuf,
    options: Options,
    /// The schema is of a later version.
    later_schema: Option<LaterSchema>,
}

impl Sqlite {
    /// Makes the file when it is not there and brings its schema up to date.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, Options::default())
    }

    /// As `open`, with options.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        let mut sqlite = Sqlite { path: path.as_ref().to_owned(), options, later_schema: None };
        sqlite.create_private()?;
        let mut conn = sqlite.connect()?;
        sqlite.later_schema = migrations::run(&mut conn, &sqlite.path)?;
        Ok(sqlite)
    }

    /// The schema of a later version that this program uses as it is.
    pub fn later_schema(&self) -> Option<LaterSchema> {
        self.later_schema
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same file, opened for an import: a page cache for the index of some million accounts (256 MiB) and a
    /// long write-ahead log (512 MiB). In random order every batch touches most pages of the index; with a long
    /// log each is taken to the file once for many batches.
    pub fn for_import(&self) -> Self {
        let options = Options { cache_kib: 256 * 1024, checkpoint_pages: 128 * 1024, ..self.options.clone() };
        Sqlite { options, ..self.clone() }
    }

    /// A reader of the verifiers could sign in: only the owner may read the file. SQLite gives its companions
    /// (`-wal`, `-shm`) the same permissions.
    fn create_private(&self) -> Result<(), StoreError> {
        let mut options = std::fs::OpenOptions::new();
        options.create_new(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(StoreError::Io { path: self.path.clone(), detail: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// A connection with all settings. They belong to the connection, not to the file, except the journal's mode.
    fn connect(&self) -> Result<Connection, StoreError> {
        let open = || -> rusqlite::Result<Connection> {
            let conn = Connection::open(&self.path)?;
            conn.busy_timeout(self.options.busy_timeout)?;
            conn.pragma_update(None, "journal_mode", "wal")?;
            conn.pragma_update(None, "synchronous", "full")?;
            conn.pragma_update(None, "foreign_keys", true)?;
            conn.pragma_update(None, "temp_store", "memory")?;
            conn.pragma_update(None, "cache_size", -i64::from(self.options.cache_kib))?;
            // A log that once grew under a slow reader gives its space back.
            conn.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
            conn.pragma_update(None, "wal_autocheckpoint", self.options.checkpoint_pages)?;
            if let Some(pages) = self.options.max_pages {
                conn.pragma_update(None, "max_page_count", pages)?;
            }
            let without_user = self.options.without_user;
            conn.create_scalar_function(
                "without_user",
                2,
                FunctionFlags::SQLITE_DETERMINISTIC,
                move |given| {
                    let (config, user) = (given.get::<String>(0)?, given.get::<String>(1)?);
                    Ok(without_user(&config, &user).unwrap_or(config))
                },
            )?;
            conn.set_prepared_statement_cache_capacity(64);
            // Else every statement is planned anew for each value that is bound to it: with STAT4, which the bundled SQLite
            // has, values could change the plan.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            Ok(conn)
        };
        open().map_err(|error| StoreError::from_sqlite(&error, &self.path))
    }
}

impl Store for Sqlite {
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(SqliteReader::new(self)?))
    }

    fn writer(&self) -> Result<Box<dyn Writer>, StoreError> {
        Ok(Box::new(SqliteWriter::new(self)?))
    }
}

/// SQLite's integers are signed; times and ids fit far beyond any date we meet.
fn micros(at: Instant) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX)
}

// Accounts, domains and routes have their times in seconds, everything else in microseconds.
fn seconds(at: Instant) -> i64 {
    i64::try_from(at.unix_seconds()).unwrap_or(i64::MAX)
}

fn from_micros(value: i64) -> Instant {
    Instant::from_micros(u64::try_from(value).unwrap_or(0))
}

fn from_seconds(value: i64) -> Instant {
    Instant::from_unix_seconds(u64::try_from(value).unwrap_or(0))
}

/// An error of a statement: the database's, or one of ours about the item.
enum Failure {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl Failure {
    /// `path` is named in errors of the file.
    fn into_store(self, path: &Path) -> StoreError {
        match self {
            Failure::Sqlite(error) => StoreError::from_sqlite(&error, path),
            Failure::Store(error) => error,
        }
    }

    /// A rule of the schema is broken: a name is taken, or rows still refer to the row.
    fn is_constraint(&self) -> bool {
        let Failure::Sqlite(error) = self else { return false };
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
    }

    /// Names the item where the database only says that a rule of uniqueness was broken.
    fn or_exists(self, what: impl FnOnce() -> String) -> Self {
        if self.is_constraint() { Failure::Store(StoreError::exists(what())) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_statement_is_planned_once() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(folder.path().join("belfry.db")).unwrap();
        let conn = sqlite.connect().unwrap();
        for number in 0..5 {
            let user = format!("user{number}");
            assert!(matches!(accounts::load(&conn, &user, "example.org"), Ok(None)));
            let read = crate::xmpp::XmppRead::User { user: user.into(), nodes: &["a"] };
            assert!(xmpp_read::load(&conn, &read).is_ok());
        }
        for sql in [
            "SELECT contact, item FROM xmpp_roster WHERE user = ?1 ORDER BY contact",
            "SELECT count(*) FROM xmpp_offline WHERE user = ?1",
            accounts::DIRECT,
        ] {
            let statement = conn.prepare_cached(sql).unwrap();
            assert!(statement.get_status(StatementStatus::Run) > 1, "another one is used: {sql}");
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }
}
