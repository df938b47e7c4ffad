//! One file: as it comes, and as it is kept.
//!
//! Its first lines say what it is (`belfry-upload 1`, owner, name, type, size, when it came, and an empty one); the content
//! follows. One file is renamed as one, so the two cannot part.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use stdx::Instant;

use super::{Grant, Refusal, UploadFolder, sync_folder};

/// The first line of a kept file, with the version of the head.
const MAGIC: &str = "belfry-upload 1";

/// More than the lines of any file take: names and types have at most 255 bytes, addresses 3,071.
pub(super) const HEAD: usize = 4 << 10;

/// A file that comes. Dropped before it is finished, nothing stays of it.
#[derive(Debug)]
pub(crate) struct Incoming {
    shelf: Arc<UploadFolder>,
    file: File,
    /// The name of the file while it comes.
    coming: PathBuf,
    /// Its name once it is whole.
    path: PathBuf,
    /// Bytes of head and content, which are counted from the beginning.
    size: u64,
    /// Bytes of the content that have not come.
    left: u64,
    /// It is whole and has its name: dropping this removes nothing.
    is_kept: bool,
}

fn broken(error: &io::Error, path: &Path) -> Refusal {
    tracing::error!(%error, path = %path.display(), "an uploaded file cannot be kept or read");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refusal::Full,
        _ => Refusal::Broken,
    }
}

impl Incoming {
    pub(super) fn create(
        shelf: &Arc<UploadFolder>,
        now: Instant,
        grant: &Grant,
    ) -> Result<Incoming, Refusal> {
        let (coming, path) = (shelf.path_of_coming(&grant.id), shelf.path_of(&grant.id));
        if shelf.has(&grant.id) {
            return Err(Refusal::Taken);
        }
        let (owner, name, kind, came) = (&grant.owner, &grant.name, &grant.kind, now.unix_seconds());
        let head = format!("{MAGIC}\n{owner}\n{name}\n{kind}\n{}\n{came}\n\n", grant.size);
        let size = head.len() as u64 + grant.size;
        // In a folder that other nodes may use, too, all files are counted once this one is among them.
        if !shelf.is_of_farm() && !shelf.take(size) {
            return Err(Refusal::Full);
        }
        // A second upload to this slot fails here.
        let file =
            File::options().write(true).create_new(true).mode(0o600).open(&coming).map_err(|error| {
                if !shelf.is_of_farm() {
                    shelf.give_back(size);
                }
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Refusal::Taken,
                    _ => broken(&error, &coming),
                }
            })?;
        let (shelf, left) = (Arc::clone(shelf), grant.size);
        let mut incoming = Incoming { shelf, file, coming, path, size, left, is_kept: false };
        if incoming.shelf.is_of_farm() {
            incoming.reserve(now)?;
        }
        // Finished while we looked: now it is seen.
        if incoming.path.exists() {
            return Err(Refusal::Taken);
        }
        incoming.file.write_all(head.as_bytes()).map_err(|error| broken(&error, &incoming.coming))?;
        Ok(incoming)
    }

    /// Gives the file its length, by which other nodes on the same folder count it, and counts all.
    fn reserve(&self, now: Instant) -> Result<(), Refusal> {
        self.file.set_len(self.size).map_err(|error| broken(&error, &self.coming))?;
        self.shelf.count(now);
        let fits = self.shelf.used.load(Ordering::Relaxed) <= self.shelf.settings.total;
        if fits { Ok(()) } else { Err(Refusal::Full) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(Refusal::TooLarge)?;
        self.file.write_all(bytes).map_err(|error| broken(&error, &self.coming))
    }

    /// Ends a file whose bytes have all come: syncs it, gives it its name, and syncs its folder. Once this returns it outlives a crash.
    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        if self.left > 0 {
            return Err(Refusal::WrongSize);
        }
        let keep = || {
            let folder = self.path.parent().ok_or(io::ErrorKind::NotFound)?;
            self.file.sync_all()?;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            self.publish()?;
            sync_folder(folder)?;
            // The first of its folder: that it is there, too.
            folder.parent().map_or(Ok(()), sync_folder)
        };
        let kept = keep().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Refusal::Taken,
            _ => broken(&error, &self.path),
        });
        self.is_kept = kept.is_ok();
        kept
    }

    /// Gives the file its name. Where nodes share the folder, the slot may have been used at another one meanwhile:
    /// `AlreadyExists`, since a link, unlike a rename, replaces nothing.
    fn publish(&self) -> io::Result<()> {
        if !self.shelf.is_of_farm() {
            return fs::rename(&self.coming, &self.path);
        }
        fs::hard_link(&self.coming, &self.path)?;
        fs::remove_file(&self.coming)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_kept {
            self.shelf.give_back(self.size);
            // A crash leaves it too, and the next start removes it.
            let _ = fs::remove_file(&self.coming);
        }
    }
}

/// The lines before the content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(super) owner: Box<str>,
    pub(super) name: Box<str>,
    pub(super) kind: Box<str>,
    /// Bytes of the content.
    pub(super) size: u64,
    /// The position of the content.
    pub(super) start: u64,
}

impl FileHead {
    /// Reads the head from the first bytes of a file. `None`: it is not one of this version.
    pub(super) fn read(bytes: &[u8]) -> Option<FileHead> {
        let end = bytes.windows(2).position(|two| two == b"\n\n")?;
        let mut lines = std::str::from_utf8(&bytes[..end]).ok()?.split('\n');
        if lines.next()? != MAGIC {
            return None;
        }
        let (owner, name, kind) = (lines.next()?.into(), lines.next()?.into(), lines.next()?.into());
        let size = lines.next()?.parse().ok()?;
        Some(FileHead { owner, name, kind, size, start: end as u64 + 2 })
    }
}

/// A file that is kept, open for reading. Its head has been read.
#[derive(Debug)]
pub(crate) struct Stored {
    file: File,
    pub(super) owner: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) size: u64,
    /// The position of the content.
    start: u64,
}

impl Stored {
    pub(super) fn open(path: &Path) -> Result<Stored, Refusal> {
        let mut file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Refusal::Unknown,
            _ => broken(&error, path),
        })?;
        let mut head = Vec::with_capacity(HEAD);
        (&mut file).take(HEAD as u64).read_to_end(&mut head).map_err(|error| broken(&error, path))?;
        let Some(FileHead { owner, name, kind, size, start }) = FileHead::read(&head) else {
            return Err(broken(&io::ErrorKind::InvalidData.into(), path));
        };
        Ok(Stored { file, owner, name, kind, size, start })
    }

    /// The time at which the file was complete.
    pub(super) fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    /// The head alone.
    pub(super) fn into_head(self) -> FileHead {
        let Stored { owner, name, kind, size, start, file: _ } = self;
        FileHead { owner, name, kind, size, start }
    }

    /// The bytes of the head.
    pub(super) fn head(&self) -> io::Result<Vec<u8>> {
        let mut head = vec![0; usize::try_from(self.start).unwrap_or(HEAD).min(HEAD)];
        self.file.read_exact_at(&mut head, 0)?;
        Ok(head)
    }

    /// Content from there, at most so many bytes.
    pub(crate) fn read_at(&mut self, at: u64, most: usize) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(self.start + at))?;
        let mut bytes = Vec::new();
        (&mut self.file).take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
