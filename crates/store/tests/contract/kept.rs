//! Databases as earlier versions wrote them, a row in every table, are used by this program; and a node can go back to the program of
//! the version before, because a schema that was only added to is used by it.
//!
//! `kept` has a dump of each version of either schema: `sqlite-8.sql`, `postgres-2.sql`. A migration comes with the next one:
//! `BLESS=1 cargo test -p store --test contract kept`.

use std::path::PathBuf;

use rusqlite::Connection;
use stdx::Instant;
use store::copy::CopyEnd;
use store::{Address, Admin, LaterSchema, NewAccount, Postgres, Sqlite, Store, StoreError};

use crate::copy::{Files, copied, dump};
use crate::server;

/// The versions of this program's schemas.
const SQLITE: u32 = 12;
const POSTGRES: u32 = 6;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/contract/kept")
}

/// The kept dumps of one database with their names.
fn kept(database: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let names = names.filter(|name| name.starts_with(database));
    names.map(|name| (name.clone(), std::fs::read_to_string(folder().join(name)).unwrap())).collect()
}

/// Keeps a dump of this version, unless there is one.
fn keep(name: &str, make: impl FnOnce() -> String) {
    let path = folder().join(name);
    if std::env::var_os("BLESS").is_some() && !path.exists() {
        std::fs::create_dir_all(folder()).unwrap();
        std::fs::write(&path, make()).unwrap();
    }
    assert!(path.exists(), "{name}: a schema without a kept database: BLESS=1 makes it");
}

/// A file as statements that make it again.
fn text_of(path: &std::path::Path) -> String {
    let conn = Connection::open(path).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let of = |kind: &str| {
        format!(
            "SELECT sql || ';' FROM sqlite_master WHERE type {kind} AND sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        )
    };
    let mut lines = texts(&of("= 'table'"));
    let tables =
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%' ORDER BY rowid";
    for table in texts(tables) {
        let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}')"));
        let values: Vec<String> = columns.iter().map(|name| format!("quote({name})")).collect();
        if table == "sqlite_sequence" {
            // It makes the table with the first one that counts.
            lines.push("DELETE FROM sqlite_sequence;".into());
        }
        lines.extend(texts(&format!(
            "SELECT 'INSERT INTO {table} VALUES (' || {} || ');' FROM {table} ORDER BY 1",
            values.join(" || ', ' || ")
        )));
    }
    lines.extend(texts(&of("<> 'table'")));
    lines.extend(texts("SELECT 'PRAGMA user_version = ' || user_version || ';' FROM pragma_user_version"));
    lines.join("\n") + "\n"
}

#[test]
fn files_of_earlier_versions_are_used() {
    let files = Files::new();
    let CopyEnd::Sqlite(fresh) = files.filled("fresh.db") else { panic!("it is a file") };
    keep(&format!("sqlite-{SQLITE}.sql"), || text_of(&fresh));
    for (name, text) in kept("sqlite-") {
        let path = files.path(&name.replace(".sql", ".db"));
        Connection::open(&path).unwrap().execute_batch(&text).unwrap();
        let store = Sqlite::open(&path).unwrap();
        assert_eq!(store.later_schema(), None);
        assert_eq!(dump(&path), dump(&fresh), "{name}");
        add_and_read(&store);
    }
}

#[test]
fn databases_of_earlier_versions_are_used() {
    let files = Files::new();
    let fresh = server::new_postgres_database();
    copied(&files.filled("fresh.db"), &CopyEnd::Postgres(fresh.clone().into())).unwrap();
    keep(&format!("postgres-{POSTGRES}.sql"), || shortened(&server::dump_postgres_database(&fresh)));
    copied(&CopyEnd::Postgres(fresh.into()), &files.end("expected.db")).unwrap();
    for (name, text) in kept("postgres-") {
        let url = server::new_postgres_database();
        server::run_sql_script(&url, &text);
        let store = Postgres::open(&url).unwrap();
        assert_eq!(store.later_schema(), None);
        let back = name.replace(".sql", ".db");
        copied(&CopyEnd::Postgres(url.into()), &files.end(&back)).unwrap();
        assert_eq!(dump(&files.path(&back)), dump(&files.path("expected.db")), "{name}");
        add_and_read(&store);
    }
}

/// A dump with one statement for the rows of all buckets, which differ by their numbers.
fn shortened(dump: &str) -> String {
    let is_bucket = |line: &str| line.starts_with("INSERT INTO public.bucket VALUES ");
    let all = "INSERT INTO public.bucket (bucket) SELECT * FROM generate_series(0, 4095);";
    let mut lines: Vec<&str> = Vec::new();
    for line in dump.lines() {
        let line = if is_bucket(line) { all } else { line };
        if line != all || lines.last() != Some(&all) {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

/// A write and a read by a program that may be older than the schema.
fn add_and_read(store: &dyn Store) {
    let mut admin = Admin::new(store).unwrap();
    let address = Address::parse("later", Some("example.org")).unwrap();
    let now = Instant::from_unix_seconds(70);
    admin.ensure_domain("example.org", now).unwrap();
    admin.add_account(NewAccount::with_password(address.clone(), "secret", now).unwrap()).unwrap();
    assert_eq!(admin.account(&address).unwrap().created_at, now);
}

/// The change that a later version may make while nodes of this one write: a column with a default, a table, an index.
const ADDITION: &str = "ALTER TABLE account ADD COLUMN later text NOT NULL DEFAULT 'none'; \
    CREATE TABLE later (id integer PRIMARY KEY); CREATE INDEX account_later ON account (later);";

#[test]
fn a_file_that_a_later_version_added_to_is_used_and_another_one_is_refused() {
    let files = Files::new();
    let CopyEnd::Sqlite(path) = files.filled("later.db") else { panic!("it is a file") };
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(ADDITION).unwrap();
    conn.pragma_update(None, "user_version", (SQLITE << 16) + SQLITE + 1).unwrap();
    // A copy is made of a file that no other connection has open.
    drop(conn);
    let store = Sqlite::open(&path).unwrap();
    assert_eq!(store.later_schema(), Some(LaterSchema { found: SQLITE + 1, known: SQLITE }));
    add_and_read(&store);
    // A copy has the tables and columns that this program knows: it would lose the others.
    let target = CopyEnd::Postgres(server::new_postgres_database().into());
    let refused = copied(&CopyEnd::Sqlite(path.clone()), &target).unwrap_err();
    assert!(matches!(refused, StoreError::NewerSchema { .. }), "{refused:?}");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", SQLITE + 1).unwrap();
    let refused = Sqlite::open(&path).unwrap_err();
    assert!(
        matches!(refused, StoreError::NewerSchema { found, known: SQLITE, .. } if found == SQLITE + 1),
        "{refused:?}"
    );
}

/// Its sessions go on with the statements that they have prepared.
#[test]
fn a_database_that_a_later_version_adds_to_is_used_meanwhile_and_after_a_start() {
    let url = server::new_postgres_database();
    let store = Postgres::open(&url).unwrap();
    let mut admin = Admin::new(&store).unwrap();
    let now = Instant::from_unix_seconds(70);
    admin.ensure_domain("example.org", now).unwrap();
    let mut add = |name: &str| {
        let address = Address::parse(name, Some("example.org")).unwrap();
        admin.add_account(NewAccount::with_password(address.clone(), "secret", now).unwrap()).unwrap();
        assert_eq!(admin.account(&address).unwrap().created_at, now);
    };
    add("alice");
    server::run_sql(&url, &format!("{ADDITION} UPDATE schema_version SET version = version + 1"));
    add("bob");
    assert_eq!(store.later_schema(), None, "as it was at the start");
    let started_again = Postgres::open(&url).unwrap();
    let later = LaterSchema { found: POSTGRES + 1, known: POSTGRES };
    assert_eq!(started_again.later_schema(), Some(later));
    add_and_read(&started_again);
    let files = Files::new();
    let refused = copied(&CopyEnd::Postgres(url.clone().into()), &files.end("copy.db")).unwrap_err();
    assert!(matches!(refused, StoreError::NewerSchema { .. }), "{refused:?}");
    server::run_sql(&url, "UPDATE schema_version SET oldest = version");
    let refused = Postgres::open(&url).unwrap_err();
    assert!(matches!(refused, StoreError::NewerSchema { .. }), "{refused:?}");
}
