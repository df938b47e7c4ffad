//! A database comes back from its backup, in either engine: every table, all or nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;
use stdx::Instant;
use stdx::rng::Rng;
use store::backup::{BackupOptions, Contents, Output, RestoreOptions, Restored, check, restore, write};
use store::copy::CopyEnd;
use store::{Address, Admin, Postgres, Sqlite, Store, StoreError};

use crate::copy::{Files, copied, dump, options, postgres};
use crate::server;

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn back_up(from: &CopyEnd, file: &Path) -> Contents {
    let options = BackupOptions { copy: options(), folders: Vec::new(), now: at(9) };
    write(from, Output::file(file).unwrap(), &options, &mut |_| ()).unwrap().unwrap()
}

fn restored(file: &Path, to: &CopyEnd, keep_as: Option<&str>) -> Result<Restored, StoreError> {
    let contents = check(file, &AtomicBool::new(false), &mut |_| ())?.unwrap();
    let options = RestoreOptions { copy: options(), folders: Vec::new(), keep_as: keep_as.map(Box::from) };
    let mut begun = 0;
    let mut begin = || {
        begun += 1;
        Ok(())
    };
    let restored = restore(file, &contents, to, &options, &mut begin, &mut |_| ())?;
    assert_eq!(begun, 1);
    Ok(restored.unwrap())
}

/// The database of a file as a copy makes it: without rows of bindings that are replaced.
fn copy_of(files: &Files, from: &CopyEnd, name: &str) -> PathBuf {
    copied(from, &files.end(name)).unwrap();
    files.path(name)
}

/// From a file to a backup, a server, a backup, and a file.
fn goes_round(files: &Files, file: &CopyEnd) {
    let expected = dump(&copy_of(files, file, "expected.db"));
    let contents = back_up(file, &files.path("one"));
    let (server, _) = postgres();
    assert_eq!(restored(&files.path("one"), &server, None).unwrap().tables, contents.tables);
    assert_eq!(back_up(&server, &files.path("two")).tables, contents.tables);
    restored(&files.path("two"), &files.end("back.db"), None).unwrap();
    let back = dump(&files.path("back.db"));
    for (expected, back) in expected.iter().zip(&back) {
        assert_eq!(expected, back);
    }
    assert_eq!(expected.len(), back.len());
}

#[test]
fn every_table_comes_back_in_the_other_engine_with_its_ids() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let contents = back_up(&file, &files.path("some"));
    assert!(contents.tables.iter().all(|table| table.rows > 0), "{:?}", contents.tables);
    goes_round(&files, &file);
    // An id that was given to a message that is deleted is not given again.
    let conn = Connection::open(files.path("back.db")).unwrap();
    let add = "INSERT INTO kept_message (aor, from_uri, content_type, body, sent_at) VALUES ('a', '', '', x'', 1) \
               RETURNING id";
    assert_eq!(conn.query_row(add, [], |row| row.get::<_, i64>(0)), Ok(4));
}

/// Any text that both engines take: PostgreSQL has no NUL in a text.
fn text(rng: &mut Rng) -> String {
    let parts = ["", "a", "ä", "'", "\"", "\\", "\n", "\t", "{}", "𝄞", "%", "\u{1}", "<m/>"];
    (0..rng.below(6)).map(|_| parts[rng.below(parts.len() as u64) as usize]).collect()
}

/// A value for a column. Those that are unique in their table have the row's number.
fn value(table: &str, column: (&str, &str, bool), row: i64, rng: &mut Rng) -> Value {
    let (name, kind, is_optional) = column;
    match (table, name) {
        ("account" | "alias", "domain_id") | ("alias", "account_id") => return Value::Integer(1),
        (_, "disabled" | "open" | "probe" | "used" | "registers") => {
            return Value::Integer(i64::from(rng.below(2) == 1));
        }
        (_, "strip" | "code" | "kind") => return Value::Integer(rng.below(20) as i64),
        (_, "id" | "seq") if kind == "INTEGER" => return Value::Integer(row),
        ("binding_log", "record") => return Value::Blob(format!("{row}{}", text(rng)).into_bytes()),
        (_, "name" | "sid" | "user" | "room" | "owner") => return Value::Text(format!("{row}{}", text(rng))),
        (_, "hash") => return Value::Blob(row.to_be_bytes().into()),
        _ if is_optional && rng.below(3) == 0 => return Value::Null,
        _ => {}
    }
    match kind {
        "INTEGER" => Value::Integer(rng.below(1 << 40) as i64 - (1 << 20)),
        "BLOB" => Value::Blob((0..rng.below(90)).map(|_| rng.below(256) as u8).collect()),
        _ => Value::Text(text(rng)),
    }
}

/// A file with up to 30 rows in every table, of any content.
fn random(files: &Files, seed: u64) -> CopyEnd {
    let path = files.path("random.db");
    drop(Sqlite::open(&path).unwrap());
    let (conn, mut rng) = (Connection::open(&path).unwrap(), Rng::seeded(seed));
    let names = |sql: &str| -> Vec<String> {
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'probe' \
                  ORDER BY rowid";
    for table in names(tables) {
        let mut statement =
            conn.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info(?1)").unwrap();
        let column = |row: &rusqlite::Row<'_>| {
            let is_fixed = row.get::<_, bool>(2)? || row.get::<_, i64>(3)? > 0;
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, !is_fixed))
        };
        let columns: Vec<_> = statement.query_map([&table], column).unwrap().map(Result::unwrap).collect();
        let quoted: Vec<String> = columns.iter().map(|(name, ..)| format!("\"{name}\"")).collect();
        let places = vec!["?"; columns.len()].join(", ");
        let insert = format!("INSERT INTO {table} ({}) VALUES ({places})", quoted.join(", "));
        for row in 1..=1 + rng.below(30) as i64 {
            let values =
                columns.iter().map(|(name, kind, free)| value(&table, (name, kind, *free), row, &mut rng));
            conn.execute(&insert, rusqlite::params_from_iter(values.collect::<Vec<_>>())).unwrap();
        }
    }
    CopyEnd::Sqlite(path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn any_content_comes_back(seed: u64) {
        let files = Files::new();
        let file = random(&files, seed);
        goes_round(&files, &file);
    }
}

/// `kept/backup-1.gz` was made by the first version that made backups: `BLESS=1` makes the file of a form that has none.
#[test]
fn a_backup_of_an_earlier_version_is_restored() {
    let kept = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/contract/kept/backup-1.gz");
    let files = Files::new();
    if std::env::var_os("BLESS").is_some() && !kept.exists() {
        back_up(&files.filled("belfry.db"), &kept);
    }
    let (server, url) = postgres();
    for end in [files.end("new.db"), server] {
        let tables = restored(&kept, &end, None).unwrap().tables;
        assert!(tables.iter().filter(|table| table.rows > 0).count() >= 18, "{tables:?}");
    }
    let boss = Address::parse("boss@example.org", None).unwrap();
    let stores: [Box<dyn Store>; 2] =
        [Box::new(Sqlite::open(files.path("new.db")).unwrap()), Box::new(Postgres::open(&url).unwrap())];
    for store in stores {
        let alice = Admin::new(&*store).unwrap().account(&boss).unwrap();
        assert!(alice.disabled && alice.verifiers.has_scram(), "{}", alice.name);
    }
}

#[test]
fn a_backup_is_of_the_moment_at_which_it_began_while_others_write() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let (server, url) = postgres();
    copied(&file, &server).unwrap();
    let stores: [(CopyEnd, Box<dyn Store>); 2] = [
        (files.end("belfry.db"), Box::new(Sqlite::open(files.path("belfry.db")).unwrap())),
        (server, Box::new(Postgres::open(&url).unwrap())),
    ];
    for (number, (from, store)) in stores.into_iter().enumerate() {
        let mut admin = Admin::new(&*store).unwrap();
        let before = admin.domains().unwrap().len();
        let options = BackupOptions { copy: options(), folders: Vec::new(), now: at(9) };
        let path = files.path(&format!("backup{number}"));
        let mut added = 0;
        // Called for the first time when rows of domains were read, and then for those of accounts.
        let contents = write(&from, Output::file(&path).unwrap(), &options, &mut |_| {
            added += 1;
            admin.ensure_domain(&format!("{added}.example.com"), at(2)).unwrap();
        });
        let contents = contents.unwrap().unwrap();
        assert!(added > 3 && contents.tables[0].rows == before as u64, "{added} {contents:?}");
        assert_eq!(admin.domains().unwrap().len(), before + added);
        let back = files.end(&format!("back{number}.db"));
        restored(&path, &back, None).unwrap();
    }
}

#[test]
fn a_database_with_rows_is_replaced_on_request_and_kept() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    back_up(&file, &files.path("backup"));
    let (server, url) = postgres();
    let other = files.end("other.db");
    for (end, store) in [
        (&other, Box::new(Sqlite::open(files.path("other.db")).unwrap()) as Box<dyn Store>),
        (&server, Box::new(Postgres::open(&url).unwrap())),
    ] {
        let mut admin = Admin::new(&*store).unwrap();
        admin.ensure_domain("mine.example.org", at(1)).unwrap();
        let used = restored(&files.path("backup"), end, Some("before")).unwrap_err().to_string();
        assert!(used.contains("a node or another command uses it"), "{used}");
        drop((admin, store));
        let filled = restored(&files.path("backup"), end, None).unwrap_err().to_string();
        assert!(
            filled.contains("it has rows in domain: expected an empty database, or --replace"),
            "{filled}"
        );
    }
    let before = dump(&files.path("other.db"));
    let kept = restored(&files.path("backup"), &other, Some("before")).unwrap().kept;
    assert_eq!(kept, [files.path("other.db.before")]);
    assert_eq!(dump(&files.path("other.db.before")), before);
    let expected = dump(&copy_of(&files, &file, "expected.db"));
    assert_eq!(dump(&files.path("other.db")), expected);

    let kept = restored(&files.path("backup"), &server, Some("before")).unwrap().kept;
    assert_eq!(kept, [PathBuf::from("belfry before")]);
    let moved = "DO $$ BEGIN \
        IF (SELECT name FROM \"belfry before\".domain) <> 'mine.example.org' THEN RAISE 'it was not kept'; END IF; \
        IF (SELECT count(*) FROM pg_class WHERE relnamespace = '\"belfry before\"'::regnamespace) \
            <> (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace) \
        THEN RAISE 'something was left behind'; END IF; END $$";
    server::run_sql(&url, moved);
    copied(&server, &files.end("back.db")).unwrap();
    assert_eq!(dump(&files.path("back.db")), expected);
}

#[test]
fn a_damaged_file_is_kept_and_a_log_without_a_file_is_not_taken_for_the_new_ones() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    back_up(&file, &files.path("backup"));
    std::fs::write(files.path("bad.db"), "no database ".repeat(1_000)).unwrap();
    std::fs::write(files.path("bad.db-wal"), "its log").unwrap();
    let refused = restored(&files.path("backup"), &files.end("bad.db"), None).unwrap_err().to_string();
    assert!(refused.contains("bad.db: it has rows in"), "{refused}");
    restored(&files.path("backup"), &files.end("bad.db"), Some("before")).unwrap();
    assert!(std::fs::read(files.path("bad.db.before")).unwrap().starts_with(b"no database"));
    assert_eq!(std::fs::read(files.path("bad.db.before-wal")).unwrap(), b"its log");
    let expected = dump(&copy_of(&files, &file, "expected.db"));
    assert_eq!(dump(&files.path("bad.db")), expected);

    std::fs::write(files.path("log.db-wal"), "a log").unwrap();
    let refused = restored(&files.path("backup"), &files.end("log.db"), None).unwrap_err().to_string();
    assert!(refused.contains("log.db: there is a -wal or -shm, but no database"), "{refused}");
    restored(&files.path("backup"), &files.end("log.db"), Some("before")).unwrap();
    assert_eq!(std::fs::read(files.path("log.db.before-wal")).unwrap(), b"a log");
    assert_eq!(dump(&files.path("log.db")), expected);
}

#[test]
fn a_backup_or_restore_that_is_stopped_leaves_nothing() {
    let files = Files::new();
    let file = files.filled("belfry.db");
    let options = BackupOptions { copy: options(), folders: Vec::new(), now: at(9) };
    // Left by one that was killed.
    std::fs::write(files.path("backup.part"), "half").unwrap();
    let stopped = write(&file, Output::file(&files.path("backup")).unwrap(), &options, &mut |_| {
        options.copy.stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(stopped, Ok(None));
    assert_eq!(files.names(), ["belfry.db"]);
    std::fs::write(files.path("backup.part"), "half").unwrap();
    let contents = back_up(&file, &files.path("backup"));

    let (server, _) = postgres();
    Sqlite::open(files.path("empty.db")).unwrap();
    let before = dump(&files.path("empty.db"));
    for end in [files.end("new.db"), files.end("empty.db"), server] {
        let copy = crate::copy::options();
        let options = RestoreOptions { copy: copy.clone(), folders: Vec::new(), keep_as: None };
        let mut begin = || panic!("it was stopped before");
        let stopped = restore(&files.path("backup"), &contents, &end, &options, &mut begin, &mut |_| {
            copy.stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(stopped, Ok(None));
        assert_eq!(files.names(), ["backup", "belfry.db", "empty.db"]);
        restored(&files.path("backup"), &end, None).unwrap();
        if end == files.end("new.db") {
            std::fs::remove_file(files.path("new.db")).unwrap();
        }
    }
    assert_ne!(dump(&files.path("empty.db")), before);
}
