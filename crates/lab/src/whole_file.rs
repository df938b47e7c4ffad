//! Files that are there as a whole or not at all: reports and account files. A full disk or an end in the middle leaves the
//! file that was there before.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Writes the file beside its place and renames it when it is whole and on disk. A path that is no plain file, as
/// `/dev/stdout`, is written in place. `mode` is that of a new file, before the umask.
///
/// # Errors
/// The system's; nothing of the file is left.
pub(crate) fn write(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let Some(place) = place_of(path) else {
        let mut file = BufWriter::new(File::options().write(true).open(path)?);
        write(&mut file)?;
        return file.flush();
    };
    let part = part_of(&place);
    let written = create(&part, mode).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&part, &place)
    });
    written.inspect_err(|_| {
        // One that could not be made is not there.
        let _ = fs::remove_file(&part);
    })
}

/// Checks that a file could be made there now, so that a run need not end to find out.
///
/// # Errors
/// The system's.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    let Some(place) = place_of(path) else { return File::options().write(true).open(path).map(drop) };
    let part = part_of(&place);
    create(&part, 0o600)?;
    fs::remove_file(&part)
}

/// The place of the file, with links followed. `None`: something other than a plain file is there.
fn place_of(path: &Path) -> Option<PathBuf> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Some(fs::canonicalize(path).unwrap_or_else(|_| path.into())),
        Ok(_) => None,
        Err(_) => Some(path.into()),
    }
}

/// The name under which the file is written, in the same folder, as a rename works only within a file system.
fn part_of(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// One that an end in the middle left is removed, as its mode may be another.
fn create(part: &Path, mode: u32) -> io::Result<File> {
    let _ = fs::remove_file(part);
    File::options().write(true).create_new(true).mode(mode).open(part)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = folder
            .read_dir()
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv");
        write(&path, 0o600, |out| out.write_all(b"first")).expect("written");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let failed = write(&path, 0o600, |out| {
            out.write_all(&[b'x'; 100_000])?;
            Err(io::Error::other("no space"))
        });
        assert_eq!(failed.expect_err("it failed").to_string(), "no space");
        assert_eq!(fs::read(&path).expect("there"), b"first");
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn a_partial_file_of_an_interrupted_write_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv");
        fs::write(folder.path().join("a.csv.part"), "half").expect("written");
        check(&path).expect("it can be made");
        write(&path, 0o644, |out| out.write_all(b"whole")).expect("written");
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn a_full_device_is_an_error_and_stays_a_device() {
        let full = Path::new("/dev/full");
        let error = write(full, 0o600, |out| out.write_all(b"x")).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!fs::metadata(full).expect("there").is_file());
    }

    #[test]
    fn a_link_keeps_leading_to_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&file, "old").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        write(&link, 0o600, |out| out.write_all(b"new")).expect("written");
        assert_eq!(fs::read(&file).expect("there"), b"new");
        assert!(link.is_symlink());
    }
}
