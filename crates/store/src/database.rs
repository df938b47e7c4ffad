//! Either database behind one type, for programs that are told which by their configuration.

use crate::error::StoreError;
use crate::notices::NoticeListener;
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

impl Database {
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
    /// Those of the system. It connects with its first use.
    pub fn listen(&self) -> Result<Option<NoticeListener>, StoreError> {
        match self {
            Database::Sqlite(_) => Ok(None),
            Database::Postgres(postgres) => Ok(Some(NoticeListener::new(postgres.listen()?))),
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
