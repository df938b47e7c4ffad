//! The database's file: it holds verifiers of passwords, so only its owner may read it.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use store::{Database, Postgres, Sqlite, StoreError};

use crate::config::Config;

/// Opens the database of the configuration. A file and its folder are made when they are not there; existing ones keep their mode.
pub fn open(config: &Config) -> Result<Database, StoreError> {
    open_with(config, store::sqlite::Options::default())
}

/// As [`open`], with other than the usual options of a file.
pub fn open_with(config: &Config, mut options: store::sqlite::Options) -> Result<Database, StoreError> {
    let (folder, file) = (&config.server.data, config.server.database());
    let failed =
        |path: &Path, error: io::Error| StoreError::Io { path: path.into(), detail: error.to_string() };
    make_private_folder(folder).map_err(|error| failed(folder, error))?;
    if let Some(url) = &config.store.url {
        let postgres = Postgres::open(url)?.with_without_user(crate::xmpp::without_user);
        return Ok(Database::Postgres(Box::new(postgres)));
    }
    // SQLite gives its other files the mode of this one.
    let made = OpenOptions::new().create(true).append(true).mode(0o600).open(&file);
    made.map_err(|error| failed(&file, error))?;
    options.without_user = crate::xmpp::without_user;
    Ok(Database::Sqlite(Sqlite::open_with(file, options)?))
}

/// True if the configuration's database is there: its file, or a server, which says by itself if it has no such database.
pub fn is_there(config: &Config) -> bool {
    config.store.url.is_some() || config.server.database().exists()
}

/// Closed to other users.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
