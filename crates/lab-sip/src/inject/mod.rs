//! Injection files: `-inf`, `-infindex`, and the actions that read and write them.

mod file;
mod printf;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use file::InjectionFile;

/// The line of a call that has none: a USER file without `-users`, a look-up without a hit. Its fields are empty.
pub const NO_LINE: u32 = u32::MAX;

/// The line of a user past the end of a USER file.
const PAST_END: u32 = u32::MAX - 1;

/// All files of a run. Lines can be inserted and replaced while calls run, so each file has its own lock.
#[derive(Debug, Default)]
pub struct InjectionFiles {
    files: Vec<InjectionFile>,
}

/// A mistake in a file: which, line (from 1, 0 when it is the whole file's), what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file as named on the command line.
    pub file: PathBuf,
    /// The line, from 1; 0 for the whole file.
    pub line: u32,
    /// The text that was found and the text that was expected.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

impl std::error::Error for FileError {}

impl InjectionFiles {
    /// Reads every file and builds the indexes (`-infindex`: file and field). Errors of all files, not only the first.
    pub fn load(paths: &[PathBuf], indexes: &[(PathBuf, u32)]) -> Result<InjectionFiles, Vec<FileError>> {
        let mut errors = Vec::new();
        let mut files = InjectionFiles::default();
        for path in paths {
            let read = std::fs::read(path).map_err(|error| FileError {
                file: path.clone(),
                line: 0,
                message: format!("cannot be read: {error}"),
            });
            match read.and_then(|bytes| InjectionFile::parse(path, &bytes)) {
                Ok(file) => files.files.push(file),
                Err(error) => errors.push(error),
            }
        }
        for (path, field) in indexes {
            match files.find(path) {
                Some(file) => files.files[file].index(*field),
                // Its own error says more.
                None if paths.contains(path) => {}
                None => errors.push(FileError {
                    file: path.clone(),
                    line: 0,
                    message: "named by -infindex but not given with -inf".to_owned(),
                }),
            }
        }
        if errors.is_empty() { Ok(files) } else { Err(errors) }
    }

    /// There are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Index of a file by the name scenarios use: as given to `-inf`, or its last part.
    pub fn find(&self, name: &Path) -> Option<usize> {
        let exact = self.files.iter().position(|file| file.path == name);
        exact.or_else(|| {
            let name = name.file_name()?;
            self.files.iter().position(|file| file.path.file_name() == Some(name))
        })
    }

    /// Lines a file has: those of PRINTF for such a file.
    pub fn line_count(&self, file: usize) -> u32 {
        self.files.get(file).map_or(0, InjectionFile::line_count)
    }

    /// The lines of the file belong to users, one each.
    pub fn is_by_user(&self, file: usize) -> bool {
        self.files.get(file).is_some_and(InjectionFile::is_by_user)
    }

    /// Lines each file gives to a new call, by file: what `[fieldN]` reads. `user` counts from 1, 0 without
    /// `-users`. A SEQUENTIAL file gives each line once to all shards together before it starts again.
    pub fn lines_for_call(&self, user: u32, random: u64) -> Box<[u32]> {
        let mut random = random;
        let lines = self.files.iter().map(|file| {
            // Another number for every file, so that two RANDOM ones do not move in step.
            random = random.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            file.next_line(user, random)
        });
        lines.collect()
    }

    /// Appends a field, counted from 0; nothing when the line has fewer or there is no such line.
    ///
    /// `Err`: there are more users than lines, or no such file.
    pub fn write_field(&self, file: usize, line: u32, field: u32, out: &mut Vec<u8>) -> Result<(), String> {
        self.file(file)?.write_field(line, field, out)
    }

    /// The action `index`: look-ups go by this field from now on.
    pub fn index(&self, file: usize, field: u32) -> Result<(), String> {
        self.file(file)?.index(field);
        Ok(())
    }

    /// The last line whose indexed field is `key`. `Err` when the file has no index.
    pub fn lookup(&self, file: usize, key: &[u8]) -> Result<Option<u32>, String> {
        self.file(file)?.lookup(key)
    }

    /// Appends a line, which the file on disk does not see.
    pub fn insert(&self, file: usize, line: &[u8]) -> Result<(), String> {
        self.file(file)?.insert(line)
    }

    /// Replaces a line.
    pub fn replace(&self, file: usize, line: u32, value: &[u8]) -> Result<(), String> {
        self.file(file)?.replace(line, value)
    }

    /// `-ip_field`: the address in that field of the first file, for a call with these lines.
    pub fn source_address(&self, lines: &[u32], field: u32) -> Result<IpAddr, String> {
        let line = lines.first().copied().unwrap_or(NO_LINE);
        let mut text = Vec::new();
        self.write_field(0, line, field, &mut text)?;
        let text = String::from_utf8_lossy(&text);
        text.trim().parse().map_err(|_| {
            let name = self.files[0].path.display();
            format!("{name}: field {field} of line {line} is not an IP address but '{text}'")
        })
    }

    /// Every address `-ip_field` can name, each once, in order.
    pub fn source_addresses(&self, field: u32) -> Result<Vec<IpAddr>, String> {
        let mut seen = std::collections::HashSet::new();
        let mut addresses = Vec::new();
        for line in 0..self.line_count(0) {
            let address = self.source_address(&[line], field)?;
            if seen.insert(address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    fn file(&self, file: usize) -> Result<&InjectionFile, String> {
        self.files.get(file).ok_or_else(|| "no such injection file".to_owned())
    }
}
