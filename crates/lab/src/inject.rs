//! Injection files: `-inf`, `-infindex`, and the actions that read and write them.

use std::path::{Path, PathBuf};

/// All files of a run. Lines can be inserted and replaced while calls run, so each file has its own lock.
#[derive(Debug, Default)]
pub struct Files {}

/// A mistake in a file: which, line, what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub file: PathBuf,
    pub line: u32,
    pub message: String,
}

impl Files {
    pub fn load(_paths: &[PathBuf], _indexes: &[(PathBuf, u32)]) -> Result<Files, Vec<FileError>> {
        Ok(Files {})
    }

    /// Lines each file gives to a new call, by file: what `[fieldN]` reads.
    pub fn lines_for_call(&self, _user: u32, _random: u64) -> Box<[u32]> {
        Box::default()
    }

    /// Index of a file by the name scenarios use: as given to `-inf`, or its last part.
    pub fn find(&self, _name: &Path) -> Option<usize> {
        None
    }
}
