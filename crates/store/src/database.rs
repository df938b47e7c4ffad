//! Either database behind one type, for programs that are told which by their configuration.

use std::path::PathBuf;

use crate::error::StoreError;
use crate::notices::NoticeListener;
use crate::ownership::Ownership;
use crate::postgres::Postgres;
use crate::record::{Reader, Store, Writer};
use crate::sqlite::Sqlite;

/// The database of a configuration.
#[derive(Clone, Debug)]
pub enum Database {
    /// In a file of the node's own.
    Sqlite(Sqlite),
    /// In a server.
    Postgres(Box<Postgres>),
}

/// The schema of a database that the program of a later version has changed and that this program uses as it is, because the change only
/// added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaterSchema {
    /// The version of the schema.
    pub found: u32,
    /// The latest version that this program knows.
    pub known: u32,
}

impl LaterSchema {
    /// The error of work that needs to know all of the schema.
    pub(crate) fn refused(self, name: impl Into<PathBuf>) -> StoreError {
        StoreError::NewerSchema { path: name.into(), found: self.found, known: self.known }
    }
}

impl Database {
    /// The schema of a later version that this program uses as it is; `None`: it is this program's.
    pub fn later_schema(&self) -> Option<LaterSchema> {
        match self {
            Database::Sqlite(sqlite) => sqlite.later_schema(),
            Database::Postgres(postgres) => postgres.later_schema(),
        }
    }

    /// The same database, opened for an import.
    #[must_use]
    pub fn for_import(&self) -> Self {
        match self {
            Database::Sqlite(sqlite) => Database::Sqlite(sqlite.for_import()),
            Database::Postgres(postgres) => {
                Database::Postgres(Box::new((**postgres).clone().with_patience(None)))
            }
        }
    }

    /// Opens the end that hears of changes by other programs. `None`: the database is a file of this program's own.
    ///
    /// # Errors
    /// The system gives no runtime. The connection is made with its first use.
    pub fn listen(&self) -> Result<Option<NoticeListener>, StoreError> {
        match self {
            Database::Sqlite(_) => Ok(None),
            Database::Postgres(postgres) => Ok(Some(NoticeListener::new(postgres.listen()?))),
        }
    }

    /// The hold of a life of a node on the buckets of addresses.
    ///
    /// # Errors
    /// `Invalid` if nodes cannot share the database; else those of the connection.
    pub fn ownership(&self, life: u32) -> Result<Box<dyn Ownership>, StoreError> {
        match self {
            Database::Sqlite(_) => {
                Err(StoreError::invalid("a database in a file", "one that nodes can share: `[store] url`"))
            }
            Database::Postgres(postgres) => postgres.ownership(life),
        }
    }

    /// The same database, whose writers write as long as this life of a node is not fenced. A file is its node's own: nothing fences it.
    #[must_use]
    pub fn fenced_by(&self, life: u32) -> Self {
        match self {
            Database::Sqlite(sqlite) => Database::Sqlite(sqlite.clone()),
            Database::Postgres(postgres) => Database::Postgres(Box::new(postgres.fenced_by(life))),
        }
    }
}

impl Store for Database {
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.reader(),
            Database::Postgres(postgres) => postgres.reader(),
        }
    }

    fn writer(&self) -> Result<Box<dyn Writer>, StoreError> {
        match self {
            Database::Sqlite(sqlite) => sqlite.writer(),
            Database::Postgres(postgres) => postgres.writer(),
        }
    }
}
