//! The database's file: it holds verifiers of passwords, so only its owner may read it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use store::{Database, LaterSchema, Postgres, Sqlite, StoreError};

use crate::rows::without_user;

/// The place of a node's database, as its configuration names it. Not shown: the URL may contain a password.
#[derive(Clone)]
pub struct DatabasePlace {
    /// The folder of the node's data.
    pub folder: PathBuf,
    /// The file of SQLite, in that folder.
    pub file: PathBuf,
    /// The URL of a database of PostgreSQL, which is used instead of the file; it may contain a password.
    pub url: Option<Box<str>>,
}

impl DatabasePlace {
    /// Opens the database. A file and its folder are made when they are not there; existing ones keep their mode.
    ///
    /// # Errors
    /// Errors of the store, and `Io` for the folder and the file.
    pub fn open(&self) -> Result<Database, StoreError> {
        self.open_with(store::sqlite::Options::default())
    }

    /// Opens the database as [`open`](DatabasePlace::open) does, with other than the usual options of a file.
    ///
    /// # Errors
    /// The same.
    pub fn open_with(&self, mut options: store::sqlite::Options) -> Result<Database, StoreError> {
        let DatabasePlace { folder: _, file, url } = self;
        self.make_folder()?;
        let mark = self.restore_mark();
        if mark.exists() {
            let what = format!("{}: a restore was interrupted", mark.display());
            let expected =
                "a whole database: run it again, with belfry restore --replace and the backup's name";
            return Err(StoreError::Invalid { what, expected: expected.into() });
        }
        if let Some(url) = url {
            let postgres = Postgres::open(url)?.with_without_user(without_user);
            return Ok(Database::Postgres(Box::new(postgres)));
        }
        self.make_file().map_err(|error| failed(file, &error))?;
        options.without_user = without_user;
        Ok(Database::Sqlite(Sqlite::open_with(file, options)?))
    }

    /// Makes the file of the database, if it is not there. One that root makes in a folder of another user becomes that user's: commands of root
    /// make the database of a node that runs as that user. SQLite gives its other files the owner and the mode of this one.
    fn make_file(&self) -> io::Result<()> {
        // A link is not followed: the folder's owner could have put one there.
        let made = match OpenOptions::new().create_new(true).append(true).mode(0o600).open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return OpenOptions::new().append(true).open(&self.file).map(drop);
            }
            made => made?,
        };
        match std::fs::metadata(&self.folder) {
            Ok(folder) if made.metadata()?.uid() == 0 && folder.uid() != 0 => {
                fchown(made, Some(folder.uid()), Some(folder.gid()))
            }
            _ => Ok(()),
        }
    }

    /// Makes the folder of the node's data, if it is not there.
    ///
    /// # Errors
    /// `Io` for the folder.
    pub fn make_folder(&self) -> Result<(), StoreError> {
        make_private_folder(&self.folder).map_err(|error| failed(&self.folder, &error))
    }

    /// Its file says that a restore has begun to replace the database and the files of users.
    fn restore_mark(&self) -> PathBuf {
        self.folder.join("restore.unfinished")
    }

    /// Refuses data that a restore has begun to replace and not ended to.
    ///
    /// # Errors
    /// `Invalid`: a part of the data may be of before the restore.
    pub fn refuse_unfinished(&self) -> Result<(), StoreError> {
        let mark = self.restore_mark();
        if !mark.exists() {
            return Ok(());
        }
        let what = format!("{}: a restore was interrupted", mark.display());
        let expected = "a whole database: run it again, with belfry restore --replace and the backup's name";
        Err(StoreError::Invalid { what, expected: expected.into() })
    }

    /// From now on the database is not opened, until [`unmark_restore`](DatabasePlace::unmark_restore): a part of it may be of before the
    /// restore.
    ///
    /// # Errors
    /// `Io` for the folder.
    pub fn mark_restore(&self) -> Result<(), StoreError> {
        let mark = self.restore_mark();
        let make = || {
            File::create(&mark)?.sync_all()?;
            File::open(&self.folder)?.sync_all()
        };
        make().map_err(|error| failed(&mark, &error))
    }

    /// The database is whole again.
    ///
    /// # Errors
    /// `Io` for the folder.
    pub fn unmark_restore(&self) -> Result<(), StoreError> {
        let mark = self.restore_mark();
        let remove = || {
            std::fs::remove_file(&mark)?;
            File::open(&self.folder)?.sync_all()
        };
        remove().map_err(|error| failed(&mark, &error))
    }

    /// True if the database is there: its file, or a server, which says by itself if it has no such database.
    pub fn is_there(&self) -> bool {
        self.url.is_some() || self.file.exists()
    }
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io { path: path.into(), detail: error.to_string() }
}

/// Tells the operator of a schema that a later version has left behind.
pub fn tell_of_later_schema(database: &Database) {
    if let Some(LaterSchema { found, known }) = database.later_schema() {
        tracing::warn!(
            found,
            known,
            "the database's schema is of a later version, which only added to it: it is used as it is"
        );
    }
}

/// Makes a folder that other users cannot enter, if it is not there.
///
/// # Errors
/// Errors of the system.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use stdx::Instant;
    use store::Admin;

    use super::*;

    /// The number of a user that owns nothing.
    const OTHER: u32 = 65534;

    #[test]
    fn a_database_belongs_to_the_owner_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        if chown(folder.path(), Some(OTHER), Some(OTHER)).is_err() {
            // Only root can give a folder away, and only root makes files in the folders of others.
            return;
        }
        let place =
            DatabasePlace { folder: folder.path().into(), file: folder.path().join("belfry.db"), url: None };
        // The second time the file is there, and SQLite makes the other two again.
        for _ in 0..2 {
            let mut admin = Admin::new(&place.open().unwrap()).unwrap();
            admin.ensure_domain("example.test", Instant::from_unix_seconds(1)).unwrap();
            let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
            assert_eq!(files.len(), 3, "{files:?}");
            for file in files {
                let found = file.metadata().unwrap();
                assert_eq!(
                    (found.uid(), found.gid(), found.mode() & 0o777),
                    (OTHER, OTHER, 0o600),
                    "{file:?}"
                );
            }
        }
    }
}
