//! Counts the stored bytes at the start; then removes files that are too old or whose account is gone, one of
//! 256 folders at a time.

use std::fs::{self, DirEntry};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::Builder;
use std::time::{Duration, UNIX_EPOCH};

use net::clock::Clock;
use stdx::Instant;

use super::{HasAccount, Stored, UploadFolder};

/// Between two folders: all have their turn in less than an hour, and each much oftener than files grow old.
const STEPS: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(10);

pub(super) fn start(
    shelf: Arc<UploadFolder>,
    clock: Clock,
    mut has_account: HasAccount,
    stopped: Receiver<()>,
) -> io::Result<()> {
    let step = (shelf.settings.keep / 4096).clamp(*STEPS.start(), *STEPS.end());
    let sweep = move || {
        for folder in (0..=u8::MAX).cycle() {
            match stopped.recv_timeout(step) {
                Err(RecvTimeoutError::Timeout) => shelf.sweep(clock.now(), folder, &mut has_account),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    Builder::new().name("uploads".into()).spawn(sweep).map(drop)
}

impl UploadFolder {
    fn entries(&self, folder: u8) -> Vec<(DirEntry, fs::Metadata)> {
        let path = self.settings.folder.join(format!("{folder:02x}"));
        // Most are not there on a small server.
        let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
        let known = |entry: DirEntry| entry.metadata().ok().map(|metadata| (entry, metadata));
        entries.filter_map(Result::ok).filter_map(known).filter(|(_, metadata)| metadata.is_file()).collect()
    }

    pub(super) fn count(&self) {
        let sizes = |folder| self.entries(folder).iter().map(|(_, metadata)| metadata.len()).sum::<u64>();
        self.used.store((0..=u8::MAX).map(sizes).sum(), Ordering::Relaxed);
    }

    /// Removes files that are too old, and those whose account is gone.
    pub(super) fn sweep(&self, now: Instant, folder: u8, has_account: &mut HasAccount) {
        let before = now - self.settings.keep;
        for (entry, metadata) in self.entries(folder) {
            let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let is_old = since.is_some_and(|since| Instant::default() + since < before);
            // One that cannot be read is left to its age.
            let mut is_abandoned =
                || Stored::open(&entry.path()).is_ok_and(|stored| !has_account(&stored.owner));
            if is_old || is_abandoned() {
                match fs::remove_file(entry.path()) {
                    Ok(()) => self.give_back(metadata.len()),
                    Err(error) => {
                        tracing::warn!(%error, path = %entry.path().display(), "an upload cannot be removed");
                    }
                }
            }
        }
    }
}
