//! Removes files that are too old or whose account is gone, one of 256 folders at a time. Of nodes that share the folder one
//! does it: the one that the file `sweeper` names, as long as it renews the file.

use std::fs::{self, DirEntry};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;

use net::clock::Clock;
use stdx::Instant;

use super::sizes::modified;
use super::{COMING, HasAccount, Stored, UploadFolder};
use crate::limits;

/// Between two folders: all have their turn in less than an hour, and each much oftener than files grow old.
const STEPS: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(10);

/// Starts the thread that removes files, until the other end of `stopped` is dropped.
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
                Err(RecvTimeoutError::Timeout) if shelf.is_sweeper(clock.now()) => {
                    shelf.sweep(clock.now(), folder, &mut has_account);
                    shelf.sweep_stored(clock.now(), folder, &mut has_account);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    Builder::new().name("uploads".into()).spawn(sweep).map(drop)
}

/// The file that names the node that removes old files, in a folder of a farm: the node, a space, and the time in seconds.
const SWEEPER: &str = "sweeper";

impl UploadFolder {
    /// True if this node removes old files. In a farm it writes so into the folder, and renews it.
    pub(super) fn is_sweeper(&self, now: Instant) -> bool {
        let Some(node) = &self.settings.node else { return true };
        let path = self.settings.folder.join(SWEEPER);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let (sweeper, renewed) = text.trim().split_once(' ').unwrap_or_default();
        let age = now.since(Instant::from_unix_seconds(renewed.parse().unwrap_or(0)));
        let is_this_node = *sweeper == **node;
        if !is_this_node && age < limits::UPLOAD_SWEEPER {
            return false;
        }
        if is_this_node && age < limits::UPLOAD_SWEEPER / 2 {
            return true;
        }
        // Two nodes may write at once: both sweep until the next look, which removes no more than one does.
        let part = self.settings.folder.join(format!("{SWEEPER}.{node}"));
        let written = fs::write(&part, format!("{node} {}\n", now.unix_seconds()));
        written.and_then(|()| fs::rename(&part, &path)).is_ok()
    }

    /// Removes arriving files of a node that has not come back.
    fn sweep_coming(&self, now: Instant) {
        let before = now - limits::UPLOAD_TIME * 2;
        for entry in fs::read_dir(self.settings.folder.join(COMING)).into_iter().flatten().flatten() {
            let time = entry.metadata().ok().and_then(|metadata| modified(&metadata));
            if time.is_some_and(|time| time < before) {
                // Another node may have removed it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    pub(super) fn entries(&self, folder: u8) -> Vec<(DirEntry, fs::Metadata)> {
        let path = self.settings.folder.join(format!("{folder:02x}"));
        // Most are not there on a small server.
        let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
        let known = |entry: DirEntry| entry.metadata().ok().map(|metadata| (entry, metadata));
        entries.filter_map(Result::ok).filter_map(known).filter(|(_, metadata)| metadata.is_file()).collect()
    }

    /// Removes files that are too old, and those whose account is gone.
    pub(super) fn sweep(&self, now: Instant, folder: u8, has_account: &mut HasAccount) {
        if folder == 0 {
            self.sweep_coming(now);
        }
        let before = now - self.settings.keep;
        for (entry, metadata) in self.entries(folder) {
            let is_old = modified(&metadata).is_some_and(|time| time < before);
            // One that cannot be read is left to its age.
            let mut is_abandoned =
                || Stored::open(&entry.path()).is_ok_and(|stored| !has_account(&stored.owner));
            if is_old || is_abandoned() {
                match fs::remove_file(entry.path()) {
                    Ok(()) => self.give_back(metadata.len()),
                    // Another node on the same folder was first.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        tracing::warn!(%error, path = %entry.path().display(), "an upload cannot be removed");
                    }
                }
            }
        }
    }
}
