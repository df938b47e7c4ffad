//! Files of XEP-0227 and those that they include, one after the other.
//!
//! Open files are a stack: an include opens another on top, and the pieces of that come before the rest of the file below. An included file must lie
//! in the folder of the first file or below, also after links are followed, so that a file from elsewhere cannot make the import read other files of
//! this machine.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chat::pie::{Document, PieError, Piece};

use super::Stop;
use crate::error::CliError;
use crate::limits;

type Input = Box<dyn Read + Send>;

/// Gives the pieces of all files. Each file is read once, and none outside of the folder that the first is in.
pub(super) struct Files {
    stop: Stop,
    /// The domain of users whose file names none.
    domain: Box<str>,
    /// `None`: standard input, which includes nothing.
    folder: Option<PathBuf>,
    /// The files of a folder that were not opened yet.
    waiting: VecDeque<PathBuf>,
    /// The last one is read.
    open: Vec<Open>,
    /// Files that were opened, without links and dots: none is read twice.
    seen: HashSet<PathBuf>,
    /// Bytes of files that are done with, and of all that are known of.
    done: u64,
    total: Arc<AtomicU64>,
}

/// A file that is being read.
struct Open {
    /// The name for messages.
    name: PathBuf,
    /// Without links and dots.
    path: PathBuf,
    document: Document<Input>,
}

impl Files {
    pub(super) fn of_input(input: Input, domain: &str, stop: Stop) -> Files {
        let mut files = Files::new(None, domain, stop);
        files.push("standard input".into(), PathBuf::new(), input, None);
        files
    }

    /// `input` is that of the file, or of what has been looked at of it already.
    pub(super) fn of_file(file: &Path, input: Input, domain: &str, stop: Stop) -> Result<Files, CliError> {
        let path = real(file)?;
        let folder = path.parent().map(Path::to_path_buf);
        let mut files = Files::new(folder, domain, stop);
        files.count(&path);
        files.seen.insert(path.clone());
        files.push(file.into(), path, input, None);
        Ok(files)
    }

    /// All `.xml` in it, by name.
    pub(super) fn of_folder(folder: &Path, domain: &str, stop: Stop) -> Result<Files, CliError> {
        let cannot = |error| cannot_read(folder, &error);
        let mut found = Vec::new();
        for entry in folder.read_dir().map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.extension().is_some_and(|extension| extension == "xml") {
                found.push(path);
            }
        }
        if found.is_empty() {
            return Err(CliError::Other(format!(
                "{}: no .xml files are in this folder; name the folder of the export, or a file",
                folder.display()
            )));
        }
        // By name, so that the same command reads in the same order when it takes up the rest.
        found.sort();
        let mut files = Files::new(Some(real(folder)?), domain, stop);
        found.iter().for_each(|path| files.count(path));
        files.waiting = found.into();
        Ok(files)
    }

    fn new(folder: Option<PathBuf>, domain: &str, stop: Stop) -> Files {
        Files {
            stop,
            domain: domain.into(),
            folder,
            waiting: VecDeque::new(),
            open: Vec::new(),
            seen: HashSet::new(),
            done: 0,
            total: Arc::default(),
        }
    }

    /// Adds the size of a file to the total, for the bar.
    fn count(&self, path: &Path) {
        let size = path.metadata().map_or(0, |metadata| metadata.len());
        self.total.fetch_add(size, Ordering::Relaxed);
    }

    /// `host`: the domain of the including file's `host`, for a file that has users only.
    fn push(&mut self, name: PathBuf, path: PathBuf, input: Input, host: Option<Box<str>>) {
        let document = Document::new(self.stop.guard(input), host).with_domain(self.domain.clone());
        self.open.push(Open { name, path, document });
    }

    /// Bytes of all files that are known of; grows as more become known.
    pub(super) fn total(&self) -> Arc<AtomicU64> {
        self.total.clone()
    }

    /// Bytes that were read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.done + self.open.iter().map(|open| open.document.bytes()).sum::<u64>()
    }

    /// The position of the last piece.
    pub(super) fn place(&self, line: u64) -> String {
        let name = self.open.last().map(|open| open.name.display().to_string());
        format!("{}:{line}", name.unwrap_or_default())
    }

    /// Anything but an include.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, CliError> {
        loop {
            let Some(open) = self.open.last_mut() else {
                let Some(file) = self.waiting.pop_front() else { return Ok(None) };
                let path = real(&file)?;
                // Another one has included it.
                if self.seen.insert(path.clone()) {
                    let input = File::open(&path).map_err(|error| cannot_read(&file, &error))?;
                    self.push(file, path, Box::new(input), None);
                }
                continue;
            };
            match open.document.next_piece() {
                Ok(Some(Piece::Include { line, host, href })) => self.include(line, host, &href)?,
                Ok(Some(piece)) => return Ok(Some(piece)),
                Ok(None) => {
                    self.done += open.document.bytes();
                    self.open.pop();
                }
                Err(PieError::Io(error)) => return Err(cannot_read(&open.name, &error)),
                Err(PieError::At { line, found, expected }) => {
                    return Err(CliError::Other(format!(
                        "{}: {found}; expected {expected}",
                        self.place(line)
                    )));
                }
            }
        }
    }

    /// Opens the named file on top of the one that includes it. One that was read before is passed over.
    fn include(&mut self, line: u64, host: Option<Box<str>>, href: &str) -> Result<(), CliError> {
        let bad = |files: &Files, found: &str, expected: &str| {
            let place = files.place(line);
            CliError::Other(format!("{place}: an include of {href:?} {found}; expected {expected}"))
        };
        let (Some(folder), Some(open)) = (&self.folder, self.open.last()) else {
            return Err(bad(self, "in standard input", "the file's name instead of -"));
        };
        // The file may come from another server's operator: an include must not read other files of this
        // machine.
        let is_plain =
            Path::new(href).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_plain || href.is_empty() || href.contains("://") {
            return Err(bad(self, "leads elsewhere", "a file in the same folder or below"));
        }
        if self.open.len() >= limits::IMPORT_INCLUDES {
            let expected = format!("files of {} within each other at most", limits::IMPORT_INCLUDES);
            return Err(bad(self, "is too deep", &expected));
        }
        let beside = |path: &Path| path.with_file_name("").join(href);
        let path = beside(&open.path).canonicalize();
        let path =
            path.map_err(|error| bad(self, &format!("cannot be read: {error}"), "a file that is there"))?;
        // Compared after links were followed: a link in the folder may lead out of it.
        if !path.starts_with(folder) {
            return Err(bad(
                self,
                "leads elsewhere",
                "a file in the same folder or below, not a link out of it",
            ));
        }
        // A file that was read and closed is passed over below; one that is still open includes itself.
        if self.open.iter().any(|open| open.path == path) {
            return Err(bad(self, "goes in circles", "a file that does not include itself"));
        }
        let name = beside(&open.name);
        let is_known = self.waiting.iter().any(|waiting| *waiting == name);
        if self.seen.insert(path.clone()) {
            let input = File::open(&path).map_err(|error| cannot_read(&name, &error))?;
            // Files of the folder have been counted at the beginning.
            if !is_known {
                self.count(&path);
            }
            self.push(name, path, Box::new(input), host);
        }
        Ok(())
    }
}

pub(super) fn cannot_read(path: &Path, error: &std::io::Error) -> CliError {
    CliError::Other(format!("{}: cannot be read: {error}; check its name and its owner", path.display()))
}

/// Without links and dots; the file must be there.
fn real(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(|error| cannot_read(path, &error))
}
