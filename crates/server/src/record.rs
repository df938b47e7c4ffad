//! The database's file: it holds verifiers of passwords, so only its owner may read it.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use store::{Sqlite, StoreError};

use crate::config::Server;

/// Makes folder and file when they are not there. Existing ones keep their mode.
pub fn open(server: &Server) -> Result<Sqlite, StoreError> {
    open_with(server, store::sqlite::Options::default())
}

/// As [`open`], with other than the usual options.
pub fn open_with(server: &Server, mut options: store::sqlite::Options) -> Result<Sqlite, StoreError> {
    let (folder, file) = (&server.data, server.database());
    let failed =
        |path: &Path, error: io::Error| StoreError::Io { path: path.into(), detail: error.to_string() };
    make_private_folder(folder).map_err(|error| failed(folder, error))?;
    // SQLite gives its other files the mode of this one.
    let made = OpenOptions::new().create(true).append(true).mode(0o600).open(&file);
    made.map_err(|error| failed(&file, error))?;
    options.without_user = crate::xmpp::without_user;
    Sqlite::open_with(file, options)
}

/// Closed to other users.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
