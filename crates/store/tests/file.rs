//! Tests of the database in a file alone: a disk that is full, permissions, files of other programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use stdx::Instant;
use store::{
    Address, Admin, BindingWrite, ImportOptions, Imported, NewAccount, Options, Progress, Sqlite, Store,
    StoreError, Write, WriteDone,
};
use tempfile::TempDir;

fn admin() -> (TempDir, Admin) {
    let dir = tempfile::tempdir().unwrap();
    let mut admin = Admin::new(&Sqlite::open(dir.path().join("belfry.db")).unwrap()).unwrap();
    admin.ensure_domain("example.org", at(1)).unwrap();
    (dir, admin)
}

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn binding(written_at: u64, record: &[u8], replaces: Option<i64>) -> Write {
    Write::Binding(BindingWrite {
        bucket: 0,
        aor: "a@example.org".into(),
        epoch: 0,
        written_at: at(written_at),
        replaces,
        empties: false,
        record: record.into(),
    })
}

fn options() -> ImportOptions {
    ImportOptions::new(Some("example.org"), Instant::from_unix_seconds(9))
}

#[test]
fn each_probe_updates_its_one_row() {
    let (dir, mut admin) = admin();
    for time in 1..=3 {
        assert_eq!(admin.write(&Write::Probe { at: at(time) }).unwrap(), WriteDone::Changed { rows: 1 });
    }
    drop(admin);
    let conn = rusqlite::Connection::open(dir.path().join("belfry.db")).unwrap();
    let row = conn.query_row("SELECT count(*), max(at) FROM probe", [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(row.unwrap(), (1, 3_000_000_i64), "one row, of the last time");
}

#[test]
fn a_file_that_is_not_ours_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("belfry.db");
    std::fs::write(&path, "Dear diary, this is certainly not a database. ".repeat(100)).unwrap();
    let error = Sqlite::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().starts_with(path.to_str().unwrap()));
    let nowhere = Sqlite::open(dir.path().join("no/such/directory/belfry.db")).unwrap_err();
    assert!(matches!(nowhere, StoreError::Io { .. }), "{nowhere:?}");
}

#[test]
fn a_full_disk_fails_the_whole_group_and_space_heals_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("belfry.db");
    let options = Options { max_pages: Some(120), ..Options::default() };
    let store = Sqlite::open_with(&path, options).unwrap();
    let mut writer = store.writer().unwrap();
    let group: Vec<Write> = (0..20).map(|n| binding(n, &[1; 3_000], None)).collect();
    let full = loop {
        let results = writer.write_group(&group);
        if let Some(Err(error)) = results.iter().find(|result| result.is_err()).cloned() {
            assert!(results.iter().all(|result| result.as_ref() == Err(&error)), "all of the group fail");
            break error;
        }
    };
    assert_eq!(full, StoreError::Full { path: path.clone() });
    let before = store.reader().unwrap().replay(&mut |_| ()).unwrap();
    assert_eq!(before % 20, 0, "nothing of the failed group is there");
    let results = writer.write_group(&[Write::CleanBindings { before: at(1_000) }]);
    assert_eq!(results, [Ok(WriteDone::Changed { rows: before })]);
    assert!(writer.write_group(&group).iter().all(Result::is_ok));
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, mut admin) = admin();
    let alice = Address::parse("alice", Some("example.org")).unwrap();
    admin.add_account(NewAccount::with_password(alice, "secret", at(7)).unwrap()).unwrap();
    for name in ["belfry.db", "belfry.db-wal"] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// A record that has room for a hundred accounts or so.
fn nearly_full() -> (TempDir, Admin) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("belfry.db");
    Sqlite::open(&path).unwrap();
    let pages = rusqlite::Connection::open(&path).unwrap();
    let pages: u32 = pages.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let options = Options { max_pages: Some(pages + 4), ..Options::default() };
    let admin = Admin::new(&Sqlite::open_with(&path, options).unwrap()).unwrap();
    (dir, admin)
}

/// The result of an import that may hang: the thread it is on is then left behind.
fn import_in_time(
    mut admin: Admin,
    input: impl io::Read + Send + 'static,
    options: ImportOptions,
) -> (Result<Imported, StoreError>, Progress) {
    let (send, receive) = sync_channel(1);
    let work = move || {
        let mut last = Progress::default();
        let result = admin.import(input, &options, &mut |progress, _| last = progress);
        let _ = send.send((result, last));
    };
    std::thread::Builder::new().spawn(work).unwrap();
    receive.recv_timeout(Duration::from_secs(20)).expect("the import ends")
}

#[test]
fn a_full_disk_ends_an_import_with_its_reader_ahead() {
    let (_dir, admin) = nearly_full();
    let csv: String = (0..20_000).map(|number| format!("user{number},x\n")).collect();
    let options = ImportOptions { batch: 20, ..options() };
    let (result, last) = import_in_time(admin, io::Cursor::new(csv), options);
    assert!(matches!(result, Err(StoreError::Full { .. })), "{result:?}");
    assert!(last.imported.added > 0, "rows written before it are told: {last:?}");
}

/// Gives lines, and then nothing more until it is told to stop.
struct Waits {
    lines: io::Cursor<String>,
    stop: Arc<AtomicBool>,
}

impl io::Read for Waits {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = io::Read::read(&mut self.lines, buffer)?;
        if read == 0 {
            let stopped = || self.stop.load(Ordering::Relaxed).then_some(());
            wait::until("the import is stopped", Duration::from_secs(20), stopped, String::new);
        }
        Ok(read)
    }
}

#[test]
fn a_full_disk_stops_an_input_that_waits_for_more() {
    let (_dir, admin) = nearly_full();
    let csv: String = (0..2_000).map(|number| format!("user{number},x\n")).collect();
    let options = ImportOptions { batch: 1_000, ..options() };
    let input = Waits { lines: io::Cursor::new(csv), stop: options.stop.clone() };
    let (result, _) = import_in_time(admin, input, options);
    assert!(matches!(result, Err(StoreError::Full { .. })), "{result:?}");
}
