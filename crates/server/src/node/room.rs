//! A trial write beside the database: a full disk is found before the database itself needs the room.
//!
//! Called by [`operator`](super::operator) before each trial write, on a thread that may wait for the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Bytes that must find room: a few groups of writes and their log. The database reuses space that it has, so a full disk is not
/// met at the first write.
const ROOM: usize = 1 << 20;
/// The name of the trial file.
const FILE: &str = "room";

/// Writes a file of [`ROOM`] bytes there and removes it. It is not forced to the disk: file systems refuse what they have no room for at
/// once.
///
/// # Errors
/// The path and the system's message.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let path = folder.join(FILE);
    let written = fill(&path);
    // One that could not be made is not there.
    let _ = std::fs::remove_file(&path);
    written
        .map_err(|error| format!("{}: no {} KiB can be written there: {error}", folder.display(), ROOM >> 10))
}

fn fill(path: &Path) -> io::Result<()> {
    // One name, opened with `truncate`: a file that a killed process left is used again and never adds up.
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let block = [0; 64 << 10];
    (0..ROOM / block.len()).try_for_each(|_| file.write_all(&block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_room_keeps_nothing_of_the_check() {
        let folder = tempfile::tempdir().unwrap();
        check(folder.path()).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_device_without_room_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join(FILE)).unwrap();
        let error = check(folder.path()).unwrap_err();
        assert!(error.contains("no 1024 KiB can be written there: No space left on device"), "{error}");
        assert!(!folder.path().join(FILE).exists());
        let gone = folder.path().join("gone");
        assert!(check(&gone).unwrap_err().contains("No such file"));
    }
}
