//! `[store]`: the database.
//!
//! SQLite in the node's folder unless a URL is given. With `[farm] name` the URL means that all nodes share the
//! database (`Config::shares_database`), and then each of their writes is fenced by the life of its node.

use super::reader::Reader;

/// `[store]`. Without it the node has a database of its own in `[server] data`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    /// The URL of a PostgreSQL database, which may have a password.
    pub url: Option<Box<str>>,
}

impl Store {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut section = reader.section("store");
        let url: Option<Box<str>> = section.optional(
            "url",
            "A database of PostgreSQL 15 or later, as `postgres://user:password@host/database`, UTF8, for this node or all nodes of its farm; several hosts, separated by commas, are tried in turn, and the one that takes writes is used. `sslmode` is `prefer` when not given, which verifies no certificate; `verify-full` encrypts and verifies the server, by the authorities in `sslrootcert` or those of the system. The file `belfry.db` in `[server] data` when not given.",
        );
        if url.as_deref().is_some_and(|url| !is_postgres(url)) {
            // It may hold a password.
            section.mistake(
                "url",
                "`url` is not one of PostgreSQL",
                "postgres://user:password@host/database",
            );
        }
        section.finish();
        Store { url }
    }
}

/// True if a text can be the URL of a PostgreSQL database, or a connection string.
/// Both forms are those of PostgreSQL's clients (libpq); the driver finds further mistakes when it connects.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://") || url.contains("host=")
}
