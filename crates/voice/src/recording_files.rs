//! The files of recordings, as calls see them: a writer away from the shards appends to them.

use std::path::PathBuf;

use media::record::File;

use super::helper_service::Ticket;

/// All recordings of the node. No method waits for the disk.
pub trait RecordingFiles: Send + Sync {
    /// Begins a new file of that account. `Done::Written` reports it once: when it is closed, or as soon as it cannot be written.
    ///
    /// # Errors
    /// When too many are open.
    fn create(&self, ticket: Ticket, sid: &str, account: &str) -> Result<Box<dyn RecordingFile>, String>;

    /// The path of a complete recording. `None`: the sid is no recording's.
    fn path(&self, sid: &str) -> Option<PathBuf>;
}

/// A file that a call writes: its changes are collected, and handed over by `flush`. A file that is dropped without
/// `close` is not kept.
pub trait RecordingFile: File + Send {
    /// The number of the ticket by which its result is reported.
    fn ticket(&self) -> u64;

    /// The name of the node of a farm whose folder has the file; empty for a node that is alone.
    fn node(&self) -> &str;

    /// Hands the collected changes to the writer.
    ///
    /// # Errors
    /// When the disk does not keep up. The file is then to be closed.
    fn flush(&mut self) -> Result<(), String>;

    /// Closes the file: complete, or not to be kept.
    fn close(self: Box<Self>, keep: bool);
}

impl File for Box<dyn RecordingFile> {
    fn append(&mut self, bytes: &[u8]) {
        self.as_mut().append(bytes);
    }

    fn write_at(&mut self, position: u32, bytes: &[u8]) {
        self.as_mut().write_at(position, bytes);
    }

    fn truncate(&mut self, len: u32) {
        self.as_mut().truncate(len);
    }
}

/// The sid in the last part of a recording's URL. Applications append `.wav` or `.mp3` to a RecordingUrl, as Twilio's has no suffix.
pub(super) fn sid_of_sound(name: &str) -> &str {
    let name = name.strip_suffix(".wav").or_else(|| name.strip_suffix(".mp3")).unwrap_or(name);
    name.strip_suffix(".wav").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_found_by_its_url_with_any_suffix() {
        for name in ["RE1", "RE1.wav", "RE1.mp3", "RE1.wav.mp3", "RE1.wav.wav"] {
            assert_eq!(sid_of_sound(name), "RE1", "{name}");
        }
    }
}
