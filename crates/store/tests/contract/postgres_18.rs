//! The contract with PostgreSQL 18, which is newer than Debian's.

use std::path::Path;

use store::{Postgres, Store};

use crate::server;

#[path = "access.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests with the other database")]
mod access;
#[path = "bounds.rs"]
#[expect(clippy::duplicate_mod, reason = "as above")]
mod bounds;
#[path = "import.rs"]
#[expect(clippy::duplicate_mod, reason = "as above")]
mod import;
#[path = "record.rs"]
#[expect(clippy::duplicate_mod, reason = "as above")]
mod record;
#[path = "rest.rs"]
#[expect(clippy::duplicate_mod, reason = "as above")]
mod rest;
#[path = "xmpp.rs"]
#[expect(clippy::duplicate_mod, reason = "as above")]
mod xmpp;

/// An empty database of one test.
struct Database {
    url: String,
}

fn database() -> Database {
    Database { url: server::new_postgres_18_database() }
}

impl Database {
    fn store(&self) -> Box<dyn Store> {
        Box::new(Postgres::open(&self.url).unwrap())
    }

    fn store_with(&self, without_user: fn(&str, &str) -> Option<String>) -> Box<dyn Store> {
        Box::new(Postgres::open(&self.url).unwrap().with_without_user(without_user))
    }

    /// There is no file that a program reads.
    fn file(&self) -> Option<&Path> {
        None
    }
}
