//! A database is made of a backup that was checked.

use std::path::{Path, PathBuf};

use crate::copy::{CopiedTable, CopyEnd, CopyOptions, CopyProgress, CopyTarget, copy_rows};
use crate::error::StoreError;
use crate::{postgres, sqlite};

use super::files::{FileFolder, FreshFolders};
use super::source::Source;
use super::{Contents, FolderCounts};

/// The place of what is restored.
#[derive(Clone, Debug)]
pub struct RestoreOptions {
    /// The end on Ctrl-C.
    pub copy: CopyOptions,
    /// The folders for files of users.
    pub folders: Vec<FileFolder>,
    /// `None`: a database that has rows is refused. Else the old one stays, with this behind its name.
    pub keep_as: Option<Box<str>>,
}

/// The outcome of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The tables.
    pub tables: Vec<CopiedTable>,
    /// The folders of files.
    pub folders: Vec<FolderCounts>,
    /// The names of what was there before: a file, folders, the schema of a database of PostgreSQL.
    pub kept: Vec<PathBuf>,
}

/// Makes a database of a backup that [`check`](super::check) has read. `None`: it was told to stop, and nothing is changed. When all
/// is written, `begin` is called: what is there is replaced from then on.
///
/// # Errors
/// The backup has changed since, the place is in use or has rows, or cannot be written. Before `begin`, nothing is changed.
pub fn restore(
    path: &Path,
    contents: &Contents,
    to: &CopyEnd,
    options: &RestoreOptions,
    begin: &mut dyn FnMut() -> Result<(), StoreError>,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<Option<Restored>, StoreError> {
    let mut source = Source::open(path, contents)?;
    let keep_as = options.keep_as.as_deref();
    let (mut target, mut kept): (Box<dyn CopyTarget>, _) = match to {
        CopyEnd::Sqlite(path) => {
            let (target, kept) = sqlite::copy::Target::open_over(path, keep_as)?;
            (Box::new(target), kept)
        }
        CopyEnd::Postgres(url) => {
            let (target, kept) = postgres::copy::Target::open_over(url, keep_as)?;
            (Box::new(target), kept)
        }
    };
    let Some(tables) = copy_rows(&mut source, &mut *target, &options.copy, progress)? else {
        return Ok(None);
    };
    // The last record says that the file is the one that was checked.
    let Some(mut folders) = FreshFolders::read(&mut source, options)? else { return Ok(None) };
    target.finish()?;
    begin()?;
    target.commit()?;
    kept.extend(folders.commit(keep_as)?);
    Ok(Some(Restored { tables, folders: contents.folders.clone(), kept }))
}
