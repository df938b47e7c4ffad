//! The bytes of all files. A node that is alone counts them at its start, and then adds and takes away what it does itself. In a farm,
//! whose nodes may share the folder, each counts again before it takes a file: parts of the folder that have not changed are not
//! read again.

use std::fs::{self, Metadata};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use stdx::Instant;

use super::{COMING, UploadFolder};
use crate::limits;

/// The sizes of the 256 parts, as last counted.
#[derive(Debug, Default)]
pub(super) struct FolderSizes {
    parts: Vec<PartSize>,
}

/// The bytes of one part, and the time of its last change; none while another change may have the same time.
#[derive(Clone, Copy, Debug, Default)]
struct PartSize {
    changed: Option<Instant>,
    bytes: u64,
}

/// The time of the last change of a file, or of a folder's entries.
pub(super) fn modified(metadata: &Metadata) -> Option<Instant> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Instant::default() + since)
}

/// Bytes of the files of a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(Metadata::is_file);
    files.map(|metadata| metadata.len()).sum()
}

impl UploadFolder {
    /// Counts the bytes of all files, those that arrive at any node among them.
    pub(super) fn count(&self, now: Instant) {
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.parts.resize(256, PartSize::default());
        let mut used = size_of(&self.settings.folder.join(COMING));
        for (number, part) in sizes.parts.iter_mut().enumerate() {
            part.count(now, &self.settings.folder.join(format!("{number:02x}")));
            used += part.bytes;
        }
        self.used.store(used, Ordering::Relaxed);
    }
}

impl PartSize {
    /// Reads the part's folder again if it has changed. The time of a folder changes with its entries, and a kept file does not change.
    fn count(&mut self, now: Instant, folder: &Path) {
        // Most are not there on a small server.
        let Ok(metadata) = fs::metadata(folder) else {
            *self = PartSize::default();
            return;
        };
        let changed = modified(&metadata);
        if self.changed.is_some() && self.changed == changed {
            return;
        }
        // Two changes within a tick of the file system's clock have one time.
        let is_settled = changed.is_some_and(|changed| changed + limits::UPLOAD_SETTLED < now);
        *self = PartSize { changed: changed.filter(|_| is_settled), bytes: size_of(folder) };
    }
}
