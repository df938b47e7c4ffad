//! The contract with SQLite.

use std::path::{Path, PathBuf};

use store::sqlite::Options;
use store::{Sqlite, Store};
use tempfile::TempDir;

#[path = "access.rs"]
mod access;
#[path = "bounds.rs"]
mod bounds;
#[path = "import.rs"]
mod import;
#[path = "record.rs"]
mod record;
#[path = "rest.rs"]
mod rest;
#[path = "xmpp.rs"]
mod xmpp;

/// An empty database of one test.
struct Database {
    dir: TempDir,
    file: PathBuf,
}

fn database() -> Database {
    let dir = tempfile::tempdir().unwrap();
    Database { file: dir.path().join("belfry.db"), dir }
}

impl Database {
    fn store(&self) -> Box<dyn Store> {
        Box::new(Sqlite::open(&self.file).unwrap())
    }

    fn store_with(&self, without_user: fn(&str, &str) -> Option<String>) -> Box<dyn Store> {
        let options = Options { without_user, ..Options::default() };
        Box::new(Sqlite::open_with(&self.file, options).unwrap())
    }

    /// The file of the database.
    fn file(&self) -> Option<&Path> {
        assert!(self.dir.path().is_dir());
        Some(&self.file)
    }
}
