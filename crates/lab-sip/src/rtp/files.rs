//! Files that scenarios play: found, read and checked before the first call, and shared by all shards.
//!
//! A name is looked up as it stands, then beside the scenario file; captures that come with SIPp are in the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use media::pcap::Capture;
use parking_lot::RwLock;

use super::sound::{self, Encoded};
use super::spec::{Coding, StreamSpec};

/// Names that calls make up from variables are kept up to this many; after that a file is read at each play.
const CACHE: usize = 4_096;

/// A capture with the lowest port its packets went to: the others keep their distance from it (RTCP).
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Packets with their times.
    pub(super) capture: Capture,
    /// The lowest destination port.
    pub(super) base: u16,
    /// Distances above `base` that occur, 0 left out.
    pub(super) distances: Vec<u16>,
}

/// All files of a run.
#[derive(Debug, Default)]
pub(super) struct MediaFiles {
    /// The folders of the scenario files.
    beside: Vec<PathBuf>,
    /// Captures by the name that the scenario has for them.
    recordings: RwLock<HashMap<String, Arc<Recording>>>,
    /// Sounds by name and coding: one file may be sent in several codecs.
    sounds: RwLock<HashMap<(String, Coding), Arc<Encoded>>>,
}

impl Recording {
    pub(super) fn new(capture: Capture) -> Recording {
        let base = capture.packets.iter().map(|packet| packet.destination_port).min().unwrap_or(0);
        let mut distances: Vec<u16> =
            capture.packets.iter().map(|packet| packet.destination_port - base).filter(|d| *d != 0).collect();
        distances.sort_unstable();
        distances.dedup();
        Recording { capture, base, distances }
    }
}

impl MediaFiles {
    pub(super) fn new(beside: Vec<PathBuf>) -> MediaFiles {
        MediaFiles { beside, ..MediaFiles::default() }
    }

    /// A capture by the name a scenario gives it.
    pub(super) fn recording(&self, name: &str) -> Result<Arc<Recording>, String> {
        if let Some(known) = self.recordings.read().get(name) {
            return Ok(Arc::clone(known));
        }
        let path = expand(name);
        // A bundled capture is used only when there is no such file.
        let (place, bytes) = self.read(&path).or_else(|error| {
            let bundled = media::pcap::built_in(&path);
            bundled.map(|bytes| (format!("{name} (bundled)"), bytes)).ok_or(error)
        })?;
        let capture = Capture::parse(&bytes).map_err(|error| format!("{place} is not a capture: {error}"))?;
        if capture.packets.is_empty() {
            return Err(format!("{place} holds no UDP packet to play"));
        }
        let recording = Arc::new(Recording::new(capture));
        keep(&self.recordings, name.to_owned(), &recording);
        Ok(recording)
    }

    /// A sound file in the coding it is to be sent in.
    pub(super) fn sound(&self, spec: &StreamSpec) -> Result<Arc<Encoded>, String> {
        let key = (spec.file.clone(), spec.coding.clone());
        if let Some(known) = self.sounds.read().get(&key) {
            return Ok(Arc::clone(known));
        }
        let (place, bytes) = self.read(&expand(&spec.file))?;
        let sound = sound::encode(&bytes, &spec.coding).map_err(|error| format!("{place}: {error}"))?;
        let sound = Arc::new(sound);
        keep(&self.sounds, key, &sound);
        Ok(sound)
    }

    /// As given, then beside a scenario file. The place where it was found, and its bytes.
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        let mut first = None;
        let candidates =
            std::iter::once(PathBuf::from(path)).chain(self.beside.iter().map(|dir| dir.join(path)));
        for candidate in candidates {
            match std::fs::read(&candidate) {
                Ok(bytes) => return Ok((candidate.display().to_string(), bytes)),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let reason = first.map_or_else(String::new, |error| error.to_string());
        Err(format!("{path} cannot be read: {reason}"))
    }
}

/// Keeps a value unless the cache is full.
fn keep<K: std::hash::Hash + Eq, V>(cache: &RwLock<HashMap<K, Arc<V>>>, key: K, value: &Arc<V>) {
    let mut cache = cache.write();
    if cache.len() < CACHE {
        cache.insert(key, Arc::clone(value));
    }
}

/// `$NAME` and `${NAME}` of the environment. A variable that is not set stands for nothing, as in a shell.
fn expand(name: &str) -> String {
    expand_with(name, |variable| std::env::var(variable).ok())
}

fn expand_with(name: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (variable, tail) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(braced) => braced,
            None => {
                after.split_at(after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len()))
            }
        };
        if variable.is_empty() {
            text.push('$');
        } else {
            text.push_str(&lookup(variable).unwrap_or_default());
        }
        rest = tail;
    }
    text.push_str(rest);
    text
}

/// The directory of a scenario file.
pub(super) fn directory(file: &Path) -> Option<PathBuf> {
    let parent = file.parent()?;
    Some(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_environment_expand() {
        let lookup = |name: &str| (name == "HOME_OF").then(|| "/opt/x".to_owned());
        assert_eq!(expand_with("$HOME_OF/a.pcap", lookup), "/opt/x/a.pcap");
        assert_eq!(expand_with("${HOME_OF}b/$NOT_SET/c", lookup), "/opt/xb//c");
        assert_eq!(expand_with("5$ and $", lookup), "5$ and $");
    }

    #[test]
    fn a_bundled_capture_plays_where_no_file_is() {
        let files = MediaFiles::default();
        let recording = files.recording("$NO_SUCH_VARIABLE_HERE/pcap/dtmf_2833_5.pcap").expect("bundled");
        assert!(!recording.capture.packets.is_empty());
        let error = files.recording("pcap/nothing.pcap").expect_err("no such file");
        assert!(error.starts_with("pcap/nothing.pcap cannot be read: "), "{error}");
    }

    #[test]
    fn a_damaged_capture_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("broken.pcap");
        std::fs::write(&path, b"this is not a capture at all, not even nearly one").expect("written");
        let files = MediaFiles::new(vec![dir.path().to_owned()]);
        let error = files.recording("broken.pcap").expect_err("broken");
        assert!(error.contains("broken.pcap is not a capture: at byte 0"), "{error}");
    }
}
