//! Files of users in a backup: uploads and recordings.
//!
//! A backup has the tables first, then for each folder its files: a header, then the bytes in pieces. A restore writes them beside the folders in use
//! ([`FreshFolders`]) and exchanges the folders only when everything was read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use crate::error::StoreError;
use crate::limits;

use super::stream::{End, FileHeader, Kind};
use super::target::Target;
use super::{BackupOptions, FolderCounts, RestoreOptions, io_failed, source};

/// A folder whose files are written once and not changed afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFolder {
    /// The name in the backup.
    pub name: &'static str,
    /// The folder, which need not be there.
    pub path: PathBuf,
    /// A folder in it whose files are not whole yet, and the ending of names of such files.
    pub unfinished: (&'static str, &'static str),
}

impl FileFolder {
    /// The paths of all whole files, relative to the folder and sorted. Links are not followed.
    fn paths(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        let mut folders = vec![PathBuf::new()];
        let (folder_on_its_way, ending) = self.unfinished;
        while let Some(inner) = folders.pop() {
            let folder = self.path.join(&inner);
            // The folder was never made, or was removed while the others were read.
            let entries = match folder.read_dir() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(|error| io_failed(&folder, &error))?,
            };
            for entry in entries {
                let failed = |error: io::Error| io_failed(&folder, &error);
                let entry = entry.map_err(failed)?;
                let (kind, path) = (entry.file_type().map_err(failed)?, inner.join(entry.file_name()));
                let name = entry.file_name();
                if kind.is_dir() && name != folder_on_its_way {
                    folders.push(path);
                } else if kind.is_file() && !name.as_encoded_bytes().ends_with(ending.as_bytes()) {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// `None`: it was told to stop.
pub(super) fn write_all(
    target: &mut Target,
    options: &BackupOptions,
) -> Result<Option<Vec<FolderCounts>>, StoreError> {
    let mut all = Vec::new();
    for folder in &options.folders {
        let mut counts = FolderCounts { name: folder.name.into(), files: 0, bytes: 0 };
        for path in folder.paths()? {
            if options.copy.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let whole = folder.path.join(&path);
            let file = match File::open(&whole) {
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(|error| io_failed(&whole, &error))?,
            };
            counts.bytes += write(target, folder.name, &path, file)?;
            counts.files += 1;
        }
        all.push(counts);
    }
    Ok(Some(all))
}

/// One file with as many bytes as its header tells; bytes that are added meanwhile are left out.
fn write(target: &mut Target, folder: &str, path: &Path, file: File) -> Result<u64, StoreError> {
    let failed = |error: io::Error| io_failed(path, &error);
    // Headers are JSON, which has no other texts.
    let name = path.to_str().ok_or_else(|| {
        StoreError::invalid(
            format!("{}: a name that is not UTF-8", path.display()),
            "another name, or no file",
        )
    })?;
    let metadata = file.metadata().map_err(failed)?;
    let modified = metadata.modified().map_err(failed)?.duration_since(SystemTime::UNIX_EPOCH);
    let bytes = metadata.len();
    target.file(&FileHeader {
        folder: folder.into(),
        path: name.into(),
        bytes,
        modified_at: modified.map_or(0, |time| time.as_secs()),
    })?;
    let mut input = file.take(bytes);
    let (mut left, mut buffer) = (bytes, vec![0; limits::BACKUP_DATA]);
    while left > 0 {
        let read = input.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            let found = format!("{}: it became shorter while it was read", path.display());
            return Err(StoreError::invalid(
                found,
                "files that are written once: give the same command again",
            ));
        }
        target.data(&buffer[..read])?;
        left -= read as u64;
    }
    Ok(bytes)
}

/// True if the path stays in its folder.
pub(super) fn is_inside(path: &str) -> bool {
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    is_plain && !path.is_empty()
}

/// Files of a backup that were written beside the folders that they are for.
#[derive(Default)]
pub(super) struct FreshFolders {
    /// The folder, and the one that takes its place.
    made: Vec<(PathBuf, PathBuf)>,
}

impl FreshFolders {
    /// Reads the files behind the tables, to the end of the backup. `None`: it was told to stop.
    pub(super) fn read(
        source: &mut source::Source<'_>,
        options: &RestoreOptions,
    ) -> Result<Option<FreshFolders>, StoreError> {
        let mut fresh = FreshFolders::default();
        // The file that is being written, with its path and its time.
        let mut open: Option<(File, PathBuf, u64)> = None;
        loop {
            if options.copy.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let record = source.next()?;
            match record.kind {
                Kind::File => {
                    finish(open.take())?;
                    let header: FileHeader = source.reader.parse(&record, Kind::File)?;
                    // A path that leaves the folder can only come from a changed backup.
                    if !is_inside(&header.path) {
                        return Err(source.reader.bad("it has changed"));
                    }
                    let path = fresh.folder(&header.folder, options)?.join(&*header.path);
                    open = Some((create(&path)?, path, header.modified_at));
                }
                Kind::Data => {
                    let Some((file, path, _)) = &mut open else {
                        return Err(source.reader.bad("it has changed"));
                    };
                    file.write_all(&record.bytes).map_err(|error| io_failed(path.clone(), &error))?;
                }
                _ => {
                    finish(open.take())?;
                    let end: End = source.reader.parse(&record, Kind::End)?;
                    // Folders without a file must be emptied, too.
                    for folder in end.folders {
                        fresh.folder(&folder.name, options)?;
                    }
                    return Ok(Some(fresh));
                }
            }
        }
    }

    /// The new folder for that name.
    fn folder(&mut self, name: &str, options: &RestoreOptions) -> Result<PathBuf, StoreError> {
        let Some(folder) = options.folders.iter().find(|folder| folder.name == name) else {
            let found = format!("files of {name}, for which there is no folder");
            return Err(StoreError::invalid(found, "a backup of this version, or one without files"));
        };
        if let Some((_, made)) = self.made.iter().find(|(path, _)| *path == folder.path) {
            return Ok(made.clone());
        }
        let is_filled = folder.path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_filled && options.keep_as.is_none() {
            let found = format!("{}: it has files", folder.path.display());
            return Err(StoreError::invalid(
                found,
                "an empty folder, or --replace, which keeps the old one beside it",
            ));
        }
        // Such a folder cannot be renamed, which would be found when the database is restored already.
        if is_a_place_of_its_own(&folder.path) {
            let found = format!("{}: it is a symbolic link or a volume of its own", folder.path.display());
            return Err(StoreError::invalid(
                found,
                "a folder that can be replaced: name one inside it, or the one that the link names",
            ));
        }
        let made = with_ending(&folder.path, "restore");
        // Left by a restore that was killed.
        if made.exists() {
            std::fs::remove_dir_all(&made).map_err(|error| io_failed(&made, &error))?;
        }
        make_folder(&made)?;
        self.made.push((folder.path.clone(), made.clone()));
        Ok(made)
    }

    /// Puts the new folders in the places of the old ones, which are kept. Returns the names of those.
    pub(super) fn commit(&mut self, keep_as: Option<&str>) -> Result<Vec<PathBuf>, StoreError> {
        let mut kept = Vec::new();
        for (path, made) in std::mem::take(&mut self.made) {
            let moved = || {
                if let Some(keep_as) = keep_as.filter(|_| path.exists()) {
                    let old = with_ending(&path, keep_as);
                    std::fs::rename(&path, &old)?;
                    kept.push(old);
                }
                // The names are on disk only when their folder is.
                sync_folders(&made)?;
                // An empty folder is replaced.
                std::fs::rename(&made, &path)?;
                path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
            };
            let mut moved = moved;
            moved().map_err(|error: io::Error| io_failed(&path, &error))?;
        }
        Ok(kept)
    }
}

// After `commit` the list is empty; otherwise the restore has failed or was told to stop.
impl Drop for FreshFolders {
    fn drop(&mut self) {
        for (_, made) in &self.made {
            let _ = std::fs::remove_dir_all(made);
        }
    }
}

/// True for a symbolic link, and for a folder on another volume than the one that has it.
fn is_a_place_of_its_own(path: &Path) -> bool {
    let path: PathBuf = path.components().collect();
    let Ok(own) = std::fs::symlink_metadata(&path) else { return false };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    own.is_symlink() || std::fs::metadata(parent).is_ok_and(|parent| parent.dev() != own.dev())
}

/// `name.ending`, beside the folder.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    // Without a slash at the end, behind which the name would be that of an entry of the folder.
    let mut name = path.components().collect::<PathBuf>().into_os_string();
    name.push(".");
    name.push(ending);
    name.into()
}

/// For the owner alone.
fn make_folder(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| io_failed(path, &error))
}

/// With the folders that its path needs.
fn create(path: &Path) -> Result<File, StoreError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| io_failed(path, &error))
}

/// Brings the names in a folder, and in all folders below it, to the disk.
fn sync_folders(top: &Path) -> io::Result<()> {
    let mut left = vec![top.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in folder.read_dir()? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
        File::open(&folder)?.sync_all()?;
    }
    Ok(())
}

/// On disk, and as old as it was: old files of users are removed by their age.
fn finish(open: Option<(File, PathBuf, u64)>) -> Result<(), StoreError> {
    let Some((file, path, modified_at)) = open else { return Ok(()) };
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(modified_at));
    let finish = || {
        file.set_modified(time.unwrap_or(SystemTime::UNIX_EPOCH))?;
        file.sync_all()
    };
    finish().map_err(|error| io_failed(&path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_a_folder_are_beside_it_however_it_is_written() {
        for path in ["/srv/uploads", "/srv/uploads/", "/srv/uploads//."] {
            assert_eq!(with_ending(Path::new(path), "restore"), Path::new("/srv/uploads.restore"), "{path}");
        }
    }

    #[test]
    fn a_symbolic_link_is_no_folder_that_can_be_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (folder, link) = (home.path().join("files"), home.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(is_a_place_of_its_own(&link) && !is_a_place_of_its_own(&folder));
        assert!(
            is_a_place_of_its_own(&home.path().join("link/"))
                && !is_a_place_of_its_own(&home.path().join("none"))
        );
        assert!(is_a_place_of_its_own(Path::new("/proc")), "a volume of its own");
    }
}
