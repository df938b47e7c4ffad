//! A database in one file, which no engine is needed to read: `belfry backup` writes it, `belfry restore` makes a database of it.
//!
//! The file is compressed by gzip. In it are records ([`stream`]): who made it and when, each table with the names of its columns
//! and its rows, files of users where they were asked for, and at the end the counts of all with a hash of everything before.
//! Rows are read as they were at one moment, also while nodes write. A restored database is there as a whole or not at all.

mod check;
mod files;
mod output;
mod restore;
mod rows;
mod source;
mod stream;
mod target;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use stdx::Instant;

use crate::copy::{CopiedTable, CopyEnd, CopyOptions, CopyProgress, CopySource, CopyTarget as _, copy_rows};
use crate::error::StoreError;
use crate::{postgres, sqlite};

pub use check::check;
pub use files::FileFolder;
pub use output::Output;
pub use restore::{RestoreOptions, Restored, restore};

/// The form of the file. A program reads this one and those before.
const FORMAT: u32 = 1;

/// The origin and the counts of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The time at which it was made.
    pub made_at: Instant,
    /// The version of the program that made it.
    pub program: Box<str>,
    /// The tables, in the file's order.
    pub tables: Vec<CopiedTable>,
    /// Files of users, in the order of the folders. Empty: they were not asked for.
    pub folders: Vec<FolderCounts>,
    /// Bytes of the backup itself.
    pub size: u64,
}

impl Contents {
    /// Rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }
}

/// The counts of one folder.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FolderCounts {
    /// The folder's name in the backup: `uploads`, `recordings`.
    pub name: Box<str>,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The data of a backup, and the time.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// How rows of bindings are read, and the end on Ctrl-C.
    pub copy: CopyOptions,
    /// The folders whose files are in the backup, too.
    pub folders: Vec<FileFolder>,
    /// The time, which the backup says.
    pub now: Instant,
}

/// Writes a backup of a database, which nodes may use meanwhile. `None`: it was told to stop, and nothing is left.
///
/// # Errors
/// The database cannot be read, or the output cannot be written. Nothing is left of it.
pub fn write(
    from: &CopyEnd,
    output: Output,
    options: &BackupOptions,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<Option<Contents>, StoreError> {
    let mut source: Box<dyn CopySource> = match from {
        CopyEnd::Sqlite(path) => Box::new(sqlite::copy::Source::open_shared(path, &options.copy)?),
        CopyEnd::Postgres(url) => Box::new(postgres::copy::Source::open_shared(url)?),
    };
    let mut target = target::Target::new(output, options.now)?;
    let Some(tables) = copy_rows(&mut *source, &mut target, &options.copy, progress)? else {
        return Ok(None);
    };
    let Some(folders) = files::write_all(&mut target, options)? else { return Ok(None) };
    target.folders.clone_from(&folders);
    target.commit()?;
    let program = env!("CARGO_PKG_VERSION").into();
    Ok(Some(Contents { made_at: options.now, program, tables, folders, size: target.size() }))
}

/// The error of a backup that cannot be used.
fn unusable(name: &std::path::Path, found: impl std::fmt::Display) -> StoreError {
    let what = format!("{}: {found}", name.display());
    StoreError::invalid(
        what,
        "a whole file of belfry backup; nothing was changed. Name another backup, or make one: belfry backup FILE",
    )
}

fn io_failed(path: impl Into<PathBuf>, error: &std::io::Error) -> StoreError {
    StoreError::Io { path: path.into(), detail: error.to_string() }
}
