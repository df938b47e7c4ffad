//! The file of a backup, which has its name once it is whole and on disk; or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

use super::io_failed;

/// The bytes of a backup go here.
pub struct Output {
    name: PathBuf,
    to: Place,
}

enum Place {
    File {
        out: BufWriter<File>,
        /// The name while it is written. `None`: it is whole.
        part: Option<PathBuf>,
    },
    Pipe(Box<dyn Write>),
}

impl Output {
    /// A file that is not there yet, for its owner only.
    ///
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn file(path: &Path) -> Result<Output, StoreError> {
        if path.symlink_metadata().is_ok() {
            let found = format!("{}: it is there already", path.display());
            return Err(StoreError::invalid(found, "a name that no file has"));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // Left by a backup that was killed.
        let _ = std::fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        let file = file.map_err(|error| io_failed(path, &error))?;
        let out = BufWriter::with_capacity(1 << 20, file);
        Ok(Output { name: path.into(), to: Place::File { out, part: Some(part) } })
    }

    /// A pipe. Its reader finds out by the last record that it has all.
    pub fn pipe(out: impl Write + 'static) -> Output {
        Output { name: "standard output".into(), to: Place::Pipe(Box::new(out)) }
    }

    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Gives the file its name.
    pub(super) fn complete(mut self) -> io::Result<()> {
        self.flush()?;
        let Place::File { out, part } = &mut self.to else { return Ok(()) };
        out.get_ref().sync_all()?;
        if let Some(part) = part {
            std::fs::rename(part, &self.name)?;
        }
        *part = None;
        let folder = self.name.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            Place::File { out, .. } => out.write(bytes),
            Place::Pipe(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            Place::File { out, .. } => out.flush(),
            Place::Pipe(out) => out.flush(),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Place::File { part: Some(part), .. } = &self.to {
            let _ = std::fs::remove_file(part);
        }
    }
}
