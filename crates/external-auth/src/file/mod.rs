//! A file of accounts as a source: read when the node starts, and again when it changes.
//!
//! [`WatchedFile`] has the content that counts; shards ask it for keys of SCRAM, the thread of the
//! [`Authenticator`](crate::Authenticator) compares passwords with it and looks for changes. Invariant: content that cannot be read as a whole never
//! takes the place of content that could.

mod accounts;
mod secret;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use accounts::{FileAccounts, LineFault};
pub use secret::ScramSha256Keys;

use crate::ldap::DirectoryRole;
use crate::limits;

/// A file with one account a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// The file.
    pub path: PathBuf,
    /// Roles at the console and the groups of the file that give them.
    pub roles: Vec<(DirectoryRole, Box<str>)>,
}

/// Reads a file of accounts.
///
/// # Errors
/// The file cannot be read, or a line of it is no account: with file and line, and what was expected.
pub fn read_accounts(path: &Path) -> Result<FileAccounts, String> {
    let file = path.display();
    let failed = |error: std::io::Error| format!("{file}: {error}");
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(limits::FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limits::FILE {
        return Err(format!("{file}: more than {} bytes", limits::FILE));
    }
    FileAccounts::parse(&text).map_err(|LineFault { line, what }| match line {
        0 => format!("{file}: {what}"),
        _ => format!("{file}:{line}: {what}"),
    })
}

/// True if users of the system other than owner and group may read the file.
pub fn is_open_to_others(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.mode() & 0o007 != 0)
}

/// The figures of a file that differ between two contents, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds of the last change of content or inode.
    changed: (i64, i64),
}

impl FileStamp {
    /// `None`: there is no such file.
    fn of(path: &Path) -> Option<FileStamp> {
        let of = |metadata: Metadata| FileStamp {
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        path.metadata().ok().map(of)
    }
}

/// A file of accounts with the content that counts.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    domain: Box<str>,
    path: PathBuf,
    state: Mutex<WatchedState>,
}

#[derive(Debug)]
struct WatchedState {
    accounts: Arc<FileAccounts>,
    /// The number of contents so far: a password that was right by an earlier one is compared again.
    generation: u64,
    /// The stamp of the content that was read last, good or not.
    read: Option<FileStamp>,
    /// The stamp at the last look. A file is read once two looks have found it the same: one that is being written is left alone.
    seen: Option<FileStamp>,
}

impl WatchedFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// As [`read_accounts`].
    pub(crate) fn open(domain: &str, settings: &FileSettings) -> Result<WatchedFile, String> {
        // Before reading: a change meanwhile is then seen as one.
        let stamp = FileStamp::of(&settings.path);
        let accounts = Arc::new(read_accounts(&settings.path)?);
        let state = WatchedState { accounts, generation: 0, read: stamp, seen: stamp };
        Ok(WatchedFile { domain: domain.into(), path: settings.path.clone(), state: Mutex::new(state) })
    }

    /// The content that counts.
    pub(crate) fn current(&self) -> Arc<FileAccounts> {
        Arc::clone(&self.lock().accounts)
    }

    /// The number of contents before this one.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Looks for a change, and reads the file if it has changed and been left alone since the last look. True: there is other content.
    pub(crate) fn look(&self) -> bool {
        let stamp = FileStamp::of(&self.path);
        {
            let mut state = self.lock();
            let is_settled = state.seen == stamp;
            state.seen = stamp;
            if state.read == stamp || !is_settled {
                return false;
            }
            state.read = stamp;
        }
        match read_accounts(&self.path) {
            Ok(accounts) => {
                let mut state = self.lock();
                state.accounts = Arc::new(accounts);
                state.generation += 1;
                tracing::info!(domain = &*self.domain, file = %self.path.display(), "the accounts of a file were read again");
                true
            }
            Err(mistake) => {
                tracing::warn!(
                    domain = &*self.domain,
                    reason = mistake,
                    "a file of accounts was not read again: what it had before counts"
                );
                false
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, WatchedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
