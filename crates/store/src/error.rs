//! The errors of the database, in words for an operator.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::limits;

/// Says whose fault it is and what to do. Cloneable, because one failed group answers many tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The disk is full. Nothing was written; writes work again once there is space.
    Full {
        /// The database file.
        path: PathBuf,
    },
    /// Another process holds the database longer than we wait.
    Locked {
        /// The database file.
        path: PathBuf,
    },
    /// The disk or the file system failed, or the file may not be written.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system or of SQLite.
        detail: String,
    },
    /// The database's server does not answer, refuses, or takes no writes. Writes under way may or may not have happened.
    Unreachable {
        /// The servers and the database, without a password.
        server: Box<str>,
        /// The error of the network or of the server.
        detail: String,
        /// The server is there and refuses this user, or has no such database: an operator has to change something.
        is_refused: bool,
    },
    /// Another node of the farm has taken over from this life: it can write nothing any more, and its process has to end.
    Fenced {
        /// The servers and the database, without a password.
        server: Box<str>,
    },
    /// Not a database of ours, or a damaged one.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The error of SQLite.
        detail: String,
    },
    /// Written by a later version of belfry.
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The version of the file's schema.
        found: u32,
        /// The latest version that this program knows.
        known: u32,
    },
    /// There is one of that name already.
    Exists {
        /// Kind and name, for the operator.
        what: String,
    },
    /// There is none of that name.
    NotFound {
        /// Kind and name, for the operator.
        what: String,
    },
    /// A value breaks a rule or a limit.
    Invalid {
        /// The value, or its name.
        what: String,
        /// The rule that it breaks.
        expected: String,
    },
    /// A line of an import. Lines count from 1.
    Line {
        /// The number of the line.
        line: u64,
        /// The fault in the line.
        found: String,
        /// The form that a line has.
        expected: String,
    },
    /// The service has been shut down.
    Closed,
    /// A defect of ours: the database refused a statement we prepared.
    Internal {
        /// The error of SQLite.
        detail: String,
    },
}

impl StoreError {
    /// True when only the one write is at fault and others of its group may stand.
    pub fn is_of_item(&self) -> bool {
        matches!(self, StoreError::Exists { .. } | StoreError::NotFound { .. } | StoreError::Invalid { .. })
    }

    pub(crate) fn invalid(what: impl Into<String>, expected: impl Into<String>) -> Self {
        StoreError::Invalid { what: what.into(), expected: expected.into() }
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        StoreError::NotFound { what: what.into() }
    }

    pub(crate) fn exists(what: impl Into<String>) -> Self {
        StoreError::Exists { what: what.into() }
    }

    pub(crate) fn from_sqlite(error: &rusqlite::Error, path: &Path) -> Self {
        use rusqlite::ErrorCode as Code;
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::DiskFull) => StoreError::Full { path },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => StoreError::Locked { path },
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => StoreError::Corrupt { path, detail },
            Some(Code::ConstraintViolation) => StoreError::exists(detail),
            // `limits::READ_STEPS`.
            Some(Code::OperationInterrupted) => {
                StoreError::invalid("a read", "one that visits fewer rows of the database")
            }
            Some(Code::SystemIoFailure) if is_of_index(error) && has_no_space(&path) => {
                StoreError::Full { path }
            }
            Some(Code::SystemIoFailure | Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                StoreError::Io { path, detail }
            }
            _ => StoreError::Internal { detail },
        }
    }
}

/// True if the index of the log (`-shm`), which even readers need, could not grow or be mapped. SQLite does not say whether the disk is full.
fn is_of_index(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    code.is_some_and(|code| [SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE].contains(&code))
}

/// True if the disk of the file has no room for another part of the index.
fn has_no_space(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < limits::INDEX_PART)
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Full { path } => {
                write!(
                    f,
                    "{}: the disk is full; free some space there: a node that runs then writes again by itself",
                    path.display()
                )
            }
            StoreError::Locked { path } => write!(
                f,
                "{}: another process holds the database; wait for it, or see who with: fuser {}",
                path.display(),
                path.display()
            ),
            StoreError::Io { path, detail } => write!(
                f,
                "{}: cannot read or write ({detail}); check the disk, the directory and its owner",
                path.display()
            ),
            StoreError::Unreachable { server, detail, .. } => write!(
                f,
                "{server}: the database cannot be used ({detail}); check that the server runs, takes connections and is no \
                 standby; a node that runs uses it again by itself"
            ),
            StoreError::Fenced { server } => write!(
                f,
                "{server}: the database refuses this start of the node, as another node has taken over from it; start it again"
            ),
            StoreError::Corrupt { path, detail } => write!(
                f,
                "{}: not a belfry database, or damaged ({detail}); restore it from a backup",
                path.display()
            ),
            StoreError::NewerSchema { path, found, known } => write!(
                f,
                "{}: written by a newer belfry (schema {found}, this one knows up to {known}); \
                 run that version, or restore a backup from before the upgrade",
                path.display()
            ),
            StoreError::Exists { what } => write!(f, "{what} exists already"),
            StoreError::NotFound { what } => write!(f, "there is no {what}"),
            StoreError::Invalid { what, expected } => write!(f, "{what}: expected {expected}"),
            StoreError::Line { line, found, expected } => {
                write!(f, "line {line}: {found}; expected {expected}")
            }
            StoreError::Closed => f.write_str(
                "the database takes no requests now: the node is stopping, or has too much to do; try again",
            ),
            StoreError::Internal { detail } => write!(f, "defect in belfry's store: {detail}"),
        }
    }
}

impl std::error::Error for StoreError {}
