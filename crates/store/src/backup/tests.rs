//! A backup that is damaged or cut short anywhere is refused; files of users come back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Admin, Sqlite};

use super::*;

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn copy_options() -> CopyOptions {
    CopyOptions { binding_owner: |_| None, stop: Arc::default() }
}

fn folders(path: &Path) -> Vec<FileFolder> {
    let folder = |name| FileFolder { name, path: path.join(name), unfinished: ("coming", ".part") };
    ["uploads", "recordings"].map(folder).into()
}

fn back_up(folder: &Path, with_files: bool) -> Result<Contents, StoreError> {
    let options = BackupOptions {
        copy: copy_options(),
        folders: if with_files { folders(folder) } else { Vec::new() },
        now: at(1_700_000_000),
    };
    let output = Output::file(&folder.join("backup"))?;
    write(&CopyEnd::Sqlite(folder.join("belfry.db")), output, &options, &mut |_| ()).map(Option::unwrap)
}

fn checked(file: &Path) -> Result<Contents, StoreError> {
    check(file, &AtomicBool::new(false), &mut |_| ()).map(Option::unwrap)
}

/// A folder with a database.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut admin = Admin::new(&Sqlite::open(folder.path().join("belfry.db")).unwrap()).unwrap();
    for number in 0..50 {
        admin.ensure_domain(&format!("{number}.example.org"), at(1)).unwrap();
    }
    folder
}

#[test]
fn a_backup_lists_its_contents_and_only_its_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = filled();
    let contents = back_up(folder.path(), false).unwrap();
    let file = folder.path().join("backup");
    assert_eq!(contents.rows(), 50);
    assert_eq!((contents.made_at, contents.size), (at(1_700_000_000), file.metadata().unwrap().len()));
    assert_eq!(checked(&file), Ok(contents));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = back_up(folder.path(), false).unwrap_err().to_string();
    assert!(again.contains("backup: it is there already"), "{again}");
}

#[test]
fn a_byte_that_is_changed_is_noticed_or_does_not_count() {
    let folder = filled();
    let contents = back_up(folder.path(), false).unwrap();
    let bytes = std::fs::read(folder.path().join("backup")).unwrap();
    let file = folder.path().join("changed");
    let mut same = Vec::new();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        std::fs::write(&file, &changed).unwrap();
        match checked(&file) {
            Ok(found) => {
                assert_eq!(found, contents, "byte {place}");
                same.push(place);
            }
            Err(error) => {
                let words = error.to_string();
                assert!(
                    words.contains("changed: it is ") && words.contains("Name another backup"),
                    "{words}"
                );
            }
        }
    }
    // Of gzip (RFC 1952 §2.3) the time and the system do not count, and of deflate the bits that fill up a byte.
    assert!(same.len() < 12, "{same:?}");
}

#[test]
fn a_backup_that_is_cut_short_is_refused() {
    let folder = filled();
    back_up(folder.path(), false).unwrap();
    let bytes = std::fs::read(folder.path().join("backup")).unwrap();
    let file = folder.path().join("cut");
    for length in (0..bytes.len()).step_by(3).chain([bytes.len() - 1]) {
        std::fs::write(&file, &bytes[..length]).unwrap();
        let error = checked(&file).unwrap_err().to_string();
        assert!(error.contains("cut short"), "{length}: {error}");
    }
    std::fs::write(&file, "a,b\n".repeat(100)).unwrap();
    let error = checked(&file).unwrap_err().to_string();
    assert!(error.contains("cut: it is "), "{error}");
}

#[test]
fn a_backup_of_a_later_form_is_refused() {
    let folder = filled();
    let file = folder.path().join("later");
    let header = stream::Header { format: FORMAT + 1, program: "9.1".into(), made_at: 5 };
    let mut records = stream::RecordWriter::new(std::fs::File::create(&file).unwrap()).unwrap();
    records.write_json(stream::Kind::Header, &header).unwrap();
    records.finish(&stream::End { tables: 0, rows: 0, folders: Vec::new() }).unwrap();
    let error = checked(&file).unwrap_err().to_string();
    assert!(error.contains("written by belfry 9.1 in form 2, this one knows up to 1"), "{error}");
}

/// The files of a folder with their bytes.
fn files_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inner) = folders.pop() {
        let Ok(entries) = inner.read_dir() else { continue };
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

#[test]
fn files_of_users_come_back_as_old_as_they_were() {
    let folder = filled();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let large = vec![7; limits_of_data() * 2 + 1];
    write("uploads/0a/picture", &large);
    write("uploads/ff/empty", b"");
    write("uploads/coming/half", b"half");
    write("recordings/RE1.wav", b"sound");
    write("recordings/RE2.wav.part", b"so");
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    let picture =
        std::fs::File::options().write(true).open(folder.path().join("uploads/0a/picture")).unwrap();
    picture.set_modified(old).unwrap();
    let contents = back_up(folder.path(), true).unwrap();
    let counts = |name: &str, files, bytes| FolderCounts { name: name.into(), files, bytes };
    assert_eq!(contents.folders, [counts("uploads", 2, large.len() as u64), counts("recordings", 1, 5)]);
    let file = folder.path().join("backup");
    assert_eq!(checked(&file).as_ref(), Ok(&contents));

    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(other.path().join("recordings")).unwrap();
    std::fs::write(other.path().join("recordings/mine.wav"), "other").unwrap();
    let end = CopyEnd::Sqlite(other.path().join("belfry.db"));
    let mut options = RestoreOptions { copy: copy_options(), folders: folders(other.path()), keep_as: None };
    let refused =
        restore(&file, &contents, &end, &options, &mut || Ok(()), &mut |_| ()).unwrap_err().to_string();
    assert!(refused.contains("recordings: it has files"), "{refused}");
    assert_eq!(files_in(other.path()).len(), 1, "nothing is left");
    options.keep_as = Some("before".into());
    let restored = restore(&file, &contents, &end, &options, &mut || Ok(()), &mut |_| ()).unwrap().unwrap();
    assert_eq!(restored.kept, [other.path().join("recordings.before")]);
    let found = files_in(other.path());
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let expected = [
        "belfry.db",
        "recordings.before/mine.wav",
        "recordings/RE1.wav",
        "uploads/0a/picture",
        "uploads/ff/empty",
    ];
    assert_eq!(names, expected);
    assert!(found["uploads/0a/picture"] == large);
    let modified = other.path().join("uploads/0a/picture").metadata().unwrap().modified().unwrap();
    assert_eq!(modified, old);
}

fn limits_of_data() -> usize {
    crate::limits::BACKUP_DATA
}
