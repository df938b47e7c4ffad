//! One log file: opened when first written (or at once), rotated by `-ringbuffer_*`, ended by `-max_log_size`.
//!
//! A file that cannot be written is told once and given up; the run goes on and ends with 255, as its traces are not whole.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::clock::Clock;

/// A file of this process is not as it should be.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// True if lines of a trace were lost because a file could not be written.
pub(crate) fn is_incomplete() -> bool {
    INCOMPLETE.load(Ordering::Relaxed)
}

/// Limits of a file and of its older siblings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LogLimits {
    /// `-ringbuffer_files`: full files that are kept; all without it.
    pub(super) ring_files: Option<u32>,
    /// `-ringbuffer_size`, bytes.
    pub(super) ring_size: Option<u64>,
    /// `-max_log_size`, bytes: the file is not written beyond it.
    pub(super) max_size: Option<u64>,
}

#[derive(Debug)]
pub(super) struct LogFile {
    /// The name of the file in use.
    path: PathBuf,
    /// An existing file is added to, not replaced.
    append: bool,
    limits: LogLimits,
    /// `None` before the first write.
    file: Option<BufWriter<File>>,
    /// Bytes written to the file in use by this run.
    size: u64,
    /// Older siblings, oldest first.
    kept: VecDeque<PathBuf>,
    /// Unix seconds when the file was opened: its name when it is full.
    opened: u64,
    /// The same of the one before, and how many of that second came before it.
    before: Option<(u64, u32)>,
    /// A write failed and was told, or the largest size is reached.
    stopped: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, append: bool, limits: LogLimits) -> LogFile {
        LogFile {
            path,
            append,
            limits,
            file: None,
            size: 0,
            kept: VecDeque::new(),
            opened: 0,
            before: None,
            stopped: false,
        }
    }

    /// Opens it now, so that a wrong name is told before the run.
    pub(super) fn open(&mut self) -> Result<(), String> {
        let path = &self.path;
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(self.append)
            .truncate(!self.append)
            .open(path)
            .map_err(|error| format!("Unable to create '{}': {error}", path.display()))?;
        self.file = Some(BufWriter::new(file));
        self.opened = Clock::new().now().as_micros() / 1_000_000;
        Ok(())
    }

    /// Nothing was written yet.
    pub(super) fn is_new(&self) -> bool {
        self.file.is_none()
    }

    /// Adds bytes, opening and rotating the file as needed.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.stopped {
            return;
        }
        if self.file.is_none()
            && let Err(why) = self.open()
        {
            self.stop(&why);
            return;
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(bytes)
        {
            return self.stop(&format!("{}: {error}", self.path.display()));
        }
        self.size += bytes.len() as u64;
        if self.limits.max_size.is_some_and(|max| self.size > max) {
            self.flush();
            self.stopped = true;
        } else if self.limits.ring_size.is_some_and(|ring| ring > 0 && self.size > ring) {
            self.rotate();
        }
    }

    /// Hands the buffer to the system.
    pub(super) fn flush(&mut self) {
        if let Some(file) = self.file.as_mut().filter(|_| !self.stopped)
            && let Err(error) = file.flush()
        {
            self.stop(&format!("{}: {error}", self.path.display()));
        }
    }

    /// Told once; the calls go on.
    fn stop(&mut self, why: &str) {
        eprintln!("{why}; it is not written on, and the run will end with 255");
        INCOMPLETE.store(true, Ordering::Relaxed);
        self.stopped = true;
        // The content of its buffer does not fit on the disk either.
        if let Some(file) = self.file.take() {
            drop(file.into_parts());
        }
    }

    /// The full file gets SIPp's name before its ending: the second it was opened in and, from the second such file
    /// on, a number. The oldest beyond `-ringbuffer_files` goes.
    fn rotate(&mut self) {
        self.flush();
        self.file = None;
        self.size = 0;
        let number =
            self.before.filter(|(second, _)| *second == self.opened).map_or(0, |(_, number)| number + 1);
        self.before = Some((self.opened, number));
        let aside = aside(&self.path, self.opened, number);
        if std::fs::rename(&self.path, &aside).is_ok() {
            self.kept.push_back(aside);
        }
        let keep = self.limits.ring_files.unwrap_or(0) as usize;
        while keep > 0 && self.kept.len() > keep {
            if let Some(oldest) = self.kept.pop_front() {
                // Gone already is as good.
                let _ = std::fs::remove_file(oldest);
            }
        }
        self.append = false;
        if let Err(why) = self.open() {
            self.stop(&why);
        }
    }
}

/// `NAME_SECOND[.NUMBER].ENDING`.
fn aside(path: &Path, second: u64, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or_else(String::new, |ending| format!(".{}", ending.to_string_lossy()));
    let number = if number == 0 { String::new() } else { format!(".{number}") };
    path.with_file_name(format!("{stem}_{second}{number}{ending}"))
}
